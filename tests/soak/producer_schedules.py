"""Explore the interactions between a producer's batches and a cluster: random schedules, without sockets or clocks.

    python -m tests.soak.producer_schedules [--schedules 100000] [--seed 1]

``ProducerSimulation`` has the real ``Sequencer`` on one side and brokers with Kafka's idempotence on the other. A
broker remembers the last five batches of a producer: it acknowledges a duplicate without writing it. A sequence that
does not follow is out of order, an old epoch is fenced, and a leader without state of the producer accepts any first
sequence. Faults: connections that end before a request is written, after it, and before its response; requests that a
broker handles long after their connection has ended; errors; leaders that move before clients know; restarts; time that
passes until batches expire; transactions whose end is repeated because its response is lost or the coordinator has
moved.

The client's actions are checked immediately, not only their results, because Kafka's sequence checks would hide many
faults. Each batch that is sent must obey the rules of ``client/sequencing.py``. A batch that gets a new sequence, or is
reported as not written, must be in no log, and no request in flight may write it, in whatever order brokers handle
these. A batch that is rejected as too large is split at random (KIP-126), and sometimes a queued one: the parts must
have its place, its sequences, its age and its attempts.

Before KIP-890 a transaction marker does not raise the epoch: a late batch of an aborted transaction is appended after
the marker. A client cannot prevent that. The schedule counts how often this happens.

A schedule is determined by its seed. At the end of a schedule all faults stop, and all batches must complete. Then
every partition must accept a new batch. ``SCRIPTS`` are schedules that random ones do not reach: each was written for a
mutant of ``producer_mutants.py``. ``tests/client/test_sequencing.py`` lets hypothesis choose the schedules. The command
prints how many schedules were explored, and the events in them.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkaframes.client.batches import Batch, BatchStamp, ProducerIdentity
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.sequencing import Sequencer
from kafkaframes.errors import BrokerError, ErrorCode, MaybeWrittenError, NetworkError

NODES, PARTITIONS = 2, 2
REMEMBERED_BATCHES = 5
INT32_MAX, INT16_MAX = 2**31 - 1, 2**15 - 1
TIMEOUT_S = 10.0
MODES = ("idempotent", "transactions", "plain")
STALE_LEADER, TOO_LARGE, FEW_REPLICAS, TOO_FEW_AFTERWARDS, FENCED, OUT_OF_ORDER = 6, 10, 19, 20, 47, 45
HEALING_STEPS = 2_000


@dataclass
class SequencedLog:
    """A partition's log: its records in order, and its leaders' state of the producer."""

    records: list[int] = field(default_factory=list)
    transactions: list[int] = field(default_factory=list)  # transaction of each record
    epoch: ProducerIdentity | None = None
    # (first sequence, last sequence, offset)
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))

    def append(self, stamp: BatchStamp | None, values: Sequence[int], transaction: int) -> tuple[int, int]:
        """Return an error code and a base offset, as Kafka's leader does."""
        if stamp is not None:
            last = (stamp.base_sequence + len(values) - 1) & INT32_MAX
            code, offset = self._check(stamp, last)
            if code or offset >= 0:
                return code, offset
            self._remember(stamp, last)
        self.records += values
        self.transactions += [transaction] * len(values)
        return 0, len(self.records) - len(values)

    def _check(self, stamp: BatchStamp, last: int) -> tuple[int, int]:
        known_producer, sequence = self.epoch, stamp.base_sequence
        if known_producer is None or known_producer.producer_id != stamp.producer.producer_id:
            return 0, -1
        if stamp.producer.epoch < known_producer.epoch:
            return FENCED, -1
        if stamp.producer.epoch > known_producer.epoch:
            return (OUT_OF_ORDER if sequence else 0), -1
        for first, end, offset in self.batches:
            if (first, end) == (sequence, last):
                return 0, offset
        follows = (self.batches[-1][1] + 1) & INT32_MAX if self.batches else 0
        return (0 if sequence == follows else OUT_OF_ORDER), -1

    def _remember(self, stamp: BatchStamp, last: int) -> None:
        if self.epoch != stamp.producer:
            self.epoch = stamp.producer
            self.batches.clear()
        self.batches.append((stamp.base_sequence, last, len(self.records)))

    def copy(self) -> SequencedLog:
        """Return a copy of the producer state, without the records."""
        return SequencedLog(epoch=self.epoch, batches=self.batches.copy())

    def mark(self, producer: ProducerIdentity) -> None:
        """Append a transaction marker with the epoch of the next transaction (KIP-890).

        If the producer has not written to the partition yet, no marker is written, and the coordinator rejects a late
        batch by its epoch.
        """
        self.epoch = producer
        self.batches.clear()


