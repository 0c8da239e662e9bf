"""Admin and Java's Admin have the same results, errors and effects on Kafka, with and without permissions."""

from __future__ import annotations

import base64
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.client.admin_calls import (
    CALLS,
    LOGIN,
    MOVING,
    PARTITION,
    ROOT,
    STRANGER,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    AdminCallFixture,
)
from tests.interop import brokers
from tests.interop.fetching import compile_java
from tests.waiting import wait_for

from kafkaframes.client import Admin
from kafkaframes.errors import BrokerError, ErrorCode

JAVA_SOURCE = Path(__file__).parent / "java" / "clients" / "AdminCalls.java"
JAVA_CLIENT = "4.3.1"
PATIENCE_S = 30
USERS = {"root": ROOT, "stranger": STRANGER}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
    "delegation.token.secret.key": "secret",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
DIFFERENCES = {  # to a user without permissions, Java returns no directory, as for a missing replica
    ("describe_replica_log_dirs", "stranger"): ("error", "CLUSTER_AUTHORIZATION_FAILED")
}
WITHOUT_JAVA_CALL = {
    "metrics": "sends no request",
    "close": "sends no request",
    "client_instance_id": "tests/client/telemetry",
}


def _join_sorted(values: Any) -> str:
    return ",".join(sorted(map(str, values)))


RESULT_TEXTS: dict[str, Callable[[Any], str]] = {
    "describe_cluster": lambda result: str(len(result.brokers)),
    "list_topics": _join_sorted,
    "describe_topics": lambda result: f"{len(result[TOPIC].partitions)}:{result[TOPIC].partitions[0].leader}",
    "delete_records": lambda result: str(result[PARTITION]),
    "list_offsets": lambda result: str(result[PARTITION]),
    "describe_configs": lambda result: _join_sorted(
        f"{name}={'null' if entry.value is None else entry.value}:{str(entry.is_default).lower()}"
        for name, entry in result.items()
    ),
    "list_groups": lambda result: _join_sorted(f"{group.group_id}:{group.type}:{group.state}" for group in result),
    "describe_group": lambda result: result.state,
    "group_offsets": lambda result: _join_sorted(f"{partition}={entry.offset}" for partition, entry in result.items()),
    "create_delegation_token": lambda result: result.owner,
    "describe_delegation_token": lambda result: _join_sorted(token.token_id for token in result),
    "describe_acls": lambda result: _join_sorted(
        f"{rule.resource_name}:{rule.principal}:{rule.operation}" for rule in result
    ),
    "authorized_operations": _join_sorted,
    "describe_user_scram_credentials": lambda result: _join_sorted(
        f"{entry.mechanism}:{entry.iterations}" for entry in result["alice"]
    ),
    "describe_client_quotas": lambda result: str(result[USER]).replace("'", "").replace(": ", "="),
    "elect_leaders": lambda result: str(result[MOVING]).lower(),
    "list_partition_reassignments": lambda result: str(len(result)),
    "describe_log_dirs": lambda result: str(
        next(iter(next(iter(result.values())).values())).replicas[PARTITION].size_bytes
    ),
    "describe_replica_log_dirs": lambda result: next(iter(next(iter(result.values())))),
    "list_brokers": lambda result: _join_sorted(node.node_id for node in result),
    "describe_features": lambda result: ",".join(
        f"{name}:{level.highest}" for name, level in sorted(result.finalized.items())
    ),
    "describe_quorum": lambda result: f"{result.leader_id}:{_join_sorted(voter.node_id for voter in result.voters)}",
    "list_config_resources": lambda result: _join_sorted(resource.name for resource in result),
    "list_transactions": lambda result: _join_sorted(
        f"{entry.transactional_id}:{entry.producer_id}"
        for entry in result
        if entry.transactional_id == TRANSACTIONAL_ID
    ),
    "describe_transactions": lambda result: ":".join(
        str(getattr(result[TRANSACTIONAL_ID], name))
        for name in ("state", "producer_id", "producer_epoch", "timeout_ms")
    ),
    "describe_producers": lambda result: _join_sorted(
        f"{state.producer_id}:{state.producer_epoch}:{state.last_sequence}" for state in result[PARTITION]
    ),
    "describe_share_group": lambda result: result.state,
    "describe_streams_group": lambda result: _join_sorted(member.member_id for member in result.members),
    "share_group_offsets": lambda result: _join_sorted(f"{key}={entry.start_offset}" for key, entry in result.items()),
}


def java_arguments(name: str, scene: AdminCallFixture) -> list[object]:
    """Return the arguments after the method's name for Java: ids that the preparation of the call has created."""
    if name in ("renew_delegation_token", "expire_delegation_token"):
        return [base64.b64encode(scene.token).decode()]
    if name == "abort_transaction":
        return [scene.open_partition.topic, *scene.producer_state]
    if name == "alter_partition_reassignments":
        return [scene.node_ids[-1]]
    if name in ("describe_log_dirs", "describe_replica_log_dirs", "alter_replica_log_dirs"):
        return [scene.node_ids[0]]
    return []


