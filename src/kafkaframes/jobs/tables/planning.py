"""Plan an export into a table: what is new in the log beyond what the table says, and do the two belong together?

No pyspark. The log is looked at as for a read (``resolve``): whole logs, ends by isolation, slices cut to batches.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.planning import task_of
from kafkaframes.jobs.tables.run import Plan, TablePlan
from kafkaframes.jobs.tables.state import Gap, TableState, TopicPartition, topic_number
from kafkaframes.scan.log.discovery import Log, discover_logs
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import (
    NO_END,
    NO_START,
    Segment,
    offset_ranges,
    prune,
    select_segments,
)
from kafkaframes.scan.log.replicas import merge_chosen
from kafkaframes.scan.log.resolve import Logs, logs_of, narrow, with_aborted
from kafkaframes.scan.ranges import LATEST
from kafkaframes.storage.files.names import INTERNAL_TOPICS
from kafkaframes.storage.log.lookup import log_end_offset
from kafkaframes.storage.log.transactions import TransactionState, transactions_of

ALLOWED = "`fail_on_data_loss`=false accepts that, and records it in the table"


@dataclass(frozen=True, slots=True)
class _Asked:
    """The selected offsets of one topic partition, independent of the table: NO_START, NO_END for no bound."""

    first: int
    end: int


def table_plan(options: ReadOptions, *, from_offset: int | None = None, until_offset: int | None = None) -> Plan:
    """Return what plans an export into a table, given what the table says.

    Args:
        options: of ``kafka-log``.
        from_offset, until_offset: for every partition, beside those of the options.
    """

    def plan(state: TableState | None) -> TablePlan:
        found = discover_logs(options.paths, storage=options.storage)
        if not found.whole:
            raise OptionError("an export into a table needs whole logs: name their directories, not single files")
        if options.replicas == "all":
            raise OptionError("replicas=all: a table holds each record once, so that copies are merged into one log")
        chosen = select_segments(found.segments, options)
        internal = {one.topic for one in found.segments} - {one.topic for one in chosen}
        merged = merge_chosen(found, chosen, options, cores=os.cpu_count() or 1)
        found, chosen = merged.found, merged.segments
        logs = logs_of(found, chosen)
        ranges = offset_ranges(chosen, options)
        asked = {
            name: _Asked(max(first, NO_START if from_offset is None else from_offset), _least(end, until_offset))
            for name, (first, end) in ranges.items()
        }
        return _planned(options, chosen, logs, asked, state, tuple(sorted(internal & INTERNAL_TOPICS)))

    return plan


def _least(end: int, until_offset: int | None) -> int:
    return end if until_offset is None else min(end, until_offset)


def _planned(
    options: ReadOptions,
    chosen: list[Segment],
    logs: Logs,
    asked: Mapping[TopicPartition, _Asked],
    state: TableState | None,
    internal: tuple[str, ...],
) -> TablePlan:
    gaps = []
    starts: dict[TopicPartition, int] = {}
    for name, one in logs.items():
        check_same_topic(name, one, state)
        starts[name], gap = start_of(name, one, asked[name].first, None if state is None else state.end_of(name))
        if gap is not None:
            if options.fail_on_data_loss:
                raise OptionError(f"{gap} are not in the log any more, and not in the table: {ALLOWED}")
            gaps.append(gap)
    states = {name: transactions_of(one.filesystem, one.partition) for name, one in logs.items() if _committed(options)}
    ends = {name: _end(asked[name].end, states.get(name)) for name in logs}
    resolved = replace(options, start=starts, end=ends)
    slices = [narrowed for piece in prune(chosen, resolved) if (narrowed := narrow(piece, logs)).size_bytes > 0]
    topic_ids = {
        name[0]: one.partition.metadata.topic_id for name, one in logs.items() if one.partition.metadata is not None
    }
    tasks = tuple(task_of(piece, options) for piece in with_aborted(slices, chosen, states))
    return TablePlan(tasks, starts, topic_ids, tuple(gaps), internal)


def _committed(options: ReadOptions) -> bool:
    return options.isolation == "read_committed"


def _end(asked: int, state: TransactionState | None) -> int:
    stable = NO_END if state is None or not state.open else state.last_stable_offset
    end = min(asked, stable)
    return LATEST if end == NO_END else end


def check_same_topic(name: TopicPartition, one: Log, state: TableState | None) -> None:
    """Check that the table was filled from the topic that the log belongs to.

    Raises:
        OptionError: the topic was deleted and made again since: its offsets mean other records.
    """
    metadata = one.partition.metadata
    number = None if state is None else state.topic_number_of(name[0])
    if metadata is not None and number is not None and number != topic_number(metadata.topic_id):
        raise OptionError(
            f"topic {name[0]} has the id {metadata.topic_id}, and the table was filled from one with another id: the "
            "topic was made anew. Export it to a new table, or with `overwrite`"
        )


def start_of(name: TopicPartition, one: Log, asked: int, end: int | None) -> tuple[int, Gap | None]:
    """Return the first offset to add, and what the log has lost before it.

    Args:
        asked: the first selected offset; NO_START for all.
        end: what the table says; None where it knows nothing of the partition.

    Raises:
        OptionError: the log ends before what the table has of it: it was cut, or is another one.
    """
    first = max(asked, one.partition.log_start_offset)
    if end is None:
        return first, None
    if first > end:
        return first, Gap(*name, end, first)
    last = one.partition.segments[-1]
    if end > last.base_offset and (log_end := log_end_offset(one.filesystem, one.partition)) < end:
        raise OptionError(
            f"{name[0]}-{name[1]} ends at offset {log_end}, and the table has its records up to {end - 1}: the log was "
            "cut or replaced, or this is another copy. Export to a new table, or with `overwrite`"
        )
    return end, None
