"""What one task does: it opens the segments of its slices, and gives Arrow batches with Spark's columns. No pyspark.

``records`` does the reading: batches without a selected record are skipped unread (their offsets lie outside, or they
hold control records), the others are decompressed and indexed a megabyte at a time, damage is dealt with
by ``on_damage``, and the columns asked for are gathered; no other is touched.

``on_damage``

* ``keep``: what Kafka's own reader would hand out: a batch's records up to its damage, then the next batch; also
  the records of a batch whose checksum is wrong but which can be read. Where the framing breaks, the slice ends.
* ``drop``: no record of a damaged batch, or of one whose checksum is wrong.
* ``fail``: the first damage is an error.

In the first two each damage is a warning of the logger ``kafkaframes.spark`` (Spark prints it, and keeps it for
``spark.tvf.python_worker_logs()`` where that is enabled), and so is a torn tail in all three: every crash leaves one,
and to Kafka it is no error. A file that cannot be read, or has lost bytes since the read was planned, is an error in
every case: that is not damaged data but missing data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from kafkaframes.errors import LogDirError
from kafkaframes.records.columns import ReadError, RecordReader
from kafkaframes.records.columns import ReadOptions as RecordOptions
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.scan import CHUNK_BYTES, FILE, Batches, End, Flags
from kafkaframes.scan.arrow import TARGET_BYTES, Conversion
from kafkaframes.scan.columns import Column
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import Slice
from kafkaframes.scan.ranges import NO_END, NO_START
from kafkaframes.scan.rows import RowOrigin, rows_of, sources_of
from kafkaframes.scan.where import Where
from kafkaframes.storage.copies.reading import Healer
from kafkaframes.storage.files.filesystem import ReadAt
from kafkaframes.storage.files.headers import BatchHeader, HeaderWalk
from kafkaframes.storage.log.discover import filesystem_for
from kafkaframes.storage.log.open_segment import Gap, OpenSegment, Run, TieredSource, open_planned_on
from kafkaframes.storage.log.transactions import TransactionState

log = logging.getLogger("kafkaframes.spark")


def read_work(work: Iterable[Slice], columns: Sequence[Column], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of the slices, in order, as Arrow batches of 1 MB or less; none is empty.

    Raises:
        CorruptRecordError: damage, with on_damage=fail; it names file, position and offset.
        LogDirError: a segment cannot be read.
    """
    conversion = Conversion(columns, timestamp_errors=options.timestamp_errors)
    for part in work:
        for batch in _read_slice(part, conversion.sources, options, chunk_bytes=TARGET_BYTES):
            yield conversion.batch(batch, part.segment)


