"""The assignor of streams groups, ``sticky``: task by task what StickyTaskAssignor of Kafka 4.3 gives. Pure functions.

Active tasks are spread evenly over members; who has a task keeps it, else somebody who has its state. Standby tasks of
stateful subtopologies go to other processes, the least loaded first. Racks and client tags have no say in 4.3.

Kafka's goes through a ``HashMap``, and takes the least of equals from a ``PriorityQueue``: the orders that Java's
collections have by accident decide, and are kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic, TypeVar

from kafkaframes.coordination.groups.streams import NO_TASKS, Task, TaskRole, Tasks

_T = TypeVar("_T")
_INT = 0xFFFF_FFFF


def java_hash(text: str) -> int:
    """Return ``String.hashCode`` as an unsigned number.

    >>> java_hash("kafka"), java_hash("")
    (101807910, 0)
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8) + units[position + 1]) & _INT
    return value


def hash_order(keys: Sequence[str] | Mapping[str, object], capacity: int = 16) -> list[str]:
    """Return keys in the order of a ``HashMap`` that they were put into one after the other.

    Args:
        capacity: that the map was made with. Buckets that become trees (eight keys in one) are left out.

    >>> hash_order(["member-2", "b", "member-1"])
    ['b', 'member-1', 'member-2']
    """
    buckets = 1 << max(capacity - 1, 0).bit_length()
    while len(keys) > 0.75 * buckets:
        buckets *= 2

    def bucket(key: str) -> int:
        spread = java_hash(key)
        return (spread ^ spread >> 16) & (buckets - 1)

    return sorted(keys, key=bucket)


