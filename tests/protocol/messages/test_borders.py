"""Counts and sizes at the limits of their encoding: every executor equals Kafka, also in repeated calls.

A frequent shape gets its own generated function. Therefore each value is encoded often enough to reach it, mixed with
values of other shapes.
"""

from __future__ import annotations

import json
import os
import random
from uuid import UUID

import pyarrow as pa
import pytest
from tests.agreement.message_lines import read_lines
from tests.protocol.messages.borders import COUNTS, FEW_COUNTS, SPECS, find_class, yield_border_values
from tests.protocol.messages.rows import to_row

from kafkaframes.errors import EncodeError
from kafkaframes.protocol.messages import class_of, message
from kafkaframes.protocol.messages._kernels_hot import hot_messages
from kafkaframes.protocol.messages.codec import HotShapes
from kafkaframes.protocol.messages.columns import decode_columns, is_specialized
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.load import load_message

TRUTH = SPECS.parent / "borders.jsonl.gz"
REPETITIONS = HotShapes.MIN_OCCURRENCES + 2
DEEP = os.environ.get("KAFKAFRAMES_PROFILE") == "deep"
FIELD_SHAPES_SPEC = {
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


def assert_executors_agree(cls, version, cases):
    """Assert that every executor equals the interpreter, also for shuffled cases with functions of their own."""
    codec = cls.codec(version)
    expected_bytes = [codec.encode_interpreted(value) for _, value in cases]
    order = [index for index in range(len(cases)) for _ in range(REPETITIONS)]
    random.Random(1).shuffle(order)
    for index in order:
        path, value = cases[index]
        data = expected_bytes[index]
        assert value.encode(version) == data, f"{cls.__name__} v{version} {path}"
        assert cls.decode(data, version, mode="strict") == value, f"{cls.__name__} v{version} {path}"
    for (path, value), data in zip(cases, expected_bytes, strict=True):
        assert value.size(version) == len(data), path
    columns = cls.decode_columns(expected_bytes, version, mode="strict")
    assert columns.field("_error").null_count == len(cases)
    for row, (path, value) in zip(columns, cases, strict=True):
        assert row.as_py() == to_row(value, codec.plan.root), f"{cls.__name__} v{version} {path}"
    assert cls.encode_columns(columns, version).to_pylist() == expected_bytes


MESSAGE_VERSIONS = {(line["message"], line["version"]): None for line in read_lines(TRUTH)}


@pytest.mark.parametrize(("name", "version"), MESSAGE_VERSIONS)
def test_every_border_value_is_encoded_like_in_kafka(name, version):
    lines = [line for line in read_lines(TRUTH) if (line["message"], line["version"]) == (name, version)]
    cls = find_class(name)
    cases = list(yield_border_values(cls, version))
    assert len(cases) == len(lines), "see tests/data/README.md to regenerate borders.jsonl.gz"
    for (path, value), line in zip(cases, lines, strict=True):
        truth = bytes.fromhex(line["bytes"])
        assert json.loads(json.dumps(value.to_json(version, records="base64", unknown_tags=False))) == line["json"], (
            path
        )
        for _ in range(REPETITIONS):
            assert value.encode(version) == truth, path
            assert cls.decode(truth, version) == value, path
    assert_executors_agree(cls, version, [case for case in cases if DEEP or "=16" not in case[0]])


@pytest.mark.parametrize("version", [0, 1])
def test_border_values_in_every_kind_of_field(version):
    cls = class_of(load_message(json.dumps(FIELD_SHAPES_SPEC)))
    assert_executors_agree(
        cls, version, list(yield_border_values(cls, version, COUNTS if DEEP else FEW_COUNTS, most_structs=300))
    )


@pytest.mark.parametrize("name", catalog.list_names())
def test_border_values_of_every_message(name):
    cls = message(name)
    for version in cls.spec.valid_versions if DEEP else list(cls.spec.valid_versions)[-1:]:
        codec = cls.codec(version)
        for what, value in yield_border_values(cls, version, COUNTS if DEEP else (126, 127), most_structs=127):
            data = codec.encode_interpreted(value)
            for _ in range(REPETITIONS):
                assert value.encode(version) == data, f"v{version} {what}"
                assert cls.decode(data, version) == value, f"v{version} {what}"


@pytest.mark.parametrize(("name", "version"), hot_messages())
def test_straight_line_decoders_with_border_values(name, version):
    cls = message(name)
    plan = cls.codec(version).plan
    if not is_specialized(plan):
        pytest.skip("not compiled on this machine: kafkaframes kernels warm --decoders")
    values = [value for _, value in yield_border_values(cls, version, COUNTS if DEEP else FEW_COUNTS)]
    data = [cls.codec(version).encode_interpreted(value) for value in values]
    fast, slow = (decode_columns(plan, data, specialized=one) for one in (True, False))
    assert fast.equals(slow)
    assert fast.field("_error").null_count == len(data)
    assert fast.to_pylist() == [to_row(value, plan.root) for value in values]


def test_only_frequent_shapes_get_their_own_functions():
    """Otherwise, the tests above would only test one kind of function."""
    codec = message("PartitionRecord").codec(1)
    value = message("PartitionRecord")(replicas=[1, 2], isr=[1], directories=[])
    value.encode(1)
    functions = next(one for name, one in codec._write.__globals__.items() if name.startswith("packers"))
    functions.clear()
    functions.occurrences.clear()
    shapes = []
    for _ in range(REPETITIONS):
        value.replace(directories=[UUID(int=number) for number in range(130)]).encode(1)
        shapes.append(len(functions))
    assert shapes == [0] * (HotShapes.MIN_OCCURRENCES - 1) + [1] * (REPETITIONS - HotShapes.MIN_OCCURRENCES + 1)
    assert HotShapes.MAX_NUMBERS < 127, "the length of an array with a generated function must fit into one byte"


class TestDuplicateTags:
    """Kafka's writers write both tags, and its readers silently use the last one."""

    fetch = message("FetchRequest")

    @pytest.mark.parametrize("known_fields", [{"cluster_id": "c"}, {}], ids=["set", "at its default"])
    def test_an_unknown_tag_with_the_number_of_a_known_field_is_rejected(self, known_fields):
        value = self.fetch(**known_fields, unknown_tags=[(0, b"x")])
        for _ in range(REPETITIONS):
            with pytest.raises(EncodeError, match=r"unknown tag 0 .*ClusterId"):
                value.encode(17)
        for tag_header in ("adopted", "interleaved"):
            with pytest.raises(EncodeError, match=r"unknown tag 0 .*ClusterId"):
                value.encode(17, tag_header=tag_header)

    def test_a_tag_of_other_versions_is_rejected(self):
        value = self.fetch(unknown_tags=[(1, b"x")])  # ReplicaState, from version 15
        with pytest.raises(EncodeError, match=r"unknown tag 1 .*other versions"):
            value.encode(14)

    def test_columns_with_the_tag_of_a_known_field_are_rejected(self):
        good = self.fetch(cluster_id="c", unknown_tags=[(9, b"x")])
        columns = self.fetch.decode_columns([good.encode(17)], 17)
        rows = columns.to_pylist()
        rows[0]["_unknown_tags"] = [{"tag": 0, "data": b"x"}]
        with pytest.raises(EncodeError, match=r"row 0, field _unknown_tags: .*ClusterId"):
            self.fetch.encode_columns(pa.array(rows, columns.type), 17)

    @pytest.mark.parametrize(
        "tags", [[(100, b""), (100, b"")], [(-1, b"")], [(2**31 - 1, b"")], [(101, b""), (100, b"")]]
    )
    def test_duplicate_negative_too_large_or_descending_tags_are_rejected(self, tags):
        value = message("HeartbeatRequest")(unknown_tags=[(tag, b"") for tag in tags])
        with pytest.raises(EncodeError, match="unknown tag"):
            value.encode(4)
        with pytest.raises(EncodeError, match="unknown tag"):
            message("HeartbeatRequest").codec(4).encode_interpreted(value)


def test_every_function_rejects_arrays_that_are_not_lists():
    """Previously, the generated function encoded a set of numbers, but the interpreter rejected it."""
    cls = message("PartitionRecord")
    for odd in ({1, 2}, b"12", range(2), "12"):
        value = cls(replicas=odd, isr=[1])
        for _ in range(REPETITIONS):
            with pytest.raises(EncodeError, match="expected a list"):
                value.encode(1)
    assert cls(replicas=(1, 2)).encode(1) == cls(replicas=[1, 2]).encode(1)
