"""Explore the interactions between the members of a group and a cluster: random schedules, without sockets or clocks.

    python -m tests.soak.consumer_schedules [--schedules 100000] [--seed 1] [--processes 2]

Each ``SimulatedMember`` has the real ``ConsumerMachine``, with one of the group protocols and assignors. The simulated
cluster has the embedded broker's group coordinator (``coordination/groups``) and logs with leader epochs, as in Kafka:
OffsetForLeaderEpoch, fenced epochs, offsets out of range. Faults: requests that are lost, or handled after their
connection has ended, responses that are lost or late, rejected look-ups, unavailable leaders, a coordinator that moves
and loses its pending responses, callers that poll too late, callbacks that raise, commits in a rebalance, pauses,
seeks, truncated logs, topics that are created, deleted, recreated and grown.

Invariants, checked at every record, callback and commit. A record is (topic id, partition, leader epoch, offset).

* No record is skipped, and none is returned twice within one ownership without a seek in between.
* No record of a partition is returned without an owner, after its ``on_revoke`` has begun, or after it was lost.
* A partition has one owner among the members that the coordinator has.
* No offset is committed that was not returned, and no committed offset goes back without a cause.
* Once all faults have ended, every partition has an owner and every record is returned, within a bound.
* No member raises errors for ever, and none stays in the group without being served.

A schedule is determined by its seed. ``consumer_mutants.py`` breaks the machine's rules one at a time. ``tests/client``
runs a small number of these schedules.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, count
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from tests.soak.exploration import run_command

from kafkaframes.broker.state.clock import Clock
from kafkaframes.client.assignors import MemberSubscription
from kafkaframes.client.consumer_machine import CallbackKind, ConsumerMachine, RebalanceCallback
from kafkaframes.client.group_offsets import CommittedOffset
from kafkaframes.client.group_requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    FetchCommittedOffsets,
    FetchEpochEnds,
    FetchMetadata,
    FetchRecords,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    ListOffsets,
    SyncGroup,
)
from kafkaframes.client.metadata import Cluster, TopicPartition
from kafkaframes.client.offsets import EARLIEST, EpochEnd, OffsetAndTimestamp
from kafkaframes.client.positions import PartitionFetchResponse, PartitionStep
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.coordination.groups.classic import JoinResult, SyncResult
from kafkaframes.coordination.groups.commits import OffsetToCommit
from kafkaframes.coordination.groups.consumer_protocol import HeartbeatRequest
from kafkaframes.coordination.groups.coordinator import GroupCoordinator
from kafkaframes.coordination.groups.ports import GroupSettings, OffsetClient
from kafkaframes.coordination.groups.rebalance import JoinRequest, LeavingMember, SyncRequest
from kafkaframes.errors import ErrorCode, NetworkError, RefusedError, to_broker_error

GROUP = "g"
NODE_COUNT = 2
MAX_MEMBERS = 3
MAX_POLL_S, SESSION_S, HEARTBEAT_S = 20.0, 8.0, 1.0
REQUEST_TIMEOUT_S = 15.0
HEALING_STEPS, HEALING_STEP_S = 1_200, 0.1
QUIET_STEP_S = 0.5  # step of the clock while only session timeouts and late polls can end a wait
GROUP_KINDS = {
    "range": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "default": {},
    "consumer": {"group_protocol": "consumer"},
}
GROUP_SETTINGS = {
    "consumer.assignment.interval.ms": 0,
    "consumer.heartbeat.interval.ms": int(HEARTBEAT_S * 1000),
    "consumer.session.timeout.ms": int(SESSION_S * 1000),
}
COORDINATOR_FAULTS = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
LEADER_FAULTS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR)
LOOK_UP_FAULTS = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.LEADER_NOT_AVAILABLE)
GROUP_REQUESTS = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerHeartbeat)
REMOVALS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
COMMIT_REFUSALS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)


@cache
def member_settings(kind: str, reset: str, instance: str | None) -> ConsumerSettings:
    """Return the settings of a member."""
    times = {
        "session_timeout_ms": int(SESSION_S * 1000),
        "heartbeat_interval_ms": int(HEARTBEAT_S * 1000),
        "max_poll_interval_ms": int(MAX_POLL_S * 1000),
        "metadata_max_age_ms": 3_000,
        "default_api_timeout_ms": 20_000,
    }
    options = {"bootstrap_servers": "a:1", "group_id": GROUP, "group_instance_id": instance, "auto_offset_reset": reset}
    return ConsumerSettings.from_options({**options, **times, **GROUP_KINDS[kind]})


# ---------------------------------------------------------------------------------------------------- the cluster


@dataclass
class SimulatedLog:
    """A partition's log: the leader epoch of each record, and the start offset of each epoch."""

    epochs: list[int] = field(default_factory=list)
    leader: int = 0
    is_away: bool = False
    leader_epoch: int = 0
    starts: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])  # (epoch, first offset)
    was_truncated: bool = False

    def append(self, number: int) -> None:
        self.epochs += [self.leader_epoch] * number

    def lead(self, node: int) -> None:
        self.leader, self.leader_epoch = node, self.leader_epoch + 1
        self.starts.append((self.leader_epoch, len(self.epochs)))

    def truncate(self, end: int) -> None:
        """Truncate the log as an unclean leader election does."""
        del self.epochs[end:]
        self.starts = [(epoch, start) for epoch, start in self.starts if start < end] or [(0, 0)][: int(end > 0)]
        self.was_truncated = True

    def epoch_end(self, epoch: int) -> EpochEnd:
        if epoch == self.leader_epoch:
            return EpochEnd(epoch, len(self.epochs))
        earlier_starts = [entry for entry in self.starts if entry[0] <= epoch]
        if not earlier_starts:
            return EpochEnd(-1, -1)
        later = [start for number, start in self.starts if number > epoch]
        return EpochEnd(earlier_starts[-1][0], min(later, default=len(self.epochs)))

    def check(self, node: int, epoch: int) -> ErrorCode | None:
        """Return the error with which the leader rejects a request with an epoch, or None."""
        if self.leader != node or self.is_away:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if 0 <= epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > self.leader_epoch else None


