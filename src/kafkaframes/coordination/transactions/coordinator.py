"""The transaction coordinator: every transactional id of this broker (KIP-98, KIP-360, KIP-890).

The coordinator writes a decision to ``__transaction_state`` before it writes markers. All markers are written before
the coordinator stores the transaction as complete. After a crash between these steps, ``load_transactions`` completes
the transaction.

On one node, markers are usually written at once. Clients therefore receive CONCURRENT_TRANSACTIONS only in three cases:
InitProducerId has just aborted an open transaction, as in Kafka; a transaction has so many markers that they are
written in several steps; or a marker could not be written to a disk. A timer then writes the marker again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from kafkaframes.coordination.groups.ports import (
    Clock,
    CoordinatorLog,
    LoadedRecord,
    ProducerIdentity,
    read_integers_from_config,
)
from kafkaframes.coordination.transactions.state import (
    COMPLETE_STATES,
    NO_TIMEOUT_MS,
    NO_VALUE,
    PREPARED_STATES,
    EndAction,
    State,
    Transaction,
    build_tombstone,
    build_transaction_record,
    decide_end_v0,
    decide_end_v2,
    decode,
)
from kafkaframes.errors import DecodeError, ErrorCode, KafkaframesError, RefusedError
from kafkaframes.storage.files.names import TopicPartition, coordinator_partition

_MARKER_RETRY_MS = 1_000
MARKERS_PER_STEP = 50
ATTRIBUTES_BY_SETTING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "transaction.max.timeout.ms": "max_timeout_ms",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "abort_interval_ms",
        "transactional.id.expiration.ms": "id_expiration_ms",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "expiry_interval_ms",
    }
)


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The transaction settings of a broker's configuration.

    Attributes:
        transaction_version: level of the feature ``transaction.version``: 0 or 2.
    """

    max_timeout_ms: int = 900_000
    abort_interval_ms: int = 10_000
    id_expiration_ms: int = 604_800_000
    expiry_interval_ms: int = 3_600_000
    transaction_version: int = 2

    @classmethod
    def from_config(cls, text: Callable[[str], str], *, transaction_version: int = 2) -> TransactionSettings:
        """Create the settings from a broker's configuration. Raise an ``OptionError`` that names an invalid value."""
        return cls(**read_integers_from_config(ATTRIBUTES_BY_SETTING, text), transaction_version=transaction_version)


