"""The state that a partition's leader has of each producer, and the checks based on it (KIP-98, KIP-890).

Kafka's ProducerStateManager with ProducerStateEntry, VerificationStateEntry and ProducerAppendInfo. ``prepare``
checks the batches of one append and changes nothing; ``commit`` applies the result once the batches are in the log. The
last five batches of each producer are remembered, so that a retry is answered and not written twice; a snapshot keeps
only the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaframes.errors import AppendRefusedError
from kafkaframes.records.batch import sequence_of
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.producer_files import AbortedTransaction, ProducerEntry
from kafkaframes.storage.log.transactions import Marker, Seen

DEFAULT_EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms
BATCHES_KEPT = 5
NONE = -1
CLIENT, REPLICATION, COORDINATOR = "CLIENT", "REPLICATION", "COORDINATOR"
_LARGEST_SEQUENCE = 2**31 - 1
_MOST_VERIFIED = 1_000  # producers of a partition whose transactions have not reached it


class BatchMetadata(NamedTuple):
    """One remembered batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """The sequence of its first record; sequences go on with 0 after 2^31 - 1."""
        return (self.last_sequence - self.offset_delta) & _LARGEST_SEQUENCE


class ProducerState(NamedTuple):
    """One producer (ProducerStateEntry); an immutable value, so that a failed append changes nothing.

    Attributes:
        batches: up to five, the latest last; all of ``producer_epoch``.
        last_timestamp: of its last batch or marker, milliseconds since 1970.
        current_txn_first_offset: where its open transaction began; -1 without one.
    """

    producer_id: int
    producer_epoch: int = NONE
    coordinator_epoch: int = NONE
    last_timestamp: int = NONE
    current_txn_first_offset: int = NONE
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record of the last data batch; -1 without one."""
        return self.batches[-1].last_sequence if self.batches else NONE

    @property
    def last_offset(self) -> int:
        """The offset of the last record of the last data batch; -1 without one."""
        return self.batches[-1].last_offset if self.batches else NONE

    def of_epoch(self, producer_epoch: int) -> ProducerState:
        """Return the state for an epoch; in a new epoch it has no batches."""
        if producer_epoch == self.producer_epoch:
            return self
        return self._replace(producer_epoch=producer_epoch, batches=())

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the remembered batch of which ``header`` is a duplicate; None if there is none."""
        if header.producer_epoch != self.producer_epoch:
            return None
        last_sequence = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def entry(self) -> ProducerEntry:
        """Return the state as a snapshot has it."""
        last = self.batches[-1] if self.batches else BatchMetadata(NONE, NONE, 0, NONE)
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
    def of_entry(cls, entry: ProducerEntry) -> ProducerState:
        """Return the state that a snapshot's entry stands for."""
        last = BatchMetadata(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
        return cls(
            entry.producer_id,
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.timestamp,
            entry.current_txn_first_offset,
            (last,) if entry.last_offset >= 0 else (),
        )


class Verification(NamedTuple):
    """A producer whose transaction was to begin in a partition, and no batch of it is in the log (KIP-890).

    Attributes:
        lowest_sequence: of the batches of the epoch that came; a higher one has to wait for it.
        from_zero: the transaction is of version 2: a producer that the partition does not know begins with sequence 0.
        timestamp_ms: when the first of them came.
    """

    producer_epoch: int
    lowest_sequence: int
    from_zero: bool
    timestamp_ms: int

    def with_batch(self, header: BatchHeader) -> Verification:
        """Return it after another batch; those of older epochs change nothing."""
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch > self.producer_epoch or (epoch == self.producer_epoch and sequence < self.lowest_sequence):
            return self._replace(producer_epoch=epoch, lowest_sequence=sequence)
        return self


class CompletedTransaction(NamedTuple):
    """A transaction that a marker of this append ends (CompletedTxn)."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class Prepared(NamedTuple):
    """The changes of an append, for ``Producers.commit``; or ``duplicate``, the batch that it repeats.

    Attributes:
        verified: producers whose transaction reaches the log, or ends there.
    """

    states: dict[int, ProducerState]
    started: dict[int, int]
    completed: tuple[CompletedTransaction, ...] = ()
    duplicate: BatchMetadata | None = None
    verified: tuple[int, ...] = ()


@dataclass(slots=True)
class Producers:
    """All producers of one partition, and its transactions.

    Attributes:
        states: by producer id, in the order in which they were first seen.
        open: transactions without a marker: first offset to producer id, ascending.
        unreplicated: ended ones whose marker is not below the high watermark: first offset to the marker's offset.
        verifications: by producer id, until a batch or a marker of the transaction is in the log.
        expiration_ms: ``producer.id.expiration.ms``.
    """

    states: dict[int, ProducerState] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    unreplicated: dict[int, int] = field(default_factory=dict)
    verifications: dict[int, Verification] = field(default_factory=dict)
    expiration_ms: int = DEFAULT_EXPIRATION_MS

    @classmethod
    def of_entries(cls, entries: Iterable[ProducerEntry], *, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> Producers:
        """Return the producers of a snapshot."""
        states = {one.producer_id: ProducerState.of_entry(one) for one in entries}
        opened = {
            one.current_txn_first_offset: one.producer_id
            for one in states.values()
            if one.current_txn_first_offset != NONE
        }
        return cls(states, dict(sorted(opened.items())), expiration_ms=expiration_ms)

    def entries(self) -> Iterator[ProducerEntry]:
        """Yield every producer as a snapshot has it."""
        return (state.entry() for state in self.states.values())

    def drop_expired(self, now_ms: int) -> None:
        """Remove producers that have expired and have no open transaction."""
        self.states = {
            producer_id: state
            for producer_id, state in self.states.items()
            if state.current_txn_first_offset != NONE or now_ms - state.last_timestamp < self.expiration_ms
        }
        self.verifications = {
            producer_id: one
            for producer_id, one in self.verifications.items()
            if now_ms - one.timestamp_ms < self.expiration_ms
        }

    def begin_verification(self, header: BatchHeader, *, from_zero: bool, now_ms: int) -> bool:
        """Return whether the coordinator must be asked about a batch of a transaction: none is open here.

        Args:
            from_zero: the client speaks transactions of version 2.

        Raises:
            AppendRefusedError: an old epoch.
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        state = self.states.get(producer_id) or ProducerState(producer_id)
        _check_epoch(state, epoch, header.base_offset, CLIENT)
        if state.current_txn_first_offset != NONE and state.producer_epoch == epoch:
            return False
        new = Verification(epoch, header.base_sequence, from_zero, now_ms)
        self.verifications[producer_id] = self.verifications.get(producer_id, new).with_batch(header)
        if len(self.verifications) > _MOST_VERIFIED:
            del self.verifications[next(iter(self.verifications))]
        return True

    def prepare(self, seen: Iterable[Seen], *, origin: str) -> Prepared:
        """Check the batches of an append; what a follower appends was checked by its leader.

        Args:
            seen: headers with the offsets that they will have, and the markers of control batches.
            origin: ``CLIENT``, ``COORDINATOR`` or ``REPLICATION``.

        Raises:
            AppendRefusedError: an old epoch, a sequence out of order, a fenced coordinator, a wrong transaction.
        """
        states: dict[int, ProducerState] = {}
        started: dict[int, int] = {}
        completed: list[CompletedTransaction] = []
        verified: list[int] = []
        for header, markers in seen:
            producer_id = header.producer_id
            if header.magic < 2 or producer_id < 0:
                continue
            known = self.states.get(producer_id) or ProducerState(producer_id)
            duplicate = known.duplicate_of(header) if origin == CLIENT else None
            if duplicate is not None:
                return Prepared(states, started, tuple(completed), duplicate)
            before = states.get(producer_id, known)
            if header.is_control:
                for marker in markers:
                    before, ended = _after_marker(before, marker, header.max_timestamp, origin)
                    completed += ended
                states[producer_id] = before
                if not markers:  # the cleaner has emptied the control batch: it adds its producer, and no other state
                    continue
            else:
                if origin == CLIENT:
                    self._check_client(before, known, header)
                states[producer_id] = after = _after_data(before, header, origin)
                if after.current_txn_first_offset != before.current_txn_first_offset:
                    started[after.current_txn_first_offset] = producer_id
            if self.verifications and self._is_verified_by(header):
                verified.append(producer_id)
        return Prepared(states, started, tuple(completed), verified=tuple(verified))

    def _check_client(self, state: ProducerState, known: ProducerState, header: BatchHeader) -> None:
        _check_epoch(state, header.producer_epoch, header.base_offset, CLIENT)
        verification = self.verifications.get(header.producer_id)
        if verification is not None:
            _check_verification(verification, known, header)
        _check_sequence(state, known, header)

    def _is_verified_by(self, header: BatchHeader) -> bool:
        """Return whether a batch ends what is known of a transaction that was to begin.

        The marker of a transaction of version 2 has the epoch of the next one, which may have been begun already.
        """
        verification = self.verifications.get(header.producer_id)
        if verification is None or not header.is_transactional:
            return False
        is_of_next = header.is_control and header.producer_epoch == verification.producer_epoch
        return not (is_of_next and verification.from_zero)

    def aborted_by(self, prepared: Prepared) -> Iterator[AbortedTransaction]:
        """Yield the transactions that an append aborts, for the transaction index; nothing is changed."""
        opened = self.open | prepared.started if prepared.completed else {}
        for ended in prepared.completed:
            others = (first for first, producer_id in opened.items() if producer_id != ended.producer_id)
            stable = next(others, ended.last_offset + 1)
            opened.pop(ended.first_offset, None)
            if ended.is_aborted:
                yield AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable)

    def commit(self, prepared: Prepared) -> None:
        """Apply the result of ``prepare``."""
        self.states |= prepared.states
        self.open |= prepared.started
        for ended in prepared.completed:
            self.open.pop(ended.first_offset, None)
            self.unreplicated[ended.first_offset] = ended.last_offset
        for producer_id in prepared.verified:
            self.verifications.pop(producer_id, None)

    def see(self, header: BatchHeader, markers: tuple[Marker, ...]) -> None:
        """Update the state with a batch that is in the log already."""
        self.commit(self.prepare([(header, markers)], origin=REPLICATION))

    def replicated_to(self, high_watermark: int) -> None:
        """Remove ended transactions whose marker lies below the high watermark from ``unreplicated``."""
        if self.unreplicated:
            self.unreplicated = {first: last for first, last in self.unreplicated.items() if last >= high_watermark}

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest transaction began that is open, or whose marker is not replicated yet."""
        return min((*self.open, *self.unreplicated), default=None)


def _refused(exception: str, reason: str) -> AppendRefusedError:
    return AppendRefusedError(exception, reason)


def _after_data(state: ProducerState, header: BatchHeader, origin: str) -> ProducerState:
    """Return the producer's state after a data batch (ProducerAppendInfo.appendDataBatch)."""
    _check_epoch(state, header.producer_epoch, header.base_offset, origin)
    is_open = state.current_txn_first_offset != NONE
    if is_open and not header.is_transactional and origin != REPLICATION:
        reason = f"producer {header.producer_id} has an open transaction, and this batch is not part of one"
        raise _refused("InvalidTxnStateException", reason)
    delta = header.last_offset - header.base_offset
    added = BatchMetadata(sequence_of(header.base_sequence, delta), header.last_offset, delta, header.max_timestamp)
    current = state.of_epoch(header.producer_epoch)
    begins = header.is_transactional and not is_open
    return ProducerState(
        current.producer_id,
        current.producer_epoch,
        current.coordinator_epoch,
        header.max_timestamp,
        header.base_offset if begins else state.current_txn_first_offset,
        (*current.batches, added)[-BATCHES_KEPT:],
    )