@dataclass(eq=False)
class SimulatedConnection:
    """A connection: requests that the broker has not handled, and responses that the client has not read."""

    node: int
    is_open: bool = True
    requests: deque[tuple[Batch, BatchStamp | None, int]] = field(default_factory=deque)
    answers: deque[tuple[Batch, int, int]] = field(default_factory=deque)
    waiting: list[Batch] = field(default_factory=list)


class ProducerSimulation:
    """One schedule. The methods are the events of a schedule."""

    def __init__(
        self,
        *,
        mode: str,
        max_in_flight: int,
        retries: int,
        epoch: int,
        first_sequence: int = 0,
        raises_epochs: bool = True,
    ) -> None:
        self.mode = mode
        self.retries = retries
        self.raises_epochs = raises_epochs  # epoch after the end of a transaction (KIP-890)
        self.stamps: dict[Batch, BatchStamp | None] = {}  # last sequence of each written batch
        self.attempts: Counter[Batch] = Counter()
        self.goes_again: set[TopicPartition] = set()
        self.without_cause: set[Batch] = set()  # batches that were rejected as out of order although they were not
        self.now = 0.0
        self.machine = Sequencer(
            max_in_flight=max_in_flight,
            retries=retries,
            delivery_timeout_s=TIMEOUT_S,
            backoff_s=lambda attempt: 0.1 * min(attempt + 1, 5),
        )
        self.machine.transactional = mode == "transactions"
        self.granted_producer = ProducerIdentity(1, epoch)  # the coordinator's producer id and epoch
        if mode != "plain":
            self.machine.set_producer(self.granted_producer)
        self.partitions = [TopicPartition("t", number) for number in range(PARTITIONS)]
        if first_sequence:
            for one in self.partitions:
                self.machine.set_sequence(one, first_sequence)
        self.logs = {partition: SequencedLog() for partition in self.partitions}
        self.leaders = dict.fromkeys(self.partitions, 0)
        self.known_leaders = dict(self.leaders)  # leaders according to the client's metadata
        self.wires: list[SimulatedConnection] = []
        self.values: dict[Batch, list[int]] = {}  # result of each batch that was not split
        self.contents: dict[Batch, list[int]] = {}  # partition of each batch
        self.origins: dict[Batch, list[Batch]] = {}  # for each part, the batches that it was split from
        self.results: dict[Batch, tuple[int, Exception | None]] = {}
        self.acknowledged_late: set[Batch] = set()  # results of batches that had expired in flight
        self.ended_transactions: dict[int, bool] = {}
        self.compute_sequence: dict[
            Batch, int | None
        ] = {}  # for each unwritten part, the advanced place of the whole batch
        self.transaction_of: dict[Batch, int] = {}
        self.transaction = 0
        self.next_value = 0
        self.counters: Counter[str] = Counter()

    # ------------------------------------------------------------------------------------------------ the client

    def queue_batch(self, partition: int, count: int) -> None:
        """Queue a batch."""
        batch = self.new_batch(self.partitions[partition], count)
        self.values[batch] = self.contents[batch] = list(range(self.next_value, self.next_value + count))
        self.transaction_of[batch] = self.transaction
        self.next_value += count
        self.machine.enqueue(batch)
        self.collect_results()

    def new_batch(self, partition: TopicPartition, count: int) -> Batch:
        """Return a batch with this many records."""
        return Batch(partition, bytes(count), count, self.now, None)  # type: ignore[arg-type]

    def divide(self, batch: Batch, sizes: Sequence[int]) -> bool:
        """Let the client send a batch again in parts of these sizes. Return whether that is allowed."""
        if len(sizes) < 2 or not self.machine.can_split(batch):
            return False
        values, before = self.values.pop(batch), list(self.machine._queues[batch.partition].waiting)
        parts = [self.new_batch(batch.partition, size) for size in sizes]
        number, taken_count = batch.assigned_stamp, 0
        after = [one for one in before if one.order > batch.order]
        self.machine.split_batch(batch, parts)
        for part in parts:
            self.values[part] = self.contents[part] = values[taken_count : taken_count + part.count]
            self.transaction_of[part] = self.transaction_of[batch]
            self.origins[part] = [batch, *self.origins.get(batch, [])]
            self.attempts[part] = max(self.attempts[batch] - 1, 0)
            self.compute_sequence[part] = None if number is None else (number.base_sequence + taken_count) & INT32_MAX
            assert part.assigned_stamp is None or part.assigned_stamp.producer == number.producer, (
                "a part has another epoch"
            )
            assert part.in_doubt == batch.in_doubt, "a part and the whole batch differ in is_in_doubt"
            assert (part.created_at, part.attempts) == (batch.created_at, batch.attempts), (
                "a part is younger than the whole"
            )
            taken_count += part.count
        waiting = list(self.machine._queues[batch.partition].waiting)
        position = waiting.index(parts[0])
        assert waiting[position : position + len(parts)] == parts, "parts are not in the place of the whole"
        assert [one.order for one in waiting] == sorted({one.order for one in waiting}), "two have the same order"
        assert waiting[position + len(parts) :] == after, "parts are not before the batch that follows the whole"
        self.counters["batches divided"] += 1
        return True

    def divide_next(self, partition: int, sizes: Sequence[int]) -> None:
        """Let the client split the next batch, unless it is in doubt: brokers may remember its sequences."""
        batch = self.machine.next_batch(self.partitions[partition])
        if batch is not None and not batch.in_doubt:
            self.divide(batch, limit_sizes(batch.count, sizes))

    def send(self, partition: int, *, is_cut: bool = False) -> None:
        """Send the next batches to the leader in the client's metadata.

        ``is_cut``: the connection is lost before any of them arrives.
        """
        simulated_partition = self.partitions[partition]
        node = self.known_leaders[simulated_partition]
        wire = next((wire for wire in self.wires if wire.is_open and wire.node == node), None)
        if wire is None:
            wire = SimulatedConnection(node)
            self.wires.append(wire)
        batch = self.machine.take_batch(simulated_partition, wire, self.now)
        if batch is None:
            return
        self.check_rules(batch, wire)
        wire.waiting.append(batch)
        self.counters["batches written"] += 1
        if is_cut:
            self.end_connection(self.wires.index(wire), kept_count=len(wire.requests))
        else:
            wire.requests.append((batch, batch.assigned_stamp, self.transaction_of[batch]))

    def refuse_connection(self, partition: int, *, retriable: bool) -> None:
        """Fail to open a connection."""
        error = NetworkError("refused")
        self.machine.process_unreachable_leader(self.partitions[partition], error, self.now, retriable=retriable)
        self.collect_results()

    def deliver(self, wire: int, *, sizes: Sequence[int] = ()) -> None:
        """Let the client read a response. ``sizes``: sizes of the parts of a too large batch."""
        if not self.wires or not (chosen_wire := self.wires[wire % len(self.wires)]).answers:
            return
        batch, code, offset = chosen_wire.answers.popleft()
        if batch not in chosen_wire.waiting:
            return
        chosen_wire.waiting.remove(batch)
        if code:
            error_code = ErrorCode(code)
            self.counters[error_code.name] += 1
            assert code != FENCED, "a batch of an old epoch was sent"
            if code == TOO_LARGE and self.divide(batch, limit_sizes(batch.count, sizes)):
                self.note_retries([batch])
                return
            self.machine.process_error(batch, BrokerError(error_code.name, error_code), self.now)
            if code == STALE_LEADER:
                self.refresh_metadata()
        else:
            if batch in self.results:
                self.acknowledged_late.add(batch)
            self.machine.process_acknowledgement(batch, offset, -1)
        self.collect_results()
        self.note_retries([batch])

    def end_connection(self, wire: int, *, kept_count: int) -> None:
        """End a connection for the client. The broker can still handle ``kept_count`` of its requests."""
        if not self.wires or not (chosen_wire := self.wires[wire % len(self.wires)]).is_open:
            return
        chosen_wire.is_open = False
        while len(chosen_wire.requests) > kept_count:
            chosen_wire.requests.pop()
        lost_batches, chosen_wire.waiting = chosen_wire.waiting, []
        self.counters["connections cut"] += 1
        for batch in lost_batches:
            self.machine.process_loss(batch, NetworkError("cut"), self.now)
        self.collect_results()
        self.note_retries(lost_batches)

    def refresh_metadata(self) -> None:
        """Let the client refresh its metadata."""
        self.known_leaders = dict(self.leaders)

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.machine.expire_batches(self.now)
        self.collect_results()
        late = [
            batch for batch in self.values if batch not in self.results and self.now - batch.created_at >= TIMEOUT_S
        ]
        assert not late, "a batch has no result after delivery_timeout_ms"

    def renew_producer_id(self) -> None:
        """Get a new producer id if the epoch is exhausted."""
        if self.machine.needs_new_id and self.mode == "idempotent":
            self.machine.set_producer(ProducerIdentity(self.machine.producer.producer_id + 1, 0))
            self.counters["new producer ids"] += 1

    def collect_results(self) -> None:
        """Collect the results."""
        while self.machine.finished_batches:
            result = self.machine.finished_batches.popleft()
            assert result.batch not in self.results, "a batch ended twice"
            self.results[result.batch] = result.base_offset, result.error
            if result.error is not None:
                self.check_failure(result.batch, result.error)
            self.counters[type(result.error).__name__ if result.error else "acknowledged"] += 1

    # --------------------------------------------------------------------------------------------- the brokers

    def handle(self, wire: int, *, fault: int = 0) -> None:
        """Let a broker handle the first request of a connection, even of one that has ended."""
        if not self.wires or not (chosen_wire := self.wires[wire % len(self.wires)]).requests:
            return
        batch, stamp, transaction = chosen_wire.requests.popleft()
        if self.leaders[batch.partition] != chosen_wire.node:
            fault = STALE_LEADER
        code, offset = fault, -1
        if fault == OUT_OF_ORDER:
            self.without_cause.add(batch)
        if fault in (0, TOO_FEW_AFTERWARDS):
            log = self.logs[batch.partition]
            before = len(log.records)
            code, offset = log.append(stamp, self.contents[batch], transaction)
            if len(log.records) > before and transaction in self.ended_transactions:
                assert not self.raises_epochs, "a batch of an ended transaction was written"
                self.counters["batches after the end of their transaction, before KIP-890"] += 1
            code = code or fault
        if chosen_wire.is_open:
            chosen_wire.answers.append((batch, code, offset))

    def move(self, partition: int) -> None:
        """Move the leadership to another node."""
        simulated_partition = self.partitions[partition]
        self.leaders[simulated_partition] = (self.leaders[simulated_partition] + 1) % NODES
        self.counters["leaders moved"] += 1

    def restart(self, node: int) -> None:
        """Discard the connections of a node with all their requests. The node's log stays."""
        for number, wire in enumerate(self.wires):
            if wire.node == node:
                wire.requests.clear()
                self.end_connection(number, kept_count=0)

    # -------------------------------------------------------------------------------------------- transactions

    def end_transaction(self, *, commit: bool, answers_lost: int) -> None:
        """End the transaction if possible. The transaction's coordinator may receive the request several times."""
        if self.mode != "transactions":
            return
        if not commit:
            self.machine.fail_waiting_batches(NetworkError("aborted before this was sent"))
            self.collect_results()
        if self.is_in_flight:
            return
        commit = commit and not self.machine.must_abort
        assert self.machine.producer == self.granted_producer, (
            "ends a transaction under an epoch that no coordinator knows"
        )
        producer_id, epoch = self.machine.producer
        # the epoch is raised by the marker, or by InitProducerId after it
        is_raised = self.raises_epochs or self.machine.must_abort
        raised_producer = ProducerIdentity(producer_id, epoch + 1) if is_raised else self.machine.producer
        for _ in range(answers_lost + 1):  # a coordinator that has already ended the transaction repeats its response
            if self.transaction not in self.ended_transactions:
                self.ended_transactions[self.transaction] = commit
                for log in self.logs.values() if self.raises_epochs else ():
                    log.mark(raised_producer)
        self.counters["transactions committed" if commit else "transactions aborted"] += 1
        self.granted_producer = raised_producer
        self.machine.set_producer(raised_producer)
        self.transaction += 1

    @property
    def is_in_flight(self) -> bool:
        """Return whether a batch has no result, or has expired without a response."""
        return bool(self.machine.open_batches or any(wire.waiting for wire in self.wires))

    # ------------------------------------------------------------------------------------------------ the rules

    def note_retries(self, answered_batches: Sequence[Batch]) -> None:
        """Note the partitions whose batches must be written again."""
        self.goes_again |= {batch.partition for batch in answered_batches if batch not in self.results}

    def check_rules(self, batch: Batch, wire: SimulatedConnection) -> None:
        """Check a batch that is being sent."""
        sequence = self.compute_sequence.pop(batch, None)
        is_same = batch.assigned_stamp is not None and batch.assigned_stamp.base_sequence == sequence
        assert sequence is None or is_same or not self.can_be_written(batch), "a part has a wrong sequence"
        before, self.stamps[batch] = self.stamps.get(batch), batch.assigned_stamp
        was_written = before is not None or batch.in_doubt  # a part in doubt counts if the whole batch was sent
        self.attempts[batch] += 1
        assert self.attempts[batch] <= self.retries + 1, "too many attempts"
        assert not self.machine.must_abort, "is sent in a transaction that must be aborted"
        under_way = [other for wire in self.wires for other in wire.waiting if other.partition == batch.partition]
        assert batch.partition not in self.goes_again or not under_way, "overtakes a retried batch"
        self.goes_again.discard(batch.partition)
        same = [other for other in self.values if other.partition == batch.partition]
        for other in same:
            if self.place(other) < self.place(batch) and other not in self.results:
                is_absent = was_written and other not in under_way and not self.can_be_written(other)
                assert other in wire.waiting or is_absent, "an earlier batch is in flight on another connection"
        if batch.assigned_stamp is None:
            return
        assert batch.assigned_stamp.producer.epoch <= INT16_MAX, "the epoch does not exist"
        first = min(other.order for other in same if other not in self.results and self.stamps.get(other))
        assert batch.order - first < REMEMBERED_BATCHES, "leaders would not recognise a retry of an earlier batch"
        if not was_written:
            self.check_new(batch, batch.assigned_stamp.producer, same)
        elif before is not None and before != batch.assigned_stamp:
            assert not self.can_be_written(batch), "has a new sequence, but may be in the log"

    def check_new(self, batch: Batch, producer: ProducerIdentity, same: list[Batch]) -> None:
        """Check that the outcome of all failures under a batch's epoch is known when the batch is first sent."""
        producer_results = [(one, self.results[one][1]) for one in same if one in self.results and self.stamps.get(one)]
        producer_results = [(one, None if one in self.acknowledged_late else error) for one, error in producer_results]
        producer_results = [(one, error) for one, error in producer_results if self.stamps[one].producer == producer]
        last = max((self.place(one) for one, error in producer_results if error is None), default=-1)
        assert all(self.place(one) < last for one, error in producer_results if error is not None), (
            "continues after a failure"
        )
        assert producer == self.machine.producer or any(
            self.stamps.get(one) and self.stamps[one].producer == producer for one in same if one not in self.results
        ), "is first sent under an old epoch"

    def check_failure(self, batch: Batch, error: Exception) -> None:
        """Check that a failure has a cause, and that a batch reported as not written cannot be in the log."""
        cause = error.__cause__ if isinstance(error, MaybeWrittenError) else error
        may_retry = batch.attempts < self.retries and self.now - batch.created_at < TIMEOUT_S
        is_founded = batch not in self.without_cause and not (self.origins.get(batch) and batch.in_doubt)
        if isinstance(cause, BrokerError) and cause.code == OUT_OF_ORDER and may_retry and is_founded:
            before = [
                (other, result[1])
                for other, result in self.results.items()
                if result[1] is not None
                and other.partition == batch.partition
                and self.place(other) < self.place(batch)
            ]
            assert before, "an out of order error was final, but no earlier batch had failed"
            if isinstance(error, MaybeWrittenError) and self.mode == "idempotent":
                epoch = self.stamps[batch].producer
                absent = [other for other, reason in before if not isinstance(reason, MaybeWrittenError)]
                same = [other for other in absent if self.stamps.get(other) and self.stamps[other].producer == epoch]
                assert not same, "outcome unknown, but an earlier batch is not written"
        if not isinstance(error, MaybeWrittenError) and self.stamps.get(batch) is not None:
            assert not self.can_be_written(batch), f"reported as not written ({error}), but may be in the log"

    def place(self, batch: Batch) -> int:
        """Return the number of a batch's first record, which grows with each later batch of a partition."""
        return self.contents[batch][0]

    def can_be_written(self, batch: Batch) -> bool:
        """Return whether a batch is in the log, or requests in flight can still write it."""
        log = self.logs[batch.partition]
        if self.values[batch][0] in log.records:
            return True
        log = log.copy()
        pending = [(one, stamp) for wire in self.wires for one, stamp, _ in wire.requests if stamp is not None]
        pending = [pair for pair in pending if pair[0].partition == batch.partition]
        pending.sort(key=lambda pair: pair[1].producer)
        for _ in pending:
            for one, stamp in pending:
                code, offset = log.append(stamp, [0] * one.count, 0)
                is_same = one is batch or one in self.origins.get(batch, ())
                if is_same and not code and offset >= 0:
                    return True
        return False

    # ------------------------------------------------------------------------------------------------ the end

    def heal(self) -> None:
        """End all faults, and let time pass until all batches complete."""
        for _ in range(HEALING_STEPS):
            if not self.is_in_flight:
                break
            self.refresh_metadata()
            self.renew_producer_id()
            for partition in range(PARTITIONS):
                self.send(partition)
            for number in range(len(self.wires)):
                self.handle(number)
                self.deliver(number)
            self.pass_time(0.05)
        assert not self.is_in_flight, "the batches do not complete"
        assert self.machine.open_bytes == 0
        assert self.results.keys() == self.values.keys(), "a batch has no result"

    def check_new_batches(self) -> None:
        """Check that each partition accepts a new batch and acknowledges it."""
        if self.machine.must_abort:
            self.end_transaction(commit=False, answers_lost=0)
        known_batches = set(self.values)
        for partition in range(PARTITIONS):
            self.queue_batch(partition, 1)
        self.heal()
        failures = [
            self.results[batch][1] for batch in self.values.keys() - known_batches if self.results[batch][1] is not None
        ]
        assert not failures, f"rejects a new batch after the end of all faults: {failures}"

    def handle_leftovers(self) -> None:
        """Let the brokers handle the remaining requests of ended connections."""
        for number, wire in enumerate(self.wires):
            while wire.requests:
                self.handle(number)

    def check(self) -> None:
        """Compare the log with the results."""
        for batch, (offset, error) in self.results.items():
            log, values = self.logs[batch.partition], self.values[batch]
            times = log.records.count(values[0])
            if error is None:
                assert times == 1 if self.mode != "plain" else times, f"acknowledged, and {times} times in the log"
                assert log.records[offset : offset + len(values)] == values, "not at the offset of its result"
            elif not isinstance(error, MaybeWrittenError):
                assert times == 0, f"reported as not written ({error}), and {times} times in the log"
            elif self.mode != "plain":
                assert times <= 1, f"outcome unknown, but {times} times in the log"
            if error is not None:
                assert not self.ended_transactions.get(self.transaction_of[batch]), "committed without a record"
        if self.mode != "plain":
            self.check_order()

    def check_order(self) -> None:
        """Check the order of all records. After a new producer id, which does not fence the old one, check only
        acknowledged records.
        """
        acknowledged_values = {
            value for batch, result in self.results.items() if result[1] is None for value in self.values[batch]
        }
        for log in self.logs.values():
            records = [
                record
                for record in log.records
                if record in acknowledged_values or not self.counters["new producer ids"]
            ]
            assert records == sorted(records), "out of order"


