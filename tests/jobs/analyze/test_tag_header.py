"""Sizes of tag headers: the vectors of the seed documents, and every message of the catalog as encoded."""

from __future__ import annotations

import base64

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.jobs.analyze.scale import (
    TAG_HEADER_SCHEMES,
    compare_message_sizes,
    compute_header_size,
    find_tagged_fields,
    list_header_sizes,
)
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.layout import list_slots

TEXT_BYTES = 10
FLEXIBLE = [
    (name, spec.valid_versions.highest)
    for name in catalog.list_names()
    if not (spec := catalog.load_spec(name)).valid_versions.is_empty
    and spec.flexible_versions.contains(spec.valid_versions.highest)
]


def value_of(slots, *, is_filled):
    """Return JSON with one element in each array, texts of ten bytes, no nulls and no defaults."""
    return {
        slot.name[:1].lower() + slot.name[1:]: one_of(slot, is_filled=is_filled)
        for slot in slots
        if slot.tag is None or is_filled
    }


def one_of(slot, *, is_filled):
    if slot.type.is_struct:
        value = value_of(slot.children, is_filled=is_filled)
    elif slot.type.name == "bool":
        value = slot.default is not True
    elif slot.type.name == "float64":
        value = 7.5
    elif slot.type.name == "string":
        value = "x" * TEXT_BYTES
    elif slot.type.name in ("bytes", "records"):
        value = base64.b64encode(b"x" * TEXT_BYTES).decode()
    else:
        value = base64.urlsafe_b64encode(b"x" * 16).decode().rstrip("=") if slot.type.name == "uuid" else 7
    return [value] if slot.type.is_array else value


@pytest.mark.parametrize(
    ("length", "tag", "expected_hex"),
    [
        *[(4, 5, "32"), (0, 0, "00"), (15, 7, "7f"), (16, 7, "aa02"), (15, 8, "d501"), (127, 127, "ff7f")],
        *[(128, 0, "808001"), (2**31 - 1, 2**31 - 1, "ffffffffffffffff3f")],
    ],
)
def test_headers_equal_the_vectors_of_the_draft(length, tag, expected_hex):
    header = compute_header_size(length, tag)
    assert header.written.hex() == expected_hex
    assert header.interleaved == len(expected_hex) // 2


def test_the_table_is_complete_and_numbers_are_bounded():
    assert [(one.length, one.tag) for one in list_header_sizes((1, 2), iter((3, 4)))] == [
        (1, 3),
        (1, 4),
        (2, 3),
        (2, 4),
    ]
    for length, tag in ((-1, 0), (0, 2**31)):
        with pytest.raises(OptionError, match="not between"):
            compute_header_size(length, tag)


@pytest.mark.parametrize("is_filled", [False, True], ids=["bare", "filled"])
def test_sizes_are_those_of_encoded_messages(is_filled):
    for name, version in FLEXIBLE:
        cls = message(name)
        data = value_of(list_slots(cls.spec, version), is_filled=is_filled)
        if not is_filled:  # the JSON form requires mandatory fields only
            assert not any(one.tag is not None and one.name in data for one in list_slots(cls.spec, version))
        value = cls.from_json(data, version)
        message_sizes = compare_message_sizes(cls.spec, version, TEXT_BYTES)
        sizes = message_sizes.filled if is_filled else message_sizes.bare
        for header in ("adopted", "interleaved"):
            assert len(value.encode(version, tag_header=header)) == sizes[header], f"{name} {version} {header}"


def test_rejected_alternatives_have_the_computed_sizes():
    """HeartbeatRequest 4 has three strings (one is nullable), an int32, and an empty tag section of one byte."""
    size = compare_message_sizes(catalog.load_spec("HeartbeatRequest"), 4, TEXT_BYTES)
    assert size.bare == {
        "adopted": 3 * 11 + 4 + 1,
        "interleaved": 3 * 11 + 4 + 1,
        "escape": 3 * 11 + 4,
        "all tagged": 1 + 3 * (2 + 10) + (2 + 4),
    }
    assert size.filled == size.bare
    marked_size = compare_message_sizes(
        catalog.load_spec("AbortTransactionRecord"), 0, TEXT_BYTES
    )  # one tagged string alone
    assert [marked_size.filled[scheme] for scheme in TAG_HEADER_SCHEMES] == [
        1 + 2 + 11,
        1 + 1 + 11,
        1 + 1 + 2 + 11,
        1 + 2 + 10,
    ]


def test_tagged_fields_of_nested_structs_are_listed():
    headers_by_path = {
        field.path: field.header for field in find_tagged_fields(catalog.load_spec("ProduceResponse"), 13)
    }
    assert list(headers_by_path) == ["Responses.PartitionResponses.CurrentLeader", "NodeEndpoints"]
    header = headers_by_path["Responses.PartitionResponses.CurrentLeader"]
    assert (header.tag, header.length, header.interleaved, header.adopted) == (0, 4 + 4 + 1, 1, 2)


def test_messages_without_tags_are_rejected():
    with pytest.raises(OptionError, match="not flexible"):
        compare_message_sizes(catalog.load_spec("SaslHandshakeRequest"), 1)
