"""Flexible and inflexible layouts of the same values: what was sent is one of them, the other is counted by hand."""

from __future__ import annotations

import pytest
from tests.protocol.messages.values import make_value

from kafkaframes.jobs.analyze.flexible import Layouts, laid_out, measure
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.columns import decode_columns, encode_columns
from kafkaframes.protocol.spec import catalog

NAMES = [name for api in catalog.apis() for name in (api.request, api.response)]


def measured(name, version, *values):
    cls = message(name)
    return measure(cls.decode_columns([one.encode(version) for one in values], version), cls.codec(version).plan)


@pytest.mark.parametrize("name", NAMES)
def test_one_of_the_two_layouts_is_what_was_sent_and_both_are_read_back(name):
    cls = message(name)
    valid, flexible = cls.spec.valid_versions, cls.spec.flexible_versions
    for version in {valid.lowest, valid.highest, *([] if flexible.is_empty else [flexible.lowest])}:
        plan = cls.codec(version).plan
        values = [make_value(cls, version, seed) for seed in range(2)]
        columns = cls.decode_columns([one.encode(version) for one in values], version)
        found = measure(columns, plan)
        own = found.flexible if plan.flexible else found.inflexible
        assert (own, found.unmeasured) == (sum(one.size(version) for one in values), 0), version
        for wanted in (False, True):
            other = laid_out(plan, flexible=wanted)
            data = encode_columns(other, columns)
            again = decode_columns(other, data)
            assert again.field("_error").null_count == len(values), (version, wanted)
            assert encode_columns(other, again).equals(data)


def test_a_heartbeat_by_hand():
    """Three texts save a byte each, the fourth one (null) too, and the tag section takes one."""
    value = message("HeartbeatRequest")(group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    assert (measured("HeartbeatRequest", 3, value).inflexible, measured("HeartbeatRequest", 4, value).flexible) == (
        12,
        10,
    )
    for version in (3, 4):
        found = measured("HeartbeatRequest", version, value, value)
        assert (found.messages, found.inflexible, found.flexible, found.saved) == (2, 24, 20, 4)


def test_many_small_structs_pay_for_their_tag_sections():
    cls = message("OffsetDeleteResponse")
    partitions = [cls.OffsetDeleteResponsePartition(partition_index=i) for i in range(100)]
    found = measured(
        "OffsetDeleteResponse", 0, cls(topics=[cls.OffsetDeleteResponseTopic(name="t" * 10, partitions=partitions)])
    )
    assert (found.inflexible, found.saved) == (626, -95)  # three bytes of each of two counts, one of the name


def test_operations_that_nobody_asked_for():
    """KIP-482's example: four bytes a topic, and four for the cluster until version 10."""
    cls = message("MetadataResponse")
    topics = [cls.MetadataResponseTopic(name="t"), cls.MetadataResponseTopic(name="u", topic_authorized_operations=7)]
    assert measured("MetadataResponse", 10, cls(topics=topics)).blank_bytes == 8
    assert measured("MetadataResponse", 12, cls(topics=topics)).blank_bytes == 4
    assert measured("MetadataResponse", 7, cls()).blank_bytes == 0


def test_tags_that_no_spec_declares_cannot_be_laid_out_without_tags():
    value = message("HeartbeatRequest")(unknown_tags=[(99, b"trace")])
    found = measured("HeartbeatRequest", 4, value)
    assert (found.messages, found.unmeasured, found.flexible) == (1, 1, 0)


def test_sums():
    one = Layouts(1, 10, 8, 2, 0)
    one.add(Layouts(2, 5, 6, 1, 1))
    assert one == Layouts(3, 15, 14, 3, 1)
