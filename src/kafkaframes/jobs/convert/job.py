"""Convert or recompress a segment, a partition or a log directory, into a new directory or in place.

Each segment is a task (``segment.py``). ``run`` runs the tasks in this process, in a pool of processes or on Spark,
with equal results. Everything else is copied unchanged: checkpoints, epochs, ``partition.metadata``, snapshots,
``meta.properties``, renamed partitions, ``__cluster_metadata``.

In place, the new directory is created next to the old one, and then both are renamed. The old directory is kept as a
backup. The broker's lock is held in the meantime, so that no broker can start. If the job is killed, the old directory
is still complete: under its own name, or under the backup's name. The next run completes the exchange.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from kafkaframes.errors import NO_SUCH_PATH_TEXT, LogDirError, OptionError
from kafkaframes.jobs.convert.segment import ConvertedPartition, SegmentTask, rewrite_segment
from kafkaframes.jobs.job import JobOutputReport, Runner, format_counts, run_here, run_once, settings_as_json
from kafkaframes.jobs.settings import RewriteSettings
from kafkaframes.scan.log.log_range import resolve_ranges
from kafkaframes.scan.log.narrowing import OffsetRange, select_segments_in_range
from kafkaframes.scan.ranges import NO_END
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.checkpoints import (
    read_offset_checkpoint,
    truncate_epochs,
    write_leader_epochs,
    write_offset_checkpoint,
)
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import FileInfo, FileSystem, plain_path, split_path
from kafkaframes.storage.files.local_disk import flush_path, take_lock
from kafkaframes.storage.files.paths import to_path_list
from kafkaframes.storage.files.producer_files import AbortedTransaction, write_txn_index
from kafkaframes.storage.log.discover import discover, select_partitions
from kafkaframes.storage.log.lookup import log_end_offset
from kafkaframes.storage.log.overflow import split_partition
from kafkaframes.storage.log.swaps import swap_findings
from kafkaframes.storage.log.transactions import find_hidden_records, read_transactions, rebuild_txn_indexes

Source = str | Sequence[str]
# Files of a segment that are rewritten or rebuilt, and therefore not copied.
_REWRITTEN_FILE_SUFFIXES = ("log", "index", "timeindex", "txnindex")
_SKIPPED_FILES = frozenset((names.BROKER_LOCK_FILE, atomic.SUCCESS_FILE))


@dataclass(slots=True)
class JobReport(JobOutputReport):
    """The report of a conversion."""

    partitions: list[ConvertedPartition] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def counted(self) -> str:
        """The counts of read and written records, as text."""
        return format_counts(self.partitions, "records", "records_written", "left_out")

    @property
    def lost(self) -> Counter[str]:
        """The counts of lost data in all partitions, by kind."""
        return sum((partition.lost for partition in self.partitions), Counter[str]())


def convert(
    source: Source,
    destination: str | Path,
    settings: RewriteSettings,
    *,
    run: Runner = run_here,
    storage: Mapping[str, Any] | None = None,
) -> JobReport:
    """Write the log at ``source`` to ``destination`` in the format and codec of ``settings``.

    Args:
        source: local path or URL of a segment, a partition directory or a log directory, or several of these, which are
            read as one log. The source is not modified.
        destination: a local path that does not exist. The directory is created only when its contents are complete.
        settings: settings of the conversion.
        run: function that runs the tasks.
        storage: options of the source's store, and ``key_files`` of encrypted tiered segments.

    Returns:
        The report. If an earlier run with the same source and settings has finished, the result is its report.

    Raises:
        LogDirError: a source is damaged or cannot be read, or the destination exists or cannot be written. Incomplete
            output is removed.
        EncodeError: a batch cannot be represented in the format, and ``on_loss`` is "error".
        OptionError: ``destination`` is inside ``source``, or a selected topic, partition or offset does not exist.
    """
    target, paths = Path(destination), to_path_list(source)
    atomic.reject_nested_destination(target, paths)
    log = open_source_log(source, storage=storage)
    report = JobReport(", ".join(paths), str(target), settings_as_json(settings), log.fingerprint)
    selected_log = select_log_partitions(log, settings)
    ranges = resolve_ranges(settings.selection, [selected_log], paths)
    return run_once(report, lambda directory: write_converted_log(log, directory, settings, report, run, ranges))


def select_log_partitions(log: SourceLog, settings: RewriteSettings) -> LogDirectory:
    """Return the log directory with only the selected partitions.

    Raises:
        OptionError: a topic or partition does not exist.
    """
    directory = replace(log.directory, partitions=tuple(log.rewritten_partitions))
    return select_partitions([directory], settings.topic_names, settings.partition_numbers)[0]


def write_converted_log(
    log: SourceLog,
    directory: Path,
    settings: RewriteSettings,
    report: JobReport,
    run: Runner,
    ranges: Mapping[str, OffsetRange],
) -> None:
    """Write the partitions that have a range to an empty directory.

    If no partitions are selected, copy everything else too.
    """
    tasks: list[tuple[ConvertedPartition, SegmentTask]] = []
    keeps_transactions = settings.record_format in (None, 2)
    selected_partitions = [
        live_partition for live_partition in log.rewritten_partitions if live_partition.directory in ranges
    ]
    for result in selected_partitions:
        offsets = ranges[result.directory]
        filesystem, partition = split_partition(log.filesystem, result)
        target = log.get_output_directory(directory, partition)
        with atomic.name_path_in_errors(target):
            target.mkdir(exist_ok=True)
        transactions = read_transactions(filesystem, partition)
        findings = (*swap_findings(partition), *(transactions.findings if keeps_transactions else ()))
        entry = ConvertedPartition(str(partition.topic_partition), notes=[str(finding) for finding in findings])
        report.partitions.append(entry)
        txn_indexes = rebuild_txn_indexes(partition, transactions.aborted_transactions, findings)
        if offsets.is_limited:
            txn_indexes = _limit_txn_indexes(partition, transactions.aborted_transactions, offsets)
        aborted_transactions = () if keeps_transactions else transactions.aborted_transactions
        segments = select_segments_in_range(partition.segments, offsets) or partition.segments[-1:]
        for segment in segments:
            txn_index = txn_indexes.get(segment.base_offset)
            task = SegmentTask(filesystem, segment, settings, str(target), aborted_transactions, txn_index, offsets)
            tasks.append((entry, task))
        if log.kind != "segment":
            keeps_offsets = keeps_transactions and not offsets.is_limited
            _copy_small_files(log.filesystem, partition, target, report, keep_snapshots=keeps_offsets)
    if settings.is_limited:
        log.copy_identity(directory, {live_partition.directory for live_partition in selected_partitions}, report)
    else:
        log.copy_other_entries(directory, report)
    for (entry, _), segment_result in zip(tasks, run(rewrite_segment, [task for _, task in tasks]), strict=True):
        entry.add(segment_result)
    for entry, result in zip(report.partitions, selected_partitions, strict=True):
        if ranges[result.directory].is_limited:
            _limit_range(log, result, directory, entry, ranges[result.directory])


def _limit_txn_indexes(
    partition: Partition, transactions: Sequence[AbortedTransaction], offsets: OffsetRange
) -> dict[int, bytes]:
    """Return the transaction index of each segment, with the aborted transactions that have a marker in the range."""
    bases = [*(segment.base_offset for segment in partition.segments), NO_END]
    return {
        base: write_txn_index(
            [
                transaction
                for transaction in transactions
                if max(base, offsets.first_offset) <= transaction.last_offset < min(next_base, offsets.end_offset)
            ]
        )
        for base, next_base in pairwise(bases)
    }


def _limit_range(
    log: SourceLog, source: Partition, directory: Path, entry: ConvertedPartition, offsets: OffsetRange
) -> None:
    """Limit the checkpoints of a partition to its range, and report transactions that the range leaves open."""
    target = log.get_output_directory(directory, source)
    (target_directory,) = discover([str(target)])
    (partition,) = target_directory.partitions
    start, end = partition.log_start_offset, log_end_offset(target_directory.filesystem, partition)
    if source.leader_epochs is not None and (target / names.LEADER_EPOCH_CHECKPOINT).exists():
        epochs = truncate_epochs(source.leader_epochs, start_offset=start, end_offset=end)
        _replace_file(target / names.LEADER_EPOCH_CHECKPOINT, write_leader_epochs(epochs))
    if log.kind == "directory":
        for name, values in log.directory.offset_checkpoints.items():
            if source.topic_partition in values:
                path = directory / name
                limited_offsets = read_offset_checkpoint(path.read_bytes()) if path.exists() else {}
                limited_offsets[source.topic_partition] = min(max(values[source.topic_partition], start), end)
                _replace_file(path, write_offset_checkpoint(limited_offsets))
    state = read_transactions(target_directory.filesystem, partition)
    if state.open.items() - read_transactions(log.filesystem, source).open.items():
        hidden_records = find_hidden_records(target_directory.filesystem, partition, state)
        entry.notes.append(f"the range ends inside a transaction: {hidden_records}")


def _replace_file(path: Path, content: bytes) -> None:
    """Replace a file with new content."""
    with atomic.name_path_in_errors(path):
        path.unlink(missing_ok=True)
    with atomic.new_file(path) as file:
        file.write(content)


def _copy_small_files(
    filesystem: FileSystem, partition: Partition, target: Path, report: JobReport, *, keep_snapshots: bool
) -> None:
    """Copy all files except segments. Files that a broker would delete on startup are omitted."""
    snapshots = {small_file.path for small_file in partition.producer_snapshots if keep_snapshots}
    for file_info in filesystem.list_directory(partition.directory):
        file_name = names.FileName.parse(file_info.name)
        is_obsolete = file_name is not None and (
            file_name.temporary or (file_name.kind == "snapshot" and file_info.path not in snapshots)
        )
        if file_info.name in _SKIPPED_FILES or is_obsolete:
            report.left_out.append(file_info.path)
        elif file_name is None or file_name.kind not in _REWRITTEN_FILE_SUFFIXES:
            copy_entry(filesystem, file_info, target / file_info.name)


def copy_entry(filesystem: FileSystem, info: FileInfo, target: Path) -> None:
    """Copy a file or a directory unchanged."""
    if info.is_directory:
        atomic.copy_tree(filesystem, info.path, target)
    else:
        atomic.copy_file(filesystem, info.path, target, mtime_ms=info.mtime_ms)


# ------------------------------------------------------------------------------------------------------- the source


@dataclass(frozen=True, slots=True)
class SourceLog:
    """The log to convert.

    Attributes:
        path: the source, as the user specified it.
        kind: ``segment``, ``partition`` or ``directory``.
        directory: log directory with the partitions.
    """

    path: str
    kind: str
    directory: LogDirectory

    @property
    def filesystem(self) -> FileSystem:
        """The file system of the log's paths."""
        return self.directory.filesystem

    @property
    def rewritten_partitions(self) -> list[Partition]:
        """The live partitions to rewrite: all except ``__cluster_metadata``, which brokers read in one format only."""
        return [
            partition
            for partition in self.directory.partitions
            if partition.is_live and partition.topic != names.CLUSTER_METADATA_TOPIC
        ]

    @property
    def fingerprint(self) -> str:
        """A digest of the segments' names, sizes and modification times, which shows whether the log has changed."""
        file_facts = [
            (partition.directory, file.path, file.log.size_bytes, file.log.mtime_ms)
            for partition in self.directory.partitions
            for file in partition.segments
        ]
        return hashlib.sha256(repr(file_facts).encode()).hexdigest()

    def get_output_directory(self, directory: Path, partition: Partition) -> Path:
        """Return the output directory of a partition."""
        return directory / split_path(partition.directory)[1] if self.kind == "directory" else directory

    def copy_other_entries(self, directory: Path, report: JobReport | None = None) -> None:
        """Copy all entries of a log directory except the partitions to rewrite."""
        if self.kind != "directory":
            return
        rewritten_names = {split_path(partition.directory)[1] for partition in self.rewritten_partitions}
        for info in self.filesystem.list_directory(self.path):
            is_omitted = info.name in _SKIPPED_FILES
            if not is_omitted and info.name not in rewritten_names:
                copy_entry(self.filesystem, info, directory / info.name)
            if report is not None and (is_omitted or info.name not in rewritten_names):
                (report.left_out if is_omitted else report.copied).append(info.path)

    def copy_identity(self, directory: Path, partitions: set[str], report: JobReport) -> None:
        """Copy ``meta.properties`` and the selected partitions' checkpointed offsets of a log directory.

        Other entries are omitted: they describe partitions that the new directory does not have.
        """
        if self.kind != "directory":
            return
        written_names = {split_path(path)[1] for path in partitions}
        for info in self.filesystem.list_directory(self.path):
            if info.name == names.META_PROPERTIES:
                copy_entry(self.filesystem, info, directory / info.name)
                report.copied.append(info.path)
            elif info.name not in written_names and info.name not in names.OFFSET_CHECKPOINTS:
                report.left_out.append(info.path)
        topic_partitions = {
            topic_partition.topic_partition
            for topic_partition in self.rewritten_partitions
            if topic_partition.directory in partitions
        }
        for name, offsets in self.directory.offset_checkpoints.items():
            with atomic.new_file(directory / name) as file:
                file.write(
                    write_offset_checkpoint(
                        {
                            topic_partition: offset
                            for topic_partition, offset in offsets.items()
                            if topic_partition in topic_partitions
                        }
                    )
                )


