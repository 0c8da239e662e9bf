"""Use of a consumer that reads assigned partitions."""

import threading

import pytest
from tests.everyday.behaviours import peers_with

from kafkaframes.client import CommittedOffset, Consumer, Producer, TopicPartition
from kafkaframes.errors import BrokerError, CorruptRecordError, KafkaframesError, NetworkError, OptionError


@pytest.fixture
def partition(topic):
    """The first partition of the topic."""
    return TopicPartition(topic, 0)


@pytest.fixture
def filled_partition(broker, partition):
    """The first partition of the topic, with ten records at 1000, 2000, ... ms, five in a batch."""
    for first in (0, 5):
        numbers = range(first, first + 5)
        records = [{"value": b"%d" % number, "timestamp": (number + 1) * 1_000} for number in numbers]
        broker.append(partition.topic, records, partition=0)
    return partition


@pytest.fixture
def consumer(servers):
    with Consumer(servers, auto_offset_reset="earliest") as consumer:
        yield consumer


def read(consumer, count):
    """Poll until ``count`` records are returned; return them."""
    records = []
    while len(records) < count:
        polled_records = consumer.poll(20_000)
        assert polled_records, f"received {len(records)} of {count} records"
        records += polled_records
    return records


def offsets_of(records):
    return [record.offset for record in records]


@peers_with(java="testAssignAndConsume", aiokafka="test_get_by_partition", kafka_python="test_kafka_consumer")
def test_an_assigned_partition_is_read_from_its_beginning(consumer, filled_partition):
    consumer.assign([filled_partition])
    records = read(consumer, 10)
    assert offsets_of(records) == list(range(10))
    assert [record.value for record in records] == [b"%d" % number for number in range(10)]


@peers_with(java="testAutoOffsetReset", aiokafka="test_offset_reset_strategy")
def test_latest_reads_only_new_records(broker, servers, filled_partition):
    with Consumer(servers, auto_offset_reset="latest") as consumer:
        consumer.assign([filled_partition])
        assert consumer.position(filled_partition) == 10
        broker.append(filled_partition.topic, [{"value": b"new"}], partition=0)
        assert [record.value for record in read(consumer, 1)] == [b"new"]


@peers_with(java="testMissingOffsetNoResetPolicy", aiokafka="test_offset_reset_manual")
def test_reading_fails_without_an_offset_and_a_reset_policy(servers, filled_partition):
    with (
        Consumer(servers, auto_offset_reset="none", group_id="never-committed") as consumer,
        pytest.raises(KafkaframesError, match="auto_offset_reset"),
    ):
        consumer.assign([filled_partition])


@peers_with(
    java="testSeek", aiokafka="test_consumer_seek_forward_getmany", kafka_python="test_partition_records_offset"
)
@pytest.mark.parametrize("offset", [0, 3, 7, 9])
def test_seek_reads_from_exactly_that_offset(consumer, filled_partition, offset):
    consumer.assign([filled_partition])
    consumer.seek(filled_partition, offset)
    assert offsets_of(read(consumer, 10 - offset)) == list(range(offset, 10))


@peers_with(kafka_python="#1214", aiokafka="test_consumer_compressed_returns_older_msgs")
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_seek_into_a_compressed_batch_returns_no_older_records(servers, consumer, partition, codec):
    with Producer(servers, compression_type=codec, linger_ms=60_000) as producer:
        for number in range(100):
            producer.send(partition.topic, b"%d" % number, partition=0)
    consumer.assign([partition])
    consumer.seek(partition, 80)
    assert offsets_of(consumer.poll(20_000, max_records=1)) == [80]
    assert offsets_of(read(consumer, 19)) == list(range(81, 100))


@peers_with(aiokafka="test_consumer_seek_backward", java="testSeek")
def test_seek_back_reads_records_again(consumer, filled_partition):
    consumer.assign([filled_partition])
    read(consumer, 10)
    consumer.seek(filled_partition, 8)
    assert offsets_of(read(consumer, 2)) == [8, 9]


