"""Every codec: round trips, the framing quirks of Kafka's readers, damage of every kind."""

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

COMPRESSING = sorted(CODECS)
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def text(size: int, seed: int = 1) -> bytes:
    choose = random.Random(seed)
    words = [b"order", b"flight", b"sensor", b"\x00\x01", b"customer"] + [
        b"%x" % choose.getrandbits(64) for _ in range(40)
    ]
    return b" ".join(choose.choice(words) for _ in range(size // 4))[:size]


def records(*bodies: bytes) -> bytes:
    """Length-prefixed bodies, as far as the reader of a damaged stream looks."""
    return b"".join(varint(len(body)) + body for body in bodies)


def varint(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def chunk(data: bytes) -> bytes:
    block = raw_snappy(data)
    return struct.pack(">i", len(block)) + block


@pytest.mark.parametrize("codec", list(Codec), ids=lambda c: c.name)
@pytest.mark.parametrize("size", [1, 100, 16384, 32768, 32769, 65536, 65537, 300_000])
def test_round_trip(codec, size):
    for data in (text(size), random.Random(size).randbytes(size), bytes(size)):
        assert decompress(codec, compress(codec, data), magic=2) == (data, None)


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
@given(data=st.binary(max_size=300))
def test_any_bytes_round_trip(codec, data):
    result = decompress(codec, compress(codec, data), magic=2)
    assert (bytes(result.data), result.error) == (data, None)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4], ids=lambda c: c.name)
def test_round_trip_of_old_formats(codec, magic):
    assert decompress(codec, compress(codec, text(70_000), magic=magic), magic=magic) == (text(70_000), None)


def test_bytes_that_kafka_writes():
    assert compress(Codec.GZIP, b"x")[:10] == bytes.fromhex("1f8b08000000000000ff")
    assert compress(Codec.SNAPPY, b"x")[:20] == XERIAL + struct.pack(">i", 3)
    assert compress(Codec.LZ4, b"x")[:7] == bytes.fromhex("04224d18604082")
    assert compress(Codec.LZ4, b"x", magic=0)[:7] != compress(Codec.LZ4, b"x")[:7]
    assert compress(Codec.ZSTD, text(1000))[:6] == bytes.fromhex("28b52ffd0058")


def test_header_checksums_are_those_of_the_lz4_library():
    for size in (False, True):
        for block_size in (4, 5, 6, 7):
            frame = lz4.frame.compress(text(99), store_size=size, block_linked=False, block_size=block_size)
            end = 14 if size else 6
            assert _lz4.header_checksum(frame[4:end]) == frame[end]


def test_levels():
    data = text(50_000)
    assert len(compress(Codec.GZIP, data, level=9)) < len(compress(Codec.GZIP, data, level=1))
    assert len(compress(Codec.LZ4, data, level=12)) < len(compress(Codec.LZ4, data, level=9))
    assert compress(Codec.LZ4, data, level=9) == compress(Codec.LZ4, data)
    assert len(compress(Codec.ZSTD, data, level=19)) < len(compress(Codec.ZSTD, data, level=-50))
    assert compress(Codec.ZSTD, data, level=3) == compress(Codec.ZSTD, data)


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, 10), (Codec.GZIP, -2), (Codec.LZ4, 0), (Codec.ZSTD, 23), (Codec.SNAPPY, 1), (Codec.NONE, 1)],
)
def test_levels_that_are_not(codec, level):
    with pytest.raises(OptionError):
        compress(codec, b"x", level=level)


def test_zstd_needs_format_2():
    with pytest.raises(EncodeError):
        compress(Codec.ZSTD, b"x", magic=1)
    assert decompress(Codec.ZSTD, compress(Codec.ZSTD, b"x"), magic=1).error is not None


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec(codec):
    assert decompress(codec, b"abc", magic=2) == (b"", f"unknown codec {codec}")
    with pytest.raises(OptionError):
        codec_of(codec)


def test_names():
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
        (member(text(50_000)) + member(b"two") + member(text(30_000)), text(50_000) + b"two" + text(30_000)),
        (member(b"one") + b"garbage of some length that is no member", b"one"),
        (member(b"one") + member(b"two")[:18], b"one"),
        (member(b"one") + b"\0" * 20_000, b"one"),
    ],
    ids=["two", "long", "garbage", "short", "zeros"],
)
def test_gzip_members(payload, content):
    assert decompress(Codec.GZIP, payload, magic=2) == (content, None)


