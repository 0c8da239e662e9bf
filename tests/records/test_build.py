"""Building records: expected bytes, reference implementations, other readers, and errors with paths."""

import math
import struct
import warnings
import zlib

import aiokafka.record.memory_records as aiokafka_records
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records import reference_build

import kafkaframes
from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records import _kernels_build, build
from kafkaframes.records.build import (
    build_batch,
    build_empty_batch,
    build_end_transaction,
    build_records,
    build_separate_batches,
)
from kafkaframes.records.codecs import Codec, decompress
from kafkaframes.records.fields import BatchFields
from kafkaframes.records.makers import COLUMNS
from kafkaframes.records.rows import rows_of
from kafkaframes.records.scan import scan_all
from kafkaframes.wire.checksum import crc32c

with warnings.catch_warnings():  # a deprecation in Python's importlib.resources
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record.memory_records as kafka_python_records

HEADER_STRUCT = struct.Struct(">qiibIhiqqqhii")
TWO_ROWS = {
    "offset": [7, 9],
    "timestamp": [1000, 998],
    "key": [b"k", None],
    "value": [None, b"vv"],
    "headers": [[("h", b"1"), ("h", None)], []],
}
NULLABLE_BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5), NULLABLE_BYTES), max_size=3)


@st.composite
def draw_columns(draw, *, headers=True):
    """Draw columns of Python values: increasing offsets with gaps, any timestamps, and nulls."""
    count = draw(st.integers(1, 12))

    def column(values):
        return draw(st.lists(values, min_size=count, max_size=count))

    offsets = np.cumsum(column(st.integers(1, 2000))) + draw(st.integers(0, 2**40))
    columns = {
        "offset": [int(offset) for offset in offsets],
        "timestamp": column(st.integers(-1, 2**45)),
        "key": column(NULLABLE_BYTES),
        "value": column(NULLABLE_BYTES),
    }
    return columns | ({"headers": column(HEADERS)} if headers else {})


def parse_batch_header(raw: bytes) -> dict[str, int]:
    names = (
        "base_offset length leader_epoch magic crc attributes last_offset_delta base_timestamp max_timestamp "
        "producer_id producer_epoch base_sequence count"
    )
    return dict(zip(names.split(), HEADER_STRUCT.unpack_from(raw), strict=True))


def split_log(raw: bytes) -> list[bytes]:
    batches, position = [], 0
    while position < len(raw):
        (size,) = struct.unpack_from(">i", raw, position + 8)
        batches.append(raw[position : position + 12 + size])
        position += 12 + size
    return batches


def read_rows(records, raw: bytes) -> list[tuple]:
    log, rows = records.MemoryRecords(raw), []
    while log.has_next():
        batch = log.next_batch()
        assert batch.validate_crc()
        for record in batch:
            timestamp = -1 if record.timestamp is None else record.timestamp  # aiokafka returns None for -1 in format 1
            rows.append((record.offset, timestamp, record.key, record.value, list(record.headers)))
    return rows


def normalize_rows(columns, magic: int) -> list[tuple]:
    count = len(columns["offset"])
    timestamps = columns["timestamp"] if magic else [-1] * count
    headers = columns.get("headers") or [[]] * count
    return list(zip(columns["offset"], timestamps, columns["key"], columns["value"], headers, strict=True))


# ------------------------------------------------------------------------------------------------- by hand


def test_a_batch_of_format_2_has_the_specified_bytes():
    records = bytes.fromhex(
        "22"  # length 17
        "00 00 00"  # attributes, timestamp delta 0, offset delta 0
        "02 6b"  # key "k"
        "01"  # value null
        "04"  # two headers
        "02 68 02 31"  # "h": "1"
        "02 68 01"  # "h": null
    )
    records = bytes((2 * (len(records) - 1),)) + records[1:]
    second = bytes.fromhex("00 03 04 01 04 76 76 00")  # timestamp delta -2, offset delta 2, key null, value "vv"
    records += bytes((2 * len(second),)) + second
    checked_bytes = struct.pack(">hiqqqhii", 0, 2, 1000, 1000, -1, -1, -1, 2) + records
    expected_bytes = struct.pack(">qiibI", 7, 9 + len(checked_bytes), -1, 2, crc32c(checked_bytes)) + checked_bytes
    assert build_records(TWO_ROWS) == expected_bytes


