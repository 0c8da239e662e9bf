"""Restore logs to a new directory, which gets its name only when it is complete.

Each partition is a task, which runs in this process, in a pool of processes or on Spark, with equal results. After all
partitions, the committed offsets are written, and the files that a broker needs to open the directory (``cluster.py``).
The report is stored in the directory as ``_SUCCESS``, which brokers ignore. If the same job runs again, the stored
report is returned.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.attempts import move_attempt
from kafkaframes.jobs.job import Runner, run_here, run_once, settings_as_json
from kafkaframes.jobs.restore.completion import DirectoryCompleter
from kafkaframes.jobs.restore.groups import (
    CommitKey,
    GroupsReport,
    OffsetCommit,
    SourceGroups,
    read_groups,
    translate_commits,
)
from kafkaframes.jobs.restore.partition import RestoredPartition, RestoreReport, RestoreTask, restore_partition
from kafkaframes.jobs.restore.plan import NewId, RestorePlan, plan_restore
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.jobs.restore.source import read_metadata
from kafkaframes.storage.files import atomic
from kafkaframes.storage.files.directory import LogDirectory
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.files.paths import to_path_list
from kafkaframes.storage.log.discover import discover
from kafkaframes.wire.primitives import uuid_to_text

AUTO, SEGMENTS, PARQUET = "auto", "segments", "parquet"
_PARQUET_SUFFIX = ".parquet"


def restore(
    sources: Any,
    to: str | os.PathLike[str],
    settings: RestoreSettings,
    *,
    kind: str = AUTO,
    run: Runner = run_here,
    dry_run: bool = False,
) -> RestoreReport:
    """Restore segments or Parquet files. ``kind`` is the kind of source; by default it is detected from the files.

    Raises:
        LogDirError, OptionError, EncodeError: as for ``restore_segments`` and ``parquet.restore_parquet``.
    """
    source_paths = to_path_list(sources)
    options: dict[str, Any] = {
        "now_ms": time.time_ns() // 1_000_000,
        "new_id": make_random_id,
        "run": run,
        "dry_run": dry_run,
    }
    if kind == PARQUET or (kind == AUTO and is_parquet_source(source_paths)):
        if len(source_paths) != 1:
            raise OptionError("several Parquet sources were given; specify one file or one directory of Parquet files")
        from kafkaframes.jobs.restore.parquet import restore_parquet

        return restore_parquet(source_paths[0], Path(to), settings, **options)
    return restore_segments(source_paths, Path(to), settings, storage=settings.storage, **options)


def make_random_id() -> str:
    """Return a new topic id or cluster id."""
    return uuid_to_text(uuid.uuid4())


def is_parquet_source(source_paths: Sequence[str]) -> bool:
    """Return whether the first source is a Parquet file, or a local directory that contains one.

    >>> is_parquet_source(["s3://backup/orders.parquet"])
    True
    """
    if not source_paths or source_paths[0].endswith(_PARQUET_SUFFIX):
        return bool(source_paths)
    return "://" not in source_paths[0] and next(Path(source_paths[0]).rglob(f"*{_PARQUET_SUFFIX}"), None) is not None


def restore_segments(
    sources: str | Sequence[str],
    destination: str | Path,
    settings: RestoreSettings,
    *,
    now_ms: int,
    new_id: NewId,
    run: Runner = run_here,
    dry_run: bool = False,
    storage: Mapping[str, Any] | None = None,
) -> RestoreReport:
    """Restore segments into ``destination``, a directory that does not exist yet.

    Args:
        sources: local paths or URLs of log directories, partitions or segments. The sources are not modified.
        destination: output directory.
        settings: settings that select the records to restore, and the form of the new log.
        now_ms: current time, in milliseconds.
        new_id: function that returns a new id (22 characters of URL-safe base64).
        run: function that runs the tasks and returns their results in order.
        dry_run: whether to report the planned restore without writing. A dry run reads committed offsets and directory
            listings, but no segments.
        storage: options of the sources' stores, and ``key_files`` of encrypted tiered segments.

    Raises:
        LogDirError: a source is damaged, contradicts another one or cannot be read, or the destination exists or
            cannot be written. Incomplete output is removed.
        OptionError: the settings select nothing to restore, or a setting does not apply to the sources.
    """
    target = Path(destination)
    source_paths = [sources] if isinstance(sources, str) else list(sources)
    directories = discover(source_paths, options=storage, omit_unreadable=True)
    report = RestoreReport(
        source_paths, str(target), settings_as_json(settings), _compute_fingerprint(directories), dry_run=dry_run
    )
    if dry_run:
        _RestoreRun(directories, settings, report, now_ms, new_id, storage).fill_preview()
        return report
    atomic.reject_nested_destination(target, [*source_paths, *(directory.path for directory in directories)])
    return run_once(
        report,
        lambda directory: _RestoreRun(directories, settings, report, now_ms, new_id, storage).write_output(
            directory, run
        ),
    )


def _compute_fingerprint(directories: Sequence[LogDirectory]) -> str:
    """Return a digest of the segments' names, sizes and modification times, to detect changed sources."""
    file_facts = [
        (file.path, file.log.size_bytes, file.log.mtime_ms)
        for directory in directories
        for partition in directory.partitions
        for file in partition.segments
    ]
    return hashlib.sha256(repr(file_facts).encode()).hexdigest()


