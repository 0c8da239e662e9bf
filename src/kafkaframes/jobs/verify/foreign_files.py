"""Report files and directories in a log directory that no broker creates, and how a broker treats them."""

from __future__ import annotations

from collections.abc import Iterator

from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import FileInfo, FileSystem
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.files.names import DirectoryName, FileName

_OURS = ("_SUCCESS", "group-offsets.csv", ".kafkaframes-streams")  # of a restore, a rewrite, a stream
_OF_DIRECTORIES = frozenset(
    (
        names.META_PROPERTIES,
        names.CLEAN_SHUTDOWN,
        names.BROKER_LOCK,
        *names.OFFSET_CHECKPOINTS,
        "bootstrap.checkpoint",
        *_OURS,
    )
)
_OF_PARTITIONS = frozenset(
    (names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA, "quorum-state", "remote_log_snapshot", *_OURS)
)
_INDEX_CACHE = "remote-log-index-cache"  # the one directory beside partitions that LogManager leaves out


def foreign_files(directory: LogDirectory) -> Iterator[Finding]:
    """Yield a finding for each entry of a log directory and its partitions that no broker creates.

    A broker does not start on a directory that is not named like a partition (``LogManager.loadLogs``,
    ``UnifiedLog.parseTopicPartitionName``); files that it does not know it passes over.
    """
    if directory.meta is not None:
        yield from _in_directory(directory)
    for partition in directory.partitions:
        yield from _in_partition(directory.filesystem, partition)


def _in_directory(directory: LogDirectory) -> Iterator[Finding]:
    for entry in directory.filesystem.list_directory(directory.path):
        if not entry.is_directory:
            yield from _file(entry, _OF_DIRECTORIES)
        elif entry.name != _INDEX_CACHE and DirectoryName.parse(entry.name) is None:
            message = "a directory that is not named topic-partition: a broker does not start with it"
            yield Finding(Severity.WARNING, "unexpected", message, entry.path)


def _in_partition(filesystem: FileSystem, partition: Partition) -> Iterator[Finding]:
    for entry in filesystem.list_directory(partition.directory):
        if entry.is_directory:
            yield Finding(Severity.NOTE, "unexpected", "a directory in a partition's", entry.path)
        elif FileName.parse(entry.name) is None:
            yield from _file(entry, _OF_PARTITIONS)


def _file(entry: FileInfo, known: frozenset[str]) -> Iterator[Finding]:
    if entry.name.removesuffix(".tmp") not in known:
        yield Finding(Severity.NOTE, "unexpected", "a file that no broker writes", entry.path)
