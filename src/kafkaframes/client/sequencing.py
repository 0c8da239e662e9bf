"""Decides which of a producer's batches may be sent, and what a response or a lost connection means for them.

This module uses no socket, clock or task. Events are method calls with the current time, and finished batches are added
to ``finished_batches``. The rules for each partition:

1. A batch is sent only if every earlier batch has its result or was written on the same connection.
2. If a batch must be retried, nothing else is sent until all in-flight batches have their responses. After these
   responses, all batches are retried in order with their old sequences (KIP-98). A leader remembers only the last five
   batches of a producer. At most four batches are therefore written after one that has no result, or the leader would
   not recognize its retry.
3. The first batch under a producer id is sent alone, because a leader that does not know the id accepts any first
   sequence.
4. A batch with an out-of-order sequence is retried while earlier batches are open.
5. A batch that was written and has no response is *in doubt*. If a batch fails in this state, its error reports that
   the batch may be written (``MaybeWrittenError``). A batch in doubt never gets a new sequence unless an earlier batch
   is known to be permanently absent. The leader's "out of order" response then proves that this batch is absent as
   well.
6. A batch that had a sequence and was not acknowledged *breaks* its partition. New batches then wait until the results
   of all batches with sequences are known. If a later batch was acknowledged, the unacknowledged batch was written as
   well, and nothing changes. If no later batch was acknowledged, the epoch is bumped, and the absent batches are
   numbered from 0 under the new epoch (KIP-360). Other partitions continue, and use the new epoch once they have no
   open batches.
7. A batch that a leader rejects as too large is split, unless it has one record only (KIP-126). The parts replace the
   batch in the order, with its sequences, age and attempts. If the batch was in doubt, the parts are in doubt.
8. In a transaction, a batch that is not acknowledged fails all waiting batches. The transaction must be aborted.
9. A batch fails when its ``delivery_timeout_ms`` has expired, even in flight. An in-flight batch may have been written:
   its caller gets the error, and the leader's later response only determines the sequences.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from kafkaframes.client.batches import NO_PRODUCER_ID, NO_STAMP, Batch, BatchStamp, ProducerIdentity
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import BrokerError, ErrorCode, KafkaframesError, MaybeWrittenError, OptionError
from kafkaframes.records.build import next_sequence

_SEQUENCE_GAP_ERRORS: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
# Errors that a leader can also return for a batch that is in its log: a later step failed, or the leader lost the
# partition while it waited for followers.
_UNCERTAIN_WRITE_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_MAX_PRODUCER_EPOCH: Final = 2**15 - 1
_MAX_REMEMBERED_BATCHES: Final = 5  # batches of a producer that a leader remembers (ProducerStateEntry)
_get_order: Final = attrgetter("order")


class FinishedBatch(NamedTuple):
    """A finished batch and its result: base offset and append time, or an error."""

    batch: Batch
    base_offset: int = -1
    append_time: int = -1
    error: Exception | None = None


@dataclass(slots=True)
class PartitionQueue:
    """The unfinished batches of a partition, in flight and waiting, each in order.

    Attributes:
        connection: connection on which all of ``in_flight`` were written.
        producer: producer id and epoch of the sequences.
        acknowledged_sequence: sequence after the last acknowledged batch.
        known_producer_id: producer id under which the leader has acknowledged a batch.
        must_retry: whether a batch must be retried before any other is sent.
        is_broken: whether a batch that had a sequence was not acknowledged.
        absent_from: order of the first batch that will never be in the log under the sequence it was sent with.
    """

    waiting: deque[Batch] = field(default_factory=deque)
    enqueued_count: int = 0
    in_flight: list[Batch] = field(default_factory=list)
    connection: object = None
    producer: ProducerIdentity = NO_STAMP.producer
    next_sequence: int = 0
    acknowledged_sequence: int = 0
    known_producer_id: int = NO_PRODUCER_ID
    must_retry: bool = False
    is_broken: bool = False
    absent_from: int | None = None

    def next_batch(self, max_in_flight: int) -> Batch | None:
        """Return the next batch to send; None if in-flight batches delay it."""
        in_flight_count = len(self.in_flight)
        if (
            not self.waiting
            or in_flight_count >= max_in_flight
            or (in_flight_count and (self.must_retry or self.is_broken))
        ):
            return None
        if self.is_broken:
            return next((batch for batch in self.waiting if batch.assigned_stamp is not None and batch.in_doubt), None)
        if in_flight_count and self.in_flight[0].assigned_stamp is not None:
            distance = self.waiting[0].order - self.in_flight[0].order
            if self.known_producer_id != self.producer.producer_id or distance >= _MAX_REMEMBERED_BATCHES:
                return None
        return self.waiting[0]

    def requeue_batch(self, batch: Batch) -> None:
        """Move an in-flight batch back to the waiting batches, in order."""
        self.in_flight.remove(batch)
        self.waiting.insert(bisect_left(self.waiting, batch.order, key=_get_order), batch)
        self.must_retry = True

    def replace_batch(self, batch: Batch, parts: Sequence[Batch]) -> None:
        """Replace a batch with its parts, which wait, and shift the order of the later batches."""
        is_in_flight = batch in self.in_flight
        (self.in_flight if is_in_flight else self.waiting).remove(batch)
        shift = len(parts) - 1
        for later in (*self.in_flight, *self.waiting):
            later.order += shift if later.order > batch.order else 0
        if self.absent_from is not None and self.absent_from > batch.order:
            self.absent_from += shift
        self.enqueued_count += shift
        for number, part in enumerate(parts):
            part.order = batch.order + number
        index = bisect_left(self.waiting, batch.order, key=_get_order)
        self.waiting = deque([*islice(self.waiting, index), *parts, *islice(self.waiting, index, None)])
        self.must_retry = self.must_retry or is_in_flight

    def is_first_writable(self, batch: Batch) -> bool:
        """Return whether no earlier batch can still be written under its sequence."""
        if any(earlier.order < batch.order for earlier in self.in_flight):
            return False
        waiting = (
            earlier for earlier in self.waiting if earlier.order < batch.order and earlier.assigned_stamp is not None
        )
        return not any(earlier.in_doubt or not self.is_broken for earlier in waiting)

    def has_earlier_absent_batch(self, batch: Batch) -> bool:
        """Return whether an earlier batch is permanently absent, so that ``batch`` cannot be in the log either."""
        if self.absent_from is not None and self.absent_from < batch.order:
            return True
        return self.is_broken and any(
            earlier.order < batch.order and earlier.assigned_stamp is not None and not earlier.in_doubt
            for earlier in self.waiting
        )

    def mark_absent(self, batch: Batch) -> None:
        """Record that a batch will never be in the log under its sequence."""
        self.is_broken = True
        self.absent_from = batch.order if self.absent_from is None else min(self.absent_from, batch.order)

    def restart_sequences(self, producer: ProducerIdentity) -> None:
        """Restart at sequence 0 under a new id or epoch."""
        self.producer, self.next_sequence, self.acknowledged_sequence = producer, 0, 0
        self.is_broken, self.absent_from = False, None
        for batch in self.waiting:
            batch.assigned_stamp = None


class Sequencer:
    """Assigns sequences to the batches of one producer, and decides when each may be sent."""

    def __init__(
        self, *, max_in_flight: int, retries: int, delivery_timeout_s: float, backoff_s: Callable[[int], float]
    ) -> None:
        """Create a sequencer with the producer's settings; ``backoff_s`` maps attempts to a delay in seconds."""
        self._max_in_flight = max_in_flight
        self._retries = retries
        self._timeout_s = delivery_timeout_s
        self._backoff_s = backoff_s
        self._queues: defaultdict[TopicPartition, PartitionQueue] = defaultdict(PartitionQueue)
        self.open_batches = 0
        self.open_bytes = 0
        self.finished_batches: deque[FinishedBatch] = deque()
        self.producer = ProducerIdentity()
        self.transactional = False
        self.must_abort = False  # a record of the transaction was not written, or its result is unknown
        self.abort_cause: Exception | None = None  # the first error of the open transaction
        self.needs_new_id = False  # the epoch has reached its maximum

    # ------------------------------------------------------------------------------------------------------ sending

    def enqueue(self, batch: Batch) -> None:
        """Queue a batch."""
        self.open_batches += 1
        self.open_bytes += len(batch.data)
        queue = self._queues[batch.partition]
        queue.enqueued_count += 1
        batch.order = queue.enqueued_count
        queue.waiting.append(batch)
        if self.must_abort:
            self._end_waiting_batches(queue, self._to_abort_error())

    def list_ready_partitions(self, now: float) -> list[TopicPartition]:
        """Return the partitions that have a batch to send, if their leaders' connections are unchanged."""
        return [partition for partition, queue in self._queues.items() if self._next_sendable(queue, now) is not None]

    def get_queue_length(self, partition: TopicPartition) -> int:
        """Return the number of waiting batches of a partition. Any thread may call this method."""
        queue = self._queues.get(partition)
        return 0 if queue is None else len(queue.waiting)

    def list_waiting_partitions(self) -> list[TopicPartition]:
        """Return the partitions that have waiting batches, whether or not these can be sent now."""
        return [partition for partition, queue in self._queues.items() if queue.waiting]

    def next_batch(self, partition: TopicPartition) -> Batch | None:
        """Return the next batch of a partition; None if it has none."""
        return self._queues[partition].next_batch(self._max_in_flight)

    def take_batch(self, partition: TopicPartition, connection: object, now: float) -> Batch | None:
        """Return the batch to write on this connection now, with its sequence; None if none may be written."""
        queue = self._queues[partition]
        batch = self._next_sendable(queue, now)
        if batch is None or (queue.in_flight and queue.connection is not connection):
            return None
        queue.waiting.remove(batch)
        if batch.assigned_stamp is None and self.producer.producer_id != NO_PRODUCER_ID:
            if queue.producer != self.producer and not queue.in_flight:
                queue.restart_sequences(self.producer)
            batch.assigned_stamp = BatchStamp(queue.producer, queue.next_sequence, self.transactional)
            queue.next_sequence = next_sequence(queue.next_sequence, batch.count)
        queue.in_flight.append(batch)
        queue.connection = connection
        queue.must_retry = False
        return batch

    def next_time(self, now: float) -> float | None:
        """Return the time at which a waiting batch may be sent or a batch expires; None without batches."""
        times = [queue.waiting[0].created_at + self._timeout_s for queue in self._queues.values() if queue.waiting]
        in_flight = (batch for queue in self._queues.values() for batch in queue.in_flight if not batch.is_reported)
        times += [batch.created_at + self._timeout_s for batch in in_flight]
        next_batches = (queue.next_batch(self._max_in_flight) for queue in self._queues.values())
        times += [batch.not_before for batch in next_batches if batch is not None and batch.not_before > now]
        return min(times, default=None)

    def _next_sendable(self, queue: PartitionQueue, now: float) -> Batch | None:
        """Return the next batch of a queue if it may be sent now, else None."""
        batch = queue.next_batch(self._max_in_flight)
        if batch is None or batch.not_before > now or (self.needs_new_id and batch.assigned_stamp is None):
            return None
        return batch

    # ---------------------------------------------------------------------------------------------------- sequences

    def set_producer(self, producer: ProducerIdentity) -> None:
        """Use another id or epoch from now on. A transactional producer must have no open batches."""
        self.producer = producer
        self.must_abort = self.needs_new_id = False
        self.abort_cause = None
        for queue in self._queues.values():
            if self.transactional and queue.is_broken and not queue.in_flight:
                queue.restart_sequences(producer)
            self._resume_if_resolved(queue)

    def predict_stamp(self, partition: TopicPartition) -> BatchStamp:
        """Return the producer id, epoch and base sequence that a partition's next batch will probably get.

        If the batch is built with this stamp, its header need not be changed before it is sent.
        """
        if self.producer.producer_id == NO_PRODUCER_ID:
            return NO_STAMP
        queue = self._queues.get(partition, PartitionQueue())
        first = queue.next_sequence if queue.producer == self.producer else 0
        waiting = sum(batch.count for batch in queue.waiting if batch.assigned_stamp is None)
        return BatchStamp(self.producer, next_sequence(first, waiting), self.transactional)

    def set_sequence(self, partition: TopicPartition, sequence: int) -> None:
        """Set the sequence of a partition's next batch.

        Raises:
            OptionError: the partition has open batches.
        """
        queue = self._queues[partition]
        if queue.waiting or queue.in_flight:
            raise OptionError(f"{partition} has open batches; wait for their results before you set a sequence")
        queue.restart_sequences(self.producer)
        queue.next_sequence = queue.acknowledged_sequence = sequence

    # ---------------------------------------------------------------------------------------------------- responses

    def process_acknowledgement(self, batch: Batch, base_offset: int, append_time: int) -> None:
        """Handle the acknowledgement of a batch."""
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        if batch.assigned_stamp is not None:
            queue.known_producer_id = batch.assigned_stamp.producer.producer_id
            queue.acknowledged_sequence = next_sequence(batch.assigned_stamp.base_sequence, batch.count)
        self._finish_batch(FinishedBatch(batch, base_offset, append_time))
        self._resume_if_resolved(queue)

    def process_error(self, batch: Batch, error: BrokerError, now: float) -> None:
        """Handle a leader's error for a batch."""
        queue = self._queues[batch.partition]
        code = ErrorCode.UNKNOWN_SERVER_ERROR if error.code is None else error.code
        batch.in_doubt = batch.in_doubt or code in _UNCERTAIN_WRITE_ERRORS
        if batch.assigned_stamp is not None and code in _SEQUENCE_GAP_ERRORS:
            self._process_out_of_order(queue, batch, error, now)
        else:
            self._retry_batch(queue, batch, error, now, retriable=code.is_retriable)

    def can_split(self, batch: Batch) -> bool:
        """Return whether a batch may be retried in parts."""
        return batch.count > 1 and not self.must_abort and not batch.is_reported

    def split_batch(self, batch: Batch, parts: Sequence[Batch]) -> None:
        """Replace a batch, which waits or was rejected as too large, with parts that have the same records."""
        sequence_count = 0
        for part in parts:
            part.created_at, part.attempts, part.in_doubt = batch.created_at, batch.attempts, batch.in_doubt
            part.first = batch.first + sequence_count
            if batch.assigned_stamp is not None:
                sequence = next_sequence(batch.assigned_stamp.base_sequence, sequence_count)
                part.assigned_stamp = batch.assigned_stamp._replace(base_sequence=sequence)
            sequence_count += part.count
        self._queues[batch.partition].replace_batch(batch, parts)
        self.open_batches += len(parts) - 1
        self.open_bytes += sum(len(part.data) for part in parts) - len(batch.data)

    def process_loss(self, batch: Batch, error: KafkaframesError, now: float) -> None:
        """Handle the loss of a connection on which a batch was written: the batch will get no response."""
        batch.in_doubt = True
        self._retry_batch(self._queues[batch.partition], batch, error, now, retriable=True)

    def fail_batch(self, batch: Batch, error: Exception, *, was_written: bool) -> None:
        """Fail a batch that cannot be sent, or that got an undecodable response."""
        queue = self._queues[batch.partition]
        if batch in queue.in_flight:
            batch.in_doubt = batch.in_doubt or was_written
            self._end_batch(queue, batch, error)

    def process_unreachable_leader(
        self, partition: TopicPartition, error: KafkaframesError, now: float, *, retriable: bool
    ) -> None:
        """Handle a failed connection to a leader.

        Delay the next batch if the error is retriable, and otherwise fail all waiting batches.
        """
        queue = self._queues[partition]
        if not queue.waiting:
            return
        first = queue.waiting[0]
        if not retriable:
            self._end_waiting_batches(queue, error)
        elif not self._may_retry(first, now):
            self._end_batch(queue, first, error)
        else:
            self._delay_retry(first, error, now)

    def expire_batches(self, now: float) -> None:
        """Fail the batches with an expired ``delivery_timeout_ms``."""
        for queue in self._queues.values():
            for batch in queue.in_flight:
                if not batch.is_reported and batch.created_at + self._timeout_s <= now:
                    batch.in_doubt = True
                    queue.is_broken = queue.is_broken or batch.assigned_stamp is not None
                    self._report_error(batch, self._to_expiry_error(batch))
            while queue.waiting and queue.waiting[0].created_at + self._timeout_s <= now:
                self._end_batch(queue, queue.waiting[0], self._to_expiry_error(queue.waiting[0]))

    def _to_expiry_error(self, batch: Batch) -> BrokerError:
        """Return the error for an expired batch, with the last reason for which it was retried."""
        reason = f"{batch.partition} accepted no batch for {self._timeout_s * 1000:.0f} ms (`delivery_timeout_ms`): "
        reason += str(ErrorCode.REQUEST_TIMED_OUT)
        if batch.last_error is not None:
            reason += f"; sent {batch.attempts} times, last error: {batch.last_error}"
        error = BrokerError(reason, ErrorCode.REQUEST_TIMED_OUT)
        error.__cause__ = batch.last_error
        return error

    def fail_transaction(self, cause: Exception) -> None:
        """Fail the transaction because a record cannot be added to a batch."""
        if self.transactional and not self.must_abort:
            self.must_abort, self.abort_cause = True, cause

    def fail_waiting_batches(self, error: Exception, *, topic: str | None = None) -> None:
        """Fail all waiting batches of one topic, or of all topics if ``topic`` is None."""
        for partition, queue in self._queues.items():
            if topic is None or partition.topic == topic:
                self._end_waiting_batches(queue, error)

    def fail_all_batches(self, error: Exception) -> None:
        """Fail all batches, because no further response will be read."""
        for queue in self._queues.values():
            for batch in list(queue.in_flight):
                self.fail_batch(batch, error, was_written=True)
            self._end_waiting_batches(queue, error)

    # ----------------------------------------------------------------------------------------------------- internal

    def _retry_batch(
        self, queue: PartitionQueue, batch: Batch, error: KafkaframesError, now: float, *, retriable: bool
    ) -> None:
        if not retriable or not self._may_retry(batch, now) or self.must_abort:
            self._end_batch(queue, batch, error)
            return
        self._delay_retry(batch, error, now)
        queue.requeue_batch(batch)
        self._resume_if_resolved(queue)

    def _delay_retry(self, batch: Batch, error: KafkaframesError, now: float) -> None:
        """Count the failed attempt, and delay the next one by the backoff."""
        batch.attempts += 1
        batch.last_error = error
        batch.not_before = now + self._backoff_s(batch.attempts - 1)

    def _may_retry(self, batch: Batch, now: float) -> bool:
        return not batch.is_reported and batch.attempts < self._retries and now - batch.created_at < self._timeout_s

    def _process_out_of_order(self, queue: PartitionQueue, batch: Batch, error: BrokerError, now: float) -> None:
        if not queue.is_first_writable(batch):
            self._retry_batch(queue, batch, error, now, retriable=True)
            return
        if queue.has_earlier_absent_batch(batch):
            batch.in_doubt = False
        if self.transactional or batch.in_doubt or not self._may_retry(batch, now):
            self._end_batch(queue, batch, error)
            return
        queue.mark_absent(batch)
        self._retry_batch(queue, batch, error, now, retriable=True)

    def _end_waiting_batches(self, queue: PartitionQueue, error: Exception) -> None:
        """Fail all waiting batches of a queue."""
        while queue.waiting:
            self._end_batch(queue, queue.waiting[0], error)

    def _end_batch(self, queue: PartitionQueue, batch: Batch, error: Exception) -> None:
        """Fail a batch, and apply rules 5, 6 and 8 of the module's docstring to the later batches."""
        (queue.in_flight if batch in queue.in_flight else queue.waiting).remove(batch)
        if batch.assigned_stamp is not None:
            queue.is_broken = True
            if not batch.in_doubt:
                queue.mark_absent(batch)
        self._report_error(batch, error)
        self._resume_if_resolved(queue)

    def _report_error(self, batch: Batch, error: Exception) -> None:
        """Report the error for a batch to the caller, and fail the open transaction, if any."""
        cause = error
        if batch.in_doubt and isinstance(error, KafkaframesError) and not isinstance(error, MaybeWrittenError):
            subject = f"{batch.count} records for {batch.partition}"
            error = MaybeWrittenError(f"{subject} may or may not have been written: {cause}")
            error.__cause__ = cause
        self._finish_batch(FinishedBatch(batch, error=error))
        if self.transactional and not self.must_abort:
            self.must_abort, self.abort_cause = True, cause
            for queue in self._queues.values():
                self._end_waiting_batches(queue, self._to_abort_error())

    def _to_abort_error(self) -> BrokerError:
        """Return the error for a batch that follows the first error of a transaction."""
        reason = "an earlier batch of this transaction was not written; abort the transaction"
        error = BrokerError(f"{reason} ({self.abort_cause})")
        error.__cause__ = self.abort_cause
        return error

    def _finish_batch(self, finished_batch: FinishedBatch) -> None:
        batch = finished_batch.batch
        if batch.is_reported:
            return
        batch.is_reported = True
        self.open_batches -= 1
        self.open_bytes -= len(batch.data)
        self.finished_batches.append(finished_batch)

    def _resume_if_resolved(self, queue: PartitionQueue) -> None:
        """Continue a broken partition once the results of all batches with sequences are known."""
        if not queue.is_broken or queue.in_flight or self.transactional or any(_iterate_doubtful_batches(queue)):
            return
        has_numbers = any(batch.assigned_stamp is not None for batch in queue.waiting)
        if queue.acknowledged_sequence == queue.next_sequence and not has_numbers:
            # A later batch was acknowledged: no batch is missing.
            queue.is_broken, queue.absent_from = False, None
            return
        if queue.producer == self.producer:
            self._bump_epoch()
        if not self.needs_new_id:
            queue.restart_sequences(self.producer)

    def _bump_epoch(self) -> None:
        producer_id, epoch = self.producer
        if epoch < _MAX_PRODUCER_EPOCH:
            self.producer = ProducerIdentity(producer_id, epoch + 1)
        else:
            self.needs_new_id = True


def _iterate_doubtful_batches(queue: PartitionQueue) -> Iterator[Batch]:
    return (batch for batch in queue.waiting if batch.assigned_stamp is not None and batch.in_doubt)
