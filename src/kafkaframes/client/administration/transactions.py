"""Admin methods that list, describe and abort transactions, and fence producers (KIP-664, KIP-360)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafkaframes.client.administration.base import AdminRequests, get_row_error, to_list
from kafkaframes.client.administration.item_requests import BrokerLookup, CoordinatorLookup, LeaderLookup
from kafkaframes.client.cluster import TRANSACTION
from kafkaframes.client.metadata import Node, PartitionLike, TopicPartition, group_by_topic, to_partition, to_partitions
from kafkaframes.client.response_rows import ItemError, iterate_partition_rows, require_success
from kafkaframes.errors import COORDINATOR_MOVED_CODES, BrokerError, ErrorCode, OptionError

_RETRIABLE_PRODUCER_CODES: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_RETRIABLE_ABORT_CODES: Final = _RETRIABLE_PRODUCER_CODES | {
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
}
_RETRIABLE_FENCE_CODES: Final = COORDINATOR_MOVED_CODES | {ErrorCode.CONCURRENT_TRANSACTIONS}
# First versions of ListTransactions with filters for the duration and for an id pattern.
_DURATION_VERSION, _PATTERN_VERSION = 1, 2


class TransactionListing(NamedTuple):
    """A transactional id, as its coordinator lists it.

    Attributes:
        transactional_id: id that the producer was configured with.
        producer_id: current producer id.
        state: Kafka's name of the state: ``Ongoing``, ``PrepareCommit``, ``CompleteAbort``, ``Empty``, ...
        coordinator_id: node id of the coordinator of the transactional id.
    """

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id and its current transaction.

    Attributes:
        transactional_id: id that the producer was configured with.
        state: Kafka's name of the state, as in ``TransactionListing``.
        producer_id: current producer id.
        producer_epoch: current producer epoch.
        timeout_ms: transaction timeout, in milliseconds. The coordinator aborts a transaction that is open for longer.
        start_time_ms: start of the transaction, in milliseconds since 1970; None if no transaction is open.
        partitions: partitions in the transaction.
        coordinator_id: node id of the coordinator of the transactional id.
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
    """A partition leader's state of a producer that has written to the partition.

    Attributes:
        producer_id: producer id.
        producer_epoch: epoch in the producer's last batch or marker.
        last_sequence: sequence number of the producer's last record; -1 if only markers are left.
        last_timestamp_ms: timestamp of the producer's last batch, in milliseconds since 1970; -1 if unknown.
        coordinator_epoch: epoch of the coordinator that wrote the producer's last marker; None without a marker.
        transaction_start_offset: first offset of the producer's open transaction; None if no transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class FencedProducer(NamedTuple):
    """The new producer id and epoch of a transactional id, after its producers were fenced.

    Attributes:
        producer_id: new producer id.
        producer_epoch: new producer epoch. Brokers reject producers with a lower epoch.
    """

    producer_id: int
    producer_epoch: int


