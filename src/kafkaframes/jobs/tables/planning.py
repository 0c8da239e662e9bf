"""Plan a table: find the offsets of logs or live topics that the table does not have yet, and check that both match.

A log is resolved as for a read (``resolve``): all segments, end offsets by isolation level, slices at batch boundaries.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kafkaframes.client import Admin, Consumer, TopicPartition
from kafkaframes.client.range_reader import fetch_sample
from kafkaframes.client.settings import select_client_options
from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.planning import task_of
from kafkaframes.jobs.export.topic_task import SILENCE_MS, TopicTask
from kafkaframes.jobs.tables.identity import check_identity, look_up_in_logs, look_up_in_topics
from kafkaframes.jobs.tables.run import FILE_BYTES, Plan, TablePlan
from kafkaframes.jobs.tables.state import Gap, TableState, topic_number
from kafkaframes.scan.log.discovery import DistinctSegments, Log, discover_logs
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import resolve_offset_ranges
from kafkaframes.scan.log.resolve import check_loss, choose_segments, logs_by_partition, plan_slices, resolve_offsets
from kafkaframes.scan.ranges import (
    EARLIEST,
    LATEST,
    NO_END,
    check_batch_start,
    describe_offset_beyond_end,
    expand_bound,
    report_loss,
)
from kafkaframes.scan.topic.open_transactions import find_open_transactions
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import TopicLookups
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.log.lookup import log_end_offset
from kafkaframes.storage.log.notes import LogNotes
from kafkaframes.wire.primitives import uuid_to_text

_LOG_REMEDY = "Export it to a new table, or with `overwrite`"
_TOPIC_REMEDY = "Write it to a new table"
_LOSS_REMEDY = "`fail_on_data_loss`=false accepts that, and records it in the table"


def _acceptance_of(options: ReadOptions | TopicOptions) -> str | None:
    """Return the setting that continues without a comparison of records; None if it is set."""
    return "`fail_on_data_loss`=false continues without a comparison" if options.fail_on_data_loss else None


def table_plan(options: ReadOptions) -> Plan:
    """Return a function that plans an export of logs into a table, given the table's state.

    A partition that appears after the first plan is new. If its first records are deleted before it is planned, this is
    a data loss.
    """
    initial_partitions: set[tuple[str, int]] = set()

    def plan(state: TableState | None) -> TablePlan:
        check_batch_start(options.start)
        result = discover_logs(options.paths, storage=options.storage)
        if not result.has_whole_directories:
            raise OptionError("an export into a table needs whole logs: name their directories, not single files")
        if options.replicas == "all":
            raise OptionError("replicas=all: a table holds each record once, so that copies are merged into one log")
        choice = choose_segments(result, options, cores=os.cpu_count() or 1)
        part = choice.parts[0][0]
        if not initial_partitions:
            initial_partitions.update(logs_by_partition(part))
        planned_tasks = _plan_tasks(options, part, state, choice.internal_topics, initial_partitions)
        return replace(planned_tasks, notes=choice.notes + planned_tasks.notes)

    return plan


def _plan_tasks(
    options: ReadOptions,
    part: DistinctSegments,
    state: TableState | None,
    internal: tuple[str, ...],
    initial_partitions: Collection[tuple[str, int]],
) -> TablePlan:
    logs, gaps = logs_by_partition(part), []
    options = resolve_offsets(options, logs)
    requested_starts = expand_bound("start", options.start, logs)
    new_starts = {
        name: at if state is None or state.end_of(name) is None else EARLIEST for name, at in requested_starts.items()
    }
    check_loss(replace(options, start=new_starts), logs)
    starts: dict[tuple[str, int], int] = {}
    for name, (first, _) in resolve_offset_ranges(part.segments, options).items():
        entry = logs[name]
        if (metadata := entry.partition.metadata) is not None:
            _check_same_topic(name[0], metadata.topic_id, state, _LOG_REMEDY)
        first, _ = options.row_filter.limit_range(first, NO_END)
        starts[name], gap = start_of(name, entry, first, None if state is None else state.end_of(name))
        if (
            name not in initial_partitions
            and (state is None or state.end_of(name) is None)
            and starts[name] > max(first, 0)
        ):
            gap = Gap(*name, max(first, 0), starts[name])
        if gap is not None:
            if options.fail_on_data_loss:
                raise OptionError(f"{gap} are neither in the log nor in the table: {_LOSS_REMEDY}")
            gaps.append(gap)
    slices, notes = plan_slices(part.segments, replace(options, start=starts), logs)
    tasks = tuple(task_of(chunk, options) for chunk in slices)
    topic_ids = {
        name[0]: one.partition.metadata.topic_id for name, one in logs.items() if one.partition.metadata is not None
    }
    check_identity(
        dict.fromkeys((task.topic, task.partition) for task in tasks),
        state,
        look_up_in_logs(part.segments, logs, options),
        topic_ids=topic_ids,
        remedy=_LOG_REMEDY,
        acceptance=_acceptance_of(options),
    )
    return TablePlan(tasks, starts, topic_ids, tuple(gaps), internal, notes)


def _check_same_topic(topic: str, topic_id: str, state: TableState | None, remedy: str) -> None:
    """Check that the table was filled from the same topic.

    Raises:
        OptionError: the topic was recreated since, so that its offsets refer to other records.
    """
    number = None if state is None else state.topic_number_of(topic)
    if number is not None and number != topic_number(topic_id):
        raise OptionError(
            f"topic {topic} has the id {topic_id}, and the table was filled from one with another id: the topic was "
            f"made anew. {remedy}"
        )


def start_of(name: tuple[str, int], entry: Log, requested_offset: int, end: int | None) -> tuple[int, Gap | None]:
    """Return the first offset to add, and the gap before it if the log has deleted offsets that the table lacks.

    Args:
        name: topic partition.
        entry: its log.
        requested_offset: first selected offset; NO_START for all.
        end: end offset of the partition in the table; None if the table does not have the partition.

    Raises:
        OptionError: the log ends before the table's end offset: it was truncated, or is another log.
    """
    first = max(requested_offset, entry.partition.log_start_offset)
    if end is None:
        return first, None
    if first > end:
        return first, Gap(*name, end, first)
    last = entry.partition.segments[-1]
    if end > last.base_offset and (log_end := log_end_offset(entry.filesystem, entry.partition)) < end:
        raise OptionError(
            f"{name[0]}-{name[1]} ends at offset {log_end}, and the table has its records up to {end - 1}: the log was "
            "cut or replaced, or this is another copy. Export to a new table, or with `overwrite`"
        )
    return end, None


# -------------------------------------------------------------------------------------------------------- live topics


_GUESSED_BYTES: Final = 1 << 10  # assumed size of a record, if no sample could be fetched
_SAMPLED_OFFSETS: Final = 10_000  # smaller partitions are a single task, so their record size is not estimated


def live_plan(options: TopicOptions) -> Plan:
    """Return a function that plans a table of live topics, given the table's state.

    Args:
        options: options of the read. With ``read_committed`` a partition's plan ends at its first open transaction.
            Without ``fail_on_data_loss``, offsets that a topic deleted before the table had them are a gap instead of
            an error.

    The function raises OptionError if a topic was recreated or truncated since the table was filled, and BrokerError if
    a topic does not exist. A partition that appears after the first plan is new. If its first records are deleted
    before it is planned, this is a data loss.
    """
    initial_partitions: set[TopicPartition] = set()

    def plan(state: TableState | None) -> TablePlan:
        with TopicLookups(options) as lookups, Consumer(**options.client) as consumer:
            partitions = lookups.find_partitions()
            if not initial_partitions:
                initial_partitions.update(partitions)
            ids = _topic_ids(sorted({one.topic for one in partitions}), options.client)
            for topic, topic_id in ids.items():
                _check_same_topic(topic, topic_id, state, _TOPIC_REMEDY)
            ends = consumer.end_offsets(partitions)
            starts, gaps = _live_starts(lookups, partitions, ends, state, initial_partitions)
            stops = _live_stops(lookups, starts, ends)
            check_identity(
                [(one.topic, one.partition) for one in partitions if starts[one] < stops[one]],
                state,
                look_up_in_topics(consumer, SILENCE_MS),
                topic_ids=ids,
                remedy=_TOPIC_REMEDY,
                acceptance=_acceptance_of(options),
            )
            tasks = [
                replace(task, topic_id=ids.get(one.topic, ""))
                for one in partitions
                for task in _tasks(consumer, one, starts[one], stops[one], options.client)
            ]
        first_offsets = {(one.topic, one.partition): starts[one] for one in partitions}
        hiding = {one: end for one, end in ends.items() if stops[one] == end}
        notes = LogNotes(_open_transactions(hiding, options.client))
        return TablePlan(tuple(tasks), first_offsets, ids, gaps, notes=notes)

    return plan


def _live_starts(
    lookups: TopicLookups,
    partitions: Sequence[TopicPartition],
    ends: dict[TopicPartition, int],
    state: TableState | None,
    initial_partitions: Collection[TopicPartition],
) -> tuple[dict[TopicPartition, int], tuple[Gap, ...]]:
    """Return the first offset to add in each partition, and the accepted gaps before them."""
    options = lookups.options
    firsts, requested = lookups.find_earliest_offsets(partitions), lookups.find_start_offsets(partitions)
    table_ends = {one: None if state is None else state.end_of((one.topic, one.partition)) for one in partitions}
    if options.start != EARLIEST:
        requested |= lookups.check_retained_offsets(
            {one: at for one, at in requested.items() if table_ends[one] is None}, ends
        )
    expected = {
        one: (0 if options.start == EARLIEST else requested[one])
        if end is None and one not in initial_partitions
        else end
        for one, end in table_ends.items()
    }
    begins = {one: max(firsts[one], requested[one]) for one in partitions}
    gaps = tuple(_gaps(expected, begins, ends, allow_loss=not options.fail_on_data_loss))
    where = options.row_filter
    return {one: where.limit_range(max(begins[one], table_ends[one] or 0), ends[one])[0] for one in partitions}, gaps


def _live_stops(
    lookups: TopicLookups, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the end offset of each partition's plan.

    Raises:
        OptionError: a specified end is beyond the end of a partition.
    """
    options = lookups.options
    if options.end == LATEST:
        bounds = {one: (starts[one], end) for one, end in ends.items()}
    else:
        bounds = lookups.limit_to_stable(
            {one: (starts[one], end) for one, end in lookups.find_end_offsets(list(starts)).items()}
        )
    stops = {}
    for one, (start, end) in bounds.items():
        if end > ends[one]:
            report_loss(describe_offset_beyond_end(one, end, ends[one]), fail=options.fail_on_data_loss)
        stops[one] = options.row_filter.limit_range(start, min(end, ends[one]))[1]
    return stops


