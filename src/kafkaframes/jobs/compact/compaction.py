"""Compact the topics of a log directory into a new directory.

Partitions are compacted by Kafka's own rules (``cleaner``). Partitions of other topics, and partitions without dirty
records, are copied unchanged. The new ``cleaner-offset-checkpoint`` stores the offset up to which each partition is
clean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.attempts import AttemptResult, begin_attempt, move_attempt
from kafkaframes.jobs.compact.staged_compaction import PartitionCompaction, SplitSettings, clean_partitions
from kafkaframes.jobs.convert.job import Source, SourceLog, open_source_log
from kafkaframes.jobs.job import (
    JobOutputReport,
    JsonDataclass,
    Runner,
    format_counts,
    run_here,
    run_once,
    settings_as_json,
)
from kafkaframes.jobs.row_counts import check_row_counts
from kafkaframes.scan.ranges import check_partitions
from kafkaframes.scan.selection import Selection
from kafkaframes.storage.cleaner.filter import CleaningStatistics
from kafkaframes.storage.cleaner.latest import MapFullError
from kafkaframes.storage.cleaner.plan import CleanerSettings, CleaningPlan
from kafkaframes.storage.cleaner.round import clean_partition, copy_unchanged_files, preview_partition
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.checkpoints import write_offset_checkpoint
from kafkaframes.storage.files.directory import Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.paths import to_path_list

COMPACTED_INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """One partition to compact.

    Tasks are picklable. Without a ``target``, the task only counts the records that would be removed.

    Attributes:
        map_bytes: memory limit for the keys, in bytes; ``None`` means unlimited.
        directory: directory of the job for the output of task attempts; empty without a ``target``.
    """

    filesystem: FileSystem
    partition: Partition
    settings: CleanerSettings
    target: str | None
    map_bytes: int | None = None
    directory: str = ""


@dataclass(slots=True)
class CompactedPartition(JsonDataclass):
    """The report of one partition's compaction.

    Attributes:
        first_dirty_offset: offset up to which the partition was clean before.
        end_offset: offset up to which the partition is clean afterwards.
        reason: reason why the compaction ends at ``end_offset``.
        dropped: number of removed records, by reason.
        cleaned: whether the partition was compacted; False if it had no dirty records.
        notes: swap files that are read as segments, and transaction indexes that differ from the markers.
    """

    name: str
    first_dirty_offset: int
    end_offset: int
    reason: str
    cleaned: bool = False
    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class CompactionReport(JobOutputReport):
    """The report of a compaction."""

    partitions: list[CompactedPartition] = field(default_factory=list)

    @property
    def counted(self) -> str:
        """The numbers of records read and kept, and of removed records by reason, as text."""
        return format_counts(self.partitions, "records_read", "records_kept", "dropped")


def compact_partition(task: CompactionTask) -> AttemptResult[CompactedPartition] | None:
    """Compact one partition, or copy it if it has no dirty records.

    Return ``None`` if the partition's keys exceed the memory limit.

    The result is an attempt in ``task.directory``.

    Raises:
        LogDirError: the partition is damaged, or cannot be read or written.
    """
    try:
        return _compact_one(task)
    except MapFullError:
        return None


def _compact_one(task: CompactionTask) -> AttemptResult[CompactedPartition]:
    """Compact one partition in an attempt's directory, or only count the records that would be removed."""
    map_bytes = task.map_bytes
    if task.target is None:
        preview = preview_partition(task.filesystem, task.partition, task.settings, map_bytes=map_bytes)
        return AttemptResult("", _describe_partition(task, *preview))
    with begin_attempt(task.directory, Path(task.target).name) as directory:
        with atomic.name_path_in_errors(directory):
            directory.rmdir()  # the cleaner creates this directory itself, after its output is complete
            results = clean_partition(task.filesystem, task.partition, task.settings, directory, map_bytes=map_bytes)
        if results is not None:
            partition_report = _describe_partition(task, results.plan, results.tally)
            return AttemptResult(str(directory), replace(partition_report, end_offset=results.end_offset))
        plan, tally = preview_partition(task.filesystem, task.partition, task.settings)
        with atomic.name_path_in_errors(directory):
            directory.mkdir()
            copy_unchanged_files(task.filesystem, plan, directory)
        return AttemptResult(str(directory), _describe_partition(task, plan, tally))


