"""A classic group: its members, states and votes, as ClassicGroup has them. No clock, no requests.

The life cycle is the table ``VALID_PREVIOUS``; ``rebalance.py`` moves groups through it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

from kafkaframes.coordination.groups.members import cancel
from kafkaframes.coordination.groups.ports import Committer, Group, Timer
from kafkaframes.coordination.groups.subscriptions import read_subscribed_topics
from kafkaframes.errors import DecodeError, ErrorCode, RefusedError

CONSUMER: Final = "consumer"
Protocols = tuple[tuple[str, bytes], ...]  # name and metadata, in the member's order


class GroupState(StrEnum):
    """The states of a classic group, in Kafka's spelling."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS: Final[Mapping[GroupState, frozenset[GroupState]]] = MappingProxyType(
    {
        GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
        GroupState.PREPARING_REBALANCE: frozenset(
            {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
        ),
        GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
        GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
        GroupState.DEAD: frozenset(GroupState),
    }
)


class JoinedMember(NamedTuple):
    """A member as the leader gets it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """What a JoinGroup is answered with."""

    error: int = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """What a SyncGroup is answered with."""

    error: int = ErrorCode.NONE
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


@dataclass(slots=True, eq=False)
class ClassicMember:
    """One member.

    Attributes:
        joining, syncing: answer its parked JoinGroup or SyncGroup.
        is_new: it has not been told its first generation yet, so it cannot heartbeat.
        deadline: when it is given up unless it is heard of.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    joining: Callable[[JoinResult], None] | None = None
    syncing: Callable[[SyncResult], None] | None = None
    deadline: Timer | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """Return what it said for a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    @property
    def satisfies_heartbeat(self) -> bool:
        """Whether it counts as alive though it was not heard of: it waits for the coordinator itself."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def answer_join(self, result: JoinResult) -> None:
        """Answer its JoinGroup if one is parked."""
        reply, self.joining = self.joining, None
        if reply is not None:
            reply(result)

    def answer_sync(self, result: SyncResult) -> bool:
        """Answer its parked SyncGroup; False where there is none."""
        reply, self.syncing = self.syncing, None
        if reply is not None:
            reply(result)
        return reply is not None

    def stop_timer(self) -> None:
        """Forget its deadline."""
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None


