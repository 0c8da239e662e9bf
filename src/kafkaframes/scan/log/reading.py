"""A task of ``kafka-log``, which reads its slices of segments as Arrow batches with Spark's columns. No pyspark.

The package ``records`` reads the batches. The package skips batches without selected records (by their offsets, or
because they are control batches). The package decompresses and indexes the other batches about a megabyte at a time,
handles damage by ``on_damage``, and decodes only the selected columns.

``on_damage``

* ``keep``: return the records that Kafka's reader returns. In a damaged batch, the records before the damage are
  returned. In a batch with a wrong checksum, all readable records are. The slice ends where the framing is broken.
* ``drop``: omit all records of damaged batches, including batches with a wrong checksum.
* ``fail``: raise at the first damage.

With ``keep`` and ``drop``, damage is logged as a warning of the logger ``kafkaframes.spark``. (Spark prints the
warning, and keeps it for ``spark.tvf.python_worker_logs()`` if that is enabled.) A torn tail is always only a warning:
every crash leaves one, and Kafka accepts it. A file that cannot be read, or that has become shorter since the read was
planned, is always an error, because data is missing rather than damaged.
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
from kafkaframes.records.scan import CHUNK_BYTES, FILE, BatchHeaders, Flags, ScanEnd
from kafkaframes.scan.arrow import TARGET_BATCH_BYTES, SparkConversion
from kafkaframes.scan.columns import Column
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import SegmentSlice
from kafkaframes.scan.ranges import NO_END, NO_START
from kafkaframes.scan.rows import RowOrigin, choose_columns_to_read, select_rows
from kafkaframes.scan.where import RowFilter
from kafkaframes.storage.copies.reading import BatchHealer
from kafkaframes.storage.files.filesystem import ReadAt
from kafkaframes.storage.files.headers import BatchHeader, HeaderWalk
from kafkaframes.storage.log.discover import find_filesystem
from kafkaframes.storage.log.open_segment import (
    DamagedRange,
    OpenSegment,
    ReadableRun,
    TieredSource,
    open_planned_segment_on,
)
from kafkaframes.storage.log.transactions import TransactionState

log = logging.getLogger("kafkaframes.scan")


def read_work(
    work: Iterable[SegmentSlice], columns: Sequence[Column], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the slices, in order, as non-empty Arrow batches of at most 1 MB.

    Raises:
        CorruptRecordError: The log is damaged, and ``on_damage`` is ``fail``. The error contains the file, position
            and offset.
        LogDirError: A segment cannot be read.
    """
    conversion = SparkConversion(columns, timestamp_errors=options.timestamp_errors)
    for part in work:
        for batch in _read_slice(part, conversion.sources, options, chunk_bytes=TARGET_BATCH_BYTES):
            yield conversion.convert_batch(batch, part.segment)


def read_rows(
    work: Iterable[SegmentSlice], columns: Sequence[str], options: ReadOptions, errors: list[ReadError]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan in order, and append damage to ``errors``.

    Raises the same exceptions as ``read_work``.
    """
    sources = choose_columns_to_read(columns, options.row_filter)
    for part in work:
        segment = part.segment
        origin = RowOrigin(segment.topic or None, segment.partition if segment.topic else None, segment.path)
        for batch in _read_slice(part, sources, options, errors=errors):
            rows = select_rows(batch, origin, columns, options.row_filter)
            if rows is not None:
                yield rows


def _read_slice(
    part: SegmentSlice,
    sources: Sequence[str],
    options: ReadOptions,
    *,
    errors: list[ReadError] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the columns ``sources`` of a slice. Damage is appended to ``errors``, or logged if ``errors`` is None."""
    with open_slice(part, options) as slice_reader:
        if slice_reader is None:
            return
        reading, planned_end = _to_record_options(slice_reader, sources, options, chunk_bytes), slice_reader.slice.end
        all_errors: list[ReadError] = [] if errors is None else errors
        logged_count = len(all_errors)
        end: ScanEnd | None = None
        for run in slice_reader.iterate_runs(
            options.on_damage, None if errors is None else _create_gap_collector(errors, part.segment.path)
        ):
            reader = RecordReader(
                slice_reader.segment.source, reading, start=run.start, end=planned_end, errors=all_errors
            )
            for batch in reader:
                logged_count = logged_count if errors is not None else _log_new_errors(all_errors, logged_count)
                yield batch
            logged_count = logged_count if errors is not None else _log_new_errors(all_errors, logged_count)
            end = run.end = reader.end
        if end is not None and end.position < planned_end:
            _report_trailing_bytes(end, slice_reader.slice, logging.WARNING if errors is None else logging.INFO)


def _create_gap_collector(errors: list[ReadError], path: str) -> Callable[[DamagedRange], None]:
    def append_gap(gap: DamagedRange) -> None:
        error = ReadError(path, gap.damage.lost[0], None, None, str(gap.damage), 0)
        if error not in errors:  # a damaged chunk may be part of two slices
            errors.append(error)

    return append_gap


def _to_record_options(
    slice_reader: OpenSlice, columns: Sequence[str], options: ReadOptions, chunk_bytes: int
) -> RecordOptions:
    """Return the options of the package ``records`` for a slice."""
    first, end = slice_reader.slice.first_offset, slice_reader.slice.end_offset
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
        unwanted=slice_reader.create_skip_mask(options.row_filter),
        heal=slice_reader.healer,
    )