def test_a_message_of_format_1_has_the_specified_bytes():
    columns = {name: TWO_ROWS[name] for name in ("offset", "timestamp", "key", "value")}
    messages = []
    for offset, timestamp, blobs in ((7, 1000, b"\0\0\0\1k\xff\xff\xff\xff"), (9, 998, b"\xff\xff\xff\xff\0\0\0\2vv")):
        checked_bytes = struct.pack(">bbq", 1, 0, timestamp) + blobs
        messages.append(struct.pack(">qiI", offset, 4 + len(checked_bytes), zlib.crc32(checked_bytes)) + checked_bytes)
    assert build_records(columns, record_format=1) == b"".join(messages)


def test_a_message_of_format_0_has_the_specified_bytes():
    checked_bytes = b"\0\0" + b"\0\0\0\1k" + b"\0\0\0\1v"
    expected_bytes = struct.pack(">qiI", 3, 4 + len(checked_bytes), zlib.crc32(checked_bytes)) + checked_bytes
    assert build_records([{"key": "k", "value": "v", "timestamp": 5}], record_format=0, base_offset=3) == expected_bytes


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4], ids=lambda c: c.name)
def test_wrappers_have_the_last_offset_and_the_largest_timestamp(magic, codec):
    columns = {"offset": [100, 102, 107], "timestamp": [50, 90, 70], "value": [b"a", b"b", b"c"]}
    raw = build_records(columns, record_format=magic, codec=codec)
    offset, size, crc = struct.unpack_from(">qiI", raw)
    assert (offset, size, crc) == (107, len(raw) - 12, zlib.crc32(raw[16:]))
    assert raw[16:18] == bytes((magic, codec))
    start = 18
    if magic:
        assert struct.unpack_from(">q", raw, start) == (90,)
        start += 8
    key, length = struct.unpack_from(">ii", raw, start)
    assert (key, length) == (-1, len(raw) - start - 8)
    inner = decompress(codec, raw[start + 8 :], magic=magic)
    assert inner.error is None
    offsets = [struct.unpack_from(">q", message)[0] for message in split_log(inner.data)]
    assert offsets == ([0, 2, 7] if magic else [100, 102, 107])
    for message in split_log(inner.data):
        assert struct.unpack_from(">I", message, 12)[0] == zlib.crc32(message[16:])


def test_header_fields_are_written():
    raw = build_records(
        {"value": [b"a", b"b"], "timestamp": [5, 6], "offset": [10, 12]},
        codec="zstd",
        leader_epoch=3,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=9,
        transactional=True,
    )
    fields = parse_batch_header(raw)
    assert fields["crc"] == crc32c(raw[21:])
    assert fields | {"crc": 0, "length": 0} == {
        "base_offset": 10,
        "length": 0,
        "leader_epoch": 3,
        "magic": 2,
        "crc": 0,
        "attributes": 0x10 | Codec.ZSTD,
        "last_offset_delta": 2,
        "base_timestamp": 5,
        "max_timestamp": 6,
        "producer_id": 2**40,
        "producer_epoch": 7,
        "base_sequence": 9,
        "count": 2,
    }


def test_a_new_append_time_starts_a_new_batch():
    raw = build_records({"value": [b"a", b"b", b"c"], "timestamp": [5, 5, 9]}, timestamp_type="LogAppendTime")
    batches = [parse_batch_header(batch) for batch in split_log(raw)]
    assert [(b["count"], b["max_timestamp"], b["attributes"]) for b in batches] == [(2, 5, 8), (1, 9, 8)]
    raw = build_records(
        {"value": [b"a"], "timestamp": [5]}, record_format=1, timestamp_type="LogAppendTime", codec="gzip"
    )
    assert raw[17] == 8 | Codec.GZIP


def test_the_delete_horizon_is_stored_as_base_timestamp():
    raw = build_records({"value": [b"a"], "timestamp": [1000]}, delete_horizon_ms=4000)
    fields = parse_batch_header(raw)
    assert (fields["base_timestamp"], fields["max_timestamp"], fields["attributes"]) == (4000, 1000, 0x40)
    assert raw[63:65] == bytes.fromhex("ef 2e")  # zig-zag of -3000


