"""Plan an export: one task for each slice of a segment, from the options of ``kafka-log``.

Measured with Spark 4.3: a worker that writes Parquet itself needs a fifth of the CPU time of Spark's writer, because
values are not copied to the JVM.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.export.task import (
    ExportTask,
    ExportTaskSettings,
    FileTasks,
    SegmentResult,
    parse_journal_line,
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
from kafkaframes.storage.files.filesystem import VIEW_SEPARATOR, split_path
from kafkaframes.storage.log.discover import find_filesystem
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


def plan_export(options: ReadOptions, *, omit_unreadable: bool = False) -> ExportPlan:
    """Plan the export of the segments that the options select.

    Args:
        omit_unreadable: whether a partition or segment that cannot be read becomes a note or a failed task, instead of
            an error.

    Raises:
        OptionError: the options do not match the logs, or offsets of the range are lost.
        LogDirError: a path does not exist or cannot be read.
    """
    check_batch_start(options.start)
    result = discover_logs(options.paths, storage=options.storage)
    options = resolve_isolation(options, is_whole=result.has_whole_directories)
    selected_segments = choose_segments(result, options, cores=os.cpu_count() or 1, omit_unreadable=omit_unreadable)
    tasks: list[ExportTask] = []
    notes = selected_segments.notes
    for part, limited_range in selected_segments.parts:
        slices, part_notes = plan_part(part, limited_range, whole_segments=True, omit_unreadable=omit_unreadable)
        notes += part_notes
        for chunk, entry in slices:
            metadata = entry.partition.metadata
            topic_id = "" if metadata is None else metadata.topic_id
            tasks.append(replace(make_task(chunk, options), topic_id=topic_id, head=_read_head_digest(chunk, options)))
    assert options.isolation is not None  # set by with_isolation
    return ExportPlan(tasks, selected_segments.internal_topics, notes, options.isolation)


def _read_head_digest(part: SegmentSlice, options: ReadOptions) -> str:
    """Return a digest of a segment's first batch header, because equal sizes do not prove equal segments."""
    if VIEW_SEPARATOR in part.segment.path:  # this path contains a unique id
        return ""
    try:
        with find_filesystem(part.segment.path, options=options.storage).open(part.segment.path) as read_at:
            return sha256(read_at(0, BATCH_V2.size)).hexdigest()[:16]
    except LogDirError:  # the task reports the error, and the export continues with the other segments
        return ""


def make_task(part: SegmentSlice, options: ReadOptions) -> ExportTask:
    """Return the task that exports a slice of a segment."""
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

MAX_SMALL_SEGMENT_BYTES = 4 << 20  # largest segment that shares a file
MAX_SHARED_FILE_BYTES = 32 << 20  # largest number of log bytes in a shared file
MIN_EXPORT_PARTS = 16  # minimum number of parts of a small export, so that several cores share it evenly


@dataclass(frozen=True, slots=True)
class FinishedSegments:
    """Results of earlier runs that are still valid.

    Attributes:
        results: results of finished segments, by segment name.
        again: path of the output file to write again, by the name of each of its segments.
        outputs: valid files, including those of segments that are no longer in the log.
    """

    results: Mapping[str, SegmentResult]
    again: Mapping[str, str]
    outputs: frozenset[str]


_bounds = attrgetter("start", "size_bytes", "first_offset", "end_offset")


def select_tasks_of_readable_logs(
    tasks: Sequence[ExportTask], recorded_results: Mapping[str, SegmentResult], unreadable_directories: Collection[str]
) -> list[ExportTask]:
    """Return the tasks except those of journaled segments whose log cannot be read to the end.

    A task for such a log may end at a lower offset than the task that exported the segment. The recorded file of such a
    segment stays as it is, like the file of a segment that is no longer in the log.
    """
    return [
        task
        for task in tasks
        if not (split_path(task.path)[0] in unreadable_directories and task.name in recorded_results)
    ]


