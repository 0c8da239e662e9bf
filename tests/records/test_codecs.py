"""Codecs: round trips, the framings that Kafka's readers accept, and damage."""

import gzip
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records import _lz4
from kafkaframes.records.codecs import CODECS, Codec, codec_of, compress, decompress

COMPRESSION_CODECS = sorted(CODECS)
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def random_text(size: int, seed: int = 1) -> bytes:
    choose = random.Random(seed)
    words = [b"order", b"flight", b"sensor", b"\x00\x01", b"customer"] + [
        b"%x" % choose.getrandbits(64) for _ in range(40)
    ]
    return b" ".join(choose.choice(words) for _ in range(size // 4))[:size]


def prefix_with_lengths(*bodies: bytes) -> bytes:
    """Return record bodies, each after its length, which suffices for the function that reads a damaged stream."""
    return b"".join(encode_varint(len(body)) + body for body in bodies)


def encode_varint(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def snappy_chunk(data: bytes) -> bytes:
    block = raw_snappy(data)
    return struct.pack(">i", len(block)) + block


@pytest.mark.parametrize("codec", list(Codec), ids=lambda c: c.name)
@pytest.mark.parametrize("size", [1, 100, 16384, 32768, 32769, 65536, 65537, 300_000])
def test_compressed_text_is_decompressed(codec, size):
    for data in (random_text(size), random.Random(size).randbytes(size), bytes(size)):
        assert decompress(codec, compress(codec, data), magic=2) == (data, None)


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
@given(data=st.binary(max_size=300))
def test_any_bytes_round_trip(codec, data):
    result = decompress(codec, compress(codec, data), magic=2)
    assert (bytes(result.data), result.error) == (data, None)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4], ids=lambda c: c.name)
def test_round_trip_of_old_formats(codec, magic):
    assert decompress(codec, compress(codec, random_text(70_000), magic=magic), magic=magic) == (
        random_text(70_000),
        None,
    )


def test_compressed_bytes_equal_those_of_kafka():
    assert compress(Codec.GZIP, b"x")[:10] == bytes.fromhex("1f8b08000000000000ff")
    assert compress(Codec.SNAPPY, b"x")[:20] == XERIAL + struct.pack(">i", 3)
    assert compress(Codec.LZ4, b"x")[:7] == bytes.fromhex("04224d18604082")
    assert compress(Codec.LZ4, b"x", magic=0)[:7] != compress(Codec.LZ4, b"x")[:7]
    assert compress(Codec.ZSTD, random_text(1000))[:6] == bytes.fromhex("28b52ffd0058")


def test_lz4_header_checksums_equal_those_of_the_library():
    for size in (False, True):
        for block_size in (4, 5, 6, 7):
            frame = lz4.frame.compress(random_text(99), store_size=size, block_linked=False, block_size=block_size)
            end = 14 if size else 6
            assert _lz4.compute_header_checksum(frame[4:end]) == frame[end]


def test_higher_levels_compress_better():
    data = random_text(50_000)
    assert len(compress(Codec.GZIP, data, level=9)) < len(compress(Codec.GZIP, data, level=1))
    assert len(compress(Codec.LZ4, data, level=12)) < len(compress(Codec.LZ4, data, level=9))
    assert compress(Codec.LZ4, data, level=9) == compress(Codec.LZ4, data)
    assert len(compress(Codec.ZSTD, data, level=19)) < len(compress(Codec.ZSTD, data, level=-50))
    assert compress(Codec.ZSTD, data, level=3) == compress(Codec.ZSTD, data)


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, 10), (Codec.GZIP, -2), (Codec.LZ4, 0), (Codec.ZSTD, 23), (Codec.SNAPPY, 1), (Codec.NONE, 1)],
)
def test_invalid_levels_are_rejected(codec, level):
    with pytest.raises(OptionError):
        compress(codec, b"x", level=level)


