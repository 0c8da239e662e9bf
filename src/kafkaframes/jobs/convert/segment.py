"""Rewrite one segment in another record format or codec: the task of a worker process or a Spark worker.

The segment and its indexes are written under temporary names, flushed and renamed. A file with its final name is
complete. The indexes of an unchanged segment are copied byte for byte.

Batches are rewritten window by window. Offsets, order, timestamps, keys and values do not change.

* A batch that already has the requested format and codec is copied byte for byte. Control batches and empty batches of
  format 2 are copied too, or omitted if the new format is older.
* From format 2 to format 2, the encoded records are recompressed and the header fields are kept.
* To a newer format, or to a codec, uncompressed messages of formats 0 and 1 are joined into batches. A wrapper becomes
  one batch.
* To an older format, each record becomes a message, or each compressed batch becomes a wrapper, as in Kafka's
  ``RecordsUtil.downConvert``. Data that the older format cannot represent is counted by kind.

Python code runs for each compressed and each written batch, but never for each record.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import EncodeError, LogDirError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.convert.damage import find_damaged_batches
from kafkaframes.jobs.convert.trim import trim_batch
from kafkaframes.jobs.job import JsonDataclass
from kafkaframes.jobs.row_counts import check_row_counts
from kafkaframes.jobs.settings import RewriteSettings
from kafkaframes.records import decode
from kafkaframes.records.build import build_batches
from kafkaframes.records.codecs import Codec, codec_of, compress
from kafkaframes.records.decode import count_records
from kafkaframes.records.decoded import Allocate, DecodedBatches
from kafkaframes.records.fields import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, BatchFields
from kafkaframes.records.layout import BATCH_V2, CODEC_MASK, COLUMN_INDEX, CONTROL, DELETE_HORIZON, OVERHEAD_BYTES
from kafkaframes.records.layout import LOG_APPEND_TIME as APPEND_BIT
from kafkaframes.records.makers import make_rows_from_index
from kafkaframes.records.memory import borrow_memory
from kafkaframes.records.reasons import FAIL, TORN
from kafkaframes.records.scan import FILE, BatchHeaders, Bytes, Ints, as_array, scan_all
from kafkaframes.scan.log.narrowing import ALL_OFFSETS, OffsetRange, narrow_segment
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.indexes import write_indexes
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.files.scan import SegmentWindow, scan_segment
from kafkaframes.storage.log.rebuild import INDEXED_COLUMNS, build_indexes
from kafkaframes.storage.log.transactions import TransactionState
from kafkaframes.wire.checksum import crc32c
from kafkaframes.wire.integers import MAX_INT32

Flags = npt.NDArray[np.bool_]
CONTROL_RECORDS_LOSS = "control records, which the older format does not have"  # kind of loss
OUTSIDE_RANGE_REASON = "outside the selected offsets or times"  # reason for omitting records


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """One segment to rewrite. Tasks are picklable.

    Attributes:
        directory: existing output directory of the partition.
        aborted_transactions: the partition's aborted transactions, whose records become visible in an older format.
        txn_index: contents of the new transaction index; None to copy the existing one.
        offsets: range of offsets to write.
    """

    filesystem: FileSystem
    segment: Segment
    settings: RewriteSettings
    directory: str
    aborted_transactions: tuple[AbortedTransaction, ...] = ()
    txn_index: bytes | None = None
    offsets: OffsetRange = ALL_OFFSETS

    @property
    def base_offset(self) -> int:
        """The base offset of the new segment: the first offset of the range if that is inside the segment."""
        return max(self.segment.base_offset, self.offsets.first_offset)


@dataclass(slots=True)
class ConvertedPartition(JsonDataclass):
    """The report of one segment, or of all segments of a partition.

    Attributes:
        name: name of the partition, or of the segment's file.
        records, records_written: number of records read and written. The sum of ``left_out`` is the difference.
        lost: amount of data that the older format cannot represent, by kind.
        damaged: file, position and reason of each batch (or torn tail) that was copied unchanged.
        left_out: number of omitted records, by reason.
        notes: swap files that are read as segments, and transaction indexes that differ from the markers.
    """

    name: str
    segments: int = 0
    records: int = 0
    records_written: int = 0
    batches_read: int = 0
    batches_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    damaged: list[tuple[str, int, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(self, other: ConvertedPartition) -> None:
        """Add the report of a segment."""
        for entry in fields(self)[1:]:
            setattr(self, entry.name, getattr(self, entry.name) + getattr(other, entry.name))


def rewrite_segment(task: SegmentTask) -> ConvertedPartition:
    """Rewrite one segment and its indexes.

    Raises:
        LogDirError: the segment is damaged, or cannot be read or written. The message has file and position.
        EncodeError: a batch cannot be represented in the format.
    """
    report = ConvertedPartition(task.segment.path, segments=1)
    path = Path(task.directory, names.name_segment_file(task.base_offset, "log"))
    with atomic.new_file(path, mtime_ms=task.segment.log.mtime_ms) as out, borrow_memory() as memory:
        rewrite = _SegmentRewriter(task, report, out, memory.new_array)
        try:
            rewrite.write_all_windows()
        except EncodeError as error:
            error.file = task.segment.path
            raise
    check_row_counts(report.records, report.records_written, report.left_out, where=report.name)
    report.bytes_read, report.bytes_written = rewrite.bytes_read, path.stat().st_size
    if report.bytes_written > MAX_INT32:
        reason = f"the new segment would have {count_text(report.bytes_written, 'byte')}; the limit is 2^31 - 1 bytes"
        raise LogDirError(reason, file=task.segment.path)
    _write_indexes(task, path, rewrite)
    return report


class _SegmentRewriter:
    """The rewriting of one segment into a new file.

    Attributes:
        columns: batch columns of each written piece, for the indexes.
        is_changed: whether any written byte differs from the source.
        bytes_read: number of source bytes in the batches of the range.
    """

    def __init__(self, task: SegmentTask, report: ConvertedPartition, out: BinaryIO, allocate: Allocate) -> None:
        self._task, self._report, self._out, self._allocate = task, report, out, allocate
        self._losses = ConversionLosses(on_loss=task.settings.on_loss, aborted_transactions=task.aborted_transactions)
        self._position = 0
        self.is_changed = task.offsets.is_limited
        self.bytes_read = task.segment.size_bytes
        self._is_first = True
        self.columns: list[Ints] = [np.empty((len(INDEXED_COLUMNS), 0), np.int64)]
        report.lost = self._losses.counts

    def write_all_windows(self) -> None:
        """Write all batches, and the data after the last batch if damage is kept."""
        task, report = self._task, self._report
        segment, start, limit = task.segment, 0, task.segment.size_bytes
        if task.offsets.is_limited:
            start, limit = narrow_segment(task.filesystem, segment, task.offsets)
            self.bytes_read = limit - start
        with task.filesystem.open(segment.path) as read_at:
            windows = scan_segment(read_at, size_bytes=limit, position=start, includes_data=True, file=segment.path)
            for window in windows:
                self._write_window(window)
                end = window.batches.end
                if end.is_corrupt or (end.status == TORN and end.position < limit):
                    if task.settings.on_damage == FAIL:
                        raise LogDirError(f"{end.reason}: nothing was written", position=end.position, file=report.name)
                    report.damaged.append((report.name, end.position, end.reason))
                    self._out.writelines(atomic.read_chunks(read_at, end.position))
        if self._losses.control_records:
            report.left_out[CONTROL_RECORDS_LOSS] += self._losses.control_records

    def _write_window(self, window: SegmentWindow) -> None:
        """Write the batches of a window that have records in the range."""
        if not len(window.batches):
            return
        data, batches = as_array(window.data), window.batches_in_data()
        self._report.batches_read += len(batches)
        for part, part_batches, start in self._iterate_parts_in_range(data, batches, window.start):
            for content in decode.decode_steps(part, part_batches, allocate=self._allocate):
                positions, sizes = content.batches.column("position"), content.batches.column("size")
                old_data = part[int(positions[0]) : int(positions[-1] + sizes[-1])]
                self._write_batches(self._rewrite_window(content, start), old_data)

    def _iterate_parts_in_range(
        self, data: Bytes, batches: BatchHeaders, start: int
    ) -> Iterator[tuple[Bytes, BatchHeaders, int]]:
        """Yield runs of batches with all their records in the range, with the position of their data in the file."""
        first = 0
        for row in np.flatnonzero(self._find_batches_across_range(batches)).tolist():
            if first < row:
                yield data, batches.part(first, row), start
            first = row + 1
            trimmed_data, removed_count = trim_batch(data, batches, row, self._task.offsets)
            if removed_count:
                self._report.left_out[OUTSIDE_RANGE_REASON] += removed_count
                self._report.records += removed_count
            if len(trimmed_data):
                yield trimmed_data, scan_all(trimmed_data, rules=FILE), start + int(batches.column("position")[row])
        if first < len(batches):
            yield data, batches.part(first, len(batches)) if first else batches, start

    def _find_batches_across_range(self, batches: BatchHeaders) -> Flags:
        """Return the batches that may have records outside of the range.

        A wrapper's header has only its last offset, so the first wrapper of the range may have earlier records.
        """
        offsets = self._task.offsets
        base_offsets, last_offsets = batches.column("base_offset"), batches.column("last_offset")
        crosses_limit: Flags = (last_offsets >= offsets.end_offset) | (base_offsets < offsets.first_offset)
        if self._is_first and offsets.is_limited:
            crosses_limit[0] |= batches.is_wrapper[0]
        self._is_first = False
        return crosses_limit

    def _write_batches(self, data: Bytes, old_data: Bytes) -> None:
        """Write batches. ``old_data`` contains the same batches as in the source."""
        batches = scan_all(data, rules=FILE)
        table = batches.table
        self._report.records_written += count_records(data, batches)
        columns = np.stack([table[COLUMN_INDEX[name]] for name in INDEXED_COLUMNS])
        columns[INDEXED_COLUMNS.index("position")] += self._position
        self.columns.append(columns)
        self._out.write(data.data)
        self._position += len(data)
        self._report.batches_written += table.shape[1]
        self.is_changed = self.is_changed or not np.array_equal(data, old_data)

    def _rewrite_window(self, content: DecodedBatches, start: int) -> Bytes:
        """Return the rewritten bytes of a window that begins at position ``start``."""
        settings, report, batches = self._task.settings, self._report, content.batches
        damaged_batches = find_damaged_batches(content)
        positions = batches.column("position") + start
        if damaged_batches and settings.on_damage == FAIL:
            first = min(damaged_batches)
            raise LogDirError(
                f"{damaged_batches[first]}: nothing was written", position=int(positions[first]), file=report.name
            )
        report.damaged += [
            (report.name, int(positions[batch]), damaged_batches[batch]) for batch in sorted(damaged_batches)
        ]
        report.records += int(np.where(batches.is_v2, batches.column("count"), content.index.rows).sum())
        is_damaged = np.zeros(len(batches), np.bool_)
        is_damaged[list(damaged_batches)] = True
        try:
            return as_array(b"".join(rewrite_batches(content, settings, is_damaged, self._losses)))
        except EncodeError as error:
            if error.position is not None:
                error.position += start
            raise


def _write_indexes(task: SegmentTask, path: Path, rewrite: _SegmentRewriter) -> None:
    """Build the indexes of a changed segment. Copy the indexes of an unchanged segment.

    Offsets do not change, so a transaction index is copied too, unless the markers contradict it.
    """
    segment, settings, base_offset = task.segment, task.settings, task.base_offset
    keeps_transactions = settings.record_format in (None, 2)
    index_files = [segment.txn_index] if keeps_transactions and task.txn_index is None else []
    if task.txn_index:
        with atomic.new_file(path.with_suffix(".txnindex"), mtime_ms=segment.log.mtime_ms) as out:
            out.write(task.txn_index)
    if not rewrite.is_changed and segment.index and segment.time_index:
        index_files += [segment.index, segment.time_index]
    else:
        table, interval_bytes = np.concatenate(rewrite.columns, axis=1), settings.index_interval_bytes
        offset_index, time_index = build_indexes(base_offset, *table, interval_bytes=interval_bytes)
        for kind, raw in write_indexes(offset_index, time_index).items():
            with atomic.new_file(path.with_suffix(f".{kind}"), mtime_ms=segment.log.mtime_ms) as out:
                out.write(raw)
    for file in filter(None, index_files):
        atomic.copy_file(task.filesystem, file.path, path.with_name(str(file.name)), mtime_ms=file.mtime_ms)


# ------------------------------------------------------------------------------------------------------------ batches


class ConversionLosses:
    """The losses of a segment in a conversion to an older format.

    Attributes:
        counts: number of records or batches, by kind of loss.
        control_records: number of records in control batches that are not written.
    """

    def __init__(self, *, on_loss: str = "error", aborted_transactions: Sequence[AbortedTransaction] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self.control_records = 0
        self._stops = on_loss == "error"
        self._transactions = TransactionState(aborted_transactions=tuple(aborted_transactions))

    def add(self, window: DecodedBatches, is_downgraded: Flags, magics: Ints) -> None:
        """Count the losses of the batches for which ``is_downgraded`` is true in the formats ``magics``.

        Raises:
            EncodeError: data would be lost, and ``on_loss`` is "error".
        """
        if not is_downgraded.any():
            return
        result = self._find_batch_losses(window, is_downgraded) | self._find_record_losses(
            window, is_downgraded, magics
        )
        counts = {kind: int(is_lost.sum()) for kind, is_lost in result.items()}
        if self._stops and any(counts.values()):
            kinds = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
            position = int(window.batches.column("position")[int(np.flatnonzero(is_downgraded)[0])])
            reason = (
                f"the older format cannot represent {kinds}; set `on_loss` to warn or drop to continue without them"
            )
            raise EncodeError(reason, position=position)
        self.counts.update({kind: number for kind, number in counts.items() if number})

    def _find_batch_losses(self, window: DecodedBatches, is_downgraded: Flags) -> dict[str, Flags]:
        """Return by kind of loss a flag for each batch: whether its conversion loses data of this kind."""
        batches, rows = window.batches, window.index.rows
        is_v2_batch = is_downgraded & batches.is_v2
        control = batches.is_control & is_v2_batch
        data = is_v2_batch & ~control
        has_records = rows > 0
        last = np.full(len(batches), -1, np.int64)
        last[has_records] = window.index.offsets[window.starts[1:][has_records] - 1]
        return {
            "control batches": control,
            "empty batches": data & (rows == 0),
            "batches with a producer": data & (batches.column("producer_id") >= 0),
            "transactional batches": data & batches.is_transactional,
            "batches with a leader epoch": data & (batches.column("leader_epoch") >= 0),
            "batches with a delete horizon": data & batches.mask_flag(DELETE_HORIZON),
            "batches with offsets after their last record": data & (rows > 0) & (batches.column("last_offset") != last),
        }

    def _find_record_losses(self, window: DecodedBatches, is_downgraded: Flags, magics: Ints) -> dict[str, Flags]:
        """Return by kind of loss a flag for each record: whether its conversion loses data of this kind."""
        data = (is_downgraded & ~window.batches.is_control)[window.owners]
        is_time_lost = data & (magics[window.owners] == 0)
        aborted_transactions = self._transactions.mask_aborted_batches(window.batches)
        return {
            "records with headers": data & (window.index.header_counts > 0),
            "timestamps": is_time_lost & (window.index.timestamps != NO_TIMESTAMP),
            "aborted records that become visible": data & aborted_transactions[window.owners],
        }


COPY, GONE, RECOMPRESS, BUILD = range(4)
# Size of a record without key and value, in bytes, by format. It is approximate for format 2.
_RECORD_OVERHEAD_BYTES_BY_FORMAT = {0: 26, 1: 34, 2: 10}


class WindowPlan:
    """The action for each batch in a window of the segment: copy, omit, recompress or build.

    Attributes:
        actions: ``COPY``, ``GONE`` (omit), ``RECOMPRESS`` or ``BUILD`` for each batch.
        magics, codecs: output format and codec of each batch.
        down: whether a batch is converted to an older format, or is omitted because of it.
    """

    def __init__(self, batches: BatchHeaders, settings: RewriteSettings, *, empty: Flags, is_damaged: Flags) -> None:
        source, attributes = batches.column("magic"), batches.column("attributes")
        numbers, old = attributes & CODEC_MASK, source < 2
        control = ~old & ((attributes & CONTROL) != 0)
        self.magics = source if settings.record_format is None else np.full_like(source, settings.record_format)
        self.codecs = numbers if settings.codec is None else np.full_like(numbers, codec_of(settings.codec))
        other_codec = (self.codecs != numbers) | (settings.level is not None)
        build = (old | (self.magics < 2)) & ((self.magics != source) | other_codec)
        down = self.magics < source
        is_removed = build & (empty | (control & down))
        recompress = other_codec & ~old & ~control & ~empty
        self.actions = np.select([is_damaged, is_removed, build, recompress], [COPY, GONE, BUILD, RECOMPRESS], COPY)
        self.down = down & ((self.actions == BUILD) | (self.actions == GONE))


def rewrite_batches(
    window: DecodedBatches, settings: RewriteSettings, is_damaged: Flags, losses: ConversionLosses
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a window's batches, rewritten as ``settings`` request.

    Args:
        window: decoded batches. Positions are relative to ``window.data``.
        settings: settings of the conversion.
        is_damaged: batches that are copied because they cannot be read.
        losses: object to which the losses of batches that are converted to an older format are added.

    Raises:
        EncodeError: the format does not support the codec, or a record does not fit.
    """
    plan = WindowPlan(window.batches, settings, empty=window.index.rows == 0, is_damaged=is_damaged)
    if (plan.actions == COPY).all():
        yield from (part for _, part in _copy_batches(window, plan))
        return
    _check_limits(window, plan)
    losses.add(window, plan.down, plan.magics)
    losses.control_records += int(window.index.rows[plan.actions == GONE].sum())
    chunks: list[tuple[int, bytes | memoryview]] = [
        *_copy_batches(window, plan),
        *_recompress_batches(window, plan, settings.level),
        *_build_batches(window, plan, settings),
    ]
    chunks.sort(key=lambda chunk: chunk[0])
    yield from (part for _, part in chunks)


