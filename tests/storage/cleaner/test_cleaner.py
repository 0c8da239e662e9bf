"""Parts of the log cleaner. The agreement tests (kind ``cleaned``) compare complete cleanings with Kafka's cleaner."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.cleaner.reference import PlainOffsetMap

from kafkaframes.errors import LogDirError
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records
from kafkaframes.storage.cleaner import CleanerSettings, clean_partition
from kafkaframes.storage.cleaner.latest import OffsetMap
from kafkaframes.storage.files.producer_files import ProducerEntry, write_producer_snapshot
from kafkaframes.storage.log.discover import discover


@given(st.lists(st.tuples(st.none() | st.binary(max_size=20), st.booleans()), max_size=80), st.integers(0, 80))
def test_the_offset_map_equals_a_dict(records, cut_at):
    offset_map, plain = OffsetMap(), PlainOffsetMap()
    numbers, base = [], 0
    for part in (records[:cut_at], records[cut_at:]):
        keys = [key for key, _ in part]
        buf = np.frombuffer(b"".join(key or b"" for key in keys) or b"\0", np.uint8)
        sizes = np.array([-1 if key is None else len(key) for key in keys], np.int32)
        places = np.concatenate(([0], np.cumsum(np.maximum(sizes, 0))))[:-1].astype(np.int64)
        offsets = np.arange(len(keys), dtype=np.int64) + base
        base += len(keys)
        wanted_mask = np.array([is_selected for _, is_selected in part], np.bool_)
        numbers.append((offset_map.add_records(buf, places, sizes, offsets, wanted_mask), part))
        plain.put_all(buf.tobytes(), places, sizes, offsets, wanted_mask)
        assert offset_map.get_latest_offsets(buf, places, sizes).tolist() == plain.get_all(buf.tobytes(), places, sizes)
    assert len(offset_map) == len(plain.last_offsets)
    assert offset_map.rises
    replaced_flags = [flag for number, part in numbers for flag in offset_map.mask_replaced(number, len(part)).tolist()]
    last = plain.last_offsets
    assert replaced_flags == [bool(w and k is not None and last[k] > offset) for offset, (k, w) in enumerate(records)]


def test_decreasing_offsets_are_handled_one_by_one(tmp_path):
    source = tmp_path / "t-0"
    write_log(source, rows(10, [b"a", b"b"], [b"1", b"2"]), b"")
    (source / f"{11:020}.log").write_bytes(rows(2, [b"a", b"c"], [b"3", b"4"]))  # brokers never write this
    (source / f"{12:020}.log").write_bytes(b"")
    clean(source, tmp_path / "out")
    remaining_rows = [
        (record.offset, record.key)
        for path in sorted((tmp_path / "out").glob("*.log"))
        for batch in read_batches(path.read_bytes())
        for record in batch.records
    ]
    assert remaining_rows == [(10, b"a"), (11, b"b"), (2, b"a"), (3, b"c")]


def test_the_offset_map_grows():
    keys = [b"key-%d" % (number % 9000) for number in range(20_000)]
    buf = np.frombuffer(b"".join(keys), np.uint8)
    sizes = np.array([len(key) for key in keys], np.int32)
    places = np.concatenate(([0], np.cumsum(sizes)))[:-1].astype(np.int64)
    offset_map = OffsetMap()
    offset_map.add_records(buf, places, sizes, np.arange(20_000, dtype=np.int64), np.ones(20_000, np.bool_))
    assert len(offset_map) == 9000
    assert offset_map.get_latest_offsets(buf[: sizes[0]], places[:1], sizes[:1]).tolist() == [18_000]


def write_log(path, *segments: bytes) -> None:
    path.mkdir(parents=True)
    base = 0
    for data in segments:
        (path / f"{base:020}.log").write_bytes(data)
        base = max((batch.last_offset + 1 for batch in read_batches(data)), default=base)


def rows(first: int, keys: list[bytes | None], values: list[bytes | None]) -> bytes:
    offsets = list(range(first, first + len(keys)))
    stamps = [1000] * len(keys)
    return build_records({"offset": offsets, "timestamp": stamps, "key": keys, "value": values}, codec="lz4")


def clean(source, target, **settings):
    (directory,) = discover(str(source))
    given_settings = CleanerSettings(**{"now_ms": 10_000} | settings)
    return clean_partition(directory.filesystem, directory.partitions[0], given_settings, target)


def test_cleaning_keeps_the_latest_record_of_each_key_and_the_source(tmp_path):
    source = tmp_path / "t-0"
    write_log(source, rows(0, [b"a", b"b", b"a"], [b"1", b"2", b"3"]), rows(3, [b"b", None], [None, b"x"]), b"")
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    result = clean(source, tmp_path / "out" / "t-0")
    remaining_rows = [
        (r.offset, r.key, r.value)
        for b in read_batches((tmp_path / "out/t-0" / f"{0:020}.log").read_bytes())
        for r in b.records
    ]
    assert remaining_rows == [(2, b"a", b"3"), (3, b"b", None)]
    assert result.end_offset == 5
    assert result.tally.dropped_records == {"a later record of the key": 2, "without a key": 1}
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before


def test_an_active_segment_without_others_is_not_cleaned(tmp_path):
    write_log(tmp_path / "t-0", rows(0, [b"a", b"a"], [b"1", b"2"]))
    assert clean(tmp_path / "t-0", tmp_path / "out") is None
    assert not (tmp_path / "out").exists()


def test_a_flipped_bit_stops_the_cleaning_without_output(tmp_path):
    data = bytearray(rows(0, [b"a", b"a"], [b"1", b"2"]))
    data[70] ^= 4
    write_log(tmp_path / "t-0", bytes(data), b"")
    (tmp_path / "t-0" / f"{2:020}.log").write_bytes(b"")
    with pytest.raises(LogDirError, match=r"CRC.*offsets 0 to 1.*00000.log"):
        clean(tmp_path / "t-0", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["t-0"]


def test_an_existing_destination_is_rejected(tmp_path):
    write_log(tmp_path / "t-0", rows(0, [b"a", b"a"], [b"1", b"2"]), b"")
    (tmp_path / "out").mkdir()
    with pytest.raises(LogDirError, match="exists already"):
        clean(tmp_path / "t-0", tmp_path / "out")


def test_cleaning_ends_at_the_first_uncleanable_segment_despite_missing_offsets(tmp_path):
    source = tmp_path / "t-0"
    write_log(source, rows(0, [b"a", b"a"], [b"1", b"2"]))
    (source / f"{10:020}.log").write_bytes(b"")
    assert clean(source, tmp_path / "out").end_offset == 10


def test_an_empty_dirty_section_is_not_cleaned(tmp_path):
    write_log(tmp_path / "t-0", b"")
    (tmp_path / "t-0" / f"{10:020}.log").write_bytes(b"")
    assert clean(tmp_path / "t-0", tmp_path / "out") is None


@pytest.mark.parametrize(("log_start", "end"), [(0, None), (2, 4)])
def test_a_transaction_from_before_the_log_start_does_not_stay_open(tmp_path, log_start, end):
    """A broker rebuilds producer state from the log start, so after its next start this producer is unknown."""
    open_batch = build_records(
        {"offset": [0, 1], "timestamp": [1000] * 2, "key": [b"a", b"b"], "value": [b"1"] * 2},
        producer_id=9,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    write_log(tmp_path / "log" / "t-0", open_batch, rows(2, [b"c", b"c"], [b"1", b"2"]), b"")
    (tmp_path / "log" / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {log_start}\n")
    result = clean(tmp_path / "log", tmp_path / "out")
    assert (result and result.end_offset) == end


@pytest.mark.parametrize(("broker_release", "remaining_offsets"), [("2.8", [0]), ("3.9", [0]), ("4.x", [0, 1])])
def test_only_4_x_keeps_an_empty_batch_at_the_end_of_the_cleaned_section(tmp_path, broker_release, remaining_offsets):
    source = tmp_path / "t-0"
    write_log(source, rows(0, [b"a"], [b"1"]) + rows(1, [None], [b"x"]), b"")
    clean(source, tmp_path / "out", broker_release=broker_release)
    data = (tmp_path / "out" / f"{0:020}.log").read_bytes()
    assert [batch.base_offset for batch in read_batches(data)] == remaining_offsets


@pytest.mark.parametrize(("broker_release", "end"), [("2.8", 2), ("3.9", 1), ("4.x", 1)])
def test_only_2_8_cleans_beyond_the_high_watermark(tmp_path, broker_release, end):
    source = tmp_path / "t-0"
    write_log(source, rows(0, [b"a"], [b"1"]), rows(1, [b"a"], [b"2"]), b"")
    assert clean(source, tmp_path / "out", broker_release=broker_release, high_watermark=1).end_offset == end


def test_2_8_loses_delete_horizons_in_rewritten_batches(tmp_path):
    source = tmp_path / "t-0"
    columns = {"offset": [0, 1], "timestamp": [1000, 2000], "key": [b"a", b"b"], "value": [b"1", None]}
    write_log(source, build_records(columns, delete_horizon_ms=99_000), rows(2, [b"a"], [b"2"]), b"")
    clean(source, tmp_path / "out", broker_release="2.8")
    (batch, _) = read_batches((tmp_path / "out" / f"{0:020}.log").read_bytes())
    assert (batch.delete_horizon, batch.base_timestamp, batch.records[0].timestamp) == (None, 2000, 2000)


@pytest.mark.parametrize(("broker_release", "remaining_offsets"), [("2.8", [0, 1]), ("3.9", [1])])
def test_2_8_keeps_the_last_batch_of_a_producer_for_a_week(tmp_path, broker_release, remaining_offsets):
    source, day = tmp_path / "t-0", 86_400_000
    now = 3 * day
    columns = {"offset": [0], "timestamp": [now - 2 * day], "key": [b"a"], "value": [b"1"]}
    first = build_records(columns, producer_id=7, producer_epoch=0, base_sequence=0)
    write_log(source, first, rows(1, [b"a"], [b"2"]), b"")
    entry = ProducerEntry(7, 0, 0, 0, 0, now - 2 * day, -1, -1)
    (source / f"{2:020}.snapshot").write_bytes(write_producer_snapshot([entry]))
    clean(source, tmp_path / "out", broker_release=broker_release, now_ms=now)
    paths = sorted((tmp_path / "out").glob("*.log"))
    assert [batch.base_offset for path in paths for batch in read_batches(path.read_bytes())] == remaining_offsets


def test_all_files_of_a_cleaned_partition_are_flushed(tmp_path, monkeypatch):
    flushed_files, fsync = set(), os.fsync

    def note_call(descriptor):
        flushed_files.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note_call)
    source = tmp_path / "t-0"
    write_log(source, rows(0, [b"a", b"a"], [b"1", b"2"]), rows(2, [b"a"], [b"3"]))
    (source / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    clean(source, tmp_path / "out" / "t-0")
    written_names = {path.name for path in (tmp_path / "out" / "t-0").iterdir()}
    names = {os.path.basename(path).partition(".kafkaframes-part")[0] for path in flushed_files}
    assert f"{2:020}.log" in written_names
    assert "leader-epoch-checkpoint" in written_names
    assert written_names <= names
    assert str(tmp_path / "out") in flushed_files
