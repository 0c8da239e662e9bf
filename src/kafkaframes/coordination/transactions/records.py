"""The transaction coordinator's records in ``__transaction_state``.

Values are version 1 where the feature ``transaction.version`` is at 1 or above, else version 0, as Kafka writes them.
"""

from __future__ import annotations

from typing import Any, Final

from kafkaframes.coordination.groups.ports import Record
from kafkaframes.coordination.transactions.state import BY_NUMBER, Transaction, TransactionState
from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import decode_coordinator_record, encode_coordinator_record
from kafkaframes.storage.files.names import TopicPartition

TRANSACTIONS_TOPIC: Final = "__transaction_state"


def transaction_record(one: Transaction, *, transaction_version: int) -> Record:
    """Return the record of a transactional id."""
    made: Any = message("TransactionLogValue")
    by_topic: dict[str, list[int]] = {}
    for where in sorted(one.partitions):
        by_topic.setdefault(where.topic, []).append(where.partition)
    partitions = [made.PartitionsSchema(topic=name, partition_ids=numbers) for name, numbers in by_topic.items()]
    value = made(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        transaction_timeout_ms=one.timeout_ms,
        transaction_status=one.state.number,
        transaction_partitions=None if one.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=one.updated_ms,
        transaction_start_timestamp_ms=one.start_ms,
    )
    version = int(transaction_version >= 1)
    if version:
        value.previous_producer_id = one.previous_producer_id
        value.next_producer_id = one.next_producer_id
        value.client_transaction_version = one.client_version
    return encode_coordinator_record(_key(one.transactional_id), value, version)


def tombstone(transactional_id: str) -> Record:
    """Return the record that ends a transactional id."""
    return encode_coordinator_record(_key(transactional_id), None, None)


def _key(transactional_id: str) -> Any:
    return message("TransactionLogKey")(transactional_id=transactional_id)


def decode(key: bytes, value: bytes | None) -> tuple[str, Transaction | None]:
    """Return the transactional id of a record and what it says of it; None for a tombstone.

    Raises:
        DecodeError: an unknown type, version or state, or broken bytes.
    """
    record = decode_coordinator_record(TRANSACTIONS_TOPIC, key, value)
    name, said = record.key.transactional_id, record.value
    if said is None:
        return name, None
    state = BY_NUMBER.get(said.transaction_status)
    if state is None:
        raise DecodeError(f"no state {said.transaction_status}").within("transaction_status").within("value")
    return name, Transaction(
        transactional_id=name,
        producer_id=said.producer_id,
        producer_epoch=said.producer_epoch,
        previous_producer_id=said.previous_producer_id,
        next_producer_id=said.next_producer_id,
        timeout_ms=said.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(one.topic, number)
            for one in said.transaction_partitions or ()
            for number in one.partition_ids
        ),
        start_ms=said.transaction_start_timestamp_ms,
        updated_ms=said.transaction_last_update_timestamp_ms,
        client_version=said.client_transaction_version,
    )
