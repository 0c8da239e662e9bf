"""The embedded broker's authorization and Kafka's StandardAuthorizer: every API, version and permission."""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest
from tests.interop import brokers
from tests.interop.access_script import PATTERN_USERS, AccessControlledCluster, assigned_by_pattern, passwords, play
from tests.interop.random_differential.named import DIFFERENCES_OF_3_9

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.settings.listeners import ListenerOptions

MIN_REQUESTS = {"4.3.1": 10_000, "3.9.1": 20_000}
SHARED_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "1800000",
    "group.share.session.timeout.ms": "1800000",
    "group.streams.session.timeout.ms": "1800000",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.streams.initial.rebalance.delay.ms": "0",
}
EMULATED_RELEASES = {"4.3.1": None, "3.9.1": "3.9"}
UNKNOWN_OPERATIONS = {"4.3.1": (), "3.9.1": ("TWO_PHASE_COMMIT",)}
KAFKA_SETTINGS = {"4.3.1": {}, "3.9.1": {"group.coordinator.rebalance.protocols": "classic,consumer"}}
MAX_TIMEOUTS = {f"group.{kind}.max.session.timeout.ms": "1800000" for kind in ("consumer", "share", "streams")}


@pytest.fixture
def clusters(kafka, tmp_path):
    ports = [kafka.module.free_port(), kafka.module.free_port()]
    listeners = [ListenerOptions(), ListenerOptions(protocol="SASL_PLAINTEXT", port=ports[0])]
    security = Security(users=passwords(), mechanisms=("PLAIN",))
    node = kafka(tmp_path, SHARED_SETTINGS | MAX_TIMEOUTS | KAFKA_SETTINGS[kafka.version])
    brokers.add_sasl_listener(node, ports[1], passwords())
    with (
        Broker(
            config=SHARED_SETTINGS,
            listeners=listeners,
            security=security,
            broker_release=EMULATED_RELEASES[kafka.version],
        ) as broker,
        node,
    ):
        both = AccessControlledCluster.of(broker.port, ports[0]), AccessControlledCluster.of(node.port, ports[1])
        for cluster in both:
            cluster.create_resources(UNKNOWN_OPERATIONS[kafka.version])
            cluster.wait_for_rules()
        yield both
        for cluster in both:
            cluster.close()


def is_accepted(version, difference):
    step = difference.step
    path, values = re.sub(r"\[\d+\]", "[]", difference.path), (difference.ours, difference.theirs)
    return version == "3.9.1" and any(
        row.fits(f"{step.name} {step.version}", path, *values) for row in DIFFERENCES_OF_3_9
    )


def test_authorization_equals_kafkas(kafka, clusters):
    if kafka.version != "3.9.1":  # this release does not have patterns yet
        own_topics = {user: assigned_by_pattern(clusters[0], user) for user in PATTERN_USERS}
        assert own_topics["prefixed"] == {"open"}
        assert {user: assigned_by_pattern(clusters[1], user, own_topics[user]) for user in PATTERN_USERS} == own_topics
    began = time.monotonic()
    different, count = play(*clusters)
    unexplained_differences = [one for one in different if not is_accepted(kafka.version, one)]
    summary = f"{len(different)} differences, {len(unexplained_differences)} unnamed"
    print(f"{count} requests in {time.monotonic() - began:.0f} s, {summary}")
    assert count >= MIN_REQUESTS[kafka.version]
    kinds = Counter(
        (difference.step.name, difference.step.version, difference.path) for difference in unexplained_differences
    )
    lines = [
        f"{len(unexplained_differences)} differences in {count} requests",
        *(f"{number} {kind}" for kind, number in kinds.items()),
    ]
    assert not unexplained_differences, "\n".join([*lines, *map(str, unexplained_differences[:300])])
