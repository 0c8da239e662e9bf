"""Explore the interactions between the members of a share group and a cluster: random schedules, without sockets.

    python -m tests.soak.share_schedules [--schedules 50000] [--seed 1] [--processes 2]

Each ``SimulatedShareMember`` has the real ``ShareConsumerMachine`` and ``ShareMessages``. The other side is the
embedded broker with two nodes, a clock that the schedule moves, and a disk in memory: each request is encoded,
dispatched to the broker's handlers and answered in bytes. Faults: requests that are lost, or handled after their
connection has ended, responses that are lost or late, rejected requests, sessions that the broker forgets, responses
that lack rows, damaged batches, leaders and coordinators that move, nodes that are down, restarts, topics that are
deleted, recreated and grown, members that the coordinator removes, callers that are slow, renew locks, poll too late,
close in the middle or end without leaving the group.

Invariants. A record is (topic id, partition, offset).

* No record is lost: at the end, a member has returned it, and it is accepted or rejected.
* None is returned after a broker has confirmed that it is accepted or rejected, and none without a lock.
* Each acknowledgement has one result, and a result without an error is what the broker has stored.
* A commit without an error has confirmed every acknowledgement that precedes it. Commits and renewals end.
* Without faults, no acknowledgement fails, and a record is delivered again only if a member has released it. Locks
  that are renewed in time do not expire.
* A poll returns at most ``max_poll_records`` in the mode ``record_limit``, and else one response of each node.
* Nothing is returned of topics without a subscription, or that was fetched before the subscription.
* Polls raise, or the end reports, each error that retries cannot mend.
* When a subscription ends, brokers have neither the member nor its sessions. Once all faults have ended, all records
are read within a limited number of rounds.

A schedule is determined by its seed. ``share_mutants.py`` breaks the machine's rules one at a time; ``tests/client``
runs a short form.
"""

from __future__ import annotations

import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from tests.soak.exploration import run_command

from kafkaframes.broker.apis import _share
from kafkaframes.broker.dispatch.dispatch import Dispatcher
from kafkaframes.broker.lifecycle.assembly import open_broker
from kafkaframes.broker.requests.api import DeferredResponse
from kafkaframes.broker.requests.request import Session
from kafkaframes.broker.settings.settings import BrokerSettings
from kafkaframes.broker.state.changes import finish_steps
from kafkaframes.broker.state.clock import Clock
from kafkaframes.broker.state.internal import build_batch
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Node, Nodes
from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.group_requests import FetchMetadata
from kafkaframes.client.metadata import Cluster
from kafkaframes.client.settings import ShareConsumerSettings
from kafkaframes.client.share_consumer import get_record_keys, to_table
from kafkaframes.client.share_machine import AcquiredBatch, PendingResults, RecordKey, ShareConsumerMachine
from kafkaframes.client.share_messages import ShareMessages
from kafkaframes.client.share_requests import (
    ShareAcknowledge,
    ShareFetch,
    ShareFetchResponse,
    ShareHeartbeat,
    ShareRequest,
)
from kafkaframes.client.share_session import ACCEPT, REJECT, RELEASE, PartitionId
from kafkaframes.coordination.groups.share_in_flight import FINISHED_STATES, DeliveryState, RecordState
from kafkaframes.coordination.groups.share_state import ShareKey
from kafkaframes.errors import (
    LEADER_MOVED_CODES,
    BrokerError,
    ErrorCode,
    KafkaframesError,
    NetworkError,
    OptionError,
    to_broker_error,
)
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message
from kafkaframes.storage.files.memory_disk import MemoryDisk
from kafkaframes.storage.files.names import TopicPartition as LogName

GROUP = "g"
NODE_IDS = (1, 2)
MAX_MEMBERS = 3
LOCK_S, LONG_LOCK_S = 5.0, 3_000.0
MAX_POLL_S, MEMBER_SESSION_S, HEARTBEAT_S, FETCH_WAIT_S = 20.0, 8.0, 1.0, 0.5
REQUEST_TIMEOUT_S = 10.0
RENEWAL_TRANSIT_S = 1.0  # time in which a renewal without faults reaches the broker
MAX_DELIVERIES = 10
HEALING_ROUNDS = 300
TOPICS = ("t", "u")
SESSION_ERRORS = (
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
)
GROUP_ERRORS = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
)
PARTITION_ERRORS = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


class RecordId(NamedTuple):
    """The identity of a record."""

    topic_id: UUID
    partition: int
    offset: int


@cache
def member_settings(mode: str, acquire_mode: str, max_records: int) -> ShareConsumerSettings:
    """Return the settings of a member."""
    options = {
        "bootstrap_servers": "a:1",
        "group_id": GROUP,
        "share_acknowledgement_mode": mode,
        "share_acquire_mode": acquire_mode,
        "max_poll_records": max_records,
        "fetch_max_wait_ms": int(FETCH_WAIT_S * 1000),
        "max_poll_interval_ms": int(MAX_POLL_S * 1000),
    }
    return ShareConsumerSettings.from_options(options)


@cache
def encode_batch(count: int) -> bytes:
    """Return a batch of records."""
    return bytes(build_batch([(None, b"v%d" % number) for number in range(count)], timestamp_ms=1))


# ---------------------------------------------------------------------------------------------------- the cluster


