"""Run kernels as plain Python, where there is neither a library for this machine nor numba: slow, with equal results.

The functions are the kernels' own. Numbers are numpy's 64-bit ones, so that they wrap as machine words do, and an
``Array`` hands out each element as one. What a kernel does at an address (``wire._kernels.load_i64`` and its like) is
written down here once more for Python, with ctypes; each ``@intrinsic`` names its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from operator import index
from typing import Any, Final

import numpy as np

from kafkaframes.kernels.deferred import LOADED, Device, Homes, Intrinsic, Kernel, Table, is_of_kernels, real

_WORD: Final = (1 << 64) - 1
_memory: Final = ctypes.pythonapi.PyMemoryView_FromMemory
_memory.restype, _memory.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_WRITABLE: Final = 0x200  # PyBUF_WRITE


def run(kernel: Kernel) -> Callable[..., Any]:
    """Return what runs a kernel as plain Python, on the arguments that the compiled one takes."""
    function, (signature,) = _homes.rehomed(kernel.py_func), kernel.signatures

    def called(*args: Any) -> Any:
        taken = [_argument(value, kind) for value, kind in zip(args, signature._arguments, strict=True)]
        with np.errstate(all="ignore"):  # words wrap
            result = function(*taken)
        return tuple(map(int, result)) if type(result) is tuple else None if result is None else int(result)

    return called


def _argument(value: Any, kind: Any) -> Any:
    """Return an argument as the kernel gets it.

    Raises:
        TypeError: it is of another type than ``kind``, one of numba's that is not looked up.
    """
    if kind._name == "Array":
        element = kind._arguments[0]._name
        if not (isinstance(value, np.ndarray) and value.dtype.name == element and value.flags.c_contiguous):
            raise TypeError(f"a kernel takes a C-contiguous array of {element}, not {value!r:.60}")
        return Array(value)
    if isinstance(value, bytes | bytearray):
        return Array(np.frombuffer(value, np.uint8))
    if isinstance(value, tuple):
        return tuple(_argument(one, kind._arguments[0]) for one in value)
    return value if isinstance(value, bool) else np.int64(index(value))


def _stand_in(value: Any) -> Any:
    """Return what a name of a kernel file stands for while the kernel runs as plain Python."""
    if isinstance(value, Table):
        value = real(value)
    if isinstance(value, np.ndarray):
        return Array(value)
    if isinstance(value, Intrinsic):
        return value.plain
    if isinstance(value, Device):
        return value.plain or _homes.rehomed(value.py_func)
    if isinstance(value, Kernel):
        return _homes.rehomed(value.py_func)
    if is_of_kernels(value):
        return _homes.rehomed(value)
    if type(value) in (tuple, list):
        return type(value)(map(_stand_in, value))
    return _homes.rehomed(LOADED[id(value)].py_func) if id(value) in LOADED else value


_homes: Final = Homes(_stand_in)


class Array:
    """An array as kernels see it: each element is a 64-bit number, of which the element keeps the lowest bits."""

    __slots__ = ("_values", "_wide", "address", "shape", "size")

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self._values = values
        self._wide = np.uint64 if values.dtype == np.uint64 else np.int64
        self.address: int = values.ctypes.data
        self.shape, self.size = values.shape, values.size

    def __getitem__(self, at: Any) -> Any:
        return self._wide(self._values[at])

    def __setitem__(self, at: Any, value: Any) -> None:
        self._values[at] = np.uint64(int(value) & _WORD).astype(self._values.dtype)

    def __len__(self) -> int:
        """Return the length of the first dimension."""
        return int(self.shape[0])


def _address(array: Any, position: Any) -> int:
    """Return the address of a byte of an array, or of the memory at an address."""
    return int(array.address if type(array) is Array else array) + int(position)


def address_of(array: Array) -> Any:
    """Return where an array's data start."""
    return np.int64(array.address)


def load(bits: int, *, signed: bool, big_endian: bool = True, element_bytes: int = 1) -> Callable[..., Any]:
    """Make a function that loads an integer of ``bits`` from an array, or an address, at an index."""
    order: Any = "big" if big_endian else "little"

    def loaded(array: Any, at: Any) -> Any:
        data = ctypes.string_at(_address(array, at * element_bytes), bits // 8)
        return np.int64(int.from_bytes(data, order, signed=signed))

    return loaded


def load_u64_le(array: Any, position: Any) -> Any:
    """Load a word that is meant as unsigned."""
    return np.uint64(int.from_bytes(ctypes.string_at(_address(array, position), 8), "little"))


def store(bits: int, *, big_endian: bool, element_bytes: int = 1) -> Callable[..., Any]:
    """Make a function that stores the lowest ``bits`` of an integer at an index of an array, or of an address."""
    order: Any = "big" if big_endian else "little"

    def stored(array: Any, at: Any, value: Any) -> None:
        data = (int(value) & ((1 << bits) - 1)).to_bytes(bits // 8, order)
        ctypes.memmove(_address(array, at * element_bytes), data, bits // 8)

    return stored


def bytes_of(array: Any, start: Any, end: Any) -> bytes:
    """Return what stands between two places, for a function that Python has."""
    return ctypes.string_at(_address(array, start), int(end) - int(start))


def put_bytes(array: Any, content: bytes) -> None:
    """Write bytes to the start of an array, or to an address."""
    ctypes.memmove(_address(array, 0), content, len(content))


def copy(target: Any, to: Any, source: Any, start: Any, size: Any) -> None:
    """Copy ``source[start:start + size]`` to ``target[to:]``."""
    ctypes.memmove(_address(target, to), _address(source, start), int(size))


def array_at(dtype: Any) -> Callable[..., Any]:
    """Make a function that views so many elements at an address as an array."""

    def viewed(address: Any, size: Any) -> Array:
        memory = _memory(int(address), int(size) * np.dtype(dtype).itemsize, _WRITABLE)
        return Array(np.ndarray((int(size),), dtype, memory))

    return viewed


def call(bits: int) -> Callable[..., Any]:
    """Make a function that calls the C function at an address, which returns ``bits``, with words."""
    result: Any = ctypes.c_int64 if bits == 64 else ctypes.c_int32

    def called(function: Any, *words: Any) -> Any:
        return np.int64(ctypes.CFUNCTYPE(result, *[ctypes.c_int64] * len(words))(int(function))(*map(int, words)))

    return called


def nothing(*args: Any) -> None:
    """Do nothing: what only makes machine code faster."""


def missing(*args: Any) -> Any:
    """Stand for what is only called by a function that has a form of its own in plain Python."""
    raise NotImplementedError