class TransactionMethods(AdminRequests):
    """Admin methods for transactions and producers."""

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        min_duration_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all coordinators.

        Args:
            states: states to list; empty selects every state.
            producer_ids: producer ids to list; empty selects every producer id.
            min_duration_ms: minimum age of open transactions to list (KIP-994, Kafka 3.8 and later).
            transactional_id_pattern: regular expression, in RE2 syntax, for the ids to list (KIP-1152, Kafka 4.1 and
                later).

        Raises:
            OptionError: a broker does not know a state, or does not support a filter.
            BrokerError: a coordinator rejected the request.
        """
        cls = self.settings.message_class("ListTransactionsRequest")
        body = cls(state_filters=to_list("states", states), producer_id_filters=list(producer_ids))
        required_versions = {"min_duration_ms": _DURATION_VERSION} if min_duration_ms is not None else {}
        required_versions |= (
            {"transactional_id_pattern": _PATTERN_VERSION} if transactional_id_pattern is not None else {}
        )
        body.duration_filter = -1 if min_duration_ms is None else min_duration_ms
        body.transactional_id_pattern = transactional_id_pattern

        def check_version(broker: Node, version: int) -> None:
            for setting, first in required_versions.items():
                if version < first:
                    raise OptionError(
                        f"{setting} is not supported by broker {broker.node_id}: its Kafka release is too old"
                    )

        listings: list[TransactionListing] = []
        for broker, response in await self._send_to_every_broker(body, "transactions", check_version):
            if response.unknown_state_filters:
                names = ", ".join(map(repr, response.unknown_state_filters))
                raise OptionError(f"states: broker {broker.node_id} does not support {names}")
            listings += [
                TransactionListing(row.transactional_id, row.producer_id, row.transaction_state, broker.node_id)
                for row in response.transaction_states
            ]
        return sorted(listings)

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Return the state, the producer and the partitions of transactional ids (KIP-664).

        Args:
            transactional_ids: ids to describe.

        Raises:
            BrokerError: no coordinator knows an id (TRANSACTIONAL_ID_NOT_FOUND), or the principal may not describe it.
        """
        cls = self.settings.message_class("DescribeTransactionsRequest")

        async def describe_at_coordinator(
            coordinator: Node, ids: list[str]
        ) -> dict[str, TransactionDescription | BrokerError]:
            response = await self._cluster.request(coordinator, cls(transactional_ids=ids))
            return {
                row.transactional_id: get_row_error(row, f"transactional id {row.transactional_id!r}")
                or _to_transaction_description(row, coordinator.node_id)
                for row in response.transaction_states
            }

        coordinators = CoordinatorLookup(self._cluster, TRANSACTION)
        return require_success(
            await self._request_items(
                to_list("transactional_ids", transactional_ids),
                coordinators,
                describe_at_coordinator,
                COORDINATOR_MOVED_CODES,
            )
        )

    async def describe_producers(
        self, partitions: Iterable[PartitionLike], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the producer states that the leaders of partitions keep.

        Args:
            partitions: partitions to describe.
            broker_id: id of a replica that is asked instead of the leaders.

        Raises:
            BrokerError: a partition does not exist, or the principal may not read the topic.
        """
        cls = self.settings.message_class("DescribeProducersRequest")

        async def describe_at_broker(
            broker: Node, entries: list[TopicPartition]
        ) -> dict[TopicPartition, list[ProducerState] | BrokerError]:
            topics = [
                cls.TopicRequest(name=name, partition_indexes=numbers)
                for name, numbers in group_by_topic(entries).items()
            ]
            response = await self._cluster.request(broker, cls(topics=topics))
            return {
                partition: get_row_error(row, f"producers of {partition}")
                or sorted(map(_to_producer_state, row.active_producers), key=lambda entry: entry.producer_id)
                for partition, row in iterate_partition_rows(response.topics)
            }

        partition_list = to_partitions(partitions)
        if broker_id is not None:
            broker = BrokerLookup(self._cluster, lambda _: broker_id)
            return require_success(await self._request_items(partition_list, broker, describe_at_broker, ()))
        for partition in partition_list:  # a former leader also answers, with states that may be outdated
            self._cluster.cluster.expire(partition.topic)
        leaders = LeaderLookup(self._cluster)
        return require_success(
            await self._request_items(partition_list, leaders, describe_at_broker, _RETRIABLE_PRODUCER_CODES)
        )

    async def abort_transaction(
        self, partition: PartitionLike, producer_id: int, producer_epoch: int, coordinator_epoch: int = -1
    ) -> None:
        """Write an abort marker for a hanging transaction into one partition.

        A transaction hangs if it is open in a partition, but its coordinator has no open transaction with this
        partition. ``describe_producers`` shows a hanging transaction and ``describe_transactions`` does not. Never use
        this method for other transactions.

        Args:
            partition: partition in which the transaction is open.
            producer_id: producer id, as ``describe_producers`` returns it.
            producer_epoch: producer epoch, as ``describe_producers`` returns it.
            coordinator_epoch: coordinator epoch, as ``describe_producers`` returns it; -1 in place of None.

        Raises:
            BrokerError: the producer has another epoch, or the principal may not alter the cluster.
        """
        cls = self.settings.message_class("WriteTxnMarkersRequest")
        target = to_partition(partition)
        topic = cls.WritableTxnMarkerTopic(name=target.topic, partition_indexes=[target.partition])
        marker = cls.WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[topic],
            coordinator_epoch=coordinator_epoch,
        )

        async def send_abort_marker(leader: Node, _: list[TopicPartition]) -> dict[TopicPartition, BrokerError | None]:
            response = await self._cluster.request(leader, cls(markers=[marker]))
            return {
                partition: get_row_error(row, f"abort of the transaction of producer {producer_id} in {partition}")
                for entry in response.markers
                for partition, row in iterate_partition_rows(entry.topics)
            }

        leaders = LeaderLookup(self._cluster)
        require_success(await self._request_items([target], leaders, send_abort_marker, _RETRIABLE_ABORT_CODES))

    async def force_terminate_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of a transactional id by fencing its producers (KIP-939).

        Args:
            transactional_id: id of the transaction's producer.

        Raises:
            BrokerError: the principal may not write with this transactional id.
        """
        await self.fence_producers([transactional_id])

    async def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, FencedProducer]:
        """Fence the producers of transactional ids. Coordinators abort the open transactions of these producers.

        Args:
            transactional_ids: ids of the producers to fence.

        Returns:
            The new producer id and epoch of each transactional id.

        Raises:
            BrokerError: the principal may not write with a transactional id.
        """
        cls = self.settings.message_class("InitProducerIdRequest")
        timeout_ms = self.settings.request_timeout_ms

        async def fence_producer(coordinator: Node, transactional_id: str) -> FencedProducer | ItemError:
            body = cls(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
            response = await self._cluster.request(coordinator, body)
            subject = f"transactional id {transactional_id!r}"
            if response.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                limit = "transaction.max.timeout.ms"
                subject += f": request_timeout_ms={timeout_ms} exceeds the brokers' {limit}"
            return get_row_error(response, subject) or FencedProducer(response.producer_id, response.producer_epoch)

        async def fence_at_coordinator(coordinator: Node, ids: list[str]) -> dict[str, FencedProducer | ItemError]:
            results = await asyncio.gather(*(fence_producer(coordinator, transactional_id) for transactional_id in ids))
            return dict(zip(ids, results, strict=True))

        coordinators = CoordinatorLookup(self._cluster, TRANSACTION)
        return require_success(
            await self._request_items(
                to_list("transactional_ids", transactional_ids),
                coordinators,
                fence_at_coordinator,
                _RETRIABLE_FENCE_CODES,
            )
        )


def _to_transaction_description(row: Any, coordinator_id: int) -> TransactionDescription:
    partitions = [TopicPartition(topic.topic, number) for topic in row.topics for number in topic.partitions]
    return TransactionDescription(
        row.transactional_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        None if row.transaction_start_time_ms < 0 else row.transaction_start_time_ms,
        tuple(sorted(partitions)),
        coordinator_id,
    )


def _to_producer_state(row: Any) -> ProducerState:
    return ProducerState(
        row.producer_id,
        row.producer_epoch,
        row.last_sequence,
        row.last_timestamp,
        None if row.coordinator_epoch < 0 else row.coordinator_epoch,
        None if row.current_txn_start_offset < 0 else row.current_txn_start_offset,
    )
