"""A run into a table continues only with the log from which the table was filled, with or without topic ids.

Sinks that store offsets alone skip the first records of a topic that was deleted and created again, without an error
(RADAR-base/MongoDb-Sink-Connector#38 and #39; redpanda-data/docs#805, of Snowflake's connector). The same happens after
a log was truncated and has grown again (confluentinc/kafka-connect-hdfs#132).
"""

import json

import pytest
from tests.jobs.tables.test_planning import START, append, export, offsets_of, write

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer, TopicPartition
from kafkaframes.errors import OptionError
from kafkaframes.jobs.export import live_planning
from kafkaframes.jobs.export.live_planning import make_topic_planner
from kafkaframes.jobs.export.task import ExportTaskSettings
from kafkaframes.jobs.tables.parquet import COMMITS_DIRECTORY, ParquetTable
from kafkaframes.jobs.tables.run import TableRun
from kafkaframes.scan.topic.options import TopicOptions

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from tests.jobs.tables.test_planning import Delta, Iceberg


class Parquet:
    """A table of plain Parquet files."""

    name = "parquet"

    def __init__(self, root):
        self.root = root

    def table(self):
        return ParquetTable(str(self.root))

    def note(self):
        newest = max((self.root / COMMITS_DIRECTORY).glob("*.json"))
        return json.loads(newest.read_text())["note"]

    def read(self):
        import pyarrow.dataset as ds

        return ds.dataset(sorted(map(str, self.root.glob("topic=*/*/*.parquet")))).to_table()

    def close(self):
        pass


@pytest.fixture(params=[Delta, Iceberg, Parquet], ids=lambda kind: kind.name)
def kind(request, tmp_path):
    table_kind = request.param(tmp_path / "table")
    yield table_kind
    table_kind.close()


@pytest.fixture
def files(tmp_path):
    return Parquet(tmp_path / "table")


@pytest.fixture
def log(tmp_path):
    """The directory of t-0 without a topic id, with 20 records."""
    directory = tmp_path / "log" / "t-0"
    directory.mkdir(parents=True)
    write(directory, 0, 20)
    return directory


def write_other(directory, first, count, **changes):
    """Write a segment with other records at the same offsets."""
    rows = [{"key": b"k", "value": b"other %d" % n, "offset": n, "timestamp": START + n} for n in range(count)]
    path = directory / f"{first:020}.log"
    path.write_bytes(kafkaframes.build_records([row | changes for row in rows[first:]], batch_records=10))


def test_a_topic_replaced_by_a_longer_one_is_rejected(kind, log):
    export(kind, log)
    write_other(log, 0, 30)
    message = (
        r"t-0 is not the log that the table was filled from: at offset 17, the table has a record with "
        r"timestamp \d+, key of 2 bytes, .*digest \w+, but the log has a record with "
        r"timestamp \d+, key of 1 byte, .*`overwrite`"
    )
    with pytest.raises(OptionError, match=message):
        export(kind, log)
    assert offsets_of(kind) == list(range(20))
    with pytest.raises(OptionError, match="is not the log that the table was filled from"):
        export(kind, log, failOnDataLoss="false")  # accepts lost records, but not other ones


def test_each_field_of_a_record_is_compared(files, log):
    base = {"key": b"k", "value": b"v", "timestamp": START, "headers": [("h", b"1")]}
    write_other(log, 0, 5, **base)
    export(files, log)
    for changes in (
        {"key": None},
        {"value": b""},
        {"value": None},
        {"timestamp": START + 1},
        {"headers": [("h", None)]},
        {"headers": [("h", b"1"), ("h", b"1")]},
    ):
        write_other(log, 0, 6, **base | changes)
        with pytest.raises(OptionError, match="is not the log that the table was filled from"):
            export(files, log)
    write_other(log, 0, 6, **base)
    export(files, log)
    assert offsets_of(files) == list(range(6))


