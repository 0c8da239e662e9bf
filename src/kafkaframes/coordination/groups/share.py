"""A share group (KIP-932): members that read the same partitions together. No clock, no requests.

What a member is assigned is where it may fetch; who gets which record is decided by each partition's leader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from kafkaframes.coordination.groups.consumer import Assignment, Partition
from kafkaframes.coordination.groups.members import EpochGroup, GroupMember
from kafkaframes.coordination.groups.ports import Committer
from kafkaframes.errors import ErrorCode, RefusedError


@dataclass(frozen=True, slots=True)
class ShareMember(GroupMember[Partition]):
    """One member; it has nothing to give up first. Its topics are sorted."""

    topics: tuple[str, ...] = ()


Initialized = dict[UUID, tuple[str, frozenset[int]]]


@dataclass(eq=False)
class ShareGroup(EpochGroup[ShareMember, Partition]):
    """One share group.

    Attributes:
        initialized: topics whose partitions the group has begun to read: name and partitions, by id.
        has_read: whether it has ever begun to read one.
    """

    initialized: Initialized = field(default_factory=dict)
    has_read: bool = False

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

    def check_commit(self, committer: Committer, *, transactional: bool) -> None:
        """Refuse committed offsets, of which a share group has none: GROUP_ID_NOT_FOUND, as Kafka answers."""
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is a share group.")

    def check_fetch(self, committer: Committer) -> None:
        """Refuse nobody: there is nothing to be fetched."""

    def check_offset_delete(self) -> None:
        """Refuse as for commits."""
        self.check_commit(Committer(self.group_id), transactional=False)

    def retention_start(self) -> Callable[[int], int] | None:
        """Return None: nothing of a share group expires."""
        return None


def assign(members: Mapping[str, frozenset[UUID]], partitions: Mapping[UUID, Sequence[int]]) -> dict[str, Assignment]:
    """Give every partition to at least one member, and every member at least one partition (the ``simple`` assignor).

    Args:
        members: the topics of each.
        partitions: of each topic, those that can be assigned.
    """
    assigned: dict[str, set[Partition]] = {member_id: set() for member_id in members}
    topics = sorted(frozenset[UUID]().union(*members.values())) if members else []
    for topic in topics:
        subscriber_counts: Sequence[str] = sorted(member_id for member_id, mine in members.items() if topic in mine)
        for at in range(max(len(partitions[topic]), len(subscriber_counts))):
            assigned[subscriber_counts[at % len(subscriber_counts)]].add(
                (topic, partitions[topic][at % len(partitions[topic])])
            )
    return {member_id: frozenset(mine) for member_id, mine in assigned.items()}
