"""Rewrite one segment: the task that a process, or a Spark worker, is given. It answers with a report.

The segment and its indexes are written under other names, flushed, and renamed; what is there under the final name is
whole. A segment in which nothing changed keeps its own indexes, byte for byte.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from kafkaframes.errors import EncodeError, LogDirError
from kafkaframes.jobs.convert.batches import Losses, damaged_batches, rewritten
from kafkaframes.jobs.job import check_row_counts
from kafkaframes.jobs.settings import RewriteSettings
from kafkaframes.records import decode
from kafkaframes.records.decode import count_records
from kafkaframes.records.decoded import Allocate, Decoded
from kafkaframes.records.layout import COLUMN
from kafkaframes.records.memory import lent_memory
from kafkaframes.records.reasons import FAILFAST, TORN
from kafkaframes.records.scan import FILE, Bytes, Ints, as_array, scan_all
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.directory import LogFile, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.indexes import write_offset_index, write_time_index
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.files.scan import Window, scan_segment
from kafkaframes.storage.log.rebuild import INDEXED, build_indexes

CONTROL_RECORDS = "control records, which the older format does not have"
LARGEST_SEGMENT = 2**31 - 1  # positions in an offset index have 32 bits


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """One segment to rewrite; picklable.

    Attributes:
        directory: the new partition's directory, which exists.
        aborted: the partition's aborted transactions, where the older format would make them visible.
    """

    filesystem: FileSystem
    segment: Segment
    settings: RewriteSettings
    directory: str
    aborted: tuple[AbortedTransaction, ...] = ()


@dataclass(slots=True)
class SegmentReport:
    """What was done to one segment.

    Attributes:
        file: the source.
        records, records_written: read of the source, and written; they differ by ``left_out`` (reason to records).
        lost: what the older format could not say, by kind.
        damaged: batches (and a torn tail) that were kept as they were, each with position and reason.
        changed: whether any byte differs from the source.
    """

    file: str
    records: int = 0
    records_written: int = 0
    batches_read: int = 0
    batches_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    damaged: list[tuple[int, str]] = field(default_factory=list)
    changed: bool = False
    left_out: Counter[str] = field(default_factory=Counter)


def rewrite_segment(task: SegmentTask) -> SegmentReport:
    """Write one segment anew, and its indexes.

    Raises:
        LogDirError: it is damaged, or cannot be read or written; names file and position.
        EncodeError: it cannot be said in that format.
    """
    report = SegmentReport(task.segment.path)
    path = Path(task.directory, names.segment_file_name(task.segment.base_offset, "log"))
    with atomic.new_file(path, mtime_ms=task.segment.log.mtime_ms) as out, lent_memory() as memory:
        rewrite = _Rewrite(task, report, out, memory.array)
        try:
            rewrite.all_windows()
        except EncodeError as error:
            error.file = task.segment.path
            raise
    check_row_counts(report.records, report.records_written, report.left_out, where=report.file)
    report.bytes_read, report.bytes_written = task.segment.size_bytes, path.stat().st_size
    if report.bytes_written > LARGEST_SEGMENT:
        reason = f"would become {report.bytes_written:,} bytes; a segment has at most 2^31 - 1"
        raise LogDirError(reason, file=task.segment.path)
    _write_indexes(task, path, report, rewrite.columns)
    return report


class _Rewrite:
    """One segment on its way to its new file.

    Attributes:
        columns: of each piece written so far, what the indexes need of its batches.
    """

    def __init__(self, task: SegmentTask, report: SegmentReport, out: BinaryIO, allocate: Allocate) -> None:
        self._task, self._report, self._out, self._allocate = task, report, out, allocate
        self._losses = Losses(on_loss=task.settings.on_loss, aborted=task.aborted)
        self._position = 0
        self.columns: list[Ints] = [np.empty((len(INDEXED), 0), np.int64)]
        report.lost = self._losses.counts

    def all_windows(self) -> None:
        """Write all batches, and what stands behind the last where that is to be kept."""
        task, report = self._task, self._report
        with task.filesystem.open(task.segment.path) as read_at:
            segment = task.segment
            for window in scan_segment(read_at, size_bytes=segment.size_bytes, whole=True, file=segment.path):
                self._window(window)
                end = window.batches.end
                if end.corrupt or (end.status == TORN and end.position < task.segment.size_bytes):
                    if task.settings.mode == FAILFAST:
                        raise LogDirError(f"{end.reason}: nothing was written", position=end.position, file=report.file)
                    report.damaged.append((end.position, end.reason))
                    self._out.writelines(atomic.chunks(read_at, end.position))
        if self._losses.control_records:
            report.left_out[CONTROL_RECORDS] += self._losses.control_records

    def _window(self, window: Window) -> None:
        if not len(window.batches):
            return
        data, batches = as_array(window.data), window.in_data()
        self._report.batches_read += len(batches)
        for opened in decode.in_turn(data, batches, allocate=self._allocate):
            positions, sizes = opened.batches.column("position"), opened.batches.column("size")
            before = data[int(positions[0]) : int(positions[-1] + sizes[-1])]
            self._write(self._rewritten(opened, window.start), before)

    def _write(self, written: Bytes, before: Bytes) -> None:
        """Write batches that were ``before``."""
        batches = scan_all(written, rules=FILE)
        table = batches.table
        self._report.records_written += count_records(written, batches)
        columns = np.stack([table[COLUMN[name]] for name in INDEXED])
        columns[INDEXED.index("position")] += self._position
        self.columns.append(columns)
        self._out.write(written.data)
        self._position += len(written)
        report = self._report
        report.batches_written += table.shape[1]
        report.changed = report.changed or len(written) != len(before) or not np.array_equal(written, before)

    def _rewritten(self, decoded: Decoded, start: int) -> Bytes:
        """Return batches that begin at ``start`` written anew."""
        settings, report, batches = self._task.settings, self._report, decoded.batches
        bad = damaged_batches(decoded)
        positions = batches.column("position") + start
        if bad and settings.mode == FAILFAST:
            first = min(bad)
            raise LogDirError(f"{bad[first]}: nothing was written", position=int(positions[first]), file=report.file)
        report.damaged += [(int(positions[batch]), bad[batch]) for batch in sorted(bad)]
        report.records += int(np.where(batches.is_v2, batches.column("count"), decoded.index.rows).sum())
        damaged = np.zeros(len(batches), np.bool_)
        damaged[list(bad)] = True
        try:
            return as_array(b"".join(rewritten(decoded, settings, damaged, self._losses)))
        except EncodeError as error:
            if error.position is not None:
                error.position += start
            raise


def _write_indexes(task: SegmentTask, path: Path, report: SegmentReport, columns: Sequence[Ints]) -> None:
    """Write the indexes anew, or keep those of a segment that did not change."""
    segment = task.segment
    if not report.changed and segment.index and segment.time_index:
        for file in (segment.index, segment.time_index):
            copy(task.filesystem, file, path.parent)
    else:
        offset_index, time_index = build_indexes(
            segment.base_offset,
            *np.concatenate(columns, axis=1),
            interval_bytes=task.settings.index_interval_bytes,
        )
        for kind, raw in (("index", write_offset_index(offset_index)), ("timeindex", write_time_index(time_index))):
            with atomic.new_file(path.with_suffix(f".{kind}"), mtime_ms=segment.log.mtime_ms) as out:
                out.write(raw)
    if segment.txn_index and task.settings.record_format in (None, 2):  # offsets stay, so it stays
        copy(task.filesystem, segment.txn_index, path.parent)


def copy(filesystem: FileSystem, file: LogFile, directory: Path) -> None:
    """Copy a file of a partition under its own name."""
    atomic.copy_file(filesystem, file.path, directory / os.path.basename(file.path), mtime_ms=file.mtime_ms)