class MarkerWriter(Protocol):
    """The interface of a function that writes a transaction marker to a partition."""

    def __call__(
        self, where: TopicPartition, *, commit: bool, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Write the marker. If the partition no longer exists, do nothing."""


def _run_all_steps(steps: Generator[None, None, None]) -> None:
    deque(steps, maxlen=0)


@dataclass(slots=True)
class TransactionCoordinator:
    """The transactions of all transactional ids.

    Attributes:
        log: ``__transaction_state``.
        new_producer_id: function that returns a producer id that was never assigned.
        write_marker: function that ends a transaction in a partition.
        coordinator_epoch: function that returns the coordinator epoch for a partition of ``__transaction_state``.
        run_steps: function that runs a generator: the first step at once, and the other steps later, so that the event
            loop serves other clients in between.
        undecodable_count: number of records that could not be read by ``load_transactions``.
    """

    clock: Clock
    log: CoordinatorLog
    settings: TransactionSettings
    new_producer_id: Callable[[], int]
    write_marker: MarkerWriter
    coordinator_epoch: Callable[[int], int] = lambda _partition: 0
    run_steps: Callable[[Generator[None, None, None]], object] = _run_all_steps
    transactions: dict[str, Transaction] = field(default_factory=dict)
    undecodable_count: int = 0
    # Deadlines of open transactions, in milliseconds of the monotonic clock.
    _deadlines_ms: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock.call_later(self.settings.abort_interval_ms, self._abort_timed_out_transactions)
        self.clock.call_later(self.settings.expiry_interval_ms, self._remove_expired_ids)

    def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int, current_producer: ProducerIdentity | None = None
    ) -> ProducerIdentity:
        """Assign a producer its id and epoch, and fence the previous producer of the transactional id.

        Args:
            transactional_id: None for a producer that is only idempotent.
            timeout_ms: transaction timeout, in milliseconds.
            current_producer: current id and epoch of the producer if it requests the next epoch (KIP-360).

        Raises:
            RefusedError: an open transaction has just been aborted (CONCURRENT_TRANSACTIONS). The client retries.
        """
        if transactional_id is None:
            return ProducerIdentity(self.new_producer_id(), 0)
        if not transactional_id:
            raise RefusedError(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self.settings.max_timeout_ms:
            raise RefusedError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            transaction = Transaction(transactional_id, self.new_producer_id(), timeout_ms=timeout_ms)
        if current_producer is not None and not _may_bump_epoch(transaction, current_producer):
            raise RefusedError(ErrorCode.PRODUCER_FENCED)
        if transaction.state is State.ONGOING:
            self._fence_producer(transaction)
            raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if transaction.state in PREPARED_STATES:
            raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
        new_transaction = self._store_transaction(self._renew_producer(transaction, timeout_ms, current_producer))
        return ProducerIdentity(new_transaction.producer_id, new_transaction.producer_epoch)

    def _renew_producer(
        self, transaction: Transaction, timeout_ms: int, current_producer: ProducerIdentity | None
    ) -> Transaction:
        """Return the transaction with the next epoch, or with a new producer id if the epochs are exhausted."""
        now_ms = self.clock.now_ms
        if transaction.is_epoch_exhausted and (
            current_producer is None or current_producer.producer_epoch == transaction.producer_epoch
        ):
            return transaction.rotate_producer_id(
                self.new_producer_id(), timeout_ms, now_ms, keep_last=current_producer is not None
            )
        return transaction.bump_epoch(
            timeout_ms, None if current_producer is None else current_producer.producer_epoch, now_ms
        )

    def _fence_producer(self, transaction: Transaction) -> None:
        """Abort an open transaction and fence its producer."""
        self._finish_transaction(
            transaction.fence_producer(version=self.settings.transaction_version, now_ms=self.clock.now_ms)
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        new_partitions: Collection[TopicPartition],
        *,
        version: int = 0,
    ) -> None:
        """Add partitions to the transaction. If no transaction is ongoing, begin one.

        Args:
            version: transaction version; 2 if another request adds the partitions implicitly (KIP-890).
        """
        transaction = self._find_transaction(transactional_id, producer_id, producer_epoch)
        if transaction.state is State.ONGOING and transaction.partitions.issuperset(new_partitions):
            return
        self._store_transaction(
            transaction.add_partitions(frozenset(new_partitions), self.clock.now_ms, version=version)
        )

    def verify_partition(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition
    ) -> None:
        """Reject a write to a partition that is not in the producer's transaction: TRANSACTION_ABORTABLE (KIP-890)."""
        transaction = self._find_transaction(transactional_id, producer_id, producer_epoch)
        if partition not in transaction.partitions:
            raise RefusedError(ErrorCode.TRANSACTION_ABORTABLE)

    def check_produce(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        partition: int,
        *,
        may_add: bool,
        knows_abortable: bool = False,
    ) -> int:
        """Return the error code of a transactional batch before it is appended; 0 if it may be appended.

        Args:
            may_add: whether the append adds the partition to the transaction: Produce 12 and later (KIP-890).
            knows_abortable: whether the client supports TRANSACTION_ABORTABLE: Produce 11 and later.
        """
        topic_partition = TopicPartition(topic, partition)
        try:
            if may_add:
                self.add_partitions(transactional_id, producer_id, producer_epoch, [topic_partition], version=2)
            else:
                self.verify_partition(transactional_id, producer_id, producer_epoch, topic_partition)
        except RefusedError as error:
            if error.code == ErrorCode.PRODUCER_FENCED:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if error.code == ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
                return ErrorCode.INVALID_TXN_STATE
            if error.code == ErrorCode.CONCURRENT_TRANSACTIONS and not may_add:
                return ErrorCode.NOT_ENOUGH_REPLICAS  # older clients retry after this error
            return error.code
        except KafkaframesError:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def _find_transaction(self, transactional_id: str, producer_id: int, producer_epoch: int) -> Transaction:
        """Return a producer's unfinished transaction; raise an error if its producer id or epoch differs."""
        if not transactional_id:
            raise RefusedError(ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.producer_id != producer_id:
            raise RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.producer_epoch != producer_epoch:
            raise RefusedError(ErrorCode.PRODUCER_FENCED)
        if transaction.state in PREPARED_STATES:
            raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return transaction

    def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool, version: int = 0
    ) -> ProducerIdentity:
        """Commit or abort. Return the producer's next id and epoch, which only version 2 uses.

        Args:
            version: transaction version: 2 for EndTxn 5 and later, else 0.
        """
        if not transactional_id:
            raise RefusedError(ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        decide_end = decide_end_v2 if version >= 2 else decide_end_v0
        end = decide_end(transaction, producer_id, producer_epoch, commit=commit)
        if end is not EndAction.DONE:
            next_id = self.new_producer_id() if version >= 2 and transaction.is_epoch_exhausted else NO_VALUE
            transaction = self._finish_transaction(
                transaction.prepare_end(
                    commit=commit,
                    version=version,
                    now_ms=self.clock.now_ms,
                    next_producer_id=next_id,
                    is_empty=end is EndAction.NOTHING_TO_END,
                )
            )
        return ProducerIdentity(transaction.producer_id, transaction.producer_epoch)

    def _finish_transaction(self, prepared_transaction: Transaction) -> Transaction:
        """Write a decision, its markers and the completion. A timer retries a step that fails."""
        self._store_transaction(prepared_transaction)
        return self._complete_transaction(prepared_transaction.transactional_id) or prepared_transaction.complete_end(
            self.clock.now_ms
        )

    def _complete_transaction(self, transactional_id: str) -> Transaction | None:
        """Write the markers of a decided transaction. Return None while the transaction is not complete."""
        prepared_transaction = self.transactions.get(transactional_id)
        if prepared_transaction is not None and prepared_transaction.state in PREPARED_STATES:
            self.run_steps(self._write_markers_in_steps(prepared_transaction))
        transaction = self.transactions.get(transactional_id)
        return None if transaction is None or transaction.state in PREPARED_STATES else transaction

    def _write_markers_in_steps(self, prepared_transaction: Transaction) -> Generator[None, None, None]:
        """Write the markers and the completion. A timer retries a marker that could not be written to a disk."""
        name = prepared_transaction.transactional_id
        try:
            for number, partition in enumerate(sorted(prepared_transaction.partitions), 1):
                self.write_marker(
                    partition,
                    commit=prepared_transaction.state is State.PREPARE_COMMIT,
                    producer_id=prepared_transaction.producer_id,
                    producer_epoch=prepared_transaction.producer_epoch,
                    coordinator_epoch=self.coordinator_epoch(self._find_log_partition(name)),
                )
                if number % MARKERS_PER_STEP == 0:
                    yield
                    if self.transactions.get(name) is not prepared_transaction:
                        return
            self._store_transaction(prepared_transaction.complete_end(self.clock.now_ms))
        except KafkaframesError:
            self.clock.call_later(_MARKER_RETRY_MS, lambda: self._complete_again(name))

    def _complete_again(self, transactional_id: str) -> None:
        self._complete_transaction(transactional_id)

    def describe_transaction(self, transactional_id: str) -> Transaction:
        """Return the state of a transactional id.

        Raise TRANSACTIONAL_ID_NOT_FOUND if the transactional id does not exist.
        """
        if not transactional_id:
            raise RefusedError(ErrorCode.INVALID_REQUEST)
        if transactional_id not in self.transactions:
            raise RefusedError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return self.transactions[transactional_id]

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int = NO_VALUE,
        transactional_ids: Collection[str] | None = None,
    ) -> list[Transaction]:
        """Return the transactional ids that pass every given filter (KIP-664, KIP-994, KIP-1152).

        Args:
            states: Kafka's names of states.
            producer_ids: producer ids to include.
            longer_than_ms: minimum duration of the transactions, in milliseconds.
            transactional_ids: transactional ids to include; None for all.
        """
        now_ms = self.clock.now_ms
        state_names, producers = frozenset(states), frozenset(producer_ids)
        return [
            transaction
            for transaction in self.transactions.values()
            if (not state_names or transaction.state.kafka_name in state_names)
            and (not producers or transaction.producer_id in producers)
            and (longer_than_ms < 0 or now_ms - transaction.start_ms > longer_than_ms)
            and (transactional_ids is None or transaction.transactional_id in transactional_ids)
        ]

    def _abort_timed_out_transactions(self) -> None:
        """Abort open transactions after their timeouts, and fence their producers."""
        self.clock.call_later(self.settings.abort_interval_ms, self._abort_timed_out_transactions)
        now_ms = self.clock.monotonic_ms
        for name in [name for name, deadline_ms in self._deadlines_ms.items() if deadline_ms < now_ms]:
            with suppress(KafkaframesError):  # the log is not available: the next round retries
                self._fence_producer(self.transactions[name])

    def _update_deadline(self, old_transaction: Transaction | None, new_transaction: Transaction) -> None:
        """Start or end the timeout of a transaction, on the monotonic clock.

        The timeout starts when the transaction begins, and ends when its outcome is decided.
        """
        name = new_transaction.transactional_id
        if new_transaction.state is not State.ONGOING or new_transaction.timeout_ms == NO_TIMEOUT_MS:
            self._deadlines_ms.pop(name, None)
        elif old_transaction is None or old_transaction.state is not State.ONGOING:
            self._deadlines_ms[name] = self.clock.monotonic_ms + new_transaction.timeout_ms

    def _resume_timeouts(self) -> None:
        """Start timers for the open transactions of a log, with the rest of their timeouts since their stored start."""
        for name, transaction in self.transactions.items():
            if transaction.state is State.ONGOING and transaction.timeout_ms != NO_TIMEOUT_MS:
                age_ms = min(max(self.clock.now_ms - transaction.start_ms, 0), transaction.timeout_ms)
                self._deadlines_ms[name] = self.clock.monotonic_ms + transaction.timeout_ms - age_ms

    def _remove_expired_ids(self) -> None:
        """Remove transactional ids that have not been used for ``transactional.id.expiration.ms``."""
        self.clock.call_later(self.settings.expiry_interval_ms, self._remove_expired_ids)
        oldest_ms = self.clock.now_ms - self.settings.id_expiration_ms
        for transaction in list(self.transactions.values()):
            if (
                transaction.state is State.EMPTY or transaction.state in COMPLETE_STATES
            ) and transaction.updated_ms <= oldest_ms:
                name = transaction.transactional_id
                with suppress(KafkaframesError):
                    self.log.append(self._find_log_partition(name), [build_tombstone(name)])
                    del self.transactions[name]

    def _find_log_partition(self, transactional_id: str) -> int:
        return coordinator_partition(transactional_id, self.log.partitions)

    def _store_transaction(self, transaction: Transaction) -> Transaction:
        row = build_transaction_record(transaction, transaction_version=self.settings.transaction_version)
        self.log.append(self._find_log_partition(transaction.transactional_id), [row])
        self._update_deadline(self.transactions.get(transaction.transactional_id), transaction)
        self.transactions[transaction.transactional_id] = transaction
        return transaction

    def load_transactions(self, loaded_records: Iterable[LoadedRecord]) -> None:
        """Load all transactional ids after a restart, and complete decided transactions."""
        for record in loaded_records:
            if record.key is None:
                continue
            try:
                name, transaction = decode(record.key, record.value)
            except DecodeError:
                self.undecodable_count += 1
                continue
            if transaction is None:
                self.transactions.pop(name, None)
            else:
                self.transactions[name] = transaction
        self._resume_timeouts()
        for name in [
            transaction.transactional_id
            for transaction in self.transactions.values()
            if transaction.state in PREPARED_STATES
        ]:
            self._complete_transaction(name)


def _may_bump_epoch(transaction: Transaction, current_producer: ProducerIdentity) -> bool:
    """Return whether a producer may request the next epoch.

    The producer must have the current id, or the previous id and its last epoch.
    """
    is_before = (
        current_producer.producer_id == transaction.previous_producer_id
        and current_producer.producer_epoch >= 2**15 - 2
    )
    return (
        transaction.producer_epoch == NO_VALUE or current_producer.producer_id == transaction.producer_id or is_before
    )
