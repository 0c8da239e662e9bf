"""Convert a chunk's records to Arrow tables, for the formats ``arrow`` (an IPC stream) and ``csv``.

The columns are those of Spark's Kafka source, in its order. A record without a timestamp has a null timestamp. Header
keys are text, in which U+FFFD replaces invalid UTF-8. Keys, values and header values are bytes in ``arrow``. In
``csv``, keys and values are text, or base64 on request, and headers are a JSON array of [key, value].
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.jobs.dump.chunks import SegmentOrigin, get_keys, get_values
from kafkaframes.jobs.dump.columns import build_record_columns, index_headers
from kafkaframes.jobs.dump.lines import Base64Part, BytesSlices, CompiledLine, plan_line, view_binary_array
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.makers import make_binary_array
from kafkaframes.wire.primitives import decode_java_text

HEADER_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])
RECORD_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(HEADER_TYPE)),
    ]
)
CSV_SCHEMA = pa.schema(
    [
        field if field.name not in ("key", "value", "headers") else pa.field(field.name, pa.string())
        for field in RECORD_SCHEMA
    ]
)
NO_TIMESTAMP = -1  # timestamp of records without one
MAX_TABLE_BYTES = 1 << 30  # limit for the keys, and for the values: an Arrow binary array holds less than 2 GiB
_BASE64_VALUE_LINE = plan_line(Base64Part("value"))  # a line that is one value in base64


def make_tables(chunk: DecodedBatches, origin: SegmentOrigin) -> Iterator[pa.RecordBatch]:
    """Yield a chunk's records as one table, or as several if one would be too large."""
    for part in _split_by_size(chunk):
        columns = build_record_columns(part)
        count = len(part.index.offsets)
        yield pa.RecordBatch.from_arrays(
            [
                _to_binary_array(get_keys(part)),
                _to_binary_array(get_values(part)),
                pa.repeat(pa.scalar(origin.topic, pa.string()), count),
                pa.repeat(pa.scalar(origin.partition, pa.int32()), count),
                pa.array(columns["offset"]),
                _to_timestamp_array(columns["timestamp"]),
                pa.array(columns["ts_type"] - 1, pa.int32()),
                _build_header_lists(part),
            ],
            schema=RECORD_SCHEMA,
        )


def make_csv_tables(chunk: DecodedBatches, origin: SegmentOrigin, *, base64: bool) -> Iterator[pa.RecordBatch]:
    """Yield a chunk's records in text columns. ``base64`` encodes keys, values and header values without loss."""
    for table in make_tables(chunk, origin):
        columns = dict(zip(table.schema.names, table.columns, strict=True))
        for name in ("key", "value"):
            columns[name] = (
                _render_array(_BASE64_VALUE_LINE, view_binary_array(columns[name]), pa.string())
                if base64
                else _to_text_array(columns[name])
            )
        columns["headers"] = _headers_to_json(columns["headers"], base64=base64)
        yield pa.RecordBatch.from_arrays(list(columns.values()), schema=CSV_SCHEMA)


def _split_by_size(chunk: DecodedBatches) -> Iterator[DecodedBatches]:
    """Yield a chunk's records in parts with about ``MAX_TABLE_BYTES`` bytes of keys and values."""
    index = chunk.index
    sizes = np.maximum(index.key_size, 0).astype(np.int64) + np.maximum(index.value_size, 0)
    portion = np.cumsum(sizes) // MAX_TABLE_BYTES
    if len(portion) == 0 or portion[-1] == 0:
        yield chunk
        return
    for number in np.unique(portion).tolist():
        yield chunk.select(portion == number)


def _to_binary_array(values: BytesSlices) -> pa.Array:
    """Copy a bytes column to an Arrow array."""
    return make_binary_array(values.data, values.starts, values.sizes)


def _render_array(line: CompiledLine, values: BytesSlices, kind: pa.DataType) -> pa.Array:
    """Render a bytes column to an Arrow array. Null values stay null."""
    lines = line.render_lines({"value": values}, len(values))
    offsets = np.concatenate([np.zeros(1, np.int64), lines.ends]).astype(np.int32)
    buffers = [_pack_validity(values.sizes >= 0), pa.py_buffer(offsets), pa.py_buffer(lines.data)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _pack_validity(valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    """Return Arrow's validity bitmap; None if all values are valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _to_timestamp_array(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    """Return an Arrow array of timestamps, null for ``NO_TIMESTAMP``."""
    array = pa.array(milliseconds, mask=milliseconds == NO_TIMESTAMP)
    return array.cast(pa.timestamp("ms", "UTC"))


def _build_header_lists(chunk: DecodedBatches) -> pa.Array:
    """Return an Arrow array with each record's list of headers."""
    count = len(chunk.index.offsets)
    if not chunk.index.header_counts.any():
        return pa.array([[]] * count, pa.list_(HEADER_TYPE)) if count else pa.array([], pa.list_(HEADER_TYPE))
    headers = index_headers(chunk)
    items = pa.StructArray.from_arrays(
        [_to_text_array(_to_binary_array(headers.keys)), _to_binary_array(headers.values)], fields=list(HEADER_TYPE)
    )
    return pa.ListArray.from_arrays(pa.array(headers.lists.astype(np.int32)), items)


def _to_text_array(values: pa.Array) -> pa.Array:
    """Convert bytes to text. The slow conversion of single values runs only if some are invalid UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if raw is None else decode_java_text(raw) for raw in values.to_pylist()], pa.string())


def _headers_to_json(headers: pa.Array, *, base64: bool) -> pa.Array:
    """Return each record's headers as JSON, or empty text for a record without headers."""
    if len(headers.values) == 0:
        return pa.array([""] * len(headers), pa.string())
    texts = []
    for items in headers.to_pylist():
        pairs = [[item["key"], _format_value(item["value"], base64=base64)] for item in items]
        texts.append(json.dumps(pairs, ensure_ascii=False) if pairs else "")
    return pa.array(texts, pa.string())


def _format_value(value: bytes | None, *, base64: bool) -> str | None:
    """Return a header value as text; None for null."""
    if value is None:
        return None
    return b64encode(value).decode() if base64 else decode_java_text(value)
