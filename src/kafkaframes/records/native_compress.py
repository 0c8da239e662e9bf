"""The C functions that compress, in the wheels of ``native.py``: for kernels that write batch after batch.

They give the bytes that ``codecs.compress`` gives, for it calls the same libraries through Python; each codec must
first compress samples to the same bytes. Where a wheel does not export them, and for snappy, whose library exports
none, the answer is ``ODD``: ``codecs.compress`` is to be asked.

A context serves one caller at a time: ``borrowed`` hands out arrays of addresses with contexts of their own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from kafkaframes.records import _gzip, _lz4, _zstd
from kafkaframes.records import _kernels_compress as kernels
from kafkaframes.records.codecs import CODECS, Codec
from kafkaframes.records.layout import CODECS as NAMES
from kafkaframes.records.libraries import COMPRESSORS
from kafkaframes.records.native import ODD
from kafkaframes.records.scan import Bytes, Ints

__all__ = ["ODD", "borrowed", "compress_batch", "compress_into", "most_compressed", "possible"]

_PLACES = {
    "ZSTD_compressStream2": kernels.ZSTD_STREAM,
    "ZSTD_CCtx_reset": kernels.ZSTD_RESET,
    "LZ4_compress_fast_extState": kernels.LZ4_FAST,
    "LZ4_compress_HC_continue": kernels.LZ4_HIGH,
    "LZ4_resetStreamHC": kernels.LZ4_HIGH_RESET,
    "libdeflate_deflate_compress": kernels.GZIP_COMPRESS,
}
_COMPRESS = {"gzip": _gzip.compress, "lz4": _lz4.compress, "zstd": _zstd.compress}
_ZSTD_LEVEL = 100  # ZSTD_c_compressionLevel
# More than one block of each codec, and a short one.
_SAMPLE = b"".join(b"%d, " % number for number in range(25_000))
_SIZES = (1000, len(_SAMPLE))
most_compressed = kernels.most_compressed.py_func
# Taking from and giving to a list is atomic, so threads share these.
_idle: dict[int | None, list[Ints]] = {}


@cache
def possible() -> frozenset[int]:
    """Return the numbers of the codecs that kernels can compress with; 0, no codec, is one."""
    return frozenset({0} | {NAMES.index(codec) for codec in _found()})


@cache
def _found() -> dict[str, dict[str, int]]:
    """Return the functions' addresses by codec and name, of the codecs that have passed their trial."""
    found = {library.codec: library.addresses() for library in COMPRESSORS}
    return {codec: addresses for codec, addresses in found.items() if addresses and _is_right(codec, addresses)}


def _is_right(codec: str, addresses: dict[str, int]) -> bool:
    """Try the functions on samples."""
    calls, number = _made({codec: addresses}, None), NAMES.index(codec)
    out = np.empty(most_compressed(len(_SAMPLE)), np.uint8)
    for size in _SIZES:
        written = kernels.compress_into(number, np.frombuffer(_SAMPLE[:size], np.uint8), out, calls)
        if written < 0 or out[:written].tobytes() != _COMPRESS[codec](_SAMPLE[:size], None, 2):
            return False
    return True


def _made(found: dict[str, dict[str, int]], level: int | None) -> Ints:
    """Make an array of addresses with contexts of its own, which are kept until the process ends.

    A codec that has no such level gets no context.
    """
    calls: Ints = np.zeros(kernels.CALLS, np.int64)
    for name, addresses in found.items():
        codec = Codec(NAMES.index(name))
        lowest, highest = CODECS[codec].levels or (0, 0)
        if level is None or lowest <= level <= highest:
            for function, address in addresses.items():
                if function in _PLACES:
                    calls[_PLACES[function]] = address
            _CONTEXTS[codec](calls, addresses, level)
    return calls


def _made_by(address: int, *numbers: int) -> int:
    """Call a function that makes a context."""
    maker = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_int] * len(numbers))
    return maker(address)(*numbers) or 0


def _gzip_context(calls: Ints, addresses: dict[str, int], level: int | None) -> None:
    chosen = _gzip.DEFAULT_LEVEL if level in (None, -1) else level
    calls[kernels.GZIP_CONTEXT] = _made_by(addresses["libdeflate_alloc_compressor"], chosen)


def _lz4_context(calls: Ints, addresses: dict[str, int], level: int | None) -> None:
    if level in (None, _lz4.FAST_LEVEL):
        calls[kernels.LZ4_FAST_CONTEXT] = _made_by(addresses["LZ4_createStream"])
    else:
        calls[kernels.LZ4_HIGH_CONTEXT] = _made_by(addresses["LZ4_createStreamHC"])
        calls[kernels.LZ4_LEVEL] = level


def _zstd_context(calls: Ints, addresses: dict[str, int], level: int | None) -> None:
    context = _made_by(addresses["ZSTD_createCCtx"])
    setter = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    chosen = _zstd.DEFAULT_LEVEL if level is None else level
    failed = not context or setter(addresses["ZSTD_CCtx_setParameter"])(context, _ZSTD_LEVEL, chosen) < 0
    calls[kernels.ZSTD_CONTEXT] = 0 if failed else context


_CONTEXTS = {Codec.GZIP: _gzip_context, Codec.LZ4: _lz4_context, Codec.ZSTD: _zstd_context}


@contextmanager
def borrowed(level: int | None = None) -> Iterator[Ints]:
    """Hand out an array of addresses for a kernel; nobody else has it meanwhile.

    Args:
        level: of whatever codec is used; ``None`` is each one's default.
    """
    idle = _idle.setdefault(level, [])
    try:
        calls = idle.pop()
    except IndexError:
        calls = _made(_found(), level)
    try:
        yield calls
    finally:
        idle.append(calls)


def compress_into(codec: int, payload: Bytes, out: Bytes, *, level: int | None = None) -> int:
    """Write ``payload`` compressed into ``out``, of at least ``most_compressed`` bytes; return the size, or ``ODD``."""
    with borrowed(level) as calls:
        return int(kernels.compress_into(codec, payload, out, calls))


def compress_batch(codec: int, plain: Bytes, out: Bytes, *, level: int | None = None) -> int:
    """Write a batch of format 2 to ``out`` with its records compressed, and with its size and CRC.

    Args:
        codec: that of the batch's attributes.
        plain: the batch, its records not compressed.
        out: of at least ``BATCH_V2.size`` and the ``most_compressed`` bytes of the records.
        level: of the codec.

    Returns:
        The batch's size, or ``ODD``.
    """
    with borrowed(level) as calls:
        return int(kernels.compress_batch(codec, plain, out, calls))