def _check_limits(window: DecodedBatches, plan: WindowPlan) -> None:
    """Reject batches that cannot be represented in their new format."""
    zstd = np.flatnonzero((plan.actions == BUILD) & (plan.magics < 2) & (plan.codecs == Codec.ZSTD))
    if len(zstd):
        raise EncodeError(
            "zstd requires format 2; choose another codec, or format 2", position=_find_position(window, zstd[0])
        )
    is_before_minimum = (window.index.timestamps < -1) & (plan.down & (plan.actions == BUILD))[window.owners]
    if is_before_minimum.any():
        batch = window.owners[int(np.flatnonzero(is_before_minimum)[0])]
        raise EncodeError("a timestamp below -1 requires format 2", position=_find_position(window, batch))


def _find_position(window: DecodedBatches, batch: int) -> int:
    """Return the position of a batch in the segment."""
    return int(window.batches.column("position")[batch])


def _copy_batches(window: DecodedBatches, plan: WindowPlan) -> Iterator[tuple[int, memoryview]]:
    """Yield the bytes of runs of copied batches, with the number of each run's first batch."""
    is_copied = np.concatenate(([False], plan.actions == COPY, [False]))
    edges = np.flatnonzero(is_copied[1:] != is_copied[:-1])
    positions, sizes = window.batches.column("position"), window.batches.column("size")
    for first, end_batch in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        end = int(positions[end_batch - 1] + sizes[end_batch - 1])
        yield first, window.data[int(positions[first]) : end].data


