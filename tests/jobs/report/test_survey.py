"""The numbers of a report, compared with the records of the reader."""

import collections
from pathlib import Path

import pyarrow as pa
import pytest

import kafkaframes
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.report.survey import make_report
from kafkaframes.storage.files.directory import partitions_of
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.transactions import read_transactions

from .conftest import START, write_segment

LOGS = Path(__file__).parents[2] / "data" / "logs"
EXAMPLES = Path(__file__).parents[3] / "examples" / "logs"
COLUMNS = ["offset", "timestamp", "key", "value", "headers", "control", "magic", "codec", "producer_id"]


def with_milliseconds(batch):
    place = batch.schema.get_field_index("timestamp")
    return batch.set_column(place, "timestamp", batch.column(place).cast(pa.int64()))


def read(topic_partitions):
    """Return the data records of some partitions, and the number of control records."""
    rows, control = [], 0
    for partition in topic_partitions:
        for segment in partition.segments:
            for batch in kafkaframes.read_records(segment.path, columns=COLUMNS):
                for row in with_milliseconds(batch).to_pylist():
                    control += row["control"]
                    rows += [] if row["control"] else [row]
    return rows, control


@pytest.mark.parametrize(
    "log",
    [EXAMPLES / "kafka-4.3", EXAMPLES / "kafka-2.8-format-1", LOGS / "kraft-4x-transactions", LOGS / "zk-28-mixed"],
    ids=lambda path: path.name,
)
def test_the_numbers_equal_those_of_the_records(log, report_of):
    report = report_of(log)
    by_topic = collections.defaultdict(list)
    for _, partition in partitions_of(discover(str(log))):
        by_topic[partition.topic].append(partition)
    assert {topic.name for topic in report.topics} == set(by_topic)
    for topic in report.topics:
        rows, control = read(by_topic[topic.name])
        keys = [row["key"] for row in rows if row["key"] is not None]
        assert (topic.records, topic.control_records) == (len(rows), control)
        assert topic.size_bytes == sum(one.size_bytes for one in by_topic[topic.name]) == topic.log_bytes
        assert (topic.keys.keyed, topic.keys.distinct) == (len(keys), len(set(keys)))
        assert topic.keys.tombstones == sum(row["value"] is None and row["key"] is not None for row in rows)
        assert topic.keys.without_key == len(rows) - len(keys)
        assert topic.with_headers == sum(bool(row["headers"]) for row in rows)
        sizes = [len(row["key"] or b"") + len(row["value"] or b"") for row in rows]
        assert (topic.record_sizes.total, topic.record_sizes.largest) == (sum(sizes), max(sizes, default=0))
        counts = collections.Counter((f"v{row['magic']}", row["codec"]) for row in rows)
        assert {(cell.format, cell.codec): cell.records for cell in topic.cells if cell.records} == counts
        times = [row["timestamp"] for row in rows if row["timestamp"] >= 0]
        assert (topic.first, topic.last) == (min(times, default=-1), max(times, default=-1))
    writers = collections.Counter(
        row["producer_id"] for ones in by_topic.values() for row in read(ones)[0] if row["producer_id"] >= 0
    )
    assert {
        producer.producer_id: producer.records for producer in report.producers if producer.producer_id >= 0
    } == writers


def test_transactions_equal_those_of_the_log(report_of):
    log = LOGS / "kraft-4x-transactions"
    report = report_of(log)
    aborted_counts, still_open = {}, []
    for directory, partition in partitions_of(discover(str(log))):
        state = read_transactions(directory.filesystem, partition, use_indexes=False)
        aborted_counts[partition.topic] = aborted_counts.get(partition.topic, 0) + len(state.aborted_transactions)
        still_open += [(partition.topic, partition.partition, *one) for one in state.open.items()]
    assert {topic.name: topic.transactions.aborted for topic in report.topics} == aborted_counts
    assert report.transactions.aborted == sum(aborted_counts.values()) > 0
    assert report.transactions.committed > report.transactions.aborted
    listed_transactions = [
        (one.topic, one.partition, one.producer_id, one.first_offset) for one in report.transactions.oldest_open
    ]
    assert sorted(listed_transactions) == sorted(still_open)
    assert report.transactions.open == len(still_open) > 0


def test_a_transaction_lasts_from_its_first_batch_to_its_marker(cluster, report_of):
    transactions = report_of(cluster / "broker-1" / "payments-0").transactions
    assert (transactions.committed, transactions.aborted, transactions.open, transactions.empty_markers) == (1, 1, 1, 1)
    assert (transactions.durations.smallest, transactions.durations.largest) == (1000, 5000)
    (still,) = transactions.oldest_open
    assert (still.producer_id, still.producer_epoch, still.first_offset, still.since) == (77, 2, 10, START)