def find_finished_segments(
    settings: ExportTaskSettings,
    tasks: Sequence[ExportTask],
    recorded_results: Mapping[str, SegmentResult],
    unreadable_directories: Collection[str] = (),
) -> FinishedSegments:
    """Return the journaled results that are valid for the current segments and whose files still exist.

    Args:
        settings: settings that select the records of the tasks, and the destination.
        tasks: current segments.
        recorded_results: the results of ``read_newest_results``.
        unreadable_directories: directories of logs that cannot be read to the end; ``tasks`` lacks their segments.

    Raises:
        OptionError: an exported segment in the middle of the log was deleted, or an exported segment shared a file
            with a segment that has changed.
    """
    current_task = {task.name: task for task in tasks}
    _check_same_log(settings, recorded_results, current_task)
    _check_not_merged(
        {
            name: recorded
            for name, recorded in recorded_results.items()
            if split_path(recorded.task.path)[0] not in unreadable_directories
        },
        tasks,
    )
    results = {
        name: valid_results
        for name, valid_results in recorded_results.items()
        if name in current_task and valid_results.output is None
    }
    results = {
        name: valid_results
        for name, valid_results in results.items()
        if _bounds(valid_results.task) == _bounds(current_task[name])
    }
    reexported_names: dict[str, str] = {}
    outputs = set()
    for output, results_by_output in _group_by_output(recorded_results).items():
        tasks_by_name = {
            valid_results.task.name: valid_results
            for valid_results in results_by_output
            if valid_results.task.name in current_task
        }
        if has_output(settings.to, results_by_output[0]):
            if all(
                _bounds(valid_results.task) == _bounds(current_task[name])
                for name, valid_results in tasks_by_name.items()
            ):
                results |= tasks_by_name
                outputs.add(output)
                continue
            _check_shared_files_complete(results_by_output, tasks_by_name, current_task)
        reexported_names |= dict.fromkeys(tasks_by_name, output)
    return FinishedSegments(results, reexported_names, frozenset(outputs))


def read_newest_results(to: str) -> dict[str, SegmentResult]:
    """Return the newest result of each segment in the journal of a destination."""
    results_by_name: dict[str, SegmentResult] = {}
    for values in read_journal(to):
        try:
            results = parse_journal_line(values)
        except (KeyError, TypeError, AttributeError):
            continue
        results_by_name |= {result.task.name: result for result in results}
    return results_by_name


def _group_by_output(results_by_name: Mapping[str, SegmentResult]) -> dict[str, list[SegmentResult]]:
    """Return the results by output file."""
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
    settings: ExportTaskSettings, results_by_name: Mapping[str, SegmentResult], current_tasks: Mapping[str, ExportTask]
) -> None:
    """Check that the exported segments belong to the log that is exported now.

    The first batch of a segment is the same as long as a broker only appends to it. After a compaction, which makes the
    segment smaller, the remaining records are the same.
    """
    for name, segment_result in results_by_name.items():
        task, recorded_task = current_tasks.get(name), segment_result.task
        if task is None:
            continue
        if task.topic_id and recorded_task.topic_id and task.topic_id != recorded_task.topic_id:
            difference = f"the topic id has changed from {recorded_task.topic_id} to {task.topic_id}"
        elif task.size_bytes >= recorded_task.size_bytes and _has_other_head(task, recorded_task):
            size_text = "has the same size" if task.size_bytes == recorded_task.size_bytes else "is larger"
            difference = f"it {size_text}, but begins with another batch"
        elif task.size_bytes != recorded_task.size_bytes and (
            problem := _describe_different_record(task, segment_result, settings)
        ):
            difference = problem
        else:
            continue
        raise OptionError(
            f"{task.path} is not the segment that was exported from {recorded_task.path}: {difference}. Export to a "
            "new directory, or with `overwrite`"
        )


def _has_other_head(task: ExportTask, before: ExportTask) -> bool:
    """Return whether a segment's first batch differs from the one in the journal."""
    return task.start == before.start and bool(task.head and before.head) and task.head != before.head


def _describe_different_record(task: ExportTask, segment_result: SegmentResult, settings: ExportTaskSettings) -> str:
    """Return a description of the first record that differs from the exported record at its offset; "" if none does."""
    fingerprints = segment_result.tally.last_records
    records = read_fingerprints(task, fingerprints, storage=settings.storage) if fingerprints else {}
    difference = find_difference(fingerprints, records)
    if difference is None:
        return ""
    recorded_fingerprint, current_fingerprint = difference
    return (
        f"at offset {recorded_fingerprint.offset} it had a record with {recorded_fingerprint}, and now has a record "
        "with "
        f"{current_fingerprint}"
    )


