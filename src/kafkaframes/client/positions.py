"""Where a consumer reads its partitions, and what it has fetched of them. No socket, clock or task.

Each partition takes these steps; every failure is repeated after a backoff, and none is silent:

1. ``COMMITTED``: look up the group's committed offset.
2. ``RESET``: without one, or if the log does not have it, let the leader say where ``auto_offset_reset`` leads. With
   ``none`` the partition is ``STUCK``: every poll raises the reason until the caller seeks.
3. ``VALIDATE``: after each change of the leader or its epoch, let the leader say where the epoch of the last record
   ended (KIP-320). If the log was truncated below the position, go back to the point of divergence.
4. ``FETCH``: fetch, buffer, and hand out in the order of arrival.

If a topic is deleted and created again, its partitions begin anew with ``RESET``. A position gets another version
whenever it changes by anything but reading. Answers to older versions are ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.group_offsets import CommittedOffset
from kafkaframes.client.group_requests import (
    FetchCommitted,
    FetchEpochEnds,
    FetchRecords,
    ListOffsets,
    PositionRequest,
)
from kafkaframes.client.metadata import Broker, Cluster, TopicPartition
from kafkaframes.client.offsets import EARLIEST, LATEST, EpochEnd, EpochQuery, OffsetAndTimestamp
from kafkaframes.errors import BrokerError, CorruptRecordError, ErrorCode, NetworkError, broker_error
from kafkaframes.protocol.spec.model import NIL_UUID

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
_NO_NODE: Final = -1
_DAMAGE_BACKOFF_ATTEMPT: Final = 5  # a retry reads the same bytes
_RESETS: Final = {"earliest": EARLIEST, "latest": LATEST}
_NEXT_VERSION: Final = count(1).__next__  # of any position: a partition that is assigned again continues
_UNKNOWN_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Step(Enum):
    """What a partition needs next."""

    COMMITTED = "its committed offset"
    RESET = "an offset from its leader"
    VALIDATE = "the end of its epoch"
    FETCH = "records"
    STUCK = "a seek"


class Ownership(Enum):
    """Whose a partition is, between the group and the caller."""

    PENDING = "assigned by the group; the caller has not polled since"
    ASSIGNING = "on_assign has begun"
    OWNED = "on_assign has returned"
    REVOKING = "on_revoke has begun"


class BatchBuffer(Protocol):
    """Fetched batches of one partition.

    Attributes:
        next_offset: the offset after the last batch.
        leader_epoch: of the last batch.
        is_opened: whether the caller has begun to read it.
    """

    next_offset: int
    leader_epoch: int
    is_opened: bool

    @property
    def is_empty(self) -> bool:
        """Whether all records were handed out."""

    @property
    def position(self) -> int:
        """The offset of the next record."""

    def last_epoch(self, otherwise: int) -> int:
        """Return the epoch of the last record that was handed out, ``otherwise`` if there is none."""

    def interrupt(self) -> None:
        """End an iteration that another thread has begun, so that the position stays as it is; reading may go on."""

    def stop(self) -> None:
        """Hand out nothing more."""


class FetchAnswer(NamedTuple):
    """One partition of a Fetch answer.

    Attributes:
        error: the leader's, or that of batches that cannot be read.
        batches: None if there are none.
        is_cut: there is not even one whole batch in as many bytes as were asked for (before KIP-74).
        preferred_replica: the node to read from instead (KIP-392), -1 for none.
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
    """One partition of a consumer.

    Attributes:
        offset, epoch: of the next record after the buffered ones, and the leader epoch of the record before it.
        version: another one whenever the position changes by anything but reading.
        requested: the version that a request under way is for.
        end: nothing is fetched from this offset on.
        topic_id: of the topic that the position is of; the nil UUID where brokers have none (before 2.8).
        is_assigned_by_id: the group assigns the partition of this very topic (KIP-848).
        leader: node and epoch of the leader that the position was validated with.
        replica: the node that the leader prefers for reading, until ``replica_until``.
        error: why it is stuck; of other steps, the last failure.
    """

    partition: TopicPartition
    ownership: Ownership
    step: Step
    max_bytes: int
    offset: int = NO_OFFSET
    epoch: int = NO_EPOCH
    version: int = field(default_factory=_NEXT_VERSION)
    requested: int = -1
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
        """Whether a request for the position is under way."""
        return self.requested == self.version

    @property
    def has_offset(self) -> bool:
        """Whether the position is an offset."""
        return self.step in (Step.FETCH, Step.VALIDATE)

    @property
    def position(self) -> int:
        """The offset of the next record that is handed out; -1 before it is found."""
        return next((entry.position for entry in self.buffer if not entry.is_empty), self._after_buffer[0])

    @property
    def position_and_epoch(self) -> tuple[int, int]:
        """The position, and the leader epoch of the record before it."""
        epoch = self.epoch
        for entry in self.buffer:
            epoch = entry.last_epoch(epoch)
            if not entry.is_empty:
                return entry.position, epoch
        return self._after_buffer

    def hold_position(self) -> tuple[int, int]:
        """End the caller's iteration; return the position, which stays, and the epoch before it."""
        for entry in self.buffer:
            entry.interrupt()
        return self.position_and_epoch

    @property
    def fetch_offset(self) -> int:
        """The offset to fetch from next."""
        return self._after_buffer[0]

    @property
    def _after_buffer(self) -> tuple[int, int]:
        if not self.buffer:
            return self.offset, self.epoch
        return self.buffer[-1].next_offset, self.buffer[-1].leader_epoch

    @property
    def is_selected(self) -> bool:
        """Whether to fetch more: nothing is buffered but what is being read."""
        if self.ownership is not Ownership.OWNED or self.step is not Step.FETCH or self.is_paused or self.is_requested:
            return False
        if len(self.buffer) > 1 or (self.buffer and not self.buffer[0].is_opened):
            return False
        return self.end is None or self.fetch_offset < self.end

    def move(self, step: Step, offset: int = NO_OFFSET, epoch: int = NO_EPOCH) -> None:
        """Take another position; buffered batches are dropped."""
        for entry in self.buffer:
            entry.stop()
        self.buffer.clear()
        self.step, self.offset, self.epoch = step, offset, epoch
        self.version = _NEXT_VERSION()
        self.failures, self.not_before, self.error = 0, 0.0, None
        self.replica_until = 0.0

    def release_read(self) -> None:
        """Let go of buffered batches that were read."""
        while self.buffer and self.buffer[0].is_empty:
            entry = self.buffer.popleft()
            self.offset, self.epoch = entry.next_offset, entry.leader_epoch