class _RestoreRun:
    """One restore, from its plan to the output."""

    def __init__(
        self,
        directories: tuple[LogDirectory, ...],
        settings: RestoreSettings,
        report: RestoreReport,
        now_ms: int,
        new_id: NewId,
        storage: Mapping[str, Any] | None,
    ) -> None:
        self._settings, self._report, self._now_ms = settings, report, now_ms
        metadata = read_metadata(directories)
        self._plan: RestorePlan = plan_restore(directories, settings, new_id=new_id, storage=storage)
        self._groups = read_groups(self._plan.offsets_copies) if settings.groups else SourceGroups()
        report.topic_ids, report.left_out = (
            self._plan.topic_ids,
            [
                *metadata.problems,
                *self._plan.left_out,
            ],
        )
        report.decisions = [one.as_json() for one in self._plan.decisions]
        ids = {one.metadata.topic_id for _, one in self._plan.offsets_copies if one.metadata is not None}
        self._end = DirectoryCompleter(
            settings, report, metadata, now_ms=now_ms, new_id=new_id, offsets_topic_ids=tuple(sorted(ids))
        )

    def fill_preview(self) -> None:
        """Fill the report of a dry run."""
        self._report.partitions = [
            RestoredPartition(
                partition.target.topic,
                partition.target.partition,
                segments=len(partition.parts),
                bytes_read=partition.size_bytes,
                log_start_offset=partition.log_start_offset,
            )
            for partition in self._plan.partitions
        ]
        targets = {partition.source: partition.target for partition in self._plan.partitions}

        def stays(source: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None:
            return (targets[source], offset) if source in targets else None

        _, self._report.groups = self._translate_commits(stays)
        self._end.report_unlimited_topics()

    def write_output(self, directory: Path, run: Runner) -> None:
        """Write the output to an empty directory."""
        tasks = self._make_tasks(directory)
        for task, attempt in zip(tasks, run(restore_partition, tasks), strict=True):
            move_attempt(attempt.path, directory / str(task.target))
            self._report.partitions.append(attempt.result)
        commits = self._translate_all_commits()
        self._end.write_files(directory, commits, self._groups)

    def _make_tasks(self, directory: Path) -> list[RestoreTask]:
        """Return the tasks that restore the planned partitions."""
        committed_offsets = self._groups.group_offsets_by_partition()
        return [
            RestoreTask(
                target=planned_partition.target,
                directory=str(directory),
                topic_id=self._plan.topic_ids[planned_partition.target.topic],
                settings=self._settings,
                limits=self._settings.get_limits(planned_partition.source.topic, planned_partition.source.partition),
                parts=planned_partition.parts,
                log_start_offset=planned_partition.log_start_offset,
                committed_offsets=committed_offsets.get(planned_partition.source, ()),
                now_ms=self._now_ms,
            )
            for planned_partition in self._plan.partitions
        ]

    # ------------------------------------------------------------------------------------------------------ groups

    def _translate_all_commits(self) -> dict[CommitKey, OffsetCommit]:
        """Return the committed offsets after the restore."""
        moved_commits = {
            planned_partition.source: (planned_partition.target, dict(report.committed))
            for planned_partition, report in zip(self._plan.partitions, self._report.partitions, strict=True)
        }

        def follow(source: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None:
            if source not in moved_commits:
                return None
            target, offsets = moved_commits[source]
            return target, offsets[offset]

        commits, self._report.groups = self._translate_commits(follow)
        return commits

    def _translate_commits(self, translate: Any) -> tuple[dict[CommitKey, OffsetCommit], GroupsReport | None]:
        """Return the new committed offsets, and the report on their translation.

        ``translate`` maps a source offset to the new one.
        """
        if not self._settings.groups:
            return {}, None
        settings = self._settings
        return translate_commits(
            self._groups,
            translate,
            now_ms=self._now_ms,
            keep_times=settings.keep_commit_times,
            keep_epochs=not settings.moves_offsets and settings.leader_epoch is None,
        )
