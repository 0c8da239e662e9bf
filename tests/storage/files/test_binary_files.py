"""Indexes and producer snapshots: brokers' files are rewritten byte for byte; other bytes are rejected with their
position.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files import producer_files
from kafkaframes.storage.files.indexes import (
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
    read_offset_index,
    read_time_index,
    write_offset_index,
    write_time_index,
)
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.files.producer_files import (
    AbortedTransaction,
    ProducerEntry,
    read_producer_snapshot,
    read_txn_index,
    write_producer_snapshot,
    write_txn_index,
)

LOGS = Path(__file__).parents[2] / "data" / "logs"
INT16, INT32, INT64 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (16, 32, 64))
READERS = {
    "index": lambda raw, name: read_offset_index(raw, base_offset=name.offset, file=str(name)),
    "timeindex": lambda raw, name: read_time_index(raw, base_offset=name.offset, file=str(name)),
    "txnindex": lambda raw, name: read_txn_index(raw, base_offset=name.offset, file=str(name)),
    "snapshot": lambda raw, name: read_producer_snapshot(raw, file=str(name)),
}
WRITERS = {
    "index": lambda value, size: write_offset_index(value).ljust(size, b"\0"),
    "timeindex": lambda value, size: write_time_index(value).ljust(size, b"\0"),
    "txnindex": lambda value, size: write_txn_index(value),
    "snapshot": lambda value, size: write_producer_snapshot(value),
}


@pytest.mark.parametrize("kind", READERS)
def test_files_of_real_brokers_are_rewritten_byte_for_byte(kind):
    files = [path for path in LOGS.rglob(f"*.{kind}") if FileName.parse(path.name)]
    assert len(files) > 5
    for path in files:
        raw = path.read_bytes()
        assert WRITERS[kind](READERS[kind](raw, FileName.parse(path.name)), len(raw)) == raw


@pytest.mark.parametrize("kind", READERS)
@given(raw=st.binary(max_size=120))
def test_any_bytes_give_a_value_or_an_error_with_a_position(kind, raw):
    error = None
    try:
        READERS[kind](raw, FileName(7, kind))
    except LogDirError as caught:
        error = caught
    assert error is None or error.file == str(FileName(7, kind))
    assert error is None or error.position in range(len(raw) + 1)


@given(
    st.lists(
        st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=8, unique_by=lambda entry: entry[0]
    ),
    st.integers(0, 9),
)
def test_offset_indexes_survive_a_round_trip(entries, zeros):
    relative, positions = sorted({entry[0] for entry in entries} - {0}), sorted({entry[1] for entry in entries} - {0})
    count = min(len(relative), len(positions))
    index = OffsetIndex(50, np.array(relative[:count], np.int64) + 50, np.array(positions[:count], np.int64))
    raw = write_offset_index(index).ljust(8 * (count + zeros), b"\0")
    read = read_offset_index(raw + b"\0" * 16, base_offset=50)
    assert [*read] == [*index]
    for target in (0, 49, 50, 60, 2**40):
        before = [entry for entry in index if entry.offset <= target]
        assert read.lookup(target) == (before[-1] if before else OffsetPosition(50, 0))


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**31 - 1)), max_size=8), st.integers(2, 9))
def test_time_indexes_survive_a_round_trip(entries, zeros):
    stamps = sorted({entry[0] for entry in entries})
    offsets = sorted(entry[1] + 1 for entry in entries)[: len(stamps)]
    index = TimeIndex(50, np.array(stamps, np.int64), np.array(offsets, np.int64) + 49)
    read = read_time_index(write_time_index(index).ljust(12 * (len(index) + zeros), b"\0"), base_offset=50)
    expected_entries = [] if stamps == [0] and offsets == [1] else [*index]
    assert [*read] == expected_entries
    for target in (-5, 0, 2**40, 2**62):
        before = [entry for entry in expected_entries if entry.timestamp <= target]
        assert read.lookup(target) == (before[-1] if before else TimestampOffset(-1, 50))


@given(st.lists(st.builds(ProducerEntry, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64), max_size=5))
def test_producer_snapshots_come_back(producers):
    assert read_producer_snapshot(write_producer_snapshot(producers)) == tuple(producers)


@given(st.lists(st.tuples(INT64, st.integers(0, 1000), st.integers(0, 1000), INT64), max_size=5))
def test_transaction_indexes_survive_a_round_trip(fields):
    lasts = np.cumsum([1 + last for _, _, last, _ in fields]).tolist()
    transactions = tuple(
        AbortedTransaction(producer, min(first, last), last, stable)
        for (producer, first, _, stable), last in zip(fields, lasts, strict=True)
    )
    assert read_txn_index(write_txn_index(transactions)) == transactions


@pytest.mark.parametrize(
    ("kind", "text", "reason", "position"),
    [
        ("index", "0000000500001000 000000", "11 bytes are not a multiple of the entry size, 8", 8),
        ("index", "0000000500001000 0000000500002000", "relative offset 5 follows 5", 8),
        ("index", "0000000500001000 0000000600001000", "position 4096 follows 4096", 8),
        ("index", "0000000500001000 0000000000000000 0000000700002000", "relative offset 0 follows 5", 8),
        ("index", "ffffffff00001000", "relative offset -1 is below 0", 0),
        ("timeindex", "000000000000000500000001 000000000000000500000002", "timestamp 5 follows 5", 12),
        (
            "timeindex",
            "000000000000000500000003 000000000000000600000002",
            "relative offset 2 is negative or below the previous one",
            12,
        ),
        ("timeindex", "ffffffffffffffff00000000", "timestamp -1 is below 0", 0),
        ("txnindex", "0001" + "00" * 32, "unknown version 1", 0),
        ("txnindex", "00" * 33, "33 bytes are not a multiple of the entry size", 0),
        ("txnindex", "0000" + f"{9:016x}{20:016x}{10:016x}{11:016x}", "first offset 20 is not below 10", 0),
        ("txnindex", "0000" + f"{9:016x}{1:016x}{3:016x}{4:016x}", "last offset 3 is below 7", 0),
        ("snapshot", "0001", "2 bytes are not a producer snapshot", 2),
        ("snapshot", "0002 00000000 00000000", "unknown version 2", 0),
        ("snapshot", "0001 00000000 00000000", "the CRC is 0x48674bc7, but the file states 0x00000000", 2),
        ("snapshot", "0001 48674bc7 00000000 00", "CRC is", 2),
    ],
)
def test_errors_have_a_reason_and_a_position(kind, text, reason, position):
    with pytest.raises(LogDirError, match=reason) as error_info:
        READERS[kind](bytes.fromhex(text), FileName(7, kind))
    assert (error_info.value.position, error_info.value.file) == (position, str(FileName(7, kind)))


def test_a_count_that_contradicts_the_size_is_rejected():
    body = (2**31 - 1).to_bytes(4, "big")
    raw = b"\0\1" + producer_files.crc32c(body).to_bytes(4, "big") + body
    with pytest.raises(LogDirError, match="10 bytes are not the size of a snapshot of 2147483647 producers"):
        read_producer_snapshot(raw)


def test_lenient_reading_keeps_complete_entries():
    raw = bytes.fromhex("0000000500001000 0000000400000800 000000")
    assert [*read_offset_index(raw, base_offset=0, strict=False)] == [(5, 4096), (4, 2048)]
    assert read_txn_index(b"\0" * 35, strict=False) == (AbortedTransaction(0, 0, 0, 0),)


def test_one_entry_of_zeros_is_an_entry_and_several_are_preallocated_space():
    assert [*read_time_index(b"\0" * 12, base_offset=5)] == [(0, 5)]
    assert [*read_time_index(b"\0" * 24, base_offset=5)] == []


@pytest.mark.parametrize("offset", [49, 50 + 2**31])
def test_an_offset_outside_the_index_range_is_rejected(offset):
    with pytest.raises(LogDirError, match="too far from the segment's base offset 50"):
        write_offset_index(OffsetIndex(50, np.array([offset]), np.array([0])))


def test_a_position_outside_the_index_range_is_rejected():
    with pytest.raises(LogDirError, match="31 bits"):
        write_offset_index(OffsetIndex(50, np.array([51]), np.array([2**31])))