def limit_sizes(count: int, sizes: Sequence[int]) -> list[int]:
    """Return sizes that add up to ``count`` and start with ``sizes``, limited to the sum.

    >>> limit_sizes(5, [2, 1]), limit_sizes(2, [3]), limit_sizes(3, [])
    ([2, 1, 2], [2], [3])
    """
    result: list[int] = []
    for size in (*sizes, count):
        result.append(min(size, count - sum(result)))
    return [size for size in result if size]


FAULTS = (0, 0, 0, 0, 0, TOO_LARGE, FEW_REPLICAS, TOO_FEW_AFTERWARDS)


def explore(seed: int) -> Counter[str]:
    """Run the schedule with a seed. Return the events that occurred in the schedule."""
    rng = random.Random(seed)
    at_limit = rng.random() < 0.05
    mode = rng.choice(("idempotent", "idempotent", "transactions", "plain"))
    epoch = 32_766 if at_limit and mode == "idempotent" else 0
    first = INT32_MAX - rng.randrange(6) if rng.random() < 0.1 and mode != "plain" else 0
    retries = rng.choice((1, 3, INT32_MAX, INT32_MAX))
    flight = rng.randint(1, 5)
    simulation = ProducerSimulation(
        mode=mode,
        max_in_flight=flight,
        retries=retries,
        epoch=epoch,
        first_sequence=first,
        raises_epochs=rng.random() < 0.6,
    )
    partitions = rng.choice((1, PARTITIONS))
    delays_requests = rng.random() < 0.5  # whether requests of ended connections are handled late, perhaps at the end

    def handle() -> None:
        open_wires = [number for number, wire in enumerate(simulation.wires) if wire.is_open]
        wire = rng.choice(open_wires) if delays_requests and open_wires and rng.random() < 0.95 else rng.randrange(9)
        simulation.handle(wire, fault=rng.choice(FAULTS))

    divides = rng.random() < 0.7

    def sizes() -> list[int]:
        return [rng.randint(1, 2) for _ in range(rng.randint(1, 3))] if divides else []

    def burst() -> None:
        for _ in range(rng.randint(2, 5)):
            simulation.queue_batch(0, rng.choice((1, 1, 4)))
        for _ in range(5):
            simulation.send(0)

    events = {
        "put": (30, lambda: simulation.queue_batch(rng.randrange(partitions), rng.randint(1, 3))),
        "send": (40, lambda: simulation.send(rng.randrange(partitions), is_cut=rng.random() < 0.05)),
        "burst": (rng.choice((0, 5, 10)), burst),
        "handle": (40, handle),
        "deliver": (40, lambda: simulation.deliver(rng.randrange(9), sizes=sizes())),
        "divide": (2, lambda: simulation.divide_next(rng.randrange(partitions), sizes())),
        "cut": (
            rng.choice((0, 3, 10)),
            lambda: simulation.end_connection(rng.randrange(9), kept_count=rng.randrange(6)),
        ),
        "refuse": (2, lambda: simulation.refuse_connection(rng.randrange(PARTITIONS), retriable=rng.random() < 0.9)),
        "move": (rng.choice((0, 4)), lambda: simulation.move(rng.randrange(PARTITIONS))),
        "restart": (rng.choice((0, 2)), lambda: simulation.restart(rng.randrange(NODES))),
        "learn": (4, simulation.refresh_metadata),
        "renew": (1, simulation.renew_producer_id),
        "time": (10, lambda: simulation.pass_time(rng.choice((0.05, 0.3, 1.0, 6.0)))),
        "end": (3, lambda: simulation.end_transaction(commit=rng.random() < 0.7, answers_lost=rng.randrange(3))),
    }
    names, weights = list(events), [weight for weight, _ in events.values()]
    for name in rng.choices(names, weights, k=rng.randint(20, 120)):
        events[name][1]()
    if rng.random() < 0.5:
        simulation.handle_leftovers()
    finish_schedule(simulation)
    return simulation.counters


