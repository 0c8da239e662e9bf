"""Exports of logs or live topics to files, planned and ready to run. The Python functions, scans and the export command
share this code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.export.live_planning import make_topic_planner
from kafkaframes.jobs.export.planning import plan_export
from kafkaframes.jobs.export.positions import FILES_DESTINATION
from kafkaframes.jobs.export.run import Outcome, export_segments, export_to_single_file
from kafkaframes.jobs.export.task import ExportTask, ExportTaskSettings
from kafkaframes.jobs.export.topic_export import TopicExport
from kafkaframes.jobs.job import JobResult, Runner, run_here
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.ranges import check_batch_start
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.storage.files.atomic import reject_nested_destination
from kafkaframes.storage.log.notes import NO_NOTES, LogNotes


@dataclass(frozen=True, slots=True)
class FileExport:
    """A planned export to files.

    Attributes:
        tasks: tasks in order of partition and offset.
        settings: settings that select the records of each task, and the format of its files.
        overwrite: whether to replace the output of an earlier export.
        single_file: whether to write one Parquet file.
        internal_topics: internal topics that exist and are not selected.
        notes: findings of the planning for the user, such as records that open transactions hide.
    """

    tasks: Sequence[ExportTask]
    settings: ExportTaskSettings
    overwrite: bool = False
    single_file: bool = False
    internal_topics: tuple[str, ...] = ()
    notes: LogNotes = NO_NOTES

    @property
    def part(self) -> str:
        """The word for the part of the source that a task exports."""
        return "segment"

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read if no earlier run has exported anything."""
        return sum(task.bytes_to_read for task in self.tasks)

    def write_files(self, run: Runner = run_here) -> Outcome:
        """Write the files that no earlier run has written.

        Args:
            run: function that runs the tasks, in this process or in workers. One process writes a single file.

        Raises:
            OptionError: the destination cannot be written, or has other contents or an export with other settings.
            LogDirError, CorruptRecordError: a segment cannot be read, and the output is a single file.
        """
        export_tasks = export_to_single_file if self.single_file else partial(export_segments, run=run)
        return export_tasks(
            self.tasks,
            self.settings,
            overwrite=self.overwrite,
            internal_topics=self.internal_topics,
            notes=self.notes,
        )


def plan_log_export(
    read: ReadOptions, settings: ExportTaskSettings, *, overwrite: bool = False, single_file: bool = False
) -> FileExport:
    """Plan an export of logs to files. Nothing is written.

    Args:
        read: paths, topics and offsets to read.
        settings: settings that select the records of each task, and the format of its files. The isolation level and
            the store's options are those of ``read``.
        overwrite, single_file: as in ``FileExport``.

    Raises:
        LogDirError: a path does not exist or cannot be read.
        OptionError: the destination is not a local path or is inside a source; or a selected topic, partition or offset
            does not exist.
    """
    target = parse_local_destination(settings.to)
    reject_nested_destination(Path(target), read.paths)
    plan = plan_export(read, omit_unreadable=not single_file)
    if single_file and plan.notes.unreadable:
        missing_segment = plan.notes.unreadable[0]
        raise LogDirError(
            f"{missing_segment.message}: nothing was written; an export to a directory has the other segments",
            file=missing_segment.file,
        )
    return FileExport(
        plan.tasks,
        replace(settings, to=target, isolation=plan.isolation, storage=read.storage),
        overwrite=overwrite,
        single_file=single_file,
        internal_topics=plan.internal_topics,
        notes=plan.notes,
    )


def plan_topic_export(
    options: TopicOptions, settings: ExportTaskSettings, *, overwrite: bool = False, single_file: bool = False
) -> TopicExport:
    """Plan an export of live topics to files. Nothing is read or written, and no broker is contacted.

    Args:
        options: which topics, partitions and offsets are read.
        settings: settings that select the records of each task, and the format of its files. The isolation level is
            that of ``options``.
        overwrite, single_file: as in ``TopicExport``.

    Raises:
        OptionError: the destination is not a local path, or the export would start at the latest offset.
    """
    if isinstance(options.start, int | Mapping):
        check_batch_start(options.start)
    settings = replace(settings, to=parse_local_destination(settings.to), isolation=options.isolation)
    return TopicExport(make_topic_planner(options, FILES_DESTINATION), settings, overwrite, single_file)


def parse_local_destination(to: str) -> str:
    """Return the path of a destination.

    Raises:
        OptionError: the destination is empty, or is a URL.
    """
    target = to.removeprefix("file://")
    if not target:
        raise OptionError("`to` is empty; expected a directory")
    if "://" in target:
        raise OptionError(
            f"`to` {to}: must be a directory, because files are renamed in it; to "
            "write to a store, mount it as a directory"
        )
    return target


def summarize_outcome(outcome: Outcome, *, part: str = "segment") -> JobResult[Outcome]:
    """Return the result of an export for users: faults, notes, and the number of records.

    Args:
        part: word for the part of the source that a task exports.
    """
    problems = outcome.problem_lines(failure="not exported")
    summary_line = (
        f"{count_text(outcome.records_read, 'record')} read, {outcome.summary.records:,} written to "
        f"{outcome.summary.output}, in {count_text(len(outcome.results), part)}"
    )
    return JobResult(outcome, outcome.as_json(), (*problems, *outcome.notes, summary_line))