class Positions:
    """All partitions of one consumer.

    Attributes:
        states: by partition.
        errors: what the next poll raises.
        stale_topics: topics whose metadata must be refreshed.
        busy: nodes with a Fetch under way, by id.
        is_subscribed: whether the group assigns the partitions.
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
        """Take the consumer's settings, and how many seconds to wait after so many failures.

        Args:
            reset_time_ms: returns the time that ``auto_offset_reset`` by_duration goes back to (KIP-1106).
            unknown_topic_s: how long a topic may be unknown to brokers before that is an error.
            replica_s: how long a preferred replica is read.
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
        self.busy: set[int] = set()
        self.is_subscribed = False
        self._arrivals: deque[tuple[PartitionState, BatchBuffer]] = deque()

    # -------------------------------------------------------------------------------------------------- the caller

    def add(
        self,
        partition: TopicPartition,
        ownership: Ownership,
        *,
        offset: int | None = None,
        topic_id: UUID = NIL_UUID,
    ) -> PartitionState:
        """Begin with a partition, at an offset if one is given; of this topic alone if the group assigns it by id."""
        state = PartitionState(partition, ownership, Step.FETCH, self._max_bytes, topic_id=topic_id)
        state.is_assigned_by_id = topic_id != NIL_UUID
        if offset is not None:
            state.offset = offset
        elif self._has_group:
            state.step = Step.COMMITTED
        else:
            self._reset(state, f"{partition} has no offset to begin from")
        self.states[partition] = state
        return state

    def remove(self, partition: TopicPartition) -> PartitionState | None:
        """End with a partition; nothing more is handed out of it."""
        state = self.states.pop(partition, None)
        if state is not None:
            state.move(state.step, *state.hold_position())
        return state

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from an offset."""
        self.states[partition].move(Step.FETCH, offset)

    def raise_later(self, error: Exception) -> None:
        """Let the next poll raise an error; the same one waits once."""
        if not any(str(entry) == str(error) for entry in self.errors):
            self.errors.append(error)

    def stuck_error(self) -> Exception | None:
        """Return why a partition of the caller's cannot go on without a seek."""
        stuck = (state for state in self.states.values() if state.step is Step.STUCK)
        return next((state.error for state in stuck if state.ownership is not Ownership.PENDING), None)

    def next_buffer(self) -> tuple[PartitionState, BatchBuffer] | None:
        """Return the batches that are handed out next."""
        while self._arrivals and _is_read(*self._arrivals[0]):
            self._arrivals.popleft()
        for state, entry in self._arrivals:
            if state.ownership is Ownership.OWNED and not state.is_paused and not _is_read(state, entry):
                return state, entry
        return None

    # -------------------------------------------------------------------------------------------------- requests

    def requests(self, now: float, cluster: Cluster) -> list[PositionRequest]:
        """Return what to send now."""
        due: dict[Step, list[PartitionState]] = {step: [] for step in Step}
        for state in self.states.values():
            if state.ownership is not Ownership.REVOKING and self._check_topic(state, cluster):
                self._check_leader(state, cluster)
                if state.not_before <= now and not state.is_requested:
                    due[state.step].append(state)
        result: list[PositionRequest] = []
        if due[Step.COMMITTED]:
            result.append(FetchCommitted(_versions(due[Step.COMMITTED])))
        for node, states in self._by_leader(due[Step.RESET], cluster):
            timestamps = {state.partition: state.reset_timestamp for state in states}
            result.append(ListOffsets(node, _versions(states), timestamps))
        for node, states in self._by_leader(due[Step.VALIDATE], cluster):
            epochs = {state.partition: EpochQuery((state.leader or (0, NO_EPOCH))[1], state.epoch) for state in states}
            result.append(FetchEpochEnds(node, _versions(states), epochs))
        for node, states in self._by_replica([state for state in due[Step.FETCH] if state.is_selected], now, cluster):
            if node.node_id not in self.busy:
                self.busy.add(node.node_id)
                result.append(FetchRecords(node, _versions(states)))
        return result

    def next_time(self, now: float) -> float | None:
        """Return when a backoff ends."""
        waits = (
            state.not_before
            for state in self.states.values()
            if state.not_before > now and not state.is_requested and (state.step is not Step.FETCH or state.is_selected)
        )
        return min(waits, default=None)

    def _check_topic(self, state: PartitionState, cluster: Cluster) -> bool:
        """Begin anew if the topic was recreated; return whether the partition can be read."""
        topic_id = cluster.topic_id(state.partition.topic)
        if topic_id in (NIL_UUID, state.topic_id):
            return True
        if state.is_assigned_by_id:  # the group will revoke it
            return False
        is_recreated, state.topic_id = state.topic_id != NIL_UUID, topic_id
        if is_recreated and state.step is Step.COMMITTED:
            state.move(Step.COMMITTED)
        elif is_recreated:
            state.hold_position()
            state.leader = None
            self._reset(state, f"topic {state.partition.topic} was deleted and created again")
        return True

    def _check_leader(self, state: PartitionState, cluster: Cluster) -> None:
        """Validate the position if the leader, or its epoch, is another one than before."""
        known = cluster.partition(state.partition)
        if not state.has_offset or known is None or known.leader < 0:
            return
        leader = known.leader, known.leader_epoch
        if leader == state.leader or (state.leader is not None and 0 <= known.leader_epoch < state.leader[1]):
            return  # the same, or what a broker says that lags
        state.leader = leader
        if known.leader_epoch >= 0 and state.position_and_epoch[1] >= 0:
            state.move(Step.VALIDATE, *state.hold_position())

    def _by_leader(
        self, states: Iterable[PartitionState], cluster: Cluster
    ) -> Iterator[tuple[Broker, list[PartitionState]]]:
        groups: dict[Broker, list[PartitionState]] = {}
        for state in states:
            leader = None if state.partition.topic in self.stale_topics else cluster.leader(state.partition)
            if leader is None:
                self.stale_topics.add(state.partition.topic)
            else:
                groups.setdefault(leader, []).append(state)
        yield from groups.items()

    def _by_replica(
        self, states: Iterable[PartitionState], now: float, cluster: Cluster
    ) -> Iterator[tuple[Broker, list[PartitionState]]]:
        """Group partitions by the node to fetch from: the preferred replica, else the leader."""
        groups: dict[Broker, list[PartitionState]] = {}
        for state in states:
            node = cluster.brokers.get(state.replica) if now < state.replica_until else None
            if node is None:
                state.replica = _NO_NODE
                node = None if state.partition.topic in self.stale_topics else cluster.leader(state.partition)
            if node is None:
                self.stale_topics.add(state.partition.topic)
            else:
                groups.setdefault(node, []).append(state)
        yield from groups.items()

    # -------------------------------------------------------------------------------------------------- answers

    def committed(self, request: FetchCommitted, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Take committed offsets; partitions without one are reset."""
        for state in self._current(request.versions):
            entry = offsets.get(state.partition)
            if entry is None:
                self._reset(state, f"the group has no committed offset of {state.partition}")
            else:
                state.move(Step.FETCH, entry.offset, entry.leader_epoch)
                state.leader = None

    def listed(
        self, request: ListOffsets, answers: Mapping[TopicPartition, OffsetAndTimestamp | Exception], now: float
    ) -> None:
        """Take the offsets that a leader has found."""
        for state in self._current(request.versions):
            answer = answers.get(state.partition, NetworkError(f"no answer for {state.partition}"))
            if not isinstance(answer, Exception) and answer.offset < 0 and state.reset_timestamp >= 0:
                self._reset_to(state, LATEST)  # every record is older than by_duration asks for
                continue
            if not isinstance(answer, Exception) and answer.offset < 0:
                answer = BrokerError(f"the leader of {state.partition} reports no first or last offset")
            if isinstance(answer, Exception):
                self._fail(state, answer, now)
            else:
                state.move(Step.FETCH, answer.offset, answer.leader_epoch)

    def validated(
        self, request: FetchEpochEnds, answers: Mapping[TopicPartition, EpochEnd | Exception | None], now: float
    ) -> None:
        """Take where epochs end; None for leaders that cannot say so (before version 3 of OffsetForLeaderEpoch)."""
        for state in self._current(request.versions):
            answer = answers.get(state.partition, NetworkError(f"no answer for {state.partition}"))
            if isinstance(answer, Exception):
                self._fail(state, answer, now)
            elif answer is None:
                state.move(Step.FETCH, state.offset, state.epoch)
            else:
                self._compare(state, answer)

    def _compare(self, state: PartitionState, answer: EpochEnd) -> None:
        """Compare the position with the end of its epoch."""
        partition, offset, epoch = state.partition, state.offset, state.epoch
        if answer.end_offset < 0 or answer.epoch < 0:
            self._reset(state, f"{partition} was truncated: its leader has no record of epoch {epoch} or before")
        elif answer.end_offset >= offset:
            state.move(Step.FETCH, offset, epoch)
        elif self._reset_timestamp() is not None:
            state.move(Step.FETCH, answer.end_offset, answer.epoch)
        else:
            reason = f"{partition} was truncated: the position is {offset}, the log diverges at {answer.end_offset}"
            self._stick(state, reason)

    def fetched(self, request: FetchRecords, answers: Mapping[TopicPartition, FetchAnswer], now: float) -> None:
        """Take what a node has sent; partitions that are not named have nothing new."""
        self.busy.discard(request.node.node_id)
        for state in self._current(request.versions):
            answer = answers.get(state.partition)
            if answer is not None:
                self._take(state, answer, now)

    def _take(self, state: PartitionState, answer: FetchAnswer, now: float) -> None:
        if answer.error is not None:
            self._refuse(state, answer.error, now)
            return
        state.failures, state.unknown_since = 0, None
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        state.log_start_offset = answer.log_start_offset
        if answer.preferred_replica >= 0:
            state.replica, state.replica_until = answer.preferred_replica, now + self._replica_s
        elif answer.is_cut:
            self._enlarge(state, now)
        elif answer.batches is not None:
            state.buffer.append(answer.batches)
            self._arrivals.append((state, answer.batches))

    def _enlarge(self, state: PartitionState, now: float) -> None:
        if state.max_bytes >= self._max_fetch_bytes:
            reason = f"a batch of {state.partition} is larger than max_partition_fetch_bytes, {state.max_bytes}"
            self.raise_later(BrokerError(reason))
            state.not_before = now + self._backoff_s(_DAMAGE_BACKOFF_ATTEMPT)
        else:
            state.max_bytes = min(state.max_bytes * 2, self._max_fetch_bytes)

    def _refuse(self, state: PartitionState, error: Exception, now: float) -> None:
        code = error.code if isinstance(error, BrokerError) else None
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            is_replica, state.replica_until = state.replica != _NO_NODE, 0.0
            state.not_before = now + self._backoff_s(0)
            is_read = state.position == state.fetch_offset
            if is_read and not is_replica:  # a follower may not have come so far: the leader decides
                self._reset(state, f"{state.partition} has no offset {state.fetch_offset}")
        elif isinstance(error, CorruptRecordError) or code == ErrorCode.CORRUPT_MESSAGE:  # a retry reads the same bytes
            self.raise_later(error)
            state.not_before = now + self._backoff_s(_DAMAGE_BACKOFF_ATTEMPT)
        else:
            self._fail(state, error, now)

    def failed(self, request: PositionRequest, error: Exception, now: float) -> None:
        """Take that a request has failed as a whole."""
        if isinstance(request, FetchRecords):
            self.busy.discard(request.node.node_id)
        for state in self._current(request.versions):
            self._fail(state, error, now)

    def _fail(self, state: PartitionState, error: Exception, now: float) -> None:
        """Repeat a step after a backoff; report what repeating does not mend."""
        state.not_before = now + self._backoff_s(state.failures)
        state.failures += 1
        state.replica_until = 0.0  # back to the leader
        state.error = error
        code = error.code if isinstance(error, BrokerError) else None
        if code in _UNKNOWN_TOPIC:
            self._report_unknown(state, error, now)
        elif not is_retriable(error):
            self.raise_later(error)
        if state.step is not Step.COMMITTED:
            self.stale_topics.add(state.partition.topic)

    def metadata_updated(self, cluster: Cluster, now: float) -> None:
        """Take that metadata is new: report topics that cannot be read."""
        for state in self.states.values():
            topic = cluster.topics.get(state.partition.topic)
            if topic is None or not topic.error:
                continue
            error = broker_error(topic.error, f"topic {topic.name}")
            if topic.error in _UNKNOWN_TOPIC:
                self._report_unknown(state, error, now)
            elif not is_retriable(error):
                self.raise_later(error)

    def _report_unknown(self, state: PartitionState, error: Exception, now: float) -> None:
        """Raise for a topic that has been unknown for long, unless the group will revoke it."""
        if self._is_unknown_for_long(state, now) and not self.is_subscribed:
            self.raise_later(error)

    def _is_unknown_for_long(self, state: PartitionState, now: float) -> bool:
        """Return whether a topic has been unknown for so long that it is an error: a new one takes a while."""
        if state.unknown_since is None:
            state.unknown_since = now
        if now - state.unknown_since < self._unknown_topic_s:
            return False
        state.unknown_since = None
        return True

    def _reset(self, state: PartitionState, reason: str) -> None:
        """Go where ``auto_offset_reset`` says; with none every poll raises until the caller seeks."""
        timestamp = self._reset_timestamp()
        if timestamp is None:
            self._stick(state, reason)
        else:
            self._reset_to(state, timestamp)

    def _reset_timestamp(self) -> int | None:
        """Return the timestamp that a leader is asked for, in milliseconds or one of the special ones."""
        if self._reset_time_ms is not None:
            return self._reset_time_ms()
        return _RESETS.get(self._reset_policy)

    def _reset_to(self, state: PartitionState, timestamp: int) -> None:
        not_before = state.not_before
        state.move(Step.RESET, state.position)
        state.reset_timestamp, state.not_before = timestamp, not_before

    def _stick(self, state: PartitionState, reason: str) -> None:
        state.move(Step.STUCK, state.position)
        state.error = broker_error(ErrorCode.OFFSET_OUT_OF_RANGE, f"{reason}, and auto_offset_reset is none")

    def _current(self, versions: Mapping[TopicPartition, int]) -> list[PartitionState]:
        """Return the partitions whose position is still the one that was asked about; their request has ended."""
        states = [self.states[entry] for entry in versions if entry in self.states]
        current = [state for state in states if state.version == versions[state.partition]]
        for state in current:
            state.requested = -1
        return current


def _versions(states: Iterable[PartitionState]) -> dict[TopicPartition, int]:
    versions = {}
    for state in states:
        state.requested = state.version
        versions[state.partition] = state.version
    return versions


def _is_read(state: PartitionState, entry: BatchBuffer) -> bool:
    """Return whether nothing more comes from buffered batches; let go of them."""
    if entry.is_empty:
        state.release_read()
    return entry not in state.buffer
