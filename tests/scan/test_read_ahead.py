"""Slices read in threads: the order of rows, the limit of buffered bytes, errors, and an early end."""

import random
import subprocess
import sys
import textwrap
import threading
import time

import pyarrow as pa
import pytest

import kafkaframes
from kafkaframes.records.build import build_records
from kafkaframes.scan import slices as scan_slices
from kafkaframes.scan.log import planning
from kafkaframes.scan.read_ahead import ReadAhead

ROWS = 128
BATCH_BYTES = ROWS * 8


class RecordedSlice:
    """A slice with batches of ``ROWS`` numbers, which records how many batches were read and whether it was closed."""

    def __init__(self, first, count, *, failure=None, delay=0.0):
        self.first, self.count, self.failure, self.delay = first, count, failure, delay
        self.read_count = 0
        self.is_closed = False

    def read(self, errors):
        try:
            for number in range(self.first, self.first + self.count):
                time.sleep(self.delay)
                self.read_count += 1
                errors.append(f"damage {number}")
                yield pa.record_batch({"n": pa.array([number] * ROWS, pa.int64())})
            if self.failure is not None:
                raise self.failure
        finally:
            self.is_closed = True


def make_slices(counts, **options):
    first, slices = 0, []
    for count in counts:
        slices.append(RecordedSlice(first, count, **options))
        first += count
    return slices


def read_numbers(ahead, slices, errors):
    return [
        batch.column(0)[0].as_py() for index in range(len(slices)) for batch in ahead.read_slice_rows(index, errors)
    ]


@pytest.mark.parametrize("max_bytes", [None, 1, 3 * BATCH_BYTES])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_rows_and_damage_keep_their_order(threads, max_bytes):
    dice = random.Random(threads)
    slices = make_slices([dice.choice((0, 1, 2, 9)) for _ in range(40)])
    errors = []
    with ReadAhead(slices, threads=threads, max_bytes=max_bytes) as ahead:
        numbers = read_numbers(ahead, slices, errors)
    assert numbers == list(range(len(numbers)))
    assert errors == [f"damage {number}" for number in numbers]
    assert all(part.is_closed for part in slices)


def test_rows_of_later_slices_are_buffered_within_the_limit_while_the_current_slice_continues():
    slices = make_slices([50, 50, 50])
    values = []
    with ReadAhead(slices, threads=3, max_bytes=4 * BATCH_BYTES) as ahead:
        for index in range(3):
            for batch in ahead.read_slice_rows(index, []):
                values.append(batch.column(0)[0].as_py())
                # each thread can have read one batch that is not yet returned
                assert sum(part.read_count for part in slices) <= len(values) + 4 + 3 + 1
    assert values == list(range(150))


def test_a_failure_is_raised_after_the_rows_before_it_and_later_slices_are_not_started():
    slices = make_slices([3, 3, 3, 3, 3, 3, 3, 3])
    slices[2].failure = OSError("disk")
    values = []

    def take_all(ahead):
        for index in range(len(slices)):
            for batch in ahead.read_slice_rows(index, []):
                values.append(batch.column(0)[0].as_py())

    with ReadAhead(slices, threads=2, max_bytes=BATCH_BYTES) as ahead, pytest.raises(OSError, match="disk"):
        take_all(ahead)
    assert values == list(range(9))
    assert not any(part.read_count for part in slices[5:])


def test_an_early_end_closes_the_slices_and_ends_the_threads():
    slices = make_slices([5, 5, 1000, 1000])
    with ReadAhead(slices, threads=3, max_bytes=2 * BATCH_BYTES) as ahead:
        next(ahead.read_slice_rows(0, []))
    assert not any(thread.name.startswith("kafkaframes scan") for thread in threading.enumerate())
    assert all(part.is_closed for part in slices if part.read_count)
    assert slices[2].read_count < 1000


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log of two partitions with small segments, each of which becomes a slice."""
    monkeypatch.setattr(planning, "MIN_INPUT_PARTITION_BYTES", 2000)
    monkeypatch.setattr(planning, "OPEN_COST_BYTES", 0)
    dice = random.Random(7)
    for partition in range(2):
        directory = tmp_path / f"orders-{partition}"
        directory.mkdir()
        for base in range(0, 600, 100):
            values = [dice.randbytes(dice.choice((0, 40, 300))) for _ in range(100)]
            raw = build_records({"offset": list(range(base, base + 100)), "value": values}, batch_bytes=2000)
            (directory / f"{base:020}.log").write_bytes(raw)
    return tmp_path


@pytest.mark.parametrize("cores", [1, 2, 7])
def test_a_scan_reads_in_as_many_threads_as_cores_and_has_the_same_rows(log, monkeypatch, cores):
    thread_counts = []
    monkeypatch.setattr(scan_slices, "count_cores", lambda: cores)
    monkeypatch.setattr(
        scan_slices,
        "ReadAhead",
        lambda *args, threads, **options: thread_counts.append(threads) or ReadAhead(*args, threads=threads, **options),
    )
    scan = kafkaframes.scan_log(log)
    expected_rows = scan.to_arrow(workers=1)
    assert expected_rows.num_rows == 1200
    assert not thread_counts
    assert scan.to_arrow() == expected_rows
    assert pa.Table.from_batches(scan.to_batches(), scan.schema) == expected_rows
    batches = kafkaframes.scan_log(log, budget_bytes=100).to_batches(workers=3)
    assert pa.Table.from_batches(batches, scan.schema) == expected_rows
    assert scan.limit(150).to_arrow() == expected_rows.slice(0, 150)
    assert pa.Table.from_batches(scan.to_batches(workers=3), scan.schema) == expected_rows
    assert thread_counts == [*([cores] if cores > 1 else []), 3, 3]


def test_damage_is_reported_as_with_one_worker(log):
    path = log / "orders-1" / f"{300:020}.log"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    alone, threads = (kafkaframes.scan_log(log).to_batches(workers=count) for count in (1, 3))
    assert pa.Table.from_batches(alone, alone.schema) == pa.Table.from_batches(threads, threads.schema)
    assert [str(error) for error in alone.errors] == [str(error) for error in threads.errors]
    assert alone.errors
    with pytest.raises(kafkaframes.errors.CorruptRecordError):
        kafkaframes.scan_log(log, on_damage="fail").to_arrow(workers=3)


def test_a_process_with_an_open_iterator_exits(log):
    script = textwrap.dedent(
        f"""
        import kafkaframes
        from kafkaframes.scan.log import planning
        planning.MIN_INPUT_PARTITION_BYTES = 2000
        batches = kafkaframes.scan_log({str(log)!r}, budget_bytes=100).to_batches(workers=3)
        print(next(iter(batches)).num_rows > 0)
        """
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stdout) == (0, "True\n"), result.stderr
