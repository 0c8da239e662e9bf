"""Tag sections of messages are those of the same messages written again, with each header."""

from __future__ import annotations

import pytest
from tests.protocol.messages.values import make_value

from kafkaframes.jobs.analyze.tag_sections import TagSections, measure
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.spec import catalog

NAMES = [name for name in catalog.names() if not catalog.load(name).flexible_versions.is_empty]


def measured(name, version, *values):
    cls = message(name)
    return measure(cls.decode_columns([one.encode(version) for one in values], version), cls.codec(version).plan)


@pytest.mark.parametrize("unknown_tags", [False, True])
def test_sizes_are_those_of_the_messages_written_with_each_header(unknown_tags):
    fields = 0
    for name in NAMES:
        cls = message(name)
        version = cls.spec.valid_versions.highest
        if cls.spec.valid_versions.is_empty or not cls.spec.flexible_versions.contains(version):
            continue
        values = [make_value(cls, version, seed, unknown_tags=unknown_tags) for seed in range(4)]
        found = measured(name, version, *values)
        for header in ("adopted", "interleaved"):
            written = [len(one.encode(version, tag_header=header)) for one in values]
            assert getattr(found, header) == sum(written), f"{name} {version} {header}"
        assert found.messages == 4
        fields += found.tagged_fields
    assert fields > 100


def test_sections_by_hand():
    """One section with two fields that no spec declares: values of 3 and of 200 bytes.

    Adopted 1 + 1 and 1 + 2; interleaved 6 bits in one byte, 15 bits in three; typed 1 + 1 each.
    """
    value = message("HeartbeatRequest")(unknown_tags=[(5, b"abc"), (99, b"x" * 200)])
    found = measured("HeartbeatRequest", 4, value, message("HeartbeatRequest")())
    assert (found.messages, found.sections, found.empty, found.tagged_fields) == (2, 2, 1, 2)
    assert found.adopted - found.interleaved == (2 - 1) + (3 - 3)
    assert found.adopted - found.typed == (2 - 2) + (3 - 2)
    assert measured("HeartbeatRequest", 3, message("HeartbeatRequest")()) == TagSections(inflexible=1)


def test_a_value_at_its_default_is_not_written():
    cls = message("ApiVersionsResponse")
    feature = cls.SupportedFeatureKey(name="f", min_version=0, max_version=1)
    bare, told = (measured("ApiVersionsResponse", 3, one) for one in (cls(), cls(supported_features=[feature])))
    assert (bare.sections, bare.empty, bare.tagged_fields) == (1, 1, 0)
    assert (told.sections, told.empty, told.tagged_fields) == (2, 1, 1)
    assert told.adopted - told.interleaved == 1
