"""A log that is new has no files: its directory is made when it is first written to, as its first append begins.

A topic of many partitions costs memory only until then, and a partition without a directory is an empty one. Nothing is
flushed here: until the first flush of a log a crash may leave any part of it, and recovery begins at its first batch.
That flush puts the directories on the disk, too.
"""

from __future__ import annotations

from kafkaframes.errors import LogDirError, StorageError
from kafkaframes.storage.files import names
from kafkaframes.storage.files.checkpoints import PartitionMetadata, write_partition_metadata
from kafkaframes.storage.files.disk import OnlineDisk, write_whole
from kafkaframes.storage.files.filesystem import join, split
from kafkaframes.storage.partition.epochs import LeaderEpochs
from kafkaframes.storage.partition.producers import Producers
from kafkaframes.storage.partition.segment import LogSegment
from kafkaframes.storage.partition.settings import LogSettings
from kafkaframes.storage.partition.state import LogState, Segments, Snapshots


def new_state(
    disk: OnlineDisk, directory: str, *, settings: LogSettings, now_ms: int, topic_id: str | None
) -> LogState:
    """Return the state of a new, empty log, of which nothing is on the disk yet.

    Raises:
        LogDirError: the name is not that of a partition, or the directory exists.
    """
    name = names.DirectoryName.parse(split(directory)[1])
    if name is None:
        raise LogDirError("is not named <topic>-<partition>", file=directory)
    if disk.stat(directory) is not None:
        raise LogDirError("exists already", file=directory)
    return LogState(
        disk=disk,
        directory=directory,
        topic_partition=name.topic_partition,
        settings=settings,
        segments=Segments([LogSegment(disk, directory, 0, size_bytes=0, now_ms=now_ms)]),
        epochs=LeaderEpochs(disk, directory, ()),
        producers=Producers(expiration_ms=settings.producer_id_expiration_ms),
        snapshots=Snapshots(disk, directory, ()),
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        last_flush_ms=now_ms,
        topic_id=topic_id,
        has_files=False,
        is_linked=False,
    )


def prepare(state: LogState, *, now_ms: int) -> None:
    """Make the active segment ready for an append: with its files, if the log has none yet, and open.

    Raises:
        StorageError: the disk fails; where it lacks space only, there is no directory again.
    """
    active = state.segments.active
    if state.has_files:
        active.activate(state.settings)
        return
    active.created_ms = now_ms
    try:
        _make_files(state, active)
    except StorageError:
        active.release()
        state.disk.back_online(lambda: remove_directory(state.disk, state.directory))
        raise
    state.has_files = True


def _make_files(state: LogState, active: LogSegment) -> None:
    disk, directory = state.disk, state.directory
    disk.make_directory(directory)
    active.activate(state.settings, is_new=True)
    disk.open_file(join(directory, names.LEADER_EPOCH_CHECKPOINT)).close()
    if state.topic_id is not None:
        raw = write_partition_metadata(PartitionMetadata(state.topic_id))
        write_whole(disk, join(directory, names.PARTITION_METADATA), raw, is_flushed=False)


def remove_directory(disk: OnlineDisk, path: str) -> None:
    """Remove a directory with the files in it, if it is there.

    Raises:
        StorageError: the disk fails.
    """
    if disk.stat(path) is not None:
        for file in disk.list_directory(path):
            disk.delete(file.path)
        disk.delete(path)
