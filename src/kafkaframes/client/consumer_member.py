"""A member of a group of the consumer protocol (KIP-848). No socket, clock or task.

The coordinator assigns partitions; ConsumerGroupHeartbeat says what the member subscribes to and owns, and the answer
what it should own. Rules:

1. A member joins when the caller polls for the first time. Heartbeats follow in the interval that the coordinator sets,
   and at once when the caller has taken over or given up partitions.
2. A partition counts as owned until ``on_revoke`` has returned for it, so that no other member gets it before.
3. After a heartbeat without an answer, the next one repeats everything: whether the coordinator has it is not known.
4. A member that the coordinator has fenced has lost its partitions. It joins again under its id when the caller knows.
5. If the caller does not poll for ``max.poll.interval.ms``, its partitions are lost and it leaves: with epoch -1, a
   static member with epoch -2, which keeps its assignment for it. It joins again with the next poll.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaframes.client.classic_member import MemberHost
from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.group_offsets import GroupMember
from kafkaframes.client.group_requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    Request,
    TopicPartitionsById,
)
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import BrokerError, ErrorCode

_JOIN, _LEAVE, _LEAVE_FOR_A_WHILE = 0, -1, -2  # member epochs with a meaning of their own
_FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
_REPORT_AT_ONCE: Final = _FENCED | {ErrorCode.STALE_MEMBER_EPOCH}


class ConsumerMember:
    """One consumer's membership in a group of the consumer protocol.

    Attributes:
        awaits_poll: it is not in the group, and joins when the caller polls.
        fatal: why it cannot be in the group any more; every poll raises it.
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
        self._under_way: ConsumerHeartbeat | None = None
        self._due = 0.0
        self._failures = 0
        self._topics: tuple[str, ...] | None = None  # as the coordinator knows them; None: it must be told everything
        self._owned: TopicPartitionsById = ()  # as the coordinator knows it
        self._assignment: TopicPartitionsById | None = None
        self._is_resolved = True  # all topic ids of the assignment have names

    @property
    def identity(self) -> GroupMember:
        """How requests name this member; the epoch is in the place of a classic member's generation."""
        return GroupMember(self._group_id, self._epoch, self._member_id, self._instance_id)

    @property
    def is_member(self) -> bool:
        """Whether it may commit."""
        return self._epoch > 0

    @property
    def must_revoke_all(self) -> bool:
        """Never: partitions are given up one by one."""
        return False

    @property
    def accepts_assignment(self) -> bool:
        """Whether the caller may take over what was assigned."""
        return True

    @property
    def is_rebalancing(self) -> bool:
        """Whether it waits for its assignment."""
        return not self._is_out and self._assignment is None

    @property
    def _waits_for_caller(self) -> bool:
        """Whether it can only join when the caller has polled."""
        return self._epoch == _JOIN and self._host.has_lost

    @property
    def _is_out(self) -> bool:
        return self._has_left or self.awaits_poll or self.fatal is not None

    @property
    def topics_of_interest(self) -> frozenset[str]:
        """The topics whose changes matter: the coordinator looks after them."""
        return frozenset()

    def requests(self, now: float) -> list[Request]:
        """Return what to send now."""
        if self._is_out or self._waits_for_caller or self._under_way is not None or now < self._due:
            return []
        owned, is_full = self._host.owned_by_id, self._topics is None or self._epoch == _JOIN
        self._under_way = ConsumerHeartbeat(
            self._member_id,
            self._epoch,
            is_full,
            self._host.topics if is_full or self._host.topics != self._topics else None,
            owned if is_full or owned != self._owned else None,
        )
        return [self._under_way]

    def next_time(self, now: float) -> float | None:
        """Return when something is due."""
        is_busy = self._is_out or self._waits_for_caller or self._under_way is not None
        return None if is_busy else self._due

    def answered(self, request: Request, answer: object, now: float) -> None:
        """Take the answer to a heartbeat."""
        if request is not self._under_way or not isinstance(answer, ConsumerHeartbeatAnswer):
            return
        if self._under_way.epoch < 0:
            self._under_way = None
            return
        sent, self._under_way, self._failures = self._under_way, None, 0
        self._topics = self._topics if sent.topics is None else sent.topics
        self._owned = self._owned if sent.owned is None else sent.owned
        self._member_id, self._epoch = answer.member_id or self._member_id, answer.epoch
        is_reported = self._owned == self._host.owned_by_id and self._topics == self._host.topics
        self._due = now + answer.interval_s if is_reported else now
        if answer.assignment is not None:
            self._assignment = answer.assignment
            self._resolve()

    def _resolve(self) -> None:
        """Hand over the assignment, without the topics whose names are not known yet."""
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

    def failed(self, request: Request, error: Exception, now: float) -> None:
        """Take that a heartbeat was refused or has no answer."""
        if request is not self._under_way:
            return
        is_leave = self._under_way.epoch < 0
        self._under_way = self._topics = None
        if is_leave:
            return  # its session ends
        self._due = now + self._host.backoff_s(self._failures)
        self._failures += 1
        code = error.code if isinstance(error, BrokerError) else None
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.fatal = error
            self._forget()
        elif code in _FENCED:
            self._forget()
        elif not is_retriable(error):
            self._host.raise_later(error)

    def _forget(self) -> None:
        """Take that the coordinator does not know the member any more."""
        self._epoch = _JOIN
        self._topics = self._assignment = self._under_way = None
        self._owned, self._is_resolved = (), True
        self._host.lose_all()

    def polled(self, now: float) -> None:
        """Take that the caller polls."""
        if self.awaits_poll:
            self.awaits_poll, self._due = False, now

    def expire(self) -> ConsumerHeartbeat | None:
        """Take that the caller has not polled for too long; return how to tell the coordinator."""
        if self._is_out:
            return None
        request = self.leave()
        self._has_left = False
        self._forget()
        self.awaits_poll = True
        self._under_way = request
        return request

    def leave(self) -> ConsumerHeartbeat | None:
        """End; return how to tell the coordinator."""
        self._has_left = True
        if self._epoch <= 0 and self._under_way is None:
            return None
        return ConsumerHeartbeat(self._member_id, _LEAVE if self._instance_id is None else _LEAVE_FOR_A_WHILE)

    def gave_up(self, now: float) -> None:
        """Tell the coordinator at once that partitions are free."""
        self._due = min(self._due, now) if self._failures == 0 else self._due

    def took_over(self, now: float) -> None:
        """Tell the coordinator at once that partitions are owned."""
        self.gave_up(now)

    def commit_refused(self, error: Exception, now: float) -> None:
        """Send a heartbeat at once if a commit was refused with what that mends."""
        if isinstance(error, BrokerError) and error.code in _REPORT_AT_ONCE:
            self._due = min(self._due, now)

    def subscription_changed(self, now: float) -> None:
        """Tell the coordinator at once which topics are subscribed to."""
        self.gave_up(now)

    def metadata_updated(self, now: float) -> None:
        """Take over what was assigned without a name."""
        if self._assignment is not None and not self._is_resolved:
            self._resolve()
