"""Scans of live topics: exactly the offsets of the plan, committed records only, across gaps, without a group."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.client import Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.client.fetched_batches import FetchedBatches
from kafkaframes.errors import CorruptRecordError, OptionError
from kafkaframes.scan.topic.source import TopicSource

TOPIC = "scanned"


@pytest.fixture(scope="module")
def servers():
    """A broker with committed and aborted transactions in two partitions of a topic.

    Timestamps increase by 1 s per offset.
    """
    with Broker() as broker:
        with kafkaframes.client.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name=TOPIC, num_partitions=2)])
        with Producer(broker.bootstrap_servers, transactional_id="t", compression_type="lz4") as producer:
            for turn, commits in enumerate((True, False, True)):
                producer.begin_transaction()
                rows = pa.table(
                    {
                        "value": [b"%d" % number for number in range(100)],
                        "partition": pa.array([number % 2 for number in range(100)], pa.int32()),
                        "timestamp": pa.array([(turn * 100 + number) * 1000 for number in range(100)], pa.int64()),
                    }
                )
                producer.send_arrow(rows, topic=TOPIC)
                producer.flush()
                if commits:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        yield broker.bootstrap_servers


def test_only_committed_records_are_read_and_counted(servers):
    scan = kafkaframes.scan_topic(servers, TOPIC)
    assert scan.count() == scan.to_arrow().num_rows == 200
    every = kafkaframes.scan_topic(servers, TOPIC, isolation="read_uncommitted")
    assert every.count() == 300
    assert scan.to_arrow(workers=2) == scan.to_arrow() == scan.to_arrow(workers=5)
    assert scan.limit(7).to_arrow() == scan.to_arrow().slice(0, 7)
    assert not [thread for thread in threading.enumerate() if "kafkaframes scan" in thread.name]


def test_an_iterator_with_workers_divides_topics_among_them(servers, monkeypatch):
    works, read = [], TopicSource.read_slice
    monkeypatch.setattr(
        TopicSource, "read_slice", lambda self, work, *rest: works.append(work) or read(self, work, *rest)
    )
    scan = kafkaframes.scan_topic(servers, TOPIC)
    expected_works = [part.work for part in scan.plan(parts=3)]
    rows = pa.Table.from_batches(scan.to_batches(workers=3), scan.schema)
    assert sorted(map(repr, works)) == sorted(map(repr, expected_works))
    assert rows == scan.to_arrow(workers=1)


def test_predicates_and_bounds_limit_the_rows(servers):
    scan = kafkaframes.scan_topic(servers, [TOPIC[:4] + "*"])
    rows = scan.select("partition", "offset", "timestamp").to_arrow().to_pylist()
    first, last = rows[10]["timestamp"], rows[-10]["timestamp"]
    kept_scan = scan.where(timestamp=(first, last), partition=0).select("partition", "offset", "timestamp")
    assert kept_scan.to_arrow().to_pylist() == [
        row for row in rows if row["partition"] == 0 and first <= row["timestamp"] < last
    ]
    assert kept_scan.count() == kept_scan.to_arrow().num_rows
    assert scan.where(offset=(3, 5)).count() == 4
    offsets = kafkaframes.scan_topic(servers, TOPIC, start=2, end={TOPIC: {0: 4, 1: 3}}).select("offset").to_arrow()
    assert offsets.column(0).to_pylist() == [2, 3, 2]
    later = kafkaframes.scan_topic(servers, TOPIC, start="1970-01-01T00:00:48", end={TOPIC: {0: 50, 1: 50}})
    assert later.select("offset").to_arrow().column(0).to_pylist() == [24, *range(25, 50), 24, *range(25, 50)]


def test_one_offset_for_all_partitions_ignores_the_empty_ones(servers, caplog):
    def offsets(**bounds):
        rows = kafkaframes.scan_topic(servers, "uneven", **bounds).select("partition", "offset").to_arrow()
        return [tuple(row.values()) for row in rows.to_pylist()]

    with kafkaframes.client.Admin(servers) as admin:
        admin.create_topics([NewTopic(name="uneven", num_partitions=3)])
    with Producer(servers) as producer:
        for partition, count in ((0, 5), (2, 2)):
            for number in range(count):
                producer.send("uneven", b"%d" % number, partition=partition)
    assert offsets(start=1) == [(0, 1), (0, 2), (0, 3), (0, 4), (2, 1)]
    assert offsets(start=1, end=2) == [(0, 1), (2, 1)]
    with pytest.raises(OptionError, match="offset 3 of uneven-2 is beyond the log's end 2; `fail_on_data_loss`=false"):
        offsets(start=3)
    assert offsets(start=3, fail_on_data_loss=False) == [(0, 3), (0, 4)]
    assert "offset 3 of uneven-2 is beyond the log's end 2; the existing records are read" in caplog.text
    with pytest.raises(OptionError, match="offset 3 of uneven-1 is beyond the log's end 0"):
        offsets(start={"uneven": {0: 3, 1: 3, 2: 2}})  # specified for this partition explicitly


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_an_end_after_the_log_end_is_reported_without_a_wait(servers, caplog, isolation):
    """Spark's connector reports it after ``kafkaConsumer.pollTimeoutMs`` (KafkaDataConsumer.fetch)."""
    with kafkaframes.client.Admin(servers) as admin:
        admin.create_topics([NewTopic(name=f"short-{isolation}", num_partitions=1)])
    with Producer(servers) as producer:
        producer.send(f"short-{isolation}", b"0").result()
    settings = {"end": {f"short-{isolation}": {0: 900}}, "isolation": isolation}
    began = time.monotonic()
    with pytest.raises(OptionError, match=r"offset 900 of short-\w+-0 is beyond the log's end 1"):
        kafkaframes.scan_topic(servers, f"short-{isolation}", **settings).to_arrow()
    assert kafkaframes.scan_topic(servers, f"short-{isolation}", **settings).where(offset=(0, 1)).count() == 1
    scan = kafkaframes.scan_topic(servers, f"short-{isolation}", **settings, fail_on_data_loss=False)
    assert scan.to_arrow().num_rows == scan.count() == 1
    assert "is beyond the log's end 1; the existing records are read" in caplog.text
    assert time.monotonic() - began < 60  # half of the default of kafkaConsumer.pollTimeoutMs