def finish_schedule(simulation: ProducerSimulation) -> None:
    """End all faults, compare log and results, and check that new batches are accepted."""
    simulation.heal()
    simulation.end_transaction(commit=True, answers_lost=0)
    simulation.handle_leftovers()
    simulation.check()
    simulation.check_new_batches()
    simulation.end_transaction(commit=True, answers_lost=0)
    simulation.check()


def _start_schedule(mode: str) -> ProducerSimulation:
    """Return a schedule whose first batch was acknowledged, on the first connection."""
    simulation = ProducerSimulation(mode=mode, max_in_flight=5, retries=INT32_MAX, epoch=0)
    simulation.queue_batch(0, 1)
    simulation.send(0)
    simulation.handle(0)
    simulation.deliver(0)
    return simulation


def late_copies_of_what_expired() -> None:
    """A batch after one of unknown outcome is out of order and may still be written; the batch after it is absent."""
    simulation = _start_schedule("idempotent")
    simulation.queue_batch(0, 1)
    simulation.send(0)
    # the broker rejects this batch of the first epoch, which implies nothing about batches of the next epoch
    simulation.handle(0, fault=TOO_LARGE)
    simulation.deliver(0)
    simulation.queue_batch(0, 1)
    simulation.send(0)
    simulation.handle(0)
    simulation.deliver(0)
    simulation.queue_batch(0, 1)
    simulation.pass_time(5.0)
    simulation.queue_batch(0, 1)
    for _ in range(2):
        simulation.send(0)
    simulation.end_connection(0, kept_count=2)
    simulation.pass_time(1.0)
    simulation.queue_batch(0, 1)
    for _ in range(3):
        simulation.send(0)
    simulation.move(0)
    for _ in range(2):
        simulation.handle(1)
    simulation.move(0)
    simulation.handle(1, fault=TOO_LARGE)
    for _ in range(3):
        simulation.deliver(1)
    simulation.pass_time(5.0)  # the first of the three batches expires
    simulation.send(0)
    simulation.handle(1)
    simulation.deliver(1)
    finish_schedule(simulation)


