"""Situations that users of other clients have reported, in which records were skipped, repeated or lost."""

import random

import pytest
from tests.everyday.behaviours import peers_with

from kafkaframes.broker import Broker
from kafkaframes.client import Consumer, Producer, TopicPartition
from kafkaframes.errors import KafkaframesError

QUICK_SETTINGS = {
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 50,
    "metadata_max_age_ms": 200,
    "retry_backoff_ms": 10,
}
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture
def filled_topic(broker, topic):
    """The topic, with 50 records in each of its three partitions, ten in a batch."""
    for partition in range(3):
        for first in range(0, 50, 10):
            broker.append(topic, [{"value": b"%d" % n} for n in range(first, first + 10)], partition=partition)
    return topic


def read(consumer, count, max_records=None):
    """Poll until ``count`` records are returned; return them."""
    records = []
    while len(records) < count:
        limit = None if max_records is None else min(max_records, count - len(records))
        positions = [consumer.position(partition) for partition in consumer.assignment()]
        polled_records = consumer.poll(20_000, max_records=limit)
        has_advanced = positions != [consumer.position(partition) for partition in consumer.assignment()]
        assert polled_records or has_advanced, f"received {len(records)} of {count} records"  # markers have no records
        records += polled_records
    return records


def offsets_of(records, partition):
    return [record.offset for record in records if record.partition == partition]


@peers_with(kafka_python="#2011")
def test_partitions_that_are_paused_in_turn_continue_where_they_stopped(servers, filled_topic):
    partitions = [TopicPartition(filled_topic, number) for number in range(3)]
    with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        records = {number: [] for number in range(3)}
        for turn in range(6):
            reading = partitions[turn % 3]
            consumer.pause(*partitions)
            consumer.resume(reading)
            for record in read(consumer, 10, max_records=7):
                assert record.partition == reading.partition
                records[record.partition].append(record.offset)
    assert records == {number: list(range(20)) for number in range(3)}


@peers_with(librdkafka="#3471")
def test_a_seek_before_a_pause_is_effective_after_resume(servers, filled_topic):
    first = TopicPartition(filled_topic, 0)
    with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([first])
        read(consumer, 5, max_records=5)
        consumer.seek(first, 2)
        consumer.pause(first)
        assert consumer.poll(20) == []
        consumer.resume(first)
        assert offsets_of(read(consumer, 3, max_records=3), 0) == [2, 3, 4]


@peers_with(librdkafka="#2593")
def test_resume_of_a_partition_that_is_not_paused_repeats_nothing(servers, filled_topic):
    first = TopicPartition(filled_topic, 0)
    offsets = []
    with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([first])
        while len(offsets) < 50:
            consumer.resume(first)
            offsets += offsets_of(consumer.poll(20_000, max_records=3), 0)
    assert offsets == list(range(50))


@peers_with(confluent="#1443")
def test_seek_back_after_each_poll_loses_no_records(servers, filled_topic):
    """Each poll returns up to five records, of which three are handled; the remaining records are read again."""
    first = TopicPartition(filled_topic, 0)
    handled_offsets = []
    with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([first])
        while len(handled_offsets) < 48:
            handled_offsets += offsets_of(consumer.poll(20_000, max_records=5), 0)[:3]
            consumer.seek(first, handled_offsets[-1] + 1)
    assert handled_offsets == list(range(len(handled_offsets)))


@peers_with(librdkafka="#1767")
@PROTOCOLS
def test_a_reassigned_partition_continues_at_the_offset_that_its_previous_owner_committed(
    broker, servers, filled_topic, protocol
):
    """The first member reads 5 records, leaves the partition paused, and loses it; the group commits 30 in the
    meantime.
    """
    first = TopicPartition(filled_topic, 0)
    settings = {"group_id": filled_topic, "group_protocol": protocol, "enable_auto_commit": False, **QUICK_SETTINGS}
    with Consumer(servers, **settings) as one:
        one.subscribe([filled_topic])
        broker.wait_for(lambda: one.poll(10, max_records=1) is not None and len(one.assignment()) == 3, timeout=30)
        one.pause(first)
        one.unsubscribe()
        broker.wait_for(lambda: one.poll(10) == [] and one.assignment() == [], timeout=30)
        with Consumer(servers, **settings) as two:
            two.subscribe([filled_topic])
            broker.wait_for(lambda: two.poll(10) is not None and len(two.assignment()) == 3, timeout=30)
            two.commit({first: 30})
        one.subscribe([filled_topic])
        records = []
        broker.wait_for(
            lambda: records.extend(one.poll(100)) or len(offsets_of(records, 0)) >= 20,
            timeout=30,
        )
    assert offsets_of(records, 0) == list(range(30, 50))