def test_sequences_continue_and_wrap_around():
    raw = build_records(
        {"value": [b"x"] * 5}, batch_records=2, producer_id=1, producer_epoch=0, base_sequence=2**31 - 3
    )
    assert [parse_batch_header(batch)["base_sequence"] for batch in split_log(raw)] == [2**31 - 3, 2**31 - 1, 1]


def test_a_transaction_marker_has_its_header_fields():
    raw = build_end_transaction(5, commit=True, timestamp=9, producer_id=4, producer_epoch=2, coordinator_epoch=1)
    assert parse_batch_header(raw)["attributes"] == 0x30
    assert raw.endswith(bytes.fromhex("08 00000001 0c 000000000001 00"))


def test_an_empty_batch_has_its_header_fields():
    fields = BatchFields(producer_id=5, producer_epoch=1, base_sequence=40, leader_epoch=2)
    raw = build_empty_batch(100, 109, max_timestamp=77, fields=fields)
    header_fields = parse_batch_header(raw)
    assert len(raw) == 61
    assert header_fields["crc"] == crc32c(raw[21:])
    assert (
        header_fields["count"],
        header_fields["last_offset_delta"],
        header_fields["base_timestamp"],
        header_fields["max_timestamp"],
    ) == (
        0,
        9,
        -1,
        77,
    )


def test_a_batch_has_the_given_header_fields():
    fields = BatchFields(base_offset=100, last_offset=120, max_timestamp=5000, timestamp_type=1)
    raw = build_batch(
        rows_of({"offset": [99, 101, 105, 130], "value": ["a", "b", "c", "d"]}), fields=fields, start=1, stop=3
    )
    header_fields = parse_batch_header(raw)
    assert (header_fields["base_offset"], header_fields["last_offset_delta"], header_fields["max_timestamp"]) == (
        100,
        20,
        5000,
    )
    assert header_fields["count"] == 2


# -------------------------------------------------------------------------------------------------- batches


@given(columns=draw_columns(), batch_bytes=st.integers(1, 300), batch_records=st.none() | st.integers(1, 4))
def test_batches_are_within_their_limits(columns, batch_bytes, batch_records):
    raw = build_records(columns, batch_bytes=batch_bytes, batch_records=batch_records)
    for batch in split_log(raw):
        count = parse_batch_header(batch)["count"]
        assert count == 1 or len(batch) <= batch_bytes
        assert count <= (batch_records or math.inf)
    greedy = build_records(columns, batch_bytes=1 << 30)
    assert len(split_log(greedy)) == 1


def test_an_offset_delta_of_more_than_32_bits_starts_a_batch():
    raw = build_records({"offset": [0, 2**31 - 1, 2**31], "value": ["a", "b", "c"]})
    assert [parse_batch_header(batch)["count"] for batch in split_log(raw)] == [2, 1]


def test_many_batches_keep_all_rows():
    values = [b"%d" % n * 300 for n in range(9000)]
    for magic, codec in ((2, "none"), (2, "lz4"), (1, "none"), (0, "gzip")):
        raw = build_records({"value": values}, record_format=magic, codec=codec)
        assert [row[3] for row in read_rows(kafka_python_records, raw)] == values


def test_no_rows_build_no_bytes():
    for magic in (0, 1, 2):
        assert build_records({"value": []}, record_format=magic) == b""
    assert build_records([]) == b""


# ---------------------------------------------------------------------------------------------- other readers


@pytest.mark.parametrize("codec", list(Codec), ids=lambda c: c.name)
@pytest.mark.parametrize("magic", [0, 1, 2])
@given(columns=draw_columns(), batch_records=st.integers(1, 12))
def test_other_clients_read_our_batches(magic, codec, columns, batch_records):
    if codec is Codec.ZSTD and magic < 2:
        return
    if magic < 2:
        del columns["headers"]
    raw = build_records(columns, record_format=magic, codec=codec, batch_records=batch_records)
    if (magic, codec) == (0, Codec.LZ4):  # aiokafka rejects it, and kafka-python needs another package
        return
    assert read_rows(aiokafka_records, raw) == normalize_rows(columns, magic)
    if codec is not Codec.SNAPPY:  # another package again
        assert read_rows(kafka_python_records, raw) == normalize_rows(columns, magic)


