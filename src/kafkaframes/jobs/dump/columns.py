"""Convert the batches and records of a chunk to columns, from which text lines and Arrow tables are built.

Columns have the names of the fields in the JSON lines of a dump. The headers of a record become one value of a bytes
column. All headers of a chunk are rendered at once, as lines (``lines.py``). Each record's value is the slice of the
rendered text that contains its headers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.jobs.dump.chunks import get_keys, get_values
from kafkaframes.jobs.dump.lines import (
    Base64Part,
    BytesPart,
    BytesSlices,
    Column,
    CompiledLine,
    NullBranchPart,
    TextPart,
    plan_line,
)
from kafkaframes.records import _kernels_gather as kernels
from kafkaframes.records import scan
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.layout import DELETE_HORIZON
from kafkaframes.records.scan import Bytes, Ints
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import decode_java_text

Columns = Mapping[str, Any]
NO_SEQUENCE = -1  # sequence of batches without a producer id


def build_batch_columns(chunk: DecodedBatches) -> dict[str, Any]:
    """Return a column with one value per batch for each batch field. Positions are absolute."""
    batches = chunk.batches
    magics, attributes = batches.column("magic"), batches.column("attributes")
    is_v2 = batches.is_v2
    base_offsets, last_offsets = chunk.base_offsets, batches.column("last_offset")
    base_sequences = batches.column("base_sequence")
    return {
        "position": batches.column("position") + chunk.base,
        "size": batches.column("size"),
        "magic": magics,
        "valid": chunk.crc_ok,
        "crc": batches.column("crc"),
        "base_offset": base_offsets,
        "last_offset": last_offsets,
        "codec": batches.codecs,
        "ts_type": scan.get_timestamp_types(magics, attributes) + 1,
        "max_ts": batches.column("max_timestamp"),
        "producer_id": batches.column("producer_id"),
        "producer_epoch": batches.column("producer_epoch"),
        "base_sequence": base_sequences,
        "last_sequence": add_sequence_deltas(base_sequences, last_offsets - base_offsets),
        "leader_epoch": batches.column("leader_epoch"),
        "transactional": batches.is_transactional,
        "control": chunk.batches.is_control,
        "delete_horizon": _format_delete_horizons(batches.mask_flag(DELETE_HORIZON), batches.column("base_timestamp")),
        "base_ts": batches.column("base_timestamp"),
        "count": np.where(is_v2, batches.column("count"), chunk.reached_counts),
    }


def build_record_columns(chunk: DecodedBatches) -> dict[str, Any]:
    """Return columns with one value per record: offset, timestamp and its type, sequence, key, value and sizes."""
    index, batches = chunk.index, chunk.batches
    types = scan.get_timestamp_types(batches.column("magic"), batches.column("attributes")) + 1
    base_sequences = batches.column("base_sequence")[chunk.owners]
    sequence_deltas = index.offsets - batches.column("base_offset")[chunk.owners]
    return {
        "offset": index.offsets,
        "timestamp": index.timestamps,
        "ts_type": types[chunk.owners],
        "sequence": np.where(base_sequences >= 0, add_sequence_deltas(base_sequences, sequence_deltas), NO_SEQUENCE),
        "key": get_keys(chunk),
        "value": get_values(chunk),
        "key_size": np.maximum(index.key_size, -1),
        "value_size": np.maximum(index.value_size, -1),
    }


def add_sequence_deltas(base_sequences: Ints, deltas: Ints) -> Ints:
    """Add deltas to sequences as Java does: they wrap from 2^31-1 to 0, and ``NO_SEQUENCE`` stays.

    >>> add_sequence_deltas(np.array([2**31 - 1, 5, -1]), np.array([1, 2, 3])).tolist()
    [0, 7, -1]
    """
    deltas_to_add = _to_int32(deltas)
    is_wrapped = base_sequences > _to_int32(MAX_INT32 - deltas_to_add)
    wrapped_sequences = np.where(
        is_wrapped, deltas_to_add - (MAX_INT32 - base_sequences) - 1, base_sequences + deltas_to_add
    )
    return np.where(base_sequences == NO_SEQUENCE, NO_SEQUENCE, _to_int32(wrapped_sequences))


def _to_int32(values: Ints) -> Ints:
    """Wrap numbers to 32 bits, as Java does."""
    int32_values: Ints = (values + 2**31) % 2**32 - 2**31
    return int32_values


def _format_delete_horizons(has_horizon: npt.NDArray[np.bool_], base_timestamps: Ints) -> pa.Array:
    """Return the delete horizons as text, or null for batches without one."""
    if not has_horizon.any():  # the usual case; a mask also makes pyarrow import pandas if it is installed
        return pa.nulls(len(has_horizon), pa.string())
    return pa.array(base_timestamps, mask=~has_horizon).cast(pa.string())


def slice_rows(columns: Columns, first: int, stop: int) -> dict[str, Any]:
    """Return the rows ``first`` to ``stop`` (exclusive) of columns, without copying."""
    return {name: column[first:stop] for name, column in columns.items()}


_HEADER_KEYS_LINE = plan_line(BytesPart("key"), TextPart(b","))  # the key of a header, and a comma
_HEADER_PAIRS_LINE = plan_line(
    BytesPart("key"),
    TextPart(b"="),
    NullBranchPart("value", (TextPart(b"NULL"),), (BytesPart("value"),)),
    TextPart(b","),
)
_HEADER_JSON_LINE = plan_line(
    *(TextPart(b"["), BytesPart("json_key"), TextPart(b",")),
    NullBranchPart("value", (TextPart(b"null"),), (TextPart(b'"'), Base64Part("value"), TextPart(b'"'))),
    TextPart(b"],"),
)


@dataclass(frozen=True, slots=True)
class ChunkHeaders:
    """All headers of a chunk. The headers of record ``i`` are ``lists[i]:lists[i + 1]``."""

    lists: Ints
    keys: BytesSlices
    values: BytesSlices

    def join_headers(self, line: CompiledLine, **columns: Column) -> BytesSlices:
        """Return the rendered headers of each record as one value, without the separator after the last header."""
        rendered_headers = line.render_lines({"key": self.keys, "value": self.values, **columns}, len(self.keys))
        ends = np.concatenate([np.zeros(1, np.int64), rendered_headers.ends])
        starts, stops = ends[self.lists[:-1]], ends[self.lists[1:]]
        return BytesSlices(rendered_headers.data, starts, np.maximum(stops - starts - 1, 0).astype(np.int32))


def index_headers(chunk: DecodedBatches) -> ChunkHeaders:
    """Find the headers of all records of a chunk."""
    index = chunk.index
    count = int(index.header_counts.sum(dtype=np.int64))
    lists = np.empty(len(index.offsets) + 1, np.int32)
    data = chunk.sections.buf
    keys, values = _allocate_slices(data, count), _allocate_slices(data, count)
    extents = (keys.starts, keys.sizes, values.starts, values.sizes)
    kernels.index_headers(data, index.headers_at, index.header_counts, len(index.offsets), lists, *extents)
    return ChunkHeaders(lists.astype(np.int64), keys, values)


def _allocate_slices(data: Bytes, count: int) -> BytesSlices:
    """Return a column for ``count`` values of ``data``, whose starts and sizes are not set yet."""
    return BytesSlices(data, np.empty(count, np.int64), np.empty(count, np.int32))


def _render_headers(chunk: DecodedBatches, render: Callable[[ChunkHeaders], BytesSlices]) -> BytesSlices:
    """Return a value for each record. If no record has headers, ``render`` is not called."""
    if chunk.index.header_counts.any():
        return render(index_headers(chunk))
    no_headers = np.zeros(len(chunk.index.offsets), np.int64)
    return BytesSlices(chunk.sections.buf, no_headers, no_headers.astype(np.int32))


def render_header_keys(chunk: DecodedBatches) -> BytesSlices:
    """Return each record's header keys, separated by commas (kafka-dump-log)."""
    return _render_headers(chunk, lambda headers: headers.join_headers(_HEADER_KEYS_LINE))


def render_header_pairs(chunk: DecodedBatches) -> BytesSlices:
    """Return each record's headers as ``name=value,name=value`` (kcat's ``%h``)."""
    return _render_headers(chunk, lambda headers: headers.join_headers(_HEADER_PAIRS_LINE))


def render_header_json(chunk: DecodedBatches) -> BytesSlices:
    """Return each record's headers as the elements of a JSON array: [key, value in base64 or null]."""
    return _render_headers(
        chunk, lambda headers: headers.join_headers(_HEADER_JSON_LINE, json_key=_quote_header_keys(headers.keys))
    )


def _quote_header_keys(keys: BytesSlices) -> pa.Array:
    """Return header keys as JSON strings in ASCII. Each distinct key is converted once."""
    quoted_keys: dict[bytes, bytes] = {}
    result = []
    for row in range(len(keys)):
        key = keys.value_at(row) or b""
        if key not in quoted_keys:
            quoted_keys[key] = quote_json_string(decode_java_text(key))
        result.append(quoted_keys[key])
    return pa.array(result, pa.binary())


def quote_json_string(text: str) -> bytes:
    """Return a JSON string in ASCII, as ``json.dumps`` writes it."""
    return json.dumps(text).encode()
