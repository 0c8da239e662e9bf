"""Call the codecs' C functions, which are in the codec wheels, directly from the kernels.

For batches of 16 KiB, the Python bindings cost as much as decompression. The wheels' shared libraries export the C
functions, whose signatures have not changed for a decade, so a kernel can call them for batch after batch. If a library
does not export the functions (a system build, another platform), its codec uses the general path, with the same
results. Each function must decompress a sample correctly before it is used.

A call array holds function addresses and codec contexts. Only one caller at a time may use a call array;
``borrow_call_array`` lends one.
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
    CALL_SLOTS,
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
    "borrow_call_array",
    "load_functions",
    "make_call_array",
    "open_batches",
    "output_capacity",
]

_SHORT_SAMPLE_BYTES = 1000
# Longer than one zstd block: libzstd decompresses such a frame by another path than a short one.
_LONG_SAMPLE_BYTES = 160_000

_SLOTS_BY_FUNCTION = {
    "LZ4_decompress_safe": LZ4_DECOMPRESS,
    "ZSTD_decompressDCtx": ZSTD_DECOMPRESS,
    "ZSTD_decompressStream": ZSTD_STREAM,
    "ZSTD_DCtx_reset": ZSTD_RESET,
    "ZSTD_createDCtx": ZSTD_CONTEXT,
    "libdeflate_gzip_decompress_ex": GZIP_DECOMPRESS,
    "libdeflate_alloc_decompressor": GZIP_CONTEXT,
}
# The compressor and the sample sizes for the trial of each codec.
_CODEC_TRIALS: dict[str, tuple[Callable[[bytes, int | None, int], bytes], tuple[int, ...]]] = {
    "lz4": (_lz4.compress, (_SHORT_SAMPLE_BYTES,)),
    "zstd": (_zstd.compress, (_SHORT_SAMPLE_BYTES, _LONG_SAMPLE_BYTES)),
    "gzip": (_gzip.compress, (_SHORT_SAMPLE_BYTES,)),
}
_CONTEXT_SLOTS = (ZSTD_CONTEXT, GZIP_CONTEXT)  # slots of functions that create a context
open_batches = _kernels_codecs.open_batches
# Idle call arrays. Taking one from a list and putting it back are atomic, so threads share it.
_idle: list[Ints] = []


def output_capacity(size: int, limit_bytes: int) -> int:
    """Return the output capacity for a stream of ``size`` bytes; larger content takes the general path."""
    return min(limit_bytes, USUAL_SIZE + USUAL_RATIO * size)


@cache
def load_functions() -> dict[int, int]:
    """Return the addresses of the functions that decompressed a sample correctly, by slot in the call array."""
    result: dict[int, int] = {}
    for library in LIBRARIES:
        addresses = {_SLOTS_BY_FUNCTION[name]: address for name, address in library.load_addresses().items()}
        if addresses and _passes_trial(library.codec, addresses):
            result |= addresses
    return result


def _passes_trial(codec: str, addresses: dict[int, int]) -> bool:
    compress, sizes = _CODEC_TRIALS[codec]
    out, calls = np.empty(max(sizes), np.uint8), _create_call_array(addresses)
    numbers = np.arange(max(sizes) // 4, dtype="<i4").tobytes()
    for size in sizes:
        sample = numbers[:size]
        payload = np.frombuffer(compress(sample, None, 2), np.uint8)
        result = _kernels_codecs.decompress_into(CODECS.index(codec), payload, out, size, calls)
        if result != size or out[:size].tobytes() != sample:
            return False
    return True


def make_call_array(words: int) -> Ints:
    """Return a new call array with its own codec contexts and ``words`` extra elements."""
    return _create_call_array(load_functions(), words)


def _create_call_array(addresses: dict[int, int], words: int = 0) -> Ints:
    """Return a new call array; its contexts live until the process ends."""
    calls: npt.NDArray[np.int64] = np.zeros(CALL_SLOTS + words, np.int64)
    for slot, address in addresses.items():
        maker = ctypes.CFUNCTYPE(ctypes.c_void_p)
        calls[slot] = (maker(address)() or 0) if slot in _CONTEXT_SLOTS else address
    return calls


@contextmanager
def borrow_call_array() -> Iterator[Ints]:
    """Lend a call array, the last argument of the kernels, to one caller at a time."""
    try:
        calls = _idle.pop()
    except IndexError:
        calls = _create_call_array(load_functions())
    try:
        yield calls
    finally:
        _idle.append(calls)