class SimulatedCluster:
    """The topics, their logs, and the coordinator with a log in memory."""

    partitions = 1  # of __consumer_offsets

    def __init__(self) -> None:
        self.clock = Clock(source=lambda: 1_000_000, is_frozen=True)
        self.rows: list[Any] = []
        self.ids = count(1)
        self.topics: dict[str, UUID] = {}
        self.logs: dict[TopicPartition, SimulatedLog] = {}
        self.version = 0
        self.deleted_ms: dict[TopicPartition, int] = {}
        self.coordinator = self._new_coordinator()

    def _new_coordinator(self) -> GroupCoordinator:
        settings = GroupSettings(min_session_timeout_ms=1)

        def new_id() -> str:
            return f"id{next(self.ids)}"

        def setting(_: str, name: str) -> int:
            return GROUP_SETTINGS[name]

        return GroupCoordinator(self.clock, self, settings, new_id, self, new_id, setting)

    def append(self, partition: int, records: Any, *, producer_id: int = -1, producer_epoch: int = -1) -> None:
        """Append records to the coordinator's log."""
        rows = (SimpleNamespace(partition=partition, key=key, value=value) for key, value in records)
        for row in rows:
            row.producer_id, row.is_transactional, row.is_marker, row.is_commit = producer_id, False, False, False
            self.rows.append(row)

    def restart_coordinator(self) -> None:
        """Let another node load the coordinator's log."""
        for group in self.coordinator.groups.values():
            group.stop_timers()
        self.coordinator = self._new_coordinator()
        self.coordinator.load(list(self.rows))
        offsets = self.coordinator.commits.store.group_offsets(GROUP)
        for entry, deleted_ms in self.deleted_ms.items():  # Kafka writes tombstones for offsets of deleted topics
            if entry in offsets and offsets[entry].commit_ms <= deleted_ms:
                self.coordinator.commits.store.remove(GROUP, entry)

    @property
    def now(self) -> float:
        return self.clock.now_ms / 1000

    # the topics that are visible to the coordinator

    def names(self) -> list[str]:
        return list(self.topics)

    def find(self, name: str) -> tuple[UUID, int] | None:
        if name not in self.topics:
            return None
        return self.topics[name], sum(entry.topic == name for entry in self.logs)

    def has_topic(self, member: SimulatedMember, partition: TopicPartition) -> bool:
        """Return whether the topic id in a member's commit exists."""
        state = member.machine.find_state(partition)
        known_topic_ids = {self.topics.get(partition.topic), UUID(int=0)}
        return partition in self.logs and state is not None and state.topic_id in known_topic_ids

    def create(self, name: str, size: int) -> None:
        if name not in self.topics:
            self.topics[name] = UUID(int=next(self.ids))
        for number in range(size):
            self.logs.setdefault(TopicPartition(name, number), SimulatedLog(leader=number % NODE_COUNT))
        self.version += 1

    def delete(self, name: str) -> None:
        self.topics.pop(name, None)
        for entry in [entry for entry in self.logs if entry.topic == name]:
            del self.logs[entry]
            self.deleted_ms[entry] = self.clock.now_ms
            self.coordinator.commits.store.remove(GROUP, entry)
        self.version += 1

    def metadata(self, names: frozenset[str] | None) -> Any:
        """Return a Metadata response for the current state."""
        topics = []
        for name in sorted(self.topics) if names is None else sorted(names):
            rows = [
                SimpleNamespace(
                    partition_index=entry.partition,
                    leader_id=-1 if log.is_away else log.leader,
                    leader_epoch=log.leader_epoch,
                    replica_nodes=(),
                    isr_nodes=(),
                    error_code=0,
                )
                for entry, log in self.logs.items()
                if entry.topic == name
            ]
            code = 0 if name in self.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topic_id = self.topics.get(name, UUID(int=0))
            row = SimpleNamespace(name=name, topic_id=topic_id, is_internal=False, error_code=code, partitions=rows)
            topics.append(row)
        brokers = [SimpleNamespace(node_id=node, host="a", port=node + 1, rack=None) for node in range(NODE_COUNT)]
        return SimpleNamespace(brokers=brokers, topics=topics, cluster_id="c", controller_id=0)


class FetchedRecords:
    """Fetched records, each with its offset and epoch."""

    def __init__(self, topic_id: UUID, first: int, epochs: list[int]) -> None:
        self.topic_id = topic_id
        self.first = self.position = first
        self.epochs = epochs
        self.next_offset = first + len(epochs)
        self.leader_epoch = epochs[-1]
        self.is_opened = False

    @property
    def is_empty(self) -> bool:
        return self.position == self.next_offset

    def last_leader_epoch(self, otherwise: int) -> int:
        return otherwise if self.position == self.first else self.epochs[self.position - self.first - 1]

    def take(self) -> tuple[int, int]:
        self.is_opened = True
        self.position += 1
        return self.position - 1, self.epochs[self.position - 1 - self.first]

    def interrupt(self) -> None:
        """Do nothing, because iterations are not simulated."""

    def stop(self) -> None:
        self.position = self.next_offset