def test_zstd_requires_format_2():
    with pytest.raises(EncodeError):
        compress(Codec.ZSTD, b"x", magic=1)
    assert decompress(Codec.ZSTD, compress(Codec.ZSTD, b"x"), magic=1).error is not None


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_rejected(codec):
    assert decompress(codec, b"abc", magic=2) == (b"", f"unknown codec {codec}")
    with pytest.raises(OptionError):
        codec_of(codec)


def test_codecs_are_found_by_name():
    assert [codec_of(name) for name in ("none", "GZIP", "snappy", "lz4", "zstd", "uncompressed")] == [0, 1, 2, 3, 4, 0]
    with pytest.raises(OptionError):
        codec_of("brotli")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4], ids=lambda c: c.name)
def test_an_empty_payload_is_a_failure(codec):
    result = decompress(codec, b"", magic=2)
    assert result.data == b""
    assert result.error is not None


def test_an_empty_zstd_payload_is_an_empty_stream():
    assert decompress(Codec.ZSTD, b"", magic=2) == (b"", None)


# gzip


def member(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize(
    ("payload", "content"),
    [
        (member(b"one") + member(b"two"), b"onetwo"),
        (
            member(random_text(50_000)) + member(b"two") + member(random_text(30_000)),
            random_text(50_000) + b"two" + random_text(30_000),
        ),
        (member(b"one") + b"garbage of some length that is no member", b"one"),
        (member(b"one") + member(b"two")[:18], b"one"),
        (member(b"one") + b"\0" * 20_000, b"one"),
    ],
    ids=["two", "long", "garbage", "short", "zeros"],
)
def test_gzip_members(payload, content):
    assert decompress(Codec.GZIP, payload, magic=2) == (content, None)


def test_gzip_header_fields_are_skipped():
    body = member(b"content")[10:]
    head = bytes.fromhex("1f8b08") + bytes([0x04 | 0x08 | 0x10]) + bytes(6) + b"\x03\0abc" + b"name\0" + b"comment\0"
    assert decompress(Codec.GZIP, head + body, magic=2) == (b"content", None)
    checked_header = head[:3] + bytes([head[3] | 0x02]) + head[4:]
    crc = struct.pack("<H", zlib.crc32(checked_header) & 0xFFFF)
    assert decompress(Codec.GZIP, checked_header + crc + body, magic=2) == (b"content", None)
    assert decompress(Codec.GZIP, checked_header + b"\0\0" + body, magic=2).error is not None


def test_gzip_wrong_trailer_fails_after_the_content():
    payload = member(random_text(40_000))
    result = decompress(Codec.GZIP, payload[:-8] + bytes(8), magic=2)
    assert result.data == random_text(40_000)
    assert "trailer" in result.error


def test_gzip_damage_loses_the_bytes_of_the_current_read():
    payload = member(random.Random(1).randbytes(20_000))
    damaged_payload = bytearray(payload)
    result = decompress(Codec.GZIP, bytes(damaged_payload[:-4000]), magic=2)
    assert 0 < len(result.data) < 20_000
    assert result.error is not None


# snappy


def test_raw_snappy_is_decompressed():
    assert decompress(Codec.SNAPPY, raw_snappy(random_text(5000)), magic=2) == (random_text(5000), None)
    assert decompress(Codec.SNAPPY, raw_snappy(b"ab"), magic=1) == (b"ab", None)


def test_snappy_chunks_and_concatenated_streams_are_decompressed():
    stream = XERIAL + snappy_chunk(b"one") + snappy_chunk(random_text(9000))
    assert decompress(Codec.SNAPPY, stream, magic=2) == (b"one" + random_text(9000), None)
    assert decompress(Codec.SNAPPY, stream + XERIAL + snappy_chunk(b"two"), magic=2) == (
        b"one" + random_text(9000) + b"two",
        None,
    )
    assert decompress(Codec.SNAPPY, stream + b"\0\0\1", magic=2) == (b"one" + random_text(9000), None)
    near_header = b"\x82SNAXXXX" + bytes(8) + snappy_chunk(b"two")
    assert decompress(Codec.SNAPPY, stream + near_header, magic=2) == (b"one" + random_text(9000) + b"two", None)
    assert decompress(Codec.SNAPPY, stream + near_header[:15], magic=2).error is not None
    assert decompress(Codec.SNAPPY, XERIAL, magic=2) == (b"", None)


@pytest.mark.parametrize("version", [struct.pack("<ii", 1, 1), struct.pack(">ii", 2, 2), bytes(8), b"\xff" * 8])
def test_snappy_version_in_the_first_header_is_ignored(version):
    assert decompress(Codec.SNAPPY, XERIAL[:8] + version + snappy_chunk(b"one"), magic=2) == (b"one", None)


@pytest.mark.parametrize(("version", "is_supported"), [(0, False), (-1, False), (1, True), (2, True), (1 << 24, True)])
def test_snappy_version_in_a_later_header_is_checked(version, is_supported):
    later_stream = XERIAL[:8] + struct.pack(">ii", version, 0) + snappy_chunk(b"two")
    result = decompress(Codec.SNAPPY, XERIAL + snappy_chunk(b"one") + later_stream, magic=1)
    assert (result.error is None) == is_supported
    if is_supported:
        assert result.data == b"onetwo"


def test_snappy_framing_format_is_rejected():
    framed_payload = bytes(cramjam.snappy.compress(random_text(1000)))
    assert decompress(Codec.SNAPPY, framed_payload, magic=2).error is not None


def test_snappy_damage_loses_the_bytes_of_the_current_read():
    good = random_text(32 * 1024)
    bad = bytearray(snappy_chunk(random_text(32 * 1024, seed=2)))
    bad[4] ^= 0xFF
    result = decompress(Codec.SNAPPY, XERIAL + snappy_chunk(good) + bytes(bad), magic=1)
    assert result.data == good
    result = decompress(Codec.SNAPPY, XERIAL + snappy_chunk(good[:5000]) + bytes(bad), magic=1)
    assert result.data == good[:4096]


def test_reads_of_format_2_end_with_large_records():
    """A large body is not read through the 2 KiB buffer, so the next buffer starts at the end of the body."""
    good = prefix_with_lengths(b"a" * 100, b"b" * 9000, b"c" * 1500, b"d" * 3000)
    cut_at = len(prefix_with_lengths(b"a" * 100, b"b" * 9000)) + 2048 + 10
    result = decompress(Codec.SNAPPY, XERIAL + snappy_chunk(good[:cut_at]) + b"\0\0\1\0", magic=2)
    assert result.data == good[: cut_at - 10]
    assert result.error is not None


# LZ4


def frame(data: bytes, **options) -> bytes:
    return lz4.frame.compress(data, **{"block_linked": False, "store_size": False, "block_size": 4} | options)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"block_checksum": True},
        {"store_size": True},
        {"store_size": True, "block_checksum": True, "content_checksum": True},
        {"block_size": 7},
        {"content_checksum": True},
    ],
    ids=str,
)
def test_lz4_frames_are_decompressed(magic, options):
    payload = frame(random_text(200_000), **options)
    assert decompress(Codec.LZ4, payload, magic=magic) == (random_text(200_000), None)
    assert decompress(Codec.LZ4, payload + payload, magic=magic) == (random_text(200_000), None)
    assert decompress(Codec.LZ4, payload + b"rest", magic=magic) == (random_text(200_000), None)


