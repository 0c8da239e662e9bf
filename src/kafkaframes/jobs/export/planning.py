"""Plan an export: one task for each slice of a segment, from the options of ``kafka-log``.

Measured with Spark 4.3: a worker that writes Parquet itself takes a fifth of the CPU of Spark's writer, since no value
travels to the JVM.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.export.task import ExportTask, FileTasks, SegmentResult, Settings, parse_line, read_journal
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.scan.log.discovery import discover_logs
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import Slice, prune
from kafkaframes.scan.log.resolve import choose, logs_of, resolve_offsets
from kafkaframes.scan.ranges import NO_END, NO_START
from kafkaframes.storage.files.filesystem import VIEW_MARK
from kafkaframes.storage.log.discover import filesystem_for
from kafkaframes.storage.log.notes import LogNotes


class ExportPlan(NamedTuple):
    """What an export reads.

    Attributes:
        tasks: a task for each slice of a segment.
        internal_topics: Kafka's own topics that exist and are not chosen.
        notes: swap files that are read as segments.
    """

    tasks: list[ExportTask]
    internal_topics: tuple[str, ...]
    notes: LogNotes


def plan_export(options: ReadOptions) -> ExportPlan:
    """Plan the export of the segments that the options choose.

    Raises:
        OptionError: the options do not fit what is there.
        LogDirError: a path does not exist or cannot be read.
    """
    result = discover_logs(options.paths, storage=options.storage)
    chosen = choose(result, options, cores=os.cpu_count() or 1)
    tasks: list[ExportTask] = []
    for part, bounded in chosen.parts:
        logs = logs_of(part)
        for chunk in prune(part.segments, resolve_offsets(bounded, logs)):
            metadata = logs[chunk.segment.topic, chunk.segment.partition].partition.metadata
            topic_id = "" if metadata is None else metadata.topic_id
            tasks.append(replace(task_of(chunk, options), topic_id=topic_id, head=_head_of(chunk, options)))
    return ExportPlan(tasks, chosen.internal_topics, chosen.notes)


def _head_of(part: Slice, options: ReadOptions) -> str:
    """Return a digest of a segment's first batch header: a size alone does not say whose records it has."""
    if VIEW_MARK in part.segment.path:  # its path has an id that no other segment has
        return ""
    try:
        with filesystem_for(part.segment.path, options=options.storage).open(part.segment.path) as read_at:
            return sha256(read_at(0, BATCH_V2.size)).hexdigest()[:16]
    except LogDirError:  # the task reports it, and the other segments are exported
        return ""


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


# ---------------------------------------------------------------------------------------------------------------------
# Which segments share a file, and which files of earlier runs are still good.
#
# Small segments of a topic partition share a file: a file costs about 13 ms, whatever is in it, and readers dislike
# many. Only segments that will not change any more do so: the last one of a partition, which a broker may append to,
# has a file of its own. What shared a file once does so for good: it is written anew from all its segments, or not at
# all.
#
# * A file is good while its size is what the journal says, and every segment of it is as it was or has left the log.
# * A file of which a segment has changed is written again, if the log still has all its segments; otherwise its records
#   of those that are gone would be lost, or those of the others twice: refused.
# * A segment of the same size that begins with another batch, or a topic with another id, is of another log: refused.
# * A file that no line of the journal names (its writer was killed in between) is removed: its segments may now be
#   grouped in another way.

SMALL_BYTES = 4 << 20  # segments up to that share a file
SHARED_BYTES = 32 << 20  # of log in a file that segments share
PARTS = 16  # into which work is cut where it is little: enough for some cores to share it evenly


@dataclass(frozen=True, slots=True)
class Done:
    """What earlier runs did.

    Attributes:
        results: of the segments of which nothing is left to do, by name.
        again: by name, which recorded file a segment was in that has to be written again.
        outputs: the files that are good, those of segments that left the log included.
    """

    results: Mapping[str, SegmentResult]
    again: Mapping[str, str]
    outputs: frozenset[str]


_bounds = attrgetter("start", "size_bytes", "first_offset", "end_offset")


def done_before(settings: Settings, tasks: Sequence[ExportTask]) -> Done:
    """Return what the journal says of the segments as they are now, where its files are still there.

    Raises:
        OptionError: exported segments between others have left the log; or they shared
            a file with a segment that has changed.
    """
    recorded = _recorded(settings)
    now = {task.name: task for task in tasks}
    _check_same_log(recorded, now)
    _check_none_merged(recorded, tasks)
    results = {name: known for name, known in recorded.items() if name in now and known.output is None}
    results = {name: known for name, known in results.items() if _bounds(known.task) == _bounds(now[name])}
    again: dict[str, str] = {}
    outputs = set()
    for output, members in _by_output(recorded).items():
        here = {known.task.name: known for known in members if known.task.name in now}
        if _is_there(settings.to, members[0]):
            if all(_bounds(known.task) == _bounds(now[name]) for name, known in here.items()):
                results |= here
                outputs.add(output)
                continue
            _check_all_here(members, here, now)
        again |= dict.fromkeys(here, output)
    return Done(results, again, frozenset(outputs))


