"""The producer, on asyncio: records one by one, Arrow tables by kernels, or whole batches as bytes.

One by one, records gather per partition for ``linger_ms`` or until ``batch_size``; tables are cut into batches at
once. Either way batches are built and compressed by ``records.build`` and go out through ``Sender``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.client.batches import NOT_STAMPED, Batch, Numbered, Producer, RecordMetadata, Stamp, split
from kafkaframes.client.cluster import ClusterClient, fail
from kafkaframes.client.loop import background, warn_unclosed
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.record_fields import Headers, bytes_of, headers_of, partition_number, timestamp_of, topic_of
from kafkaframes.client.sender import PRODUCE, Sender
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.client.transactions import Transactions
from kafkaframes.errors import EncodeError, ErrorCode, KafkaframesError, OptionError
from kafkaframes.protocol.spec.versions import Versions
from kafkaframes.records.build import BatchFields, build_apart, build_records, next_sequence
from kafkaframes.records.partitioner import partition_of, partitions_of_rows

_INIT_PRODUCER_ID: Final = 22
_OVERHEAD_OF_A_RECORD: Final = 64
_WHOLE: Final = 2**31 - 1
_FIRST_OF_FORMAT: Final = {1: 2, 2: 3}  # the Produce versions that brought record formats 1 and 2


@dataclass(slots=True)
class _Gathering:
    """Records of one partition that become one batch."""

    since: float
    rows: list[dict[str, Any]] = field(default_factory=list)
    futures: list[asyncio.Future[RecordMetadata]] = field(default_factory=list)
    size: int = 0


class AsyncProducer:
    """Writes records to topics. ``async with AsyncProducer("localhost:9092") as producer: ...``"""

    def __init__(self, bootstrap_servers: str | Sequence[str] | None = None, **settings: Any) -> None:
        """Take settings as keywords (``linger_ms=20``) or Kafka's properties (``**{"linger.ms": 20}``)."""
        given = settings if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers, **settings}
        self.settings = ProducerSettings.of(given)
        self._cluster = ClusterClient(self.settings)
        self._sender = Sender(self._cluster, self.settings)
        self._gathering: dict[TopicPartition, _Gathering] = {}
        self._sticky: dict[str, int] = {}
        self._lingering: asyncio.Task[None] | None = None
        self._gathered = asyncio.Event()
        self._format = self.settings.record_format
        self._is_started = self._is_closed = False
        self.transactions = Transactions(self._cluster, self._sender, self.settings)

    async def __aenter__(self) -> AsyncProducer:
        await self.start()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.close(flush=kind is None)

    async def start(self) -> None:
        """Connect, and get a producer id where one is needed.

        Raises:
            NetworkError, BrokerError: no broker can be reached, or it refuses us.
            OptionError: what is asked for is more than the broker can.
        """
        if self._is_started:
            return
        connection = await self._cluster.retried(self._cluster.any_connection)
        served = connection.ranges.get(PRODUCE, Versions.NONE)
        broker_can = 2 if served.highest >= _FIRST_OF_FORMAT[2] else int(served.highest >= _FIRST_OF_FORMAT[1])
        self._format = broker_can if self._format is None else min(self._format, 2)
        if self._format > broker_can:
            raise OptionError(f"record_format {self._format}: the broker's newest is {broker_can}")
        if self._format < 2 and served.lowest > _FIRST_OF_FORMAT.get(self._format + 1, 0) - 1:
            takes = f"the broker takes Produce {served.lowest} and later, format 2"
            raise OptionError(f"record_format {self._format}: {takes}")
        self._sender.record_format = self._format
        can_number = _INIT_PRODUCER_ID in connection.ranges and self._format == 2
        wanted = self.settings.enable_idempotence
        if (wanted or self.settings.transactional_id is not None) and not can_number:
            raise OptionError("idempotence and transactions need brokers of 0.11 or later and record format 2")
        if self.transactions.has_joined:
            pass
        elif self.settings.transactional_id is not None or (
            wanted is not False and can_number and self.settings.required_acks == -1
        ):
            await self.transactions.init_producer_id()
        self._sender.start()
        self._lingering = background(self._linger())
        self._is_started = True

    def __del__(self) -> None:
        if getattr(self, "_is_started", False) and not self._is_closed:
            warn_unclosed(self, self.settings.bootstrap_servers)

    async def close(self, *, flush: bool = True) -> None:
        """Send what waits (unless ``flush`` is False) and end."""
        self._is_closed = True
        try:
            if flush and self._is_started:
                await self.flush()
        finally:
            if self._lingering is not None:
                self._lingering.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._lingering
            await self._sender.close()
            await self._cluster.close()

    # ------------------------------------------------------------------------------------------------- one by one

    async def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue one record; return a future of where it went.

        Waits where ``buffer_memory`` is full, or a topic's partitions are not known yet. The future ends in
        ``MaybeWrittenError`` if no answer says whether the record was written; in any other error it was not.

        Args:
            topic: its name.
            value: bytes or text; None is a tombstone.
            key: as ``value``; chooses the partition.
            headers: a dict, or pairs of a name and bytes, text or None.
            partition: its number; without it the key decides, and without a key chance.
            timestamp_ms: milliseconds since 1970; now if None.

        Raises:
            BrokerError: there is no such topic or partition.
            EncodeError: an argument is of a wrong type; the record is larger than ``max_request_size``, or does not
                fit into the format.
        """
        topic_of(topic)
        row: dict[str, Any] = {"key": bytes_of("key", key), "value": bytes_of("value", value)}
        row["timestamp"] = int(time.time() * 1000) if timestamp_ms is None else timestamp_of(timestamp_ms)
        row["headers"] = headers_of(headers)
        number = None if partition is None else partition_number(partition)
        size = self._checked_size(row)
        await self.start()
        if row["headers"] and self._format != 2:
            raise EncodeError(f"record format {self._format} has no headers")
        await self._cluster.topic(topic, create=True)
        if not self._sender.has_space(size):
            await self._sender.space(size)
        target = TopicPartition(topic, self._partition_for(topic, row["key"], number))
        if self._is_full(target, size) and number is None and row["key"] is None:
            self._close_batch(target)
            self._sticky.pop(topic, None)  # the next batch goes to another partition (KIP-480)
            target = TopicPartition(topic, self._partition_for(topic, None, None))
        try:
            await self.transactions.before_batch(target)
        except KafkaframesError as error:
            self._sender.sequencer.spoil()
            refused: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused
        return self._gather(target, row, size)

    def _checked_size(self, row: Mapping[str, Any]) -> int:
        """Return about how many bytes a record takes, and refuse one that fits into no request."""
        size = len(row["key"] or b"") + len(row["value"] or b"") + _OVERHEAD_OF_A_RECORD
        size += sum(len(name) + len(content or b"") for name, content in row["headers"])
        if size > self.settings.max_request_size:
            raise EncodeError(f"a record of about {size} bytes; max_request_size is {self.settings.max_request_size}")
        return size

    def _is_full(self, target: TopicPartition, size: int) -> bool:
        gathering = self._gathering.get(target)
        return gathering is not None and gathering.size + size > self.settings.batch_size

    def _gather(self, target: TopicPartition, row: dict[str, Any], size: int) -> asyncio.Future[RecordMetadata]:
        """Put a record to those that become its partition's next batch; a full one is closed first."""
        if self._is_full(target, size):
            self._close_batch(target)
        gathering = self._gathering.get(target)
        if gathering is None:
            gathering = self._gathering[target] = _Gathering(time.monotonic())
            self._gathered.set()
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        gathering.rows.append(row)
        gathering.futures.append(future)
        gathering.size += size
        self._sender.gathered_bytes += size
        return future

    async def send_and_wait(self, topic: str, value: bytes | str | None = None, **rest: Any) -> RecordMetadata:
        """Send one record and wait for where it went. Takes what ``send`` takes."""
        future = await self.send(topic, value, **rest)
        self._close_all_soon()
        return await future

    def _close_all_soon(self) -> None:
        for gathering in self._gathering.values():
            gathering.since = 0.0
        self._gathered.set()

    def _partition_for(self, topic: str, key: bytes | None, partition: int | None) -> int:
        count = len(self._cluster.cluster.partitions_of(topic))
        if partition is not None:
            if TopicPartition(topic, partition) not in self._cluster.cluster.partitions_of(topic):
                raise fail(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} has no partition {partition}, it has {count}"
                )
            return partition
        if key is not None:
            return partition_of(key, count)
        return self._sticky.setdefault(topic, int(np.random.default_rng().integers(count)))

    async def _linger(self) -> None:
        """Close what has gathered for ``linger_ms``; what is left when this task is ended has a result, too."""
        try:
            await self._close_lingering(self.settings.linger_ms / 1000)
        finally:
            self._drop_gathered()

    async def _close_lingering(self, linger_s: float) -> None:
        while True:
            now = time.monotonic()
            for target in [target for target, found in self._gathering.items() if found.since + linger_s <= now]:
                self._close_batch(target)
            pause = min((found.since + linger_s - now for found in self._gathering.values()), default=None)
            self._gathered.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if pause is None else max(pause, 0.0)):
                    await self._gathered.wait()

    def _close_batch(self, target: TopicPartition) -> None:
        """Make a batch of what has gathered, and queue it at once, so that nothing overtakes it."""
        gathering = self._gathering.pop(target)
        self._sender.gathered_bytes -= gathering.size
        try:
            data = self._built(_columns(gathering.rows, with_headers=self._format == 2), _WHOLE)
        except Exception as error:  # nobody but who waits for these records can be told
            self._sender.sequencer.spoil()
            for future in gathering.futures:
                if not future.done():
                    future.set_exception(error)
            return

        def settle(done: asyncio.Future[tuple[int, int]]) -> None:
            error = None if done.cancelled() else done.exception()
            for row, future in enumerate(gathering.futures):
                if future.done():
                    continue
                if error is not None or done.cancelled():
                    future.set_exception(error or KafkaframesError("cancelled"))
                    continue
                base, append_time = done.result()
                timestamp = gathering.rows[row]["timestamp"] if append_time < 0 else append_time
                offset = -1 if base < 0 else base + row
                future.set_result(RecordMetadata(target.topic, target.partition, offset, timestamp))

        self._queued(target, data, len(gathering.rows)).done.add_done_callback(settle)

    # ---------------------------------------------------------------------------------------------------- columns

    async def send_arrow(self, table: pa.Table | pa.RecordBatch, *, topic: str | None = None) -> pa.Table:
        """Write a table's rows, and wait until the broker has them.

        Args:
            table: ``key`` and ``value`` (binary or string), and where they are there ``headers`` (list of
                struct<key, value>), ``timestamp`` (ms or an Arrow timestamp; null and absent are now), ``partition``,
                and ``topic``.
            topic: of all rows.

        Returns:
            One row per batch that was written: topic, partition, base_offset, count.

        Raises:
            EncodeError: a row does not fit; ``path`` has its place.
            BrokerError, NetworkError: the first batch that was refused; others may have been written.
        """
        await self.start()
        batches: list[Batch] = []
        for place, rows in await self._routed(table, topic):
            await self.transactions.before_batch(place)
            for data, count, stamp in self._pieces(rows, self._sender.sequencer.next_stamp(place)):
                batches.append(await self._put(place, data, count, stamp))
        results = await asyncio.gather(*(batch.done for batch in batches), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return _written(batches, [result[0] for result in results if not isinstance(result, BaseException)])

    async def send_batches(self, partition: TopicPartition, data: bytes) -> list[int]:
        """Write format 2 batches as they are (offsets and, with a producer id, sequences are given anew); wait.

        Returns:
            The base offset of each.
        """
        await self.start()
        batches = [await self._put(partition, piece, count) for piece, count in split(data)]
        return [base for base, _ in await asyncio.gather(*(batch.done for batch in batches))]

    async def send_numbered(self, parts: Iterable[Numbered]) -> None:
        """Write built batches in a transaction that this producer has joined, under sequences given to it; wait.

        Those who join one transaction may write to one partition so, one after the other: whoever shares it gives out
        the sequences, the next ones only when these have been acknowledged, and adds the partitions
        (``add_to_transaction``).

        Raises:
            OptionError: no transaction was joined; batches for a partition are under way.
            BrokerError, NetworkError: the first batch that was refused; others may have been written.
        """
        if not self.transactions.has_joined:
            raise OptionError("sequences are given to those who have joined a transaction: join_transaction first")
        await self.start()
        batches: list[Batch] = []
        for place, first_sequence, built in parts:
            self._sender.sequencer.set_sequence(place, first_sequence)
            for data, count in built:
                await self._sender.space(len(data))
                batches.append(self._queued(place, data, count))
        for result in await asyncio.gather(*(batch.done for batch in batches), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _routed(self, table: Any, topic: str | None) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        rows = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        if topic is None and "topic" not in rows.schema.names:
            raise OptionError("no topic: give topic=, or a column topic")
        topics = [topic] if topic is not None else pc.unique(rows.column("topic")).to_pylist()
        found: list[tuple[TopicPartition, pa.RecordBatch]] = []
        for name in topics:
            if name is None:
                raise EncodeError("a row has no topic").within("topic")
            await self._cluster.topic(name, create=True)
            part = rows if topic is not None else rows.filter(pc.equal(rows.column("topic"), name))
            for piece in part.combine_chunks().to_batches():
                found += self._by_partition(name, piece)
        return found

    def _by_partition(self, topic: str, rows: pa.RecordBatch) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        """Share a topic's rows out among its partitions; rows that say nothing stick together."""
        count = len(self._cluster.cluster.partitions_of(topic))
        partitions, wrong = partitions_of_rows(rows, count)
        if wrong is not None:
            raise fail(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"row {wrong}: topic {topic} has no partition {partitions[wrong]}, it has {count}",
            )
        partitions[partitions < 0] = np.random.default_rng().integers(count)
        kept = _with_times(rows.select([name for name in _ROW_COLUMNS if name in rows.schema.names]))
        if count == 1 or (len(partitions) and (partitions == partitions[0]).all()):
            return [(TopicPartition(topic, int(partitions[0])), kept)] if len(partitions) else []
        order = np.argsort(partitions, kind="stable")
        edges = np.flatnonzero(np.diff(partitions[order], prepend=-1, append=-1))
        return [
            (TopicPartition(topic, int(partitions[order[first]])), kept.take(pa.array(order[first:end])))
            for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ]

    def _pieces(self, rows: pa.RecordBatch, stamp: Stamp) -> Iterator[tuple[bytes, int, Stamp]]:
        """Build batches, or message sets of about a batch's size (formats 0 and 1), each with its count of records."""
        if self._format == 2:
            fields = BatchFields(
                producer_id=stamp.producer.producer_id,
                producer_epoch=stamp.producer.epoch,
                base_sequence=stamp.base_sequence,
                transactional=stamp.transactional,
            )
            settings = self.settings
            codec, level, size = settings.compression_type, settings.compression_level, settings.batch_size
            for data, count in build_apart(rows, codec=codec, level=level, batch_bytes=size, fields=fields):
                yield data, count, stamp
                if stamp.base_sequence >= 0:
                    stamp = stamp._replace(base_sequence=next_sequence(stamp.base_sequence, count))
            return
        row_bytes = max(rows.nbytes // max(rows.num_rows, 1), 1)
        step = max(self.settings.batch_size // row_bytes, 1)
        for first in range(0, rows.num_rows, step):
            piece = rows.slice(first, step)
            yield self._built(piece, _WHOLE), piece.num_rows, stamp

    # ------------------------------------------------------------------------------------------------------ common

    def _built(self, columns: Mapping[str, Any] | pa.RecordBatch, batch_bytes: int) -> bytes:
        settings = self.settings
        assert self._format is not None
        return build_records(
            columns,
            record_format=self._format,
            codec=settings.compression_type,
            level=settings.compression_level,
            batch_bytes=batch_bytes,
        )

    async def _put(self, place: TopicPartition, data: bytes, count: int, stamp: Stamp = NOT_STAMPED) -> Batch:
        await self._sender.space(len(data))
        await self.transactions.before_batch(place)
        if place in self._gathering:  # what was sent before stays before it
            self._close_batch(place)
        return self._queued(place, data, count, stamp)

    def _queued(self, target: TopicPartition, data: bytes, count: int, stamp: Stamp = NOT_STAMPED) -> Batch:
        done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        batch = Batch(target, data, count, time.monotonic(), done, stamp)
        self._sender.put(batch)
        return batch

    def _drop_gathered(self) -> None:
        """Cancel what is in no batch yet."""
        for gathering in self._gathering.values():
            for future in gathering.futures:
                future.cancel()
        self._gathering.clear()
        self._sender.gathered_bytes = 0

    async def flush(self) -> None:
        """Wait until everything that was sent has an answer, good or bad."""
        for target in list(self._gathering):
            self._close_batch(target)
        await self._sender.flush()

    async def partitions_for(self, topic: str) -> list[int]:
        """List the partitions of a topic."""
        await self.start()
        await self._cluster.topic(topic, create=True)
        return [one.partition for one in self._cluster.cluster.partitions_of(topic)]

    # ------------------------------------------------------------------------------------------------ transactions

    @property
    def producer(self) -> Producer:
        """Producer id and epoch, -1 where there are none."""
        return self._sender.sequencer.producer

    def share_transaction(self) -> Producer:
        """Return what others need to join the transaction that is open; committing it commits what they wrote, too."""
        return self.transactions.share()

    async def add_to_transaction(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction that is open, for those who have joined it (``send_numbered``)."""
        await self.transactions.add(partitions)

    async def join_transaction(self, producer: Producer) -> None:
        """Write in a transaction that another producer of the same ``transactional_id`` has begun, and will end.

        Nothing is fenced off. Sequences begin at 0 in each partition, so no two of those who join one transaction may
        write to one partition: the broker would take the second for a repetition of the first. Where brokers tell
        what is in a transaction (3.0 and later), the second is refused with BrokerError.

        Args:
            producer: what ``share_transaction`` gave to the one who began it.
        """
        if self.settings.transactional_id is None:
            raise OptionError("transactions need transactional_id")
        self.transactions.join(producer)
        await self.start()

    async def begin_transaction(self) -> None:
        """Begin a transaction (KIP-98)."""
        await self.start()
        self.transactions.begin()

    async def commit_transaction(self) -> None:
        """Send what waits and commit.

        Raises:
            BrokerError: the transaction must be aborted, or (fenced) this producer is of no more use.
        """
        await self.flush()
        await self.transactions.end(commit=True)

    async def abort_transaction(self) -> None:
        """Abort: what was written in this transaction is never read with read_committed."""
        self._drop_gathered()
        self._sender.end_waiting(KafkaframesError("the transaction was aborted before this was sent"))
        await self._sender.flush()
        await self.transactions.end(commit=False)

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, int], group: Any) -> None:
        """Commit a group's offsets with this transaction (KIP-447).

        Args:
            offsets: the next offset to read of each partition.
            group: a group id, or a consumer's ``group_metadata()``.
        """
        await self.transactions.send_offsets(offsets, group)


_ROW_COLUMNS: Final = ("key", "value", "headers", "timestamp")


def _with_times(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Give rows without a timestamp that of now."""
    now = int(time.time() * 1000)
    if "timestamp" not in rows.schema.names:
        column = pa.array(np.full(rows.num_rows, now, np.int64))
        return pa.RecordBatch.from_arrays([*rows.columns, column], names=[*rows.schema.names, "timestamp"])
    column = rows.column("timestamp")
    if not column.null_count:
        return rows
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    is_instant = pa.types.is_timestamp(column.type)
    value = pa.scalar(now, pa.timestamp("ms", tz=column.type.tz)).cast(column.type) if is_instant else now
    arrays = [pc.fill_null(column, value) if name == "timestamp" else rows.column(name) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def _columns(rows: Iterable[Mapping[str, Any]], *, with_headers: bool) -> dict[str, Any]:
    rows = list(rows)
    columns: dict[str, Any] = {
        "key": pa.array([row["key"] for row in rows], pa.binary()),
        "value": pa.array([row["value"] for row in rows], pa.binary()),
        "timestamp": pa.array([row["timestamp"] for row in rows], pa.int64()),
    }
    if with_headers and any(row["headers"] for row in rows):
        columns["headers"] = [row["headers"] for row in rows]
    return columns


def _written(batches: list[Batch], bases: list[int]) -> pa.Table:
    return pa.table(
        {
            "topic": pa.array([one.partition.topic for one in batches], pa.string()),
            "partition": pa.array([one.partition.partition for one in batches], pa.int32()),
            "base_offset": pa.array(bases, pa.int64()),
            "count": pa.array([one.count for one in batches], pa.int64()),
        }
    )