def test_one_copy_of_a_partition_counts(cluster, report_of):
    report = report_of(cluster)
    orders = next(topic for topic in report.topics if topic.name == "orders")
    assert (orders.records, orders.partitions, orders.copies) == (700, 2, 4)
    assert orders.disk_bytes == 2 * orders.size_bytes
    assert {(copy.partition, copy.verdict) for copy in report.copies} == {(0, "same"), (1, "same")}
    assert len(report.copies) == 4
    assert any("-delete" in one.what and "that the broker was deleting" in one.why for one in report.not_read)


def test_a_renamed_directory_counts_only_if_a_path_names_it(cluster, report_of):
    (renamed_dir,) = (cluster / "broker-1").glob("*-delete")
    assert [(topic.name, topic.records) for topic in report_of(renamed_dir).topics] == [("gone", 5)]
    assert report_of(renamed_dir).not_read == []


def test_compacted_topics_are_recognised_by_their_settings(report_of):
    topics = {topic.name: topic for topic in report_of(EXAMPLES / "kafka-4.3").topics}
    assert {name: one.keys.compacted for name, one in topics.items() if one.keys.compacted} == {
        "customers": "cleanup.policy",
        "__consumer_offsets": "Kafka's own topic",
        "__transaction_state": "Kafka's own topic",
    }
    producers = {producer.producer_id: producer.name for producer in report_of(EXAMPLES / "kafka-4.3").producers}
    assert producers[1] == "payments-service"


def test_damage_is_reported_and_not_counted(cluster, report_of):
    path = cluster / "broker-1" / "orders-0" / f"{0:020}.log"
    batches = kafkaframes.read_batches(str(path)).to_pylist()
    raw = bytearray(path.read_bytes())
    raw[batches[2]["position"] + 100] ^= 1
    path.write_bytes(raw[:-7])
    report = report_of(cluster / "broker-1")
    (loss,) = report.losses
    assert (loss.position, loss.base_offset, loss.size_bytes) == tuple(
        batches[2][name] for name in ("position", "base_offset", "size")
    )
    assert loss.declared == batches[2]["count"]
    errors = {finding.check: finding for finding in report.findings if finding.severity == Severity.ERROR}
    assert set(errors) == {"crc", "torn-tail"}
    assert errors["crc"].position == loss.position
    orders = next(topic for topic in report.topics if topic.name == "orders")
    assert orders.records == 700 - loss.declared - batches[-1]["count"]
    assert orders.errors == 2
    assert not report.is_sound


def test_undecodable_records_under_a_matching_crc_are_found(tmp_path, report_of):
    raw = kafkaframes.build_records([{"key": b"k", "value": b"v" * 50}] * 3, codec="none")
    garbled_bytes = bytearray(raw)
    garbled_bytes[61] = 0x7F  # the first record's length
    write_segment(tmp_path / "t-0", with_crc(garbled_bytes))
    report = report_of(tmp_path)
    assert [(finding.check, finding.position) for finding in report.findings if finding.severity == Severity.ERROR] == [
        ("records", 0)
    ]
    assert (report.losses[0].declared, report.losses[0].readable) == (3, 0)


def with_crc(batch):
    import google_crc32c

    batch[17:21] = google_crc32c.value(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def test_a_segment_that_vanishes_is_a_finding(cluster):
    directories = discover(str(cluster))
    (cluster / "broker-1" / "payments-0" / f"{0:020}.log").unlink()
    report = make_report(directories, paths=[str(cluster)], version="0", generated_at=0)
    (finding,) = (finding for finding in report.findings if finding.check == "unreadable")
    assert "No such file" in finding.message
    assert report.transactions.count == 0


class DenyingFileSystem(LocalFileSystem):
    """A disk that denies the read of one partition."""

    def open(self, path):
        if "orders-0" in path:
            raise LogDirError("cannot be read: Permission denied", file=path)
        return super().open(path)


def test_an_unreadable_segment_is_a_finding(cluster):
    directories = discover(str(cluster / "broker-1"), filesystem=DenyingFileSystem())
    report = make_report(directories, paths=["x"], version="0", generated_at=0)
    assert [(finding.check, finding.message) for finding in report.findings if finding.severity == Severity.ERROR] == [
        ("unreadable", "cannot be read: Permission denied")
    ]
    assert next(topic for topic in report.topics if topic.name == "orders").records == 300


def test_a_directory_without_partitions_is_rejected(tmp_path):
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n")
    with pytest.raises(OptionError, match="no topic partition"):
        make_report(discover(str(tmp_path)), paths=[str(tmp_path)], version="0", generated_at=0)
