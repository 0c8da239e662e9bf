"""Every method of ``Admin`` on three nodes: the right node, retries as in Java, lost nodes, time limits, no rights."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests.client.admin_calls import (
    CALLS,
    GROUP,
    PARTITION,
    ROOT,
    SHARE_GROUP,
    STRANGER,
    STREAMS_GROUP,
    TOPIC,
    Scene,
    error_of,
    is_from,
    perform,
    start_broker,
)

from kafkaframes import message_class
from kafkaframes.client import Admin, AsyncAdmin
from kafkaframes.errors import AuthorizationError, BrokerError, ErrorCode, NetworkError

SENT = [name for name, call in CALLS.items() if call.api and call.expected != "UNSUPPORTED_VERSION"]
RETRIES = [(name, code) for name in SENT for code in sorted(CALLS[name].retriable)]
FATAL = [
    (name, code)
    for name in SENT
    for code in (
        "INVALID_REQUEST",
        "UNKNOWN_SERVER_ERROR",
        "CLUSTER_AUTHORIZATION_FAILED",
        *(("REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS", "NOT_CONTROLLER", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS")
          if CALLS[name].is_change else ()),
    )
    if code not in CALLS[name].retriable
]  # fmt: skip


@pytest.fixture(scope="module")
def scene():
    with start_broker() as broker:
        scene = Scene(broker.bootstrap_servers, broker)
        yield scene
        scene.close()


@pytest.fixture
def admin(scene):
    options = {"retry_backoff_ms": 1, "reconnect_backoff_ms": 1, "default_api_timeout_ms": 10_000, "client_id": "calls"}
    with Admin(scene.broker.bootstrap_servers, **ROOT, **options) as admin:
        yield admin


def client_of_node(scene, node_id, **options):
    """Return a client that knows only one node at first."""
    server = scene.broker.bootstrap_servers.split(",")[node_id]
    return Admin(server, **{**ROOT, "retry_backoff_ms": 1, "reconnect_backoff_ms": 1, **options})


def test_each_method_has_a_call():
    public = {name for name in dir(AsyncAdmin) if not name.startswith("_")} - {"settings"}
    assert CALLS.keys() == public


@pytest.mark.parametrize("name", CALLS)
def test_each_method_works_from_a_node_that_does_not_serve_it(name, scene):
    call = CALLS[name]
    call.prepare(scene)
    scene.broker.move_leader(TOPIC, 0, 0)
    if call.key:
        scene.broker.move_coordinator(call.key, 1, kind=call.target)
    with client_of_node(scene, 2, enable_metrics_push=name == "client_instance_id") as admin:
        perform(call, admin, scene)


@pytest.mark.parametrize("name", [name for name in SENT if CALLS[name].target in ("group", "transaction")])
def test_each_request_to_a_coordinator_follows_it(name, scene, admin):
    call = CALLS[name]
    call.prepare(scene)
    perform(call, admin, scene)  # the client knows the coordinator
    call.prepare(scene)
    for node_id in (2, 1):
        scene.broker.move_coordinator(call.key, node_id, kind=call.target)
        rule = scene.broker.on(call.api).delay(0)
        perform(call, admin, scene)
        assert rule.requests[-1].session.node_id == node_id
        rule.remove()
        call.prepare(scene)


@pytest.mark.parametrize("name", SENT)
def test_each_method_works_after_a_node_has_stopped(name, scene, admin):
    """The client's connections, controller, leaders and coordinators are of the node that stops."""
    call = CALLS[name]
    call.prepare(scene)
    scene.broker.move_leader(TOPIC, 0, 0)
    if call.key:
        scene.broker.move_coordinator(call.key, 0, kind=call.target)
    perform(call, admin, scene)
    call.prepare(scene)
    node_id = 1 if call.target == "broker" else 0
    scene.broker.stop_node(node_id)
    try:
        error = error_of(call, admin, scene)
    finally:
        scene.broker.start_node(node_id)
    if call.expected:
        assert error.code is ErrorCode[call.expected]
    else:
        assert error is None


@pytest.mark.parametrize(("name", "code"), RETRIES)
def test_a_request_is_sent_again_after_a_retriable_code(name, code, scene, admin):
    call = CALLS[name]
    call.prepare(scene)
    with scene.broker.on(call.api, where=is_from(admin)).error(code).once() as rule:
        perform(call, admin, scene)
    assert rule.occurrences == 1


@pytest.mark.parametrize(("name", "code"), FATAL)
def test_a_request_is_not_sent_again_after_another_code(name, code, scene, admin):
    call = CALLS[name]
    call.prepare(scene)
    admin.list_brokers()  # opens a connection: ApiVersions belongs to it
    nodes = 3 if call.target == "every" else 1
    rule = scene.broker.on(call.api, where=is_from(admin)).error(code)
    try:
        error = error_of(call, admin, scene)
    finally:
        rule.remove()
    assert isinstance(error, BrokerError), error
    assert error.code is ErrorCode[code]
    assert rule.count <= nodes


