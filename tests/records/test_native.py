"""Native decompression equals the general path for accepted streams, and accesses no memory outside its buffers."""

import itertools
import random
import struct
import zlib

import cramjam
import lz4.frame
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.records import streams
from tests.records.guarded import GuardedBlock
from tests.records.test_codecs import random_text

from kafkaframes.records import _gzip, _kernels_codecs, _lz4, _snappy, _zstd, decode, native
from kafkaframes.records.codecs import CODECS, Codec, compress, decompress
from kafkaframes.records.libraries import LIBRARIES
from kafkaframes.records.scan import as_array, scan_all

COMPRESSION_CODECS = sorted(CODECS)
LIMIT_BYTES = 1 << 22
SOURCE, TARGET = GuardedBlock(LIMIT_BYTES), GuardedBlock(LIMIT_BYTES)


def decompress_into(codec, payload, out, *, limit_bytes):
    """Call the kernel that ``native.open_batches`` calls for each batch."""
    with native.borrow_call_array() as calls:
        return int(_kernels_codecs.decompress_into(codec, payload, out, limit_bytes, calls))


def decompress_in_guarded_memory(codec, payload, *, limit=LIMIT_BYTES, at_end=True):
    """Decompress between inaccessible pages. Return the bytes, or the negative status."""
    source = (SOURCE.at_end if at_end else SOURCE.at_start)(len(payload))
    source[:] = as_array(payload)
    room = native.output_capacity(len(payload), limit)
    out = (TARGET.at_end if at_end else TARGET.at_start)(room)
    size = decompress_into(codec, source, out, limit_bytes=limit)
    return bytes(out[:size]) if size >= 0 else size


def assert_equal_or_unusual(codec, payload, *, limit=LIMIT_BYTES):
    for at_end in (True, False):
        result = decompress_in_guarded_memory(codec, payload, limit=limit, at_end=at_end)
        if isinstance(result, bytes):
            assert decompress(codec, bytes(payload), magic=2, limit_bytes=limit) == (result, None)
        else:
            assert result == native.UNUSUAL
    return result


