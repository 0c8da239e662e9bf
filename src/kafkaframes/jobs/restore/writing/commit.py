"""Commit a write to a log directory: the batches of all tasks become visible together, or none do.

A new log directory is written under another name and renamed (``storage/files/atomic.py``). If a directory is
overwritten, the old one is kept under another name until the new one has been renamed. To append, new segments are
prepared in a subdirectory, which is renamed when it is complete. The append is committed by this rename. If the commit
is killed afterwards, the next one moves the files that remain in the subdirectory. A broker does not start on a
directory with a half-finished append.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.convert.job import hold_broker_lock
from kafkaframes.jobs.job import Runner
from kafkaframes.jobs.micro_batch import StreamBatch
from kafkaframes.jobs.restore.cluster import (
    BOOTSTRAP_CHECKPOINT,
    CLEAN_SHUTDOWN_CONTENT,
    DirectoryNode,
    LogOffsets,
    TopicLayout,
    build_bootstrap_checkpoint,
    build_checkpoint_files,
    build_node_files,
    make_layouts,
    write_files,
)
from kafkaframes.jobs.restore.writing.marks import build_mark_files, is_committed
from kafkaframes.jobs.restore.writing.routing import WriteSettings
from kafkaframes.jobs.restore.writing.runs import PartitionTask, WrittenRun, write_partition
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.checkpoints import EpochStart, write_offset_checkpoint
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.local_disk import flush_path
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.lookup import log_end_offset
from kafkaframes.storage.log.producer_state import load_producer_states
from kafkaframes.storage.log.segment_writer import WrittenPartition

APPEND_DIRECTORY = ".kafkaframes-append"  # directory of the files that an append has prepared
_NEW_DIRECTORY_SUFFIX, _OLD_SUFFIX = ".kafkaframes-new", ".kafkaframes-old"
_UNLIMITED_RETENTION = {"retention.ms": "-1"}  # otherwise a broker deletes records older than a week on startup


@dataclass(frozen=True, slots=True)
class TargetState:
    """The state of the output directory when the write began.

    Attributes:
        path: path that is local or visible to all workers.
        exists: whether there is a log directory.
        counts: number of partitions by topic.
    """

    path: str
    exists: bool
    counts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def inspect_target(cls, path: str) -> TargetState:
        """Read the state of a path.

        Raises:
            LogDirError: the path is not a log directory, or its broker did not shut down cleanly.
            OptionError: the path is not local.
        """
        if "://" in path and not path.startswith("file:"):
            raise OptionError(
                f"{path}: kafka-log can only write to file system paths that all workers share, not to object stores"
            )
        target_path = Path(path.removeprefix("file://").removeprefix("file:"))
        if not target_path.exists() or (target_path.is_dir() and not any(target_path.iterdir())):
            return cls(str(target_path), False)
        counts: dict[str, int] = {}
        for partition in _check_directory(target_path).partitions:
            counts[partition.topic] = max(counts.get(partition.topic, 0), partition.partition + 1)
        return cls(str(target_path), True, counts)


def _check_directory(top: Path) -> LogDirectory:
    """Return the log directory at a path, after checking that it may be written to."""
    if not top.is_dir() or not (top / names.RECOVERY_POINT_CHECKPOINT).exists():
        reason = f"exists, and is not a log directory (it does not have {names.RECOVERY_POINT_CHECKPOINT})"
        raise LogDirError(reason, file=str(top))
    if not (top / names.CLEAN_SHUTDOWN_FILE).exists() and not (top / APPEND_DIRECTORY).exists():
        reason = (
            "the broker did not shut down cleanly (.kafka_cleanshutdown is missing); start and stop the broker, "
            "or recover the log"
        )
        raise LogDirError(reason, file=str(top))
    directories = [directory for directory in discover(str(top)) if Path(directory.path) == top]
    if directories:
        return directories[0]
    return LogDirectory(str(top), LocalFileSystem())


@dataclass(frozen=True, slots=True)
class RunCommitter:
    """Moves the runs of all tasks into a log directory.

    Attributes:
        overwrite: whether to remove the existing contents.
        new_id: function that returns the id of a new topic.
        run: function that runs one task for each partition.
        batch: micro-batch of a stream; None for other writes. A micro-batch that is already committed is skipped.
    """

    target: TargetState
    settings: WriteSettings
    overwrite: bool
    new_id: Callable[[], str]
    run: Runner
    batch: StreamBatch | None = None

    def commit(self, runs: Sequence[WrittenRun]) -> dict[TopicPartition, WrittenPartition]:
        """Write the partitions. ``runs`` are in log order.

        Raises:
            LogDirError: another job or a broker is using the directory, it has changed since the write began, or a file
                cannot be written. In these cases, the log is unchanged.
        """
        top = Path(self.target.path)
        with atomic.hold_lock(top):
            finish_exchange(top)
            if self._finish_earlier_commit(top):
                return {}
            if not self.target.exists and not (top.exists() and any(top.iterdir())):
                return self._write_new_directory(top, runs)
            if self.overwrite:
                return self._replace_directory(top, runs)
            return self._append_to_directory(top, runs)

    def _finish_earlier_commit(self, top: Path) -> bool:
        """Return whether this micro-batch is already committed, after finishing a killed commit.

        A micro-batch that overwrites the directory is always written again, because it determines all contents.
        """
        if self.batch is None or self.overwrite:
            return False
        if (top / APPEND_DIRECTORY).exists():
            with hold_broker_lock(top):
                finish_append(top)
        return is_committed(top, self.batch)

    # --------------------------------------------------------------------------------------------- a new directory

    def _write_new_directory(self, top: Path, runs: Sequence[WrittenRun]) -> dict[TopicPartition, WrittenPartition]:
        """Write the runs to a directory that is empty or does not exist."""
        with atomic.name_path_in_errors(top):
            if top.exists():
                top.rmdir()  # the directory is empty
        with atomic.write_directory(top) as directory:
            return self._write_directory(directory, runs, marks=top)

    def _replace_directory(self, top: Path, runs: Sequence[WrittenRun]) -> dict[TopicPartition, WrittenPartition]:
        """Write a new directory next to the old one, exchange their names, and remove the old one."""
        _check_directory(top)
        new_path, old_path = (top.with_name(top.name + suffix) for suffix in (_NEW_DIRECTORY_SUFFIX, _OLD_SUFFIX))
        with atomic.name_path_in_errors(new_path), hold_broker_lock(top):
            if new_path.exists():  # output of a killed commit
                shutil.rmtree(new_path)
            with atomic.write_directory(new_path) as directory:
                written_partitions = self._write_directory(directory, runs, marks=top)
            top.rename(old_path)
            new_path.rename(top)
            flush_path(top.parent)
            shutil.rmtree(old_path)
        return written_partitions

    def _write_directory(
        self, directory: Path, runs: Sequence[WrittenRun], *, marks: Path
    ) -> dict[TopicPartition, WrittenPartition]:
        """Write a whole log directory. ``marks`` is the directory that the new one replaces."""
        tasks = list(self._make_tasks(directory, runs, {}, {}))
        written_partitions = self._write_partitions(tasks)
        ends = {
            partition: LogOffsets(
                written_partition.log_start_offset, written_partition.log_start_offset, written_partition.log_end_offset
            )
            for partition, written_partition in written_partitions.items()
        }
        write_files(directory, build_checkpoint_files(ends))
        node = DirectoryNode(
            node_id=self.settings.node_id,
            cluster_id=self.settings.cluster_id or self.new_id(),
            directory_id=self.new_id(),
        )
        layouts = _make_layouts(
            (task.partition, task.topic_id, written_partitions[task.partition].epochs) for task in tasks
        )
        write_files(directory, build_node_files(node, layouts, now_ms=self.settings.now_ms))
        write_files(directory, build_mark_files(marks, self.batch))
        write_files(directory, iter([(atomic.SUCCESS_FILE, b"")]))
        return written_partitions

    def _make_tasks(
        self,
        directory: Path,
        runs: Sequence[WrittenRun],
        existing_partitions: Mapping[TopicPartition, Partition],
        ids: Mapping[str, str],
    ) -> Iterator[PartitionTask]:
        """Yield the tasks of all partitions that have rows, and of the empty partitions of new topics."""
        by_partition: dict[TopicPartition, list[WrittenRun]] = {}
        for run in runs:
            by_partition.setdefault(run.partition, []).append(run)
        known_ids = dict(ids)
        for partition in sorted(self._add_empty_partitions(by_partition)):
            if partition in existing_partitions and partition not in by_partition:
                continue
            topic = partition.topic
            known_ids.setdefault(topic, self.settings.topic_ids.get(topic) or self.new_id())
            partition_path = directory / str(partition)
            with atomic.name_path_in_errors(partition_path):
                partition_path.mkdir()
            task = PartitionTask(
                partition,
                str(partition_path),
                tuple(by_partition.get(partition, ())),
                self.settings,
                topic_id=known_ids[topic],
                leader_epoch=0,
            )
            yield (
                _continue_partition(task, existing_partitions[partition], self.settings.now_ms)
                if partition in existing_partitions
                else task
            )

    def _write_partitions(self, tasks: Sequence[PartitionTask]) -> dict[TopicPartition, WrittenPartition]:
        return {task.partition: one for task, one in zip(tasks, self.run(write_partition, tasks), strict=True)}

    def _add_empty_partitions(self, by_partition: Mapping[TopicPartition, Any]) -> set[TopicPartition]:
        """Return the partitions to write, with the empty ones of new topics."""
        topics = {topic_partition.topic for topic_partition in by_partition} | (
            {self.settings.topic} if self.settings.topic else set()
        )
        partitions = set(by_partition)
        for topic in topics:
            min_count = 0 if any(topic_partition.topic == topic for topic_partition in by_partition) else 1
            count = self.settings.partitions.get(topic, self.settings.num_partitions or min_count)
            partitions |= {TopicPartition(topic, number) for number in range(count)}
        return partitions

    # --------------------------------------------------------------------------------------- behind what is there

    def _append_to_directory(self, top: Path, runs: Sequence[WrittenRun]) -> dict[TopicPartition, WrittenPartition]:
        """Append the runs to an existing log directory."""
        with hold_broker_lock(top):
            finish_append(top)
            log = _check_directory(top)
            existing_partitions = {
                partition.topic_partition: partition for partition in log.partitions if partition.is_live
            }
            ids = {
                partition.topic: partition.metadata.topic_id
                for partition in log.partitions
                if partition.is_live and partition.metadata is not None
            }
            with _prepare_directory(top / APPEND_DIRECTORY) as directory:
                tasks = list(self._make_tasks(directory, runs, existing_partitions, ids))
                written_partitions = self._write_partitions(tasks)
                write_files(directory, _move_checkpoints(log, written_partitions))
                write_files(directory, self._build_metadata(log, existing_partitions, tasks, written_partitions))
                write_files(directory, build_mark_files(top, self.batch))
            finish_append(top)
        return written_partitions

    def _build_metadata(
        self,
        log: LogDirectory,
        existing_partitions: Mapping[TopicPartition, Partition],
        tasks: Sequence[PartitionTask],
        written_partitions: Mapping[TopicPartition, WrittenPartition],
    ) -> Iterator[tuple[str, bytes]]:
        """Yield the metadata records that register new partitions, for a directory on which no node has started yet.

        Raises:
            LogDirError: a node has already started on the directory. It would treat the new partitions as stray.
        """
        new_tasks = [task for task in tasks if task.partition not in existing_partitions]
        if not new_tasks or (log.bootstrap is None and not _has_metadata(log)):
            return
        if _has_metadata(log) or log.meta is None:
            reason = (
                f"{new_tasks[0].partition} is unknown to the cluster of this directory; create the topic in the "
                "cluster first, then append"
            )
            raise LogDirError(reason, file=log.path)
        committed_partitions = [
            (
                partition.topic_partition,
                partition.metadata.topic_id if partition.metadata else None,
                tuple(partition.leader_epochs or ()),
            )
            for partition in existing_partitions.values()
        ]
        committed_partitions += [
            (task.partition, task.topic_id, written_partitions[task.partition].epochs) for task in new_tasks
        ]
        names_of_node = ("node.id", "cluster.id", "directory.id")
        node_id, cluster_id, directory_id = (log.meta.values.get(name, "") for name in names_of_node)
        node = DirectoryNode(node_id=int(node_id), cluster_id=cluster_id, directory_id=directory_id)
        yield (
            BOOTSTRAP_CHECKPOINT,
            build_bootstrap_checkpoint(_make_layouts(committed_partitions), node, now_ms=self.settings.now_ms),
        )


def _has_metadata(log: LogDirectory) -> bool:
    return any(one.topic == names.CLUSTER_METADATA_TOPIC for one in log.partitions)


def _continue_partition(task: PartitionTask, partition: Partition, now_ms: int) -> PartitionTask:
    """Return the task of an existing partition, which appends at the log end offset."""
    filesystem = LocalFileSystem()
    end = log_end_offset(filesystem, partition)
    epochs = tuple(partition.leader_epochs or ())
    producers = load_producer_states(filesystem, partition, now_ms=now_ms, end_offset=end)
    return replace(
        task,
        start_offset=end,
        topic_id=None if partition.metadata is None else task.topic_id,
        leader_epoch=epochs[-1].leader_epoch if epochs else 0,
        epochs=epochs,
        producers=producers,
    )


def _make_layouts(
    partitions: Iterable[tuple[TopicPartition, str | None, tuple[EpochStart, ...]]],
) -> list[TopicLayout]:
    """Return the topics to register with a controller. The retention of these topics is unlimited."""
    ids: dict[str, str] = {}
    latest: dict[TopicPartition, int] = {}
    for partition, topic_id, epochs in sorted(partitions, key=lambda row: row[0]):
        if topic_id is not None:
            ids[partition.topic] = topic_id
            latest[partition] = epochs[-1].leader_epoch if epochs else 0
    return make_layouts(latest, ids, dict.fromkeys(ids, _UNLIMITED_RETENTION), {})


def _move_checkpoints(
    log: LogDirectory, written_partitions: Mapping[TopicPartition, WrittenPartition]
) -> Iterator[tuple[str, bytes]]:
    """Yield the files that mark the appended records as flushed and committed."""
    ends = {partition: written_partition.log_end_offset for partition, written_partition in written_partitions.items()}
    for name in (names.RECOVERY_POINT_CHECKPOINT, names.HIGH_WATERMARK_CHECKPOINT):
        yield name, write_offset_checkpoint(dict(log.offset_checkpoints.get(name, {})) | ends)
    mark = Path(log.path, names.CLEAN_SHUTDOWN_FILE)
    yield names.CLEAN_SHUTDOWN_FILE, mark.read_bytes() if mark.exists() else CLEAN_SHUTDOWN_CONTENT


@contextmanager
def _prepare_directory(committed_path: Path) -> Iterator[Path]:
    """Yield an empty directory, which is renamed to ``committed_path`` when it is complete."""
    unfinished_path = committed_path.with_name(committed_path.name + atomic.UNFINISHED)
    with atomic.name_path_in_errors(unfinished_path):
        if unfinished_path.exists():  # output of a killed commit
            shutil.rmtree(unfinished_path)
        unfinished_path.mkdir()
    try:
        yield unfinished_path
        with atomic.name_path_in_errors(committed_path):
            atomic.sync_directories(unfinished_path)
            unfinished_path.rename(committed_path)
            flush_path(committed_path.parent)
    except BaseException:
        shutil.rmtree(unfinished_path, ignore_errors=True)
        raise


def finish_append(top: Path) -> None:
    """Move prepared files to their final paths. This also completes a commit that was killed.

    The clean shutdown file is removed first and written last.

    Raises:
        LogDirError: a file cannot be moved. The next call continues the move.
    """
    committed_path = top / APPEND_DIRECTORY
    if not committed_path.exists():
        return
    with atomic.name_path_in_errors(top):
        (top / names.CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
        for source in sorted(committed_path.iterdir()):
            if source.is_dir():
                final_path = top / source.name
                final_path.mkdir(exist_ok=True)
                for file in sorted(source.iterdir()):
                    file.replace(final_path / file.name)
                flush_path(final_path)
                source.rmdir()
        for source in sorted(committed_path.iterdir(), key=lambda path: path.name == names.CLEAN_SHUTDOWN_FILE):
            source.replace(top / source.name)
        flush_path(top)
        committed_path.rmdir()


def finish_exchange(top: Path) -> None:
    """Finish the exchange of an overwritten directory, if a commit was killed during it.

    Raises:
        LogDirError: a directory cannot be renamed.
    """
    new_path, old_path = (top.with_name(top.name + suffix) for suffix in (_NEW_DIRECTORY_SUFFIX, _OLD_SUFFIX))
    with atomic.name_path_in_errors(top):
        if not top.exists() and old_path.exists():
            (new_path if new_path.exists() else old_path).rename(top)
            flush_path(top.parent)
        if top.exists() and old_path.exists():
            shutil.rmtree(old_path)