def _describe_partition(
    task: CompactionTask, plan: CleaningPlan, tally: CleaningStatistics | None
) -> CompactedPartition:
    """Return the report of one partition. ``tally`` is None if the partition has no dirty records."""
    partition = CompactedPartition(
        str(task.partition.topic_partition),
        plan.first_dirty_offset,
        plan.first_uncleanable_offset,
        plan.reason,
        notes=[str(finding) for finding in plan.findings],
    )
    if tally is None:
        return replace(partition, end_offset=plan.first_dirty_offset)
    check_row_counts(tally.records_read, tally.records_kept, tally.dropped_records, where=task.partition.directory)
    counts = {name: getattr(tally, name) for name in ("records_read", "records_kept", "bytes_read", "bytes_written")}
    return replace(partition, cleaned=True, dropped=dict(tally.dropped_records), **counts)


def compact(
    source: Source,
    destination: str | Path | None,
    settings: CleanerSettings,
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    run: Runner = run_here,
    work_split: SplitSettings | None = None,
    scratch: Path | None = None,
    storage: Mapping[str, Any] | None = None,
) -> CompactionReport:
    """Compact a log directory (or one partition) into ``destination``; ``None`` only reports what would be removed.

    Args:
        source: paths or URLs of the log.
        destination: output directory, which must not exist.
        settings: topic settings and Kafka release whose rules apply to the cleaning.
        topics: topic names or patterns; other partitions are copied. Default: the topics that a broker's cleaner has
            compacted before (``cleaner-offset-checkpoint``), and Kafka's compacted internal topics. No other topic is
            compacted by default, because compaction removes records without a key.
        partitions: partition numbers in each topic; others are copied. Default: all.
        run: function that runs the tasks.
        work_split: settings for splitting partitions that are large or have many keys into many tasks, which limits
            memory use even if ``run`` runs the tasks one by one. Without ``work_split``, a partition is one task with
            all its keys in memory. The output files are the same in both cases.
        scratch: directory for intermediate files of split partitions if there is no destination. Without both, no
            partition is split.
        storage: options of the source's store, and ``key_files`` of encrypted tiered segments.

    Raises:
        LogDirError: a source is damaged or cannot be read, or the destination exists or cannot be written. Incomplete
            output is removed.
        OptionError: the settings select no topic, or ``destination`` is inside ``source``.
    """
    log = open_source_log(source, storage=storage)
    selection = Selection(topics=topics, partitions=partitions)
    selected_partitions = _select_partitions(log, selection)
    settings_json = settings_as_json(settings) | {"topics": sorted(selection.topic_names)}
    if selection.partition_numbers:
        settings_json["partitions"] = sorted(selection.partition_numbers)
    del settings_json["now_ms"]  # the time differs between two runs of the same job
    paths = to_path_list(source)
    report = CompactionReport(", ".join(paths), str(destination or ""), settings_json, log.fingerprint)
    if destination is None:
        tasks = _make_tasks(log, selected_partitions, settings, None)
        report.partitions = _compact_all(tasks, run=run, work_split=work_split if scratch else None, scratch=scratch)
        return report
    target = Path(destination)
    atomic.reject_nested_destination(target, paths)
    compact_all = partial(_compact_all, run=run, work_split=work_split)
    return run_once(
        report, lambda directory: _compact_into(log, selected_partitions, directory, settings, report, compact_all)
    )


def _select_partitions(log: SourceLog, selection: Selection) -> list[Partition]:
    """Return the partitions to compact.

    A pattern that matches no topic raises an error, and so does an empty result.
    """
    topics, numbers = selection.topic_names, selection.partition_numbers
    if log.kind == "segment":
        raise OptionError("a single segment cannot be compacted; specify its partition's directory")
    partitions = log.rewritten_partitions
    known_topics = {partition.topic for partition in partitions}
    # without this check, a misspelled pattern would silently leave its topic uncompacted
    unmatched_patterns = [pattern for pattern in topics if not any(fnmatchcase(name, pattern) for name in known_topics)]
    if unmatched_patterns:
        raise OptionError(
            f"unknown topic {', '.join(unmatched_patterns)}; the log directory has "
            f"{', '.join(sorted(known_topics)[:20])}"
        )
    if topics:
        selected_partitions = [
            partition for partition in partitions if any(fnmatchcase(partition.topic, pattern) for pattern in topics)
        ]
    else:
        selected_partitions = [
            partition
            for partition in partitions
            if log.kind == "partition"
            or names.CLEANER_CHECKPOINT in partition.checkpointed_offsets
            or partition.topic in COMPACTED_INTERNAL_TOPICS
        ]
    if numbers is not None:
        check_partitions(numbers, {partition.partition for partition in selected_partitions})
        selected_partitions = [partition for partition in selected_partitions if partition.partition in numbers]
    if not selected_partitions:
        raise OptionError(
            "no topic is known to be compacted; specify the topics with cleanup.policy=compact (`topics`)"
        )
    return selected_partitions


