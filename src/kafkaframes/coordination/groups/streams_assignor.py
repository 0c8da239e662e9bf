"""The assignor of streams groups, ``sticky`` (StickyTaskAssignor.java). Pure functions.

Active tasks are spread evenly over members; who has a task keeps it, else somebody of a process that has its state.
Standby tasks of stateful subtopologies go to other processes, the least loaded first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkaframes.coordination.groups.streams import NO_TASKS, Task, TaskRole, Tasks

TaskId = tuple[int, str]  # partition, subtopology: the order in which tasks are spread


@dataclass(slots=True)
class _Process:
    """Members that share their state."""

    members: list[str] = field(default_factory=list)
    tasks: set[TaskId] = field(default_factory=set)

    @property
    def load(self) -> float:
        """Tasks of each member."""
        return len(self.tasks) / len(self.members)


@dataclass(slots=True)
class _Spread:
    """An assignment in the making."""

    process_of: Mapping[str, str]
    processes: dict[str, _Process]
    assigned: dict[str, set[Task]]

    def add(self, member_id: str, role: TaskRole, task_id: TaskId) -> None:
        partition, subtopology = task_id
        self.assigned[member_id].add((role, subtopology, partition))
        self.processes[self.process_of[member_id]].tasks.add(task_id)

    def count(self, member_id: str) -> int:
        return len(self.assigned[member_id])

    def least_loaded(self, task_id: TaskId) -> str | None:
        """Return the member with least to do, in the least loaded process that does not have the task."""
        free = [process for process in self.processes.values() if task_id not in process.tasks]
        if not free:
            return None
        return min(min(free, key=lambda process: process.load).members, key=self.count)


def sticky(
    process_of: Mapping[str, str],
    current: Mapping[str, Tasks],
    tasks: Mapping[str, int],
    *,
    stateful: Iterable[str] = (),
    standby_count: int = 0,
) -> dict[str, Tasks]:
    """Assign every task to one member, and the standby tasks of stateful subtopologies to others.

    Args:
        process_of: the process of each member that there is.
        current: the target that each member has.
        tasks: how many tasks each subtopology has.
        standby_count: how many standby tasks each task of ``stateful`` subtopologies has.
    """
    processes: dict[str, _Process] = {}
    for member_id in sorted(process_of):
        processes.setdefault(process_of[member_id], _Process()).members.append(member_id)
    spread = _Spread(process_of, processes, {member_id: set() for member_id in process_of})
    if not process_of:
        return {}
    task_ids = sorted((partition, subtopology) for subtopology, count in tasks.items() for partition in range(count))
    owners: dict[TaskRole, dict[TaskId, list[str]]] = {role: {} for role in TaskRole}
    for member_id in sorted(process_of):
        for role, subtopology, partition in current.get(member_id, NO_TASKS):
            owners[role].setdefault((partition, subtopology), []).append(member_id)
    _assign_active(spread, task_ids, owners)
    with_state = frozenset(stateful)
    _assign_standby(spread, [task_id for task_id in task_ids if task_id[1] in with_state], owners, standby_count)
    return {member_id: frozenset(mine) for member_id, mine in spread.assigned.items()}


def _assign_active(
    spread: _Spread, task_ids: list[TaskId], owners: Mapping[TaskRole, Mapping[TaskId, list[str]]]
) -> None:
    """Give active tasks to who had them, then to who had their state, then to the least loaded."""
    left, members_left = len(task_ids), len(spread.assigned)
    quota = -(-left // members_left)
    rest = task_ids
    for role in (TaskRole.ACTIVE, TaskRole.STANDBY):
        before, rest = rest, []
        for task_id in before:
            member_id = min(owners[role].get(task_id, ()), key=spread.count, default=None)
            if member_id is None or spread.count(member_id) >= quota:
                rest.append(task_id)
                continue
            spread.add(member_id, TaskRole.ACTIVE, task_id)
            if spread.count(member_id) == quota and members_left > 1:  # the others share what is left
                left, members_left = left - quota, members_left - 1
                quota = -(-left // members_left)
    for task_id in rest:
        member_id = spread.least_loaded(task_id)
        assert member_id is not None  # nobody has a task that is left
        spread.add(member_id, TaskRole.ACTIVE, task_id)


def _assign_standby(
    spread: _Spread, task_ids: list[TaskId], owners: Mapping[TaskRole, Mapping[TaskId, list[str]]], count: int
) -> None:
    """Give standby tasks to who has their state as long as the load is even, then to the least loaded."""
    rest: list[TaskId] = []
    for task_id in task_ids:
        keepers = [*owners[TaskRole.ACTIVE].get(task_id, ()), *owners[TaskRole.STANDBY].get(task_id, ())]
        for _ in range(count):
            kept = next((one for one in keepers if _may_keep(spread, one, task_id)), None)
            if kept is None:
                rest.append(task_id)
            else:
                spread.add(kept, TaskRole.STANDBY, task_id)
    for task_id in rest:
        member_id = spread.least_loaded(task_id)
        if member_id is not None:  # else there are fewer processes than copies
            spread.add(member_id, TaskRole.STANDBY, task_id)


def _may_keep(spread: _Spread, member_id: str, task_id: TaskId) -> bool:
    process = spread.processes[spread.process_of[member_id]]
    total = sum(len(one.tasks) for one in spread.processes.values()) + 1
    is_even = len(process.tasks) + 1 <= -(-total * len(process.members) // len(spread.assigned))
    return task_id not in process.tasks and is_even