def _check_not_merged(results_by_name: Mapping[str, SegmentResult], tasks: Sequence[ExportTask]) -> None:
    """Check that the cleaner has not merged exported segments, because this would export records twice."""
    first: dict[tuple[str, int, str], int] = {}
    for task in tasks:
        first.setdefault(_make_partition_key(task), task.base_offset)
    names = {task.name for task in tasks}
    for name, result in results_by_name.items():
        task = result.task
        begin = first.get(_make_partition_key(task))
        if name not in names and begin is not None and task.base_offset > begin and result.output is not None:
            raise OptionError(
                f"{task.path} was exported and is no longer in the log, but older segments are. If the log was "
                "compacted, its records may be in other segments now. Export to a new directory, or with `overwrite`"
            )


def _check_shared_files_complete(
    members: Sequence[SegmentResult],
    tasks_by_name: Mapping[str, SegmentResult],
    current_tasks: Mapping[str, ExportTask],
) -> None:
    """Check that every segment of an exported file still exists."""
    missing_paths = [
        recorded_names.task.path for recorded_names in members if recorded_names.task.name not in tasks_by_name
    ]
    if missing_paths:
        changed_names = next(
            current_tasks[name].path
            for name, recorded_names in tasks_by_name.items()
            if _bounds(recorded_names.task) != _bounds(current_tasks[name])
        )
        raise OptionError(
            f"{changed_names} has changed (or other offsets are selected) since it was exported into one file with "
            f"{missing_paths[0]}, which no longer exists; export to a new directory, or with `overwrite`"
        )


def plan_files(tasks: Sequence[ExportTask], finished: FinishedSegments) -> list[FileTasks]:
    """Return the segments of each file that still has to be written."""
    remaining_files: list[FileTasks] = []
    current: list[ExportTask] = []
    size_bytes = 0
    previous_results: ExportTask | None = None
    limit = choose_part_bytes(
        sum(task.size_bytes for task in tasks if task.name not in finished.results), MAX_SHARED_FILE_BYTES
    )
    for task, next_task in pairwise([*tasks, None]):
        if task is None or task.name in finished.results:
            previous_results = None
            continue
        is_last = next_task is None or _make_partition_key(next_task) != _make_partition_key(task)
        if previous_results is None or not _shares_file_with_previous(
            previous_results, task, finished, limit - size_bytes, is_last=is_last
        ):
            remaining_files += [tuple(current)] if current else []
            current, size_bytes = [], 0
        current.append(task)
        size_bytes += task.size_bytes
        previous_results = task
    return [*remaining_files, tuple(current)] if current else remaining_files


def choose_part_bytes(total: int, max_bytes: int) -> int:
    """Return the size of the parts into which work is divided: at most ``max_bytes``, less if cores would be idle.

    >>> [choose_part_bytes(total, 32 << 20) >> 20 for total in (10 << 30, 100 << 20, 1)]
    [32, 6, 4]
    """
    return min(max_bytes, max(total // MIN_EXPORT_PARTS, 4 << 20))


def _make_partition_key(task: ExportTask) -> tuple[str, int, str]:
    """Return the topic, partition and log directory of a task."""
    return task.topic, task.partition, task.source


def _shares_file_with_previous(
    previous_results: ExportTask, task: ExportTask, finished: FinishedSegments, space: int, *, is_last: bool
) -> bool:
    """Return whether a segment is written to the same file as the segment before it.

    Segments that shared a file before share it again.
    """
    entry, next_results = finished.again.get(previous_results.name), finished.again.get(task.name)
    if entry is not None or next_results is not None:
        return entry == next_results
    is_small = max(previous_results.size_bytes, task.size_bytes) <= MAX_SMALL_SEGMENT_BYTES and task.size_bytes <= space
    return is_small and not is_last and _make_partition_key(previous_results) == _make_partition_key(task)


def remove_unrecorded_files(
    settings: ExportTaskSettings, finished: FinishedSegments, files: Iterable[FileTasks]
) -> None:
    """Remove files that are not in the journal, unless ``files`` overwrite them."""
    root = Path(settings.to)
    replaced_paths = {f"{tasks[0].name}.{settings.form}" for tasks in files} & set(finished.again.values())
    for path in root.glob(f"topic=*/partition=*/**/*.{settings.form}"):
        if str(path.relative_to(root)) not in finished.outputs | replaced_paths:
            path.unlink(missing_ok=True)
