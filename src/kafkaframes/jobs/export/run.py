"""Run an export: plan the remaining work, run its tasks, sum up the results, write ``_SUCCESS``.

The caller chooses where tasks run. The destination stores the progress, so that the next run continues an interrupted
export:

    DIR/topic=orders/partition=0/00000000000000000000.parquet
    DIR/_kafkaframes/export.json      settings of the export; later runs must have the same settings
    DIR/_kafkaframes/journal/*.jsonl  one line for each finished output file; one journal file for each worker task
    DIR/_kafkaframes/tmp/             incomplete output files
    DIR/_kafkaframes/summary.json     summary of the last finished run
    DIR/_SUCCESS                      the export is complete

Parquet readers (Spark, Arrow, DuckDB) ignore names that begin with an underscore.

``export_to_single_file`` instead writes one Parquet file with topic and partition columns, a backup that is easy to
move and that ``kafkaframes restore`` reads. The file has a temporary name until it is complete. An interrupted run
cannot be resumed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.export.planning import (
    FinishedSegments,
    choose_part_bytes,
    find_finished_segments,
    plan_files,
    read_newest_results,
    remove_unrecorded_files,
    select_tasks_of_readable_logs,
)
from kafkaframes.jobs.export.stored_settings import describe_changes
from kafkaframes.jobs.export.tally import CodecSummary, DroppedTotals, ExportSummary, RecordCounts, TopicSummary
from kafkaframes.jobs.export.task import (
    JOURNAL_DIRECTORY,
    OWN_DIRECTORY,
    READ_UNCOMMITTED,
    SUCCESS_FILE,
    TEMPORARY_DIRECTORY,
    ExportJob,
    ExportTask,
    ExportTaskSettings,
    FileTasks,
    SegmentResult,
    check_file_rows,
    export_job_files,
    raise_destination_errors,
)
from kafkaframes.jobs.export.writers import OutputFile, to_output_rows
from kafkaframes.jobs.job import Runner, parse_json_object, run_here, split_by_cost
from kafkaframes.records.memory import borrow_memory
from kafkaframes.storage.files.atomic import PART
from kafkaframes.storage.files.filesystem import split_path
from kafkaframes.storage.files.local_disk import flush_path
from kafkaframes.storage.log.notes import NO_NOTES, LogNotes

TARGET_JOB_LOG_BYTES = 32 << 20  # log bytes in a worker's task, which has several small files
_STORED_SETTINGS_FILE = f"{OWN_DIRECTORY}/export.json"
OPEN_COST_BYTES = 64 << 10  # cost of opening a segment and its output, as the number of bytes exported in the same time


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an export, including earlier runs into the same destination.

    Attributes:
        summary: totals of the selected segments in the destination.
        exported, resumed: number of segments that this run wrote, and number that earlier runs had finished.
        output_bytes: size of the files, in bytes.
        results: one result for each segment, in the order of the plan.
        table: properties of the table after the export, as JSON values; None if the destination is not a table.
        notes: swap files, transaction indexes that differ from markers, and records hidden by open transactions.
    """

    summary: ExportSummary
    exported: int
    resumed: int
    output_bytes: int
    results: tuple[SegmentResult, ...]
    table: Mapping[str, Any] | None = None
    notes: LogNotes = NO_NOTES

    @property
    def is_complete(self) -> bool:
        """Whether the destination has all selected records of the source."""
        return not self.is_unfinished and not self.fault_count and not self.notes.hidden_records

    @property
    def is_unfinished(self) -> bool:
        """Whether segments could not be read, so that another run may export more."""
        return bool(self.failed or self.notes.unreadable)

    @property
    def failed(self) -> list[SegmentResult]:
        """The results of segments that were not exported."""
        return [result for result in self.results if result.failed is not None]

    @property
    def records_read(self) -> int:
        """The number of records read from the exported segments, including records that were not selected."""
        return sum(result.tally.records_read for result in self.results)

    @property
    def fault_count(self) -> int:
        """The number of damaged batches and damaged byte ranges."""
        return sum(result.fault_count for result in self.results)

    def problem_lines(self, *, failure: str) -> Iterator[str]:
        """Yield a line for each fault and each failed task.

        Args:
            failure: text with which the line about a failed task begins.
        """
        for result in self.results:
            yield from result.faults
            if (more := result.fault_count - len(result.faults)) > 0:
                yield f"{result.task.path}: {more:,} more damaged positions"
        for result in self.failed:
            yield f"{failure}: {result.failed}"

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        summary = asdict(self.summary)
        for codec, values in zip(self.summary.codecs, summary["codecs"], strict=True):
            values["ratio"] = round(codec.compression_ratio, 4)
        return {
            "complete": not self.is_unfinished,
            "records": self.summary.records,
            "segments": len(self.results),
            "exported": self.exported,
            "resumed": self.resumed,
            "output_bytes": self.output_bytes,
            **summary,
            "records_read": self.records_read,
            "faults": [fault for result in self.results for fault in result.faults],
            "failed": [result.failed for result in self.failed],
            **({} if self.table is None else {"table": dict(self.table)}),
            **self.notes.as_json(),
        }


