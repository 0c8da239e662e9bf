"""The three indexes of a segment that is being written: in memory for lookups, and on the disk (AbstractIndex).

The offset and time indexes of an active segment are allocated at their full size, with zeros after the entries. Rolling
a segment and closing the log trim these files. An unreadable offset or time index raises no error. An unreadable index
is treated as empty, and lookups walk the batches instead.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files.disk import DiskFile, OnlineDisk
from kafkaframes.storage.files.indexes import (
    NO_TIMESTAMP,
    Int64s,
    OffsetIndex,
    TimeIndex,
    TimestampOffset,
    read_offset_index,
    read_time_index,
)
from kafkaframes.storage.files.producer_files import (
    ABORTED_TRANSACTION_BYTES,
    AbortedTransaction,
    read_txn_index,
    write_txn_index,
)

_MIN_GROWTH_ENTRIES = 64  # entries by which a full index grows in memory, unless it doubles


class _EntryFile:
    """An index file whose entries are pairs of numbers, read into two columns in memory at the first access."""

    _entry: struct.Struct
    _offsets: int  # index of the column that has the offsets

    def __init__(self, disk: OnlineDisk, path: str, *, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._file: DiskFile | None = None
        self._first: Int64s = np.empty(0, np.int64)
        self._second: Int64s = np.empty(0, np.int64)
        self._count = -1  # not read yet
        self._max_entries = 0

    def _parse_entries(self, raw: bytes) -> tuple[Int64s, Int64s]:
        raise NotImplementedError

    def __len__(self) -> int:
        if self._count < 0:
            self._load_entries()
        return self._count

    def _load_entries(self) -> None:
        info = self._disk.stat(self.path)
        try:
            self._first, self._second = self._parse_entries(b"" if info is None else self._disk.read(self.path))
        except LogDirError:  # lookups walk the batches instead
            self._first = self._second = np.empty(0, np.int64)
        self._count = len(self._first)

    def allocate(self, size_bytes: int, *, is_new: bool = False) -> None:
        """Open the file for entries, at its full size (``segment.index.bytes``, rounded down to whole entries)."""
        if is_new:
            self._count = 0
        self._max_entries = max(size_bytes // self._entry.size, len(self))
        if self._file is None:
            self._file = self._disk.open_file(self.path)
        self._file.truncate(self._max_entries * self._entry.size)

    def _add_entry(self, first: int, second: int, relative: bytes) -> None:
        count = len(self)
        if self._file is None:
            raise LogDirError("the index is closed", file=self.path)
        self._file.write(count * self._entry.size, relative)
        if count == len(self._first):
            self._first, self._second = (
                np.concatenate((column, np.zeros(max(count, _MIN_GROWTH_ENTRIES), np.int64)))
                for column in (self._first, self._second)
            )
        self._first[count], self._second[count] = first, second
        self._count = count + 1

    def keep_entries(self, count: int) -> None:
        """Remove all entries after the first ``count``. The file keeps its allocated size."""
        if self._file is None or count >= len(self):
            return
        self._file.truncate(count * self._entry.size)
        self._file.truncate(self._max_entries * self._entry.size)
        self._count = count

    def truncate_to(self, offset: int) -> None:
        self.keep_entries(int(np.searchsorted(self._load_columns()[self._offsets], offset, side="left")))

    def trim(self) -> None:
        """Remove the zeros after the last entry from the file."""
        if self._file is not None:
            self._max_entries = len(self)
            self._file.truncate(self._max_entries * self._entry.size)

    def flush(self) -> None:
        if self._file is not None:
            self._file.fsync()
        elif self._disk.stat(self.path) is not None:
            self._disk.flush_file(self.path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def size_bytes(self) -> int:
        """Size of the entries in bytes, without the zeros after them."""
        return len(self) * self._entry.size

    def _load_columns(self) -> tuple[Any, Any]:
        count = len(self)
        return self._first[:count], self._second[:count]


class OffsetIndexFile(_EntryFile):
    """The offset index, ``<base offset>.index`` (OffsetIndex)."""

    _entry = struct.Struct(">ii")
    _offsets = 0

    def _parse_entries(self, raw: bytes) -> tuple[Int64s, Int64s]:
        read = read_offset_index(raw, base_offset=self.base_offset, file=self.path)
        return read.offsets, read.positions

    @property
    def is_full(self) -> bool:
        """Whether the file has no space for another entry."""
        return (len(self) if self._count < 0 else self._count) >= self._max_entries

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return offset and position of the last entry at or below ``offset``; the segment's start if there is none."""
        entry_number = int(self._first[: len(self)].searchsorted(offset, side="right")) - 1
        return (
            (int(self._first[entry_number]), int(self._second[entry_number]))
            if entry_number >= 0
            else (self.base_offset, 0)
        )

    def append(self, offset: int, position: int) -> None:
        """Add an entry. Offset and position must be greater than those of the last entry."""
        self._add_entry(offset, position, self._entry.pack(offset - self.base_offset, position))

    @property
    def entries(self) -> OffsetIndex:
        """The entries added so far."""
        return OffsetIndex(self.base_offset, *self._load_columns())


