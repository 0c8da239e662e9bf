"""JSON parsed in columns equals JSON parsed value by value, for any bytes, and handles all plain values."""

import json

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaframes.scan.values.columns import decode_to_struct
from kafkaframes.scan.values.json_values import JsonDecoder

INNER = {"type": "object", "properties": {"a": {"type": "integer"}, "s": {"type": "string"}}}
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": ["null", "integer"]},
        "d": {"type": "number"},
        "s": {"type": "string"},
        "b": {"type": "boolean"},
        "offset": {"type": "string"},
        "inner": INNER,
        "list": {"type": "array", "items": {"type": "array", "items": INNER}},
    },
}
SCALARS = st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats() | st.text(max_size=3)
LEAVES = SCALARS | st.fixed_dictionaries({}, optional={"a": SCALARS, "s": SCALARS, "zz": SCALARS})
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(SCHEMA["properties"], LEAVES),
        "list": st.lists(st.lists(LEAVES, max_size=2)),
        "zz": LEAVES,
    },
)
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "a": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False),
        "s": st.text(max_size=3),
        "inner": st.none() | st.fixed_dictionaries({}, optional={"a": st.integers(0, 9), "zz": st.integers(0, 9)}),
        "list": st.lists(st.none() | st.lists(st.none() | st.just({"s": "x"}), max_size=2), max_size=2),
        "zz": st.just(1),
    },
)
VALUES = st.none() | (OBJECTS | FITTING).map(lambda one: json.dumps(one).encode()) | st.binary(max_size=4)


class RowByRowDecoder:
    """The decoder without its column parser, which parses each value separately."""

    def __init__(self, decoder):
        self.decode, self.fields = decoder.decode, decoder.fields


@pytest.mark.parametrize("other_fields", [True, False])
@given(values=st.lists(VALUES, max_size=5) | st.lists(FITTING.map(lambda one: json.dumps(one).encode()), max_size=5))
@example(values=[b'{"a":1},"w":3'])
@example(values=[b'{"a":1}}\n{"v":{"a":2}', b""])
@example(values=[b'{"a":1},"v":{"a":2}'])
@example(values=[b"null", None])
@example(values=[b'{"d":NaN}'])
@example(values=[b'{"d":1' + b"0" * 400 + b"}"])
@example(values=[b'{"a":1,"a":2}'])
@example(values=[b'{"s":"\xff"}'])
@example(values=[b'{"inner":{"a":1},"list":[[{"zz":1,"s":"x"}],null]}', b'{"list":[]}'])
def test_both_parsers_give_the_same(other_fields, values):
    decoder = JsonDecoder(SCHEMA, other_fields=other_fields)
    array = pa.array(values, pa.binary())
    expected_struct, reasons = decode_to_struct(array, RowByRowDecoder(decoder))
    result, actual_reasons = decode_to_struct(array, decoder)
    assert (result.to_pylist(), actual_reasons) == (expected_struct.to_pylist(), reasons)
    assert result.type == expected_struct.type
    result.validate(full=True)


def test_plain_values_are_parsed_at_once_and_others_one_by_one():
    array = pa.array([b'{"a": 1, "zz": 2}', None], pa.binary())
    assert JsonDecoder(SCHEMA, other_fields=False).decode_columns(array)["a"].to_pylist() == [1, None]
    assert JsonDecoder(SCHEMA).decode_columns(array) is None
    assert JsonDecoder({"type": "object", "properties": {"any": {}}}).decode_columns(array) is None
