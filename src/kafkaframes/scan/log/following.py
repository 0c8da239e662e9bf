"""The planner of a stream that follows a growing log: the start, the end of each micro-batch, and its tasks.

No pyspark.

Offsets have the form of Spark's Kafka source, ``{"topic": {"0": 42}}``: the next offset of each topic partition. The
directory is listed for each micro-batch, so that new batches, segments and partitions are found. A new partition is
read from its start. A micro-batch ends before an incomplete batch and, with ``read_committed``, at the last stable
offset. If retention deleted unread records, this is an error, or with ``failOnDataLoss=false`` a warning. The same
applies to a topic whose id has changed, because it was deleted and created again, even if its log is longer than the
old offset. Directories of brokers before 2.8 have no topic ids. In these directories, an offset is stored with
fingerprints of the last records before it. They are compared whenever the files of the partition have changed since
the last comparison.

Commands that print new records use ``AppendedRowReader``, which returns the records that were appended since the last
call and does not store offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.records.columns import ReadError, RecordReader
from kafkaframes.records.columns import ReadOptions as RecordOptions
from kafkaframes.records.scan import FILE
from kafkaframes.scan.fingerprints import MAX_FINGERPRINTS, Fingerprint, find_difference
from kafkaframes.scan.log.discovery import DiscoveredLogs, DistinctSegments, Log, discover_logs
from kafkaframes.scan.log.last_records import find_fingerprints, find_last_fingerprints
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import check_no_replicas, select_segments
from kafkaframes.scan.log.resolve import (
    Logs,
    ReadPlan,
    check_loss,
    find_log_end_offset,
    make_placeholder,
    map_logs_by_partition,
    plan_discovered,
    resolve_offsets,
)
from kafkaframes.scan.ranges import (
    EARLIEST,
    LATEST,
    Bound,
    Name,
    describe_deselection,
    describe_lost_start,
    describe_recreation,
    describe_replaced_log,
    describe_truncation,
    expand_bound,
    format_partition,
    get_common_offset,
    get_common_time,
    limit_offsets,
    report_loss,
)
from kafkaframes.scan.rows import RowOrigin, choose_columns_to_read, select_rows
from kafkaframes.scan.selection import selects_partition
from kafkaframes.scan.stream_offsets import StreamOffsets
from kafkaframes.scan.where import RowFilter
from kafkaframes.storage.files.directory import Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.names import INTERNAL_TOPICS, TopicPartition
from kafkaframes.storage.files.segment_reader import open_segment
from kafkaframes.storage.log.discover import discover, is_selected
from kafkaframes.storage.log.lookup import find_offset_for_timestamp, log_end_offset
from kafkaframes.storage.log.open_segment import open_planned_segment
from kafkaframes.storage.log.transactions import read_transactions
from kafkaframes.wire.primitives import uuid_from_text

_LOGGER = logging.getLogger("kafkaframes.scan")
Ends = dict[tuple[str, int], int]
Rows = tuple[Fingerprint, ...]


@dataclass(frozen=True, slots=True)
class LogFollower:
    """The planner of a stream from log directories: it determines the offsets and the tasks of each micro-batch."""

    options: ReadOptions
    # Open transactions that the log already mentions, so that each is reported once.
    _reported_transactions: set[tuple[str, int, int, int]] = field(default_factory=set, compare=False)
    # State of a log's files at its last comparison with fingerprints, and the fingerprints that it did not contradict.
    _comparisons: dict[Name, tuple[object, tuple[Rows, ...]]] = field(default_factory=dict, compare=False)

    def check_options(self) -> LogFollower:
        """Check the options for a stream, and return the planner itself.

        Raises:
            OptionError: An option is not available for streams.
        """
        if self.options.table != "records":
            raise OptionError(f"table={self.options.table} is for batch reads; a stream reads records")
        if self.options.replicas == "all":
            raise OptionError("replicas=all is for batch reads; a stream follows one copy of each partition")
        if self.options.end != LATEST:
            raise OptionError("a stream has no end: `end` is for batch reads")
        return self

    def find_start_offsets(self) -> StreamOffsets:
        """Return the start offsets of the first micro-batch, with the topic ids.

        A topic without ``partition.metadata`` has no id. Offsets in a topic without an id are stored with
        fingerprints.

        Raises:
            OptionError: A topic, partition or offset in the options does not exist, or is lost.
            LogDirError: A path cannot be read.
        """
        result, logs = self._discover_logs()
        resolved_offsets = resolve_offsets(self.options, logs)
        if result.has_whole_directories:
            check_loss(resolved_offsets, logs)
        starts = expand_bound("start", resolved_offsets.start, logs)
        offsets, ids = (
            {name: _resolve_start_offset(log, starts[name]) for name, log in logs.items()},
            _read_topic_ids(logs, {}),
        )
        return StreamOffsets(offsets, ids, fingerprints=self._find_fingerprints(offsets, ids, logs, StreamOffsets({})))

    def find_end_offsets(self) -> Ends:
        """Return the current end offset of each topic partition."""
        return {name: self._find_end_offset(log) for name, log in self._discover_logs()[1].items()}

    def find_batch_end(
        self,
        start_offsets: StreamOffsets,
        *,
        ends: Ends | None = None,
        max_offsets: int | None = None,
        max_bytes: int | None = None,
        is_first: bool = False,
    ) -> StreamOffsets:
        """Return the end of the micro-batch that begins at ``start_offsets``, with the topic ids and fingerprints.

        A topic with another id was deleted and created again; a partition with another record at the offset of a
        fingerprint has another log. Either is an error. With ``failOnDataLoss=false`` it is a warning, and the topic
        or partition is read from its start.

        Args:
            start_offsets: Start of the micro-batch. A topic without an id and without fingerprints in
                ``start_offsets`` counts as the same topic.
            ends: Upper limit of the end offsets. If None, the limit is the current end offset of each partition.
            max_offsets: Largest number of offsets, divided in proportion to the backlogs, as in Spark's Kafka source.
            max_bytes: Largest number of log bytes, divided equally. Each partition contributes at least one batch.
            is_first: Whether this is the first micro-batch of the query.

        Raises:
            OptionError: A topic was created again; or a partition was deleted, has another log, ends below its start,
                or is new and has lost its first records. With ``failOnDataLoss=false`` a warning is logged instead.
            LogDirError: A path cannot be read.
        """
        logs = self._discover_logs()[1]
        ids = _read_topic_ids(logs, start_offsets.ids)
        start = self._drop_recreated(start_offsets.offsets, start_offsets.ids, ids)
        start = self._drop_replaced(start, start_offsets, logs)
        begins = {name: start.get(name, log.partition.log_start_offset) for name, log in logs.items()}
        for name, begin in begins.items():
            if name not in start and begin > 0 and not is_first:
                report_loss(describe_lost_start(format_partition(name), begin), fail=self.options.fail_on_data_loss)
        # With given ends, an open transaction may still hold back a partition at its end, which is logged as well.
        examined_logs = {name: log for name, log in logs.items() if ends is None or begins[name] == ends.get(name)}
        own_ends = {name: self._find_end_offset(log, begins[name]) for name, log in examined_logs.items()}
        result = own_ends if ends is None else ends
        self._check_log_ends(start, result)
        limits = {name: max(result.get(name, begin), begin) for name, begin in begins.items()}
        if max_offsets is not None:
            limits = limit_offsets(begins, limits, max_offsets)
        if max_bytes is not None:
            limits = _limit_by_bytes(begins, limits, max_bytes, logs)
        offsets = {**start, **limits}
        is_same = offsets == start_offsets.offsets and start == start_offsets.offsets
        rows = (
            start_offsets.fingerprints
            if is_same
            else self._find_fingerprints(offsets, ids, logs, replace(start_offsets, offsets=start))
        )
        return StreamOffsets(offsets, ids, fingerprints=rows)

    def plan_batch(self, start: StreamOffsets, end: StreamOffsets, *, cores: int) -> ReadPlan:
        """Return the tasks of a micro-batch, which may be a repetition after a restart.

        Raises:
            OptionError: Offsets of the micro-batch are lost, a topic was created again, or a partition has another
                log.
            LogDirError: A path cannot be read.
        """
        result, logs = self._discover_logs()
        begins = self._drop_recreated(start.offsets, start.ids, end.ids)
        ends = self._drop_recreated(end.offsets, end.ids, _read_topic_ids(logs, {}))
        rows_before, rows_after = start.fingerprints, end.fingerprints
        ends = {
            name: offset
            for name, offset in ends.items()
            if offset != begins.get(name) or rows_before.get(name) != rows_after.get(name)
        }
        ends = self._drop_replaced(ends, end, logs)
        begins = self._drop_replaced({name: offset for name, offset in begins.items() if name in ends}, start, logs)
        pending = {name: offset for name, offset in ends.items() if offset > begins.get(name, EARLIEST)}
        segments = [segment for segment in result.segments if (segment.topic, segment.partition) in pending]
        present_partitions = {(segment.topic, segment.partition) for segment in segments}
        self._check_log_ends(pending, dict.fromkeys(present_partitions, 2**63))
        batch_options = replace(
            self.options,
            subscribe=None,
            subscribe_pattern=None,
            assign=_assignment(present_partitions),
            partitions=None,
            start={name: begins.get(name, EARLIEST) for name in present_partitions},
            end={name: pending[name] for name in present_partitions},
        )
        return (
            plan_discovered(replace(result, segments=segments), batch_options, cores=cores)
            if present_partitions
            else ReadPlan((), 0, 0)
        )

    def _drop_recreated(
        self, offsets: Mapping[Name, int], checkpoint_ids: Mapping[str, str], current_ids: Mapping[str, str]
    ) -> Ends:
        """Return the offsets, except those of recreated topics, whose topic id has changed.

        Raises:
            OptionError: A topic has another id, and ``failOnDataLoss`` is set.
        """
        recreated_topics = sorted(
            topic for topic in checkpoint_ids.keys() & current_ids.keys() if checkpoint_ids[topic] != current_ids[topic]
        )
        for topic in recreated_topics:
            report_loss(
                describe_recreation(topic, checkpoint_ids[topic], current_ids[topic]),
                fail=self.options.fail_on_data_loss,
            )
        return {name: offset for name, offset in offsets.items() if name[0] not in recreated_topics}

    def _drop_replaced(self, offsets: Mapping[Name, int], start_offsets: StreamOffsets, logs: Logs) -> Ends:
        """Return the offsets, except those of partitions that have another record at a fingerprint's offset.

        Raises:
            OptionError: A partition has another record, and ``failOnDataLoss`` is set.
        """
        result = dict(offsets)
        for name in sorted(offsets.keys() & start_offsets.fingerprints.keys() & logs.keys()):
            rows = start_offsets.fingerprints[name]
            files, compared_rows = self._comparisons.get(name, (None, ()))
            if files == _get_file_state(logs[name]) and rows in compared_rows:
                continue
            log_rows = find_fingerprints(logs[name], rows)
            difference = find_difference(rows, log_rows)
            if difference is not None:
                problem = describe_replaced_log(format_partition(name), difference[0].offset, *difference)
                report_loss(problem, fail=self.options.fail_on_data_loss)
                del result[name]
                continue
            if not log_rows:
                _LOGGER.warning(
                    "nothing shows that %s is the log from which the checkpoint was written: it has no topic id, and "
                    "the records at the offsets %s of the checkpoint are missing or unreadable; the stream continues",
                    format_partition(name),
                    ", ".join(str(row.offset) for row in rows),
                )
            self._store_comparison(name, rows, logs[name])
        return result

    def _store_comparison(self, name: Name, rows: Rows, entry: Log) -> None:
        """Remember that a log's records match these fingerprints.

        The plan of the micro-batch needs the fingerprints of its start and end.
        """
        files = _get_file_state(entry)
        earlier_files, compared_rows = self._comparisons.get(name, (None, ()))
        self._comparisons[name] = files, (rows, *(compared_rows[:1] if files == earlier_files else ()))

    def _find_fingerprints(
        self, offsets: Mapping[Name, int], ids: Mapping[str, str], logs: Logs, old_offsets: StreamOffsets
    ) -> dict[Name, Rows]:
        """Return the fingerprints of the last records before offsets, for partitions without a topic id.

        Args:
            offsets: Next offset of each partition.
            ids: Topic ids.
            logs: Logs of the partitions.
            old_offsets: Earlier offsets of the same logs. Their fingerprints are reused, because the last batches may
                have no records.
        """
        result: dict[Name, Rows] = {}
        for name, offset in offsets.items():
            rows = old_offsets.fingerprints.get(name, ()) if name in old_offsets.offsets else ()
            if name[0] in ids:
                continue
            if name in logs and (not rows or offset != old_offsets.offsets[name]):
                by_offset = {row.offset: row for row in (*rows, *find_last_fingerprints(logs[name], offset))}
                rows = tuple(by_offset[at] for at in sorted(by_offset))[-MAX_FINGERPRINTS:]
                self._store_comparison(name, rows, logs[name])
            if rows:
                result[name] = rows
        return result

    def _discover_logs(self) -> tuple[DiscoveredLogs, Logs]:
        result = discover_logs(self.options.paths, storage=self.options.storage)
        placeholders = {entry.directory: entry for entry in result.unreadable_partitions}
        segments = select_segments([*result.segments, *map(make_placeholder, placeholders.values())], self.options)
        for segment in segments:
            if segment.directory in placeholders:
                raise placeholders[segment.directory].as_error()
        check_no_replicas(segments)
        return result, map_logs_by_partition(DistinctSegments(result, segments))

    def _find_end_offset(self, entry: Log, begin: int | None = None) -> int:
        """Return a partition's end offset. Each open transaction that stops the stream at ``begin`` is logged once."""
        if self.options.isolation != "read_committed":
            return find_log_end_offset(entry)
        state = read_transactions(entry.filesystem, entry.partition)
        if state.open and begin is not None and begin >= state.last_stable_offset:
            producer_id, first = min(state.open.items(), key=lambda item: item[1])
            name = entry.partition.topic_partition
            key = (name.topic, name.partition, producer_id, first)
            if key not in self._reported_transactions:
                self._reported_transactions.add(key)
                _LOGGER.warning(
                    "the stream waits at offset %d of %s, because the transaction of producer %d is open; up to %d "
                    "records follow in the log. isolation=read_uncommitted reads them",
                    first,
                    name,
                    producer_id,
                    state.log_end_offset - first,
                )
        return state.last_stable_offset

    def _check_log_ends(self, start: Ends, ends: Ends) -> None:
        """Report each partition that is deleted or ends below the start offset of the micro-batch."""
        for name, offset in sorted(start.items()):
            end = ends.get(name)
            if end is not None and end >= offset:
                continue
            problem = (
                describe_truncation(format_partition(name), offset, end)
                if selects_partition(self.options, *name)
                else describe_deselection(format_partition(name), offset)
            )
            report_loss(problem, fail=self.options.fail_on_data_loss)


