"""The first pass of a cleaning round: find the records of the dirty part that are the last of their key.

Control batches and aborted data do not count, so they do not replace other records. A record of the clean part is the
last one with its key if the dirty part has no record with this key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.memory import Recycler
from kafkaframes.records.scan import Flags, Ints
from kafkaframes.storage.cleaner import _kernels
from kafkaframes.storage.cleaner.plan import CleaningPlan
from kafkaframes.storage.cleaner.walk import (
    CleanedTransactions,
    control_type,
    find_transactional_batches,
    make_batch_header,
    read_windows,
)
from kafkaframes.storage.files.filesystem import FileSystem

# ---------------------------------------------------------------------------------------------------------------------
# The last record of each key in the dirty part of a log. The map is exact: it has the keys, not digests of them.
#
# Kafka stores MD5 digests in a buffer of fixed size, and needs more rounds if the buffer is full. This map grows, so
# one round always reaches its end, like Kafka's with a large enough ``log.cleaner.dedupe.buffer.size``. It needs the
# bytes of the distinct keys, 55 to 110 more bytes per key, and one bit per record. If it has a limit and would exceed
# it, it raises an error, and the caller can use ``exchange.py`` instead.
#
# Records are numbered in the order in which they are added. At the end of the walk the map has a bit for each replaced
# record, so the second walk needs no lookup per record.

_MIN_SLOTS = 1 << 12  # slots of an empty map
_MIN_ARENA_BYTES = 1 << 16  # memory for the keys of an empty map
_Number = TypeVar("_Number", bound=np.generic)


class MapFullError(Exception):
    """The keys need more memory than the map's limit. Callers inside this package handle it."""