@peers_with(kafka_python="#148", java="testOffsetIsValidAfterSeek")
def test_the_position_after_a_seek_is_the_offset(consumer, filled_partition):
    consumer.assign([filled_partition])
    consumer.seek(filled_partition, 6)
    assert consumer.position(filled_partition) == 6


@peers_with(java="testSeekNegative", aiokafka="test_consumer_seek_errors")
def test_seek_to_a_negative_offset_is_rejected(consumer, filled_partition):
    consumer.assign([filled_partition])
    with pytest.raises(OptionError, match="negative"):
        consumer.seek(filled_partition, -1)


@peers_with(java="testSeekThrowsIllegalStateIfPartitionsNotAssigned", aiokafka="test_consumer_seek_on_unassigned")
@pytest.mark.parametrize("method", ["position", "pause", "resume", "seek_to_beginning", "seek_to_end"])
def test_a_partition_that_is_not_assigned_is_rejected(consumer, filled_partition, method):
    consumer.assign([filled_partition])
    with pytest.raises(OptionError, match="not assigned"):
        getattr(consumer, method)(TopicPartition(filled_partition.topic, 1))


@peers_with(java="testSeekToBeginning", aiokafka="test_consumer_seek_to_beginning")
def test_seek_to_beginning_reads_everything_again(consumer, filled_partition):
    consumer.assign([filled_partition])
    read(consumer, 10)
    consumer.seek_to_beginning()
    assert offsets_of(read(consumer, 10)) == list(range(10))


@peers_with(
    java="testSeekToEnd",
    aiokafka="test_consumer_seek_to_end",
    kafka_python="test_kafka_consumer_position_after_seek_to_end",
)
def test_seek_to_end_skips_all_existing_records(broker, consumer, filled_partition):
    consumer.assign([filled_partition])
    consumer.seek_to_end(filled_partition)
    assert consumer.position(filled_partition) == 10
    broker.append(filled_partition.topic, [{"value": b"new"}], partition=0)
    assert offsets_of(read(consumer, 1)) == [10]


@peers_with(java="testFetchOutOfRangeOffsetResetConfigEarliest", aiokafka="test_offset_reset_strategy")
def test_an_offset_beyond_the_end_is_reset_to_earliest(consumer, filled_partition):
    consumer.assign([filled_partition])
    consumer.seek(filled_partition, 1_000)
    assert offsets_of(read(consumer, 10)) == list(range(10))


@peers_with(java="testFetchOutOfRangeOffsetResetConfigLatest")
def test_an_offset_beyond_the_end_is_reset_to_latest(broker, servers, filled_partition):
    with Consumer(servers, auto_offset_reset="latest") as consumer:
        consumer.assign({filled_partition: 1_000})
        broker.wait_for(lambda: consumer.poll(0) == [] and consumer.position(filled_partition) == 10)


@peers_with(java="testFetchInvalidOffset", kafka_python="test__parse_fetched_data__out_of_range")
def test_an_offset_beyond_the_end_is_an_error_without_a_reset_policy(servers, filled_partition):
    with Consumer(servers, auto_offset_reset="none") as consumer:
        consumer.assign({filled_partition: 1_000})
        with pytest.raises(KafkaframesError, match="1000"):
            consumer.poll(20_000)
        consumer.seek(filled_partition, 9)
        assert offsets_of(read(consumer, 1)) == [9]


@peers_with(java="testMaxPollRecords", aiokafka="test_max_poll_records")
def test_a_poll_returns_at_most_max_poll_records(servers, filled_partition):
    with Consumer(servers, auto_offset_reset="earliest", max_poll_records=3) as consumer:
        consumer.assign([filled_partition])
        polls = [offsets_of(consumer.poll(20_000)) for _ in range(4)]
    assert polls[0] == [0, 1, 2]
    assert all(len(poll) <= 3 for poll in polls)
    assert [offset for poll in polls for offset in poll] == list(range(sum(map(len, polls))))