def test_a_truncated_log_that_grew_again_is_rejected_despite_its_id(files, log):
    (log / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    export(files, log)
    write_other(log, 0, 30)
    with pytest.raises(OptionError, match="t-0 is not the log that the table was filled from"):
        export(files, log)


def test_compacted_records_are_not_evidence(files, log):
    """First, only one of the last three records that a run has read remains. Then none of them remains."""
    export(files, log)
    path = max(log.glob("*.log"))
    rows = [row for row in kafkaframes.scan_log(log.parent).to_arrow().to_pylist() if row["offset"] not in (18, 19)]
    keep = [{name: row[name] for name in ("key", "value", "offset", "timestamp", "headers")} for row in rows]
    for row in keep:
        row["headers"] = [(one["key"], one["value"]) for one in row["headers"] or ()]
    path.write_bytes(kafkaframes.build_records(keep))
    append(log, 20, 1)
    export(files, log)
    assert offsets_of(files) == list(range(21))

    path.write_bytes(kafkaframes.build_records(keep[:5]))
    append(log, 30, 1)
    with pytest.raises(OptionError, match=r"t-0: this may not be the log.*\(offset 18, 19, 20\).*`fail_on_data"):
        export(files, log)
    export(files, log, failOnDataLoss="false")
    assert offsets_of(files) == [*range(21), 30]


def test_without_comparable_records_the_topic_id_decides(files, log):
    (log / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    export(files, log)
    max(log.glob("*.log")).unlink()
    write(log, 20, 5)
    export(files, log)
    assert offsets_of(files) == list(range(25))
    (log / "partition.metadata").unlink()
    max(log.glob("*.log")).unlink()
    write(log, 25, 5)
    with pytest.raises(OptionError, match="t-0: this may not be the log"):
        export(files, log)


def test_fingerprints_are_kept_for_partitions_and_topics_without_new_records(kind, log):
    other = log.parent / "u-0"
    other.mkdir()
    write(other, 0, 20)
    (other / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    export(kind, log.parent)
    append(log, 20, 1)
    export(kind, log.parent)
    note = kind.note()
    assert [row[0] for row in note["lastRecords"]["t"]["0"]] == [18, 19, 20]
    assert [row[0] for row in note["lastRecords"]["u"]["0"]] == [17, 18, 19]
    append(other, 20, 1)
    (other / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    with pytest.raises(OptionError, match=r"topic u has the id AAAAAAAAAAAAAAAAAAAAAg"):
        export(kind, log.parent)
    (other / "partition.metadata").unlink()
    write_other(other, 0, 21)
    with pytest.raises(OptionError, match="u-0 is not the log that the table was filled from"):
        export(kind, log.parent)


def test_a_recreated_live_topic_without_ids_is_rejected(files, monkeypatch):
    """Brokers before 2.8 serve topics without ids."""
    monkeypatch.setattr(live_planning, "_read_topic_ids", lambda topics, client: {})

    def fill(producer, text, count):
        for number in range(count):
            producer.send("t", b"%s %d" % (text, number), key=b"k", partition=0).result()

    def add():
        client = {"bootstrap.servers": broker.bootstrap_servers}
        job = TableRun(
            files.table(), ExportTaskSettings(str(files.root), on_damage="fail"), {"isolation": "read_uncommitted"}
        )
        job.add_new_offsets(make_topic_planner(TopicOptions(client, subscribe=frozenset({"t"}))), incremental=True)

    with Broker() as broker, Admin(broker.bootstrap_servers) as admin, Producer(broker.bootstrap_servers) as producer:
        topic = NewTopic(name="t", num_partitions=1)
        admin.create_topics([topic])
        fill(producer, b"old", 5)
        add()
        fill(producer, b"more", 2)
        add()
        assert offsets_of(files) == list(range(7))
        admin.delete_records({TopicPartition("t", 0): 7})
        fill(producer, b"later", 1)
        with pytest.raises(OptionError, match=r"t-0: this may not be the log.*`fail_on_data_loss`"):
            add()
        admin.delete_topics(["t"])
        admin.create_topics([topic])
        fill(producer, b"new", 9)
        with pytest.raises(
            OptionError, match=r"t-0 is not the log that the table was filled from: .*Write it to a new table"
        ):
            add()
        assert offsets_of(files) == list(range(7))