def _after_marker(
    state: ProducerState, marker: Marker, timestamp_ms: int, origin: str
) -> tuple[ProducerState, list[CompletedTransaction]]:
    """Return the producer's state after a marker (ProducerAppendInfo.appendEndTxnMarker)."""
    _check_epoch(state, marker.producer_epoch, marker.offset, origin)
    if state.coordinator_epoch > marker.coordinator_epoch and origin != REPLICATION:
        reason = f"coordinator epoch {marker.coordinator_epoch} is older than {state.coordinator_epoch}"
        raise _refused("TransactionCoordinatorFencedException", f"producer {marker.producer_id}: {reason}")
    first, ended = state.current_txn_first_offset, []
    if first != NONE:
        ended.append(CompletedTransaction(marker.producer_id, first, marker.offset, marker.kind == "ABORT"))
    after = state.of_epoch(marker.producer_epoch)._replace(
        coordinator_epoch=marker.coordinator_epoch,
        last_timestamp=timestamp_ms,
        current_txn_first_offset=NONE,
    )
    return after, ended


def _check_epoch(state: ProducerState, producer_epoch: int, offset: int, origin: str) -> None:
    if producer_epoch < state.producer_epoch and origin != REPLICATION:
        reason = f"producer epoch {producer_epoch} at offset {offset} is older than {state.producer_epoch}"
        raise _refused("InvalidProducerEpochException", f"producer {state.producer_id}: {reason}")


