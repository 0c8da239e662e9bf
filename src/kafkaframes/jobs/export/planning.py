"""Plan an export: one task for each slice of a segment, from the options of ``kafka-log``.

Measured with Spark 4.3: a worker that writes Parquet itself needs a fifth of the CPU time of Spark's writer, because
values are not copied to the JVM.
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
from kafkaframes.jobs.export.task import (
    ExportTask,
    FileTasks,
    SegmentResult,
    Settings,
    parse_line,
    read_fingerprints,
    read_journal,
)
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.scan.fingerprints import find_difference
from kafkaframes.scan.log.discovery import discover_logs
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import SegmentSlice
from kafkaframes.scan.log.resolve import choose_segments, plan_part, resolve_isolation
from kafkaframes.scan.ranges import NO_END, NO_START, check_batch_start
from kafkaframes.storage.files.filesystem import VIEW_SEPARATOR
from kafkaframes.storage.log.discover import filesystem_for
from kafkaframes.storage.log.notes import LogNotes


class ExportPlan(NamedTuple):
    """The tasks of an export.

    Attributes:
        tasks: one task for each slice of a segment.
        internal_topics: internal topics that exist and are not selected.
        notes: swap files, transaction indexes that differ from markers, and records hidden by open transactions.
        isolation: isolation level of the read.
    """

    tasks: list[ExportTask]
    internal_topics: tuple[str, ...]
    notes: LogNotes
    isolation: str


def plan_export(options: ReadOptions) -> ExportPlan:
    """Plan the export of the segments that the options select.

    Raises:
        OptionError: the options do not match the logs, or offsets of the range are lost.
        LogDirError: a path does not exist or cannot be read.
    """
    check_batch_start(options.start)
    result = discover_logs(options.paths, storage=options.storage)
    options = resolve_isolation(options, is_whole=result.has_whole_directories)
    chosen = choose_segments(result, options, cores=os.cpu_count() or 1)
    tasks: list[ExportTask] = []
    notes = chosen.notes
    for part, bounded in chosen.parts:
        slices, part_notes = plan_part(part, bounded, whole_segments=True)
        notes += part_notes
        for chunk, entry in slices:
            metadata = entry.partition.metadata
            topic_id = "" if metadata is None else metadata.topic_id
            tasks.append(replace(task_of(chunk, options), topic_id=topic_id, head=_head_of(chunk, options)))
    assert options.isolation is not None  # set by with_isolation
    return ExportPlan(tasks, chosen.internal_topics, notes, options.isolation)


def _head_of(part: SegmentSlice, options: ReadOptions) -> str:
    """Return a digest of a segment's first batch header, because equal sizes do not prove equal segments."""
    if VIEW_SEPARATOR in part.segment.path:  # this path contains a unique id
        return ""
    try:
        with filesystem_for(part.segment.path, options=options.storage).open(part.segment.path) as read_at:
            return sha256(read_at(0, BATCH_V2.size)).hexdigest()[:16]
    except LogDirError:  # the task reports the error, and the export continues with the other segments
        return ""