# ------------------------------------------------------------------------------------------------------ twins


@given(columns=draw_columns(), batch_records=st.integers(1, 12), checksums=st.booleans())
def test_kernel_and_reference_write_equal_batches(columns, batch_records, checksums):
    prepared_rows = rows_of(columns)
    starts = build._split_rows(prepared_rows, 2, Codec.NONE, BatchFields(), 1 << 30, batch_records)
    table = build._make_header_table(
        prepared_rows, starts, Codec.NONE, BatchFields(leader_epoch=4, producer_id=3, base_sequence=2)
    )
    body_sizes = build._measure_batches(prepared_rows, table, 2)
    assert_kernel_equals_reference(
        "write_v2_batches",
        table,
        prepared_rows.offsets,
        prepared_rows.timestamps,
        *prepared_rows.keys,
        *prepared_rows.values,
        prepared_rows.header_starts,
        *prepared_rows.header_names,
        *prepared_rows.header_values,
        table,
        body_sizes,
        int(checksums),
    )


@pytest.mark.parametrize("magic", [0, 1])
@given(columns=draw_columns(headers=False), attributes=st.sampled_from([0, 8]))
def test_kernel_and_reference_write_equal_messages(magic, columns, attributes):
    prepared_rows = rows_of(columns)
    starts = build._split_rows(prepared_rows, magic, Codec.GZIP, BatchFields(), 120, 1 << 30)
    table = build._make_header_table(prepared_rows, starts, Codec.GZIP, BatchFields())
    build._measure_batches(prepared_rows, table, magic)
    assert_kernel_equals_reference(
        "write_messages",
        table,
        prepared_rows.offsets,
        prepared_rows.timestamps,
        *prepared_rows.keys,
        *prepared_rows.values,
        table,
        magic,
        attributes,
    )


@pytest.mark.parametrize("magic", [0, 1, 2])
@given(
    columns=draw_columns(),
    batch_bytes=st.integers(1, 400),
    batch_records=st.integers(1, 12),
    horizon=st.sampled_from([-1, 2**40]),
    same_timestamp=st.booleans(),
)
def test_kernel_and_reference_split_and_measure_equally(
    magic, columns, batch_bytes, batch_records, horizon, same_timestamp
):
    prepared_rows = rows_of(columns)
    results = []
    for twin in (_kernels_build, reference_build):
        starts, body_sizes = np.zeros(prepared_rows.size, np.int64), np.zeros(prepared_rows.size, np.int64)
        limits = (magic, batch_bytes, batch_records, horizon, int(same_timestamp))
        count = twin.split_rows(*build._compute_byte_lengths(prepared_rows), *limits, starts)
        table = build._make_header_table(prepared_rows, starts[:count], Codec.NONE, BatchFields())
        if magic == 2:
            total = twin.measure_v2_batches(*build._compute_byte_lengths(prepared_rows), table, body_sizes)
        else:
            total = twin.measure_messages(prepared_rows.keys.lengths, prepared_rows.values.lengths, magic, table)
        results.append((count, starts.tolist(), total, body_sizes.tolist(), table.tolist()))
    assert results[0] == results[1]


def assert_kernel_equals_reference(name, table, *arguments):
    size = int(table[:, _kernels_build.SIZE].sum())
    fast, slow = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    getattr(_kernels_build, name)(*arguments, fast)
    getattr(reference_build, name)(*arguments, slow)
    assert fast.tobytes() == slow.tobytes()


# ------------------------------------------------------------------------------------------------ what rows are


HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize(
    "columns",
    [
        pa.table({"offset": [7, 9], "timestamp": [1000, 998], "key": ["k", None], "value": [None, "vv"]}),
        pa.record_batch({"offset": [7, 9], "timestamp": [1000, 998], "key": ["k", None], "value": [None, "vv"]}),
        {
            "offset": pa.array([7, 9], pa.int32()),
            "timestamp": pa.array([1_000_000, 998_000], pa.timestamp("us", "UTC")),
            "key": pa.array([b"k", None], pa.large_binary()),
            "value": pa.array([None, "vv"]).dictionary_encode(),
        },
        {
            "offset": np.array([7, 9]),
            "timestamp": pa.array([1, 1000, 998], pa.timestamp("ms"))[1:],
            "key": pa.chunked_array([[b"k"], pa.array([None], pa.binary())]),
            "value": pa.array([b"zz", None, b"vv"], pa.binary())[1:],
        },
        {
            "offset": [7, 9],
            "timestamp": [1000, 998],
            "key": pa.array(["k", None], pa.string_view()),
            "value": pa.array([None, b"vv"], pa.binary(2)),
        },
        [{"offset": 7, "timestamp": 1000, "key": "k"}, {"offset": 9, "timestamp": 998, "value": b"vv"}],
    ],
    ids=["table", "batch", "arrow", "slices", "views", "mappings"],
)
def test_equal_rows_of_other_types_build_equal_bytes(columns):
    expected_bytes = build_records({name: TWO_ROWS[name] for name in ("offset", "timestamp", "key", "value")})
    assert build_records(columns) == expected_bytes


@pytest.mark.parametrize(
    "headers",
    [
        pa.array(TWO_ROWS["headers"], pa.map_(pa.string(), pa.binary())),
        pa.array([[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], []], HEADER_TYPE),
        pa.array([[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None], HEADER_TYPE),
        pa.array(
            [[{"key": "z", "value": b""}], [{"key": "h", "value": b"1"}, {"key": "h", "value": None}], []], HEADER_TYPE
        )[1:],
        [[{"key": "h", "value": b"1"}, {"key": b"h", "value": None}], None],
    ],
    ids=["map", "list", "null list", "slice", "mappings"],
)
def test_equal_headers_of_other_types_build_equal_bytes(headers):
    assert build_records(TWO_ROWS | {"headers": headers}) == build_records(TWO_ROWS)


def test_additional_columns_of_the_reader_are_accepted():
    assert build_records(TWO_ROWS | {"producer_id": [1, 2], "topic": ["a", "b"]}) == build_records(TWO_ROWS)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda c: c.name)
@pytest.mark.parametrize("magic", [0, 1, 2])
@given(columns=draw_columns(), batch_bytes=st.integers(1, 1000))
def test_columns_that_were_read_build_equal_bytes(magic, codec, columns, batch_bytes):
    if codec is Codec.ZSTD and magic < 2:
        return
    if magic < 2:
        del columns["headers"]
    raw = build_records(columns, record_format=magic, codec=codec, batch_bytes=batch_bytes)
    table = pa.Table.from_batches(kafkaframes.read_records(raw, columns=list(COLUMNS), on_damage="fail"))
    assert table["crc_ok"].to_pylist() == [True] * len(columns["offset"])
    assert build_records(table, record_format=magic, codec=codec, batch_bytes=batch_bytes) == raw


def test_the_public_function_builds_equal_bytes():
    assert kafkaframes.build_records(TWO_ROWS, codec="gzip", batch_records=1) == build_records(
        TWO_ROWS, codec="gzip", batch_records=1
    )