@dataclass(frozen=True)
class RemainingWork:
    """The segments that an export still has to write, and the results of earlier runs.

    Attributes:
        names: names of all selected segments, in order.
        files: segments of each file to write.
        finished: valid results of earlier runs.
        internal_topics: internal topics that are not selected, for the summary.
        notes: findings of the planning, such as hidden records and omitted segments, which the outcome repeats.
    """

    names: Sequence[str]
    files: Sequence[FileTasks]
    finished: FinishedSegments
    internal_topics: tuple[str, ...] = ()
    notes: LogNotes = NO_NOTES


def export_segments(
    tasks: Sequence[ExportTask],
    settings: ExportTaskSettings,
    *,
    run: Runner = run_here,
    overwrite: bool = False,
    internal_topics: tuple[str, ...] = (),
    notes: LogNotes = NO_NOTES,
) -> Outcome:
    """Export segments into ``settings.to``, except those that an earlier run exported.

    Args:
        tasks: tasks in order of partition and offset.
        settings: settings that select the records of each segment, and the output format.
        run: function that runs the tasks.
        overwrite: whether to remove an earlier export first.
        internal_topics: internal topics that are not selected, for the summary.
        notes: findings and notes on the logs, which the outcome repeats.

    Raises:
        OptionError: the destination cannot be written, or has another export. ``run`` may raise other errors.
    """

    def find_work() -> RemainingWork:
        # The file of an error is a segment or, if the partition cannot be listed, the directory itself.
        unreadable_directories = {
            path for finding in notes.unreadable for path in (finding.file, split_path(finding.file)[0])
        }
        recorded_results = read_newest_results(settings.to)
        current_tasks = select_tasks_of_readable_logs(tasks, recorded_results, unreadable_directories)
        finished = find_finished_segments(settings, current_tasks, recorded_results, unreadable_directories)
        return RemainingWork(
            [task.name for task in current_tasks], plan_files(current_tasks, finished), finished, internal_topics, notes
        )

    return export_work(find_work, settings, settings.stored_fingerprint(), run=run, overwrite=overwrite)


def export_work(
    find_work: Callable[[], RemainingWork],
    settings: ExportTaskSettings,
    stored_fingerprint: dict[str, Any],
    *,
    run: Runner = run_here,
    overwrite: bool = False,
) -> Outcome:
    """Export the remaining parts of the source, which no earlier run has exported, to ``settings.to``.

    Args:
        find_work: function that returns the remaining work. It is called while the destination is locked.
        settings: settings that select the records of each task, and the output format.
        stored_fingerprint: settings that must be the same in every run.
        run: function that runs the tasks.
        overwrite: whether to remove an earlier export first.

    Raises:
        OptionError: the destination cannot be written, or has another export. ``find_work`` and ``run`` may raise other
            errors.
    """
    started = time.monotonic()
    with open_destination(settings.to, stored_fingerprint, overwrite=overwrite):
        work = find_work()
        success = Path(settings.to, SUCCESS_FILE)
        if work.files or work.notes.unreadable:
            success.unlink(missing_ok=True)
        remove_unrecorded_files(settings, work.finished, work.files)
        new_results = {
            result.task.name: result
            for results in run(export_job_files, group_files_into_jobs(work.files, settings))
            for result in results
        }
        results = tuple(
            new_results[name] if name in new_results else work.finished.results[name] for name in work.names
        )
        summary = sum_results(results, work.internal_topics, settings.to, time.monotonic() - started)
        size_bytes = sum({result.output: result.output_bytes for result in results}.values())
        outcome = Outcome(summary, len(new_results), len(work.finished.results), size_bytes, results, notes=work.notes)
        write_text_atomically(Path(settings.to, OWN_DIRECTORY, "summary.json"), json.dumps(outcome.as_json()))
        if not outcome.is_unfinished:
            outputs = {result.output for result in new_results.values() if result.output is not None}
            flush_to_disk(Path(settings.to, output) for output in sorted(outputs))
            write_text_atomically(success, "")
    return outcome


