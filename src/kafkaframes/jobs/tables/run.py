"""Run an export into a table: write data files, commit them, and sum up the results.

The caller chooses where tasks run.

A run works in *waves* of at most ``MAX_LOG_BYTES_PER_COMMIT`` of log, and each wave has its own commit. The commit of a
wave is permanent, and the next run continues after that wave. In each wave

1. processes or Spark write the new offsets to data files that no reader sees;
2. one commit makes the files visible and stores the new end offsets. The commit fails if the table's end offsets have
   changed.

If a segment cannot be read, the wave omits the later segments of its partition. The table therefore never has a gap
that the user did not accept.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from operator import attrgetter
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.planning import choose_part_bytes
from kafkaframes.jobs.export.positions import Fingerprints, IncrementPlan, Plan, TopicPartition
from kafkaframes.jobs.export.run import Outcome, sum_results
from kafkaframes.jobs.export.task import ExportTask, ExportTaskSettings, SegmentResult
from kafkaframes.jobs.job import Runner, run_here, split_by_cost
from kafkaframes.jobs.tables.committing import (
    DeadLetters,
    OrphanFiles,
    TableCommitter,
    hold_run_lock,
    list_files_of_run,
    remove_orphans,
)
from kafkaframes.jobs.tables.content import RAW_CONTENT, TableContent
from kafkaframes.jobs.tables.files import DataFile, DataFileJob, add_out_of_range_column, discard_files, write_data_file
from kafkaframes.jobs.tables.settings import MAX_LOG_BYTES_PER_COMMIT
from kafkaframes.jobs.tables.state import (
    Table,
    TableCommit,
    TableState,
    make_staging_path,
)
from kafkaframes.scan.fingerprints import MAX_FINGERPRINTS
from kafkaframes.scan.ranges import nest_by_topic

SHARED_FILE_LOG_BYTES = 64 << 20  # largest number of log bytes in a data file that small segments share


class TableRun:
    """One run of an export into a table.

    Args:
        settings: settings of the data files. ``to`` is the destination's name in messages.
        content_settings: stored settings that select the table's records (``state.make_stored_settings``).
        run: function that runs the tasks and returns their results in order.
        dead_letters: table for records that cannot be converted to rows; None makes them an error.
        commit_bytes: largest number of log bytes in a commit. A segment is not split, even if it is larger.
    """

    def __init__(
        self,
        table: Table,
        settings: ExportTaskSettings,
        content_settings: Mapping[str, Any],
        *,
        run: Runner = run_here,
        content: TableContent = RAW_CONTENT,
        dead_letters: Table | None = None,
        commit_bytes: int = MAX_LOG_BYTES_PER_COMMIT,
    ) -> None:
        self.orphans = OrphanFiles()
        self._table, self._settings, self._content_settings, self._run = table, settings, content_settings, run
        self._content = content
        self._commit_bytes = min(commit_bytes, content.max_commit_bytes or commit_bytes)
        self._columns = content.build_columns(headers=settings.headers)
        self._committer = TableCommitter(table, content_settings)
        self._dead = None if dead_letters is None else DeadLetters(dead_letters, headers=settings.headers)
        self._files: list[DataFile] = []
        self._broken_partitions: set[TopicPartition] = set()  # partitions with a segment that could not be read

    def add_new_offsets(self, plan: Plan, *, incremental: bool = False, overwrite: bool = False) -> Outcome:
        """Add the new offsets of the source to the table.

        Args:
            plan: function that plans the new offsets, given the table's state.
            incremental: whether the table may already exist.
            overwrite: whether the first commit removes the existing contents.

        Raises:
            OptionError: the table does not match the settings or cannot be written, or another exporter committed
                first.
            KafkaframesError: ``plan`` failed.
        """
        start = time.monotonic()
        state = self._open_table(incremental, overwrite)
        table_plan = plan(None if overwrite else state)
        is_unlimited = overwrite and state is not None
        tasks_by_commit = split_by_cost(table_plan.tasks, self._commit_bytes, attrgetter("bytes_to_read"))
        for commit_tasks in [table_plan.tasks] if is_unlimited else tasks_by_commit:
            state = self._write_and_commit(commit_tasks, table_plan, state, replaces=is_unlimited)
        if is_unlimited and not table_plan.tasks:
            raise OptionError(
                f"{self._table.shown}: the source has no records with which `overwrite` could replace the content"
            )
        return self._build_outcome(table_plan, time.monotonic() - start)

    def _open_table(self, incremental: bool, overwrite: bool) -> TableState | None:
        """Remove orphans, check settings and columns, and return the table's state; None if it does not exist."""
        table = self._table
        state = table.read_state()
        if state is not None and state.settings is None:
            raise OptionError(f"{table.shown}: is a table that was not created by an export; export to a new table")
        if (root := table.known_root) is not None:
            self.orphans = remove_orphans(root, table)
            state = table.read_state()
        if state is not None and state.ends:
            if not (incremental or overwrite):
                raise OptionError(
                    f"{table.shown}: already has an export; use `incremental` to add new records, or `overwrite` to "
                    "replace it"
                )
            if not overwrite:
                self._committer.check_settings(state)  # checked before the columns, which depend on the settings
        table.check_columns(self._columns)
        return state

    def _write_and_commit(
        self, tasks: Sequence[ExportTask], table_plan: IncrementPlan, state: TableState | None, *, replaces: bool
    ) -> TableState | None:
        """Export some tasks in one commit, and return the table's new state."""
        run = uuid.uuid4().hex[:16]
        dead_letter_claim = nullcontext() if self._dead is None else self._dead.claim_table(run)
        with hold_run_lock(self._table.root, run, since=None if state is None else state.version), dead_letter_claim:
            files = self._write_files(run, tasks)
            try:
                commit = self._build_commit(run, files, table_plan, state, replaces=replaces)
                if commit is not None:
                    # Committed first, so that bad records are stored even if the table's commit fails.
                    if self._dead is not None:
                        self._dead.commit_dead_letters(commit, files)
                    self._committer.commit_with_retries(commit, state)
            except OptionError:  # UnknownOutcomeError is not caught, because the table may then refer to the files
                self._discard_files(run, files)
                raise
            self._discard_files(run, files, keep=() if commit is None or commit.latest else commit.files)
        self._files += files
        return self._table.read_state()

    def _write_files(self, run: str, tasks: Sequence[ExportTask]) -> list[DataFile]:
        """Write the data files of a wave."""
        files: list[DataFile] = []
        jobs = [
            self._make_job(run, group)
            for group in group_small_segments(
                task for task in tasks if (task.topic, task.partition) not in self._broken_partitions
            )
        ]
        try:
            for file in self._run(write_data_file, jobs):
                files.append(file)
        except BaseException:
            self._discard_files(run, files)
            raise
        remaining_tasks = [task for task in tasks if (task.topic, task.partition) in self._broken_partitions]
        return files + [
            DataFile(DataFileJob("", run, (task,), self._settings), [_make_waiting_result(task)])
            for task in remaining_tasks
        ]

    def _make_job(self, run: str, group: tuple[ExportTask, ...]) -> DataFileJob:
        """Return the job that writes a group of segments to one data file."""
        table, name = self._table, (group[0].topic, group[0].partition)
        job = DataFileJob(table.get_data_directory(name), run, group, self._settings, table.names_inside, self._content)
        if self._content.latest:
            job = replace(job, directory=make_staging_path(table.root, name), names_inside=True)
        return job if self._dead is None else replace(job, dead=self._dead.make_directory_for_partition(name))

    def _build_commit(
        self,
        run: str,
        files: Sequence[DataFile],
        table_plan: IncrementPlan,
        state: TableState | None,
        *,
        replaces: bool,
    ) -> TableCommit | None:
        """Return the commit of a wave; None if there are no new offsets."""
        ends, kept_files = find_reached_ends(files, self._broken_partitions)
        if replaces and self._broken_partitions:
            reason = next(result.failed for file in files for result in file.results if result.failed)
            raise OptionError(f"{self._table.shown}: the content was not replaced: {reason}")
        ends_before = {name: None if state is None else state.find_end(name) for name in ends}
        ends_after = {
            name: end for name, end in ends.items() if replaces or (old := ends_before[name]) is None or end > old
        }
        if not ends_after and not replaces:
            return None
        return TableCommit(
            run=run,
            before={name: ends_before[name] for name in ends_after},
            after=ends_after,
            topic_ids={topic: table_plan.topic_ids[topic] for topic, _ in ends_after if topic in table_plan.topic_ids},
            settings=self._content_settings,
            files=tuple(file for file in kept_files if file.records),
            columns=add_out_of_range_column(self._columns, kept_files),
            gaps=tuple(gap for gap in table_plan.gaps if (gap.topic, gap.partition) in ends_after),
            replaces=replaces,
            latest=self._content.latest,
            fingerprints=collect_last_fingerprints(kept_files, ends_after, None if replaces else state),
        )

    def _discard_files(self, run: str, files: Iterable[DataFile], *, keep: Iterable[DataFile] = ()) -> None:
        """Remove data files that will not be part of a commit."""
        paths = {file.path for file in files if file.path} | list_files_of_run(self._table.root, run)
        discard_files(paths, keep={file.path for file in keep})
        if self._dead is not None:
            self._dead.discard(run, files)

    def _build_outcome(self, table_plan: IncrementPlan, seconds: float) -> Outcome:
        """Return the outcome of the run."""
        results = tuple(result for file in self._files for result in file.results)
        state = self._table.read_state()
        summary = sum_results(results, table_plan.internal_topics, self._settings.to, seconds)
        table_properties = {
            **self._table.describe(),
            "commits": self._committer.commits,
            "offsets": nest_by_topic(state.ends) if state is not None else {},
            "gaps": [asdict(gap) for gap in table_plan.gaps],
            "removed_orphans": list(self.orphans.removed),
            "doubtful_files": list(self.orphans.doubtful),
        } | ({} if self._dead is None else {"dead_letters": self._dead.describe()})
        written_bytes = sum(file.size_bytes for file in self._files)
        return Outcome(summary, len(results), 0, written_bytes, results, table=table_properties, notes=table_plan.notes)


