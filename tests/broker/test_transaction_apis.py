"""The APIs of transactions at every version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.direct import DirectBroker, versions

from kafkaframes.broker.state.internal import build_batch
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message


def code(name: str) -> int:
    return ErrorCode[name]


@pytest.fixture
def broker():
    broker = DirectBroker()
    broker.state.create_topic("orders", 2)
    return broker


def init_producer(broker, version: int = 4, **changes: Any) -> Any:
    fields = {"transactional_id": "t", "transaction_timeout_ms": 60_000}
    return broker.send("InitProducerId", version, **fields | changes)


def add_partitions(
    broker, version: int, epoch: int = 0, *, topic: str = "orders", indexes: tuple[int, ...] = (0,)
) -> list[int]:
    request_type = message("AddPartitionsToTxnRequest")
    topics = [request_type.AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))]
    if version < 4:
        answer = broker.send(
            "AddPartitionsToTxn",
            version,
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=0,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        rows = answer.results_by_topic_v3_and_below
    else:
        partition_result = request_type.AddPartitionsToTxnTransaction(
            transactional_id="t", producer_id=0, producer_epoch=epoch, topics=topics
        )
        rows = (
            broker.send("AddPartitionsToTxn", version, transactions=[partition_result])
            .results_by_transaction[0]
            .topic_results
        )
    return [partition_result.partition_error_code for row in rows for partition_result in row.results_by_partition]


def end_transaction(broker, version: int, epoch: int = 0, *, is_commit: bool = True) -> Any:
    return broker.send(
        "EndTxn", version, transactional_id="t", producer_id=0, producer_epoch=epoch, committed=is_commit
    )


@pytest.mark.parametrize("setting", ["kafka", "reject", "reassign", "keep"])
@pytest.mark.parametrize("is_commit", [True, False])
def test_rules_for_offset_gaps_do_not_apply_to_the_brokers_own_records(setting, is_commit):
    broker = DirectBroker(kafkaframes_on_noncontiguous=setting)
    broker.state.create_topic("orders", 1)
    for epoch in (0, 1):  # the second record of each log has an offset other than 0
        assert [
            init_producer(broker).error_code,
            add_partitions(broker, 3, epoch),
            end_transaction(broker, 3, epoch, is_commit=is_commit).error_code,
        ] == [
            0,
            [0],
            0,
        ]
        join_answer = broker.send(
            "ConsumerGroupHeartbeat",
            1,
            group_id="cg",
            member_id=f"m{epoch}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        assert join_answer.error_code == 0
    assert broker.state.partition("orders", 0).log.log_end_offset == 2


@pytest.mark.parametrize("version", versions("InitProducerId"))
def test_init_producer_id_bumps_the_epoch_and_fences_the_previous_producer(broker, version):
    assert [
        (one.producer_id, one.producer_epoch)
        for one in (init_producer(broker, version), init_producer(broker, version))
    ] == [
        (0, 0),
        (0, 1),
    ]
    assert init_producer(broker, version, transactional_id=None).producer_id == 1
    assert init_producer(broker, version, transactional_id="").error_code == code("INVALID_REQUEST")
    too_long = init_producer(broker, version, transaction_timeout_ms=900_001)
    assert (too_long.error_code, too_long.producer_id, too_long.producer_epoch) == (
        code("INVALID_TRANSACTION_TIMEOUT"),
        -1,
        -1,
    )
    if version >= 3:
        assert init_producer(broker, version, producer_id=0, producer_epoch=1).producer_epoch == 2
        fenced_answer = init_producer(broker, version, producer_id=0, producer_epoch=0)
        assert fenced_answer.error_code == code("PRODUCER_FENCED" if version >= 4 else "INVALID_PRODUCER_EPOCH")
        assert init_producer(broker, version, producer_id=0, producer_epoch=-1).error_code == code("INVALID_REQUEST")


@pytest.mark.parametrize("version", versions("AddPartitionsToTxn"))
def test_add_partitions(broker, version):
    init_producer(broker)
    assert add_partitions(broker, version, indexes=(0, 1)) == [0, 0]
    unknown = code("UNKNOWN_TOPIC_OR_PARTITION"), code("OPERATION_NOT_ATTEMPTED")
    assert add_partitions(broker, version, indexes=(7, 1)) == list(unknown)
    assert add_partitions(broker, version, topic="gone") == [unknown[0]]
    fenced_code = code("PRODUCER_FENCED" if version >= 2 else "INVALID_PRODUCER_EPOCH")
    assert add_partitions(broker, version, epoch=5) == [fenced_code]


@pytest.mark.parametrize("version", [4, 5])
def test_partitions_are_verified_and_not_added(broker, version):
    init_producer(broker)
    add_partitions(broker, 3, indexes=(0,))
    request_type = message("AddPartitionsToTxnRequest")
    topics = [request_type.AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])]
    partition_result = request_type.AddPartitionsToTxnTransaction(
        transactional_id="t", producer_id=0, producer_epoch=0, verify_only=True, topics=topics
    )
    (result,) = broker.send("AddPartitionsToTxn", version, transactions=[partition_result]).results_by_transaction
    codes = [partition_result.partition_error_code for partition_result in result.topic_results[0].results_by_partition]
    assert codes == [0, code("TRANSACTION_ABORTABLE")]


@pytest.mark.parametrize("version", versions("EndTxn"))
def test_end_txn_requires_the_current_epoch(broker, version):
    init_producer(broker)
    assert end_transaction(broker, version).error_code == code("INVALID_TXN_STATE")
    add_partitions(broker, 3)
    end_answer = end_transaction(broker, version)
    assert (end_answer.error_code, end_answer.producer_id, end_answer.producer_epoch) == (
        (0, 0, 1) if version >= 5 else (0, -1, -1)
    )
    fenced_answer = end_transaction(broker, version, epoch=9)
    assert fenced_answer.error_code == code("PRODUCER_FENCED" if version >= 2 else "INVALID_PRODUCER_EPOCH")
    assert broker.state.partition("orders", 0).log.log_end_offset == 1  # the marker
    assert broker.state.partition("orders", 1).log.log_end_offset == 0


@pytest.mark.parametrize("version", versions("AddOffsetsToTxn"))
@pytest.mark.parametrize("commit_version", versions("TxnOffsetCommit"))
def test_transaction_offsets_become_visible_when_the_transaction_ends(broker, version, commit_version):
    init_producer(broker)
    fields = {"transactional_id": "t", "group_id": "g", "producer_id": 0, "producer_epoch": 0}
    request_type = message("TxnOffsetCommitRequest")
    row = request_type.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata="m")
    naming = {"topic_id": broker.state.topics["orders"].topic_id} if commit_version >= 6 else {"name": "orders"}
    topics = [request_type.TxnOffsetCommitRequestTopic(partitions=[row], **naming)]

    def commit_in_transaction(**changes: Any) -> int:
        answer = broker.send("TxnOffsetCommit", commit_version, topics=topics, **fields | changes)
        return answer.topics[0].partitions[0].error_code

    if commit_version < 5:
        missing = "TRANSACTION_ABORTABLE" if commit_version == 4 else "INVALID_TXN_STATE"
        assert commit_in_transaction() == code(missing)  # the group is not part of the transaction yet
        wrong = broker.send("AddOffsetsToTxn", version, **fields | {"producer_epoch": 5}).error_code
        assert wrong == code("PRODUCER_FENCED" if version >= 2 else "INVALID_PRODUCER_EPOCH")
        assert broker.send("AddOffsetsToTxn", version, **fields).error_code == 0
    assert commit_in_transaction() == 0
    assert commit_in_transaction(producer_epoch=5) == code("INVALID_PRODUCER_EPOCH")
    if commit_version >= 3:
        assert commit_in_transaction(generation_id_or_member_epoch=3, member_id="x") == code("UNKNOWN_MEMBER_ID")
    assert fetch_committed(broker, stable=True) == code("UNSTABLE_OFFSET_COMMIT")
    assert end_transaction(broker, 4).error_code == 0
    assert fetch_committed(broker, stable=True) == 3


def fetch_committed(broker, *, stable: bool) -> int:
    """Return the committed offset, or an error code."""
    request_type = message("OffsetFetchRequest")
    topic_row = request_type.OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
    answer = broker.send("OffsetFetch", 7, group_id="g", topics=[topic_row], require_stable=stable)
    row = answer.topics[0].partitions[0]
    return row.error_code or row.committed_offset


def produce(broker, version: int, *, sequence: int = 0, epoch: int = 0, index: int = 0) -> int:
    request_type = message("ProduceRequest")
    records = build_batch(
        [(None, b"v")], timestamp_ms=1, producer_id=0, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    naming = {"topic_id": broker.state.topics["orders"].topic_id} if version >= 13 else {"name": "orders"}
    data = request_type.TopicProduceData(
        partition_data=[request_type.PartitionProduceData(index=index, records=records)], **naming
    )
    answer = broker.send("Produce", version, transactional_id="t", acks=-1, timeout_ms=1000, topic_data=[data])
    return answer.responses[0].partition_responses[0].error_code


@pytest.mark.parametrize("version", [3, 8, 10, 11, 12, 13])
def test_produce_checks_or_adds_the_partition(broker, version):
    init_producer(broker)
    missing = "TRANSACTION_ABORTABLE" if version == 11 else "INVALID_TXN_STATE"
    assert produce(broker, version) == (0 if version >= 12 else code(missing))
    add_partitions(broker, 3)
    assert produce(broker, version, sequence=int(version >= 12)) == 0
    init_producer(broker)  # aborts
    init_producer(broker)
    assert produce(broker, version) == code("INVALID_PRODUCER_EPOCH")


def test_markers_of_transaction_version_2_have_the_next_epoch_that_the_producer_continues_with(broker):
    init_producer(broker)
    assert produce(broker, 12) == 0
    assert end_transaction(broker, 5).producer_epoch == 1
    (state,) = broker.state.partition("orders", 0).log.producers.states.values()
    assert (state.producer_epoch, state.current_txn_first_offset, state.batches) == (1, -1, ())
    assert produce(broker, 12, epoch=1) == 0
    assert produce(broker, 12, epoch=0, sequence=1) == code("INVALID_PRODUCER_EPOCH")


@pytest.mark.parametrize("version", versions("WriteTxnMarkers"))
def test_an_admin_client_ends_a_hanging_transaction(broker, version):
    init_producer(broker)
    assert produce(broker, 12) == 0
    log = broker.state.partition("orders", 0).log
    assert log.last_stable_offset == 0
    request_type = message("WriteTxnMarkersRequest")
    topics = [request_type.WritableTxnMarkerTopic(name="orders", partition_indexes=[0, 9])]
    marker = request_type.WritableTxnMarker(producer_id=0, producer_epoch=0, transaction_result=False, topics=topics)
    (result,) = broker.send("WriteTxnMarkers", version, markers=[marker]).markers
    codes = [partition.error_code for partition in result.topics[0].partitions]
    assert codes == [0, code("UNKNOWN_TOPIC_OR_PARTITION")]
    assert log.last_stable_offset == 2


def test_producers_and_transactions_are_described(broker):
    init_producer(broker)
    assert produce(broker, 12) == 0
    request_type = message("DescribeProducersRequest")
    topics = [request_type.TopicRequest(name="orders", partition_indexes=[0, 9])]
    known_partition, missing = broker.send("DescribeProducers", 0, topics=topics).topics[0].partitions
    (producer,) = known_partition.active_producers
    assert (
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.current_txn_start_offset,
    ) == (
        0,
        0,
        0,
        0,
    )
    assert missing.error_code == code("UNKNOWN_TOPIC_OR_PARTITION")
    known_partition, missing = broker.send("DescribeTransactions", 0, transactional_ids=["t", "u"]).transaction_states
    assert (known_partition.transaction_state, known_partition.producer_id, known_partition.transaction_timeout_ms) == (
        "Ongoing",
        0,
        60_000,
    )
    assert [(topic.topic, topic.partitions) for topic in known_partition.topics] == [("orders", [0])]
    assert missing.error_code == code("TRANSACTIONAL_ID_NOT_FOUND")


@pytest.mark.parametrize("version", versions("ListTransactions"))
def test_transactions_are_listed(broker, version):
    init_producer(broker)
    add_partitions(broker, 3)
    init_producer(broker, transactional_id="other")

    def names(**filters: Any) -> set[str]:
        return {
            state.transactional_id for state in broker.send("ListTransactions", version, **filters).transaction_states
        }

    assert names() == {"t", "other"}
    assert names(state_filters=["Ongoing"]) == {"t"}
    answer = broker.send("ListTransactions", version, state_filters=["Odd"])
    assert (answer.unknown_state_filters, answer.transaction_states) == (["Odd"], [])
    assert names(producer_id_filters=[1]) == {"other"}


def test_transactions_are_listed_by_a_pattern(broker):
    bad = broker.send("ListTransactions", 2, transactional_id_pattern="(")
    assert bad.error_code == code("INVALID_REGULAR_EXPRESSION")
    init_producer(broker)
    init_producer(broker, transactional_id="other")
    answer = broker.send("ListTransactions", 2, transactional_id_pattern="o.*")
    assert [state.transactional_id for state in answer.transaction_states] == ["other"]
