"""The table ``batches`` of ``kafka-log``: a row for each batch, from its header. No pyspark.

Nothing is decompressed, unless ``deepIteration`` asks how many records can be read and why no more. Damage is a column
here, whatever the mode: bytes that are no batch (a broken framing, a torn tail) are one row, with their ``sizeBytes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.records import decode
from kafkaframes.records.arrays import instants
from kafkaframes.records.chunks import Chunk, Chunks, pieces
from kafkaframes.records.layout import CONTROL, TRANSACTIONAL
from kafkaframes.records.makers import codec_array
from kafkaframes.records.reasons import CRC_MISMATCH
from kafkaframes.records.scan import FILE, Batches, End, Ints, check_crcs, timestamp_types
from kafkaframes.scan.columns import Column
from kafkaframes.scan.log.arrow import arrow_schema, repeated
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import Slice
from kafkaframes.scan.log.reading import OpenSlice, open_slice
from kafkaframes.scan.rebatch import TARGET_BYTES
from kafkaframes.storage.files.segment_file import Meter

_GUESSED_RATIO = 4.0  # of compression, for how many batches are opened at once


class Scanned:
    """What is known of the batches of a chunk; ``kept`` are those with an offset that is asked for."""

    def __init__(self, chunk: Chunk, opened: OpenSlice, options: ReadOptions) -> None:
        self.base = chunk.base
        healer, piece = opened.healer, opened.piece
        bad = None if healer is None or not options.verify_crc else check_crcs(chunk.data, chunk.batches) == 0
        if healer is not None and bad is not None and bad.any():
            chunk = healer(chunk, bad) or chunk
        self.batches: Batches = chunk.batches
        self.valid = check_crcs(chunk.data, chunk.batches).astype(bool) if options.verify_crc else None
        self.readable: Ints | None = None
        self.problems = {} if self.valid is None else dict.fromkeys(np.flatnonzero(~self.valid).tolist(), CRC_MISMATCH)
        self._budget = options.budget_bytes
        if options.deep:
            self._open(chunk)
        outside = self.batches.column("last_offset") < piece.first_offset
        outside |= self.batches.is_v2 & (self.batches.column("base_offset") >= piece.end_offset)
        if opened.unwanted is not None:
            outside |= opened.unwanted(self.batches)
        self.kept: Ints = np.flatnonzero(~outside)

    def _open(self, chunk: Chunk) -> None:
        rows: list[Ints] = [np.empty(0, np.int64)]
        for part in decode.in_turn(chunk.data, chunk.batches, budget_bytes=self._budget):
            rows.append(part.index.rows)
            self.problems |= {part.first + row: problem.reason for row, problem in part.problems.items()}
        self.readable = np.concatenate(rows)

    def column(self, name: str) -> Ints:
        """Return one field of the headers of the kept batches."""
        return self.batches.column(name)[self.kept]


def read_batch_work(
    work: Iterable[Slice], columns: Sequence[Column], options: ReadOptions, *, meter: Meter | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of the slices, in order.

    Raises:
        LogDirError: a segment cannot be read.
    """
    schema = arrow_schema(columns)
    for piece in work:
        yield from _read_slice(piece, columns, schema, options, meter)


def _read_slice(
    piece: Slice, columns: Sequence[Column], schema: pa.Schema, options: ReadOptions, meter: Meter | None
) -> Iterator[pa.RecordBatch]:
    whole = options.verify_crc or options.deep
    with open_slice(piece, options, meter=meter) as opened:
        if opened is None:
            return
        piece = opened.piece
        ended: End | None = None
        for run in opened.runs(options.mode):
            if ended is not None:
                yield _rest(ended, piece, schema, end_position=run.start)
            source = opened.segment.source
            chunks = Chunks(source, rules=FILE, start=run.start, end=piece.end, chunk_bytes=TARGET_BYTES, whole=whole)
            for chunk in chunks:
                for part in pieces(chunk, _GUESSED_RATIO if options.deep else 1.0, TARGET_BYTES):
                    scanned = Scanned(part, opened, options)
                    arrays = [_array(column, scanned, piece) for column in columns]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            ended = run.end = chunks.end
        if ended is not None and ended.position < piece.end:
            yield _rest(ended, piece, schema, end_position=piece.end)


def _array(column: Column, scanned: Scanned, piece: Slice) -> pa.Array:
    if column.name in _MAKERS:
        return _MAKERS[column.name](scanned)
    return repeated(column, piece.segment, scanned.kept.size)


def _rest(end: End, piece: Slice, schema: pa.Schema, *, end_position: int) -> pa.RecordBatch:
    known = {
        "topic": piece.segment.topic,
        "partition": piece.segment.partition,
        "file": piece.segment.path,
        "position": end.position,
        "sizeBytes": end_position - end.position,
        "error": end.reason,
        "source": piece.segment.source,
    }
    return pa.RecordBatch.from_pylist([known], schema=schema)


def _field(name: str, dtype: Any = np.int64) -> Callable[[Scanned], pa.Array]:
    return lambda scanned: pa.array(scanned.column(name).astype(dtype))


def _flag(bit: int) -> Callable[[Scanned], pa.Array]:
    return lambda scanned: pa.array(scanned.batches.flag(bit)[scanned.kept])


def _record_count(scanned: Scanned) -> pa.Array:
    counts = scanned.column("count")
    return pa.array(counts.astype(np.int32), mask=scanned.column("magic") < 2)


def _if_known(values: npt.NDArray[Any] | None, kind: pa.DataType, scanned: Scanned) -> pa.Array:
    return pa.nulls(scanned.kept.size, kind) if values is None else pa.array(values[scanned.kept], kind)


_MAKERS: dict[str, Callable[[Scanned], pa.Array]] = {
    "position": lambda scanned: pa.array(scanned.column("position") + scanned.base),
    "sizeBytes": _field("size"),
    "magic": _field("magic", np.int8),
    "codec": lambda scanned: codec_array(scanned.column("attributes")).cast(pa.string()),
    "baseOffset": _field("base_offset"),
    "lastOffset": _field("last_offset"),
    "recordCount": _record_count,
    "readableRecords": lambda scanned: _if_known(scanned.readable, pa.int32(), scanned),
    "maxTimestamp": lambda scanned: instants(scanned.column("max_timestamp")),
    "timestampType": lambda scanned: pa.array(timestamp_types(scanned.column("magic"), scanned.column("attributes"))),
    "producerId": _field("producer_id"),
    "producerEpoch": _field("producer_epoch", np.int16),
    "baseSequence": _field("base_sequence", np.int32),
    "leaderEpoch": _field("leader_epoch", np.int32),
    "transactional": _flag(TRANSACTIONAL),
    "control": _flag(CONTROL),
    "crcOk": lambda scanned: _if_known(scanned.valid, pa.bool_(), scanned),
    "error": lambda scanned: pa.array([scanned.problems.get(row) for row in scanned.kept.tolist()], pa.string()),
}
