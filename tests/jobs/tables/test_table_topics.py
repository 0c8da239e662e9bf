"""``table_topics``: its selection, transactions, and topics that change between two runs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow.dataset as ds
import pytest

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.records.scan import scan_all

START_MS = 1_700_000_000_000


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.create_topic("orders", partitions=2)
        yield broker


def produce(broker, numbers, *, partition=0, **settings):
    with Producer(broker.bootstrap_servers, **settings) as producer:
        for number in numbers:
            producer.send("orders", b"%d" % number, partition=partition, timestamp_ms=START_MS + 1000 * number)


def fill(broker, to: Path, **settings):
    return kafkaframes.table_topics(broker.bootstrap_servers, "orders", to, **settings)


def offsets(to: Path, partition: int = 0) -> list[int]:
    """Return the offsets of a partition in a table, sorted, with duplicates."""
    rows = ds.dataset(to, format="parquet", partitioning="hive").to_table(columns=["partition", "offset"])
    return sorted(row["offset"] for row in rows.to_pylist() if row["partition"] == partition)


def moment(number: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(START_MS / 1000 + number, dt.UTC)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, list(range(10))),
        ("earliest", "latest", list(range(10))),
        (3, 7, [3, 4, 5, 6]),
        (moment(4), moment(8), [4, 5, 6, 7]),
        ({"orders": {0: 2, 1: 0}}, {"orders": {0: 5, 1: 0}}, [2, 3, 4]),
        (10, None, []),
    ],
)
def test_start_and_end_have_the_meaning_of_scan_topic(broker, tmp_path, start, end, expected):
    produce(broker, range(10))
    result = fill(broker, tmp_path / "table", start=start, end=end)
    assert result.report.summary.records == len(expected)
    scan = kafkaframes.scan_topic(broker.bootstrap_servers, "orders", start=start, end=end)
    assert scan.select("offset").to_arrow()["offset"].to_pylist() == expected
    assert (offsets(tmp_path / "table") if expected else []) == expected


def test_a_later_end_adds_the_records_from_the_tables_end(broker, tmp_path):
    table = tmp_path / "table"
    produce(broker, range(10))
    assert fill(broker, table, start=2, end=5).report.summary.records == 3
    assert fill(broker, table, start=2, end=5).report.summary.records == 0
    assert fill(broker, table, start=2, end=4).report.summary.records == 0  # the table already has this range
    assert fill(broker, table, start=2, end=8).report.summary.records == 3
    assert fill(broker, table, start=2).report.summary.records == 2
    assert offsets(table) == list(range(2, 10))


def test_an_end_that_the_topic_does_not_have_is_an_error(broker, tmp_path):
    produce(broker, range(5))
    with pytest.raises(OptionError, match="offset 6 of orders-0 is beyond the log's end 5"):
        fill(broker, tmp_path / "table", partitions=0, end=6)
    result = fill(broker, tmp_path / "table", partitions=0, end=6, fail_on_data_loss=False)
    assert result.report.summary.records == 5
    assert offsets(tmp_path / "table") == [0, 1, 2, 3, 4]


def test_partitions_limit_the_read_and_later_runs_may_add_others(broker, tmp_path):
    table = tmp_path / "table"
    produce(broker, range(3))
    produce(broker, range(4), partition=1)
    assert fill(broker, table, partitions=1).report.summary.records == 4
    assert (offsets(table, 0), offsets(table, 1)) == ([], [0, 1, 2, 3])
    assert fill(broker, table).report.summary.records == 3
    assert (offsets(table, 0), offsets(table, 1)) == ([0, 1, 2], [0, 1, 2, 3])
    with pytest.raises(OptionError, match="`partitions`: no selected topic has the partition 2"):
        fill(broker, table, partitions=[0, 2])


def commit(broker, **ends):
    positions = {TopicPartition("orders", int(name[1:])): end for name, end in ends.items()}
    with Consumer(broker.bootstrap_servers, group_id="readers", enable_auto_commit=False) as consumer:
        consumer.assign(list(positions))
        consumer.commit(positions)


def test_a_group_is_the_start_of_the_first_run(broker, tmp_path):
    table = tmp_path / "table"
    produce(broker, range(10))
    produce(broker, range(4), partition=1)
    commit(broker, p0=6)  # partition 1 has no committed offset, and is read from its earliest record
    assert fill(broker, table, start="group:readers").report.summary.records == 4 + 4
    commit(broker, p0=8, p1=1)
    produce(broker, range(10, 12))
    assert fill(broker, table, start="group:readers").report.summary.records == 2
    assert (offsets(table, 0), offsets(table, 1)) == (list(range(6, 12)), [0, 1, 2, 3])


def test_a_group_beyond_the_end_of_the_table_leaves_no_gap(broker, tmp_path):
    table = tmp_path / "table"
    produce(broker, range(4))
    fill(broker, table, partitions=0, start="group:readers")
    produce(broker, range(4, 10))
    commit(broker, p0=8)
    assert fill(broker, table, partitions=0, start="group:readers").report.summary.records == 6
    assert offsets(table) == list(range(10))


def test_a_start_after_the_tables_end_is_a_gap(broker, tmp_path):
    table = tmp_path / "table"
    produce(broker, range(4))
    fill(broker, table, partitions=0, start=1)
    produce(broker, range(4, 10))
    for start in (8, moment(8)):
        with pytest.raises(
            OptionError, match=r"offsets 4 to 7 of orders-0 are missing in the table, .* before this run.s `start`"
        ):
            fill(broker, table, partitions=0, start=start)
    result = fill(broker, table, partitions=0, start=8, fail_on_data_loss=False)
    assert result.report.summary.records == 2
    assert offsets(table) == [1, 2, 3, 8, 9]


def transaction(broker, numbers, *, commits):
    with Producer(broker.bootstrap_servers, transactional_id="t") as producer:
        producer.begin_transaction()
        for number in numbers:
            producer.send("orders", b"%d" % number, partition=0).result()
        producer.commit_transaction() if commits else producer.abort_transaction()


def test_transactions_across_runs_are_read_after_their_end(broker, tmp_path):
    """Offsets: 0 and 1 committed, 2 their marker, 3 aborted, 4 its marker, 5 open and then committed, 6 its marker."""
    committed, everything = tmp_path / "committed", tmp_path / "everything"
    transaction(broker, range(2), commits=True)
    transaction(broker, [9], commits=False)
    with Producer(broker.bootstrap_servers, transactional_id="open") as producer:
        producer.begin_transaction()
        producer.send("orders", b"open", partition=0).result()
        result = fill(broker, committed)
        assert result.report.summary.records == 2
        (note,) = result.report.notes.findings
        assert "orders-0: the transaction of producer" in note.message
        assert "open since offset 5" in note.message
        assert fill(broker, everything, isolation="read_uncommitted", control_records=True).report.summary.records == 6
        producer.commit_transaction()
    assert fill(broker, committed).report.summary.records == 1
    assert fill(broker, everything, isolation="read_uncommitted", control_records=True).report.summary.records == 1
    assert (offsets(committed), offsets(everything)) == ([0, 1, 5], list(range(7)))
    with pytest.raises(OptionError, match="isolation"):
        fill(broker, committed, isolation="read_uncommitted")


def test_an_end_in_an_open_transaction_is_read_up_to_its_start(broker, tmp_path):
    produce(broker, range(2))
    with Producer(broker.bootstrap_servers, transactional_id="open") as producer:
        producer.begin_transaction()
        for _ in range(3):
            producer.send("orders", b"open", partition=0).result()
        assert fill(broker, tmp_path / "table", partitions=0, end=4).report.summary.records == 2
        producer.commit_transaction()
    assert fill(broker, tmp_path / "table", partitions=0, end=4).report.summary.records == 2
    assert offsets(tmp_path / "table") == [0, 1, 2, 3]


def test_a_deleted_topic_and_one_created_again_leave_the_table_unchanged(broker, tmp_path):
    table = tmp_path / "table"
    produce(broker, range(3))
    fill(broker, table)
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topics(["orders"])
        with pytest.raises(KafkaframesError, match="orders"):
            fill(broker, table)
        admin.create_topics([NewTopic(name="orders", num_partitions=2)])
    produce(broker, range(5))
    for accepts_loss in (False, True):
        with pytest.raises(OptionError, match="the topic was deleted and created again"):
            fill(broker, table, fail_on_data_loss=not accepts_loss)
    assert offsets(table) == [0, 1, 2]


def test_a_partition_that_is_added_is_read_from_its_first_record(broker, tmp_path):
    table = tmp_path / "table"
    produce(broker, range(3))
    fill(broker, table)
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_partitions({"orders": 3})
    produce(broker, range(4), partition=2)
    assert fill(broker, table).report.summary.records == 4
    assert fill(broker, table).report.summary.records == 0
    assert (offsets(table, 0), offsets(table, 2)) == ([0, 1, 2], [0, 1, 2, 3])


def test_records_that_retention_deleted_between_two_runs_are_an_error_or_a_gap(broker, tmp_path):
    table = tmp_path / "table"
    produce(broker, range(3))
    fill(broker, table)
    produce(broker, range(3, 9))
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("orders", 0): 5})
    with pytest.raises(
        OptionError, match=r"offsets 3 to 4 of orders-0 are missing in the table, .* the topic has deleted them"
    ):
        fill(broker, table)
    result = fill(broker, table, fail_on_data_loss=False)
    assert result.report.table["gaps"]
    assert offsets(table) == [0, 1, 2, 5, 6, 7, 8]


@pytest.fixture
def damaged_broker(tmp_path):
    """A broker with ten batches of 20 records. On its disk, the batch at offset 100 gets a wrong CRC."""
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("orders")
        for first in range(0, 200, 20):
            broker.append("orders", [{"value": b"%d" % number} for number in range(first, first + 20)])
        (path,) = (tmp_path / "data" / "orders-0").glob("*.log")
        raw = bytearray(path.read_bytes())
        end = scan_all(raw).column("position")[6]
        raw[end - 2] ^= 0x01  # in the value of its last record
        path.write_bytes(raw)
        yield broker


UNDAMAGED = [*range(100), *range(120, 200)]


@pytest.mark.parametrize(
    ("settings", "expected", "is_complete"),
    [
        ({"on_damage": "drop"}, UNDAMAGED, False),
        ({"on_damage": "keep"}, list(range(200)), False),  # the records can be read, and the damage is reported
        ({"on_damage": "keep", "verify_crc": False}, list(range(200)), True),
        ({"on_damage": "fail"}, [], False),
    ],
)
def test_damage_is_handled_in_each_mode(damaged_broker, tmp_path, settings, expected, is_complete):
    result = fill(damaged_broker, tmp_path / "table", **settings)
    assert (offsets(tmp_path / "table") if expected else []) == expected
    assert bool(result.report.failed) == (settings["on_damage"] == "fail")
    assert result.report.is_complete == is_complete


def test_after_a_failure_a_run_that_accepts_the_damage_continues(damaged_broker, tmp_path):
    table = tmp_path / "table"
    (failed_range,) = fill(damaged_broker, table, on_damage="fail").report.failed
    assert "100" in str(failed_range.failed)
    assert fill(damaged_broker, table, on_damage="drop").report.summary.records == 180
    assert offsets(table) == UNDAMAGED
