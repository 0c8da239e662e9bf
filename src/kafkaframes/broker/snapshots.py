"""Everything that a broker holds, as a value: taken from its log directory, put back into one.

Indexes and checkpoints of offsets are left out: a broker that opens the copy recovers them from the batches, as after a
crash. What a test has set back is therefore what a restart would have found.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from kafkaframes.broker.metadata_file import FILE_NAME
from kafkaframes.broker.state import BrokerState
from kafkaframes.storage.files import names
from kafkaframes.storage.files.disk import Disk, LocalDisk
from kafkaframes.storage.files.filesystem import join, split
from kafkaframes.storage.files.memory_disk import MemoryDisk

MEMORY_DIRECTORY = "/memory"
_KEPT = (FILE_NAME, names.META_PROPERTIES, names.PARTITION_METADATA, names.LEADER_EPOCH_CHECKPOINT)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Files by their path in the log directory."""

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
