"""The text of a segment, by example and for malformed files. The agreement kinds compare it with Kafka's on real
logs.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkaframes
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.dump import chunks, files, text
from kafkaframes.jobs.dump.chunks import ChunkReader, LimitedSelection, RecordFilter, SegmentOrigin, compile_key_pattern
from kafkaframes.jobs.dump.columns import add_sequence_deltas
from kafkaframes.jobs.dump.jsonl import JsonLinesOptions, dump_json_lines
from kafkaframes.jobs.dump.ranges import select_files_in_range
from kafkaframes.jobs.dump.styles import TextOptions
from kafkaframes.jobs.dump.text import dump_text
from kafkaframes.records.build import build_end_transaction

DATA = Path(__file__).parents[2] / "data" / "logs"
PRINT_OPTIONS = TextOptions(deep_iteration=True, print_data_log=True)
SEGMENT_NAME = "00000000000000000000.log"


def segment(folder: Path, raw: bytes, name: str = SEGMENT_NAME) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(raw)
    return str(path)


def some_records(count: int = 5, first: int = 0, **options) -> bytes:
    columns = {
        "offset": list(range(first, first + count)),
        "timestamp": [1000 + n for n in range(count)],
        "key": [b"k%d" % (n % 3) for n in range(count)],
        "value": [b"v%d" % n for n in range(count)],
    }
    return kafkaframes.build_records(columns, **options)


def print_lines(path: str, options: TextOptions = PRINT_OPTIONS) -> list[str]:
    return b"".join(dump_text(path, options, shown_path="f")).decode().splitlines()


def test_a_batch_and_its_records_are_printed(tmp_path):
    lines = print_lines(segment(tmp_path / "t-0", some_records(2)))
    assert lines[:2] == ["Dumping f", "Log starting offset: 0"]
    assert lines[2].startswith("baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 ")
    assert lines[3:] == [
        "| offset: 0 CreateTime: 1000 keySize: 2 valueSize: 2 sequence: -1 headerKeys: [] key: k0 payload: v0",
        "| offset: 1 CreateTime: 1001 keySize: 2 valueSize: 2 sequence: -1 headerKeys: [] key: k1 payload: v1",
    ]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (TextOptions(), 3),
        (TextOptions(deep_iteration=True), 8),
        (TextOptions(print_data_log=True), 8),
        (TextOptions(print_data_log=True, max_bytes=60), 2),
    ],
)
def test_flags_select_the_printed_fields(tmp_path, options, lines):
    assert len(print_lines(segment(tmp_path / "t-0", some_records()), options)) == lines


def test_styles_differ_as_in_kafkas_versions(tmp_path):
    path = segment(tmp_path / "t-0", some_records(1, record_format=1, codec="gzip") + some_records(1, first=5))
    by_style = {style: print_lines(path, TextOptions(style, True, True)) for style in ("4.3.1", "3.9.1", "2.8.2")}
    assert [lines[1] for lines in by_style.values()] == ["Log starting offset: 0"] * 2 + ["Starting offset: 0"]
    assert [lines[3].count("}") for lines in by_style.values()] == [0, 1, 0]
    assert all(("codec: GZIP" in lines[2]) == (style == "2.8.2") for style, lines in by_style.items())
    assert "isValid: true crc: null keySize" in by_style["2.8.2"][5]


def test_without_metadata_4_x_prints_a_bar_before_a_lone_payload(tmp_path):
    columns = {"key": [None, b"k", None], "value": [b"v", None, None]}
    path = segment(tmp_path / "t-0", kafkaframes.build_records(columns))
    bare = {"print_data_log": True, "skip_record_metadata": True}
    assert print_lines(path, TextOptions("4.3", **bare))[3:] == ["| payload: v", "| key: k", ""]
    assert print_lines(path, TextOptions("3.9", **bare))[3:] == [" payload: v", "| key: k", ""]


def test_control_records_are_printed_with_their_type_even_invalid_ones(tmp_path):
    marker = build_end_transaction(commit=True, offset=0, timestamp=7, producer_id=4, producer_epoch=1)
    odd = kafkaframes.build_records({"key": [b"\0"], "value": [b""]}, base_offset=1, control=True, transactional=True)
    lines = print_lines(segment(tmp_path / "t-0", marker + odd))
    assert lines[3].endswith("headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 0")
    assert "controlType: unreadable" in lines[5]


def test_invalid_utf_8_is_replaced_as_in_java(tmp_path):
    path = segment(tmp_path / "t-0", kafkaframes.build_records({"key": [b"\xed\xa0\x80"], "value": [b"\xff\xfe"]}))
    assert print_lines(path)[3].endswith("key: \ufffd payload: \ufffd\ufffd")


def test_offsets_that_are_not_consecutive_are_reported(tmp_path):
    path = segment(tmp_path / "t-0", some_records(2) + some_records(1, first=7))
    for style, expected_line in (("4.3", "  1 is followed by 7"), ("3.9", "  1 is followed by 7")):
        dumped_text = dump_text(path, TextOptions(style, True, True), shown_path="f")
        list(dumped_text)
        assert list(dumped_text.format_error_lines()) == ["Non-consecutive offsets in f", expected_line]
    moved_text = dump_text(segment(tmp_path / "u-0", some_records(1, first=7)), PRINT_OPTIONS, shown_path="f")
    list(moved_text)
    assert list(moved_text.format_error_lines()) == ["Non-consecutive offsets in f", "  -1 is followed by 7"]


def test_sequences_wrap_around_like_in_java():
    assert add_sequence_deltas(np.array([2**31 - 1, 0, -1, 5]), np.array([2, 2**31 - 1, 9, 3])).tolist() == [
        1,
        2**31 - 1,
        -1,
        8,
    ]


def test_chunks_of_any_size_have_the_same_lines(tmp_path, monkeypatch):
    raw = b"".join(some_records(9, first=9 * n, codec="lz4" if n % 2 else "none") for n in range(40))
    path = segment(tmp_path / "t-0", raw)
    whole = print_lines(path)
    assert len(whole) == 2 + 40 + 360
    for chunk_bytes in (1, 61, 200, 1000):
        monkeypatch.setattr(ChunkReader.__init__, "__defaults__", (None, chunk_bytes, 0, None))
        assert print_lines(path) == whole


# ------------------------------------------------------------------------------------------------ hostile


def lines_of_any(path: str) -> tuple[bytes, list[str], list]:
    dumped_text = dump_text(path, PRINT_OPTIONS, shown_path="f")
    out = b"".join(dumped_text)
    return out, list(dumped_text.format_error_lines()), dumped_text.findings.faults


@given(raw=st.binary(max_size=300))
def test_any_bytes_are_dumped_or_reported(tmp_path_factory, raw):
    folder = tmp_path_factory.mktemp("any") / "t-0"
    for name in (
        SEGMENT_NAME,
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000000.txnindex",
    ):
        segment(folder, raw, name)
    segment(folder, raw, "00000000000000000000.snapshot")
    for path in sorted(folder.iterdir()):
        for options in (PRINT_OPTIONS, TextOptions(index_sanity_check=True)):
            b"".join(dump_text(str(path), options))
    b"".join(dump_json_lines([str(folder)]))


@given(at=st.integers(0, 10**6), to=st.integers(0, 255))
def test_one_flipped_byte_never_ends_the_dump(tmp_path_factory, at, to):
    raw = bytearray(
        b"".join(some_records(4, first=4 * n, codec=codec) for n, codec in enumerate(("none", "gzip", "zstd")))
    )
    raw[at % len(raw)] = to
    path = segment(tmp_path_factory.mktemp("flip") / "t-0", bytes(raw))
    out, _, _ = lines_of_any(path)
    assert out.startswith(b"Dumping f\nLog starting offset: 0\n")


def test_a_truncated_file_has_its_whole_batches_and_reports_the_remaining_bytes(tmp_path):
    raw = some_records(2) + some_records(2, first=2, codec="lz4")
    first = len(some_records(2))
    for size in range(len(raw)):
        path = segment(tmp_path / "t-0", raw[:size])
        lines = print_lines(path)
        batches = sum(line.startswith("baseOffset") for line in lines)
        assert batches == (size >= first)
        remaining_bytes = size - batches * first
        assert (f"Found {remaining_bytes} invalid bytes at the end of {SEGMENT_NAME}" in lines) == bool(remaining_bytes)


def test_a_damaged_batch_is_reported_with_its_position_and_the_rest_is_printed(tmp_path):
    good, bad = some_records(3, codec="gzip"), bytearray(some_records(3, first=3, codec="gzip"))
    bad[-20] ^= 0x55
    out, _, faults = lines_of_any(segment(tmp_path / "t-0", good + bytes(bad) + some_records(2, first=6)))
    assert out.count(b"baseOffset") == 3
    assert b"isvalid: false" in out
    assert [fault.position for fault in faults] == [len(good)]
    assert faults[0].file.endswith(SEGMENT_NAME)
    assert b"payload: v1\n" in out.split(b"baseOffset")[-1]


@pytest.mark.parametrize("size", [2**31 - 1, 2**31 - 13, 10**9])
def test_a_huge_length_is_not_allocated(tmp_path, size):
    raw = bytearray(some_records(1))
    raw[8:12] = size.to_bytes(4, "big")
    out, _, faults = lines_of_any(segment(tmp_path / "t-0", bytes(raw)))
    assert b"invalid bytes at the end" in out
    assert not faults


def test_preallocated_bytes_at_the_end_are_a_fault_as_in_kafka_and_no_record_is_lost(tmp_path):
    out, _, faults = lines_of_any(segment(tmp_path / "t-0", some_records(2) + bytes(5000)))
    assert out.count(b"| offset") == 2
    assert "below the minimum" in str(faults[0])


def test_a_file_that_vanishes_is_a_fault_after_the_records_read_before(tmp_path, monkeypatch):
    path = segment(tmp_path / "t-0", some_records(2) * 50)
    monkeypatch.setattr(chunks, "MAX_CHUNK_BYTES", 500)
    reader = ChunkReader(files.list_files_to_dump([path])[0], chunk_bytes=500)
    batch_count = 0
    for chunk in reader:
        batch_count += len(chunk.batches)
        if os.path.exists(path):
            os.unlink(path)
    assert 0 < batch_count < 50
    assert isinstance(reader.fault, LogDirError)


def test_a_file_that_shrinks_is_a_fault(tmp_path):
    path = segment(tmp_path / "t-0", some_records(2) * 50)
    reader = ChunkReader(files.list_files_to_dump([path])[0], chunk_bytes=500)
    for _ in reader:
        os.truncate(path, 0)
    assert "became shorter" in str(reader.fault)


def test_a_growing_file_is_read_up_to_its_initial_size(tmp_path):
    path = segment(tmp_path / "t-0", some_records(2) * 3)
    reader = ChunkReader(files.list_files_to_dump([path])[0])
    with open(path, "ab") as file:
        file.write(some_records(2))
    assert sum(len(chunk.batches) for chunk in reader) == 3


@pytest.mark.skipif(os.getuid() == 0, reason="root can read every file")
def test_an_unreadable_file_is_a_fault(tmp_path):
    path = segment(tmp_path / "t-0", some_records(2))
    os.chmod(path, 0)
    assert "cannot be read" in str(lines_of_any(path)[2][0])


@pytest.mark.parametrize("name", ["notes.txt", "leader-epoch-checkpoint", "x.log.gz"])
def test_a_file_of_another_kind_is_skipped_with_a_message(tmp_path, name):
    assert print_lines(segment(tmp_path, b"text", name)) == ["Dumping f", "Ignoring unknown file f"]


def test_a_directory_that_is_not_a_log_is_rejected(tmp_path):
    (tmp_path / "music").mkdir()
    (tmp_path / "music" / "song.mp3").write_bytes(b"la")
    with pytest.raises(LogDirError, match="contains no Kafka log directory"):
        files.list_files_to_dump([str(tmp_path)])
    with pytest.raises(LogDirError, match="no such file"):
        files.list_files_to_dump([str(tmp_path / "nothing")])
    with pytest.raises(LogDirError, match="nothing matches"):
        files.list_files_to_dump([str(tmp_path / "*.log")])


def test_an_unknown_style_is_rejected(tmp_path):
    with pytest.raises(OptionError, match=r"expected one of 4\.3, 3\.9, 2\.8"):
        dump_text(segment(tmp_path / "t-0", b""), TextOptions("newest"))


# Files, filters, partitions


def test_files_of_a_directory_are_dumped_by_partition():
    log_dir = str(DATA / "unclean-half-finished-swap" / "before")
    plain = [Path(file.path).name for file in files.list_files_to_dump([log_dir])]
    everything = files.list_files_to_dump([log_dir], kinds=files.FILE_KINDS, temporary=True)
    assert len(plain) == 9 or all(name.endswith(".log") for name in plain)
    assert {Path(file.path).suffix for file in everything} >= {".log", ".index", ".swap", ".cleaned"}
    assert [file.path for file in everything] == sorted(file.path for file in everything)


def test_partition_and_offset_are_taken_from_names():
    assert SegmentOrigin.parse_path("/x/orders-1.3a400b54ac4a47ee86e55390ecea333b-delete/0.log").topic == "orders"
    assert SegmentOrigin.parse_path("/x/backup/0.log") == SegmentOrigin(None, None, "backup", "0.log")


@pytest.mark.parametrize(
    ("conditions", "offsets"),
    [
        (RecordFilter(from_offset=3), [3, 4, 5]),
        (RecordFilter(until_offset=2), [0, 1]),
        (RecordFilter(from_timestamp=1001, until_timestamp=1004), [1, 2, 3]),
        (RecordFilter(keys=frozenset([b"k0"])), [0, 3]),
        (RecordFilter(key_pattern=compile_key_pattern("[12]$")), [1, 2, 4, 5]),
        (LimitedSelection(RecordFilter(from_offset=1), 2), [1, 2]),
        (RecordFilter(from_offset=99), []),
    ],
)
def test_filters_keep_the_requested_records(tmp_path, conditions, offsets):
    path = segment(tmp_path / "t-0", some_records(6))
    options = TextOptions(deep_iteration=True, print_data_log=True, keep=conditions)
    offsets_printed = [int(line.split()[2]) for line in print_lines(path, options) if line.startswith("| ")]
    assert offsets_printed == offsets
    json_lines = (
        b"".join(dump_json_lines([path], JsonLinesOptions(keep=conditions)))
        if not isinstance(conditions, LimitedSelection)
        else b""
    )
    assert not json_lines or json_lines.count(b'"type":"record"') == len(offsets)


def test_a_range_of_offsets_opens_only_the_required_segments(tmp_path):
    for first in (0, 5, 10):
        segment(tmp_path / "t-0", some_records(5, first=first), f"{first:020}.log")
    dump_files = files.list_files_to_dump([str(tmp_path)])

    def names(**conditions) -> list[int]:
        return [
            int(Path(dump_file.file.path).stem)
            for dump_file in select_files_in_range(dump_files, lambda _: RecordFilter(**conditions))
        ]

    assert names() == [0, 5, 10]
    assert names(from_offset=7) == [5, 10]
    assert names(until_offset=5) == [0]
    assert names(from_offset=-3) == [10]
    assert names(from_offset=-7) == [5, 10]
    limited_files = select_files_in_range(dump_files, lambda _: RecordFilter(), limit=3)
    first = next(limited_files)
    for chunk in ChunkReader(first.file):
        assert len(first.keep.select_records(chunk).index.offsets) == 3
    assert list(limited_files) == []


def test_records_of_damaged_wrappers_have_their_own_crc(tmp_path):
    raw = some_records(3, record_format=1, codec="gzip")
    lines = print_lines(segment(tmp_path / "t-0", raw), TextOptions("3.9", True, True))
    assert all(" isValid: true crc: " in line for line in lines[3:])
    assert len({line.split("crc: ")[1] for line in lines[3:]}) == 3


def test_java_bytes_returns_text_unchanged(tmp_path):
    raw = "päckchen 🎈\n".encode()
    assert text.encode_like_java(raw) is raw


@pytest.mark.parametrize(
    ("size", "last"),
    [
        (26, "base_offset"),
        (27, "ts_type"),
        (43, "max_ts"),
        (51, "producer_id"),
        (53, "producer_epoch"),
        (60, "base_ts"),
    ],
)
def test_a_batch_shorter_than_its_header_has_the_fields_inside_its_bytes(tmp_path, size, last):
    """``FileRecords`` of Kafka 3.9.1 reads such a batch in the same way."""
    raw = bytearray(some_records(2))
    raw[8:12] = (size - 12).to_bytes(4, "big")
    path = segment(tmp_path / "t-0", bytes(raw))
    line = json.loads(b"".join(dump_json_lines([path])).splitlines()[0])
    assert line["count"] == 0
    fields = list(line)[: list(line).index("count")]
    assert fields[-2:] == ([last, "field_error"] if size < 57 else ["delete_horizon", last])


def test_a_later_format_has_every_field_but_the_base_timestamp(tmp_path):
    raw = bytearray(some_records(2))
    raw[16] = 3
    line = json.loads(b"".join(dump_json_lines([segment(tmp_path / "t-0", bytes(raw))])).splitlines()[0])
    assert line["magic"] == 3
    assert "base_ts" not in line
    assert list(line)[list(line).index("field_error") - 1] == "delete_horizon"


def test_a_length_below_minus_one_of_an_old_message_is_printed_as_it_is_stored(tmp_path):
    raw = bytearray(some_records(1, record_format=0))
    at = 12 + 6  # after offset, size, CRC, magic and attributes: the key's length
    raw[at : at + 4] = (-7).to_bytes(4, "big", signed=True)
    raw[at + 4 : at + 4 + 6] = (2).to_bytes(4, "big") + b"k0"  # no bytes of a key: the value's length and bytes
    del raw[at + 10 :]
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    raw[12:16] = zlib.crc32(raw[16:]).to_bytes(4, "big")
    path = segment(tmp_path / "t-0", bytes(raw))
    assert "keySize: -7 valueSize: 2" in "\n".join(print_lines(path))
    assert b"".join(dump_text(path, TextOptions(deep_iteration=True, style="2.8.2"))).count(b"keySize: -7") == 1