@peers_with(java="testAutoCommitSentBeforePositionUpdate", kafka_python="test_kafka_consumer__blocking")
def test_the_position_follows_the_records_that_poll_returns(consumer, filled_partition):
    consumer.assign([filled_partition])
    assert consumer.position(filled_partition) == 0
    consumer.poll(20_000, max_records=4)
    assert consumer.position(filled_partition) == 4


@peers_with(java="testPollEventuallyReturnsRecordsWithZeroTimeout", confluent="test_poll_with_zero_timeout")
def test_repeated_polls_with_a_timeout_of_zero_return_all_records(broker, consumer, filled_partition):
    consumer.assign([filled_partition])
    records = []
    broker.wait_for(lambda: records.extend(consumer.poll(0)) or len(records) == 10)
    assert offsets_of(records) == list(range(10))


@peers_with(java="testPollReturnsRecords", confluent="test_poll_empty_existing_topic_returns_empty_then_delivers")
def test_poll_of_an_empty_partition_returns_nothing(consumer, partition):
    consumer.assign([partition])
    assert consumer.poll(10) == []


@peers_with(
    java="testPollWithNoSubscription",
    confluent="test_poll_without_subscription_raises_state",
    ours="no records and no error",
)
def test_poll_without_an_assignment_returns_nothing(consumer):
    assert consumer.poll(10) == []


@peers_with(java="testPause", aiokafka="test_consumer_pause_resume", kafka_python="test_paused")
def test_a_paused_partition_returns_nothing_until_it_is_resumed(consumer, filled_partition):
    consumer.assign([filled_partition])
    consumer.poll(20_000, max_records=2)
    consumer.pause(filled_partition)
    assert consumer.poll(20) == []
    consumer.resume(filled_partition)
    assert offsets_of(read(consumer, 8)) == list(range(2, 10))


@peers_with(java="testOffsetOfPausedPartitions", kafka_python="test_reset_offsets_paused")
def test_a_paused_partition_has_a_position(consumer, filled_partition):
    consumer.assign([filled_partition])
    consumer.pause(filled_partition)
    assert consumer.position(filled_partition) == 0
    consumer.seek(filled_partition, 4)
    assert consumer.position(filled_partition) == 4


@peers_with(
    kafka_python="test_fetched_records_other_partitions_progress_while_one_paused", java="testPartitionPauseAndResume"
)
def test_other_partitions_continue_while_one_is_paused(broker, consumer, filled_partition):
    second = TopicPartition(filled_partition.topic, 1)
    broker.append(filled_partition.topic, [{"value": b"v"}] * 3, partition=1)
    consumer.assign([filled_partition, second])
    consumer.pause(filled_partition)
    assert {record.partition for record in read(consumer, 3)} == {1}
    assert consumer.poll(20) == []


@peers_with(java="testConsumeMessagesWithCreateTime", confluent="test_timestamp_and_type_preserved")
def test_timestamps_are_returned_in_milliseconds(consumer, filled_partition):
    consumer.assign([filled_partition])
    assert [record.timestamp for record in read(consumer, 10)] == [(number + 1) * 1_000 for number in range(10)]


@peers_with(java="testHeaders", aiokafka="test_consumer_with_headers", confluent="test_header_order_preserved")
def test_headers_are_returned_in_their_order(servers, consumer, partition):
    headers = [("b", b"1"), ("a", None), ("b", b"3")]
    with Producer(servers) as producer:
        producer.send(partition.topic, b"v", headers=headers, partition=0)
    consumer.assign([partition])
    (record,) = read(consumer, 1)
    assert list(record.headers) == headers


@peers_with(confluent="test_zero_byte_and_null_key_value")
def test_null_and_empty_values_are_returned_unchanged(broker, consumer, partition):
    broker.append(partition.topic, [{"key": None, "value": b""}, {"key": b"", "value": None}], partition=0)
    consumer.assign([partition])
    assert [(record.key, record.value) for record in read(consumer, 2)] == [(None, b""), (b"", None)]