def test_gzip_header_fields():
    body = member(b"content")[10:]
    head = bytes.fromhex("1f8b08") + bytes([0x04 | 0x08 | 0x10]) + bytes(6) + b"\x03\0abc" + b"name\0" + b"comment\0"
    assert decompress(Codec.GZIP, head + body, magic=2) == (b"content", None)
    checked_header = head[:3] + bytes([head[3] | 0x02]) + head[4:]
    crc = struct.pack("<H", zlib.crc32(checked_header) & 0xFFFF)
    assert decompress(Codec.GZIP, checked_header + crc + body, magic=2) == (b"content", None)
    assert decompress(Codec.GZIP, checked_header + b"\0\0" + body, magic=2).error is not None


def test_gzip_wrong_trailer_fails_after_the_content():
    payload = member(text(40_000))
    result = decompress(Codec.GZIP, payload[:-8] + bytes(8), magic=2)
    assert result.data == text(40_000)
    assert "trailer" in result.error


def test_gzip_damage_costs_the_read_that_it_is_in():
    payload = member(random.Random(1).randbytes(20_000))
    damaged_payload = bytearray(payload)
    result = decompress(Codec.GZIP, bytes(damaged_payload[:-4000]), magic=2)
    assert 0 < len(result.data) < 20_000
    assert result.error is not None


# snappy


def test_snappy_raw():
    assert decompress(Codec.SNAPPY, raw_snappy(text(5000)), magic=2) == (text(5000), None)
    assert decompress(Codec.SNAPPY, raw_snappy(b"ab"), magic=1) == (b"ab", None)


def test_snappy_chunks_and_streams():
    one = XERIAL + chunk(b"one") + chunk(text(9000))
    assert decompress(Codec.SNAPPY, one, magic=2) == (b"one" + text(9000), None)
    assert decompress(Codec.SNAPPY, one + XERIAL + chunk(b"two"), magic=2) == (b"one" + text(9000) + b"two", None)
    assert decompress(Codec.SNAPPY, one + b"\0\0\1", magic=2) == (b"one" + text(9000), None)
    nearly = b"\x82SNAXXXX" + bytes(8) + chunk(b"two")
    assert decompress(Codec.SNAPPY, one + nearly, magic=2) == (b"one" + text(9000) + b"two", None)
    assert decompress(Codec.SNAPPY, one + nearly[:15], magic=2).error is not None
    assert decompress(Codec.SNAPPY, XERIAL, magic=2) == (b"", None)


@pytest.mark.parametrize("version", [struct.pack("<ii", 1, 1), struct.pack(">ii", 2, 2), bytes(8), b"\xff" * 8])
def test_snappy_versions_of_the_first_header_do_not_matter(version):
    assert decompress(Codec.SNAPPY, XERIAL[:8] + version + chunk(b"one"), magic=2) == (b"one", None)


@pytest.mark.parametrize(("version", "fits"), [(0, False), (-1, False), (1, True), (2, True), (1 << 24, True)])
def test_snappy_versions_of_a_later_header(version, fits):
    later = XERIAL[:8] + struct.pack(">ii", version, 0) + chunk(b"two")
    result = decompress(Codec.SNAPPY, XERIAL + chunk(b"one") + later, magic=1)
    assert (result.error is None) == fits
    if fits:
        assert result.data == b"onetwo"


def test_snappy_framing2_is_refused():
    framed_payload = bytes(cramjam.snappy.compress(text(1000)))
    assert decompress(Codec.SNAPPY, framed_payload, magic=2).error is not None


def test_snappy_damage_costs_the_two_kilobytes_that_are_being_read():
    good = text(32 * 1024)
    bad = bytearray(chunk(text(32 * 1024, seed=2)))
    bad[4] ^= 0xFF
    result = decompress(Codec.SNAPPY, XERIAL + chunk(good) + bytes(bad), magic=1)
    assert result.data == good
    result = decompress(Codec.SNAPPY, XERIAL + chunk(good[:5000]) + bytes(bad), magic=1)
    assert result.data == good[:4096]