# ----------------------------------------------------------------------------------------------------- the members


@dataclass(eq=False)
class PendingRequest:
    """A request in flight, and its response."""

    request: Any
    detail: Any = None  # for a Fetch: topic id, offset and epoch by partition
    sent_s: float = 0.0
    is_handled: bool = False
    answers: list[Any] = field(default_factory=list)  # the response in a list, once the broker has answered


@dataclass
class PartitionOwnership:
    """The records of a partition that a member has returned since it took the partition over.

    Attributes:
        expected_offset: the next offset.
        counters: records since the last seek.
    """

    expected_offset: int
    seen_records: set[tuple[UUID, int, int]] = field(default_factory=set)
    last: tuple[UUID, int, int] | None = None
    was_moved: bool = True


CHANNELS = {JoinGroup: "join", SyncGroup: "join", FetchRecords: "fetch"}


class SimulatedMember:
    """A consumer: its state machine, its view of the cluster, its requests in flight, and the caller."""

    def __init__(self, simulation: ConsumerSimulation, number: int, instance: str | None) -> None:
        self.simulation, self.world, self.number = simulation, simulation.world, number
        self.settings = member_settings(simulation.kind, simulation.reset, instance)
        self.instance = instance
        self.cluster = Cluster()
        self.machine = ConsumerMachine(
            self.settings,
            self.cluster,
            backoff_s=lambda attempt: 0.1 * 2 ** min(attempt, 3),
            new_id=lambda: f"member{number}",
            now_ms=lambda: self.world.clock.now_ms,
        )
        self.pending: dict[str, deque[PendingRequest]] = {}
        self.ownerships: dict[TopicPartition, PartitionOwnership] = {}
        self.errors: Counter[str] = Counter()
        self.is_in_callback = False

    def subscribe(self) -> None:
        self.cluster.update(self.world.metadata(None), now=self.world.now, has_all_topics=True)
        pattern = self.simulation.pattern
        names = self.world.names() if pattern is not None else self.simulation.subscription
        if pattern is not None:
            names = [name for name in names if pattern.fullmatch(name)]
        self.machine.subscribe(names, pattern, self.world.now)

    # requests

    def send(self) -> None:
        """Send the machine's pending requests."""
        for request in self.machine.next_requests(self.world.now):
            detail = None
            if isinstance(request, FetchRecords):
                detail = {}
                for entry, version in request.versions.items():
                    state, cached_partition = self.machine.positions.states.get(entry), self.cluster.partition(entry)
                    if state is not None and state.version == version and cached_partition is not None:
                        detail[entry] = (
                            self.cluster.topic_id(entry.topic),
                            state.fetch_offset,
                            cached_partition.leader_epoch,
                        )
            channel = self.channel_of(request)
            self.pending.setdefault(channel, deque()).append(PendingRequest(request, detail, self.world.now))
        for channel, waiting in list(self.pending.items()):
            limit_s = MAX_POLL_S + REQUEST_TIMEOUT_S if channel == "join" else REQUEST_TIMEOUT_S
            if waiting and self.world.now - waiting[0].sent_s > limit_s:
                self.end_connection(channel, handles_rest=False)

    @staticmethod
    def channel_of(request: Any) -> str:
        channel = CHANNELS.get(type(request), "requests")
        node = getattr(request, "node", None)
        return channel if node is None else f"{channel}{node.node_id}"

    def handle(self, channel: str, fault: Callable[[Any], ErrorCode | None]) -> None:
        """Let the broker handle the first request of a connection."""
        waiting = self.pending.get(channel, ())
        for entry in waiting:
            if not entry.is_handled:
                entry.is_handled = True
                self.simulation.execute(self, entry, fault(entry.request))
                return
            if not entry.answers:
                return  # the broker delays all later requests of the connection

    def deliver(self, channel: str) -> None:
        """Let the client read a response."""
        waiting = self.pending.get(channel)
        if waiting and waiting[0].answers:
            entry = waiting.popleft()
            self.process_answer(entry.request, entry.answers[0])

    def process_answer(self, request: Any, answer: Any) -> None:
        now, member = self.world.now, self.machine.member
        if isinstance(answer, Exception):
            is_of_now = isinstance(request, JoinGroup | SyncGroup | Heartbeat | ConsumerHeartbeat) and any(
                request is value for value in vars(member or self).values()
            )
            # a response to an earlier generation has no effect
            if isinstance(request, Heartbeat) and member is not None:
                is_of_now = is_of_now and request.generation == member.identity.generation_id
            self.machine.process_failure(request, answer, now)
            if is_of_now and getattr(answer, "code", None) in REMOVALS:
                self.ownerships.clear()  # from now on, even if the machine returns an error
        else:
            if isinstance(request, FetchMetadata):
                self.cluster.update(answer, now=now, has_all_topics=request.topics is None)
            self.machine.process_response(request, answer, now)
        self.check_lost()

    def end_connection(self, channel: str, *, handles_rest: bool) -> None:
        """End a connection. The broker may still handle the requests that it has received."""
        waiting, self.pending[channel] = self.pending.get(channel, deque()), deque()
        for entry in waiting:
            if handles_rest and not entry.is_handled:
                self.simulation.ghosts.append((self, entry))
        for entry in waiting:
            self.process_answer(entry.request, NetworkError("cut"))

    # the caller

    def poll(self, max_records: int) -> int:
        """Poll as ``AsyncConsumer`` does. Return how many records were returned."""
        machine = self.machine
        machine.process_poll(self.world.now)
        self.check_lost()
        self.send()
        for _ in range(20):
            callback = machine.next_callback()
            if callback is None:
                break
            if not self.run_callback(callback, commits=True):
                return 0
        error = machine.take_error()
        if error is not None:
            self.raise_error(error)
            return 0
        taken_count = 0
        while taken_count < max_records and (buffer := machine.positions.next_buffer()) is not None:
            state, batches = buffer
            assert not state.is_paused, f"{state.partition} was returned although it is paused"
            self.check_record(state.partition, batches)
            taken_count += 1
        self.send()
        return taken_count

    def raise_error(self, error: Exception) -> None:
        self.errors[str(error)] += 1
        self.simulation.counters["errors raised"] += 1
        if "auto_offset_reset is none" in str(error):
            for state in list(self.machine.positions.states.values()):
                if state.step is PartitionStep.STUCK and state.partition in self.ownerships:
                    self.seek(state.partition, 0)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        state = self.machine.find_state(partition)
        if state is not None and partition in self.ownerships:
            state.move_position(PartitionStep.FETCH, offset)
            self.ownerships[partition] = PartitionOwnership(offset)
            highest = self.simulation.sought_offsets.get((partition, state.topic_id), 0)
            self.simulation.sought_offsets[partition, state.topic_id] = max(highest, offset)

    def run_callback(self, callback: RebalanceCallback, *, commits: bool) -> bool:
        """Call the caller's rebalance callback. Return whether the callback has not raised."""
        machine, simulation = self.machine, self.simulation
        machine.begin_callback(callback)
        if callback.kind is CallbackKind.REVOKE and commits:
            self.commit(callback.partitions)
        if callback.kind is CallbackKind.ASSIGN:
            simulation.check_owners(self, callback.partitions)
            for entry in callback.partitions:
                self.ownerships[entry] = PartitionOwnership(machine.positions.states[entry].position)
        else:
            for entry in callback.partitions:
                self.ownerships.pop(entry, None)
        self.is_in_callback = True
        is_slow, raises = simulation.chance(0.1), simulation.chance(0.1)
        if is_slow:
            simulation.pass_time(simulation.random.choice((0.5, 3.0, SESSION_S + 1)))
        if simulation.chance(0.3):
            simulation.step()
        self.is_in_callback = False
        if raises and callback.kind is CallbackKind.ASSIGN:
            simulation.counters["on_assign raised"] += 1
            machine.abort_callback(callback)
            return False
        machine.end_callback(callback, self.world.now)
        self.send()
        return True

    def commit(self, partitions: Any = None) -> None:
        """Commit positions in one request, which is answered immediately, lost, or handled without a response."""
        simulation, member = self.simulation, self.machine.member
        if member is None or not member.is_member:
            return
        offsets = {}
        for entry in self.machine.owned_partitions if partitions is None else partitions:
            state = self.machine.find_state(entry)
            if state is not None and state.has_offset:
                offsets[entry] = state.interrupt_reading()
        fate = simulation.random.choice(("answered", "answered", "answered", "lost", "unanswered"))
        if not offsets or (fate == "lost" and not simulation.is_healing):
            return
        identity = member.identity
        committer = OffsetClient(GROUP, identity.member_id, identity.group_instance_id, identity.generation_id)
        for entry, (offset, _) in offsets.items():
            ownership = self.ownerships.get(entry)
            assert ownership is not None, f"{entry} was committed by a member that does not own it"
            assert offset <= ownership.expected_offset, (
                f"{entry} was committed at {offset}, but read to {ownership.expected_offset}"
            )
        try:
            committed_offsets = {
                entry: OffsetToCommit(*position)
                for entry, position in offsets.items()
                if self.world.has_topic(self, entry)
            }
            simulation.check_commit(self, committed_offsets)
            self.world.coordinator.commit(committer, committed_offsets)
            simulation.counters["commits"] += 1
        except RefusedError as error:
            if error.code not in COMMIT_REFUSALS:
                raise
            simulation.counters[f"commit: {ErrorCode(error.code).name}"] += 1
            if fate == "answered":
                self.machine.process_commit_error(to_broker_error(error.code, "commit"), self.world.now)
                self.check_lost()

    def check_lost(self) -> None:
        """Drop the ownership of lost partitions, so that returning a record of them is an error."""
        for entry in self.machine.lost_partitions:
            self.ownerships.pop(entry, None)

    def shares_topic(self, other: SimulatedMember, partition: TopicPartition) -> bool:
        """Return whether both members have the same topic id for a partition."""
        own_state, theirs = self.machine.find_state(partition), other.machine.find_state(partition)
        return own_state is not None and theirs is not None and own_state.topic_id == theirs.topic_id

    def check_record(self, partition: TopicPartition, batches: FetchedRecords) -> None:
        """Check a returned record against the records returned before."""
        offset, epoch = batches.take()
        ownership = self.ownerships.get(partition)
        assert ownership is not None, f"{partition}@{offset} was returned without an owner"
        record = (batches.topic_id, epoch, offset)
        assert record not in ownership.seen_records, f"{partition}@{offset} was returned twice"
        if offset > ownership.expected_offset:
            is_other = ownership.last is None or ownership.last[0] != batches.topic_id
            log_was_cut = partition in self.simulation.truncated_partitions or is_other
            assert log_was_cut, f"{partition}: expected offset {ownership.expected_offset}, but {offset} was returned"
        ownership.seen_records.add(record)
        ownership.last, ownership.expected_offset = record, offset + 1
        self.simulation.returned_records.add((partition, *record))
        self.simulation.counters["records"] += 1

    def close(self, *, is_polite: bool = True) -> None:
        """Close the consumer, or end it without leaving the group."""
        if is_polite:
            self.machine.prepare_end()
            for _ in range(5):
                callback = self.machine.next_callback()
                if callback is None:
                    break
                self.run_callback(callback, commits=self.simulation.chance(0.8))
            request = self.machine.end_membership()
            assert not self.machine.assignment
            if request is not None and self.simulation.chance(0.8):
                self.simulation.execute(self, PendingRequest(request), None)
        self.ownerships.clear()
        self.simulation.members.remove(self)


