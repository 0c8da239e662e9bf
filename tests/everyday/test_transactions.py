"""Use of transactions."""

import time

import pytest
from tests.everyday.behaviours import peers_with

from kafkaframes.client import CommittedOffset, Consumer, Producer, TopicPartition
from kafkaframes.errors import BrokerError, KafkaframesError, OptionError, ProducerFencedError


@pytest.fixture
def producer(servers, topic):
    with Producer(servers, transactional_id=topic, linger_ms=0, retry_backoff_ms=10) as producer:
        yield producer


def wait_until_stable(servers, topic):
    """Wait until the markers of all transactions are written: a commit returns before the leaders have them."""
    deadline = time.monotonic() + 60
    with Consumer(servers, isolation_level="read_committed") as stable, Consumer(servers) as plain:
        partitions = plain.partitions_for(topic)
        while stable.end_offsets(partitions) != plain.end_offsets(partitions):
            assert time.monotonic() < deadline, f"a transaction on {topic} is still open"


def read_values(servers, topic, isolation_level="read_committed", *, is_open=False):
    """Return the values of a topic up to its end, at an isolation level.

    Args:
        is_open: whether to read while a transaction is open, without waiting for its end.
    """
    if not is_open:
        wait_until_stable(servers, topic)
    values = []
    with Consumer(servers, auto_offset_reset="earliest", isolation_level=isolation_level) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(one) < end for one, end in ends.items()):
            values += [record.value for record in consumer.poll(20)]
    return sorted(values)


@peers_with(
    java="testBasicTransactions",
    aiokafka="test_producer_transactional_simple",
    confluent="test_commit_transaction",
    kafka_python="test_transactional_producer_messages",
)
def test_a_committed_transaction_is_read(servers, producer, topic):
    producer.begin_transaction()
    for number in range(3):
        producer.send(topic, b"%d" % number, partition=number)
    producer.commit_transaction()
    assert read_values(servers, topic) == [b"0", b"1", b"2"]


@peers_with(
    java="testBasicTransactions", aiokafka="test_consumer_transactional_abort", confluent="test_abort_transaction"
)
def test_an_aborted_transaction_is_not_read(servers, producer, topic):
    producer.begin_transaction()
    producer.send(topic, b"v", partition=0).result()
    producer.abort_transaction()
    assert read_values(servers, topic) == []
    assert read_values(servers, topic, "read_uncommitted") == [b"v"]


@peers_with(
    confluent="test_abort_retry_commit_transaction",
    kafka_python="test_transactional_producer_messages",
    aiokafka="test_consumer_several_transactions",
)
def test_records_of_an_aborted_transaction_can_be_sent_again(servers, producer, topic):
    producer.begin_transaction()
    producer.send(topic, b"first", partition=0).result()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(topic, b"second", partition=0)
    producer.commit_transaction()
    assert read_values(servers, topic) == [b"second"]


@peers_with(
    java="testReadCommittedConsumerShouldNotSeeUndecidedData", confluent="test_open_transaction_stalls_share_group"
)
def test_an_open_transaction_hides_later_records_from_read_committed(servers, producer, topic):
    producer.begin_transaction()
    producer.send(topic, b"open", partition=0).result()
    with Producer(servers) as other:
        other.send(topic, b"plain", partition=0).result()
    assert read_values(servers, topic, is_open=True) == []
    assert read_values(servers, topic, "read_uncommitted", is_open=True) == [b"open", b"plain"]
    producer.commit_transaction()
    assert read_values(servers, topic) == [b"open", b"plain"]


@peers_with(java="testReadCommittedConsumerShouldNotSeeUndecidedData")
def test_the_end_offset_is_the_last_stable_offset_with_read_committed(servers, producer, topic):
    first = TopicPartition(topic, 0)
    producer.begin_transaction()
    producer.send(topic, b"open", partition=0).result()
    ends = {}
    for level in ("read_committed", "read_uncommitted"):
        with Consumer(servers, isolation_level=level) as consumer:
            ends[level] = consumer.end_offsets([first])[first]
    producer.abort_transaction()
    assert ends == {"read_committed": 0, "read_uncommitted": 1}


@peers_with(aiokafka="test_producer_transactional_empty_txn")
@pytest.mark.parametrize("commits", [True, False])
def test_an_empty_transaction_can_be_committed_and_aborted(producer, commits):
    for _ in range(2):
        producer.begin_transaction()
        producer.commit_transaction() if commits else producer.abort_transaction()


@peers_with(java="testMultipleMarkersOneLeader", confluent="test_commit_multiple_topics_partitions")
def test_a_transaction_covers_several_topics(broker, servers, producer, topic):
    broker.create_topic(f"{topic}-2", 2)
    producer.begin_transaction()
    for name, partition in [(topic, 0), (topic, 2), (f"{topic}-2", 1)]:
        producer.send(name, b"v", partition=partition)
    producer.commit_transaction()
    assert read_values(servers, topic) == [b"v", b"v"]
    assert read_values(servers, f"{topic}-2") == [b"v"]


