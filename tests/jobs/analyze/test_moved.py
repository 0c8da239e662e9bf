"""The fields that become tags, which of them are set, and the sizes of the others."""

from __future__ import annotations

from collections import Counter

from tests.jobs.analyze.examples_by_layout import columns

from kafkaframes.jobs.analyze.sizes import GAINED, LEAD, LEAD_SET, count_moved_fields, iterate_fields
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.drafts import MessageDraft
from kafkaframes.protocol.spec.kip_636 import tag_errors


def test_error_codes_and_messages_in_arrays_are_counted_by_message():
    spec = catalog.load_spec("ProduceResponse")
    draft = MessageDraft(spec, 11, 11)
    tag_errors(draft)
    before, after = plan_message(spec, 11), plan_message(draft.build_spec(), 11)
    cls = message(spec.name)

    def response(*codes):
        parts = [cls.PartitionProduceResponse(error_code=code, error_message="x" if code else None) for code in codes]
        return cls(responses=[cls.TopicProduceResponse(partition_responses=parts)])

    counts = Counter()

    def add(name, rows, numbers):
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            counts[name, row] += number

    array = columns(spec.name, 11, response(0, 7, 0), response(), response(3))
    count_moved_fields(array, before.root, after.root, add)
    assert counts == {
        ("int16", 0): 3, ("int16 set", 0): 1, ("string", 0): 3, ("string set", 0): 1, (LEAD, 0): 3, (LEAD_SET, 0): 1,
        (GAINED, 0): 6, ("int16", 2): 1, ("int16 set", 2): 1, ("string", 2): 1, ("string set", 2): 1, (LEAD, 2): 1,
        (LEAD_SET, 2): 1,
    }  # fmt: skip


def test_mandatory_fields_are_found_in_arrays():
    cls = message("MetadataResponse")
    array = columns("MetadataResponse", 12, cls(topics=[cls.MetadataResponseTopic(name="t")] * 2), cls())
    plan = plan_message(cls.spec, 12).root
    ((_, field, values, rows),) = (
        row for row in iterate_fields(array, plan) if row[1].name == "TopicAuthorizedOperations"
    )
    assert (field.name, len(values), rows.tolist()) == ("TopicAuthorizedOperations", 2, [0, 0])
