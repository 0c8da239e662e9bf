"""The columns of a chunk's batches and records, named as the fields of the truth files, for the lines of any format.

The headers of a chunk's records as one bytes column: a piece for each header, side by side for each record.

The pieces are rendered like lines (``lines.py``), all headers of all records at once, and each record's value is the
stretch that its headers take.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.jobs.dump.chunks import keys_of, values_of
from kafkaframes.jobs.dump.lines import Base64, Column, IfNull, Line, Raw, Slices, Text, plan_line
from kafkaframes.records import _kernels_gather as kernels
from kafkaframes.records import scan
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.layout import DELETE_HORIZON
from kafkaframes.records.scan import Bytes, Ints
from kafkaframes.wire.primitives import java_text

Columns = Mapping[str, Any]
NO_SEQUENCE = -1
_MOST = 2**31 - 1


def batch_columns(chunk: Decoded) -> dict[str, Any]:
    """Return one value a batch for every field of a batch; absolute positions."""
    batches = chunk.batches
    magics, attributes = batches.column("magic"), batches.column("attributes")
    modern = batches.is_v2
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
        "ts_type": scan.timestamp_types(magics, attributes) + 1,
        "max_ts": batches.column("max_timestamp"),
        "producer_id": batches.column("producer_id"),
        "producer_epoch": batches.column("producer_epoch"),
        "base_sequence": base_sequences,
        "last_sequence": sequences(base_sequences, last_offsets - base_offsets),
        "leader_epoch": batches.column("leader_epoch"),
        "transactional": batches.is_transactional,
        "control": chunk.batches.is_control,
        "delete_horizon": _horizons(batches.flag(DELETE_HORIZON), batches.column("base_timestamp")),
        "base_ts": batches.column("base_timestamp"),
        "count": np.where(modern, batches.column("count"), chunk.reached),
    }


def record_columns(chunk: Decoded) -> dict[str, Any]:
    """Return one value a record: offset, timestamp and its type, sequence, key and value with their sizes."""
    index, batches = chunk.index, chunk.batches
    types = scan.timestamp_types(batches.column("magic"), batches.column("attributes")) + 1
    base_sequences = batches.column("base_sequence")[chunk.owners]
    deltas = index.offsets - batches.column("base_offset")[chunk.owners]
    return {
        "offset": index.offsets,
        "timestamp": index.timestamps,
        "ts_type": types[chunk.owners],
        "sequence": np.where(base_sequences >= 0, sequences(base_sequences, deltas), NO_SEQUENCE),
        "key": keys_of(chunk),
        "value": values_of(chunk),
        "key_size": np.maximum(index.key_size, -1),
        "value_size": np.maximum(index.value_size, -1),
    }


def sequences(base_sequences: Ints, deltas: Ints) -> Ints:
    """Return the sequences ``deltas`` after others, in Java's ints: they wrap from 2^31-1 to 0; none stays none.

    >>> sequences(np.array([2**31 - 1, 5, -1]), np.array([1, 2, 3])).tolist()
    [0, 7, -1]
    """
    steps = _int32(deltas)
    beyond = base_sequences > _int32(_MOST - steps)
    moved = np.where(beyond, steps - (_MOST - base_sequences) - 1, base_sequences + steps)
    return np.where(base_sequences == NO_SEQUENCE, NO_SEQUENCE, _int32(moved))


def _int32(values: Ints) -> Ints:
    wrapped: Ints = (values + 2**31) % 2**32 - 2**31
    return wrapped


def _horizons(has_one: npt.NDArray[np.bool_], base_timestamps: Ints) -> pa.Array:
    """Return the delete horizons as text, null where a batch has none."""
    if not has_one.any():  # nearly always; and a mask makes pyarrow import pandas, if that is installed
        return pa.nulls(len(has_one), pa.string())
    return pa.array(base_timestamps, mask=~has_one).cast(pa.string())


def rows_of(columns: Columns, first: int, stop: int) -> dict[str, Any]:
    """Return the rows ``first`` to ``stop`` of some columns, without copying."""
    return {name: column[first:stop] for name, column in columns.items()}


_KEYS = plan_line(Raw("key"), Text(b","))
_PAIRS = plan_line(Raw("key"), Text(b"="), IfNull("value", (Text(b"NULL"),), (Raw("value"),)), Text(b","))
_JSON = plan_line(
    *(Text(b"["), Raw("json_key"), Text(b",")),
    IfNull("value", (Text(b"null"),), (Text(b'"'), Base64("value"), Text(b'"'))),
    Text(b"],"),
)


@dataclass(frozen=True, slots=True)
class Headers:
    """All headers of a chunk: ``lists[i]:lists[i + 1]`` are those of record ``i``."""

    lists: Ints
    keys: Slices
    values: Slices

    def joined(self, line: Line, **columns: Column) -> Slices:
        """Return the rendered headers of each record as one value, without the last byte, which separates."""
        rendered = line.render({"key": self.keys, "value": self.values, **columns}, len(self.keys))
        ends = np.concatenate([np.zeros(1, np.int64), rendered.ends])
        starts, stops = ends[self.lists[:-1]], ends[self.lists[1:]]
        return Slices(rendered.data, starts, np.maximum(stops - starts - 1, 0).astype(np.int32))


def index_headers(chunk: Decoded) -> Headers:
    """Find the headers of all records of a chunk."""
    index = chunk.index
    count = int(index.header_counts.sum(dtype=np.int64))
    lists = np.empty(len(index.offsets) + 1, np.int32)
    data = chunk.sections.buf
    keys, values = _empty_slices(data, count), _empty_slices(data, count)
    extents = (keys.starts, keys.sizes, values.starts, values.sizes)
    kernels.index_headers(data, index.headers_at, index.header_counts, len(index.offsets), lists, *extents)
    return Headers(lists.astype(np.int64), keys, values)


def _empty_slices(data: Bytes, count: int) -> Slices:
    return Slices(data, np.empty(count, np.int64), np.empty(count, np.int32))


def _rendered(chunk: Decoded, render: Callable[[Headers], Slices]) -> Slices:
    """Return a value for each record: empty ones at once where no record has headers."""
    if chunk.index.header_counts.any():
        return render(index_headers(chunk))
    none = np.zeros(len(chunk.index.offsets), np.int64)
    return Slices(chunk.sections.buf, none, none.astype(np.int32))


def header_keys(chunk: Decoded) -> Slices:
    """Return each record's header keys, with commas between them (kafka-dump-log)."""
    return _rendered(chunk, lambda headers: headers.joined(_KEYS))


def header_pairs(chunk: Decoded) -> Slices:
    """Return each record's headers as ``name=value,name=value`` (kcat's ``%h``)."""
    return _rendered(chunk, lambda headers: headers.joined(_PAIRS))


def header_json(chunk: Decoded) -> Slices:
    """Return each record's headers as the inside of a JSON array of [key, value in base64 or null]."""
    return _rendered(chunk, lambda headers: headers.joined(_JSON, json_key=_json_keys(headers.keys)))


def _json_keys(keys: Slices) -> pa.Array:
    """Return header keys as JSON strings in ASCII; few keys are on many records."""
    known: dict[bytes, bytes] = {}
    result = []
    for row in range(len(keys)):
        key = keys.at(row) or b""
        if key not in known:
            known[key] = json_string(java_text(key))
        result.append(known[key])
    return pa.array(result, pa.binary())


def json_string(text: str) -> bytes:
    """Return a JSON string in ASCII, as ``json.dumps`` writes it."""
    return json.dumps(text).encode()