@peers_with(
    java="testFetchOffsetsForTime",
    aiokafka="test_offsets_for_times_single",
    kafka_python="test_kafka_consumer_offsets_for_time",
)
def test_offsets_are_found_by_time(consumer, filled_partition):
    for time_ms, expected_offset in [(0, 0), (1_000, 0), (1_001, 1), (5_500, 5), (10_000, 9)]:
        assert consumer.offsets_for_times({filled_partition: time_ms})[filled_partition].offset == expected_offset


@peers_with(
    java="testFetchOffsetsForTime", kafka_python="test_kafka_consumer_offsets_for_time", ours="offset -1, not None"
)
def test_a_time_after_the_last_record_has_no_offset(consumer, filled_partition):
    assert consumer.offsets_for_times({filled_partition: 10_001})[filled_partition].offset == -1


@peers_with(
    aiokafka="test_kafka_consumer_offsets_search_many_partitions",
    kafka_python="test_kafka_consumer_offsets_search_many_partitions",
)
def test_offsets_of_many_partitions_are_found_by_time(broker, consumer, topic):
    for number in range(3):
        broker.append(topic, [{"value": b"v", "timestamp": 1_000 + number}], partition=number)
    times = {TopicPartition(topic, number): 1_001 for number in range(3)}
    assert [offset.offset for offset in consumer.offsets_for_times(times).values()] == [-1, 0, 0]


@peers_with(
    java="testEndOffsets",
    kafka_python="test_kafka_consumer_offsets_for_time",
    aiokafka="test_kafka_consumer_offsets_errors",
)
def test_beginning_and_end_offsets_need_no_assignment(broker, consumer, filled_partition):
    empty = TopicPartition(filled_partition.topic, 2)
    assert consumer.end_offsets([filled_partition, empty]) == {filled_partition: 10, empty: 0}
    assert consumer.beginning_offsets([filled_partition, empty]) == {filled_partition: 0, empty: 0}


@peers_with(java="testPartitionsFor", kafka_python="test_consumer_topics")
def test_partitions_of_a_topic_are_listed(consumer, topic):
    assert consumer.partitions_for(topic) == [TopicPartition(topic, number) for number in range(3)]


@peers_with(java="testPartitionsForInvalidTopic")
def test_partitions_of_an_invalid_topic_are_an_error(consumer):
    with pytest.raises(BrokerError, match="INVALID_TOPIC"):
        consumer.partitions_for(";3# ads,{234")


@peers_with(java="testListTopics", kafka_python="test_consumer_topics", aiokafka="test_exclude_internal_topics")
def test_topics_are_listed_without_internal_ones(servers, consumer, filled_partition):
    with Consumer(servers, group_id="makes-the-internal-topic") as member:
        member.assign([filled_partition])
        member.commit()
    topics = consumer.topics()
    assert filled_partition.topic in topics
    assert "__consumer_offsets" not in topics


@peers_with(java="testAssign", kafka_python="test_assign", confluent="test_incremental_assign")
def test_a_second_assign_replaces_the_first(broker, consumer, filled_partition):
    second = TopicPartition(filled_partition.topic, 1)
    broker.append(filled_partition.topic, [{"value": b"other"}], partition=1)
    consumer.assign([filled_partition])
    read(consumer, 10)
    consumer.assign([second])
    assert consumer.assignment() == [second]
    assert [record.value for record in read(consumer, 1)] == [b"other"]


@peers_with(kafka_python="test_preserves_position_on_kept_partition")
def test_a_partition_in_both_assignments_keeps_its_position(consumer, filled_partition):
    consumer.assign([filled_partition])
    consumer.poll(20_000, max_records=4)
    consumer.assign([filled_partition, TopicPartition(filled_partition.topic, 1)])
    assert consumer.position(filled_partition) == 4
    assert offsets_of(read(consumer, 6)) == list(range(4, 10))