@pytest.mark.embedded
@peers_with(kafka_python="#2628")
@PROTOCOLS
@pytest.mark.parametrize("code", ["UNSTABLE_OFFSET_COMMIT", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"])
def test_a_failed_lookup_of_committed_offsets_resets_no_position(broker, servers, filled_topic, protocol, code):
    partitions = [TopicPartition(filled_topic, number) for number in range(3)]
    settings = {"group_id": filled_topic, "group_protocol": protocol, **QUICK_SETTINGS}
    with Consumer(servers, **settings) as consumer:
        consumer.commit(dict.fromkeys(partitions, 45))
    with broker.on("OffsetFetch").times(3).error(code), Consumer(servers, **settings) as member:
        member.subscribe([filled_topic])
        records = read(member, 15)
    assert sorted((record.partition, record.offset) for record in records) == [
        (p, n) for p in range(3) for n in range(45, 50)
    ]


@peers_with(brod="#659", java="testDelayedFetchIncludesAbortedTransaction")
def test_an_aborted_transaction_between_committed_ones_is_not_read(servers, topic):
    """All three transactions are in one response, from one producer; the first marker is a commit."""
    first = TopicPartition(topic, 0)
    with Producer(servers, transactional_id=topic, linger_ms=0) as producer:
        for number, end in enumerate(("commit", "abort", "commit", "abort", "abort", "commit")):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=0).result()
            producer.commit_transaction() if end == "commit" else producer.abort_transaction()
    with Consumer(servers, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([first])
        assert [record.value for record in read(consumer, 3)] == [b"0", b"2", b"5"]


@pytest.mark.embedded
@peers_with(kafkajs="#562", kafka_python="#1390")
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_offsets_that_compaction_has_removed_do_not_stop_a_reader(tmp_path, codec):
    """Reading starts at each offset, including those of removed records in the middle and at the end of a batch."""
    settings = {"segment_bytes": 1_048_576, "min_cleanable_dirty_ratio": 0.01, "cleanup_policy": "compact"}
    first = TopicPartition("t", 0)
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("t", **settings)
        keys = [b"%d" % (number % 7) for number in range(30)]
        with Producer(broker.bootstrap_servers, compression_type=codec, linger_ms=1_000) as producer:
            for number, key in enumerate(keys):
                producer.send("t", b"%d" % number, key=key)
                if number % 10 == 9:
                    producer.flush()
            for _ in range(3):  # these records fill the segment, because the active segment is not compacted
                producer.send("t", random.Random(1).randbytes(500_000), key=b"large").result()
        broker.wait_for(lambda: broker.clock.advance(16) or len(broker.records("t")) < 30)
        remaining = [record.offset for record in broker.records("t")]
        assert remaining[:7] == list(range(23, 30))
        with Consumer(broker.bootstrap_servers, max_partition_fetch_bytes=2_000) as consumer:
            for start in range(30):
                consumer.assign({first: start})
                expected_offsets = [offset for offset in remaining if start <= offset < 30]
                assert offsets_of(read(consumer, len(expected_offsets), max_records=7), 0) == expected_offsets


@peers_with(franz_go="#1426")
def test_a_recreated_topic_is_read_from_its_beginning_and_keeps_no_old_offset(broker, servers, admin, filled_topic):
    first = TopicPartition(filled_topic, 0)
    settings = {"group_id": filled_topic, **QUICK_SETTINGS}
    with Consumer(servers, **settings) as member:
        member.subscribe([filled_topic])
        broker.wait_for(lambda: member.poll(100) is not None and member.assignment(), timeout=30)
        admin.delete_topics([filled_topic])
        broker.wait_for(lambda: filled_topic not in admin.list_topics(), timeout=60)
        broker.create_topic(filled_topic, 3)
        broker.append(filled_topic, [{"value": b"new"} for _ in range(3)], partition=0)
        records = []

        def read_new():
            records.extend(record for record in member.poll(100) if record.value == b"new")
            return len(records) >= 3

        broker.wait_for(read_new, timeout=60)
        member.commit()
        assert [record.offset for record in records] == [0, 1, 2]
        assert member.committed([first])[first].offset == 3


@pytest.mark.embedded
@peers_with(librdkafka="#3712")
@pytest.mark.parametrize("code", ["UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"])
def test_records_are_not_treated_as_duplicates_after_missing_metadata(broker, servers, topic, code):
    with Producer(servers, metadata_max_age_ms=50, retry_backoff_ms=10, linger_ms=0) as producer:
        for number in range(5):
            producer.send(topic, b"%d" % number, partition=0).result()
        sent_count = 5
        with broker.on("Metadata").times(3).error(code) as rule:
            while rule.count < 3:
                producer.send(topic, b"%d" % sent_count, partition=0).result(30)
                sent_count += 1
        assert producer.send(topic, b"%d" % sent_count, partition=0).result(30).offset == sent_count
    assert [record.value for record in broker.records(topic)] == [b"%d" % number for number in range(sent_count + 1)]


@pytest.mark.embedded
@peers_with(librdkafka="#3575")
def test_a_transaction_with_a_rejected_sequence_is_never_partially_committed(broker, servers, topic):
    with Producer(servers, transactional_id=topic, retry_backoff_ms=10, linger_ms=0) as producer:
        producer.begin_transaction()
        producer.send(topic, b"1", partition=0).result()
        with broker.on("Produce", topic=topic).once().error("OUT_OF_ORDER_SEQUENCE_NUMBER"):
            future = producer.send(topic, b"2", partition=0)
            try:
                future.result(30)
                producer.commit_transaction()
                expected_values = [b"1", b"2"]
            except KafkaframesError:
                producer.abort_transaction()
                expected_values = []
    with Consumer(servers, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        end = consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        values = []
        while consumer.position(TopicPartition(topic, 0)) < end:
            values += [record.value for record in consumer.poll(100)]
    assert values == expected_values
