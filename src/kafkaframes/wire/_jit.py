"""Decorators and array types for kernel files, and numba's names without an import of numba.

* ``@kernel(signature)`` declares a function that Python calls, with one explicit signature. It runs without the GIL.
  Read-only array types, such as ``BYTES``, also accept writable arrays.
* ``@device`` declares a function that kernels call, and that is compiled into them. ``@inline_device`` inlines it.
* ``@intrinsic(plain)`` declares a function that generates LLVM code. ``plain`` is its equivalent in Python.
* ``types``, ``ir``, ``cgutils`` and ``arrayobj`` are modules of numba and llvmlite, and ``defer_table`` returns a
  constant array. They are evaluated only before a compilation (``kernels/deferred.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkaframes.kernels import directories, plain
from kafkaframes.kernels.deferred import (
    KERNEL_BY_FUNCTION_ID,
    KERNELS_BY_MODULE,
    DeviceFunction,
    Intrinsic,
    Kernel,
    defer_module,
    defer_table,
)
from kafkaframes.kernels.target import has_carryless_multiplication, has_crc32c

__all__ = ["defer_table", "has_carryless_multiplication", "has_crc32c", "plain"]

types: Any = defer_module("numba.types")
_private: Any = defer_module("kafkaframes.kernels.objects")  # the only file that imports private parts of numba
ir, cgutils, arrayobj = _private.ir, _private.cgutils, _private.arrayobj

# Read-only array types. They accept writable arrays; the types of writable arrays do not accept read-only ones.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
INT8S = types.Array(types.int8, 1, "C", readonly=True)
INT32S = types.Array(types.int32, 1, "C", readonly=True)
INT64S = types.Array(types.int64, 1, "C", readonly=True)
TABLE = types.Array(types.int64, 2, "C", readonly=True)
# Types of arrays that a kernel writes to.
OUT_BYTES = types.Array(types.uint8, 1, "C")
OUT_INT8S = types.Array(types.int8, 1, "C")
OUT_INT32S = types.Array(types.int32, 1, "C")
OUT_INT64S = types.Array(types.int64, 1, "C")
OUT_TABLE = types.Array(types.int64, 2, "C")


def kernel(*signatures: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a kernel: a function that Python calls, compiled for ``signatures`` (numba types)."""

    def declare_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
        declaration = Kernel(function, signatures, _load_kernel)
        KERNELS_BY_MODULE.setdefault(function.__module__, []).append(declaration)
        run = directories.load_kernel(function.__module__, function.__name__)
        if run is None:
            return declaration
        KERNEL_BY_FUNCTION_ID[id(run)] = declaration
        return run

    return declare_kernel


def _load_kernel(kernel: Kernel) -> Callable[..., Any]:
    from kafkaframes.kernels import demand  # imports modules that are only needed for a compilation

    return demand.load_or_compile(kernel)


def device(function: Callable[..., Any]) -> Any:
    """Declare a function that kernels call."""
    return DeviceFunction(function)


def inline_device(function: Callable[..., Any]) -> Any:
    """Declare a small function on a hot path that is inlined: a call would pass each array as seven words."""
    return DeviceFunction(function, forceinline=True)


def intrinsic(in_python: Callable[..., Any]) -> Callable[[Any], Any]:
    """Declare a function that generates LLVM code, with its equivalent for plain Python."""
    return lambda function: Intrinsic(function, in_python)


def device_with_plain(in_python: Callable[..., Any]) -> Callable[[Any], Any]:
    """Declare a function that kernels call, with a different function for plain Python."""
    return lambda function: DeviceFunction(function, in_python)