def _open_transactions(ends: Mapping[TopicPartition, int], client: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Return a note for each partition that ends at an open transaction, before the high watermark.

    Args:
        ends: end offsets under the isolation level of ``client``.
    """
    notes = []
    for hidden_records in find_open_transactions(ends, client):
        message = (
            f"{hidden_records.topic}-{hidden_records.partition}: the transaction of {hidden_records.producer} "
            "is open since offset "
            f"{hidden_records.first_offset}; the table has no records from there on; up to "
            f"{hidden_records.end_offset - hidden_records.first_offset:,} are in the topic"
        )
        servers = str(client.get("bootstrap.servers", client.get("bootstrap_servers")))
        notes.append(Finding(Severity.NOTE, "open-transaction", message, servers, offset=hidden_records.first_offset))
    return tuple(notes)


def _topic_ids(topics: Sequence[str], client: Mapping[str, Any]) -> dict[str, str]:
    """Return topic ids in the form of log directories, without those of brokers before 2.8, which have none."""
    with Admin(**select_client_options(client)) as admin:
        result = admin.describe_topics(topics)
    return {name: uuid_to_text(one.topic_id) for name, one in result.items() if one.topic_id.int}


def _gaps(
    known_ends: Mapping[TopicPartition, int | None],
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    allow_loss: bool,
) -> Iterator[Gap]:
    """Yield the offsets that topics deleted before the table had them.

    Raises:
        OptionError: such a loss is not allowed, or a topic ends before the table's end offset.
    """
    for partition, end in known_ends.items():
        if end is None:
            continue
        if ends[partition] < end:
            raise OptionError(
                f"{partition} ends at offset {ends[partition]}, and the table has its records up to {end - 1}: the "
                f"topic was cut or replaced. {_TOPIC_REMEDY}"
            )
        if firsts[partition] > end:
            gap = Gap(partition.topic, partition.partition, end, firsts[partition])
            if not allow_loss:
                raise OptionError(f"{gap} are not in the topic any more, and not in the table: {_LOSS_REMEDY}")
            yield gap


def _tasks(
    consumer: Consumer, partition: TopicPartition, first: int, end: int, client: Mapping[str, Any]
) -> Iterator[TopicTask]:
    """Yield the tasks of a partition: offset ranges of about ``FILE_BYTES`` each."""
    if first >= end:
        return
    each = _GUESSED_BYTES if end - first <= _SAMPLED_OFFSETS else _bytes_per_offset(consumer, partition, first)
    step = max(int(FILE_BYTES / each), 1)
    path = f"{partition.topic}-{partition.partition} of {client['bootstrap.servers']}"
    for begin in range(first, end, step):
        stop = min(begin + step, end)
        yield TopicTask(
            path,
            max(int((stop - begin) * each), 1),
            begin,
            partition.topic,
            partition.partition,
            first_offset=begin,
            end_offset=stop,
            client=client,
        )


def _bytes_per_offset(consumer: Consumer, partition: TopicPartition, first: int) -> float:
    """Estimate the average record size from the partition's first records."""
    result = fetch_sample(consumer, partition, first)
    consumer.assign({})
    return _GUESSED_BYTES if result is None else max(result.bytes_per_offset, 1.0)
