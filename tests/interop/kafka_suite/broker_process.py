"""Run embedded brokers for Kafka's tests in a JVM; commands and results are lines of JSON on standard input and
output.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from kafkaframes.broker import Broker
from kafkaframes.broker.lifecycle.arguments import Cluster
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.settings.features import METADATA
from kafkaframes.broker.settings.listeners import ListenerOptions
from kafkaframes.broker.state.state import BrokerState

_AUTHORIZER = "StandardAuthorizer"


def build_broker(command: Mapping[str, Any]) -> Broker:
    """Return a broker with the nodes, racks, settings and security of a test.

    A setting of one node applies to the whole broker, since its nodes share settings. Each node has its own rack.
    """
    settings: dict[str, str] = dict(command["settings"])
    racks = []
    for node in range(command["nodes"]):
        node_settings = dict(command["node_settings"].get(str(node), {}))
        racks.append(node_settings.pop("broker.rack", settings.get("broker.rack", "")))
        settings.update(node_settings)
    protocol = command["protocol"]
    has_sasl = protocol.startswith("SASL")
    security = Security(
        users=command["users"] if has_sasl else {},
        mechanisms=("PLAIN",) if has_sasl else (),
        authorizer=_AUTHORIZER in settings.pop("authorizer.class.name", ""),
    )
    return Broker(
        cluster=Cluster(command["nodes"], racks if any(racks) else ()),
        listeners=[ListenerOptions(name=command["listener"], protocol=protocol, advertised=("localhost", 0))],
        config=settings,
        kafka_defaults=True,
        security=security,
    )


def feature_levels(state: BrokerState, command: Mapping[str, Any]) -> dict[str, int]:
    """Return the feature levels that a test specifies.

    The suite's default is a metadata.version that no release has.
    """
    levels = {METADATA: command["metadata_version"], **command["features"]}
    return {name: min(level, state.features[name].highest) for name, level in levels.items() if name in state.features}


def run_command(brokers: dict[int, Broker], command: Mapping[str, Any]) -> dict[str, str]:
    """Run a command, and return its result."""
    name, number = command["command"], command["id"]
    if name == "start":
        broker = brokers[number] = build_broker(command).start()
        broker.call(lambda state: state.set_feature_levels(feature_levels(state, command)))
        return {"bootstrap": broker.bootstrap_servers, "cluster_id": broker.call(lambda state: state.cluster_id)}
    if name == "stop":
        brokers.pop(number).stop()
    elif name == "stop_node":
        brokers[number].stop_node(command["node"])
    elif name == "start_node":
        brokers[number].start_node(command["node"])
    else:
        raise ValueError(f"unknown command {name!r}")
    return {}


def main() -> None:
    """Run commands until standard input ends."""
    results, sys.stdout = sys.stdout, sys.stderr
    brokers: dict[int, Broker] = {}
    for line in sys.stdin:
        try:
            result = run_command(brokers, json.loads(line))
        except Exception as error:  # the test in the JVM fails with this error
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"}
        results.write(json.dumps(result) + "\n")
        results.flush()


if __name__ == "__main__":
    main()