def test_every_native_function_is_found():
    """The installed wheels export these functions. Without these functions, decompression is only slower."""
    assert set(native.load_functions()) == set(range(_kernels_codecs.SCRATCH))


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
@pytest.mark.parametrize("size", [20, 100, 1000, 16384, 32768, 32769, 65536, 65537, 131_072, 131_073, 300_000])
def test_payloads_of_kafka_take_the_native_path(codec, size):
    for data in (random_text(size), random.Random(size).randbytes(size), bytes(size % 70_000)):
        assert assert_equal_or_unusual(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
@given(data=st.data())
def test_damaged_payloads_give_equal_results(codec, data):
    content = random_text(data.draw(st.integers(8, 150_000)), seed=data.draw(st.integers(0, 5)))
    payload = bytearray(compress(codec, content))
    for _ in range(data.draw(st.integers(0, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    assert_equal_or_unusual(codec, payload[: data.draw(st.integers(len(payload) // 2, len(payload)))])


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
@given(raw=st.binary(max_size=120), start=st.integers(0, 40))
def test_any_bytes_give_equal_results(codec, raw, start):
    assert_equal_or_unusual(codec, compress(codec, b"x" * 90)[:start] + raw)


def test_unusual_streams_give_equal_results():
    choose = random.Random(4)
    usual = 0
    for _ in range(400):
        codec, _, payload = streams.choose_stream(choose)
        for read_as in (codec, choose.choice(COMPRESSION_CODECS)):
            usual += isinstance(assert_equal_or_unusual(read_as, payload), bytes)
    assert usual > 50


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
def test_content_of_exactly_the_limit_is_accepted(codec):
    payload = compress(codec, random_text(20_000))
    assert decompress_in_guarded_memory(codec, payload, limit=20_000) == random_text(20_000)
    assert decompress_in_guarded_memory(codec, payload, limit=19_999) == native.UNUSUAL


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
def test_too_small_output_is_reported(codec):
    payload = as_array(compress(codec, random_text(20_000)))
    room = native.output_capacity(payload.size, LIMIT_BYTES)
    assert decompress_into(codec, payload, np.empty(room - 1, np.uint8), limit_bytes=LIMIT_BYTES) == native.TOO_SMALL
    assert decompress_into(codec, payload, np.empty(room, np.uint8), limit_bytes=LIMIT_BYTES) == 20_000


@pytest.mark.parametrize("codec", COMPRESSION_CODECS, ids=lambda c: c.name)
def test_decompression_bombs_take_the_general_path(codec):
    payload = compress(codec, bytes(3_000_000))
    result = decompress_in_guarded_memory(codec, payload)
    assert result == (bytes(3_000_000) if codec == Codec.SNAPPY else native.UNUSUAL)


def test_an_empty_frame_with_a_wrong_header_checksum_is_unusual():
    frame = bytearray(compress(Codec.LZ4, b""))
    assert assert_equal_or_unusual(Codec.LZ4, frame) == b""
    frame[6] ^= 1
    assert assert_equal_or_unusual(Codec.LZ4, frame) == native.UNUSUAL


# ------------------------------------------------------------------------------------------------- snappy


def snappy_literal(data):
    return bytes(((len(data) - 1) << 2,)) + data if len(data) <= 60 else b"\xf0" + bytes((len(data) - 1,)) + data


SNAPPY_ELEMENTS = st.one_of(
    st.binary(min_size=1, max_size=200).map(snappy_literal),
    st.tuples(st.integers(4, 11), st.integers(0, 2047)).map(
        lambda copy: bytes((1 | copy[0] - 4 << 2 | copy[1] >> 8 << 5, copy[1] & 255))
    ),
    st.tuples(st.integers(1, 64), st.integers(0, 300)).map(
        lambda copy: struct.pack("<BH", 2 | copy[0] - 1 << 2, copy[1])
    ),
    st.tuples(st.integers(1, 64), st.integers(0, 300)).map(
        lambda copy: struct.pack("<BI", 3 | copy[0] - 1 << 2, copy[1])
    ),
)


def sum_lengths(elements):
    """Return the total length of the output of snappy elements."""
    size = 0
    for element in elements:
        tag = element[0]
        size += (element[1] + 1 if tag == 0xF0 else (tag >> 2) + 1) if tag & 3 == 0 else 0
        size += 4 + (tag >> 2 & 7) if tag & 3 == 1 else (tag >> 2) + 1 if tag & 3 else 0
    return size


@given(st.lists(SNAPPY_ELEMENTS, max_size=30), st.sampled_from([0, 0, 0, 1, -1]))
def test_snappy_elements_are_decompressed_like_the_library(elements, wrong):
    size = max(sum_lengths(elements) + wrong, 0)
    length = bytes((size,)) if size < 0x80 else bytes((size & 0x7F | 0x80, size >> 7)) if size < 1 << 14 else b"\x80"
    block = length + b"".join(elements)
    out = bytearray(size)
    try:
        cramjam.snappy.decompress_raw_into(block, out)
        expected_bytes = bytes(out)
    except (cramjam.DecompressionError, ValueError, BufferError):
        expected_bytes = None
    result = decompress_in_guarded_memory(Codec.SNAPPY, block)
    if isinstance(result, bytes):
        assert result == expected_bytes
    elif expected_bytes is not None:
        assert size > len(block) * _kernels_codecs.MAX_SNAPPY_RATIO or not size


# --------------------------------------------------------------------------------------------------- gzip


def deflate_raw(data, level):
    deflater = zlib.compressobj(level, zlib.DEFLATED, -15)
    return bytearray(deflater.compress(data) + deflater.flush())


@given(st.data())
def test_gzip_bodies_with_a_correct_trailer_are_decompressed_like_zlib(data):
    """The CRC would detect damage to the body alone, so the test computes the CRC of the decoded bytes."""
    body = deflate_raw(random_text(data.draw(st.integers(20, 3000))), data.draw(st.sampled_from([1, 6, 9])))
    for _ in range(data.draw(st.integers(0, 2))):
        body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    inflater = zlib.decompressobj(-15)
    try:
        content = inflater.decompress(bytes(body), 1 << 20)
    except zlib.error:
        content = b""
    trailer = struct.pack("<II", zlib.crc32(content), len(content))
    assert_equal_or_unusual(Codec.GZIP, b"\x1f\x8b\x08" + bytes(6) + b"\xff" + body + trailer)


# --------------------------------------------------------------------------------------------------- zstd


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("content_size", [False, True])
@pytest.mark.parametrize("size", [0, 1, 30, 255, 256, 65_791, 65_792, 140_000])
def test_zstd_frames_with_every_header_are_decompressed(checksum, content_size, size):
    compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=content_size)
    frame = compressor.compress(random_text(size, seed=2))
    payload = assert_equal_or_unusual(Codec.ZSTD, frame)
    assert payload == random_text(size, seed=2) or len(frame) < _kernels_codecs.MIN_ZSTD_BYTES


@pytest.mark.parametrize("tail", [b"", b"x", bytes(9)])
def test_zstd_bytes_after_the_frame_are_unusual(tail):
    frame = compress(Codec.ZSTD, random_text(900))
    assert assert_equal_or_unusual(Codec.ZSTD, frame + tail + frame) == native.UNUSUAL
    assert (assert_equal_or_unusual(Codec.ZSTD, frame + tail) == native.UNUSUAL) == bool(tail)


# -------------------------------------------------------------------------------------------- many batches


def sections_of(data, limit=1 << 28):
    sections = decode.open_sections(as_array(data), scan_all(data), limit_bytes=limit)
    pieces = [bytes(sections.buf[start:end]) for start, end in zip(sections.starts, sections.ends, strict=True)]
    return pieces, sections.kinds.tolist(), sections.problems


@given(st.integers(0, 1000), st.sampled_from([0, 5000, 1 << 28]))
def test_native_and_general_path_open_equal_sections(seed, limit):
    choose = random.Random(seed)
    data = b"".join(
        streams.build_batch(number, codec, count, payload)
        for number, (codec, count, payload) in enumerate(
            streams.choose_stream(choose) for _ in range(choose.randrange(1, 9))
        )
    )
    expected_sections = sections_of(data, limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "open_batches", report_all_rows_as_unusual)
        assert sections_of(data, limit) == expected_sections


def report_all_rows_as_unusual(_buf, _table, row, starts, _ends, kinds, _limit, _arena, size, _calls):
    """Replace ``open_batches``: report every stream as unusual."""
    while row < starts.size and kinds[row] == 0:
        starts[row] = _ends[row] = size
        row += 1
    return row, size, native.UNUSUAL if row < starts.size else 0


def test_missing_native_functions_are_not_needed(monkeypatch):
    monkeypatch.setattr(native, "_idle", [np.zeros(_kernels_codecs.CALL_SLOTS, np.int64)])
    for codec in COMPRESSION_CODECS:
        payload = compress(codec, random_text(20_000))
        assert decompress_in_guarded_memory(codec, payload) == (
            random_text(20_000) if codec == Codec.SNAPPY else native.UNUSUAL
        )


def test_a_library_with_wrong_results_is_not_used(monkeypatch):
    for library in LIBRARIES:
        addresses = {native._SLOTS_BY_FUNCTION[name]: address for name, address in library.load_addresses().items()}
        assert native._passes_trial(library.codec, addresses)
        _, sizes = native._CODEC_TRIALS[library.codec]
        monkeypatch.setitem(native._CODEC_TRIALS, library.codec, (lambda *_: b"\x01" * 40, sizes))
        assert not native._passes_trial(library.codec, addresses)
        assert not library._replace(module="kafkaframes.no_such_module").load_addresses()
        assert not library._replace(functions=("no_such_function",)).load_addresses()


def test_kernel_constants_equal_those_of_the_general_path():
    kernels = _kernels_codecs
    assert kernels.GZIP_HEADER.to_bytes(4, "big") == _gzip._HEADER_START_WITHOUT_FLAGS
    assert kernels.XERIAL_START.to_bytes(4, "big") + kernels.XERIAL_REST.to_bytes(4, "big") == _snappy._MAGIC
    assert (kernels.XERIAL_HEADER, kernels.MAX_SNAPPY_RATIO) == (_snappy._HEADER_SIZE, _snappy._MAX_COMPRESSION_RATIO)
    assert kernels.LZ4_MAGIC.to_bytes(4, "big") == _lz4._MAGIC
    assert kernels.ZSTD_MAGIC.to_bytes(4, "big") == _zstd._MAGIC
    assert 1 << _zstd._MAX_WINDOW_LOG == kernels.ZSTD_WINDOW
    assert (kernels.LZ4_BLOCK_CHECKSUMS, kernels.LZ4_CONTENT_SIZE, kernels.LZ4_CONTENT_CHECKSUM) == (
        _lz4._BLOCK_CHECKSUMS,
        _lz4._CONTENT_SIZE,
        _lz4._CONTENT_CHECKSUM,
    )
    assert kernels.LZ4_FLAGS == _lz4._VERSION | _lz4._INDEPENDENT
    assert kernels.LZ4_FIXED == 0xC0 | _lz4._INDEPENDENT | _lz4._RESERVED
    assert {codec.name: int(codec) for codec in COMPRESSION_CODECS} == {
        name: getattr(kernels, name) for name in ("GZIP", "SNAPPY", "LZ4", "ZSTD")
    }


# --------------------------------------------------------------------------------------------------- LZ4


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=3)))
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 100, 65_536, 65_540, 300_000])
def test_lz4_frames_with_checksums_and_sizes_take_the_native_path(flags, size):
    """Frames of aiokafka have block checksums, and frames of kafka-python have the content size."""
    block_checksum, content_checksum, store_size = flags
    for data in (random_text(size), random.Random(size).randbytes(size)):
        for block_size in (4, 5, 6, 7):
            frame = lz4.frame.compress(
                data,
                block_size=block_size,
                block_linked=False,
                block_checksum=block_checksum,
                content_checksum=content_checksum,
                store_size=store_size,
            )
            payload = assert_equal_or_unusual(Codec.LZ4, frame)
            assert payload == (data if size or not store_size else payload)
            for place in range(4, len(frame), max(len(frame) // 7, 1)):
                wrong = bytearray(frame)
                wrong[place] ^= 1 << (place % 8)
                assert_equal_or_unusual(Codec.LZ4, wrong)
            for cut_size in (1, 4, 5, 8):
                assert_equal_or_unusual(Codec.LZ4, frame[:-cut_size])


@given(st.binary(max_size=100), st.integers(0, 255), st.integers(0, 255))
def test_any_lz4_frame_header_gives_equal_results(data, flags, descriptor):
    frame = lz4.frame.compress(data, block_linked=False, block_checksum=bool(flags & 16), store_size=False)
    header_fields = bytes((flags, descriptor)) + (bytes(8) if flags & 8 else b"")
    header = frame[:4] + header_fields + bytes((_lz4.compute_header_checksum(header_fields),))
    assert_equal_or_unusual(Codec.LZ4, header + frame[7:])