def _check_verification(verification: Verification, known: ProducerState, header: BatchHeader) -> None:
    """Refuse a batch before which another of its producer has to come (ProducerAppendInfo.checkSequence)."""
    sequence = header.base_sequence
    lowest = 0 if verification.from_zero and not known.batches else verification.lowest_sequence
    if sequence > lowest:
        reason = f"sequence {sequence}, and {lowest} has to come first"
        raise _refused("OutOfOrderSequenceException", f"producer {header.producer_id}: {reason}")


def _check_sequence(state: ProducerState, known: ProducerState, header: BatchHeader) -> None:
    """Refuse a sequence that does not follow the last one; an unknown producer may begin with any."""
    sequence = header.base_sequence
    if header.producer_epoch != state.producer_epoch:
        if sequence != 0 and state.producer_epoch != NONE:
            reason = f"the first sequence of epoch {header.producer_epoch} is {sequence}, not 0"
            raise _refused("OutOfOrderSequenceException", f"producer {header.producer_id}: {reason}")
        return
    last = state.last_sequence
    follows = sequence == (last + 1) & _LARGEST_SEQUENCE if last >= 0 else sequence == 0
    if known.producer_epoch != NONE and not follows:
        raise _refused(
            "OutOfOrderSequenceException", f"producer {header.producer_id}: sequence {sequence} after {last}"
        )
