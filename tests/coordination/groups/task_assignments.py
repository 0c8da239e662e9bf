"""Random streams groups as lines of text, for this package's assignor and Kafka's.

A line has the number of standbys, the subtopologies, the members and, in saved lines, the expected assignment.
``TaskAssignments.java`` reads them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from kafkaframes.coordination.groups.streams import TaskRole, Tasks
from kafkaframes.coordination.groups.streams_assignor import assign_sticky

SAVED_ASSIGNMENTS = Path(__file__).parents[2] / "data" / "streams" / "assignments.tsv.gz"


class AssignmentCase(NamedTuple):
    """A streams group before an assignment: members by id, each with its process and its current tasks."""

    standby_count: int
    subtopologies: dict[str, tuple[int, bool]]
    members: dict[str, tuple[str, Tasks]]

    def text(self) -> str:
        """Return the case as a line."""
        subtopologies = ",".join(
            f"{name}:{count}:{is_stateful:d}" for name, (count, is_stateful) in self.subtopologies.items()
        )
        members = ";".join(f"{key}:{process}:{text_of(tasks)}" for key, (process, tasks) in self.members.items())
        return f"{self.standby_count}\t{subtopologies}\t{members}"

    @classmethod
    def parse(cls, line: str) -> AssignmentCase:
        """Read a line."""
        standby_count, subtopologies, members = line.split("\t")[:3]
        rows = [one.split(":") for one in subtopologies.split(",") if one]
        owners = [one.split(":") for one in members.split(";")]
        return cls(
            int(standby_count),
            {name: (int(count), is_stateful == "1") for name, count, is_stateful in rows},
            {key: (process, _tasks(tasks)) for key, process, tasks in owners},
        )

    def assign_tasks(self) -> dict[str, Tasks]:
        """Return the result of this package's assignor."""
        return assign_sticky(
            {key: process for key, (process, _) in self.members.items()},
            {key: tasks for key, (_, tasks) in self.members.items()},
            {name: count for name, (count, _) in self.subtopologies.items()},
            stateful=[name for name, (_, is_stateful) in self.subtopologies.items() if is_stateful],
            standby_count=self.standby_count,
        )

    def answer(self) -> str:
        """Return the result of this package's assignor as a line in the format of ``TaskAssignments``."""
        return ";".join(sorted(f"{key}:{text_of(tasks)}" for key, tasks in self.assign_tasks().items()))


def text_of(tasks: Tasks) -> str:
    return ",".join(sorted(f"{role.name.lower()}/{name}/{index}" for role, name, index in tasks))


def _tasks(text: str) -> Tasks:
    rows = [task.split("/") for task in text.split(",") if task]
    return frozenset((TaskRole[role.upper()], name, int(index)) for role, name, index in rows)


def random_cases(seed: int) -> Iterator[AssignmentCase]:
    """Yield random groups endlessly: members join and leave, settings and topologies change, tasks conflict."""
    dice = random.Random(seed)
    while True:
        large = dice.random() < 0.15
        case = AssignmentCase(dice.choice((0, 0, 1, 1, 2, 3)), _subtopologies(dice, large=large), {})
        for _ in range(dice.randint(1, 5)):
            members = _members(dice, case, large=large)
            standby_count = case.standby_count if dice.random() < 0.8 else dice.randint(0, 3)
            subtopologies = case.subtopologies if dice.random() < 0.8 else _subtopologies(dice, large=large)
            case = AssignmentCase(standby_count, subtopologies, members)
            yield case
            targets = case.assign_tasks()
            case = case._replace(members={key: (one[0], targets[key]) for key, one in members.items()})


def _subtopologies(dice: random.Random, *, large: bool) -> dict[str, tuple[int, bool]]:
    names = [str(index) for index in range(dice.randint(1, 12 if large else 4))]
    dice.shuffle(names)
    return {name: (dice.randint(0, 40 if large else 7), dice.random() < 0.6) for name in names}


def _members(dice: random.Random, case: AssignmentCase, *, large: bool) -> dict[str, tuple[str, Tasks]]:
    def name(prefix: str, max_count: int) -> str:
        return str(UUID(int=dice.getrandbits(128))) if by_uuid else f"{prefix}{dice.randint(1, max_count)}"

    by_uuid = any("-" in key for key in case.members) if case.members else dice.random() < 0.5
    max_members = 40 if large else 9
    kept_members = {key: one for key, one in case.members.items() if dice.random() < 0.8}
    processes = [process for process, _ in kept_members.values()]
    while len(kept_members) < dice.randint(1, max_members):
        process = dice.choice(processes) if processes and dice.random() < 0.5 else name("p", max_members)
        kept_members.setdefault(name("m", 2 * max_members), (process, frozenset()))
        processes.append(process)
    if dice.random() < 0.1:  # states that no assignor produces: a task with several owners, or with conflicting roles
        for key, (process, tasks) in kept_members.items():
            kept_members[key] = (process, tasks | {_any_task(dice, case) for _ in range(dice.randint(0, 4))})
    return kept_members


def _any_task(dice: random.Random, case: AssignmentCase) -> tuple[TaskRole, str, int]:
    return dice.choice((TaskRole.ACTIVE, TaskRole.STANDBY)), dice.choice(list(case.subtopologies)), dice.randint(0, 7)