class TimeIndexFile(_EntryFile):
    """The time index, ``<base offset>.timeindex`` (TimeIndex)."""

    _entry = struct.Struct(">qi")
    _offsets = 1

    def _parse_entries(self, raw: bytes) -> tuple[Int64s, Int64s]:
        read = read_time_index(raw, base_offset=self.base_offset, file=self.path)
        return read.timestamps, read.offsets

    @property
    def is_full(self) -> bool:
        """Whether the only free entry is the one that is reserved for closing the segment."""
        return (len(self) if self._count < 0 else self._count) >= self._max_entries - 1

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry; (-1, base offset) if there are no entries."""
        last = len(self) - 1
        if last < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(int(self._first[last]), int(self._second[last]))

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is greater than that of the last entry."""
        if timestamp > self.last_entry.timestamp:
            self._add_entry(timestamp, offset, self._entry.pack(timestamp, offset - self.base_offset))

    @property
    def entries(self) -> TimeIndex:
        """The entries added so far."""
        return TimeIndex(self.base_offset, *self._load_columns())


class TxnIndexFile:
    """The aborted transactions, ``<base offset>.txnindex`` (TransactionIndex). The first entry creates the file."""

    def __init__(self, disk: OnlineDisk, path: str, *, base_offset: int) -> None:
        self.path = path
        self._base_offset = base_offset
        self._disk = disk
        self._entries: list[AbortedTransaction] | None = None

    @property
    def aborted_transactions(self) -> list[AbortedTransaction]:
        """The aborted transactions, in the order of their markers.

        Raises:
            LogDirError: the file is corrupt, so it is unknown which records are committed.
        """
        if self._entries is None:
            exists = self._disk.stat(self.path) is not None
            raw = self._disk.read(self.path) if exists else b""
            self._entries = list(read_txn_index(raw, base_offset=self._base_offset, file=self.path))
        return self._entries

    def append(self, transaction: AbortedTransaction) -> None:
        """Add an aborted transaction."""
        entries = self.aborted_transactions
        file = self._disk.open_file(self.path)
        try:
            file.write(len(entries) * ABORTED_TRANSACTION_BYTES, write_txn_index([transaction]))
        finally:
            file.close()
        entries.append(transaction)

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions with a marker at or above ``offset``, and any incomplete entry."""
        entries, file_info = (
            [transaction for transaction in self.aborted_transactions if transaction.last_offset < offset],
            self._disk.stat(self.path),
        )
        if file_info is not None and file_info.size_bytes != len(entries) * ABORTED_TRANSACTION_BYTES:
            file = self._disk.open_file(self.path)
            file.truncate(len(entries) * ABORTED_TRANSACTION_BYTES)
            file.close()
        self._entries = entries

    def flush(self) -> None:
        """Flush the file to the disk."""
        if self._disk.stat(self.path) is not None:
            self._disk.flush_file(self.path)