def _make_tasks(
    log: SourceLog, selected_partitions: Sequence[Partition], settings: CleanerSettings, directory: Path | None
) -> list[CompactionTask]:
    """Return a task for each selected partition."""
    return [
        CompactionTask(
            log.filesystem,
            partition,
            settings,
            str(log.get_output_directory(directory, partition)) if directory else None,
            directory=str(directory or ""),
        )
        for partition in selected_partitions
    ]


def _compact_into(
    log: SourceLog,
    selected_partitions: Sequence[Partition],
    directory: Path,
    settings: CleanerSettings,
    report: CompactionReport,
    compact_all: Callable[[Sequence[CompactionTask]], list[CompactedPartition]],
) -> None:
    """Compact the selected partitions into a new directory, and copy everything else."""
    if log.kind != "partition":  # a single partition has no other partitions to copy
        for unselected in (partition for partition in log.rewritten_partitions if partition not in selected_partitions):
            atomic.copy_tree(log.filesystem, unselected.directory, log.get_output_directory(directory, unselected))
        log.copy_other_entries(directory)
    report.partitions = compact_all(_make_tasks(log, selected_partitions, settings, directory))
    if log.kind == "directory":
        offsets = dict(log.directory.offset_checkpoints.get(names.CLEANER_CHECKPOINT, {}))
        ends = {
            partition.topic_partition: partition_report.end_offset
            for partition, partition_report in zip(selected_partitions, report.partitions, strict=True)
        }
        with atomic.new_file(directory / names.CLEANER_CHECKPOINT) as checkpoint_file:
            checkpoint_file.write(write_offset_checkpoint(offsets | ends))


def _compact_all(
    tasks: Sequence[CompactionTask], *, run: Runner, work_split: SplitSettings | None, scratch: Path | None = None
) -> list[CompactedPartition]:
    """Compact large partitions with many tasks each, then the remaining ones with one task each.

    Afterwards, other partitions with keys that exceed the memory limit are split. A partition that cannot be split is
    compacted without a memory limit.
    """
    remaining_tasks, results = dict(enumerate(tasks)), dict[int, CompactedPartition]()
    if work_split is not None:
        large_tasks = {
            index: task for index, task in remaining_tasks.items() if task.partition.size_bytes > work_split.above_bytes
        }
        results |= _compact_in_parts(large_tasks, run, work_split, scratch)
        limited_tasks = {
            index: replace(task, map_bytes=work_split.map_bytes)
            for index, task in remaining_tasks.items()
            if index not in large_tasks
        }
        results |= _compact_one_by_one(limited_tasks, run)
        results |= _compact_in_parts(
            {index: remaining_tasks[index] for index in limited_tasks.keys() - results.keys()}, run, work_split, scratch
        )
    results |= _compact_one_by_one(
        {index: task for index, task in remaining_tasks.items() if index not in results}, run
    )
    return [results[index] for index in remaining_tasks]


def _compact_one_by_one(tasks: dict[int, CompactionTask], run: Runner) -> dict[int, CompactedPartition]:
    """Compact partitions with one task each. Partitions with keys that exceed the memory limit are omitted."""
    results: dict[int, CompactedPartition] = {}
    for task in tasks.values():
        if (
            task.directory and not Path(task.directory).exists()
        ):  # the directory was removed because the partition could not be split
            with atomic.name_path_in_errors(Path(task.directory)):
                Path(task.directory).mkdir()
    attempts = zip(tasks.items(), run(compact_partition, list(tasks.values())), strict=True) if tasks else ()
    for (index, task), attempt in attempts:
        if attempt is None:
            continue
        if task.target is not None:
            move_attempt(attempt.path, Path(task.target))
        results[index] = attempt.result
    return results


def _compact_in_parts(
    tasks: dict[int, CompactionTask], run: Runner, work_split: SplitSettings, scratch: Path | None
) -> dict[int, CompactedPartition]:
    """Compact partitions with many tasks each. The result omits partitions that cannot be split."""
    if not tasks:
        return {}
    first_task = next(iter(tasks.values()))
    jobs = [
        PartitionCompaction(
            task.filesystem, task.partition, Path(task.target or f"{scratch}/{index}"), writes=task.target is not None
        )
        for index, task in tasks.items()
    ]
    results = {}
    for (index, task), round_result in zip(
        tasks.items(), clean_partitions(jobs, first_task.settings, work_split, run), strict=True
    ):
        if round_result is not None:
            report = _describe_partition(task, round_result.plan, round_result.tally)
            results[index] = report if task.target is None else replace(report, end_offset=round_result.end_offset)
    return results
