"""Repair a log: keep every valid batch, including those after damaged ones, and rebuild all other files.

Kafka's own recovery truncates a log at the first damage (``log.recovery``). A repair does not, so the offsets of lost
records become gaps, as after compaction. Indexes, producer snapshots and leader epochs are rebuilt from the remaining
batches. The source is not modified, and the output directory gets its name only when it is complete. A sound segment is
copied unchanged. A damaged segment is read into memory as a whole (at most 2 GiB).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.convert.job import copy_entry
from kafkaframes.jobs.job import Runner, run_here
from kafkaframes.jobs.repair.salvage import OmittedRange, find_valid_batches, is_sound
from kafkaframes.jobs.row_counts import check_row_counts
from kafkaframes.records.decode import count_records
from kafkaframes.records.scan import FILE, as_array, scan_all
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import FileSystem, LocalFileSystem, split_path
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.files.scan import SegmentWindow, scan_segment
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.recovery.draft import KeptSegment
from kafkaframes.storage.recovery.plan import RecoveryPlan, plan_layout, plan_recovery
from kafkaframes.storage.recovery.recover import FileSlice, RecoverySettings, apply_actions, compute_files, write_files
from kafkaframes.wire.integers import MAX_INT32

_DERIVED_SUFFIXES = ("index", "timeindex", "txnindex", "snapshot")  # files that a repair rebuilds
# Files that a repair does not copy.
_SKIPPED_FILES = (names.BROKER_LOCK_FILE, names.CLEAN_SHUTDOWN_FILE, atomic.SUCCESS_FILE)


@dataclass(slots=True)
class SegmentRepair:
    """The repair of one segment.

    Attributes:
        name: name of the ``.log`` file.
        kept_bytes: size of the batches to keep.
        ranges: byte ranges to keep; empty if ``is_whole``.
        holes: offset ranges (first, end) that no longer have records, as far as neighboring batches show; the end is
            exclusive.
        records: number of records in the batches to keep.
    """

    name: str
    kept_bytes: int
    is_whole: bool
    ranges: tuple[tuple[int, int], ...] = ()
    losses: tuple[OmittedRange, ...] = ()
    holes: tuple[tuple[int, int], ...] = ()
    records: int = 0


@dataclass(slots=True)
class PartitionRepair:
    """The repair of one partition.

    Attributes:
        plan: resolution of temporary files without truncation; for ``as_kafka`` the plan of the recovery.
        records_read: number of records in the batches to keep.
        records_written: number of records counted in the new segments; ``None`` if nothing was written.
    """

    name: str
    plan: RecoveryPlan
    segments: list[SegmentRepair] = field(default_factory=list)
    as_kafka: bool = False
    records_read: int = 0
    records_written: int | None = None

    @property
    def bytes_lost(self) -> int:
        """The number of bytes of ``.log`` files that are not kept."""
        if self.as_kafka:
            return self.plan.bytes_lost
        return sum(loss.end - loss.start for segment in self.segments for loss in segment.losses)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "partition": self.name,
            "bytes_lost": self.bytes_lost,
            "records_read": self.records_read,
            "records_written": self.records_written,
            "actions": [
                f"{segment.kind} {split_path(segment.path)[1]}: {segment.reason}" for segment in self.plan.actions
            ],
            "segments": [
                {
                    "name": segment.name,
                    "kept_bytes": segment.kept_bytes,
                    "lost": [loss._asdict() for loss in segment.losses],
                    "holes": segment.holes,
                }
                for segment in self.segments
            ],
        }


@dataclass(frozen=True, slots=True)
class RepairPlanTask:
    """One partition to examine. Tasks are picklable."""

    directory: LogDirectory
    partition: Partition
    as_kafka: bool


@dataclass(frozen=True, slots=True)
class WriteTask:
    """One partition to write. Tasks are picklable."""

    directory: LogDirectory
    repair: PartitionRepair
    settings: RecoverySettings
    path: str

    @property
    def partition(self) -> Partition:
        """The partition in the source."""
        return self.repair.plan.partition


def plan_repair(directory: LogDirectory, *, as_kafka: bool = False, run: Runner = run_here) -> list[PartitionRepair]:
    """Examine every live partition, and return the batches that a repair would keep. Nothing is modified.

    Args:
        directory: log directory to examine.
        as_kafka: truncate each log where Kafka's recovery would.
        run: function that runs the tasks, one for each partition, in this process, in other processes or on Spark.

    Raises:
        LogDirError: a file cannot be read.
    """
    empty_directory = replace(directory, partitions=())
    return list(
        run(
            _plan_partition,
            [
                RepairPlanTask(empty_directory, partition, as_kafka)
                for partition in directory.partitions
                if partition.is_live
            ],
        )
    )


def _plan_partition(task: RepairPlanTask) -> PartitionRepair:
    """Return the batches of one partition that a repair keeps."""
    name = str(task.partition.topic_partition)
    if task.as_kafka:
        plan = plan_recovery(task.directory, task.partition)
        filesystem = plan.view or task.directory.filesystem
        records = sum(_count_records_of_file(filesystem, segment.path, segment.size_bytes) for segment in plan.segments)
        return PartitionRepair(name, plan, as_kafka=True, records_read=records)
    plan = plan_layout(task.directory, task.partition)
    next_base_offsets = [*(segment.base_offset for segment in plan.segments), 2**63 - 1][1:]
    segments = [
        _plan_segment(
            plan.view or task.directory.filesystem,
            kept_segment,
            min(next_base, kept_segment.base_offset + MAX_INT32 + 1),
        )
        for kept_segment, next_base in zip(plan.segments, next_base_offsets, strict=True)
    ]
    records = sum(segment.records for segment in segments)
    return PartitionRepair(name, plan, segments, records_read=records)


def _plan_segment(filesystem: FileSystem, kept_segment: KeptSegment, end_offset: int) -> SegmentRepair:
    """Return the batches of one segment that a repair keeps. Offsets are below ``end_offset``."""
    with filesystem.open(kept_segment.path) as read_at:
        counts: list[int] = []
        windows = _count_records_in_windows(
            scan_segment(read_at, size_bytes=kept_segment.size_bytes, includes_data=True, file=kept_segment.path),
            counts,
        )
        limits = {"base_offset": kept_segment.base_offset, "end_offset": end_offset}
        if is_sound(windows, **limits, size_bytes=kept_segment.size_bytes):
            return SegmentRepair(kept_segment.name, kept_segment.size_bytes, True, records=sum(counts))
    data = np.frombuffer(filesystem.read(kept_segment.path), np.uint8)
    salvage_result = find_valid_batches(data, **limits)
    pairs = zip(salvage_result.good_ranges, salvage_result.good_ranges[1:], strict=False)
    gaps = [
        (valid_range.next_offset, next_range.base_offset)
        for valid_range, next_range in pairs
        if valid_range.end != next_range.start
    ]
    return SegmentRepair(
        kept_segment.name,
        sum(valid_range.end - valid_range.start for valid_range in salvage_result.good_ranges),
        False,
        salvage_result.merge_valid_ranges(),
        salvage_result.losses,
        tuple(gap for gap in gaps if gap[0] < gap[1]),
        sum(
            count_records(data[hole_start:hole_end], scan_all(data[hole_start:hole_end], rules=FILE))
            for hole_start, hole_end in salvage_result.merge_valid_ranges()
        ),
    )


def _count_records_in_windows(windows: Iterable[SegmentWindow], counts: list[int]) -> Iterator[SegmentWindow]:
    """Yield the windows unchanged, and append the number of records in each to ``counts``."""
    for window in windows:
        counts.append(count_records(as_array(window.data), window.batches_in_data()))
        yield window


def _count_records_of_file(filesystem: FileSystem, path: str, size_bytes: int) -> int:
    """Return the number of records in the valid batches at the start of a file."""
    counts: list[int] = []
    with filesystem.open(path) as read_at:
        for _ in _count_records_in_windows(
            scan_segment(read_at, size_bytes=size_bytes, includes_data=True, file=path), counts
        ):
            pass
    return sum(counts)


def write_repaired(
    directory: LogDirectory,
    repairs: list[PartitionRepair],
    settings: RecoverySettings,
    empty: Path,
    *,
    run: Runner = run_here,
) -> None:
    """Write the repaired log to an empty directory, and set the numbers of written records in ``repairs``.

    The output has no clean shutdown file. A broker that opens it therefore runs a recovery, which changes nothing.

    Raises:
        LogDirError: a file cannot be read or written, or the output has another number of records than expected.
    """
    repaired_names = {split_path(repair.plan.partition.directory)[1] for repair in repairs}
    for info in directory.filesystem.list_directory(directory.path):
        if info.name not in repaired_names and info.name not in _SKIPPED_FILES:
            copy_entry(directory.filesystem, info, empty / info.name)
    empty_directory, tasks = replace(directory, partitions=()), []
    for repair in repairs:
        path = empty / split_path(repair.plan.partition.directory)[1]
        with atomic.name_path_in_errors(path):
            path.mkdir()
        tasks.append(WriteTask(empty_directory, repair, settings, str(path)))
    for repair, written_records in zip(repairs, run(_write_partition, tasks), strict=True):
        repair.records_written = written_records
        check_row_counts(repair.records_read, written_records, {}, where=repair.name)


def _write_partition(task: WriteTask) -> int:
    """Write one partition, and return the number of records in its new segments."""
    _write_files(task)
    local = LocalFileSystem()
    return sum(
        _count_records_of_file(local, str(file_path), file_path.stat().st_size)
        for file_path in Path(task.path).glob("*.log")
    )


def _write_files(task: WriteTask) -> None:
    """Write the files of a repaired partition to its new directory."""
    directory, repair, path = task.directory, task.repair, Path(task.path)
    filesystem = repair.plan.view or directory.filesystem
    if repair.as_kafka:
        write_files(filesystem, compute_files(directory, repair.plan, task.settings).files, path)
        return
    write_files(filesystem, dict(_read_remaining_files(filesystem, repair)), path)
    _rebuild_derived_files(repair, task.settings, path)


def _read_remaining_files(filesystem: FileSystem, repair: PartitionRepair) -> Iterator[tuple[str, bytes | FileSlice]]:
    """Yield the valid parts of segments, and the small files except those that are derived from segments."""
    segments = {segment.name: segment for segment in repair.segments}
    for name, content in apply_actions(filesystem, repair.plan).items():
        file_name, segment = FileName.parse(name), segments.get(name)
        if segment is not None and not segment.is_whole and isinstance(content, FileSlice):
            yield name, replace(content, ranges=segment.ranges) if segment.ranges else b""
        elif file_name is None or file_name.temporary or file_name.kind not in _DERIVED_SUFFIXES:
            yield name, content


def _rebuild_derived_files(repair: PartitionRepair, settings: RecoverySettings, path: Path) -> None:
    """Rebuild the derived files with a recovery, which has nothing left to truncate."""
    if not repair.segments:
        return
    (log_directory,) = discover(str(path))
    (partition,) = log_directory.partitions
    plan = plan_recovery(log_directory, replace(partition, checkpointed_offsets=_find_log_start(repair.plan.partition)))
    if plan.bytes_lost:
        raise LogDirError("a repaired segment is damaged; please report this", file=str(path))
    recovered_log = compute_files(log_directory, plan, settings)
    write_files(
        log_directory.filesystem,
        {file_name: content for file_name, content in recovered_log.files.items() if isinstance(content, bytes)},
        path,
    )


def _find_log_start(partition: Partition) -> dict[str, int]:
    """Return the log start offset, which keeps deleted records deleted.

    The recovery point is omitted, so that the recovery checks the whole log.
    """
    log_start = partition.checkpointed_offsets.get(names.LOG_START_CHECKPOINT)
    return {} if log_start is None else {names.LOG_START_CHECKPOINT: log_start}