def test_a_scan_starts_at_the_committed_offsets_of_a_group(servers):
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
        consumer.commit({TopicPartition(TOPIC, 0): 45})
    scan = kafkaframes.scan_topic(servers, TOPIC, start="group:g").where(partition=0).where(offset=(None, 50))
    assert scan.select("offset").to_arrow().column(0).to_pylist() == [45, 46, 47, 48, 49]


def test_the_end_offsets_are_those_of_the_plan(servers):
    scan = kafkaframes.scan_topic(servers, TOPIC)
    before = scan.to_batches()
    first = next(before)
    with Producer(servers) as producer:
        producer.send(TOPIC, b"later", partition=1).result()
    assert first.num_rows + sum(batch.num_rows for batch in before) == 200
    assert scan.count() == 201


def test_invalid_scans_are_rejected(servers):
    with pytest.raises(OptionError, match="did you mean 'partition'"):
        kafkaframes.scan_topic(servers, TOPIC).select("partitions")
    with pytest.raises(OptionError, match="column 'file' does not exist"):
        kafkaframes.scan_topic(servers, TOPIC).select("file")
    with pytest.raises(OptionError, match="`topics` is empty"):
        kafkaframes.scan_topic(servers, [])
    with pytest.raises(OptionError, match="`end` cannot be a group"):
        kafkaframes.scan_topic(servers, TOPIC, end="group:g")
    with pytest.raises(OptionError, match="nonsense"):
        kafkaframes.scan_topic(servers, TOPIC, client={"nonsense": 1})
    secret = kafkaframes.scan_topic(servers, TOPIC, client={"sasl.password": "hidden"})
    assert "hidden" not in repr(secret) + repr(secret.source) + repr(secret.source.options)


def test_partitions_and_control_records_are_selected_as_in_logs(servers):
    everything = {"isolation": "read_uncommitted", "control_records": True}
    scan = kafkaframes.scan_topic(servers, TOPIC, partitions=1, **everything)
    columns = scan.select("partition", "offset", "control").to_arrow()
    assert set(columns["partition"].to_pylist()) == {1}
    assert columns["control"].to_pylist().count(True) >= 3  # each transaction has a marker
    assert scan.count() == columns.num_rows
    with pytest.raises(OptionError, match="no selected topic has the partition 9"):
        kafkaframes.scan_topic(servers, TOPIC, partitions=[0, 9]).count()