class SimulatedBroker:
    """The embedded broker with two nodes and without sockets."""

    def __init__(self, lock_s: float, rng: random.Random) -> None:
        self.random = rng
        self.clock = Clock(source=lambda: 1_000_000, is_frozen=True)
        self.disk = MemoryDisk()
        self.nodes = Nodes({node_id: Node(node_id) for node_id in NODE_IDS})
        self.nodes.coordinators[0, GROUP] = 1
        self.lock_s = lock_s
        self.away: set[int] = set()
        self.disturbances = 0  # events after which a lock may end early
        self.written_records: set[RecordId] = set()
        self.state: BrokerState
        self.dispatcher: Dispatcher
        self.open()

    def open(self) -> None:
        """Open the broker on its disk, for the first time or after ``restart``."""
        lock_ms = str(int(self.lock_s * 1000))
        config = {
            "group.share.max.record.lock.duration.ms": lock_ms,
            "group.share.min.record.lock.duration.ms": "1000",
            "group.share.record.lock.duration.ms": lock_ms,
            "group.share.delivery.count.limit": str(MAX_DELIVERIES),
            "group.share.min.heartbeat.interval.ms": "100",
            "group.share.heartbeat.interval.ms": str(int(HEARTBEAT_S * 1000)),
            "group.share.min.session.timeout.ms": "1000",
            "group.share.session.timeout.ms": str(int(MEMBER_SESSION_S * 1000)),
        }
        self.state = open_broker(
            data_dir="/logs",
            disk=self.disk,
            settings=BrokerSettings(config),
            clock=self.clock,
            nodes=self.nodes,
            new_id=lambda: UUID(int=self.random.getrandbits(128)),
        )
        self.state.waits = self.clock
        self.state.metadata.entities["group_configs"] = {GROUP: {"share.auto.offset.reset": "earliest"}}
        self.dispatcher = Dispatcher(self.state)

    def restart(self) -> None:
        """Restart the broker.

        Restart the broker: acquisition locks and sessions are lost, and the stored states are loaded.
        """
        self.disturbances += 1
        leaders = {row.topic_partition: (row.leader_id, row.leader_epoch) for row in self.state.partitions()}
        self.state.logs.close(now_ms=self.clock.now_ms)
        self.open()
        for row in self.state.partitions():  # the leaders, which Kafka's controller stores
            row.leader_id, row.leader_epoch = leaders[row.topic_partition]

    @property
    def now(self) -> float:
        return self.clock.monotonic_ms / 1000

    def create(self, topic: str, size: int) -> None:
        """Create a topic, or add partitions to it."""
        topic_state = self.state.topics.get(topic)
        if topic_state is None:
            self.state.create_topic(topic, size)
        elif size > len(topic_state.partitions):
            first = len(topic_state.partitions)
            replicas = self.state.assign_replicas(topic, size - first, 1, first=first)
            finish_steps(self.state.add_partitions_in_steps(topic_state, replicas))
            self.state.save_metadata()
        for number, row in enumerate(self.state.topics[topic].partitions):
            if row.leader_id != NODE_IDS[number % 2] and topic_state is None:
                self.state.move_leader(row, NODE_IDS[number % 2])

    def delete(self, topic: str) -> None:
        topic_state = self.state.topics.get(topic)
        if topic_state is not None:
            self.disturbances += 1
            finish_steps(self.state.delete_topics_in_steps([topic_state]))
            self.state.save_metadata()

    def partitions(self) -> list[Any]:
        """Return the partitions of the topics that members may read."""
        return [row for name in TOPICS if name in self.state.topics for row in self.state.topics[name].partitions]

    def topic_id(self, topic: str) -> UUID:
        return self.state.topics[topic].topic_id

    def write(self, row: Any, count: int) -> None:
        """Append records."""
        name: LogName = row.topic_partition
        first = row.log.log_end_offset
        cls = message("ProduceRequest")
        data = cls.PartitionProduceData(index=name.partition, records=encode_batch(count))
        body = cls(acks=-1, timeout_ms=1000, topic_data=[cls.TopicProduceData(name=name.topic, partition_data=[data])])
        session = Session(node_id=row.leader_id, peer="127.0.0.1:1")
        answer = self.exchange("Produce", 9, body, session)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
        topic_id = self.topic_id(name.topic)
        self.written_records |= {RecordId(topic_id, name.partition, first + number) for number in range(count)}

    def write_gap(self, row: Any) -> None:
        """Append a transaction marker: an offset that consumers acquire and that has no record."""
        self.state.internal.write_marker(row, commit=True, producer_id=7, producer_epoch=0)

    def exchange(self, api: str, version: int, body: Any, session: Session) -> Any:
        """Send a request that the broker answers immediately."""
        results: list[Any] = []
        self.dispatch(api, version, body, session, results.append)
        return results[0]

    def dispatch(
        self, api: str, version: int, body: Any, session: Session, reply: Callable[[Any], None]
    ) -> DeferredResponse | None:
        """Send a request. ``reply`` is called with the response body, immediately or later."""
        connection = ClientConnection(client_id="test")
        connection.send_request(body, version)
        request = self.dispatcher.decode_request(connection.data_to_send()[4:], session)
        dispatcher = self.dispatcher

        def read(answer: Any) -> None:
            connection.receive_data(b"".join(bytes(part) for part in dispatcher.encode(request, answer)))
            frame = connection.next_response()
            assert frame is not None
            reply(frame.body)

        answer = self.dispatcher.answer(request)
        if not isinstance(answer, DeferredResponse):
            read(answer)
            return None
        answer.call_when_complete(lambda later: read(later.answer))
        return answer

    def coordinator(self) -> int:
        node = self.nodes.coordinator_of(0, GROUP)
        assert node is not None
        return node.node_id

    def delivery(self, record: RecordId) -> DeliveryState | None:
        """Return the broker's state of a record in the group; None if it is finished or was never acquired."""
        share = self.state.share_groups.partitions.get(ShareKey(GROUP, record.topic_id, record.partition))
        if share is None or record.offset < share.start or record.offset >= share.end:
            return None
        for flight in share._in_flight_runs:
            if flight.first <= record.offset <= flight.last:
                return (
                    flight.shared_delivery
                    if flight.shared_delivery is not None
                    else flight.deliveries_by_offset[record.offset]
                )
        return None

    def is_finished(self, record: RecordId) -> bool:
        """Return whether the group has accepted, rejected or archived a record."""
        key = ShareKey(GROUP, record.topic_id, record.partition)
        share = self.state.share_groups.partitions.get(key)
        if share is None:
            stored_state = self.state.share_groups.stored_states.get(key)
            if stored_state is None:
                return False
            finished_batches = (row for row in stored_state.batches if RecordState(row.state) in FINISHED_STATES)
            return record.offset < stored_state.start or any(
                row.first <= record.offset <= row.last for row in finished_batches
            )
        if record.offset < share.start:
            return True
        delivery = self.delivery(record)
        return delivery is not None and delivery.state in FINISHED_STATES


