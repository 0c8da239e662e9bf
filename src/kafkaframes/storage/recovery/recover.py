"""Execute a recovery plan: compute a partition's files as if a broker had loaded it and shut down cleanly.

``plan_recovery`` creates the plan. ``compute_files`` adds the files that depend on the batches: indexes, producer
snapshots and leader epochs. ``recover_to`` writes the result into a new directory. The source is only read, so a crash
leaves it unchanged. The new directory is either complete or does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from kafkaframes.errors import LogDirError
from kafkaframes.records.scan import BatchHeaders
from kafkaframes.storage.files import atomic, checkpoints, indexes, names
from kafkaframes.storage.files.checkpoints import Epochs, EpochStart, write_leader_epochs
from kafkaframes.storage.files.directory import LogDirectory, Segment
from kafkaframes.storage.files.filesystem import FileSystem, split_path
from kafkaframes.storage.files.names import FileName, name_segment_file
from kafkaframes.storage.files.producer_files import write_txn_index
from kafkaframes.storage.log.producer_state import BEFORE_HORIZONS, REWRITES_OLD, get_producer_expiration_ms
from kafkaframes.storage.log.producers import NO_VALUE
from kafkaframes.storage.log.rebuild import (
    INDEX_INTERVAL_BYTES,
    ProducerStateLoader,
    RebuiltIndexes,
    Replay,
    StoredSnapshots,
    make_replay,
    rebuild_indexes,
)
from kafkaframes.storage.log.transactions import OpenTransactions
from kafkaframes.storage.recovery.draft import FileAction, FileActionKind, KeptSegment
from kafkaframes.storage.recovery.plan import RecoveryPlan

COPY_CHUNK_BYTES = 4 << 20
DELETED_SUFFIX = ".deleted"


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """Settings of a recovery: the time, the broker release, formats and epochs.

    Attributes:
        now_ms: time of the recovery, in milliseconds since 1970.
        producer_id_expiration_ms: ``producer.id.expiration.ms``; None selects the broker's default.
        record_format: highest format that the topic's ``message.format.version`` allows, 0 to 2; 2 since 3.0.
        new_leader_epoch: epoch in which the broker leads the partition after startup; None if the broker does not lead
            the partition.
        broker_release: broker release that determines the rules.
    """

    now_ms: int
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    producer_id_expiration_ms: int | None = None
    record_format: int = 2
    new_leader_epoch: int | None = None
    broker_release: str = REWRITES_OLD


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A part of an existing file: its first bytes, or several byte ranges.

    Attributes:
        size_bytes: number of bytes from the start of the file; None for the whole file.
        mtime_ms: modification time to keep, because retention may use it.
        ranges: (start, end) positions of parts of the file, instead of its first bytes.
    """

    path: str
    size_bytes: int | None = None
    mtime_ms: int | None = None
    ranges: tuple[tuple[int, int], ...] = ()


Contents = dict[str, bytes | FileSlice]


@dataclass(frozen=True, slots=True)
class RecoveredPartition:
    """The files of one partition after its recovery.

    Attributes:
        plan: plan of the recovery.
        files: content by file name: new bytes, or a slice of an existing file.
    """

    plan: RecoveryPlan
    files: Mapping[str, bytes | FileSlice] = field(default_factory=dict)


@dataclass(slots=True)
class _RecoveryState:
    """The producers, transactions and epochs that recovery passes from one segment to the next."""

    settings: RecoverySettings
    stored_snapshots: StoredSnapshots
    epochs: Epochs
    rebuilt: dict[str, RebuiltIndexes] = field(default_factory=dict)
    writes_epochs: bool = False

    def set_epochs(self, epochs: Epochs) -> None:
        """Change the epochs. The checkpoint file is written only if this method was called."""
        self.writes_epochs = self.writes_epochs or epochs != self.epochs
        self.epochs = epochs


