"""A member of a share group (KIP-932): its heartbeats and its assignment.

The module uses no socket, clock or task.

Rules:

1. A member joins with epoch 0, and sends heartbeats in the interval that the coordinator sets. A new subscription is
   sent at once.
2. If a heartbeat has no response, the next one contains the subscription, because it is unknown whether the coordinator
   received it.
3. A member that the coordinator does not know joins again. Locked records are not affected: partition leaders hold the
   locks, independent of the group.
4. If the caller does not poll for ``max.poll.interval.ms``, the member leaves the group, so that the coordinator
   assigns its partitions to other members. The member joins again at the next poll.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.share_requests import JOIN_EPOCH, LEAVE_EPOCH, ShareHeartbeat, ShareHeartbeatResponse
from kafkaframes.client.share_session import PartitionId
from kafkaframes.errors import COORDINATOR_MOVED_CODES, MEMBER_FENCED_CODES, BrokerError, ErrorCode

_MAX_LEAVE_RETRIES: Final = 2


class ShareMember:
    """One consumer's membership in a share group.

    Attributes:
        topics: subscribed topics, sorted; empty without a subscription.
        epoch: member epoch; 0 if the member joins with its next heartbeat.
        partition_ids: assigned partitions.
        is_waiting: whether the caller waits for records, which counts as polling.
    """

    def __init__(self, *, backoff_s: Callable[[int], float], max_poll_s: float) -> None:
        """Create a member without a subscription.

        Args:
            backoff_s: function that returns the backoff after a number of failures, in seconds.
            max_poll_s: longest time between two polls, in seconds.
        """
        self._backoff_s = backoff_s
        self._max_poll_s = max_poll_s
        self.topics: tuple[str, ...] = ()
        self.epoch = JOIN_EPOCH
        self.partition_ids: list[PartitionId] = []
        self.is_waiting = False
        self._sent_topics: tuple[str, ...] | None = None  # last topics that the coordinator has acknowledged
        self._is_registered = False  # whether the coordinator may have registered this member
        self._awaits_poll = False
        self._must_leave = False
        self._leave_failures = 0
        self._polled_at = 0.0
        self._in_flight: ShareHeartbeat | None = None
        self._due = 0.0
        self._failures = 0

    @property
    def is_busy(self) -> bool:
        """Whether a heartbeat is in flight, or the heartbeat that leaves the group has to be sent."""
        return self._in_flight is not None or self._must_leave

    def subscribe(self, topics: tuple[str, ...], now: float) -> None:
        """Set the subscription."""
        self.topics, self._polled_at, self._awaits_poll = topics, now, False
        self.send_heartbeat_soon(now)

    def send_heartbeat_soon(self, now: float) -> None:
        """Send the next heartbeat at once, except after failures."""
        self._due = min(self._due, now) if self._failures == 0 else self._due

    def process_poll(self, now: float) -> None:
        """Process a poll of the caller."""
        self._polled_at = now
        if self._awaits_poll:
            self._awaits_poll, self._due = False, now

    def next_requests(self, now: float) -> list[ShareHeartbeat]:
        """Return the heartbeat to send now, if any."""
        if self._has_expired(now):
            self.leave()
            self._awaits_poll = True
        if self._must_leave:
            self._must_leave, self._in_flight = False, ShareHeartbeat(LEAVE_EPOCH)
            return [self._in_flight]
        if not self.topics or self._awaits_poll or self._in_flight is not None or now < self._due:
            return []
        is_new = self.epoch == JOIN_EPOCH or self.topics != self._sent_topics
        self._in_flight = ShareHeartbeat(self.epoch, self.topics if is_new else None)
        self._is_registered = True
        return [self._in_flight]

    def next_time(self, now: float) -> float | None:
        """Return the time of the next heartbeat or check of the poll interval; None if neither is planned."""
        if not self.topics or self._awaits_poll:
            return None
        times = [] if self._in_flight is not None else [self._due]
        if not self.is_waiting:
            times.append(self._polled_at + self._max_poll_s)
        return min(times, default=None)

    def _has_expired(self, now: float) -> bool:
        """Return whether the caller has not polled for the longest allowed time."""
        is_out = not self.topics or self._awaits_poll or self.is_waiting
        return not is_out and now >= self._polled_at + self._max_poll_s

    def process_response(self, request: ShareHeartbeat, answer: ShareHeartbeatResponse, now: float) -> bool:
        """Process the response to a heartbeat. Return whether the assignment may have changed."""
        if request is not self._in_flight:
            return False
        self._in_flight, self._failures = None, 0
        if request.epoch == LEAVE_EPOCH:
            return False
        self._sent_topics = self._sent_topics if request.topics is None else request.topics
        self.epoch = answer.epoch
        self._due = now + answer.interval_s if self._sent_topics == self.topics else now
        if answer.assignment is None:
            return False
        self.partition_ids = [
            PartitionId(topic_id, number) for topic_id, numbers in answer.assignment for number in numbers
        ]
        return True

    def process_failure(self, request: ShareHeartbeat, error: Exception, now: float) -> Exception | None:
        """Process the failure of a heartbeat. Return the error if the next poll must raise it."""
        if request is not self._in_flight:
            return None
        self._in_flight = self._sent_topics = None
        if request.epoch == LEAVE_EPOCH:  # if the request finally fails, the session expires at the coordinator
            has_moved = isinstance(error, BrokerError) and error.code in COORDINATOR_MOVED_CODES
            self._must_leave = has_moved and self._leave_failures < _MAX_LEAVE_RETRIES
            self._leave_failures += 1
            return None
        self._due = now + self._backoff_s(self._failures)
        self._failures += 1
        code = error.code if isinstance(error, BrokerError) else None
        # A member that joins creates the group, unless a group of another type has this id.
        is_other_type = request.epoch == JOIN_EPOCH and code == ErrorCode.GROUP_ID_NOT_FOUND
        if code in MEMBER_FENCED_CODES and not is_other_type:
            self._reset_membership()
            return None
        return None if is_retriable(error) else error

    def _reset_membership(self) -> None:
        """Reset the state of a member that is not in the group."""
        self.epoch, self.partition_ids, self._sent_topics = JOIN_EPOCH, [], None

    def leave(self) -> None:
        """End the membership. ``next_requests`` returns the last request if the coordinator may know the member."""
        self._must_leave, self._is_registered = self._is_registered, False
        self._in_flight, self._leave_failures = None, 0
        self._reset_membership()

    def abandon_heartbeat(self) -> None:
        """Stop waiting for the response to the heartbeat in flight."""
        self._in_flight, self._must_leave = None, False
