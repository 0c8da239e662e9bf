"""Members of groups with member epochs: reconciliation and checks of commits (KIP-848, KIP-932, KIP-1071).

The coordinator computes a **target** assignment for every member. Each member moves towards its target at its own pace.
A member first revokes partitions that are not in its target, and the coordinator assigns a new partition when no other
member owns the partition any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Generic, Self, TypeVar

from kafkaframes.coordination.groups.ports import Group, OffsetClient, Timer
from kafkaframes.errors import ErrorCode, RefusedError

_NO_VALUE = -1  # Kafka's number for a field that is not set
KeyT = TypeVar("KeyT")


def cancel_timer(timers: dict[str, Timer], member_id: str) -> bool:
    """Cancel and remove a member's timer. Return False if the member has no timer."""
    timer = timers.pop(member_id, None)
    if timer is not None:
        timer.cancel()
    return timer is not None


class MemberState(IntEnum):
    """The progress of a member's reconciliation. The numeric values are the same as in the member's record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class GroupMember(Generic[KeyT]):
    """One member. Members are immutable, so that a failed heartbeat changes nothing.

    Attributes:
        epoch: epoch of the current assignment; -2 for a static member that is temporarily absent.
        previous_epoch: epoch of the previous assignment.
        assignment: partitions or tasks that the member owns or may acquire now.
        revoking: partitions or tasks that the member has been asked to revoke.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = _NO_VALUE
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assignment: frozenset[KeyT] = frozenset()
    revoking: frozenset[KeyT] = frozenset()

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether the member uses the classic protocol."""
        return False

    @property
    def session_timeout_ms(self) -> int | None:
        """Session timeout in milliseconds; None if the group's setting applies."""
        return None

    def has_same_subscription(self, other: Self) -> bool:
        """Return whether both members have equal fields, apart from epochs, state and assignment."""
        return (
            replace(
                self,
                epoch=other.epoch,
                previous_epoch=other.previous_epoch,
                state=other.state,
                assignment=other.assignment,
                revoking=other.revoking,
            )
            == other
        )

    def reconcile(
        self,
        target: frozenset[KeyT],
        target_epoch: int,
        reported_assignment: frozenset[KeyT] | None,
        is_owned_by_others: Callable[[KeyT], bool],
    ) -> Self:
        """Return the member one step closer to its target assignment (Kafka's CurrentAssignmentBuilder).

        Args:
            target: partitions or tasks that the member will own in ``target_epoch``.
            reported_assignment: partitions or tasks that the member reports to own; None if the request omits the list.
            is_owned_by_others: whether another member owns a partition or task, or has not finished revoking it.
        """
        if self.state is MemberState.STABLE and self.epoch == target_epoch:
            return self
        if self.state is MemberState.UNREVOKED_PARTITIONS and (
            reported_assignment is None or reported_assignment & self.revoking
        ):
            return self
        remaining = self.assignment & target
        lost_partitions = self.assignment - remaining
        if lost_partitions and (reported_assignment is None or reported_assignment & lost_partitions):
            return self._set_assignment(self.epoch, MemberState.UNREVOKED_PARTITIONS, remaining, lost_partitions)
        missing = target - remaining
        free_partitions = frozenset(partition for partition in missing if not is_owned_by_others(partition))
        state = MemberState.STABLE if free_partitions == missing else MemberState.UNRELEASED_PARTITIONS
        return self._set_assignment(target_epoch, state, remaining | free_partitions, frozenset())

    def remove_unsubscribed(
        self, subscribed_partitions: frozenset[KeyT], reported_assignment: frozenset[KeyT] | None
    ) -> Self:
        """Return the member without the partitions that it no longer subscribes to (Kafka's updateCurrentAssignment).

        The member's epoch does not change.

        Args:
            subscribed_partitions: partitions of the member's assignment to which it still subscribes.
            reported_assignment: partitions that the member reports to own; None if the request omits the list.
        """
        unsubscribed_partitions = self.assignment - subscribed_partitions
        if not unsubscribed_partitions:
            return self
        revoking = self.revoking | unsubscribed_partitions
        if reported_assignment is None or reported_assignment & revoking:
            return self._set_assignment(
                self.epoch, MemberState.UNREVOKED_PARTITIONS, self.assignment - unsubscribed_partitions, revoking
            )
        return self._set_assignment(self.epoch, self.state, self.assignment - unsubscribed_partitions, self.revoking)

    def _set_assignment(
        self, epoch: int, state: MemberState, assignment: frozenset[KeyT], revoking: frozenset[KeyT]
    ) -> Self:
        member = replace(self, epoch=epoch, state=state, assignment=assignment, revoking=revoking)
        return self if member == self else replace(member, previous_epoch=self.epoch)

    def check_epoch(self, epoch: int, reported_assignment: frozenset[KeyT] | None, *, group_type: str) -> None:
        """Fence a member whose epoch is not its current epoch.

        The previous epoch is accepted, because the last response may be lost.
        """
        if epoch == self.epoch:
            return
        relation = "greater" if epoch > self.epoch else "smaller"
        is_retry = (
            epoch == self.previous_epoch and reported_assignment is not None and reported_assignment <= self.assignment
        )
        if epoch > self.epoch or not is_retry:
            reason = (
                f"The {group_type} group member has a {relation} member epoch ({epoch}) than the one known by the group"
                f" coordinator ({self.epoch}). The member must abandon all its partitions and rejoin."
            )
            raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, reason)


