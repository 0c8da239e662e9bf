"""Build Arrow columns and rows from decoded records, and a table from batch headers.

``COLUMNS`` contains a function for each column of records, so columns that are not requested are not created. The fast
path (``fused.py``) usually creates the six ``FUSED_COLUMNS``.

Rewrites (the append path, conversions and the cleaner) decode batches to rows, select or renumber them, and write them
again with ``build.py``. Rows refer to the decoded keys and values without copying them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.records import _kernels_gather
from kafkaframes.records._kernels_gather import SLACK_BYTES
from kafkaframes.records.arrays import bool_array, make_string_array
from kafkaframes.records.decoded import Allocate, DecodedBatches, Ints32, RecordIndex, RecordSections
from kafkaframes.records.layout import BATCH_V2, CODEC_MASK, CODECS, CONTROL, DELETE_HORIZON, TRANSACTIONAL
from kafkaframes.records.rows import ByteStrings, Int64s, Rows, to_byte_strings
from kafkaframes.records.scan import TRUNCATED_SOURCE, BatchSource, Bytes, Chunk, Chunks, Ints, get_timestamp_types
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import decode_java_text

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
TIMESTAMP_ARROW_TYPE = pa.timestamp("ms", tz="UTC")
CODEC_TYPE = pa.dictionary(pa.int8(), pa.string())


def make_binary_array(buf: Bytes, positions: Ints, sizes: Ints32, *, allocate: Allocate = np.empty) -> pa.Array:
    """Return a binary array with byte strings copied from ``buf``; a negative size means null.

    Raises:
        CorruptRecordError: the bytes exceed the range of Arrow's 32-bit offsets.
    """
    count = sizes.size
    total = int(sizes.sum(where=sizes > 0, dtype=np.int64))
    if total > MAX_INT32:
        raise CorruptRecordError(f"a column has {total} bytes in one Arrow batch; Arrow's binary type holds 2^31 - 1")
    offsets, data = allocate(count + 1, np.int32), allocate(total + SLACK_BYTES, np.uint8)
    validity = allocate((count + 7) // 8, np.uint8)
    nulls = _kernels_gather.gather_binary(buf, positions, sizes, count, offsets, data, validity)
    buffers = [pa.py_buffer(validity) if nulls else None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=nulls)


def _binary(result: DecodedBatches, positions: Ints, sizes: Ints32) -> pa.Array:
    return make_binary_array(result.sections.buf, positions, sizes, allocate=result.allocate)


def _make_headers(result: DecodedBatches) -> pa.Array:
    positions, counts = result.index.headers_at, result.index.header_counts
    total, records = int(counts.sum(dtype=np.int64)), counts.size
    allocate = result.allocate
    lists = allocate(records + 1, np.int32)
    parts = [allocate(total, dtype) for dtype in (np.int64, np.int32, np.int64, np.int32)]
    _kernels_gather.index_headers(result.sections.buf, positions, counts, records, lists, *parts)
    keys = decode_java_texts(make_binary_array(result.sections.buf, parts[0], parts[1], allocate=allocate))
    values = make_binary_array(result.sections.buf, parts[2], parts[3], allocate=allocate)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.Array.from_buffers(HEADERS_TYPE, records, [None, pa.py_buffer(lists)], null_count=0, children=[pairs])


def decode_java_texts(raw: pa.Array) -> pa.Array:
    """Return header keys as text, decoded as Java does. The keys are decoded one by one only if some are not UTF-8."""
    data = np.frombuffer(raw.buffers()[2], np.uint8)
    if data.size and data.max() < 0x80:  # ASCII needs no conversion
        return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers(), null_count=0)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([decode_java_text(key) for key in raw.to_pylist()], pa.string())


def _make_sequences(result: DecodedBatches) -> npt.NDArray[np.int32]:
    """Return sequence numbers: the base sequence plus the offset delta, with Kafka's wrap from 2^31 - 1 to 0."""
    bases = result.repeat_per_record(result.batches.column("base_sequence"))
    deltas = result.index.offsets - result.repeat_per_record(result.batches.column("base_offset"))
    deltas = deltas.astype(np.int32).astype(np.int64)
    distance = (MAX_INT32 - deltas).astype(np.int32)
    sums = np.where(bases > distance, deltas - (MAX_INT32 - bases) - 1, bases + deltas)
    return np.where(bases >= 0, sums, -1).astype(np.int32)


_CODEC_NAMES = make_string_array([*CODECS, "unknown"])


def make_codec_array(attributes: Ints) -> pa.Array:
    """Return codec names for the attributes of batches; numbers that Kafka does not define are ``unknown``."""
    numbers = np.minimum(attributes & CODEC_MASK, len(CODECS)).astype(np.int8)
    indices = pa.Array.from_buffers(pa.int8(), numbers.size, [None, pa.py_buffer(numbers)])
    return pa.DictionaryArray.from_arrays(indices, _CODEC_NAMES)


def _numbers(name: str, dtype: Any) -> Callable[[DecodedBatches], Any]:
    return lambda result: result.repeat_per_record(result.batches.column(name).astype(dtype))


