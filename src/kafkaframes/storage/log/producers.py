"""The state of each producer on a partition's leader, and the checks of appends that use it (KIP-98, KIP-890).

The classes correspond to Kafka's ProducerStateManager, ProducerStateEntry, VerificationStateEntry and
ProducerAppendInfo. ``prepare_append`` checks the batches of an append without changing the state. ``commit_append``
applies the result after the batches are in the log. The last five batches of each producer are remembered, so that a
retried batch gets the original answer and is not appended twice. A producer snapshot contains only the last of these
batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaframes.errors import AppendRefusedError
from kafkaframes.records.batch import compute_sequence
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.producer_files import AbortedTransaction, ProducerEntry
from kafkaframes.storage.log.transactions import Seen, TransactionMarker
from kafkaframes.wire.integers import MAX_INT32

DEFAULT_EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms
MAX_CACHED_BATCHES = 5  # batches of a producer that are remembered to detect duplicates
NO_VALUE = -1  # a missing epoch, sequence number, offset or timestamp
CLIENT, REPLICATION, COORDINATOR = "CLIENT", "REPLICATION", "COORDINATOR"
_MAX_VERIFICATIONS = 1_000  # largest number of pending verifications of a partition


class BatchMetadata(NamedTuple):
    """Sequence number, offsets and timestamp of one of a producer's last batches, for detecting duplicates."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """The sequence number of the first record; after 2^31 - 1, sequence numbers continue with 0."""
        return (self.last_sequence - self.offset_delta) & MAX_INT32