class OffsetMap:
    """A map of the record keys in the dirty part of a log, with the last offset of each key.

    Attributes:
        rises: whether each record had a higher offset than the record that it replaced, as in every log written by a
            broker.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        """Create an empty map.

        ``most_bytes`` is the memory limit in bytes. The limit includes the memory that is needed only while the map
        grows.
        """
        self._max_bytes = most_bytes
        self.rises = True
        self._entries = 0
        self._used_bytes = 0
        self._number = 0
        self._slots: Ints = np.zeros(_kernels.INT64S_PER_SLOT * _MIN_SLOTS, np.int64)
        self._arena = np.empty(_MIN_ARENA_BYTES, np.uint8)
        self._dead = np.zeros(_MIN_SLOTS, np.uint8)

    def __len__(self) -> int:
        return self._entries

    def add_records(
        self,
        buf: npt.NDArray[np.uint8],
        positions: Ints,
        sizes: npt.NDArray[np.int32],
        offsets: Ints,
        is_selected: Flags,
    ) -> int:
        """Add the keys and offsets of the selected records. Records without a key (a negative size) are skipped.

        Args:
            positions: start of each record's key in ``buf``.
            sizes: size of each record's key, in bytes.
            offsets: offset of each record; offsets increase from call to call.

        Returns:
            The number of the first record, for ``mask_replaced``.

        Raises:
            MapFullError: the keys exceed the memory limit.
        """
        number, first = self._number, 0
        self._number += -(-len(positions) // 8) * 8  # the bits of each call start at a whole byte
        if self._number > 8 * len(self._dead):
            self._dead = _enlarge_array(self._dead, max(2 * len(self._dead), self._number // 8), 0)
        hashes, flags = _hash_keys(buf, positions, sizes), is_selected.view(np.uint8)
        while True:
            first, self._entries, self._used_bytes, descending_count = _kernels.put_keys(
                buf, positions, sizes, offsets, flags, hashes, number, first, self._entries, self._used_bytes,
                self._slots, self._arena, self._dead,
            )  # fmt: skip
            self.rises = self.rises and not descending_count
            if first == len(positions):
                return number
            self._grow_map(int(sizes[first]))

    def _grow_map(self, key_bytes: int) -> None:
        needed_bytes = self._used_bytes + _kernels.KEY_SIZE_BYTES + key_bytes
        if needed_bytes > len(self._arena):
            new_size_bytes = max(2 * len(self._arena), needed_bytes)
            self._check_memory(new_size_bytes)
            self._arena = _enlarge_array(self._arena, new_size_bytes)
        slot_count = len(self._slots) // _kernels.INT64S_PER_SLOT
        if self._entries == slot_count * _kernels.MAX_USED_EIGHTHS // 8:
            self._check_memory(2 * self._slots.nbytes)
            slots = np.zeros(2 * len(self._slots), np.int64)
            _kernels.copy_slots(self._slots, slots)
            self._slots = slots

    def _check_memory(self, more_bytes: int) -> None:
        held_bytes = self._slots.nbytes + self._arena.nbytes + self._dead.nbytes
        if self._max_bytes is not None and held_bytes + more_bytes > self._max_bytes:
            raise MapFullError(
                f"{self._entries} keys need {held_bytes + more_bytes} bytes of memory, more than the limit"
            )

    def get_latest_offsets(self, buf: npt.NDArray[np.uint8], positions: Ints, sizes: npt.NDArray[np.int32]) -> Ints:
        """Return the last offset of each record's key; -1 if the key is null or not in the map."""
        latest: Ints = np.empty(len(positions), np.int64)
        _kernels.get_latest_offsets(
            buf, positions, sizes, _hash_keys(buf, positions, sizes), self._slots, self._arena, latest
        )
        return latest

    def mask_replaced(self, number: int, count: int) -> Flags:
        """Return a mask of ``count`` records from ``number`` on, which is true if a later record has the same key."""
        bits = self._dead[number // 8 : number // 8 + -(-count // 8)]
        return np.unpackbits(bits, count=count, bitorder="little").view(np.bool_)


def _hash_keys(buf: npt.NDArray[np.uint8], positions: Ints, sizes: npt.NDArray[np.int32]) -> Ints:
    hashes: Ints = np.empty(len(positions), np.int64)
    _kernels.hash_keys(buf, positions, sizes, hashes)
    return hashes


def _enlarge_array(array: npt.NDArray[_Number], size: int, fill_value: int | None = None) -> npt.NDArray[_Number]:
    enlarged_array = np.empty(size, array.dtype)
    enlarged_array[: len(array)] = array
    if fill_value is not None:
        enlarged_array[len(array) :] = fill_value
    return enlarged_array


# ---------------------------------------------------------------------------------------------------------------------


class LatestRecords(Protocol):
    """The interface through which the cleaner finds out which records are the last ones of their keys."""

    def mask_latest(self, window: DecodedBatches) -> Flags:
        """Return a mask of the records that no later record replaces. It is undefined for records without a key."""


class LatestRecordsInMemory:
    """The last record of each key, found by reading the partition's dirty part in this process."""

    def __init__(
        self, offset_map: OffsetMap, walked_windows: dict[tuple[str | None, int], tuple[int, Flags | None]]
    ) -> None:
        """Store the result of the first pass.

        ``walked_windows`` contains, by window position, the number of the first record and a mask of the records that
        do not count.
        """
        self._map = offset_map
        self._windows = walked_windows

    def mask_latest(self, window: DecodedBatches) -> Flags:
        """Return a mask of the records that no later record replaces."""
        walked_window = self._windows.get(_window_key(window))
        if walked_window is None or not self._map.rises:
            return self._mask_latest_rows(window, slice(None))
        number, outside_windows = walked_window
        flags = ~self._map.mask_replaced(number, len(window.owners))
        if outside_windows is not None:
            flags[outside_windows] = self._mask_latest_rows(window, outside_windows)
        return flags

    def _mask_latest_rows(self, window: DecodedBatches, rows: Flags | slice) -> Flags:
        index = window.index
        positions, sizes = np.ascontiguousarray(index.key_at[rows]), np.ascontiguousarray(index.key_size[rows])
        last: Flags = index.offsets[rows] >= self._map.get_latest_offsets(window.sections.buf, positions, sizes)
        return last


def _window_key(window: DecodedBatches) -> tuple[str | None, int]:
    return window.file, window.position(0)


def walk_dirty_part(
    filesystem: FileSystem, plan: CleaningPlan, *, map_bytes: int | None = None
) -> LatestRecordsInMemory:
    """Find the last record of each key.

    Raises:
        LogDirError: a file is damaged or cannot be read.
        MapFullError: the keys need more memory than ``map_bytes``.
    """
    offset_map = OffsetMap(map_bytes)
    walked_windows: dict[tuple[str | None, int], tuple[int, Flags | None]] = {}
    for window, is_selected in read_dirty_windows(filesystem, plan):
        index = window.index
        number = offset_map.add_records(window.sections.buf, index.key_at, index.key_size, index.offsets, is_selected)
        walked_windows[_window_key(window)] = number, None if is_selected.all() else ~is_selected
    return LatestRecordsInMemory(offset_map, walked_windows)


def read_dirty_windows(filesystem: FileSystem, plan: CleaningPlan) -> Iterator[tuple[DecodedBatches, Flags]]:
    """Yield the windows of the dirty part's segments, and which of their records replace earlier ones."""
    transactions = CleanedTransactions()
    start, end = plan.first_dirty_offset, plan.first_uncleanable_offset
    transactions.add_aborted_transactions(plan.list_aborted_transactions(start, end))
    memory = Recycler()
    for segment in plan.list_segments_between(start, end):
        for window in read_windows(filesystem, segment, memory=memory):
            yield window, mask_counted_records(window, transactions, start)


def mask_counted_records(window: DecodedBatches, transactions: CleanedTransactions, first_dirty_offset: int) -> Flags:
    """Return which records of a window replace earlier ones, and advance ``transactions`` past the window."""
    counts = np.ones(len(window.batches), np.bool_)
    for batch in find_transactional_batches(window):
        header = make_batch_header(window, batch)
        if header.is_control:
            transactions.process_control(header, control_type(window, batch))
            counts[batch] = False
        else:
            counts[batch] = not transactions.process_data(header)
    is_counted: Flags = counts[window.owners] & (window.index.offsets >= first_dirty_offset)
    return is_counted
