"""A classic group, which corresponds to Kafka's ClassicGroup: its members, its states and the vote for a protocol.

``VALID_PREVIOUS_STATES`` is the table of state transitions, which ``rebalance.py`` performs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

from kafkaframes.coordination.groups.members import cancel_timer
from kafkaframes.coordination.groups.ports import Group, OffsetClient, Timer
from kafkaframes.coordination.groups.subscriptions import read_subscribed_topics
from kafkaframes.errors import DecodeError, ErrorCode, RefusedError

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
Protocols = tuple[tuple[str, bytes], ...]  # name and metadata, in the member's order


class GroupState(StrEnum):
    """The states of a classic group, in Kafka's spelling."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: Final[Mapping[GroupState, frozenset[GroupState]]] = MappingProxyType(
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
    """A member, as the JoinGroup response lists it for the leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The content of a JoinGroup response."""

    error: int = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """The content of a SyncGroup response."""

    error: int = ErrorCode.NONE
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


@dataclass(slots=True, eq=False)
class ClassicMember:
    """One member of a classic group.

    Attributes:
        joining, syncing: callbacks that answer the member's waiting JoinGroup or SyncGroup request.
        is_new: whether the member's first JoinGroup is unanswered. A new member cannot send heartbeats.
        deadline: timer that removes the member if no heartbeat arrives.
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

    def get_metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol; empty if the member does not support the protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    @property
    def satisfies_heartbeat(self) -> bool:
        """Whether the member counts as alive without heartbeats, since it waits for the coordinator's response."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def answer_join(self, result: JoinResult) -> None:
        """Answer the member's JoinGroup request, if one is waiting."""
        reply, self.joining = self.joining, None
        if reply is not None:
            reply(result)

    def answer_sync(self, result: SyncResult) -> bool:
        """Answer the member's SyncGroup request. Return False if the member has no waiting request."""
        reply, self.syncing = self.syncing, None
        if reply is not None:
            reply(result)
        return reply is not None

    def stop_timer(self) -> None:
        """Cancel the timer that removes the member if no heartbeat arrives."""
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None