def find_reached_ends(
    files: Iterable[DataFile], broken_partitions: set[TopicPartition]
) -> tuple[dict[TopicPartition, int], list[DataFile]]:
    """Return the offset up to which each topic partition was written without a gap, and the files up to these offsets.

    Args:
        files: data files in offset order.
        broken_partitions: topic partitions with a segment that could not be read. New ones are added.
    """
    ends: dict[TopicPartition, int] = {}
    kept_files: list[DataFile] = []
    for file in files:
        name = file.job.topic_partition
        if name in broken_partitions:
            file.results = [_make_waiting_result(result.task) for result in file.results]
            file.records = file.size_bytes = 0
            continue
        kept_files.append(file)
        if file.end_offset is not None:
            ends[name] = max(file.end_offset, ends.get(name, 0))
        if file.failed:
            broken_partitions.add(name)
    return ends, kept_files


def collect_last_fingerprints(
    files: Iterable[DataFile], names: Iterable[TopicPartition], state: TableState | None
) -> Fingerprints:
    """Return the fingerprints of the last records of topic partitions, from a table's state and then from new files."""
    result = {name: () if state is None else state.fingerprints.get(name, ()) for name in names}
    for file in files:
        name = file.job.topic_partition
        for segment in file.results:
            if name in result:
                result[name] = (*result[name], *segment.tally.last_records)[-MAX_FINGERPRINTS:]
    return result


def _make_waiting_result(task: ExportTask) -> SegmentResult:
    """Return the result of a segment that is not exported yet because an earlier segment is unreadable."""
    return SegmentResult(task, failed=f"{task.path}: not added yet, because an earlier segment could not be read")


def group_small_segments(tasks: Iterable[ExportTask]) -> Iterator[tuple[ExportTask, ...]]:
    """Group small segments of a topic partition, up to ``SHARED_FILE_LOG_BYTES`` per file."""
    task_list = list(tasks)
    file_bytes = choose_part_bytes(sum(task.bytes_to_read for task in task_list), SHARED_FILE_LOG_BYTES)
    return map(
        tuple, split_by_cost(task_list, file_bytes, attrgetter("bytes_to_read"), is_separate=_have_different_partitions)
    )


def _have_different_partitions(task: ExportTask, other: ExportTask) -> bool:
    """Return whether two tasks have different topic partitions."""
    return (task.topic, task.partition) != (other.topic, other.partition)
