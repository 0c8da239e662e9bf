"""Columns equal objects, for every message at every version, with each executor."""

from __future__ import annotations

import random

import pytest
from tests.protocol.messages.rows import to_row
from tests.protocol.messages.test_every_message import SEEDS, _damage
from tests.protocol.messages.values import list_message_versions, make_value

from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages._kernels_hot import hot_messages
from kafkaframes.protocol.messages.columns import compile_specialized, decode_columns, is_specialized

MESSAGE_NAMES = sorted({name for name, _ in list_message_versions()})


@pytest.mark.parametrize("name", MESSAGE_NAMES)
def test_columns_and_objects_decode_and_encode_equally(name):
    cls = message(name)
    for version in cls.spec.valid_versions:
        values = [make_value(cls, version, seed, unknown_tags=True) for seed in SEEDS]
        data = [value.encode(version) for value in values]
        for mode in ("reference", "strict"):
            columns = cls.decode_columns(data, version, mode=mode)
            columns.validate(full=True)
            rows = [to_row(value, cls.codec(version).plan.root) for value in values]
            assert repr(columns.to_pylist()) == repr(rows), f"v{version}"  # repr: NaN
        assert cls.encode_columns(columns, version).to_pylist() == data, f"v{version}"


@pytest.mark.parametrize("name", MESSAGE_NAMES)
def test_columns_and_objects_report_equal_errors_for_damaged_messages(name):
    """The objects' interpreter is the reference for the kernels: both return equal values or errors."""
    cls = message(name)
    rng = random.Random(name)
    for version in cls.spec.valid_versions:
        good = [make_value(cls, version, seed, unknown_tags=True).encode(version) for seed in SEEDS]
        bad = [_damage(data, rng) for data in good if data for _ in range(4)]
        for mode in ("reference", "strict"):
            columns = cls.decode_columns([*bad, *good], version, mode=mode)
            columns.validate(full=True)
            assert repr(columns.to_pylist()[: len(bad)]) == repr(
                [_decode_or_get_error(cls, data, version, mode) for data in bad]
            )
            assert columns.field("_error")[len(bad) :].null_count == len(good), "invalid messages changed others"


def _decode_or_get_error(cls, data, version, mode):
    plan = cls.codec(version).plan
    try:
        return to_row(cls.decode(data, version, mode=mode), plan.root)
    except DecodeError as error:
        nothing = dict.fromkeys(to_row(cls(), plan.root))
        return nothing | {"_error": str(error)}


def raise_short_error(data):
    """Replace the objects' error messages. Such an error has only a byte position, which is less exact in joined
    fields.
    """
    raise DecodeError(f"{len(data)} bytes")


@pytest.mark.parametrize(("name", "version"), hot_messages())
def test_straight_line_code_equals_the_interpreter(name, version):
    """`make setup` compiles all of them. Without it, this test compiles two, and the others are skipped."""
    cls = message(name)
    plan = cls.codec(version).plan
    if name in ("HeartbeatRequest", "ProduceResponse"):
        compile_specialized(plan)
    if not is_specialized(plan):
        pytest.skip("not compiled on this machine: kafkaframes kernels warm --decoders")
    rng = random.Random(name)
    good = [make_value(cls, version, seed, unknown_tags=True).encode(version) for seed in range(20)]
    messages = good + [_damage(data, rng) for data in good if data for _ in range(20)]
    fast, slow = (decode_columns(plan, messages, specialized=one, decode=raise_short_error) for one in (True, False))
    fast.validate(full=True)
    assert repr(fast.to_pylist()) == repr(slow.to_pylist())