def compute_files(directory: LogDirectory, plan: RecoveryPlan, settings: RecoverySettings) -> RecoveredPartition:
    """Compute every file of the partition as a broker would leave it.

    Args:
        plan: result of ``plan_recovery`` for the same release.

    Raises:
        LogDirError: a file cannot be read.
    """
    filesystem, partition = plan.view or directory.filesystem, plan.partition
    files = apply_actions(filesystem, plan)
    all_segments = (*plan.overwritten, *plan.set_aside, *plan.segments)
    segments = {
        kept_segment.path: Segment.from_log_file(kept_segment.base_offset, kept_segment.path, kept_segment.size_bytes)
        for kept_segment in all_segments
    }
    headers = {kept_segment.path: kept_segment.headers for kept_segment in all_segments}
    state = _RecoveryState(
        settings, _take_snapshots(filesystem, files, settings), checkpoints.load_epochs(partition.leader_epochs or ())
    )
    # A segment that is replayed early may be truncated later.
    contents = {kept_segment.path: kept_segment for kept_segment in partition.segments} | segments
    start_checkpoint = partition.checkpointed_offsets.get(names.LOG_START_CHECKPOINT, 0)
    for rebuild in plan.rebuilds:
        if rebuild.path in segments:
            load = ProducerStateLoader(state.stored_snapshots)
            load.rebuild(
                [base for base, _ in rebuild.visible],
                start_offset=start_checkpoint,
                end_offset=rebuild.base_offset,
                is_clean=False,
                replay=make_replay(filesystem, {base: contents[path] for base, path in rebuild.visible}),
            )
            epochs = _rebuild_segment(filesystem, segments[rebuild.path], headers[rebuild.path], load, state).epochs
            if settings.record_format >= 2 and (rebuild.is_unflushed or settings.broker_release != BEFORE_HORIZONS):
                state.set_epochs(checkpoints.add_recovered_epochs(state.epochs, epochs))
    replay = make_replay(
        filesystem, {kept_segment.base_offset: segments[kept_segment.path] for kept_segment in plan.segments}
    )
    _set_snapshots_aside(files, plan, state)
    _load_producer_state(plan, state, replay, start_checkpoint)
    _write_indexes(filesystem, files, plan, state)
    files |= {name_segment_file(offset, "snapshot"): raw for offset, raw in state.stored_snapshots.snapshots.items()}
    _write_epochs(files, plan, state)
    return RecoveredPartition(plan, files)


def apply_actions(filesystem: FileSystem, plan: RecoveryPlan) -> Contents:
    """Return the files after deletions, renames, truncations and splits."""
    entries = filesystem.list_directory(plan.partition.directory)
    files: Contents = {
        entry.name: FileSlice(entry.path, mtime_ms=entry.mtime_ms) for entry in entries if not entry.is_directory
    }
    for action in plan.actions:
        _apply_action(files, action)
    return files


def _apply_action(files: Contents, action: FileAction) -> None:
    name = split_path(action.path)[1]
    if action.kind is FileActionKind.CREATE:
        files[name] = b""
    elif action.kind is FileActionKind.DELETE:
        files.pop(name, None)
    elif action.kind is FileActionKind.RENAME and action.to is not None:
        files[split_path(action.to)[1]] = files.pop(name)
    elif action.kind is FileActionKind.SPLIT:
        files |= {f"{part.file.name}.swap": FileSlice(part.path, mtime_ms=_mtime(files[name])) for part in action.parts}
    elif action.kind is FileActionKind.TRUNCATE and isinstance(slice_ := files[name], FileSlice):
        files[name] = FileSlice(slice_.path, action.size_bytes)


def _mtime(content: bytes | FileSlice) -> int | None:
    return content.mtime_ms if isinstance(content, FileSlice) else None


def _take_snapshots(filesystem: FileSystem, files: Contents, settings: RecoverySettings) -> StoredSnapshots:
    """Remove the producer snapshots from the files, and return them.

    The remaining snapshots are added again at the end.
    """
    snapshots: dict[int, bytes] = {}
    for name in list(files):
        file_name = FileName.parse(name)
        if file_name is not None and file_name.kind == "snapshot" and not file_name.temporary:
            content = files.pop(name)
            snapshots[file_name.offset] = content if isinstance(content, bytes) else filesystem.read(content.path)
    expiration_ms = get_producer_expiration_ms(settings.broker_release, settings.producer_id_expiration_ms)
    return StoredSnapshots(snapshots, settings.now_ms, expiration_ms, settings.record_format)