def open_source_log(source: Source, *, storage: Mapping[str, Any] | None = None) -> SourceLog:
    """Return the log to rewrite.

    Several log directories are read as one log, and their copies of a partition are merged (``copies``).

    Raises:
        LogDirError: the log does not exist, cannot be read, or its copies contradict each other.
    """
    paths = to_path_list(source)
    result = discover(paths, options=storage)
    if len(result) == 1 and len(paths) == 1:
        path = plain_path(paths[0]).rstrip("/") or "/"
        return SourceLog(path, _detect_kind(result[0], path), result[0])
    (directory,) = _merge_directories(result, storage) if len(result) > 1 else result
    return SourceLog(directory.path, "directory", directory)


def _merge_directories(result: Sequence[LogDirectory], storage: Mapping[str, Any] | None) -> Sequence[LogDirectory]:
    """Return the view of several log directories as one log."""

    # imported here, because most jobs have a single directory and each worker imports this module
    from kafkaframes.storage.copies.one_log import open_whole_log

    return open_whole_log(result, options=storage, join=True)


def _detect_kind(directory: LogDirectory, path: str) -> str:
    """Return whether a path is a log directory, a partition or a segment."""
    if directory.path.rstrip("/") == path.rstrip("/"):
        return "directory"
    if any(partition.directory.rstrip("/") == path for partition in directory.partitions):
        return "partition"
    info = directory.filesystem.stat(path)
    if info is not None and not info.is_directory:
        return "segment"
    raise OptionError(f"{path} is neither a log directory nor a partition's directory; specify {directory.path}")