class JavaAdmin:
    """Java's Admin in a separate process."""

    def __init__(self, command: list[str | Path]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(self, name: str, *arguments: object) -> tuple[str, str]:
        """Return ("ok", text of the result) or ("error", name of the error code)."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, (name, *arguments))) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(f"= {name} "):  # skip Kafka's log lines
                kind, _, text = line.removeprefix(f"= {name} ").strip().partition(" ")
                return (kind, text if kind == "ok" else text.partition(" ")[0])
        raise AssertionError("Java's Admin has ended")

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def scene(kafka: brokers.KafkaFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminCallFixture]:
    """A Kafka node with authentication on its second listener."""
    settings = SETTINGS if kafka.version.startswith("4.") else {k: v for k, v in SETTINGS.items() if "share" not in k}
    node = kafka(tmp_path_factory.mktemp("kafka"), settings)
    port = kafka.module.free_port()
    brokers.add_sasl_listener(node, port, {entry["sasl_username"]: entry["sasl_password"] for entry in USERS.values()})
    with node:
        scene = AdminCallFixture(f"127.0.0.1:{port}")
        yield scene
        scene.close()


@pytest.fixture(scope="session")
def start_java(oracle: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., JavaAdmin]:
    """Return a function that starts Java's Admin with properties."""
    libraries = brokers.real_kafka(oracle).fetch(JAVA_CLIENT)
    command = compile_java(JAVA_SOURCE, libraries, tmp_path_factory.mktemp("classes"))

    def start(properties: Mapping[str, str]) -> JavaAdmin:
        words = [word for pair in properties.items() for word in pair]
        return JavaAdmin([*command, *words])

    return start


@pytest.fixture(scope="module")
def java_admins(start_java: Callable[..., JavaAdmin], scene: AdminCallFixture) -> Iterator[dict[str, JavaAdmin]]:
    """Java's Admin for each user."""
    admins = {}
    for user, options in USERS.items():
        login = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{options["sasl_username"]}" password="{options["sasl_password"]}";'
        )
        properties = {
            "bootstrap.servers": scene.servers,
            "security.protocol": LOGIN["security_protocol"],
            "sasl.mechanism": LOGIN["sasl_mechanism"],
            "sasl.jaas.config": login,
        }
        admins[user] = start_java(properties)
    yield admins
    for admin in admins.values():
        admin.close()


def call_outcome(name: str, admin: Admin, scene: AdminCallFixture) -> tuple[str, str]:
    """Return the outcome of a call of ``Admin`` in the form of ``JavaAdmin.call``."""
    try:
        result = CALLS[name].run(admin, scene)
    except BrokerError as error:
        return "error", error.code.name if error.code else str(error)
    try:
        return "ok", RESULT_TEXTS[name](result) if name in RESULT_TEXTS else ""
    except KeyError as error:  # a node that has not applied the preparation yet does not return its entry
        return "missing", str(error)


def prepare(name: str, scene: AdminCallFixture) -> None:
    """Prepare the call. Prepare a call; calls that the release does not support fail later by themselves."""
    try:
        CALLS[name].prepare(scene)
    except BrokerError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise


def compare(name: str, user: str, options: Mapping[str, Any], scene: AdminCallFixture, java: JavaAdmin) -> None:
    """Make a call with Java's Admin and with ``Admin``; compare the results or errors, and the cluster's state
    afterwards.
    """
    prepare(name, scene)
    theirs = java.call(name, *java_arguments(name, scene))
    wait_for_change(name, theirs, scene)
    if CALLS[name].is_change:
        prepare(name, scene)
    with Admin(scene.servers, **options) as admin:
        ours = call_outcome(name, admin, scene)
        deadline = time.monotonic() + PATIENCE_S
        while not CALLS[name].is_change and ours != theirs and time.monotonic() < deadline:
            time.sleep(0.2)  # each broker applies the changes of an earlier call at a different time
            theirs, ours = java.call(name, *java_arguments(name, scene)), call_outcome(name, admin, scene)
            theirs = DIFFERENCES.get((name, user), theirs)
    assert ours == theirs
    wait_for_change(name, ours, scene)


def wait_for_change(name: str, outcome: tuple[str, str], scene: AdminCallFixture) -> None:
    """Wait until a successful call has changed the cluster's state.

    Brokers apply a change shortly after the response.
    """
    if outcome[0] == "ok" and CALLS[name].is_change and name not in RESULT_TEXTS:
        wait_for(lambda: CALLS[name].check(scene, None))


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", [name for name in CALLS if name not in WITHOUT_JAVA_CALL])
def test_each_call_agrees_with_javas(name, user, scene, java_admins):
    compare(name, user, USERS[user], scene, java_admins[user])
