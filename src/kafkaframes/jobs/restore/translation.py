"""Where committed offsets point after a restore: at the same record, or at the next one that was kept."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Translation:
    """Follows the kept records of one partition in their order.

    >>> moved = Translation([3, 10, 12, 99])
    >>> moved.feed(np.array([0, 11]), np.array([4, 13]), np.array([0, 5]))  # 0 to 4 stay, 11 to 13 become 5 to 7
    >>> moved.finish(8)
    {3: 3, 10: 5, 12: 6, 99: 8}

    Args:
        committed: offsets of the source, the next to be read by each group.
    """

    def __init__(self, committed: Iterable[int]) -> None:
        self._waiting: Ints = np.unique(np.array(sorted(committed), np.int64))
        self._translated: dict[int, int] = {}

    @property
    def waits(self) -> bool:
        """Whether there is an offset left whose record was not seen."""
        return len(self._waiting) > 0

    def feed(self, old_firsts: Ints, old_lasts: Ints, new_firsts: Ints) -> None:
        """Note runs of records without holes: their old offsets, and the new one of the first of each."""
        if not len(old_lasts) or not self.waits:
            return
        count = int(np.searchsorted(self._waiting, old_lasts[-1], side="right"))
        reached, self._waiting = self._waiting[:count], self._waiting[count:]
        runs = np.searchsorted(old_lasts, reached, side="left")
        moved = new_firsts[runs] + np.maximum(reached - old_firsts[runs], 0)
        self._translated.update(zip(reached.tolist(), moved.tolist(), strict=True))

    def finish(self, end_offset: int) -> dict[int, int]:
        """Return the new offset of each committed one; behind the last record that is the log's end."""
        return self._translated | dict.fromkeys(self._waiting.tolist(), end_offset)