# ------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("columns", "options", "path"),
    [
        ({"value": ["a"], "offset": [None]}, {}, ("offset", 0)),
        ({"value": ["a", "b"], "offset": [5, 5]}, {}, ("offset", 1)),
        ({"value": ["a"], "offset": [-1]}, {}, ("offset", 0)),
        ({"value": ["a"], "offset": [2**63]}, {}, ("offset",)),
        ({"value": ["a"], "offset": [1.5]}, {}, ("offset",)),
        ({"value": ["a", "b"]}, {"base_offset": 2**63 - 1}, ("offset",)),
        ({"value": ["a", "b"], "timestamp": [1, None]}, {}, ("timestamp", 1)),
        ({"value": ["a", "b"], "timestamp": [1, -2]}, {}, ("timestamp", 1)),
        ({"value": ["a"], "timestamp": pa.array([1], pa.timestamp("us"))}, {}, ("timestamp",)),
        ({"value": [1]}, {}, ("value",)),
        ({"value": pa.array([1])}, {}, ("value",)),
        ({"value": ["a"], "headers": pa.array(["h"])}, {}, ("headers",)),
        ({"value": ["a"], "headers": [[("h",)]]}, {}, ("headers",)),
        ({"value": ["a"], "headers": [[(None, b"")]]}, {}, ("headers",)),
        ({"value": ["a", "b"], "headers": pa.array([[], [{"value": b""}]], HEADER_TYPE)}, {}, ("headers", 1)),
        ({"value": ["a", "b"], "headers": [[], [("h", b"")]]}, {"record_format": 1}, ("headers", 1)),
        ({"value": ["a"]}, {"record_format": 1, "codec": "zstd"}, ("codec",)),
        ({"value": ["a"], "values": ["b"]}, {}, ("values",)),
        ({"value": ["a"], "key": []}, {}, ()),
        ({"offset": [1]}, {}, ()),
        (5, {}, ()),
    ],
)
def test_errors_have_the_path_of_the_value(columns, options, path):
    with pytest.raises(EncodeError) as error_info:
        build_records(columns, **options)
    assert error_info.value.path == path


@pytest.mark.parametrize(
    "options",
    [
        {"record_format": 3},
        {"codec": "brotli"},
        {"codec": "gzip", "level": 10},
        {"timestamp_type": "Whenever"},
        {"record_format": 0, "timestamp_type": "LogAppendTime"},
        {"record_format": 1, "producer_id": 5},
        {"record_format": 1, "control": True},
        {"control": True, "codec": "gzip"},
        {"batch_bytes": 0},
        {"batch_records": 0},
        {"leader_epoch": 2**31},
        {"producer_epoch": 2**15},
        {"base_sequence": -2},
        {"delete_horizon_ms": -1},
    ],
    ids=str,
)
def test_invalid_options_are_rejected(options):
    with pytest.raises(OptionError):
        build_records({"value": ["a"]}, **options)


def test_rows_outside_the_batch_limits_are_rejected():
    prepared_rows = rows_of({"offset": [5, 2**31 + 5], "value": ["a", "b"]})
    with pytest.raises(EncodeError):
        build_batch(prepared_rows)
    with pytest.raises(EncodeError):
        build_batch(prepared_rows, stop=1, fields=BatchFields(base_offset=6))
    with pytest.raises(EncodeError):
        build_batch(prepared_rows, start=1, fields=BatchFields(last_offset=7))
    with pytest.raises(EncodeError):
        build_batch(prepared_rows, start=2)


def test_format_2_is_smallest_from_four_records():
    """Format 2 has a header of 61 bytes but smaller records. Batches of three or more records are smaller in format 2
    than in format 1.
    """
    for count in range(1, 12):
        columns = {"timestamp": [1_700_000_000_000] * count, "key": [b"key"] * count, "value": [b"value"] * count}
        sizes = [len(build_records(columns, record_format=record_format)) for record_format in (0, 1, 2)]
        assert sizes == [count * (26 + 8), count * (34 + 8), 61 + count * (7 + 8)]
        assert (sizes[2] < sizes[1], sizes[2] < sizes[0]) == (count >= 3, count >= 4)


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
def test_separate_batches_equal_joined_batches_at_offset_0(codec):
    columns = {"key": [b"k%d" % n for n in range(500)], "value": [b"v" * n for n in range(500)], "timestamp": [7] * 500}
    options = {"producer_id": 3, "producer_epoch": 1, "base_sequence": 2**31 - 10}
    whole = build_records(columns, codec=codec, batch_bytes=5_000, **options)
    separate_batches = list(
        build_separate_batches(columns, codec=codec, batch_bytes=5_000, fields=BatchFields(**options))
    )
    batches = scan_all(whole)
    ends = (batches.column("position") + batches.column("size")).tolist()
    pieces = [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert [data for data, _ in separate_batches] == [bytes(8) + piece[8:] for piece in pieces]
    assert [count for _, count in separate_batches] == batches.column("count").tolist()
    assert len(separate_batches) > 10