@pytest.mark.parametrize(
    "name",
    [
        "describe_topics", "create_topics", "delete_records", "list_offsets", "describe_configs", "alter_configs",
        "list_groups", "describe_group", "delete_groups", "group_offsets", "alter_group_offsets", "create_acls",
        "describe_acls", "create_delegation_token", "describe_log_dirs", "describe_transactions", "fence_producers",
        "describe_producers", "remove_group_members", "alter_share_group_offsets",
    ],
)  # fmt: skip
def test_a_call_ends_in_time_if_brokers_do_not_respond(name, scene, admin):
    call = CALLS[name]
    call.prepare(scene)
    perform(call, admin, scene)  # opens the connections
    call.prepare(scene)
    twin = admin._twin
    twin.settings = twin._cluster.settings = replace(twin.settings, default_api_timeout_ms=300)
    with scene.broker.on(call.api, where=is_from(admin)).ignore() as rule:
        start = time.monotonic()
        error = error_of(call, admin, scene)
    assert isinstance(error, NetworkError), error
    assert time.monotonic() - start < twin.settings.request_timeout_ms / 1000
    assert rule.occurrences


@pytest.mark.parametrize("name", [name for name in CALLS if CALLS[name].denied])
def test_without_rights_each_method_raises_an_error_of_the_right_class(name, scene):
    call = CALLS[name]
    call.prepare(scene)
    with Admin(scene.broker.bootstrap_servers, **STRANGER) as admin:
        error = error_of(call, admin, scene)
    assert isinstance(error, BrokerError), error
    assert error.code is ErrorCode[call.denied]
    assert isinstance(error, AuthorizationError) == call.denied.endswith("AUTHORIZATION_FAILED")


@pytest.mark.parametrize("name", ["list_topics", "list_groups", "list_transactions", "describe_delegation_token"])
def test_without_rights_lists_are_empty(name, scene):
    call = CALLS[name]
    call.prepare(scene)
    with Admin(scene.broker.bootstrap_servers, **STRANGER) as admin:
        assert call.run(admin, scene) == []


# ---- requests that the embedded broker does not have ----------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in CALLS if CALLS[name].expected == "UNSUPPORTED_VERSION"])
@pytest.mark.parametrize("code", ["REQUEST_TIMED_OUT", "NOT_CONTROLLER", "BROKER_NOT_AVAILABLE", "INVALID_REQUEST"])
def test_a_change_of_voters_or_brokers_is_sent_again_as_in_java(name, code, scene, admin, monkeypatch):
    """After a timeout, a controller may have become a voter: only Java's codes are retried."""
    call = CALLS[name]
    cls = message_class(f"{call.api}Response")
    responses = [cls(error_code=ErrorCode[code]), cls()]
    sent_bodies = []

    async def respond(broker, body):
        sent_bodies.append(body)
        return responses[len(sent_bodies) - 1]

    monkeypatch.setattr(admin._twin._cluster, "request", respond)
    error = error_of(call, admin, scene)
    if code in call.retriable:
        assert error is None
        assert len(sent_bodies) == 2
    else:
        assert isinstance(error, BrokerError)
        assert error.code is ErrorCode[code]
        assert len(sent_bodies) == 1


# ---- groups of each type --------------------------------------------------------------------------------------------


def test_offsets_of_a_streams_group_are_changed_and_deleted_after_its_members_have_left(scene, admin):
    """``alterStreamsGroupOffsets``, ``listStreamsGroupOffsets``, ``deleteStreamsGroupOffsets`` of Java's Admin."""
    scene.add_streams_member()
    with pytest.raises(BrokerError):
        admin.alter_group_offsets(STREAMS_GROUP, {PARTITION: 1})
    scene.remove_streams_member()
    admin.alter_group_offsets(STREAMS_GROUP, {PARTITION: 1})
    assert admin.group_offsets(STREAMS_GROUP)[PARTITION].offset == 1
    admin.delete_group_offsets(STREAMS_GROUP, [PARTITION])
    assert admin.group_offsets(STREAMS_GROUP) == {}


def test_groups_of_each_type_are_deleted_in_one_call(scene, admin):
    """``deleteConsumerGroups``, ``deleteShareGroups``, ``deleteStreamsGroups`` of Java's Admin."""
    scene.commit()
    scene.share()
    scene.add_streams_member()
    scene.remove_streams_member()
    names = [GROUP, SHARE_GROUP, STREAMS_GROUP]
    types = {group.group_id: group.type for group in admin.list_groups() if group.group_id in names}
    assert types == {GROUP: "classic", SHARE_GROUP: "share", STREAMS_GROUP: "streams"}
    admin.delete_groups(names)
    assert not {group.group_id for group in admin.list_groups()} & set(names)