@peers_with(java="testPollWithEmptyUserAssignment", confluent="test_basic_api")
def test_an_empty_assignment_reads_nothing(consumer, filled_partition):
    consumer.assign([filled_partition])
    consumer.assign([])
    assert consumer.assignment() == []
    assert consumer.poll(10) == []


@peers_with(confluent="test_incremental_assign", java="testAssignAndConsumeSkippingPosition")
def test_assign_accepts_start_offsets(consumer, filled_partition):
    consumer.assign({filled_partition: 7})
    assert offsets_of(read(consumer, 3)) == [7, 8, 9]


@peers_with(java="testAssignAndConsumeFromCommittedOffsets", aiokafka="test_consumer_manual_assignment_with_group")
def test_assign_with_a_group_begins_at_the_committed_offset(servers, filled_partition):
    for expected_offset in (0, 5):
        with Consumer(servers, group_id=filled_partition.topic, auto_offset_reset="earliest") as consumer:
            consumer.assign([filled_partition])
            assert consumer.position(filled_partition) == expected_offset
            consumer.commit({filled_partition: 5})
            consumer.seek(filled_partition, 5)


@peers_with(java="testNullGroupIdNotSupportedIfCommitting", aiokafka="test_consumer_commit_no_group")
def test_commit_without_a_group_is_rejected(consumer, filled_partition):
    consumer.assign([filled_partition])
    for call in (consumer.commit, lambda: consumer.committed([filled_partition])):
        with pytest.raises(OptionError, match="group_id"):
            call()


@peers_with(java="testCommitMetadata", confluent="test_consumer_topicpartition_metadata")
def test_committed_offsets_keep_their_metadata(servers, filled_partition):
    with Consumer(servers, group_id=filled_partition.topic) as consumer:
        consumer.assign([filled_partition])
        consumer.commit({filled_partition: CommittedOffset(5, metadata="größe")})
        assert consumer.committed([filled_partition])[filled_partition].metadata == "größe"


@peers_with(java="testNoCommittedOffsets", aiokafka="test_consumer_commit", ours="left out of the result, not None")
def test_a_partition_without_a_committed_offset_is_not_in_the_result(servers, filled_partition):
    with Consumer(servers, group_id=filled_partition.topic) as consumer:
        assert consumer.committed([filled_partition]) == {}


