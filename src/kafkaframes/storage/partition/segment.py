"""One segment of a partition's log: appends, index entries, rolling and truncation (LogSegment).

Only the active segment is written. The files of a segment are kept open, up to the limit on open files in
``files.disk``. The state in memory changes only after the disk write has succeeded, so a segment can still be read
after its disk fails.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from kafkaframes.errors import CorruptRecordError, LogDirError, StorageError
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.disk import DiskFile, OnlineDisk
from kafkaframes.storage.files.filesystem import ReadAt, join
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.indexes import NO_TIMESTAMP, TimestampOffset
from kafkaframes.storage.files.names import SEGMENT_KINDS, name_segment_file
from kafkaframes.storage.files.segment_reader import SegmentReader
from kafkaframes.storage.partition._kernels_fetch import ANY_OFFSET, BATCH, MORE, NONE, UNUSUAL, find_batch
from kafkaframes.storage.partition.index_files import OffsetIndexFile, TimeIndexFile, TxnIndexFile
from kafkaframes.storage.partition.settings import LogSettings
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import DeferredBytes

# ---------------------------------------------------------------------------------------------------------------------
# A range of a segment file that the operating system sends to a socket (sendfile), without a copy in memory.


class FileRange(DeferredBytes):
    """A range of a file. The range has its own descriptor and stays readable if the file is renamed or deleted.

    Attributes:
        descriptor: descriptor of the file, open for reading; -1 after ``close``.
    """

    __slots__ = ("descriptor", "position", "size")

    def __init__(self, descriptor: int, position: int, size: int) -> None:
        self.descriptor = descriptor
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        """Read the whole range.

        Raises:
            StorageError: the file was truncated.
        """
        data = self.read(self.size)
        if len(data) < self.size:
            raise StorageError(f"{self.size} bytes from byte {self.position} on are missing: the file was truncated")
        return data

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes from the start of the range; fewer if the range ends or the file was truncated.

        Raises:
            OSError: the file cannot be read.
        """
        return os.pread(self.descriptor, min(size, self.size), self.position)

    def skip(self, size: int) -> None:
        """Remove ``size`` bytes from the beginning of the range."""
        self.position += size
        self.size -= size

    def close(self) -> None:
        """Close the file."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()


# ---------------------------------------------------------------------------------------------------------------------

DELETED_SUFFIX = ".deleted"
WINDOW_BYTES = 16 << 10  # bytes per read of batch headers: four times the default interval of index entries


class BatchWindow(NamedTuple):
    """A batch of a segment, and the bytes of the file that were read to find it.

    Attributes:
        position: position of the batch in the file.
        size: size of the batch, in bytes.
        window_start: position of ``window`` in the file.
        window: bytes of the file, possibly empty; they may end before the batch ends.
    """

    position: int
    size: int
    window_start: int
    window: bytes

    def batch_bytes(self, size: int) -> bytes | None:
        """Return ``size`` bytes from the start of the batch if the window contains them, otherwise None."""
        window_position = self.position - self.window_start
        return (
            self.window[window_position : window_position + size]
            if window_position + size <= len(self.window)
            else None
        )


class LogSegment:
    """The batches of a log from ``base_offset`` to the next segment, with their indexes."""

    def __init__(self, disk: OnlineDisk, directory: str, base_offset: int, *, size_bytes: int, now_ms: int) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = now_ms
        self._disk = disk
        self._directory = directory
        self.path = self._path_of("log")
        self.index = OffsetIndexFile(disk, self._path_of("index"), base_offset=base_offset)
        self.time_index = TimeIndexFile(disk, self._path_of("timeindex"), base_offset=base_offset)
        self.txn_index = TxnIndexFile(disk, self._path_of("txnindex"), base_offset=base_offset)
        self._file: DiskFile | None = None
        self._reader = disk.make_reader(self.path)
        self._bytes_since_entry = 0
        self._largest: TimestampOffset | None = None  # None until it is computed
        self._first_timestamp: int | None = None  # None if it is not read yet, or if the segment has no batch

    def _path_of(self, kind: str) -> str:
        return join(self._directory, name_segment_file(self.base_offset, kind))

    @property
    def files(self) -> list[str]:
        """The paths of the segment's existing files."""
        return [path for kind in SEGMENT_KINDS if self._disk.stat(path := self._path_of(kind)) is not None]

    # ---------------------------------------------------------------------------------------------- writing

    @property
    def is_active(self) -> bool:
        """Whether the segment is open for appends."""
        return self._file is not None

    def activate(self, settings: LogSettings, *, is_new: bool = False) -> None:
        """Open the segment for appends.

        Allocate the indexes, and with the setting ``preallocate`` also a new ``.log``.
        """
        if self._file is None:
            self._file = self._disk.open_file(self.path)
        self.index.allocate(settings.segment_index_bytes, is_new=is_new)
        self.time_index.allocate(settings.segment_index_bytes, is_new=is_new)
        if is_new and settings.preallocate:
            self._file.truncate(settings.segment_bytes)

    def append(self, data: bytes | bytearray, batches: Sequence[BatchHeader], settings: LogSettings) -> None:
        """Append batches at the end of the segment.

        Args:
            batches: headers of the batches, with positions relative to the start of ``data``.

        Raises:
            StorageError: the disk fails; ``truncate`` removes the partial append.
        """
        if self._file is None:
            raise LogDirError("the segment is not active", file=self.path)
        start = self.size_bytes
        self._file.write(start, data)
        if start == 0:
            self._first_timestamp = max([header.max_timestamp for header in batches])
        if settings.index_per_batch:
            for header in batches:
                self._add_index_entries((header,), start + header.position, header.size, settings)
        else:
            self._add_index_entries(batches, start, len(data), settings)
        self.size_bytes = start + len(data)

    def truncate(self, size_bytes: int, offset: int) -> None:
        """Truncate the segment to ``size_bytes``, before the batch that contains ``offset``.

        The call also undoes an append that failed after a part of the batches was written.

        Raises:
            LogDirError: the disk fails, or the segment cannot be read.
        """
        if self._file is None:
            raise LogDirError("the segment is not active", file=self.path)
        self.index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self._file.truncate(size_bytes)
        self.size_bytes = size_bytes
        self._bytes_since_entry = 0
        self._largest = self._scan_max_timestamp()
        if self.size_bytes == 0:
            self._first_timestamp = None

    def _add_index_entries(
        self, batches: Sequence[BatchHeader], position: int, size: int, settings: LogSettings
    ) -> None:
        """Add the index entries that are due after a batch."""
        largest = self._largest or self.max_timestamp_and_offset
        for header in batches:
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        self._largest = largest
        if self._bytes_since_entry > settings.index_interval_bytes and not self.index.is_full:
            self.index.append(batches[-1].last_offset, position)
            if not self.time_index.is_full:
                self.time_index.maybe_append(*largest)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    def should_roll(
        self, settings: LogSettings, *, size_bytes: int, max_timestamp: int, last_offset: int, now_ms: int
    ) -> bool:
        """Return whether an append of ``size_bytes`` needs a new segment (LogSegment.shouldRoll)."""
        if self.size_bytes > settings.segment_bytes - size_bytes or self.index.is_full or self.time_index.is_full:
            return True
        if last_offset - self.base_offset > MAX_INT32:
            return True
        if self.size_bytes == 0:
            return False
        # Age of the segment: time between the timestamps of its first batch and of the append, else time by the clock.
        first = self.first_timestamp
        waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        return waited_ms > settings.segment_ms - settings.segment_jitter_ms

    def close(self) -> None:
        """Close the segment for appends: add the last time index entry, and trim all files to their content."""
        if self._file is None:
            return
        if self.max_timestamp_and_offset.timestamp >= 0:
            self.time_index.maybe_append(*self.max_timestamp_and_offset)
        self.index.trim()
        self.time_index.trim()
        self._file.truncate(self.size_bytes)

    def release(self) -> None:
        """Close the files without trimming them."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._reader.close()
        self.index.close()
        self.time_index.close()

    def flush(self) -> None:
        """Flush all files to the disk."""
        if self._file is not None:
            self._file.fsync()
        else:
            self._disk.flush_file(self.path)
        self.index.flush()
        self.time_index.flush()
        self.txn_index.flush()

    @property
    def filled_files(self) -> list[str]:
        """The paths of the files that are not empty once the segment is closed. An empty index need not be flushed."""
        kinds = {"log": self.size_bytes, "index": self.index.size_bytes, "timeindex": self.time_index.size_bytes}
        kinds["txnindex"] = len(self.txn_index.aborted_transactions)
        return [self._path_of(kind) for kind, size in kinds.items() if size]

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Truncate the active segment before the batch that contains ``offset``."""
        batch = self.find_batch(offset)
        self.truncate(self.size_bytes if batch is None else batch.position, offset)
        if self.size_bytes == 0:
            self.created_ms = now_ms

    def mark_deleted(self) -> list[str]:
        """Rename the files to ``.deleted`` and return their new paths. Files that are open stay readable."""
        self.release()
        renamed_files = []
        for path in self.files:
            self._disk.rename(path, path + DELETED_SUFFIX)
            renamed_files.append(path + DELETED_SUFFIX)
        return renamed_files

    # ---------------------------------------------------------------------------------------------- reading

    @property
    def read_at(self) -> ReadAt:
        """A function that reads bytes of the ``.log``. The file stays open, up to the limit on open files."""
        return self._reader if self._file is None else self._file.read

    def reader(self) -> SegmentReader:
        """Return a reader of the segment that uses the indexes in memory."""
        segment = Segment.from_log_file(self.base_offset, self.path, self.size_bytes)
        reader = SegmentReader(self._disk, segment, self.read_at, use_indexes=False)
        reader.offset_index, reader.time_index = self.index.entries, self.time_index.entries
        return reader

    def find_batch(self, offset: int) -> BatchWindow | None:
        """Return the first batch with a last offset at or above ``offset``; None if there is none.

        Raises:
            LogDirError: the segment cannot be read.
        """
        entry_offset, position = self.index.lookup(offset)
        if position == 0:
            entry_offset = ANY_OFFSET
        answer, read_at = MORE, self.read_at
        while answer == MORE:
            start, remaining_bytes = position, self.size_bytes - position
            window = read_at(start, WINDOW_BYTES if remaining_bytes > WINDOW_BYTES else remaining_bytes)
            if len(window) < min(
                remaining_bytes, WINDOW_BYTES
            ):  # the file was truncated in the meantime: the general path raises the error
                answer = UNUSUAL
                break
            answer, position, size = find_batch(window, start, self.size_bytes, offset, self.base_offset, entry_offset)
            entry_offset = ANY_OFFSET
        if answer == BATCH:
            return BatchWindow(position, size, start, window)
        return None if answer == NONE else self.find_batch_by_headers(offset)

    def file_range(self, position: int, size: int) -> FileRange | None:
        """Return a range of the ``.log`` without reading it; None if the disk's files have no descriptors.

        Raises:
            StorageError: the file cannot be opened.
        """
        descriptor = self._disk.open_descriptor(self.path)
        return None if descriptor is None else FileRange(descriptor, position, size)

    def find_batch_by_headers(self, offset: int) -> BatchWindow | None:
        """Return the same batch as ``find_batch`` by reading header by header. This path supports all batches."""
        reader = self.reader()
        walk = reader.walk_headers(reader.find_start_before(offset))
        for header in walk:
            if header.last_offset >= offset:
                return BatchWindow(header.position, header.size, header.position, b"")
        if walk.is_corrupt:
            raise CorruptRecordError(walk.reason, position=walk.position, file=self.path)
        return None

    def find_whole_batches_end(self, offset: int) -> int:
        """Return the end position of the whole batches, starting at the last index entry before ``offset``."""
        reader = self.reader()
        walk = reader.walk_headers(reader.find_start_before(offset))
        for _ in walk:
            pass
        return walk.position

    @property
    def max_timestamp_and_offset(self) -> TimestampOffset:
        """The largest timestamp of all batches, and the last offset of the first batch with this timestamp.

        After a restart, the value is the last entry of the time index, which closing or recovery has written.
        """
        if self._largest is None:
            self._largest = self.time_index.last_entry
        return self._largest

    def _scan_max_timestamp(self) -> TimestampOffset:
        """Find the largest timestamp after a truncation (LogSegment.readLargestTimestamp)."""
        largest = self.time_index.last_entry
        reader = self.reader()
        for header in reader.walk_headers(self.index.entries.lookup(largest.offset).position):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    @property
    def largest_timestamp(self) -> int:
        """The timestamp that retention uses: the largest one, or the file's modification time if no batch has one."""
        if self.max_timestamp_and_offset.timestamp >= 0:
            return self.max_timestamp_and_offset.timestamp
        info = self._disk.stat(self.path)
        return NO_TIMESTAMP if info is None or info.mtime_ms is None else info.mtime_ms

    def read_modification_time(self) -> int:
        """Return the file's modification time in milliseconds since 1970; its creation time if the disk stores none."""
        info = self._disk.stat(self.path)
        return self.created_ms if info is None or info.mtime_ms is None else info.mtime_ms

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first append, or after a restart of the first batch; -1 if there is no batch."""
        if self._first_timestamp is None and self.size_bytes:
            header = next(iter(self.reader().walk_headers()), None)
            self._first_timestamp = NO_TIMESTAMP if header is None else header.max_timestamp
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp
