"""What one task does: slices of segments in, Arrow batches with Spark's columns out. No pyspark.

Per stretch of about a megabyte: batches that nobody wants are skipped unread (their offsets lie outside, or they hold
control records), the others decompressed and indexed, damage is dealt with by the mode, and the columns asked for are
gathered; no other is touched.

Modes

* ``PERMISSIVE``: what Kafka's own reader would hand out: a batch's records up to its damage, then the next batch; also
  the records of a batch whose checksum is wrong but which can be read. Where the framing breaks, the slice ends.
* ``DROPMALFORMED``: no record of a damaged batch, or of one whose checksum is wrong.
* ``FAILFAST``: the first damage is an error.

In the first two each damage is a warning of the logger ``kafkaframes.spark`` (Spark prints it, and keeps it for
``spark.tvf.python_worker_logs()`` where that is enabled). A file that cannot be read, or has lost bytes since the read
was planned, is an error in every mode: that is no malformed data but missing data.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError
from kafkaframes.records import decode
from kafkaframes.records.decode import Index, Sections
from kafkaframes.records.layout import CODEC_MASK, CONTROL
from kafkaframes.records.reasons import CRC_MISMATCH
from kafkaframes.records.scan import Batches, Ints, check_crcs
from kafkaframes.spark.arrow import Found, arrow_schema, gather
from kafkaframes.spark.columns import Column
from kafkaframes.spark.options import ReadOptions
from kafkaframes.spark.planning import NO_END, NO_START, Slice
from kafkaframes.spark.rebatch import rebatch
from kafkaframes.spark.stretches import Stretch, read_stretches

log = logging.getLogger("kafkaframes.spark")
Mask = npt.NDArray[np.bool_]


def read_work(work: Iterable[Slice], columns: Sequence[Column], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of the slices, in order, as Arrow batches of about 1 MB.

    Raises:
        CorruptRecordError: damage, in mode FAILFAST; it names file, position and offset.
        LogDirError: a segment cannot be read.
    """
    schema = arrow_schema(columns)
    return rebatch(gather(found, columns, schema) for piece in work for found in read_slice(piece, options))


def read_slice(piece: Slice, options: ReadOptions) -> Iterator[Found]:
    """Yield what was found in each stretch of a slice: the index of the records wanted.

    Raises:
        CorruptRecordError: damage, in mode FAILFAST.
        LogDirError: the segment cannot be read.
    """
    for stretch in read_stretches(piece):
        if stretch.is_end:
            _report_end(stretch, piece, options.mode)
        else:
            yield _find(stretch, piece, options)


def _report_end(stretch: Stretch, piece: Slice, mode: str) -> None:
    """Tell of bytes that are no batch; a torn tail, which every crash leaves, is no error to Kafka either."""
    reason = f"{stretch.end.reason}; {stretch.rest_bytes} bytes are not read"
    error = CorruptRecordError(reason, position=stretch.end_position, file=piece.segment.path)
    if mode == "FAILFAST" and stretch.end.corrupt:
        raise error
    log.warning("%s", error)


def _find(stretch: Stretch, piece: Slice, options: ReadOptions) -> Found:
    batches = stretch.batches
    outside = find_outside(batches, piece)
    skip = outside if options.include_control else outside | _is_control(batches)
    valid = check_crcs(stretch.data, batches).astype(bool) if options.verify_crc else np.ones(len(batches), bool)
    sections = decode.open_sections(stretch.data, batches, skip=skip)
    index = decode.index_records(batches, sections)
    damaged = _report(stretch, piece, index, sections, valid | outside, options.mode)
    base_offsets = _base_offsets(batches, index)
    batch_of = np.repeat(np.arange(len(batches)), index.rows)
    keep = _kept(index, batch_of, piece, damaged if options.mode == "DROPMALFORMED" else None)
    if keep is not None:
        index = index.take(keep, batch_of)
        batch_of = batch_of[keep]
    return Found(stretch, sections, index, batch_of, valid, base_offsets, piece.segment)


def find_outside(batches: Batches, piece: Slice) -> Mask:
    """Say which batches hold no offset asked for. A wrapper's offset (formats 0 and 1) bounds it from above only."""
    outside: Mask = batches.column("last_offset") < piece.first_offset
    outside |= (batches.column("magic") >= 2) & (batches.column("base_offset") >= piece.end_offset)
    return outside


def _is_control(batches: Batches) -> Mask:
    control: Mask = (batches.column("magic") >= 2) & ((batches.column("attributes") & CONTROL) != 0)
    return control


def _base_offsets(batches: Batches, index: Index) -> Ints:
    wrappers = (batches.column("magic") < 2) & (batches.column("attributes") & CODEC_MASK != 0) & (index.rows > 0)
    bases = batches.column("base_offset")
    if wrappers.any():
        bases = bases.copy()
        bases[wrappers] = index.offsets[(np.cumsum(index.rows) - index.rows)[wrappers]]
    return bases


def _report(stretch: Stretch, piece: Slice, index: Index, sections: Sections, valid: Mask, mode: str) -> Mask:
    """Return which batches are damaged, having told (or, in FAILFAST, raised) why."""
    damaged = np.zeros(len(stretch.batches), bool)
    for row, reason in find_problems(index, sections, valid).items():
        damaged[row] = True
        offset = int(stretch.batches.column("base_offset")[row])
        error = CorruptRecordError(
            f"{reason}, in the batch of offset {offset}", position=stretch.position_of(row), file=piece.segment.path
        )
        if mode == "FAILFAST":
            raise error
        log.warning("%s", error)
    return damaged


def find_problems(index: Index, sections: Sections, valid: Mask) -> dict[int, str]:
    """Return why each damaged batch is damaged, by its row; what cannot be read counts more than a wrong checksum."""
    suspects = {*sections.problems, *np.flatnonzero(index.statuses).tolist(), *np.flatnonzero(~valid).tolist()}
    problems = ((row, decode.problem_of(row, index, sections)) for row in sorted(suspects))
    return {
        row: problem.reason if problem is not None else CRC_MISMATCH
        for row, problem in problems
        if problem is not None or not valid[row]
    }


def _kept(index: Index, batch_of: Ints, piece: Slice, dropped: Mask | None) -> Mask | None:
    """Return which records are wanted; None for all."""
    masks: list[Mask] = []
    if piece.first_offset != NO_START and index.offsets.size and int(index.offsets.min()) < piece.first_offset:
        masks.append(index.offsets >= piece.first_offset)
    if piece.end_offset != NO_END and index.offsets.size and int(index.offsets.max()) >= piece.end_offset:
        masks.append(index.offsets < piece.end_offset)
    if dropped is not None and dropped.any():
        masks.append(~dropped[batch_of])
    if not masks:
        return None
    kept: Mask = np.logical_and.reduce(masks)
    return kept
