"""Varints: examples of the seed documents, Kafka's limits, and properties for any value and any bytes."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import DecodeError, EncodeError, TruncatedError
from kafkaframes.wire import varint

FORMS = ("unsigned_varint", "unsigned_varlong", "varint", "varlong")
FORMS_OF_LENGTHS = (
    "unsigned_varint",
    "unsigned_varlong",
)  # encodings of compact lengths; the others are zig-zag encodings
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
VALUE_RANGE_BY_FORM = {"unsigned_varint": INT32, "unsigned_varlong": INT64, "varint": INT32, "varlong": INT64}
MAX_BYTES_BY_FORM = {"unsigned_varint": 5, "unsigned_varlong": 10, "varint": 5, "varlong": 10}

# Examples of an article about base-128 varints, and limits of Kafka.
UNSIGNED = [
    (1, "01"),
    (300, "ac02"),
]
ZIGZAG = [
    (0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (2, "04"), (63, "7e"), (64, "8001"), (-64, "7f"), (-65, "8101"),
    (300, "d804"), (8191, "fe7f"), (8192, "808001"), (-8192, "ff7f"), (-8193, "818001"), (1048575, "feff7f"),
    (1048576, "80808001"), (1000012, "98897a"), (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f"),
]  # fmt: skip
LONG_ONLY = [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01")]
EXAMPLES = [
    *(("unsigned_varint", *example) for example in [*UNSIGNED, (-1, "ffffffff0f")]),
    *(("unsigned_varlong", *example) for example in [*UNSIGNED, (-1, "ff" * 9 + "01")]),
    *(("varint", *example) for example in ZIGZAG),
    *(("varlong", *example) for example in ZIGZAG + LONG_ONLY),
]


def read(form, raw, position=0):
    return getattr(varint, f"read_{form}")(raw, position)


def encode_varint(form, value):
    out = bytearray()
    getattr(varint, f"write_{form}")(out, value)
    return bytes(out)


@pytest.mark.parametrize(("form", "value", "expected_hex"), EXAMPLES)
def test_encodings_equal_the_seed_documents(form, value, expected_hex):
    raw = bytes.fromhex(expected_hex)
    assert encode_varint(form, value) == raw
    assert read(form, raw) == (value, len(raw))
    assert read(form, b"\xff" + raw + b"\xff", 1) == (value, len(raw) + 1)
    if form in FORMS_OF_LENGTHS:
        assert getattr(varint, f"size_of_{form}")(value) == len(raw)


@pytest.mark.parametrize(("signed", "unsigned"), [(0, 0), (-1, 1), (1, 2), (-2, 3), (2, 4), (-(2**31), 2**32 - 1)])
def test_zigzag_numbers(signed, unsigned):
    assert encode_varint("varint", signed) == encode_varint("unsigned_varint", unsigned)


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
def test_read_inverts_write(form, data):
    value = data.draw(VALUE_RANGE_BY_FORM[form])
    raw = encode_varint(form, value)
    assert read(form, raw) == (value, len(raw))
    if form in FORMS_OF_LENGTHS:
        assert getattr(varint, f"size_of_{form}")(value) == len(raw)


@pytest.mark.parametrize("form", FORMS)
@given(raw=st.binary(max_size=12))
def test_any_bytes_give_a_value_or_a_decode_error(form, raw):
    error = None
    try:
        _, end = read(form, raw)
    except DecodeError as decode_error:
        error = decode_error
    if error is not None:
        assert error.position == 0
    else:
        assert 1 <= end <= min(len(raw), MAX_BYTES_BY_FORM[form])
        assert raw[end - 1] < 0x80


@pytest.mark.parametrize("form", FORMS)
def test_a_continuation_bit_in_the_last_byte_is_an_error(form):
    raw = b"\x80" * MAX_BYTES_BY_FORM[form] + b"\x00"
    with pytest.raises(DecodeError) as caught:
        read(form, b"\x00" + raw, 1)
    assert caught.value.position == 1
    assert not isinstance(caught.value, TruncatedError)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("raw", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_a_truncated_varint_is_reported(form, raw):
    with pytest.raises(TruncatedError):
        read(form, raw)


def test_excess_bits_are_dropped_like_in_java():
    assert read("unsigned_varint", bytes.fromhex("8280808070")) == (2, 5)
    assert read("unsigned_varint", bytes.fromhex("8280808000")) == (2, 5)
    assert read("unsigned_varint", bytes.fromhex("ffffffff7f")) == (-1, 5)
    assert read("unsigned_varlong", b"\x82" + b"\x80" * 8 + b"\x7e") == (2, 10)


@pytest.mark.parametrize(
    ("form", "value"),
    [("unsigned_varint", 2**32), ("unsigned_varlong", 2**64), ("varint", 2**31), ("varlong", -(2**63) - 1)],
)
def test_values_outside_the_range_are_rejected(form, value):
    with pytest.raises(EncodeError):
        encode_varint(form, value)
    if form in FORMS_OF_LENGTHS:
        with pytest.raises(EncodeError):
            getattr(varint, f"size_of_{form}")(value)


def test_doctests():
    assert doctest.testmod(varint).failed == 0
