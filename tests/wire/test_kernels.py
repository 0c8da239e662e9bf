"""The kernels of `wire` return the same as their plain references, for any bytes."""

import google_crc32c
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaframes.errors import DecodeError, TruncatedError
from kafkaframes.wire import _kernels, varint
from kafkaframes.wire.checksum import crc32

KERNELS_WITH_REFERENCES = [(_kernels.varint_at, varint.read_varint), (_kernels.varlong_at, varint.read_varlong)]


def as_array(raw):
    return np.frombuffer(raw, np.uint8)


def read_or_get_error(read, raw, position):
    try:
        return (_kernels.OK, *read(raw, position))
    except TruncatedError:
        return _kernels.TRUNCATED, 0, position
    except DecodeError:
        return _kernels.OVERLONG, 0, position


@pytest.mark.parametrize(("fast", "slow"), KERNELS_WITH_REFERENCES, ids=["varint", "varlong"])
@given(raw=st.binary(max_size=12), position=st.integers(0, 12))
@example(raw=b"\xff" * 4 + b"\x7f", position=0)
@example(raw=b"\xff" * 9 + b"\x7f", position=0)
@example(raw=b"\x80" * 11, position=0)
def test_varint_kernels_equal_their_references(fast, slow, raw, position):
    position = min(position, len(raw))
    assert fast(as_array(raw), position, len(raw)) == read_or_get_error(slow, raw, position)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 15, 16, 17, 255, 767, 768, 769, 2048, 6143, 6144, 6145, 20_000])
def test_checksums_are_equal_on_every_path(size):
    raw = np.random.default_rng(size).integers(0, 256, size + 3, dtype=np.uint8)
    part = raw[3:].tobytes()
    assert _kernels.crc32(raw, 3, size + 3) == crc32(part)
    assert _kernels.crc32_by_tables(raw, 3, size + 3) == crc32(part)
    assert _kernels.crc32c(raw, 3, size + 3) == google_crc32c.value(part)
    assert _kernels.crc32c_by_tables(raw, 3, size + 3) == google_crc32c.value(part)


def test_read_only_and_writable_arrays_use_one_compiled_kernel():
    raw = bytearray(b"123456789")
    assert _kernels.crc32(as_array(raw), 0, 9) == _kernels.crc32(as_array(bytes(raw)), 0, 9) == 0xCBF43926
    with pytest.raises(TypeError):
        _kernels.crc32(np.zeros(4, np.int64), 0, 4)