def test_damage_in_a_response_is_kept_dropped_or_an_error():
    batches = [kafkaframes.build_records({"value": [b"v"] * 5}, base_offset=start) for start in (0, 5, 10)]
    damaged_batch = bytearray(batches[1])
    damaged_batch[17] ^= 1  # the CRC
    fetched_batches = FetchedBatches(TopicPartition("orders", 0), 0, batches[0] + bytes(damaged_batch) + batches[2])
    for on_damage, offsets in (("keep", list(range(15))), ("drop", [*range(5), *range(10, 15)])):
        errors = []
        read = fetched_batches.read(["offset"], on_damage=on_damage, errors=errors)
        assert [offset for batch in read for offset in batch.column(0).to_pylist()] == offsets
        assert [error.base_offset for error in errors] == [5]
    with pytest.raises(CorruptRecordError):
        list(fetched_batches.read(["offset"]))


def test_an_open_transaction_that_ends_the_read_is_reported(caplog):
    with Broker() as broker, Producer(broker.bootstrap_servers, transactional_id="orders") as producer:
        with Producer(broker.bootstrap_servers) as other:
            other.send("t", b"before", partition=0).result()
        producer.begin_transaction()
        for number in range(3):
            producer.send("t", b"%d" % number, partition=0).result()
        scan = kafkaframes.scan_topic(broker.bootstrap_servers, "t")
        batches = scan.to_batches()
        assert sum(batch.num_rows for batch in batches) == 1
        (note,) = batches.notes
        assert (note.topic, note.partition, note.first_offset, note.end_offset) == ("t", 0, 1, 4)
        assert note.producer_id is not None
        assert scan.to_arrow().num_rows == 1
        assert "has been open since offset 1; read_committed omits up to 3 records" in caplog.text
        assert scan.where(offset=(0, 3)).plan().notes[0].end_offset == 3
        for narrow in (
            scan.where(offset=(0, 1)),
            scan.where(partition=1),
            kafkaframes.scan_topic(broker.bootstrap_servers, "t", end={"t": {0: 1}}),
            kafkaframes.scan_topic(broker.bootstrap_servers, "t", isolation="read_uncommitted"),
        ):
            assert narrow.plan().notes == ()
        producer.commit_transaction()
        assert scan.plan().notes == ()


def test_an_end_after_an_open_transaction_does_not_wait(caplog):
    """Previously, the read waited for hidden offsets until the poll timeout, and Spark's planner reported nothing."""
    from kafkaframes.scan.topic.planning import plan_shares
    from kafkaframes.spark.options import parse_topic_options
    from kafkaframes.spark.sources.kafka_topic import KafkaTopicReader

    with Broker() as broker, Producer(broker.bootstrap_servers, transactional_id="orders") as producer:
        servers = broker.bootstrap_servers
        with Producer(servers) as other:
            other.send("t", b"before", partition=0).result()
        producer.begin_transaction()
        for _ in range(3):
            producer.send("t", b"open", partition=0)
        producer.flush()
        scan = kafkaframes.scan_topic(servers, "t", end={"t": {0: 3}})
        assert scan.to_arrow().num_rows == 1
        assert scan.plan().notes[0].end_offset == 3
        committed_settings = {
            "kafka.bootstrap.servers": servers,
            "subscribe": "t",
            "kafka.isolation.level": "read_committed",
        }
        topic_settings = {
            **committed_settings,
            "startingOffsets": '{"t": {"0": 0}}',
            "endingOffsets": '{"t": {"0": 3}}',
        }
        (work,) = KafkaTopicReader(parse_topic_options(topic_settings, is_stream=False), ()).partitions()
        assert (work.value.first, work.value.end) == (0, 1)
        assert "t-0: the transaction of producer" in caplog.text
        hidden_transactions = []
        plan_shares(
            parse_topic_options(committed_settings, is_stream=False), cores=1, report=hidden_transactions.append
        )
        assert [(transaction.first_offset, transaction.end_offset) for transaction in hidden_transactions] == [(1, 4)]
        producer.abort_transaction()