def late_copies_behind_an_epoch() -> None:
    """As in the previous script, but only batches that were absent under the epoch before are known to be absent."""
    simulation = _start_schedule("idempotent")
    simulation.queue_batch(0, 1)
    simulation.send(0)
    simulation.handle(0, fault=TOO_LARGE)
    simulation.deliver(0)
    simulation.queue_batch(0, 1)
    simulation.pass_time(5.0)
    simulation.queue_batch(0, 1)
    for _ in range(2):
        simulation.send(0)
    simulation.end_connection(0, kept_count=2)
    simulation.pass_time(5.5)
    simulation.send(0)
    simulation.handle(1)
    simulation.deliver(1)
    finish_schedule(simulation)


def out_of_order_without_a_cause() -> None:
    """A leader has lost its state: outside of transactions the epoch is bumped, and a transaction must be aborted
    immediately.
    """
    for mode in ("idempotent", "transactions"):
        simulation = _start_schedule(mode)
        simulation.queue_batch(0, 1)
        batch = list(simulation.values)[-1]
        simulation.send(0)
        simulation.handle(0, fault=OUT_OF_ORDER)
        simulation.deliver(0)
        if mode == "transactions":
            assert batch in simulation.results, "is queued in a transaction that must be aborted"
        else:
            simulation.pass_time(1.0)
            simulation.send(0)
            stamp = simulation.stamps[batch]
            assert stamp is not None
            assert stamp.producer.epoch == 1, "is retried under a sequence that was finally rejected"
        finish_schedule(simulation)


