"""Write one partition's directory from batches: segments, indexes, producer snapshots and leader epochs.

Batches are written unchanged, in offset order, and gaps between offsets are permitted. A segment is rolled by the size
and offset rules of Kafka's ``LogSegment.shouldRoll``, or at the caller's request. All other files are equal to those
of a broker: ``.index`` and ``.timeindex``, a ``.txnindex`` if a transaction was aborted, a producer snapshot at each
roll and at the end, and ``leader-epoch-checkpoint``. Each file is complete or does not exist. The caller can ensure the
same for the directory with ``storage/files/atomic.py``.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.records.decode import count_records
from kafkaframes.records.scan import FILE, BatchHeaders, as_array, scan_all
from kafkaframes.storage.files import atomic, checkpoints, names
from kafkaframes.storage.files.checkpoints import (
    EpochStart,
    PartitionMetadata,
    write_leader_epochs,
    write_partition_metadata,
)
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.producer_files import ProducerEntry, write_producer_snapshot
from kafkaframes.storage.log.producers import Producers
from kafkaframes.storage.log.rebuild import INDEX_INTERVAL_BYTES, rebuild_indexes, sort_in_file_order
from kafkaframes.storage.log.transactions import OpenTransactions
from kafkaframes.wire.integers import MAX_INT32

DEFAULT_SEGMENT_BYTES = 1 << 30  # the default of segment.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSettings:
    """Settings of segment size and indexes; picklable.

    Attributes:
        segment_bytes: ``segment.bytes``, the largest size of a segment unless a single batch is larger.
        index_interval_bytes: ``index.interval.bytes``.
    """

    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES

    def __post_init__(self) -> None:
        if not 1 <= self.segment_bytes <= MAX_INT32 or self.index_interval_bytes < 0:
            raise OptionError(
                f"segment_bytes is {self.segment_bytes}; expected 1 to 2^31 - 1, and index_interval_bytes must "
                "not be negative"
            )


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """A complete segment: the size of its ``.log`` in bytes, and the numbers of its batches and records."""

    base_offset: int
    next_offset: int
    size_bytes: int
    batches: int
    records: int


@dataclass(slots=True)
class WrittenPartition:
    """The result of a ``PartitionWriter``: the segments, offsets and leader epochs of a partition's directory.

    Attributes:
        log_start_offset: base offset of the first segment.
        log_end_offset: offset of the next record.
        epochs: content of ``leader-epoch-checkpoint``; empty if no batch has a leader epoch.
    """

    log_start_offset: int
    log_end_offset: int
    segments: list[WrittenSegment] = field(default_factory=list)
    epochs: tuple[EpochStart, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Total size of the ``.log`` files, in bytes."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def records(self) -> int:
        """Number of records in all segments."""
        return sum(segment.records for segment in self.segments)


class PartitionWriter:
    """A writer of one partition's directory. ``close`` completes the directory; an exception removes the open file.

    >>> with PartitionWriter(directory, topic_id=topic_id) as writer:      # doctest: +SKIP
    ...     writer.append(build_records(rows))
    ...     written = writer.close()

    Args:
        directory: an existing empty directory.
        start_offset: base offset of the first segment, not above the first batch.
        topic_id: topic id for ``partition.metadata``; None omits that file.
        epochs, producers: leader epochs and producer states at ``start_offset``, if the log continues another one.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        start_offset: int = 0,
        settings: SegmentSettings | None = None,
        topic_id: str | None = None,
        epochs: tuple[EpochStart, ...] = (),
        producers: Producers | None = None,
    ) -> None:
        self.result = WrittenPartition(start_offset, start_offset, epochs=epochs)
        self._directory = Path(directory)
        self._settings = settings or SegmentSettings()
        self._topic_id = topic_id
        self._segment: _OutputSegment | None = None
        self._transactions = OpenTransactions()
        self._producers = Producers() if producers is None else producers
        self._last_snapshot = start_offset

    def __enter__(self) -> PartitionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._segment is not None:
            self._segment.abandon()
            self._segment = None

    def append(self, data: bytes | bytearray | memoryview, *, mtime_ms: int | None = None) -> None:
        """Append whole batches of any format.

        Args:
            data: whole batches with offsets above all earlier ones.
            mtime_ms: modification time, milliseconds since 1970; the segment's file gets the latest time of its
                appends. For formats 0 and 1, Kafka uses the modification time as a timestamp.

        Raises:
            LogDirError: the bytes are not whole batches, offsets decrease, or the disk fails.
        """
        batches = scan_all(data, rules=FILE)
        self._check_batches(batches, len(data))
        view, first = memoryview(data), 0
        starts, sizes = batches.column("position"), batches.column("size")
        while first < len(batches):
            segment = self._segment or self._begin_segment(self._choose_base_offset(batches, first))
            end_row = self._find_fitting_end(segment, batches, first)
            if end_row == first:
                self.roll(self._choose_base_offset(batches, first))
                continue
            last = end_row - 1
            segment.write(view[int(starts[first]) : int(starts[last] + sizes[last])], last + 1 - first, mtime_ms)
            appended_batches = BatchHeaders(np.ascontiguousarray(batches.table[:, first : last + 1]), batches.end)
            segment.records += count_records(as_array(data), appended_batches)
            self.result.log_end_offset = int(batches.column("last_offset")[last]) + 1
            first = last + 1

    def roll(self, base_offset: int | None = None) -> None:
        """End the segment; the next one starts at ``base_offset``, by default at the log end offset.

        Raises:
            LogDirError: the segment cannot be written, or ``base_offset`` is below the log end offset.
        """
        base = self.result.log_end_offset if base_offset is None else base_offset
        if base < self.result.log_end_offset:
            reason = (
                f"a segment cannot start at offset {base}, which is below the log end offset "
                f"{self.result.log_end_offset}"
            )
            raise LogDirError(reason, file=str(self._directory))
        if self._segment is None and not self.result.segments:
            self._begin_segment(self.result.log_start_offset)
        if self._segment is None or base != self._segment.base_offset:  # an empty segment can serve as the next one
            self.end_segment()
            self._begin_segment(base)

    def end_segment(self) -> None:
        """Complete the open segment; the next batch starts another one.

        Raises:
            LogDirError: the disk fails.
        """
        segment = self._segment
        if segment is None:
            return
        self._segment = None
        path = segment.finish()
        indexes = rebuild_indexes(
            LocalFileSystem(),
            Segment.from_log_file(segment.base_offset, str(path), segment.size_bytes),
            index_interval_bytes=self._settings.index_interval_bytes,
            follow=self._transactions,
            producers=self._producers,
        )
        for kind, raw in indexes.files.items():
            if raw or kind != "txnindex":  # Kafka creates a transaction index only when there is an entry
                self._write_file(names.name_segment_file(segment.base_offset, kind), raw, mtime_ms=segment.mtime_ms)
        self.result.epochs = checkpoints.add_recovered_epochs(self.result.epochs, indexes.epochs)
        self.result.segments.append(
            WrittenSegment(
                segment.base_offset, indexes.next_offset, segment.size_bytes, segment.batches, segment.records
            )
        )

    @property
    def open_transactions(self) -> tuple[ProducerEntry, ...]:
        """The producers with transactions that have no marker in the complete segments."""
        first_offsets = self._transactions.first_offsets
        return tuple(entry for entry in self._producers.entries() if entry.producer_id in first_offsets)

    def close(self) -> WrittenPartition:
        """Complete the directory and return its content; a log without batches has one empty segment.

        Raises:
            LogDirError: the disk fails.
        """
        if self._segment is None and not self.result.segments:
            self._begin_segment(self.result.log_start_offset)
        if self._segment is not None:
            self.result.log_end_offset = max(self.result.log_end_offset, self._segment.base_offset)
        self.end_segment()
        self._take_snapshot(self.result.log_end_offset)
        self._write_file(names.LEADER_EPOCH_CHECKPOINT, write_leader_epochs(self.result.epochs))
        if self._topic_id is not None:
            self._write_file(names.PARTITION_METADATA, write_partition_metadata(PartitionMetadata(self._topic_id)))
        return self.result

    # ------------------------------------------------------------------------------------------------- segments

    def _check_batches(self, batches: BatchHeaders, size_bytes: int) -> None:
        if batches.end.position != size_bytes:
            reason = f"{count_text(size_bytes, 'byte')} {verb_text(size_bytes)} not whole batches: {batches.end.reason}"
            raise LogDirError(reason, position=batches.end.position, file=str(self._directory))
        firsts, lasts = batches.column("base_offset"), batches.column("last_offset")
        min_offset = max(self.result.log_end_offset, self._segment.base_offset if self._segment else 0)
        ends = np.concatenate(([min_offset], lasts[:-1] + 1))[: len(lasts)]
        invalid_rows = np.flatnonzero((firsts < ends) | (lasts < firsts))
        if len(invalid_rows):
            row = int(invalid_rows[0])
            reason = f"offsets {firsts[row]} to {lasts[row]} follow offset {ends[row] - 1}; offsets must increase"
            raise LogDirError(reason, position=int(batches.column("position")[row]), file=str(self._directory))

    def _choose_base_offset(self, batches: BatchHeaders, row: int) -> int:
        """Return the base offset of a segment that starts with a batch, as Kafka chooses it for a follower's append.

        The header of a message set of format 0 or 1 has no first offset, only the last one. A segment that starts with
        such a set therefore gets the log end offset as its base offset.
        """
        if not self.result.segments and self._segment is None:
            return self.result.log_start_offset
        first, last = (int(batches.column(name)[row]) for name in ("base_offset", "last_offset"))
        is_legacy = int(batches.column("magic")[row]) < 2
        return max(self.result.log_end_offset, last - MAX_INT32) if is_legacy else first

    def _find_fitting_end(self, segment: _OutputSegment, batches: BatchHeaders, first: int) -> int:
        """Return the end of the batches, from row ``first`` on, that fit into the segment.

        The first batch fits into an empty segment of any size. Relative offsets are int32 in the indexes, so that even
        an empty segment cannot contain a batch with a last offset more than 2^31 - 1 above its base offset.
        """
        starts, sizes = batches.column("position")[first:], batches.column("size")[first:]
        sizes_after = segment.size_bytes + starts + sizes - starts[0]
        is_too_large = sizes_after > self._settings.segment_bytes
        is_too_large[0] &= segment.size_bytes > 0
        deltas = batches.column("last_offset")[first:] - segment.base_offset
        exceeds_limit = is_too_large | (deltas > MAX_INT32)
        return first + (int(exceeds_limit.argmax()) if exceeds_limit.any() else len(exceeds_limit))

    def _begin_segment(self, base_offset: int) -> _OutputSegment:
        self._take_snapshot(base_offset)
        self._segment = _OutputSegment(self._directory, base_offset)
        return self._segment

    def _take_snapshot(self, offset: int) -> None:
        if offset > self._last_snapshot:
            raw = write_producer_snapshot(sort_in_file_order(self._producers.entries()))
            self._write_file(names.name_segment_file(offset, "snapshot"), raw)
            self._last_snapshot = offset

    def _write_file(self, name: str, raw: bytes, *, mtime_ms: int | None = None) -> None:
        with atomic.new_file(self._directory / name, mtime_ms=mtime_ms) as out:
            out.write(raw)


class _OutputSegment:
    """The ``.log`` file that is being written."""

    def __init__(self, directory: Path, base_offset: int) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        self.batches = 0
        self.records = 0
        self.mtime_ms: int | None = None
        self._path = directory / names.name_segment_file(base_offset, "log")
        self._stack = ExitStack()
        self._out: BinaryIO = self._stack.enter_context(atomic.new_file(self._path))

    def write(self, data: memoryview, batches: int, mtime_ms: int | None) -> None:
        with atomic.name_path_in_errors(self._path):
            self._out.write(data)
        self.size_bytes += len(data)
        self.batches += batches
        if mtime_ms is not None:
            self.mtime_ms = max(mtime_ms, self.mtime_ms or mtime_ms)

    def finish(self) -> Path:
        self._stack.close()
        if self.mtime_ms is not None:
            os.utime(self._path, ns=(self.mtime_ms * 1_000_000,) * 2)
        return self._path

    def abandon(self) -> None:
        """Close and remove the incomplete file."""
        with suppress(_AbandonedFileError), self._stack:
            raise _AbandonedFileError


class _AbandonedFileError(Exception):
    """Raised inside ``new_file``, so that it removes the incomplete file. The caller never sees the error."""
