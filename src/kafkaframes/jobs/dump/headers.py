"""The headers of a chunk's records as one bytes column: a piece for each header, side by side for each record.

The pieces are rendered like lines (``lines.py``), all headers of all records at once, and each record's value is the
stretch that its headers take.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafkaframes.jobs.dump.lines import Base64, Column, IfNull, Line, Raw, Slices, Text, plan_line
from kafkaframes.records import _kernels_gather as kernels
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.scan import Bytes, Ints
from kafkaframes.wire.primitives import java_text

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
    places = (keys.starts, keys.sizes, values.starts, values.sizes)
    kernels.index_headers(data, index.headers_at, index.header_counts, len(index.offsets), lists, *places)
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
    found = []
    for row in range(len(keys)):
        key = keys.at(row) or b""
        if key not in known:
            known[key] = json_string(java_text(key))
        found.append(known[key])
    return pa.array(found, pa.binary())


def json_string(text: str) -> bytes:
    """Return a JSON string in ASCII, as ``json.dumps`` writes it."""
    return json.dumps(text).encode()
