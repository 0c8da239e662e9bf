"""Kernels as plain Python, for machines without a compiled library and without numba.

Plain Python is slow, but has the same results.

The functions that run are those of the kernel files. The numbers are numpy's 64-bit numbers, which overflow like
machine words, and ``KernelArray`` returns each element as such a number. Operations on addresses, such as
``wire._kernels.load_i64``, are implemented here with ctypes. Each ``@intrinsic`` refers to its implementation in this
module.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from operator import index
from typing import Any, Final

import numpy as np

from kafkaframes.kernels.deferred import (
    KERNEL_BY_FUNCTION_ID,
    ConstantTable,
    DeviceFunction,
    FunctionCopies,
    Intrinsic,
    Kernel,
    is_kernel_helper,
    resolve,
)

_WORD_MASK: Final = (1 << 64) - 1
_memory: Final = ctypes.pythonapi.PyMemoryView_FromMemory
_memory.restype, _memory.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_WRITABLE_BUFFER_FLAG: Final = 0x200  # PyBUF_WRITE


def create_plain_kernel(kernel: Kernel) -> Callable[..., Any]:
    """Return a function that runs a kernel as plain Python, with the same arguments as the compiled kernel."""
    function, (signature,) = _copies.copy_function(kernel.py_func), kernel.signatures

    def run_kernel(*args: Any) -> Any:
        arguments = [_convert_argument(value, kind) for value, kind in zip(args, signature._arguments, strict=True)]
        with np.errstate(all="ignore"):  # overflow is intended
            result = function(*arguments)
        return tuple(map(int, result)) if type(result) is tuple else None if result is None else int(result)

    return run_kernel


def _convert_argument(value: Any, kind: Any) -> Any:
    """Convert an argument for the kernel.

    Raises:
        TypeError: the argument's type is not ``kind``, an unresolved numba type.
    """
    if kind._name == "Array":
        element = kind._arguments[0]._name
        if not (isinstance(value, np.ndarray) and value.dtype.name == element and value.flags.c_contiguous):
            raise TypeError(f"expected a C-contiguous array of {element}, not {value!r:.60}")
        return KernelArray(value)
    if isinstance(value, bytes | bytearray):
        return KernelArray(np.frombuffer(value, np.uint8))
    if isinstance(value, tuple):
        return tuple(_convert_argument(part, kind._arguments[0]) for part in value)
    return value if isinstance(value, bool) else np.int64(index(value))


def _to_plain(value: Any) -> Any:
    """Replace a global of a kernel file with its equivalent in plain Python."""
    if isinstance(value, ConstantTable):
        value = resolve(value)
    if isinstance(value, np.ndarray):
        return KernelArray(value)
    if isinstance(value, Intrinsic):
        return value.plain
    if isinstance(value, DeviceFunction):
        return value.plain or _copies.copy_function(value.py_func)
    if isinstance(value, Kernel):
        return _copies.copy_function(value.py_func)
    if is_kernel_helper(value):
        return _copies.copy_function(value)
    if type(value) in (tuple, list):
        return type(value)(map(_to_plain, value))
    kernel = KERNEL_BY_FUNCTION_ID.get(id(value))
    return value if kernel is None else _copies.copy_function(kernel.py_func)


_copies: Final = FunctionCopies(_to_plain)


class KernelArray:
    """An array for kernels that run as plain Python. Elements are read as 64-bit numbers; their low bits are stored."""

    __slots__ = ("_values", "_wide", "address", "shape", "size")

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self._values = values
        self._wide = np.uint64 if values.dtype == np.uint64 else np.int64
        self.address: int = values.ctypes.data
        self.shape, self.size = values.shape, values.size

    def __getitem__(self, index: Any) -> Any:
        return self._wide(self._values[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._values[index] = np.uint64(int(value) & _WORD_MASK).astype(self._values.dtype)

    def __len__(self) -> int:
        """Return the length of the first dimension."""
        return int(self.shape[0])


def _compute_address(array: Any, position: Any) -> int:
    """Return the address of a byte. ``array`` is an array or an address."""
    return int(array.address if type(array) is KernelArray else array) + int(position)


def address_of(array: KernelArray) -> Any:
    """Return the address of an array's first byte."""
    return np.int64(array.address)


def create_loader(bits: int, *, signed: bool, big_endian: bool = True, element_bytes: int = 1) -> Callable[..., Any]:
    """Return a function that loads an integer of ``bits`` at an index of an array or address."""
    order: Any = "big" if big_endian else "little"

    def load_integer(array: Any, index: Any) -> Any:
        data = ctypes.string_at(_compute_address(array, index * element_bytes), bits // 8)
        return np.int64(int.from_bytes(data, order, signed=signed))

    return load_integer


def load_u64_le(array: Any, position: Any) -> Any:
    """Load an unsigned 64-bit little-endian integer."""
    return np.uint64(int.from_bytes(ctypes.string_at(_compute_address(array, position), 8), "little"))


def create_storer(bits: int, *, big_endian: bool, element_bytes: int = 1) -> Callable[..., Any]:
    """Return a function that stores the lowest ``bits`` of an integer at an index of an array or address."""
    order: Any = "big" if big_endian else "little"

    def store_integer(array: Any, index: Any, value: Any) -> None:
        data = (int(value) & ((1 << bits) - 1)).to_bytes(bits // 8, order)
        ctypes.memmove(_compute_address(array, index * element_bytes), data, bits // 8)

    return store_integer


def read_bytes(array: Any, start: Any, end: Any) -> bytes:
    """Return the bytes between two positions of an array or address."""
    return ctypes.string_at(_compute_address(array, start), int(end) - int(start))


def write_bytes(array: Any, content: bytes) -> None:
    """Write bytes to the start of an array or to an address."""
    ctypes.memmove(_compute_address(array, 0), content, len(content))


def copy_bytes(target: Any, target_start: Any, source: Any, start: Any, size: Any) -> None:
    """Copy ``source[start:start + size]`` to ``target`` from index ``target_start`` on."""
    ctypes.memmove(_compute_address(target, target_start), _compute_address(source, start), int(size))


def create_array_view(dtype: Any) -> Callable[..., Any]:
    """Return a function that returns the memory at an address as an array of ``size`` elements."""

    def view_array(address: Any, size: Any) -> KernelArray:
        memory = _memory(int(address), int(size) * np.dtype(dtype).itemsize, _WRITABLE_BUFFER_FLAG)
        return KernelArray(np.ndarray((int(size),), dtype, memory))

    return view_array


def create_call(bits: int) -> Callable[..., Any]:
    """Return a function that calls a C function by its address with words; the result has ``bits`` bits."""
    result: Any = ctypes.c_int64 if bits == 64 else ctypes.c_int32

    def call_function(function: Any, *words: Any) -> Any:
        return np.int64(ctypes.CFUNCTYPE(result, *[ctypes.c_int64] * len(words))(int(function))(*map(int, words)))

    return call_function


def do_nothing(*args: Any) -> None:
    """Do nothing: the equivalent of an intrinsic that only makes machine code faster."""


def reject_call(*args: Any) -> Any:
    """Raise NotImplementedError: plain Python replaces all callers of the intrinsic."""
    raise NotImplementedError