def test_the_reads_of_format_2_follow_the_records():
    """The long body steps around the buffer, so the next buffer begins at its end, not at a multiple of 2 KiB."""
    good = records(b"a" * 100, b"b" * 9000, b"c" * 1500, b"d" * 3000)
    cut_at = len(records(b"a" * 100, b"b" * 9000)) + 2048 + 10
    result = decompress(Codec.SNAPPY, XERIAL + chunk(good[:cut_at]) + b"\0\0\1\0", magic=2)
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
def test_lz4_frames(magic, options):
    payload = frame(text(200_000), **options)
    assert decompress(Codec.LZ4, payload, magic=magic) == (text(200_000), None)
    assert decompress(Codec.LZ4, payload + payload, magic=magic) == (text(200_000), None)
    assert decompress(Codec.LZ4, payload + b"rest", magic=magic) == (text(200_000), None)


def test_lz4_content_checksum_and_size_are_not_verified():
    payload = frame(text(900), content_checksum=True)
    assert decompress(Codec.LZ4, payload[:-4] + b"\0\0\0\0", magic=2) == (text(900), None)
    assert decompress(Codec.LZ4, payload[:-4], magic=2).data == text(900)
    sized_frame = bytearray(frame(text(900), store_size=True))
    sized_frame[6:14] = struct.pack("<Q", 1 << 60)
    sized_frame[14] = _lz4.header_checksum(bytes(sized_frame[4:14]))
    assert decompress(Codec.LZ4, bytes(sized_frame), magic=2) == (text(900), None)


def test_lz4_header_checksum_counts_from_format_1_on():
    wrong = bytearray(frame(text(900)))
    wrong[6] ^= 1
    assert decompress(Codec.LZ4, bytes(wrong), magic=0) == (text(900), None)
    for magic in (1, 2):
        assert decompress(Codec.LZ4, bytes(wrong), magic=magic).error is not None


@pytest.mark.parametrize("defaults", [lz4.frame.compress, lambda data: bytes(cramjam.lz4.compress(data))])
def test_lz4_linked_blocks_are_refused(defaults):
    assert "linked" in decompress(Codec.LZ4, defaults(text(90_000)), magic=2).error


def test_lz4_blocks_before_a_bad_one_are_delivered():
    payload = bytearray(frame(text(200_000), block_checksum=True))
    payload[-20] ^= 1
    result = decompress(Codec.LZ4, bytes(payload), magic=2)
    assert (result.data, "checksum" in result.error) == (text(200_000)[: 3 * 65536], True)


def test_lz4_missing_end_mark_fails_after_the_content():
    result = decompress(Codec.LZ4, frame(text(900))[:-4], magic=2)
    assert result.data == text(900)
    assert result.error is not None


# zstd


def skippable(data: bytes) -> bytes:
    return struct.pack("<II", 0x184D2A53, len(data)) + data


def zframe(data: bytes, **options) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(data)


@pytest.mark.parametrize("options", [{}, {"write_checksum": True}, {"write_content_size": False}], ids=str)
def test_zstd_frames(options):
    one, two = zframe(text(900), **options), zframe(text(90_000, seed=2), **options)
    assert decompress(Codec.ZSTD, two, magic=2) == (text(90_000, seed=2), None)
    assert decompress(Codec.ZSTD, one + two, magic=2) == (text(900) + text(90_000, seed=2), None)
    between = skippable(b"") + one + skippable(b"x" * 99) + two + skippable(b"y")
    assert decompress(Codec.ZSTD, between, magic=2) == (text(900) + text(90_000, seed=2), None)
    assert decompress(Codec.ZSTD, zframe(b"", **options) + one, magic=2) == (text(900), None)


@pytest.mark.parametrize("garbage", [b"x", b"garbage", b"\x28\xb5\x2e", b"\x5f\x2a\x4e"])
def test_zstd_garbage_behind_a_frame_fails_after_the_content(garbage):
    result = decompress(Codec.ZSTD, zframe(text(900)) + garbage, magic=2)
    assert result.data == text(900)
    assert result.error is not None


@pytest.mark.parametrize("cut_size", [1, 3, 4, 5, 12])
@pytest.mark.parametrize("second", [skippable(b"0123456789"), zframe(text(900))], ids=["skippable", "frame"])
def test_zstd_second_frame_cut_off_is_an_end_without_error(cut_size, second):
    """zstd-jni remembers the end of the first frame until it has to read more input."""
    result = decompress(Codec.ZSTD, zframe(text(900)) + second[:cut_size], magic=2)
    assert result == (text(900), None)
    large = random.Random(1).randbytes(140_000)
    result = decompress(Codec.ZSTD, zframe(large[:9000]) + zframe(large)[:-1], magic=2)
    assert result.data.startswith(large[:9000])
    assert result.error is not None