def _read_topic_ids(logs: Logs, known_ids: Mapping[str, str]) -> dict[str, str]:
    """Return topic ids. If a topic's directories have different ids, return one that differs from ``known_ids``."""
    ids: dict[str, str] = {}
    for (topic, _), entry in logs.items():
        metadata = entry.partition.metadata
        if metadata is not None and metadata.topic_id and ids.get(topic, known_ids.get(topic)) == known_ids.get(topic):
            ids[topic] = str(uuid_from_text(metadata.topic_id))
    return ids


def _get_file_state(entry: Log) -> object:
    """Return a value that changes whenever the files of a log change."""
    return tuple((segment.path, segment.size_bytes, segment.log.mtime_ms) for segment in entry.partition.segments)


def _assignment(names: set[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    return {topic: tuple(sorted(p for t, p in names if t == topic)) for topic in {topic for topic, _ in names}}


def _resolve_start_offset(entry: Log, offset: int) -> int:
    offsets_by_name = {EARLIEST: lambda: entry.partition.log_start_offset, LATEST: lambda: find_log_end_offset(entry)}
    return offsets_by_name[offset]() if offset in offsets_by_name else max(offset, entry.partition.log_start_offset)


def _limit_by_bytes(begins: Ends, ends: Ends, max_bytes: int, logs: Logs) -> Ends:
    """Return the end offsets of a micro-batch of at most ``max_bytes`` bytes, in equal shares for the partitions."""
    waiting = [name for name in ends if ends[name] > begins[name]]
    share = max_bytes // max(len(waiting), 1)
    return {**ends, **{name: _find_end_within_bytes(logs[name], begins[name], ends[name], share) for name in waiting}}


def _find_end_within_bytes(entry: Log, begin: int, end: int, max_bytes: int) -> int:
    """Return the offset after the batches from ``begin`` that fit into ``max_bytes`` bytes, at least one batch."""
    total_bytes, reached = 0, begin
    following = [*(segment.base_offset for segment in entry.partition.segments[1:]), 2**63]
    for segment, limit in zip(entry.partition.segments, following, strict=True):
        if limit <= begin:
            continue
        with open_segment(entry.filesystem, segment) as reader:
            for header in reader.walk_headers(reader.find_start_before(begin)):
                if header.last_offset < begin:
                    continue
                total_bytes += header.size
                if reached > begin and total_bytes > max_bytes:
                    return reached
                reached = header.last_offset + 1
                if reached >= end:
                    return end
    return end


@dataclass(slots=True)
class _PartitionProgress:
    """A reader's progress in one partition.

    Attributes:
        topic_id: Id of the topic; empty if its directory does not have one.
        next_offset: Offset after the last batch that was read.
        last_base: Base offset of the last segment.
        positions: Position after the last batch that was read, by segment path.
    """

    topic_id: str = ""
    next_offset: int = 0
    last_base: int = 0
    positions: dict[str, int] = field(default_factory=dict)

    def is_same_log(self, partition: Partition) -> bool:
        """Return whether the log is still the same, neither recreated nor truncated."""
        topic_id = "" if partition.metadata is None else partition.metadata.topic_id
        if (topic_id and self.topic_id and topic_id != self.topic_id) or not partition.segments:
            return topic_id == self.topic_id
        last = partition.segments[-1]
        return last.base_offset >= self.last_base and last.size_bytes >= self.positions.get(last.path, 0)


class AppendedRowReader:
    """A reader of appended records, with its progress in each partition. Replicas of a partition are not merged.

    The progress is an offset, so records in a segment that the cleaner has rewritten are not read twice. A log that was
    recreated or truncated is read from its start. The reader returns no control records.

    Args:
        paths: Log directories or partitions. New partitions and segments under them are read as well.
        topics: Topic names or patterns. Default: all topics except Kafka's internal topics.
        columns: Columns of the rows, as for ``kafkaframes.scan_log``.
        row_filter: Conditions on rows.
        start: First offset of each partition, or a time for the first record.
        storage: Options of the file system.

    Attributes:
        errors: Damage found so far. The caller clears the list.
    """

    def __init__(
        self,
        paths: Sequence[str],
        topics: Sequence[str] = (),
        *,
        columns: Sequence[str],
        row_filter: RowFilter,
        start: Bound = EARLIEST,
        storage: Mapping[str, Any],
    ) -> None:
        self.errors: list[ReadError] = []
        self._paths, self._topics, self._storage = list(paths), topics, storage
        self._columns, self._row_filter, self._start = tuple(columns), row_filter, start
        self._progress: dict[str, _PartitionProgress] = {}
        self._options = RecordOptions(
            columns=choose_columns_to_read(columns, row_filter),
            control_records=False,
            rules=FILE,
            first_offset=row_filter.offsets[0],
            end_offset=row_filter.offsets[1],
        )

    def read_new_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the records that were appended since the last call, partition by partition.

        Raises:
            LogDirError: A path cannot be read.
        """
        for directory in discover(self._paths, options=self._storage, omit_unreadable=True):
            for entry in directory.unreadable_partitions:
                if not entry.state and self._is_selected(entry.topic_partition):
                    raise entry.as_error()
            for partition in directory.partitions:
                if partition.is_live and self._is_selected(partition.topic_partition):
                    yield from self._read_new_rows(directory.filesystem, partition)

    def _is_selected(self, topic_partition: TopicPartition) -> bool:
        """Return whether a topic partition has rows to read. Internal topics must be selected by name."""
        is_hidden = not self._topics and topic_partition.topic in INTERNAL_TOPICS
        return (
            is_selected(topic_partition.topic, self._topics)
            and self._row_filter.has_partition(topic_partition.topic, topic_partition.partition)
            and not is_hidden
        )

    def _read_new_rows(self, filesystem: FileSystem, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a partition that were appended since the last call."""
        progress = self._progress.get(partition.directory)
        if progress is None or not progress.is_same_log(partition):
            progress = self._progress[partition.directory] = _PartitionProgress(
                next_offset=self._find_first_offset(filesystem, partition)
            )
        progress.topic_id = "" if partition.metadata is None else partition.metadata.topic_id
        for segment in partition.segments:
            yield from self._read_new_rows_of_segment(filesystem, partition.topic_partition, segment, progress)
            progress.last_base = segment.base_offset

    def _find_first_offset(self, filesystem: FileSystem, partition: Partition) -> int:
        """Return the offset at which reading of a partition starts."""
        if self._start == LATEST:
            return log_end_offset(filesystem, partition)
        time_ms = get_common_time(self._start)
        if time_ms is not None:
            result = find_offset_for_timestamp(filesystem, partition, time_ms)
            return log_end_offset(filesystem, partition) if result is None else result.offset
        return get_common_offset(self._start) or 0

    def _read_new_rows_of_segment(
        self, filesystem: FileSystem, topic_partition: TopicPartition, segment: Segment, progress: _PartitionProgress
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of a segment after the last batch that was read, and store the progress."""
        start = progress.positions.get(segment.path, 0)
        if segment.size_bytes <= start:
            return
        origin = RowOrigin(topic_partition.topic, topic_partition.partition, segment.path)
        first = self._options.first_offset
        options = self._options._replace(first_offset=max(progress.next_offset, 0 if first is None else first))
        with open_planned_segment(segment.path, segment.size_bytes, options=self._storage) as opened:
            reader = RecordReader(opened.source, options, errors=self.errors, start=start, end=segment.size_bytes)
            for batch in reader:
                rows = select_rows(batch, origin, self._columns, self._row_filter)
                if rows is not None:
                    yield rows
        # An incomplete batch is still being written. The next call reads it.
        is_torn = reader.end is not None and not reader.end.is_corrupt
        progress.positions[segment.path] = reader.end.position if reader.end and is_torn else segment.size_bytes
        with open_segment(filesystem, segment) as headers:
            progress.next_offset = max(progress.next_offset, headers.next_offset)