@contextmanager
def open_destination(to: str, requested_settings: dict[str, Any], *, overwrite: bool = False) -> Iterator[None]:
    """Prepare the destination, and lock it against other exports.

    Args:
        to: a directory that is new, empty, or an earlier export.
        requested_settings: settings that must be the same in every run (``ExportTaskSettings.stored_fingerprint``).
        overwrite: whether to remove an earlier export first.

    Raises:
        OptionError: the destination cannot be written, has other contents or an export with other settings, or is
            locked by another export.
    """
    root = Path(to)
    try:
        if root.is_dir() and not (root / OWN_DIRECTORY).is_dir() and any(root.iterdir()):
            raise OptionError(
                f"`to` {root}: the directory has other files, and no earlier export; choose an empty directory"
            )
        root.mkdir(parents=True, exist_ok=True)
        (root / OWN_DIRECTORY).mkdir(exist_ok=True)
        with open(root / OWN_DIRECTORY / "lock", "w") as lock:
            _acquire_lock(lock.fileno(), to)
            if overwrite:
                for path in (*root.glob("topic=*"), root / JOURNAL_DIRECTORY):
                    shutil.rmtree(path, ignore_errors=True)
                for name in (SUCCESS_FILE, _STORED_SETTINGS_FILE):
                    (root / name).unlink(missing_ok=True)
            _prepare_destination(root, requested_settings)
            yield
            shutil.rmtree(root / TEMPORARY_DIRECTORY, ignore_errors=True)
    except OSError as error:
        raise OptionError(f"`to` {to}: cannot be written: {error.strerror or error}") from error


