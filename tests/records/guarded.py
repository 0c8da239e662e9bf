"""Arrays that end, or begin, at a page that may not be touched: a kernel that leaves them ends the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_PAGE = mmap.PAGESIZE
_NO_ACCESS, _READ_WRITE = 0, 3
_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Memory of ``size`` bytes between two forbidden pages."""

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
        """The last ``size`` bytes before the forbidden page."""
        return self._bytes[_PAGE + self.size - size : _PAGE + self.size]

    def at_start(self, size: int) -> np.ndarray:
        """The first ``size`` bytes after the other one."""
        return self._bytes[_PAGE : _PAGE + size]


class GuardedMemory:
    """Gives each array its own memory, which ends at a forbidden page (``records.memory.Recycler``'s ``new_array``).

    A read or write beyond an array ends the process. An array holds its mapping, which is released with it.
    """

    def new_array(self, size: int, dtype: object) -> np.ndarray:
        """Return an array of ``size`` elements before a forbidden page."""
        wanted_bytes = size * np.dtype(dtype).itemsize
        return Guarded(wanted_bytes).at_end(wanted_bytes).view(dtype)
