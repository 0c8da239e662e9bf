"""The first walk of a round: find the records of the dirty part that are the last of their key.

Control batches and aborted data do not count, so they replace no record. A record of the clean part is the last of its
key if the dirty part has no record with that key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kafkaframes.records.decoded import Decoded
from kafkaframes.records.memory import Recycler
from kafkaframes.storage.cleaner.offset_map import OffsetMap
from kafkaframes.storage.cleaner.plan import RoundPlan
from kafkaframes.storage.cleaner.transactions import CleanedTransactions
from kafkaframes.storage.cleaner.window import control_type, header_of, in_transactions, windows
from kafkaframes.storage.files.filesystem import FileSystem

Flags = npt.NDArray[np.bool_]


class Latest(Protocol):
    """Tells the second walk which records are the last of their key, window by window, in the order of offsets."""

    def is_latest(self, window: Decoded) -> Flags:
        """Return which records no later one replaces; for records without a key the result has no meaning."""


class LatestInMemory:
    """The answers of one walk of a partition's dirty part, in this process."""

    def __init__(self, known: OffsetMap, walked: dict[tuple[str | None, int], tuple[int, Flags | None]]) -> None:
        """``walked``: by the place of each window its first record's number, and which records did not count."""
        self._map = known
        self._walked = walked

    def is_latest(self, window: Decoded) -> Flags:
        """Return which records no later one replaces."""
        walked = self._walked.get(_window_key(window))
        if walked is None or not self._map.rises:
            return self._ask(window, slice(None))
        number, left_out = walked
        flags = ~self._map.replaced(number, len(window.owners))
        if left_out is not None:
            flags[left_out] = self._ask(window, left_out)
        return flags

    def _ask(self, window: Decoded, chosen: Flags | slice) -> Flags:
        index = window.index
        positions, sizes = np.ascontiguousarray(index.key_at[chosen]), np.ascontiguousarray(index.key_size[chosen])
        last: Flags = index.offsets[chosen] >= self._map.get_all(window.sections.buf, positions, sizes)
        return last


def _window_key(window: Decoded) -> tuple[str | None, int]:
    return window.file, window.position(0)


def walk_dirty_part(filesystem: FileSystem, plan: RoundPlan, *, map_bytes: int | None = None) -> LatestInMemory:
    """Note the last record of each key.

    Raises:
        LogDirError: something is damaged or cannot be read.
        MapFullError: the keys need more memory than ``map_bytes``.
    """
    known = OffsetMap(map_bytes)
    walked: dict[tuple[str | None, int], tuple[int, Flags | None]] = {}
    for window, selected in counting_windows(filesystem, plan):
        index = window.index
        number = known.put_all(window.sections.buf, index.key_at, index.key_size, index.offsets, selected)
        walked[_window_key(window)] = number, None if selected.all() else ~selected
    return LatestInMemory(known, walked)


def counting_windows(filesystem: FileSystem, plan: RoundPlan) -> Iterator[tuple[Decoded, Flags]]:
    """Yield the windows of the dirty part's segments, and which of their records count."""
    transactions = CleanedTransactions()
    start, end = plan.first_dirty_offset, plan.first_uncleanable_offset
    transactions.add(plan.aborted_between(start, end))
    memory = Recycler()
    for segment in plan.segments_between(start, end):
        for window in windows(filesystem, segment, memory=memory):
            yield window, counted(window, transactions, start)


def counted(window: Decoded, transactions: CleanedTransactions, first_dirty_offset: int) -> Flags:
    """Return which records of a window count; ``transactions`` goes on by the window."""
    counts = np.ones(len(window.batches), np.bool_)
    for batch in in_transactions(window):
        header = header_of(window, batch)
        if header.is_control:
            transactions.control(header, control_type(window, batch))
            counts[batch] = False
        else:
            counts[batch] = not transactions.data(header)
    selected: Flags = counts[window.owners] & (window.index.offsets >= first_dirty_offset)
    return selected
