"""The ``assign_sticky`` assignor of streams groups, with the same result as Kafka 4.3's StickyTaskAssignor.

Active tasks are distributed evenly over the members. A task stays with its member if possible. Otherwise, the task is
assigned to a member that has its state. Standby tasks of stateful subtopologies go to other processes, the least loaded
first. As in Kafka 4.3, racks and client tags are not considered.

Kafka iterates over a ``HashMap`` and breaks ties with a ``PriorityQueue``. The iteration orders of these collections
affect the assignment and are therefore reproduced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic, TypeVar

from kafkaframes.coordination.groups.streams import NO_TASKS, Task, TaskRole, Tasks

_T = TypeVar("_T")
_UINT32_MASK = 0xFFFF_FFFF


def compute_java_hash(text: str) -> int:
    """Return ``String.hashCode`` as an unsigned number.

    >>> compute_java_hash("kafka"), compute_java_hash("")
    (101807910, 0)
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8) + units[position + 1]) & _UINT32_MASK
    return value


def sort_in_hash_order(keys: Sequence[str] | Mapping[str, object], capacity: int = 16) -> list[str]:
    """Return keys in the iteration order of a ``HashMap`` into which they were inserted in the given order.

    Args:
        capacity: initial capacity of the map. Buckets that Java converts to trees (eight keys or more) are not
            reproduced.

    >>> sort_in_hash_order(["member-2", "b", "member-1"])
    ['b', 'member-1', 'member-2']
    """
    buckets = 1 << max(capacity - 1, 0).bit_length()
    while len(keys) > 0.75 * buckets:
        buckets *= 2

    def find_bucket(key: str) -> int:
        spread = compute_java_hash(key)
        return (spread ^ spread >> 16) & (buckets - 1)

    return sorted(keys, key=find_bucket)


