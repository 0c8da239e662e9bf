"""Each method of ``Admin`` on three nodes: target node, Java's retries, lost nodes, timeouts and missing
permissions.
"""

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
    AdminCallFixture,
    error_of,
    perform,
    requests_from,
    start_broker,
)

from kafkaframes import message_class
from kafkaframes.client import Admin, AsyncAdmin
from kafkaframes.errors import AuthorizationError, BrokerError, ErrorCode, NetworkError

CALLS_WITH_REQUESTS = [name for name, call in CALLS.items() if call.api and call.expected != "UNSUPPORTED_VERSION"]
RETRIABLE_CASES = [(name, code) for name in CALLS_WITH_REQUESTS for code in sorted(CALLS[name].retriable)]
FATAL_CASES = [
    (name, code)
    for name in CALLS_WITH_REQUESTS
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
def call_fixture():
    with start_broker() as broker:
        call_fixture = AdminCallFixture(broker.bootstrap_servers, broker)
        yield call_fixture
        call_fixture.close()


@pytest.fixture
def admin(call_fixture):
    options = {"retry_backoff_ms": 1, "reconnect_backoff_ms": 1, "default_api_timeout_ms": 10_000, "client_id": "calls"}
    with Admin(call_fixture.broker.bootstrap_servers, **ROOT, **options) as admin:
        yield admin


def client_of_node(call_fixture, node_id, **options):
    """Return a client that knows only one node at first."""
    server = call_fixture.broker.bootstrap_servers.split(",")[node_id]
    return Admin(server, **{**ROOT, "retry_backoff_ms": 1, "reconnect_backoff_ms": 1, **options})


def test_each_method_has_a_call():
    public = {name for name in dir(AsyncAdmin) if not name.startswith("_")} - {"settings"}
    assert CALLS.keys() == public


@pytest.mark.parametrize("name", CALLS)
def test_each_method_works_from_a_node_that_does_not_serve_it(name, call_fixture):
    call = CALLS[name]
    call.prepare(call_fixture)
    call_fixture.broker.move_leader(TOPIC, 0, 0)
    if call.key:
        call_fixture.broker.move_coordinator(call.key, 1, kind=call.target)
    with client_of_node(call_fixture, 2, enable_metrics_push=name == "client_instance_id") as admin:
        perform(call, admin, call_fixture)


@pytest.mark.parametrize(
    "name", [name for name in CALLS_WITH_REQUESTS if CALLS[name].target in ("group", "transaction")]
)
def test_each_request_is_sent_to_the_moved_coordinator(name, call_fixture, admin):
    call = CALLS[name]
    call.prepare(call_fixture)
    perform(call, admin, call_fixture)  # the client caches the coordinator
    call.prepare(call_fixture)
    for node_id in (2, 1):
        call_fixture.broker.move_coordinator(call.key, node_id, kind=call.target)
        rule = call_fixture.broker.on(call.api).delay(0)
        perform(call, admin, call_fixture)
        assert rule.requests[-1].session.node_id == node_id
        rule.remove()
        call.prepare(call_fixture)


@pytest.mark.parametrize("name", CALLS_WITH_REQUESTS)
def test_each_method_works_after_a_node_has_stopped(name, call_fixture, admin):
    """The stopped node was the client's connection, controller, leader and coordinator."""
    call = CALLS[name]
    call.prepare(call_fixture)
    call_fixture.broker.move_leader(TOPIC, 0, 0)
    if call.key:
        call_fixture.broker.move_coordinator(call.key, 0, kind=call.target)
    perform(call, admin, call_fixture)
    call.prepare(call_fixture)
    node_id = 1 if call.target == "broker" else 0
    call_fixture.broker.stop_node(node_id)
    try:
        error = error_of(call, admin, call_fixture)
    finally:
        call_fixture.broker.start_node(node_id)
    if call.expected:
        assert error.code is ErrorCode[call.expected]
    else:
        assert error is None


@pytest.mark.parametrize(("name", "code"), RETRIABLE_CASES)
def test_a_request_is_sent_again_after_a_retriable_code(name, code, call_fixture, admin):
    call = CALLS[name]
    call.prepare(call_fixture)
    with call_fixture.broker.on(call.api, where=requests_from(admin)).error(code).once() as rule:
        perform(call, admin, call_fixture)
    assert rule.occurrences == 1


@pytest.mark.parametrize(("name", "code"), FATAL_CASES)
def test_a_request_is_not_sent_again_after_another_code(name, code, call_fixture, admin):
    call = CALLS[name]
    call.prepare(call_fixture)
    admin.list_brokers()  # the call opens a connection, which includes an ApiVersions request
    nodes = 3 if call.target == "every" else 1
    rule = call_fixture.broker.on(call.api, where=requests_from(admin)).error(code)
    try:
        error = error_of(call, admin, call_fixture)
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
def test_a_call_ends_in_time_if_brokers_do_not_respond(name, call_fixture, admin):
    call = CALLS[name]
    call.prepare(call_fixture)
    perform(call, admin, call_fixture)  # opens the connections
    call.prepare(call_fixture)
    twin = admin._twin
    twin.settings = twin._cluster.settings = replace(twin.settings, default_api_timeout_ms=300)
    with call_fixture.broker.on(call.api, where=requests_from(admin)).ignore() as rule:
        start = time.monotonic()
        error = error_of(call, admin, call_fixture)
    assert isinstance(error, NetworkError), error
    assert time.monotonic() - start < twin.settings.request_timeout_ms / 1000
    assert rule.occurrences


@pytest.mark.parametrize("name", [name for name in CALLS if CALLS[name].denied])
def test_without_permissions_each_method_raises_the_matching_error_class(name, call_fixture):
    call = CALLS[name]
    call.prepare(call_fixture)
    with Admin(call_fixture.broker.bootstrap_servers, **STRANGER) as admin:
        error = error_of(call, admin, call_fixture)
    assert isinstance(error, BrokerError), error
    assert error.code is ErrorCode[call.denied]
    assert isinstance(error, AuthorizationError) == call.denied.endswith("AUTHORIZATION_FAILED")


@pytest.mark.parametrize("name", ["list_topics", "list_groups", "list_transactions", "describe_delegation_token"])
def test_without_permissions_lists_are_empty(name, call_fixture):
    call = CALLS[name]
    call.prepare(call_fixture)
    with Admin(call_fixture.broker.bootstrap_servers, **STRANGER) as admin:
        assert call.run(admin, call_fixture) == []


# ---- requests that the embedded broker does not have ----------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in CALLS if CALLS[name].expected == "UNSUPPORTED_VERSION"])
@pytest.mark.parametrize("code", ["REQUEST_TIMED_OUT", "NOT_CONTROLLER", "BROKER_NOT_AVAILABLE", "INVALID_REQUEST"])
def test_changes_of_voters_and_brokers_are_retried_as_in_java(name, code, call_fixture, admin, monkeypatch):
    """After a timeout, a controller may have become a voter: only Java's codes are retried."""
    call = CALLS[name]
    cls = message_class(f"{call.api}Response")
    responses = [cls(error_code=ErrorCode[code]), cls()]
    sent_bodies = []

    async def respond(broker, body):
        sent_bodies.append(body)
        return responses[len(sent_bodies) - 1]

    monkeypatch.setattr(admin._twin._cluster, "request", respond)
    error = error_of(call, admin, call_fixture)
    if code in call.retriable:
        assert error is None
        assert len(sent_bodies) == 2
    else:
        assert isinstance(error, BrokerError)
        assert error.code is ErrorCode[code]
        assert len(sent_bodies) == 1


# ---- groups of each type --------------------------------------------------------------------------------------------


def test_offsets_of_a_streams_group_are_changed_and_deleted_after_its_members_have_left(call_fixture, admin):
    """``alterStreamsGroupOffsets``, ``listStreamsGroupOffsets``, ``deleteStreamsGroupOffsets`` of Java's Admin."""
    call_fixture.add_streams_member()
    with pytest.raises(BrokerError):
        admin.alter_group_offsets(STREAMS_GROUP, {PARTITION: 1})
    call_fixture.remove_streams_member()
    admin.alter_group_offsets(STREAMS_GROUP, {PARTITION: 1})
    assert admin.group_offsets(STREAMS_GROUP)[PARTITION].offset == 1
    admin.delete_group_offsets(STREAMS_GROUP, [PARTITION])
    assert admin.group_offsets(STREAMS_GROUP) == {}


def test_groups_of_each_type_are_deleted_in_one_call(call_fixture, admin):
    """``deleteConsumerGroups``, ``deleteShareGroups``, ``deleteStreamsGroups`` of Java's Admin."""
    call_fixture.commit()
    call_fixture.share()
    call_fixture.add_streams_member()
    call_fixture.remove_streams_member()
    names = [GROUP, SHARE_GROUP, STREAMS_GROUP]
    types = {group.group_id: group.type for group in admin.list_groups() if group.group_id in names}
    assert types == {GROUP: "classic", SHARE_GROUP: "share", STREAMS_GROUP: "streams"}
    admin.delete_groups(names)
    assert not {group.group_id for group in admin.list_groups()} & set(names)
