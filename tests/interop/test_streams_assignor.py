"""Streams groups are assigned task by task as by Kafka 4.3.1's StickyTaskAssignor."""

from __future__ import annotations

from itertools import islice

from tests.coordination.groups.task_assignments import random_cases
from tests.interop.streams_assignments import judge_groups

GROUP_COUNT = 6_000


def test_tasks_are_assigned_as_by_kafka():
    groups = list(islice(random_cases(20261123), GROUP_COUNT))
    lines = [group.text() for group in groups]
    answers = judge_groups(lines)
    assert len(answers) == GROUP_COUNT
    results = [
        (line, one.answer(), kafka_answer) for line, one, kafka_answer in zip(lines, groups, answers, strict=True)
    ]
    wrong = [row for row in results if row[1] != row[2]]
    assert not wrong, f"{len(wrong)} of {GROUP_COUNT} differ: " + "\n".join(wrong[0])