@peers_with(aiokafka="test_producer_transactional_flush_before_commit", java="testFlushCompleteSendOfInflightBatches")
def test_committing_a_transaction_sends_all_pending_records(servers, topic):
    with Producer(servers, transactional_id=topic, linger_ms=60_000) as producer:
        producer.begin_transaction()
        futures = [producer.send(topic, b"%d" % number) for number in range(20)]
        producer.commit_transaction()
        assert all(future.done() for future in futures)
    assert len(read_values(servers, topic)) == 20


@peers_with(
    kafka_python="test_transaction_aborted_error_on_user_abort_with_undrained_batches",
    java="testAbortTransaction",
    confluent="test_abort_transaction",
)
def test_aborting_a_transaction_fails_pending_records(broker, servers, topic):
    with Producer(servers, transactional_id=topic, linger_ms=60_000) as producer:
        producer.begin_transaction()
        future = producer.send(topic, b"v")
        producer.abort_transaction()
        with pytest.raises(KafkaframesError, match="aborted"):
            future.result()
    assert broker.records(topic) == []


@peers_with(
    aiokafka="test_producer_transactional_send_message_outside_txn",
    confluent="test_transaction_api",
    ours="the record's future has the error as well",
)
def test_send_outside_a_transaction_is_rejected(broker, producer, topic):
    with pytest.raises(OptionError, match="begin_transaction"):
        producer.send(topic, b"v").result()
    assert broker.records(topic) == []


@peers_with(aiokafka="test_producer_require_transactional_id", confluent="test_transaction_api")
def test_a_transaction_needs_a_transactional_id(servers):
    with Producer(servers) as producer, pytest.raises(OptionError, match="transactional_id"):
        producer.begin_transaction()


@peers_with(kafka_python="test_invalid_entry_states", confluent="test_transaction_api")
def test_a_second_begin_is_rejected(producer):
    producer.begin_transaction()
    with pytest.raises(OptionError):
        producer.begin_transaction()
    producer.abort_transaction()


@peers_with(kafka_python="test_invalid_entry_states", confluent="test_transaction_api")
@pytest.mark.parametrize("method", ["commit_transaction", "abort_transaction"])
def test_ending_without_a_transaction_is_rejected(producer, method):
    with pytest.raises(OptionError):
        getattr(producer, method)()


@peers_with(
    java="testFencingOnSend",
    aiokafka="test_producer_transactional_fences_off_previous",
    kafka_python="test_producer_fenced_is_fatal",
)
def test_a_second_producer_of_the_same_id_fences_the_first(servers, producer, topic):
    producer.begin_transaction()
    producer.send(topic, b"old", partition=0).result()
    with Producer(servers, transactional_id=topic) as second:
        fenced_future = producer.send(topic, b"fenced", partition=0)
        with pytest.raises(ProducerFencedError):
            fenced_future.result()
        with pytest.raises(BrokerError):
            producer.commit_transaction()
        second.begin_transaction()
        second.send(topic, b"new", partition=0)
        second.commit_transaction()
    assert read_values(servers, topic) == [b"new"]


@peers_with(java="testFencingOnCommit")
def test_a_fenced_producer_cannot_commit(servers, producer, topic):
    producer.begin_transaction()
    producer.send(topic, b"old", partition=0).result()
    with Producer(servers, transactional_id=topic), pytest.raises(ProducerFencedError):
        producer.commit_transaction()
    assert read_values(servers, topic) == []


@peers_with(aiokafka="test_producer_transactional_restart_reaquire_pid", java="testConsecutivelyRunInitTransactions")
def test_a_restarted_producer_keeps_its_id_with_a_higher_epoch(servers, topic):
    identities = []
    for _ in range(2):
        with Producer(servers, transactional_id=topic) as producer:
            identities.append(producer.identity)
    assert identities[0].producer_id == identities[1].producer_id
    assert identities[0].epoch < identities[1].epoch


@peers_with(java="testAbortTransaction", aiokafka="test_producer_transactional_restart_reaquire_pid")
def test_a_new_producer_aborts_the_open_transaction_of_a_lost_one(servers, topic):
    lost_producer = Producer(servers, transactional_id=topic)
    lost_producer.begin_transaction()
    lost_producer.send(topic, b"lost_producer", partition=0).result()
    lost_producer.close(flush=False)
    with Producer(servers, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"new", partition=0)
        producer.commit_transaction()
    assert read_values(servers, topic) == [b"new"]


@peers_with(
    java="testSendOffsetsWithGroupId",
    aiokafka="test_producer_transactional_send_offsets_to_transaction",
    confluent="test_send_offsets_committed_transaction",
    kafka_python="test_transactional_producer_offsets",
)
def test_offsets_are_committed_with_the_transaction(broker, admin, producer, topic):
    first = TopicPartition(topic, 0)
    producer.begin_transaction()
    producer.send(topic, b"v", partition=0)
    producer.send_offsets_to_transaction({first: 7}, topic)
    producer.commit_transaction()
    broker.wait_for(lambda: admin.group_offsets(topic))
    assert admin.group_offsets(topic)[first].offset == 7


