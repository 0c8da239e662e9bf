"""Plan a table of logs: find the offsets that the table does not have yet, and check that the log matches the table.

A log is resolved as if it were read (``resolve``): all its segments, the end offsets for the isolation level, and
slices at batch boundaries.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from kafkaframes.errors import LogDirError, MissingSegmentError, OptionError
from kafkaframes.jobs.export.identity import check_identity, make_log_lookup, suggest_acceptance
from kafkaframes.jobs.export.planning import make_task
from kafkaframes.jobs.export.positions import (
    LOG_TABLE_DESTINATION,
    Gap,
    IncrementPlan,
    Plan,
    Positions,
    check_same_topic,
)
from kafkaframes.scan.log.discovery import DistinctSegments, Log, discover_logs
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import resolve_offset_ranges
from kafkaframes.scan.log.resolve import (
    OffsetRanges,
    check_loss,
    choose_segments,
    describe_missing_segments,
    find_missing_segments,
    map_logs_by_partition,
    plan_slices,
    resolve_offsets,
)
from kafkaframes.scan.ranges import EARLIEST, NO_END, check_batch_start, expand_bound
from kafkaframes.storage.log.lookup import log_end_offset

_LOSS_REMEDY = "`fail_on_data_loss`=false accepts this, and records it in the table"
_PARTITION_ENDS = f"; no later records of the partition are added; {_LOSS_REMEDY}"


def make_log_planner(options: ReadOptions) -> Plan:
    """Return a function that plans an export of logs into a table, given the table's state.

    A partition that appears after the first plan is new. If its first records are deleted before it is planned, this is
    a data loss.
    """
    initial_partitions: set[tuple[str, int]] = set()

    def plan(state: Positions | None) -> IncrementPlan:
        check_batch_start(options.start)
        result = discover_logs(options.paths, storage=options.storage)
        if not result.has_whole_directories:
            raise OptionError("an export into a table requires whole logs; specify their directories, not single files")
        if options.replicas == "all":
            raise OptionError(
                "replicas=all is not supported for tables: a table has each record "
                "once, so copies are merged into one log"
            )
        choice = choose_segments(result, options, cores=os.cpu_count() or 1, omit_unreadable=True)
        part = choice.parts[0][0]
        if not initial_partitions:
            initial_partitions.update(map_logs_by_partition(part))
        planned_tasks = _plan_log_tasks(options, part, state, choice.internal_topics, initial_partitions)
        return replace(planned_tasks, notes=choice.notes + planned_tasks.notes)

    return plan


def _plan_log_tasks(
    options: ReadOptions,
    part: DistinctSegments,
    state: Positions | None,
    internal_topics: tuple[str, ...],
    initial_partitions: Collection[tuple[str, int]],
) -> IncrementPlan:
    """Return the plan that adds the new offsets of logs to a table."""
    logs, gaps = map_logs_by_partition(part), []
    options = resolve_offsets(options, logs)
    requested_starts = expand_bound("start", options.start, logs)
    new_starts = {
        name: start_offset if state is None or state.find_end(name) is None else EARLIEST
        for name, start_offset in requested_starts.items()
    }
    check_loss(replace(options, start=new_starts), logs)
    starts: dict[tuple[str, int], int] = {}
    for name, (first, _) in resolve_offset_ranges(part.segments, options).items():
        entry = logs[name]
        if (metadata := entry.partition.metadata) is not None:
            check_same_topic(name[0], metadata.topic_id, state, LOG_TABLE_DESTINATION)
        first, _ = options.row_filter.limit_range(first, NO_END)
        starts[name], gap = find_start_offset(name, entry, first, None if state is None else state.find_end(name))
        if (
            name not in initial_partitions
            and (state is None or state.find_end(name) is None)
            and starts[name] > max(first, 0)
        ):
            gap = Gap(*name, max(first, 0), starts[name])
        if gap is not None:
            if options.fail_on_data_loss:
                is_lost = entry.partition.log_start_offset >= gap.end
                problem = "the log has deleted them" if is_lost else "they are before this run's `start`"
                raise OptionError(
                    f"{gap} are missing in the table, and cannot be added, because {problem}; {_LOSS_REMEDY}"
                )
            gaps.append(gap)
    options_from_table = replace(options, start=starts)
    ranges = resolve_offset_ranges(part.segments, options_from_table)
    missing_segments = find_missing_segments(options, logs, ranges)
    if options.fail_on_data_loss:
        options_from_table = replace(options_from_table, end=_limit_to_complete_offsets(ranges, missing_segments))
    else:
        gaps += _find_gaps_inside_logs(ranges, missing_segments)
    slices, notes = plan_slices(part.segments, options_from_table, logs, omit_unreadable=True)
    if options.fail_on_data_loss:  # plan_slices reports those without known offsets, and all others of a lenient read
        known_segments = {name: [entry for entry in found if entry.offsets] for name, found in missing_segments.items()}
        notes += describe_missing_segments(known_segments, consequence=_PARTITION_ENDS)
    tasks = tuple(make_task(chunk, options) for chunk in slices)
    topic_ids = {
        name[0]: one.partition.metadata.topic_id for name, one in logs.items() if one.partition.metadata is not None
    }
    check_identity(
        dict.fromkeys((task.topic, task.partition) for task in tasks),
        state,
        make_log_lookup(part.segments, logs, options),
        topic_ids=topic_ids,
        destination=LOG_TABLE_DESTINATION,
        acceptance=suggest_acceptance(options.fail_on_data_loss),
    )
    return IncrementPlan(tasks, starts, topic_ids, tuple(gaps), internal_topics, notes)


def _limit_to_complete_offsets(
    ranges: OffsetRanges, missing_segments: Mapping[tuple[str, int], Sequence[MissingSegmentError]]
) -> dict[tuple[str, int], int]:
    """Return where the read ends in each partition: at its end offset, or at the first missing offset.

    A table only adds offsets after its last one. If it had the offsets after a missing segment, it could not add the
    segment when the segment is available again.
    """
    return {
        name: min([end, *(max(problem.offsets[0], start) for problem in missing_segments[name] if problem.offsets)])
        for name, (start, end) in ranges.items()
    }


def _find_gaps_inside_logs(
    ranges: OffsetRanges, missing_segments: Mapping[tuple[str, int], Sequence[MissingSegmentError]]
) -> list[Gap]:
    """Return a gap for each missing segment, limited to the offset range of the read."""
    return [
        Gap(*name, max(problem.offsets[0], ranges[name][0]), min(problem.offsets[1] + 1, ranges[name][1]))
        for name, problems in missing_segments.items()
        for problem in problems
        if problem.offsets
    ]


def find_start_offset(
    name: tuple[str, int], entry: Log, requested_offset: int, end: int | None
) -> tuple[int, Gap | None]:
    """Return the first offset to add, and the gap before it if the log has deleted offsets that the table lacks.

    Args:
        name: topic partition.
        entry: its log.
        requested_offset: first selected offset; NO_START selects all.
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
    try:
        log_end = log_end_offset(entry.filesystem, entry.partition) if end > last.base_offset else end
    except LogDirError:  # reported by the plan or by the segment's task, and the other partitions continue
        return end, None
    if log_end < end:
        raise OptionError(
            f"{name[0]}-{name[1]} ends at offset {log_end}, but the table has its records up to {end - 1}: the log "
            "was truncated or replaced, or this is another copy. Export to a new table, or with `overwrite`"
        )
    return end, None
