"""Counts and sizes where their encoding gets longer: every executor, many times in one process, as Kafka writes them.

Generated functions change with use (a frequent shape gets its own function), so each value is encoded more often than
that takes, mixed with values of other shapes.
"""

from __future__ import annotations

import json
import os
import random
from uuid import UUID

import pyarrow as pa
import pytest
from tests.agreement.message_lines import read_lines
from tests.protocol.messages.borders import COUNTS, FEW, SPECS, find, values_at_borders
from tests.protocol.messages.rows import row_of

from kafkaframes.errors import EncodeError
from kafkaframes.protocol.messages import class_of, message
from kafkaframes.protocol.messages._kernels_hot import hot_messages
from kafkaframes.protocol.messages.codec import HotShapes
from kafkaframes.protocol.messages.columns import decode_columns, is_specialized
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.load import load_message

TRUTH = SPECS.parent / "borders.jsonl.gz"
TIMES = HotShapes.MIN_OCCURRENCES + 2
DEEP = os.environ.get("KAFKAFRAMES_PROFILE") == "deep"
SHAPES = {
    "name": "ShapesRequest",
    "type": "request",
    "apiKey": 1,
    "validVersions": "0-1",
    "flexibleVersions": "1+",
    "fields": [
        {"name": "First", "type": "[]int32", "versions": "0+"},
        {"name": "Flag", "type": "bool", "versions": "0+"},
        {"name": "Later", "type": "[]int16", "versions": "0+"},
        {"name": "Next", "type": "[]int64", "versions": "0+"},
        {"name": "Id", "type": "uuid", "versions": "0+"},
        {"name": "Ids", "type": "[]uuid", "versions": "0+"},
        {"name": "Flags", "type": "[]bool", "versions": "0+"},
        {"name": "Before", "type": "[]int8", "versions": "0+"},
        {"name": "Maybe", "type": "[]int32", "versions": "0+", "nullableVersions": "0+"},
        {"name": "After", "type": "[]float64", "versions": "0+"},
        {"name": "Text", "type": "string", "versions": "0+"},
        {"name": "Texts", "type": "[]string", "versions": "0+"},
        {"name": "Blobs", "type": "[]bytes", "versions": "0+"},
        {"name": "MaybeText", "type": "string", "versions": "0+", "nullableVersions": "0+"},
        {"name": "Batches", "type": "records", "versions": "0+", "nullableVersions": "0+"},
        {"name": "Numbers", "type": "[]uint16", "versions": "0+"},
        {"name": "Rows", "type": "[]Row", "versions": "0+", "fields": [
            {"name": "Number", "type": "int32", "versions": "0+"},
            {"name": "One", "type": "[]int32", "versions": "0+"},
            {"name": "Two", "type": "[]uint32", "versions": "0+"},
            {"name": "Last", "type": "[]int8", "versions": "0+"}]},
        {"name": "Tagged", "type": "[]int32", "versions": "1+", "taggedVersions": "1+", "tag": 0},
        {"name": "TaggedText", "type": "string", "versions": "1+", "taggedVersions": "1+", "tag": 1},
        {"name": "Final", "type": "[]int32", "versions": "0+"},
    ],
}  # fmt: skip


def check(cls, version, cases):
    """Hold every executor against the interpreter, each case as often as makes functions of its own, and shuffled."""
    codec = cls.codec(version)
    expected_bytes = [codec.encode_interpreted(value) for _, value in cases]
    order = [index for index in range(len(cases)) for _ in range(TIMES)]
    random.Random(1).shuffle(order)
    for index in order:
        what, value = cases[index]
        data = expected_bytes[index]
        assert value.encode(version) == data, f"{cls.__name__} v{version} {what}"
        assert cls.decode(data, version, mode="strict") == value, f"{cls.__name__} v{version} {what}"
    for (what, value), data in zip(cases, expected_bytes, strict=True):
        assert value.size(version) == len(data), what
    columns = cls.decode_columns(expected_bytes, version, mode="strict")
    assert columns.field("_error").null_count == len(cases)
    for row, (what, value) in zip(columns, cases, strict=True):
        assert row.as_py() == row_of(value, codec.plan.root), f"{cls.__name__} v{version} {what}"
    assert cls.encode_columns(columns, version).to_pylist() == expected_bytes


LINES = {(line["message"], line["version"]): None for line in read_lines(TRUTH)}


@pytest.mark.parametrize(("name", "version"), LINES)
def test_every_border_is_as_kafka_writes_it_the_first_time_and_later(name, version):
    lines = [line for line in read_lines(TRUTH) if (line["message"], line["version"]) == (name, version)]
    cls = find(name)
    cases = list(values_at_borders(cls, version))
    assert len(cases) == len(lines), "made from another list of values: tests/data/README.md says how to make it again"
    for (what, value), line in zip(cases, lines, strict=True):
        truth = bytes.fromhex(line["bytes"])
        assert json.loads(json.dumps(value.to_json(version, records="base64", unknown_tags=False))) == line["json"], (
            what
        )
        for _ in range(TIMES):
            assert value.encode(version) == truth, what
            assert cls.decode(truth, version) == value, what
    check(cls, version, [case for case in cases if DEEP or "=16" not in case[0]])