# ----------------------------------------------------------------------------------------------------------- in place


_NEW_DIRECTORY_SUFFIX = ".kafkaframes-new"  # suffix of the new directory until it replaces the old one
_Report = TypeVar("_Report")


def convert_in_place(
    source: str | Path, backup: str | Path, settings: RewriteSettings, *, run: Runner = run_here
) -> JobReport:
    """Rewrite a local log directory in place. The old directory becomes ``backup``, on the same disk.

    Raises:
        LogDirError: a broker is using the directory or did not shut down cleanly, the backup exists, or as ``convert``.
        OptionError: the source is not a whole log directory, the settings select only a part of it, or the backup would
            be on another disk.
    """
    if settings.is_limited:
        raise OptionError(
            "a rewrite in place needs all records: `topics`, `partitions`, `start` and `end` would remove some; "
            "write the selection to a new directory"
        )
    source_path, backup_path = Path(source).absolute(), Path(backup).absolute()
    report = exchange_directories(
        source_path,
        backup_path,
        lambda new: convert(str(source_path), new, settings, run=run),
        check_new=_check_partition_files,
    )
    return replace(report, destination=str(source_path))


def exchange_directories(
    old_path: Path,
    backup_path: Path,
    write_new: Callable[[Path], _Report],
    *,
    check_new: Callable[[Path], None] = lambda _: None,
    suffix: str = _NEW_DIRECTORY_SUFFIX,
    create_lock: bool = True,
) -> _Report:
    """Let ``write_new`` write a new directory, exchange it with ``old_path``, and keep the old one at ``backup_path``.

    Args:
        old_path: directory to replace.
        backup_path: new path of the old directory.
        write_new: function that writes the new directory, and returns a report.
        check_new: function that raises an error for an unsuitable ``old_path``, before anything is written.
        suffix: suffix of the new directory's name before the exchange.
        create_lock: whether to lock the directory against brokers even if it has no ``.lock`` file.

    Raises:
        LogDirError: a broker or another job is using the directory, ``backup_path`` exists, or a rename fails.
        OptionError: ``old_path`` is not a directory, or the paths are on different file systems.
    """
    new_path = old_path.with_name(old_path.name + suffix)
    with atomic.hold_lock(old_path):
        if (
            not old_path.exists() and backup_path.exists() and (new_path / atomic.SUCCESS_FILE).exists()
        ):  # an earlier job was killed between the two renames
            _rename_entry(new_path, old_path)
        if backup_path.exists():
            raise LogDirError(
                "the backup exists already: an earlier run has rewritten this directory", file=str(backup_path)
            )
        _check_same_disk(old_path, backup_path)
        check_new(old_path)
        with hold_broker_lock(old_path, create=create_lock):
            if new_path.exists():  # output of a killed job; a broker may have written to the source since
                shutil.rmtree(new_path)
            report = write_new(new_path)
            with atomic.name_path_in_errors(backup_path):
                backup_path.parent.mkdir(parents=True, exist_ok=True)
            _rename_entry(old_path, backup_path)
            _rename_entry(new_path, old_path)
    return report


