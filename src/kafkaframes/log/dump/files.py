"""Which files a dump is about: what was named, and what lies in a directory that was named.

A directory may be a partition's, a broker's log directory, or one that holds such. Its files are taken in the order of
their names, partition by partition. A file that is named itself is taken whatever its name is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from kafkaframes.errors import LogDirError
from kafkaframes.log.filesystem import FileInfo, FileSystem, filesystem_for, has_magic, plain_path
from kafkaframes.log.names import DirectoryName, FileName

RECORDS = ("log", "checkpoint")
INDEXES = ("index", "timeindex")
STATES = ("snapshot", "txnindex")
KINDS = (*RECORDS, *INDEXES, *STATES)
NESTED_DEPTH = 4


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One file to dump.

    Attributes:
        filesystem: who reads it.
        path: how it was found; what is printed about it.
        kind: one of ``KINDS``, or empty where the name says none.
        size_bytes: when it was listed; a live log grows.
    """

    filesystem: FileSystem
    path: str
    kind: str
    size_bytes: int


def kind_of(name: str) -> str:
    """Return the kind that a file's name says, temporary suffixes aside; empty where it says none.

    >>> kind_of("00000000000000000042.log.deleted"), kind_of("bootstrap.checkpoint"), kind_of("notes.txt")
    ('log', 'checkpoint', '')
    """
    parsed = FileName.parse(name)
    kind = parsed.kind if parsed else name.rpartition(".")[2]
    return kind if kind in KINDS else ""


def files_to_dump(paths: Iterable[str], *, kinds: Collection[str] = RECORDS, temporary: bool = False) -> list[DumpFile]:
    """Return the files under ``paths``, in the order in which they were named.

    Args:
        paths: files, directories, patterns; on a disk or by URL.
        kinds: which files of a directory are wanted.
        temporary: whether a directory's ``.deleted``, ``.swap`` and ``.cleaned`` files are wanted too.

    Raises:
        LogDirError: a path does not exist or cannot be read, or a directory holds no such file.
    """
    found: list[DumpFile] = []
    for given in paths:
        path = plain_path(given)
        filesystem = filesystem_for(path)
        for match in _expand(filesystem, path):
            found += _under(filesystem, match, kinds, temporary=temporary)
    return found


def _expand(filesystem: FileSystem, path: str) -> list[str]:
    if not has_magic(path) or filesystem.stat(path) is not None:
        return [path]
    matches = filesystem.glob(path)
    if not matches:
        raise LogDirError("nothing matches the pattern", file=path)
    return matches


def _under(filesystem: FileSystem, path: str, kinds: Collection[str], *, temporary: bool) -> list[DumpFile]:
    info = filesystem.stat(path)
    if info is None:
        raise LogDirError("no such file or directory", file=path)
    if not info.is_directory:
        return [DumpFile(filesystem, path, kind_of(info.name), info.size_bytes)]
    partitions = list(_partitions(filesystem, path.rstrip("/") or "/", NESTED_DEPTH))
    if not partitions:
        raise LogDirError("holds no log directory, partition or segment of Kafka's", file=path)
    return [
        DumpFile(filesystem, entry.path, kind_of(entry.name), entry.size_bytes)
        for entries in partitions
        for entry in entries
        if _is_wanted(entry, kinds, temporary=temporary)
    ]


def _is_wanted(entry: FileInfo, kinds: Collection[str], *, temporary: bool) -> bool:
    name = None if entry.is_directory else FileName.parse(entry.name)
    return name is not None and name.kind in kinds and (temporary or not name.temporary)


def _partitions(filesystem: FileSystem, path: str, depth: int) -> Iterator[list[FileInfo]]:
    """Yield the entries of every partition's directory at or under ``path``."""
    entries = filesystem.list_directory(path)
    if any(FileName.parse(entry.name) for entry in entries if not entry.is_directory):
        yield entries
        return
    directories = [entry for entry in entries if entry.is_directory]
    partitions = [entry for entry in directories if DirectoryName.parse(entry.name)]
    if partitions:
        yield from (filesystem.list_directory(entry.path) for entry in partitions)
    elif depth:
        for entry in directories:
            yield from _partitions(filesystem, entry.path, depth - 1)
