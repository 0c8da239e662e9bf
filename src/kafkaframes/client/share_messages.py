"""The messages of a share consumer: requests of ``share_requests`` as Kafka's messages, and responses as plain values.

No I/O. ``share_task`` sends the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafkaframes.client.fetched_batches import FetchedBatches
from kafkaframes.client.metadata import Node, TopicPartition
from kafkaframes.client.settings import ShareConsumerSettings
from kafkaframes.client.share_machine import describe_node
from kafkaframes.client.share_requests import (
    JOIN_EPOCH,
    Acknowledgements,
    AcquiredRecords,
    ShareAcknowledge,
    ShareAcknowledgeResponse,
    ShareFetch,
    ShareFetchResponse,
    ShareFetchRow,
    ShareHeartbeat,
    ShareHeartbeatResponse,
)
from kafkaframes.client.share_session import PartitionId, to_batches
from kafkaframes.errors import BrokerError, KafkaframesError, OptionError, to_broker_error
from kafkaframes.records.arrays import int64_values
from kafkaframes.records.columns import DEFAULT_COLUMNS

_RENEWAL_VERSION: Final = 2  # first version of ShareFetch and ShareAcknowledge with renewals and the acquire mode
_ACQUIRE_MODES: Final = {"batch_optimized": 0, "record_limit": 1}
_DEFAULT_ACQUIRE_MODE: Final = "batch_optimized"


class ShareMessages:
    """Builds the requests of a share group's member as Kafka's messages, and reads the responses."""

    def __init__(
        self,
        settings: ShareConsumerSettings,
        member_id: str,
        get_partition: Callable[[PartitionId], TopicPartition | None],
    ) -> None:
        """Create an object for a member.

        Args:
            settings: settings of the share consumer, such as the group id and fetch sizes.
            member_id: id of the member.
            get_partition: function that returns the topic and number of a partition, or None if its topic id is
                unknown.
        """
        self._settings = settings
        self._member_id = member_id
        self._get_partition = get_partition

    # ------------------------------------------------------------------------------------------------------ requests

    def to_heartbeat_body(self, request: ShareHeartbeat) -> Any:
        """Return the ShareGroupHeartbeat message for a request."""
        settings = self._settings
        body = settings.message_class("ShareGroupHeartbeatRequest")(
            group_id=settings.required_group_id, member_id=self._member_id, member_epoch=request.epoch
        )
        if request.epoch == JOIN_EPOCH:
            body.rack_id = settings.client_rack or None
        if request.topics is not None:
            body.subscribed_topic_names = list(request.topics)
        return body

    def to_fetch_body(self, request: ShareFetch, version: int) -> Any:
        """Return the ShareFetch message for a request.

        Raises:
            OptionError: this version does not support ``share_acquire_mode``.
        """
        settings = self._settings
        if settings.share_acquire_mode != _DEFAULT_ACQUIRE_MODE and version < _RENEWAL_VERSION:
            raise OptionError(
                f"share_acquire_mode={settings.share_acquire_mode} is not supported by {describe_node(request.node)}: "
                "it needs Kafka 4.2 or later (KIP-1206)"
            )
        cls = settings.message_class("ShareFetchRequest")
        body = cls(
            group_id=settings.required_group_id,
            member_id=self._member_id,
            share_session_epoch=request.epoch,
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            max_records=settings.max_poll_records,
            batch_size=settings.max_poll_records,
        )
        if version >= _RENEWAL_VERSION:
            body.share_acquire_mode = _ACQUIRE_MODES[settings.share_acquire_mode]
        body.topics = _to_request_topics(
            request.added_partitions,
            request.acknowledgements,
            lambda topic_id, rows: cls.FetchTopic(topic_id=topic_id, partitions=rows),
            lambda number, kinds: cls.FetchPartition(
                partition_index=number, acknowledgement_batches=_to_protocol_batches(cls, kinds)
            ),
        )
        body.forgotten_topics_data = [
            cls.ForgottenTopic(topic_id=entry.topic_id, partitions=[entry.partition])
            for entry in request.removed_partitions
        ]
        return body

    def to_acknowledge_body(self, request: ShareAcknowledge, version: int) -> Any:
        """Return the ShareAcknowledge message for a request.

        Raises:
            OptionError: the request renews locks, which this version does not support.
        """
        settings = self._settings
        if request.is_renewal and version < _RENEWAL_VERSION:
            raise OptionError(
                f"renew is not supported by {describe_node(request.node)}: it needs Kafka 4.2 or later (KIP-1222)"
            )
        cls = settings.message_class("ShareAcknowledgeRequest")
        body = cls(
            group_id=settings.required_group_id,
            member_id=self._member_id,
            share_session_epoch=request.epoch,
            is_renew_ack=request.is_renewal,
        )
        body.topics = _to_request_topics(
            [],
            request.acknowledgements,
            lambda topic_id, rows: cls.AcknowledgeTopic(topic_id=topic_id, partitions=rows),
            lambda number, kinds: cls.AcknowledgePartition(
                partition_index=number, acknowledgement_batches=_to_protocol_batches(cls, kinds)
            ),
        )
        return body

    # ----------------------------------------------------------------------------------------------------- responses

    @staticmethod
    def read_heartbeat(response: Any) -> ShareHeartbeatResponse:
        """Return the values of a ShareGroupHeartbeat response without an error."""
        rows = None if response.assignment is None else response.assignment.topic_partitions
        assignment = None if rows is None else tuple((row.topic_id, tuple(row.partitions)) for row in rows)
        return ShareHeartbeatResponse(response.member_epoch, response.heartbeat_interval_ms / 1000, assignment)

    def read_fetch(self, request: ShareFetch, response: Any) -> ShareFetchResponse:
        """Return the values of a ShareFetch response, with decoded records.

        Raises:
            BrokerError: the node rejects the request.
        """
        _check_response(response, f"share fetch from {describe_node(request.node)}")
        rows = {
            PartitionId(topic.topic_id, row.partition_index): self._read_row(
                request.node, PartitionId(topic.topic_id, row.partition_index), row
            )
            for topic in response.responses
            for row in topic.partitions
        }
        return ShareFetchResponse(rows, response.acquisition_lock_timeout_ms / 1000)

    def _read_row(self, node: Node, partition_id: PartitionId, row: Any) -> ShareFetchRow:
        """Return the values of a partition in a ShareFetch response, with decoded records."""
        partition = self._get_partition(partition_id)
        acknowledge_error = _to_row_error(row.acknowledge_error_code, row.acknowledge_error_message, node)
        if row.error_code:
            error = to_broker_error(row.error_code, f"share fetch of {partition or partition_id}", row.error_message)
            return ShareFetchRow(error, acknowledge_error)
        deliveries = {
            offset: acquired_row.delivery_count
            for acquired_row in row.acquired_records
            for offset in range(acquired_row.first_offset, acquired_row.last_offset + 1)
        }
        batches: list[AcquiredRecords] = []
        damage: Exception | None = None
        if deliveries and row.records and partition is not None:
            try:
                batches.extend(self._decode_records(partition, row.records, deliveries))
            except KafkaframesError as error:
                damage = error
        return ShareFetchRow(None, acknowledge_error, deliveries, batches, damage)

    def _decode_records(
        self, partition: TopicPartition, records: Any, deliveries: Mapping[int, int]
    ) -> Iterable[AcquiredRecords]:
        """Yield the acquired records of fetched batches."""
        fetched_batches = FetchedBatches(partition, min(deliveries), memoryview(records))
        acquired_offsets = np.array(sorted(deliveries), np.int64)
        for batch in fetched_batches.read(DEFAULT_COLUMNS, verify_crc=self._settings.check_crcs):
            mask = np.isin(int64_values(batch.column("offset")), acquired_offsets)
            acquired_batch = batch if mask.all() else batch.filter(pa.array(mask))
            if acquired_batch.num_rows:
                yield AcquiredRecords(int64_values(acquired_batch.column("offset")).tolist(), acquired_batch)

    @staticmethod
    def read_acknowledge(request: ShareAcknowledge, response: Any) -> ShareAcknowledgeResponse:
        """Return the values of a ShareAcknowledge response.

        Raises:
            BrokerError: the node rejects the request.
        """
        _check_response(response, f"acknowledgement at {describe_node(request.node)}")
        return ShareAcknowledgeResponse(
            {
                PartitionId(topic.topic_id, row.partition_index): _to_row_error(
                    row.error_code, row.error_message, request.node
                )
                for topic in response.responses
                for row in topic.partitions
            }
        )


def _check_response(response: Any, subject: str) -> None:
    """Raise the error in a response, if it has one."""
    if response.error_code:
        raise to_broker_error(response.error_code, subject, response.error_message)


def _to_row_error(code: int, message: str | None, node: Node) -> BrokerError | None:
    return to_broker_error(code, f"acknowledgement at {describe_node(node)}", message) if code else None


def _to_request_topics(
    added_partitions: Iterable[PartitionId],
    acknowledgements: Acknowledgements,
    topic: Callable[[Any, list[Any]], Any],
    partition: Callable[[int, Mapping[int, int]], Any],
) -> list[Any]:
    """Return the topics of a request: partitions to add to the session, and partitions with acknowledgements."""
    by_topic: dict[Any, list[Any]] = {}
    for entry in sorted({*added_partitions, *acknowledgements}):
        by_topic.setdefault(entry.topic_id, []).append(partition(entry.partition, acknowledgements.get(entry, {})))
    return [topic(topic_id, rows) for topic_id, rows in by_topic.items()]


def _to_protocol_batches(cls: Any, kinds: Mapping[int, int]) -> list[Any]:
    return [
        cls.AcknowledgementBatch(
            first_offset=batch.first_offset, last_offset=batch.last_offset, acknowledge_types=batch.types
        )
        for batch in to_batches(kinds)
    ]
