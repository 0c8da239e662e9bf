"""Every primitive is encoded and decoded; invalid bytes are decoded as by Kafka."""

import doctest
import sys
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import DecodeError, EncodeError, TruncatedError
from kafkaframes.wire import primitives as wire

EXAMPLES = [  # type, value, bytes of the plain encoding, bytes of the compact encoding
    ("bool", True, "01", "01"),
    ("int8", -2, "fe", "fe"),
    ("int16", -2, "fffe", "fffe"),
    ("uint16", 65535, "ffff", "ffff"),
    ("int32", 123, "0000007b", "0000007b"),
    ("uint32", 0xFFFFFFFF, "ffffffff", "ffffffff"),
    ("int64", -1, "ff" * 8, "ff" * 8),
    ("float64", 1.5, "3ff8000000000000", "3ff8000000000000"),
    ("uuid", UUID(int=1), "00" * 15 + "01", "00" * 15 + "01"),
    ("string", "hé", "000368c3a9", "0468c3a9"),
    ("string", "", "0000", "01"),
    ("string", None, "ffff", "00"),
    ("bytes", b"ab", "000000026162", "036162"),
    ("bytes", None, "ffffffff", "00"),
    ("records", b"", "00000000", "01"),
]
VALUE_STRATEGIES = {
    "bool": st.booleans(),
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "uuid": st.uuids(),
    "string": st.none() | st.text(max_size=200),
    "bytes": st.none() | st.binary(max_size=200),
    "records": st.none() | st.binary(max_size=200),
}


@pytest.mark.parametrize(("name", "value", "plain", "compact"), EXAMPLES)
def test_values_have_the_expected_bytes(name, value, plain, compact):
    for table, expected_hex in ((wire.PRIMITIVE_CODECS, plain), (wire.COMPACT_PRIMITIVE_CODECS, compact)):
        read, write = table[name]
        out = bytearray(b"x")
        write(out, value)
        assert out[1:].hex() == expected_hex
        assert read(bytes(out) + b"y", 1) == (value, len(out))


@given(st.data(), st.sampled_from(sorted(VALUE_STRATEGIES)), st.booleans())
def test_encoded_values_are_decoded(data, name, compact):
    value = data.draw(VALUE_STRATEGIES[name])
    read, write = (wire.COMPACT_PRIMITIVE_CODECS if compact else wire.PRIMITIVE_CODECS)[name]
    out = bytearray()
    write(out, value)
    assert read(bytes(out), 0) == (value, len(out))
    for cut_at in range(len(out)):
        with pytest.raises(TruncatedError):
            read(bytes(out[:cut_at]), 0)


@given(st.binary(max_size=40), st.sampled_from(sorted(VALUE_STRATEGIES)), st.booleans())
def test_any_bytes_give_a_value_or_an_error(raw, name, compact):
    read, _ = (wire.COMPACT_PRIMITIVE_CODECS if compact else wire.PRIMITIVE_CODECS)[name]
    try:
        _, position = read(raw, 0)
    except DecodeError:
        return
    assert 0 < position <= len(raw)


@pytest.mark.parametrize(
    ("raw", "text"),
    [  # the result of Java's new String(bytes, UTF_8)
        ("61ff62", "a�b"),
        ("eda080", "�"),
        ("eda0", "�"),
        ("eda041", "�A"),
        ("ed9fbf", "퟿"),
        ("e282", "�"),
        ("e28241", "�A"),
        ("f09f98", "�"),
        ("f0808080", "����"),
        ("f4908080", "����"),
        ("c0af", "��"),
        ("80", "�"),
        ("ed", "�"),
        ("eda080edb080", "��"),
    ],
)
def test_broken_utf8_is_replaced_as_in_java(raw, text):
    assert wire.decode_java_text(bytes.fromhex(raw)) == text


@given(st.binary(max_size=60))
def test_replacement_never_fails(raw):
    assert isinstance(wire.decode_java_text(raw), str)


def test_no_python_call_per_invalid_byte():
    steps = 0

    def count(*_):
        nonlocal steps
        steps += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        text = wire.decode_java_text(b"\xff" * 32767)
    finally:
        sys.settrace(before)
    assert text == "\ufffd" * 32767
    assert steps < 20  # one error per byte, each with a scan of all later bytes, was quadratic


def test_lone_surrogates_become_question_marks_and_pairs_one_character():
    assert wire.encode_java_text("a\ud800b") == b"a?b"
    assert wire.encode_java_text("\ud83d\ude00") == "😀".encode()


@pytest.mark.parametrize(("length", "kind"), [(32767, None), (32768, EncodeError)])
def test_a_string_has_at_most_32767_bytes(length, kind):
    for _, write in (wire.PRIMITIVE_CODECS["string"], wire.COMPACT_PRIMITIVE_CODECS["string"]):
        if kind is None:
            write(bytearray(), "a" * length)
        else:
            with pytest.raises(kind):
                write(bytearray(), "a" * length)
    out = bytearray()
    wire.COMPACT_PRIMITIVE_CODECS["bytes"][1](out, b"a" * length)
    if kind is not None:
        with pytest.raises(DecodeError, match="32768"):
            wire.COMPACT_PRIMITIVE_CODECS["string"][0](bytes(out), 0)


@pytest.mark.parametrize("raw", ["ffffffff0f", "8080808008"])
def test_a_compact_length_is_a_java_int(raw):
    length, _ = wire.read_compact_length(bytes.fromhex(raw), 0)
    assert length == (-2 if raw.startswith("ff") else 2**31 - 1)


@pytest.mark.parametrize(
    ("name", "value"), [("int8", 128), ("uint16", -1), ("int32", "1"), ("uuid", "x"), ("bytes", "x"), ("string", b"x")]
)
def test_a_value_of_another_type_or_range_is_an_error(name, value):
    with pytest.raises(EncodeError):
        wire.PRIMITIVE_CODECS[name][1](bytearray(), value)


def test_doctests():
    assert doctest.testmod(wire).failed == 0
