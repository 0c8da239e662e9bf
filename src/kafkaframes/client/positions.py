"""The positions of a consumer's partitions, and their fetched batches.

The module uses no socket, clock or task.

Each partition goes through these steps. A failed step is retried after a backoff, and errors that are not retriable are
raised:

1. ``COMMITTED``: look up the group's committed offset.
2. ``RESET``: if the committed offset does not exist, or the log does not have it, ask the leader for the offset of
   ``auto_offset_reset``. With ``none``, the partition is ``STUCK``: every poll raises the error until the caller seeks.
3. ``VALIDATE``: after each change of the leader or its epoch, ask the leader for the end offset of the last record's
   epoch (KIP-320). If the log was truncated below the position, go back to the point of divergence.
4. ``FETCH``: fetch and buffer batches, and return them in order of arrival.

If a topic is deleted and created again, its partitions start over with ``RESET``. A position gets a new version when it
changes for a reason other than reading. Responses to requests of older versions are ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.group_offsets import CommittedOffset
from kafkaframes.client.group_requests import (
    FetchCommittedOffsets,
    FetchEpochEnds,
    FetchRecords,
    ListOffsets,
    PositionRequest,
)
from kafkaframes.client.metadata import Cluster, Node, TopicPartition
from kafkaframes.client.offsets import EARLIEST, LATEST, EpochEnd, EpochQuery, OffsetAndTimestamp
from kafkaframes.errors import BrokerError, CorruptRecordError, ErrorCode, NetworkError, to_broker_error
from kafkaframes.wire.primitives import NIL_UUID

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
_NO_NODE: Final = -1
# A damaged or too large batch is fetched again after the backoff of this attempt, because it has probably not changed.
_UNREADABLE_BATCH_BACKOFF_ATTEMPT: Final = 5
_TIMESTAMP_BY_RESET_POLICY: Final = {"earliest": EARLIEST, "latest": LATEST}
_next_state_version: Final = count(1).__next__  # position versions are unique, even if a partition is assigned again
_UNKNOWN_TOPIC_ERRORS: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class PartitionStep(Enum):
    """The next step of a partition. The value describes the response that the step needs."""

    COMMITTED = "its committed offset"
    RESET = "an offset from its leader"
    VALIDATE = "the end of its epoch"
    FETCH = "records"
    STUCK = "a seek"


class Ownership(Enum):
    """The states of a partition between its assignment by the group and its ownership by the caller."""

    PENDING = "assigned by the group; the caller has not polled since"
    ASSIGNING = "on_assign has begun"
    OWNED = "on_assign has returned"
    REVOKING = "on_revoke has begun"


class BatchBuffer(Protocol):
    """Fetched batches of one partition.

    Attributes:
        next_offset: offset after the last batch.
        leader_epoch: leader epoch of the last batch.
        is_opened: whether the caller has started to read the batches.
    """

    next_offset: int
    leader_epoch: int
    is_opened: bool

    @property
    def is_empty(self) -> bool:
        """Whether all records were returned to the caller."""

    @property
    def position(self) -> int:
        """The offset of the next record."""

    def last_leader_epoch(self, otherwise: int) -> int:
        """Return the leader epoch of the last returned record, or ``otherwise`` if no record was returned."""

    def interrupt(self) -> None:
        """End an iteration of another thread, so that it does not move the position. Reading may continue later."""

    def stop(self) -> None:
        """Return no more records."""


class PartitionFetchResponse(NamedTuple):
    """One partition of a Fetch response.

    Attributes:
        error: error from the leader, or error about damaged batches.
        batches: fetched batches; None if the response has no batch.
        is_cut: whether the response contains only a part of the partition's first batch (before KIP-74).
        preferred_replica: node to read from instead (KIP-392); -1 if none.
    """

    error: Exception | None = None
    batches: BatchBuffer | None = None
    is_cut: bool = False
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    preferred_replica: int = _NO_NODE


@dataclass(slots=True, eq=False)
class PartitionState:
    """The state of a consumer's partition.

    Attributes:
        offset: offset of the next record after the buffered ones.
        epoch: leader epoch of the record before ``offset``.
        version: version of the position. The version changes when the position changes for a reason other than reading.
        requested_version: version of the position in the in-flight request; -1 if no request is in flight.
        end: exclusive end offset of reading; None if reading does not end.
        topic_id: id of the topic to which the position belongs; the nil UUID if brokers have no topic ids (before 2.8).
        is_assigned_by_id: whether the group assigns partitions by topic id (KIP-848).
        leader: node id and epoch of the leader at the last validation.
        replica: node that the leader prefers for reading until ``replica_until``.
        error: reason for the step ``STUCK``; in other steps, the last failure.
    """

    partition: TopicPartition
    ownership: Ownership
    step: PartitionStep
    max_bytes: int
    offset: int = NO_OFFSET
    epoch: int = NO_EPOCH
    version: int = field(default_factory=_next_state_version)
    requested_version: int = -1
    reset_timestamp: int = LATEST
    end: int | None = None
    is_paused: bool = False
    not_before: float = 0.0
    failures: int = 0
    topic_id: UUID = NIL_UUID
    is_assigned_by_id: bool = False
    leader: tuple[int, int] | None = None
    replica: int = _NO_NODE
    replica_until: float = 0.0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    error: Exception | None = None
    unknown_since: float | None = None
    buffer: deque[BatchBuffer] = field(default_factory=deque)

    @property
    def is_requested(self) -> bool:
        """Whether a request for the position is in flight."""
        return self.requested_version == self.version

    @property
    def has_offset(self) -> bool:
        """Whether the position has been resolved to an offset."""
        return self.step in (PartitionStep.FETCH, PartitionStep.VALIDATE)

    @property
    def position(self) -> int:
        """The offset of the next record for the caller; -1 if unknown."""
        for entry in self.buffer:
            if not entry.is_empty:
                return entry.position
        return self._position_after_buffer[0]

    @property
    def position_and_epoch(self) -> tuple[int, int]:
        """The position, and the leader epoch of the record before it."""
        epoch = self.epoch
        for entry in self.buffer:
            epoch = entry.last_leader_epoch(epoch)
            if not entry.is_empty:
                return entry.position, epoch
        return self._position_after_buffer

    def interrupt_reading(self) -> tuple[int, int]:
        """Interrupt the caller's iteration. Return the position, and the leader epoch of the record before it."""
        for entry in self.buffer:
            entry.interrupt()
        return self.position_and_epoch

    @property
    def fetch_offset(self) -> int:
        """The offset to fetch from next."""
        return self._position_after_buffer[0]

    @property
    def _position_after_buffer(self) -> tuple[int, int]:
        """The offset after the buffered batches, and the leader epoch of the last one."""
        if not self.buffer:
            return self.offset, self.epoch
        return self.buffer[-1].next_offset, self.buffer[-1].leader_epoch

    @property
    def should_fetch(self) -> bool:
        """Whether to fetch more batches. At most one buffer may exist, and the caller must have started to read it."""
        if (
            self.ownership is not Ownership.OWNED
            or self.step is not PartitionStep.FETCH
            or self.is_paused
            or self.is_requested
        ):
            return False
        if len(self.buffer) > 1 or (self.buffer and not self.buffer[0].is_opened):
            return False
        return self.end is None or self.fetch_offset < self.end

    def move_position(self, step: PartitionStep, offset: int = NO_OFFSET, epoch: int = NO_EPOCH) -> None:
        """Change the position, and drop buffered batches."""
        for entry in self.buffer:
            entry.stop()
        self.buffer.clear()
        self.step, self.offset, self.epoch = step, offset, epoch
        self.version = _next_state_version()
        self.failures, self.not_before, self.error = 0, 0.0, None
        self.replica_until = 0.0

    def release_read_buffer(self) -> None:
        """Drop buffered batches that were read completely."""
        while self.buffer and self.buffer[0].is_empty:
            entry = self.buffer.popleft()
            self.offset, self.epoch = entry.next_offset, entry.leader_epoch


