"""The APIs of classic groups at every version, and the group state after a restart."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.direct import DirectBroker, PendingAnswer, versions

from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import decode_coordinator_record

SUBSCRIPTION = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")


def code(name: str) -> int:
    return ErrorCode[name]


@pytest.fixture
def broker():
    return new_broker(None)


@pytest.fixture
def durable(tmp_path):
    return new_broker(str(tmp_path))


def new_broker(data_dir: str | None) -> DirectBroker:
    broker = DirectBroker(data_dir, offsets_topic_num_partitions=3)
    broker.state.create_topic("orders", 2)
    return broker


def join(broker, version: int, member_id: str = "", *, group: str = "g", **changes: Any) -> Any:
    protocol = message("JoinGroupRequest").JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
    fields = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [protocol],
    }
    answer = broker.send("JoinGroup", version, **fields | changes)
    broker.clock.run_due()
    return answer.body if isinstance(answer, PendingAnswer) else answer


def member(broker, version: int = 9, **changes: Any) -> Any:
    """Join and sync a single member; return its JoinGroup answer."""
    answer = join(broker, version, **changes)
    if answer.error_code == code("MEMBER_ID_REQUIRED"):
        answer = join(broker, version, answer.member_id, **changes)
    assert answer.error_code == 0
    assignment = message("SyncGroupRequest").SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"all")
    sync_answer = broker.send(
        "SyncGroup",
        3,
        group_id=changes.get("group", "g"),
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        group_instance_id=changes.get("group_instance_id"),
        assignments=[assignment],
    )
    assert (sync_answer.error_code, sync_answer.assignment) == (0, b"all")
    return answer


@pytest.mark.parametrize("version", versions("JoinGroup"))
def test_join(broker, version):
    first = join(broker, version)
    if version >= 4:
        assert first.error_code == code("MEMBER_ID_REQUIRED")
        assert first.member_id.startswith("test-")
        first = join(broker, version, first.member_id)
    assert (first.error_code, first.generation_id, first.protocol_name) == (0, 1, "range")
    assert first.protocol_type == ("consumer" if version >= 7 else None)
    assert first.leader == first.member_id
    (only,) = first.members
    assert (only.member_id, only.metadata) == (first.member_id, SUBSCRIPTION)
    refusal = join(broker, version, "nobody")
    assert (refusal.error_code, refusal.generation_id) == (code("UNKNOWN_MEMBER_ID"), -1)
    assert refusal.protocol_name == (None if version >= 7 else "")
    wait_ms = broker.state.groups.groups["g"].rebalance_timeout_ms
    assert wait_ms == (60_000 if version >= 1 else 10_000)


@pytest.mark.parametrize("version", [5, 6, 7, 8, 9])
def test_a_static_member_rejoins_without_a_rebalance(broker, version):
    first = member(broker, version, group_instance_id="a")
    rejoin_answer = join(broker, version, group_instance_id="a")
    assert (rejoin_answer.error_code, rejoin_answer.generation_id, rejoin_answer.skip_assignment) == (
        0,
        1,
        version >= 9,
    )
    assert rejoin_answer.leader == (rejoin_answer.member_id if version >= 9 else first.member_id)


@pytest.mark.parametrize("version", versions("SyncGroup"))
def test_sync_and_heartbeat_require_the_current_generation(broker, version):
    join_answer = member(broker)
    fields = {"group_id": "g", "generation_id": 1, "member_id": join_answer.member_id}
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    sync_answer = broker.send("SyncGroup", version, **fields | names)
    assert (sync_answer.error_code, sync_answer.assignment) == (0, b"all")
    assert sync_answer.protocol_name == ("range" if version >= 5 else None)
    if version >= 5:
        assert broker.send("SyncGroup", version, **fields).error_code == code("INCONSISTENT_GROUP_PROTOCOL")
    wrong = broker.send("SyncGroup", version, **fields | names | {"generation_id": 2})
    assert wrong.error_code == code("ILLEGAL_GENERATION")
    for heartbeat_version in versions("Heartbeat"):
        assert broker.send("Heartbeat", heartbeat_version, **fields).error_code == 0
        assert broker.send("Heartbeat", heartbeat_version, **fields | {"member_id": "x"}).error_code == code(
            "UNKNOWN_MEMBER_ID"
        )


@pytest.mark.parametrize("version", versions("LeaveGroup"))
def test_leave(broker, version):
    join_answer = member(broker)
    if version < 3:
        assert broker.send("LeaveGroup", version, group_id="g", member_id="x").error_code == code("UNKNOWN_MEMBER_ID")
        assert broker.send("LeaveGroup", version, group_id="g", member_id=join_answer.member_id).error_code == 0
    else:
        identity = message("LeaveGroupRequest").MemberIdentity
        members = [identity(member_id="x"), identity(member_id=join_answer.member_id)]
        answer = broker.send("LeaveGroup", version, group_id="g", members=members)
        assert answer.error_code == 0
        assert [member.error_code for member in answer.members] == [code("UNKNOWN_MEMBER_ID"), 0]
    assert broker.state.groups.groups["g"].is_empty
    assert broker.send("LeaveGroup", version, group_id="").error_code == code("INVALID_GROUP_ID")


def commit(broker, version: int, *, group: str = "g", topic: str = "orders", **changes: Any) -> Any:
    request_type = message("OffsetCommitRequest")
    known_topic = broker.state.topics.get(topic)
    topic_id = known_topic.topic_id if known_topic else changes.pop("topic_id", None)
    naming = {"topic_id": topic_id} if version >= 10 and topic_id else {"name": topic}
    rows = [
        request_type.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=index + 5, committed_metadata="m"
        )
        for index in (0, 1)
    ]
    topics = [request_type.OffsetCommitRequestTopic(partitions=rows, **naming)]
    return broker.send("OffsetCommit", version, group_id=group, topics=topics, **changes)


@pytest.mark.parametrize("version", versions("OffsetCommit"))
def test_offsets_are_committed_and_fetched(broker, version):
    answer = commit(broker, version)
    assert [row.error_code for row in answer.topics[0].partitions] == [0, 0]
    for fetch in versions("OffsetFetch"):
        rows = fetch_offsets(broker, fetch)
        assert [(row.partition_index, row.committed_offset, row.metadata, row.error_code) for row in rows] == [
            (0, 5, "m", 0),
            (1, 6, "m", 0),
        ]


def test_groups_and_offsets_survive_a_kill(durable):
    join_answer = member(durable)
    commit(durable, 8, generation_id_or_member_epoch=1, member_id=join_answer.member_id)
    commit(durable, 8, group="gone")
    durable.send("DeleteGroups", 2, groups_names=["gone"])
    durable.kill()
    assert [row.committed_offset for row in fetch_offsets(durable, 8)] == [5, 6]
    assert set(durable.state.groups.groups) == {"g"}
    assert durable.send("Heartbeat", 4, group_id="g", generation_id=1, member_id=join_answer.member_id).error_code == 0


def fetch_offsets(
    broker, version: int, *, everything: bool = False, group: str = "g", topic: str = "orders"
) -> list[Any]:
    request_type = message("OffsetFetchRequest")
    if version < 8:
        topics = None if everything else [request_type.OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])]
        answer = broker.send("OffsetFetch", version, group_id=group, topics=topics)
        rows = answer.topics
    else:
        naming = {"topic_id": broker.state.topics[topic].topic_id} if version >= 10 else {"name": topic}
        topics = None if everything else [request_type.OffsetFetchRequestTopics(partition_indexes=[0, 1], **naming)]
        groups = [request_type.OffsetFetchRequestGroup(group_id=group, topics=topics)]
        answer = broker.send("OffsetFetch", version, groups=groups).groups[0]
        rows = answer.topics
        if version >= 10:
            assert all(row.topic_id == broker.state.topics[topic].topic_id for row in rows)
    assert answer.error_code == 0
    return [partition for row in rows for partition in row.partitions]


@pytest.mark.parametrize("version", versions("OffsetFetch"))
def test_a_partition_without_a_commit_has_offset_minus_one(broker, version):
    rows = fetch_offsets(broker, version)
    unknown = code("UNKNOWN_TOPIC_OR_PARTITION") if version == 0 else 0
    assert [(row.committed_offset, row.error_code, row.metadata) for row in rows] == [(-1, unknown, "")] * 2
    if version >= 2:
        assert fetch_offsets(broker, version, everything=True) == []
        commit(broker, 8)
        assert len(fetch_offsets(broker, version, everything=True)) == 2


@pytest.mark.parametrize("version", [8, 9, 10])
def test_offset_fetch_returns_several_groups_in_one_answer(broker, version):
    commit(broker, 8)
    request_type = message("OffsetFetchRequest")
    groups = [request_type.OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "h")]
    answer = broker.send("OffsetFetch", version, groups=groups)
    assert [(group.group_id, len(group.topics)) for group in answer.groups] == [("g", 1), ("h", 0)]


def test_only_unknown_topics_and_partitions_of_a_commit_are_rejected(broker):
    request_type = message("OffsetCommitRequest")
    row = request_type.OffsetCommitRequestPartition
    topics = [
        request_type.OffsetCommitRequestTopic(name="orders", partitions=[row(partition_index=i) for i in (0, 2)]),
        request_type.OffsetCommitRequestTopic(name="gone", partitions=[row(partition_index=0)]),
    ]
    answer = broker.send("OffsetCommit", 8, group_id="g", topics=topics)
    unknown = code("UNKNOWN_TOPIC_OR_PARTITION")
    assert [[partition.error_code for partition in topic.partitions] for topic in answer.topics] == [
        [unknown, 0],
        [unknown],
    ]


def test_an_unknown_topic_id_is_rejected(broker):
    from uuid import UUID

    answer = commit(broker, 10, topic="gone", topic_id=UUID(int=5))
    assert [partition.error_code for partition in answer.topics[0].partitions] == [code("UNKNOWN_TOPIC_ID")] * 2
    request_type = message("OffsetFetchRequest")
    topic_row = request_type.OffsetFetchRequestTopics(topic_id=UUID(int=5), partition_indexes=[0])
    group = request_type.OffsetFetchRequestGroup(group_id="g", topics=[topic_row])
    answer = broker.send("OffsetFetch", 10, groups=[group])
    assert [partition.error_code for partition in answer.groups[0].topics[0].partitions] == [code("UNKNOWN_TOPIC_ID")]


@pytest.mark.parametrize("version", versions("OffsetCommit"))
def test_a_commit_without_a_known_member_is_rejected(broker, version):
    member(broker)
    if version == 0:
        refusal = commit(broker, 0)
    else:
        refusal = commit(broker, version, generation_id_or_member_epoch=1, member_id="x")
    assert {partition.error_code for partition in refusal.topics[0].partitions} == {code("UNKNOWN_MEMBER_ID")}


@pytest.mark.parametrize("version", versions("DescribeGroups"))
def test_describe(broker, version):
    join_answer = member(broker, group_instance_id="a")
    answer = broker.send("DescribeGroups", version, groups=["g", "none"])
    group, unknown = answer.groups
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (only,) = group.members
    assert (only.member_id, only.client_id, only.client_host, only.member_assignment) == (
        join_answer.member_id,
        "test",
        "/127.0.0.1",
        b"all",
    )
    assert only.group_instance_id == ("a" if version >= 4 else None)
    assert (unknown.group_state, unknown.error_code) == ("Dead", code("GROUP_ID_NOT_FOUND") if version >= 6 else 0)
    if version >= 3:
        described_group = broker.send("DescribeGroups", version, groups=["g"], include_authorized_operations=True)
        assert described_group.groups[0].authorized_operations & (1 << 8)
    assert only.member_metadata == SUBSCRIPTION
    join(broker, 3)  # the group waits for the first member to rejoin
    (group,) = broker.send("DescribeGroups", version, groups=["g"]).groups
    description = (
        group.group_state,
        group.protocol_data,
        group.members[0].member_metadata,
        group.members[0].member_assignment,
    )
    assert description == ("PreparingRebalance", "", b"", b"all")


@pytest.mark.parametrize("version", versions("ListGroups"))
def test_list(broker, version):
    member(broker)
    commit(broker, 8, group="lonely")
    answer = broker.send("ListGroups", version)
    assert {(group.group_id, group.protocol_type) for group in answer.groups} == {("g", "consumer"), ("lonely", "")}
    if version >= 4:
        (stable,) = broker.send("ListGroups", version, states_filter=["Stable"]).groups
        assert (stable.group_id, stable.group_state) == ("g", "Stable")
    if version >= 5:
        assert {group.group_type for group in answer.groups} == {"classic"}
        assert broker.send("ListGroups", version, types_filter=["share"]).groups == []


@pytest.mark.parametrize("version", versions("DeleteGroups"))
def test_delete(broker, version):
    member(broker)
    commit(broker, 8, group="lonely")
    answer = broker.send("DeleteGroups", version, groups_names=["g", "lonely", "none"])
    assert [(result.group_id, result.error_code) for result in answer.results] == [
        ("g", code("NON_EMPTY_GROUP")),
        ("lonely", 0),
        ("none", code("GROUP_ID_NOT_FOUND")),
    ]
    assert set(broker.state.groups.groups) == {"g"}


def test_offset_delete(broker):
    commit(broker, 8)
    request_type = message("OffsetDeleteRequest")
    row = request_type.OffsetDeleteRequestPartition
    topics = [
        request_type.OffsetDeleteRequestTopic(
            name="orders", partitions=[row(partition_index=1), row(partition_index=9)]
        ),
    ]
    answer = broker.send("OffsetDelete", 0, group_id="g", topics=topics)
    codes = [partition.error_code for partition in answer.topics[0].partitions]
    assert (answer.error_code, codes) == (0, [code("UNKNOWN_TOPIC_OR_PARTITION"), 0])
    assert [row.committed_offset for row in fetch_offsets(broker, 8)] == [5, -1]
    missing = broker.send("OffsetDelete", 0, group_id="none", topics=topics)
    assert (missing.error_code, missing.topics) == (code("GROUP_ID_NOT_FOUND"), [])


def test_group_records_are_those_that_kafka_writes(broker):
    join_answer = member(broker)
    commit(broker, 8, generation_id_or_member_epoch=1, member_id=join_answer.member_id)
    rows = [(one.key, one.value) for one in broker.state.internal.replay("__consumer_offsets")]
    read = [decode_coordinator_record("__consumer_offsets", key, value) for key, value in rows]
    assert [(one.type, one.value_version) for one in read] == [(2, 3), (2, 3), (1, 3), (1, 3)]
    group = read[1].value
    assert (group.protocol_type, group.generation, group.protocol, group.leader) == (
        "consumer",
        1,
        "range",
        join_answer.member_id,
    )
    (only,) = group.members
    assert (only.subscription, only.assignment, only.client_host) == (SUBSCRIPTION, b"all", "/127.0.0.1")
    assert (only.rebalance_timeout, only.session_timeout) == (60_000, 10_000)
    assert [(one.key.partition, one.value.offset, one.value.metadata) for one in read[2:]] == [(0, 5, "m"), (1, 6, "m")]


def test_a_commit_on_a_full_disk_is_answered_with_an_error(broker, monkeypatch):
    from kafkaframes.errors import StorageError

    def refuse(*arguments: Any, **options: Any) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(type(broker.state.internal), "append", refuse)
    answer = commit(broker, 8)
    assert {partition.error_code for partition in answer.topics[0].partitions} == {code("NOT_COORDINATOR")}
    assert join(broker, 9).error_code == code("NOT_COORDINATOR")


def test_deleting_a_topic_deletes_its_committed_offsets(broker):
    commit(broker, 8)
    assert len(fetch_offsets(broker, 7, everything=True)) == 2
    broker.send("DeleteTopics", 5, topic_names=["orders"], timeout_ms=1000)
    assert fetch_offsets(broker, 7, everything=True) == []


@pytest.mark.parametrize("version", versions("ConsumerGroupHeartbeat"))
def test_consumer_groups(broker, version):
    fields = {"group_id": "cg", "rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}
    member_id = "m" if version else ""
    heartbeat = broker.send(
        "ConsumerGroupHeartbeat", version, member_id=member_id, member_epoch=0, topic_partitions=[], **fields
    )
    assert (heartbeat.error_code, heartbeat.member_epoch, bool(heartbeat.member_id)) == (0, 2, True)
    assert [sorted(partition.partitions) for partition in heartbeat.assignment.topic_partitions] == [[0, 1]]
    quiet = broker.send("ConsumerGroupHeartbeat", version, group_id="cg", member_id=heartbeat.member_id, member_epoch=2)
    assert (quiet.error_code, quiet.assignment) == (0, None)
    fenced_answer = broker.send(
        "ConsumerGroupHeartbeat", version, group_id="cg", member_id=heartbeat.member_id, member_epoch=9
    )
    assert fenced_answer.error_code == code("FENCED_MEMBER_EPOCH")
    assert "greater member epoch (9)" in fenced_answer.error_message
    for describe in versions("ConsumerGroupDescribe"):
        group, missing = broker.send("ConsumerGroupDescribe", describe, group_ids=["cg", "none"]).groups
        (only,) = group.members
        assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 2, "uniform")
        assert only.assignment.topic_partitions[0].topic_name == "orders"
        assert only.member_type == (1 if describe else -1)
        assert missing.error_code == code("GROUP_ID_NOT_FOUND")
    classic = broker.send("DescribeGroups", 6, groups=["cg"]).groups[0]
    assert (classic.error_code, classic.group_state) == (code("GROUP_ID_NOT_FOUND"), "Dead")