@peers_with(java="testOffsetMetadataInSendOffsetsToTransaction")
def test_offsets_of_a_transaction_keep_their_metadata(broker, admin, producer, topic):
    first = TopicPartition(topic, 0)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({first: CommittedOffset(7, metadata="größe")}, topic)
    producer.commit_transaction()
    broker.wait_for(lambda: admin.group_offsets(topic))
    assert admin.group_offsets(topic)[first] == CommittedOffset(7, metadata="größe")


@peers_with(aiokafka="test_producer_transactional_send_offsets_and_abort")
def test_offsets_are_not_committed_by_an_aborted_transaction(servers, admin, producer, topic):
    producer.begin_transaction()
    producer.send(topic, b"v", partition=0).result()
    producer.send_offsets_to_transaction({TopicPartition(topic, 0): 7}, topic)
    producer.abort_transaction()
    assert admin.group_offsets(topic) == {}


@peers_with(java="testSendOffsetsWithGroupMetadata", kafka_python="test_v3_request_carries_member_and_generation")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_transaction_can_consume_and_produce_records(broker, servers, producer, topic, protocol):
    output = f"{topic}-output"
    broker.create_topic(output)
    broker.append(topic, [{"value": b"%d" % number} for number in range(5)], partition=0)
    settings = {"group_protocol": protocol, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer(servers, group_id=topic, **settings) as consumer:
        consumer.subscribe([topic])
        records = []
        broker.wait_for(lambda: records.extend(consumer.poll(100)) or len(records) == 5, timeout=30)
        producer.begin_transaction()
        for record in records:
            producer.send(output, record.value * 2)
        offsets = {partition: consumer.position(partition) for partition in consumer.assignment()}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()
        assert consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].offset == 5
    assert read_values(servers, output) == [b"00", b"11", b"22", b"33", b"44"]


@peers_with(java="testFencingOnSendOffsets", confluent="test_send_offsets_to_transaction")
def test_a_fenced_producer_cannot_commit_offsets(servers, admin, producer, topic):
    producer.begin_transaction()
    producer.send(topic, b"old", partition=0).result()
    with Producer(servers, transactional_id=topic), pytest.raises(ProducerFencedError):
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): 7}, topic)
    assert admin.group_offsets(topic) == {}


@peers_with(
    java="testCommitTransactionWithRecordTooLargeException",
    aiokafka="test_producer_transactional_aborting_previous_failure",
)
def test_a_transaction_with_a_failed_record_cannot_be_committed(broker, servers, producer, topic):
    broker.configure_topic(topic, **{"max.message.bytes": 500})
    producer.begin_transaction()
    producer.send(topic, b"small", partition=0)
    large = producer.send(topic, b"x" * 1_000, partition=1)
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
        large.result()
    with pytest.raises(KafkaframesError, match="abort"):
        producer.commit_transaction()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(topic, b"again", partition=0)
    producer.commit_transaction()
    assert read_values(servers, topic) == [b"again"]


@peers_with(
    java="testAcksAndIdempotenceForIdempotentProducers", kafka_python="test_transactional_id_with_acks_1_raises"
)
def test_a_transactional_id_with_fewer_acks_is_rejected(servers):
    with pytest.raises(OptionError, match="acks"):
        Producer(servers, transactional_id="t", acks=1)


@peers_with(
    kafka_python="test_transactional_id_with_disabled_idempotence_raises",
    aiokafka="test_producer_idempotence_configuration",
)
def test_a_transactional_id_without_idempotence_is_rejected(servers):
    with pytest.raises(OptionError, match="idempotence"):
        Producer(servers, transactional_id="t", enable_idempotence=False)


@peers_with(java="testDelayedFetchIncludesAbortedTransaction", aiokafka="test_solitary_abort_marker")
def test_a_reader_waits_across_aborted_records(servers, producer, topic):
    first = TopicPartition(topic, 0)
    with Consumer(servers, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([first])
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0).result()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"committed", partition=0)
        producer.commit_transaction()
        while not (records := consumer.poll(20_000)):  # as in Java, a poll may end after the marker
            assert consumer.position(first) < 3
    assert [(record.offset, record.value) for record in records] == [(2, b"committed")]


@peers_with(java="testDescribeTransactions", kafka_python="test_routes_to_transaction_coordinator")
def test_an_open_transaction_is_described(admin, producer, topic):
    producer.begin_transaction()
    producer.send(topic, b"v", partition=1).result()
    description = admin.describe_transactions([topic])[topic]
    producer.abort_transaction()
    assert description.state == "Ongoing"
    assert list(description.partitions) == [TopicPartition(topic, 1)]
