"""A streams group (KIP-1071): members that run the tasks of one topology. No clock, no requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import ClassVar, Final

from kafkaframes.coordination.groups.members import EpochGroup, GroupMember
from kafkaframes.coordination.groups.ports import Timer
from kafkaframes.coordination.groups.streams_topology import Configured, Topology
from kafkaframes.errors import ErrorCode, RefusedError


class TaskRole(IntEnum):
    """How a member runs a task."""

    ACTIVE = 0
    STANDBY = 1
    WARMUP = 2


Task = tuple[TaskRole, str, int]  # role, subtopology, partition
Tasks = frozenset[Task]
NO_TASKS: Final[Tasks] = frozenset()


@dataclass(frozen=True, slots=True)
class StreamsMember(GroupMember[Task]):
    """One member.

    Attributes:
        topology_epoch: of the topology that it runs.
        process_id: members with the same one share their state on disk.
        user_endpoint: host and port for interactive queries; None without.
    """

    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()

    def same_needs(self, other: StreamsMember) -> bool:
        """Whether the group need not be assigned anew for what is different."""
        same = replace(other, client_id=self.client_id, client_host=self.client_host)
        return self.same_subscription(replace(same, rebalance_timeout_ms=self.rebalance_timeout_ms))


@dataclass(slots=True, eq=False)
class StreamsGroup(EpochGroup):
    """One streams group.

    Attributes:
        epoch: grows with every change of members, topics or settings; a new group begins with 1.
        assignment_epoch: the epoch that ``targets`` were made for.
        metadata_hash: of the topology's topics, when the epoch was decided.
        topology: None before the first member.
        configured: what the broker's topics make of it, at ``topics_version``.
        assignment_configs: the settings that the last epoch was decided with.
        assigned_ms: when ``targets`` were made; ``delayed_until_ms``: when the first may be.
        endpoint_epoch: grows when a member with an endpoint is sent its tasks; not kept over a start.
        shutdown_by: the member that asked for the whole application to be shut down.
    """

    group_id: str
    epoch: int = 1
    assignment_epoch: int = 1
    metadata_hash: int = 0
    topology: Topology | None = None
    members: dict[str, StreamsMember] = field(default_factory=dict)
    targets: dict[str, Tasks] = field(default_factory=dict)
    sessions: dict[str, Timer] = field(default_factory=dict)
    rebalances: dict[str, Timer] = field(default_factory=dict)
    configured: Configured | None = None
    topics_version: int = 0
    assignment_configs: tuple[tuple[str, str], ...] | None = None
    assigned_ms: int | None = None
    delayed_until_ms: int = 0
    endpoint_epoch: int = 0
    shutdown_by: str = ""

    type: ClassVar[str] = "streams"
    assignor: ClassVar[str] = "sticky"

    @property
    def topics(self) -> frozenset[str]:
        """Every topic of its topology."""
        return frozenset() if self.topology is None else self.topology.topics

    @property
    def is_ready(self) -> bool:
        """Whether every topic of its topology is there, as it is to be."""
        return self.configured is not None and self.configured.status is None

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.inputs

    def member(self, member_id: str, instance_id: str | None = None) -> StreamsMember:
        """Return a member.

        Raises:
            RefusedError: UNKNOWN_MEMBER_ID.
        """
        if member_id not in self.members:
            reason = f"Member {member_id} is not a member of group {self.group_id}."
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, reason)
        return self.members[member_id]

    def partitions(self, member: StreamsMember, role: TaskRole) -> Iterator[tuple[str, int]]:
        """Yield what a member's tasks in a role read, topic and partition; some that a smaller topic does not have."""
        inputs = {one.subtopology_id: one.inputs for one in self.topology.subtopologies} if self.topology else {}
        for of_role, subtopology, index in sorted(member.assigned):
            for name in inputs.get(subtopology, ()) if of_role is role else ():
                yield name, index

    def is_taken_for(self, process_id: str) -> Callable[[Task], bool]:
        """Return what says whether a task cannot be begun in a process yet.

        Nobody else may have it as an active task, or the process in another role: one directory holds its state.
        """
        held = [(one.process_id, task) for one in self.members.values() for task in one.assigned | one.revoking]
        active = {task[1:] for _, task in held if task[0] is TaskRole.ACTIVE}
        here = {task[1:] for owner, task in held if owner == process_id}
        here_inactive = {task[1:] for owner, task in held if owner == process_id and task[0] is not TaskRole.ACTIVE}
        return lambda task: task[1:] in (active | here_inactive if task[0] is TaskRole.ACTIVE else here)

    def put(self, member: StreamsMember) -> None:
        """Take a member in, or its new value."""
        self.members[member.member_id] = member

    def remove(self, member_id: str) -> None:
        """Let a member go; a shutdown that was asked for is over with the last."""
        self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        self.forget_timers(member_id)
        if not self.members:
            self.shutdown_by = ""


def by_subtopology(tasks: Iterable[Task], role: TaskRole) -> dict[str, list[int]]:
    """Return the partitions of tasks in a role by subtopology, sorted."""
    partitions: dict[str, list[int]] = {}
    for _, subtopology, partition in sorted(task for task in tasks if task[0] is role):
        partitions.setdefault(subtopology, []).append(partition)
    return partitions