def _rebuild_segment(
    filesystem: FileSystem,
    segment: Segment,
    headers: tuple[BatchHeaders, ...] | None,
    load: ProducerStateLoader,
    state: _RecoveryState,
) -> RebuiltIndexes:
    """Walk one segment, and update the state of producers and transactions."""
    settings = state.settings
    follow = OpenTransactions()
    for producer in load.producers.states.values():
        if producer.current_txn_first_offset != NO_VALUE:
            first_offset = producer.current_txn_first_offset
            follow.process_data(producer.producer_id, first_offset, first_offset)
    rebuilt = rebuild_indexes(
        filesystem,
        segment,
        index_interval_bytes=settings.index_interval_bytes,
        follow=follow,
        producers=load.producers,
        headers=headers,
    )
    state.rebuilt[segment.path] = rebuilt
    if settings.record_format >= 2:
        load.map_end = rebuilt.producers_end
    load.take_snapshot()
    return rebuilt


def _set_snapshots_aside(files: Contents, plan: RecoveryPlan, state: _RecoveryState) -> None:
    """Rename the snapshots of segments that were set aside, if they existed at the broker's startup.

    A renamed snapshot may exist again, because the recovery of the previous segment writes one at the same offset. If
    the log was emptied, the other snapshots that existed are deleted. A 2.8 broker neither renames nor deletes them
    here, because its search for stray snapshots removes them.
    """
    if state.settings.broker_release == BEFORE_HORIZONS:
        return
    known_offsets = {file.name.offset for file in plan.partition.producer_snapshots}
    for segment in plan.set_aside:
        raw = (
            state.stored_snapshots.snapshots.pop(segment.base_offset, None)
            if segment.base_offset in known_offsets
            else None
        )
        if raw is not None:
            files[name_segment_file(segment.base_offset, "snapshot") + DELETED_SUFFIX] = raw
    for offset in known_offsets if plan.is_emptied else ():
        state.stored_snapshots.snapshots.pop(offset, None)


def _load_producer_state(plan: RecoveryPlan, state: _RecoveryState, replay: Replay, start_checkpoint: int) -> None:
    """Load the producer state of the whole log, as a broker does after it has loaded the segments."""
    bases = [entry.base_offset for entry in plan.segments]
    end = plan.log_end_offset
    start = plan.log_start_offset if state.settings.broker_release == BEFORE_HORIZONS else start_checkpoint
    epochs = () if plan.is_emptied else state.epochs
    state.writes_epochs |= plan.is_emptied or any(entry.start_offset <= start for entry in epochs)
    state.set_epochs(checkpoints.truncate_epochs(epochs, start_offset=start, end_offset=end))
    state.stored_snapshots.remove_stray_snapshots(bases)
    load = ProducerStateLoader(state.stored_snapshots)
    load.rebuild(bases, start_offset=plan.log_start_offset, end_offset=end, is_clean=plan.is_clean, replay=replay)


def _write_indexes(filesystem: FileSystem, files: Contents, plan: RecoveryPlan, state: _RecoveryState) -> None:
    replaced_names = set(files)  # a replaced segment and the swap that replaced it may both be set aside
    for segment, suffix in [
        *((segment, DELETED_SUFFIX) for segment in plan.set_aside),
        *((segment, "") for segment in plan.segments),
    ]:
        if segment.path in state.rebuilt:
            _write_rebuilt_index(files, segment.base_offset, suffix, state.rebuilt[segment.path], replaced_names)
        else:
            files.setdefault(name_segment_file(segment.base_offset, "index") + suffix, b"")
            files.setdefault(name_segment_file(segment.base_offset, "timeindex") + suffix, b"")
    for segment in plan.overwritten:
        _keep_transaction_index(files, segment, plan, state)
    if plan.segments:
        _trim_active(filesystem, files, plan.segments[-1].base_offset)