def read_rows(
    work: Iterable[Slice], columns: Sequence[str], options: ReadOptions, errors: list[ReadError]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan, in order; damage is appended to ``errors``. Raises as ``read_work``."""
    sources = sources_of(columns, options.where)
    for part in work:
        segment = part.segment
        origin = RowOrigin(segment.topic or None, segment.partition if segment.topic else None, segment.path)
        for batch in _read_slice(part, sources, options, errors=errors):
            rows = rows_of(batch, origin, columns, options.where)
            if rows is not None:
                yield rows


def _read_slice(
    part: Slice,
    sources: Sequence[str],
    options: ReadOptions,
    *,
    errors: list[ReadError] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the columns ``sources`` of a slice; damage goes to ``errors``, or to the logger where there are none."""
    with open_slice(part, options) as opened:
        if opened is None:
            return
        reading, planned_end = _record_options(opened, sources, options, chunk_bytes), opened.planned.end
        reported: list[ReadError] = [] if errors is None else errors
        logged = len(reported)
        end: End | None = None
        for run in opened.runs(options.on_damage, None if errors is None else _into(errors, part.segment.path)):
            reader = RecordReader(opened.segment.source, reading, start=run.start, end=planned_end, errors=reported)
            for batch in reader:
                logged = logged if errors is not None else _log(reported, logged)
                yield batch
            logged = logged if errors is not None else _log(reported, logged)
            end = run.end = reader.end
        if end is not None and end.position < planned_end:
            _report_rest(end, opened.planned, logging.WARNING if errors is None else logging.INFO)


def _into(errors: list[ReadError], path: str) -> Callable[[Gap], None]:
    def lose(gap: Gap) -> None:
        error = ReadError(path, gap.damage.lost[0], None, None, str(gap.damage), 0)
        if error not in errors:  # a chunk may be damaged in the middle of two slices
            errors.append(error)

    return lose


def _record_options(opened: OpenSlice, columns: Sequence[str], options: ReadOptions, chunk_bytes: int) -> RecordOptions:
    """Return the options of the package ``records`` for a slice."""
    first, end = opened.planned.first_offset, opened.planned.end_offset
    return RecordOptions(
        columns=columns,
        on_damage=options.on_damage,
        verify_crc=options.verify_crc,
        limit_bytes=options.limit_bytes,
        budget_bytes=options.budget_bytes,
        rules=FILE,
        control_records=options.include_control,
        first_offset=None if first == NO_START else first,
        end_offset=None if end == NO_END else end,
        chunk_bytes=chunk_bytes,
        unwanted=opened.unread(options.where),
        heal=opened.healer,
    )


def _log(errors: list[ReadError], logged: int) -> int:
    for error in errors[logged:]:
        log.warning("%s; %d of the batch's records are read", error.as_exception(), error.records)
    return len(errors)


def _report_rest(end: End, part: Slice, level: int) -> None:
    """Log how many bytes lie behind the last batch; why they are not a batch was reported already if it is an error."""
    rest, path = part.end - end.position, part.segment.path
    log.log(level, "%s: %s; %d bytes from byte %d on are not read", path, end.reason, rest, end.position)


@dataclass(frozen=True, slots=True)
class OpenSlice:
    """A slice whose segment is open.

    Attributes:
        planned: the slice; it may be larger than planned, where an index was wrong.
        healer: replaces damaged batches by those of other copies; None where there are no copies.
        unwanted: says of batches whether they belong to an aborted transaction; None where none does.
    """

    segment: OpenSegment
    planned: Slice
    healer: Healer | None
    unwanted: Callable[[Batches], Flags] | None

    def unread(self, where: Where) -> Callable[[Batches], Flags] | None:
        """Return what says of batches whether to leave them unread: aborted, or of another time; None for none."""
        unwanted = self.unwanted
        if not where.has_times or unwanted is None:
            return where.batches_without_rows if where.has_times else unwanted
        return lambda batches: unwanted(batches) | where.batches_without_rows(batches)

    def runs(self, on_damage: str, on_gap: Callable[[Gap], None] | None = None) -> Iterator[Run]:
        """Yield the runs of the slice: where it was cut meanwhile is an error, a damaged chunk a warning.

        After a run was read, the batches that came from other copies are logged.

        Raises:
            LogDirError: the file was cut; or, with on_damage=fail, a chunk of it cannot be undone.
        """

        def warn(gap: Gap) -> None:
            log.warning("%s: %s", self.segment.path, gap)

        end = self.planned.end if on_gap is None else None  # else the reader itself reports that it was cut, as damage
        for run in self.segment.runs(start=self.planned.start, end=end, on_damage=on_damage, on_gap=on_gap or warn):
            yield run
            if self.healer is not None:
                for text in self.healer.healed:
                    log.warning("%s", text)
                self.healer.healed.clear()


@contextmanager
def open_slice(part: Slice, options: ReadOptions) -> Iterator[OpenSlice | None]:
    """Open the segment of a slice; None where it is gone and ``failOnDataLoss`` is false.

    Raises:
        LogDirError: it cannot be read, or has lost bytes since the read was planned: before or while it is read.
    """
    path = part.segment.path
    filesystem = filesystem_for(path, options=options.storage)
    if not options.fail_on_data_loss and filesystem.stat(path) is None:
        problem = LogDirError("has vanished since the read was planned", file=path)
        log.warning("%s; its records are not read", problem)
        yield None
        return
    others = part.segment.alternates
    healer = Healer(path, others, options.storage) if others else None
    unwanted = TransactionState(part.aborted).aborted_batches if part.aborted else None
    with open_planned_on(filesystem, path, part.end) as segment:
        if isinstance(segment.source, TieredSource) and any(part.unproven):
            part = _proven(part, segment.source.read_at)
            segment.source.size_bytes = part.end
        yield OpenSlice(segment, part, healer, unwanted)


def _proven(part: Slice, read_at: ReadAt) -> Slice:
    """Check that the index was right about where a slice starts and ends; if not, the whole segment is read."""
    size_bytes = part.segment.size_bytes
    start, end = part.start, part.end
    if part.unproven[0] and start:
        first = _header(read_at, start, size_bytes)
        start = start if first is not None and first.base_offset <= part.first_offset else 0
    if part.unproven[1] and end < size_bytes:
        after = _header(read_at, end, size_bytes)
        end = end if after is not None and after.base_offset >= part.end_offset else size_bytes
    if (start, end) != (part.start, part.end):
        log.warning("%s: its offset index is wrong, the segment is read without it", part.segment.path)
    return replace(part, start=start, end=end, unproven=(False, False))


def _header(read_at: ReadAt, position: int, size_bytes: int) -> BatchHeader | None:
    walk = HeaderWalk(read_at, size_bytes=size_bytes, position=position, window_bytes=BATCH_V2.size)
    header = next(iter(walk), None)
    return header if header is not None and 0 <= header.magic <= 2 else None
