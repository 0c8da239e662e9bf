"""The asyncio producer, which sends single records, Arrow tables, or encoded batches.

Single records are collected in a batch of their partition for ``linger_ms``, or until it has ``batch_size`` bytes.
Tables are split into batches at once. ``records.build`` encodes and compresses the batches. ``Sender`` sends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack
from uuid import UUID

import numpy as np
import pyarrow as pa

from kafkaframes.client.accumulator import Accumulator, OpenBatch
from kafkaframes.client.batches import (
    NO_STAMP,
    Batch,
    BatchDelivery,
    BatchStamp,
    PartResult,
    ProducerIdentity,
    RecordMetadata,
    WrittenBatches,
    split_batches,
)
from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.group_offsets import CommittedOffset, GroupMember, check_offsets
from kafkaframes.client.interceptors import PRODUCER_HOOKS, AcknowledgementCallback, Interceptors, to_producer_record
from kafkaframes.client.loop import cancel_tasks, start_background_task, wait_for_event, warn_unclosed
from kafkaframes.client.metadata import (
    PartitionLike,
    PartitionMapping,
    TopicPartition,
    to_partition,
    to_partition_mapping,
)
from kafkaframes.client.metrics import MetricName, measure_ns
from kafkaframes.client.partitioners import configure_partitioner
from kafkaframes.client.producer_records import (
    CheckedRecord,
    Headers,
    RowPartitioner,
    check_record,
    check_table,
    list_target_topics,
    route_rows,
    to_result_table,
)
from kafkaframes.client.record_futures import LoopResults, OnDelivery, ThreadResults, pass_results
from kafkaframes.client.sender import Sender, accepts_format
from kafkaframes.client.settings import ProducerSettings, merge_options
from kafkaframes.client.telemetry.reporter import TelemetryMethods, TelemetryReporter
from kafkaframes.client.transactions import TransactionManager
from kafkaframes.errors import (
    BrokerError,
    EncodeError,
    ErrorCode,
    KafkaframesError,
    NetworkError,
    OptionError,
    to_broker_error,
)
from kafkaframes.protocol.api_keys import INIT_PRODUCER_ID, PRODUCE
from kafkaframes.protocol.spec.versions import Versions
from kafkaframes.records.build import build_batches, build_records, build_separate_batches, next_sequence
from kafkaframes.records.codecs import codec_of
from kafkaframes.records.fields import BatchFields
from kafkaframes.records.rows import make_rows_from_lists
from kafkaframes.wire.integers import MAX_INT32

if TYPE_CHECKING:
    from kafkaframes.client.options import ProducerOptions, Servers

Result = TypeVar("Result")
_MIN_PRODUCE_VERSION_BY_FORMAT: Final = {1: 2, 2: 3}  # first Produce versions with record formats 1 and 2


class PartitionRefusedError(Exception):
    """A partition cannot be added to the transaction. The record's future raises this error, but ``send`` does not."""

    def __init__(self, reason: KafkaframesError) -> None:
        self.reason = reason