class JavaPriorityQueue(Generic[_T]):
    """A queue with the same order of equal items as Java's ``PriorityQueue``.

    The order of equal items depends on all earlier operations. ``heapq`` moves items differently, and may therefore
    return another of several equal items.
    """

    def __init__(self, key: Callable[[_T], float], items: Iterable[_T]) -> None:
        self._key = key
        self._heap: list[_T] = []
        for item in items:
            self.add(item)

    def add(self, item: _T) -> None:
        """Add an item."""
        heap, key, index = self._heap, self._key, len(self._heap)
        heap.append(item)
        while index and key(item) < key(heap[(index - 1) // 2]):
            heap[index] = heap[(index - 1) // 2]
            index = (index - 1) // 2
        heap[index] = item

    def pop(self) -> _T | None:
        """Remove and return the first item; None if the queue is empty."""
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


TaskId = tuple[int, str]  # partition, subtopology: the order in which tasks are offered to their previous members


def _make_subtopology_sort_key(task_id: TaskId) -> tuple[str, int]:
    """Return the sort key by which tasks are assigned to the least loaded members."""
    return task_id[1], task_id[0]


@dataclass(slots=True)
class _Process:
    """The members of one process, which share their state.

    Attributes:
        counts: number of tasks of each member.
        by_load: queue of the members by load; None until the queue is needed, and after a task was assigned by another
            rule.
    """

    counts: dict[str, int] = field(default_factory=dict)
    tasks: set[TaskId] = field(default_factory=set)
    by_load: JavaPriorityQueue[str] | None = None

    @property
    def task_load(self) -> float:
        """The number of tasks per member."""
        return len(self.tasks) / len(self.counts)


@dataclass(slots=True)
class _TaskQuota:
    """The largest number of tasks of a member.

    Members that have reached their share are excluded; the other members share the remaining tasks.
    """

    tasks: int
    members: int

    @property
    def each(self) -> int:
        return -(-self.tasks // self.members) if self.members else 0

    def exclude_if_full(self, count: int) -> None:
        """Exclude a member from the quota if its ``count`` of tasks has reached each member's share."""
        if count == (quota_per_member := self.each):
            self.tasks, self.members = self.tasks - quota_per_member, self.members - 1


@dataclass(slots=True)
class _PartialAssignment:
    """The tasks that have been assigned so far, while an assignment is being computed.

    Attributes:
        active_quota: quota of active tasks only.
        quota: quota of active and standby tasks together.
        previous_active: previous member of each active task; if a task had several members, the last of them.
        previous_standbys: previous members of each standby task; they already have the state of the task.
    """

    process_by_member: Mapping[str, _Process]
    processes: list[_Process]
    active_quota: _TaskQuota
    quota: _TaskQuota
    previous_active: dict[TaskId, str]
    previous_standbys: dict[TaskId, list[str]]
    tasks_by_member: dict[str, set[Task]]

    def count(self, member_id: str) -> int:
        return self.process_by_member[member_id].counts[member_id]

    def assign_task(self, member_id: str, role: TaskRole, task_id: TaskId) -> None:
        """Assign a task to a member that had the task or its state."""
        self._add_task(member_id, role, task_id)
        self.process_by_member[member_id].by_load = None

    def assign_to_least_loaded(self, process: _Process, role: TaskRole, task_id: TaskId) -> None:
        if len(process.counts) == 1:
            self._add_task(next(iter(process.counts)), role, task_id)
            return
        if process.by_load is None:
            process.by_load = JavaPriorityQueue(self.count, sort_in_hash_order(process.counts))
        member_id = process.by_load.pop()
        assert member_id is not None  # every process has at least one member
        self._add_task(member_id, role, task_id)
        process.by_load.add(member_id)

    def _add_task(self, member_id: str, role: TaskRole, task_id: TaskId) -> None:
        process = self.process_by_member[member_id]
        partition, subtopology = task_id
        self.tasks_by_member[member_id].add((role, subtopology, partition))
        process.tasks.add(task_id)
        process.counts[member_id] += 1
        if role is TaskRole.ACTIVE:
            self.active_quota.exclude_if_full(process.counts[member_id])
        self.quota.exclude_if_full(process.counts[member_id])

    def find_least_loaded_standby(self, task_id: TaskId, *, is_free: Callable[[_Process], bool]) -> str | None:
        """Return the least loaded previous standby member of a task, by the loads of processes and then of members.

        Return None if the process of the first member is not free, because Kafka checks the first member's process,
        whichever member it selects.
        """
        members = self.previous_standbys.get(task_id)
        if not members or not is_free(self.process_by_member[members[0]]):
            return None
        best_member_id, load, count = members[0], self.process_by_member[members[0]].task_load, self.count(members[0])
        for member_id in members[1:]:
            process = self.process_by_member[member_id]
            if process.task_load < load and is_free(process) and self.count(member_id) < count:
                best_member_id, load, count = member_id, process.task_load, self.count(member_id)
        return best_member_id


def assign_sticky(
    process_by_member: Mapping[str, str],
    current: Mapping[str, Tasks],
    tasks: Mapping[str, int],
    *,
    stateful: Iterable[str] = (),
    standby_count: int = 0,
) -> dict[str, Tasks]:
    """Assign each task to one member, and the standby tasks of stateful subtopologies to other members.

    Args:
        process_by_member: process of each member, in the order of the group's members.
        current: current target assignment of each member.
        tasks: number of tasks of each subtopology.
        stateful: ids of the subtopologies that have changelogs.
        standby_count: number of standby tasks for each task of a stateful subtopology.
    """
    if not process_by_member:
        return {}
    stateful_ids = frozenset(stateful)
    task_ids = sorted((partition, subtopology) for subtopology, count in tasks.items() for partition in range(count))
    standby_ids = [task_id for task_id in task_ids if task_id[1] in stateful_ids] if standby_count > 0 else []
    total = len(task_ids) + len(standby_ids) * standby_count
    partial_assignment = _start_assignment(
        process_by_member,
        current,
        _TaskQuota(len(task_ids), len(process_by_member)),
        _TaskQuota(total, len(process_by_member)),
    )
    _assign_active(partial_assignment, task_ids)
    _assign_standby(partial_assignment, standby_ids, standby_count)
    return {
        member_id: frozenset(member_tasks) for member_id, member_tasks in partial_assignment.tasks_by_member.items()
    }


def _start_assignment(
    process_by_member: Mapping[str, str],
    current_assignment: Mapping[str, Tasks],
    active_quota: _TaskQuota,
    quota: _TaskQuota,
) -> _PartialAssignment:
    """Return an empty assignment with the members' previous tasks, in the iteration order of Kafka's hash map."""
    processes: dict[str, _Process] = {}
    previous_active: dict[TaskId, str] = {}
    previous_standbys: dict[TaskId, list[str]] = {}
    for member_id in sort_in_hash_order(process_by_member):
        processes.setdefault(process_by_member[member_id], _Process()).counts[member_id] = 0
        for role, subtopology, partition in current_assignment.get(member_id, NO_TASKS):
            if role is TaskRole.ACTIVE:
                previous_active[partition, subtopology] = member_id
            elif role is TaskRole.STANDBY:
                previous_standbys.setdefault((partition, subtopology), []).append(member_id)
    return _PartialAssignment(
        {member_id: processes[name] for member_id, name in process_by_member.items()},
        [processes[name] for name in sort_in_hash_order(processes, capacity=len(process_by_member))],
        active_quota,
        quota,
        previous_active,
        previous_standbys,
        {member_id: set() for member_id in process_by_member},
    )


def _assign_active(partial_assignment: _PartialAssignment, task_ids: list[TaskId]) -> None:
    """Assign active tasks to previous active members, then to previous standby members, then to the least loaded."""

    def assign_to_previous(previous_owners: list[TaskId], owner: Callable[[TaskId], str | None]) -> list[TaskId]:
        unassigned_ids = []
        for task_id in previous_owners:
            member_id = owner(task_id)
            if member_id is None or partial_assignment.count(member_id) >= partial_assignment.active_quota.each:
                unassigned_ids.append(task_id)
            else:
                partial_assignment.assign_task(member_id, TaskRole.ACTIVE, task_id)
        return unassigned_ids

    remaining_ids = assign_to_previous(task_ids, partial_assignment.previous_active.get)
    remaining_ids = assign_to_previous(
        remaining_ids, lambda task_id: partial_assignment.find_least_loaded_standby(task_id, is_free=lambda _: True)
    )
    queue = JavaPriorityQueue(attrgetter("task_load"), partial_assignment.processes)
    for task_id in sorted(remaining_ids, key=_make_subtopology_sort_key):
        process = queue.pop()
        assert process is not None  # the group has at least one member
        partial_assignment.assign_to_least_loaded(process, TaskRole.ACTIVE, task_id)
        queue.add(process)


def _assign_standby(partial_assignment: _PartialAssignment, task_ids: list[TaskId], standby_count: int) -> None:
    """Assign standby tasks to members that had the task or its state, within the quota, then to the least loaded."""
    unassigned: list[tuple[TaskId, int]] = []
    for task_id in reversed(task_ids):
        for assigned_count in range(standby_count):
            member_id = _find_previous_member(partial_assignment, task_id)
            if member_id is None:
                unassigned.append((task_id, standby_count - assigned_count))
                break
            partial_assignment.assign_task(member_id, TaskRole.STANDBY, task_id)
    queue = JavaPriorityQueue(attrgetter("task_load"), partial_assignment.processes)
    for task_id, count in sorted(unassigned, key=lambda pair: _make_subtopology_sort_key(pair[0]), reverse=True):
        for _ in range(count):
            passed_processes = []  # processes that already have the task; the last of them is added to the queue first
            while (process := queue.pop()) is not None and task_id in process.tasks:
                passed_processes.append(process)
            if process is not None:
                partial_assignment.assign_to_least_loaded(process, TaskRole.STANDBY, task_id)
                queue.add(process)
            for passed_process in reversed(passed_processes):
                queue.add(passed_process)
            if process is None:  # there are fewer processes than copies of the task
                break


def _find_previous_member(partial_assignment: _PartialAssignment, task_id: TaskId) -> str | None:
    """Return the previous active or standby member of a task if its process may run a standby task of it, else None."""

    def is_free(process: _Process) -> bool:
        return task_id not in process.tasks

    owner = partial_assignment.previous_active.get(task_id)
    if (
        owner is not None
        and is_free(partial_assignment.process_by_member[owner])
        and partial_assignment.count(owner) < partial_assignment.quota.each
    ):
        return owner
    standby_owner = partial_assignment.find_least_loaded_standby(task_id, is_free=is_free)
    return (
        standby_owner
        if standby_owner is not None and partial_assignment.count(standby_owner) < partial_assignment.quota.each
        else None
    )
