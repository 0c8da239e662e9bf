"""Plan how live topics are read: look up partitions and offsets in the cluster, and divide them among tasks.

No pyspark.

A range has a first offset and an exclusive end, as in Spark's Kafka source. ``minPartitions`` and
``maxRecordsPerPartition`` split ranges into parts of about equal size in **bytes**. The sizes are estimated from a few
batches of each range, because offset counts mean little in compacted and transactional topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.topic_lookups import TopicLookupClient
from kafkaframes.errors import BrokerError, OptionError
from kafkaframes.scan.ranges import (
    EARLIEST,
    LATEST,
    NO_END,
    Bound,
    GroupBound,
    Name,
    PartitionOffsets,
    check_partitions,
    describe_offset_below_start,
    describe_offset_beyond_end,
    limit_common_offsets,
    report_loss,
    resolve_bound,
)
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.shares import Bounds, PartitionRange, TaskShare, divide_among_tasks

if TYPE_CHECKING:
    from kafkaframes.client import Consumer
    from kafkaframes.storage.log.notes import HiddenRecords

Offsets = dict[TopicPartition, int]
ReportHidden = Callable[["HiddenRecords"], None]
_SAMPLES_PER_RANGE: Final = 8  # number of positions in an offset range at which records are fetched
_SAMPLE_BYTES: Final = 65_536  # largest response to a fetch that samples a range
_UNCOMMITTED_SETTINGS: Final = {"isolation.level": "read_uncommitted"}
_READER_SETTINGS: Final = {"auto_offset_reset": "none", "enable_auto_commit": False}


def open_consumer(options: TopicOptions, **settings: object) -> Consumer:
    """Return a consumer without a group, which reads from offsets that the caller sets."""
    # This import costs 8 MB and 0.2 s; most planner processes of Spark never need it.
    from kafkaframes.client import Consumer

    return Consumer(**{**options.client, **_READER_SETTINGS, **settings})


class TopicLookups:
    """A client that looks up the partitions, offsets and topic ids of one read in its cluster."""

    def __init__(self, options: TopicOptions) -> None:
        self.options = options
        self._client = TopicLookupClient({**options.client, **_READER_SETTINGS})

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> TopicLookups:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find_partitions(self) -> list[TopicPartition]:
        """Return the partitions that the options select, in order.

        Raises:
            BrokerError: A topic does not exist, or the client is not authorized to describe it.
            OptionError: An assigned partition does not exist.
        """
        options = self.options
        if options.assign is not None:
            assigned_partitions = [
                TopicPartition(topic, partition)
                for topic, all_partitions in options.assign.items()
                for partition in all_partitions
            ]
            existing_partitions = set(self._client.partitions_for(*options.assign))
            missing_partitions = [str(name) for name in assigned_partitions if name not in existing_partitions]
            if missing_partitions:
                raise OptionError(
                    f"assign: the cluster does not have the topic partition {', '.join(missing_partitions)}"
                )
            return sorted(assigned_partitions, key=_name_of)
        if options.subscribe_pattern is not None:
            topics = [name for name in self._client.topics() if options.subscribe_pattern.fullmatch(name)]
        else:
            topics = list(options.subscribe or ())
        partitions = self._client.partitions_for(*sorted(topics))
        if options.partitions is None:
            return partitions
        selected_partitions = [partition for partition in partitions if partition.partition in options.partitions]
        check_partitions(options.partitions, {partition.partition for partition in selected_partitions})
        return selected_partitions

    def find_earliest_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the first offset of each partition."""
        return self._client.beginning_offsets(partitions)

    def find_latest_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the end offset of each partition; the last stable offset for ``read_committed``."""
        return self._client.end_offsets(partitions)

    def find_topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the current topic ids. The result is empty if brokers have no topic ids (before Kafka 2.8)."""
        return {topic: str(topic_id) for topic, topic_id in self._client.topic_ids(set(topics)).items()}

    def find_start_offsets(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the start offsets of a query without a checkpoint.

        Raises:
            OptionError: The offsets are not specified for exactly these partitions, or the time is later than all
                records.
        """
        start = self.options.start
        if isinstance(start, GroupBound):
            return self._fetch_group_offsets(start.group_id, partitions)
        return self._resolve_offsets("start", start, partitions, no_match=self.options.no_match)

    def find_end_offsets(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the end offsets of a batch read."""
        return self._resolve_offsets("end", self.options.end, partitions)

    def _resolve_offsets(
        self, setting: str, bound: Bound, partitions: Sequence[TopicPartition], *, no_match: str = "latest"
    ) -> Offsets:
        """Return the offset of a start or end in each partition. Times and names, such as "earliest", are looked up."""
        names = [_name_of(partition) for partition in partitions]
        offsets = resolve_bound(setting, bound, names, find=self._find_offsets_at_times, no_match=no_match)
        by_partition = {TopicPartition(*name): offset for name, offset in offsets.items()}
        first = [partition for partition, offset in by_partition.items() if offset == EARLIEST]
        last = [partition for partition, offset in by_partition.items() if offset == LATEST]
        named_offsets = {**by_partition, **self.find_earliest_offsets(first), **self.find_latest_offsets(last)}
        return limit_common_offsets(
            bound, named_offsets, lambda: (self.find_earliest_offsets(partitions), self.find_latest_offsets(partitions))
        )

    def _find_offsets_at_times(self, times: PartitionOffsets) -> dict[Name, int | None]:
        """Return the first offset at or after the time of each partition; None if no record is that late."""
        answers = self._client.offsets_for_times({TopicPartition(*name): time for name, time in times.items()})
        return {
            _name_of(partition): None if answer.offset < 0 else answer.offset for partition, answer in answers.items()
        }

    def has_records_from(self, time_ms: int, ends: Offsets) -> bool:
        """Return whether a partition has a record with this or a later timestamp, before its end offset in ``ends``."""
        offsets = self._find_offsets_at_times({_name_of(partition): time_ms for partition in ends})
        return any(offset is not None and offset < ends[TopicPartition(*name)] for name, offset in offsets.items())

    def limit_to_times(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Return the start offsets, raised to the first record in the options' time range, up to the end offsets."""
        min_timestamp_ms = self.options.row_filter.timestamps_ms[0]
        if min_timestamp_ms is None or not starts:
            return starts
        firsts = self._find_offsets_at_times({_name_of(partition): min_timestamp_ms for partition in starts})
        return {
            partition: min(max(start, firsts[_name_of(partition)] or start), ends[partition])
            for partition, start in starts.items()
        }

    def _fetch_group_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return a group's committed offsets. For partitions without a committed offset, return the earliest offset."""
        with open_consumer(self.options, **{"group.id": group_id}) as consumer:
            result = consumer.committed(partitions)
        uncommitted_partitions = [partition for partition in partitions if partition not in result]
        return {
            **{partition: answer.offset for partition, answer in result.items()},
            **self.find_earliest_offsets(uncommitted_partitions),
        }

    def limit_to_readable(self, bounds: Bounds) -> Bounds:
        """Return the bounds of a batch read, with end offsets limited to those that a read can reach.

        A ``read_committed`` read ends before an open transaction. An end after the log end offset is reported as an
        error or a warning. Spark's connector also reports such an end, but first waits ``kafkaConsumer.pollTimeoutMs``
        for the records.

        Raises:
            OptionError: ``failOnDataLoss`` is set, and an end is after the log end offset.
        """
        if self.options.end == LATEST:
            return bounds
        stable = self.find_latest_offsets(bounds)
        limited_partitions = [partition for partition, (_, end) in bounds.items() if end > stable[partition]]
        if not limited_partitions:
            return bounds
        high_watermarks = stable
        if self.options.read_committed:
            with TopicLookupClient({**self.options.client, **_READER_SETTINGS, **_UNCOMMITTED_SETTINGS}) as client:
                high_watermarks = client.end_offsets(limited_partitions)
        for partition in limited_partitions:
            end, high = bounds[partition][1], high_watermarks[partition]
            if end > high:
                report_loss(describe_offset_beyond_end(partition, end, high), fail=self.options.fail_on_data_loss)
        return bounds | {partition: (bounds[partition][0], stable[partition]) for partition in limited_partitions}

    def find_hidden_records(self, bounds: Bounds) -> list[HiddenRecords]:
        """Return the records in the ranges that open transactions hide from ``read_committed`` readers."""
        from kafkaframes.scan.topic.open_transactions import find_open_transactions

        if self.options.client.get("isolation.level") != "read_committed":
            return []
        limits = {
            partition: self.options.row_filter.limit_range(0, NO_END if self.options.end == LATEST else end)[1]
            for partition, (_, end) in bounds.items()
        }
        hidden_records = find_open_transactions(self.find_latest_offsets(bounds), self.options.client)
        records_in_range = [
            replace(
                records, end_offset=min(records.end_offset, limits[TopicPartition(records.topic, records.partition)])
            )
            for records in hidden_records
        ]
        return [records for records in records_in_range if records.first_offset < records.end_offset]

    # ------------------------------------------------------------------------------------------------------- ranges

    def check_retained_offsets(self, starts: Offsets, ends: Offsets | None = None) -> Offsets:
        """Return the start offsets, limited to existing offsets.

        A start offset that has to be changed is reported as an error or a warning.

        Args:
            starts: Start offset of each partition.
            ends: End offset of each partition. If None, the current end offsets are used.

        Raises:
            OptionError: ``failOnDataLoss`` is set, and retention or DeleteRecords removed records of the range, or the
                partition ends below the start.
        """
        firsts = self.find_earliest_offsets(starts)
        ends = self.find_latest_offsets(starts) if ends is None else ends
        valid_starts = {}
        for partition, start in starts.items():
            valid_starts[partition] = min(max(start, firsts[partition]), ends[partition])
            if valid_starts[partition] != start:
                first, end = firsts[partition], ends[partition]
                problem = (
                    describe_offset_below_start(partition, start, first)
                    if start < first
                    else describe_offset_beyond_end(partition, start, end)
                )
                report_loss(problem, fail=self.options.fail_on_data_loss)
        return valid_starts

    def plan_ranges(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> list[PartitionRange]:
        """Return the ranges of the tasks, split by ``minPartitions`` and ``maxRecordsPerPartition``."""
        offset_ranges = [
            PartitionRange(partition.topic, partition.partition, starts[partition], end)
            for partition, end in sorted(ends.items(), key=lambda item: _name_of(item[0]))
            if starts.get(partition, end) < end
        ]
        max_records = self.options.max_records_per_partition
        if max_records is not None:
            offset_ranges = [
                part
                for entry in offset_ranges
                for part in _split_by_offsets(entry, -(-(entry.end - entry.first) // max_records))
            ]
        min_partitions = self.options.min_partitions or 0
        if not offset_ranges or len(offset_ranges) >= min_partitions:
            return offset_ranges
        weights = {entry: self._estimate_bytes(entry) for entry in offset_ranges}
        total = sum(sum(size for _, size in steps) for steps in weights.values()) or 1
        parts: list[PartitionRange] = []
        for entry in offset_ranges:
            share = sum(size for _, size in weights[entry]) / total
            parts += _split_by_bytes(entry, weights[entry], max(round(share * min_partitions), 1))
        return parts

    def _estimate_bytes(self, entry: PartitionRange) -> list[tuple[int, float]]:
        """Estimate the bytes between sample offsets of a range from the batches that are fetched there."""
        step = max((entry.end - entry.first) // _SAMPLES_PER_RANGE, 1)
        positions = list(range(entry.first, entry.end, step))[:_SAMPLES_PER_RANGE]
        result = []
        with open_consumer(
            self.options, max_partition_fetch_bytes=_SAMPLE_BYTES, fetch_max_bytes=_SAMPLE_BYTES
        ) as consumer:
            for index, position in enumerate(positions):
                end = positions[index + 1] if index + 1 < len(positions) else entry.end
                result.append((end, (end - position) * estimate_density(consumer, entry.topic_partition, position)))
        return result


def plan_topic(options: TopicOptions, *, report: ReportHidden | None = None) -> list[PartitionRange]:
    """Return the ranges of the tasks. The end of each partition is fixed by this call.

    Args:
        options: Options of the read.
        report: Function that receives the records that open transactions hide. If None, these records are not looked
            up.

    Raises:
        BrokerError, NetworkError: A topic does not exist, or the cluster cannot be reached.
        OptionError: A partition or offset in the options does not exist, or is lost.
    """
    with TopicLookups(options) as lookups:
        bounds = _find_bounds(lookups)
        _report_hidden(lookups, bounds, report)
        return _plan_ranges(lookups, bounds)


def _report_hidden(lookups: TopicLookups, bounds: Bounds, report: ReportHidden | None) -> None:
    """Report the records in the range that open transactions hide."""
    if report is not None:
        for hidden in lookups.find_hidden_records(bounds):
            report(hidden)


def resolve_topic(options: TopicOptions) -> Bounds:
    """Return the current first and end offset of each partition. Raises the same exceptions as ``plan_topic``."""
    with TopicLookups(options) as lookups:
        return lookups.limit_to_readable(_find_bounds(lookups))


def plan_shares(options: TopicOptions, *, cores: int, report: ReportHidden | None = None) -> list[TaskShare]:
    """Divide partitions among tasks with offsets that are resolved later. Raises the same exceptions as ``plan_topic``.

    Args:
        options: Options of the read.
        cores: Number of tasks that read partitions that are empty, or are created later.
        report: As for ``plan_topic``.
    """
    with TopicLookups(options) as lookups:
        bounds = _find_bounds(lookups)
        _report_hidden(lookups, bounds, report)
        return divide_among_tasks(
            list(bounds), _plan_ranges(lookups, bounds), cores=cores, can_grow=options.assign is None
        )


def _find_bounds(lookups: TopicLookups) -> Bounds:
    """Return the first and end offset of each selected partition, limited to existing offsets."""
    row_filter, end = lookups.options.row_filter, lookups.options.end
    all_partitions = lookups.find_partitions()
    partitions = [
        partition for partition in all_partitions if row_filter.has_partition(partition.topic, partition.partition)
    ]
    starts, ends = (
        {partition: bound[partition] for partition in partitions}
        for bound in (lookups.find_start_offsets(all_partitions), lookups.find_end_offsets(all_partitions))
    )
    if end != LATEST:  # an end at LATEST below the start is data loss, which check_retained_offsets reports
        check_order(starts, ends)
    starts = lookups.limit_to_times(lookups.check_retained_offsets(starts), ends)
    return {partition: row_filter.limit_range(starts[partition], ends[partition]) for partition in partitions}


def _plan_ranges(lookups: TopicLookups, bounds: Bounds) -> list[PartitionRange]:
    """Return the ranges of the tasks, without offsets that a read cannot reach."""
    bounds = lookups.limit_to_readable(bounds)
    starts = {partition: first for partition, (first, _) in bounds.items()}
    return lookups.plan_ranges(starts, {partition: end for partition, (_, end) in bounds.items()})


def check_order(starts: Offsets, ends: Offsets) -> None:
    """Check that no start offset is after its end offset, because the result would silently be empty.

    Raises:
        OptionError: A start offset is larger than the end offset of its partition. As in Spark's source, this check
            does not depend on ``failOnDataLoss``.
    """
    problems = [
        f"{partition} starts at {starts[partition]}, after its end {end}"
        for partition, end in ends.items()
        if starts[partition] > end
    ]
    if problems:
        raise OptionError(
            f"topic partition {', '.join(problems)}: the range is empty; retention may have deleted its records"
        )


def estimate_density(consumer: Consumer, partition: TopicPartition, offset: int) -> float:
    """Return the bytes per offset at ``offset``; 0 if no batch follows it."""
    from kafkaframes.client.range_reader import fetch_sample

    try:
        result = fetch_sample(consumer, partition, offset)
    except BrokerError:
        return 0.0
    return 0.0 if result is None else result.bytes_per_offset


def _split_by_offsets(entry: PartitionRange, parts: int) -> list[PartitionRange]:
    """Split a range into parts with about equal numbers of offsets.

    >>> [(part.first, part.end) for part in _split_by_offsets(PartitionRange("t", 0, 10, 20), 3)]
    [(10, 13), (13, 16), (16, 20)]
    """
    edges = [entry.first + (entry.end - entry.first) * index // parts for index in range(parts + 1)]
    return [PartitionRange(entry.topic, entry.partition, first, end) for first, end in pairwise(edges) if first < end]


def _split_by_bytes(entry: PartitionRange, along: Sequence[tuple[int, float]], parts: int) -> list[PartitionRange]:
    """Split a range into parts with about equal numbers of bytes, by the sizes ``along`` the range.

    >>> along = [(10, 900.0), (20, 100.0)]
    >>> [(part.first, part.end) for part in _split_by_bytes(PartitionRange("t", 0, 0, 20), along, 2)]
    [(0, 5), (5, 20)]
    """
    total = sum(size for _, size in along)
    if parts < 2 or not total:
        return _split_by_offsets(entry, parts)
    edges, bytes_before, begin = [entry.first], 0.0, entry.first
    for end, size in along:
        while len(edges) < parts and size and total * len(edges) / parts <= bytes_before + size:
            edge = begin + int((total * len(edges) / parts - bytes_before) / size * (end - begin))
            edges.append(max(edge, edges[-1]))
        bytes_before, begin = bytes_before + size, end
    edges.append(entry.end)
    return [PartitionRange(entry.topic, entry.partition, first, end) for first, end in pairwise(edges) if first < end]


def _name_of(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition
