"""One segment that a disk cannot read: the other partitions are exported, and the result is not complete."""

import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import kafkaframes
from kafkaframes import Broker, Producer
from kafkaframes.errors import LogDirError
from kafkaframes.records.build import build_records
from kafkaframes.storage.files import filesystem

FIRST_OFFSETS = ("00000000000000000000", "00000000000000000010", "00000000000000000020")


@pytest.fixture(scope="module")
def whole_log(tmp_path_factory):
    """Return a log with the three segments 0-9, 10-19 and 20-29 in orders-0, and one in orders-1."""
    path = tmp_path_factory.mktemp("unreadable") / "log"
    with Broker(data_dir=path) as broker:
        broker.create_topic("orders", partitions=2, **{"segment.bytes": "1048576"})
        for first in (0, 10, 20):
            big_value = b"v" * 104_000  # the next ten records need another segment
            broker.append("orders", [{"value": big_value} for _ in range(first, first + 10)], partition=0)
        broker.append("orders", [{"value": b"w"} for _ in range(5)], partition=1)
    assert tuple(sorted(segment.stem for segment in (path / "orders-0").glob("*.log"))) == FIRST_OFFSETS
    return path


@pytest.fixture
def break_segment(monkeypatch):
    """Return a function that makes a segment fail with EIO when it is opened, as on a bad sector; None mends it."""
    broken_paths = []
    original = os.open

    def open_or_fail(path, *args, **kwargs):
        if os.fspath(path) in broken_paths:
            raise OSError(5, "Input/output error")
        return original(path, *args, **kwargs)

    monkeypatch.setattr(filesystem.os, "open", open_or_fail)

    def choose(path):
        broken_paths[:] = [] if path is None else [str(path)]

    return choose


def offsets(directory, partition):
    files = sorted(Path(directory, "topic=orders", f"partition={partition}").glob("*.parquet"))
    return [offset for file in files for offset in pq.read_table(file, partitioning=None)["offset"].to_pylist()]


def test_an_export_has_every_other_partition_and_continues_after_the_repair(whole_log, break_segment, tmp_path):
    # strimzi/strimzi-kafka-operator#788, KIP-112: a read error of one segment concerns its partition, not the others
    to, broken_path = tmp_path / "out", whole_log / "orders-0" / f"{FIRST_OFFSETS[1]}.log"
    break_segment(broken_path)
    result = kafkaframes.export_log(whole_log, to)
    assert not result.report.is_complete
    assert not result.to_dict()["complete"]
    assert "orders-0 ends at offset 10, because later transactions are unknown" in str(result)
    assert str(broken_path) in str(result)
    assert (offsets(to, 0), offsets(to, 1)) == (list(range(10)), list(range(5)))
    assert not (to / "_SUCCESS").exists()

    break_segment(None)
    assert kafkaframes.export_log(whole_log, to).report.is_complete
    assert (offsets(to, 0), offsets(to, 1)) == (list(range(30)), list(range(5)))
    assert (to / "_SUCCESS").exists()

    break_segment(
        broken_path
    )  # the disk fails after the export: its files stay, and the result says what was not compared
    assert not kafkaframes.export_log(whole_log, to).report.is_complete
    assert (offsets(to, 0), offsets(to, 1)) == (list(range(30)), list(range(5)))
    assert not (to / "_SUCCESS").exists()


def test_records_of_a_transaction_that_ends_in_the_segment_are_omitted_but_stay_in_earlier_files(
    break_segment, tmp_path
):
    log, to = tmp_path / "log", tmp_path / "out"
    with Broker(data_dir=log) as broker:
        broker.create_topic("orders", **{"segment.bytes": "1048576"})
        with Producer(broker.bootstrap_servers, transactional_id="t") as producer:
            broker.append("orders", [{"value": b"v"}])
            producer.begin_transaction()
            producer.send("orders", b"in the transaction").result(60)
            for _ in range(2):
                broker.append("orders", [{"value": b"v" * 104_000} for _ in range(9)])
            producer.commit_transaction()
    segments = sorted((log / "orders-0").glob("*.log"))
    assert len(segments) == 2

    break_segment(segments[1])
    assert not kafkaframes.export_log(log, to).report.is_complete
    assert offsets(to, 0) == [0]
    break_segment(None)
    assert kafkaframes.export_log(log, to).report.is_complete
    assert offsets(to, 0) == list(range(20))
    break_segment(segments[1])
    assert not kafkaframes.export_log(log, to).report.is_complete
    assert offsets(to, 0) == list(range(20))


def test_an_open_transaction_of_another_partition_is_reported_too(whole_log, break_segment, tmp_path):
    """The start offsets name both partitions, including the one with an unreadable segment."""
    log, records = tmp_path / "log", {"value": [b"x"] * 3}
    shutil.copytree(whole_log, log)
    open_transaction = build_records(records, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    (log / "orders-1" / f"{FIRST_OFFSETS[0]}.log").write_bytes(open_transaction)
    break_segment(log / "orders-0" / f"{FIRST_OFFSETS[1]}.log")
    result = kafkaframes.export_log(log, tmp_path / "out", start={"orders": {0: 0, 1: 0}})
    assert "orders-0 ends at offset 10" in str(result)
    assert "orders-1: the transaction of producer 1 has been open since offset 0" in str(result)
    assert (offsets(tmp_path / "out", 0), offsets(tmp_path / "out", 1)) == (list(range(10)), [])


def test_a_range_before_the_segment_is_complete(whole_log, break_segment, tmp_path):
    break_segment(whole_log / "orders-0" / f"{FIRST_OFFSETS[1]}.log")
    result = kafkaframes.export_log(whole_log, tmp_path / "out", end={"orders": {0: 10, 1: 5}})
    assert result.report.is_complete
    assert offsets(tmp_path / "out", 0) == list(range(10))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_table_has_every_other_partition_and_continues_after_the_repair(
    whole_log, break_segment, tmp_path, isolation
):
    deltalake = pytest.importorskip("deltalake")
    to, last = tmp_path / "table", whole_log / "orders-0" / f"{FIRST_OFFSETS[2]}.log"

    def run():
        result = kafkaframes.table_log(whole_log, to, format="delta", isolation=isolation)
        rows = deltalake.DeltaTable(to).to_pyarrow_table().select(["partition", "offset"]).to_pylist()
        return result.report.is_complete, sorted((row["partition"], row["offset"]) for row in rows)

    other_rows = [(1, offset) for offset in range(5)]
    break_segment(last)
    assert run() == (False, [(0, offset) for offset in range(20)] + other_rows)
    break_segment(None)
    assert run() == (True, [(0, offset) for offset in range(30)] + other_rows)
    if isolation == "read_committed":
        break_segment(last)  # a later run does not fail for the other partitions, either
        assert run() == (False, [(0, offset) for offset in range(30)] + other_rows)


def test_a_single_file_is_not_written(whole_log, break_segment, tmp_path):
    break_segment(whole_log / "orders-0" / f"{FIRST_OFFSETS[1]}.log")
    with pytest.raises(LogDirError, match="Input/output error"):
        kafkaframes.export_log(whole_log, tmp_path / "orders.parquet", single_file=True)
    assert not (tmp_path / "orders.parquet").exists()