@peers_with(
    java="testFetchRecordLargerThanMaxPartitionFetchBytes", kafka_python="test_kafka_consumer_max_bytes_one_msg"
)
def test_a_record_above_the_fetch_size_is_read(broker, servers, partition):
    broker.append(partition.topic, [{"value": b"x" * 50_000}], partition=0)
    settings = {"max_partition_fetch_bytes": 1_000, "fetch_max_bytes": 1_000}
    with Consumer(servers, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([partition])
        assert len(read(consumer, 1)[0].value) == 50_000


@peers_with(java="testFetchHonoursFetchSizeIfLargeRecordNotFirst", kafka_python="test_kafka_consumer_max_bytes_simple")
def test_small_fetches_of_many_partitions_skip_nothing(broker, servers, topic):
    for number in range(3):
        for size in (10, 5_000, 10):
            broker.append(topic, [{"value": b"x" * size}], partition=number)
    with Consumer(servers, auto_offset_reset="earliest", fetch_max_bytes=1_000) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        records = read(consumer, 9)
    for number in range(3):
        sizes = [len(record.value) for record in records if record.partition == number]
        assert sizes == [10, 5_000, 10]


@peers_with(
    java="testLowMaxFetchSizeForRequestAndPartition", confluent="test_single_consumer_multi_partition_full_coverage"
)
def test_records_of_a_partition_are_returned_in_order(broker, consumer, topic):
    for number in range(30):
        broker.append(topic, [{"value": b"%d" % number}], partition=number % 3)
    consumer.assign(consumer.partitions_for(topic))
    records = read(consumer, 30)
    for number in range(3):
        assert offsets_of(record for record in records if record.partition == number) == list(range(10))


@peers_with(aiokafka="test_compacted_topic_consumption", kafka_python="test_partition_records_compacted_offset")
def test_a_partition_with_offset_gaps_is_read_to_its_end(broker, consumer, admin, filled_partition):
    admin.delete_records({filled_partition: 4})
    consumer.assign([filled_partition])
    assert offsets_of(read(consumer, 6)) == [4, 5, 6, 7, 8, 9]


@peers_with(kafka_python="test_context_manager_closes_on_exit", confluent="test_consumer_context_manager_after_exit")
def test_a_closed_consumer_is_rejected(servers, filled_partition):
    with Consumer(servers) as consumer:
        consumer.assign([filled_partition])
    with pytest.raises(NetworkError, match="closed"):
        consumer.poll(0)


@peers_with(java="testCloseShouldBeIdempotent", confluent="test_double_close_is_idempotent")
def test_a_consumer_may_be_closed_twice(servers):
    consumer = Consumer(servers)
    consumer.close()
    consumer.close()


@peers_with(aiokafka="test_aiter", kafka_python="test_consumer")
def test_a_for_loop_reads_records_in_order(consumer, filled_partition):
    consumer.assign([filled_partition])
    offsets = []
    for record in consumer:
        offsets.append(record.offset)
        if len(offsets) == 10:
            break
    assert offsets == list(range(10))


@peers_with(aiokafka="test_consumer_position", java="testPositionAndCommit")
def test_leaving_a_for_loop_skips_nothing(consumer, filled_partition):
    consumer.assign([filled_partition])
    for record in consumer:
        if record.offset == 3:
            break
    assert consumer.position(filled_partition) == 4
    assert offsets_of(read(consumer, 6)) == list(range(4, 10))


@pytest.mark.embedded
@peers_with(aiokafka="test_consumer_invalid_crc_in_records", kafka_python="test__unpack_records_corrupted")
def test_a_damaged_batch_is_an_error_and_is_not_skipped(broker, consumer, filled_partition):
    with broker.on("Fetch", topic=filled_partition.topic).corrupt():
        consumer.assign([filled_partition])
        with pytest.raises(CorruptRecordError):
            consumer.poll(20_000)
        assert consumer.position(filled_partition) == 0


@peers_with(aiokafka="test_consumer_arguments", confluent="test_basic_api")
@pytest.mark.parametrize("settings", [{"auto_offset_reset": "newest"}, {"isolation_level": "read"}, {"colour": "red"}])
def test_a_wrong_setting_is_rejected_by_the_constructor(servers, settings):
    with pytest.raises(OptionError, match=next(iter(settings))):
        Consumer(servers, **settings)


@peers_with(confluent="test_basic_api", ours="Java's names and Python's are both accepted")
def test_settings_can_have_the_names_of_java_clients(servers, filled_partition):
    with Consumer({"bootstrap.servers": servers, "auto.offset.reset": "earliest", "max.poll.records": 2}) as consumer:
        consumer.assign([filled_partition])
        assert offsets_of(consumer.poll(20_000)) == [0, 1]


@peers_with(java="testPreventMultiThread", confluent="test_concurrent_thread_access_raises_conflict")
def test_two_threads_cannot_poll_the_same_consumer(broker, servers, partition):
    with Consumer(servers) as consumer:
        consumer.assign([partition])
        has_ended = threading.Event()

        def poll():
            while not has_ended.is_set():
                consumer.poll(60_000)

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            broker.wait_for(lambda: consumer._reader.locked())
            with pytest.raises(OptionError, match="another thread"):
                consumer.poll(0)
        finally:
            has_ended.set()
            broker.append(partition.topic, [{"value": b"end"}], partition=0)
            thread.join()