def task_of(part: SegmentSlice, options: ReadOptions) -> ExportTask:
    """Return the task that exports a slice."""
    segment = part.segment
    is_part = segment.alternates or segment.start  # part of a merged log
    return ExportTask(
        segment.path,
        part.end,
        segment.base_offset,
        segment.topic,
        segment.partition,
        first_offset=None if part.first_offset == NO_START else part.first_offset,
        end_offset=None if part.end_offset == NO_END else part.end_offset,
        start=part.start,
        aborted=part.aborted_transactions,
        source=segment.source if options.replicas == "all" else "",
        label=f"{segment.base_offset:020}" if is_part else "",
        alternates=segment.alternates,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Group segments into files, and find the valid files of earlier runs.
#
# Small segments of a topic partition share a file, because each file costs about 13 ms and readers are slow with many
# files. A segment only shares a file if it can no longer change. The last segment of a partition therefore has its own
# file, because a broker may append to it. Segments that have shared a file always share it: the file is rewritten from
# all its segments, or not at all.
#
# * A file is valid if its size matches the journal, and each of its segments is unchanged or no longer in the log.
# * If a segment of a file has changed, the file is rewritten, provided that the log still has all its segments.
#   Otherwise the export fails, because it would lose the records of deleted segments, or write other records twice.
# * A topic with another id, a segment that begins with another batch and is not smaller, and a segment with another
#   record at an offset belong to another log. The export fails.
# * A file that is not in the journal (its writer was killed) is removed, because its segments may be grouped
#   differently now.

SMALL_BYTES = 4 << 20  # largest segment that shares a file
SHARED_BYTES = 32 << 20  # largest number of log bytes in a shared file
PARTS = 16  # minimum number of parts of a small export, so that several cores share it evenly


@dataclass(frozen=True, slots=True)
class Done:
    """The results of earlier runs that are still valid.

    Attributes:
        results: results of finished segments, by segment name.
        again: path of the journaled file to rewrite, by name of each of its segments.
        outputs: valid files, including those of segments that are no longer in the log.
    """

    results: Mapping[str, SegmentResult]
    again: Mapping[str, str]
    outputs: frozenset[str]


_bounds = attrgetter("start", "size_bytes", "first_offset", "end_offset")


def find_finished_segments(settings: Settings, tasks: Sequence[ExportTask]) -> Done:
    """Return the journaled results that are valid for the current segments and whose files still exist.

    Raises:
        OptionError: an exported segment in the middle of the log was deleted, or an exported segment shared a file
            with a segment that has changed.
    """
    results_by_name = recorded_results(settings.to)
    now = {task.name: task for task in tasks}
    _check_same_log(settings, results_by_name, now)
    _check_none_merged(results_by_name, tasks)
    results = {name: known for name, known in results_by_name.items() if name in now and known.output is None}
    results = {name: known for name, known in results.items() if _bounds(known.task) == _bounds(now[name])}
    again: dict[str, str] = {}
    outputs = set()
    for output, members in _by_output(results_by_name).items():
        here = {known.task.name: known for known in members if known.task.name in now}
        if has_output(settings.to, members[0]):
            if all(_bounds(known.task) == _bounds(now[name]) for name, known in here.items()):
                results |= here
                outputs.add(output)
                continue
            _check_all_here(members, here, now)
        again |= dict.fromkeys(here, output)
    return Done(results, again, frozenset(outputs))


def recorded_results(to: str) -> dict[str, SegmentResult]:
    """Return the newest result of each segment in the journal of a destination."""
    results_by_name: dict[str, SegmentResult] = {}
    for values in read_journal(to):
        try:
            results = parse_line(values)
        except (KeyError, TypeError, AttributeError):
            continue
        results_by_name |= {result.task.name: result for result in results}
    return results_by_name


def _by_output(results_by_name: Mapping[str, SegmentResult]) -> dict[str, list[SegmentResult]]:
    result: dict[str, list[SegmentResult]] = defaultdict(list)
    for segment_result in results_by_name.values():
        if segment_result.output is not None:
            result[segment_result.output].append(segment_result)
    return result


def has_output(to: str, result: SegmentResult) -> bool:
    """Return whether the file of a result exists with the size in the journal."""
    path = Path(to, result.output or "")
    return path.exists() and path.stat().st_size == result.output_bytes


def _check_same_log(
    settings: Settings, results_by_name: Mapping[str, SegmentResult], now: Mapping[str, ExportTask]
) -> None:
    """Check that the exported segments belong to the log that is exported now.

    The first batch of a segment is the same as long as a broker only appends to it. After a compaction, which makes the
    segment smaller, the remaining records are the same.
    """
    for name, segment_result in results_by_name.items():
        task, before = now.get(name), segment_result.task
        if task is None:
            continue
        if task.topic_id and before.topic_id and task.topic_id != before.topic_id:
            difference = f"the topic had the id {before.topic_id} and has {task.topic_id}"
        elif task.size_bytes >= before.size_bytes and _has_other_head(task, before):
            size = "the same size" if task.size_bytes == before.size_bytes else "not become smaller"
            difference = f"it has {size}, and begins with another batch"
        elif task.size_bytes != before.size_bytes and (problem := _other_record(task, segment_result, settings)):
            difference = problem
        else:
            continue
        raise OptionError(
            f"{task.path} is not the segment that was exported from {before.path}: {difference}. Export to a new "
            "directory, or with `overwrite`"
        )


def _has_other_head(task: ExportTask, before: ExportTask) -> bool:
    return task.start == before.start and bool(task.head and before.head) and task.head != before.head


def _other_record(task: ExportTask, segment_result: SegmentResult, settings: Settings) -> str:
    """Return a description of the first record that differs from the exported record at its offset; "" if none does."""
    fingerprints = segment_result.tally.last_records
    records = read_fingerprints(task, fingerprints, storage=settings.storage) if fingerprints else {}
    difference = find_difference(fingerprints, records)
    if difference is None:
        return ""
    before, now = difference
    return f"at offset {before.offset} it had a record with {before}, and has one with {now}"


def _check_none_merged(results_by_name: Mapping[str, SegmentResult], tasks: Sequence[ExportTask]) -> None:
    """Check that the cleaner has not merged exported segments, because their records would be exported twice."""
    first: dict[tuple[str, int, str], int] = {}
    for task in tasks:
        first.setdefault(_partition(task), task.base_offset)
    names = {task.name for task in tasks}
    for name, result in results_by_name.items():
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
    missing_paths = [known.task.path for known in members if known.task.name not in here]
    if missing_paths:
        changed = next(now[name].path for name, known in here.items() if _bounds(known.task) != _bounds(now[name]))
        raise OptionError(
            f"{changed} has changed (or other offsets are selected) since it was exported into one file with "
            f"{missing_paths[0]}, which is not there any more: export to a new directory, or with `overwrite`"
        )


def files_of(tasks: Sequence[ExportTask], done: Done) -> list[FileTasks]:
    """Return the remaining work: the segments of each file to write."""
    remaining_files: list[FileTasks] = []
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
            remaining_files += [tuple(current)] if current else []
            current, size_bytes = [], 0
        current.append(task)
        size_bytes += task.size_bytes
        before = task
    return [*remaining_files, tuple(current)] if current else remaining_files


def part_bytes(total: int, most: int) -> int:
    """Return the size of a unit of work: at most ``most`` bytes, less if some cores would otherwise be idle.

    >>> part_bytes(10 << 30, 32 << 20) >> 20, part_bytes(100 << 20, 32 << 20) >> 20, part_bytes(1, 32 << 20) >> 20
    (32, 6, 4)
    """
    return min(most, max(total // PARTS, 4 << 20))


def _partition(task: ExportTask) -> tuple[str, int, str]:
    return task.topic, task.partition, task.source


def _fits(before: ExportTask, task: ExportTask, done: Done, space: int, *, is_last: bool) -> bool:
    """Return whether a segment shares its neighbor's file. Segments that have shared a file share it again."""
    entry, other = done.again.get(before.name), done.again.get(task.name)
    if entry is not None or other is not None:
        return entry == other
    is_small = max(before.size_bytes, task.size_bytes) <= SMALL_BYTES and task.size_bytes <= space
    return is_small and not is_last and _partition(before) == _partition(task)


def remove_unrecorded(settings: Settings, done: Done, files: Iterable[FileTasks]) -> None:
    """Remove files that are not in the journal, unless ``files`` overwrite them."""
    root = Path(settings.to)
    replaced = {f"{tasks[0].name}.{settings.form}" for tasks in files} & set(done.again.values())
    for path in root.glob(f"topic=*/partition=*/**/*.{settings.form}"):
        if str(path.relative_to(root)) not in done.outputs | replaced:
            path.unlink(missing_ok=True)
