"""Transactions and producers: list, describe, abort, fence (KIP-664, KIP-360)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkaframes.client.administration.base import AdminRequests, error_of, require_success
from kafkaframes.client.cluster import TRANSACTION
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import BrokerError, ErrorCode, OptionError, broker_error

_WITH_DURATION, _WITH_PATTERN = 1, 2  # ListTransactions' first versions with these conditions


class TransactionListing(NamedTuple):
    """A transactional id that a coordinator knows.

    Attributes:
        state: as Kafka names it: ``Ongoing``, ``PrepareCommit``, ``CompleteAbort``, ``Empty``, ...
        coordinator_id: node id of its coordinator.
    """

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id and its current transaction.

    Attributes:
        timeout_ms: after this time the coordinator aborts the transaction.
        start_time_ms: since 1970; None if no transaction is open.
        partitions: partitions that the transaction has written to.
        coordinator_id: node id of its coordinator.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What a partition's leader keeps of a producer that has written to it.

    Attributes:
        last_sequence: sequence number of its last record; -1 if only markers are left.
        last_timestamp_ms: since 1970; -1 if unknown.
        coordinator_epoch: epoch of the coordinator that wrote its last marker; None if there is none.
        transaction_start_offset: first offset of its open transaction; None if no transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class FencedProducer(NamedTuple):
    """Producer id and epoch that a transactional id has after its producers were fenced."""

    producer_id: int
    producer_epoch: int


class TransactionMethods(AdminRequests):
    """Methods on transactions and producers."""

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        min_duration_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids that the coordinators of all brokers know.

        Args:
            states: only these; empty is every state.
            producer_ids: only these; empty is every producer.
            min_duration_ms: only transactions that have been open for longer (KIP-994, Kafka 3.8 and later).
            transactional_id_pattern: regular expression in RE2's syntax (KIP-1152, Kafka 4.1 and later).

        Raises:
            OptionError: a state that brokers do not know, or a condition that they do not support.
            BrokerError: a coordinator could not answer.
        """
        cls = self.settings.message("ListTransactionsRequest")
        body = cls(state_filters=list(states), producer_id_filters=list(producer_ids))
        needs = {"min_duration_ms": _WITH_DURATION} if min_duration_ms is not None else {}
        needs |= {"transactional_id_pattern": _WITH_PATTERN} if transactional_id_pattern is not None else {}
        body.duration_filter = -1 if min_duration_ms is None else min_duration_ms
        body.transactional_id_pattern = transactional_id_pattern
        listings: list[TransactionListing] = []
        for broker_id in await self._broker_ids():
            connection = await self._cluster.connection(await self._broker(broker_id))
            for setting, version in needs.items():
                if connection.version_of(body) < version:
                    raise OptionError(f"{setting} is not supported by broker {broker_id}: its Kafka release is too old")
            answer = await self._ask_broker(broker_id, body, f"transactions of broker {broker_id}")
            if answer.unknown_state_filters:
                names = ", ".join(map(repr, answer.unknown_state_filters))
                raise OptionError(f"states: broker {broker_id} does not know {names}")
            listings += [
                TransactionListing(row.transactional_id, row.producer_id, row.transaction_state, broker_id)
                for row in answer.transaction_states
            ]
        return sorted(listings)

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Return state, producer and partitions of transactional ids.

        Raises:
            BrokerError: no coordinator knows an id (TRANSACTIONAL_ID_NOT_FOUND), or the principal may not describe it.
        """
        return require_success(await self._for_each(dict.fromkeys(transactional_ids), self._describe_transaction))

    async def _describe_transaction(self, transactional_id: str) -> TransactionDescription:
        what = f"transactional id {transactional_id!r}"
        body = self.settings.message("DescribeTransactionsRequest")(transactional_ids=[transactional_id])
        answer = await self._ask_coordinator(
            transactional_id, body, what, lambda entry: int(entry.transaction_states[0].error_code), TRANSACTION
        )
        (row,) = answer.transaction_states
        if (error := error_of(row, what)) is not None:
            raise error
        coordinator = await self._cluster.coordinator(transactional_id, TRANSACTION)
        partitions = [TopicPartition(topic.topic, number) for topic in row.topics for number in topic.partitions]
        return TransactionDescription(
            transactional_id,
            row.transaction_state,
            row.producer_id,
            row.producer_epoch,
            row.transaction_timeout_ms,
            None if row.transaction_start_time_ms < 0 else row.transaction_start_time_ms,
            tuple(sorted(partitions)),
            coordinator.node_id,
        )

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the producers that partitions' leaders know.

        Args:
            partitions: topics and partitions.
            broker_id: replica to ask in place of the leaders.

        Raises:
            BrokerError: a partition does not exist, or the principal may not read the topic.
        """

        async def describe(partition: TopicPartition) -> list[ProducerState]:
            cls = self.settings.message("DescribeProducersRequest")
            body = cls(topics=[cls.TopicRequest(name=partition.topic, partition_indexes=[partition.partition])])
            row = await self._ask_leader(partition, body, lambda answer: answer.topics[0].partitions[0], broker_id)
            if (error := error_of(row, f"producers of {partition}")) is not None:
                raise error
            return sorted(map(_producer_state, row.active_producers), key=lambda entry: entry.producer_id)

        return require_success(await self._for_each(dict.fromkeys(partitions), describe))

    async def abort_transaction(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int = -1
    ) -> None:
        """Write an abort marker for a hanging transaction into one partition.

        A transaction hangs if it is open in a partition, but not for its coordinator: ``describe_producers`` shows an
        open transaction that ``describe_transactions`` does not list for the partition. Never abort another one this
        way.

        Args:
            partition: topic and partition that holds the last stable offset back.
            producer_id, producer_epoch, coordinator_epoch: as ``describe_producers`` returns them; -1 if there is no
                coordinator epoch.

        Raises:
            BrokerError: the epoch is not the producer's, or the principal may not alter the cluster.
        """
        cls = self.settings.message("WriteTxnMarkersRequest")
        topic = cls.WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])
        marker = cls.WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[topic],
            coordinator_epoch=coordinator_epoch,
        )
        row = await self._ask_leader(
            partition, cls(markers=[marker]), lambda answer: answer.markers[0].topics[0].partitions[0]
        )
        if (error := error_of(row, f"abort of producer {producer_id} in {partition}")) is not None:
            raise error

    async def force_terminate_transaction(self, transactional_id: str) -> None:
        """End the open transaction of a transactional id by fencing its producers (KIP-939).

        Raises:
            BrokerError: the principal may not write with this transactional id.
        """
        await self._fence(transactional_id)

    async def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, FencedProducer]:
        """Fence the producers of transactional ids; their open transactions are aborted.

        Returns:
            The producer id and epoch that replace those of the fenced producers.

        Raises:
            BrokerError: the principal may not write with a transactional id.
        """
        return require_success(await self._for_each(dict.fromkeys(transactional_ids), self._fence))

    async def _fence(self, transactional_id: str) -> FencedProducer:
        what = f"transactional id {transactional_id!r}"
        body = self.settings.message("InitProducerIdRequest")(
            transactional_id=transactional_id, transaction_timeout_ms=self.settings.request_timeout_ms
        )

        async def step() -> Any:
            answer = await self._cluster.ask_coordinator(transactional_id, body, TRANSACTION)
            self._cluster.check_coordinator(answer.error_code, what, transactional_id, TRANSACTION)
            return answer

        try:
            answer = await self._cluster.retried(step)
        except BrokerError as error:
            if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                limit = "transaction.max.timeout.ms"
                timeout_ms = self.settings.request_timeout_ms
                raise broker_error(
                    error.code, f"{what}: request_timeout_ms={timeout_ms} exceeds brokers' {limit}"
                ) from None
            raise
        return FencedProducer(answer.producer_id, answer.producer_epoch)


def _producer_state(row: Any) -> ProducerState:
    return ProducerState(
        row.producer_id,
        row.producer_epoch,
        row.last_sequence,
        row.last_timestamp,
        None if row.coordinator_epoch < 0 else row.coordinator_epoch,
        None if row.current_txn_start_offset < 0 else row.current_txn_start_offset,
    )
