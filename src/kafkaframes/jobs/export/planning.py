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
from kafkaframes.scan.log.planning import NO_END, NO_START, Slice, prune
from kafkaframes.scan.log.resolve import choose, logs_of, resolve_offsets


def plan_export(options: ReadOptions) -> tuple[list[ExportTask], tuple[str, ...]]:
    """Return the segments to export, and the internal topics that are there and not chosen.

    Raises:
        OptionError: the options do not fit what is there.
        LogDirError: a path does not exist or cannot be read.
    """
    result = discover_logs(options.paths, storage=options.storage)
    chosen = choose(result, options, cores=os.cpu_count() or 1)
    slices = [
        chunk
        for part, bounded in chosen.parts
        for chunk in prune(part.segments, resolve_offsets(bounded, logs_of(part)))
    ]
    return [task_of(chunk, options) for chunk in slices], chosen.internal_topics


def task_of(part: Slice, options: ReadOptions) -> ExportTask:
    """Return the task that exports a slice."""
    segment = part.segment
    is_part = segment.alternates or segment.start  # of a merged log
    return ExportTask(
        segment.path,
        part.end,
        segment.base_offset,
        segment.topic,
        segment.partition,
        first_offset=None if part.first_offset == NO_START else part.first_offset,
        end_offset=None if part.end_offset == NO_END else part.end_offset,
        start=part.start,
        aborted=part.aborted,
        source=segment.source if options.replicas == "all" else "",
        label=f"{segment.base_offset:020}" if is_part else "",
        alternates=segment.alternates,
    )


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