class Positions:
    """The positions and fetch states of all partitions of one consumer.

    Attributes:
        states: partition states, by partition.
        errors: errors that the next polls raise.
        stale_topics: topics that need fresh metadata.
        busy_nodes: ids of nodes with a Fetch in flight.
        is_subscribed: whether the group assigns the partitions.
        may_have_new: whether ``list_new_states`` may return partitions.
    """

    def __init__(
        self,
        *,
        auto_offset_reset: str,
        reset_time_ms: Callable[[], int] | None = None,
        has_group: bool,
        max_bytes: int,
        max_fetch_bytes: int,
        unknown_topic_s: float,
        replica_s: float,
        backoff_s: Callable[[int], float],
    ) -> None:
        """Create an object without partitions.

        Args:
            auto_offset_reset: reset policy.
            reset_time_ms: function that returns the timestamp of the policy ``by_duration`` (KIP-1106); None for other
                policies.
            has_group: whether the consumer has committed offsets.
            max_bytes: initial fetch size of a partition, in bytes.
            max_fetch_bytes: largest fetch size of a partition, in bytes.
            unknown_topic_s: time until an unknown topic is an error, in seconds.
            replica_s: time to read from a preferred replica, in seconds.
            backoff_s: function that returns the backoff after a number of failures, in seconds.
        """
        self._reset_policy = auto_offset_reset
        self._reset_time_ms = reset_time_ms
        self._has_group = has_group
        self._max_bytes, self._max_fetch_bytes = max_bytes, max_fetch_bytes
        self._unknown_topic_s, self._replica_s = unknown_topic_s, replica_s
        self._backoff_s = backoff_s
        self.states: dict[TopicPartition, PartitionState] = {}
        self.errors: deque[Exception] = deque()
        self.stale_topics: set[str] = set()
        self.busy_nodes: set[int] = set()
        self.is_subscribed = False
        self._arrivals: deque[tuple[PartitionState, BatchBuffer]] = deque()
        # Every poll asks for new and stuck partitions. It searches all partitions only after an event that may have
        # added one.
        self.may_have_new = self._may_be_stuck = False

    # -------------------------------------------------------------------------------------------------- the caller

    def add(
        self,
        partition: TopicPartition,
        ownership: Ownership,
        *,
        offset: int | None = None,
        topic_id: UUID = NIL_UUID,
    ) -> PartitionState:
        """Add a partition, and return its state.

        Args:
            partition: partition to add.
            ownership: initial ownership state of the partition.
            offset: first offset to read; None to look up the offset.
            topic_id: topic id, if the group assigns partitions by id.
        """
        state = PartitionState(partition, ownership, PartitionStep.FETCH, self._max_bytes, topic_id=topic_id)
        state.is_assigned_by_id = topic_id != NIL_UUID
        if offset is not None:
            state.offset = offset
        elif self._has_group:
            state.step = PartitionStep.COMMITTED
        else:
            self._reset_position(state, f"{partition} has no offset to begin from")
        self.states[partition] = state
        self.may_have_new = True
        return state

    def remove(self, partition: TopicPartition) -> PartitionState | None:
        """Remove a partition, and return no more of its records."""
        state = self.states.pop(partition, None)
        if state is not None:
            state.move_position(state.step, *state.interrupt_reading())
        return state

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset."""
        self.states[partition].move_position(PartitionStep.FETCH, offset)

    def queue_error(self, error: Exception) -> None:
        """Queue an error for the next poll to raise. An error that is already queued is not added again."""
        if not any(str(entry) == str(error) for entry in self.errors):
            self.errors.append(error)

    def find_stuck_error(self) -> Exception | None:
        """Return the error for a partition that requires a seek; None if no partition requires a seek."""
        if not self._may_be_stuck:
            return None
        stuck = [state for state in self.states.values() if state.step is PartitionStep.STUCK]
        self._may_be_stuck = bool(stuck)
        return next((state.error for state in stuck if state.ownership is not Ownership.PENDING), None)

    def list_new_states(self) -> list[PartitionState]:
        """Return the states of the partitions with an ``on_assign`` that has not returned."""
        new_states = [
            entry for entry in self.states.values() if entry.ownership in (Ownership.PENDING, Ownership.ASSIGNING)
        ]
        self.may_have_new = bool(new_states)
        return new_states

    def next_buffer(self) -> tuple[PartitionState, BatchBuffer] | None:
        """Return the next batches for the caller."""
        result, read = None, []
        for arrival in self._arrivals:
            state, entry = arrival
            if _drop_read_buffer(state, entry):
                read.append(arrival)
            elif state.ownership is Ownership.OWNED and not state.is_paused:
                result = arrival
                break
        for arrival in read:
            self._arrivals.remove(arrival)
        return result

    # -------------------------------------------------------------------------------------------------- requests

    def next_requests(self, now: float, cluster: Cluster) -> list[PositionRequest]:
        """Return the requests to send now."""
        due: dict[PartitionStep, list[PartitionState]] = {}
        for state in self.states.values():
            if state.ownership is not Ownership.REVOKING and self._check_topic(state, cluster):
                self._check_leader(state, cluster)
                if state.not_before <= now and not state.is_requested:
                    due.setdefault(state.step, []).append(state)
        result: list[PositionRequest] = []
        if committed_states := due.get(PartitionStep.COMMITTED):
            result.append(FetchCommittedOffsets(_mark_requested(committed_states)))
        for node, states in self._group_by_leader(due.get(PartitionStep.RESET, ()), cluster):
            timestamps = {state.partition: state.reset_timestamp for state in states}
            result.append(ListOffsets(node, _mark_requested(states), timestamps))
        for node, states in self._group_by_leader(due.get(PartitionStep.VALIDATE, ()), cluster):
            epochs = {state.partition: EpochQuery((state.leader or (0, NO_EPOCH))[1], state.epoch) for state in states}
            result.append(FetchEpochEnds(node, _mark_requested(states), epochs))
        selected_states = [state for state in due.get(PartitionStep.FETCH, ()) if state.should_fetch]
        for node, states in self._group_by_replica(selected_states, now, cluster):
            if node.node_id not in self.busy_nodes:
                self.busy_nodes.add(node.node_id)
                result.append(FetchRecords(node, _mark_requested(states)))
        return result

    def next_time(self, now: float) -> float | None:
        """Return the time at which the next backoff ends."""
        waits = (
            state.not_before
            for state in self.states.values()
            if state.not_before > now
            and not state.is_requested
            and (state.step is not PartitionStep.FETCH or state.should_fetch)
        )
        return min(waits, default=None)

    def _check_topic(self, state: PartitionState, cluster: Cluster) -> bool:
        """Reset the position if the topic was recreated, and return whether the partition can be read."""
        topic_id = cluster.topic_id(state.partition.topic)
        if topic_id in (NIL_UUID, state.topic_id):
            return True
        if state.is_assigned_by_id:  # the group will revoke the partition
            return False
        is_recreated, state.topic_id = state.topic_id != NIL_UUID, topic_id
        if is_recreated and state.step is PartitionStep.COMMITTED:
            state.move_position(PartitionStep.COMMITTED)
        elif is_recreated:
            state.interrupt_reading()
            state.leader = None
            self._reset_position(state, f"topic {state.partition.topic} was deleted and created again")
        return True

    def _check_leader(self, state: PartitionState, cluster: Cluster) -> None:
        """Validate the position if the leader or its epoch has changed.

        A position without epoch cannot be validated, for example after a seek. Records that were fetched from the
        earlier leader are fetched again, since the log may have been truncated.
        """
        partition_metadata = cluster.partition(state.partition)
        if not state.has_offset or partition_metadata is None or partition_metadata.leader < 0:
            return
        leader = partition_metadata.leader, partition_metadata.leader_epoch
        if leader == state.leader or (
            state.leader is not None and 0 <= partition_metadata.leader_epoch < state.leader[1]
        ):
            return  # the leader is unchanged, or the broker's metadata is outdated
        state.leader = leader
        if partition_metadata.leader_epoch >= 0:
            offset, epoch = state.interrupt_reading()
            state.move_position(PartitionStep.VALIDATE if epoch >= 0 else PartitionStep.FETCH, offset, epoch)

    def _group_by_leader(
        self, states: Iterable[PartitionState], cluster: Cluster
    ) -> Iterable[tuple[Node, list[PartitionState]]]:
        groups: dict[Node, list[PartitionState]] = {}
        for state in states:
            leader = None if state.partition.topic in self.stale_topics else cluster.leader(state.partition)
            if leader is None:
                self.stale_topics.add(state.partition.topic)
            else:
                groups.setdefault(leader, []).append(state)
        return groups.items()

    def _group_by_replica(
        self, states: Iterable[PartitionState], now: float, cluster: Cluster
    ) -> Iterable[tuple[Node, list[PartitionState]]]:
        """Group partitions by the node to fetch from: the preferred replica or the leader."""
        groups: dict[Node, list[PartitionState]] = {}
        for state in states:
            node = cluster.brokers.get(state.replica) if now < state.replica_until else None
            if node is None:
                state.replica = _NO_NODE
                node = None if state.partition.topic in self.stale_topics else cluster.leader(state.partition)
            if node is None:
                self.stale_topics.add(state.partition.topic)
            else:
                groups.setdefault(node, []).append(state)
        return groups.items()

    # -------------------------------------------------------------------------------------------------- answers

    def process_committed_offsets(
        self, request: FetchCommittedOffsets, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Process committed offsets. The position of a partition without a committed offset is reset."""
        for state in self._take_current_states(request.versions):
            entry = offsets.get(state.partition)
            if entry is None:
                self._reset_position(state, f"the group has no committed offset for {state.partition}")
            else:
                state.move_position(PartitionStep.FETCH, entry.offset, entry.leader_epoch)

    def process_offsets(
        self, request: ListOffsets, answers: Mapping[TopicPartition, OffsetAndTimestamp | Exception], now: float
    ) -> None:
        """Process the offsets that a leader has looked up."""
        for state in self._take_current_states(request.versions):
            answer = answers.get(state.partition, NetworkError(f"the response has no result for {state.partition}"))
            if not isinstance(answer, Exception) and answer.offset < 0 and state.reset_timestamp >= 0:
                self._reset_to_timestamp(state, LATEST)  # all records are older than the timestamp of by_duration
                continue
            if not isinstance(answer, Exception) and answer.offset < 0:
                answer = BrokerError(f"the leader of {state.partition} reports no first or last offset")
            if isinstance(answer, Exception):
                self._retry_later(state, answer, now)
            else:
                state.move_position(PartitionStep.FETCH, answer.offset, answer.leader_epoch)

    def process_epoch_ends(
        self, request: FetchEpochEnds, answers: Mapping[TopicPartition, EpochEnd | Exception | None], now: float
    ) -> None:
        """Process the end offsets of epochs; None if a leader does not report them (before OffsetForLeaderEpoch 3)."""
        for state in self._take_current_states(request.versions):
            answer = answers.get(state.partition, NetworkError(f"the response has no result for {state.partition}"))
            if isinstance(answer, Exception):
                self._retry_later(state, answer, now)
            elif answer is None:
                state.move_position(PartitionStep.FETCH, state.offset, state.epoch)
            else:
                self._compare_epoch_end(state, answer)

    def _compare_epoch_end(self, state: PartitionState, answer: EpochEnd) -> None:
        """Compare the position with the end of its epoch."""
        partition, offset, epoch = state.partition, state.offset, state.epoch
        if answer.end_offset < 0 or answer.epoch < 0:
            self._reset_position(
                state, f"{partition} was truncated: its leader has no record of epoch {epoch} or before"
            )
        elif answer.end_offset >= offset:
            state.move_position(PartitionStep.FETCH, offset, epoch)
        elif self._reset_timestamp() is not None:
            state.move_position(PartitionStep.FETCH, answer.end_offset, answer.epoch)
        else:
            reason = f"{partition} was truncated: the position is {offset}, but the log diverges at {answer.end_offset}"
            self._mark_stuck(state, reason)

    def process_fetch(
        self, request: FetchRecords, answers: Mapping[TopicPartition, PartitionFetchResponse], now: float
    ) -> None:
        """Process a Fetch response. Partitions without a row in the response have no new data."""
        self.busy_nodes.discard(request.node.node_id)
        for state in self._take_current_states(request.versions):
            answer = answers.get(state.partition)
            if answer is not None:
                self._process_partition(state, answer, now)

    def _process_partition(self, state: PartitionState, answer: PartitionFetchResponse, now: float) -> None:
        if answer.error is not None:
            self._process_error(state, answer.error, now)
            return
        state.failures, state.unknown_since = 0, None
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        state.log_start_offset = answer.log_start_offset
        if answer.preferred_replica >= 0:
            state.replica, state.replica_until = answer.preferred_replica, now + self._replica_s
        elif answer.is_cut:
            self._enlarge_fetch(state, now)
        elif answer.batches is not None:
            state.buffer.append(answer.batches)
            self._arrivals.append((state, answer.batches))

    def _enlarge_fetch(self, state: PartitionState, now: float) -> None:
        if state.max_bytes >= self._max_fetch_bytes:
            reason = f"a batch in {state.partition} is larger than max_partition_fetch_bytes={state.max_bytes}"
            self.queue_error(BrokerError(reason))
            state.not_before = now + self._backoff_s(_UNREADABLE_BATCH_BACKOFF_ATTEMPT)
        else:
            state.max_bytes = min(state.max_bytes * 2, self._max_fetch_bytes)

    def _process_error(self, state: PartitionState, error: Exception, now: float) -> None:
        code = error.code if isinstance(error, BrokerError) else None
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            is_replica, state.replica_until = state.replica != _NO_NODE, 0.0
            state.not_before = now + self._backoff_s(0)
            is_read = state.position == state.fetch_offset
            if is_read and not is_replica:  # a follower may lag, so only an error from the leader is final
                self._reset_position(state, f"{state.partition} has no offset {state.fetch_offset}")
        elif isinstance(error, CorruptRecordError) or code == ErrorCode.CORRUPT_MESSAGE:  # a retry reads the same bytes
            self.queue_error(error)
            state.not_before = now + self._backoff_s(_UNREADABLE_BATCH_BACKOFF_ATTEMPT)
        else:
            self._retry_later(state, error, now)

    def process_failure(self, request: PositionRequest, error: Exception, now: float) -> None:
        """Process the failure of a whole request."""
        if isinstance(request, FetchRecords):
            self.busy_nodes.discard(request.node.node_id)
        for state in self._take_current_states(request.versions):
            self._retry_later(state, error, now)

    def _retry_later(self, state: PartitionState, error: Exception, now: float) -> None:
        """Retry a step after a backoff, and raise errors that are not retriable in the next poll."""
        state.not_before = now + self._backoff_s(state.failures)
        state.failures += 1
        state.replica_until = 0.0  # fetch from the leader again
        state.error = error
        code = error.code if isinstance(error, BrokerError) else None
        if code in _UNKNOWN_TOPIC_ERRORS:
            self._report_unknown(state, error, now)
        elif not is_retriable(error):
            self.queue_error(error)
        if state.step is not PartitionStep.COMMITTED:
            self.stale_topics.add(state.partition.topic)

    def process_metadata(self, cluster: Cluster, now: float) -> None:
        """Process new metadata: report topics that cannot be read."""
        for state in self.states.values():
            topic = cluster.topics.get(state.partition.topic)
            if topic is None or not topic.error:
                continue
            error = to_broker_error(topic.error, f"topic {topic.name}")
            if topic.error in _UNKNOWN_TOPIC_ERRORS:
                self._report_unknown(state, error, now)
            elif not is_retriable(error):
                self.queue_error(error)

    def _report_unknown(self, state: PartitionState, error: Exception, now: float) -> None:
        """Raise an error in the next poll if a topic has been unknown for too long and the group cannot revoke it."""
        if self._is_unknown_for_long(state, now) and not self.is_subscribed:
            self.queue_error(error)

    def _is_unknown_for_long(self, state: PartitionState, now: float) -> bool:
        """Return whether a topic has been unknown for longer than brokers need to learn of a new topic."""
        if state.unknown_since is None:
            state.unknown_since = now
        if now - state.unknown_since < self._unknown_topic_s:
            return False
        state.unknown_since = None
        return True

    def _reset_position(self, state: PartitionState, reason: str) -> None:
        """Reset the position according to ``auto_offset_reset``. With ``none``, the partition is stuck until a seek."""
        timestamp = self._reset_timestamp()
        if timestamp is None:
            self._mark_stuck(state, reason)
        else:
            self._reset_to_timestamp(state, timestamp)

    def _reset_timestamp(self) -> int | None:
        """Return the timestamp of the reset policy, such as ``EARLIEST``; None for the policy ``none``."""
        if self._reset_time_ms is not None:
            return self._reset_time_ms()
        return _TIMESTAMP_BY_RESET_POLICY.get(self._reset_policy)

    def _reset_to_timestamp(self, state: PartitionState, timestamp: int) -> None:
        not_before = state.not_before
        state.move_position(PartitionStep.RESET, state.position)
        state.reset_timestamp, state.not_before = timestamp, not_before

    def _mark_stuck(self, state: PartitionState, reason: str) -> None:
        state.move_position(PartitionStep.STUCK, state.position)
        self._may_be_stuck = True
        state.error = to_broker_error(ErrorCode.OFFSET_OUT_OF_RANGE, f"{reason}, and auto_offset_reset is none")

    def _take_current_states(self, versions: Mapping[TopicPartition, int]) -> list[PartitionState]:
        """Return the partitions that have kept their position since the request, and clear their request."""
        states = [self.states[entry] for entry in versions if entry in self.states]
        current = [state for state in states if state.version == versions[state.partition]]
        for state in current:
            state.requested_version = -1
        return current


def _mark_requested(states: Iterable[PartitionState]) -> dict[TopicPartition, int]:
    """Mark each position as requested, and return the versions of the positions."""
    versions = {}
    for state in states:
        state.requested_version = state.version
        versions[state.partition] = state.version
    return versions


def _drop_read_buffer(state: PartitionState, entry: BatchBuffer) -> bool:
    """Drop a buffer whose batches were read completely, and return whether it was dropped."""
    if entry.is_empty:
        state.release_read_buffer()
    return entry not in state.buffer