def _keep_transaction_index(files: Contents, segment: KeptSegment, plan: RecoveryPlan, state: _RecoveryState) -> None:
    """Keep the transaction index of a segment that was overwritten by a swap file without one."""
    is_set_aside = any(other.base_offset == segment.base_offset for other in plan.set_aside)
    name = name_segment_file(segment.base_offset, "txnindex") + (DELETED_SUFFIX if is_set_aside else "")
    if segment.path in state.rebuilt and state.rebuilt[segment.path].aborted_transactions and name not in files:
        files[name] = write_txn_index(state.rebuilt[segment.path].aborted_transactions)


def _trim_active(filesystem: FileSystem, files: Contents, base_offset: int) -> None:
    """Trim the indexes of the active segment to whole entries, as a broker does when it resizes and closes them."""
    for kind, entry in (("index", indexes.OFFSET_ENTRY), ("timeindex", indexes.TIME_ENTRY)):
        name = name_segment_file(base_offset, kind)
        content = files[name]
        info = filesystem.stat(content.path) if isinstance(content, FileSlice) else None
        if info is not None and isinstance(content, FileSlice):
            files[name] = replace(content, size_bytes=info.size_bytes - info.size_bytes % entry.itemsize)


def _write_rebuilt_index(
    files: Contents, base_offset: int, suffix: str, rebuilt: RebuiltIndexes, replaced_names: Set[str]
) -> None:
    for kind, raw in rebuilt.files.items():
        name = name_segment_file(base_offset, kind) + suffix
        if (
            raw or kind != "txnindex" or name in replaced_names
        ):  # Kafka truncates a transaction index to zero bytes instead of deleting it
            files[name] = raw


def _write_epochs(files: Contents, plan: RecoveryPlan, state: _RecoveryState) -> None:
    settings = state.settings
    if settings.record_format < 2:
        return
    if settings.new_leader_epoch is not None:
        new = EpochStart(settings.new_leader_epoch, plan.log_end_offset)
        state.set_epochs(checkpoints.assign_epoch(state.epochs, new))
    if state.writes_epochs:
        files[names.LEADER_EPOCH_CHECKPOINT] = write_leader_epochs(state.epochs)
    files.setdefault(names.LEADER_EPOCH_CHECKPOINT, b"")  # a broker creates the file even if there is no epoch


def recover_to(
    directory: LogDirectory, plan: RecoveryPlan, settings: RecoverySettings, target: Path
) -> RecoveredPartition:
    """Write a recovered partition to ``target``, which is either complete afterwards or does not exist.

    Raises:
        LogDirError: ``target`` exists, or a file cannot be read or written.
    """
    if target.exists():
        raise LogDirError("already exists; specify a new path", file=str(target))
    recovered_log = compute_files(directory, plan, settings)
    with atomic.write_directory(target) as directory_path:
        write_files(plan.view or directory.filesystem, recovered_log.files, directory_path)
    return recovered_log


def write_files(filesystem: FileSystem, files: Mapping[str, bytes | FileSlice], target: Path) -> None:
    """Write files into an existing directory. Each file is either complete and flushed, or absent.

    Raises:
        LogDirError: a file cannot be read or written.
    """
    for name, content in files.items():
        mtime_ms = content.mtime_ms if isinstance(content, FileSlice) else None
        with atomic.new_file(target / name, mtime_ms=mtime_ms) as out:
            if isinstance(content, bytes):
                out.write(content)
            else:
                _copy_content(filesystem, content, out)


def _copy_content(filesystem: FileSystem, content: FileSlice, out: BinaryIO) -> None:
    with filesystem.open(content.path) as read_at:
        for start, end in content.ranges or ((0, content.size_bytes),):
            position = start
            while end is None or position < end:
                chunk = read_at(position, COPY_CHUNK_BYTES if end is None else min(COPY_CHUNK_BYTES, end - position))
                if not chunk:
                    break
                out.write(chunk)
                position += len(chunk)
