"""Records as Python values: the doctests' promises and the values of a hand-made batch."""

import doctest

import pytest

from kafkaframes.errors import CorruptRecordError
from kafkaframes.records import batch, control, layout
from kafkaframes.wire import text


@pytest.mark.parametrize("module", [batch, control, layout, text], ids=lambda module: module.__name__)
def test_doctests(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\x80\x00\x00\x01"])
def test_a_control_key_that_kafka_refuses(key):
    with pytest.raises(CorruptRecordError):
        control.control_type(key)


def test_a_control_type_of_the_future_is_unknown():
    assert control.control_type(b"\x00\x01\x00\x63\x00") == "UNKNOWN"
    assert control.control_type(b"\x00\x00\xff\xff") == "UNKNOWN"


def test_malformed_text_is_replaced_as_java_does():
    # expectations: one U+FFFD for each maximal part, one for a whole encoded surrogate
    assert text.java_text(b"\xed\xa0\x80x") == "\ufffdx"
    assert text.java_text(b"\xed\xa0x") == "\ufffdx"
    assert text.java_text(b"\xe1\x80x") == "\ufffdx"
    assert text.java_text(b"\xf8\x80\x80") == "\ufffd\ufffd\ufffd"
    assert text.java_text("é€😀".encode()) == "é€😀"
