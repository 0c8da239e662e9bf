"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. No socket, clock or task.

Rules (KIP-62, KIP-345, KIP-394, KIP-429):

1. A member joins when the caller polls for the first time, and joins again when the coordinator, a commit, its topics
   or a partition that it gave up require it.
2. With an eager assignor it joins only when ``on_revoke`` has returned for everything that it owns. With cooperative
   ones alone it keeps its partitions, gives up what the assignment takes away, and joins again.
3. Heartbeats are sent while it is in the group, also while it waits for the caller.
4. A member whose generation or id is unknown to the coordinator has lost its partitions. It joins again when the caller
   knows: until then commits are refused, for the caller would commit for others.
5. If the caller does not poll for ``max.poll.interval.ms``, its partitions are lost. A dynamic member leaves the group;
   a static one stops its heartbeats, and its session ends it. Both join again with the next poll.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from kafkaframes.client.assignors import ASSIGNORS, COOPERATIVE
from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.group_offsets import GroupMember
from kafkaframes.client.group_requests import (
    FetchMetadata,
    GroupRequest,
    Heartbeat,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    Request,
    SyncGroup,
    TopicPartitionsById,
)
from kafkaframes.client.metadata import Cluster, TopicPartition
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import BrokerError, ErrorCode
from kafkaframes.protocol.spec.model import NIL_UUID

_NO_GENERATION: Final = -1
# A member that is refused with one of these joins again, and is in the group.
JOIN_AGAIN: Final = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
)


