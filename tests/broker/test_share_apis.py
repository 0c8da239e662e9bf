"""The APIs of share groups at every version, and their state after a kill."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.direct import START_MS, DirectBroker, PendingAnswer, versions

from kafkaframes.broker.requests.request import Session
from kafkaframes.broker.state.internal import build_batch
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message


def code(name: str) -> int:
    return ErrorCode[name]


@pytest.fixture
def broker(tmp_path):
    broker = DirectBroker(str(tmp_path))
    broker.state.create_topic("orders", 1)
    broker.state.metadata.entities["group_configs"] = {"g": {"share.auto.offset.reset": "earliest"}}
    return broker


def produce(broker, count: int) -> None:
    request_type = message("ProduceRequest")
    records = build_batch([(None, b"v")] * count, timestamp_ms=1)
    data = request_type.TopicProduceData(
        name="orders", partition_data=[request_type.PartitionProduceData(index=0, records=records)]
    )
    answer = broker.send("Produce", 9, acks=-1, timeout_ms=1000, topic_data=[data])
    assert answer.responses[0].partition_responses[0].error_code == 0


def fetch(broker, version: int, epoch: int, *, member: str = "m", acks: Any = (), **changes: Any) -> Any:
    request_type = message("ShareFetchRequest")
    batches = [
        request_type.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        for first, last, kind in acks
    ]
    partition = request_type.FetchPartition(partition_index=0, acknowledgement_batches=batches)
    topic = request_type.FetchTopic(topic_id=broker.state.topics["orders"].topic_id, partitions=[partition])
    fields = {"group_id": "g", "member_id": member, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
    fields |= {"max_records": 100, "batch_size": 100}
    return broker.send("ShareFetch", version, share_session_epoch=epoch, topics=[topic], **fields | changes)


def acknowledge(broker, version: int, epoch: int, first: int, last: int, kind: int = 1) -> Any:
    request_type = message("ShareAcknowledgeRequest")
    batch = request_type.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
    partition = request_type.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
    topic = request_type.AcknowledgeTopic(topic_id=broker.state.topics["orders"].topic_id, partitions=[partition])
    return broker.send(
        "ShareAcknowledge", version, group_id="g", member_id="m", share_session_epoch=epoch, topics=[topic]
    )


def read_acquired(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (record.first_offset, record.last_offset, record.delivery_count)
        for topic in answer.responses
        for row in topic.partitions
        for record in row.acquired_records
    ]


def join(broker) -> Any:
    return broker.send(
        "ShareGroupHeartbeat", 1, group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["orders"]
    )


def offsets(broker, version: int, **changes: Any) -> Any:
    group = message("DescribeShareGroupOffsetsRequest").DescribeShareGroupOffsetsRequestGroup(
        **{"group_id": "g", "topics": None} | changes
    )
    return broker.send("DescribeShareGroupOffsets", version, groups=[group]).groups[0]


@pytest.mark.parametrize("version", versions("ShareFetch"))
def test_acknowledged_records_are_not_delivered_again(broker, version):
    assert join(broker).member_epoch == 2
    produce(broker, 5)
    answer = fetch(broker, version, 0)
    assert (answer.error_code, read_acquired(answer)) == (0, [(0, 4, 1)])
    assert answer.acquisition_lock_timeout_ms == 30_000
    assert read_acquired(fetch(broker, version, 1)) == []
    acknowledgement = acknowledge(broker, version, 2, 0, 2)
    assert (acknowledgement.error_code, acknowledgement.responses[0].partitions[0].error_code) == (0, 0)
    wrong = acknowledge(broker, version, 3, 3, 5)
    assert wrong.responses[0].partitions[0].error_code == code("INVALID_REQUEST")
    produce(broker, 1)
    more = fetch(broker, version, 4, acks=[(3, 3, 2), (4, 4, 1)])
    assert read_acquired(more) == [(3, 3, 2), (5, 5, 1)]
    for describe in versions("DescribeShareGroupOffsets"):
        (row,) = offsets(broker, describe).topics[0].partitions
        assert (row.start_offset, row.lag) == (3, 2 if describe else -1)
    broker.kill()
    assert join(broker).member_epoch == 3
    again = fetch(broker, version, 0)
    # the delivery count in the log increases when an acknowledgement is stored
    assert read_acquired(again)[0] == (3, 3, 2)


def test_share_sessions_have_epochs(broker):
    join(broker)
    assert fetch(broker, 1, 5).error_code == code("SHARE_SESSION_NOT_FOUND")
    assert acknowledge(broker, 1, 0, 0, 0).error_code == code("INVALID_SHARE_SESSION_EPOCH")
    assert fetch(broker, 1, 0).error_code == 0
    assert fetch(broker, 1, 3).error_code == code("INVALID_SHARE_SESSION_EPOCH")
    assert fetch(broker, 1, 1).error_code == 0
    assert fetch(broker, 1, -1).error_code == 0
    assert fetch(broker, 1, 2).error_code == code("SHARE_SESSION_NOT_FOUND")
    assert fetch(broker, 1, 0, group_id=None).error_code == code("INVALID_REQUEST")


def test_closing_a_share_session_releases_its_records(broker):
    join(broker)
    produce(broker, 3)
    assert read_acquired(fetch(broker, 1, 0)) == [(0, 2, 1)]
    assert read_acquired(fetch(broker, 1, 0, member="n")) == []
    fetch(broker, 1, -1)
    assert read_acquired(fetch(broker, 1, 1, member="n")) == [(0, 2, 2)]


def test_a_lost_connection_closes_its_share_session(broker):
    join(broker)
    produce(broker, 3)
    assert read_acquired(fetch(broker, 1, 0)) == [(0, 2, 1)]
    broker.close()
    assert fetch(broker, 1, 1).error_code == code("SHARE_SESSION_NOT_FOUND")
    assert read_acquired(fetch(broker, 1, 0)) == [(0, 2, 2)]


def test_fetch_does_not_acquire_after_the_groups_last_session_has_ended(broker):
    """Share schedules with seeds 3006 and 6843: the end of an old connection is noticed while a fetch waits on a new
    one. The waiting fetch acquired records in the dropped state, so that other members received them as well.
    """
    broker.state.waits = broker.clock
    join(broker)
    assert read_acquired(fetch(broker, 1, 0)) == []
    old_connection, broker.session = broker.session, Session(peer="127.0.0.1:5001")
    waiting = fetch(broker, 1, 1, max_wait_ms=60_000)
    for call in old_connection.when_closed.values():
        call()
    produce(broker, 2)
    assert waiting.body is None
    assert read_acquired(fetch(broker, 1, 0, member="n")) == [(0, 1, 1)]
    broker.clock.advance(61)
    assert read_acquired(waiting.body) == []


def test_a_share_fetch_waits_for_records_and_for_expired_acquisition_locks(broker):
    join(broker)
    waiting = fetch(broker, 1, 0, max_wait_ms=60_000)
    assert isinstance(waiting, PendingAnswer)
    produce(broker, 2)
    assert read_acquired(waiting.body) == [(0, 1, 1)]
    waiting = fetch(broker, 1, 0, member="n", max_wait_ms=60_000)
    broker.clock.advance(31)
    assert read_acquired(waiting.body) == [(0, 1, 2)]


def test_max_records_is_a_strict_limit_only_in_record_limit_mode(broker):
    join(broker)
    produce(broker, 10)
    produce(broker, 10)
    assert read_acquired(fetch(broker, 1, 0, max_records=4)) == [(0, 9, 1)]
    assert read_acquired(fetch(broker, 2, 1, max_records=4, share_acquire_mode=1)) == [(10, 13, 1)]
    assert read_acquired(fetch(broker, 2, 2, max_records=4, share_acquire_mode=1)) == [(14, 17, 1)]


def produce_in_transaction(broker, *, commit: bool) -> None:
    producer_answer = broker.send("InitProducerId", 4, transactional_id="t", transaction_timeout_ms=60_000)
    producer = {"producer_id": producer_answer.producer_id, "producer_epoch": producer_answer.producer_epoch}
    added_topic = message("AddPartitionsToTxnRequest").AddPartitionsToTxnTopic(name="orders", partitions=[0])
    broker.send(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer_answer.producer_id,
        v3_and_below_producer_epoch=producer_answer.producer_epoch,
        v3_and_below_topics=[added_topic],
    )
    records = build_batch([(None, b"v")] * 2, timestamp_ms=START_MS, transactional=True, base_sequence=0, **producer)
    request_type = message("ProduceRequest")
    data = request_type.TopicProduceData(
        name="orders", partition_data=[request_type.PartitionProduceData(index=0, records=records)]
    )
    broker.send("Produce", 9, transactional_id="t", acks=-1, timeout_ms=1000, topic_data=[data])
    broker.send("EndTxn", 3, transactional_id="t", committed=commit, **producer)


def test_read_committed_share_groups_skip_aborted_records(broker):
    broker.state.metadata.entities["group_configs"]["g"]["share.isolation.level"] = "read_committed"
    join(broker)
    produce_in_transaction(broker, commit=False)
    produce_in_transaction(broker, commit=True)
    answer = fetch(broker, 1, 0)
    assert read_acquired(answer) == [(2, 5, 1)]  # the acquired range includes both markers, which consumers skip
    acknowledge(broker, 1, 1, 2, 5)
    assert next(iter(broker.state.share_groups.partitions.values())).start == 6


def test_a_share_fetch_of_an_unknown_topic_is_rejected(broker):
    from uuid import UUID

    request_type = message("ShareFetchRequest")
    topic = request_type.FetchTopic(topic_id=UUID(int=9), partitions=[request_type.FetchPartition(partition_index=0)])
    answer = broker.send(
        "ShareFetch", 1, group_id="g", member_id="m", share_session_epoch=0, topics=[topic], max_records=1
    )
    assert answer.responses[0].partitions[0].error_code == code("UNKNOWN_TOPIC_ID")


def test_an_admin_client_describes_alters_and_deletes_share_group_offsets(broker):
    assert join(broker).assignment.topic_partitions == []
    heartbeat = broker.send("ShareGroupHeartbeat", 1, group_id="g", member_id="m", member_epoch=2)
    assert [partition.partitions for partition in heartbeat.assignment.topic_partitions] == [[0]]
    group, missing = broker.send("ShareGroupDescribe", 1, group_ids=["g", "none"]).groups
    assert (group.group_state, group.assignor_name, group.members[0].member_id) == ("Stable", "simple", "m")
    assert missing.error_code == code("GROUP_ID_NOT_FOUND")
    (group_row,) = broker.send("ListGroups", 5, types_filter=["share"]).groups
    assert (group_row.group_id, group_row.group_type) == ("g", "share")
    alter = message("AlterShareGroupOffsetsRequest")
    row = alter.AlterShareGroupOffsetsRequestPartition
    topics = [
        alter.AlterShareGroupOffsetsRequestTopic(
            topic_name="orders",
            partitions=[row(partition_index=0, start_offset=2), row(partition_index=7, start_offset=2)],
        )
    ]
    refusal = broker.send("AlterShareGroupOffsets", 0, group_id="g", topics=topics)
    assert refusal.error_code == code("NON_EMPTY_GROUP")
    broker.send("ShareGroupHeartbeat", 1, group_id="g", member_id="m", member_epoch=-1)
    altered_partitions = broker.send("AlterShareGroupOffsets", 0, group_id="g", topics=topics).responses[0].partitions
    assert [partition.error_code for partition in altered_partitions] == [0, code("UNKNOWN_TOPIC_OR_PARTITION")]
    assert offsets(broker, 1).topics[0].partitions[0].start_offset == 2
    delete = message("DeleteShareGroupOffsetsRequest").DeleteShareGroupOffsetsRequestTopic
    rows = broker.send(
        "DeleteShareGroupOffsets", 0, group_id="g", topics=[delete(topic_name="orders"), delete(topic_name="gone")]
    ).responses
    assert [row.error_code for row in rows] == [0, code("UNKNOWN_TOPIC_OR_PARTITION")]
    assert offsets(broker, 1).topics == []
    missing = offsets(broker, 1, group_id="none")
    assert (missing.error_code, missing.topics) == (0, [])  # as Kafka 4.3.1 answers


def test_deleting_a_group_or_topic_deletes_its_share_states(broker):
    join(broker)
    produce(broker, 2)
    assert read_acquired(fetch(broker, 1, 0)) == [(0, 1, 1)]
    broker.send("ShareGroupHeartbeat", 1, group_id="g", member_id="m", member_epoch=-1)
    states = broker.state.share_groups
    assert len(states.stored_states) == 1
    deleted_groups = broker.send("DeleteGroups", 2, groups_names=["g"]).results
    assert ([group.error_code for group in deleted_groups], states.stored_states) == ([0], {})
    broker.clock.advance(60)  # the acquisition lock of a deleted state
    join(broker)
    fetch(broker, 1, 0)
    broker.send("DeleteTopics", 5, topic_names=["orders"], timeout_ms=1000)
    assert states.stored_states == {}
