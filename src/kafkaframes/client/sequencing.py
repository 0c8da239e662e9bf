"""Decides which of a producer's batches may be sent, and what a response or a lost connection means for them.

This module uses no socket, clock or task. Events are method calls with the current time, and finished batches are added
to ``ended``. The rules for each partition:

1. A batch is sent only if every earlier batch has its result or was written on the same connection.
2. If a batch must be retried, nothing else is sent until all in-flight batches have their responses. Then all are
   retried in order with their old sequences (KIP-98). A leader remembers only the last five batches of a producer. At
   most four batches are therefore written after one that has no result, or the leader would not recognize its retry.
3. The first batch under a producer id is sent alone, because a leader that does not know the id accepts any first
   sequence.
4. A batch whose sequence is out of order is retried while earlier batches are open.
5. A batch that was written and has no response is *in doubt*. If it fails in this state, its error says that it may be
   written (``MaybeWrittenError``). It never gets a new sequence, except if an earlier batch is known to be absent for
   good: the leader's "out of order" response then proves that this batch is absent, too.
6. A batch that had a sequence and was not acknowledged *breaks* its partition. New batches then wait until the results
   of all batches with sequences are known. If a later batch was acknowledged, this one was written as well, and nothing
   changes. Otherwise the epoch is bumped, and the absent batches are numbered from 0 under the new epoch (KIP-360).
   Other partitions continue, and use the new epoch once they have no open batches.
7. A batch that a leader rejects as too large is divided, unless it has one record only (KIP-126). Its parts replace it
   in the order, with its sequences, age and attempts. If it was in doubt, they are in doubt.
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

from kafkaframes.client.batches import NO_PRODUCER_ID, NOT_STAMPED, Batch, Producer, Stamp
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import BrokerError, ErrorCode, KafkaframesError, MaybeWrittenError, OptionError
from kafkaframes.records.build import next_sequence

_SEQUENCE_DOES_NOT_FOLLOW: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
# Errors that a leader can also return for a batch that is in its log: a later step failed, or the leader lost the
# partition while it waited for followers.
_MAY_BE_WRITTEN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_LARGEST_EPOCH: Final = 2**15 - 1
_BATCHES_KNOWN: Final = 5  # batches of a producer that a leader remembers (ProducerStateEntry)
_ORDER: Final = attrgetter("order")


class Ended(NamedTuple):
    """A batch with its result: its offset and append time, or an error."""

    batch: Batch
    base_offset: int = -1
    append_time: int = -1
    error: Exception | None = None


@dataclass(slots=True)
class Line:
    """The unfinished batches of a partition, in flight and waiting, each in order.

    Attributes:
        connection: connection on which all of ``in_flight`` were written.
        producer: producer id and epoch of the sequences.
        acknowledged_to: sequence after the last acknowledged batch.
        leader_knows: producer id under which the leader has acknowledged a batch.
        goes_again: whether a batch must be retried before any other is sent.
        is_broken: whether a batch that had a sequence was not acknowledged.
        absent_from: order of the first batch that will never be in the log under its sequence.
    """

    waiting: deque[Batch] = field(default_factory=deque)
    put_so_far: int = 0
    in_flight: list[Batch] = field(default_factory=list)
    connection: object = None
    producer: Producer = NOT_STAMPED.producer
    next_sequence: int = 0
    acknowledged_to: int = 0
    leader_knows: int = NO_PRODUCER_ID
    goes_again: bool = False
    is_broken: bool = False
    absent_from: int | None = None

    def next_batch(self, most_in_flight: int) -> Batch | None:
        """Return the next batch to send; None if in-flight batches delay it."""
        busy = len(self.in_flight)
        if not self.waiting or busy >= most_in_flight or (busy and (self.goes_again or self.is_broken)):
            return None
        if self.is_broken:
            return next((batch for batch in self.waiting if batch.number is not None and batch.in_doubt), None)
        if busy and self.in_flight[0].number is not None:
            behind = self.waiting[0].order - self.in_flight[0].order
            if self.leader_knows != self.producer.producer_id or behind >= _BATCHES_KNOWN:
                return None
        return self.waiting[0]

    def put_back(self, batch: Batch) -> None:
        """Move an in-flight batch back to the waiting batches, in order."""
        self.in_flight.remove(batch)
        self.waiting.insert(bisect_left(self.waiting, batch.order, key=_ORDER), batch)
        self.goes_again = True

    def replace(self, batch: Batch, parts: Sequence[Batch]) -> None:
        """Replace a batch with its parts, which wait, and shift the order of the later batches."""
        is_in_flight = batch in self.in_flight
        (self.in_flight if is_in_flight else self.waiting).remove(batch)
        shift = len(parts) - 1
        for later in (*self.in_flight, *self.waiting):
            later.order += shift if later.order > batch.order else 0
        if self.absent_from is not None and self.absent_from > batch.order:
            self.absent_from += shift
        self.put_so_far += shift
        for number, part in enumerate(parts):
            part.order = batch.order + number
        index = bisect_left(self.waiting, batch.order, key=_ORDER)
        self.waiting = deque([*islice(self.waiting, index), *parts, *islice(self.waiting, index, None)])
        self.goes_again = self.goes_again or is_in_flight

    def is_first_open(self, batch: Batch) -> bool:
        """Return whether no earlier batch can still be written under its sequence."""
        if any(earlier.order < batch.order for earlier in self.in_flight):
            return False
        waiting = (earlier for earlier in self.waiting if earlier.order < batch.order and earlier.number is not None)
        return not any(earlier.in_doubt or not self.is_broken for earlier in waiting)

    def is_settled_before(self, batch: Batch) -> bool:
        """Return whether an earlier batch is absent for good, so that this one cannot be in the log either."""
        if self.absent_from is not None and self.absent_from < batch.order:
            return True
        return self.is_broken and any(
            earlier.order < batch.order and earlier.number is not None and not earlier.in_doubt
            for earlier in self.waiting
        )

    def see_absent(self, batch: Batch) -> None:
        """Record that a batch will never be in the log under its sequence."""
        self.is_broken = True
        self.absent_from = batch.order if self.absent_from is None else min(self.absent_from, batch.order)

    def number(self, producer: Producer) -> None:
        """Restart at sequence 0 under a new id or epoch."""
        self.producer, self.next_sequence, self.acknowledged_to = producer, 0, 0
        self.is_broken, self.absent_from = False, None
        for batch in self.waiting:
            batch.number = None


class Sequencer:
    """The batches of one producer, in all partitions."""

    def __init__(
        self, *, most_in_flight: int, retries: int, delivery_timeout_s: float, backoff_s: Callable[[int], float]
    ) -> None:
        """Create a sequencer with the producer's settings; ``backoff_s`` maps attempts to a delay in seconds."""
        self._most_in_flight = most_in_flight
        self._retries = retries
        self._timeout_s = delivery_timeout_s
        self._backoff_s = backoff_s
        self._lines: defaultdict[TopicPartition, Line] = defaultdict(Line)
        self.open_batches = 0
        self.open_bytes = 0
        self.ended: deque[Ended] = deque()
        self.producer = Producer()
        self.transactional = False
        self.must_abort = False  # a record of the transaction was not written, or its result is unknown
        self.abort_cause: Exception | None = None  # the first error of the transaction
        self.needs_new_id = False  # the epoch has reached its maximum

    # ------------------------------------------------------------------------------------------------------ sending

    def put(self, batch: Batch) -> None:
        """Queue a batch."""
        self.open_batches += 1
        self.open_bytes += len(batch.data)
        line = self._lines[batch.partition]
        line.put_so_far += 1
        batch.order = line.put_so_far
        line.waiting.append(batch)
        if self.must_abort:
            self._end_waiting(line, self._abort_error())

    def ready(self, now: float) -> list[TopicPartition]:
        """Return the partitions that have a batch to send, if their leaders' connections are unchanged."""
        return [partition for partition, line in self._lines.items() if self._next_of(line, now) is not None]

    def queue_length(self, partition: TopicPartition) -> int:
        """Return the number of waiting batches of a partition. Any thread may call it."""
        line = self._lines.get(partition)
        return 0 if line is None else len(line.waiting)

    def waiting_partitions(self) -> list[TopicPartition]:
        """Return the partitions that have waiting batches, whether or not these can be sent now."""
        return [partition for partition, line in self._lines.items() if line.waiting]

    def next_batch(self, partition: TopicPartition) -> Batch | None:
        """Return the next batch of a partition; None if it has none."""
        return self._lines[partition].next_batch(self._most_in_flight)

    def take(self, partition: TopicPartition, connection: object, now: float) -> Batch | None:
        """Return the batch to write on this connection now, with its sequence; None if none may be written."""
        line = self._lines[partition]
        batch = self._next_of(line, now)
        if batch is None or (line.in_flight and line.connection is not connection):
            return None
        line.waiting.remove(batch)
        if batch.number is None and self.producer.producer_id != NO_PRODUCER_ID:
            if line.producer != self.producer and not line.in_flight:
                line.number(self.producer)
            batch.number = Stamp(line.producer, line.next_sequence, self.transactional)
            line.next_sequence = next_sequence(line.next_sequence, batch.count)
        line.in_flight.append(batch)
        line.connection = connection
        line.goes_again = False
        return batch

    def next_time(self, now: float) -> float | None:
        """Return the time at which a waiting batch may be sent or a batch expires; None if there is no batch."""
        times = [line.waiting[0].created + self._timeout_s for line in self._lines.values() if line.waiting]
        in_flight = (batch for line in self._lines.values() for batch in line.in_flight if not batch.is_reported)
        times += [batch.created + self._timeout_s for batch in in_flight]
        nexts = (line.next_batch(self._most_in_flight) for line in self._lines.values())
        times += [batch.not_before for batch in nexts if batch is not None and batch.not_before > now]
        return min(times, default=None)

    def _next_of(self, line: Line, now: float) -> Batch | None:
        batch = line.next_batch(self._most_in_flight)
        if batch is None or batch.not_before > now or (self.needs_new_id and batch.number is None):
            return None
        return batch

    # ---------------------------------------------------------------------------------------------------- sequences

    def set_producer(self, producer: Producer) -> None:
        """Use another id or epoch from now on. A transactional producer must have no open batches."""
        self.producer = producer
        self.must_abort = self.needs_new_id = False
        self.abort_cause = None
        for line in self._lines.values():
            if self.transactional and line.is_broken and not line.in_flight:
                line.number(producer)
            self._look_at(line)

    def next_stamp(self, partition: TopicPartition) -> Stamp:
        """Return the likely stamp of a partition's next batch. A batch that is built with it need not be changed."""
        if self.producer.producer_id == NO_PRODUCER_ID:
            return NOT_STAMPED
        line = self._lines.get(partition, Line())
        first = line.next_sequence if line.producer == self.producer else 0
        waiting = sum(batch.count for batch in line.waiting if batch.number is None)
        return Stamp(self.producer, next_sequence(first, waiting), self.transactional)

    def set_sequence(self, partition: TopicPartition, sequence: int) -> None:
        """Set the sequence of a partition's next batch.

        Raises:
            OptionError: the partition has open batches.
        """
        line = self._lines[partition]
        if line.waiting or line.in_flight:
            raise OptionError(f"batches for {partition} are under way: their sequences must have an end first")
        line.number(self.producer)
        line.next_sequence = line.acknowledged_to = sequence

    # ---------------------------------------------------------------------------------------------------- responses

    def acknowledged(self, batch: Batch, base_offset: int, append_time: int) -> None:
        """Handle the acknowledgement of a batch."""
        line = self._lines[batch.partition]
        line.in_flight.remove(batch)
        if batch.number is not None:
            line.leader_knows = batch.number.producer.producer_id
            line.acknowledged_to = next_sequence(batch.number.base_sequence, batch.count)
        self._finish(Ended(batch, base_offset, append_time))
        self._look_at(line)

    def refused(self, batch: Batch, error: BrokerError, now: float) -> None:
        """Handle a leader's error for a batch."""
        line = self._lines[batch.partition]
        code = ErrorCode.UNKNOWN_SERVER_ERROR if error.code is None else error.code
        batch.in_doubt = batch.in_doubt or code in _MAY_BE_WRITTEN
        if batch.number is not None and code in _SEQUENCE_DOES_NOT_FOLLOW:
            self._out_of_order(line, batch, error, now)
        else:
            self._again(line, batch, error, now, retriable=code.is_retriable)

    def can_divide(self, batch: Batch) -> bool:
        """Return whether a batch may be retried in parts."""
        return batch.count > 1 and not self.must_abort and not batch.is_reported

    def divide(self, batch: Batch, parts: Sequence[Batch]) -> None:
        """Replace a batch, which waits or was rejected as too large, with parts that have the same records."""
        taken = 0
        for part in parts:
            part.created, part.attempts, part.in_doubt = batch.created, batch.attempts, batch.in_doubt
            part.first = batch.first + taken
            if batch.number is not None:
                sequence = next_sequence(batch.number.base_sequence, taken)
                part.number = batch.number._replace(base_sequence=sequence)
            taken += part.count
        self._lines[batch.partition].replace(batch, parts)
        self.open_batches += len(parts) - 1
        self.open_bytes += sum(len(part.data) for part in parts) - len(batch.data)

    def lost(self, batch: Batch, error: KafkaframesError, now: float) -> None:
        """Handle the loss of a connection on which a batch was written: it will get no response."""
        batch.in_doubt = True
        self._again(self._lines[batch.partition], batch, error, now, retriable=True)

    def failed(self, batch: Batch, error: Exception, *, written: bool) -> None:
        """Fail a batch that cannot be sent, or whose response cannot be decoded."""
        line = self._lines[batch.partition]
        if batch in line.in_flight:
            batch.in_doubt = batch.in_doubt or written
            self._end(line, batch, error)

    def unreachable(self, partition: TopicPartition, error: KafkaframesError, now: float, *, retriable: bool) -> None:
        """Handle a failed connection to a leader: delay the next batch, or fail all waiting ones if not retriable."""
        line = self._lines[partition]
        if not line.waiting:
            return
        first = line.waiting[0]
        if not retriable:
            self._end_waiting(line, error)
        elif not self._may_retry(first, now):
            self._end(line, first, error)
        else:
            self._wait_before(first, error, now)

    def expire(self, now: float) -> None:
        """Fail the batches whose ``delivery_timeout_ms`` has expired."""
        for line in self._lines.values():
            for batch in line.in_flight:
                if not batch.is_reported and batch.created + self._timeout_s <= now:
                    batch.in_doubt = True
                    line.is_broken = line.is_broken or batch.number is not None
                    self._report(batch, self._expiry(batch))
            while line.waiting and line.waiting[0].created + self._timeout_s <= now:
                self._end(line, line.waiting[0], self._expiry(line.waiting[0]))

    def _expiry(self, batch: Batch) -> BrokerError:
        """Return the error of an expired batch, with the last reason for which it was retried."""
        reason = f"{batch.partition} took nothing for {self._timeout_s * 1000:.0f} ms (`delivery_timeout_ms`): "
        reason += str(ErrorCode.REQUEST_TIMED_OUT)
        if batch.last_error is not None:
            reason += f"; sent {batch.attempts} times, the last answer: {batch.last_error}"
        error = BrokerError(reason, ErrorCode.REQUEST_TIMED_OUT)
        error.__cause__ = batch.last_error
        return error

    def spoil(self, cause: Exception) -> None:
        """Fail the transaction because a record cannot be added to a batch."""
        if self.transactional and not self.must_abort:
            self.must_abort, self.abort_cause = True, cause

    def fail_waiting(self, error: Exception, *, topic: str | None = None) -> None:
        """Fail all waiting batches, of one topic or of all."""
        for partition, line in self._lines.items():
            if topic is None or partition.topic == topic:
                self._end_waiting(line, error)

    def fail_all(self, error: Exception) -> None:
        """Fail all batches. No further response will be read."""
        for line in self._lines.values():
            for batch in list(line.in_flight):
                self.failed(batch, error, written=True)
            self._end_waiting(line, error)

    # ----------------------------------------------------------------------------------------------------- internal

    def _again(self, line: Line, batch: Batch, error: KafkaframesError, now: float, *, retriable: bool) -> None:
        if not retriable or not self._may_retry(batch, now) or self.must_abort:
            self._end(line, batch, error)
            return
        self._wait_before(batch, error, now)
        line.put_back(batch)
        self._look_at(line)

    def _wait_before(self, batch: Batch, error: KafkaframesError, now: float) -> None:
        batch.attempts += 1
        batch.last_error = error
        batch.not_before = now + self._backoff_s(batch.attempts - 1)

    def _may_retry(self, batch: Batch, now: float) -> bool:
        return not batch.is_reported and batch.attempts < self._retries and now - batch.created < self._timeout_s

    def _out_of_order(self, line: Line, batch: Batch, error: BrokerError, now: float) -> None:
        if not line.is_first_open(batch):
            self._again(line, batch, error, now, retriable=True)
            return
        if line.is_settled_before(batch):
            batch.in_doubt = False
        if self.transactional or batch.in_doubt or not self._may_retry(batch, now):
            self._end(line, batch, error)
            return
        line.see_absent(batch)
        self._again(line, batch, error, now, retriable=True)

    def _end_waiting(self, line: Line, error: Exception) -> None:
        while line.waiting:
            self._end(line, line.waiting[0], error)

    def _end(self, line: Line, batch: Batch, error: Exception) -> None:
        """Fail a batch and apply rules 5, 6 and 8 to the later batches."""
        (line.in_flight if batch in line.in_flight else line.waiting).remove(batch)
        if batch.number is not None:
            line.is_broken = True
            if not batch.in_doubt:
                line.see_absent(batch)
        self._report(batch, error)
        self._look_at(line)

    def _report(self, batch: Batch, error: Exception) -> None:
        """Report the error of a batch to the caller, and fail the transaction if there is one."""
        cause = error
        if batch.in_doubt and isinstance(error, KafkaframesError) and not isinstance(error, MaybeWrittenError):
            what = f"{batch.count} records for {batch.partition}"
            error = MaybeWrittenError(f"{what} may or may not have been written: {cause}")
            error.__cause__ = cause
        self._finish(Ended(batch, error=error))
        if self.transactional and not self.must_abort:
            self.must_abort, self.abort_cause = True, cause
            for line in self._lines.values():
                self._end_waiting(line, self._abort_error())

    def _abort_error(self) -> BrokerError:
        """Return the error of a batch that follows the first error of a transaction."""
        error = BrokerError(f"an earlier batch of this transaction was not written: abort it ({self.abort_cause})")
        error.__cause__ = self.abort_cause
        return error

    def _finish(self, ended: Ended) -> None:
        batch = ended.batch
        if batch.is_reported:
            return
        batch.is_reported = True
        self.open_batches -= 1
        self.open_bytes -= len(batch.data)
        self.ended.append(ended)

    def _look_at(self, line: Line) -> None:
        """Continue a broken partition once the results of all batches with sequences are known."""
        if not line.is_broken or line.in_flight or self.transactional or any(_in_doubt(line)):
            return
        has_numbers = any(batch.number is not None for batch in line.waiting)
        if line.acknowledged_to == line.next_sequence and not has_numbers:
            # A later batch was acknowledged: no batch is missing.
            line.is_broken, line.absent_from = False, None
            return
        if line.producer == self.producer:
            self._raise_epoch()
        if not self.needs_new_id:
            line.number(self.producer)

    def _raise_epoch(self) -> None:
        producer_id, epoch = self.producer
        if epoch < _LARGEST_EPOCH:
            self.producer = Producer(producer_id, epoch + 1)
        else:
            self.needs_new_id = True


def _in_doubt(line: Line) -> Iterator[Batch]:
    return (batch for batch in line.waiting if batch.number is not None and batch.in_doubt)
