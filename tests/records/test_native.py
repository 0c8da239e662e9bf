"""Decompression without Python: accepted streams have the general path's result, and no byte beyond is touched."""

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
from tests.records.guarded import Guarded
from tests.records.test_codecs import text

from kafkaframes.records import _gzip, _kernels_codecs, _lz4, _snappy, _zstd, decode, native
from kafkaframes.records.codecs import CODECS, Codec, compress, decompress
from kafkaframes.records.libraries import LIBRARIES
from kafkaframes.records.scan import as_array, scan_all

COMPRESSING = sorted(CODECS)
LIMIT = 1 << 22
SOURCE, TARGET = Guarded(LIMIT), Guarded(LIMIT)


def decompress_into(codec, payload, out, *, limit_bytes):
    """Call the kernel that ``native.open_batches`` calls for each batch."""
    with native.borrow_call_array() as calls:
        return int(_kernels_codecs.decompress_into(codec, payload, out, limit_bytes, calls))


def open_natively(codec, payload, *, limit=LIMIT, at_end=True):
    """Decompress between forbidden pages; the bytes, or the number below zero."""
    source = (SOURCE.at_end if at_end else SOURCE.at_start)(len(payload))
    source[:] = as_array(payload)
    room = native.output_capacity(len(payload), limit)
    out = (TARGET.at_end if at_end else TARGET.at_start)(room)
    size = decompress_into(codec, source, out, limit_bytes=limit)
    return bytes(out[:size]) if size >= 0 else size


def assert_no_other_verdict(codec, payload, *, limit=LIMIT):
    for at_end in (True, False):
        result = open_natively(codec, payload, limit=limit, at_end=at_end)
        if isinstance(result, bytes):
            assert decompress(codec, bytes(payload), magic=2, limit_bytes=limit) == (result, None)
        else:
            assert result == native.UNUSUAL
    return result