def _recompress_batches(window: DecodedBatches, plan: WindowPlan, level: int | None) -> Iterator[tuple[int, bytes]]:
    """Recompress the records of format 2 batches, and keep their header fields."""
    for batch in np.flatnonzero(plan.actions == RECOMPRESS).tolist():
        position = _find_position(window, batch)
        header = bytearray(window.data[position : position + BATCH_V2.size])
        raw_records = window.sections.buf[int(window.sections.starts[batch]) : int(window.sections.ends[batch])]
        codec = int(plan.codecs[batch])
        records = compress(codec, raw_records.tobytes(), level=level)
        index = BATCH_V2.position_of("attributes")
        (attributes,) = struct.unpack_from(">H", header, index)
        struct.pack_into(">H", header, index, attributes & ~CODEC_MASK | codec)
        struct.pack_into(">i", header, BATCH_V2.position_of("size"), len(header) - OVERHEAD_BYTES + len(records))
        crc = crc32c(records, crc32c(bytes(header[index:])))
        struct.pack_into(">I", header, BATCH_V2.position_of("crc"), crc)
        yield batch, bytes(header) + records


# --------------------------------------------------------------------------------------------- batches that are built


def _build_batches(window: DecodedBatches, plan: WindowPlan, settings: RewriteSettings) -> Iterator[tuple[int, bytes]]:
    """Build the remaining batches. Batches with the same format, codec and timestamp type are built together."""
    magics = window.batches.column("magic")
    numbers, attributes = window.batches.codecs, window.batches.column("attributes")
    is_append_time = ((attributes & APPEND_BIT) != 0) & (magics > 0) & (plan.magics > 0)
    kinds = plan.magics * 16 + plan.codecs * 2 + is_append_time
    joins = (magics < 2) & (numbers == 0) & ((plan.magics == 2) | (plan.codecs != 0))
    is_rebuilt = plan.actions == BUILD
    for kind in np.unique(kinds[is_rebuilt]).tolist():
        is_chosen = is_rebuilt & (kinds == kind)
        is_record_chosen = is_chosen[window.owners]
        index, owners = window.index.take(is_record_chosen, window.owners), window.owners[is_record_chosen]
        magic, codec, append_time = kind // 16, kind % 16 // 2, bool(kind % 2)
        rows = make_rows_from_index(window.sections, index, headers=False)
        weights = rows.keys.lengths.clip(0) + rows.values.lengths.clip(0) + _RECORD_OVERHEAD_BYTES_BY_FORMAT[magic]
        stamps = index.timestamps if append_time else None
        starts = _find_batch_starts(owners, joins, np.cumsum(weights), stamps, settings.batch_bytes)
        fields = BatchFields(timestamp_type=LOG_APPEND_TIME if append_time else CREATE_TIME)
        level = settings.level if codec else None
        chunks = build_batches(rows, starts, [fields] * len(starts), record_format=magic, codec=codec, level=level)
        yield from zip(owners[starts].tolist(), chunks, strict=True)