def test_lz4_content_checksum_and_size_are_ignored():
    payload = frame(random_text(900), content_checksum=True)
    assert decompress(Codec.LZ4, payload[:-4] + b"\0\0\0\0", magic=2) == (random_text(900), None)
    assert decompress(Codec.LZ4, payload[:-4], magic=2).data == random_text(900)
    sized_frame = bytearray(frame(random_text(900), store_size=True))
    sized_frame[6:14] = struct.pack("<Q", 1 << 60)
    sized_frame[14] = _lz4.compute_header_checksum(bytes(sized_frame[4:14]))
    assert decompress(Codec.LZ4, bytes(sized_frame), magic=2) == (random_text(900), None)


def test_lz4_header_checksum_is_verified_from_format_1():
    wrong = bytearray(frame(random_text(900)))
    wrong[6] ^= 1
    assert decompress(Codec.LZ4, bytes(wrong), magic=0) == (random_text(900), None)
    for magic in (1, 2):
        assert decompress(Codec.LZ4, bytes(wrong), magic=magic).error is not None


@pytest.mark.parametrize("defaults", [lz4.frame.compress, lambda data: bytes(cramjam.lz4.compress(data))])
def test_lz4_linked_blocks_are_refused(defaults):
    assert "linked" in decompress(Codec.LZ4, defaults(random_text(90_000)), magic=2).error