def _recorded(settings: Settings) -> dict[str, SegmentResult]:
    """Return the last that the journal says of each segment."""
    recorded: dict[str, SegmentResult] = {}
    for values in read_journal(settings.to):
        try:
            results = parse_line(values)
        except (KeyError, TypeError, AttributeError):
            continue
        recorded |= {result.task.name: result for result in results}
    return recorded


def _by_output(recorded: Mapping[str, SegmentResult]) -> dict[str, list[SegmentResult]]:
    result: dict[str, list[SegmentResult]] = defaultdict(list)
    for known in recorded.values():
        if known.output is not None:
            result[known.output].append(known)
    return result


def _is_there(to: str, result: SegmentResult) -> bool:
    path = Path(to, result.output or "")
    return path.exists() and path.stat().st_size == result.output_bytes


def _check_same_log(recorded: Mapping[str, SegmentResult], now: Mapping[str, ExportTask]) -> None:
    """Check that segments which were exported are those of the log that is exported now."""
    for name, known in recorded.items():
        task, before = now.get(name), known.task
        if task is None:
            continue
        is_other_topic = bool(task.topic_id and before.topic_id and task.topic_id != before.topic_id)
        is_other_content = (
            task.size_bytes == before.size_bytes
            and task.start == before.start
            and (bool(task.head and before.head) and task.head != before.head)
        )
        if is_other_topic or is_other_content:
            difference = (
                f"the topic had the id {before.topic_id} and has {task.topic_id}"
                if is_other_topic
                else "it has the same size, and begins with another batch"
            )
            raise OptionError(
                f"{task.path} is not the segment that was exported from {before.path}: {difference}. Export to a new "
                "directory, or with `overwrite`"
            )


def _check_none_merged(recorded: Mapping[str, SegmentResult], tasks: Sequence[ExportTask]) -> None:
    """The cleaner puts segments together: the records of one that is gone would be exported twice."""
    first: dict[tuple[str, int, str], int] = {}
    for task in tasks:
        first.setdefault(_partition(task), task.base_offset)
    names = {task.name for task in tasks}
    for name, result in recorded.items():
        task = result.task
        begin = first.get(_partition(task))
        if name not in names and begin is not None and task.base_offset > begin and result.output is not None:
            raise OptionError(
                f"{task.path} was exported and is not in the log any more, but older segments are: was the log "
                "compacted? Its records may be in other segments now: export to a new directory, or with `overwrite`"
            )


def _check_all_here(
    members: Sequence[SegmentResult], here: Mapping[str, SegmentResult], now: Mapping[str, ExportTask]
) -> None:
    gone = [known.task.path for known in members if known.task.name not in here]
    if gone:
        changed = next(now[name].path for name, known in here.items() if _bounds(known.task) != _bounds(now[name]))
        raise OptionError(
            f"{changed} has changed (or other offsets are selected) since it was exported into one file with "
            f"{gone[0]}, which is not there any more: export to a new directory, or with `overwrite`"
        )


def files_of(tasks: Sequence[ExportTask], done: Done) -> list[FileTasks]:
    """Return what is left to do: which segments go into which file."""
    left: list[FileTasks] = []
    current: list[ExportTask] = []
    size_bytes = 0
    before: ExportTask | None = None
    limit = part_bytes(sum(task.size_bytes for task in tasks if task.name not in done.results), SHARED_BYTES)
    for task, following in pairwise([*tasks, None]):
        if task is None or task.name in done.results:
            before = None
            continue
        is_last = following is None or _partition(following) != _partition(task)
        if before is None or not _fits(before, task, done, limit - size_bytes, is_last=is_last):
            left += [tuple(current)] if current else []
            current, size_bytes = [], 0
        current.append(task)
        size_bytes += task.size_bytes
        before = task
    return [*left, tuple(current)] if current else left


def part_bytes(total: int, most: int) -> int:
    """Return how many bytes of work go together: at most ``most``, fewer if cores would be left without work.

    >>> part_bytes(10 << 30, 32 << 20) >> 20, part_bytes(100 << 20, 32 << 20) >> 20, part_bytes(1, 32 << 20) >> 20
    (32, 6, 4)
    """
    return min(most, max(total // PARTS, 4 << 20))


def _partition(task: ExportTask) -> tuple[str, int, str]:
    return task.topic, task.partition, task.source


def _fits(before: ExportTask, task: ExportTask, done: Done, space: int, *, is_last: bool) -> bool:
    """Return whether a segment goes into its neighbour's file: those that shared one do so again."""
    entry, other = done.again.get(before.name), done.again.get(task.name)
    if entry is not None or other is not None:
        return entry == other
    is_small = max(before.size_bytes, task.size_bytes) <= SMALL_BYTES and task.size_bytes <= space
    return is_small and not is_last and _partition(before) == _partition(task)


def remove_unrecorded(settings: Settings, done: Done, files: Iterable[FileTasks]) -> None:
    """Remove files that no line of the journal names, and those that ``files`` do not replace under their name."""
    root = Path(settings.to)
    replaced = {f"{tasks[0].name}.{settings.form}" for tasks in files} & set(done.again.values())
    for path in root.glob(f"topic=*/partition=*/**/*.{settings.form}"):
        if str(path.relative_to(root)) not in done.outputs | replaced:
            path.unlink(missing_ok=True)
