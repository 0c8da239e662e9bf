"""The table ``batches`` of ``kafka-log``: a row for each batch, from its header. No pyspark.

Nothing is decompressed, unless ``deepIteration`` asks how many records can be read and why no more. Damage is a column
here, whatever the mode: bytes that are no batch (a broken framing, a torn tail) are one row, with their ``sizeBytes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from kafkaframes.records import decode
from kafkaframes.records.layout import CONTROL, TRANSACTIONAL
from kafkaframes.records.reasons import CRC_MISMATCH
from kafkaframes.records.scan import Ints, check_crcs
from kafkaframes.spark import arrow
from kafkaframes.spark.arrow import arrow_schema, instants
from kafkaframes.spark.columns import Column
from kafkaframes.spark.options import ReadOptions
from kafkaframes.spark.planning import Segment, Slice
from kafkaframes.spark.reading import find_outside, find_problems
from kafkaframes.spark.rebatch import rebatch
from kafkaframes.spark.stretches import Stretch, read_stretches


class Scanned:
    """What is known of the batches of a stretch; ``kept`` are the rows with an offset that is asked for."""

    def __init__(self, stretch: Stretch, piece: Slice, options: ReadOptions) -> None:
        self.stretch = stretch
        self.segment = piece.segment
        batches = stretch.batches
        self.batch_of: Ints = np.flatnonzero(~find_outside(batches, piece))
        self.valid = check_crcs(stretch.data, batches).astype(bool) if options.verify_crc else None
        assumed = np.ones(len(batches), bool) if self.valid is None else self.valid
        self.readable: Ints | None = None
        self.problems: dict[int, str] = {}
        if options.deep:
            sections = decode.open_sections(stretch.data, batches)
            index = decode.index_records(batches, sections)
            self.readable, self.problems = index.rows, find_problems(index, sections, assumed)
        else:
            self.problems = {int(row): CRC_MISMATCH for row in np.flatnonzero(~assumed)}


def read_batch_work(work: Iterable[Slice], columns: Sequence[Column], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the batches of the slices, in order, as Arrow batches of about 1 MB.

    Raises:
        LogDirError: a segment cannot be read.
    """
    schema = arrow_schema(columns)
    return rebatch(
        _rest(stretch, piece.segment, schema) if stretch.is_end else _table(Scanned(stretch, piece, options), schema)
        for piece in work
        for stretch in read_stretches(piece)
    )


def _table(scanned: Scanned, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_MAKERS[name](scanned) for name in schema.names], schema=schema)


def _rest(stretch: Stretch, segment: Segment, schema: pa.Schema) -> pa.RecordBatch:
    known = {
        "topic": segment.topic,
        "partition": segment.partition,
        "file": segment.path,
        "position": stretch.end_position,
        "sizeBytes": stretch.rest_bytes,
        "error": stretch.end.reason,
    }
    return pa.RecordBatch.from_pylist([known], schema=schema)


def _nullable(name: str, dtype: type) -> Callable[[Scanned], pa.Array]:
    """Return the maker of a column that is null where the format, or a batch shorter than its header, lacks it."""

    def make(scanned: Scanned) -> pa.Array:
        values = scanned.stretch.batches.column(name)[scanned.batch_of]
        return pa.array(values.astype(dtype), mask=values == -1)

    return make


def _readable(scanned: Scanned) -> pa.Array:
    if scanned.readable is None:
        return pa.nulls(scanned.batch_of.size, pa.int32())
    return pa.array(scanned.readable[scanned.batch_of].astype(np.int32))


def _crc_ok(scanned: Scanned) -> pa.Array:
    if scanned.valid is None:
        return pa.nulls(scanned.batch_of.size, pa.bool_())
    return pa.array(scanned.valid[scanned.batch_of])


_MAKERS: dict[str, Callable[[Scanned], pa.Array]] = {
    "topic": arrow.repeated(lambda segment: segment.topic, "string"),
    "partition": arrow.repeated(lambda segment: segment.partition, "int"),
    "file": arrow.repeated(lambda segment: segment.path, "string"),
    "position": arrow.position,
    "sizeBytes": arrow.of_batch("size"),
    "magic": arrow.of_batch("magic", np.int8),
    "codec": arrow.codec,
    "baseOffset": arrow.of_batch("base_offset"),
    "lastOffset": arrow.of_batch("last_offset"),
    "recordCount": _nullable("count", np.int32),
    "readableRecords": _readable,
    "maxTimestamp": lambda scanned: instants(scanned.stretch.batches.column("max_timestamp")[scanned.batch_of]),
    "timestampType": arrow.timestamp_type,
    "producerId": arrow.of_batch("producer_id"),
    "producerEpoch": arrow.of_batch("producer_epoch", np.int16),
    "baseSequence": arrow.of_batch("base_sequence", np.int32),
    "leaderEpoch": arrow.of_batch("leader_epoch", np.int32),
    "transactional": arrow.flag(TRANSACTIONAL),
    "control": arrow.flag(CONTROL),
    "crcOk": _crc_ok,
    "error": lambda scanned: pa.array([scanned.problems.get(row) for row in scanned.batch_of.tolist()], pa.string()),
}