class LeastFirst(Generic[_T]):
    """A ``PriorityQueue``: which of equals comes first depends on everything before.

    ``heapq`` moves a hole to the bottom before it fills it, and so has another first of equals.
    """

    def __init__(self, key: Callable[[_T], float], items: Iterable[_T]) -> None:
        self._key = key
        self._heap: list[_T] = []
        for item in items:
            self.add(item)

    def add(self, item: _T) -> None:
        """Put an item in."""
        heap, key, index = self._heap, self._key, len(self._heap)
        heap.append(item)
        while index and key(item) < key(heap[(index - 1) // 2]):
            heap[index] = heap[(index - 1) // 2]
            index = (index - 1) // 2
        heap[index] = item

    def take(self) -> _T | None:
        """Take the first out; None where there is none."""
        heap, key = self._heap, self._key
        if not heap:
            return None
        first, item = heap[0], heap.pop()
        if not heap:
            return first
        index = 0
        while (child := 2 * index + 1) < len(heap):
            if child + 1 < len(heap) and key(heap[child + 1]) < key(heap[child]):
                child += 1
            if key(item) <= key(heap[child]):
                break
            heap[index] = heap[child]
            index = child
        heap[index] = item
        return first


TaskId = tuple[int, str]  # partition, subtopology: the order in which tasks go to who had them


def _by_subtopology(task_id: TaskId) -> tuple[str, int]:
    """Return the order in which tasks go to the least loaded."""
    return task_id[1], task_id[0]


@dataclass(slots=True)
class _Process:
    """Members that share their state.

    Attributes:
        counts: of each member's tasks.
        by_load: its members; None until needed, and after a task was given to one that was chosen otherwise.
    """

    counts: dict[str, int] = field(default_factory=dict)
    tasks: set[TaskId] = field(default_factory=set)
    by_load: LeastFirst[str] | None = None

    @property
    def load(self) -> float:
        """Tasks of each member."""
        return len(self.tasks) / len(self.counts)


@dataclass(slots=True)
class _Quota:
    """How many tasks a member may have: who has as many is out of the reckoning, the others share what is left."""

    tasks: int
    members: int

    @property
    def each(self) -> int:
        return -(-self.tasks // self.members) if self.members else 0

    def reached(self, count: int) -> None:
        if count == (each := self.each):
            self.tasks, self.members = self.tasks - each, self.members - 1


@dataclass(slots=True)
class _Spread:
    """An assignment in the making.

    Attributes:
        active_quota, quota: of active tasks, and of all.
        was_active: who had a task, the last of several; ``was_standby``: who had its state.
    """

    process_of: Mapping[str, _Process]
    processes: list[_Process]
    active_quota: _Quota
    quota: _Quota
    was_active: dict[TaskId, str]
    was_standby: dict[TaskId, list[str]]
    assigned: dict[str, set[Task]]

    def count(self, member_id: str) -> int:
        return self.process_of[member_id].counts[member_id]

    def give(self, member_id: str, role: TaskRole, task_id: TaskId) -> None:
        """Give a task to a member that was chosen for what it had."""
        self._add(member_id, role, task_id)
        self.process_of[member_id].by_load = None

    def give_to_least_loaded(self, process: _Process, role: TaskRole, task_id: TaskId) -> None:
        if len(process.counts) == 1:
            self._add(next(iter(process.counts)), role, task_id)
            return
        if process.by_load is None:
            process.by_load = LeastFirst(self.count, hash_order(process.counts))
        member_id = process.by_load.take()
        assert member_id is not None  # a process is made for a member
        self._add(member_id, role, task_id)
        process.by_load.add(member_id)

    def _add(self, member_id: str, role: TaskRole, task_id: TaskId) -> None:
        process = self.process_of[member_id]
        partition, subtopology = task_id
        self.assigned[member_id].add((role, subtopology, partition))
        process.tasks.add(task_id)
        process.counts[member_id] += 1
        if role is TaskRole.ACTIVE:
            self.active_quota.reached(process.counts[member_id])
        self.quota.reached(process.counts[member_id])

    def least_loaded_before(self, task_id: TaskId, *, is_free: Callable[[_Process], bool]) -> str | None:
        """Return who had the state of a task and is less loaded than those named before, in process and member.

        None if the first of them is not free: Kafka looks at its process, whichever member it has come to.
        """
        members = self.was_standby.get(task_id)
        if not members or not is_free(self.process_of[members[0]]):
            return None
        best, load, count = members[0], self.process_of[members[0]].load, self.count(members[0])
        for member_id in members[1:]:
            process = self.process_of[member_id]
            if process.load < load and is_free(process) and self.count(member_id) < count:
                best, load, count = member_id, process.load, self.count(member_id)
        return best


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
        process_of: the process of each member that there is, in the order of the group's members.
        current: the target that each member has.
        tasks: how many tasks each subtopology has.
        standby_count: how many standby tasks each task of ``stateful`` subtopologies has.
    """
    if not process_of:
        return {}
    with_state = frozenset(stateful)
    task_ids = sorted((partition, subtopology) for subtopology, count in tasks.items() for partition in range(count))
    standby_ids = [task_id for task_id in task_ids if task_id[1] in with_state] if standby_count > 0 else []
    total = len(task_ids) + len(standby_ids) * standby_count
    spread = _begun(process_of, current, _Quota(len(task_ids), len(process_of)), _Quota(total, len(process_of)))
    _assign_active(spread, task_ids)
    _assign_standby(spread, standby_ids, standby_count)
    return {member_id: frozenset(mine) for member_id, mine in spread.assigned.items()}


def _begun(process_of: Mapping[str, str], current: Mapping[str, Tasks], active_quota: _Quota, quota: _Quota) -> _Spread:
    """Return who had what, in the order of a hash map's members."""
    processes: dict[str, _Process] = {}
    was_active: dict[TaskId, str] = {}
    was_standby: dict[TaskId, list[str]] = {}
    for member_id in hash_order(process_of):
        processes.setdefault(process_of[member_id], _Process()).counts[member_id] = 0
        for role, subtopology, partition in current.get(member_id, NO_TASKS):
            if role is TaskRole.ACTIVE:
                was_active[partition, subtopology] = member_id
            elif role is TaskRole.STANDBY:
                was_standby.setdefault((partition, subtopology), []).append(member_id)
    return _Spread(
        {member_id: processes[name] for member_id, name in process_of.items()},
        [processes[name] for name in hash_order(processes, capacity=len(process_of))],
        active_quota,
        quota,
        was_active,
        was_standby,
        {member_id: set() for member_id in process_of},
    )


def _assign_active(spread: _Spread, task_ids: list[TaskId]) -> None:
    """Give active tasks to who had them, then to who had their state, then to the least loaded."""

    def kept(before: list[TaskId], owner: Callable[[TaskId], str | None]) -> list[TaskId]:
        rest = []
        for task_id in before:
            member_id = owner(task_id)
            if member_id is None or spread.count(member_id) >= spread.active_quota.each:
                rest.append(task_id)
            else:
                spread.give(member_id, TaskRole.ACTIVE, task_id)
        return rest

    rest = kept(task_ids, spread.was_active.get)
    rest = kept(rest, lambda task_id: spread.least_loaded_before(task_id, is_free=lambda _: True))
    queue = LeastFirst(attrgetter("load"), spread.processes)
    for task_id in sorted(rest, key=_by_subtopology):
        process = queue.take()
        assert process is not None  # there is a member
        spread.give_to_least_loaded(process, TaskRole.ACTIVE, task_id)
        queue.add(process)


def _assign_standby(spread: _Spread, task_ids: list[TaskId], standby_count: int) -> None:
    """Give standby tasks to who had the task or its state, as far as the quota goes, then to the least loaded."""
    left: list[tuple[TaskId, int]] = []
    for task_id in reversed(task_ids):
        for done in range(standby_count):
            member_id = _keeper(spread, task_id)
            if member_id is None:
                left.append((task_id, standby_count - done))
                break
            spread.give(member_id, TaskRole.STANDBY, task_id)
    queue = LeastFirst(attrgetter("load"), spread.processes)
    for task_id, count in sorted(left, key=lambda pair: _by_subtopology(pair[0]), reverse=True):
        for _ in range(count):
            passed = []  # they have the task; the last of them is put back first
            while (process := queue.take()) is not None and task_id in process.tasks:
                passed.append(process)
            if process is not None:
                spread.give_to_least_loaded(process, TaskRole.STANDBY, task_id)
                queue.add(process)
            for other in reversed(passed):
                queue.add(other)
            if process is None:  # there are fewer processes than copies
                break


def _keeper(spread: _Spread, task_id: TaskId) -> str | None:
    """Return who had a task or its state, if its process may have a standby task of it."""

    def is_free(process: _Process) -> bool:
        return task_id not in process.tasks

    owner = spread.was_active.get(task_id)
    if owner is not None and is_free(spread.process_of[owner]) and spread.count(owner) < spread.quota.each:
        return owner
    keeper = spread.least_loaded_before(task_id, is_free=is_free)
    return keeper if keeper is not None and spread.count(keeper) < spread.quota.each else None
