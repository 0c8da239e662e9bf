"""What a broker begins with: its own data directory, or directories and stores that it only reads."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any

from kafkaframes.broker.arguments import Paths
from kafkaframes.broker.metadata_file import FILE_NAME
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.store_reads import StoreReads
from kafkaframes.errors import OptionError
from kafkaframes.storage.copies.decisions import MERGE, REPLICAS
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogDirectory, Remark, Served
from kafkaframes.storage.files.disk import Disk
from kafkaframes.storage.files.filesystem import VIEW_MARK, LocalFileSystem, join, plain_path, split
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.local_disk import LocalDisk
from kafkaframes.storage.files.memory_disk import MemoryDisk
from kafkaframes.storage.files.names import META_PROPERTIES
from kafkaframes.storage.log.discover import discover, filesystem_for
from kafkaframes.storage.partition import LogManager


def paths_of(paths: Paths | None) -> tuple[str, ...]:
    """Return what is to be served as texts; nothing for None."""
    if paths is None:
        return ()
    return (fspath(paths),) if isinstance(paths, str | PathLike) else tuple(fspath(path) for path in paths)


def serve_paths(paths: Sequence[str], *, replicas: str = MERGE, options: Mapping[str, Any] | None = None) -> Served:
    """Show what lies under paths as one log directory; ``copies.served_tree`` names the files that lie elsewhere.

    Args:
        paths: log directories, partitions' directories, directories of such, tiered stores; on a disk or by URL.
        replicas: ``merge``: of several copies of a partition one log is made, as ``read_records`` does; ``all``: a
            broker has each partition once, so that several copies are refused.

    Raises:
        LogDirError: a path holds nothing of Kafka's, or copies are of different topics or clusters.
        OptionError: no path, no such word for ``replicas``, or several copies although they are not to be merged.
    """
    if not paths or replicas not in REPLICAS:
        raise OptionError(f"directories are served with replicas {' or '.join(REPLICAS)}, not {replicas!r}")
    storage = dict(options or {})
    directories = discover(paths, options=storage)
    plain = plain_path(paths[0]).rstrip("/")
    if len(paths) == len(directories) == 1 and directories[0].path == plain and not _is_of_store(directories[0]):
        return Served(plain, filesystem_for(plain, options=storage))
    from kafkaframes.storage.copies.served_tree import show_as_one

    named = {plain_path(path).rstrip("/") for path in paths}
    root_files = (META_PROPERTIES, FILE_NAME)
    return show_as_one(directories, named, merge=replicas == MERGE, options=storage, root_files=root_files)


def served_of(
    paths: Sequence[str], *, replicas: str, options: Mapping[str, Any] | None
) -> tuple[Served | None, StoreReads | None]:
    """Return what ``serve_paths`` shows, None of no paths; a store is read in threads, and returned, too."""
    if not paths:
        return None, None
    served = serve_paths(paths, replicas=replicas, options=options)
    if isinstance(served.filesystem, LocalFileSystem):
        return served, None
    store = StoreReads(served.filesystem)
    return replace(served, filesystem=store), store


def not_served(logs: LogManager) -> tuple[Remark, ...]:
    """Say what lies in a log directory and is not served: logs that cannot be read, what recovery cuts off, and what a
    reader has met since; then which small files are treated as missing, because they cannot be read.

    A broker keeps the batches of a segment up to the first that is not whole, and nothing behind it (LogLoader).
    """
    lines = [f"error: not served: {one}" for one in logs.unreadable.values()]
    for key, log in logs.logs.items():
        if log.bytes_lost:
            at = log.whole_until
            where = f", from byte {at[1]:,} of {at[0]} on" if at is not None else ""
            what = f"error: {key}: {log.bytes_lost:,} bytes are not served{where}"
            lines.append(f"{what}: a broker's recovery drops them; kafkaframes repair keeps their whole batches")
        for path, position in log.torn.items():
            what = f"error: {key}: {path} cannot be read from byte {position:,} on"
            lines.append(f"{what}: a batch there is longer than the file; kafkaframes repair keeps what follows it")
    ignored = [f"warning: left out: {problem}" for problem in logs.problems]
    return (
        *(Remark(Severity.ERROR, line) for line in lines),
        *(Remark(Severity.WARNING, line) for line in ignored),
    )


def _is_of_store(directory: LogDirectory) -> bool:
    return any(VIEW_MARK in one.directory for one in directory.partitions)


async def open_in_thread(open_state: Callable[[], BrokerState]) -> BrokerState:
    """Open what is served in a thread: a store may take long, and the loop may be somebody's.

    What is opened when nobody waits any more is let go.
    """
    opening = asyncio.get_running_loop().run_in_executor(None, open_state)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_let_go_at_once)
        raise


def _let_go_at_once(opening: asyncio.Future[BrokerState]) -> None:
    """Let go what was opened for somebody who waits no more."""
    if not opening.cancelled() and opening.exception() is None:
        state = opening.result()
        state.logs.abandon()
        if state.store is not None:
            state.store.close()


MEMORY_DIRECTORY = "/memory"
_KEPT = (FILE_NAME, names.META_PROPERTIES, names.PARTITION_METADATA, names.LEADER_EPOCH_CHECKPOINT)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a broker holds: files by their path in the log directory.

    Indexes and checkpoints of offsets are left out: a broker that opens the copy recovers them, as after a crash.
    """

    files: dict[str, bytes]


def take_snapshot(state: BrokerState) -> Snapshot:
    """Copy what a broker's logs and topics are made of."""
    disk, root = state.logs.disk, state.logs.path
    state.logs.checkpoint_all()
    files = {}
    for entry in disk.list_directory(root):
        inside = disk.list_directory(entry.path) if entry.is_directory else [entry]
        for file in inside:
            name = file.path[len(root) :].lstrip("/")
            if file.name in (*_KEPT, names.LOG_START_CHECKPOINT) or file.name.endswith((".log", ".txnindex")):
                files[name] = disk.read(file.path)
    return Snapshot(files)


def put_snapshot(snapshot: Snapshot, data_dir: str | None) -> Disk:
    """Write a snapshot into an empty directory, in memory or in place of what ``data_dir`` holds; return the disk."""
    disk: Disk = MemoryDisk() if data_dir is None else LocalDisk()
    root = data_dir or MEMORY_DIRECTORY
    if data_dir is not None:
        for name in os.listdir(root):
            path = os.path.join(root, name)
            (shutil.rmtree if os.path.isdir(path) else os.unlink)(path)
    disk.make_directory(root)
    for name, content in snapshot.files.items():
        path = join(root, name)
        disk.make_directory(split(path)[0])
        file = disk.open_file(path, is_private=name == FILE_NAME)
        file.write(0, content)
        file.close()
    return disk