# ----------------------------------------------------------------------------------------------------- the members


@dataclass(eq=False)
class PendingShareRequest:
    """A request in flight, and its response."""

    request: ShareRequest
    sent_s: float
    is_handled: bool = False
    later: DeferredResponse | None = None
    answers: list[Any] = field(default_factory=list)  # the response in a list, once the broker has answered


@dataclass(eq=False)
class ShareConnection:
    """A connection to a node, and the requests on it."""

    node_id: int
    session: Session
    waiting: deque[PendingShareRequest] = field(default_factory=deque)


class DeliveryAttempt(NamedTuple):
    """A delivery of a record to a member."""

    member: int
    time_s: float
    disturbances: int


@dataclass(eq=False)
class PendingAcknowledgement:
    """An acknowledgement of the caller that has no result yet."""

    record: RecordId
    kind: int


class SimulatedShareMember:
    """A share consumer: the machine, its messages, its connections, and the caller."""

    def __init__(self, simulation: ShareSimulation, number: int) -> None:
        self.simulation, self.world, self.number = simulation, simulation.world, number
        self.settings = member_settings(simulation.mode, simulation.acquire_mode, simulation.max_records)
        self.member_id = f"member{number}"
        self.cluster = Cluster()
        self.machine = ShareConsumerMachine(
            self.settings, self.cluster, backoff_s=lambda attempt: 0.1 * 2 ** min(attempt, 3)
        )
        self.messages = ShareMessages(self.settings, self.member_id, self.machine.get_partition)
        self.connections: dict[tuple[str, int], ShareConnection] = {}
        self.coordinator = 1
        self.delivered_records: dict[RecordKey, RecordId] = {}  # returned records that the caller has not acknowledged
        self.locked_s: dict[RecordId, float] = {}  # time of the delivery or of the last renewal
        self.confirmed_records: set[RecordId] = set()
        self.without_row: set[RecordId] = set()  # records whose acknowledgements lack a row in the response
        self.pending_acknowledgements: dict[RecordKey, list[PendingAcknowledgement]] = {}
        self.errors: Counter[str] = Counter()  # errors raised by polls, or logged at the end
        self.fatal: Counter[str] = Counter()  # errors that must be raised
        self.is_busy = False  # the caller is in a call or handles records
        self.is_closed = self.has_crashed = False
        self.has_failed_end = False  # nodes at which a session may exist until its connection ends
        self.subscribed_s = 0.0

    @property
    def now(self) -> float:
        return self.world.now

    # requests

    def connection_of(self, request: ShareRequest) -> ShareConnection:
        """Return the connection for a request, and open it if necessary."""
        if isinstance(request, (ShareFetch, ShareAcknowledge)):
            key = "fetch", request.node.node_id
        elif isinstance(request, ShareHeartbeat):
            key = "requests", self.coordinator
        else:
            key = "requests", NODE_IDS[0] if NODE_IDS[0] not in self.world.away else NODE_IDS[1]
        if key[1] in self.world.away:
            raise NetworkError(f"node {key[1]} is unavailable")
        if key not in self.connections:
            self.connections[key] = ShareConnection(key[1], Session(node_id=key[1], peer=f"127.0.0.1:{self.number}"))
        return self.connections[key]

    def send(self) -> None:
        """Send the machine's pending requests."""
        for request in self.machine.next_requests(self.now):
            try:
                self.body_of(request)  # the broker may not support a renewal
                connection = self.connection_of(request)
            except KafkaframesError as error:
                self.machine.process_failure(request, error, self.now)
                if isinstance(request, ShareHeartbeat):
                    self.coordinator = self.world.coordinator()
                continue
            connection.waiting.append(PendingShareRequest(request, self.now))
        for connection in list(self.connections.values()):
            if connection.waiting and self.now - connection.waiting[0].sent_s > REQUEST_TIMEOUT_S:
                if self.simulation.is_calm and connection.waiting[0].answers:
                    self.deliver(connection)  # only a fault can delay a response for so long
                else:
                    self.end_connection(connection, handles_rest=False)
        self.collect()

    def body_of(self, request: ShareRequest) -> tuple[str, int, Any]:
        """Return API, version and body of a request."""
        version = self.simulation.version
        if isinstance(request, ShareHeartbeat):
            return "ShareGroupHeartbeat", 1, self.messages.to_heartbeat_body(request)
        if isinstance(request, ShareFetch):
            return "ShareFetch", version, self.messages.to_fetch_body(request, version)
        if isinstance(request, ShareAcknowledge):
            return "ShareAcknowledge", version, self.messages.to_acknowledge_body(request, version)
        cls = message("MetadataRequest")
        topics = [cls.MetadataRequestTopic(name=name) for name in sorted(request.topics or ())]
        return "Metadata", 12, cls(topics=topics, allow_auto_topic_creation=False)

    def handle(self, connection: ShareConnection) -> None:
        """Let the broker handle the first request of a connection."""
        for entry in connection.waiting:
            if not entry.is_handled:
                entry.is_handled = True
                self.execute(connection, entry)
                return
            if not entry.answers:
                return  # the broker delays all later requests of the connection

    def execute(self, connection: ShareConnection, entry: PendingShareRequest) -> None:
        api, version, body = self.body_of(entry.request)
        fault = self.simulation.fault(self, connection, entry.request)
        if fault is not None:
            entry.answers.append(message(f"{api}Response")(error_code=fault))
            return

        def reply(answer: Any) -> None:
            self.simulation.observe(self, connection, entry.request, answer)
            entry.answers.append(answer)

        entry.later = self.world.dispatch(api, version, body, connection.session, reply)

    def deliver(self, connection: ShareConnection) -> None:
        """Let the client read a response."""
        if connection.waiting and connection.waiting[0].answers:
            entry = connection.waiting.popleft()
            self.take(entry.request, entry.answers[0])

    def take(self, request: ShareRequest, answer: Any) -> None:
        machine, now = self.machine, self.now
        try:
            if isinstance(request, FetchMetadata):
                self.cluster.update(answer, now=now, has_all_topics=False, requested_topics=request.topics)
                machine.process_response(request, None, now)
            elif isinstance(request, ShareHeartbeat):
                if answer.error_code:
                    if answer.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                        self.coordinator = self.world.coordinator()
                    raise to_broker_error(answer.error_code, "heartbeat")
                machine.process_response(request, self.messages.read_heartbeat(answer), now)
            elif isinstance(request, ShareFetch):
                fetched_rows = self.messages.read_fetch(request, answer)
                if machine._find_waiting_node(request) is not None and not machine._is_ending:
                    self.note_row_errors(fetched_rows)
                machine.process_response(request, fetched_rows, now)
            else:
                machine.process_response(request, self.messages.read_acknowledge(request, answer), now)
        except BrokerError as error:
            self.note_fatal(request, error)
            machine.process_failure(request, error, now)
        self.collect()

    def note_fatal(self, request: ShareRequest, error: BrokerError) -> None:
        """Record an error that a poll must raise."""
        is_current = not self.is_closed and bool(self.machine.topics)
        if error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED and is_current:
            is_late = isinstance(request, ShareHeartbeat) and request is not self.machine.member._in_flight
            is_leave = isinstance(request, ShareHeartbeat) and request.epoch < 0
            if not isinstance(request, ShareAcknowledge) and not is_leave and not is_late:
                self.fatal[str(error)] += 1

    def note_row_errors(self, answer: ShareFetchResponse) -> None:
        """Record partition errors that a poll must raise."""
        for partition_id, row in answer.rows.items():
            if row.error is not None and row.error.code not in LEADER_MOVED_CODES and not is_retriable(row.error):
                self.fatal[str(row.error)] += 1
            partition = self.machine.get_partition(partition_id)
            if row.damage is not None and partition is not None and partition.topic in self.machine.topics:
                self.fatal[str(row.damage)] += 1

    def end_connection(self, connection: ShareConnection, *, handles_rest: bool) -> None:
        """End a connection. The broker may still handle the requests that it has received, and notice the end later."""
        self.connections = {key: value for key, value in self.connections.items() if value is not connection}
        waiting, connection.waiting = connection.waiting, deque()
        self.world.disturbances += 1
        for entry in waiting:
            if handles_rest and not entry.is_handled and (entry is waiting[0] or not waiting[0].later):
                entry.is_handled = True
                self.execute(connection, entry)
            if entry.later is not None and not entry.answers:
                entry.later.abandon()
        self.simulation.close_later(connection)
        for entry in waiting:
            self.machine.process_failure(entry.request, NetworkError("cut"), self.now)
        self.collect()

    # the caller

    def collect(self) -> None:
        """Collect the results of acknowledgements, and compare them with the broker's state."""
        simulation = self.simulation
        for offsets, error in () if self.has_crashed else self.machine.take_results():
            for partition, numbers in offsets.items():
                for offset in numbers:
                    key = partition.topic, partition.partition, offset
                    if not self.pending_acknowledgements.get(key):
                        assert simulation.has_internal_results, f"{key} has a result but was not acknowledged"
                        continue
                    entry = self.pending_acknowledgements[key].pop(0)
                    simulation.check_result(self, entry, error)
        self.pending_acknowledgements = {
            key: entries for key, entries in self.pending_acknowledgements.items() if entries
        }

    def subscribe(self, topics: Iterable[str]) -> None:
        if not self.machine.topics:
            self.subscribed_s = self.now
        self.machine.subscribe(tuple(sorted(topics)), self.now)
        self.send()

    def poll(self, timeout_s: float) -> list[AcquiredBatch]:
        """Poll as ``AsyncShareConsumer`` does."""
        simulation, machine = self.simulation, self.machine
        if simulation.mode == "explicit" and self.delivered_records:
            try:
                machine.begin_poll(self.now)
            except OptionError:
                self.acknowledge(list(self.delivered_records), ACCEPT)
            else:
                raise AssertionError("an explicit consumer polls without acknowledgements")
        self.mark_accepted()
        self.is_busy = True
        machine.begin_poll(self.now)
        deadline, acquired_batches = self.now + timeout_s, list[AcquiredBatch]()
        while True:
            self.send()
            error = machine.take_error()
            if error is not None:
                self.errors[str(error)] += 1
                simulation.counters["errors raised"] += 1
                break
            acquired_batches = machine.take_records()
            if acquired_batches or self.now >= deadline:
                break
            simulation.exchange(self)
            if simulation.chance(0.2):
                simulation.step()
            else:
                simulation.pass_time(0.1)
        machine.end_poll(self.now)
        self.is_busy = False
        simulation.check_returned(self, acquired_batches)
        return acquired_batches

    def mark_accepted(self) -> None:
        """Record that, in implicit mode, the next call accepts the delivered records."""
        if self.simulation.mode == "implicit":
            for key, record in self.delivered_records.items():
                self.pending_acknowledgements.setdefault(key, []).append(PendingAcknowledgement(record, ACCEPT))
            self.delivered_records.clear()

    def acknowledge(self, keys: Sequence[RecordKey], kind: int) -> None:
        for key in keys:
            record = self.delivered_records.pop(key)
            self.pending_acknowledgements.setdefault(key, []).append(PendingAcknowledgement(record, kind))
            if kind == RELEASE:
                self.simulation.release_counts[record] += 1
        self.machine.acknowledge(keys, kind)
        self.collect()

    def work(self, acquired_batches: list[AcquiredBatch]) -> None:
        """Handle records, slowly or not, with or without renewals, then acknowledge some of them."""
        simulation, rng = self.simulation, self.simulation.random
        self.is_busy = True
        if simulation.renews:
            for _ in range(rng.randint(0, 3)):
                simulation.pass_time(LOCK_S * 0.4)
                if self.delivered_records:
                    self.renew(list(self.delivered_records))
        elif simulation.chance(0.2):
            simulation.pass_time(rng.choice((0.5, 2.0, 2.0) if simulation.is_calm else (0.5, 3.0, LOCK_S + 1)))
        elif simulation.version == 2 and self.delivered_records and simulation.chance(0.15):
            self.renew(rng.sample(sorted(self.delivered_records), rng.randint(1, len(self.delivered_records))))
        if simulation.chance(0.3) and not simulation.renews:
            simulation.step()
        if simulation.chance(0.9 if simulation.mode == "explicit" else 0.1):
            self.acknowledge_by(acquired_batches)
        self.is_busy = False
        if simulation.renews or simulation.chance(0.3):
            self.commit()

    def acknowledge_by(self, acquired_batches: list[AcquiredBatch]) -> None:
        """Acknowledge delivered records one by one, or those of a table by masks."""
        rng = self.simulation.random
        kinds = (ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT)
        if rng.random() < 0.5:
            for key in list(self.delivered_records):
                self.acknowledge([key], rng.choice(kinds))
            return
        table = to_table(acquired_batches)
        flags = pa.array([rng.random() < 0.6 for _ in range(table.num_rows)], pa.bool_())
        for mask, kind in ((flags, ACCEPT), (pc.invert(flags), rng.choice(kinds))):
            keys = get_record_keys(table, mask)
            if all(key in self.delivered_records for key in keys):
                self.acknowledge(keys, kind)

    def commit(self) -> None:
        """Commit; if that succeeds, check that each earlier acknowledgement has a result without an error."""
        self.mark_accepted()
        before = {id(entry): entry for entries in self.pending_acknowledgements.values() for entry in entries}
        self.simulation.commit_watch.append(watch := dict.fromkeys(before))
        error = self.wait_for(self.machine.commit())
        self.simulation.commit_watch.remove(watch)
        self.simulation.counters["commits" if error is None else "commits failed"] += 1
        if error is None:
            missing = [entry.record for key, entry in before.items() if watch[key] is not True]
            assert not missing, f"a commit succeeded, but {missing[0]} has no result without an error"

    def renew(self, keys: Sequence[RecordKey]) -> None:
        simulation = self.simulation
        records = [self.delivered_records[key] for key in keys]
        deadline_s = self.now + RENEWAL_TRANSIT_S
        is_in_time = all(deadline_s < self.locked_s[record] + self.world.lock_s for record in records)
        started_s = self.now
        error = self.wait_for(self.machine.renew(keys))
        if error is None:
            self.locked_s |= dict.fromkeys(records, started_s)
        simulation.counters["renewals" if error is None else "renewals failed"] += 1
        if simulation.version == 1:
            assert isinstance(error, OptionError), f"a renewal at version 1: {error}"
        elif simulation.renews and is_in_time:
            assert error is None, f"a renewal in time failed: {error}"

    def wait_for(self, completion: PendingResults) -> Exception | None:
        """Wait for a commit or a renewal. Return its error."""
        was_busy, self.is_busy = self.is_busy, True
        for _ in range(400):
            self.send()
            if completion.is_done:
                break
            self.simulation.exchange(self)
            self.simulation.pass_time(0.05)
        else:
            raise AssertionError("a commit or a renewal does not end")
        self.is_busy = was_busy
        try:
            completion.require_success()
        except KafkaframesError as error:
            return error
        return None

    def end(self) -> None:
        """Unsubscribe as ``AsyncShareConsumer`` does, and check that no state remains."""
        simulation, machine = self.simulation, self.machine
        self.is_busy = True
        disturbances, deadline = self.world.disturbances, self.now + FETCH_WAIT_S + 2.0
        machine.end_subscription()
        self.delivered_records.clear()
        faults = simulation.counters["faults"]
        for _ in range(600):
            self.send()
            if machine.has_ended:
                break
            if deadline is not None and self.now >= deadline:
                machine.abandon_waiting(self.now)
                deadline = None
            simulation.exchange(self)
            simulation.pass_time(0.05)
        else:
            raise AssertionError("an unsubscribe does not end")
        machine.abandon()
        simulation.release_expected(self)
        self.collect()
        while (error := machine.take_error()) is not None:
            self.errors[str(error)] += 1
        self.is_busy = False
        assert not machine.has_records
        assert not self.pending_acknowledgements, f"without a result: {list(self.pending_acknowledgements)}"
        for text in self.fatal:
            assert self.errors[text], f"{text} was neither raised nor logged"
        try:
            machine.begin_poll(self.now)
        except OptionError:
            pass
        else:
            raise AssertionError("a poll without a subscription")
        is_noticed = self.number not in simulation.closing_members
        self.has_failed_end = self.has_failed_end or simulation.counters["faults"] != faults
        if is_noticed and not self.has_failed_end and self.world.disturbances == disturbances and not self.world.away:
            simulation.check_ended(self)

    def close(self, *, is_polite: bool) -> None:
        """Close the consumer, or end it without leaving the group."""
        if is_polite:
            self.end()
        else:
            self.simulation.release_expected(self)
            self.has_crashed = True
        self.is_closed = True
        self.simulation.members.remove(self)
        for connection in list(self.connections.values()):
            self.end_connection(connection, handles_rest=False)


