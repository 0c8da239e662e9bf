"""The codecs' C functions, found in the wheels that bring them, and the kernel that calls them by their addresses.

The Python bindings cost as much as decompressing does where a batch holds 16 KiB. Their shared libraries export the C
functions, whose signatures have been the same for a decade, so a kernel calls these for batch after batch. Where a
wheel does not (a system's own build, another platform), its codec goes the careful path, with the same results and
verdicts. Each function that is found must first decompress a sample rightly.

A context serves one caller at a time: ``borrowed`` hands out arrays of addresses with contexts of their own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import numpy.typing as npt

from kafkaframes.records import _gzip, _kernels_codecs, _lz4, _zstd
from kafkaframes.records._kernels_codecs import (
    CALLS,
    GZIP_CONTEXT,
    GZIP_DECOMPRESS,
    LZ4_DECOMPRESS,
    TOO_SMALL,
    UNUSUAL,
    USUAL_RATIO,
    USUAL_SIZE,
    ZSTD_CONTEXT,
    ZSTD_DECOMPRESS,
    ZSTD_RESET,
    ZSTD_STREAM,
)
from kafkaframes.records.layout import CODECS
from kafkaframes.records.libraries import LIBRARIES
from kafkaframes.records.scan import Ints

__all__ = [
    "TOO_SMALL",
    "UNUSUAL",
    "Ints",
    "borrowed",
    "functions",
    "made_calls",
    "open_batches",
    "usual_capacity",
]

# More than one block of zstd: such a frame goes another way than a short one.
_SAMPLE = b"".join(b"%d, " % number for number in range(25_000))


_INDEXES = {
    "LZ4_decompress_safe": LZ4_DECOMPRESS,
    "ZSTD_decompressDCtx": ZSTD_DECOMPRESS,
    "ZSTD_decompressStream": ZSTD_STREAM,
    "ZSTD_DCtx_reset": ZSTD_RESET,
    "ZSTD_createDCtx": ZSTD_CONTEXT,
    "libdeflate_gzip_decompress_ex": GZIP_DECOMPRESS,
    "libdeflate_alloc_decompressor": GZIP_CONTEXT,
}
# How a sample is made for each codec, and of what sizes.
_TRIALS: dict[str, tuple[Callable[[bytes, int | None, int], bytes], tuple[int, ...]]] = {
    "lz4": (_lz4.compress, (1000,)),
    "zstd": (_zstd.compress, (1000, len(_SAMPLE))),
    "gzip": (_gzip.compress, (1000,)),
}
_CONTEXTS = (ZSTD_CONTEXT, GZIP_CONTEXT)  # what stands there in ``functions`` makes one
open_batches = _kernels_codecs.open_batches
# Taking from and giving to a list is atomic, so threads share these.
_idle: list[Ints] = []


def usual_capacity(size: int, limit_bytes: int) -> int:
    """Return how many bytes a stream of ``size`` bytes must get; one that holds more goes the careful path."""
    return min(limit_bytes, USUAL_SIZE + USUAL_RATIO * size)


@cache
def functions() -> dict[int, int]:
    """Return the addresses of the functions that were found and have passed their trial, by their places."""
    result: dict[int, int] = {}
    for library in LIBRARIES:
        addresses = {_INDEXES[name]: address for name, address in library.addresses().items()}
        if addresses and _is_right(library.codec, addresses):
            result |= addresses
    return result


def _is_right(codec: str, addresses: dict[int, int]) -> bool:
    compress, sizes = _TRIALS[codec]
    out, calls = np.empty(len(_SAMPLE), np.uint8), _made(addresses)
    for size in sizes:
        payload = np.frombuffer(compress(_SAMPLE[:size], None, 2), np.uint8)
        result = _kernels_codecs.decompress_into(CODECS.index(codec), payload, out, size, calls)
        if result != size or out[:size].tobytes() != _SAMPLE[:size]:
            return False
    return True


def made_calls(words: int) -> Ints:
    """Make an array of addresses, with contexts of its own and ``words`` more numbers, for a caller who keeps it."""
    return _made(functions(), words)


def _made(addresses: dict[int, int], words: int = 0) -> Ints:
    """Make an array of addresses with contexts of its own; they are kept until the process ends."""
    calls: npt.NDArray[np.int64] = np.zeros(CALLS + words, np.int64)
    for slot, address in addresses.items():
        maker = ctypes.CFUNCTYPE(ctypes.c_void_p)
        calls[slot] = (maker(address)() or 0) if slot in _CONTEXTS else address
    return calls


@contextmanager
def borrowed() -> Iterator[Ints]:
    """Hand out an array of addresses for the kernels' last argument; nobody else has it meanwhile."""
    try:
        calls = _idle.pop()
    except IndexError:
        calls = _made(functions())
    try:
        yield calls
    finally:
        _idle.append(calls)
