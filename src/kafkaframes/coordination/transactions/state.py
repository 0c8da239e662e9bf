"""The state of one transactional id and its transitions, as immutable values (TransactionMetadata).

A transition returns a new value, which the coordinator writes to the log before it uses the value. Existing values are
not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from kafkaframes.coordination.groups.ports import Record
from kafkaframes.errors import DecodeError, ErrorCode, RefusedError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import decode_coordinator_record, encode_coordinator_record
from kafkaframes.storage.files.names import TopicPartition, group_by_topic
from kafkaframes.wire.integers import MAX_INT32

NO_VALUE: Final = -1  # Kafka's number for a field that is not set
MAX_PRODUCER_EPOCH: Final = 2**15 - 1
NO_TIMEOUT_MS: Final = MAX_INT32  # the timeout of a two-phase commit, which never times out


class TransactionState(Enum):
    """Transaction states, with Kafka's names and stored numbers."""

    EMPTY = "Empty", 0
    ONGOING = "Ongoing", 1
    PREPARE_COMMIT = "PrepareCommit", 2
    PREPARE_ABORT = "PrepareAbort", 3
    COMPLETE_COMMIT = "CompleteCommit", 4
    COMPLETE_ABORT = "CompleteAbort", 5
    DEAD = "Dead", 6
    PREPARE_EPOCH_FENCE = "PrepareEpochFence", 7

    def __init__(self, shown: str, number: int) -> None:
        self.kafka_name = shown
        self.number = number


