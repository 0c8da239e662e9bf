"""A producer's id and transactions: the requests to the coordinator and their order (KIP-98, KIP-360, KIP-447).

The protocol has two versions. In version 1, the client adds partitions and groups to a transaction before it writes
to them. If the coordinator supports ``transaction.version`` 2 (KIP-890), the brokers add partitions implicitly, and
every end of a transaction bumps the epoch, so that no late batch can become part of the next transaction. A transaction
that several producers share uses version 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafkaframes.client.batches import ProducerIdentity
from kafkaframes.client.cluster import GROUP, TRANSACTION, ClusterClient
from kafkaframes.client.group_offsets import CommittedOffset, GroupMember, to_committed_offset
from kafkaframes.client.metadata import TopicPartition, group_by_topic
from kafkaframes.client.network import Connection
from kafkaframes.client.response_rows import iterate_partition_rows, require_rows
from kafkaframes.client.sender import Sender
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import (
    BrokerError,
    ErrorCode,
    KafkaframesError,
    MaybeWrittenError,
    NetworkError,
    OptionError,
    to_broker_error,
)
from kafkaframes.protocol.messages.objects import Message

# Highest version of each request, by the version of the transaction protocol.
_MAX_VERSIONS_BY_PROTOCOL_VERSION: Final = {
    1: {"AddPartitionsToTxnRequest": 3, "EndTxnRequest": 4, "TxnOffsetCommitRequest": 4},
    2: {"EndTxnRequest": 5, "TxnOffsetCommitRequest": 5},
}
# The level of this feature selects the version of the transaction protocol.
_TRANSACTION_FEATURE: Final = "transaction.version"
# First version of InitProducerId that takes an id and epoch and bumps the epoch (KIP-360).
_EPOCH_BUMP_VERSION: Final = 3
_FENCING_ERRORS: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


class TransactionManager:
    """Manages the producer id and the transactions of one producer."""

    def __init__(self, cluster: ClusterClient, sender: Sender, settings: ProducerSettings) -> None:
        self._cluster = cluster
        self._sender = sender
        self._settings = settings
        self._added_partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._is_open = False
        self.has_joined = False
        self._is_shared = False
        self._fence_error: BrokerError | None = None
        self._coordinator_version = 1
        self._protocol_version = 1  # transaction version of the open transaction
        sender.renew = self.renew_id

    # ---------------------------------------------------------------------------------------------- producer ids

    async def init_producer_id(self) -> None:
        """Get a producer id. With a transactional id, fence earlier producers and end their open transactions."""
        self._sender.sequencer.transactional = self._settings.transactional_id is not None
        self._sender.set_producer(await self._request_producer_id(ProducerIdentity()))

    async def renew_id(self) -> None:
        """Get a new producer id after the epoch has reached its maximum.

        During a transaction, ``end_transaction`` does this instead.
        """
        if not self._settings.transactional_id:
            self._sender.set_producer(await self._request_producer_id(self._sender.sequencer.producer))

    async def _request_producer_id(self, current_producer: ProducerIdentity) -> ProducerIdentity:
        cls = self._settings.message_class("InitProducerIdRequest")
        transactional_id = self._settings.transactional_id

        async def send_init_request(connection: Connection) -> ProducerIdentity:
            body = cls(transactional_id=transactional_id, transaction_timeout_ms=self._settings.transaction_timeout_ms)
            version = connection.select_version(body)
            if version >= _EPOCH_BUMP_VERSION:
                body.producer_id, body.producer_epoch = current_producer
            response = await connection.request(body, version=version)
            self._check_error(response.error_code, "InitProducerId")
            if transactional_id is not None:
                self._coordinator_version = min(max(connection.features.get(_TRANSACTION_FEATURE, 1), 1), 2)
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        async def request_once() -> ProducerIdentity:
            if transactional_id is None:
                return await send_init_request(await self._cluster.get_any_connection())
            async with self._cluster.connect_to_coordinator(transactional_id, TRANSACTION) as connection:
                return await send_init_request(connection)

        return await self._cluster.retry_step(request_once)

    # ---------------------------------------------------------------------------------------------- transactions

    def join_transaction(self, producer: ProducerIdentity) -> None:
        """Join a transaction that another producer has begun and will end."""
        self._sender.sequencer.transactional = True
        self._sender.set_producer(producer)
        self._is_open = self.has_joined = True

    def share_transaction(self) -> ProducerIdentity:
        """Let other producers join the open transaction.

        The end of the transaction is sent even if this producer has written nothing.
        """
        if not self._is_open:
            raise OptionError("no transaction is open")
        self._is_shared = True
        self._set_protocol_version(1)
        return self._sender.sequencer.producer

    def begin_transaction(self) -> None:
        """Begin a transaction.

        Raises:
            OptionError: the producer has no transactional id, or a transaction is open.
            BrokerError: this producer was fenced.
        """
        if self._settings.transactional_id is None:
            raise OptionError("transactions need transactional_id")
        if self._is_open:
            raise OptionError("a transaction is open; commit or abort it first")
        if self._fence_error is not None:
            raise self._fence_error
        self._is_open = True
        self._set_protocol_version(self._coordinator_version)

    def _set_protocol_version(self, version: int) -> None:
        """Set the version of the transaction protocol. In version 2, brokers add partitions implicitly (KIP-890)."""
        self._protocol_version = version
        self._sender.broker_adds_partitions = version > 1

    def fail_transaction(self, cause: Exception) -> None:
        """Fail the open transaction, if any, because a record cannot be added to a batch.

        The transaction can then only be aborted.
        """
        if self._is_open:
            self._sender.sequencer.fail_transaction(cause)

    def has_partition(self, partition: TopicPartition) -> bool:
        """Return whether a partition can be written to without ``prepare_partition``.

        Any thread may call this method.
        """
        return self._settings.transactional_id is None or (self._is_open and partition in self._added_partitions)

    async def prepare_partition(self, partition: TopicPartition) -> None:
        """Add a partition to the transaction before its first batch is sent. Without a transaction, do nothing."""
        if self._settings.transactional_id is None:
            return
        if not self._is_open:
            raise OptionError(
                "a producer with transactional_id writes in transactions only; call begin_transaction first"
            )
        if self.has_joined:
            raise OptionError("a producer that has joined a transaction can only write batches with given sequences")
        await self.add_partitions([partition])

    async def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the open transaction, with one request for those that it does not have yet.

        Raises:
            OptionError: no transaction is open.
            BrokerError: this producer was fenced, or a partition does not exist.
        """
        if not self._is_open:
            raise OptionError("no transaction is open")
        new_partitions = [entry for entry in partitions if entry not in self._added_partitions]
        if new_partitions and self._protocol_version == 1:
            await self._add_partitions(new_partitions)
        self._added_partitions.update(new_partitions)

    async def _add_partitions(self, partitions: list[TopicPartition]) -> None:
        cls = self._settings.message_class("AddPartitionsToTxnRequest")
        producer_id, epoch = self._sender.sequencer.producer
        body = cls(
            v3_and_below_transactional_id=self._settings.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[
                cls.AddPartitionsToTxnTopic(name=name, partitions=all_)
                for name, all_ in group_by_topic(partitions).items()
            ],
        )

        async def add_once() -> None:
            response = await self._send_to_coordinator(body)
            results = [
                (result.partition_error_code, f"adding {entry.name}-{result.partition_index} to the transaction")
                for entry in response.results_by_topic_v3_and_below
                for result in entry.results_by_partition
            ]
            for number, action in sorted(results, key=lambda entry: entry[0] == ErrorCode.OPERATION_NOT_ATTEMPTED):
                self._check_error(number, action)
            rows = {
                TopicPartition(entry.name, result.partition_index)
                for entry in response.results_by_topic_v3_and_below
                for result in entry.results_by_partition
            }
            require_rows(partitions, rows, "adding partitions to the transaction")

        await self._cluster.retry_step(add_once)

    async def end_transaction(self, *, commit: bool) -> None:
        """Commit or abort the transaction.

        Raises:
            OptionError: no transaction is open.
            BrokerError: the transaction must be aborted (a batch was lost), or this producer was fenced.
            MaybeWrittenError: the result is unknown because no response arrived. The same call can be repeated.
        """
        if not self._is_open:
            raise OptionError("no transaction is open")
        if self.has_joined:
            raise OptionError("only the producer that began a transaction can end it, not one that joined it")
        if commit:
            self._check_commit()
        if self._added_partitions or self._groups or self._is_shared:
            await self._send_end_request(commit)
        self._is_open = self._is_shared = False
        self._added_partitions.clear()
        self._groups.clear()
        if self._sender.sequencer.must_abort:  # with transaction.version 2, EndTxn has already bumped the epoch
            self._sender.set_producer(await self._request_producer_id(self._sender.sequencer.producer))

    def _check_commit(self) -> None:
        """Check that all records of the transaction were written.

        Raises:
            ProducerFencedError: a leader or a coordinator has reported a newer producer with the transactional id.
            BrokerError: a batch was not written.
        """
        if self._fence_error is not None:
            raise self._fence_error
        if not self._sender.sequencer.must_abort:
            return
        cause = self._sender.sequencer.abort_cause
        code = cause.code if isinstance(cause, BrokerError) else None
        if code in _FENCING_ERRORS:
            raise to_broker_error(code, "committing the transaction") from cause
        raise BrokerError(f"a batch of this transaction was not written; abort the transaction ({cause})") from cause

    async def _send_end_request(self, commit: bool) -> None:
        body = self._create_request("EndTxnRequest", committed=commit)
        in_doubt = False
        action = "committing the transaction" if commit else "aborting the transaction"

        async def end_once() -> None:
            nonlocal in_doubt
            try:
                response = await self._send_to_coordinator(body)
            except NetworkError:
                in_doubt = True
                raise
            self._check_error(response.error_code, action)
            if self._protocol_version > 1:
                self._sender.set_producer(ProducerIdentity(response.producer_id, response.producer_epoch))

        try:
            await self._cluster.retry_step(end_once)
        except KafkaframesError as error:
            if in_doubt:
                raise MaybeWrittenError(f"{action} may or may not have succeeded: {error}") from error
            raise

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset | int], group: GroupMember | str
    ) -> None:
        """Add a group's offsets to the transaction.

        Args:
            offsets: offset of the next record to read, or a ``CommittedOffset`` with metadata, by partition.
            group: a group id, or an object with the attributes of a member: ``group_id``, ``generation_id``,
                ``member_id``, ``group_instance_id``.
        """
        if not self._is_open:
            raise OptionError("no transaction is open")
        group_id = group if isinstance(group, str) else group.group_id
        if group_id not in self._groups and self._protocol_version == 1:
            await self._add_group(group_id)
        self._groups.add(group_id)
        await self._commit_offsets(offsets, group, group_id)

    async def _add_group(self, group_id: str) -> None:
        body = self._create_request("AddOffsetsToTxnRequest", group_id=group_id)

        async def add_once() -> None:
            response = await self._send_to_coordinator(body)
            self._check_error(response.error_code, f"adding the offsets of group {group_id} to the transaction")

        await self._cluster.retry_step(add_once)

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset | int], group: GroupMember | str, group_id: str
    ) -> None:
        body = self._create_request("TxnOffsetCommitRequest", group_id=group_id)
        cls = type(body)

        def to_entry(partition: TopicPartition) -> Any:
            offset = to_committed_offset(offsets[partition])
            return cls.TxnOffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )

        topics = group_by_topic(offsets, to_entry)
        body.topics = [cls.TxnOffsetCommitRequestTopic(name=name, partitions=all_) for name, all_ in topics.items()]
        if not isinstance(group, str):
            body.member_id, body.generation_id_or_member_epoch = group.member_id, group.generation_id
            body.group_instance_id = group.group_instance_id

        async def commit_once() -> None:
            response = await self._send_to_coordinator(body, group_id=group_id)
            rows = list(iterate_partition_rows(response.topics))
            for partition, row in rows:
                self._check_error(row.error_code, f"offsets of {partition}", group_id)
            require_rows(offsets, dict(rows), f"offsets of group {group_id} in the transaction")

        await self._cluster.retry_step(commit_once)

    # ---------------------------------------------------------------------------------------------------- requests

    def _create_request(self, name: str, **fields: Any) -> Any:
        """Return a request with the transactional id, the producer id and the epoch."""
        producer_id, epoch = self._sender.sequencer.producer
        transactional_id = self._settings.transactional_id
        message = self._settings.message_class(name)
        return message(transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, **fields)

    def _get_coordinator_key(self, group_id: str | None) -> tuple[str, int]:
        """Return the key and kind with which to find a coordinator.

        The coordinator is the group's, or the transaction's if ``group_id`` is None.
        """
        return (self._settings.transactional_id or "", TRANSACTION) if group_id is None else (group_id, GROUP)

    async def _send_to_coordinator(self, body: Message, *, group_id: str | None = None) -> Any:
        """Send a request to the transaction's coordinator, or to the coordinator of a group."""
        key, kind = self._get_coordinator_key(group_id)
        max_version = _MAX_VERSIONS_BY_PROTOCOL_VERSION[self._protocol_version].get(body.spec.name)
        return await self._cluster.send_to_coordinator(key, body, kind, max_version=max_version)

    def _check_error(self, code: int, action: str, group_id: str | None = None) -> None:
        """Raise the exception for an error code, and remember whether this producer was fenced."""
        key, kind = self._get_coordinator_key(group_id)
        try:
            self._cluster.check_coordinator(code, action, key, kind)
        except BrokerError as error:
            if code in _FENCING_ERRORS:
                self._fence_error = error
            raise
