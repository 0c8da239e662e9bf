"""Plan an export: one task for each slice of a segment, from the options of ``kafka-log``.

Measured with Spark 4.3: a worker that writes Parquet itself takes a fifth of the CPU of Spark's writer, since no value
travels to the JVM.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.settings import ExportTask
from kafkaframes.scan.log.discovery import discover_logs
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import NO_END, NO_START, Segment, Slice, prune, select_segments
from kafkaframes.scan.log.replicas import copies_apart, merge_chosen
from kafkaframes.storage.files.names import INTERNAL_TOPICS


def plan_export(
    options: ReadOptions, *, from_offset: int | None = None, until_offset: int | None = None
) -> tuple[list[ExportTask], tuple[str, ...]]:
    """Return the segments to export, and the internal topics that are there and not asked for.

    Args:
        options: of ``kafka-log``; those that choose topics, partitions and offsets count here.
        from_offset, until_offset: for every partition, beside those of the options.

    Raises:
        OptionError: the options do not fit what is there.
        LogDirError: a path does not exist or cannot be read.
    """
    found = discover_logs(options.paths, storage=options.storage)
    chosen = select_segments(found.segments, options)
    topics = {segment.topic for segment in found.segments} - {segment.topic for segment in chosen}
    if options.replicas == "all":
        parts = list(copies_apart(chosen, options))
    else:
        parts = [(merge_chosen(found, chosen, options, cores=os.cpu_count() or 1).segments, options)]
    kept: list[ExportTask] = []
    for segments, asked in parts:
        tasks = [
            task_of(piece, options, from_offset=from_offset, until_offset=until_offset)
            for piece in prune(segments, asked)
        ]
        kept += [
            task
            for task, following in zip(tasks, [*tasks, None][1:], strict=True)
            if _can_hold(task, following) and (until_offset is None or task.base_offset < until_offset)
        ]
    return kept, tuple(sorted(topics & INTERNAL_TOPICS))


def task_of(
    piece: Slice, options: ReadOptions, *, from_offset: int | None = None, until_offset: int | None = None
) -> ExportTask:
    """Return the task that exports a slice, as far as it lies between the offsets."""
    segment = piece.segment
    firsts = [one for one in (from_offset, piece.first_offset) if one is not None and one != NO_START]
    ends = [one for one in (until_offset, piece.end_offset) if one is not None and one != NO_END]
    return ExportTask(
        segment.path,
        piece.end,
        segment.base_offset,
        segment.topic,
        segment.partition,
        first_offset=max(firsts, default=None),
        end_offset=min(ends, default=None),
        start=piece.start,
        aborted=piece.aborted,
        source=segment.source if options.replicas == "all" else "",
        label=label_of(segment),
        alternates=segment.alternates,
    )


def label_of(segment: Segment) -> str:
    """Return what the output of a part of a merged log is called; empty for a segment that is read as it is."""
    return f"{segment.base_offset:020}" if segment.alternates or segment.start else ""


def _can_hold(task: ExportTask, following: ExportTask | None) -> bool:
    """Return whether a segment can hold a selected offset: it ends below where the next one begins."""
    if task.first_offset is None or following is None:
        return True
    same_log = (task.topic, task.partition) == (following.topic, following.partition)
    return not same_log or following.base_offset > task.first_offset


# Options of kafka-log that say what is read; the others say how Spark cuts it, or what rows look like.
ACCEPTED = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "includeInternalTopics",
    "includeControlRecords",
    "includeHeaders",
    "mode",
    "replicas",
    "verifyCrc",
    "keyFile",
)


FOR_TABLES = ("isolation", "failOnDataLoss")


def check_accepted(names: Sequence[str], *, to_table: bool = False) -> None:
    """Refuse options of ``kafka-log`` that an export does not have.

    Raises:
        OptionError: there is one.
    """
    known = (*ACCEPTED, *FOR_TABLES) if to_table else ACCEPTED
    accepted = {name.lower() for name in known}
    for name in names:
        if name.lower() not in accepted:
            raise OptionError(f"option {name}: an export {'to a table ' if to_table else ''}takes {', '.join(known)}")