def test_zstd_cut_off_frame_gives_all_that_was_decoded():
    """Also what the library holds back while it waits for the rest of a block."""
    content = text(300_000)
    payload = compress(Codec.ZSTD, content)
    result = decompress(Codec.ZSTD, payload[:-2], magic=2)
    assert result.data == content[: 2 * 131072]
    assert result.error is not None


def test_zstd_window_limit():
    for window_log, fits in ((27, True), (28, False)):
        payload = bytearray(compress(Codec.ZSTD, text(50_000)))
        payload[5] = (window_log - 10) << 3
        assert (decompress(Codec.ZSTD, bytes(payload), magic=2).error is None) == fits


def test_zstd_claimed_size_is_not_allocated():
    payload = bytearray(zframe(text(100_000)))
    assert payload[4] & 0xC0 == 0x80
    payload[5:9] = struct.pack("<I", 0xFFFFFFF0)
    assert decompress(Codec.ZSTD, bytes(payload), magic=2).error is not None


# every codec


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
def test_a_bomb_stops_at_the_limit(codec):
    payload = compress(codec, bytes(3_000_000))
    result = decompress(codec, payload, magic=2, limit_bytes=100_000)
    assert len(result.data) <= 100_000
    assert result.error is not None
    if codec is not Codec.SNAPPY:
        assert result.data == bytes(100_000)
    assert decompress(codec, payload, magic=2, limit_bytes=3_000_000) == (bytes(3_000_000), None)


BOMB = """
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
def test_bombs_fit_into_little_memory():
    """64 MiB of zeros, a limit of 4 MiB, and no more than 40 MiB to be had."""
    subprocess.run([sys.executable, "-c", BOMB], check=True, timeout=250)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda c: c.name)
def test_the_limit_is_exact(codec):
    payload = compress(codec, text(20_000))
    assert decompress(codec, payload, magic=2, limit_bytes=20_000).error is None
    result = decompress(codec, payload, magic=2, limit_bytes=19_999)
    assert result.error is not None
    assert len(result.data) <= 19_999


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
@pytest.mark.parametrize("magic", [1, 2])
def test_every_truncation_delivers_a_prefix(codec, magic):
    magic = max(magic, CODECS[codec].lowest_magic)
    content = text(3000)
    payload = compress(codec, content, magic=magic)
    for size in range(len(payload)):
        result = decompress(codec, payload[:size], magic=magic)
        assert content.startswith(bytes(result.data))
        if result.error is None:
            assert codec is Codec.SNAPPY or size == 0


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
def test_every_flipped_bit_gives_a_value_or_a_reason(codec):
    content = text(700)
    payload = compress(codec, content)
    for bit in range(len(payload) * 8):
        damaged_payload = bytearray(payload)
        damaged_payload[bit // 8] ^= 1 << bit % 8
        result = decompress(codec, bytes(damaged_payload), magic=2, limit_bytes=1 << 20)
        assert len(result.data) <= 1 << 20
        assert result.error is None or result.error


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
@given(raw=st.binary(max_size=120), start=st.booleans())
def test_any_bytes_give_a_value_or_a_reason(codec, raw, start):
    payload = compress(codec, b"")[:7] + raw if start else raw
    result = decompress(codec, payload, magic=2, limit_bytes=1 << 20)
    assert len(result.data) <= 1 << 20


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
@given(data=st.data())
def test_the_fast_path_says_what_the_careful_one_says(codec, data):
    from kafkaframes.records._delivery import deliver

    row = CODECS[codec]
    payload = bytearray(compress(codec, text(data.draw(st.integers(0, 70_000)))))
    for _ in range(data.draw(st.integers(0, 2))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    fast = row.decompress_whole(bytes(payload), 2, 1 << 28)
    if fast is not None:
        assert deliver(
            lambda: row.stream(bytes(payload), 2, 1 << 28), buffer_size=row.buffer_size, magic=2, limit_bytes=1 << 28
        ) == (fast, None)


def test_one_table_for_threads():
    from concurrent.futures import ThreadPoolExecutor

    contents = [text(20_000, seed=n) for n in range(40)]
    with ThreadPoolExecutor(4) as pool:
        payloads = list(pool.map(lambda content: compress(Codec.ZSTD, content), contents))
        contents_read = list(pool.map(lambda payload: decompress(Codec.ZSTD, payload, magic=2).data, payloads * 5))
    assert contents_read == contents * 5
