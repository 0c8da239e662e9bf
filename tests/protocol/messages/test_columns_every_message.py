"""Columns equal objects, for every message at every version, with each executor."""

from __future__ import annotations

import random

import pytest
from tests.protocol.messages.rows import row_of
from tests.protocol.messages.test_every_message import SEEDS, _damage
from tests.protocol.messages.values import every_pair, make_value

from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages._kernels_hot import hot_messages
from kafkaframes.protocol.messages.columns import compile_specialized, decode_columns, is_specialized

NAMES = sorted({name for name, _ in every_pair()})


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_the_objects_both_ways(name):
    cls = message(name)
    for version in cls.spec.valid_versions:
        values = [make_value(cls, version, seed, unknown_tags=True) for seed in SEEDS]
        data = [value.encode(version) for value in values]
        for mode in ("reference", "strict"):
            columns = cls.decode_columns(data, version, mode=mode)
            columns.validate(full=True)
            rows = [row_of(value, cls.codec(version).plan.root) for value in values]
            assert repr(columns.to_pylist()) == repr(rows), f"v{version}"  # repr: NaN
        assert cls.encode_columns(columns, version).to_pylist() == data, f"v{version}"


@pytest.mark.parametrize("name", NAMES)
def test_damaged_messages_end_as_the_objects_say(name):
    """The objects' interpreter is the kernels' plain twin: the same value, or the same error in the same words."""
    cls = message(name)
    rng = random.Random(name)
    for version in cls.spec.valid_versions:
        good = [make_value(cls, version, seed, unknown_tags=True).encode(version) for seed in SEEDS]
        bad = [_damage(data, rng) for data in good if data for _ in range(4)]
        for mode in ("reference", "strict"):
            columns = cls.decode_columns([*bad, *good], version, mode=mode)
            columns.validate(full=True)
            assert repr(columns.to_pylist()[: len(bad)]) == repr([_outcome(cls, data, version, mode) for data in bad])
            assert columns.field("_error")[len(bad) :].null_count == len(good), "one bad message spoils no other"


def _outcome(cls, data, version, mode):
    plan = cls.codec(version).plan
    try:
        return row_of(cls.decode(data, version, mode=mode), plan.root)
    except DecodeError as error:
        nothing = dict.fromkeys(row_of(cls(), plan.root))
        return nothing | {"_error": str(error)}


def refuse(data):
    """Replace the objects' error messages: without them an error has the byte position, less exactly in runs of
    fields.
    """
    raise DecodeError(f"{len(data)} bytes")


@pytest.mark.parametrize(("name", "version"), hot_messages())
def test_straight_line_code_does_what_the_interpreter_does(name, version):
    """`make setup` compiles all of them; without it, two are compiled here and the other tests wait for it."""
    cls = message(name)
    plan = cls.codec(version).plan
    if name in ("HeartbeatRequest", "ProduceResponse"):
        compile_specialized(plan)
    if not is_specialized(plan):
        pytest.skip("not compiled on this machine: kafkaframes kernels warm --decoders")
    rng = random.Random(name)
    good = [make_value(cls, version, seed, unknown_tags=True).encode(version) for seed in range(20)]
    messages = good + [_damage(data, rng) for data in good if data for _ in range(20)]
    fast, slow = (decode_columns(plan, messages, specialized=one, decode=refuse) for one in (True, False))
    fast.validate(full=True)
    assert repr(fast.to_pylist()) == repr(slow.to_pylist())
