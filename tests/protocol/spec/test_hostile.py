"""Any bytes and any JSON give a spec or a SpecError, and accepted specs can be written and compared."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.emit import to_text
from kafkaframes.protocol.spec.evolution import compare_messages
from kafkaframes.protocol.spec.layout import list_slots

WORDS = st.sampled_from(
    ["0", "0+", "1+", "0-3", "2-3", "none", "A", "B", "S", "[]S", "int8", "string", "records", "null"]
)
SCALARS = st.one_of(
    WORDS, st.integers(-2, 5), st.booleans(), st.none(), st.floats(allow_nan=False), st.text(max_size=5)
)
TYPES = st.sampled_from(["int8", "string", "[]int32", "S", "[]S", "T", "bytes", "records", "uuid", "float64", "bool"])
RANGES = st.sampled_from(["0+", "1+", "2+", "0-1", "2-3", "none", "3"])


def build_fields_strategy(children):
    optional = {
        "nullableVersions": RANGES,
        "tag": st.integers(0, 2),
        "taggedVersions": RANGES,
        "default": WORDS,
        "mapKey": st.booleans(),
        "ignorable": st.booleans(),
        "fields": children,
    }
    required_fields = {"name": st.sampled_from("ABCDE"), "type": TYPES, "versions": RANGES}
    return st.lists(st.fixed_dictionaries(required_fields, optional=optional), max_size=4)


FIELDS = st.recursive(st.just([]), build_fields_strategy, max_leaves=6)
STRUCTS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("STU"), "versions": RANGES, "fields": FIELDS}), max_size=3
)
SPECS = st.fixed_dictionaries(
    {
        "apiKey": st.just(1),
        "type": st.sampled_from(["request", "data"]),
        "name": st.just("FooRequest"),
        "validVersions": st.sampled_from(["0-3", "2", "none"]),
        "flexibleVersions": st.sampled_from(["none", "0+", "2+"]),
        "fields": FIELDS,
    },
    optional={"commonStructs": STRUCTS},
)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3))


def load_or_error(source):
    try:
        return load_message(source)
    except SpecError:
        return None


@given(st.binary(max_size=60))
@example(b'"' + b'\\"' * 50_000)
@example(b"/*" * 50_000)
@example(b"[" * 50_000)
@example(b'{"a":' * 50_000)
def test_any_bytes_are_a_spec_or_a_spec_error(raw):
    load_or_error(raw)


@given(JSON)
def test_any_json_is_a_spec_or_a_spec_error(value):
    load_or_error(json.dumps(value))


@given(SPECS, st.sampled_from(["apiKey", "type", "name", "validVersions", "flexibleVersions", "fields", "x"]), SCALARS)
def test_any_value_under_any_key(spec, key, value):
    load_or_error(json.dumps({**spec, key: value}))


@given(SPECS, SPECS)
def test_accepted_specs_can_be_planned_written_and_compared(one, other):
    old, new = load_or_error(json.dumps(one)), load_or_error(json.dumps(other))
    if old is None:
        return
    again = load_message(to_text(old))
    assert compare_messages(old, again) == []
    for version in old.valid_versions:
        assert list_slots(old, version) == list_slots(again, version)
    if new is not None:
        compare_messages(old, new)