def _flag(mask: int) -> Callable[[DecodedBatches], Any]:
    return lambda result: result.repeat_per_record(result.batches.mask_flag(mask))


def _make_delete_horizons(result: DecodedBatches) -> pa.Array:
    has_horizon = result.repeat_per_record(result.batches.mask_flag(DELETE_HORIZON))
    return pa.array(result.repeat_per_record(result.batches.column("base_timestamp")), mask=~has_horizon).cast(
        TIMESTAMP_ARROW_TYPE
    )


class ColumnFactory(NamedTuple):
    """A column's Arrow type, and the function that creates the column."""

    type: pa.DataType
    make: Callable[[DecodedBatches], Any]


COLUMNS: dict[str, ColumnFactory] = {
    "offset": ColumnFactory(pa.int64(), lambda result: result.index.offsets),
    "timestamp": ColumnFactory(TIMESTAMP_ARROW_TYPE, lambda result: result.index.timestamps),
    "timestamp_type": ColumnFactory(
        pa.int32(),
        lambda result: result.repeat_per_record(
            get_timestamp_types(result.batches.column("magic"), result.batches.column("attributes"))
        ),
    ),
    "key": ColumnFactory(pa.binary(), lambda result: _binary(result, result.index.key_at, result.index.key_size)),
    "value": ColumnFactory(pa.binary(), lambda result: _binary(result, result.index.value_at, result.index.value_size)),
    "headers": ColumnFactory(HEADERS_TYPE, _make_headers),
    "base_offset": ColumnFactory(pa.int64(), lambda result: result.repeat_per_record(result.base_offsets)),
    "position": ColumnFactory(
        pa.int64(), lambda result: result.repeat_per_record(result.batches.column("position") + result.base)
    ),
    "magic": ColumnFactory(pa.int8(), _numbers("magic", np.int8)),
    "codec": ColumnFactory(
        CODEC_TYPE, lambda result: make_codec_array(result.repeat_per_record(result.batches.column("attributes")))
    ),
    "producer_id": ColumnFactory(pa.int64(), _numbers("producer_id", np.int64)),
    "producer_epoch": ColumnFactory(pa.int16(), _numbers("producer_epoch", np.int16)),
    "sequence": ColumnFactory(pa.int32(), _make_sequences),
    "leader_epoch": ColumnFactory(pa.int32(), _numbers("leader_epoch", np.int32)),
    "transactional": ColumnFactory(pa.bool_(), _flag(TRANSACTIONAL)),
    "control": ColumnFactory(pa.bool_(), _flag(CONTROL)),
    "crc_ok": ColumnFactory(pa.bool_(), lambda result: result.repeat_per_record(result.crc_ok)),
    "last_offset": ColumnFactory(pa.int64(), _numbers("last_offset", np.int64)),
    "batch_size": ColumnFactory(pa.int32(), _numbers("size", np.int32)),
    "delete_horizon": ColumnFactory(TIMESTAMP_ARROW_TYPE, _make_delete_horizons),
    "key_size": ColumnFactory(pa.int32(), lambda result: np.maximum(result.index.key_size, -1)),
    "value_size": ColumnFactory(pa.int32(), lambda result: np.maximum(result.index.value_size, -1)),
}


def make_arrow_column(name: str, result: DecodedBatches, ready: Mapping[str, pa.Array]) -> pa.Array:
    """Return a column of decoded records. If ``ready`` already contains the column, it is returned unchanged."""
    if name in ready:
        return ready[name]
    column = COLUMNS[name]
    values = column.make(result)
    if isinstance(values, pa.Array):
        return values
    if values.dtype == np.bool_:
        return bool_array(values)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(column.type, values.size, buffers, null_count=0)


_NO_BYTE_STRINGS = ByteStrings(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8))


def make_rows_from_index(
    sections: RecordSections,
    index: RecordIndex,
    *,
    offsets: Int64s | None = None,
    timestamps: Int64s | None = None,
    headers: bool = True,
) -> Rows:
    """Return the records of ``index`` as rows.

    Args:
        sections, index: the results of ``open_sections`` and ``index_records``; the index may be a selection
            (``RecordIndex.take``).
        offsets: offsets that replace the decoded offsets.
        timestamps: timestamps that replace the decoded timestamps, in milliseconds.
        headers: whether to keep the records' headers (formats 0 and 1 have none).
    """
    names, values, starts = _NO_BYTE_STRINGS, _NO_BYTE_STRINGS, np.zeros(0, np.int64)
    total = int(index.header_counts.sum()) if headers else 0
    if total:
        starts, names, values = _make_header_blobs(sections, index, total)
    return Rows(
        index.offsets if offsets is None else offsets,
        index.timestamps if timestamps is None else timestamps,
        _to_byte_strings(sections, index.key_at, index.key_size),
        _to_byte_strings(sections, index.value_at, index.value_size),
        starts,
        names,
        values,
    )


def decode_header_keys(rows: Rows) -> Rows:
    """Return rows with header keys as Java decodes and encodes them: U+FFFD replaces bytes that are not UTF-8."""
    names = rows.header_names
    if not len(names.starts):
        return rows
    raw = make_binary_array(names.data, names.starts, names.lengths.astype(np.int32))
    return rows._replace(header_names=to_byte_strings("headers", decode_java_texts(raw)))