class AsyncProducer(TelemetryMethods):
    """Writes records to topics.

    ``async with AsyncProducer("localhost:9092") as producer: ...``

    Records are collected in batches for ``linger_ms``, and retriable errors are retried for ``delivery_timeout_ms``.
    """

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ProducerOptions]) -> None:
        """Create a producer. The producer connects in ``start``, or when the first record is sent.

        Args:
            bootstrap_servers: ``host:port``; several separated by commas or in a list; or a dict of properties.
            options: settings (``ProducerOptions``), which override properties in ``bootstrap_servers``.

        Raises:
            OptionError: a setting is unknown, invalid or not supported.
        """
        self.settings = ProducerSettings.from_options(merge_options(bootstrap_servers, options))
        self._cluster = ClusterClient(self.settings)
        self._telemetry = TelemetryReporter(
            self._cluster, lambda: {"transactional_id": self.settings.transactional_id or ""}
        )
        self._context = self._cluster.context
        self._drain_event = asyncio.Event()
        settings = self.settings
        self._partitioner = configure_partitioner(settings.partitioner, ignores_keys=settings.partitioner_ignore_keys)
        self._interceptors = Interceptors.load_interceptors(settings.interceptors, PRODUCER_HOOKS)
        self._accumulator = Accumulator(
            settings, self._cluster.cluster, wake=self._drain_event.set, partitioner=self._partitioner
        )
        self._accumulator.results = LoopResults
        self._sender = Sender(self._cluster, self.settings, self._accumulator)
        self._drain_task: asyncio.Task[None] | None = None
        self._format = self.settings.record_format
        self._is_started = self._is_closed = False
        self._starting = asyncio.Lock()
        self._queueing = asyncio.Lock()  # keeps tables in the order of the calls
        self._transactions = TransactionManager(self._cluster, self._sender, self.settings)
        self._accumulator.may_open = self._transactions.has_partition
        self._call_on_loop: Callable[[Callable[[], object]], object] = lambda function: function()

    async def __aenter__(self) -> AsyncProducer:
        await self.start()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.close(flush=kind is None)

    async def start(self) -> None:
        """Connect, and get a producer id if the producer is idempotent or transactional.

        Raises:
            NetworkError: no broker responds within ``max_block_ms``.
            BrokerError: a broker rejects the client, its transactional id or its principal.
            OptionError: the broker does not support ``record_format``, idempotence or transactions.
        """
        self._context.check_context()
        if self._is_closed:
            raise NetworkError("this client was closed")
        if not self._is_started:
            await self._wait_up_to_max_block(self._start_once(), "the producer's start")

    async def _start_once(self) -> None:
        """Start the producer, unless it has started."""
        async with self._starting:
            if not self._is_started:
                await self._start()

    async def _start(self) -> None:
        limit_ms = max(self.settings.max_block_ms, self.settings.default_api_timeout_ms)
        connection = await self._cluster.retry_step(self._cluster.get_any_connection, timeout_ms=limit_ms)
        produce_versions = connection.ranges.get(PRODUCE, Versions.NONE)
        max_format = (
            2
            if produce_versions.highest >= _MIN_PRODUCE_VERSION_BY_FORMAT[2]
            else int(produce_versions.highest >= _MIN_PRODUCE_VERSION_BY_FORMAT[1])
        )
        self._format = max_format if self._format is None else min(self._format, 2)
        if self._format > max_format:
            raise OptionError(f"record_format {self._format}: the broker supports at most {max_format}")
        if self._format < 2 and not accepts_format(connection, self._format):
            reason = "the broker accepts format 2 only, as all brokers of Kafka 4.0 and later do (KIP-724)"
            raise OptionError(f"record_format {self._format}: {reason}; remove `record_format`")
        self._sender.record_format = self._format
        supports_idempotence = INIT_PRODUCER_ID in connection.ranges and self._format == 2
        is_idempotent = self.settings.enable_idempotence
        if (is_idempotent or self.settings.transactional_id is not None) and not supports_idempotence:
            raise OptionError("idempotence and transactions need brokers of 0.11 or later and record format 2")
        if self._transactions.has_joined:
            pass
        elif self.settings.transactional_id is not None or (
            is_idempotent is not False and supports_idempotence and self.settings.required_acks == -1
        ):
            with self._measure_transaction("txn-init"):
                await self._transactions.init_producer_id()
        self._sender.start()
        self._drain_task = start_background_task(self._run_drain_loop())
        self._is_started = True

    def __del__(self) -> None:
        if getattr(self, "_is_started", False) and not self._is_closed and self._context.is_own_process:
            warn_unclosed(self, self.settings.bootstrap_servers)

    async def close(self, *, flush: bool = True, timeout_ms: int | None = None) -> None:
        """Send the queued records (unless ``flush`` is False), and close the connections.

        Args:
            flush: whether to wait until every record has succeeded or failed.
            timeout_ms: longest wait for results, in milliseconds. Records without a result then fail. None waits
                without limit.
        """
        self._context.check_context()
        self._is_closed = True
        try:
            if flush:
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await self._flush()
        except TimeoutError:
            pass  # waiting records fail below
        finally:
            await cancel_tasks(self._drain_task)
            for open_batch in self._accumulator.close():
                open_batch.results.drop(NetworkError("the producer was closed before the record was sent"))
            await self._sender.close()
            await self._telemetry.close(None if timeout_ms is None else timeout_ms / 1000)
            await self._cluster.close()
            if self._interceptors is not None:
                self._interceptors.close()

    # ------------------------------------------------------------------------------------------------- one by one

    async def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record, and return a future of its ``RecordMetadata``.

        The call waits for metadata or memory if necessary, for at most ``max_block_ms``. The future fails with
        ``MaybeWrittenError`` if it is unknown whether the record was written, and with another error if it was not.

        Args:
            topic: topic name.
            value: bytes or text; None is a tombstone.
            key: bytes or text, which chooses the partition; None chooses the sticky partition.
            headers: dict or pairs of a name and bytes, text or None.
            partition: partition number; None lets ``partitioner`` choose.
            timestamp_ms: milliseconds since 1970; None uses the current time.

        Raises:
            BrokerError: the topic or the partition does not exist.
            EncodeError: an argument has a wrong type, or the record is larger than ``max_request_size``.
            NetworkError: the call has waited for ``max_block_ms``, or the producer was closed.
        """
        self._context.check_context()
        record = check_record(topic, value, key, headers, partition, timestamp_ms, self.settings.max_request_size)
        if self._interceptors is None:
            return await self._send_record(record, None)
        record, acknowledgement = self._intercept_record(self._interceptors, record, timestamp_ms, None)
        try:
            return await self._send_record(record, acknowledgement)
        except BaseException as error:
            acknowledgement.acknowledge(error)
            raise

    def _intercept_record(
        self,
        interceptors: Interceptors,
        record: CheckedRecord,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> tuple[CheckedRecord, AcknowledgementCallback]:
        """Return the record that interceptors send instead of ``record``, and the callback for its result."""
        max_request_size = self.settings.max_request_size
        result = interceptors.on_send(to_producer_record(record, timestamp_ms), max_request_size)
        return check_record(*result, max_request_size), AcknowledgementCallback(interceptors, result, on_delivery)

    async def _send_record(
        self, record: CheckedRecord, acknowledgement: AcknowledgementCallback | None
    ) -> asyncio.Future[RecordMetadata]:
        if record[4] is None and self._partitioner.function is not None:
            record = await self._choose_partition(record)
        while (future := self._accumulator.add(record, on_delivery=acknowledgement)) is None:
            try:
                await self._prepare_send(record)
            except PartitionRefusedError as error:
                future = asyncio.get_running_loop().create_future()
                future.set_exception(error.reason)
                if acknowledgement is not None:
                    acknowledgement.acknowledge(error.reason)
                break
        result: asyncio.Future[RecordMetadata] = future
        return result

    async def _choose_partition(self, record: CheckedRecord) -> CheckedRecord:
        """Return a record with the partition that the caller's partitioner chooses."""
        while (partitioned_record := self._accumulator.choose_partition(record)) is None:
            await self._load_topic_in_time(record[0])
        return partitioned_record

    async def _load_topic_in_time(self, topic: str) -> None:
        await self._wait_up_to_max_block(self._load_topic(topic), f"a record of topic {topic}")

    async def _load_topic(self, topic: str) -> None:
        """Start the producer, and wait for the metadata of a topic."""
        await self.start()
        with measure_ns(self._cluster.metrics.client["metadata-wait"]):
            await self._cluster.ensure_topic(topic, create=True)
        self._accumulator.update_topic(topic)

    async def _prepare_send(self, record: CheckedRecord, *, is_in_callback: bool = False) -> None:
        """Wait until the producer is started, and the topic, memory and transaction are ready for a record."""
        await self._wait_up_to_max_block(
            self._wait_until_sendable(record, is_in_callback), f"a record of topic {record[0]}"
        )

    async def _wait_up_to_max_block(self, wait: Coroutine[Any, Any, Result], action: str) -> Result:
        """Wait for a start, metadata or memory, for at most ``max_block_ms``.

        Raises:
            NetworkError: the timeout has expired. The error names the reason for the wait and the last error.
        """
        limit_ms = self.settings.max_block_ms
        self._cluster.last_error = None
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await wait
        except TimeoutError:
            cause = self._cluster.unreachable.describe_failures() or str(self._cluster.last_error or "")
            if not cause and self._accumulator.callback_bytes:
                size = self._accumulator.callback_bytes
                cause = f"{size} bytes of `buffer_memory` belong to records with an `on_delivery` that has not returned"
            reason = f"{action} has waited {limit_ms} ms for brokers, metadata or memory (`max_block_ms`)"
            raise NetworkError(f"{reason}: {cause}" if cause else reason) from None

    async def _wait_until_sendable(self, record: CheckedRecord, is_in_callback: bool) -> None:
        topic, key, _, headers, partition, _, size = record
        await self.start()
        if headers and self._format != 2:
            raise EncodeError(f"record format {self._format} does not support headers")
        await self._load_topic(topic)
        await self._wait_for_memory(size, is_in_callback=is_in_callback)
        target = self._accumulator.find_target(topic, key, partition)
        if target is None:
            count = len(self._cluster.cluster.partitions_of(topic))
            reason = f"topic {topic} has no partition {partition}; it has {count}"
            raise to_broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
        try:
            await self._transactions.prepare_partition(target)
        except KafkaframesError as error:
            self._transactions.fail_transaction(error)
            raise PartitionRefusedError(error) from None

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send one record without waiting for ``linger_ms``, and wait for the record's result.

        Args:
            topic: topic name.
            value: bytes or text; None is a tombstone.
            key: bytes or text, which chooses the partition; None chooses the sticky partition.
            headers: dict or pairs of a name and bytes, text or None.
            partition: partition number; None lets ``partitioner`` choose.
            timestamp_ms: milliseconds since 1970; None uses the current time.

        Raises:
            BrokerError: the topic or the partition does not exist, or a broker rejected the record.
            EncodeError: an argument has a wrong type, or the record is larger than ``max_request_size``.
            NetworkError: no response arrived in time. ``MaybeWrittenError`` means that the record may be in the log.
        """
        future = await self.send(topic, value, key, headers, partition, timestamp_ms)
        self._accumulator.end_linger_time()
        return await future

    async def _run_drain_loop(self) -> None:
        """Build batches that are full or older than ``linger_ms``, until this task is cancelled."""
        try:
            while True:
                self._drain_event.clear()
                now = time.monotonic()
                open_batches, due_time = self._accumulator.drain(now)
                self._build_open_batches(open_batches)
                await wait_for_event(self._drain_event, None if due_time is None else max(due_time - now, 0.0))
        finally:
            self._drop_open_batches(NetworkError("the producer was closed before the record was sent"))

    def _build_all_open_batches(self) -> None:
        """Build batches of all added records."""
        self._build_open_batches(self._accumulator.drain(None)[0])

    def _build_open_batches(self, open_batches: list[OpenBatch]) -> None:
        """Build batches and queue them at once, to keep the order of the records."""
        try:
            batches = self._encode_open_batches(open_batches) if open_batches else []
        except Exception as error:
            if len(open_batches) > 1:  # only the invalid records fail
                for open_batch in open_batches:
                    self._build_open_batches([open_batch])
                return
            self._transactions.fail_transaction(error)
            open_batches[0].results.set_error(error)
            return
        for open_batch, data in zip(open_batches, batches, strict=True):
            if isinstance(open_batch.results, ThreadResults):
                open_batch.results.size_bytes = open_batch.size
                open_batch.results.hold_memory = self._add_callback_bytes
            results = self._queue_batch(open_batch.target, data, len(open_batch.keys)).delivery.results
            results.add_done_callback(partial(pass_results, open_batch.results))

    def _add_callback_bytes(self, size: int) -> None:
        """Count the memory of records as used while their ``on_delivery`` waits or runs.

        A negative size releases memory.

        ``send`` therefore waits for a slow ``on_delivery``, and the number of pending calls is bounded. The thread of
        the callbacks calls this method to release memory.
        """
        self._accumulator.add_callback_bytes(size)
        if size < 0:
            self._call_on_loop(self._sender.release_space)

    def _encode_open_batches(self, open_batches: list[OpenBatch]) -> list[bytes]:
        """Encode batches together, because most of the cost of a small batch is Python's overhead."""
        settings, record_format = self.settings, self._format
        assert record_format is not None
        if any(map(any, (open_batch.headers for open_batch in open_batches))) and record_format < 2:
            raise EncodeError(f"record format {record_format} does not support headers")
        counts = [len(open_batch.keys) for open_batch in open_batches]
        rows = make_rows_from_lists(
            *(
                list(chain.from_iterable(column))
                for column in zip(*(each.columns for each in open_batches), strict=True)
            ),
            counts=counts,
        )
        starts = np.cumsum([0, *counts[:-1]])
        codec, level = codec_of(settings.compression_type), settings.compression_level
        fields = [BatchFields()] * len(counts)
        return build_batches(rows, starts, fields, record_format=record_format, codec=codec, level=level)

    def _drop_open_batches(self, reason: Exception) -> None:
        """Fail the records that are not part of a batch yet."""
        for open_batch in self._accumulator.drain(None)[0]:
            open_batch.results.drop(reason)

    # ---------------------------------------------------------------------------------------------------- columns

    async def send_arrow(self, table: pa.Table | pa.RecordBatch, *, topic: str | None = None) -> pa.Table:
        """Write a table's rows, and wait until the broker has them.

        Tables and records are sent in the order of the calls. Rows without partition and key are distributed over the
        partitions in runs of about ``batch_size`` bytes. If sending fails, some rows may have been written, and an open
        transaction can only be aborted.

        Args:
            table: rows with the columns ``key`` and ``value`` (binary or string). Optional columns are ``headers``
                (list of struct<key, value>), ``timestamp`` (milliseconds or an Arrow timestamp, rounded down to
                milliseconds; now if it is null or missing), ``partition`` and ``topic``. Other columns that readers
                return (``offset``, ``timestamp_type``, ...) are ignored.
            topic: topic of all rows; None if the table has a column ``topic``.

        Returns:
            A row for each written batch: topic, partition, base_offset, count. A batch that is larger than its leader
            accepts is split, and has a row for each part.

        Raises:
            EncodeError: a column is unknown, a value has a wrong type, or a row is larger than ``max_request_size``.
                If this error is raised, nothing is sent, and the error's ``path`` names the column and the row.
            BrokerError, NetworkError: error for the first batch that failed. Other batches of the table may have been
                written.
            OptionError: an interceptor has ``on_send`` or ``on_acknowledgement`` without the corresponding method for
                tables.
        """
        if self._interceptors is None:
            return await self._send_table(table, topic)
        table = self._intercept_table(self._interceptors, table, topic)
        try:
            result = await self._send_table(table, topic)
        except BaseException as error:
            self._interceptors.on_acknowledgement_table(None, error)
            raise
        self._interceptors.on_acknowledgement_table(result, None)
        return result

    def _intercept_table(
        self, interceptors: Interceptors, table: pa.Table | pa.RecordBatch, topic: str | None
    ) -> pa.Table | pa.RecordBatch:
        """Return the table that interceptors send instead of the given one. Any thread may call this method."""
        interceptors.require_table_hooks("send_arrow()", "on_send", "on_acknowledgement")
        check_table(table, self.settings.max_request_size)
        return interceptors.on_send_table(table, topic, self.settings.max_request_size)

    async def _send_table(self, table: pa.Table | pa.RecordBatch, topic: str | None) -> pa.Table:
        check_table(table, self.settings.max_request_size)
        async with self._queueing:
            await self.start()
            try:
                batches = await self._queue_table(table, topic)
            except BaseException as error:
                self._transactions.fail_transaction(
                    error if isinstance(error, Exception) else KafkaframesError(repr(error))
                )
                raise
        return to_result_table(batches, await wait_for_results(batches))

    async def _queue_table(self, table: pa.Table | pa.RecordBatch, topic: str | None) -> list[Batch]:
        """Build a table's batches and queue them."""
        batches: list[Batch] = []
        whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        topics = list_target_topics(whole, topic)
        await self._wait_up_to_max_block(self._load_topics(topics), f"a table of topic {', '.join(topics)}")
        if topic is not None and "topic" in whole.schema.names:
            whole = whole.drop_columns(["topic"])
        for name in topics:
            self._accumulator.update_topic(name)
        for target, rows in route_rows(whole, topics, self._create_row_partitioner(topics)):
            await self._wait_up_to_max_block(
                self._transactions.prepare_partition(target), f"a table of topic {target.topic}"
            )
            for data, count, stamp in self._build_batches(
                target.topic, rows, self._sender.sequencer.predict_stamp(target)
            ):
                batches.append(await self._wait_and_queue_batch(target, data, count, stamp))
        return batches

    def _create_row_partitioner(self, topics: list[str]) -> RowPartitioner:
        return RowPartitioner(
            self._partitioner,
            self._cluster.cluster,
            self._accumulator.choose_sticky_partitions,
            self._get_max_batch_bytes(topics),
        )

    async def _load_topics(self, topics: list[str]) -> None:
        for name in topics:
            await self._cluster.ensure_topic(name, create=True)

    def _get_max_batch_bytes(self, topics: list[str]) -> int:
        """Return the size of the largest batch of these topics, in bytes.

        ``batch_size=0`` (no batching) counts as 1 byte, so that each batch has one record.
        """
        now = time.monotonic()
        limits = [limit for name in topics if (limit := self._sender.limits.get_max_batch_bytes(name, now)) is not None]
        return max(min(self.settings.batch_size, self.settings.max_request_size, *limits), 1)

    async def send_batches(self, partition: PartitionLike, data: bytes) -> WrittenBatches:
        """Write format 2 batches unchanged except for new offsets and sequence numbers, and wait for the results.

        A batch that is larger than the leader accepts is decoded, and its records are written in smaller batches.

        Args:
            partition: target partition.
            data: complete batches, one after the other.

        Returns:
            The base offset of each batch: a list. The list's ``divided_count`` is the number of batches that were
            split.

        Raises:
            BrokerError: a broker rejected a batch; other records may have been written.
            NetworkError: the result of a batch is missing; other records may have been written.
            CorruptRecordError: ``data`` is not complete batches of format 2. Nothing is written.
            OptionError: an interceptor needs records, which this method does not decode.
        """
        if self._interceptors is not None:
            remedy = "use `send` or `send_arrow`"
            self._interceptors.reject_raw_batches("send_batches()", remedy, "on_send", "on_acknowledgement")
        target = to_partition(partition)
        await self.start()
        batches = [await self._wait_and_queue_batch(target, batch, count) for batch, count in split_batches(data)]
        results = await wait_for_results(batches)
        divided_count = sum(batch.delivery.is_split for batch in batches)
        return WrittenBatches([parts[0].base_offset for parts in results], divided_count=divided_count)

    def _build_batches(
        self, topic: str, rows: pa.RecordBatch, stamp: BatchStamp
    ) -> Iterator[tuple[bytes, int, BatchStamp]]:
        """Build batches, or message sets of about the batch size (formats 0 and 1), each with its number of records."""
        assert self._format is not None
        settings = self.settings
        codec, level, size = settings.compression_type, settings.compression_level, self._get_max_batch_bytes([topic])
        if self._format == 2:
            fields = BatchFields(
                producer_id=stamp.producer.producer_id,
                producer_epoch=stamp.producer.epoch,
                base_sequence=stamp.base_sequence,
                transactional=stamp.transactional,
            )
            for data, count in build_separate_batches(rows, codec=codec, level=level, batch_bytes=size, fields=fields):
                yield data, count, stamp
                if stamp.base_sequence >= 0:
                    stamp = stamp._replace(base_sequence=next_sequence(stamp.base_sequence, count))
            return
        row_bytes = max(rows.nbytes // max(rows.num_rows, 1), 1)
        step = max(size // row_bytes, 1)
        for first in range(0, rows.num_rows, step):
            part = rows.slice(first, step)
            data = build_records(part, record_format=self._format, codec=codec, level=level, batch_bytes=MAX_INT32)
            yield data, part.num_rows, stamp

    # ------------------------------------------------------------------------------------------------------ common

    async def _wait_and_queue_batch(
        self, target: TopicPartition, data: bytes, count: int, stamp: BatchStamp = NO_STAMP
    ) -> Batch:
        await self._wait_up_to_max_block(self._wait_for_capacity(target, len(data)), f"a batch of {target}")
        self._build_all_open_batches()  # earlier records must precede this batch
        return self._queue_batch(target, data, count, stamp)

    async def _wait_for_capacity(self, target: TopicPartition, size: int) -> None:
        await self._wait_for_memory(size)
        await self._transactions.prepare_partition(target)

    async def _wait_for_memory(self, size: int, *, is_in_callback: bool = False) -> None:
        """Wait until a batch or record fits into ``buffer_memory``. Added records are sent in the meantime."""
        if not self._sender.has_space(size, is_in_callback=is_in_callback):
            self._build_all_open_batches()
            await self._sender.wait_for_space(size, is_in_callback=is_in_callback)

    def _queue_batch(self, target: TopicPartition, data: bytes, count: int, stamp: BatchStamp = NO_STAMP) -> Batch:
        delivery = BatchDelivery(asyncio.get_running_loop().create_future(), count)
        batch = Batch(target, data, count, time.monotonic(), delivery, header_stamp=stamp)
        self._sender.enqueue(batch)
        return batch

    async def flush(self) -> None:
        """Wait until every queued record and table has succeeded or failed."""
        with measure_ns(self._cluster.metrics.client["flush"]):
            await self._flush()

    async def _flush(self) -> None:
        """Build all open batches, and wait until every queued batch has a result."""
        self._context.check_context()
        self._build_all_open_batches()
        async with self._queueing:  # separate calls queue tables one after the other
            pass
        await self._sender.flush()

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Brokers may create the topic (``auto.create.topics.enable``).

        Args:
            topic: topic name.

        Raises:
            BrokerError: the topic does not exist, or the principal may not describe it.
            NetworkError: no broker responds within ``max_block_ms``.
        """
        await self.start()
        await self._wait_up_to_max_block(self._load_topics([topic]), f"a look-up of topic {topic}")
        return self._cluster.cluster.partitions_of(topic)

    def metrics(self) -> dict[MetricName, float]:
        """Return the producer's metrics under Java's names: connections, requests, records, memory."""
        return self._cluster.metrics.values()

    async def topic_id(self, topic: str) -> UUID:
        """Return the id of a topic (KIP-516).

        Args:
            topic: topic name.

        Returns:
            The id; the nil UUID if the topic does not exist, or brokers have no topic ids (before Kafka 2.8).
        """
        await self.start()
        with contextlib.suppress(BrokerError):
            await self._cluster.ensure_topic(topic)
        return self._cluster.cluster.topic_id(topic)

    # ------------------------------------------------------------------------------------------------ transactions

    @property
    def identity(self) -> ProducerIdentity:
        """The producer id and epoch; -1 if the producer has none."""
        return self._sender.sequencer.producer

    async def begin_transaction(self) -> None:
        """Begin a transaction (KIP-98).

        Raises:
            OptionError: the producer has no ``transactional_id``, or a transaction is open.
            BrokerError: the producer was fenced.
        """
        await self.start()
        with self._measure_transaction("txn-begin"):
            self._transactions.begin_transaction()

    async def commit_transaction(self) -> None:
        """Send the queued records, wait for their results, and commit the transaction.

        Raises:
            BrokerError: a record failed and the transaction must be aborted, or the producer was fenced
                (``ProducerFencedError``) and must be closed.
            MaybeWrittenError: it is unknown whether the transaction was committed. The call can be repeated.
        """
        with self._measure_transaction("txn-commit"):
            await self._flush()
            await self._transactions.end_transaction(commit=True)

    async def abort_transaction(self) -> None:
        """Abort the transaction.

        The transaction's queued records are dropped, and read_committed consumers never return its records.

        Raises:
            OptionError: no transaction is open.
            BrokerError: the coordinator rejected the abort, or the producer was fenced.
        """
        self._context.check_context()
        reason = KafkaframesError("the transaction was aborted before the record was sent")
        self._drop_open_batches(reason)
        self._sender.fail_waiting_batches(reason)
        with self._measure_transaction("txn-abort"):
            await self._flush()  # tables that are queued belong to this transaction, not to the next
            await self._sender.wait_for_answers()  # a batch that is written after the abort would start a transaction
            await self._transactions.end_transaction(commit=False)

    async def send_offsets_to_transaction(
        self, offsets: PartitionMapping[CommittedOffset | int], group: GroupMember | str
    ) -> None:
        """Commit offsets of a consumer group with this transaction (KIP-447).

        Args:
            offsets: for each partition, the offset of the next record to read, or a ``CommittedOffset``.
            group: id of the group, or a consumer's ``group_metadata()``. With ``group_metadata()``, the coordinator
                rejects former members.

        Raises:
            OptionError: no transaction is open, or an offset is negative.
            BrokerError: the consumer is not a member of the group any more, or the principal may not read the group.
        """
        with self._measure_transaction("txn-send-offsets"):
            await self._transactions.send_offsets(check_offsets(to_partition_mapping(offsets)), group)

    @contextlib.contextmanager
    def _measure_transaction(self, sensor: str) -> Iterator[None]:
        """Record the duration of a call of a transactional producer in the metrics."""
        if self.settings.transactional_id is None:
            yield
            return
        with measure_ns(self._cluster.metrics.client[sensor]):
            yield


async def wait_for_results(batches: list[Batch]) -> list[list[PartResult]]:
    """Wait for all batches.

    Return the parts of each batch (one, unless the batch was split), or raise the first error.
    """
    results = await asyncio.gather(*(batch.delivery.results for batch in batches))
    for part in chain.from_iterable(results):
        if part.error is not None:
            raise part.error
    return results
