"""Open a partition's log, and apply the recovery that ``recovery.plan`` has planned in place (LogLoader).

After a crash at any point, the next opening has the same result. Later segments are deleted before a damaged one is
truncated. New files are written under a name that the next startup deletes, and then renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files import names
from kafkaframes.storage.files.checkpoints import read_leader_epochs
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.disk import Disk, OnlineDisk, overwrite, to_online_disk, write_whole_file
from kafkaframes.storage.files.filesystem import join, split_path
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.files.segment_reader import open_segment
from kafkaframes.storage.log.discover import CheckpointedState, discover_partition
from kafkaframes.storage.log.overflow import SplitPart
from kafkaframes.storage.log.producers import Producers
from kafkaframes.storage.partition import retention
from kafkaframes.storage.partition.log import PartitionLog
from kafkaframes.storage.partition.ordinary_opening import open_ordinary
from kafkaframes.storage.partition.segment import DELETED_SUFFIX, LogSegment
from kafkaframes.storage.partition.segment_replacement import CLEANED, SWAP
from kafkaframes.storage.partition.settings import LogSettings
from kafkaframes.storage.partition.state import DeletedFile, LeaderEpochs, LogSegments, ProducerSnapshots
from kafkaframes.storage.recovery.draft import FileAction, FileActionKind
from kafkaframes.storage.recovery.plan import RecoveryPlan, plan_recovery
from kafkaframes.storage.recovery.recover import (
    COPY_CHUNK_BYTES,
    FileSlice,
    RecoveredPartition,
    RecoverySettings,
    compute_files,
)
from kafkaframes.wire.integers import MAX_INT64


def create_log(
    directory: str,
    *,
    settings: LogSettings | None = None,
    now_ms: int,
    disk: Disk | None = None,
    topic_id: str | None = None,
) -> PartitionLog:
    """Return a new, empty log. The first append creates the directory and the files.

    The result is the same as if ``open_log`` had opened an empty directory.

    Args:
        directory: ``<log directory>/<topic>-<partition>``.
        disk: disk of the directory; None selects the local disk.
        topic_id: topic id for ``partition.metadata`` (KIP-516).

    Raises:
        LogDirError: the directory name is not that of a partition, or the directory exists.
    """
    online_disk, log_settings, name = (
        to_online_disk(disk),
        settings or LogSettings(),
        names.DirectoryName.parse(split_path(directory)[1]),
    )
    if name is None:
        raise LogDirError("is not named <topic>-<partition>", file=directory)
    if online_disk.stat(directory) is not None:
        raise LogDirError("exists already", file=directory)
    return PartitionLog(
        disk=online_disk,
        directory=directory,
        topic_partition=name.topic_partition,
        settings=log_settings,
        segments=LogSegments([LogSegment(online_disk, directory, 0, size_bytes=0, now_ms=now_ms)]),
        epochs=LeaderEpochs(online_disk, directory, ()),
        producers=Producers(expiration_ms=log_settings.producer_id_expiration_ms),
        snapshots=ProducerSnapshots(online_disk, directory, ()),
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        last_flush_ms=now_ms,
        topic_id=topic_id,
        has_files=False,
        is_linked=False,
    )


def open_log(
    directory: str,
    *,
    settings: LogSettings | None = None,
    now_ms: int,
    disk: Disk | None = None,
    checkpointed_offsets: CheckpointedState | None = None,
) -> PartitionLog:
    """Open a partition's log for reading and writing. After an unclean shutdown, recover it in place first.

    Args:
        directory: ``<log directory>/<topic>-<partition>``.
        disk: disk of the directory; None selects the local disk.
        checkpointed_offsets: the partition's checkpointed offsets; None reads them from the log directory.

    Raises:
        LogDirError: the directory is missing, or a file cannot be read.
        StorageError: the disk fails.
    """
    online_disk, log_settings = to_online_disk(disk), settings or LogSettings()
    entries = online_disk.list_directory(directory)
    if checkpointed_offsets is not None:
        log = open_ordinary(online_disk, directory, entries, checkpointed_offsets, settings=log_settings, now_ms=now_ms)
        if log is not None:
            return log
    log_directory = discover_partition(online_disk, directory, checkpointed_offsets, entries=entries)
    _drop_unfinished_metadata(online_disk, log_directory)
    plan = _plan_recovery(log_directory)
    _reject_damaged_end(plan, directory)
    recovery_settings = RecoverySettings(
        now_ms,
        index_interval_bytes=log_settings.index_interval_bytes,
        producer_id_expiration_ms=log_settings.producer_id_expiration_ms,
        record_format=log_settings.record_format,
    )
    recovered_log = compute_files(log_directory, plan, recovery_settings)
    is_changed = apply_in_place(online_disk, recovered_log)
    return _open_recovered(online_disk, recovered_log, log_settings, now_ms, is_changed=is_changed)


def _reject_damaged_end(plan: RecoveryPlan, directory: str) -> None:
    """Reject a log that cannot be appended to, before anything is changed."""
    if plan.log_end_offset > MAX_INT64:
        raise LogDirError(
            "its last record has the largest possible offset, so the log end offset does not exist", file=directory
        )
    active = plan.segments[-1]
    # After a clean shutdown, Kafka opens this segment and fails at the first append.
    if plan.log_end_offset < active.base_offset:
        last, name = plan.log_end_offset - 1, names.name_segment_file(active.base_offset, "log")
        raise LogDirError(
            f"its last record has offset {last:,}, which is below the base offset of its file {name}", file=directory
        )


def _drop_unfinished_metadata(disk: OnlineDisk, log_directory: LogDirectory) -> None:
    partition = log_directory.partitions[0]
    path = join(partition.directory, names.PARTITION_METADATA)
    is_flushed = log_directory.clean_shutdown is not None or partition.recovery_point > 0
    if not is_flushed and any(problem.file == path for problem in partition.problems):
        disk.delete(path)


def _plan_recovery(log_directory: LogDirectory) -> RecoveryPlan:
    """Plan a recovery as Kafka does, but also recover a clean log that does not end with a whole batch.

    Kafka would append after the incomplete batch, and lose all appended records at its next recovery.
    """
    plan = plan_recovery(log_directory, log_directory.partitions[0])
    last = plan.segments[-1]
    if not plan.is_clean or last.is_recovered or _ends_with_whole_batch(log_directory, plan):
        return plan
    return plan_recovery(
        replace(log_directory, clean_shutdown=None), _is_unflushed(log_directory.partitions[0], last.base_offset)
    )


def _is_unflushed(partition: Partition, base_offset: int) -> Partition:
    point = min(partition.recovery_point, base_offset)
    return replace(
        partition, checkpointed_offsets={**partition.checkpointed_offsets, names.RECOVERY_POINT_CHECKPOINT: point}
    )


def _ends_with_whole_batch(log_directory: LogDirectory, plan: RecoveryPlan) -> bool:
    last = plan.segments[-1]
    segment = next(
        (candidate for candidate in log_directory.partitions[0].segments if candidate.base_offset == last.base_offset),
        None,
    )
    if segment is None or segment.size_bytes == 0:
        return True
    with open_segment(log_directory.filesystem, segment) as reader:
        end = max((header.end for header in reader.walk_last_headers()), default=0)
    return end == segment.size_bytes


def apply_in_place(disk: Disk, recovered_log: RecoveredPartition) -> bool:
    """Apply a recovery to a partition's directory; return whether anything was changed.

    Files that the next recovery would rebuild are not flushed here. The first flush of the log flushes these files.

    Raises:
        StorageError: the disk fails; the next opening starts again and reaches the same result.
    """
    directory = recovered_log.plan.partition.directory
    cuts = [action for action in recovered_log.plan.actions if action.kind is FileActionKind.TRUNCATE]
    for action in recovered_log.plan.actions:
        if action.kind is not FileActionKind.TRUNCATE:
            _ACTION_FUNCTIONS[action.kind](disk, action)
    if cuts:  # later segments are deleted first, so that a crash leaves no gap
        disk.sync_directory(directory)
    for action in cuts:
        _truncate_file(disk, action)
    if recovered_log.plan.view is not None:  # parts must have their final names before a file is named .cleaned again
        disk.sync_directory(directory)
    is_lasting = any(action.kind is not FileActionKind.REBUILD for action in recovered_log.plan.actions)
    old_sizes = {entry.name: entry.size_bytes for entry in disk.list_directory(directory) if not entry.is_directory}
    is_changed = bool(recovered_log.plan.actions)
    for name, content in recovered_log.files.items():
        path = join(directory, name)
        if isinstance(content, FileSlice) or (old_sizes.get(name) == len(content) and disk.read(path) == content):
            continue
        is_changed = True
        is_lasting |= _write_recovered_file(disk, path, content, recovered_log)
    for name in sorted(old_sizes.keys() - recovered_log.files.keys()):
        disk.delete(join(directory, name))
        is_changed = True
        is_lasting |= not _is_rebuilt_by_recovery(name, recovered_log.plan)
    if is_lasting:
        disk.sync_directory(directory)
    return is_changed


def _write_recovered_file(disk: Disk, path: str, content: bytes, recovered_log: RecoveredPartition) -> bool:
    """Write a recovered file; return whether it must be flushed. Other files are written in place, which is faster."""
    name = split_path(path)[1]
    is_taken = name + DELETED_SUFFIX in recovered_log.files  # a file of the segment that was split
    if is_taken or not _is_rebuilt_by_recovery(name, recovered_log.plan):
        write_whole_file(disk, path, content, temporary=CLEANED if is_taken else DELETED_SUFFIX)
        return True
    overwrite(disk, path, content)
    return False


def _is_rebuilt_by_recovery(name: str, plan: RecoveryPlan) -> bool:
    """Return whether each recovery rebuilds the file, because it belongs to a segment that may not be flushed yet."""
    file_name = FileName.parse(name)
    return file_name is not None and file_name.offset >= _find_first_unflushed_base(plan)


def _find_first_unflushed_base(plan: RecoveryPlan) -> int:
    point = plan.partition.recovery_point
    return max(
        (kept_segment.base_offset for kept_segment in plan.segments if kept_segment.base_offset <= point), default=0
    )


def _split_segment(disk: Disk, action: FileAction) -> None:
    """Write the parts, and rename the last one first, so that a crash leaves a ``.cleaned`` part or all parts."""
    directory = split_path(action.path)[0]
    paths = [join(directory, str(part.file.name)) for part in action.parts]
    for path, part in zip(paths, action.parts, strict=True):
        _copy_part(disk, action.path, part, path + CLEANED)
    disk.sync_directory(directory)
    for path in reversed(paths):
        disk.rename(path + CLEANED, path + SWAP)


def _copy_part(disk: Disk, source: str, part: SplitPart, target: str) -> None:
    file = disk.open_file(target)
    try:
        file.truncate(0)
        with disk.open(source) as read_at:
            for position in range(part.start, part.end, COPY_CHUNK_BYTES):
                chunk = read_at(position, min(COPY_CHUNK_BYTES, part.end - position))
                file.write(position - part.start, chunk)
        file.fsync()
    finally:
        file.close()


def _rename_file(disk: Disk, action: FileAction) -> None:
    if action.path.endswith(SWAP):  # the files that a swap replaces are deleted permanently before the swap is renamed
        disk.sync_directory(split_path(action.path)[0])
    if action.to is not None:
        disk.rename(action.path, action.to)


def _truncate_file(disk: Disk, action: FileAction) -> None:
    file = disk.open_file(action.path)
    file.truncate(action.size_bytes or 0)
    file.fsync()
    file.close()


_ACTION_FUNCTIONS: Mapping[FileActionKind, Callable[[Disk, FileAction], None]] = {
    FileActionKind.DELETE: lambda disk, action: disk.delete(action.path),
    FileActionKind.RENAME: _rename_file,
    FileActionKind.CREATE: lambda disk, action: disk.open_file(action.path).close(),
    FileActionKind.REBUILD: lambda disk, action: None,  # rebuilt files are written with the other files
    FileActionKind.SPLIT: _split_segment,
}


def _open_recovered(
    disk: OnlineDisk, recovered_log: RecoveredPartition, settings: LogSettings, now_ms: int, *, is_changed: bool
) -> PartitionLog:
    plan, partition = recovered_log.plan, recovered_log.plan.partition
    directory = partition.directory
    segments = LogSegments(
        LogSegment(disk, directory, segment.base_offset, size_bytes=segment.size_bytes, now_ms=now_ms)
        for segment in plan.segments
    )
    epochs = recovered_log.files.get(names.LEADER_EPOCH_CHECKPOINT)
    leader_epochs = read_leader_epochs(epochs) if isinstance(epochs, bytes) else partition.leader_epochs or ()
    log = PartitionLog(
        disk=disk,
        directory=directory,
        topic_partition=partition.topic_partition,
        settings=settings,
        segments=segments,
        epochs=LeaderEpochs(disk, directory, leader_epochs),
        producers=Producers(expiration_ms=settings.producer_id_expiration_ms),
        snapshots=ProducerSnapshots(disk, directory, _list_snapshot_offsets(recovered_log.files)),
        log_start_offset=plan.log_start_offset,
        log_end_offset=plan.log_end_offset,
        recovery_point=_choose_recovery_point(plan),
        last_flush_ms=now_ms,
        topic_id=None if partition.metadata is None else partition.metadata.topic_id,
        bytes_lost=plan.bytes_lost,
        is_linked=not is_changed,
        whole_until=next(
            (
                (action.path, action.size_bytes or 0)
                for action in plan.actions
                if action.kind is FileActionKind.TRUNCATE
            ),
            None,
        ),
    )
    if is_changed:
        log.snapshots.unflushed_files = [log.snapshots.snapshot_path(offset) for offset in log.snapshots.offsets]
    is_new = any(action.kind is FileActionKind.CREATE for action in plan.actions)
    if is_new:
        segments.active.activate(settings, is_new=True)
    retention.reload_producers(log, now_ms=now_ms)
    log.update_high_watermark(partition.high_watermark or 0)
    due_ms = now_ms + settings.file_delete_delay_ms
    log.deleted_files = [
        DeletedFile(action.to, due_ms)
        for action in plan.actions
        if action.to is not None and action.to.endswith(DELETED_SUFFIX)
    ]
    return log


def _list_snapshot_offsets(files: Iterable[str]) -> Iterator[int]:
    for file_name in map(FileName.parse, files):
        if file_name is not None and file_name.kind == "snapshot" and not file_name.temporary:
            yield file_name.offset


def _choose_recovery_point(plan: RecoveryPlan) -> int:
    """Return the log end offset after a clean shutdown, and otherwise the old recovery point (LogLoader.recoverLog)."""
    if plan.is_clean and not plan.actions:
        return plan.log_end_offset
    return min(plan.partition.recovery_point, plan.log_end_offset)
