"""Compressed captures: members of any size, truncation and damage at any byte, and linear work."""

from __future__ import annotations

import gzip
import io
import random
import struct

import lz4.frame
import pytest
import zstandard

from kafkaframes.capture.compressed import GzipMember, MemberFile, open_compressed
from kafkaframes.errors import DecodeError


def build_compressible_bytes(count, seed=0):
    """Return bytes that compress to about half, without repeated sections."""
    rng = random.Random(seed)
    return b"".join(b"%08d %s\n" % (number, rng.randbytes(12).hex().encode()) for number in range(count))


def zstd(data, **options):
    return zstandard.ZstdCompressor(write_checksum=True, **options).compress(data)


def lz4_frame(data):
    return lz4.frame.compress(data, content_checksum=True)


COMPRESS_BY_CODEC = {"gzip": gzip.compress, "zstd": zstd, "lz4": lz4_frame}


def open_raw(raw):
    return open_compressed(io.BytesIO(raw), raw[:4])


def read_until_error(raw, size=1 << 14):
    """Return the bytes before the error, and the error."""
    file, out, view = open_raw(raw), b"", memoryview(bytearray(size))
    try:
        while count := file.readinto(view):
            out += view[:count]
    except DecodeError as error:
        return out, error.reason
    return out, None


class CountingDecompressor:
    """A decompressor that counts its input bytes."""

    given_bytes = 0

    def __init__(self):
        self._member = GzipMember()

    def decompress(self, data, most):
        CountingDecompressor.given_bytes += len(data)
        return self._member.decompress(data, most)

    @property
    def is_complete(self):
        return self._member.is_complete


def test_the_work_is_linear_in_the_bytes_for_any_number_of_members():
    raw = gzip.compress(b"") * 20_000
    CountingDecompressor.given_bytes = 0
    assert MemberFile(io.BytesIO(raw), "gzip", CountingDecompressor).read() == b""
    assert CountingDecompressor.given_bytes < 30 * len(raw)


@pytest.mark.parametrize("codec", COMPRESS_BY_CODEC)
@pytest.mark.parametrize("seed", range(8))
def test_members_of_any_size_with_zeros_between(seed, codec):
    rng = random.Random(seed)
    parts = [rng.randbytes(rng.choice((0, 1, 600, 5000, 300_000))) * rng.choice((1, 1, 20)) for _ in range(12)]
    zeros = (0, 0, 3, 2000) if codec == "gzip" else (0,)
    raw = b"".join(COMPRESS_BY_CODEC[codec](part) + bytes(rng.choice(zeros)) for part in parts)
    assert read_until_error(raw) == (b"".join(parts), None)
    assert "end early" in read_until_error(raw.rstrip(b"\0")[:-3])[1]


@pytest.mark.parametrize("codec", COMPRESS_BY_CODEC)
def test_data_truncated_at_any_byte_are_read_and_reported(codec):
    data = build_compressible_bytes(40)
    raw = COMPRESS_BY_CODEC[codec](data)
    for size in range(4, len(raw)):
        out, reason = read_until_error(raw[:size])
        assert data.startswith(out), size
        assert reason == f"the {codec} data end early: the file is truncated", size


@pytest.mark.parametrize("codec", COMPRESS_BY_CODEC)
def test_every_flipped_bit_is_reported(codec):
    """Each of these codecs has a checksum of the content; gzip's header has none for its time and operating system."""
    data = build_compressible_bytes(40)
    raw = COMPRESS_BY_CODEC[codec](data)
    for position in range(16, len(raw)):
        for bit in (0, 3, 7):
            damaged_bytes = bytearray(raw)
            damaged_bytes[position] ^= 1 << bit
            out, reason = read_until_error(bytes(damaged_bytes))
            assert reason is not None or out == data, (position, bit)


@pytest.mark.parametrize("codec", COMPRESS_BY_CODEC)
def test_data_before_damage_are_read(codec):
    data = build_compressible_bytes(60_000)
    raw = bytearray(COMPRESS_BY_CODEC[codec](data))
    at = len(raw) * 3 // 4
    raw[at : at + 64] = bytes(64)
    out, reason = read_until_error(bytes(raw))
    assert data.startswith(out[: len(data) // 4])
    assert len(out) > len(data) // 4
    assert f"the {codec} data cannot be decompressed" in reason


@pytest.mark.parametrize("options", [{}, {"level": 19}, {"write_content_size": False}, {"write_checksum": False}])
def test_zstd_frames_are_followed_with_any_header(options):
    data = [build_compressible_bytes(20_000), b"", b"x", bytes(1 << 20), build_compressible_bytes(5, seed=1)]
    compressor = zstandard.ZstdCompressor(**options)
    skippable = b"\x5a\x2a\x4d\x18" + struct.pack("<I", 5) + b"aside"
    raw = skippable.join(compressor.compress(part) for part in data)
    compressor_object = compressor.compressobj()
    raw += compressor_object.compress(data[0]) + compressor_object.flush()
    whole = b"".join(data) + data[0]
    assert read_until_error(raw) == (whole, None)
    assert read_until_error(skippable + raw) == (whole, None)
    for size in (len(raw) - 1, len(raw) // 2, len(raw) // 3):
        out, reason = read_until_error(raw[:size])
        assert whole.startswith(out)
        assert "end early" in reason


def test_highly_compressed_data_are_read_in_bounded_steps():
    raw = zstd(bytes(64 << 20))
    file = open_raw(raw)
    view = memoryview(bytearray(1 << 20))
    assert 0 < file.readinto(view) <= len(view)


@pytest.mark.parametrize("codec", COMPRESS_BY_CODEC)
def test_other_bytes_after_the_data_are_reported(codec):
    out, reason = read_until_error(COMPRESS_BY_CODEC[codec](b"data") + b"something else")
    assert out == b"data"
    assert "cannot be decompressed" in reason
