"""Plan an export of live topics, to files or a table: find the offsets that the destination does not have yet.

Planning also checks that the destination was filled from the same topics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kafkaframes.client import Admin, Consumer, TopicPartition
from kafkaframes.client.range_reader import fetch_sample
from kafkaframes.client.settings import select_client_options
from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.identity import check_identity, make_topic_lookup, suggest_acceptance
from kafkaframes.jobs.export.positions import (
    TOPIC_TABLE_DESTINATION,
    Destination,
    Gap,
    IncrementPlan,
    Plan,
    Positions,
    check_same_topic,
)
from kafkaframes.jobs.export.topic_task import MAX_FETCH_SILENCE_MS, TopicTask
from kafkaframes.scan.ranges import EARLIEST, LATEST, GroupBound, describe_offset_beyond_end, report_loss
from kafkaframes.scan.topic.open_transactions import find_open_transactions
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import TopicLookups
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.log.notes import LogNotes
from kafkaframes.wire.primitives import uuid_to_text

TARGET_FILE_BYTES: Final = 64 << 20  # approximate number of bytes that a task fetches
_ASSUMED_RECORD_BYTES: Final = 1 << 10  # assumed size of a record, if no sample could be fetched
_MIN_SAMPLED_OFFSETS: Final = 10_000  # smaller partitions are a single task, so their record size is not estimated


def make_topic_planner(options: TopicOptions, destination: Destination = TOPIC_TABLE_DESTINATION) -> Plan:
    """Return a function that plans an export of live topics, given the destination's positions.

    Args:
        options: which topics, partitions and offsets are read. With ``read_committed`` a partition's plan ends before
            its first open transaction. Without ``fail_on_data_loss``, offsets that a topic deleted before the
            destination had them are a gap instead of an error.
        destination: kind of the destination, for messages.

    The function raises OptionError if a topic was recreated or truncated since the destination was filled, and
    BrokerError if a topic does not exist. A partition that appears after the first plan is new. If its first records
    are deleted before it is planned, this is a data loss.
    """
    initial_partitions: set[TopicPartition] = set()

    def plan(positions: Positions | None) -> IncrementPlan:
        with TopicLookups(options) as lookups, Consumer(**options.client) as consumer:
            all_partitions = lookups.find_partitions()
            partitions = [
                partition
                for partition in all_partitions
                if options.row_filter.has_partition(partition.topic, partition.partition)
            ]
            if not initial_partitions:
                initial_partitions.update(all_partitions)
            ids = _read_topic_ids(sorted({partition.topic for partition in partitions}), options.client)
            for topic, topic_id in ids.items():
                check_same_topic(topic, topic_id, positions, destination)
            ends = consumer.end_offsets(partitions)
            requested = lookups.find_start_offsets(all_partitions)
            starts, gaps = _resolve_start_offsets(
                lookups,
                {partition: requested[partition] for partition in partitions},
                ends,
                positions,
                initial_partitions,
                destination,
            )
            stops = _resolve_end_offsets(lookups, all_partitions, starts, ends)
            check_identity(
                [
                    (partition.topic, partition.partition)
                    for partition in partitions
                    if starts[partition] < stops[partition]
                ],
                positions,
                make_topic_lookup(consumer, MAX_FETCH_SILENCE_MS),
                topic_ids=ids,
                destination=destination,
                acceptance=suggest_acceptance(options.fail_on_data_loss),
            )
            tasks = [
                replace(task, topic_id=ids.get(partition.topic, ""))
                for partition in partitions
                for task in _make_tasks(consumer, partition, starts[partition], stops[partition], options.client)
            ]
        first_offsets = {(partition.topic, partition.partition): starts[partition] for partition in partitions}
        hiding = {partition: end for partition, end in ends.items() if stops[partition] == end}
        notes = LogNotes(_describe_open_transactions(hiding, options.client, destination))
        return IncrementPlan(tuple(tasks), first_offsets, ids, gaps, notes=notes)

    return plan


def _resolve_start_offsets(
    lookups: TopicLookups,
    requested: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    positions: Positions | None,
    initial_partitions: Collection[TopicPartition],
    destination: Destination,
) -> tuple[dict[TopicPartition, int], tuple[Gap, ...]]:
    """Return the first offset to add in each partition, and the accepted gaps before them.

    The committed offsets of a group are the start of partitions that the destination does not have. The committed
    offsets of other partitions may have advanced beyond the destination's end, which is not a loss.
    """
    options, partitions = lookups.options, list(requested)
    log_starts = lookups.find_earliest_offsets(partitions)
    known_ends = {
        partition: None if positions is None else positions.find_end((partition.topic, partition.partition))
        for partition in partitions
    }
    if isinstance(options.start, GroupBound):
        requested |= {partition: end for partition, end in known_ends.items() if end is not None}
    if options.start != EARLIEST:
        requested |= lookups.check_retained_offsets(
            {partition: offset for partition, offset in requested.items() if known_ends[partition] is None}, ends
        )
    expected = {
        partition: (0 if options.start == EARLIEST else requested[partition])
        if end is None and partition not in initial_partitions
        else end
        for partition, end in known_ends.items()
    }
    read_starts = {partition: max(log_starts[partition], requested[partition]) for partition in partitions}
    gaps = tuple(
        _find_gaps(
            expected, read_starts, log_starts, ends, allow_loss=not options.fail_on_data_loss, destination=destination
        )
    )
    row_filter = options.row_filter
    return {
        partition: row_filter.limit_range(max(read_starts[partition], known_ends[partition] or 0), ends[partition])[0]
        for partition in partitions
    }, gaps


def _resolve_end_offsets(
    lookups: TopicLookups,
    all_partitions: Sequence[TopicPartition],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the end offset of each partition's plan.

    Raises:
        OptionError: a specified end is beyond the end of a partition, and ``fail_on_data_loss`` is set.
    """
    options = lookups.options
    if options.end == LATEST:
        bounds = {partition: (starts[partition], end) for partition, end in ends.items()}
    else:
        requested = lookups.find_end_offsets(all_partitions)
        bounds = lookups.limit_to_readable(
            {partition: (start, requested[partition]) for partition, start in starts.items()}
        )
    plan_ends = {}
    for partition, (start, end) in bounds.items():
        if end > ends[partition]:
            report_loss(describe_offset_beyond_end(partition, end, ends[partition]), fail=options.fail_on_data_loss)
        plan_ends[partition] = options.row_filter.limit_range(start, min(end, ends[partition]))[1]
    return plan_ends


