"""A share group (KIP-932): members that read the same partitions together. No clock, no requests.

What a member is assigned is where it may fetch; who gets which record is decided by each partition's leader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from kafkaframes.coordination.groups.consumer import Assigned, Partition
from kafkaframes.coordination.groups.members import GroupMember, cancel
from kafkaframes.coordination.groups.ports import Committer, Group, Timer
from kafkaframes.errors import ErrorCode, RefusedError


@dataclass(frozen=True, slots=True)
class ShareMember(GroupMember[Partition]):
    """One member; it has nothing to give up first. Its topics are sorted."""

    topics: tuple[str, ...] = ()


Initialized = dict[UUID, tuple[str, frozenset[int]]]


@dataclass(slots=True, eq=False)
class ShareGroup(Group):
    """One share group.

    Attributes:
        epoch: grows with every change of members, subscriptions or topics; a new group begins with 1, as Kafka 4.3's.
        assignment_epoch: the epoch that ``targets`` were made for.
        initialized: topics whose partitions the group has begun to read: name and partitions, by id.
        assigned_ms: when ``targets`` were made; None: never.
        has_read: whether it has ever begun to read one.
        sessions: when a member is given up that is not heard of.
    """

    group_id: str
    epoch: int = 1
    assignment_epoch: int = 1
    metadata_hash: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    targets: dict[str, Assigned] = field(default_factory=dict)
    initialized: Initialized = field(default_factory=dict)
    assigned_ms: int | None = None
    has_read: bool = False
    sessions: dict[str, Timer] = field(default_factory=dict)

    type: ClassVar[str] = "share"
    assignor: ClassVar[str] = "simple"

    @property
    def state_name(self) -> str:
        """Its state, in Kafka's spelling."""
        return "Stable" if self.members else "Empty"

    @property
    def has_unassigned(self) -> bool:
        """Whether it reads partitions of its members' topics that nobody is assigned."""
        assigned = frozenset[Partition]().union(*self.targets.values())
        names = {name for one in self.members.values() for name in one.topics}
        return any(
            {index for owner, index in assigned if owner == topic_id} != indexes
            for topic_id, (name, indexes) in self.initialized.items()
            if name in names
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return any(topic in one.topics for one in self.members.values())

    def member(self, member_id: str) -> ShareMember:
        """Return a member, or refuse with UNKNOWN_MEMBER_ID."""
        if member_id not in self.members:
            reason = f"Member {member_id} is not a member of group {self.group_id}."
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, reason)
        return self.members[member_id]

    def remove(self, member_id: str) -> None:
        """Let a member go."""
        self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        cancel(self.sessions, member_id)

    def stop_timers(self) -> None:
        """Cancel everything that is due for its members."""
        for timer in self.sessions.values():
            timer.cancel()

    def check_commit(self, committer: Committer, *, transactional: bool) -> None:
        """Refuse committed offsets, of which a share group has none: GROUP_ID_NOT_FOUND, as Kafka answers."""
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is a share group.")

    def check_offset_delete(self) -> None:
        """Refuse as for commits."""
        self.check_commit(Committer(self.group_id), transactional=False)

    def offsets_age_from(self) -> Callable[[int], int] | None:
        """Return None: nothing of a share group expires."""
        return None


def assign(members: Mapping[str, frozenset[UUID]], partitions: Mapping[UUID, Sequence[int]]) -> dict[str, Assigned]:
    """Give every partition to at least one member, and every member at least one partition (the ``simple`` assignor).

    Args:
        members: the topics of each.
        partitions: of each topic, those that can be assigned.
    """
    assigned: dict[str, set[Partition]] = {member_id: set() for member_id in members}
    topics = sorted(frozenset[UUID]().union(*members.values())) if members else []
    for topic in topics:
        readers: Sequence[str] = sorted(member_id for member_id, mine in members.items() if topic in mine)
        for at in range(max(len(partitions[topic]), len(readers))):
            assigned[readers[at % len(readers)]].add((topic, partitions[topic][at % len(partitions[topic])]))
    return {member_id: frozenset(mine) for member_id, mine in assigned.items()}
