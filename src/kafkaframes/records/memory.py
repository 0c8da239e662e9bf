"""Arrays whose memory is used again once nobody looks at them any more.

A reader makes the same dozens of arrays for every chunk, and its caller usually drops one Arrow batch before asking for
the next. Memory that goes back to the system in between comes back as page faults: with all of it kept, reading
uncompressed batches took 68 ns a record where it had taken 135 (2026-11-21, a busy machine).
"""

from __future__ import annotations

import contextlib
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

_SMALLEST_BYTES = 4096
# Never touched. With 30 MiB, tasks of Spark held 8 to 12 MB more, and nothing took less CPU time (2026-11-26).
_TEACHING_BYTES = 2 << 20
# numpy asks for huge pages from here on: of a block that is used in small part they would make it all real memory.
_HUGE_BYTES = 4 << 20
# What getrefcount counts for a block that only its list knows: the list, the loop's variable, the argument.
_UNUSED = 3


_spare: list[Recycler] = []  # that earlier jobs of this process have left


@contextmanager
def lent_memory() -> Iterator[Recycler]:
    """Lend the memory of an earlier job to the next one of a worker, which is much like it.

    Fresh memory for each job took a sixth of the time of an export (2026-11-21). What a process keeps is what its
    largest job used, at most ``kept_bytes`` for each job at once.
    """
    memory = _spare.pop() if _spare else Recycler()
    try:
        yield memory
    finally:
        _spare.append(memory)


class Recycler:
    """Makes arrays with undefined contents out of blocks that it keeps.

    A block is free when no array, Arrow buffer or anything else refers to it: Python's reference counts say so, for
    numpy lets every view, and Arrow every buffer made from one, hold the block itself. Blocks come in sizes of which
    four make a power of two, and most are never touched to their end: ``kept_bytes`` counts addresses, not memory.
    Before a block is made, a free one of up to twice its size is taken.
    """

    def __init__(self, *, kept_bytes: int = 512 << 20, filled: bool = False) -> None:
        """Begin with nothing. With ``filled``, arrays are written to their ends: large ones are of huge pages."""
        # To free one large block teaches glibc to keep what is freed after it (its thresholds follow the largest); else
        # the small arrays between the blocks go back to the system, too, and come back as page faults for every chunk.
        # Arrays above that go back, which leaves no holes.
        np.empty(_TEACHING_BYTES, np.uint8)
        self._blocks: dict[int, list[npt.NDArray[np.uint8]]] = {}
        self._left = kept_bytes
        self._filled = filled

    def array(self, size: int, dtype: Any) -> npt.NDArray[Any]:
        """Return an array of ``size`` elements; its contents are whatever was there."""
        size_bytes = size * np.dtype(dtype).itemsize
        step = max(1 << max(size_bytes.bit_length() - 3, 0), _SMALLEST_BYTES)
        block = self._block(-(-max(size_bytes, 1) // step) * step)
        return block[:size_bytes].view(dtype)

    def _block(self, capacity: int) -> npt.NDArray[np.uint8]:
        blocks = self._blocks.setdefault(capacity, [])
        free = _free(blocks)
        if free is not None:
            return free
        for size, others in self._blocks.items():  # what a block that is a little smaller than the last would cost anew
            if capacity < size <= 2 * capacity and (free := _free(others)) is not None:
                return free
        made = _memory(capacity, filled=self._filled)
        if capacity <= self._left:
            self._left -= capacity
            blocks.append(made)
        return made


def _free(blocks: list[npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8] | None:
    for block in blocks:
        if sys.getrefcount(block) == _UNUSED:
            return block
    return None


def _memory(capacity: int, *, filled: bool) -> npt.NDArray[np.uint8]:
    """Return memory of which only what is touched is real; of huge pages, so about that, if it will be ``filled``."""
    if capacity < _HUGE_BYTES or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.empty(capacity, np.uint8)
    pages = mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages knows neither
        pages.madvise(mmap.MADV_HUGEPAGE if filled else mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.uint8)
