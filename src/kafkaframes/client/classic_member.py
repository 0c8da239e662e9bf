"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The module uses no socket, clock or task.

Rules (KIP-62, KIP-345, KIP-394, KIP-429):

1. A member joins at the caller's first poll. The member rejoins if the coordinator or a rejected commit requires it, if
   the subscription changes, or after giving up partitions.
2. With an eager assignor, a member joins only after ``on_revoke`` has returned for all its partitions. With only
   cooperative assignors, a member keeps its partitions, gives up those that the assignment revokes, and rejoins.
3. The member sends heartbeats while it is in the group, even while it waits for the caller.
4. If the coordinator does not know the member's generation or id, the member has lost its partitions. The member
   rejoins after the caller was notified. Until then, commits are rejected, because they could overwrite those of other
   members.
5. If the caller does not poll for ``max.poll.interval.ms``, the member loses its partitions. A dynamic member leaves
   the group. A static member stops its heartbeats, and its session expires. In both cases the member rejoins at the
   next poll.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from kafkaframes.client.assignors import ASSIGNORS, COOPERATIVE_ASSIGNORS
from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.group_offsets import GroupMember
from kafkaframes.client.group_requests import (
    FetchMetadata,
    GroupRequest,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    Request,
    SyncGroup,
    TopicPartitionsById,
)
from kafkaframes.client.metadata import Cluster, TopicPartition
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import BrokerError, ErrorCode
from kafkaframes.wire.primitives import NIL_UUID

_NO_GENERATION: Final = -1
# After one of these errors, a member rejoins the group.
REJOIN_ERRORS: Final = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
)