def _to_byte_strings(
    sections: RecordSections, positions: Int64s, sizes: np.ndarray[tuple[int], np.dtype[np.int32]]
) -> ByteStrings:
    return ByteStrings(positions, np.maximum(sizes, -1).astype(np.int64), sections.buf)


def _make_header_blobs(
    sections: RecordSections, index: RecordIndex, total: int
) -> tuple[Int64s, ByteStrings, ByteStrings]:
    records = len(index.offsets)
    lists = np.empty(records + 1, np.int32)
    key_at, value_at = np.empty(total, np.int64), np.empty(total, np.int64)
    key_size, value_size = np.empty(total, np.int32), np.empty(total, np.int32)
    _kernels_gather.index_headers(
        sections.buf, index.headers_at, index.header_counts, records, lists, key_at, key_size, value_at, value_size
    )
    return (
        lists.astype(np.int64),
        _to_byte_strings(sections, key_at, key_size),
        _to_byte_strings(sections, value_at, value_size),
    )


_HEADER_COLUMN_TYPES = {
    "base_offset": pa.int64(),
    "last_offset": pa.int64(),
    "count": pa.int32(),
    "base_timestamp": TIMESTAMP_ARROW_TYPE,
    "max_timestamp": TIMESTAMP_ARROW_TYPE,
    "producer_id": pa.int64(),
    "producer_epoch": pa.int16(),
    "base_sequence": pa.int32(),
    "leader_epoch": pa.int32(),
    "crc": pa.uint32(),
}
BATCH_TABLE_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("size", pa.int32()),
        ("magic", pa.int8()),
        ("codec", CODEC_TYPE),
        ("timestamp_type", pa.int32()),
        ("transactional", pa.bool_()),
        ("control", pa.bool_()),
        ("delete_horizon", TIMESTAMP_ARROW_TYPE),
        *_HEADER_COLUMN_TYPES.items(),
    ]
)


def read_batches_table(source: BatchSource, *, rules: str, start: int = 0, end: int | None = None) -> pa.Table:
    """Return a table with one row per batch.

    ``count`` is the header's record count. In formats 0 and 1, ``count`` is 1 for an uncompressed message and null for
    a compressed one. Fields after the end of a truncated header are null. The schema's metadata states where and why
    the scan ended: ``end_position``, ``end_reason`` and ``end_corrupt``.

    Args:
        rules: ``scan.MEMORY`` or ``scan.FILE``.
        start, end: range of positions in bytes; a batch must start at ``start``.

    Raises:
        LogDirError: the source became shorter while it was read.
    """
    chunks = Chunks(source, rules=rules, start=start, end=end, includes_data=False)
    tables = []
    for chunk in chunks:
        columns = {
            name: _make_column(chunk, name, kind) for name, kind in _HEADER_COLUMN_TYPES.items()
        } | _make_flag_columns(chunk)
        tables.append(
            pa.RecordBatch.from_arrays([columns[name] for name in BATCH_TABLE_SCHEMA.names], schema=BATCH_TABLE_SCHEMA)
        )
    assert chunks.end is not None
    if chunks.end.status == TRUNCATED_SOURCE:
        raise LogDirError(chunks.end.reason, position=chunks.end.position, file=source.name)
    metadata = {
        "end_position": str(chunks.end.position),
        "end_reason": chunks.end.reason,
        "end_corrupt": str(chunks.end.is_corrupt).lower(),
    }
    return pa.Table.from_batches(tables, schema=BATCH_TABLE_SCHEMA).replace_schema_metadata(metadata)


def _make_column(chunk: Chunk, name: str, kind: pa.DataType) -> pa.Array:
    batches = chunk.batches
    values, is_v2 = batches.column(name), batches.is_v2
    field = "last_offset_delta" if name == "last_offset" else "offset" if name == "base_offset" else name
    is_missing: npt.NDArray[np.bool_] = is_v2 & (batches.column("size") < BATCH_V2.end_of(field))
    if name == "count":
        values = np.where(is_v2, values, 1)
        is_missing |= batches.is_wrapper
    array = pa.array(values, mask=is_missing if is_missing.any() else None)
    return array.cast(kind)


def _make_flag_columns(chunk: Chunk) -> dict[str, Any]:
    batches = chunk.batches
    magics, attributes = batches.column("magic"), batches.column("attributes")
    no_horizon = ~(batches.mask_flag(DELETE_HORIZON) & (batches.column("size") >= BATCH_V2.size))
    return {
        "position": pa.array(batches.column("position") + chunk.base),
        "size": pa.array(batches.column("size").astype(np.int32)),
        "magic": pa.array(magics.astype(np.int8)),
        "codec": make_codec_array(attributes),
        "timestamp_type": pa.array(get_timestamp_types(magics, attributes)),
        "transactional": pa.array(batches.is_transactional),
        "control": pa.array(batches.is_control),
        "delete_horizon": pa.array(batches.column("base_timestamp"), mask=no_horizon).cast(TIMESTAMP_ARROW_TYPE),
    }