def _acquire_lock(descriptor: int, to: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OptionError(f"`to` {to}: another export is writing to this directory") from None


def _prepare_destination(root: Path, requested_settings: dict[str, Any]) -> None:
    """Create the destination's directories, or check that the settings equal those of earlier runs."""
    settings_path = root / _STORED_SETTINGS_FILE
    if settings_path.exists():
        if (stored_settings := parse_json_object(settings_path.read_bytes())) != requested_settings:
            # older releases always exported read_uncommitted, and did not store an isolation level
            changes = describe_changes(
                {"isolation": READ_UNCOMMITTED} | stored_settings, {"isolation": READ_UNCOMMITTED} | requested_settings
            )
            raise OptionError(
                f"`to` {root}: the directory has an export with other settings: {changes}. Continue it with the "
                "earlier settings, export to a new directory, or replace it with `overwrite`"
            )
    else:
        write_text_atomically(settings_path, json.dumps(requested_settings))
    shutil.rmtree(root / TEMPORARY_DIRECTORY, ignore_errors=True)  # incomplete files of a killed run
    (root / TEMPORARY_DIRECTORY).mkdir()
    (root / JOURNAL_DIRECTORY).mkdir(exist_ok=True)


def flush_to_disk(paths: Iterable[Path]) -> None:
    """Flush files and their directories to disk, so that they survive a power failure.

    An export flushes all its files once, at the end. Flushing each file took a third of the time of an export of small
    segments. A file that a power failure truncates has the wrong size, and the next run exports it again.
    """
    path_list = list(paths)
    for path in (*path_list, *sorted({path.parent for path in path_list})):
        flush_path(path)


def write_text_atomically(path: Path, text: str) -> None:
    """Write a small file atomically."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    temporary.write_text(text)
    os.replace(temporary, path)


def group_files_into_jobs(files: Iterable[FileTasks], settings: ExportTaskSettings) -> list[ExportJob]:
    """Group neighboring small files into jobs, so that many files share the cost of a task."""

    def cost(tasks: FileTasks) -> int:
        return sum(task.size_bytes for task in tasks) + OPEN_COST_BYTES

    all_files = list(files)
    limit = choose_part_bytes(sum(map(cost, all_files)), TARGET_JOB_LOG_BYTES)
    return [ExportJob(settings, tuple(share)) for share in split_by_cost(all_files, limit, cost)]


def sum_results(
    results: Sequence[SegmentResult], internal_topics: tuple[str, ...], output: str, seconds: float
) -> ExportSummary:
    """Return the totals of all segments."""
    results_by_topic: dict[str, list[SegmentResult]] = defaultdict(list)
    codecs: dict[str, RecordCounts] = defaultdict(RecordCounts)
    dropped: dict[str, RecordCounts] = defaultdict(RecordCounts)
    for result in results:
        results_by_topic[result.task.topic].append(result)
        for name, counts in result.tally.codecs.items():
            codecs[name].add_counts(counts)
        for name, counts in result.tally.dropped.items():
            dropped[name].add_counts(counts)
    return ExportSummary(
        topics=tuple(_summarize_topic(name, topic_results) for name, topic_results in sorted(results_by_topic.items())),
        codecs=tuple(
            CodecSummary(
                name,
                topic_summary.batches,
                topic_summary.records or 0,
                topic_summary.log_bytes,
                topic_summary.payload_bytes,
            )
            for name, topic_summary in sorted(codecs.items())
        ),
        dropped=tuple(
            DroppedTotals(name, topic_summary.batches, topic_summary.records, topic_summary.log_bytes)
            for name, topic_summary in sorted(dropped.items())
        ),
        internal_topics=internal_topics,
        output=output,
        seconds=seconds,
    )


def _summarize_topic(topic: str, results: Sequence[SegmentResult]) -> TopicSummary:
    """Return the totals of a topic's segments."""
    tallies = [result.tally for result in results]
    min_timestamps = [tally.first_timestamp_ms for tally in tallies if tally.first_timestamp_ms is not None]
    max_timestamps = [tally.last_timestamp_ms for tally in tallies if tally.last_timestamp_ms is not None]
    return TopicSummary(
        topic=topic,
        partitions=len({result.task.partition for result in results}),
        records=sum(tally.records for tally in tallies),
        payload_bytes=sum(tally.payload_bytes for tally in tallies),
        first_timestamp_ms=min(min_timestamps, default=None),
        last_timestamp_ms=max(max_timestamps, default=None),
    )


def export_to_single_file(
    tasks: Sequence[ExportTask],
    settings: ExportTaskSettings,
    *,
    overwrite: bool = False,
    internal_topics: tuple[str, ...] = (),
    notes: LogNotes = NO_NOTES,
) -> Outcome:
    """Write the records of segments into the one Parquet file ``settings.to``.

    Args:
        tasks: tasks in order of partition and offset.
        settings: settings with the format Parquet.
        overwrite: whether to replace an existing file.
        internal_topics: internal topics that are not selected, for the summary.
        notes: findings and notes on the logs, which the outcome repeats.

    Raises:
        OptionError: the file exists or cannot be written.
        LogDirError, CorruptRecordError: a segment cannot be read, or is damaged with on_damage=fail. No file remains.
    """
    start_time = time.monotonic()
    final_path = Path(settings.to)
    if final_path.exists() and not (final_path.is_file() and overwrite):
        other_results = "is a directory" if final_path.is_dir() else "is not a file"
        raise OptionError(
            f"`to` {final_path}: {'exists; `overwrite` replaces it' if final_path.is_file() else other_results}"
        )
    temporary = final_path.with_name(f"{final_path.name}{PART}")
    results: list[SegmentResult] = []
    with raise_destination_errors(settings.to):
        final_path.parent.mkdir(parents=True, exist_ok=True)
        try:
            output = OutputFile(str(temporary), "parquet", base64=False, metadata={"source": "kafkaframes export"})
            with output, borrow_memory() as memory:
                for task in tasks:
                    results.append(SegmentResult(task))
                    write = partial(_write_rows, output, task, settings.headers)
                    task.copy_records(results[-1], settings, write, memory=memory)
            check_file_rows(output.rows, results, where=str(final_path))
            if not output.is_created:
                raise OptionError(
                    f"nothing to export: the selected range of {count_text(len(tasks), 'segment')} has no records"
                )
            temporary.replace(final_path)
        finally:
            temporary.unlink(missing_ok=True)
    size_bytes = final_path.stat().st_size
    for result in results:
        result.output, result.output_bytes = final_path.name, size_bytes
    summary = sum_results(results, internal_topics, settings.to, time.monotonic() - start_time)
    return Outcome(summary, len(results), 0, size_bytes, tuple(results), notes=notes)


def _write_rows(output: OutputFile, task: ExportTask, headers: bool, batch: pa.RecordBatch) -> None:
    """Write rows of a segment to the file, with topic and partition columns."""
    rows = to_output_rows(batch, headers=headers)
    topic = pa.repeat(pa.scalar(task.topic, pa.string()), rows.num_rows)
    partition = pa.repeat(pa.scalar(task.partition, pa.int32()), rows.num_rows)
    names = ["topic", "partition", *rows.schema.names]
    output.write_rows(pa.RecordBatch.from_arrays([topic, partition, *rows.columns], names))
