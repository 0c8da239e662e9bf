"""A broker's log directory: its lock, identity, logs, checkpoints and clean shutdown (LogManager).

While the directory is open, its ``.lock`` is held and the clean shutdown marker is absent. After a crash, the next
start therefore recovers the logs. The first failed write takes the whole directory offline: reads continue, writes
fail, and no clean shutdown marker is written when the directory is closed. A full disk is an exception for appends, new
logs, retention and checkpoints. The partial results of these operations are undone, and the operations fail until space
is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.storage.files import names
from kafkaframes.storage.files.checkpoints import (
    CleanShutdown,
    MetaProperties,
    read_meta_properties,
    read_offset_checkpoint,
    write_clean_shutdown,
    write_meta_properties,
    write_offset_checkpoint,
)
from kafkaframes.storage.files.disk import Disk, OnlineDisk, replace_file, rewrite_files, to_online_disk
from kafkaframes.storage.files.filesystem import FileInfo, join, split_path
from kafkaframes.storage.files.local_disk import is_locked_by_this_process
from kafkaframes.storage.files.names import DirectoryName, TopicPartition
from kafkaframes.storage.log.discover import CheckpointedState
from kafkaframes.storage.partition.flushing import remove_directory
from kafkaframes.storage.partition.loading import create_log, open_log
from kafkaframes.storage.partition.log import PartitionLog
from kafkaframes.storage.partition.settings import LogSettings

_MAX_DIRECTORY_NAME_LENGTH = 255  # limit of most file systems; a longer topic name is truncated
_MIN_CLOCK_STEP_MS = 2  # smallest clock step, because the two clocks are read one after the other
_UNREADABLE_LOGS_DIRECTORY = "unreadable"
SettingsOf = Callable[[TopicPartition], LogSettings]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """Intervals of the periodic work on a log directory, in milliseconds; names and defaults are those of Kafka."""

    log_retention_check_interval_ms: int = 300_000
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    producer_check_interval_ms: int = 600_000


@dataclass(slots=True)
class LogManager:
    """An open log directory. Use ``open_log_directory`` to create one.

    Attributes:
        disk: disk of all logs; ``disk.failure`` contains the reason why the disk is offline.
        logs: logs by topic partition; ``create``, ``delete`` and ``close`` change them.
        problems: errors of unreadable checkpoints, which are treated as empty; for a served copy also of its identity.
        written_partitions: topic partitions with records in their logs when the checkpoints were last written.
    """

    path: str
    disk: OnlineDisk
    meta: MetaProperties
    settings: ManagerSettings
    settings_of: SettingsOf
    was_clean: bool
    now_ms: int
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    cleaner_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    problems: tuple[LogDirError, ...] = ()
    unreadable: dict[TopicPartition, LogDirError] = field(default_factory=dict)
    written_partitions: frozenset[TopicPartition] = frozenset()
    is_closed: bool = False
    _release_lock: Callable[[], None] = lambda: None
    _to_delete: list[tuple[str, int]] = field(default_factory=list)
    _done_ms: dict[str, int] = field(default_factory=dict)
    _checkpoints: dict[str, bytes] = field(default_factory=dict)  # content on the disk, by file name
    _lead_ms: int | None = None  # wall clock minus monotonic clock at the last tick

    @property
    def is_offline(self) -> bool:
        """Whether the disk has failed."""
        return self.disk.failure is not None

    def has_lost_records(self, topic_partition: TopicPartition) -> bool:
        """Return whether a partition without an open log has lost records: it had records, or its log is unreadable."""
        return topic_partition in self.written_partitions or topic_partition in self.unreadable

    def create(self, topic_partition: TopicPartition, *, topic_id: str | None = None, now_ms: int) -> PartitionLog:
        """Create an empty log. A log that replaces an unreadable log gets a separate directory.

        The first append creates the files of the log.

        Raises:
            LogDirError: the log exists.
            OptionError: the topic name is invalid.
        """
        names.check_topic_name(topic_partition.topic)
        parent = join(self.path, _UNREADABLE_LOGS_DIRECTORY) if topic_partition in self.unreadable else self.path
        directory = join(parent, str(topic_partition))
        settings = self.settings_of(topic_partition)
        log = create_log(directory, settings=settings, now_ms=now_ms, disk=self.disk, topic_id=topic_id)
        self.logs[topic_partition] = log
        return log

    def delete(self, topic_partition: TopicPartition, *, unique_id: str, now_ms: int) -> None:
        """Delete a log with :meth:`rename_for_deletion`, and write the checkpoints without it (asyncDelete).

        Raises:
            OptionError, StorageError: as for :meth:`rename_for_deletion`.
        """
        self.rename_for_deletion(topic_partition, unique_id=unique_id, now_ms=now_ms)
        self.checkpoint_all()

    def rename_for_deletion(self, topic_partition: TopicPartition, *, unique_id: str, now_ms: int) -> None:
        """Close a log and rename its directory to ``-delete``; the directory is deleted later.

        After the deletion of several logs, write the checkpoints once with ``checkpoint_all``, as Kafka does.

        Args:
            unique_id: 32 hexadecimal digits, unique for each deletion (a UUID).

        Raises:
            OptionError: the log does not exist, or ``unique_id`` is malformed.
            StorageError: the disk fails.
        """
        suffix = f"-{topic_partition.partition}.{unique_id}-delete"
        name = topic_partition.topic[: _MAX_DIRECTORY_NAME_LENGTH - len(suffix)] + suffix
        if topic_partition not in self.logs or DirectoryName.parse(name) is None:
            raise OptionError(f"the log {topic_partition} does not exist, so it cannot be renamed to {name}")
        log = self.logs.pop(topic_partition)
        self.cleaner_offsets.pop(topic_partition, None)
        log.abandon()
        if not log.has_files:
            return
        self.disk.rename(log.directory, join(self.path, name))
        self.disk.sync_directory(self.path)
        self._to_delete.append((join(self.path, name), now_ms + log.settings.file_delete_delay_ms))

    def truncate_to(self, topic_partition: TopicPartition, offset: int, *, now_ms: int) -> bool:
        """Truncate a log and its recovery point (LogManager.truncateTo); return False if nothing was truncated.

        Raises:
            OptionError: the log does not exist, or the offset is negative.
            StorageError: the disk fails.
        """
        if topic_partition not in self.logs:
            raise OptionError(f"no log {topic_partition}")
        is_truncated = self.logs[topic_partition].truncate_to(offset, now_ms=now_ms)
        self._checkpoint_recovery_points()
        return is_truncated

    def tick(self, now_ms: int, monotonic_ms: int | None = None) -> None:
        """Run the periodic work that is due for all logs, unless the directory is offline.

        Args:
            now_ms: wall clock, which retention compares with stored timestamps.
            monotonic_ms: clock that never jumps; None if the wall clock never jumps. If the wall clock is changed,
                intervals and delays keep their remaining time.

        Raises:
            StorageError: the disk fails during this call.
        """
        if self.is_offline:
            return
        self._follow_clock_step(now_ms, now_ms if monotonic_ms is None else monotonic_ms)
        settings = self.settings
        for log in self.logs.values():
            log.flush_if_due(now_ms=now_ms)
            log.remove_deleted_files(now_ms=now_ms)
        self._delete_due_directories(now_ms)  # done before all writes, because it frees space
        for interval_ms, task in (
            (settings.log_retention_check_interval_ms, self._apply_retention),
            (settings.producer_check_interval_ms, self._expire_producers),
            (settings.log_flush_offset_checkpoint_interval_ms, self._checkpoint_recovery_points),
            (settings.log_flush_start_offset_checkpoint_interval_ms, self.checkpoint_start_offsets),
            (settings.replica_high_watermark_checkpoint_interval_ms, self._checkpoint_high_watermarks),
        ):
            if now_ms - self._done_ms.get(task.__name__, self.now_ms) >= interval_ms:
                self._done_ms[task.__name__] = now_ms
                task(now_ms)

    def _follow_clock_step(self, now_ms: int, monotonic_ms: int) -> None:
        """Shift all due times, and the times of the last rounds, by the wall clock's step since the last tick."""
        lead_ms, self._lead_ms = self._lead_ms, now_ms - monotonic_ms
        step_ms = 0 if lead_ms is None else self._lead_ms - lead_ms
        if abs(step_ms) < _MIN_CLOCK_STEP_MS:
            return
        self.now_ms += step_ms
        self._done_ms = {name: done_ms + step_ms for name, done_ms in self._done_ms.items()}
        self._to_delete = [(path, due_ms + step_ms) for path, due_ms in self._to_delete]
        for log in self.logs.values():
            log.follow_clock_step(step_ms)

    def _apply_retention(self, now_ms: int) -> None:
        for log in self.logs.values():
            log.delete_old_segments(now_ms=now_ms)

    def _expire_producers(self, now_ms: int) -> None:
        for log in self.logs.values():
            log.producers.drop_expired(now_ms)

    def _delete_due_directories(self, now_ms: int) -> None:
        for path, due_ms in tuple(self._to_delete):
            if due_ms <= now_ms:
                remove_directory(self.disk, path)
                self._to_delete.remove((path, due_ms))

    def checkpoint_all(self) -> None:
        """Write the four checkpoints.

        Raises:
            StorageError: the disk fails.
        """
        self._write_checkpoints(
            {
                names.RECOVERY_POINT_CHECKPOINT: self._recovery_points(),
                names.LOG_START_CHECKPOINT: self._collect_log_start_offsets(),
                names.HIGH_WATERMARK_CHECKPOINT: self._high_watermarks(),
                names.CLEANER_CHECKPOINT: self.cleaner_offsets,
            }
        )

    def checkpoint_cleaned_offset(self, topic_partition: TopicPartition, offset: int) -> None:
        """Checkpoint that a log is clean below an offset (``cleaner-offset-checkpoint``).

        Raises:
            StorageError: the disk fails.
        """
        self.cleaner_offsets[topic_partition] = offset
        self._write_checkpoints({names.CLEANER_CHECKPOINT: self.cleaner_offsets})

    def _checkpoint_recovery_points(self, now_ms: int = 0) -> None:
        self._write_checkpoints({names.RECOVERY_POINT_CHECKPOINT: self._recovery_points()})

    def _recovery_points(self) -> dict[TopicPartition, int]:
        return {key: log.recovery_point for key, log in self._with_files()}

    def checkpoint_start_offsets(self, now_ms: int = 0) -> None:
        """Checkpoint the log start offsets, so that deleted records stay deleted after a restart.

        As in Kafka, only start offsets above the first segment's base offset are written.

        Raises:
            StorageError: the disk fails.
        """
        self._write_checkpoints({names.LOG_START_CHECKPOINT: self._collect_log_start_offsets()})

    def _collect_log_start_offsets(self) -> dict[TopicPartition, int]:
        return {
            key: log.log_start_offset for key, log in self.logs.items() if log.log_start_offset > log.segment_bases[0]
        }

    def _checkpoint_high_watermarks(self, now_ms: int = 0) -> None:
        self._write_checkpoints({names.HIGH_WATERMARK_CHECKPOINT: self._high_watermarks()})

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {key: log.high_watermark for key, log in self._with_files()}

    def _with_files(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        return ((key, log) for key, log in self.logs.items() if log.has_files)

    def _write_checkpoints(self, checkpoints: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        """Write the checkpoints with changed content; a flush takes several milliseconds."""
        contents = {name: write_offset_checkpoint(offsets) for name, offsets in checkpoints.items()}
        changed_files = {name: data for name, data in contents.items() if self._checkpoints.get(name) != data}
        if changed_files:
            for name in changed_files:  # a failed write may have replaced some of the files
                self._checkpoints.pop(name, None)
            rewrite_files(self.disk, self.path, changed_files)
            self._checkpoints |= changed_files

    def close(self, *, now_ms: int, broker_epoch: int | None = None) -> None:
        """Shut down cleanly: close all logs, write the checkpoints and then the marker, and release the lock.

        Args:
            broker_epoch: broker epoch for the marker (since 3.8); None writes an empty marker.

        Raises:
            StorageError: the disk fails or has failed before; no marker is written, and the next start recovers.
        """
        try:
            # The start offsets are written first, because closing the logs deletes the records below them.
            self.checkpoint_start_offsets()
            self._close_logs(now_ms)
            self.checkpoint_all()
            marker = write_clean_shutdown(CleanShutdown(broker_epoch))
            replace_file(self.disk, join(self.path, names.CLEAN_SHUTDOWN_FILE), marker)
        finally:
            self.abandon()

    def _close_logs(self, now_ms: int) -> None:
        logs = [log for _, log in self._with_files() if not log.is_closed]
        unflushed_logs = [log.begin_close() for log in logs]
        for log in logs:
            log.release()
        files = [path for unflushed_paths in unflushed_logs for path in unflushed_paths.files]
        self.disk.flush_all(
            files,
            list(dict.fromkeys(path for unflushed_paths in unflushed_logs for path in unflushed_paths.directories)),
        )
        for log in logs:
            log.finish_close(now_ms=now_ms)

    def abandon(self) -> None:
        """Close everything without flushing, as an unclean shutdown does."""
        for log in self.logs.values():
            log.abandon()
        self.is_closed = True
        self._release_lock()


def open_log_directory(
    path: str,
    *,
    now_ms: int,
    settings_of: SettingsOf | LogSettings | None = None,
    settings: ManagerSettings | None = None,
    meta: MetaProperties | None = None,
    disk: Disk | None = None,
    was_clean: Mapping[TopicPartition, bool] | None = None,
    skips_unreadable: bool = False,
) -> LogManager:
    """Open a log directory and all its logs; after an unclean shutdown, recover the logs in place.

    ``__cluster_metadata``, which belongs to KRaft, is ignored, and so are ``-stray`` and ``-future`` directories.

    Args:
        path: an entry of ``log.dirs``; created if it does not exist.
        settings_of: function that returns the settings of a log, or the settings of all logs.
        meta: identity of the directory, which is written if the directory has none; an existing identity must match.
        disk: disk of the directory; None selects the local disk.
        was_clean: whether each log was closed cleanly, if this is known independently of the directory's marker.
        skips_unreadable: whether unreadable logs are omitted and reported in ``unreadable``. If False, an unreadable
            log raises an error.

    Raises:
        LogDirError: the directory is already open in this or another process, its identity differs, or a file cannot
            be read.
        StorageError: the disk fails.
    """
    online_disk = to_online_disk(disk)
    if online_disk.stat(path) is None:
        online_disk.make_directory(path)
        online_disk.sync_directory(split_path(path)[0])
    release_lock = online_disk.lock(join(path, names.BROKER_LOCK_FILE))
    if release_lock is None:
        is_own = is_locked_by_this_process(join(path, names.BROKER_LOCK_FILE))
        reason = "this process already has this directory open" if is_own else "another process has this directory open"
        raise LogDirError(f"{reason} (.lock)", file=path)
    try:
        manager = _create_manager(
            path, online_disk, now_ms, _make_log_settings(settings_of), settings or ManagerSettings(), meta
        )
        manager._release_lock = release_lock
        return _open_manager(manager, was_clean or {}, skips_unreadable=skips_unreadable)
    except BaseException:
        release_lock()
        raise


def _make_log_settings(settings: SettingsOf | LogSettings | None) -> SettingsOf:
    if callable(settings):
        return settings
    log_settings = settings or LogSettings()
    return lambda topic_partition: log_settings


def _create_manager(
    path: str,
    disk: OnlineDisk,
    now_ms: int,
    settings_of: SettingsOf,
    settings: ManagerSettings,
    meta: MetaProperties | None,
) -> LogManager:
    """Remove the clean shutdown marker and return the directory, whose logs are not opened yet."""
    identity = _check_meta_properties(disk, path, meta)
    marker = join(path, names.CLEAN_SHUTDOWN_FILE)
    was_clean = disk.stat(marker) is not None
    if was_clean:  # done first, so that a crash during loading is an unclean shutdown (KAFKA-10471)
        disk.delete(marker)
        disk.sync_directory(path)
    return LogManager(path, disk, identity, settings, settings_of, was_clean, now_ms)


def _open_manager(
    manager: LogManager, was_clean: Mapping[TopicPartition, bool], *, skips_unreadable: bool
) -> LogManager:
    problems: list[LogDirError] = []
    entries = tuple(_select_partitions(manager.disk.list_directory(manager.path)))
    paths = {name: join(manager.path, name) for name in names.OFFSET_CHECKPOINTS}
    offsets = {name: _read_checkpoint(manager.disk, path, problems) for name, path in paths.items()}
    try:
        _open_logs(manager, entries, offsets, was_clean, skips_unreadable=skips_unreadable)
    except BaseException:
        for log in manager.logs.values():
            log.abandon()
        raise
    points = offsets[names.RECOVERY_POINT_CHECKPOINT]
    has_directory = {name.topic_partition for _, name in entries}
    manager.written_partitions = frozenset(key for key, offset in points.items() if offset > 0) - has_directory
    cleaner_offsets = offsets[names.CLEANER_CHECKPOINT]
    manager.cleaner_offsets = {key: offset for key, offset in cleaner_offsets.items() if key in manager.logs}
    manager.problems = tuple(problems)
    return manager


def _open_logs(
    manager: LogManager,
    entries: Iterable[tuple[FileInfo, DirectoryName]],
    offsets: Mapping[str, Mapping[TopicPartition, int]],
    was_clean: Mapping[TopicPartition, bool],
    *,
    skips_unreadable: bool,
) -> None:
    settings_of, now_ms = manager.settings_of, manager.now_ms
    for entry, name in entries:
        key = name.topic_partition
        if name.state == "delete":
            manager._to_delete.append((entry.path, now_ms + settings_of(key).file_delete_delay_ms))
        elif not name.state:
            offsets_of_log = {file: values[key] for file, values in offsets.items() if key in values}
            try:
                manager.logs[key] = open_log(
                    entry.path,
                    settings=settings_of(key),
                    now_ms=now_ms,
                    disk=manager.disk,
                    checkpointed_offsets=CheckpointedState(was_clean.get(key, manager.was_clean), offsets_of_log),
                )
            except LogDirError as problem:
                if not skips_unreadable:
                    raise
                manager.unreadable[key] = problem


def _select_partitions(entries: list[FileInfo]) -> Iterator[tuple[FileInfo, DirectoryName]]:
    for entry in entries:
        name = DirectoryName.parse(entry.name) if entry.is_directory else None
        if name is not None and name.topic_partition.topic != names.CLUSTER_METADATA_TOPIC:
            yield entry, name


def _read_checkpoint(disk: OnlineDisk, path: str, problems: list[LogDirError]) -> dict[TopicPartition, int]:
    """Read a checkpoint. As in Kafka, a corrupt checkpoint is treated as empty, so that more is recovered."""
    if disk.stat(path) is None:
        return {}
    try:
        return read_offset_checkpoint(disk.read(path), file=path)
    except LogDirError as problem:
        problems.append(problem)
        return {}


def _check_meta_properties(disk: OnlineDisk, path: str, expected_properties: MetaProperties | None) -> MetaProperties:
    """Read ``meta.properties`` and compare it with ``expected_properties``; write it if it is missing."""
    file = join(path, names.META_PROPERTIES)
    if disk.stat(file) is None:
        if expected_properties is None:
            raise LogDirError("has no meta.properties; specify an identity (meta)", file=path)
        replace_file(disk, file, write_meta_properties(expected_properties))
        return expected_properties
    stored_properties = read_meta_properties(disk.read(file), file=file)
    for name, value in (expected_properties.values if expected_properties is not None else {}).items():
        if stored_properties.values.get(name, value) != value:
            raise LogDirError(f"{name} is {stored_properties.values[name]}; expected {value}", file=file)
    return stored_properties
