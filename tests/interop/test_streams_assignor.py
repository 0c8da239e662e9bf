"""Streams groups are assigned task by task as by Kafka 4.3.1's StickyTaskAssignor."""

from __future__ import annotations

from itertools import islice

from tests.coordination.groups.task_assignments import cases
from tests.interop.streams_assignments import judged

GROUPS = 6_000


def test_every_task_goes_where_kafka_sends_it():
    groups = list(islice(cases(20261123), GROUPS))
    lines = [one.text() for one in groups]
    answers = judged(lines)
    assert len(answers) == GROUPS
    found = [(line, one.answer(), told) for line, one, told in zip(lines, groups, answers, strict=True)]
    wrong = [row for row in found if row[1] != row[2]]
    assert not wrong, f"{len(wrong)} of {GROUPS} differ: " + "\n".join(wrong[0])
