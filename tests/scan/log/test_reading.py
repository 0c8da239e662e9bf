"""One task without Spark: every row compared with Kafka's, damage in each mode, bounded memory."""

import contextlib
import logging
import os
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.records.mutations import build_batch_v2, encode_varint
from tests.spark import truth
from tests.spark.truth import CLICKS, EXAMPLE_LOG_DIR

import kafkaframes
from kafkaframes.errors import CorruptRecordError, EncodeError, LogDirError
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.scan.arrow import rebatch
from kafkaframes.scan.columns import BATCH_COLUMNS, RECORD_COLUMNS, choose_columns
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.reading import read_work
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.scan.log.tables import read_batch_work

MODES = ("keep", "drop", "fail")


def read_rows(path, *names, **read_options):
    """Plan a read and run its tasks in this process, one after the other."""
    table = read_options.pop("table", "records")
    options = ReadOptions(paths=(str(path),), table=table, **read_options)
    columns = choose_columns(names or None, table=table)
    works = plan_log(options, cores=1).works
    reader = read_batch_work if table == "batches" else read_work
    batches = [batch for work in works for batch in reader(work, columns, options)]
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def write_segment(folder, raw, base_offset=0):
    partition = folder / "t-0"
    partition.mkdir(exist_ok=True)
    path = partition / f"{base_offset:020}.log"
    path.write_bytes(raw)
    return path


def build_batches(first, count, codec="none", **more):
    offsets = range(first, first + count)
    records = [{"offset": n, "key": b"k%d" % n, "value": b"v" * 40, "timestamp": 1000 + n} for n in offsets]
    return bytearray(kafkaframes.build_records(records, codec=codec, **more))


@pytest.mark.parametrize("names", [("offset", "value"), ("offset", "value", "headers")])
@pytest.mark.parametrize("mode", MODES)
def test_a_damaged_record_is_detected_with_and_without_headers(tmp_path, caplog, mode, names):
    """The first record declares three headers but has none. Another batch follows."""
    claimed_body, sound = b"\0\0\0\x01\x02v\x06", b"\0\0\0\x01\x82\x01" + b"v" * 65 + b"\0"
    section = b"".join(encode_varint(len(body)) + body for body in (claimed_body, sound))
    write_segment(tmp_path, build_batch_v2(section, count=2) + build_batches(2, 2))
    if mode == "fail":
        with pytest.raises(CorruptRecordError, match="count of headers"):
            read_rows(tmp_path, *names, on_damage=mode)
        return
    assert [row["offset"] for row in read_rows(tmp_path, *names, on_damage=mode)] == [2, 3]
    assert "count of headers" in caplog.text


