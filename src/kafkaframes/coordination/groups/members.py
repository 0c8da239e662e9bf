"""Members of groups with epochs, and what these groups answer alike: reconciliation, offsets (KIP-848, KIP-932).

The coordinator decides a **target** for every member; each member comes to it in its own time: it hears what to give
up, and what it is to take comes only when nobody else has it any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Generic, Self, TypeVar

from kafkaframes.coordination.groups.ports import Committer, Group, Timer
from kafkaframes.errors import ErrorCode, RefusedError

_NONE = -1
KeyT = TypeVar("KeyT")


def cancel(timers: dict[str, Timer], member_id: str) -> bool:
    """Cancel what is due for a member, and forget it; False where nothing is."""
    timer = timers.pop(member_id, None)
    if timer is not None:
        timer.cancel()
    return timer is not None


class MemberState(IntEnum):
    """Where a member is on its way to the target; the numbers are those of its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class GroupMember(Generic[KeyT]):
    """One member; a value, so that a heartbeat that fails leaves no trace.

    Attributes:
        epoch, previous_epoch: of the assignment that it has, and that it had; -2 of a static member that is away.
        assigned: the partitions or tasks that it has, or may take; ``revoking``: what it is to give up.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = _NONE
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: frozenset[KeyT] = frozenset()
    revoking: frozenset[KeyT] = frozenset()

    @property
    def speaks_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return False

    @property
    def session_timeout_ms(self) -> int | None:
        """How long it may be silent; None: as the group's setting says."""
        return None

    def same_subscription(self, other: Self) -> bool:
        """Whether nothing that its record holds is different."""
        return (
            replace(
                self,
                epoch=other.epoch,
                previous_epoch=other.previous_epoch,
                state=other.state,
                assigned=other.assigned,
                revoking=other.revoking,
            )
            == other
        )

    def reconciled(
        self,
        target: frozenset[KeyT],
        target_epoch: int,
        owned: frozenset[KeyT] | None,
        is_taken: Callable[[KeyT], bool],
    ) -> Self:
        """Return the member one step nearer to its target (CurrentAssignmentBuilder).

        Args:
            target: what it is to have in ``target_epoch``.
            owned: what it says it has; None if it says nothing.
            is_taken: whether another member has a partition or task, or is still to give it up.
        """
        if self.state is MemberState.STABLE and self.epoch == target_epoch:
            return self
        if self.state is MemberState.UNREVOKED_PARTITIONS and (owned is None or owned & self.revoking):
            return self
        kept = self.assigned & target
        revoked = self.assigned - kept
        if revoked and (owned is None or owned & revoked):
            return self._moved(self.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
        missing = target - kept
        free = frozenset(partition for partition in missing if not is_taken(partition))
        state = MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS
        return self._moved(target_epoch, state, kept | free, frozenset())

    def without_unsubscribed(self, subscribed: frozenset[KeyT], owned: frozenset[KeyT] | None) -> Self:
        """Return the member, in its epoch, without what it no longer subscribes to (updateCurrentAssignment).

        Args:
            subscribed: what of its assignment it subscribes to still.
            owned: what it says it has; None if it says nothing.
        """
        gone = self.assigned - subscribed
        if not gone:
            return self
        revoking = self.revoking | gone
        if owned is None or owned & revoking:
            return self._moved(self.epoch, MemberState.UNREVOKED_PARTITIONS, self.assigned - gone, revoking)
        return self._moved(self.epoch, self.state, self.assigned - gone, self.revoking)

    def _moved(self, epoch: int, state: MemberState, assigned: frozenset[KeyT], revoking: frozenset[KeyT]) -> Self:
        moved = replace(self, epoch=epoch, state=state, assigned=assigned, revoking=revoking)
        return self if moved == self else replace(moved, previous_epoch=self.epoch)

    def check_epoch(self, epoch: int, owned: frozenset[KeyT] | None, *, group_type: str) -> None:
        """Refuse an epoch that is not the member's; the one before is taken from a member that missed an answer."""
        if epoch == self.epoch:
            return
        relation = "greater" if epoch > self.epoch else "smaller"
        missed = epoch == self.previous_epoch and owned is not None and owned <= self.assigned
        if epoch > self.epoch or not missed:
            reason = (
                f"The {group_type} group member has a {relation} member epoch ({epoch}) than the one known by the group"
                f" coordinator ({self.epoch}). The member must abandon all its partitions and rejoin."
            )
            raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, reason)


MemberT = TypeVar("MemberT", bound=GroupMember[Any])


@dataclass(slots=True, eq=False)
class EpochGroup(Group, Generic[MemberT, KeyT]):
    """A group whose members have epochs.

    Attributes:
        epoch: grows with every change that members are assigned for; a new group begins with 1, as Kafka 4.3's.
        assignment_epoch: the epoch that ``targets`` were made for.
        metadata_hash: of the topics that are read, when the epoch was decided.
        assigned_ms: when ``targets`` were computed, by the monotonic clock; None: never.
        sessions, rebalances: when a member is given up: not heard of, or too slow to give up what it must.
    """

    group_id: str
    epoch: int = 1
    assignment_epoch: int = 1
    metadata_hash: int = 0
    members: dict[str, MemberT] = field(default_factory=dict)
    targets: dict[str, frozenset[KeyT]] = field(default_factory=dict)
    assigned_ms: int | None = None
    sessions: dict[str, Timer] = field(default_factory=dict)
    rebalances: dict[str, Timer] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether there is everything that it assigns."""
        return True

    @property
    def state_name(self) -> str:
        """Its state, in Kafka's spelling."""
        if not self.members:
            return "Empty"
        if not self.is_ready:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        done = all(
            one.state is MemberState.STABLE and one.epoch == self.assignment_epoch for one in self.members.values()
        )
        return "Stable" if done else "Reconciling"

    def member(self, member_id: str, instance_id: str | None = None) -> MemberT:
        """Return the member that a request names, or refuse with UNKNOWN_MEMBER_ID."""
        if member_id not in self.members:
            reason = f"Member {member_id} is not a member of group {self.group_id}."
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, reason)
        return self.members[member_id]

    def put(self, member: MemberT) -> None:
        """Take a member in, or its new value."""
        self.members[member.member_id] = member

    def remove(self, member_id: str) -> None:
        """Let a member go."""
        self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        cancel(self.sessions, member_id)
        cancel(self.rebalances, member_id)

    def stop_timers(self) -> None:
        """Cancel everything that is due for the group and its members."""
        for timer in (*self.sessions.values(), *self.rebalances.values()):
            timer.cancel()

    def check_commit(self, committer: Committer, *, transactional: bool) -> None:
        """Refuse a commit of another epoch, or from nobody while there are members."""
        if committer.generation < 0 and not self.members:
            return
        if (
            transactional
            and committer.generation == _NONE
            and not committer.member_id
            and committer.instance_id is None
        ):
            return
        member = self.member(committer.member_id, None)
        if not transactional and not committer.knows_epochs and not member.speaks_classic:
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION)
        self._check_epoch(member, committer.generation)

    def check_fetch(self, committer: Committer) -> None:
        """Refuse a member of another epoch (STALE_MEMBER_EPOCH); who does not say that it is one may ask."""
        if committer.says_member or committer.generation >= 0:
            self._check_epoch(self.member(committer.member_id, None), committer.generation)

    @staticmethod
    def _check_epoch(member: GroupMember[Any], epoch: int) -> None:
        if epoch != member.epoch:
            if member.speaks_classic:
                raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
            reason = f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
            raise RefusedError(ErrorCode.STALE_MEMBER_EPOCH, reason)