MemberT = TypeVar("MemberT", bound=GroupMember[Any])


@dataclass(slots=True, eq=False)
class EpochGroup(Group, Generic[MemberT, KeyT]):
    """A group of members with epochs.

    Attributes:
        epoch: group epoch, incremented when members need another assignment. The group epoch of a new group starts at
            1, as in Kafka 4.3.
        assignment_epoch: group epoch for which ``targets`` were computed.
        targets: target assignment by member id.
        metadata_hash: hash of the subscribed topics at the last change of the epoch.
        assignment_time_ms: monotonic time at which ``targets`` were computed; None before the first assignment.
        sessions: timers that remove a member which sends no heartbeat, by member id.
        rebalances: timers that remove a member which does not finish a revocation, by member id.
    """

    group_id: str
    epoch: int = 1
    assignment_epoch: int = 1
    metadata_hash: int = 0
    members: dict[str, MemberT] = field(default_factory=dict)
    targets: dict[str, frozenset[KeyT]] = field(default_factory=dict)
    assignment_time_ms: int | None = None
    sessions: dict[str, Timer] = field(default_factory=dict)
    rebalances: dict[str, Timer] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether the group has everything that an assignment needs."""
        return True

    @property
    def state_name(self) -> str:
        """Name of the state, in Kafka's spelling."""
        if not self.members:
            return "Empty"
        if not self.is_ready:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        is_stable = all(
            member.state is MemberState.STABLE and member.epoch == self.assignment_epoch
            for member in self.members.values()
        )
        return "Stable" if is_stable else "Reconciling"

    def find_member(self, member_id: str, instance_id: str | None = None) -> MemberT:
        """Return the member with this id. Raise UNKNOWN_MEMBER_ID if the member does not exist."""
        if member_id not in self.members:
            reason = f"Member {member_id} is not a member of group {self.group_id}."
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, reason)
        return self.members[member_id]

    def update_member(self, member: MemberT) -> None:
        """Add or replace a member."""
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        """Remove a member, its target assignment and its timers."""
        self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        cancel_timer(self.sessions, member_id)
        cancel_timer(self.rebalances, member_id)

    def stop_timers(self) -> None:
        """Cancel all timers of the group and its members."""
        for timer in (*self.sessions.values(), *self.rebalances.values()):
            timer.cancel()

    def check_commit(self, committer: OffsetClient, *, transactional: bool) -> None:
        """Reject a commit with another member epoch, or without a member id while the group has members."""
        if committer.generation < 0 and not self.members:
            return
        if (
            transactional
            and committer.generation == _NO_VALUE
            and not committer.member_id
            and committer.instance_id is None
        ):
            return
        member = self.find_member(committer.member_id, None)
        if not transactional and not committer.supports_epoch_errors and not member.uses_classic_protocol:
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION)
        self._check_epoch(member, committer.generation)

    def check_fetch(self, committer: OffsetClient) -> None:
        """Reject a fetch with another member epoch (STALE_MEMBER_EPOCH). A fetch without member fields is allowed."""
        if committer.has_member_field or committer.generation >= 0:
            self._check_epoch(self.find_member(committer.member_id, None), committer.generation)

    @staticmethod
    def _check_epoch(member: GroupMember[Any], epoch: int) -> None:
        if epoch != member.epoch:
            if member.uses_classic_protocol:
                raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
            reason = f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
            raise RefusedError(ErrorCode.STALE_MEMBER_EPOCH, reason)
