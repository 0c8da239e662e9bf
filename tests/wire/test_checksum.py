"""Checksums: the check value of both polynomials, and continuing from a part."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.wire.checksum import crc32, crc32c


@pytest.mark.parametrize(("function", "expected_checksum"), [(crc32, 0xCBF43926), (crc32c, 0xE3069283)])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_check_value(function, expected_checksum, kind):
    assert function(kind(b"123456789")) == expected_checksum


@pytest.mark.parametrize("function", [crc32, crc32c])
@given(head=st.binary(), tail=st.binary())
def test_a_sum_continues_from_a_part(function, head, tail):
    assert function(tail, function(head)) == function(head + tail)


@given(st.binary())
def test_crc32_is_zlibs(data):
    assert crc32(data) == zlib.crc32(data)
