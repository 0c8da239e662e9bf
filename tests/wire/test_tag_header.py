"""The two tag headers: examples of the seed documents, the table of sizes, and round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import EncodeError, TruncatedError
from kafkaframes.wire.varint import TAG_HEADERS, deinterleave, interleave

ADOPTED, INTERLEAVED = TAG_HEADERS["adopted"], TAG_HEADERS["interleaved"]
UINT32 = st.integers(0, 2**32 - 1)
VECTORS = [  # length, tag, bytes in the draft
    (4, 5, "32"),
    (0, 0, "00"),
    (15, 7, "7f"),
    (16, 7, "aa02"),
    (15, 8, "d501"),
    (127, 127, "ff7f"),
    (128, 0, "808001"),
    (2**31 - 1, 2**31 - 1, "ffffffffffffffff3f"),
    (2**32 - 1, 2**32 - 1, "ffffffffffffffffff01"),  # numbers of the draft have 32 bits
]


@pytest.mark.parametrize(("length", "tag", "expected_hex"), VECTORS)
def test_encodings_equal_the_vectors_of_the_draft(length, tag, expected_hex):
    out = bytearray()
    INTERLEAVED.write(out, tag, length)
    assert out.hex() == expected_hex
    assert INTERLEAVED.read(bytes(out), 0) == (tag, length, len(out))
    assert INTERLEAVED.size(tag, length) == len(out)


@pytest.mark.parametrize(
    ("length", "tag", "interleaved_size", "adopted_size"),
    [
        (15, 7, 1, 2),
        (15, 127, 2, 2),
        (127, 7, 2, 2),
        (2047, 1023, 3, 4),
        (2048, 7, 4, 3),
        (2**20, 7, 6, 4),
        (2**25 - 1, 7, 7, 5),
        (2**25, 7, 8, 5),  # three bytes lost
        (15, 2**31 - 1, 9, 6),
    ],
)
def test_sizes_side_by_side(length, tag, interleaved_size, adopted_size):
    assert (INTERLEAVED.size(tag, length), ADOPTED.size(tag, length)) == (interleaved_size, adopted_size)


@given(UINT32, UINT32, st.sampled_from(sorted(TAG_HEADERS)))
def test_encoded_tag_headers_are_decoded(tag, length, name):
    header = TAG_HEADERS[name]
    out = bytearray(b"x")
    header.write(out, tag, length)
    assert header.read(bytes(out), 1) == (tag, length, len(out))
    assert header.size(tag, length) == len(out) - 1
    with pytest.raises(TruncatedError):
        header.read(bytes(out[:-1]), 1)


@given(UINT32, UINT32)
def test_bits_of_tag_and_length_are_interleaved(tag, length):
    number = interleave(tag, length)
    assert deinterleave(number) == (tag, length)
    assert number == sum((length >> i & 1) << 2 * i | (tag >> i & 1) << 2 * i + 1 for i in range(32))


def test_numbers_of_more_than_32_bits_are_rejected():
    with pytest.raises(EncodeError, match="32 bits"):
        interleave(2**32, 0)
