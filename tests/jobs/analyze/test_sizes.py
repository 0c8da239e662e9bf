"""Sizes with each tag header equal those of encoded messages; columns are converted to fit a version."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from tests.jobs.analyze.examples_by_layout import columns
from tests.protocol.messages.values import make_value

from kafkaframes.jobs.analyze.sizes import (
    compute_default_size,
    compute_sizes,
    count_saved_bytes,
    fit_columns,
    iterate_lengths,
)
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.spec import catalog

FLEXIBLE = [name for name in catalog.list_names() if not catalog.load_spec(name).flexible_versions.is_empty][::6]


def measure_messages(name, version, header, *values):
    counts = Counter()
    plan, array = message(name).codec(version).plan, columns(name, version, *values)
    message_sizes = compute_sizes(plan, array)
    if header != "adopted":
        message_sizes = message_sizes - count_saved_bytes(header, plan, array, counts)
    return message_sizes.tolist(), counts


@pytest.mark.parametrize("unknown_tags", [False, True])
def test_sizes_with_each_header_are_those_of_encoded_messages(unknown_tags):
    fields = 0
    for name in FLEXIBLE:
        cls = message(name)
        version = cls.spec.valid_versions.highest
        if cls.spec.valid_versions.is_empty or not cls.spec.flexible_versions.contains(version):
            continue
        values = [make_value(cls, version, seed, unknown_tags=unknown_tags) for seed in range(3)]
        for header in ("adopted", "interleaved"):
            message_sizes, counts = measure_messages(name, version, header, *values)
            assert message_sizes == [len(value.encode(version, tag_header=header)) for value in values], (
                f"{name} {header}"
            )
        fields += counts["tagged fields"]
    assert fields > 10


def test_tag_sections_have_the_computed_sizes():
    """One section with two fields that no spec declares: values of 3 and of 200 bytes.

    Adopted 1 + 1 and 1 + 2 bytes; interleaved 6 bits in one byte and 15 bits in three; typed 1 + 1 each.
    """
    cls = message("HeartbeatRequest")
    values = cls(unknown_tags=[(5, b"abc"), (99, b"x" * 200)]), cls()
    by_header = {
        name: measure_messages("HeartbeatRequest", 4, name, *values) for name in ("adopted", "interleaved", "typed")
    }
    adopted_sizes, interleaved_sizes, typed_sizes = (np.array(message_sizes) for message_sizes, _ in by_header.values())
    assert (adopted_sizes - interleaved_sizes).tolist() == [1, 0]
    assert (adopted_sizes - typed_sizes).tolist() == [1, 0]
    assert by_header["typed"][1] == {"sections": 2, "empty sections": 1, "tagged fields": 2}


def test_layouts_that_the_kip_rejects_have_the_computed_sizes():
    """Two HeartbeatRequests: one has 8 bytes with a null string, the other has tags of 5 and 203 bytes, too."""
    cls = message("HeartbeatRequest")
    values = cls(unknown_tags=[(5, b"abc"), (99, b"x" * 200)]), cls()
    assert measure_messages("HeartbeatRequest", 4, "adopted", *values)[0] == [8 + 5 + 203, 8]
    assert measure_messages("HeartbeatRequest", 4, "escape", *values)[0] == [8 + 5 + 203 + 1, 7]
    alone = 1 + 2 + (2 + 4) + 2 + 2
    assert measure_messages("HeartbeatRequest", 4, "all tagged", *values)[0] == [alone + 5 + 203, alone]


def test_a_value_at_its_default_is_not_written():
    cls = message("ApiVersionsResponse")
    feature = cls.SupportedFeatureKey(name="f", min_version=0, max_version=1)
    (bare,), counts = measure_messages("ApiVersionsResponse", 3, "interleaved", cls())
    assert counts == {"sections": 1, "empty sections": 1, "tagged fields": 0}
    (full,), counts = measure_messages("ApiVersionsResponse", 3, "interleaved", cls(supported_features=[feature]))
    assert counts == {"sections": 2, "empty sections": 1, "tagged fields": 1}
    assert full > bare


def test_fields_at_their_defaults_are_measured():
    plan = message("MetadataResponse").codec(12).plan.root
    default_sizes = {field.name: compute_default_size(field) for field in plan.fields}
    assert default_sizes == {"ThrottleTimeMs": 4, "Brokers": 1, "ClusterId": 1, "ControllerId": 4, "Topics": 1}


def test_fitting_keeps_nulls_drops_missing_fields_and_adds_values():
    plan = message("MetadataRequest").codec(12).plan.root
    topics = pa.array([[{"name": "a", "gone": 1}], None, []])
    array = pa.StructArray.from_arrays([topics, pa.array([True, False, True])], ["topics", "old"])
    added_columns = {"topics.topicId": lambda structs, field: pa.array([b"x" * 16] * len(structs), pa.binary(16))}
    fitted_columns = fit_columns(array, plan, added_columns)
    assert fitted_columns.to_pylist() == [
        {"topics": [{"name": "a", "topicId": b"x" * 16}]},
        {"topics": None},
        {"topics": []},
    ]


def test_lengths_are_those_of_every_array_string_and_byte_field_by_message():
    cls = message("JoinGroupRequest")
    protocols = [cls.JoinGroupRequestProtocol(name="range", metadata=bytes(200)) for _ in range(3)]
    first = cls(group_id="g" * 130, member_id="", protocol_type="consumer", protocols=protocols, reason="why")
    second = cls(group_id="g", member_id="m", group_instance_id="i", protocol_type="x", protocols=[], reason=None)
    array = columns("JoinGroupRequest", 9, first, second)
    lengths_found = Counter()
    for kind, lengths, rows in iterate_lengths(array, cls.codec(9).plan.root):
        lengths_found.update((kind, length, row) for length, row in zip(lengths.tolist(), rows.tolist(), strict=True))
    assert lengths_found == {
        ("strings", 130, 0): 1, ("strings", 0, 0): 1, ("strings", -1, 0): 1, ("strings", 8, 0): 1,
        ("arrays", 3, 0): 1, ("strings", 5, 0): 3, ("bytes", 200, 0): 3, ("strings", 3, 0): 1,
        ("strings", 1, 1): 4, ("arrays", 0, 1): 1, ("strings", -1, 1): 1,
    }  # fmt: skip


def test_a_tagged_field_at_its_default_has_no_length():
    cls = message("FetchRequest")
    unset, named_request = cls(cluster_id=None), cls(cluster_id="c" * 9)
    array, plan = columns("FetchRequest", 17, unset, named_request), cls.codec(17).plan
    strings = [
        (lengths.tolist(), rows.tolist())
        for kind, lengths, rows in iterate_lengths(array, plan.root)
        if kind == "strings"
    ]
    assert ([9], [1]) in strings  # the cluster id
    assert ([0, 0], [0, 1]) in strings  # the rack id, which is mandatory