# -------------------------------------------------------------------------------------------------- the simulation


class ShareSimulation:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        self.random = rng = random.Random(seed)
        self.is_calm = rng.random() < 0.4
        self.version = rng.choice((1, 2, 2, 2))
        self.renews = self.is_calm and self.version == 2 and rng.random() < 0.4
        self.mode = rng.choice(("implicit", "explicit"))
        self.acquire_mode = rng.choice(("batch_optimized", "record_limit" if self.version == 2 else "batch_optimized"))
        self.max_records = rng.choice((1, 3, 8, 50))
        self.fault_rate = 0.0 if self.is_calm else rng.choice((0.0, 0.03, 0.12))
        self.late_rate = rng.choice((0.0, 0.3))
        self.changes_subscription = not self.is_calm and rng.random() < 0.3
        self.damages = not self.is_calm and rng.random() < 0.2
        self.has_internal_results = self.changes_subscription or self.damages
        self.subscription = list(TOPICS) if rng.random() < 0.5 else ["t"]
        self.is_healing = False
        self.depth = 0
        self.world = SimulatedBroker(LOCK_S if self.renews or not self.is_calm else LONG_LOCK_S, rng)
        for topic in self.subscription if rng.random() < 0.9 else ["t"]:
            self.world.create(topic, rng.randint(1, 3))
        self.numbers = 0
        self.members: list[SimulatedShareMember] = []
        self.closing: list[ShareConnection] = []
        self.attempts: dict[RecordId, list[DeliveryAttempt]] = {}
        self.return_counts: Counter[RecordId] = Counter()
        # number of deliveries that ended without acceptance or rejection, by record
        self.release_counts: Counter[RecordId] = Counter()
        self.confirmed_records: set[RecordId] = set()
        self.damaged_records: set[RecordId] = set()
        self.max_batch = 0
        self.commit_watch: list[dict[int, bool | None]] = []
        self.counters: Counter[str] = Counter()

    def chance(self, rate: float) -> bool:
        return not self.is_healing and self.random.random() < rate

    # events

    def on_random_member(self, call: Callable[[SimulatedShareMember], object]) -> Callable[[], None]:
        """Return an event that calls a function with a random member whose caller is free."""

        def run() -> None:
            free = [member for member in self.members if not member.is_busy]
            if free:
                call(self.random.choice(free))

        return run

    def on_random_connection(
        self, call: Callable[[SimulatedShareMember, ShareConnection], object]
    ) -> Callable[[], None]:
        """Return an event that calls a function with a random connection."""

        def run() -> None:
            rows = [(member, connection) for member in self.members for connection in member.connections.values()]
            if rows:
                call(*self.random.choice(rows))

        return run

    def exchange(self, member: SimulatedShareMember) -> None:
        """Send and handle some of a member's requests."""
        for _ in range(self.random.randint(1, 4)):
            member.send()
            if not member.connections:
                return
            connection = self.random.choice(list(member.connections.values()))
            member.handle(connection)
            if self.is_healing or self.random.random() >= self.late_rate:
                member.deliver(connection)

    def serve(self, member: SimulatedShareMember) -> None:
        """Let the caller poll and handle the records."""
        acquired_batches = member.poll(self.random.choice((0.0, 0.3, 1.0)))
        if acquired_batches:
            member.work(acquired_batches)

    def events(self) -> dict[str, tuple[int, Callable[[], None]]]:
        rng, of_member, of_connection = self.random, self.on_random_member, self.on_random_connection
        world, fault = self.world, int(not self.is_calm)
        times = (0.05, 0.3, 0.3, 1.0)
        return {
            "poll": (60, of_member(self.serve)),
            "exchange": (25, of_member(self.exchange)),
            "deliver": (15, of_connection(lambda member, connection: member.deliver(connection))),
            "commit": (6, of_member(lambda member: member.commit())),
            "write": (25, self.write),
            "gap": (5, self.write_gap),
            "time": (15, lambda: self.pass_time(rng.choice(times))),
            "join": (5, self.join),
            "close": (2, of_member(lambda member: member.close(is_polite=self.is_calm or rng.random() < 0.6))),
            "end": (1, of_member(self.resubscribe)),
            "grow": (1, self.grow),
            "topics": (3 * int(self.changes_subscription), of_member(self.change_subscription)),
            "quiet": (fault, lambda: self.pass_time(rng.choice((LOCK_S + 1, MEMBER_SESSION_S + 1)))),
            "long time": (fault, lambda: self.pass_time(MAX_POLL_S + 1)),
            "cut": (4 * fault, of_connection(self.end_connection)),
            "notice": (4, self.close_connection),
            "lead": (2 * fault, self.move_leader),
            "coordinator": (2 * fault, self.move_coordinator),
            "away": (2 * fault, self.toggle_node),
            "restart": (fault, self.restart),
            "delete": (fault, lambda: world.delete(rng.choice(TOPICS))),
            "create": (2 * fault, lambda: world.create(rng.choice(TOPICS), rng.randint(1, 2))),
            "fence": (fault, self.fence),
        }

    def step(self) -> None:
        """Run one random event, perhaps in the middle of another."""
        if self.depth > 1:
            return
        self.depth += 1
        names, weights = zip(*((name, weight) for name, (weight, _) in self.table.items()), strict=True)
        self.table[self.random.choices(names, weights)[0]][1]()
        self.depth -= 1

    def run(self) -> Counter[str]:
        self.table = self.events()
        self.join()
        for _ in range(self.random.randint(30, 120)):
            self.step()
        self.heal()
        return self.counters

    def join(self) -> None:
        if len(self.members) < MAX_MEMBERS:
            self.numbers += 1
            member = SimulatedShareMember(self, self.numbers)
            self.members.append(member)
            member.subscribe(self.subscription)

    def resubscribe(self, member: SimulatedShareMember) -> None:
        member.end()
        member.subscribe(self.subscription)

    def change_subscription(self, member: SimulatedShareMember) -> None:
        member.subscribe(self.random.choice((["t"], ["u"], ["t", "u"])))

    def write(self) -> None:
        rows = self.world.partitions()
        if rows:
            self.world.write(self.random.choice(rows), self.random.choice((1, 2, 5)))

    def write_gap(self) -> None:
        rows = self.world.partitions()
        if rows:
            self.world.write_gap(self.random.choice(rows))

    def grow(self) -> None:
        if "t" in self.world.state.topics:
            self.world.create("t", len(self.world.state.topics["t"].partitions) + 1)

    def pass_time(self, seconds: float) -> None:
        """Move the clock in small steps, so that background tasks run at their times."""
        left_ms = int(seconds * 1000)
        while left_ms > 0:
            step_ms = min(left_ms, 500)
            self.world.clock.advance(step_ms / 1000)
            left_ms -= step_ms
            for member in list(self.members):
                member.send()

    def end_connection(self, member: SimulatedShareMember, connection: ShareConnection) -> None:
        member.end_connection(connection, handles_rest=self.random.random() < 0.5)
        self.counters["connections cut"] += 1

    @property
    def closing_members(self) -> set[int]:
        """Return the members of connections whose end the broker has not noticed."""
        return {int(connection.session.peer.rpartition(":")[2]) for connection in self.closing}

    def close_later(self, connection: ShareConnection) -> None:
        """Let the broker notice the end of a connection, now or later."""
        self.closing.append(connection)
        if self.is_healing or self.random.random() < 0.6:
            self.close_connection()

    def close_connection(self) -> None:
        if self.closing:
            self.world.disturbances += 1
            for call in list(self.closing.pop(0).session.when_closed.values()):
                call()

    def move_leader(self) -> None:
        rows = self.world.partitions()
        if rows:
            row = self.random.choice(rows)
            self.world.disturbances += 1
            self.world.state.move_leader(row, 3 - row.leader_id)
            if self.random.random() < 0.7:  # the new leader loads the stored state
                share = self.world.state.share_groups
                name = row.topic_partition
                share.partitions.pop(ShareKey(GROUP, self.world.topic_id(name.topic), name.partition), None)
            self.world.disturbances += 1
            self.counters["leaders moved"] += 1

    def move_coordinator(self) -> None:
        self.world.nodes.coordinators[0, GROUP] = 3 - self.world.coordinator()

    def toggle_node(self) -> None:
        if self.world.away:
            self.world.away.clear()
            return
        node_id = self.random.choice(NODE_IDS)
        self.world.away.add(node_id)
        for member in list(self.members):
            for connection in list(member.connections.values()):
                if connection.node_id == node_id:
                    member.end_connection(connection, handles_rest=False)

    def restart(self) -> None:
        self.closing.clear()
        for member in list(self.members):
            for connection in list(member.connections.values()):
                connection.session.when_closed.clear()
                member.end_connection(connection, handles_rest=False)
        self.closing.clear()
        self.world.restart()
        self.counters["restarts"] += 1

    def fence(self) -> None:
        """Let the coordinator remove a member, as after a session timeout."""
        group = self.world.state.groups.groups.get(GROUP)
        if group is not None and group.members:
            member_id = self.random.choice(sorted(group.members))
            self.world.state.groups.share.fence_members(group, member_id)
            self.counters["members fenced"] += 1

    def fault(
        self, member: SimulatedShareMember, connection: ShareConnection, request: ShareRequest
    ) -> ErrorCode | None:
        """Return the error with which a broker rejects a request, or None."""
        if isinstance(request, FetchMetadata) or not self.chance(self.fault_rate):
            return None
        self.counters["faults"] += 1
        if isinstance(request, ShareHeartbeat):
            return self.random.choice(GROUP_ERRORS)
        code = self.random.choice(SESSION_ERRORS)
        self.world.disturbances += 1
        if code == ErrorCode.SHARE_SESSION_NOT_FOUND:
            _share._release_session(self.world.state, (connection.node_id, GROUP, member.member_id))
        return code

    # The broker's results

    def observe(
        self, member: SimulatedShareMember, connection: ShareConnection, request: ShareRequest, answer: Any
    ) -> None:
        """Record the contents of a response, and alter it as a faulty broker or network would."""
        if not isinstance(request, (ShareFetch, ShareAcknowledge)) or answer.error_code:
            return
        for topic in answer.responses:
            for row in topic.partitions:
                if isinstance(request, ShareFetch):
                    self.observe_acquired(member, topic.topic_id, row)
            if self.chance(self.fault_rate / 3):
                self.alter_response(member, request, topic)

    def observe_acquired(self, member: SimulatedShareMember, topic_id: UUID, row: Any) -> None:
        count = 0
        for acquired_range in row.acquired_records:
            for offset in range(acquired_range.first_offset, acquired_range.last_offset + 1):
                record = RecordId(topic_id, row.partition_index, offset)
                attempt = DeliveryAttempt(member.number, self.world.now, self.world.disturbances)
                self.attempts.setdefault(record, []).append(attempt)
                count += 1
        self.counters["records acquired"] += count
        if self.damages and count and self.chance(0.1):
            records = bytearray(row.records)
            records[-1] ^= 1  # the CRC of the last batch is wrong
            row.records = bytes(records)
            self.counters["batches damaged"] += 1
            for acquired_range in row.acquired_records:
                for offset in range(acquired_range.first_offset, acquired_range.last_offset + 1):
                    self.damaged_records.add(RecordId(topic_id, row.partition_index, offset))

    def alter_response(self, member: SimulatedShareMember, request: ShareFetch | ShareAcknowledge, topic: Any) -> None:
        """Remove a row of a response, or replace it with an error."""
        row = self.random.choice(topic.partitions)
        self.world.disturbances += 1
        self.counters["faults"] += 1
        if isinstance(request, ShareFetch) and self.random.random() < 0.5:
            row.error_code, row.records, row.acquired_records = self.random.choice(PARTITION_ERRORS), b"", []
        else:
            topic.partitions.remove(row)
            partition_id = PartitionId(topic.topic_id, row.partition_index)
            is_renewal = isinstance(request, ShareAcknowledge) and request.is_renewal
            offsets = () if is_renewal else request.acknowledgements.get(partition_id, ())
            member.without_row.update(RecordId(*partition_id, offset) for offset in offsets)
        self.counters["rows removed or replaced by errors"] += 1

    # laws

    def check_returned(self, member: SimulatedShareMember, acquired_batches: list[AcquiredBatch]) -> None:
        """Check the records that a poll returns."""
        count, by_node = 0, Counter[int]()
        for entry in acquired_batches:
            name = entry.partition
            assert name.topic in member.machine.topics, f"{name} has no subscription"
            for offset in entry.offsets:
                record = RecordId(entry.partition_id.topic_id, name.partition, offset)
                key = name.topic, name.partition, offset
                assert record in self.world.written_records, f"{record} was not written"
                assert key not in member.delivered_records, f"{record} is returned twice by one poll"
                self.check_lock(member, record, entry.deliveries[offset])
                member.delivered_records[key] = record
                member.without_row.discard(record)  # of the release of an earlier delivery, which has no result
                self.return_counts[record] += 1
                count += 1
                by_node[entry.node_id] += 1
        self.counters["records returned"] += count
        limit = self.max_records
        if self.acquire_mode == "record_limit" and self.version >= 2:
            assert count <= limit, f"{count} records of one poll; the limit is {limit}"
        largest = max(by_node.values(), default=0)
        assert largest <= limit + 4 * 5, f"{largest} records of one node in one poll; {limit} were requested"

    def check_lock(self, member: SimulatedShareMember, record: RecordId, deliveries: int) -> None:
        member_attempts = [entry for entry in self.attempts[record] if entry.member == member.number]
        member.locked_s[record] = member_attempts[-1].time_s
        assert member_attempts[-1].time_s >= member.subscribed_s, f"{record} was fetched before the subscription"
        delivery = self.world.delivery(record)
        is_mine = delivery is not None and delivery.state is RecordState.ACQUIRED
        is_mine = is_mine and delivery.member_id == member.member_id
        is_known = member_attempts[-1].disturbances == self.world.disturbances
        assert not (is_known and record in self.confirmed_records), (
            f"{record} is returned after it was accepted or rejected"
        )
        is_expired = self.world.now >= member_attempts[-1].time_s + self.world.lock_s
        if not is_mine and not (is_expired and self.renews):
            assert not is_known, f"{record} is returned without a lock"
        if self.is_calm and not self.renews:
            max_deliveries = 1 + self.release_counts[record]
            assert deliveries <= max_deliveries, (
                f"{record} is delivered {deliveries} times, and released {max_deliveries - 1} times"
            )

    def check_result(
        self, member: SimulatedShareMember, entry: PendingAcknowledgement, error: Exception | None
    ) -> None:
        for watch in self.commit_watch:
            if id(entry) in watch:
                watch[id(entry)] = error is None
        self.counters["acknowledgements" if error is None else "acknowledgements failed"] += 1
        is_without_row = entry.record in member.without_row
        member.without_row.discard(entry.record)
        assert error is not None or not is_without_row, f"{entry.record}: the response has no row"
        if error is not None:
            is_locked = self.world.now < member.locked_s[entry.record] + self.world.lock_s
            assert not (self.is_calm and is_locked), f"{entry.record} cannot be acknowledged: {error}"
            return
        if entry.kind != RELEASE and entry.record.topic_id in self.world.state.topics_by_id:
            # A broker also confirms stale acknowledgements of other members if the start offset has passed the record.
            assert entry.record not in member.confirmed_records, f"{entry.record} is acknowledged twice"
            member.confirmed_records.add(entry.record)
            assert self.world.is_finished(entry.record), f"{entry.record} is acknowledged, but not at the broker"
            self.confirmed_records.add(entry.record)

    def release_expected(self, member: SimulatedShareMember) -> None:
        """Expect that the records of a member that ends are released."""
        for record, attempts in self.attempts.items():
            if any(entry.member == member.number for entry in attempts) and record not in self.confirmed_records:
                self.release_counts[record] += 1

    def check_ended(self, member: SimulatedShareMember) -> None:
        """Check that the broker has no state of a member."""
        state = self.world.state
        for node_id, _, member_id in state.share_groups.sessions:
            assert member_id != member.member_id, f"member {member.number} has a session at node {node_id}"
        group = state.groups.groups.get(GROUP)
        assert group is None or member.member_id not in group.members, f"member {member.number} is in the group"

    def heal(self) -> None:
        """End all faults, and check that everything is read."""
        self.end_faults()
        for _ in range(HEALING_ROUNDS):
            for member in self.members:
                acquired_batches = member.poll(0.2)
                if acquired_batches and self.mode == "explicit":
                    member.acknowledge(list(member.delivered_records), ACCEPT)
            if not (problem := self.problem()):
                break
        else:
            raise AssertionError(f"after the faults: {problem}")
        for member in list(self.members):
            member.close(is_polite=True)
            self.check_ended(member)
        self.check_lost()

    def end_faults(self) -> None:
        """End all faults, and write two more records to each partition."""
        self.is_healing = True
        while self.closing:
            self.close_connection()
        self.world.away.clear()
        if not self.members:
            self.join()
        for topic in self.subscription:
            self.world.create(topic, 1)
        for member in self.members:
            if not member.is_closed:
                member.subscribe(self.subscription)
        for row in self.world.partitions():
            if row.topic_partition.topic in self.subscription:
                self.world.write(row, 2)

    def problem(self) -> str | None:
        """Return what violates an invariant at the end, or None."""
        group = self.world.state.groups.groups.get(GROUP)
        expected_members = {member.member_id for member in self.members}
        if group is None or not expected_members <= set(group.members):
            actual_members = sorted(group.members) if group is not None else []
            return f"the members are {actual_members}, expected {sorted(expected_members)}"
        ids = {self.world.topic_id(topic) for topic in self.subscription}
        for record in self.world.written_records:
            if record.topic_id in ids and not self.world.is_finished(record):
                return f"{record} is not finished"
        return None

    def check_lost(self) -> None:
        """Check that every record was returned, except damaged ones and those whose delivery attempts faults have
        used up.
        """
        for record in self.world.written_records:
            if record.topic_id not in self.world.state.topics_by_id or record in self.damaged_records:
                continue
            if not any(self.world.topic_id(topic) == record.topic_id for topic in self.subscription):
                continue
            is_used_up = not self.is_calm and len(self.attempts.get(record, ())) >= MAX_DELIVERIES
            assert self.return_counts[record] or is_used_up, f"{record} was never returned"


def explore(seed: int) -> Counter[str]:
    """Run the schedule with a seed. Return the events that occurred in the schedule."""
    return ShareSimulation(seed).run()


def main() -> None:
    """Explore as many schedules as the command line requests."""
    sys.exit(bool(run_command(__doc__ or "", explore, schedules=50_000, range_size=250)))


if __name__ == "__main__":
    main()