@dataclass(slots=True, eq=False)
class ClassicGroup(Group):
    """One classic group.

    Attributes:
        since_ms: when it came into its state; None of a group that was written before 2.1.
        pending_joins: ids that were given out (MEMBER_ID_REQUIRED) and not used yet, and until when.
        pending_syncs: members that were told the generation and have not sent their SyncGroup.
        subscribed_topics: of all members; None where it is not known.
        new_member_added: somebody joined during the initial delay, which is extended then.
        join_timer, sync_timer: when the join phase ends, and the wait for SyncGroups.
    """

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    since_ms: int | None = None
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_joins: dict[str, Timer] = field(default_factory=dict)
    pending_syncs: set[str] = field(default_factory=set)
    subscribed_topics: frozenset[str] | None = None
    new_member_added: bool = False
    join_timer: Timer | None = None
    sync_timer: Timer | None = None

    type: ClassVar[str] = "classic"

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self.state is GroupState.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether its members are consumers (and not workers of Connect, for one)."""
        return self.protocol_type == CONSUMER

    @property
    def has_all_joined(self) -> bool:
        """Whether every member has a JoinGroup parked, and no id is outstanding."""
        return not self.pending_joins and all(one.joining is not None for one in self.members.values())

    @property
    def awaiting_join(self) -> int:
        """How many JoinGroups are parked."""
        return sum(one.joining is not None for one in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of its members'."""
        return max((one.rebalance_timeout_ms for one in self.members.values()), default=0)

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can begin now."""
        return self.state in VALID_PREVIOUS[GroupState.PREPARING_REBALANCE]

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic; where that is not known, consumers are taken to."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these can join: one protocol must be common to all."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        common = self._common()
        has_common = any(
            name in common or not self.members for name, _ in protocols
        )  # all may be on their way to rejoin
        return self.protocol_type == protocol_type and has_common

    def _common(self) -> set[str]:
        counts = Counter(name for one in self.members.values() for name in {name for name, _ in one.protocols})
        return {name for name, count in counts.items() if count == len(self.members)}

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer, among those that all support."""
        common = self._common()
        votes = Counter(
            next(name for name, _ in one.protocols if name in common) for one in self.members.values() if common
        )
        return votes.most_common(1)[0][0] if votes else ""

    def accepts(self, member_id: str, max_size: int) -> bool:
        """Whether a joining member fits in (``group.max.size``)."""
        if self.state is GroupState.EMPTY:
            return True
        if self.state is GroupState.PREPARING_REBALANCE:
            member = self.members.get(member_id)
            return (member is not None and member.joining is not None) or self.awaiting_join < max_size
        return member_id in self.members or len(self.members) < max_size

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member that a request names; FENCED_INSTANCE_ID where another has taken its instance id."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise RefusedError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self.members[member_id]

    def described(self) -> tuple[JoinedMember, ...]:
        """Return the members as the leader gets them."""
        return tuple(
            JoinedMember(one.member_id, one.instance_id, one.metadata(self.protocol_name))
            for one in self.members.values()
        )

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Come into another state; the table says from which."""
        assert self.state in VALID_PREVIOUS[state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state, self.state, self.since_ms = self.state, state, now_ms

    def add(self, member: ClassicMember) -> None:
        """Take a member in; the first one decides the protocol's type and leads."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.drop_pending(member.member_id)

    def drop_pending(self, member_id: str) -> bool:
        """Forget an id that was given out; False where it was not."""
        return cancel(self.pending_joins, member_id)

    def remove(self, member_id: str) -> None:
        """Let a member go, or an id that was given out."""
        member = self.members.pop(member_id, None)
        if member is not None:
            member.stop_timer()
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.drop_pending(member_id)
        self.pending_syncs.discard(member_id)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member's place to the one that came back under another member id; fence the old one."""
        old = self.members.pop(old_id)
        old.stop_timer()
        old.answer_join(JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        old.answer_sync(SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        new = replace(old, member_id=new_id, deadline=None)
        self.members[new_id] = new
        if self.leader == old_id:
            self.leader = new_id
        self.static_members[instance_id] = new_id
        self.pending_syncs.discard(old_id)
        return new

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is among those who have joined; False if nobody has."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is None:
            joined = next((one.member_id for one in self.members.values() if one.joining is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def next_generation(self, now_ms: int) -> None:
        """Begin the next generation with the members that are there."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_syncs.clear()

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Return all topics that members subscribe to; None where that cannot be read."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        try:
            metadata = (one.metadata(self.protocol_name) for one in self.members.values())
            return frozenset(topic for one in metadata for topic in read_subscribed_topics(one))
        except DecodeError:
            return None

    @property
    def state_name(self) -> str:
        """Its state, in Kafka's spelling."""
        return self.state.value

    @property
    def protocol_type_name(self) -> str:
        """The type of its protocol; empty where there is none."""
        return self.protocol_type or ""

    def check_commit(self, committer: Committer, *, transactional: bool) -> None:
        """Refuse a commit that comes from another generation, or from nobody while there are members."""
        if committer.generation < 0 and self.is_empty:
            return
        if committer.generation >= 0 or committer.member_id or committer.instance_id is not None:
            self.check_member(committer.member_id, committer.instance_id)
            if committer.generation != self.generation:
                raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is GroupState.COMPLETING_REBALANCE:
            raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_offset_delete(self) -> None:
        """Refuse to delete offsets of members that are no consumers: what they read is not known."""
        if not self.is_empty and not self.uses_consumer_protocol:
            raise RefusedError(ErrorCode.NON_EMPTY_GROUP)

    def offsets_age_from(self) -> Callable[[int], int] | None:
        """Return from when on a commit ages: since the group is empty, or since it was made."""
        if self.protocol_type is None:
            return lambda commit_ms: commit_ms
        if self.is_empty:
            return lambda commit_ms: commit_ms if self.since_ms is None else self.since_ms
        if self.uses_consumer_protocol and self.subscribed_topics is not None and self.state is GroupState.STABLE:
            return lambda commit_ms: commit_ms
        return None

    def stop_timers(self) -> None:
        """Cancel everything that is due for the group and its members."""
        for timer in (self.join_timer, self.sync_timer, *self.pending_joins.values()):
            if timer is not None:
                timer.cancel()
        for member in self.members.values():
            member.stop_timer()
