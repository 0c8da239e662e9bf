"""A share group (KIP-932): members that read the same partitions together, without a clock or requests.

The assignment decides from which partitions a member may fetch. The leader of each partition decides which member gets
which record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from kafkaframes.coordination.groups.consumer import Assignment, Partition
from kafkaframes.coordination.groups.members import EpochGroup, GroupMember
from kafkaframes.coordination.groups.ports import OffsetClient
from kafkaframes.errors import ErrorCode, RefusedError


@dataclass(frozen=True, slots=True)
class ShareMember(GroupMember[Partition]):
    """A member of a share group, with sorted topics. Members of share groups never have to revoke partitions."""

    topics: tuple[str, ...] = ()


InitializedTopics = dict[UUID, tuple[str, frozenset[int]]]


@dataclass(eq=False)
class ShareGroup(EpochGroup[ShareMember, Partition]):
    """One share group.

    Attributes:
        initialized_topics: name and partitions of each topic from which the group reads, by topic id.
        has_read: whether the group has ever read from a partition.
    """

    initialized_topics: InitializedTopics = field(default_factory=dict)
    has_read: bool = False

    type: ClassVar[str] = "share"
    assignor: ClassVar[str] = "simple"

    @property
    def state_name(self) -> str:
        """Name of the state, in Kafka's spelling."""
        return "Stable" if self.members else "Empty"

    @property
    def has_unassigned_partitions(self) -> bool:
        """Whether a partition of the members' topics is assigned to no member."""
        assigned_partitions = frozenset[Partition]().union(*self.targets.values())
        names = {name for member in self.members.values() for name in member.topics}
        return any(
            {index for owner, index in assigned_partitions if owner == topic_id} != indexes
            for topic_id, (name, indexes) in self.initialized_topics.items()
            if name in names
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic."""
        return any(topic in member.topics for member in self.members.values())

    def check_commit(self, committer: OffsetClient, *, transactional: bool) -> None:
        """Reject committed offsets, which share groups do not have: GROUP_ID_NOT_FOUND, as in Kafka."""
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is a share group.")

    def check_fetch(self, committer: OffsetClient) -> None:
        """Allow every fetch. Accept the fetch, which finds no committed offsets."""

    def check_offset_delete(self) -> None:
        """Reject the deletion of offsets with the same error as a commit."""
        self.check_commit(OffsetClient(self.group_id), transactional=False)

    def get_retention_start_function(self) -> Callable[[int], int] | None:
        """Return None, since a share group has no offsets that expire."""
        return None


def assign_share_partitions(
    members: Mapping[str, frozenset[UUID]], partitions: Mapping[UUID, Sequence[int]]
) -> dict[str, Assignment]:
    """Assign every partition to at least one member, and at least one partition to every member (``simple`` assignor).

    Args:
        members: subscribed topics by member id.
        partitions: partitions to assign, by topic.
    """
    assignments: dict[str, set[Partition]] = {member_id: set() for member_id in members}
    topics = sorted(frozenset[UUID]().union(*members.values())) if members else []
    for topic in topics:
        subscribers = sorted(member_id for member_id, subscription in members.items() if topic in subscription)
        indexes = partitions[topic]
        for turn in range(max(len(indexes), len(subscribers))):
            assignments[subscribers[turn % len(subscribers)]].add((topic, indexes[turn % len(indexes)]))
    return {member_id: frozenset(assignment) for member_id, assignment in assignments.items()}
