"""Open a log with a directory in the usual state after a shutdown or a kill: the fast path of ``loading``.

The fast path applies only to ordinary directories: segments with their indexes, producer snapshots, and leader epochs
that match. After a clean shutdown nothing is changed, and the log ends at the checkpointed offset. After an unclean
shutdown only the last segment is recovered, and it must consist of whole batches. The last segment's indexes and a
producer snapshot at the log end are rewritten. For any other directory the functions return None and change nothing,
and ``loading`` plans a recovery. A test opens the same directories on both paths, with damage in each file.

A broker with 10,000 partitions opens all of them at startup. This path takes a quarter of the general path's CPU time
after a clean shutdown, and half of it after kill -9 (``benchmarks/broker_partitions.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from kafkaframes.errors import LogDirError
from kafkaframes.records.layout import CONTROL
from kafkaframes.storage.files import checkpoints, indexes, names
from kafkaframes.storage.files.checkpoints import Epochs, EpochStart, read_leader_epochs, read_partition_metadata
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.disk import OnlineDisk, overwrite
from kafkaframes.storage.files.filesystem import FileInfo, join, split_path
from kafkaframes.storage.files.headers import HeaderWalk
from kafkaframes.storage.files.names import DirectoryName, FileName, name_segment_file
from kafkaframes.storage.files.producer_files import read_producer_snapshot
from kafkaframes.storage.log.discover import CheckpointedState
from kafkaframes.storage.log.producers import Producers
from kafkaframes.storage.log.rebuild import ProducerStateLoader, StoredSnapshots, make_replay, rebuild_indexes
from kafkaframes.storage.partition.log import PartitionLog
from kafkaframes.storage.partition.segment import LogSegment
from kafkaframes.storage.partition.settings import LogSettings
from kafkaframes.storage.partition.state import LeaderEpochs, LogSegments, ProducerSnapshots
from kafkaframes.storage.recovery.draft import MAX_HEADERS
from kafkaframes.storage.recovery.plan import walk_segment
from kafkaframes.wire.integers import MAX_INT64

_ParsedFile = TypeVar("_ParsedFile")
_SMALL_FILES = (names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA)
_ENTRY_BYTES = {"log": 1, "index": indexes.OFFSET_ENTRY.itemsize, "timeindex": indexes.TIME_ENTRY.itemsize}


class _DirectoryFiles(NamedTuple):
    """The files of an ordinary directory: small files by name, segment sizes by base offset, and snapshot offsets."""

    small: dict[str, FileInfo]
    sizes: dict[int, int]
    snapshots: tuple[int, ...]


class _OpenedDirectory(NamedTuple):
    """The content of an ordinary directory after opening.

    Attributes:
        end: log end offset.
        snapshot_contents: existing producer snapshots, by offset.
        snapshots: producer snapshots after opening, by offset.
    """

    end: int
    snapshot_contents: Mapping[int, bytes]
    snapshots: Mapping[int, bytes]
    epochs: tuple[EpochStart, ...] = ()
    indexes: Mapping[str, bytes] = {}


def open_ordinary(
    disk: OnlineDisk,
    directory: str,
    entries: list[FileInfo],
    checkpointed_offsets: CheckpointedState,
    *,
    settings: LogSettings,
    now_ms: int,
) -> PartitionLog | None:
    """Open a log on a fast path; return None if the directory is not in the usual state and needs the general path.

    Raises:
        StorageError: the disk fails.
    """
    name = DirectoryName.parse(split_path(directory)[1])
    files = _collect_files(entries, is_clean=checkpointed_offsets.is_clean)
    if settings.record_format < 2 or name is None or name.state or files is None:
        return None
    point, known_start, high_watermark = (
        checkpointed_offsets.offsets.get(file, 0)
        for file in (names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_CHECKPOINT, names.HIGH_WATERMARK_CHECKPOINT)
    )
    start = max(known_start, min(files.sizes))
    try:
        if checkpointed_offsets.is_clean:
            opened_log = _open_clean(disk, directory, files, start, point)
        else:
            opened_log = _recover_last_segment(disk, directory, files, checkpointed_offsets, settings, now_ms)
        if opened_log is None or start > opened_log.end:
            return None
        epochs = _read_small_file(disk, files, names.LEADER_EPOCH_CHECKPOINT, read_leader_epochs) or ()
        metadata = _read_small_file(disk, files, names.PARTITION_METADATA, read_partition_metadata)
        if not _epochs_match(epochs, opened_log, known_start):
            return None
        producers = _load_producers(opened_log, settings)
    except LogDirError:
        return None
    producers.drop_expired(now_ms)
    _write_recovered_files(disk, directory, opened_log)
    sizes = sorted(files.sizes.items())
    log = PartitionLog(
        disk=disk,
        directory=directory,
        topic_partition=name.topic_partition,
        settings=settings,
        segments=LogSegments(LogSegment(disk, directory, base, size_bytes=size, now_ms=now_ms) for base, size in sizes),
        epochs=LeaderEpochs(disk, directory, epochs),
        producers=producers,
        snapshots=ProducerSnapshots(disk, directory, opened_log.snapshots),
        log_start_offset=start,
        log_end_offset=opened_log.end,
        recovery_point=min(point, opened_log.end),
        last_flush_ms=now_ms,
        topic_id=None if metadata is None else metadata.topic_id,
        is_linked=checkpointed_offsets.is_clean,
    )
    log.snapshots.last = opened_log.end if opened_log.snapshots else start
    if not checkpointed_offsets.is_clean:
        log.snapshots.unflushed_files = [log.snapshots.snapshot_path(offset) for offset in log.snapshots.offsets]
    log.update_high_watermark(high_watermark)
    return log


def _collect_files(entries: list[FileInfo], *, is_clean: bool) -> _DirectoryFiles | None:
    """Return the files of a directory that has only complete segments; None for any other directory.

    After an unclean shutdown the last segment's indexes still have their allocated size, and are rebuilt.
    """
    small: dict[str, FileInfo] = {}
    sizes: dict[str, dict[int, int]] = {"log": {}, "index": {}, "timeindex": {}, "snapshot": {}}
    for entry in entries:
        if entry.name in _SMALL_FILES:
            small[entry.name] = entry
            continue
        name = FileName.parse(entry.name)
        if name is None or name.temporary or entry.is_directory or name.kind not in sizes:
            return None
        sizes[name.kind][name.offset] = entry.size_bytes
    logs = sizes["log"]
    if not logs or not logs.keys() == sizes["index"].keys() == sizes["timeindex"].keys():
        return None
    last = max(logs)
    for kind, size_bytes in _ENTRY_BYTES.items():
        if any(size % size_bytes for base, size in sizes[kind].items() if is_clean or base != last):
            return None
    if names.LEADER_EPOCH_CHECKPOINT not in small:
        return None
    return _DirectoryFiles(small, logs, tuple(sorted(sizes["snapshot"])))


def _open_clean(
    disk: OnlineDisk, directory: str, files: _DirectoryFiles, start: int, end: int
) -> _OpenedDirectory | None:
    """Open a log after a clean shutdown; return None if its end differs from the checkpoint or the last snapshot."""
    base = max(files.sizes)
    size, next_offset = files.sizes[base], base
    if size:
        path = join(directory, name_segment_file(base, "log"))
        with disk.open(path) as read_at:
            walk = HeaderWalk(read_at, size_bytes=size, file=path)
            for header in walk:
                next_offset = header.last_offset + 1
        if walk.position != size:
            return None
    if not base <= next_offset == end <= MAX_INT64:
        return None
    if not files.snapshots:
        is_empty = start == end and not any(files.sizes.values())
        return _OpenedDirectory(end, {}, {}) if is_empty else None
    if files.snapshots[-1] != end or files.snapshots[0] <= start or not files.sizes.keys() >= {*files.snapshots[:-1]}:
        return None
    last = disk.read(join(directory, name_segment_file(end, "snapshot")))
    snapshots = {**dict.fromkeys(files.snapshots, b""), end: last}  # only the last snapshot's content is needed
    return _OpenedDirectory(end, snapshots, snapshots)


def _recover_last_segment(
    disk: OnlineDisk,
    directory: str,
    files: _DirectoryFiles,
    checkpointed_offsets: CheckpointedState,
    settings: LogSettings,
    now_ms: int,
) -> _OpenedDirectory | None:
    """Recover only the last segment; return None if other segments need recovery or bytes must be truncated."""
    base, bases = max(files.sizes), sorted(files.sizes)
    if base > checkpointed_offsets.offsets.get(names.RECOVERY_POINT_CHECKPOINT, 0) and len(bases) > 1:
        return None
    segments = {
        base_offset: Segment.from_log_file(base_offset, join(directory, name_segment_file(base_offset, "log")), size)
        for base_offset, size in files.sizes.items()
    }
    with disk.open(segments[base].path) as read_at:
        segment_walk = walk_segment(read_at, segments[base], MAX_HEADERS)
    if segment_walk.end != files.sizes[base] or segment_walk.headers is None or segment_walk.next_offset > MAX_INT64:
        return None
    if any((window.column("attributes") & CONTROL).any() for window in segment_walk.headers):
        return None
    known_start, end = checkpointed_offsets.offsets.get(names.LOG_START_CHECKPOINT, 0), segment_walk.next_offset
    old_contents = {
        offset: disk.read(join(directory, name_segment_file(offset, "snapshot"))) for offset in files.snapshots
    }
    stored_snapshots, replay = (
        StoredSnapshots(dict(old_contents), now_ms, settings.producer_id_expiration_ms),
        make_replay(disk, segments),
    )
    load = ProducerStateLoader(stored_snapshots)
    load.rebuild(bases, start_offset=known_start, end_offset=base, is_clean=False, replay=replay)
    rebuilt = rebuild_indexes(
        disk,
        segments[base],
        index_interval_bytes=settings.index_interval_bytes,
        producers=load.producers,
        headers=segment_walk.headers,
    )
    load.map_end = rebuilt.producers_end
    load.take_snapshot()
    stored_snapshots.remove_stray_snapshots(bases)
    start = max(known_start, bases[0])
    ProducerStateLoader(stored_snapshots).rebuild(
        bases, start_offset=start, end_offset=end, is_clean=False, replay=replay
    )
    new_contents = stored_snapshots.snapshots
    changed_snapshots = {
        offset
        for offset in old_contents.keys() | new_contents.keys()
        if old_contents.get(offset) != new_contents.get(offset)
    }
    if (
        rebuilt.producers_end != end
        or min(changed_snapshots, default=base) < base
        or max(new_contents, default=end) != end
    ):
        return None
    index_files = indexes.write_indexes(rebuilt.offset_index, rebuilt.time_index)
    remade = {name_segment_file(base, kind): raw for kind, raw in index_files.items()}
    return _OpenedDirectory(end, old_contents, new_contents, rebuilt.epochs, remade)


def _load_producers(opened_log: _OpenedDirectory, settings: LogSettings) -> Producers:
    """Return the producers of the snapshot at the log end."""
    entries = read_producer_snapshot(opened_log.snapshots[opened_log.end]) if opened_log.snapshots else ()
    return Producers.from_entries(entries, expiration_ms=settings.producer_id_expiration_ms)


def _epochs_match(epochs: Epochs, opened_log: _OpenedDirectory, known_start: int) -> bool:
    """Return whether the leader epoch checkpoint needs no change."""
    complete = checkpoints.add_recovered_epochs(checkpoints.load_epochs(epochs), opened_log.epochs)
    return checkpoints.truncate_epochs(complete, start_offset=known_start, end_offset=opened_log.end) == epochs


def _write_recovered_files(disk: OnlineDisk, directory: str, opened_log: _OpenedDirectory) -> None:
    """Write the recovered files. The files need not be durable before the next flush of the log, as in ``loading``."""
    for name, raw in opened_log.indexes.items():
        overwrite(disk, join(directory, name), raw)
    old_contents = dict(opened_log.snapshot_contents)
    unneeded_snapshots = sorted(old_contents.keys() - opened_log.snapshots.keys())
    for offset, raw in opened_log.snapshots.items():
        path = join(directory, name_segment_file(offset, "snapshot"))
        if offset not in old_contents and unneeded_snapshots:  # a rename costs less than a new file and a deletion
            old = unneeded_snapshots.pop()
            disk.rename(join(directory, name_segment_file(old, "snapshot")), path)
            old_contents[offset] = old_contents[old]
        if old_contents.get(offset) != raw:
            overwrite(disk, path, raw)
    for offset in unneeded_snapshots:
        disk.delete(join(directory, name_segment_file(offset, "snapshot")))


def _read_small_file(
    disk: OnlineDisk, files: _DirectoryFiles, name: str, parse: Callable[..., _ParsedFile]
) -> _ParsedFile | None:
    entry = files.small.get(name)
    return None if entry is None else parse(disk.read(entry.path), file=entry.path)