def _log_new_errors(errors: list[ReadError], logged_count: int) -> int:
    for error in errors[logged_count:]:
        log.warning("%s; %d of the batch's records are read", error.as_exception(), error.records)
    return len(errors)


def _report_trailing_bytes(end: ScanEnd, part: SegmentSlice, level: int) -> None:
    """Log the number of bytes after the last batch. If these bytes are damaged, the reason was reported before."""
    unread_bytes, path = part.end - end.position, part.segment.path
    log.log(level, "%s: %s; %d bytes from byte %d on are not read", path, end.reason, unread_bytes, end.position)


@dataclass(frozen=True, slots=True)
class OpenSlice:
    """A slice with its open segment.

    Attributes:
        segment: Open segment.
        slice: Slice. The slice is larger than planned if the offset index was wrong.
        healer: Object that replaces damaged batches with those of other replicas. None means that there are no other
            replicas.
        skipped_batches: Function that returns a mask of the batches of aborted transactions. None means that no
            transaction was aborted.
    """

    segment: OpenSegment
    slice: SegmentSlice
    healer: BatchHealer | None
    skipped_batches: Callable[[BatchHeaders], Flags] | None

    def create_skip_mask(self, row_filter: RowFilter) -> Callable[[BatchHeaders], Flags] | None:
        """Return a function that masks the batches to skip, which are aborted or outside of the time range.

        If None, all batches are read.
        """
        skipped_batches = self.skipped_batches
        if not row_filter.has_times or skipped_batches is None:
            return row_filter.mask_batches_without_rows if row_filter.has_times else skipped_batches
        return lambda batches: skipped_batches(batches) | row_filter.mask_batches_without_rows(batches)

    def iterate_runs(
        self, on_damage: str, on_gap: Callable[[DamagedRange], None] | None = None
    ) -> Iterator[ReadableRun]:
        """Yield the readable parts of the slice. A damaged chunk between two parts is logged as a warning.

        After each part, batches that were replaced with those of other replicas are logged.

        Raises:
            LogDirError: The file was truncated, or ``on_damage`` is ``fail`` and a chunk cannot be decrypted or
                decompressed.
        """

        def log_gap(gap: DamagedRange) -> None:
            log.warning("%s: %s", self.segment.path, gap)

        end = self.slice.end if on_gap is None else None  # with on_gap, the reader reports truncation as damage
        for run in self.segment.read_runs(
            start=self.slice.start, end=end, on_damage=on_damage, on_gap=on_gap or log_gap
        ):
            yield run
            if self.healer is not None:
                for text in self.healer.healed_ranges:
                    log.warning("%s", text)
                self.healer.healed_ranges.clear()


@contextmanager
def open_slice(part: SegmentSlice, options: ReadOptions) -> Iterator[OpenSlice | None]:
    """Open the segment of a slice. Yield None if the file was deleted and ``fail_on_data_loss`` is false.

    Raises:
        LogDirError: The file cannot be read, or was truncated after the read was planned.
    """
    path = part.segment.path
    filesystem = find_filesystem(path, options=options.storage)
    if not options.fail_on_data_loss and filesystem.stat(path) is None:
        problem = LogDirError("was deleted after the read was planned", file=path)
        log.warning("%s; its records are not read", problem)
        yield None
        return
    others = part.segment.alternates
    healer = BatchHealer(path, others, options.storage) if others else None
    skipped_batches = (
        TransactionState(part.aborted_transactions).mask_aborted_batches if part.aborted_transactions else None
    )
    with open_planned_segment_on(filesystem, path, part.end) as segment:
        if isinstance(segment.source, TieredSource) and any(part.unproven):
            part = _verify_bounds(part, segment.source.read_at)
            segment.source.size_bytes = part.end
        yield OpenSlice(segment, part, healer, skipped_batches)


def _verify_bounds(part: SegmentSlice, read_at: ReadAt) -> SegmentSlice:
    """Verify the bounds of a slice that came from the offset index. If the bounds are wrong, read the whole segment."""
    size_bytes = part.segment.size_bytes
    start, end = part.start, part.end
    if part.unproven[0] and start:
        first = _read_header(read_at, start, size_bytes)
        start = start if first is not None and first.base_offset <= part.first_offset else 0
    if part.unproven[1] and end < size_bytes:
        next_header = _read_header(read_at, end, size_bytes)
        end = end if next_header is not None and next_header.base_offset >= part.end_offset else size_bytes
    if (start, end) != (part.start, part.end):
        log.warning("%s: its offset index is wrong, so the segment is read without it", part.segment.path)
    return replace(part, start=start, end=end, unproven=(False, False))


def _read_header(read_at: ReadAt, position: int, size_bytes: int) -> BatchHeader | None:
    walk = HeaderWalk(read_at, size_bytes=size_bytes, position=position, window_bytes=BATCH_V2.size)
    header = next(iter(walk), None)
    return header if header is not None and 0 <= header.magic <= 2 else None
