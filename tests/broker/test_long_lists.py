"""The work of each API is linear in each list of its request, counted in calls of Python functions."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.broker.direct import START_MS, DirectBroker
from tests.broker.long_lists import CASES, build_request, with_long_texts
from tests.soak.broker_bounds import batch, connect, fetch, frame, metadata, read

from kafkaframes import Broker
from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.requests.api import CloseConnection, DeferredResponse
from kafkaframes.broker.requests.request import Session
from kafkaframes.broker.security.acls import ALLOW, LITERAL, Acl, AclAuthorizer
from kafkaframes.broker.state import state
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request

ELEMENT_COUNT = 300


def count_handler_calls(broker: DirectBroker, name: str, version: int, path: tuple[str, ...], count: int) -> int:
    frame = encode_request(build_request(name, version, path, count), version, client_id="test")
    calls = 0

    def count_calls(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        # calls of C functions except append and extend
        if event == "c_call" and isinstance(getattr(argument, "__self__", None), list):
            calls += len(argument.__self__) if argument.__name__ in ("count", "index", "remove", "insert") else 0

    request = broker.dispatcher.decode_request(frame, Session(peer="127.0.0.1:5000"))
    assert request.body
    sys.setprofile(count_calls)
    try:
        broker.dispatcher.answer(request)
    except CloseConnection:
        pass
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("name", "version", "path"), [pytest.param(*case, id=f"{case[0]}-{'.'.join(case[2])}") for case in CASES]
)
def test_twice_the_elements_take_at_most_twice_the_work(name, version, path):
    broker = DirectBroker()
    try:
        count_handler_calls(broker, name, version, path, 3)  # created once
        once = count_handler_calls(DirectBroker(), name, version, path, ELEMENT_COUNT)
        twice = count_handler_calls(DirectBroker(), name, version, path, 2 * ELEMENT_COUNT)
    finally:
        broker.state.logs.abandon()
    assert twice <= 2.5 * once + 2_000


CASES_IN_STEPS = {
    ("OffsetFetch", ("groups",)),
    ("AddPartitionsToTxn", ("transactions",)),
    ("DescribeShareGroupOffsets", ("groups",)),
    ("ShareGroupDescribe", ("group_ids",)),
    ("ConsumerGroupDescribe", ("group_ids",)),
    ("DescribeGroups", ("groups",)),
    ("DescribeTransactions", ("transactional_ids",)),
    ("DescribeProducers", ("topics",)),
    ("AlterClientQuotas", ("entries",)),
    ("AlterConfigs", ("resources",)),
    ("IncrementalAlterConfigs", ("resources",)),
    ("FindCoordinator", ("coordinator_keys",)),
    ("DeleteGroups", ("groups_names",)),
    ("ListOffsets", ("topics", "partitions")),
    ("DeleteRecords", ("topics", "partitions")),
    ("AlterUserScramCredentials", ("upsertions",)),
    ("DescribeUserScramCredentials", ("users",)),
    ("DescribeQuorum", ("topics", "partitions")),
    ("OffsetDelete", ("topics", "partitions")),
    ("TxnOffsetCommit", ("topics", "partitions")),
    ("OffsetCommit", ("topics", "partitions")),
}


@pytest.mark.parametrize(
    ("name", "version", "path"),
    [pytest.param(*case, id=case[0]) for case in CASES if (case[0], case[2]) in CASES_IN_STEPS],
)
def test_an_answer_with_many_rows_is_built_in_steps_and_is_the_same(name, version, path):
    count, answers, turns = 2_600, [], 0
    for has_others in (False, True):
        broker, due = DirectBroker(), []
        broker.state.changes.next_turn = due.append if has_others else None
        request = broker.dispatcher.decode_request(
            encode_request(build_request(name, version, path, count), version, client_id="test"),
            Session(peer="127.0.0.1:5000"),
        )
        answer = broker.dispatcher.answer(request)
        while due:
            due.pop(0)()
            turns += 1
        answers.append(answer.answer if has_others else answer)
        broker.state.logs.abandon()
    assert turns == count // 500
    assert answers[0].encode(version) == answers[1].encode(version)


@pytest.mark.parametrize("api", ["AlterConfigs", "IncrementalAlterConfigs"])
@pytest.mark.parametrize(("kind", "setting"), [(16, "interval.ms"), (32, "consumer.session.timeout.ms")])
def test_settings_of_many_resources_are_written_once(monkeypatch, api, kind, setting):
    """Previously the whole metadata was written once per resource: 2,000 took 10 s, 20,000 a hundred times as long."""
    broker, writes = DirectBroker(), []
    monkeypatch.setattr(state, "write_metadata", lambda *_: writes.append(1))
    types = message(f"{api}Request")
    rows = [
        types.AlterConfigsResource(
            resource_type=kind,
            resource_name=f"n-{number}",
            configs=[types.AlterableConfig(name=setting, value="45000")],
        )
        for number in range(60)
    ]
    answer = broker.send(api, 1, resources=rows)
    assert [response.error_code for response in answer.responses] == [0] * 60
    broker.send(api, 1, resources=rows, validate_only=True)
    assert len(writes) == 1
    broker.state.logs.abandon()


def test_a_produce_to_many_partitions_runs_in_steps():
    """The first append to a partition creates its files.

    In one step, 5,000 partitions blocked all clients for 2.4 s.
    """
    broker, due = DirectBroker(), []
    broker.state.create_topic("t", 900)
    types = message("ProduceRequest")
    rows = [types.PartitionProduceData(index=number, records=batch(1, 100)) for number in range(900)]
    broker.state.changes.next_turn = due.append
    topics = [types.TopicProduceData(name="t", partition_data=rows)]
    answer, turns = broker.send("Produce", 9, acks=1, timeout_ms=1_000, topic_data=topics), 0
    while due:
        assert answer.body is None
        due.pop(0)()
        turns += 1
    assert [row.error_code for row in answer.body.responses[0].partition_responses] == [0] * 900
    assert turns == 18
    broker.state.logs.abandon()


def test_write_txn_markers_runs_in_steps():
    """In one step, 5,000 partitions blocked all clients for 3 s, although EndTxn ran in steps."""
    broker, due = DirectBroker(), []
    broker.state.create_topic("t", 220)
    types = message("WriteTxnMarkersRequest")
    topics = [types.WritableTxnMarkerTopic(name="t", partition_indexes=list(range(220)))]
    producer = {"producer_id": 7, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0}
    broker.state.changes.next_turn = due.append
    answer = broker.send("WriteTxnMarkers", 1, markers=[types.WritableTxnMarker(topics=topics, **producer)])
    turns = 0
    while due:
        due.pop(0)()
        turns += 1
    assert [row.error_code for row in answer.body.markers[0].topics[0].partitions] == [0] * 220
    assert turns == 4
    assert {partition.log.log_end_offset for partition in broker.state.topics["t"].partitions} == {1}
    broker.state.logs.abandon()


def test_acl_filters_run_in_steps_by_the_number_of_rules():
    """In one step, 2,000 filters over 20,000 rules blocked all clients for a minute."""
    broker, due = DirectBroker(), []
    broker.state.access = AclAuthorizer(
        [Acl(2, f"t-{number}", LITERAL, "User:a", "*", 3, ALLOW) for number in range(400)]
    )
    filter_type = message("DeleteAclsRequest").DeleteAclsFilter
    anyone = {"principal_filter": None, "host_filter": None, "operation": 3, "permission_type": ALLOW}
    every = {"resource_type_filter": 2, "pattern_type_filter": LITERAL, **anyone}
    filters = [filter_type(resource_name_filter=f"t-{number}", **every) for number in range(200)]
    request = encode_request(message("DeleteAclsRequest")(filters=filters), 3, client_id="test")
    session = Session(peer="127.0.0.1:5000", principal="User:admin")
    broker.state.access.add(Acl(4, "kafka-cluster", LITERAL, "User:admin", "*", 7, ALLOW))
    broker.state.changes.next_turn = due.append
    answer, turns = broker.dispatcher.answer(broker.dispatcher.decode_request(request, session)), 0
    while due:
        due.pop(0)()
        turns += 1
    assert [len(row.matching_acls) for row in answer.answer.filter_results] == [1] * 200
    assert (turns, broker.state.access.rule_count) == (4, 201)
    broker.state.logs.abandon()


@pytest.mark.parametrize("api", collect_apis().values(), ids=lambda api: api.name)
def test_strings_of_maximum_length_are_answered(api):
    """Previously such a request got no answer: an error message that quotes its value exceeded the maximum string
    length.
    """
    broker, version = DirectBroker(), api.range[1]
    body = with_long_texts(message(f"{api.name}Request"), version, "x" * 32_767)
    try:
        request = broker.dispatcher.decode_request(encode_request(body, version, client_id="test"), broker.session)
        answer = broker.dispatcher.answer(request)
    except CloseConnection:
        return
    finally:
        broker.state.logs.abandon()
    if isinstance(answer, DeferredResponse) and answer.is_done:
        answer = answer.answer
    if answer is not None and not isinstance(answer, DeferredResponse):
        assert broker.dispatcher.encode(request, answer)


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        ("DescribeClientQuotas", {"components": ("ComponentData", {"entity_type": "name-{}"})}),
        ("AlterClientQuotas", {"entity": ("EntityData", {"entity_type": "name-{}", "entity_name": "x"})}),
    ],
)
def test_quotas_with_many_entity_types_are_rejected_with_a_message(api, fields):
    broker, types = DirectBroker(), message(f"{api}Request")
    ((field, (struct, values)),) = fields.items()
    rows = [
        getattr(types, struct)(**{name: value.format(number) for name, value in values.items()})
        for number in range(20_000)
    ]
    if api == "AlterClientQuotas":
        answer = broker.send(api, 1, entries=[types.EntryData(entity=rows, ops=[])]).entries[0]
        assert (answer.error_code, len(answer.entity)) == (42, 20_000)
    else:
        answer = broker.send(api, 1, **{field: rows})
        assert answer.error_code == 35
    assert "name-0" in answer.error_message
    assert len(answer.error_message) < 2_000
    broker.state.logs.abandon()


@pytest.mark.parametrize(("version", "session_epoch"), [(11, -1), (11, 0), (12, -1)])
def test_a_fetch_of_many_partitions_runs_in_proportionally_many_steps(version, session_epoch):
    turns = {}
    for count in (6_000, 12_000):
        broker, due = DirectBroker(), []
        broker.state.changes.next_turn = due.append
        fields = {**fetch(["unknown"], count), "session_epoch": session_epoch, "max_wait_ms": 10_000}
        answer = broker.send("Fetch", version, **fields)
        taken_turns = 0
        while due:
            assert answer.body is None
            due.pop(0)()
            taken_turns += 1
        assert [partition.error_code for partition in answer.body.responses[0].partitions] == [3] * count
        turns[count] = taken_turns
        broker.state.logs.abandon()
    assert 10 <= turns[6_000] < turns[12_000] <= 2 * turns[6_000] + 2


def test_a_long_poll_on_many_partitions_checks_them_in_steps_and_misses_nothing():
    """Previously each append to one of 20,000 partitions made each waiting fetch read all of them in one step."""
    broker, due = DirectBroker(), []
    broker.state.create_topic("t", 1_200)
    raw = batch(1, 100)
    fields = {**fetch(["t"], 1_200), "max_wait_ms": 10_000, "min_bytes": 3 * len(raw)}
    answer = broker.send("Fetch", 11, **fields)
    broker.state.changes.next_turn = due.append
    partitions = broker.state.topics["t"].partitions
    # append to the last partition while the first check is running and has already passed it
    for index in (0, 1_100, 0):
        partitions[index].log.append_as_leader(raw, leader_epoch=0, now_ms=START_MS)
        partitions[index].log.update_high_watermark(partitions[index].log.log_end_offset)
        broker.state.note_append(partitions[index])
    turns = 0
    while due:
        assert answer.body is None
        due.pop(0)()
        turns += 1
    rows = {
        partition.partition_index: partition.records
        for partition in answer.body.responses[0].partitions
        if partition.records
    }
    assert {index: len(records) for index, records in rows.items()} == {0: 2 * len(raw), 1_100: len(raw)}
    assert turns >= 2
    assert not any(partition.waiting for partition in partitions)
    broker.state.logs.abandon()


def test_configs_and_group_members_are_described_in_steps():
    broker, due = DirectBroker(), []
    for number in range(1_100):
        fields = {"member_id": f"m-{number}", "member_epoch": 0, "rebalance_timeout_ms": 60_000}
        broker.send(
            "ConsumerGroupHeartbeat", 1, group_id="g", subscribed_topic_names=["t"], topic_partitions=[], **fields
        )
    types = message("DescribeConfigsRequest")
    itself = types.DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    broker.state.changes.next_turn = due.append
    for api, version, fields, least in (
        ("ConsumerGroupDescribe", 1, {"group_ids": ["g", "g"]}, 4),
        ("DescribeConfigs", 4, {"resources": [itself] * 60}, 2),
    ):
        answer, turns = broker.send(api, version, **fields), 0
        while due:
            due.pop(0)()
            turns += 1
        assert turns >= least
        assert [len(described_group.members) for described_group in getattr(answer.body, "groups", [])] in (
            [],
            [1_100, 1_100],
        )
    broker.state.logs.abandon()


def test_long_requests_are_answered_like_short_ones_and_malformed_ones_close_the_connection():
    with Broker(journal=False, config={"auto.create.topics.enable": "false"}) as broker:
        names = [f"{number:0200}" for number in range(2_000)]
        raw = frame("Metadata", 9, **metadata(names, creates=False))
        for _ in range(2):
            with connect(broker.port) as peer:
                peer.sendall(raw * 2 + frame("Metadata", 9, topics=[]))
                assert [len(read(peer)) > 400_000 for _ in range(3)] == [True, True, False]
        with connect(broker.port) as peer:
            peer.sendall(raw[:14] + bytes([255] * (len(raw) - 14)))
            assert peer.recv(1) == b""


def test_describing_many_scram_users_costs_no_more_than_describing_each():
    """Previously the lists of SCRAM users were searched once for each user: 20,000 took 84 s."""
    broker = DirectBroker()
    names = [f"user-{number}" for number in range(300)]
    types = message("AlterUserScramCredentialsRequest")
    upsertions = [
        types.ScramCredentialUpsertion(name=name, mechanism=1, iterations=4096, salt=b"s", salted_password=b"p" * 32)
        for name in [*names, "user-7"]
    ]
    rows = broker.send("AlterUserScramCredentials", 0, upsertions=upsertions).results
    assert [row.user for row in rows if row.error_code] == ["user-7"]
    user_type = message("DescribeUserScramCredentialsRequest").UserName
    rows = broker.send(
        "DescribeUserScramCredentials", 0, users=[user_type(name=name) for name in [*names, "user-8"]]
    ).results
    assert [row.user for row in rows if row.error_code] == ["user-7", "user-8"]
    broker.state.logs.abandon()
