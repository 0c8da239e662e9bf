"""What a kernel file is written with: the decorators, the types of arrays, and numba's names without numba.

* ``@kernel(signature)`` makes an entry point with one explicit signature; the GIL is released while it runs. Arrays
  that a kernel only reads are declared with ``BYTES`` or another read-only type, which takes writable ones too.
* ``@device`` makes a function that kernels call; it is compiled into them. ``@inlined`` is one without a call, and
  ``@intrinsic(plain)`` one that writes LLVM's code, beside ``plain``, which does the same in Python.
* ``types``, ``ir``, ``cgutils`` and ``arrayobj`` stand for numba's and llvmlite's modules, ``computed`` for a table:
  none is looked at before something is compiled (``kernels/deferred.py``).

``kernels/`` compiles and keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkaframes.kernels import directories, plain
from kafkaframes.kernels.deferred import DECLARED, LOADED, Device, Intrinsic, Kernel, computed, module
from kafkaframes.kernels.target import has_carryless, has_crc32c

__all__ = ["computed", "has_carryless", "has_crc32c", "plain"]

types: Any = module("numba.types")
_parts: Any = module("kafkaframes.kernels.objects")  # the one file that names numba's private parts
ir, cgutils, arrayobj = _parts.ir, _parts.cgutils, _parts.arrayobj

# Read-only arrays: writable ones are taken for these too, not the reverse.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
INT8S = types.Array(types.int8, 1, "C", readonly=True)
INT32S = types.Array(types.int32, 1, "C", readonly=True)
INT64S = types.Array(types.int64, 1, "C", readonly=True)
TABLE = types.Array(types.int64, 2, "C", readonly=True)
# Arrays that a kernel fills.
OUT_BYTES = types.Array(types.uint8, 1, "C")
OUT_INT8S = types.Array(types.int8, 1, "C")
OUT_INT32S = types.Array(types.int32, 1, "C")
OUT_INT64S = types.Array(types.int64, 1, "C")
OUT_TABLE = types.Array(types.int64, 2, "C")


def kernel(*signatures: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function as an entry point for ``signatures`` (numba's types)."""

    def declared(function: Callable[..., Any]) -> Callable[..., Any]:
        made = Kernel(function, signatures, _load)
        DECLARED.setdefault(function.__module__, []).append(made)
        run = directories.entry(function.__module__, function.__name__)
        if run is None:
            return made
        LOADED[id(run)] = made
        return run

    return declared


def _load(kernel: Kernel) -> Callable[..., Any]:
    from kafkaframes.kernels import demand  # processes, locks: what a kernel that is ready needs nothing of

    return demand.ready_or_compiled(kernel)


def device(function: Callable[..., Any]) -> Any:
    """Declare a function that kernels call."""
    return Device(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Declare a small one on a hot path, without a call: each array that it takes is seven words of a call."""
    return Device(function, forceinline=True)


def intrinsic(in_python: Callable[..., Any]) -> Callable[[Any], Any]:
    """Declare a function that writes LLVM's code, and what it is where kernels run as plain Python."""
    return lambda function: Intrinsic(function, in_python)


def device_beside(in_python: Callable[..., Any]) -> Callable[[Any], Any]:
    """Declare a function that kernels call, and another one for where they run as plain Python."""
    return lambda function: Device(function, in_python)