class ProducerState(NamedTuple):
    """The state of one producer (ProducerStateEntry), immutable, so that a failed append changes nothing.

    Attributes:
        batches: up to five batches of ``producer_epoch``, in sequence order.
        last_timestamp: timestamp of the last batch or marker, milliseconds since 1970.
        current_txn_first_offset: first offset of the open transaction; -1 if no transaction is open.
    """

    producer_id: int
    producer_epoch: int = NO_VALUE
    coordinator_epoch: int = NO_VALUE
    last_timestamp: int = NO_VALUE
    current_txn_first_offset: int = NO_VALUE
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record of the last data batch; -1 if there is no data batch."""
        return self.batches[-1].last_sequence if self.batches else NO_VALUE

    @property
    def last_offset(self) -> int:
        """The offset of the last record of the last data batch; -1 if there is no data batch."""
        return self.batches[-1].last_offset if self.batches else NO_VALUE

    def with_epoch(self, producer_epoch: int) -> ProducerState:
        """Return the state for an epoch; the state of a new epoch has no batches."""
        if producer_epoch == self.producer_epoch:
            return self
        return self._replace(producer_epoch=producer_epoch, batches=())

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the remembered batch that ``header`` duplicates; None if it is not a duplicate."""
        if header.producer_epoch != self.producer_epoch:
            return None
        last_sequence = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def entry(self) -> ProducerEntry:
        """Return the snapshot entry of the state."""
        last = self.batches[-1] if self.batches else BatchMetadata(NO_VALUE, NO_VALUE, 0, NO_VALUE)
        return ProducerEntry(
            self.producer_id,
            self.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.current_txn_first_offset,
        )

    @classmethod
    def from_entry(cls, entry: ProducerEntry) -> ProducerState:
        """Return the state of a snapshot entry."""
        last = BatchMetadata(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
        return cls(
            entry.producer_id,
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.timestamp,
            entry.current_txn_first_offset,
            (last,) if entry.last_offset >= 0 else (),
        )


class PendingVerification(NamedTuple):
    """A pending verification: a producer with a transaction that has no batch in the partition's log yet (KIP-890).

    Attributes:
        producer_epoch: latest epoch among the received batches.
        lowest_sequence: lowest base sequence among the epoch's received batches; batches with higher sequence numbers
            must wait for it.
        from_zero: whether the producer uses transactions version 2, in which a new producer starts with sequence
            number 0.
        timestamp_ms: time of the first received batch, milliseconds since 1970.
    """

    producer_epoch: int
    lowest_sequence: int
    from_zero: bool
    timestamp_ms: int

    def with_batch(self, header: BatchHeader) -> PendingVerification:
        """Return the verification after another batch; batches of older epochs do not change it."""
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch > self.producer_epoch or (epoch == self.producer_epoch and sequence < self.lowest_sequence):
            return self._replace(producer_epoch=epoch, lowest_sequence=sequence)
        return self


class CompletedTransaction(NamedTuple):
    """A transaction that has just ended: its first offset and the offset of its marker (Kafka's CompletedTxn)."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class PreparedAppend(NamedTuple):
    """The changes that an append makes to producer states; ``Producers.commit_append`` applies them.

    Attributes:
        states: new producer states, by producer id.
        started: producer ids of the transactions that the append starts, by first offset.
        completed: transactions that the append ends.
        duplicate: remembered batch that the append duplicates; None if the batches are new.
        verified: ids of the producers with a pending verification that ends with the append.
    """

    states: dict[int, ProducerState]
    started: dict[int, int]
    completed: tuple[CompletedTransaction, ...] = ()
    duplicate: BatchMetadata | None = None
    verified: tuple[int, ...] = ()


@dataclass(slots=True)
class Producers:
    """The producers and transactions of one partition.

    Attributes:
        states: producer states by producer id, in order of first appearance.
        open: producer ids of the transactions without a marker, by first offset, in ascending order.
        unreplicated_transactions: offsets of the markers at or above the high watermark, by the transaction's first
            offset.
        verifications: pending verifications by producer id, until the log has a batch or marker of the transaction.
        expiration_ms: ``producer.id.expiration.ms``.
    """

    states: dict[int, ProducerState] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    unreplicated_transactions: dict[int, int] = field(default_factory=dict)
    verifications: dict[int, PendingVerification] = field(default_factory=dict)
    expiration_ms: int = DEFAULT_EXPIRATION_MS

    @classmethod
    def from_entries(cls, entries: Iterable[ProducerEntry], *, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> Producers:
        """Return the producers of a snapshot."""
        states = {entry.producer_id: ProducerState.from_entry(entry) for entry in entries}
        open_transactions = {
            entry.current_txn_first_offset: entry.producer_id
            for entry in states.values()
            if entry.current_txn_first_offset != NO_VALUE
        }
        return cls(states, dict(sorted(open_transactions.items())), expiration_ms=expiration_ms)

    def entries(self) -> Iterator[ProducerEntry]:
        """Yield the snapshot entry of every producer."""
        return (state.entry() for state in self.states.values())

    def drop_expired(self, now_ms: int) -> None:
        """Remove producers that have expired and have no open transaction."""
        self.states = {
            producer_id: state
            for producer_id, state in self.states.items()
            if state.current_txn_first_offset != NO_VALUE or now_ms - state.last_timestamp < self.expiration_ms
        }
        self.verifications = {
            producer_id: verification
            for producer_id, verification in self.verifications.items()
            if now_ms - verification.timestamp_ms < self.expiration_ms
        }

    def begin_verification(self, header: BatchHeader, *, from_zero: bool, now_ms: int) -> bool:
        """Return whether the coordinator must verify a transactional batch because no transaction is open here.

        Args:
            from_zero: whether the client uses transactions version 2.

        Raises:
            AppendRefusedError: the producer epoch is old.
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        state = self.states.get(producer_id) or ProducerState(producer_id)
        _check_epoch(state, epoch, header.base_offset, CLIENT)
        if state.current_txn_first_offset != NO_VALUE and state.producer_epoch == epoch:
            return False
        new = PendingVerification(epoch, header.base_sequence, from_zero, now_ms)
        self.verifications[producer_id] = self.verifications.get(producer_id, new).with_batch(header)
        if len(self.verifications) > _MAX_VERIFICATIONS:
            del self.verifications[next(iter(self.verifications))]
        return True

    def prepare_append(self, batches: Iterable[Seen], *, origin: str) -> PreparedAppend:
        """Check the batches of an append. Replicated batches were checked by the leader and are not checked again.

        Args:
            batches: headers with their final offsets, and the markers of control batches.
            origin: ``CLIENT``, ``COORDINATOR`` or ``REPLICATION``.

        Raises:
            AppendRefusedError: the epoch is old, a sequence is out of order, the coordinator is fenced, or the
                transaction state does not permit the batch.
        """
        states: dict[int, ProducerState] = {}
        started_transactions: dict[int, int] = {}
        completed_transactions: list[CompletedTransaction] = []
        verified_producers: list[int] = []
        for header, markers in batches:
            producer_id = header.producer_id
            if header.magic < 2 or producer_id < 0:
                continue
            current = self.states.get(producer_id) or ProducerState(producer_id)
            duplicate = current.find_duplicate(header) if origin == CLIENT else None
            if duplicate is not None:
                return PreparedAppend(states, started_transactions, tuple(completed_transactions), duplicate)
            old_state = states.get(producer_id, current)
            if header.is_control:
                for marker in markers:
                    old_state, ended_transactions = _apply_marker(old_state, marker, header.max_timestamp, origin)
                    completed_transactions += ended_transactions
                states[producer_id] = old_state
                if not markers:  # the cleaner removed the records: the batch only adds its producer
                    continue
            else:
                if origin == CLIENT:
                    self._check_client_batch(old_state, current, header)
                states[producer_id] = new_state = _apply_data_batch(old_state, header, origin)
                if new_state.current_txn_first_offset != old_state.current_txn_first_offset:
                    started_transactions[new_state.current_txn_first_offset] = producer_id
            if self.verifications and self._is_verified(header):
                verified_producers.append(producer_id)
        return PreparedAppend(
            states, started_transactions, tuple(completed_transactions), verified=tuple(verified_producers)
        )

    def _check_client_batch(self, state: ProducerState, current: ProducerState, header: BatchHeader) -> None:
        _check_epoch(state, header.producer_epoch, header.base_offset, CLIENT)
        verification = self.verifications.get(header.producer_id)
        if verification is not None:
            _check_verification(verification, current, header)
        _check_sequence(state, current, header)

    def _is_verified(self, header: BatchHeader) -> bool:
        """Return whether a batch ends the pending verification of its producer.

        In transactions version 2, a marker has the epoch of the next transaction, whose verification may be pending.
        """
        verification = self.verifications.get(header.producer_id)
        if verification is None or not header.is_transactional:
            return False
        is_of_next = header.is_control and header.producer_epoch == verification.producer_epoch
        return not (is_of_next and verification.from_zero)

    def list_aborted_transactions(self, append: PreparedAppend) -> Iterator[AbortedTransaction]:
        """Yield the transactions that an append aborts, for the transaction index, without changing the state."""
        open_transactions = self.open | append.started if append.completed else {}
        for transaction in append.completed:
            others = (
                first for first, producer_id in open_transactions.items() if producer_id != transaction.producer_id
            )
            stable = next(others, transaction.last_offset + 1)
            open_transactions.pop(transaction.first_offset, None)
            if transaction.is_aborted:
                yield AbortedTransaction(
                    transaction.producer_id, transaction.first_offset, transaction.last_offset, stable
                )

    def commit_append(self, append: PreparedAppend) -> None:
        """Apply the result of ``prepare_append``."""
        self.states |= append.states
        self.open |= append.started
        for transaction in append.completed:
            self.open.pop(transaction.first_offset, None)
            self.unreplicated_transactions[transaction.first_offset] = transaction.last_offset
        for producer_id in append.verified:
            self.verifications.pop(producer_id, None)

    def process_batch(self, header: BatchHeader, markers: tuple[TransactionMarker, ...]) -> None:
        """Update the state with a batch that is already in the log."""
        self.commit_append(self.prepare_append([(header, markers)], origin=REPLICATION))

    def remove_replicated(self, high_watermark: int) -> None:
        """Remove ended transactions from ``unreplicated_transactions`` if their marker is below the high watermark."""
        if self.unreplicated_transactions:
            self.unreplicated_transactions = {
                first: last for first, last in self.unreplicated_transactions.items() if last >= high_watermark
            }

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the earliest transaction that is open or whose marker is not replicated.

        The value is None if there is no such transaction.
        """
        return min((*self.open, *self.unreplicated_transactions), default=None)


def _append_error(exception: str, reason: str) -> AppendRefusedError:
    return AppendRefusedError(exception, reason)


def _apply_data_batch(state: ProducerState, header: BatchHeader, origin: str) -> ProducerState:
    """Return the producer's state after a data batch (ProducerAppendInfo.appendDataBatch)."""
    _check_epoch(state, header.producer_epoch, header.base_offset, origin)
    is_open = state.current_txn_first_offset != NO_VALUE
    if is_open and not header.is_transactional and origin != REPLICATION:
        reason = f"producer {header.producer_id} has an open transaction, and this batch is not part of one"
        raise _append_error("InvalidTxnStateException", reason)
    delta = header.last_offset - header.base_offset
    new_batch = BatchMetadata(
        compute_sequence(header.base_sequence, delta), header.last_offset, delta, header.max_timestamp
    )
    current = state.with_epoch(header.producer_epoch)
    begins = header.is_transactional and not is_open
    return ProducerState(
        current.producer_id,
        current.producer_epoch,
        current.coordinator_epoch,
        header.max_timestamp,
        header.base_offset if begins else state.current_txn_first_offset,
        (*current.batches, new_batch)[-MAX_CACHED_BATCHES:],
    )


def _apply_marker(
    state: ProducerState, marker: TransactionMarker, timestamp_ms: int, origin: str
) -> tuple[ProducerState, list[CompletedTransaction]]:
    """Return the producer's state after a marker (ProducerAppendInfo.appendEndTxnMarker)."""
    _check_epoch(state, marker.producer_epoch, marker.offset, origin)
    if state.coordinator_epoch > marker.coordinator_epoch and origin != REPLICATION:
        reason = f"coordinator epoch {marker.coordinator_epoch} is older than {state.coordinator_epoch}"
        raise _append_error("TransactionCoordinatorFencedException", f"producer {marker.producer_id}: {reason}")
    first, transactions = state.current_txn_first_offset, []
    if first != NO_VALUE:
        transactions.append(CompletedTransaction(marker.producer_id, first, marker.offset, marker.kind == "ABORT"))
    new_state = state.with_epoch(marker.producer_epoch)._replace(
        coordinator_epoch=marker.coordinator_epoch,
        last_timestamp=timestamp_ms,
        current_txn_first_offset=NO_VALUE,
    )
    return new_state, transactions


def _check_epoch(state: ProducerState, producer_epoch: int, offset: int, origin: str) -> None:
    """Reject a batch whose producer epoch is older than the current one."""
    if producer_epoch < state.producer_epoch and origin != REPLICATION:
        reason = f"producer epoch {producer_epoch} at offset {offset} is older than {state.producer_epoch}"
        raise _append_error("InvalidProducerEpochException", f"producer {state.producer_id}: {reason}")


def _check_verification(verification: PendingVerification, current: ProducerState, header: BatchHeader) -> None:
    """Reject a batch that must wait for a batch with a lower sequence number (ProducerAppendInfo.checkSequence)."""
    sequence = header.base_sequence
    lowest = 0 if verification.from_zero and not current.batches else verification.lowest_sequence
    if sequence > lowest:
        reason = f"sequence {sequence} arrived before sequence {lowest}, which must be appended first"
        raise _append_error("OutOfOrderSequenceException", f"producer {header.producer_id}: {reason}")


def _check_sequence(state: ProducerState, current: ProducerState, header: BatchHeader) -> None:
    """Reject a sequence number that does not follow the last one; a new producer may start with any number."""
    sequence = header.base_sequence
    if header.producer_epoch != state.producer_epoch:
        if sequence != 0 and state.producer_epoch != NO_VALUE:
            reason = f"the first sequence of epoch {header.producer_epoch} is {sequence}, not 0"
            raise _append_error("OutOfOrderSequenceException", f"producer {header.producer_id}: {reason}")
        return
    last = state.last_sequence
    follows = sequence == (last + 1) & MAX_INT32 if last >= 0 else sequence == 0
    if current.producer_epoch != NO_VALUE and not follows:
        raise _append_error(
            "OutOfOrderSequenceException",
            f"producer {header.producer_id}: sequence {sequence} follows {last}; sequences must be consecutive",
        )
