"""The consumer, on asyncio: Arrow batches straight from fetched bytes, records one by one, or the bytes themselves.

``assign`` reads the partitions that the caller names; ``subscribe`` joins a group that shares partitions out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kafkaframes.client import group_offsets, offsets
from kafkaframes.client.cluster import ClusterClient, fail
from kafkaframes.client.fetched import Fetched
from kafkaframes.client.fetcher import Fetcher
from kafkaframes.client.group_offsets import CommittedOffset, GroupMember
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.offsets import EARLIEST, LATEST, OffsetAndTimestamp
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import BrokerError, KafkaframesError, OptionError
from kafkaframes.records.columns import DEFAULT_COLUMNS, ReadOptions
from kafkaframes.records.memory import Recycler

PLACE_COLUMNS: Final = {"topic": pa.string(), "partition": pa.int32()}
_OUT_OF_RANGE: Final = 1


class ConsumerRecord(NamedTuple):
    """One record, as ``poll`` gives it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class AsyncConsumer:
    """Reads records of topics. ``async with AsyncConsumer("localhost:9092") as consumer: ...``"""

    def __init__(self, bootstrap_servers: str | Sequence[str] | None = None, **settings: Any) -> None:
        """Take settings as keywords (``group_id="g"``) or Kafka's properties (``**{"group.id": "g"}``)."""
        given = settings if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers, **settings}
        self.settings = ConsumerSettings.of(given)
        self._cluster = ClusterClient(self.settings)
        self._fetcher = Fetcher(self._cluster, self.settings, out_of_range=self._lost)
        self._to_reset: set[TopicPartition] = set()
        self._errors: list[KafkaframesError] = []
        self._rest: list[ConsumerRecord] = []
        self._memory = Recycler()
        self._committed_at = time.monotonic()

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Commit (where that is automatic) and end."""
        try:
            if self._commits_by_itself:
                await self.commit()
        except KafkaframesError:
            pass  # as Kafka's consumer: a commit at the end is an attempt
        finally:
            await self._fetcher.close()
            await self._cluster.close()

    # ------------------------------------------------------------------------------------------------- assignment

    async def assign(
        self, partitions: Iterable[TopicPartition | tuple[str, int]] | Mapping[TopicPartition, int]
    ) -> None:
        """Read these partitions and no others.

        Args:
            partitions: with a mapping, from these offsets on; else from where the group has committed, or from where
                ``auto_offset_reset`` says.
        """
        wanted = [_partition(one) for one in partitions]
        for known in set(self._fetcher.positions) - set(wanted):
            self._fetcher.remove(known)
        self._rest.clear()
        self._to_reset &= set(wanted)
        if isinstance(partitions, Mapping):
            for partition, offset in zip(wanted, partitions.values(), strict=True):
                self._fetcher.set_position(partition, offset)
        else:
            await self._find_positions([one for one in wanted if one not in self._fetcher.positions])
        self._fetcher.start()

    def assignment(self) -> list[TopicPartition]:
        """List the partitions that are read."""
        return list(self._fetcher.positions)

    async def _find_positions(self, partitions: list[TopicPartition]) -> None:
        found: Mapping[TopicPartition, CommittedOffset] = {}
        if self.settings.group_id is not None and partitions:
            stable = self.settings.isolation_level == "read_committed"
            found = await group_offsets.committed(self._cluster, self.settings.group_id, partitions, stable=stable)
        for partition in partitions:
            if partition in found:
                self._fetcher.set_position(partition, found[partition].offset)
        await self._reset([one for one in partitions if one not in found])

    async def _reset(self, partitions: list[TopicPartition]) -> None:
        """Begin where ``auto_offset_reset`` says.

        Raises:
            BrokerError: it says none.
        """
        if not partitions:
            return
        policy = self.settings.auto_offset_reset
        if policy == "none":
            names = ", ".join(map(str, partitions))
            raise fail(_OUT_OF_RANGE, f"no offset to read {names} from, and auto_offset_reset is none")
        which = EARLIEST if policy == "earliest" else LATEST
        committed = self.settings.isolation_level == "read_committed"
        found = await offsets.ends(self._cluster, partitions, which, read_committed=committed)
        for partition, offset in found.items():
            self._fetcher.set_position(partition, offset)

    def _lost(self, partition: TopicPartition, offset: int) -> None:
        if self.settings.auto_offset_reset == "none":
            self._errors.append(fail(_OUT_OF_RANGE, f"{partition} has no offset {offset}"))
        else:
            self._to_reset.add(partition)

    # --------------------------------------------------------------------------------------------------- positions

    def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """Go on from ``offset``.

        Raises:
            OptionError: the partition is not assigned, or the offset is negative.
        """
        known = self._assigned(partition)
        if offset < 0:
            raise OptionError(f"offset {offset} of {known} is negative")
        self._fetcher.set_position(known, offset)
        self._rest = [one for one in self._rest if (one.topic, one.partition) != (known.topic, known.partition)]

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the first offset, of all partitions if none are named."""
        await self._seek_to(EARLIEST, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on from the end, of all partitions if none are named."""
        await self._seek_to(LATEST, partitions)

    async def _seek_to(self, which: int, partitions: Sequence[TopicPartition]) -> None:
        committed = self.settings.isolation_level == "read_committed"
        wanted = [self._assigned(one) for one in partitions or self.assignment()]
        found = await offsets.ends(self._cluster, wanted, which, read_committed=committed)
        for partition, offset in found.items():
            self.seek(partition, offset)

    def position(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Return the offset of the next record that will be given."""
        known = self._assigned(partition)
        held = (one.offset for one in self._rest if (one.topic, one.partition) == (known.topic, known.partition))
        return min(held, default=self._fetcher.positions[known].offset)

    def pause(self, *partitions: TopicPartition) -> None:
        """Give nothing of these partitions until ``resume``."""
        for one in partitions:
            self._fetcher.pause(self._assigned(one), True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these partitions."""
        for one in partitions:
            self._fetcher.pause(self._assigned(one), False)

    def _assigned(self, partition: TopicPartition | tuple[str, int]) -> TopicPartition:
        known = _partition(partition)
        if known not in self._fetcher.positions:
            raise OptionError(f"{known} is not assigned to this consumer")
        return known

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """List the partitions of a topic.

        Raises:
            BrokerError: there is no such topic.
        """
        await self._cluster.topic(topic)
        return self._cluster.cluster.partitions_of(topic)

    async def topics(self) -> list[str]:
        """List the topics that this client may see, internal ones left out."""
        await self._cluster.retried(self._cluster.refresh)
        return sorted(one.name for one in self._cluster.cluster.topics.values() if not one.is_internal)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return for each partition the first offset at or after a time in milliseconds; -1 where there is none."""
        return await offsets.list_offsets(self._cluster, times_ms)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return await offsets.ends(self._cluster, partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where each partition ends: the last stable offset under read_committed, else the high watermark."""
        committed = self.settings.isolation_level == "read_committed"
        return await offsets.ends(self._cluster, partitions, LATEST, read_committed=committed)

    # ---------------------------------------------------------------------------------------------------- reading

    async def fetch(self, timeout_ms: int | None = 1_000) -> Fetched | None:
        """Return the next partition's batches as bytes, None where none come in time.

        Raises:
            BrokerError: a partition cannot be read.
            CorruptRecordError: a record format that this consumer was told not to read.
        """
        if self._errors:
            raise self._errors.pop(0)
        if self._to_reset:
            lost, self._to_reset = list(self._to_reset), set()
            await self._reset([one for one in lost if one in self._fetcher.positions])
        await self._commit_when_due()
        fetched = await self._fetcher.next(None if timeout_ms is None else timeout_ms / 1000)
        if self._errors:
            raise self._errors.pop(0)
        if fetched is not None:
            fetched.check_formats(self.settings.formats)
        return fetched

    async def fetch_arrow(
        self,
        timeout_ms: int | None = 1_000,
        *,
        columns: Sequence[str] = ("topic", "partition", *DEFAULT_COLUMNS),
        max_bytes: int = 67_108_864,
    ) -> pa.Table:
        """Return the records that are there, as columns.

        Args:
            timeout_ms: how long to wait for the first; what has arrived by then is in the result too.
            columns: ``topic``, ``partition`` and those of ``kafkaframes.read_records``.
            max_bytes: of fetched batches; one answer of a broker is always taken.

        Returns:
            A table, of no rows where nothing came in time.

        Raises:
            BrokerError, CorruptRecordError: as ``fetch``.
        """
        inner = [name for name in columns if name not in PLACE_COLUMNS]
        schema = _schema(columns, inner)
        found: list[pa.RecordBatch] = []
        size = 0
        while size < max_bytes:
            fetched = await self.fetch(0 if found or size else timeout_ms)
            if fetched is None:
                break
            size += len(fetched.data)
            for batch in fetched.read(inner, verify_crc=self.settings.check_crcs, memory=self._memory):
                found.append(_placed(batch, fetched.partition, columns, schema))
        return pa.Table.from_batches(found, schema=schema)

    async def poll(self, timeout_ms: int | None = 1_000, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as Python values, at most ``max_poll_records``; for data, ``fetch_arrow`` is the way."""
        most = self.settings.max_poll_records if max_records is None else max_records
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while not self._rest:
            left = None if deadline is None else max(int((deadline - time.monotonic()) * 1000), 0)
            fetched = await self.fetch(left)
            if fetched is None:
                return []
            for batch in fetched.read(DEFAULT_COLUMNS, verify_crc=self.settings.check_crcs):
                self._rest += _records(batch, fetched.partition)
        given, self._rest = self._rest[:most], self._rest[most:]
        return given

    # --------------------------------------------------------------------------------------------------- committing

    @property
    def _commits_by_itself(self) -> bool:
        return self.settings.enable_auto_commit and self.settings.group_id is not None

    def group_metadata(self) -> GroupMember:
        """Return what a transactional producer wants to know of this consumer (KIP-447).

        Raises:
            OptionError: there is no group.
        """
        if self.settings.group_id is None:
            raise OptionError("committed offsets need group_id")
        return GroupMember(self.settings.group_id)

    async def commit(self, given: Mapping[TopicPartition, CommittedOffset | int] | None = None) -> None:
        """Commit offsets for the group: the positions of all partitions if none are given.

        Raises:
            OptionError: there is no group.
            BrokerError: the coordinator refuses.
        """
        member = self.group_metadata()
        if given is None:
            given = {one: CommittedOffset(self.position(one)) for one in self.assignment()}
        await group_offsets.commit(self._cluster, member, given)
        self._committed_at = time.monotonic()

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return what the group has committed; partitions without are not in the result."""
        return await group_offsets.committed(self._cluster, self.group_metadata().group_id, partitions)

    async def _commit_when_due(self) -> None:
        due = self._committed_at + self.settings.auto_commit_interval_ms / 1000
        if self._commits_by_itself and self._fetcher.positions and time.monotonic() >= due:
            self._committed_at = time.monotonic()
            try:
                await self.commit()
            except BrokerError as error:
                if error.code is None or not error.code.is_retriable:
                    raise

    async def __anext__(self) -> ConsumerRecord:
        while True:
            found = await self.poll(None, max_records=1)
            if found:
                return found[0]
            await asyncio.sleep(0)

    def __aiter__(self) -> AsyncConsumer:
        return self


def _partition(given: TopicPartition | tuple[str, int]) -> TopicPartition:
    return given if isinstance(given, TopicPartition) else TopicPartition(*given)


def _schema(columns: Sequence[str], inner: Sequence[str]) -> pa.Schema:
    known = ReadOptions(columns=tuple(inner)).checked().schema
    return pa.schema([(name, PLACE_COLUMNS.get(name) or known.field(name).type) for name in columns])


def _placed(
    batch: pa.RecordBatch, partition: TopicPartition, columns: Sequence[str], schema: pa.Schema
) -> pa.RecordBatch:
    place = {"topic": pa.scalar(partition.topic, pa.string()), "partition": pa.scalar(partition.partition, pa.int32())}
    arrays = [pa.repeat(place[name], batch.num_rows) if name in place else batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _records(batch: pa.RecordBatch, partition: TopicPartition) -> list[ConsumerRecord]:
    values = {name: batch.column(name).to_pylist() for name in DEFAULT_COLUMNS}
    return [
        ConsumerRecord(
            partition.topic,
            partition.partition,
            offset,
            timestamp if isinstance(timestamp, int) else int(timestamp.timestamp() * 1000),
            key,
            value,
            [(one["key"], one["value"]) for one in headers or ()],
        )
        for offset, timestamp, key, value, headers in zip(
            values["offset"], values["timestamp"], values["key"], values["value"], values["headers"], strict=True
        )
    ]
