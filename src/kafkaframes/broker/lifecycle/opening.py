"""Open log directories and tiered stores that a broker serves read-only, and take and restore snapshots."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafkaframes.broker.lifecycle.arguments import Paths
from kafkaframes.broker.state.metadata_file import METADATA_FILE_NAME
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.store_reads import StoreFileSystem
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.storage.copies.decisions import MERGE, REPLICA_MODES
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogDirectory, Remark, ServedDirectory
from kafkaframes.storage.files.disk import Disk
from kafkaframes.storage.files.filesystem import VIEW_SEPARATOR, LocalFileSystem, join, plain_path, split_path
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.local_disk import LocalDisk
from kafkaframes.storage.files.memory_disk import MemoryDisk
from kafkaframes.storage.files.names import META_PROPERTIES
from kafkaframes.storage.files.paths import to_path_list
from kafkaframes.storage.log.discover import discover, find_filesystem
from kafkaframes.storage.partition import LogManager


def to_path_tuple(paths: Paths | None) -> tuple[str, ...]:
    """Return the paths to serve as a tuple of texts; empty for None."""
    return () if paths is None else tuple(to_path_list(paths))


def serve_paths(
    paths: Sequence[str], *, replicas: str = MERGE, options: Mapping[str, Any] | None = None
) -> ServedDirectory:
    """Combine log directories and tiered stores into one read-only log directory.

    Args:
        paths: log directories, partition directories, directories that contain them, or tiered stores; local paths or
            URLs.
        replicas: policy if a partition has several copies. ``merge``: combine the copies, as ``read_records`` does.
            ``all``: reject several copies, because a broker serves one log for each partition.

    Raises:
        LogDirError: a path contains no Kafka data, or copies belong to different topics or clusters.
        OptionError: ``paths`` is empty, ``replicas`` is unknown, or there are several copies with ``all``.
    """
    if not paths or replicas not in REPLICA_MODES:
        raise OptionError(f"replicas is {replicas!r}; expected {' or '.join(REPLICA_MODES)}")
    storage = dict(options or {})
    directories = discover(paths, options=storage)
    plain = plain_path(paths[0]).rstrip("/")
    if len(paths) == len(directories) == 1 and directories[0].path == plain and not _is_of_store(directories[0]):
        return ServedDirectory(plain, find_filesystem(plain, options=storage))
    from kafkaframes.storage.copies.served_tree import present_as_one_directory

    plain_paths = {plain_path(path).rstrip("/") for path in paths}
    root_files = (META_PROPERTIES, METADATA_FILE_NAME)
    return present_as_one_directory(
        directories, plain_paths, merge=replicas == MERGE, options=storage, root_files=root_files
    )


def open_served_logs(
    paths: Sequence[str], *, replicas: str, options: Mapping[str, Any] | None
) -> tuple[ServedDirectory | None, StoreFileSystem | None]:
    """Return the result of ``serve_paths`` (None without paths), and the reader of a store that is not local."""
    if not paths:
        return None, None
    served_logs = serve_paths(paths, replicas=replicas, options=options)
    if isinstance(served_logs.filesystem, LocalFileSystem):
        return served_logs, None
    store = StoreFileSystem(served_logs.filesystem)
    return replace(served_logs, filesystem=store), store


def find_unserved_data(logs: LogManager) -> tuple[Remark, ...]:
    """Return findings about data in a log directory that is not served.

    Findings are unreadable logs, a failure that took the directory offline, data that recovery drops, and damage that
    later reads have detected. The last findings are warnings about small files that are ignored because they cannot be
    read. Like Kafka's LogLoader, a broker serves the batches of a segment up to the first incomplete batch.
    """
    lines = [f"error: not served: {log_error}" for log_error in logs.unreadable.values()]
    if logs.disk.failure is not None:
        lines.append(f"error: the log directory is offline, so nothing can be written to it: {logs.disk.failure}")
    for key, log in logs.logs.items():
        if log.bytes_lost:
            end = log.whole_until
            position_text = "" if end is None else f", from byte {end[1]:,} of {end[0]} on"
            loss = f"{count_text(log.bytes_lost, 'byte')} {verb_text(log.bytes_lost)}"
            loss_text = f"error: {key}: {loss} not served{position_text}"
            lines.append(f"{loss_text}: a broker's recovery drops them; kafkaframes repair keeps their whole batches")
        for path, position in log.torn.items():
            loss_text = f"error: {key}: {path} cannot be read from byte {position:,} on"
            remedy = "`kafkaframes repair` keeps the data after it"
            lines.append(f"{loss_text}: a batch there is longer than the file; {remedy}")
    warnings = [f"warning: not served: {problem}" for problem in logs.problems]
    return (
        *(Remark(Severity.ERROR, line) for line in lines),
        *(Remark(Severity.WARNING, line) for line in warnings),
    )


def _is_of_store(directory: LogDirectory) -> bool:
    return any(VIEW_SEPARATOR in one.directory for one in directory.partitions)


async def open_in_thread(open_state: Callable[[], BrokerState]) -> BrokerState:
    """Open the state of a broker in a thread: opening a store may be slow, and must not block the event loop.

    If the caller is cancelled, the state is closed as soon as it is open.
    """
    state_future = asyncio.get_running_loop().run_in_executor(None, open_state)
    try:
        return await asyncio.shield(state_future)
    except asyncio.CancelledError:
        state_future.add_done_callback(_close_abandoned)
        raise


def _close_abandoned(state_future: asyncio.Future[BrokerState]) -> None:
    """Close the state that a cancelled caller no longer needs."""
    if not state_future.cancelled() and state_future.exception() is None:
        state = state_future.result()
        state.logs.abandon()
        if state.store is not None:
            state.store.close()


MEMORY_DIRECTORY = "/memory"
_PRESERVED_FILES = (METADATA_FILE_NAME, names.META_PROPERTIES, names.PARTITION_METADATA, names.LEADER_EPOCH_CHECKPOINT)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of a broker's data: files by their path in the log directory.

    Indexes and offset checkpoints are excluded. A broker that opens the copy recovers indexes and checkpoints, as after
    a crash.
    """

    files: dict[str, bytes]


def take_snapshot(state: BrokerState) -> Snapshot:
    """Copy the files of a broker's logs and metadata."""
    disk, root = state.logs.disk, state.logs.path
    state.logs.checkpoint_all()
    files = {}
    for entry in disk.list_directory(root):
        entries = disk.list_directory(entry.path) if entry.is_directory else [entry]
        for file in entries:
            name = file.path[len(root) :].lstrip("/")
            if file.name in (*_PRESERVED_FILES, names.LOG_START_CHECKPOINT) or file.name.endswith(
                (".log", ".txnindex")
            ):
                files[name] = disk.read(file.path)
    return Snapshot(files)


def write_snapshot(snapshot: Snapshot, data_dir: str | None) -> Disk:
    """Write a snapshot to memory, or to ``data_dir``, whose files it replaces; return the disk."""
    disk: Disk = MemoryDisk() if data_dir is None else LocalDisk()
    root = data_dir or MEMORY_DIRECTORY
    if data_dir is not None:
        for name in os.listdir(root):
            path = os.path.join(root, name)
            (shutil.rmtree if os.path.isdir(path) else os.unlink)(path)
    disk.make_directory(root)
    for name, content in snapshot.files.items():
        path = join(root, name)
        disk.make_directory(split_path(path)[0])
        file = disk.open_file(path, is_private=name == METADATA_FILE_NAME)
        file.write(0, content)
        file.close()
    return disk
