"""Run a mirror: find the topics and the offsets at which to resume, and copy batches until the copy is complete.

A mirror runs on one asyncio event loop, which it shares with the embedded brokers of log directories.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kafkaframes.client import EARLIEST, AsyncAdmin, AsyncConsumer, FetchedBatches, TopicPartition
from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.metadata import Cluster
from kafkaframes.client.reachability import wait_until_reachable
from kafkaframes.client.settings import ClientSettings, select_client_options
from kafkaframes.errors import AuthorizationError, BrokerError, ErrorCode, LogDirError, NetworkError, OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.mirror.comparison import (
    MAX_FETCH_BYTES,
    ComparedSide,
    MappedSide,
    PartitionComparison,
    PartitionSide,
    has_records,
)
from kafkaframes.jobs.mirror.ends import (
    MirroredTopic,
    can_keep_offsets,
    copy_groups,
    has_topic_id,
    open_cluster,
    prepare_target_topic,
    read_directory_configs,
    read_source_commits,
    replay_transactions,
    reset_gap_settings,
    select_topics,
)
from kafkaframes.jobs.mirror.ranges import check_partition_numbers, clip_batches, resolve_ranges
from kafkaframes.jobs.mirror.settings import (
    KEEP_OFFSETS,
    REASSIGN,
    MirroredPartition,
    MirrorReport,
    MirrorSettings,
    check_endpoints,
    is_directory,
)
from kafkaframes.jobs.mirror.writers import OffsetKeepingWriter, OffsetMappingWriter, Writer
from kafkaframes.scan.log.narrowing import ALL_OFFSETS, OffsetRange
from kafkaframes.scan.ranges import NO_START, GroupBound
from kafkaframes.storage.files.atomic import reject_nested_destination
from kafkaframes.wire.primitives import NIL_UUID

_MAX_FETCH_BYTES: Final = 4 << 20  # fetch size of a partition; a single batch may be larger
_MAX_CONCURRENT_WRITES: Final = 8  # partitions that are written to at the same time
_POLL_INTERVAL_MS: Final = 250  # time limit of one fetch
_STOP_TIMEOUT_S: Final = 15.0  # longest wait for a step after the mirror was stopped
_STALL_TIMEOUT_S: Final = 60.0  # a mirror without follow fails if no records arrive for this time
Say = Callable[[str], None]


async def mirror_clusters(
    source: str,
    target: str,
    settings: MirrorSettings,
    *,
    stop: asyncio.Event | None = None,
    print_message: Say | None = None,
) -> MirrorReport:
    """Copy topics and committed offsets from a source to a target.

    Args:
        source, target: bootstrap servers (``host:port``, separated by commas), or a log directory.
        settings: settings that select the topics and offsets to copy, and the mode of the copy.
        stop: event that ends the mirror after the current writes.
        print_message: function that receives progress messages.

    Returns:
        The report, after the counts of read and written records were checked.

    Raises:
        BrokerError, NetworkError: source or target rejects a request or is unreachable.
        LogDirError: a log directory or the offset mapping cannot be used, or the counts of read and written records do
            not match.
        CorruptRecordError: a batch of the source is damaged.
        OptionError: a topic does not exist, a required setting is missing, or the target directory is inside the
            source.
    """
    check_endpoints(source, target)
    if is_directory(source):
        target_directory = target if is_directory(target) else None
        for directory in filter(None, (target_directory, settings.state_dir)):
            reject_nested_destination(Path(directory), [source])
    async with AsyncExitStack() as stack:
        report = MirrorReport(source, target, is_dry_run=settings.dry_run)
        job = _MirrorRun(source, target, settings, report, stop or asyncio.Event(), print_message or (lambda _: None))
        return await job.run(stack)


def _reject_same_cluster(source: Cluster, target: Cluster) -> None:
    """Reject two addresses of the same cluster, because its topics would be compared with themselves.

    Clusters that were restored from the same backup have the same id, but no common broker.

    Raises:
        OptionError: source and target are the same cluster.
    """
    source_nodes, target_nodes = (
        {(node.host, node.port) for node in cluster.brokers.values()} for cluster in (source, target)
    )
    common_nodes = sorted(source_nodes & target_nodes)
    if source.cluster_id == target.cluster_id and common_nodes:
        host, port = common_nodes[0]
        raise OptionError(f"`source` and `target` are the same cluster: both have the broker {host}:{port}")


@dataclass(slots=True)
class _MirrorRun:
    """One run of a mirror: its settings, its report, and the state of each partition."""

    source: str
    target: str
    settings: MirrorSettings
    report: MirrorReport
    stop: asyncio.Event
    say: Say
    reports: dict[TopicPartition, MirroredPartition] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    writing: dict[TopicPartition, asyncio.Task[None]] = field(default_factory=dict)
    copied_topics: list[MirroredTopic] = field(default_factory=list)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)  # topic settings from the source directory
    readers: tuple[AsyncConsumer, AsyncConsumer] | None = None  # consumers of source and copy for comparisons
    source_ids: dict[str, UUID] = field(default_factory=dict)  # ids of topics with compared copies
    deleted_topics: set[str] = field(default_factory=set)  # copied topics that the source no longer has
    reported_group_problems: set[str] = field(default_factory=set)
    offsets_problem: str = ""  # why it is unknown whether the target keeps offsets
    # Offsets to copy; partitions without an entry are copied whole.
    ranges: dict[TopicPartition, OffsetRange] = field(default_factory=dict)

    async def run(self, stack: AsyncExitStack) -> MirrorReport:
        settings, report_loss = self.settings, self.report.not_read.append
        source = await stack.enter_async_context(
            open_cluster(
                self.source,
                settings.source_properties,
                self._wait_for_cluster,
                self.say,
                writes=False,
                report_loss=report_loss,
            )
        )
        admin = await stack.enter_async_context(AsyncAdmin(**select_client_options(source)))
        if is_directory(self.source):
            self.configs = read_directory_configs(self.source)
        selected_topics = await self._select_topics(admin)
        partitions = self._list_partitions(selected_topics)
        check_partition_numbers(settings.selection.partition_numbers, partitions)
        self.ranges = await resolve_ranges(admin, settings.selection, partitions)
        target = None  # created after the source's topics were found, so that a wrong source leaves no target
        if not settings.dry_run or not is_directory(self.target) or os.path.isdir(self.target):
            writes = not settings.dry_run
            target_cluster = open_cluster(
                self.target, settings.target_properties, self._wait_for_cluster, self.say, writes=writes
            )
            target = await stack.enter_async_context(target_cluster)
        target_admin = (
            None if target is None else await stack.enter_async_context(AsyncAdmin(**select_client_options(target)))
        )
        if target_admin is not None and not is_directory(self.source) and not is_directory(self.target):
            _reject_same_cluster(await admin.describe_cluster(), await target_admin.describe_cluster())
        keeps_offsets = self.report.keeps_offsets = await self._target_keeps_offsets(target_admin)
        isolation = "read_uncommitted" if keeps_offsets else "read_committed"
        reading = {"max.partition.fetch.bytes": _MAX_FETCH_BYTES, "auto.offset.reset": "earliest"}
        consumer = AsyncConsumer(**{**reading, **source, "isolation.level": isolation})
        await stack.enter_async_context(consumer)
        writer = None if target is None else self._make_writer(stack, target, keeps_offsets)
        if target is not None:
            reading["max.partition.fetch.bytes"] = MAX_FETCH_BYTES
            source_reader = AsyncConsumer(**{**reading, **source, "isolation.level": isolation})
            copy_reader = AsyncConsumer(**{**reading, **target, "isolation.level": "read_uncommitted"})
            self.readers = await stack.enter_async_context(source_reader), await stack.enter_async_context(copy_reader)
        if isinstance(writer, OffsetMappingWriter) and is_directory(self.source):
            names = [topic.name for topic in selected_topics]
            states, notes = await asyncio.to_thread(replay_transactions, self.source, names)
            writer.transactions = states
            self.report.not_read += map(str, notes.hidden_records)
            for line in notes:
                self.say(line)
        await self._begin_copying(selected_topics, consumer, target_admin, writer)
        if target_admin is None or writer is None or settings.dry_run:
            return self.report
        try:
            await self._run_until_stopped(self._copy_until_end(admin, target_admin, consumer, writer))
        finally:
            for task in self.writing.values():
                task.cancel()
            await asyncio.gather(*self.writing.values(), return_exceptions=True)
        await self._run_until_stopped(self._finish_copy(admin, target_admin, writer))
        return self.report

    async def _run_until_stopped(self, step: Coroutine[Any, Any, None]) -> None:
        """Run a step of the mirror. If the mirror is stopped, limit the wait for clusters that do not respond.

        Raises:
            NetworkError: the mirror was stopped, and the step did not end in time.
        """
        step_task, stop_task = asyncio.ensure_future(step), asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait((step_task, stop_task), return_when=asyncio.FIRST_COMPLETED)
            if not (await asyncio.wait((step_task,), timeout=_STOP_TIMEOUT_S))[0]:
                raise NetworkError(
                    f"the mirror was stopped, but a cluster has not responded for {_STOP_TIMEOUT_S:.0f} s; run the "
                    "command again to continue"
                )
            await step_task
        finally:
            step_task.cancel()
            stop_task.cancel()
            await asyncio.gather(step_task, stop_task, return_exceptions=True)

    async def _select_topics(self, admin: AsyncAdmin) -> list[MirroredTopic]:
        """Return the topics with selected partitions."""
        topics = await select_topics(admin, self.settings.selection.topic_names, self.configs)
        if self.settings.selection.partition_numbers is None:
            return topics
        return [topic for topic in topics if self._select_partition_numbers(topic)]

    def _select_partition_numbers(self, topic: MirroredTopic) -> list[int]:
        """Return the selected partition numbers of a topic."""
        numbers = self.settings.selection.partition_numbers
        return [number for number in topic.partitions if numbers is None or number in numbers]

    def _list_partitions(self, topics: list[MirroredTopic]) -> list[TopicPartition]:
        return [
            TopicPartition(topic.name, number) for topic in topics for number in self._select_partition_numbers(topic)
        ]

    async def _wait_for_cluster(self, client: dict[str, Any]) -> None:
        """Wait until a cluster responds."""
        client_settings = ClientSettings.from_options(select_client_options(client))
        await wait_until_reachable(client_settings, waiting=self.say, timeout_s=self.settings.timeout_s)

    async def _target_keeps_offsets(self, target_admin: AsyncAdmin | None) -> bool:
        """Return whether copies keep the source's offsets, which depends on the settings and on the target's broker."""
        if self.settings.offsets == REASSIGN:
            return False
        try:
            has_support = target_admin is None or await can_keep_offsets(target_admin)
        except AuthorizationError as error:
            has_support = False
            self.offsets_problem = (
                f"{self.target}: it is unknown whether the target keeps offsets, because the user has no "
                f"DESCRIBE_CONFIGS on the target's cluster ({error})"
            )
        if self.settings.offsets == KEEP_OFFSETS and not has_support:
            reason = self.offsets_problem or f"{self.target} assigns its own offsets"
            raise OptionError(f"{reason}, so `offsets`=keep is not possible")
        if self.offsets_problem and self.settings.state_dir is not None:
            self.say(f"{self.offsets_problem}; the target assigns new offsets")
        return has_support

    def _make_writer(self, stack: AsyncExitStack, target: dict[str, Any], keeps_offsets: bool) -> Writer:
        """Return a writer to the target that keeps the source's offsets or stores new ones in a mapping."""
        cluster = ClusterClient(ClientSettings.from_options(select_client_options(target)))
        stack.push_async_callback(cluster.close)
        if keeps_offsets:
            return OffsetKeepingWriter(cluster, self.settings.on_damage == "drop")
        if self.settings.state_dir is None:
            reason = self.offsets_problem or f"{self.target} assigns its own offsets"
            raise OptionError(f"{reason}; set `state_dir`, in which the mapping of offsets is stored")
        writer = OffsetMappingWriter(
            cluster, self.settings.state_dir, self.settings.on_damage == "drop", self.settings.dry_run
        )
        stack.callback(writer.close)
        return writer

    # -------------------------------------------------------------------------------------------------- beginning

    async def _begin_copying(
        self,
        selected_topics: list[MirroredTopic],
        consumer: AsyncConsumer,
        target_admin: AsyncAdmin | None,
        writer: Writer | None,
        *,
        is_later: bool = False,
    ) -> None:
        """Create missing topics, find the offsets at which to continue, and assign the partitions to the consumer.

        Args:
            is_later: whether the partitions were created after the mirror started.
        """
        settings, keeps_offsets = self.settings, self.report.keeps_offsets
        holds_gaps = is_directory(self.source) and not settings.keep_retention
        target_topics = {} if target_admin is None else (await target_admin.describe_cluster()).topics
        for topic in selected_topics:
            if topic.configs_problem:
                self.say(f"{topic.name}: {topic.configs_problem}")
            if target_admin is None or settings.dry_run:
                if topic.name not in target_topics:
                    self.report.created.append(topic.name)
            else:
                await prepare_target_topic(
                    target_admin, topic, self.report, keeps_offsets=keeps_offsets, holds_gaps=holds_gaps
                )
            self.copied_topics.append(topic)
        ids = await self._read_target_ids(selected_topics, target_admin)
        partitions = self._list_partitions(selected_topics)
        starts, ends = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
        if isinstance(writer, OffsetMappingWriter):
            stable = {
                topic_partition: state.last_stable_offset
                for topic_partition, state in writer.transactions.items()
                if state.open
            }
            ends = {partition: min(end, stable.get(partition, end)) for partition, end in ends.items()}
        for topic in selected_topics:
            self._set_size_limits(topic, writer)
            for number in self._select_partition_numbers(topic):
                partition = TopicPartition(topic.name, number)
                identity = f"{self._find_topic_identity(topic)} {ids.get(topic.name, NIL_UUID)}"
                exists = writer is not None and topic.name in ids
                await self._open_partition(
                    partition, starts[partition], ends[partition], writer if exists else None, identity
                )
                if is_later:  # the partition's first records have been deleted since the previous search for topics
                    report = self.reports[partition]
                    report.gone = report.from_offset
            self.source_ids[topic.name] = UUID(topic.topic_id)
        positions = {partition: consumer.position(partition) for partition in consumer.assignment()}
        positions |= {partition: self.reports[partition].from_offset for partition in partitions}
        await consumer.assign(positions)

    def _find_topic_identity(self, topic: MirroredTopic) -> str:
        """Return the text that identifies a topic in a mapping: its id, unless its directory does not store ids."""
        if is_directory(self.source) and not has_topic_id(self.source, topic.name):
            return str(NIL_UUID)
        return topic.topic_id

    async def _read_target_ids(
        self, selected_topics: list[MirroredTopic], target_admin: AsyncAdmin | None
    ) -> dict[str, UUID]:
        """Return the ids of the target's topics. Wait for new topics, because brokers learn of them with a delay."""
        if target_admin is None:
            return {}
        if self.settings.dry_run:
            target_topics = (await target_admin.describe_cluster()).topics
        else:
            target_topics = await target_admin.describe_topics([topic.name for topic in selected_topics])
        return {name: topic.topic_id for name, topic in target_topics.items()}

    def _set_size_limits(self, topic: MirroredTopic, writer: Writer | None) -> None:
        """Limit a topic's sizes: a request must fit into a segment, and a new batch into ``max.message.bytes``."""
        if isinstance(writer, OffsetKeepingWriter) and topic.configs.get("segment.bytes", "").isdecimal():
            writer.request_bytes[topic.name] = min(int(topic.configs["segment.bytes"]), 1 << 20)
        if isinstance(writer, OffsetMappingWriter) and topic.configs.get("max.message.bytes", "").isdecimal():
            writer.batch_bytes[topic.name] = max(int(topic.configs["max.message.bytes"]) // 2, 1)

    async def _open_partition(
        self, partition: TopicPartition, start: int, end: int, writer: Writer | None, identity: str
    ) -> None:
        """Begin the copy of a partition: find the offset at which it resumes, and compare both sides below it."""
        report = MirroredPartition(partition.topic, partition.partition)
        source_offset = -1 if writer is None else await writer.open_copy(report, identity)
        if source_offset > end:
            end = await self._wait_for_end(partition, source_offset)
        if writer is not None and source_offset > 0:
            report.compared = await self._compare_partition(partition, writer, start, source_offset)
        report.resumed = source_offset >= 0
        offsets = self._find_copy_range(partition, source_offset)
        report.from_offset = report.until_offset = max(
            source_offset, start if report.resumed else max(start, offsets.first_offset)
        )
        end = min(end, offsets.end_offset)
        report.gone = max(start - source_offset, 0) if source_offset >= 0 else 0
        if self.settings.dry_run:
            report.until_offset = max(end, report.from_offset)
        if report.resumed:
            extent = "" if self._compares_all_records else " (a sample)"
            comparison = f"; compared {count_text(report.compared, 'common record')}{extent}" if report.compared else ""
            self.say(f"{partition}: resumed at offset {report.from_offset:,}, the source ends at {end:,}{comparison}")
        if isinstance(writer, OffsetKeepingWriter):
            writer.first_offsets[partition] = report.from_offset
            if report.resumed and self.readers is not None:
                copy_starts = await self.readers[1].beginning_offsets([partition])
                writer.first_offsets[partition] = copy_starts[partition]
        self.reports[partition], self.ends[partition] = report, end
        self.report.partitions.append(report)

    def _find_copy_range(self, partition: TopicPartition, copy_end: int) -> OffsetRange:
        """Return the range of a partition to copy.

        Args:
            copy_end: source offset at which the copy ends; negative if the copy is empty.

        Raises:
            OptionError: the range starts after the end of the copy, which would leave a gap.
        """
        offsets = self.ranges.get(partition, ALL_OFFSETS)
        if 0 <= copy_end < offsets.first_offset and not isinstance(self.settings.selection.live_range[0], GroupBound):
            raise OptionError(
                f"`start`: the copy of {partition} ends at offset {copy_end}, and a start at {offsets.first_offset} "
                "would leave a gap; omit `start` to resume, or mirror into another target"
            )
        return offsets

    # -------------------------------------------------------------------------------------------------- comparing

    async def _wait_for_end(self, partition: TopicPartition, offset: int) -> int:
        """Return the source's end offset. If it is below the copy's end, wait, because a new leader may catch up.

        Raises:
            LogDirError: after the wait, the source still ends before the copy.
        """
        assert self.readers is not None
        deadline = time.monotonic() + self.settings.timeout_s
        while (end := (await self.readers[0].end_offsets([partition]))[partition]) < offset:
            if time.monotonic() >= deadline:
                reason = f"the copy ends at {offset:,}, after the source's end {end:,}: it is a copy of another log"
                raise LogDirError(f"{reason}, or the source was truncated or recreated", file=str(partition))
            await asyncio.sleep(_POLL_INTERVAL_MS / 1000)
        return end

    async def _compare_partition(self, partition: TopicPartition, writer: Writer, start: int, end: int) -> int:
        """Compare source and copy below ``end``, and return the number of offsets at which both have the same record.

        Args:
            start: first offset in the source.

        Raises:
            LogDirError: the sides differ, or no offset can be compared and nothing else proves that this is a copy of
                the source.
        """
        assert self.readers is not None
        source_range, copy_range = self.readers
        skips, wait_s = self.settings.on_damage == "drop", max(self.settings.timeout_s, _STALL_TIMEOUT_S)
        source = PartitionSide(source_range, partition, skips, wait_s)
        copied_side = PartitionSide(copy_range, partition, timeout_s=wait_s)
        start_offsets = (await copy_range.beginning_offsets([partition]))[partition]
        copy: ComparedSide = copied_side
        if isinstance(writer, OffsetMappingWriter):
            mapping = writer.get_mapping(partition)
            if mapping.first_source_offset is None:
                return 0
            copy, start_offsets = MappedSide(copied_side, mapping), mapping.find_source_offset(start_offsets)
        comparison = PartitionComparison(
            partition, source, copy, max(start, start_offsets), end, is_complete=self._compares_all_records
        )
        count = await comparison.compare()
        if count or not await has_records(copy, start_offsets, end):
            return count
        if isinstance(writer, OffsetMappingWriter) and writer.proves_identity(partition):
            self.say(
                f"{partition}: source and copy no longer have common offsets; the mirror continues, because the "
                "mapping has the same topic ids"
            )
        elif self.settings.unverified:
            self.say(
                f"{partition}: source and copy have no common offsets; the mirror "
                "continues, because `unverified` is set"
            )
        else:
            reason = (
                f"the copy has records below offset {end:,}, and the source no longer has any of these offsets, so "
                "it is unknown whether the copy is of this source; set `unverified` to continue"
            )
            raise LogDirError(reason, file=str(partition))
        return 0

    @property
    def _compares_all_records(self) -> bool:
        """Whether to compare all common records. By default, all are compared if both sides are local directories."""
        if self.settings.compare is not None:
            return self.settings.compare == "all"
        return is_directory(self.source) and is_directory(self.target)

    async def _check_source_unchanged(
        self, fetched_batches: FetchedBatches, consumer: AsyncConsumer, writer: Writer
    ) -> None:
        """Compare again if the source's topic was recreated or its log was truncated after the last comparison."""
        partition = fetched_batches.partition
        known_id = self.source_ids[partition.topic]
        topic_id = await consumer.current_topic_id(partition.topic) if known_id.int else known_id
        if topic_id != known_id or fetched_batches.fetch_offset < self.reports[partition].until_offset:
            await self._compare_again(partition, consumer, writer)
            self.source_ids[partition.topic] = topic_id

    async def _compare_again(self, partition: TopicPartition, consumer: AsyncConsumer, writer: Writer) -> None:
        """Compare a partition after its topic was recreated or its log was truncated.

        Raises:
            LogDirError: the copy no longer matches the source.
        """
        self.say(f"{partition}: the source's topic was recreated or truncated; it is compared with the copy again")
        if isinstance(writer, OffsetMappingWriter):
            reason = "the source's topic was recreated or truncated, and the mapping belongs to the old topic"
            raise LogDirError(f"{reason}; mirror it into a new topic", file=str(partition))
        end = writer.get_copy_end(partition)
        if not end:
            return
        await self._wait_for_end(partition, end)
        start = (await consumer.beginning_offsets([partition]))[partition]
        self.reports[partition].compared = await self._compare_partition(partition, writer, start, end)

    # ---------------------------------------------------------------------------------------------------- copying

    async def _copy_until_end(
        self, admin: AsyncAdmin, target_admin: AsyncAdmin, consumer: AsyncConsumer, writer: Writer
    ) -> None:
        """Copy until the copy is complete, or with ``follow`` until the mirror is stopped."""
        settings = self.settings
        groups_at = topics_at = moved_at = time.monotonic()
        while not self.stop.is_set() and (settings.follow or self._list_incomplete_partitions()):
            fetched_batches = await consumer.fetch(_POLL_INTERVAL_MS)
            now = time.monotonic()
            if fetched_batches is not None:
                moved_at = now
                await self._start_write(fetched_batches, consumer, writer)
            elif not settings.follow and await self._skip_gaps(consumer):
                moved_at = now
            elif not settings.follow and now - moved_at > _STALL_TIMEOUT_S:
                partitions_text = ", ".join(map(str, self._list_incomplete_partitions()))
                raise NetworkError(f"no records from {partitions_text} arrived for {_STALL_TIMEOUT_S:.0f} s")
            self._raise_write_errors()
            if settings.follow and settings.groups and now - groups_at >= settings.group_interval_s:
                await self._copy_groups(admin, target_admin, writer)
                groups_at = time.monotonic()
            if settings.follow and now - topics_at >= settings.topic_interval_s:
                await self._look_for_new_topics(admin, target_admin, consumer, writer)
                topics_at = time.monotonic()
        await asyncio.gather(*self.writing.values())

    async def _skip_gaps(self, consumer: AsyncConsumer) -> bool:
        """Finish partitions whose last offsets are a gap, and return whether there were any."""
        skipped_partitions = [
            partition
            for partition in self._list_incomplete_partitions()
            if await consumer.skip_gap(partition, self.ends[partition])
        ]
        for partition in skipped_partitions:
            self.reports[partition].until_offset = max(self.reports[partition].until_offset, self.ends[partition])
        return bool(skipped_partitions)

    def _list_incomplete_partitions(self) -> list[TopicPartition]:
        return [partition for partition, report in self.reports.items() if report.until_offset < self.ends[partition]]

    async def _start_write(self, fetched_batches: FetchedBatches, consumer: AsyncConsumer, writer: Writer) -> None:
        """Write fetched batches concurrently with other partitions, after pending writes of the same partition."""
        partition = fetched_batches.partition
        pending_write = self.writing.get(partition)
        if pending_write is not None:
            await pending_write
        await self._check_source_unchanged(fetched_batches, consumer, writer)
        running_task = [task for task in self.writing.values() if not task.done()]
        if len(running_task) >= _MAX_CONCURRENT_WRITES:
            await asyncio.wait(running_task, return_when=asyncio.FIRST_COMPLETED)
        report = self.reports[partition]
        end_offset = self.ranges.get(partition, ALL_OFFSETS).end_offset
        if report.until_offset >= end_offset:
            return
        report.gone += max(fetched_batches.fetch_offset - report.until_offset, 0)
        next_offset = min(fetched_batches.next_offset, end_offset)
        # A writer that maps offsets can continue inside a batch by itself. Otherwise, only the first batch can begin
        # before the start.
        is_first = isinstance(writer, OffsetKeepingWriter) and report.until_offset == report.from_offset
        offsets = OffsetRange(report.from_offset if is_first else NO_START, end_offset)
        if offsets.is_limited and len(fetched_batches.batches):
            fetched_batches = clip_batches(fetched_batches, offsets, report)
        report.until_offset = next_offset
        self.writing[partition] = asyncio.ensure_future(writer.write_batches(fetched_batches, report))

    def _raise_write_errors(self) -> None:
        """Raise the error from a failed write."""
        for task in self.writing.values():
            if task.done() and (error := task.exception()) is not None:
                raise error

    async def _look_for_new_topics(
        self, admin: AsyncAdmin, target_admin: AsyncAdmin, consumer: AsyncConsumer, writer: Writer
    ) -> None:
        """Begin to copy new topics and partitions that the settings select, and report deleted topics."""
        topics = await select_topics(admin, self.settings.selection.topic_names, self.configs, requires_match=False)
        self._report_deleted_topics({topic.name for topic in topics})
        with suppress(OptionError):
            for topic in topics:
                await self._compare_recreated_topic(topic, consumer, writer)
                numbers = self._select_partition_numbers(topic)
                partitions_to_add = tuple(
                    number for number in numbers if TopicPartition(topic.name, number) not in self.reports
                )
                if partitions_to_add:
                    self.say(f"{topic.name}: {count_text(len(partitions_to_add), 'new partition')}")
                    new_topics = MirroredTopic(topic.name, topic.topic_id, partitions_to_add, topic.configs)
                    await self._begin_copying([new_topics], consumer, target_admin, writer, is_later=True)

    def _report_deleted_topics(self, existing_topics: Collection[str]) -> None:
        """Report, but only once, each copied topic that the source no longer has."""
        deleted_topics = self.source_ids.keys() - existing_topics
        for topic in sorted(deleted_topics - self.deleted_topics):
            self.say(
                f"{topic}: the source no longer has this topic, or the user may no longer describe it; its copy stays"
            )
        self.deleted_topics = deleted_topics

    async def _compare_recreated_topic(self, topic: MirroredTopic, consumer: AsyncConsumer, writer: Writer) -> None:
        """Compare the copies of a topic if it was recreated. It raises the same errors as ``_compare_again``."""
        topic_id = UUID(topic.topic_id)
        if self.source_ids.get(topic.name, topic_id) == topic_id:
            return
        for partition in [
            copied_partition for copied_partition in self.reports if copied_partition.topic == topic.name
        ]:
            if (task := self.writing.get(partition)) is not None:
                await task
            await self._compare_again(partition, consumer, writer)
        self.source_ids[topic.name] = topic_id

    async def _copy_groups(self, admin: AsyncAdmin, target_admin: AsyncAdmin, writer: Writer) -> None:
        try:
            commits = await read_source_commits(admin, self.reports.keys(), self._report_group_problem)
        except BrokerError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            self._report_group_problem(f"committed offsets are not copied, because the source is too old: {error}")
            return
        await copy_groups(target_admin, commits, writer.translate_offset, self.report)

    def _report_group_problem(self, problem: str) -> None:
        """Report a problem with the source's groups, but only once."""
        if problem not in self.reported_group_problems:
            self.reported_group_problems.add(problem)
            self.say(problem)

    # --------------------------------------------------------------------------------------------------- finishing

    async def _finish_copy(self, admin: AsyncAdmin, target_admin: AsyncAdmin, writer: Writer) -> None:
        """Copy committed offsets, and check that the counts of read and written records match."""
        self.report.was_stopped = not self.settings.follow and bool(self._list_incomplete_partitions())
        if isinstance(writer, OffsetKeepingWriter):
            await self._align_offsets(admin, target_admin, writer)
        if self.settings.groups:
            await self._copy_groups(admin, target_admin, writer)
        if self.report.keeps_offsets:
            await reset_gap_settings(target_admin, {topic.name: topic for topic in self.copied_topics}.values())
        for report in self.report.partitions:
            report.check_counts()

    async def _align_offsets(self, admin: AsyncAdmin, target_admin: AsyncAdmin, writer: OffsetKeepingWriter) -> None:
        """Set the start and end offsets of the copies to those of the source, which may be inside a gap."""
        reports = {
            partition: report
            for partition, report in self.reports.items()
            if partition.topic not in self.deleted_topics
        }
        partitions = dict.fromkeys(reports, EARLIEST)
        starts = await admin.list_offsets(partitions)
        starts |= {
            topic_partition: max(starts[topic_partition], report.from_offset)
            for topic_partition, report in reports.items()
            if not report.resumed
        }
        for partition, report in reports.items():
            if report.until_offset >= self.ends[partition]:
                await writer.extend_copy(partition, report.until_offset)
                report.target_end = report.until_offset
        target_limits = await target_admin.list_offsets(partitions)
        unfinished_partitions = {
            partition: start
            for partition, start in starts.items()
            if target_limits[partition] < start <= self.reports[partition].target_end
        }
        if unfinished_partitions:
            await target_admin.delete_records(unfinished_partitions)
