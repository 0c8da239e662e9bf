"""Random compressed records sections in unusual but valid forms, and damage to them.

The fuzz tests read them without a crash, and ``tests/interop`` compares the results with Kafka's classes.
"""

from __future__ import annotations

import gzip
import random
import struct

import cramjam
import lz4.frame
import zstandard

from kafkaframes.records.codecs import CODECS, Codec, compress
from kafkaframes.wire.checksum import crc32c
from kafkaframes.wire.varint import write_varint

XERIAL_HEADER = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
VALUE_SIZES = (10, 100, 100, 100, 1000, 3000, 20_000, 60_000)


def build_record(choose: random.Random, offset_delta: int) -> bytes:
    """Write a v2 record with a value that compresses well, badly, or not at all."""
    size = choose.choice(VALUE_SIZES) if choose.random() < 0.3 else choose.randrange(200)
    even = (b"abcdefg %d " % offset_delta * (size // 9 + 1))[:size]
    value = choose.randbytes(size) if choose.random() < 0.4 else even
    body = bytearray(2)
    write_varint(body, offset_delta)
    write_varint(body, -1)
    write_varint(body, len(value))
    body += value + b"\0"
    out = bytearray()
    write_varint(out, len(body))
    return bytes(out + body)


def _compress_gzip(choose: random.Random, data: bytes) -> bytes:
    if choose.random() < 0.5:
        return compress(Codec.GZIP, data, level=choose.choice([1, 6, 9]))
    cut_at = choose.randrange(len(data) + 1)
    members = [
        gzip.compress(part, mtime=0, compresslevel=choose.choice([0, 1, 6])) for part in (data[:cut_at], data[cut_at:])
    ]
    return b"".join(members) + choose.choice([b"", b"junk", bytes(30), b"\x1f\x8b\x08"])


def _compress_snappy(choose: random.Random, data: bytes) -> bytes:
    kind = choose.random()
    if kind < 0.4:
        return compress(Codec.SNAPPY, data)
    if kind < 0.6:
        return bytes(cramjam.snappy.compress_raw(data))
    out, position = bytearray(XERIAL_HEADER), 0
    while position < len(data):
        size = choose.choice([1, 100, 2048, 3000, 20_000])
        block = bytes(cramjam.snappy.compress_raw(data[position : position + size]))
        out += struct.pack(">i", len(block)) + block
        position += size
        if choose.random() < 0.2:
            out += XERIAL_HEADER
    return bytes(out)


def _compress_lz4(choose: random.Random, data: bytes) -> bytes:
    if choose.random() < 0.3:
        return compress(Codec.LZ4, data)
    frame: bytes = lz4.frame.compress(
        data,
        block_linked=choose.random() < 0.05,
        store_size=choose.random() < 0.4,
        block_size=choose.choice([4, 5, 7]),
        block_checksum=choose.random() < 0.5,
        content_checksum=choose.random() < 0.3,
    )
    return frame + choose.choice([b"", b"junk"])


def _compress_zstd(choose: random.Random, data: bytes) -> bytes:
    if choose.random() < 0.4:
        return compress(Codec.ZSTD, data, level=choose.choice([-5, 1, 3, 9]))

    def skippable() -> bytes:
        return choose.choice([b"", struct.pack("<II", 0x184D2A50, 5) + b"hello"])

    parts, cut_at = [], choose.randrange(len(data) + 1)
    for part in (data[:cut_at], data[cut_at:]):
        compressor = zstandard.ZstdCompressor(
            level=choose.choice([1, 3]),
            write_checksum=choose.random() < 0.5,
            write_content_size=choose.random() < 0.5,
        )
        parts += [skippable(), compressor.compress(part)]
    return b"".join((*parts, skippable(), choose.choice([b"", b"", b"junk", b"j"])))


_UNUSUAL_COMPRESSION_BY_CODEC = {
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}


def damage(choose: random.Random, payload: bytes) -> bytes:
    """Damage the payload up to five times: flip bits, truncate it, remove bytes or insert bytes."""
    out = bytearray(payload)
    for _ in range(choose.choice([0, 1, 1, 1, 2, 5])):
        if not out:
            break
        place, kind = choose.randrange(len(out)), choose.random()
        if kind < 0.5:
            out[place] ^= 1 << choose.randrange(8)
        elif kind < 0.6:
            out[choose.randrange(min(len(out), 40))] = choose.randrange(256)
        elif kind < 0.8:
            del out[place:]
        elif kind < 0.9:
            del out[place : place + choose.randrange(1, 20)]
        else:
            out[place:place] = choose.randbytes(choose.randrange(1, 20))
    return bytes(out)


def choose_stream(choose: random.Random) -> tuple[Codec, int, bytes]:
    """Return (codec, expected number of records, payload). The payload may be damaged."""
    codec = choose.choice(list(CODECS))
    count = choose.choice([1, 3, 10, 40, 40, 200])
    data = b"".join(build_record(choose, delta) for delta in range(count))
    return codec, count, damage(choose, _UNUSUAL_COMPRESSION_BY_CODEC[codec](choose, data))


def build_batch(base_offset: int, codec: int, count: int, payload: bytes) -> bytes:
    """Add a v2 batch header with a correct CRC to a payload."""
    checked_bytes = struct.pack(">hiqqqhii", codec, count - 1, 5, 5, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", base_offset, 9 + len(checked_bytes), -1, 2, crc32c(checked_bytes)) + checked_bytes
