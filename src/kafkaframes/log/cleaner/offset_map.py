"""The last offset of each key of the dirty part of a log, exact: keys are kept, not digests of them.

Kafka keeps MD5 digests in a buffer of fixed size and cleans in more rounds when it is full; this map grows, so one
round always reaches its end, as Kafka's does with a large enough ``log.cleaner.dedupe.buffer.size``. It needs about
the bytes of the distinct keys and 56 to 112 more for each.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kafkaframes.log.cleaner import _kernels

Ints = npt.NDArray[np.int64]
_FEWEST_SLOTS = 1 << 12
_FEWEST_ARENA_BYTES = 1 << 16
_Number = TypeVar("_Number", bound=np.generic)


class OffsetMap:
    """Keys and their last offsets.

    Attributes:
        latest_offset: the last offset of all batches that were read into it, -1 before the first; records above it
            are not judged.
    """

    def __init__(self) -> None:
        self.latest_offset = -1
        self._entries = 0
        self._used = 0
        self._slots: Ints = np.zeros(_kernels.PER_SLOT * _FEWEST_SLOTS, np.int64)
        self._table: Ints = np.empty(_kernels.PER_ENTRY * _FEWEST_SLOTS // 2, np.int64)
        self._arena = np.empty(_FEWEST_ARENA_BYTES, np.uint8)

    def __len__(self) -> int:
        return self._entries

    def put_all(
        self,
        buf: npt.NDArray[np.uint8],
        places: Ints,
        sizes: npt.NDArray[np.int32],
        offsets: Ints,
        wanted: npt.NDArray[np.bool_],
    ) -> None:
        """Note the records that are wanted; those without a key (a negative size) never are.

        Args:
            buf: the bytes in which the keys lie.
            places, sizes, offsets: of each record's key in bytes, and its offset; offsets increase from call to call.
            wanted: which records count.
        """
        first = 0
        flags = wanted.view(np.uint8)
        while True:
            first, self._entries, self._used = _kernels.put_all(
                buf, places, sizes, offsets, flags, first, self._entries, self._used,
                self._slots, self._table, self._arena,
            )  # fmt: skip
            if first == len(places):
                return
            self._grow(int(sizes[first]))

    def _grow(self, key_bytes: int) -> None:
        if self._used + key_bytes > len(self._arena):
            self._arena = _longer(self._arena, max(2 * len(self._arena), self._used + key_bytes))
        if _kernels.PER_ENTRY * self._entries == len(self._table):
            self._table = _longer(self._table, 2 * len(self._table))
            slots = np.zeros(2 * len(self._slots), np.int64)
            _kernels.rehash(self._slots, slots)
            self._slots = slots

    def get_all(self, buf: npt.NDArray[np.uint8], places: Ints, sizes: npt.NDArray[np.int32]) -> Ints:
        """Return each record's key's last offset, -1 where the key is unknown or null."""
        found: Ints = np.empty(len(places), np.int64)
        _kernels.get_all(buf, places, sizes, self._slots, self._table, self._arena, found)
        return found


def _longer(array: npt.NDArray[_Number], size: int) -> npt.NDArray[_Number]:
    longer = np.empty(size, array.dtype)
    longer[: len(array)] = array
    return longer