def _find_batch_starts(
    owners: Ints, joins: Flags, size_sums: Ints, append_times: Ints | None, batch_bytes: int
) -> Ints:
    """Return the index of the first record of each batch to build.

    Args:
        owners: index of each record's source batch.
        joins: flag for each source batch: whether it is a message that may be joined with its neighbors.
        size_sums: cumulative sizes of the records.
        append_times: timestamps of the records, if a batch has a single timestamp; ``None`` otherwise.
        batch_bytes: largest size of a joined batch.
    """
    is_new_owner = owners[1:] != owners[:-1]
    gap = owners[1:] != owners[:-1] + 1  # other batches are between the two owners
    is_start = is_new_owner & ~(joins[owners[1:]] & joins[owners[:-1]] & ~gap)
    if append_times is not None:
        is_start |= append_times[1:] != append_times[:-1]
    runs = np.concatenate(([0], np.flatnonzero(is_start) + 1))
    stops = np.append(runs[1:], len(owners))
    starts = np.concatenate(([0], size_sums))
    large = joins[owners[runs]] & (starts[stops] - starts[runs] > batch_bytes)
    if not large.any():
        return runs
    result = [runs[~large]]
    for first, stop in zip(runs[large].tolist(), stops[large].tolist(), strict=True):
        result.append(np.array(_split_run(starts, first, stop, batch_bytes), np.int64))
    return np.sort(np.concatenate(result))


def _split_run(size_sums: Ints, first: int, stop: int, batch_bytes: int) -> list[int]:
    """Split a run of records into batches of at most ``batch_bytes``. A larger record is a batch of its own."""
    starts = []
    while first < stop:
        starts.append(first)
        first = max(int(np.searchsorted(size_sums, size_sums[first] + batch_bytes, side="right")) - 1, first + 1)
    return starts
