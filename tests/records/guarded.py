"""Arrays next to an inaccessible page: a kernel that accesses memory outside the array crashes the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_PAGE = mmap.PAGESIZE
_NO_ACCESS, _READ_WRITE = 0, 3
_libc = ctypes.CDLL(None, use_errno=True)


class GuardedBlock:
    """Memory of ``size`` bytes between two inaccessible pages."""

    def __init__(self, size: int) -> None:
        self.size = -(-max(size, 1) // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, self.size + 2 * _PAGE)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._start = self._bytes.ctypes.data
        self._protect(_NO_ACCESS)

    def _protect(self, access: int) -> None:
        for address in (self._start, self._start + _PAGE + self.size):
            if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(_PAGE), access):
                raise OSError(ctypes.get_errno(), "mprotect")

    def at_end(self, size: int) -> np.ndarray:
        """Return the last ``size`` bytes before the inaccessible page at the end."""
        return self._bytes[_PAGE + self.size - size : _PAGE + self.size]

    def at_start(self, size: int) -> np.ndarray:
        """Return the first ``size`` bytes after the inaccessible page at the start."""
        return self._bytes[_PAGE : _PAGE + size]


class GuardedMemory:
    """Memory whose arrays each end at an inaccessible page, instead of ``records.memory.Recycler``.

    A read or write after the end of an array crashes the process. An array owns its memory mapping, which is unmapped
    when the array is deleted.
    """

    def new_array(self, size: int, dtype: object) -> np.ndarray:
        """Return an array of ``size`` elements before an inaccessible page."""
        wanted_bytes = size * np.dtype(dtype).itemsize
        return GuardedBlock(wanted_bytes).at_end(wanted_bytes).view(dtype)