@dataclass(slots=True, eq=False)
class ClassicGroup(Group):
    """One classic group.

    Attributes:
        since_ms: time of the last state transition; None for groups that a Kafka release before 2.1 has stored.
        pending_joins: expiry timers of member ids that were assigned with MEMBER_ID_REQUIRED and are not yet in use.
        pending_syncs: ids of members that have received the JoinGroup response and have not sent SyncGroup yet.
        subscribed_topics: topics of all members; None if they are unknown.
        new_member_added: whether a member joined during the initial rebalance delay, which extends the delay.
        join_timer, sync_timer: timers that end the join phase and the wait for SyncGroup requests.
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
        """Whether the group has no members."""
        return self.state is GroupState.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers, and not for example Connect workers."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def has_all_joined(self) -> bool:
        """Whether every member's JoinGroup is waiting, and every assigned member id is in use."""
        return not self.pending_joins and all(member.joining is not None for member in self.members.values())

    @property
    def waiting_join_count(self) -> int:
        """Number of waiting JoinGroup requests."""
        return sum(member.joining is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, in milliseconds."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def assignments(self) -> dict[str, bytes]:
        """The assignment of each member, by member id."""
        return {member.member_id: member.assignment for member in self.members.values()}

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can begin now."""
        return self.state in VALID_PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic; if the consumers' topics are unknown, return True."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols can join: one protocol must be common to all members."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        common = self._find_common_protocols()
        # A group without members accepts any protocol, because all members may be about to rejoin.
        has_common = any(name in common or not self.members for name, _ in protocols)
        return self.protocol_type == protocol_type and has_common

    def _find_common_protocols(self) -> set[str]:
        counts = Counter(name for member in self.members.values() for name in {name for name, _ in member.protocols})
        return {name for name, count in counts.items() if count == len(self.members)}

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer, of those that all members support."""
        common = self._find_common_protocols()
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values() if common
        )
        return votes.most_common(1)[0][0] if votes else ""

    def has_space_for(self, member_id: str, max_size: int) -> bool:
        """Return whether the group has space for a joining member (``group.max.size``)."""
        if self.state is GroupState.EMPTY:
            return True
        if self.state is GroupState.PREPARING_REBALANCE:
            member = self.members.get(member_id)
            return (member is not None and member.joining is not None) or self.waiting_join_count < max_size
        return member_id in self.members or len(self.members) < max_size

    def find_sender(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return a request's sender; raise FENCED_INSTANCE_ID if another member now has the sender's instance id."""
        if instance_id is not None:
            current_id = self.static_members.get(instance_id)
            if current_id is None:
                raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current_id != member_id:
                raise RefusedError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self.members[member_id]

    def list_members_for_leader(self) -> tuple[JoinedMember, ...]:
        """Return the members as the JoinGroup response lists them for the leader."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.get_metadata(self.protocol_name))
            for member in self.members.values()
        )

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Enter another state. ``VALID_PREVIOUS_STATES`` lists the allowed transitions."""
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state, self.state, self.since_ms = self.state, state, now_ms

    def add_member(self, member: ClassicMember) -> None:
        """Add a member. The first member becomes the leader and decides the protocol type."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.drop_pending_id(member.member_id)

    def drop_pending_id(self, member_id: str) -> bool:
        """Remove an assigned member id that is not yet in use. Return False if the id is unknown."""
        return cancel_timer(self.pending_joins, member_id)

    def remove_member(self, member_id: str) -> None:
        """Remove a member, or an assigned member id that is not yet in use."""
        member = self.members.pop(member_id, None)
        if member is not None:
            member.stop_timer()
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.drop_pending_id(member_id)
        self.pending_syncs.discard(member_id)

    def replace_static_member(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Replace a static member that rejoined with another member id, and fence the old member id."""
        old_member = self.members.pop(old_id)
        old_member.stop_timer()
        old_member.answer_join(JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        old_member.answer_sync(SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        new_member = replace(old_member, member_id=new_id, deadline=None)
        self.members[new_id] = new_member
        if self.leader == old_id:
            self.leader = new_id
        self.static_members[instance_id] = new_id
        self.pending_syncs.discard(old_id)
        return new_member

    def elect_joined_leader(self) -> bool:
        """Elect a leader with a waiting JoinGroup. Return False if no JoinGroup is waiting."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is None:
            joining_id = next(
                (member.member_id for member in self.members.values() if member.joining is not None), None
            )
            if joining_id is None:
                return False
            self.leader = joining_id
        return True

    def start_generation(self, now_ms: int) -> None:
        """Start the next generation with the current members."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_syncs.clear()

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics of all members' subscriptions; None if the subscriptions cannot be read."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        try:
            metadata = (member.get_metadata(self.protocol_name) for member in self.members.values())
            return frozenset(topic for data in metadata for topic in read_subscribed_topics(data))
        except DecodeError:
            return None

    @property
    def state_name(self) -> str:
        """Name of the state, in Kafka's spelling."""
        return self.state.value

    @property
    def protocol_type_name(self) -> str:
        """The protocol type; empty if the group has none."""
        return self.protocol_type or ""

    def check_commit(self, committer: OffsetClient, *, transactional: bool) -> None:
        """Reject a commit of another generation, or without a member id while the group has members."""
        if committer.generation < 0 and self.is_empty:
            return
        if committer.generation >= 0 or committer.member_id or committer.instance_id is not None:
            self.find_sender(committer.member_id, committer.instance_id)
            if committer.generation != self.generation:
                raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is GroupState.COMPLETING_REBALANCE:
            raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_offset_delete(self) -> None:
        """Reject the deletion of offsets while members are not consumers, since their topics are unknown."""
        if not self.is_empty and not self.uses_consumer_protocol:
            raise RefusedError(ErrorCode.NON_EMPTY_GROUP)

    def get_retention_start_function(self) -> Callable[[int], int] | None:
        """Return a function that maps commit times to the start of the retention; None if no offset expires."""
        if self.protocol_type is None:
            return lambda commit_ms: commit_ms
        if self.is_empty:
            return lambda commit_ms: commit_ms if self.since_ms is None else self.since_ms
        if self.uses_consumer_protocol and self.subscribed_topics is not None and self.state is GroupState.STABLE:
            return lambda commit_ms: commit_ms
        return None

    def stop_timers(self) -> None:
        """Cancel all timers of the group and its members."""
        for timer in (self.join_timer, self.sync_timer, *self.pending_joins.values()):
            if timer is not None:
                timer.cancel()
        for member in self.members.values():
            member.stop_timer()