def test_every_function_is_found_here():
    """These wheels export them; without them only speed is lost."""
    assert set(native.load_functions()) == set(range(_kernels_codecs.SCRATCH))


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
@pytest.mark.parametrize("size", [20, 100, 1000, 16384, 32768, 32769, 65536, 65537, 131_072, 131_073, 300_000])
def test_what_kafka_writes_is_usual(codec, size):
    for data in (text(size), random.Random(size).randbytes(size), bytes(size % 70_000)):
        assert assert_no_other_verdict(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
@given(data=st.data())
def test_damage_changes_no_verdict(codec, data):
    content = text(data.draw(st.integers(8, 150_000)), seed=data.draw(st.integers(0, 5)))
    payload = bytearray(compress(codec, content))
    for _ in range(data.draw(st.integers(0, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    assert_no_other_verdict(codec, payload[: data.draw(st.integers(len(payload) // 2, len(payload)))])


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
@given(raw=st.binary(max_size=120), start=st.integers(0, 40))
def test_any_bytes_change_no_verdict(codec, raw, start):
    assert_no_other_verdict(codec, compress(codec, b"x" * 90)[:start] + raw)


def test_odd_streams_change_no_verdict():
    choose = random.Random(4)
    usual = 0
    for _ in range(400):
        codec, _, payload = streams.stream(choose)
        for read_as in (codec, choose.choice(COMPRESSING)):
            usual += isinstance(assert_no_other_verdict(read_as, payload), bytes)
    assert usual > 50


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
def test_the_limit_is_exact(codec):
    payload = compress(codec, text(20_000))
    assert open_natively(codec, payload, limit=20_000) == text(20_000)
    assert open_natively(codec, payload, limit=19_999) == native.UNUSUAL


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
def test_without_room_there_is_no_answer(codec):
    payload = as_array(compress(codec, text(20_000)))
    room = native.output_capacity(payload.size, LIMIT)
    assert decompress_into(codec, payload, np.empty(room - 1, np.uint8), limit_bytes=LIMIT) == native.TOO_SMALL
    assert decompress_into(codec, payload, np.empty(room, np.uint8), limit_bytes=LIMIT) == 20_000


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda c: c.name)
def test_a_bomb_is_left_to_the_careful_path(codec):
    payload = compress(codec, bytes(3_000_000))
    result = open_natively(codec, payload)
    assert result == (bytes(3_000_000) if codec == Codec.SNAPPY else native.UNUSUAL)


def test_an_empty_frame_with_a_wrong_header_checksum_is_odd():
    frame = bytearray(compress(Codec.LZ4, b""))
    assert assert_no_other_verdict(Codec.LZ4, frame) == b""
    frame[6] ^= 1
    assert assert_no_other_verdict(Codec.LZ4, frame) == native.UNUSUAL


# ------------------------------------------------------------------------------------------------- snappy


def literal(data):
    return bytes(((len(data) - 1) << 2,)) + data if len(data) <= 60 else b"\xf0" + bytes((len(data) - 1,)) + data


ELEMENTS = st.one_of(
    st.binary(min_size=1, max_size=200).map(literal),
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


def size_of(elements):
    """Return the length that the elements specify."""
    size = 0
    for element in elements:
        tag = element[0]
        size += (element[1] + 1 if tag == 0xF0 else (tag >> 2) + 1) if tag & 3 == 0 else 0
        size += 4 + (tag >> 2 & 7) if tag & 3 == 1 else (tag >> 2) + 1 if tag & 3 else 0
    return size


@given(st.lists(ELEMENTS, max_size=30), st.sampled_from([0, 0, 0, 1, -1]))
def test_snappy_elements_mean_what_the_library_says(elements, wrong):
    size = max(size_of(elements) + wrong, 0)
    length = bytes((size,)) if size < 0x80 else bytes((size & 0x7F | 0x80, size >> 7)) if size < 1 << 14 else b"\x80"
    block = length + b"".join(elements)
    out = bytearray(size)
    try:
        cramjam.snappy.decompress_raw_into(block, out)
        expected_bytes = bytes(out)
    except (cramjam.DecompressionError, ValueError, BufferError):
        expected_bytes = None
    result = open_natively(Codec.SNAPPY, block)
    if isinstance(result, bytes):
        assert result == expected_bytes
    elif expected_bytes is not None:
        assert size > len(block) * _kernels_codecs.MAX_SNAPPY_RATIO or not size


# --------------------------------------------------------------------------------------------------- gzip


def body_of(data, level):
    deflater = zlib.compressobj(level, zlib.DEFLATED, -15)
    return bytearray(deflater.compress(data) + deflater.flush())


@given(st.data())
def test_gzip_bodies_with_a_right_trailer_mean_what_zlib_says(data):
    """The CRC would detect damage to the body alone, so the test computes the CRC of the decoded bytes."""
    body = body_of(text(data.draw(st.integers(20, 3000))), data.draw(st.sampled_from([1, 6, 9])))
    for _ in range(data.draw(st.integers(0, 2))):
        body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    inflater = zlib.decompressobj(-15)
    try:
        content = inflater.decompress(bytes(body), 1 << 20)
    except zlib.error:
        content = b""
    trailer = struct.pack("<II", zlib.crc32(content), len(content))
    assert_no_other_verdict(Codec.GZIP, b"\x1f\x8b\x08" + bytes(6) + b"\xff" + body + trailer)


# --------------------------------------------------------------------------------------------------- zstd


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("content_size", [False, True])
@pytest.mark.parametrize("size", [0, 1, 30, 255, 256, 65_791, 65_792, 140_000])
def test_zstd_frames_of_every_header(checksum, content_size, size):
    compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=content_size)
    frame = compressor.compress(text(size, seed=2))
    payload = assert_no_other_verdict(Codec.ZSTD, frame)
    assert payload == text(size, seed=2) or len(frame) < _kernels_codecs.MIN_ZSTD_BYTES


@pytest.mark.parametrize("tail", [b"", b"x", bytes(9)])
def test_zstd_one_frame_only(tail):
    frame = compress(Codec.ZSTD, text(900))
    assert assert_no_other_verdict(Codec.ZSTD, frame + tail + frame) == native.UNUSUAL
    assert (assert_no_other_verdict(Codec.ZSTD, frame + tail) == native.UNUSUAL) == bool(tail)


# -------------------------------------------------------------------------------------------- many batches


def sections_of(data, limit=1 << 28):
    sections = decode.open_sections(as_array(data), scan_all(data), limit_bytes=limit)
    pieces = [bytes(sections.buf[start:end]) for start, end in zip(sections.starts, sections.ends, strict=True)]
    return pieces, sections.kinds.tolist(), sections.problems


@given(st.integers(0, 1000), st.sampled_from([0, 5000, 1 << 28]))
def test_many_batches_are_opened_as_one_by_one_without_the_functions(seed, limit):
    choose = random.Random(seed)
    data = b"".join(
        streams.batch(number, codec, count, payload)
        for number, (codec, count, payload) in enumerate(streams.stream(choose) for _ in range(choose.randrange(1, 9)))
    )
    quick = sections_of(data, limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "open_batches", one_odd_row_after_the_other)
        assert sections_of(data, limit) == quick


def one_odd_row_after_the_other(_buf, _table, row, starts, _ends, kinds, _limit, _arena, size, _calls):
    """Answer like ``open_batches`` for streams that are all unusual."""
    while row < starts.size and kinds[row] == 0:
        starts[row] = _ends[row] = size
        row += 1
    return row, size, native.UNUSUAL if row < starts.size else 0


def test_libraries_without_the_functions_are_done_without(monkeypatch):
    monkeypatch.setattr(native, "_idle", [np.zeros(_kernels_codecs.CALL_SLOTS, np.int64)])
    for codec in COMPRESSING:
        payload = compress(codec, text(20_000))
        assert open_natively(codec, payload) == (text(20_000) if codec == Codec.SNAPPY else native.UNUSUAL)


def test_a_library_that_answers_wrongly_is_not_used(monkeypatch):
    for library in LIBRARIES:
        addresses = {native._SLOTS_BY_FUNCTION[name]: address for name, address in library.load_addresses().items()}
        assert native._passes_trial(library.codec, addresses)
        _, sizes = native._CODEC_TRIALS[library.codec]
        monkeypatch.setitem(native._CODEC_TRIALS, library.codec, (lambda *_: b"\x01" * 40, sizes))
        assert not native._passes_trial(library.codec, addresses)
        assert not library._replace(module="kafkaframes.no_such_module").load_addresses()
        assert not library._replace(functions=("no_such_function",)).load_addresses()


def test_the_numbers_are_those_of_the_careful_path():
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
    assert {codec.name: int(codec) for codec in COMPRESSING} == {
        name: getattr(kernels, name) for name in ("GZIP", "SNAPPY", "LZ4", "ZSTD")
    }


# --------------------------------------------------------------------------------------------------- LZ4


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=3)))
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 100, 65_536, 65_540, 300_000])
def test_frames_with_checksums_and_sizes_are_usual(flags, size):
    """Those of aiokafka have checksums of their blocks, those of kafka-python the content's size."""
    block_checksum, content_checksum, store_size = flags
    for data in (text(size), random.Random(size).randbytes(size)):
        for block_size in (4, 5, 6, 7):
            frame = lz4.frame.compress(
                data,
                block_size=block_size,
                block_linked=False,
                block_checksum=block_checksum,
                content_checksum=content_checksum,
                store_size=store_size,
            )
            payload = assert_no_other_verdict(Codec.LZ4, frame)
            assert payload == (data if size or not store_size else payload)
            for place in range(4, len(frame), max(len(frame) // 7, 1)):
                wrong = bytearray(frame)
                wrong[place] ^= 1 << (place % 8)
                assert_no_other_verdict(Codec.LZ4, wrong)
            for cut_size in (1, 4, 5, 8):
                assert_no_other_verdict(Codec.LZ4, frame[:-cut_size])


@given(st.binary(max_size=100), st.integers(0, 255), st.integers(0, 255))
def test_any_header_of_a_frame_changes_no_verdict(data, flags, descriptor):
    frame = lz4.frame.compress(data, block_linked=False, block_checksum=bool(flags & 16), store_size=False)
    header_fields = bytes((flags, descriptor)) + (bytes(8) if flags & 8 else b"")
    header = frame[:4] + header_fields + bytes((_lz4.header_checksum(header_fields),))
    assert_no_other_verdict(Codec.LZ4, header + frame[7:])