State = TransactionState
STATES_BY_NUMBER: Final[Mapping[int, TransactionState]] = MappingProxyType({state.number: state for state in State})
STATES_BY_NAME: Final[Mapping[str, TransactionState]] = MappingProxyType({state.kafka_name: state for state in State})
COMPLETE_STATES: Final = frozenset({State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
PREPARED_STATES: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
VALID_PREVIOUS_STATES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = MappingProxyType(
    {
        State.EMPTY: frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}),
        State.ONGOING: frozenset({State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}),
        State.PREPARE_COMMIT: frozenset({State.ONGOING}),
        # Since KIP-890 a transaction may be aborted in these states, without partitions.
        State.PREPARE_ABORT: frozenset(
            {State.ONGOING, State.PREPARE_EPOCH_FENCE, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}
        ),
        State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
        State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
        State.DEAD: frozenset({State.EMPTY, State.COMPLETE_ABORT, State.COMPLETE_COMMIT}),
        State.PREPARE_EPOCH_FENCE: frozenset({State.ONGOING}),
    }
)


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of one transactional id.

    Attributes:
        producer_epoch: current epoch; -1 until the id is initialized for the first time.
        last_epoch: previous epoch, if the producer bumped the epoch itself (KIP-360), else -1.
        previous_producer_id, next_producer_id: ids before and after a change of producer id (KIP-890), else -1.
        partitions: partitions of the open transaction.
        start_ms: start of the open transaction in milliseconds since 1970; -1 if there is none.
        updated_ms: time of the last change.
        client_version: transaction version with which the client adds partitions and ends transactions: 0, or 2
            (KIP-890).
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_VALUE
    last_epoch: int = NO_VALUE
    previous_producer_id: int = NO_VALUE
    next_producer_id: int = NO_VALUE
    timeout_ms: int = 60_000
    state: TransactionState = State.EMPTY
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)
    start_ms: int = NO_VALUE
    updated_ms: int = NO_VALUE
    client_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next epoch requires a new producer id. The largest epoch is reserved for fencing."""
        return self.producer_epoch >= MAX_PRODUCER_EPOCH - 1

    def _change_state(self, state: TransactionState, now_ms: int, **changes: object) -> Transaction:
        """Return the transaction in another state, with changes of its attributes."""
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.transactional_id}: {self.state} to {state}"
        values = {"previous_producer_id": self.producer_id, "updated_ms": now_ms, **changes}
        return replace(self, state=state, **values)  # type: ignore[arg-type]

    def fence_producer(self, *, version: int, now_ms: int) -> Transaction:
        """Return the aborted transaction with the next epoch, which fences the current producer.

        Since KIP-890, the fenced producer may still request the next epoch if no other producer has done so (KIP-588).

        Args:
            version: the broker's transaction version.
        """
        return self._change_state(
            State.PREPARE_ABORT,
            now_ms,
            producer_epoch=min(self.producer_epoch + 1, MAX_PRODUCER_EPOCH),
            last_epoch=self.producer_epoch if version >= 2 else NO_VALUE,
            client_version=version,
        )

    def bump_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction:
        """Return the state for a new producer, or for a producer that requests the next epoch (KIP-360)."""
        epoch, last_epoch = self.producer_epoch + 1, NO_VALUE
        if expected_epoch is not None:
            if self.producer_epoch == NO_VALUE or expected_epoch == self.producer_epoch:
                last_epoch = self.producer_epoch
            elif expected_epoch == self.last_epoch:  # a retry: the producer has not received the response
                epoch, last_epoch = self.producer_epoch, self.last_epoch
            else:
                raise RefusedError(ErrorCode.PRODUCER_FENCED)
        return self._initialize(timeout_ms, now_ms, producer_epoch=epoch, last_epoch=last_epoch)

    def rotate_producer_id(self, producer_id: int, timeout_ms: int, now_ms: int, *, keep_last: bool) -> Transaction:
        """Return the state with a new producer id, after the last epoch of the old producer id."""
        last_epoch = self.producer_epoch if keep_last else NO_VALUE
        return self._initialize(timeout_ms, now_ms, producer_id=producer_id, producer_epoch=0, last_epoch=last_epoch)

    def _initialize(self, timeout_ms: int, now_ms: int, **changes: int) -> Transaction:
        """Return the state of a producer that has not begun a transaction."""
        return self._change_state(
            State.EMPTY, now_ms, timeout_ms=timeout_ms, partitions=frozenset(), start_ms=NO_VALUE, **changes
        )

    def add_partitions(
        self, new_partitions: frozenset[TopicPartition], now_ms: int, *, version: int = 0
    ) -> Transaction:
        """Return the state with more partitions. The first partitions begin the transaction."""
        start_ms = self.start_ms if self.state is State.ONGOING else now_ms
        partitions = self.partitions | new_partitions
        return self._change_state(
            State.ONGOING, now_ms, partitions=partitions, start_ms=start_ms, client_version=version
        )

    def prepare_end(
        self, *, commit: bool, version: int, now_ms: int, next_producer_id: int = NO_VALUE, is_empty: bool = False
    ) -> Transaction:
        """Return the decided transaction, whose markers must be written next.

        Args:
            version: transaction version. In version 2, each transaction bumps the epoch, and markers have the new epoch
                (KIP-890).
            next_producer_id: next producer id if the epochs of the current producer id are exhausted.
            is_empty: whether the transaction has no partitions and has therefore not begun.
        """
        epoch, last_epoch = self.producer_epoch, self.last_epoch
        if version >= 2:
            last_epoch = epoch
            epoch = min(epoch + 1, MAX_PRODUCER_EPOCH)
        return self._change_state(
            State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
            now_ms,
            producer_epoch=epoch,
            last_epoch=last_epoch,
            next_producer_id=next_producer_id,
            start_ms=now_ms if is_empty else self.start_ms,
            client_version=version,
        )

    def complete_end(self, now_ms: int) -> Transaction:
        """Return the completed transaction, whose markers have been written."""
        producer_id, epoch = self.producer_id, self.producer_epoch
        if self.client_version >= 2 and self.next_producer_id != NO_VALUE:
            producer_id, epoch = self.next_producer_id, 0
        return self._change_state(
            State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_VALUE,
            partitions=frozenset(),
        )


TRANSACTIONS_TOPIC: Final = "__transaction_state"


def build_transaction_record(transaction: Transaction, *, transaction_version: int) -> Record:
    """Return the record of a transactional id."""
    value_class: Any = message("TransactionLogValue")
    topics = group_by_topic(sorted(transaction.partitions))
    partitions = [value_class.PartitionsSchema(topic=name, partition_ids=numbers) for name, numbers in topics.items()]
    value = value_class(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.number,
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    version = int(transaction_version >= 1)
    if version:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return encode_coordinator_record(_build_record_key(transaction.transactional_id), value, version)


def build_tombstone(transactional_id: str) -> Record:
    """Return the record that deletes a transactional id."""
    return encode_coordinator_record(_build_record_key(transactional_id), None, None)


def _build_record_key(transactional_id: str) -> Any:
    return message("TransactionLogKey")(transactional_id=transactional_id)


def decode(key: bytes, value: bytes | None) -> tuple[str, Transaction | None]:
    """Return the transactional id of a record and the id's state; the state is None for a tombstone.

    Raises:
        DecodeError: the type, version or state is unknown, or the bytes are invalid.
    """
    record = decode_coordinator_record(TRANSACTIONS_TOPIC, key, value)
    transactional_id, fields = record.key.transactional_id, record.value
    if fields is None:
        return transactional_id, None
    state = STATES_BY_NUMBER.get(fields.transaction_status)
    if state is None:
        raise DecodeError(f"no state {fields.transaction_status}").within("transaction_status").within("value")
    return transactional_id, Transaction(
        transactional_id=transactional_id,
        producer_id=fields.producer_id,
        producer_epoch=fields.producer_epoch,
        previous_producer_id=fields.previous_producer_id,
        next_producer_id=fields.next_producer_id,
        timeout_ms=fields.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(row.topic, number)
            for row in fields.transaction_partitions or ()
            for number in row.partition_ids
        ),
        start_ms=fields.transaction_start_timestamp_ms,
        updated_ms=fields.transaction_last_update_timestamp_ms,
        client_version=fields.client_transaction_version,
    )


# Results of EndTxn: whether a request ends the transaction, repeats an earlier end, or is wrong (KIP-98, KIP-890).
#
# In version 2 every end bumps the epoch. A repeated request therefore has the previous epoch, or, after a change of the
# producer id, the old id and its last epoch:
#
#     state             abort, repeated   abort   commit, repeated   commit
#     Empty             fenced            bumps   fenced             INVALID_TXN_STATE
#     CompleteAbort     done              bumps   INVALID_TXN_STATE  INVALID_TXN_STATE
#     CompleteCommit    INVALID_TXN_STATE bumps   done               INVALID_TXN_STATE


class EndAction(Enum):
    """The action for an EndTxn request."""

    WRITE = "write the markers of the open transaction"
    NOTHING_TO_END = "bump the epoch of a transaction without partitions"
    DONE = "repeat the previous response"


_IS_COMMIT_BY_STATE = {
    State.COMPLETE_COMMIT: True,
    State.PREPARE_COMMIT: True,
    State.COMPLETE_ABORT: False,
    State.PREPARE_ABORT: False,
}


def decide_end_v0(transaction: Transaction, producer_id: int, producer_epoch: int, *, commit: bool) -> EndAction:
    """Return the action for an EndTxn request in transaction version 0, in which the producer keeps its epoch."""
    if transaction.producer_id != producer_id:
        raise RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != producer_epoch:
        raise RefusedError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is State.ONGOING:
        return EndAction.WRITE
    _check_same_end(transaction.state, commit=commit)
    return EndAction.DONE


def decide_end_v2(transaction: Transaction, producer_id: int, producer_epoch: int, *, commit: bool) -> EndAction:
    """Return the action for an EndTxn request in transaction version 2, whose response has the next epoch."""
    is_overflow = (
        transaction.previous_producer_id == producer_id
        and producer_epoch == MAX_PRODUCER_EPOCH - 1
        and transaction.producer_epoch == 0
    )
    is_bumped = transaction.producer_epoch == producer_epoch + 1
    if transaction.producer_id != producer_id and not is_overflow:
        raise RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not _is_valid_epoch(transaction, producer_epoch, is_bumped=is_bumped, is_overflow=is_overflow):
        raise RefusedError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is State.ONGOING:
        return EndAction.WRITE
    is_repeated = transaction.state in PREPARED_STATES or (
        transaction.state in COMPLETE_STATES and (is_bumped or is_overflow)
    )
    if is_repeated:
        _check_same_end(transaction.state, commit=commit)
        return EndAction.DONE
    if commit:
        raise RefusedError(ErrorCode.INVALID_TXN_STATE)
    return EndAction.NOTHING_TO_END


def _is_valid_epoch(transaction: Transaction, producer_epoch: int, *, is_bumped: bool, is_overflow: bool) -> bool:
    if transaction.state in PREPARED_STATES:
        return is_bumped
    is_current = transaction.producer_epoch == producer_epoch
    return is_current or (transaction.state in COMPLETE_STATES and (is_bumped or is_overflow))


def _check_same_end(state: TransactionState, *, commit: bool) -> None:
    """Reject an outcome that differs from the decided one; until the markers are written, make the client retry."""
    if _IS_COMMIT_BY_STATE.get(state) is not commit:
        raise RefusedError(ErrorCode.INVALID_TXN_STATE)
    if state in PREPARED_STATES:
        raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
