"""The consumer, on asyncio: Arrow batches straight from fetched bytes, records one by one, or the bytes themselves.

``assign`` reads the partitions that the caller names; ``subscribe`` joins a group that shares partitions out.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Unpack
from uuid import UUID

import pyarrow as pa

from kafkaframes.client import group_offsets, offsets
from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.fetched import ConsumerRecord, Fetched, Records, placed, schema_of
from kafkaframes.client.fetcher import Fetcher
from kafkaframes.client.group_offsets import CommittedOffset, GroupMember
from kafkaframes.client.loop import background, warn_unclosed
from kafkaframes.client.membership import JOIN_AGAIN, ClassicMembership, ConsumerMembership
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.offsets import EARLIEST, LATEST, OffsetAndTimestamp, holds_nothing
from kafkaframes.client.settings import ConsumerSettings, merged
from kafkaframes.errors import (
    BrokerError,
    ErrorCode,
    KafkaframesError,
    OptionError,
    UnsupportedFormatError,
    broker_error,
)
from kafkaframes.records.columns import DEFAULT_COLUMNS
from kafkaframes.records.limits import current_budget
from kafkaframes.records.memory import Recycler

if TYPE_CHECKING:
    from kafkaframes.client.options import ConsumerOptions, Servers

Listener = Callable[[Collection[TopicPartition]], Any]
ARROW_COLUMNS: Final = ("topic", "partition", *DEFAULT_COLUMNS)  # of ``fetch_arrow``
_GROUP_STEP_S: Final = 0.1  # how often a consumer that waits looks whether its group rebalances


class AsyncConsumer:
    """Reads records of topics. ``async with AsyncConsumer("localhost:9092") as consumer: ...``"""

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ConsumerOptions]) -> None:
        """Take settings as keywords (``ConsumerOptions``), or a dict of properties; see ``Consumer``."""
        self.settings = ConsumerSettings.of(merged(bootstrap_servers, options))
        self._cluster = ClusterClient(self.settings)
        self._fetcher = Fetcher(self._cluster, self.settings, out_of_range=self._lost)
        self._to_reset: set[TopicPartition] = set()
        self._errors: list[KafkaframesError] = []
        self._rest: deque[Records] = deque()  # fetched, and not handed out yet
        self._is_closed = False
        self._memory = Recycler()
        self._committed_at = time.monotonic()
        self._membership: ClassicMembership | ConsumerMembership | None = None
        self._updating: asyncio.Task[None] | None = None
        self._pattern: re.Pattern[str] | None = None
        self._listeners: tuple[Listener | None, Listener | None] = (None, None)

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.close(commit=kind is None)

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True) and self._cluster.cluster.updated_at is not None:
            warn_unclosed(self, self.settings.bootstrap_servers)

    async def close(self, *, commit: bool = True) -> None:
        """Commit (where that is automatic, and unless ``commit`` is False) and end.

        An exception that leaves ``async with`` commits nothing: the records that were read last may not be handled.
        """
        self._is_closed = True
        try:
            if commit and self._commits_by_itself:
                await self.commit()
        except KafkaframesError:
            pass  # as Kafka's consumer: a commit at the end is an attempt
        finally:
            await self._leave_group()
            await self._fetcher.close()
            await self._cluster.close()

    # ------------------------------------------------------------------------------------------------- assignment

    async def assign(
        self,
        partitions: Iterable[TopicPartition | tuple[str, int]] | Mapping[TopicPartition, int],
        *,
        ends: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Read these partitions and no others.

        Args:
            partitions: with a mapping, from these offsets on; else from where the group has committed, or from where
                ``auto_offset_reset`` says.
            ends: brokers are asked for nothing from these offsets on, so that none of them waits for records that
                nobody wants. The last batch that is fetched may reach beyond its end.

        Raises:
            NetworkError, BrokerError: no broker can be reached in ``default_api_timeout_ms``, or it refuses us.
        """
        if self._membership is not None:
            raise OptionError("this consumer has subscribed; unsubscribe before assigning partitions")
        requested = [_partition(entry) for entry in partitions]
        await self._reach(requested)
        for known in set(self._fetcher.positions) - set(requested):
            self._fetcher.remove(known)
        self._drop(None)
        self._errors.clear()  # of what was read before: a partition that still fails says so again
        self._fetcher.forget_errors()
        self._to_reset &= set(requested)
        if isinstance(partitions, Mapping):
            for partition, offset in zip(requested, partitions.values(), strict=True):
                self._fetcher.set_position(partition, offset)
        else:
            await self._find_positions([entry for entry in requested if entry not in self._fetcher.positions])
        for partition in self._fetcher.positions:
            self._fetcher.set_end(partition, None if ends is None else ends.get(partition))
        self._fetcher.start()

    async def subscribe(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
    ) -> None:
        """Join the group ``group_id``; its members share the topics' partitions out. The first read waits for that.

        Args:
            topics: names.
            pattern: or a regular expression that whole names match; new topics are seen when metadata is.
            on_assign, on_revoke: called with the partitions that come and go, before the first and after the last
                read of them; by ``Consumer`` in its own thread: they must not call it, for it waits for them.

        Raises:
            OptionError: there is no group, or neither topics nor a pattern.
            NetworkError, BrokerError: no broker can be reached in ``default_api_timeout_ms``, or it refuses us.
        """
        if self.settings.group_id is None:
            raise OptionError("subscribe needs group_id; assign reads partitions without a group")
        if (topics is None) == (pattern is None):
            raise OptionError("subscribe takes topics, or a pattern")
        await self._reach(self.settings.servers)
        await self.unsubscribe()
        self._listeners = (on_assign, on_revoke)
        self._pattern = None if pattern is None else re.compile(pattern)
        if self._pattern is not None:
            topics = [name for name in await self.topics() if self._pattern.fullmatch(name)]
        names = [topics] if isinstance(topics, str) else list(topics or ())
        kind = ConsumerMembership if self.settings.group_protocol == "consumer" else ClassicMembership
        self._membership = kind(self._cluster, self.settings, names, self)
        self._fetcher.start()

    async def _reach(self, requested: Sized) -> None:
        """See that a broker answers, if anything is to be read: who reads waits for records, and would never know."""
        if requested and self._cluster.cluster.updated_at is None:
            await self._cluster.retried(lambda: self._cluster.refresh([]))

    async def unsubscribe(self) -> None:
        """Leave the group and read nothing."""
        if self._membership is not None:
            await self._on_revoked(self.assignment(), lost=False)
            await self._leave_group()
        for partition in self.assignment():
            self._fetcher.remove(partition)

    async def _leave_group(self) -> None:
        if self._updating is not None:
            self._updating.cancel()
            await asyncio.wait({self._updating})
            self._updating = None
        if self._membership is not None:
            await self._membership.close()
            self._membership = None

    async def _on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with what the group gave us."""
        for topic in {entry.topic for entry in partitions}:
            await self._cluster.topic(topic)
        await self._find_positions(list(partitions))
        if self._listeners[0] is not None:
            await _listened(self._listeners[0], partitions)

    async def _on_revoked(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        """End with what the group takes away; commit it first, unless it is lost already."""
        if partitions and self._commits_by_itself and not lost:
            with contextlib.suppress(KafkaframesError):
                await self.commit(
                    {entry: self.position(entry) for entry in partitions if entry in self._fetcher.positions}
                )
        if partitions and self._listeners[1] is not None:
            await _listened(self._listeners[1], partitions)
        for entry in partitions:
            self._fetcher.remove(entry)
        self._drop(partitions)

    def assignment(self) -> list[TopicPartition]:
        """List the partitions that are read."""
        return list(self._fetcher.positions)

    async def _find_positions(self, partitions: list[TopicPartition]) -> None:
        committed: Mapping[TopicPartition, CommittedOffset] = {}
        if self.settings.group_id is not None and partitions:
            committed = await group_offsets.committed(
                self._cluster, self.settings.group_id, partitions, stable=self.settings.reads_committed
            )
        for partition in partitions:
            if partition in committed:
                self._fetcher.set_position(partition, committed[partition].offset)
        await self._reset([entry for entry in partitions if entry not in committed])

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
            raise broker_error(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"no offset to read {names} from, and auto_offset_reset is none"
            )
        which = EARLIEST if policy == "earliest" else LATEST
        starts = await offsets.ends(self._cluster, partitions, which, read_committed=self.settings.reads_committed)
        for partition, offset in starts.items():
            self._fetcher.set_position(partition, offset)

    def _lost(self, partition: TopicPartition, offset: int) -> None:
        if self.settings.auto_offset_reset == "none":
            self._errors.append(broker_error(ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition} has no offset {offset}"))
        else:
            self._to_reset.add(partition)

    # --------------------------------------------------------------------------------------------------- positions

    def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """Go on from ``offset``.

        Raises:
            OptionError: the partition is not assigned, or the offset is negative.
        """
        known = self._checked(partition)
        if offset < 0:
            raise OptionError(f"offset {offset} of {known} is negative")
        self._fetcher.set_position(known, offset)
        self._drop([known])

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the first offset, of all partitions if none are named."""
        await self._seek_to(EARLIEST, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on from the end, of all partitions if none are named."""
        await self._seek_to(LATEST, partitions)

    async def _seek_to(self, which: int, partitions: Sequence[TopicPartition]) -> None:
        requested = [self._checked(entry) for entry in partitions or self.assignment()]
        starts = await offsets.ends(self._cluster, requested, which, read_committed=self.settings.reads_committed)
        for partition, offset in starts.items():
            self.seek(partition, offset)

    def position(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Return the offset of the next record that will be given."""
        known = self._checked(partition)
        waiting = (records.position for records in self._rest if records.partition == known and not records.is_empty)
        return next(waiting, self._fetcher.positions[known].offset)

    def pause(self, *partitions: TopicPartition) -> None:
        """Give nothing of these partitions until ``resume``."""
        for entry in partitions:
            self._fetcher.pause(self._checked(entry), True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these partitions."""
        for entry in partitions:
            self._fetcher.pause(self._checked(entry), False)

    def _checked(self, partition: TopicPartition | tuple[str, int]) -> TopicPartition:
        known = _partition(partition)
        if known not in self._fetcher.positions:
            raise OptionError(f"{known} is not assigned to this consumer")
        return known

    async def partitions_for(self, *topics: str) -> list[TopicPartition]:
        """List the partitions of a topic, or of several, one after the other.

        Raises:
            BrokerError: there is no such topic.
        """
        partitions: list[TopicPartition] = []
        for topic in topics:
            await self._cluster.topic(topic)
            partitions += self._cluster.cluster.partitions_of(topic)  # at once: what is known can be dropped meanwhile
        return partitions

    async def topics(self) -> list[str]:
        """List the topics that this client may see, internal ones left out."""
        await self._cluster.retried(self._cluster.refresh)
        return sorted(entry.name for entry in self._cluster.cluster.topics.values() if not entry.is_internal)

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID]:
        """Return the ids of topics as brokers have them now, of those that are there and have one (from 2.8 on)."""
        names = frozenset(topics)
        await self._cluster.retried(lambda: self._cluster.refresh(names))
        known = ((name, self._cluster.cluster.topic_id(name)) for name in sorted(names))
        return {name: topic_id for name, topic_id in known if topic_id.int}

    async def current_topic_id(self, topic: str) -> UUID:
        """Return the id of a topic, the nil UUID if brokers have none (before 2.8); asks only if it is not known.

        Fetches by id (from 3.1 on) fail if the topic was recreated, and the id is then asked for again. So an id that
        is the same after a fetch as before says that the fetched records are of that topic.
        """
        if not (known := self._cluster.cluster.topic_id(topic)).int:
            known = (await self.topic_ids([topic])).get(topic, known)
        return known

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
        return await offsets.ends(self._cluster, partitions, LATEST, read_committed=self.settings.reads_committed)

    async def skip_gap(self, partition: TopicPartition | tuple[str, int], end: int) -> bool:
        """Go on from ``end`` if the log holds nothing between the position and it, as where its tail was compacted.

        Args:
            partition: assigned.
            end: as ``end_offsets`` gives it.

        Returns:
            Whether the position is at ``end`` or behind it now.
        """
        known = self._checked(partition)
        at = self.position(known)
        if at >= end:
            return True
        if not await holds_nothing(self._cluster, known, at, end, read_committed=self.settings.reads_committed):
            return False
        if self.position(known) == at:  # nothing came meanwhile
            self.seek(known, end)
        return True

    # ---------------------------------------------------------------------------------------------------- reading

    async def fetch(self, timeout_ms: int | None = 1_000) -> Fetched | None:
        """Return the next partition's batches as bytes, None where none come in time.

        Raises:
            BrokerError: a partition cannot be read.
            UnsupportedFormatError: the next batch has a record format that is not in the setting `formats`; the
                position stays in front of it.
        """
        if self._errors:
            raise self._errors.pop(0)
        deadline = _deadline(timeout_ms)
        if not await self._attend(deadline):
            return None
        fetched = await self._next(deadline)
        if self._errors:
            raise self._errors.pop(0)
        return None if fetched is None else self._select_formats(fetched)

    def _select_formats(self, fetched: Fetched) -> Fetched:
        """Return the batches of the formats that this consumer reads; set the position to the first other batch."""
        try:
            selected = fetched.select_formats(self.settings.formats)
        except UnsupportedFormatError:
            self._fetcher.set_position(fetched.partition, fetched.fetch_offset)
            raise
        if selected is not fetched:
            self._fetcher.set_position(fetched.partition, selected.next_offset)
        return selected

    async def _attend(self, deadline: float | None) -> bool:
        """Do what is due before records are handed out; return False where a rebalance goes on at the deadline."""
        if not await self._look_after_group(deadline):
            return False
        if self._to_reset:
            lost, self._to_reset = list(self._to_reset), set()
            await self._reset([entry for entry in lost if entry in self._fetcher.positions])
        await self._commit_when_due()
        return True

    async def _look_after_group(self, deadline: float | None) -> bool:
        """Take part in the group's life; return False where a rebalance goes on at the deadline."""
        if self._membership is None or (self._updating is None and not self._membership.is_due()):
            return True
        if self._updating is None:
            self._updating = background(self._membership.update())
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        await asyncio.wait({self._updating}, timeout=left)
        if not self._updating.done():
            return False
        update, self._updating = self._updating, None
        update.result()
        return True

    async def _next(self, deadline: float | None) -> Fetched | None:
        """Wait for an answer, looking after the group meanwhile."""
        while True:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            step = left if self._membership is None else min(_GROUP_STEP_S, _GROUP_STEP_S if left is None else left)
            fetched = await self._fetcher.next(step)
            if fetched is not None or self._errors or self._to_reset or (left is not None and left <= (step or 0.0)):
                return fetched
            if not await self._look_after_group(deadline):
                return None
            await self._commit_when_due()

    async def fetch_arrow(
        self,
        timeout_ms: int | None = 1_000,
        *,
        columns: Sequence[str] = ARROW_COLUMNS,
        max_bytes: int = 67_108_864,
    ) -> pa.Table:
        """Return the records that are there, as columns.

        Args:
            timeout_ms: how long to wait for the first; what has arrived by then is in the result too.
            columns: ``topic``, ``partition`` and those of ``kafkaframes.read_records``.
            max_bytes: of fetched batches; one answer of a broker is always taken.

        Returns:
            A table, of no rows where nothing came in time. Of batches that open to more than
            ``kafkaframes.records.limits.current_budget()`` the next call brings the rest.

        Raises:
            BrokerError, CorruptRecordError: as ``fetch``.
        """
        inner, schema = schema_of(tuple(columns))
        match: list[pa.RecordBatch] = []
        size = held = 0
        while size < max_bytes and held < current_budget():
            fetched = await self.fetch(0 if match or size else timeout_ms)
            if fetched is None:
                break
            size += len(fetched.data)
            opened: list[pa.RecordBatch] = []
            held = self._open(fetched, inner, opened, held)
            match += [placed(batch, fetched.partition, columns, schema) for batch in opened]
        return pa.Table.from_batches(match, schema=schema)

    async def poll(self, timeout_ms: int | None = 1_000, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as Python values, at most ``max_poll_records``; for data, use ``fetch_arrow``."""
        most = self.settings.max_poll_records if max_records is None else max_records
        taken: list[ConsumerRecord] = []
        if not await self._hold(timeout_ms):
            return taken
        while len(taken) < most and (records := self._next_records()) is not None:
            taken += records.take(most - len(taken))
        return taken

    async def _hold(self, timeout_ms: int | None) -> bool:
        """Wait until there are records to hand out, or the time is over; return whether there are.

        Those that were fetched before wait, too, while the group rebalances: they may be others' by now.
        """
        deadline = _deadline(timeout_ms)
        while await self._attend(deadline):
            if self._next_records() is not None:
                return True
            left = None if deadline is None else max(int((deadline - time.monotonic()) * 1000), 0)
            fetched = await self.fetch(left)
            if fetched is None:
                return False
            opened: list[pa.RecordBatch] = []
            try:
                self._open(fetched, DEFAULT_COLUMNS, opened)
            finally:  # also of what lies before damage
                self._rest += [Records(batch, fetched.partition) for batch in opened]
        return False

    def _needs_attention(self) -> bool:
        """Return whether ``_attend`` has anything to do."""
        is_due = self._membership is not None and self._membership.is_due()
        return is_due or self._updating is not None or bool(self._to_reset) or self._is_commit_due

    def _next_records(self) -> Records | None:
        """Return what records are taken from next, None where more must be fetched first."""
        while self._rest and self._rest[0].is_empty:
            self._rest.popleft()
        return self._rest[0] if self._rest else None

    def _drop(self, partitions: Collection[TopicPartition] | None) -> None:
        """Hand out no more of what was fetched of these partitions, of all if None."""
        for records in self._rest:
            if partitions is None or records.partition in partitions:
                records.drop()

    def _open(self, fetched: Fetched, columns: Sequence[str], opened: list[pa.RecordBatch], held_bytes: int = 0) -> int:
        """Add what was fetched to ``opened`` until the budget is held; what is behind that will be fetched anew.

        A megabyte of batches may open to gigabytes, and no broker looks. Returns how many bytes are held.
        """
        requested = columns if "offset" in columns else ("offset", *columns)
        for batch in fetched.read(requested, verify_crc=self.settings.check_crcs, memory=self._memory):
            opened.append(batch)
            held_bytes += batch.nbytes
            if held_bytes >= current_budget():
                self._fetcher.set_position(fetched.partition, batch.column("offset")[-1].as_py() + 1)
                break
        return held_bytes

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
        return GroupMember(self.settings.group_id) if self._membership is None else self._membership.member

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset | int] | None = None) -> None:
        """Commit offsets for the group: the positions of all partitions if none are named.

        Raises:
            OptionError: there is no group.
            BrokerError: the coordinator refuses, or the consumer has subscribed and is no member of its group now: it
                was put out (UNKNOWN_MEMBER_ID), and others may have gone on from its partitions.
        """
        member = self.group_metadata()
        if self._membership is not None and member.generation_id < 0:
            raise broker_error(ErrorCode.UNKNOWN_MEMBER_ID, f"the consumer is no member of group {member.group_id} now")
        if offsets is None:
            offsets = {entry: CommittedOffset(self.position(entry)) for entry in self.assignment()}
        try:
            await group_offsets.commit(self._cluster, member, offsets)
        except BrokerError as error:
            if self._membership is not None:
                self._membership.refused(error)
            raise
        self._committed_at = time.monotonic()

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return what the group has committed; partitions without are not in the result."""
        return await group_offsets.committed(self._cluster, self.group_metadata().group_id, partitions)

    @property
    def _is_commit_due(self) -> bool:
        due = self._committed_at + self.settings.auto_commit_interval_ms / 1000
        return self._commits_by_itself and bool(self._fetcher.positions) and time.monotonic() >= due

    async def _commit_when_due(self) -> None:
        if self._is_commit_due:
            self._committed_at = time.monotonic()
            try:
                await self.commit()
            except BrokerError as error:
                if error.code not in JOIN_AGAIN and (error.code is None or not error.code.is_retriable):
                    raise

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            await self._hold(None)
            records = self._next_records()
            for record in islice(records or (), self.settings.max_poll_records):
                yield record
            await asyncio.sleep(0)  # heartbeats and other tasks go on


def _deadline(timeout_ms: int | None) -> float | None:
    return None if timeout_ms is None else time.monotonic() + timeout_ms / 1000


async def _listened(listener: Listener, partitions: Collection[TopicPartition]) -> None:
    answer = listener(partitions)
    if inspect.isawaitable(answer):
        await answer


def _partition(supplied: TopicPartition | tuple[str, int]) -> TopicPartition:
    return supplied if isinstance(supplied, TopicPartition) else TopicPartition(*supplied)