def _rename_entry(entry: Path, new_path: Path) -> None:
    """Rename a directory, and flush the parent directory to disk."""
    with atomic.name_path_in_errors(entry):
        entry.rename(new_path)
        flush_path(new_path.parent)


def _check_same_disk(old: Path, backup_path: Path) -> None:
    """Check that the backup of a local log directory can be created on the same disk."""
    if not old.exists():
        raise LogDirError(NO_SUCH_PATH_TEXT, file=str(old))
    if not old.is_dir():
        raise OptionError(f"{old} is not a local log directory; a rewrite in place needs a whole local log directory")
    atomic.reject_nested_destination(backup_path, [str(old)])
    parent_path = next(parent for parent in backup_path.parents if parent.exists())
    if parent_path.stat().st_dev != old.stat().st_dev or os.path.ismount(old):
        raise OptionError(
            f"the backup {backup_path} and {old} must be on the same file system, below its mount point, because both "
            "are renamed"
        )


def _check_partition_files(old: Path) -> None:
    """Check that a path is a log directory that its broker closed cleanly."""
    if open_source_log(str(old)).kind != "directory":
        raise OptionError(f"{old} is not a local log directory; a rewrite in place needs a whole local log directory")
    if not (old / names.CLEAN_SHUTDOWN_FILE).exists():
        reason = (
            "the broker did not shut down cleanly (.kafka_cleanshutdown is missing); start and stop the broker, "
            "or recover the log"
        )
        raise LogDirError(reason, file=str(old))


@contextmanager
def hold_broker_lock(directory: Path, *, create: bool = True) -> Iterator[None]:
    """Hold the lock that a broker acquires on its directory (Java's ``FileChannel.tryLock``).

    Args:
        directory: log directory.
        create: whether to create the lock file if it is missing. If False and the file is missing, no lock is held.

    Raises:
        LogDirError: a broker holds the lock, or the file cannot be opened.
    """
    path = directory / names.BROKER_LOCK_FILE
    if not create and not path.exists():
        yield
        return
    try:
        release = take_lock(str(path), create=create)
    except OSError as error:
        raise LogDirError(f"cannot be opened: {error.strerror}", file=str(path)) from error
    if release is None:
        raise LogDirError("a broker is using this directory; stop the broker first", file=str(path))
    try:
        yield
    finally:
        release()
