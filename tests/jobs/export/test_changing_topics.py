"""Exports of topics that change: compacted ones, ones that grow during a run, and a broker that is killed in a run."""

import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafkaframes import Admin, Broker, Producer, export_topics
from kafkaframes.client import NewTopic, TopicPartition
from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.export import live_planning
from kafkaframes.storage.files.names import TopicPartition as LogName

COMPACTED_TOPIC = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "2000",
    "delete.retention.ms": "0",
}


@pytest.fixture
def small_ranges(monkeypatch):
    """Let each task read a range of ten offsets."""
    monkeypatch.setattr(live_planning, "TARGET_FILE_BYTES", 10 << 10)


def send(servers, pairs, *, topic="t", partition=0):
    """Send pairs of keys and values, ten in a batch."""
    with Producer(servers, linger_ms=0) as producer:
        for number, (key, value) in enumerate(pairs):
            producer.send(topic, value, key=key, partition=partition)
            if number % 10 == 9:
                producer.flush()


def rows_of(to, partition=0, topic="t"):
    """Return the offsets and values in the files of a partition, in the order of the file names."""
    paths = sorted(Path(to, f"topic={topic}", f"partition={partition}").glob("*.parquet"))
    tables = [pq.read_table(path, partitioning=None) for path in paths]
    columns = [(table["offset"].to_pylist(), table["value"].to_pylist()) for table in tables]
    return [row for offsets, values in columns for row in zip(offsets, values, strict=True)]


def rows_in(broker, topic="t", partition=0):
    return [(record.offset, record.value) for record in broker.records(topic, partition)]


def check_exported(broker, to):
    """Check that the files have each record of a topic that the cleaner has left, once and in order."""
    rows = rows_of(to)
    offsets = [offset for offset, _ in rows]
    assert offsets == sorted(set(offsets))
    assert all(value == b"%d" % offset for offset, value in rows)
    remaining_rows = rows_in(broker)
    assert len(remaining_rows) >= 5
    assert set(remaining_rows) <= set(rows)
    return rows


def cleaner_offset(broker):
    return broker.call(lambda state: state.logs.cleaner_offsets.get(LogName("t", 0), 0))


def test_a_compacted_topic_is_exported_as_it_is_and_continued_after_the_cleaner(tmp_path, small_ranges):
    """Ranges of which the cleaner has left nothing, and offsets that vanish after they were exported, are no loss."""
    config = {"log.cleaner.backoff.ms": 5, "log.segment.delete.delay.ms": 50}
    with Broker(data_dir=tmp_path / "data", config=config) as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=1, configs=COMPACTED_TOPIC)])
        send(servers, [(b"k%d" % (number % 5), b"%d" % number) for number in range(200)])
        broker.wait_for(lambda: cleaner_offset(broker) > 50)
        export_topics(servers, "t", tmp_path / "out")
        check_exported(broker, tmp_path / "out")
        assert len(rows_of(tmp_path / "out")) < 200
        send(servers, [(b"k%d" % (number % 5), b"%d" % number) for number in range(200, 400)])
        broker.wait_for(lambda: cleaner_offset(broker) > 200)
        export_topics(servers, "t", tmp_path / "out")
        rows = check_exported(broker, tmp_path / "out")
        assert any(offset < 200 for offset, _ in rows)
        assert export_topics(servers, "t", tmp_path / "out").report.exported == 0


def test_a_run_has_the_records_of_its_start_although_the_topic_grows(tmp_path, small_ranges):
    """Records and partitions that appear during a run are for the next one. Each record is in exactly one file."""
    with Broker() as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=1)])
            send(servers, [(None, b"%d" % number) for number in range(100)])
            reads = broker.on("Fetch", topic="t").after(2).ignore()
            results = []
            thread = threading.Thread(target=lambda: results.append(export_topics(servers, "t", tmp_path / "out")))
            thread.start()
            broker.wait_for(lambda: reads.count > 2)
            send(servers, [(None, b"%d" % number) for number in range(100, 150)])
            admin.create_partitions({"t": 2})
            send(servers, [(None, b"%d" % number) for number in range(30)], partition=1)
            reads.remove()
            thread.join(120)
        assert len(results) == 1
        assert rows_of(tmp_path / "out") == [(number, b"%d" % number) for number in range(100)]
        assert rows_of(tmp_path / "out", 1) == []
        export_topics(servers, "t", tmp_path / "out")
        assert rows_of(tmp_path / "out") == [(number, b"%d" % number) for number in range(150)]
        assert rows_of(tmp_path / "out", 1) == [(number, b"%d" % number) for number in range(30)]


@pytest.mark.parametrize("returns", [True, False], ids=["returns", "stays away"])
def test_a_broker_that_is_killed_during_a_run(tmp_path, small_ranges, returns):
    """The run waits until the broker is back or fails without a _SUCCESS file. The next run adds missing records."""
    with Broker(data_dir=tmp_path / "data") as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=2)])
        for partition in range(2):
            send(servers, [(None, b"%d" % number) for number in range(100)], partition=partition)
        reads = broker.on("Fetch", topic="t").after(6).ignore()
        client = {"default_api_timeout_ms": 120_000 if returns else 3_000}
        errors = []

        def run():
            try:
                export_topics(servers, "t", tmp_path / "out", client=client)
            except KafkaframesError as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        broker.wait_for(lambda: reads.count > 6)
        broker.kill()
        broker.clear_faults()
        if returns:
            broker.restart()
            thread.join(120)
            assert not errors
        else:
            thread.join(120)
            assert errors
            assert not (tmp_path / "out" / "_SUCCESS").exists()
            broker.restart()
            export_topics(servers, "t", tmp_path / "out")
        assert not thread.is_alive()
        assert (tmp_path / "out" / "_SUCCESS").exists()
        for partition in range(2):
            assert rows_of(tmp_path / "out", partition) == [(number, b"%d" % number) for number in range(100)]


def test_records_that_are_deleted_during_a_run_are_an_error(tmp_path, small_ranges):
    """Retention deletes a range after the plan, before its task reads it."""
    with Broker() as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=1)])
            send(servers, [(None, b"%d" % number) for number in range(100)])
            reads = broker.on("Fetch", topic="t").after(1).ignore()
            errors = []

            def run():
                try:
                    export_topics(servers, "t", tmp_path / "out")
                except KafkaframesError as error:
                    errors.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            broker.wait_for(lambda: reads.count > 1)
            admin.delete_records({TopicPartition("t", 0): 60})
            reads.remove()
            thread.join(120)
        assert ["run the job again" in str(error) for error in errors] == [True]
        assert not (tmp_path / "out" / "_SUCCESS").exists()