def _describe_open_transactions(
    ends: Mapping[TopicPartition, int], client: Mapping[str, Any], destination: Destination
) -> tuple[Finding, ...]:
    """Return a note for each partition whose plan ends before the high watermark because of an open transaction.

    Args:
        ends: end offsets under the isolation level of ``client``.
    """
    notes = []
    for hidden_records in find_open_transactions(ends, client):
        message = (
            f"{hidden_records.topic}-{hidden_records.partition}: the transaction of {hidden_records.producer} "
            f"has been open since offset {hidden_records.first_offset}; {destination.name} lacks the records after "
            f"it; up to {hidden_records.end_offset - hidden_records.first_offset:,} are in the topic"
        )
        servers = str(client.get("bootstrap.servers", client.get("bootstrap_servers")))
        notes.append(Finding(Severity.NOTE, "open-transaction", message, servers, offset=hidden_records.first_offset))
    return tuple(notes)


def _read_topic_ids(topics: Sequence[str], client: Mapping[str, Any]) -> dict[str, str]:
    """Return topic ids as text, as log directories store them. Brokers before 2.8 do not have topic ids."""
    with Admin(**select_client_options(client)) as admin:
        result = admin.describe_topics(topics)
    return {name: uuid_to_text(topic.topic_id) for name, topic in result.items() if topic.topic_id.int}


def _find_gaps(
    known_ends: Mapping[TopicPartition, int | None],
    read_starts: Mapping[TopicPartition, int],
    log_starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    allow_loss: bool,
    destination: Destination,
) -> Iterator[Gap]:
    """Yield the offsets after the destination's end offset that topics have deleted, or that the read omits.

    Args:
        known_ends: the destination's end offset of each partition; None for a partition that may start at any offset.
        read_starts: first offsets of the read.
        log_starts: first offsets that the topics have.
        ends: end offsets of the topics.
        allow_loss: whether gaps are accepted.
        destination: kind of the destination, for messages.

    Raises:
        OptionError: a gap is not accepted, or a topic ends before the destination's end offset.
    """
    for partition, end in known_ends.items():
        if end is None:
            continue
        if ends[partition] < end:
            raise OptionError(
                f"{partition} ends at offset {ends[partition]}, but {destination.name} has its records up to "
                f"{end - 1}: the topic was truncated or replaced. {destination.new}"
            )
        if read_starts[partition] > end:
            gap = Gap(partition.topic, partition.partition, end, read_starts[partition])
            if not allow_loss:
                problem = (
                    "the topic has deleted them"
                    if log_starts[partition] >= gap.end
                    else "they are before this run's `start`"
                )
                raise OptionError(
                    f"{gap} are missing in {destination.name}, and cannot be added, because {problem}; "
                    f"`fail_on_data_loss`=false accepts this, and records it in {destination.name}"
                )
            yield gap


def _make_tasks(
    consumer: Consumer, partition: TopicPartition, first: int, end: int, client: Mapping[str, Any]
) -> Iterator[TopicTask]:
    """Yield the tasks of a partition: offset ranges of about ``TARGET_FILE_BYTES`` each."""
    if first >= end:
        return
    bytes_per_offset = (
        _ASSUMED_RECORD_BYTES
        if end - first <= _MIN_SAMPLED_OFFSETS
        else _estimate_bytes_per_offset(consumer, partition, first)
    )
    step = max(int(TARGET_FILE_BYTES / bytes_per_offset), 1)
    path = f"{partition.topic}-{partition.partition} of {client['bootstrap.servers']}"
    for begin in range(first, end, step):
        stop = min(begin + step, end)
        yield TopicTask(
            path,
            max(int((stop - begin) * bytes_per_offset), 1),
            begin,
            partition.topic,
            partition.partition,
            first_offset=begin,
            end_offset=stop,
            label=f"{begin:020}",
            client=client,
        )


def _estimate_bytes_per_offset(consumer: Consumer, partition: TopicPartition, first: int) -> float:
    """Estimate the bytes per offset from a sample of the records from ``first`` on."""
    result = fetch_sample(consumer, partition, first)
    consumer.assign({})
    return _ASSUMED_RECORD_BYTES if result is None else max(result.bytes_per_offset, 1.0)
