"""Compress and decompress with Kafka's five codecs.

``decompress`` never raises an error for damaged bytes. It returns the data that Kafka's reader would receive, and the
reason if the stream is damaged. ``compress`` writes the same framing, block sizes and checksums as Kafka, so that any
broker and client accepts the result. For streams of the common form, ``native.py`` decompresses many batches without
Python code.

Each codec has a module with a fast path for intact streams of the common form (``decompress_whole``, which returns
``None`` for all others) and a stream class with the read sizes of Kafka's Java class.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records import _gzip, _lz4, _snappy, _zstd
from kafkaframes.records._delivery import DecompressedContent, Stream, deliver, over_limit_text
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES


class Codec(IntEnum):
    """The codec bits of a batch's attributes; the names are those of ``compression.type``."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CodecEntry(NamedTuple):
    """The properties and functions of a codec. ``levels`` are the valid levels of KIP-390."""

    codec: Codec
    lowest_magic: int
    levels: tuple[int, int] | None
    buffer_size: int
    decompress_whole: Callable[[bytes, int, int], bytes | bytearray | None]
    stream: Callable[[bytes, int, int], Stream]
    compress: Callable[[bytes, int | None, int], bytes]


CODECS: dict[Codec, CodecEntry] = {
    row.codec: row
    for row in (
        CodecEntry(Codec.GZIP, 0, (-1, 9), _gzip.BUFFER_SIZE, _gzip.decompress_whole, _gzip.GzipStream, _gzip.compress),
        CodecEntry(
            Codec.SNAPPY, 0, None, _snappy.BUFFER_SIZE, _snappy.decompress_whole, _snappy.SnappyStream, _snappy.compress
        ),
        CodecEntry(Codec.LZ4, 0, (1, 17), _lz4.BUFFER_SIZE, _lz4.decompress_whole, _lz4.Lz4Stream, _lz4.compress),
        CodecEntry(
            Codec.ZSTD, 2, (-131072, 22), _zstd.BUFFER_SIZE, _zstd.decompress_whole, _zstd.ZstdStream, _zstd.compress
        ),
    )
}
_CODEC_BY_NAME = {codec.name.lower(): codec for codec in Codec} | {"uncompressed": Codec.NONE}


def codec_of(name: str | int) -> Codec:
    """Return a codec by its name in ``compression.type`` or by its number.

    >>> codec_of("zstd")
    <Codec.ZSTD: 4>

    Raises:
        OptionError: the codec is unknown.
    """
    try:
        return Codec(name) if isinstance(name, int) else _CODEC_BY_NAME[name.lower()]
    except (KeyError, ValueError):
        names = ", ".join(codec.name.lower() for codec in Codec)
        raise OptionError(f"unknown codec {name!r}; expected {names}") from None


def decompress(
    codec: int, payload: bytes | memoryview, *, magic: int, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> DecompressedContent:
    """Decompress the payload of a batch or wrapper, as far as Kafka would deliver it.

    Args:
        codec: bits 0 to 2 of the attributes.
        payload: the compressed bytes only.
        magic: format of the batch or wrapper; LZ4's header checksum depends on it.
        limit_bytes: largest decompressed size. Longer content is truncated and reported as an error.

    Returns:
        The data and the error. With an error, Kafka delivers the complete records in the data (format 2), or no record
        of the set (formats 0 and 1).
    """
    if type(payload) is not bytes:
        payload = bytes(payload)
    row = CODECS.get(codec)  # type: ignore[call-overload]
    if row is None:
        return _read_uncompressed(codec, payload, limit_bytes)
    if magic < row.lowest_magic:
        return DecompressedContent(b"", f"{row.codec.name.lower()} is not supported in format {magic}")
    data = row.decompress_whole(payload, magic, limit_bytes)
    if data is not None:
        return DecompressedContent(data, None)
    return deliver(
        lambda: row.stream(payload, magic, limit_bytes),
        buffer_size=row.buffer_size,
        magic=magic,
        limit_bytes=limit_bytes,
    )


def _read_uncompressed(codec: int, payload: bytes, limit_bytes: int) -> DecompressedContent:
    if codec != Codec.NONE:
        return DecompressedContent(b"", f"unknown codec {codec}")
    if len(payload) > limit_bytes:
        return DecompressedContent(payload[:limit_bytes], over_limit_text(limit_bytes))
    return DecompressedContent(payload, None)


def compress(codec: int, data: bytes | memoryview, *, level: int | None = None, magic: int = 2) -> bytes:
    """Return ``data`` compressed as Kafka does in a batch or wrapper of format ``magic``.

    Raises:
        EncodeError: the format does not support the codec.
        OptionError: the codec is unknown, or does not have this level (KIP-390).
    """
    codec = codec_of(codec)
    if codec is Codec.NONE:
        _check_level(codec, level, None)
        return bytes(data)
    row = CODECS[codec]
    if magic < row.lowest_magic:
        raise EncodeError(f"{codec.name.lower()} needs format {row.lowest_magic}, not {magic}")
    _check_level(codec, level, row.levels)
    return row.compress(bytes(data), level, magic)


def _check_level(codec: Codec, level: int | None, levels: tuple[int, int] | None) -> None:
    if level is None:
        return
    name = codec.name.lower()
    if levels is None:
        raise OptionError(f"{name} has no compression levels; remove level={level}")
    if not levels[0] <= level <= levels[1]:
        raise OptionError(f"level {level} is invalid for {name}; expected {levels[0]} to {levels[1]}")