def test_lz4_blocks_before_a_damaged_block_are_returned():
    payload = bytearray(frame(random_text(200_000), block_checksum=True))
    payload[-20] ^= 1
    result = decompress(Codec.LZ4, bytes(payload), magic=2)
    assert (result.data, "checksum" in result.error) == (random_text(200_000)[: 3 * 65536], True)


def test_lz4_missing_end_mark_fails_after_the_content():
    result = decompress(Codec.LZ4, frame(random_text(900))[:-4], magic=2)
    assert result.data == random_text(900)
    assert result.error is not None


# zstd


def skippable(data: bytes) -> bytes:
    return struct.pack("<II", 0x184D2A53, len(data)) + data


def zframe(data: bytes, **options) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(data)


@pytest.mark.parametrize("options", [{}, {"write_checksum": True}, {"write_content_size": False}], ids=str)
def test_zstd_frames_are_decompressed(options):
    one, two = zframe(random_text(900), **options), zframe(random_text(90_000, seed=2), **options)
    assert decompress(Codec.ZSTD, two, magic=2) == (random_text(90_000, seed=2), None)
    assert decompress(Codec.ZSTD, one + two, magic=2) == (random_text(900) + random_text(90_000, seed=2), None)
    between = skippable(b"") + one + skippable(b"x" * 99) + two + skippable(b"y")
    assert decompress(Codec.ZSTD, between, magic=2) == (random_text(900) + random_text(90_000, seed=2), None)
    assert decompress(Codec.ZSTD, zframe(b"", **options) + one, magic=2) == (random_text(900), None)


@pytest.mark.parametrize("garbage", [b"x", b"garbage", b"\x28\xb5\x2e", b"\x5f\x2a\x4e"])
def test_zstd_garbage_after_a_frame_fails_after_the_content(garbage):
    result = decompress(Codec.ZSTD, zframe(random_text(900)) + garbage, magic=2)
    assert result.data == random_text(900)
    assert result.error is not None


@pytest.mark.parametrize("cut_size", [1, 3, 4, 5, 12])
@pytest.mark.parametrize("second", [skippable(b"0123456789"), zframe(random_text(900))], ids=["skippable", "frame"])
def test_zstd_truncated_second_frame_ends_without_error(cut_size, second):
    """zstd-jni remembers the end of the first frame until it has to read more input."""
    result = decompress(Codec.ZSTD, zframe(random_text(900)) + second[:cut_size], magic=2)
    assert result == (random_text(900), None)
    large = random.Random(1).randbytes(140_000)
    result = decompress(Codec.ZSTD, zframe(large[:9000]) + zframe(large)[:-1], magic=2)
    assert result.data.startswith(large[:9000])
    assert result.error is not None


def test_zstd_truncated_frame_returns_all_decoded_bytes():
    """The result includes bytes that the zstd library buffers until a block is complete."""
    content = random_text(300_000)
    payload = compress(Codec.ZSTD, content)
    result = decompress(Codec.ZSTD, payload[:-2], magic=2)
    assert result.data == content[: 2 * 131072]
    assert result.error is not None


def test_zstd_window_is_limited():
    for window_log, fits in ((27, True), (28, False)):
        payload = bytearray(compress(Codec.ZSTD, random_text(50_000)))
        payload[5] = (window_log - 10) << 3
        assert (decompress(Codec.ZSTD, bytes(payload), magic=2).error is None) == fits