@pytest.mark.parametrize("version", [0, 1])
def test_every_kind_of_field_at_every_place_of_a_run(version):
    cls = class_of(load_message(json.dumps(SHAPES)))
    check(cls, version, list(values_at_borders(cls, version, COUNTS if DEEP else FEW, most_structs=300)))


@pytest.mark.parametrize("name", catalog.list_names())
def test_every_message_at_the_border_of_a_byte(name):
    cls = message(name)
    for version in cls.spec.valid_versions if DEEP else list(cls.spec.valid_versions)[-1:]:
        codec = cls.codec(version)
        for what, value in values_at_borders(cls, version, COUNTS if DEEP else (126, 127), most_structs=127):
            data = codec.encode_interpreted(value)
            for _ in range(TIMES):
                assert value.encode(version) == data, f"v{version} {what}"
                assert cls.decode(data, version) == value, f"v{version} {what}"


@pytest.mark.parametrize(("name", "version"), hot_messages())
def test_straight_line_decoders_at_every_border(name, version):
    cls = message(name)
    plan = cls.codec(version).plan
    if not is_specialized(plan):
        pytest.skip("not compiled on this machine: kafkaframes kernels warm --decoders")
    values = [value for _, value in values_at_borders(cls, version, COUNTS if DEEP else FEW)]
    data = [cls.codec(version).encode_interpreted(value) for value in values]
    fast, slow = (decode_columns(plan, data, specialized=one) for one in (True, False))
    assert fast.equals(slow)
    assert fast.field("_error").null_count == len(data)
    assert fast.to_pylist() == [row_of(value, plan.root) for value in values]


def test_a_shape_that_is_seen_often_has_a_function_of_its_own_and_the_first_values_had_none():
    """Else the tests above would test one side of the switch."""
    codec = message("PartitionRecord").codec(1)
    value = message("PartitionRecord")(replicas=[1, 2], isr=[1], directories=[])
    value.encode(1)
    functions = next(one for name, one in codec._write.__globals__.items() if name.startswith("packers"))
    functions.clear()
    functions.occurrences.clear()
    shapes = []
    for _ in range(TIMES):
        value.replace(directories=[UUID(int=number) for number in range(130)]).encode(1)
        shapes.append(len(functions))
    assert shapes == [0] * (HotShapes.MIN_OCCURRENCES - 1) + [1] * (TIMES - HotShapes.MIN_OCCURRENCES + 1)
    assert HotShapes.MAX_NUMBERS < 127, "a count of such a shape is one byte"


class TestOneTagTwice:
    """Kafka's writers put both into the bytes, and its readers take the last one without a word."""

    fetch = message("FetchRequest")

    @pytest.mark.parametrize("known_fields", [{"cluster_id": "c"}, {}], ids=["set", "at its default"])
    def test_an_unknown_tag_with_the_number_of_a_known_field_is_refused_by_both_names(self, known_fields):
        value = self.fetch(**known_fields, unknown_tags=[(0, b"x")])
        for _ in range(TIMES):
            with pytest.raises(EncodeError, match=r"unknown tag 0 .*ClusterId"):
                value.encode(17)
        for tag_header in ("adopted", "interleaved"):
            with pytest.raises(EncodeError, match=r"unknown tag 0 .*ClusterId"):
                value.encode(17, tag_header=tag_header)

    def test_a_tag_of_other_versions_is_refused_too_since_kafka_would_not_read_it(self):
        value = self.fetch(unknown_tags=[(1, b"x")])  # ReplicaState, from 15 on
        with pytest.raises(EncodeError, match=r"unknown tag 1 .*other versions"):
            value.encode(14)

    def test_in_columns_too(self):
        good = self.fetch(cluster_id="c", unknown_tags=[(9, b"x")])
        columns = self.fetch.decode_columns([good.encode(17)], 17)
        rows = columns.to_pylist()
        rows[0]["_unknown_tags"] = [{"tag": 0, "data": b"x"}]
        with pytest.raises(EncodeError, match=r"row 0, field _unknown_tags: .*ClusterId"):
            self.fetch.encode_columns(pa.array(rows, columns.type), 17)

    @pytest.mark.parametrize(
        "tags", [[(100, b""), (100, b"")], [(-1, b"")], [(2**31 - 1, b"")], [(101, b""), (100, b"")]]
    )
    def test_unknown_tags_twice_negative_too_large_or_descending_are_refused(self, tags):
        value = message("HeartbeatRequest")(unknown_tags=[(tag, b"") for tag in tags])
        with pytest.raises(EncodeError, match="unknown tag"):
            value.encode(4)
        with pytest.raises(EncodeError, match="unknown tag"):
            message("HeartbeatRequest").codec(4).encode_interpreted(value)


def test_an_array_that_is_no_list_is_refused_by_every_function():
    """A set of numbers was written by the generated function and refused by the interpreter."""
    cls = message("PartitionRecord")
    for odd in ({1, 2}, b"12", range(2), "12"):
        value = cls(replicas=odd, isr=[1])
        for _ in range(TIMES):
            with pytest.raises(EncodeError, match="expected a list"):
                value.encode(1)
    assert cls(replicas=(1, 2)).encode(1) == cls(replicas=[1, 2]).encode(1)
