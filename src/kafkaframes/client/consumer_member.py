"""A member of a group of the consumer protocol (KIP-848).

The module uses no socket, clock or task.

The coordinator assigns partitions. ConsumerGroupHeartbeat requests contain the member's subscription and its owned
partitions, and responses contain its assignment. Rules:

1. A member joins at the caller's first poll. The member sends heartbeats in the interval that the coordinator sets, and
   at once after the caller has taken over or given up partitions.
2. A partition is owned until ``on_revoke`` has returned for it, so that no other member reads it earlier. No partition
   is taken over between a heartbeat that reports the owned partitions and its response, because the coordinator may
   assign partitions that the heartbeat does not contain to other members.
3. If a heartbeat has no response, the next one is complete, because it is unknown whether the coordinator received it.
4. A fenced member has lost its partitions. The member rejoins with the same id after the caller was notified.
5. If the caller does not poll for ``max.poll.interval.ms``, the member loses its partitions and leaves with epoch -1. A
   static member leaves with epoch -2, so the coordinator keeps its assignment. The member rejoins at the next poll.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaframes.client.classic_member import MemberHost
from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.group_offsets import GroupMember
from kafkaframes.client.group_requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    Request,
    TopicPartitionsById,
)
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import MEMBER_FENCED_CODES, BrokerError, ErrorCode

_JOIN, _LEAVE, _LEAVE_TEMPORARILY = 0, -1, -2  # special member epochs
_IMMEDIATE_HEARTBEAT_ERRORS: Final = MEMBER_FENCED_CODES | {ErrorCode.STALE_MEMBER_EPOCH}


class ConsumerMember:
    """One consumer's membership in a group of the consumer protocol.

    Attributes:
        awaits_poll: whether the member is outside the group, and joins at the next poll.
        fatal: error that prevents the member from rejoining and that every poll raises.
    """

    def __init__(self, host: MemberHost, settings: ConsumerSettings, new_id: Callable[[], str]) -> None:
        assert settings.group_id is not None
        self._host = host
        self._group_id = settings.group_id
        self._instance_id = settings.group_instance_id
        self._member_id = new_id()
        self._epoch = _JOIN
        self._has_left = False
        self.awaits_poll = True
        self.fatal: Exception | None = None
        self._in_flight: ConsumerHeartbeat | None = None
        self._due = 0.0
        self._failures = 0
        # Last acknowledged topics; None if the next heartbeat must be complete.
        self._topics: tuple[str, ...] | None = None
        self._reported_partitions: TopicPartitionsById = ()  # last acknowledged partitions
        self._is_report_open = False  # true from a heartbeat that reports owned partitions until the next response
        self._assignment: TopicPartitionsById | None = None
        self._is_resolved = True  # whether the metadata contains the names of all assigned topic ids

    @property
    def identity(self) -> GroupMember:
        """The identity of this member in requests, with the member epoch as the generation."""
        return GroupMember(self._group_id, self._epoch, self._member_id, self._instance_id)

    @property
    def is_member(self) -> bool:
        """Whether the member is in the group, so that it may commit."""
        return self._epoch > 0

    @property
    def must_revoke_all(self) -> bool:
        """Always False, because partitions are revoked individually."""
        return False

    @property
    def accepts_assignment(self) -> bool:
        """Whether the caller may take over assigned partitions.

        The caller may not take over partitions while a report of owned partitions has no response.
        """
        return not self._is_report_open

    @property
    def is_rebalancing(self) -> bool:
        """Whether the member waits for its assignment."""
        return not self._is_out and self._assignment is None

    @property
    def _waits_for_caller(self) -> bool:
        """Whether the caller must poll before the member can join."""
        return self._epoch == _JOIN and self._host.has_lost_partitions

    @property
    def _is_out(self) -> bool:
        return self._has_left or self.awaits_poll or self.fatal is not None

    @property
    def topics_of_interest(self) -> frozenset[str]:
        """Always empty, because the coordinator watches the topics."""
        return frozenset()

    def next_requests(self, now: float) -> list[Request]:
        """Return the requests to send now."""
        if self._is_out or self._waits_for_caller or self._in_flight is not None or now < self._due:
            return []
        owned_partitions, is_full = self._host.owned_partitions_by_id, self._topics is None or self._epoch == _JOIN
        self._in_flight = ConsumerHeartbeat(
            self._member_id,
            self._epoch,
            is_full,
            self._host.topics if is_full or self._host.topics != self._topics else None,
            owned_partitions if is_full or owned_partitions != self._reported_partitions else None,
        )
        self._is_report_open = self._is_report_open or self._in_flight.owned_partitions is not None
        return [self._in_flight]

    def next_time(self, now: float) -> float | None:
        """Return the time at which to send the next request; None if no request is planned."""
        is_busy = self._is_out or self._waits_for_caller or self._in_flight is not None
        return None if is_busy else self._due

    def process_response(self, request: Request, answer: object, now: float) -> None:
        """Process the response to a heartbeat."""
        if request is not self._in_flight or not isinstance(answer, ConsumerHeartbeatResponse):
            return
        if self._in_flight.epoch < 0:
            self._in_flight = None
            return
        sent_request, self._in_flight, self._failures = self._in_flight, None, 0
        self._topics = self._topics if sent_request.topics is None else sent_request.topics
        if sent_request.owned_partitions is not None:
            self._reported_partitions, self._is_report_open = sent_request.owned_partitions, False
        self._member_id, self._epoch = answer.member_id or self._member_id, answer.epoch
        is_reported = (
            self._reported_partitions == self._host.owned_partitions_by_id and self._topics == self._host.topics
        )
        self._due = now + answer.interval_s if is_reported else now
        # The previous response may be lost, and other members may have owned the partitions in the meantime.
        if sent_request.is_full:
            self._host.forget_unclaimed_partitions()
        if answer.assignment is not None:
            self._assignment = answer.assignment
        if self._assignment is not None and (sent_request.is_full or answer.assignment is not None):
            self._resolve_assignment()

    def _resolve_assignment(self) -> None:
        """Pass the assignment to the consumer, without the topics that have no name in the metadata."""
        assert self._assignment is not None
        names = {topic_id: self._host.cluster.topic_name(topic_id) for topic_id, _ in self._assignment}
        self._is_resolved = None not in names.values()
        if not self._is_resolved:
            self._host.refresh_topics()
        self._host.set_target(
            {
                TopicPartition(name, partition): topic_id
                for topic_id, partitions in self._assignment
                if (name := names[topic_id]) is not None
                for partition in partitions
            }
        )

    def process_failure(self, request: Request, error: Exception, now: float) -> None:
        """Process the failure of a heartbeat."""
        if request is not self._in_flight:
            return
        is_leave, is_join = self._in_flight.epoch < 0, self._in_flight.epoch == _JOIN
        self._in_flight = self._topics = None
        if is_leave:
            return  # the session expires at the coordinator
        self._due = now + self._host.backoff_s(self._failures)
        self._failures += 1
        code = error.code if isinstance(error, BrokerError) else None
        # A member that joins creates the group, unless a group of another type has this id.
        is_other_type = is_join and code == ErrorCode.GROUP_ID_NOT_FOUND
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.fatal = error
            self._reset_membership()
        elif code in MEMBER_FENCED_CODES and not is_other_type:
            self._reset_membership()
        elif not is_retriable(error):
            self._host.queue_error(error)

    def _reset_membership(self) -> None:
        """Reset the state after the coordinator has removed the member."""
        self._epoch = _JOIN
        self._topics = self._assignment = self._in_flight = None
        self._reported_partitions, self._is_resolved, self._is_report_open = (), True, False
        self._host.drop_all_partitions()

    def process_poll(self, now: float) -> None:
        """Process a poll of the caller."""
        if self.awaits_poll:
            self.awaits_poll, self._due = False, now

    def expire_membership(self) -> ConsumerHeartbeat | None:
        """Give up the membership because the caller has not polled in time, and return the request to send, if any."""
        if self._is_out:
            return None
        request = self.leave()
        self._has_left = False
        self._reset_membership()
        self.awaits_poll = True
        self._in_flight = request
        return request

    def leave(self) -> ConsumerHeartbeat | None:
        """End the membership and return the request to send, if any."""
        self._has_left = True
        if self._epoch <= 0 and self._in_flight is None:
            return None
        return ConsumerHeartbeat(self._member_id, _LEAVE if self._instance_id is None else _LEAVE_TEMPORARILY)

    def process_revocation(self, now: float) -> None:
        """Report to the coordinator at once that partitions were given up."""
        self._due = min(self._due, now) if self._failures == 0 else self._due

    def process_takeover(self, now: float) -> None:
        """Report to the coordinator at once that partitions are owned."""
        self.process_revocation(now)

    def process_commit_error(self, error: Exception, now: float) -> None:
        """Send a heartbeat at once if the error of a rejected commit requires it."""
        if isinstance(error, BrokerError) and error.code in _IMMEDIATE_HEARTBEAT_ERRORS:
            self._due = min(self._due, now)

    def process_subscription_change(self, now: float) -> None:
        """Report the new subscription to the coordinator at once."""
        self.process_revocation(now)

    def process_metadata(self, now: float) -> None:
        """Pass on assigned topics that had no name in the metadata."""
        if self._assignment is not None and not self._is_resolved:
            self._resolve_assignment()