def test_zstd_claimed_size_is_not_allocated():
    payload = bytearray(zframe(random_text(100_000)))
    assert payload[4] & 0xC0 == 0x80
    payload[5:9] = struct.pack("<I", 0xFFFFFFF0)
    assert decompress(Codec.ZSTD, bytes(payload), magic=2).error is not None


# every codec


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
def test_decompression_stops_at_the_limit(codec):
    payload = compress(codec, bytes(3_000_000))
    result = decompress(codec, payload, magic=2, limit_bytes=100_000)
    assert len(result.data) <= 100_000
    assert result.error is not None
    if codec is not Codec.SNAPPY:
        assert result.data == bytes(100_000)
    assert decompress(codec, payload, magic=2, limit_bytes=3_000_000) == (bytes(3_000_000), None)


BOMB_CODE = """
import resource, sys
from kafkaframes.records.codecs import Codec, compress, decompress
bombs = {codec: compress(codec, bytes(64 << 20)) for codec in Codec if codec}
used = resource.getpagesize() * int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20),) * 2)
for codec, bomb in bombs.items():
    found = decompress(codec, bomb, magic=2, limit_bytes=4 << 20)
    assert found.error and len(found.data) <= 4 << 20, codec
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_decompression_bombs_need_little_memory():
    """64 MiB of zeros are read with a limit of 4 MiB and 40 MiB of memory."""
    subprocess.run([sys.executable, "-c", BOMB_CODE], check=True, timeout=250)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda c: c.name)
def test_content_of_exactly_the_limit_is_accepted(codec):
    payload = compress(codec, random_text(20_000))
    assert decompress(codec, payload, magic=2, limit_bytes=20_000).error is None
    result = decompress(codec, payload, magic=2, limit_bytes=19_999)
    assert result.error is not None
    assert len(result.data) <= 19_999


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
@pytest.mark.parametrize("magic", [1, 2])
def test_every_truncated_payload_returns_a_prefix(codec, magic):
    magic = max(magic, CODECS[codec].lowest_magic)
    content = random_text(3000)
    payload = compress(codec, content, magic=magic)
    for size in range(len(payload)):
        result = decompress(codec, payload[:size], magic=magic)
        assert content.startswith(bytes(result.data))
        if result.error is None:
            assert codec is Codec.SNAPPY or size == 0


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
def test_a_flipped_bit_gives_content_or_an_error(codec):
    content = random_text(700)
    payload = compress(codec, content)
    for bit in range(len(payload) * 8):
        damaged_payload = bytearray(payload)
        damaged_payload[bit // 8] ^= 1 << bit % 8
        result = decompress(codec, bytes(damaged_payload), magic=2, limit_bytes=1 << 20)
        assert len(result.data) <= 1 << 20
        assert result.error is None or result.error


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
@given(raw=st.binary(max_size=120), start=st.booleans())
def test_any_bytes_give_content_or_an_error(codec, raw, start):
    payload = compress(codec, b"")[:7] + raw if start else raw
    result = decompress(codec, payload, magic=2, limit_bytes=1 << 20)
    assert len(result.data) <= 1 << 20


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
@given(data=st.data())
def test_the_fast_path_and_the_general_path_agree(codec, data):
    from kafkaframes.records._delivery import deliver

    row = CODECS[codec]
    payload = bytearray(compress(codec, random_text(data.draw(st.integers(0, 70_000)))))
    for _ in range(data.draw(st.integers(0, 2))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    fast = row.decompress_whole(bytes(payload), 2, 1 << 28)
    if fast is not None:
        assert deliver(
            lambda: row.stream(bytes(payload), 2, 1 << 28), buffer_size=row.buffer_size, magic=2, limit_bytes=1 << 28
        ) == (fast, None)


def test_threads_decompress_concurrently():
    from concurrent.futures import ThreadPoolExecutor

    contents = [random_text(20_000, seed=n) for n in range(40)]
    with ThreadPoolExecutor(4) as pool:
        payloads = list(pool.map(lambda content: compress(Codec.ZSTD, content), contents))
        contents_read = list(pool.map(lambda payload: decompress(Codec.ZSTD, payload, magic=2).data, payloads * 5))
    assert contents_read == contents * 5