def parts_before_an_absent_batch() -> None:
    """A batch in doubt is in the log and is split. A batch after it is absent, which implies nothing about the
    parts.
    """
    simulation = _start_schedule("idempotent")
    for count in (3, 1):
        simulation.queue_batch(0, count)
        simulation.send(0)
    simulation.handle(0, fault=TOO_FEW_AFTERWARDS)
    simulation.handle(0, fault=TOO_LARGE)
    for _ in range(2):
        simulation.deliver(0)
    simulation.pass_time(1.0)
    simulation.send(0)
    simulation.handle(0, fault=TOO_LARGE)
    simulation.deliver(0, sizes=[1, 1])
    for _ in range(3):
        simulation.send(0)
        simulation.handle(0)
        simulation.deliver(0)
    finish_schedule(simulation)


SCRIPTS = (
    late_copies_of_what_expired,
    late_copies_behind_an_epoch,
    out_of_order_without_a_cause,
    parts_before_an_absent_batch,
)


def main() -> None:
    """Explore as many schedules as the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule")
    options = parser.parse_args()
    counters: Counter[str] = Counter()
    for script in SCRIPTS:
        script()
    for number in range(options.schedules):
        try:
            counters += explore(options.seed + number)
        except AssertionError as error:
            print(f"seed {options.seed + number}: {error}", flush=True)
            counters["wrong schedules"] += 1
            if counters["wrong schedules"] > 10:
                break
    print("\n".join(f"{name}: {count}" for name, count in sorted(counters.items())))
    print(f"schedules explored: {number + 1}")
    sys.exit(1 if counters["wrong schedules"] else 0)


if __name__ == "__main__":
    main()
