"""Batch headers as an Arrow table: what a log is made of, without decompressing anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import LogDirError
from kafkaframes.records.chunks import Chunk, Chunks, Source
from kafkaframes.records.layout import BATCH_V2, DELETE_HORIZON
from kafkaframes.records.makers import CODEC, TIMESTAMP, codec_array
from kafkaframes.records.scan import CUT, timestamp_types

_PLAIN = {
    "base_offset": pa.int64(),
    "last_offset": pa.int64(),
    "count": pa.int32(),
    "base_timestamp": TIMESTAMP,
    "max_timestamp": TIMESTAMP,
    "producer_id": pa.int64(),
    "producer_epoch": pa.int16(),
    "base_sequence": pa.int32(),
    "leader_epoch": pa.int32(),
    "crc": pa.uint32(),
}
SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("size", pa.int32()),
        ("magic", pa.int8()),
        ("codec", CODEC),
        ("timestamp_type", pa.int32()),
        ("transactional", pa.bool_()),
        ("control", pa.bool_()),
        ("delete_horizon", TIMESTAMP),
        *_PLAIN.items(),
    ]
)


def batches_table(source: Source, *, rules: str, start: int = 0, end: int | None = None) -> pa.Table:
    """Return one row a batch.

    ``count`` is the header's; for formats 0 and 1, which have none, it is 1 for a plain message and null for a
    compressed one. A field that a batch is too short for is null. The schema's metadata says how the scan ended:
    ``end_position``, ``end_reason`` and ``end_corrupt``.

    Args:
        source: where the batches are.
        rules: ``scan.MEMORY`` or ``scan.FILE``.
        start, end: positions in bytes; a batch starts at ``start``.

    Raises:
        LogDirError: the source became shorter while it was read.
    """
    chunks = Chunks(source, rules=rules, start=start, end=end, whole=False)
    result = list(_rows(chunks))
    assert chunks.end is not None
    if chunks.end.status == CUT:
        raise LogDirError(chunks.end.reason, position=chunks.end.position, file=source.name)
    metadata = {
        "end_position": str(chunks.end.position),
        "end_reason": chunks.end.reason,
        "end_corrupt": str(chunks.end.corrupt).lower(),
    }
    return pa.Table.from_batches(result, schema=SCHEMA).replace_schema_metadata(metadata)


def _rows(chunks: Chunks) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        columns = {name: _column(chunk, name, kind) for name, kind in _PLAIN.items()} | _made(chunk)
        yield pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _column(chunk: Chunk, name: str, kind: pa.DataType) -> pa.Array:
    batches = chunk.batches
    values, is_v2 = batches.column(name), batches.is_v2
    field = "last_offset_delta" if name == "last_offset" else "offset" if name == "base_offset" else name
    missing: npt.NDArray[np.bool_] = is_v2 & (batches.column("size") < BATCH_V2.end_of(field))
    if name == "count":
        values = np.where(is_v2, values, 1)
        missing |= batches.is_wrapper
    made = pa.array(values, mask=missing if missing.any() else None)
    return made.cast(kind)


def _made(chunk: Chunk) -> dict[str, Any]:
    batches = chunk.batches
    magics, attributes = batches.column("magic"), batches.column("attributes")
    no_horizon = ~(batches.flag(DELETE_HORIZON) & (batches.column("size") >= BATCH_V2.size))
    return {
        "position": pa.array(batches.column("position") + chunk.base),
        "size": pa.array(batches.column("size").astype(np.int32)),
        "magic": pa.array(magics.astype(np.int8)),
        "codec": codec_array(attributes),
        "timestamp_type": pa.array(timestamp_types(magics, attributes)),
        "transactional": pa.array(batches.is_transactional),
        "control": pa.array(batches.is_control),
        "delete_horizon": pa.array(batches.column("base_timestamp"), mask=no_horizon).cast(TIMESTAMP),
    }