# -------------------------------------------------------------------------------------------------- the simulation


class ConsumerSimulation:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        self.random = rng = random.Random(seed)
        self.kind = rng.choice(list(GROUP_KINDS))
        self.reset = "none" if rng.random() < 0.15 else "earliest"
        self.pattern = re.compile("t.*") if rng.random() < 0.3 else None
        self.subscription = ["t", "later"] if rng.random() < 0.3 else ["t"]
        self.has_static = rng.random() < 0.3
        self.changes_logs = rng.random() < 0.4
        self.changes_topics = rng.random() < 0.4
        self.fault_rate = rng.choice((0.0, 0.05, 0.2))
        self.late_rate = rng.choice((0.0, 0.3))
        self.is_healing = self.is_final = False
        self.depth = 0
        self.world = SimulatedCluster()
        self.world.create("t", rng.randint(1, 4))
        self.members: list[SimulatedMember] = []
        self.ghosts: list[tuple[SimulatedMember, PendingRequest]] = []
        self.numbers = count(1)
        self.returned_records: set[tuple[TopicPartition, UUID, int, int]] = set()
        self.truncated_partitions: set[TopicPartition] = set()
        self.sought_offsets: dict[tuple[TopicPartition, UUID], int] = {}  # the highest offset of all seeks
        self.committed_offsets: dict[tuple[UUID, TopicPartition], int] = {}
        self.counters: Counter[str] = Counter()
        self.tokens: dict[bytes, Any] = {}

    def chance(self, rate: float) -> bool:
        return not self.is_healing and self.random.random() < rate

    # events

    def free_member(self) -> SimulatedMember | None:
        """Return a member whose caller is not in a callback, or None."""
        free = [member for member in self.members if not member.is_in_callback]
        return self.random.choice(free) if free else None

    def on_random_member(self, call: Callable[[SimulatedMember], object]) -> Callable[[], None]:
        """Return an event that calls a function with a random member."""

        def run() -> None:
            one = self.free_member()
            if one is not None:
                call(one)

        return run

    def channel(self, member: SimulatedMember) -> str:
        return self.random.choice(list(member.pending)) if member.pending else "requests"

    def exchange(self, member: SimulatedMember) -> None:
        """Send and handle some of a member's requests."""
        for _ in range(self.random.randint(1, 6)):
            member.send()
            name = self.channel(member)
            member.handle(name, self.fault)
            if self.random.random() >= self.late_rate:
                member.deliver(name)

    def seek(self, member: SimulatedMember) -> None:
        if member.ownerships:
            entry = self.random.choice(sorted(member.ownerships))
            member.seek(entry, self.random.randint(0, max(member.ownerships[entry].expected_offset, 0)))

    def pause(self, member: SimulatedMember) -> None:
        for entry in member.ownerships:
            state = member.machine.find_state(entry)
            if state is not None:
                state.is_paused = self.random.random() < 0.5

    def events(self) -> dict[str, tuple[int, Callable[[], None]]]:
        rng, world, of_member = self.random, self.world, self.on_random_member

        log_rate, topic_rate = int(self.changes_logs), int(self.changes_topics)
        return {
            "exchange": (90, of_member(self.exchange)),
            "deliver": (20, of_member(lambda one: one.deliver(self.channel(one)))),
            "poll": (45, of_member(lambda one: one.poll(rng.choice((0, 1, 3, 100))))),
            "commit": (12, of_member(lambda one: one.commit())),
            "write": (15, lambda: self.write(rng.randint(1, 4))),
            "join": (6, self.join),
            "close": (2, of_member(lambda one: one.close(is_polite=rng.random() < 0.7))),
            "cut": (
                3 if self.fault_rate else 0,
                of_member(lambda one: one.end_connection(self.channel(one), handles_rest=rng.random() < 0.5)),
            ),
            "ghost": (2, self.handle_late_request),
            "time": (20, lambda: self.pass_time(rng.choice((0.05, 0.3, 0.3, 1.0, 1.0, 1.0)))),
            "quiet": (2, lambda: self.pass_time(rng.choice((SESSION_S / 2, SESSION_S + 1)))),
            "long time": (1, lambda: self.pass_time(MAX_POLL_S + 1)),
            "seek": (4, of_member(self.seek)),
            "pause": (4, of_member(self.pause)),
            "move coordinator": (1, self.move_coordinator),
            "lead": (2 * log_rate, lambda: self.move_leader(truncates=False)),
            "truncate": (2 * log_rate, lambda: self.move_leader(truncates=True)),
            "away": (2 * log_rate, self.toggle_leader),
            "grow": (2 * topic_rate, lambda: world.create("t", 1 + sum(entry.topic == "t" for entry in world.logs))),
            "create": (2 * topic_rate, lambda: world.create(rng.choice(("later", "t-other")), rng.randint(1, 2))),
            "delete": (topic_rate, lambda: world.delete(rng.choice(("later", "t-other", "t")))),
        }

    def step(self) -> None:
        """Run one random event, perhaps in the middle of another."""
        if self.depth > 1:
            return
        self.depth += 1
        self.random.choices(self.happenings, cum_weights=self.weights)[0]()
        self.depth -= 1

    def run(self) -> Counter[str]:
        weights, self.happenings = zip(*self.events().values(), strict=True)
        self.weights = list(accumulate(weights))
        self.join()
        for _ in range(self.random.randint(60, 300)):
            self.step()
        self.heal()
        return self.counters

    def join(self) -> None:
        if len(self.members) < MAX_MEMBERS:
            instance = None
            if self.has_static:
                free = {"a", "b", "c"} - {member.instance for member in self.members}
                instance = self.random.choice(sorted(free))
            one = SimulatedMember(self, next(self.numbers), instance)
            self.members.append(one)
            one.subscribe()
            one.poll(1)

    def write(self, number: int) -> None:
        if self.world.logs:
            log = self.world.logs[self.random.choice(sorted(self.world.logs))]
            if not log.is_away:
                log.append(number)

    def move_leader(self, *, truncates: bool) -> None:
        if self.world.logs:
            entry = self.random.choice(sorted(self.world.logs))
            log = self.world.logs[entry]
            if truncates:
                log.truncate(self.random.randint(0, len(log.epochs)))
                self.truncated_partitions.add(entry)
                self.counters["truncations"] += 1
            log.is_away = False
            log.lead((log.leader + self.random.randint(0, 1)) % NODE_COUNT)
            log.append(self.random.randint(0, 4))

    def toggle_leader(self) -> None:
        if self.world.logs:
            log = self.world.logs[self.random.choice(sorted(self.world.logs))]
            log.is_away = not log.is_away

    def move_coordinator(self) -> None:
        self.world.restart_coordinator()
        self.counters["coordinators moved"] += 1
        for member in list(self.members):
            for channel in list(member.pending):
                if channel in ("join", "requests"):
                    member.end_connection(channel, handles_rest=False)

    def handle_late_request(self) -> None:
        """Let the broker handle a request long after its connection has ended."""
        if self.ghosts:
            one = self.random.choice(self.ghosts)[0]
            first = next(row for row in self.ghosts if row[0] is one)
            self.ghosts.remove(first)
            self.execute(*first, None)

    def pass_time(self, seconds: float) -> None:
        self.world.clock.advance(seconds)
        for member in list(self.members):
            member.send()
            member.check_lost()

    def fault(self, request: Any) -> ErrorCode | None:
        """Return the error with which a broker rejects a request, or None."""
        if not self.chance(self.fault_rate):
            return None
        if isinstance(request, (ListOffsets, FetchEpochEnds)):
            return self.random.choice(LEADER_FAULTS + LOOK_UP_FAULTS)
        if isinstance(request, FetchRecords):
            return self.random.choice(LEADER_FAULTS)
        if isinstance(request, FetchMetadata):
            return None
        faults = COORDINATOR_FAULTS
        if isinstance(request, FetchCommittedOffsets):
            faults = (*faults, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return self.random.choice(faults)

    # brokers

    def execute(self, member: SimulatedMember, entry: PendingRequest, fault: ErrorCode | None) -> None:
        """Let a broker process a request.

        A coordinator handles the requests of one member in the order in which they were sent, even if they arrive on
        several connections. The group protocols do not number requests, so a member could not detect another order.
        """
        if isinstance(entry.request, GROUP_REQUESTS):
            older = [row for row in self.ghosts if row[0] is member and isinstance(row[1].request, GROUP_REQUESTS)]
            self.ghosts = [row for row in self.ghosts if row not in older]
            for row in older:
                self.execute(*row, None)
        try:
            if fault is not None and not isinstance(entry.request, (ListOffsets, FetchRecords, FetchEpochEnds)):
                raise RefusedError(fault)
            answer = HANDLERS_BY_REQUEST[type(entry.request)](self, member, entry, fault)
        except RefusedError as error:
            answer = to_broker_error(error.code, type(entry.request).__name__)
        if answer is not NotImplemented:
            entry.answers.append(answer)

    def _join(self, one: SimulatedMember, entry: PendingRequest, _: ErrorCode | None) -> Any:
        request = entry.request
        member = MemberSubscription(
            frozenset(request.topics), request.owned_partitions, request.generation, one.instance
        )
        token = b"%d" % len(self.tokens)
        self.tokens[token] = member

        def reply(result: JoinResult) -> None:
            if result.error == ErrorCode.MEMBER_ID_REQUIRED:
                entry.answers.append(JoinGroupResponse(result.member_id, -1))
            elif result.error:
                entry.answers.append(to_broker_error(result.error, "join"))
            else:
                is_leader = result.leader == result.member_id
                members = {row.member_id: self.tokens[row.metadata] for row in result.members} if is_leader else None
                identity = result.member_id, result.generation, result.protocol_name or ""
                entry.answers.append(JoinGroupResponse(*identity, members, result.skip_assignment))

        times = int(SESSION_S * 1000), int(MAX_POLL_S * 1000)
        protocols = tuple((name, token) for name in one.settings.strategies)
        self.world.coordinator.join(
            JoinRequest(GROUP, request.member_id, one.instance, "c", "/h", *times, "consumer", protocols), reply
        )
        return NotImplemented

    def _sync(self, member: SimulatedMember, entry: PendingRequest, _: ErrorCode | None) -> Any:
        request, assignments = entry.request, {}
        for member_id, partitions in (request.assignment or {}).items():
            token = b"%d" % len(self.tokens)
            self.tokens[token] = list(partitions)
            assignments[member_id] = token

        def reply(result: SyncResult) -> None:
            is_refused = bool(result.error)
            partitions = self.tokens[result.assignment] if result.assignment else []
            entry.answers.append(to_broker_error(result.error, "sync") if is_refused else partitions)

        identity = GROUP, request.generation, request.member_id, member.instance
        self.world.coordinator.sync(SyncRequest(*identity, assignments, "consumer", request.protocol), reply)
        return NotImplemented

    def _heartbeat(self, member: SimulatedMember, entry: PendingRequest, _: ErrorCode | None) -> Any:
        request = entry.request
        code = self.world.coordinator.heartbeat(GROUP, request.member_id, member.instance, request.generation)
        return to_broker_error(code, "heartbeat") if code else None

    def _leave(self, member: SimulatedMember, entry: PendingRequest, _: ErrorCode | None) -> Any:
        self.world.coordinator.leave(GROUP, [LeavingMember(entry.request.member_id)])

    def _consumer_heartbeat(self, member: SimulatedMember, entry: PendingRequest, _: ErrorCode | None) -> Any:
        request = entry.request
        owned_partitions = None
        if request.owned_partitions is not None:
            owned_partitions = frozenset(
                (topic_id, number) for topic_id, numbers in request.owned_partitions for number in numbers
            )
        more: dict[str, Any] = {}
        if request.is_full:
            more["rebalance_timeout_ms"] = int(MAX_POLL_S * 1000)
        instance = member.instance if request.is_full or request.epoch < 0 else None
        beat = HeartbeatRequest(
            GROUP,
            request.member_id,
            request.epoch,
            instance,
            topics=request.topics,
            owned_partitions=owned_partitions,
            **more,
        )
        if owned_partitions:
            beat = beat._replace(has_owned_rows=True)
        answer = self.world.coordinator.handle_consumer_heartbeat(beat)
        assignment = None
        if answer.assignment is not None:
            by_id: dict[UUID, list[int]] = {}
            for topic_id, number in sorted(answer.assignment):
                by_id.setdefault(topic_id, []).append(number)
            assignment = tuple((topic_id, tuple(numbers)) for topic_id, numbers in by_id.items())
        return ConsumerHeartbeatResponse(answer.member_id, answer.epoch, answer.interval_ms / 1000, assignment)

    def _metadata(self, member: SimulatedMember, entry: PendingRequest, _: ErrorCode | None) -> Any:
        return self.world.metadata(entry.request.topics)

    def _fetch_committed(self, member: SimulatedMember, entry: PendingRequest, _: ErrorCode | None) -> Any:
        offsets = self.world.coordinator.commits.fetch(OffsetClient(GROUP), list(entry.request.versions))
        return {
            partition: CommittedOffset(offset.offset, offset.leader_epoch)
            for partition, offset in offsets.items()
            if offset.offset >= 0
        }

    def _at_leader(
        self, entry: PendingRequest, fault: ErrorCode | None, epochs: dict[TopicPartition, int]
    ) -> Iterator[tuple[TopicPartition, SimulatedLog | None, Exception | None]]:
        for partition in entry.request.versions:
            log = self.world.logs.get(partition)
            code = fault if fault is not None else None
            if code is None and log is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if code is None and log is not None:
                code = log.check(entry.request.node.node_id, epochs.get(partition, -1))
            yield partition, log, None if code is None else to_broker_error(code, f"{partition}")

    def _list(self, member: SimulatedMember, entry: PendingRequest, fault: ErrorCode | None) -> Any:
        answers: dict[TopicPartition, Any] = {}
        for partition, log, error in self._at_leader(entry, fault, {}):
            assert log is not None or error is not None
            if error is None:
                is_first = entry.request.timestamps[partition] == EARLIEST
                answers[partition] = OffsetAndTimestamp(0 if is_first else len(log.epochs), -1, log.leader_epoch)
                if is_first:
                    first = log.epochs[0] if log.epochs else log.leader_epoch
                    answers[partition] = OffsetAndTimestamp(0, -1, first)
            else:
                answers[partition] = error
        return answers

    def _epoch_ends(self, member: SimulatedMember, entry: PendingRequest, fault: ErrorCode | None) -> Any:
        queries = entry.request.epochs
        current = {partition: query.current_epoch for partition, query in queries.items()}
        return {
            partition: error if error is not None else log.epoch_end(queries[partition].epoch)
            for partition, log, error in self._at_leader(entry, fault, current)
        }

    def _fetch(self, member: SimulatedMember, entry: PendingRequest, fault: ErrorCode | None) -> Any:
        answers: dict[TopicPartition, PartitionFetchResponse] = {}
        detail = entry.detail
        current = {partition: row[2] for partition, row in detail.items()}
        for partition, log, error in self._at_leader(entry, fault, current):
            if partition not in detail:
                continue
            topic_id, offset, _ = detail[partition]
            if error is None and self.world.topics.get(partition.topic) != topic_id:
                error = to_broker_error(ErrorCode.UNKNOWN_TOPIC_ID, f"{partition}")
            if error is None and offset > len(log.epochs):
                error = to_broker_error(ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition}")
            if error is not None:
                answers[partition] = PartitionFetchResponse(error)
            elif offset < len(log.epochs):
                most = self.random.randint(1, 6)
                answers[partition] = PartitionFetchResponse(
                    None, FetchedRecords(topic_id, offset, log.epochs[offset : offset + most])
                )
        return answers

    # laws

    def check_owners(self, one: SimulatedMember, partitions: tuple[TopicPartition, ...]) -> None:
        """Check that no other member known to the coordinator owns a partition that this member takes over."""
        group = self.world.coordinator.groups.get(GROUP)
        member_ids = set() if group is None else set(group.members)
        if one.machine.member is None or one.machine.member.identity.member_id not in member_ids:
            return  # the member does not know yet that it was removed
        for other in self.members:
            member = other.machine.member
            if other is one or member is None or member.identity.member_id not in member_ids:
                continue
            if (
                self.kind == "consumer"
                and group.members[member.identity.member_id].epoch > member.identity.generation_id
            ):
                continue  # the member was replaced, or does not know its epoch
            both = [entry for entry in partitions if entry in other.ownerships and one.shares_topic(other, entry)]
            assert not both, f"{both} belong to members {one.number} and {other.number}"

    def check_commit(self, member: SimulatedMember, offsets: dict[TopicPartition, OffsetToCommit]) -> None:
        """Check that all records below a committed offset were returned to some member."""
        for entry, offset in offsets.items():
            log, topic_id = self.world.logs[entry], self.world.topics[entry.topic]
            if (entry, topic_id) in self.sought_offsets or entry in self.truncated_partitions:
                continue
            ownership = member.ownerships[entry]
            if ownership.last is None or ownership.last[0] != topic_id:
                continue
            missing = [
                number
                for number in range(offset.offset)
                if (entry, topic_id, log.epochs[number], number) not in self.returned_records
            ]
            assert not missing, f"{entry} was committed at {offset.offset}, and {missing[0]} was not returned"

    def heal(self) -> None:
        """End all faults, and check that every partition is read."""
        self.is_healing = True
        while self.ghosts:
            self.handle_late_request()
        for log in self.world.logs.values():
            log.is_away = False
        if not self.members:
            self.join()
        for member in self.members:
            for state in member.machine.positions.states.values():
                state.is_paused = False
        if self.has_static and self.kind != "consumer":
            # A returning static leader does not notice topics that changed in its absence (KIP-814). It notices the
            # next change of a subscribed topic.
            for _ in range(int(2 * MAX_POLL_S / QUIET_STEP_S)):
                self.serve(QUIET_STEP_S)
            for name in [name for name in self.world.topics if self.is_subscribed(name)] or ["t"]:
                self.world.create(name, 1 + sum(entry.topic == name for entry in self.world.logs))
        self.settle("after the faults")
        self.is_final = True
        for log in self.world.logs.values():
            log.append(1)
        self.settle("after one more record each")

    def settle(self, when: str) -> None:
        for _ in range(HEALING_STEPS):
            self.serve()
            if not (problem := self.problem()):
                return
        raise AssertionError(f"{when}: {problem}")

    def serve(self, seconds: float = HEALING_STEP_S) -> None:
        """Let every member complete its pending work without faults."""
        for one in [member for member in self.members if member.machine.member and member.machine.member.fatal]:
            one.close()  # another member has taken over its instance id
            self.join()
        for one in list(self.members):
            one.send()
            for channel in list(one.pending):
                for _ in range(3):
                    one.handle(channel, self.fault)
                    one.deliver(channel)
            one.poll(100)
        self.pass_time(seconds)

    def problem(self) -> str | None:
        """Return what violates an invariant at the end, or None."""
        meant = {entry for entry in self.world.logs if self.is_subscribed(entry.topic)}
        owners = Counter(entry for member in self.members for entry in member.ownerships)
        if set(owners) != meant or any(number > 1 for number in owners.values()):
            return f"owners are {dict(owners)}, and partitions {sorted(meant)}"
        for entry in meant:
            log, topic_id = self.world.logs[entry], self.world.topics[entry.topic]
            is_sought = (entry, topic_id) in self.sought_offsets
            first = max(len(log.epochs) - 1, self.sought_offsets[entry, topic_id]) if is_sought else 0
            if is_sought and entry in self.truncated_partitions and not self.is_final:
                continue  # an offset chosen by the caller has no epoch, so a truncation below it cannot be detected
            for offset in range(first, len(log.epochs)):
                if (entry, topic_id, log.epochs[offset], offset) not in self.returned_records:
                    return f"{entry}@{offset} of epoch {log.epochs[offset]} was never returned"
        return None

    def is_subscribed(self, topic: str) -> bool:
        if self.pattern is not None:
            return self.pattern.fullmatch(topic) is not None
        return topic in self.subscription


HANDLERS_BY_REQUEST: dict[type, Callable[..., Any]] = {
    JoinGroup: ConsumerSimulation._join,
    SyncGroup: ConsumerSimulation._sync,
    Heartbeat: ConsumerSimulation._heartbeat,
    LeaveGroup: ConsumerSimulation._leave,
    ConsumerHeartbeat: ConsumerSimulation._consumer_heartbeat,
    FetchMetadata: ConsumerSimulation._metadata,
    FetchCommittedOffsets: ConsumerSimulation._fetch_committed,
    ListOffsets: ConsumerSimulation._list,
    FetchEpochEnds: ConsumerSimulation._epoch_ends,
    FetchRecords: ConsumerSimulation._fetch,
}


def explore(seed: int) -> Counter[str]:
    """Run the schedule with a seed. Return the events that occurred in the schedule."""
    return ConsumerSimulation(seed).run()


def main() -> None:
    """Explore as many schedules as the command line requests."""
    sys.exit(bool(run_command(__doc__ or "", explore, schedules=100_000, range_size=500)))


if __name__ == "__main__":
    main()