class MemberHost(Protocol):
    """The consumer of a member, as far as its group is concerned."""

    @property
    def cluster(self) -> Cluster:
        """What is known of topics."""

    @property
    def owned(self) -> list[TopicPartition]:
        """The partitions that the caller has, or is about to have or give up."""

    @property
    def owned_by_id(self) -> TopicPartitionsById:
        """The same by topic id."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The names that are subscribed to."""

    @property
    def has_lost(self) -> bool:
        """Whether the caller does not know of lost partitions: it may still commit their positions."""

    def backoff_s(self, attempt: int) -> float:
        """Return how many seconds to wait after so many failures."""

    def lose_all(self) -> None:
        """Hand out no more records: other members may have the partitions."""

    def set_target(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        """Take the partitions that the group assigns, with the ids of their topics if it assigns by id."""

    def forget_target(self) -> None:
        """Take that the group is about to assign everything anew."""

    def refresh_topics(self) -> None:
        """Refresh the metadata of the subscribed topics."""

    def raise_later(self, error: Exception) -> None:
        """Let the next poll raise an error."""


class ClassicMember:
    """One consumer's membership in a classic group.

    Attributes:
        awaits_poll: it is not in the group, and joins when the caller polls.
        fatal: why it cannot be in the group any more; every poll raises it.
    """

    def __init__(self, host: MemberHost, settings: ConsumerSettings) -> None:
        assert settings.group_id is not None
        self._host = host
        self._group_id = settings.group_id
        self._instance_id = settings.group_instance_id
        self._is_eager = not all(name in COOPERATIVE for name in settings.strategies)
        self._heartbeat_s = settings.heartbeat_interval_ms / 1000
        self._member_id = ""
        self._generation = _NO_GENERATION
        self._must_join = True
        self._has_left = False
        self.awaits_poll = True
        self.fatal: Exception | None = None
        self._answer: JoinGroupAnswer | None = None  # to which the SyncGroup is still to be sent
        self._assignment: Mapping[str, Sequence[TopicPartition]] | None = None  # as the leader
        self._group_topics: frozenset[str] | None = None  # of the members, if this one is the leader
        self._counts: dict[str, int] = {}  # partitions of these topics when they were assigned
        self._under_way: Request | None = None
        self._heartbeat: Heartbeat | None = None  # under way
        self._heartbeat_due = 0.0
        self._not_before = 0.0
        self._failures = 0

    @property
    def identity(self) -> GroupMember:
        """How requests name this member."""
        return GroupMember(self._group_id, self._generation, self._member_id, self._instance_id)

    @property
    def is_member(self) -> bool:
        """Whether it may commit."""
        return self._generation >= 0

    @property
    def must_revoke_all(self) -> bool:
        """Whether it can only join when the caller has given everything up."""
        return self._is_eager and self._must_join and not self._is_out and bool(self._host.owned)

    @property
    def accepts_assignment(self) -> bool:
        """Whether the caller may take over what was assigned: no JoinGroup without a claim to it is under way."""
        return not self._must_join and self._answer is None

    @property
    def is_rebalancing(self) -> bool:
        """Whether it waits for its assignment."""
        return not self._is_out and (self._must_join or self._answer is not None)

    @property
    def _waits_for_caller(self) -> bool:
        """Whether it can only join when the caller has polled."""
        return self._must_join and (self.must_revoke_all or self._host.has_lost)

    @property
    def _is_out(self) -> bool:
        return self._has_left or self.awaits_poll or self.fatal is not None

    @property
    def topics_of_interest(self) -> frozenset[str]:
        """The topics whose changes matter: as the leader, those of all members."""
        return self._group_topics or frozenset()

    # ----------------------------------------------------------------------------------------------------- requests

    def requests(self, now: float) -> list[Request]:
        """Return what to send now."""
        if self._is_out:
            return []
        result: list[Request] = []
        if self._under_way is None and now >= self._not_before:
            request = self._next_step()
            if request is not None:
                self._under_way = request
                result.append(request)
        if self._heartbeat is None and not self._is_joining and self.is_member and now >= self._heartbeat_due:
            self._heartbeat = Heartbeat(self._member_id, self._generation)
            result.append(self._heartbeat)
        return result

    def next_time(self, now: float) -> float | None:
        """Return when something is due."""
        if self._is_out:
            return None
        times = []
        if self._under_way is None and self.is_rebalancing and not self._waits_for_caller:
            times.append(self._not_before)
        if self._heartbeat is None and not self._is_joining and self.is_member:
            times.append(self._heartbeat_due)
        return min(times, default=None)

    @property
    def _is_joining(self) -> bool:
        """Whether the coordinator counts a request that it holds back as a sign of life."""
        return isinstance(self._under_way, JoinGroup)

    def _next_step(self) -> Request | None:
        if self._must_join:
            if self._waits_for_caller:
                return None
            host = self._host
            if self._is_eager:
                host.forget_target()
            return JoinGroup(self._member_id, self._generation, host.topics, tuple(host.owned))
        if self._answer is None:
            return None
        if self._answer.members is not None and self._assignment is None:
            return FetchMetadata(self._topics_of_members(self._answer))
        return SyncGroup(self._member_id, self._generation, self._answer.protocol, self._assignment)

    @staticmethod
    def _topics_of_members(answer: JoinGroupAnswer) -> frozenset[str]:
        members = (answer.members or {}).values()
        return frozenset().union(*(member.topics for member in members))

    # ------------------------------------------------------------------------------------------------------ answers

    def answered(self, request: Request, answer: object, now: float) -> None:
        """Take the answer to one of its requests."""
        if request is self._heartbeat:
            self._heartbeat = None
            self._heartbeat_due = now + self._heartbeat_s
            return
        if request is not self._under_way:
            return
        self._under_way, self._failures, self._not_before = None, 0, now
        if isinstance(request, JoinGroup) and isinstance(answer, JoinGroupAnswer):
            self._joined(request, answer, now)
        elif isinstance(request, FetchMetadata):
            self._assign()
        elif isinstance(request, SyncGroup):
            self._answer = self._assignment = None
            self._heartbeat_due = now + self._heartbeat_s
            self._host.set_target(dict.fromkeys(answer, NIL_UUID))  # type: ignore[call-overload]

    def _joined(self, request: JoinGroup, answer: JoinGroupAnswer, now: float) -> None:
        self._member_id = answer.member_id
        if answer.generation < 0:
            return  # it joins again under its id
        self._generation = answer.generation
        is_claim_old = not set(request.owned).issubset(self._host.owned)  # what it claimed: others wait for it
        self._must_join = is_claim_old or request.topics != self._host.topics
        self._answer, self._assignment = answer, None
        self._group_topics = None if answer.members is None else self._topics_of_members(answer)
        self._heartbeat_due = now + self._heartbeat_s

    def _assign(self) -> None:
        """Assign the partitions to the members, as their leader."""
        answer = self._answer
        if answer is None or answer.members is None:
            return
        self._counts = self._counts_now()
        self._assignment = {} if answer.skips_assignment else ASSIGNORS[answer.protocol](answer.members, self._counts)

    def _counts_now(self) -> dict[str, int]:
        cluster = self._host.cluster
        return {topic: len(cluster.partitions_of(topic)) for topic in self._group_topics or ()}

    def failed(self, request: Request, error: Exception, now: float) -> None:
        """Take that one of its requests was refused or has no answer."""
        if request is self._heartbeat:
            self._heartbeat = None
            if isinstance(request, Heartbeat) and request.generation != self._generation:
                return
            self._heartbeat_due = now + self._host.backoff_s(self._failures)
        elif request is self._under_way:
            self._under_way = None
            if isinstance(request, LeaveGroup):
                return  # its session ends
            if isinstance(request, FetchMetadata) and not is_retriable(error):
                self._host.raise_later(error)
                self._assign()  # the topics that are known
                return
            self._not_before = now + self._host.backoff_s(self._failures)
        else:
            return
        self._failures += 1
        if not self._starts_over(error) and not is_retriable(error):
            self._host.raise_later(error)

    def _starts_over(self, error: Exception) -> bool:
        """Return whether an error says where the member stands; draw the consequences."""
        code = error.code if isinstance(error, BrokerError) else None
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.fatal = error
            self._forget()
            return True
        if code not in JOIN_AGAIN:
            return False
        self._must_join = True
        self._answer = self._assignment = None
        if code != ErrorCode.REBALANCE_IN_PROGRESS:
            member_id = "" if code == ErrorCode.UNKNOWN_MEMBER_ID else self._member_id
            self._forget()
            self._member_id = member_id
        return True

    def _forget(self) -> None:
        """Take that the coordinator does not know the member any more."""
        self._member_id, self._generation = "", _NO_GENERATION
        self._must_join = True
        self._answer = self._assignment = self._under_way = self._heartbeat = None
        self._group_topics = None
        self._host.lose_all()

    # ------------------------------------------------------------------------------------------------------- events

    def polled(self, now: float) -> None:
        """Take that the caller polls."""
        if self.awaits_poll:
            self.awaits_poll, self._not_before = False, now

    def expire(self) -> GroupRequest | None:
        """Take that the caller has not polled for too long; return how to tell the coordinator."""
        if self._is_out:
            return None
        request = self.leave()
        self._has_left = False
        self._forget()
        self.awaits_poll = True
        self._under_way = request
        return request

    def leave(self) -> GroupRequest | None:
        """End; return how to tell the coordinator. A static member's session ends by itself (KIP-345)."""
        self._has_left = True
        if self._instance_id is not None or not self._member_id:
            return None
        return LeaveGroup(self._member_id)

    def gave_up(self, now: float) -> None:
        """Take that the caller has given up what the assignment takes away: others wait for it."""
        if not self._must_join and not self._is_eager:
            self._must_join, self._not_before = True, now

    def took_over(self, now: float) -> None:
        """Take that the caller has taken over what the group has assigned."""

    def commit_refused(self, error: Exception, now: float) -> None:
        """Join at once if a commit was refused with what that mends."""
        self._starts_over(error)

    def subscription_changed(self, now: float) -> None:
        """Join again, for other topics."""
        self._must_join = True

    def metadata_updated(self, now: float) -> None:
        """Join again if the topics of the group's members have changed since this one, the leader, assigned them."""
        is_leader = self._group_topics is not None and self._answer is None
        if is_leader and not self._must_join and self._counts_now() != self._counts:
            self._must_join = True