@pytest.mark.parametrize("table", ["records", "batches"])
def test_a_segment_truncated_while_it_is_read_is_an_error(tmp_path, table):
    path = write_segment(tmp_path, b"".join(bytes(build_batches(n * 100, 100)) for n in range(2000)))
    options = ReadOptions(paths=(str(tmp_path),), table=table)
    (work,) = plan_log(options, cores=1).works
    columns = choose_columns(None, table=table)
    batches = (read_batch_work if table == "batches" else read_work)(work, columns, options)
    next(batches)
    os.truncate(path, path.stat().st_size // 2 - 30)
    with pytest.raises(LogDirError, match=f"has become shorter.*{path.name}"):
        list(batches)


def test_sequences_and_first_offsets_of_batches_equal_those_of_kafka():
    rows = read_rows(
        EXAMPLE_LOG_DIR, "topic", "partition", "offset", "sequence", "baseOffset", subscribe=frozenset({"payments"})
    )
    expected_rows, batch = set(), None
    for line in truth.lines_of(EXAMPLE_LOG_DIR):
        if line["type"] == "batch":
            batch = line
        elif line["type"] == "record" and batch["topic"] == "payments" and not batch["control"]:
            expected_rows.add((batch["partition"], line["offset"], line["sequence"], batch["base_offset"]))
    assert {(row["partition"], row["offset"], row["sequence"], row["baseOffset"]) for row in rows} == expected_rows
    wrapper_offsets = {row["baseOffset"] for row in read_rows(CLICKS / "clickstream-0", "baseOffset")}
    assert wrapper_offsets == {
        line["base_offset"]
        for line in truth.lines_of(CLICKS)
        if line["type"] == "batch" and (line["topic"], line["partition"]) == ("clickstream", 0)
    }


@pytest.mark.parametrize("read_bytes", [70, 1000, 1 << 20])
def test_the_read_size_does_not_change_the_result(read_bytes, monkeypatch):
    expected_rows = read_rows(EXAMPLE_LOG_DIR / "orders-0", "offset", "value")
    monkeypatch.setattr("kafkaframes.scan.log.reading.TARGET_BATCH_BYTES", read_bytes)
    assert read_rows(EXAMPLE_LOG_DIR / "orders-0", "offset", "value") == expected_rows


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_every_format_and_codec_is_read(magic, codec, tmp_path):
    if (magic, codec) in ((0, "zstd"), (1, "zstd")):
        with pytest.raises(EncodeError):
            build_batches(0, 1, codec, record_format=magic)
        return
    write_segment(tmp_path, build_batches(7, 100, codec, record_format=magic))
    rows = read_rows(tmp_path, *[column.name for column in RECORD_COLUMNS])
    assert [(row["offset"], row["key"], row["codec"], row["magic"]) for row in rows] == [
        (n, b"k%d" % n, codec, magic) for n in range(7, 107)
    ]
    assert {row["timestampType"] for row in rows} == {0 if magic else -1}


def test_offset_bounds_can_be_inside_batches(tmp_path):
    write_segment(
        tmp_path,
        build_batches(0, 100, "lz4") + build_batches(100, 100, record_format=1, codec="gzip") + build_batches(200, 100),
    )
    for start, end in [(0, 300), (50, 51), (99, 101), (150, 150), (199, 201), (250, 999)]:
        bounds = {"start": {("t", 0): start}, "end": {("t", 0): end}, "fail_on_data_loss": end <= 300}
        rows = read_rows(tmp_path, "offset", **bounds)
        assert [row["offset"] for row in rows] == list(range(start, min(end, 300)))


def test_invalid_utf_8_in_headers_and_far_timestamps_are_read(tmp_path):
    record = {"key": None, "value": None, "timestamp": 2**62, "headers": [(b"a\xff", b"\xff"), (b"", None)]}
    write_segment(tmp_path, kafkaframes.build_records([record, {"key": b"", "value": b"", "timestamp": -1}]))
    first, second = read_rows(tmp_path, "key", "value", "timestamp", "headers", timestamp_errors="null")
    assert first == {
        "key": None,
        "value": None,
        "timestamp": None,
        "headers": [{"key": "a\ufffd", "value": b"\xff"}, {"key": "", "value": None}],
    }
    assert (second["key"], second["value"], second["headers"]) == (b"", b"", None)
    assert second["timestamp"].isoformat() == "1969-12-31T23:59:59.999000+00:00"


def damage_batch(kind, raw):
    """Damage the second of three batches of ten records. Return the records that each mode keeps."""
    size = len(raw) // 3
    if kind == "checksum":  # with a wrong checksum, all records can be read
        raw[size + 17] ^= 1
        return {"keep": 30, "drop": 20}
    if kind == "a length in the fourth record":
        record = (size - 61) // 10
        raw[size + 61 + 3 * record] ^= 0x40
        return {"keep": 23, "drop": 20}
    if kind == "codec":
        raw[size + 22] = 7
        return {"keep": 20, "drop": 20}
    raw[size + 8 : size + 12] = bytes(4)  # with a wrong batch size, no later batch can be found
    return {"keep": 10, "drop": 10}


@pytest.mark.parametrize("kind", ["checksum", "a length in the fourth record", "codec", "framing"])
@pytest.mark.parametrize("mode", MODES)
def test_damage_is_handled_in_each_mode(kind, mode, tmp_path, caplog):
    raw = bytearray().join(build_batches(n, 10, base_sequence=-1) for n in (10, 20, 30))
    position = len(raw) // 3
    offsets_by_mode = damage_batch(kind, raw)
    path = write_segment(tmp_path, raw, base_offset=10)
    if mode == "fail":
        with pytest.raises(CorruptRecordError) as caught:
            read_rows(tmp_path, "offset", on_damage=mode)
        assert (caught.value.position, caught.value.file) == (position, str(path))
        assert "offset 20" in str(caught.value) or kind == "framing"
        return
    with caplog.at_level(logging.WARNING, logger="kafkaframes.scan"):
        offsets = [row["offset"] for row in read_rows(tmp_path, "offset", on_damage=mode)]
    assert len(offsets) == offsets_by_mode[mode]
    assert offsets[:10] == list(range(10, 20))
    assert kind == "framing" or offsets[-10:] == list(range(30, 40))
    assert f"{path}, byte {position}" in caplog.text


def test_damage_outside_the_requested_offsets_is_ignored(tmp_path):
    raw = bytearray().join(build_batches(n, 10) for n in (10, 20, 30))
    damage_batch("codec", raw)
    write_segment(tmp_path, raw)
    rows = read_rows(tmp_path, "offset", on_damage="fail", start={("t", 0): 30})
    assert [row["offset"] for row in rows] == list(range(30, 40))


@pytest.mark.parametrize("mode", MODES)
def test_a_torn_tail_is_skipped_and_reported(mode, tmp_path, caplog):
    path = write_segment(tmp_path, build_batches(0, 10) + build_batches(10, 10)[:-5])
    assert len(read_rows(tmp_path, "offset", on_damage=mode)) == 10
    assert "the last batch is not whole" in caplog.text
    assert str(path) in caplog.text
    rest = read_rows(tmp_path, table="batches")[-1]
    assert (rest["error"], rest["codec"]) == ("the last batch is not whole", None)
    assert rest["position"] + rest["sizeBytes"] == path.stat().st_size


def test_a_file_with_missing_bytes_is_an_error_in_every_mode(tmp_path):
    shutil.copytree(EXAMPLE_LOG_DIR / "orders-0", tmp_path / "orders-0")
    options = ReadOptions(paths=(str(tmp_path),))
    works = plan_log(options, cores=1).works
    path = Path(works[0][0].segment.path)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(LogDirError, match=f"has become shorter.*{path.name}"):
        list(read_work(works[0], choose_columns(["offset"]), options))
    path.unlink()
    with pytest.raises(LogDirError, match=path.name):
        list(read_work(works[0], choose_columns(["offset"]), options))


def test_record_batches_are_not_much_larger_than_a_megabyte(tmp_path):
    write_segment(tmp_path, bytes(build_batches(0, 30_000, "zstd")))
    options = ReadOptions(paths=(str(tmp_path),))
    works = plan_log(options, cores=1).works
    sizes = [batch.nbytes for batch in rebatch(read_work(works[0], choose_columns(None), options))]
    assert max(sizes) < 1.5e6
    assert len(sizes) <= sum(sizes) / 4e5


def check_bytes(raw, mode, table):
    with tempfile.TemporaryDirectory() as folder:
        write_segment(Path(folder), raw)
        names = [column.name for column in (BATCH_COLUMNS if table == "batches" else RECORD_COLUMNS)]
        with contextlib.suppress(*[CorruptRecordError] if mode == "fail" else []):
            # A timestamp beyond Spark's range is not damage, so by default it is an error even with on_damage=keep.
            read_rows(
                folder, *names, on_damage=mode, table=table, deep=True, include_control=True, timestamp_errors="null"
            )


@given(st.binary(max_size=300), st.sampled_from(MODES), st.sampled_from(["records", "batches"]))
def test_any_bytes_give_rows_or_an_error_of_this_package(raw, mode, table):
    check_bytes(raw, mode, table)


@given(
    st.integers(0, 2),
    st.sampled_from(["none", "gzip", "snappy", "lz4"]),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), max_size=6),
    st.sampled_from(MODES),
)
@example(2, "none", [(BATCH_V2.position_of("base_timestamp"), 0x40)], "keep")
def test_any_damage_gives_rows_or_an_error_of_this_package(magic, codec, flips, mode):
    raw = build_batches(0, 20, codec, record_format=magic) * 2
    for position, bits in flips:
        raw[position % len(raw)] ^= bits
    check_bytes(bytes(raw), mode, "records")
