"""Plan an export into a table: what is new in the log beyond what the table says, and do the two belong together?

No pyspark. The log is looked at as for a read (``resolve``): whole logs, ends by isolation, slices cut to batches.
"""

from __future__ import annotations

import os
from dataclasses import replace

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.planning import task_of
from kafkaframes.jobs.tables.run import Plan, TablePlan
from kafkaframes.jobs.tables.state import Gap, TableState, TopicPartition, topic_number
from kafkaframes.scan.log.discovery import Log, discover_logs
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import NO_END, offset_ranges
from kafkaframes.scan.log.replicas import OneOfEach
from kafkaframes.scan.log.resolve import choose, cut, logs_of, resolve_offsets
from kafkaframes.storage.log.lookup import log_end_offset

ALLOWED = "`fail_on_data_loss`=false accepts that, and records it in the table"


def table_plan(options: ReadOptions) -> Plan:
    """Return what plans an export into a table, given what the table says."""

    def plan(state: TableState | None) -> TablePlan:
        result = discover_logs(options.paths, storage=options.storage)
        if not result.whole:
            raise OptionError("an export into a table needs whole logs: name their directories, not single files")
        if options.replicas == "all":
            raise OptionError("replicas=all: a table holds each record once, so that copies are merged into one log")
        chosen = choose(result, options, cores=os.cpu_count() or 1)
        return _planned(options, chosen.parts[0][0], state, chosen.internal_topics)

    return plan


def _planned(options: ReadOptions, part: OneOfEach, state: TableState | None, internal: tuple[str, ...]) -> TablePlan:
    logs, gaps = logs_of(part), []
    options = resolve_offsets(options, logs)
    starts: dict[TopicPartition, int] = {}
    for name, (first, _) in offset_ranges(part.segments, options).items():
        entry = logs[name]
        check_same_topic(name, entry, state)
        first, _ = options.where.bounded(first, NO_END)
        starts[name], gap = start_of(name, entry, first, None if state is None else state.end_of(name))
        if gap is not None:
            if options.fail_on_data_loss:
                raise OptionError(f"{gap} are not in the log any more, and not in the table: {ALLOWED}")
            gaps.append(gap)
    tasks = tuple(task_of(chunk, options) for chunk in cut(part.segments, replace(options, start=starts), logs))
    topic_ids = {
        name[0]: one.partition.metadata.topic_id for name, one in logs.items() if one.partition.metadata is not None
    }
    return TablePlan(tasks, starts, topic_ids, tuple(gaps), internal)


def check_same_topic(name: TopicPartition, entry: Log, state: TableState | None) -> None:
    """Check that the table was filled from the topic that the log belongs to.

    Raises:
        OptionError: the topic was deleted and made again since: its offsets mean other records.
    """
    metadata = entry.partition.metadata
    number = None if state is None else state.topic_number_of(name[0])
    if metadata is not None and number is not None and number != topic_number(metadata.topic_id):
        raise OptionError(
            f"topic {name[0]} has the id {metadata.topic_id}, and the table was filled from one with another id: the "
            "topic was made anew. Export it to a new table, or with `overwrite`"
        )


def start_of(name: TopicPartition, entry: Log, requested: int, end: int | None) -> tuple[int, Gap | None]:
    """Return the first offset to add, and what the log has lost before it.

    Args:
        requested: the first selected offset; NO_START for all.
        end: what the table says; None where it knows nothing of the partition.

    Raises:
        OptionError: the log ends before what the table has of it: it was cut, or is another one.
    """
    first = max(requested, entry.partition.log_start_offset)
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
