"""The state machine of a consumer: its group, its partitions, their positions.

The module uses no socket, clock or task. Each event is a method call with the current time: a poll, the return of a
callback, a response, the failure of a request, or new metadata. ``next_requests`` returns the requests to send,
``next_time`` the time to call it again, and ``next_callback`` the next callback of the caller. ``consumer_task`` runs
the machine for both group protocols, and ``tests/soak/consumer_schedules.py`` explores its states. Rules:

1. Heartbeats, joins, look-ups and fetches are sent without the caller. Callbacks and the removal of partitions happen
   only in calls of the caller (``next_callback``, ``begin_callback``, the caller's function, ``end_callback``).
2. A new partition is ``PENDING`` until its position is found. The caller owns the partition from ``on_assign`` on. If
   ``on_assign`` raises an error, it is called again at the next poll.
3. No records of a partition are returned after its ``on_revoke`` has begun. The group may assign the partition to other
   members after ``on_revoke`` has returned.
4. No records of lost partitions are returned. ``on_revoke`` follows at the caller's next poll.
5. A caller that does not poll for ``max.poll.interval.ms`` leaves the group. Waiting for records counts as polling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from kafkaframes.client.classic_member import ClassicMember
from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.consumer_member import ConsumerMember
from kafkaframes.client.group_requests import (
    ConsumerHeartbeat,
    FetchCommittedOffsets,
    FetchEpochEnds,
    FetchMetadata,
    FetchRecords,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListOffsets,
    Request,
    SyncGroup,
    TopicPartitionsById,
)
from kafkaframes.client.metadata import Cluster, TopicMetadata, TopicPartition
from kafkaframes.client.positions import Ownership, PartitionState, PartitionStep, Positions
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import ErrorCode, to_broker_error
from kafkaframes.wire.integers import MAX_INT32

_GROUP_REQUESTS: Final = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerHeartbeat, FetchMetadata)
_REJECTED_TOPIC_ERRORS: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)


class CallbackKind(Enum):
    """The kind of a rebalance callback. The value describes whether offsets are committed before the callback."""

    ASSIGN = "on_assign"
    REVOKE = "on_revoke, after a commit"
    LOSE = "on_revoke, without one"


class RebalanceCallback(NamedTuple):
    """A pending call of ``on_assign`` or ``on_revoke``, with its partitions."""

    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]


class ConsumerMachine:
    """The state machine of one consumer.

    Attributes:
        cluster: cluster metadata. ``process_metadata`` must be called after each change of the metadata.
        positions: positions and fetch states of the assigned partitions.
        lost_partitions: lost partitions for which ``on_revoke`` has not been called yet. Other members may own the lost
            partitions.
        is_waiting: whether the caller waits for records, which counts as polling.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        cluster: Cluster,
        *,
        backoff_s: Callable[[int], float],
        new_id: Callable[[], str],
        now_ms: Callable[[], int],
    ) -> None:
        """Create a machine without partitions.

        Args:
            settings: consumer settings, such as the group id and timeouts.
            cluster: cluster metadata.
            backoff_s: function that returns the backoff after a number of failures, in seconds.
            new_id: function that returns a new member id.
            now_ms: function that returns the wall-clock time, in milliseconds.
        """
        duration_ms = settings.reset_duration_ms
        self._settings = settings
        self.cluster = cluster
        self.backoff_s = backoff_s
        self._new_id = new_id
        self._max_poll_s = settings.max_poll_interval_ms / 1000
        self._get_metadata_age = settings.metadata_max_age_ms / 1000
        self.positions = Positions(
            auto_offset_reset=settings.auto_offset_reset,
            reset_time_ms=None if duration_ms is None else lambda: max(now_ms() - duration_ms, 0),
            has_group=settings.group_id is not None,
            max_bytes=settings.max_partition_fetch_bytes,
            max_fetch_bytes=min(settings.fetch_max_bytes, MAX_INT32),
            unknown_topic_s=settings.default_api_timeout_ms / 1000,
            replica_s=settings.metadata_max_age_ms / 1000,
            backoff_s=backoff_s,
        )
        self.member: ClassicMember | ConsumerMember | None = None
        self.topics: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._target: Mapping[TopicPartition, UUID] | None = None
        self._may_revoke = False  # whether the last assignment may lack owned partitions
        self.lost_partitions: dict[TopicPartition, PartitionState] = {}
        self._polled_at = 0.0
        self.is_waiting = False
        self._is_ending = False
        self._metadata_request: FetchMetadata | None = None
        self._metadata_at: float | None = None  # time of the last refresh of all topics of interest
        self._metadata_not_before = 0.0
        self._metadata_failures = 0
        self._rejected_refresh_at: float | None = None  # time of the next lookup of topics that brokers reject
        self._rejection_count = 0  # consecutive lookups after which brokers rejected a subscribed topic
        self._leaving: list[Request] = []
        self._lost_while_revoking: set[TopicPartition] = set()

    # ------------------------------------------------------------------------------------------ what the caller does

    def subscribe(self, topics: Iterable[str], pattern: re.Pattern[str] | None, now: float) -> None:
        """Start a new membership."""
        self.topics, self._pattern = tuple(sorted(set(topics))), pattern
        settings = self._settings
        is_classic = settings.group_protocol == "classic"
        self.member = ClassicMember(self, settings) if is_classic else ConsumerMember(self, settings, self._new_id)
        self.positions.is_subscribed = True
        self._target, self._is_ending = None, False
        # The caller has just looked up the topics of a pattern. Named topics are looked up at once, so that polls
        # report those that brokers reject: a member that does not lead its group needs no metadata before its
        # assignment.
        self._metadata_at = now if pattern is not None else now - self._get_metadata_age
        self._rejected_refresh_at, self._rejection_count = None, 0
        self._polled_at = now

    def prepare_end(self) -> None:
        """Prepare to end the membership: ``next_callback`` revokes all partitions. ``end_membership`` must follow."""
        self._is_ending = True
        self._drop_pending_partitions(())

    def end_membership(self) -> Request | None:
        """End the membership, and return the request to send, if any."""
        request = None if self.member is None else self.member.leave()
        self.member, self.topics, self._pattern, self._target = None, (), None, None
        self._is_ending = self.positions.is_subscribed = False
        self._leaving.clear()
        self.lost_partitions.clear()
        for partition in list(self.positions.states):
            self.positions.remove(partition)
        return request

    def process_poll(self, now: float) -> bool:
        """Process a poll of the caller, and return whether ``next_requests`` has new requests."""
        self._expire_membership(now)  # an interval that has expired before this poll remains expired
        self._polled_at = now
        joins = self.member is not None and self.member.awaits_poll
        if self.member is not None:
            self.member.process_poll(now)
        return joins or bool(self._leaving)

    def record_progress(self, now: float) -> None:
        """Record that the caller has taken records, which counts as polling."""
        self._polled_at = now

    @property
    def assignment(self) -> list[TopicPartition]:
        """The caller's partitions, including lost ones before their ``on_revoke``."""
        owned_partitions = self.owned_partitions
        return [*owned_partitions, *(entry for entry in self.lost_partitions if entry not in owned_partitions)]

    @property
    def owned_partitions(self) -> list[TopicPartition]:
        """The partitions that the caller owns, including those with a running ``on_assign`` or ``on_revoke``."""
        states = self.positions.states.values()
        return [state.partition for state in states if state.ownership is not Ownership.PENDING]

    @property
    def owns_partitions(self) -> bool:
        """Whether the caller owns any partition."""
        return any(state.ownership is not Ownership.PENDING for state in self.positions.states.values())

    @property
    def has_lost_partitions(self) -> bool:
        """Whether the caller has not been notified of lost partitions yet."""
        return bool(self.lost_partitions or self._lost_while_revoking)

    @property
    def owned_partitions_by_id(self) -> TopicPartitionsById:
        """The owned partitions by topic id."""
        topics: dict[UUID, list[int]] = {}
        for entry in self.owned_partitions:
            topics.setdefault(self.positions.states[entry].topic_id, []).append(entry.partition)
        return tuple(sorted((topic_id, tuple(sorted(numbers))) for topic_id, numbers in topics.items()))

    def find_state(self, partition: TopicPartition) -> PartitionState | None:
        """Return the state of one of the caller's partitions."""
        state = self.positions.states.get(partition)
        is_visible = state is not None and state.ownership is not Ownership.PENDING
        return state if is_visible else self.lost_partitions.get(partition)

    # -------------------------------------------------------------------------------------------------- callbacks

    @property
    def is_reconciled(self) -> bool:
        """Whether the caller owns exactly the partitions that the group assigns."""
        states = self.positions.states
        is_complete = self._target is not None and states.keys() == self._target.keys()
        return is_complete and all(state.ownership is Ownership.OWNED for state in states.values())

    @property
    def needs_caller(self) -> bool:
        """Whether the caller should poll soon, because of a callback or an error."""
        return self.next_callback() is not None or self.next_error() is not None

    def next_error(self) -> Exception | None:
        """Return the error that a poll raises now, or None."""
        if self.member is not None and self.member.fatal is not None:
            return self.member.fatal
        return self.positions.errors[0] if self.positions.errors else self.positions.find_stuck_error()

    def take_error(self) -> Exception | None:
        """Return the error that this poll raises, and remove it if it is not persistent."""
        error = self.next_error()
        if self.positions.errors and error is self.positions.errors[0]:
            self.positions.errors.popleft()
        return error

    def next_callback(self) -> RebalanceCallback | None:
        """Return the rebalance callback to call next; None if no callback is due."""
        if self.lost_partitions:
            return RebalanceCallback(CallbackKind.LOSE, tuple(self.lost_partitions))
        revoked_partitions = self._find_partitions_to_revoke()
        if revoked_partitions:
            return RebalanceCallback(CallbackKind.REVOKE, tuple(revoked_partitions))
        if not self.positions.may_have_new:
            return None
        assigned_partitions = self._find_partitions_to_assign()
        return RebalanceCallback(CallbackKind.ASSIGN, tuple(assigned_partitions)) if assigned_partitions else None

    def _find_partitions_to_revoke(self) -> list[TopicPartition]:
        if self._is_ending or (self.member is not None and self.member.must_revoke_all):
            return self.owned_partitions
        if self.member is None or self._target is None or not self._may_revoke:
            return []
        revoked_partitions = [entry for entry in self.owned_partitions if not self._is_in_target(entry)]
        self._may_revoke = bool(revoked_partitions)
        return revoked_partitions

    def _is_in_target(self, partition: TopicPartition) -> bool:
        """Return whether the group assigns a partition, and for the same topic id that the consumer reads."""
        state, target = self.positions.states[partition], self._target or {}
        if partition not in target:
            return False
        return not state.is_assigned_by_id or state.topic_id == target[partition]

    def _find_partitions_to_assign(self) -> list[TopicPartition]:
        """Return the new partitions to assign, or an empty list until each has a position or an error."""
        new_partitions = self.positions.list_new_states()
        if not new_partitions:
            return []
        ready_partitions = [state for state in new_partitions if state.has_offset or state.step is PartitionStep.STUCK]
        is_complete = all(state in ready_partitions or state.failures for state in new_partitions)
        is_held_back = self._is_ending or (self.member is not None and not self.member.accepts_assignment)
        return [state.partition for state in ready_partitions] if is_complete and not is_held_back else []

    def begin_callback(self, callback: RebalanceCallback) -> None:
        """Record that a callback is about to be called."""
        ownership = Ownership.ASSIGNING if callback.kind is CallbackKind.ASSIGN else Ownership.REVOKING
        for entry in callback.partitions if callback.kind is not CallbackKind.LOSE else ():
            if entry in self.positions.states:
                self.positions.states[entry].ownership = ownership

    def abort_callback(self, callback: RebalanceCallback) -> None:
        """Record that a callback was cancelled, and will be called again."""
        for entry in callback.partitions:
            state = self.positions.states.get(entry)
            if state is not None and state.ownership is Ownership.REVOKING:
                state.ownership = Ownership.OWNED
                if entry in self._lost_while_revoking:
                    self.positions.remove(entry)
                    self.lost_partitions[entry] = state
        self._lost_while_revoking.clear()

    def end_callback(self, callback: RebalanceCallback, now: float) -> None:
        """Record that a callback has returned, or that the caller has not set this callback."""
        if callback.kind is CallbackKind.LOSE:
            for entry in callback.partitions:
                self.lost_partitions.pop(entry, None)
            return
        for entry in callback.partitions:
            state = self.positions.states.get(entry)
            if state is None:
                continue
            if callback.kind is CallbackKind.REVOKE and state.ownership is Ownership.REVOKING:
                self.positions.remove(entry)
                self._lost_while_revoking.discard(entry)
            elif callback.kind is CallbackKind.ASSIGN and state.ownership is Ownership.ASSIGNING:
                state.ownership = Ownership.OWNED
        if callback.kind is CallbackKind.REVOKE:
            self._add_new_partitions()
        if self.member is not None and callback.kind is CallbackKind.ASSIGN:
            self.member.process_takeover(now)
        elif self.member is not None and not self._is_ending and not self._find_partitions_to_revoke():
            self.member.process_revocation(now)

    # ---------------------------------------------------------------------------------------- what the group decides

    def set_target(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        """Set the partitions that the group assigns, with their topic ids if the group assigns by id."""
        self._target, self._may_revoke = dict(partitions), True
        self._drop_pending_partitions([entry for entry in self.positions.states if self._is_in_target(entry)])
        self._add_new_partitions()

    def forget_unclaimed_partitions(self) -> None:
        """Clear the assigned partitions that the caller does not own: the group may assign them to other members.

        If the group assigns such a partition to this consumer again, the committed offset is looked up again, because
        another member may have owned the partition in the meantime.
        """
        self._drop_pending_partitions(())
        if self._target is not None:
            self._target = {
                entry: topic_id for entry, topic_id in self._target.items() if entry in self.positions.states
            }

    def refresh_topics(self) -> None:
        """Refresh the metadata of the subscribed topics."""
        self.positions.stale_topics.update(self.topics)

    def _add_new_partitions(self) -> None:
        """Add new partitions. The positions of new partitions are then looked up."""
        for entry, topic_id in sorted((self._target or {}).items()):
            if entry not in self.positions.states:
                self.positions.add(entry, Ownership.PENDING, topic_id=topic_id)

    def _drop_pending_partitions(self, partitions_to_keep: Collection[TopicPartition]) -> None:
        for state in list(self.positions.states.values()):
            if state.ownership is Ownership.PENDING and state.partition not in partitions_to_keep:
                self.positions.remove(state.partition)

    def drop_all_partitions(self) -> None:
        """Stop returning records of all partitions, because other members may own them."""
        self._target = None
        self._drop_pending_partitions(())
        for entry in self.owned_partitions:
            if self.positions.states[entry].ownership is Ownership.REVOKING:  # the partition's on_revoke is running
                self._lost_while_revoking.add(entry)
                continue
            state = self.positions.remove(entry)
            if state is not None:
                self.lost_partitions[entry] = state

    def queue_error(self, error: Exception) -> None:
        """Queue an error, which the next poll raises."""
        self.positions.queue_error(error)

    def process_commit_error(self, error: Exception, now: float) -> None:
        """Process the error of a rejected commit, which may require a rejoin."""
        if self.member is not None:
            self.member.process_commit_error(error, now)

    # -------------------------------------------------------------------------------------------------- requests

    def next_requests(self, now: float) -> list[Request]:
        """Return the requests to send now."""
        self._expire_membership(now)
        result, self._leaving = self._leaving, []
        if self.member is not None:
            result += self.member.next_requests(now)
        result += self.positions.next_requests(now, self.cluster)
        result += self._next_metadata_requests(now)
        return result

    def next_time(self, now: float) -> float | None:
        """Return the time of the next request without an event, in seconds of the monotonic clock; None if unknown."""
        times = [self.positions.next_time(now), self._next_metadata_time()]
        if self.member is not None:
            times.append(self.member.next_time(now))
            if not self.is_waiting and not self.member.awaits_poll and self.member.fatal is None:
                times.append(self._polled_at + self._max_poll_s)
        return min((time for time in times if time is not None), default=None)

    def _expire_membership(self, now: float) -> None:
        if self.member is None or self._is_ending or self.is_waiting or now < self._polled_at + self._max_poll_s:
            return
        request = self.member.expire_membership()
        if request is not None:
            self._leaving.append(request)

    def _next_metadata_time(self) -> float | None:
        """Return the time of the next metadata refresh; None if no refresh is planned."""
        if self._metadata_request is not None:
            return None
        if self.positions.stale_topics:
            return self._metadata_not_before
        if self._metadata_at is None or not (self.member is not None or self.positions.states):
            return None
        time = self._metadata_at + self._get_metadata_age
        if self._rejected_refresh_at is not None:
            time = min(time, self._rejected_refresh_at)
        return max(time, self._metadata_not_before)

    def _next_metadata_requests(self, now: float) -> list[Request]:
        if self._metadata_at is None:
            self._metadata_at = now
        refresh_time = self._next_metadata_time()
        if refresh_time is None or refresh_time > now:
            return []
        is_old = now >= self._metadata_at + self._get_metadata_age
        if is_old and self._pattern is not None:
            topics = None
        elif is_old:
            topics = self._find_topics_of_interest | self.positions.stale_topics
        else:
            topics = frozenset(self.positions.stale_topics)
            if self._rejected_refresh_at is not None:
                topics = topics.union(topic.name for topic in self._find_rejected_topics())
        self._metadata_request = FetchMetadata(topics)
        return [self._metadata_request]

    @property
    def _find_topics_of_interest(self) -> frozenset[str]:
        owned_topics = frozenset(entry.topic for entry in self.positions.states)
        return owned_topics.union(self.topics, () if self.member is None else self.member.topics_of_interest)

    def process_failure(self, request: Request, error: Exception, now: float) -> None:
        """Process the failure of a whole request."""
        if request is self._metadata_request and isinstance(request, FetchMetadata):
            self._metadata_request = None
            self._metadata_not_before = now + self.backoff_s(self._metadata_failures)
            self._metadata_failures += 1
            if not is_retriable(error):
                self.queue_error(error)
        elif isinstance(request, _GROUP_REQUESTS):
            if self.member is not None:
                self.member.process_failure(request, error, now)
        else:
            self.positions.process_failure(request, error, now)

    # ------------------------------------------------------------------------------------------------- responses

    def process_response(self, request: Request, answer: object, now: float) -> None:
        """Process the response to a request."""
        if isinstance(request, FetchRecords):
            self.positions.process_fetch(request, answer, now)  # type: ignore[arg-type]
        elif isinstance(request, _GROUP_REQUESTS):
            if isinstance(request, FetchMetadata):
                self._process_metadata_response(request, now)
            if self.member is not None:
                self.member.process_response(request, answer, now)
        elif isinstance(request, FetchCommittedOffsets):
            self.positions.process_committed_offsets(request, answer)  # type: ignore[arg-type]
        elif isinstance(request, ListOffsets):
            self.positions.process_offsets(request, answer, now)  # type: ignore[arg-type]
        elif isinstance(request, FetchEpochEnds):
            self.positions.process_epoch_ends(request, answer, now)  # type: ignore[arg-type]

    def _process_metadata_response(self, request: FetchMetadata, now: float) -> None:
        if request is self._metadata_request:
            self._metadata_request, self._metadata_failures = None, 0
            is_everything = request.topics is None or request.topics >= self._find_topics_of_interest
            self._metadata_at = now if is_everything else self._metadata_at
        self._metadata_not_before = now + self.backoff_s(0)
        if request.topics is None:
            self.positions.stale_topics.clear()
        else:
            self.positions.stale_topics -= request.topics
        self.process_metadata(now, has_all_topics=request.topics is None)

    def process_metadata(self, now: float, *, has_all_topics: bool = False) -> None:
        """Process new metadata of brokers and topics."""
        if has_all_topics and self._pattern is not None:
            matches = (topic.name for topic in self.cluster.topics.values() if not topic.is_internal)
            topics = tuple(sorted(name for name in matches if self._pattern.fullmatch(name)))
            if topics != self.topics and self.member is not None:
                self.topics = topics
                self.member.process_subscription_change(now)
        if self.member is not None:
            self.member.process_metadata(now)
        self.positions.process_metadata(self.cluster, now)
        self._report_rejected_topics(now)

    def _find_rejected_topics(self) -> list[TopicMetadata]:
        """Return the subscribed topics that this client is not authorized to describe, or that have invalid names."""
        if self.member is None or self._pattern is not None:
            return []
        topics = (self.cluster.topics.get(name) for name in self.topics)
        return [topic for topic in topics if topic is not None and topic.error in _REJECTED_TOPIC_ERRORS]

    def _report_rejected_topics(self, now: float) -> None:
        """Raise an error in the next poll for each rejected topic, and look it up again: an operator may allow access.

        A group assigns no partition of such a topic, so no request for a partition fails.
        """
        rejected_topics = self._find_rejected_topics()
        if not rejected_topics:
            self._rejected_refresh_at, self._rejection_count = None, 0
        elif self._rejected_refresh_at is None or now >= self._rejected_refresh_at:
            for topic in rejected_topics:
                self.queue_error(to_broker_error(topic.error, f"topic {topic.name}"))
            self._rejected_refresh_at = now + self.backoff_s(self._rejection_count)
            self._rejection_count += 1
