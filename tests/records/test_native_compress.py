"""Compressing without Python: the bytes of ``codecs.compress``, and none beyond the room that was given."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.guarded import Guarded
from tests.records.test_codecs import text

from kafkaframes.records import _kernels_compress, _lz4, native_compress
from kafkaframes.records.build import build_apart
from kafkaframes.records.codecs import Codec, compress
from kafkaframes.records.scan import as_array, check_crcs, scan_all

LEVELS = {
    Codec.NONE: [None],
    Codec.GZIP: [None, -1, 0, 1, 6, 9],
    Codec.LZ4: [None, 1, 3, 9, 12, 17],
    Codec.ZSTD: [None, -131072, -5, 0, 1, 3, 12],
}
CASES = [(codec, level) for codec, levels in LEVELS.items() for level in levels]
SIZES = [0, 1, 100, 1000, 16384, 65536, 65537, 131_072, 131_073, 300_000]
TARGET = Guarded(1 << 20)


def compressed(codec, data, level=None, *, room=None):
    """Compress into memory before a forbidden page; the bytes, or the number below zero."""
    out = TARGET.at_end(native_compress.most_compressed(len(data)) if room is None else room)
    size = native_compress.compress_into(codec, as_array(data), out, level=level)
    return bytes(out[:size]) if size >= 0 else size


def test_every_function_is_found_here():
    """These wheels export them; where others do not, only speed is lost."""
    assert native_compress.possible() == {Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD}


@pytest.mark.parametrize(("codec", "level"), CASES, ids=str)
def test_the_bytes_are_those_of_the_libraries_through_python(codec, level):
    for size in SIZES:
        for data in (text(size), random.Random(size).randbytes(size), bytes(size)):
            assert compressed(codec, data, level) == compress(codec, data, level=level)


@pytest.mark.parametrize("size", range(65_500, 65_570))
def test_lz4_blocks_that_hardly_shrink_are_given_up_where_the_library_does(size):
    """Around the size of a block, and with as many equal bytes as make a block about as large as it was."""
    noise = random.Random(size).randbytes(size)
    for equal in (0, 12, 100, 262, 270):
        data = noise[: size - equal] + bytes(equal)
        assert compressed(Codec.LZ4, data) == compress(Codec.LZ4, data)


@given(
    st.sampled_from(CASES),
    st.lists(st.tuples(st.binary(max_size=50), st.integers(1, 5000)), max_size=8),
)
def test_any_bytes(case, parts):
    data = b"".join(part * count for part, count in parts)
    assert compressed(case[0], data, case[1]) == compress(case[0], data, level=case[1])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=str)
def test_without_room_there_is_no_answer_and_the_next_one_is_right(codec):
    data = random.Random(1).randbytes(70_000)
    needed = native_compress.most_compressed(len(data))
    for room in (0, 1, 69_000, needed - 1):
        assert compressed(codec, data, room=room) == native_compress.ODD
    assert compressed(codec, data) == compress(codec, data)


@pytest.mark.parametrize(("codec", "level"), [(Codec.SNAPPY, None), (Codec.GZIP, 17), (Codec.ZSTD, 23), (7, None)])
def test_what_has_no_function_or_no_such_level_is_odd(codec, level):
    assert compressed(codec, b"abc", level) == native_compress.ODD


def test_without_functions_everything_is_odd(monkeypatch):
    monkeypatch.setattr(native_compress, "_found", dict)
    monkeypatch.setattr(native_compress, "_idle", {})
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        assert compressed(codec, b"abc") == native_compress.ODD


def test_functions_that_write_other_bytes_are_not_used(monkeypatch):
    addresses = native_compress._found()["lz4"]
    assert native_compress._is_right("lz4", addresses)
    monkeypatch.setitem(native_compress._COMPRESS, "lz4", lambda *_: b"other")
    assert not native_compress._is_right("lz4", addresses)


def test_the_numbers_are_those_of_the_plain_writers():
    header = _lz4.compress(b"", None, 2)[:7]
    found = (_kernels_compress.LZ4_FLAGS, _kernels_compress.LZ4_DESCRIPTOR, _kernels_compress.LZ4_CHECKSUM)
    assert found == tuple(header[4:])
    assert _kernels_compress.LZ4_BLOCK == _lz4._WRITTEN_BLOCK_SIZE


def test_callers_have_contexts_of_their_own():
    with native_compress.borrowed() as one, native_compress.borrowed() as other, native_compress.borrowed(1) as third:
        places = [_kernels_compress.ZSTD_CONTEXT, _kernels_compress.GZIP_CONTEXT, _kernels_compress.LZ4_FAST_CONTEXT]
        assert not np.intersect1d(one[places], other[places]).size
        assert third[_kernels_compress.ZSTD_CONTEXT] not in (one[places[0]], other[places[0]], 0)
    with native_compress.borrowed() as again:
        assert again is other or again is one


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_batches_are_the_same_with_and_without_the_libraries(monkeypatch, codec):
    for sizes in ([0], [1, 70_000, 3], [500] * 300):
        rows = {"value": [text(size) for size in sizes], "timestamp": [7] * len(sizes)}
        short = [list(build_apart(rows, codec=codec, batch_bytes=limit)) for limit in (100, 20_000, 1 << 20)]
        with monkeypatch.context() as patch:
            patch.setattr(native_compress, "compress_batch", lambda *_, **__: native_compress.ODD)
            assert short == [
                list(build_apart(rows, codec=codec, batch_bytes=limit)) for limit in (100, 20_000, 1 << 20)
            ]
        for data, _ in (one for several in short for one in several):
            assert check_crcs(data, scan_all(data)).all()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=str)
def test_a_batch_without_room_or_header_is_odd(codec):
    plain = bytes(60)
    assert native_compress.compress_batch(codec, as_array(plain), TARGET.at_end(5000)) == native_compress.ODD
    for room in (0, 60, 61, 1000):
        plain = bytes(61) + text(500)
        assert native_compress.compress_batch(codec, as_array(plain), TARGET.at_end(room)) == native_compress.ODD