class MemberHost(Protocol):
    """The state and methods of a consumer that its group member uses."""

    @property
    def cluster(self) -> Cluster:
        """The cluster metadata."""

    @property
    def owned_partitions(self) -> list[TopicPartition]:
        """The partitions that the caller owns, including those with a running ``on_assign`` or ``on_revoke``."""

    @property
    def owned_partitions_by_id(self) -> TopicPartitionsById:
        """The owned partitions by topic id."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the subscribed topics."""

    @property
    def has_lost_partitions(self) -> bool:
        """Whether the caller has not been notified of lost partitions yet.

        The caller may still commit the positions of lost partitions.
        """

    def backoff_s(self, attempt: int) -> float:
        """Return the backoff after a number of failures, in seconds."""

    def drop_all_partitions(self) -> None:
        """Stop returning records of all partitions, because other members may own them."""

    def set_target(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        """Set the partitions that the group assigns, with their topic ids if the group assigns by id."""

    def forget_unclaimed_partitions(self) -> None:
        """Clear the assigned partitions that the caller does not own: the group may assign them to other members."""

    def refresh_topics(self) -> None:
        """Refresh the metadata of the subscribed topics."""

    def queue_error(self, error: Exception) -> None:
        """Queue an error, which the next poll raises."""


class ClassicMember:
    """One consumer's membership in a classic group.

    Attributes:
        awaits_poll: whether the member is outside the group, and joins at the next poll.
        fatal: error that prevents the member from rejoining and that every poll raises.
    """

    def __init__(self, host: MemberHost, settings: ConsumerSettings) -> None:
        assert settings.group_id is not None
        self._host = host
        self._group_id = settings.group_id
        self._instance_id = settings.group_instance_id
        self._is_eager = not all(name in COOPERATIVE_ASSIGNORS for name in settings.strategies)
        self._heartbeat_s = settings.heartbeat_interval_ms / 1000
        self._member_id = ""
        self._generation = _NO_GENERATION
        self._must_join = True
        self._has_left = False
        self.awaits_poll = True
        self.fatal: Exception | None = None
        # JoinGroup response for which no SyncGroup request has been sent yet.
        self._answer: JoinGroupResponse | None = None
        # Assignment of all members, if this member is the leader.
        self._assignment: Mapping[str, Sequence[TopicPartition]] | None = None
        self._group_topics: frozenset[str] | None = None  # topics of all members, if this member is the leader
        self._counts: dict[str, int] = {}  # partition counts of the group's topics at the last assignment
        self._in_flight: Request | None = None
        self._heartbeat: Heartbeat | None = None  # in flight
        self._heartbeat_due = 0.0
        self._not_before = 0.0
        self._failures = 0

    @property
    def identity(self) -> GroupMember:
        """The identity of this member in requests."""
        return GroupMember(self._group_id, self._generation, self._member_id, self._instance_id)

    @property
    def is_member(self) -> bool:
        """Whether the member is in the group, so that it may commit."""
        return self._generation >= 0

    @property
    def must_revoke_all(self) -> bool:
        """Whether the caller must give up all partitions before the member can join."""
        return self._is_eager and self._must_join and not self._is_out and bool(self._host.owned_partitions)

    @property
    def accepts_assignment(self) -> bool:
        """Whether the caller may take over assigned partitions.

        The caller may not take over partitions while the member rejoins without them.
        """
        return not self._must_join and self._answer is None

    @property
    def is_rebalancing(self) -> bool:
        """Whether the member waits for its assignment."""
        return not self._is_out and (self._must_join or self._answer is not None)

    @property
    def _waits_for_caller(self) -> bool:
        """Whether the caller must poll before the member can join."""
        return self._must_join and (self.must_revoke_all or self._host.has_lost_partitions)

    @property
    def _is_out(self) -> bool:
        return self._has_left or self.awaits_poll or self.fatal is not None

    @property
    def topics_of_interest(self) -> frozenset[str]:
        """The topics with changes that require a rejoin: the topics of all members if this member is the leader."""
        return self._group_topics or frozenset()

    # ----------------------------------------------------------------------------------------------------- requests

    def next_requests(self, now: float) -> list[Request]:
        """Return the requests to send now."""
        if self._is_out:
            return []
        result: list[Request] = []
        if self._in_flight is None and now >= self._not_before:
            request = self._next_step()
            if request is not None:
                self._in_flight = request
                result.append(request)
        if self._heartbeat is None and not self._is_joining and self.is_member and now >= self._heartbeat_due:
            self._heartbeat = Heartbeat(self._member_id, self._generation)
            result.append(self._heartbeat)
        return result

    def next_time(self, now: float) -> float | None:
        """Return the time at which to send the next request; None if no request is planned."""
        if self._is_out:
            return None
        times = []
        if self._in_flight is None and self.is_rebalancing and not self._waits_for_caller:
            times.append(self._not_before)
        if self._heartbeat is None and not self._is_joining and self.is_member:
            times.append(self._heartbeat_due)
        return min(times, default=None)

    @property
    def _is_joining(self) -> bool:
        """Whether a JoinGroup is in flight. The coordinator needs no heartbeats while a JoinGroup is in flight."""
        return isinstance(self._in_flight, JoinGroup)

    def _next_step(self) -> Request | None:
        """Return the next request of a rebalance; None if no rebalance is going on or the caller must poll first."""
        if self._must_join:
            if self._waits_for_caller:
                return None
            host = self._host
            host.forget_unclaimed_partitions()
            return JoinGroup(self._member_id, self._generation, host.topics, tuple(host.owned_partitions))
        if self._answer is None:
            return None
        if self._answer.members is not None and self._assignment is None:
            return FetchMetadata(self._collect_member_topics(self._answer))
        return SyncGroup(self._member_id, self._generation, self._answer.protocol, self._assignment)

    @staticmethod
    def _collect_member_topics(answer: JoinGroupResponse) -> frozenset[str]:
        members = (answer.members or {}).values()
        return frozenset().union(*(member.topics for member in members))

    # ---------------------------------------------------------------------------------------------------- responses

    def process_response(self, request: Request, answer: object, now: float) -> None:
        """Process the response to a request."""
        if request is self._heartbeat:
            self._heartbeat = None
            self._heartbeat_due = now + self._heartbeat_s
            return
        if request is not self._in_flight:
            return
        self._in_flight, self._failures, self._not_before = None, 0, now
        if isinstance(request, JoinGroup) and isinstance(answer, JoinGroupResponse):
            self._process_join(request, answer, now)
        elif isinstance(request, FetchMetadata):
            self._assign_partitions()
        elif isinstance(request, SyncGroup):
            self._must_join = self._must_join or self._is_outdated(answer)  # type: ignore[arg-type]
            self._answer = self._assignment = None
            self._heartbeat_due = now + self._heartbeat_s
            self._host.set_target(dict.fromkeys(answer, NIL_UUID))  # type: ignore[call-overload]

    def _process_join(self, request: JoinGroup, answer: JoinGroupResponse, now: float) -> None:
        self._member_id = answer.member_id
        if answer.generation < 0:
            return  # the member rejoins with this id
        self._generation = answer.generation
        # The request claimed partitions that are revoked now, and other members wait for them.
        is_claim_old = not set(request.owned_partitions).issubset(self._host.owned_partitions)
        self._must_join = is_claim_old or request.topics != self._host.topics
        self._answer, self._assignment = answer, None
        self._group_topics = None if answer.members is None else self._collect_member_topics(answer)
        self._heartbeat_due = now + self._heartbeat_s

    def _assign_partitions(self) -> None:
        """Assign the partitions to all members, as the group leader."""
        answer = self._answer
        if answer is None or answer.members is None:
            return
        self._counts = self._get_partition_counts()
        self._assignment = {} if answer.skips_assignment else ASSIGNORS[answer.protocol](answer.members, self._counts)

    def _is_outdated(self, partitions: Sequence[TopicPartition]) -> bool:
        """Return whether a static leader has received its previous assignment, and topics have changed since.

        The coordinator has then skipped the assignment (KIP-814), so the leader only knows its own partitions. The
        leader cannot detect changes that concern only other members.
        """
        answer = self._answer
        if answer is None or answer.members is None or not answer.skips_assignment:
            return False
        if any(entry.partition >= self._counts.get(entry.topic, 0) for entry in partitions):
            return True
        return len(answer.members) == 1 and len(partitions) < sum(self._counts.values())

    def _get_partition_counts(self) -> dict[str, int]:
        cluster = self._host.cluster
        return {topic: len(cluster.partitions_of(topic)) for topic in self._group_topics or ()}

    def process_failure(self, request: Request, error: Exception, now: float) -> None:
        """Process the failure of a request."""
        if request is self._heartbeat:
            self._heartbeat = None
            if isinstance(request, Heartbeat) and request.generation != self._generation:
                return
            self._heartbeat_due = now + self._host.backoff_s(self._failures)
        elif request is self._in_flight:
            self._in_flight = None
            if isinstance(request, LeaveGroup):
                return  # the session expires at the coordinator
            if isinstance(request, FetchMetadata) and not is_retriable(error):
                self._host.queue_error(error)
                self._assign_partitions()  # assigns the topics that the metadata contains
                return
            self._not_before = now + self._host.backoff_s(self._failures)
        else:
            return
        self._failures += 1
        if not self._handle_rejoin_error(error) and not is_retriable(error):
            self._host.queue_error(error)

    def _handle_rejoin_error(self, error: Exception) -> bool:
        """Handle an error that requires the member to rejoin or to stop. Return False for other errors."""
        code = error.code if isinstance(error, BrokerError) else None
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.fatal = error
            self._reset_membership()
            return True
        if code not in REJOIN_ERRORS:
            return False
        self._must_join = True
        self._answer = self._assignment = None
        if code != ErrorCode.REBALANCE_IN_PROGRESS:
            member_id = "" if code == ErrorCode.UNKNOWN_MEMBER_ID else self._member_id
            self._reset_membership()
            self._member_id = member_id
        return True

    def _reset_membership(self) -> None:
        """Reset the state after the coordinator has removed the member."""
        self._member_id, self._generation = "", _NO_GENERATION
        self._must_join = True
        self._answer = self._assignment = self._in_flight = self._heartbeat = None
        self._group_topics = None
        self._host.drop_all_partitions()

    # ------------------------------------------------------------------------------------------------------- events

    def process_poll(self, now: float) -> None:
        """Process a poll of the caller."""
        if self.awaits_poll:
            self.awaits_poll, self._not_before = False, now

    def expire_membership(self) -> GroupRequest | None:
        """Give up the membership because the caller has not polled in time, and return the request to send, if any."""
        if self._is_out:
            return None
        request = self.leave()
        self._has_left = False
        self._reset_membership()
        self.awaits_poll = True
        self._in_flight = request
        return request

    def leave(self) -> GroupRequest | None:
        """End the membership and return the request to send. A static member sends no LeaveGroup request (KIP-345)."""
        self._has_left = True
        if self._instance_id is not None or not self._member_id:
            return None
        return LeaveGroup(self._member_id)

    def process_revocation(self, now: float) -> None:
        """Rejoin after the caller has given up revoked partitions, because other members wait for them."""
        if not self._must_join and not self._is_eager:
            self._must_join, self._not_before = True, now

    def process_takeover(self, now: float) -> None:
        """Do nothing: the classic protocol does not report when assigned partitions are taken over."""

    def process_commit_error(self, error: Exception, now: float) -> None:
        """Rejoin at once if the error of a rejected commit requires it."""
        self._handle_rejoin_error(error)

    def process_subscription_change(self, now: float) -> None:
        """Rejoin with the new topics."""
        self._must_join = True

    def process_metadata(self, now: float) -> None:
        """Rejoin if this member is the leader and partition counts have changed since its assignment."""
        is_leader = self._group_topics is not None and self._answer is None
        if is_leader and not self._must_join and self._get_partition_counts() != self._counts:
            self._must_join = True
