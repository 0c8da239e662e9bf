"""Find the files to dump under files, directories and patterns.

A directory may belong to a partition, be a broker's log directory, or be a parent of these. The files of a partition
are returned in the order of their names. A file that was passed itself is returned whatever its name is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafkaframes.errors import LogDirError, describe_missing_path
from kafkaframes.jobs.dump.names import FILE_KINDS, RECORD_FILES
from kafkaframes.storage.files.directory import UnreadablePartition
from kafkaframes.storage.files.filesystem import VIEW_SEPARATOR, FileInfo, FileSystem, plain_path, split_path
from kafkaframes.storage.files.names import DirectoryName, FileName, TopicPartition
from kafkaframes.storage.log.discover import (
    check_topics,
    discover,
    expand_pattern,
    find_filesystem,
    is_selected,
    to_view_path,
)
from kafkaframes.storage.tiered.filesystem import TieredFileSystem

MAX_NESTED_DEPTH = 4  # levels of directories below a path that are searched for partitions


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One file to dump.

    Attributes:
        kind: one of ``FILE_KINDS``, or "" if the name has no known kind.
        size_bytes: size when the file was listed. Files of a live log grow.
        merge_note: name of the log that was merged from copies and has this segment; "" for other files.
        offsets: range of the segment's offsets in the merged log, with an exclusive end; None for all.
    """

    filesystem: FileSystem
    path: str
    kind: str
    size_bytes: int
    merge_note: str = ""
    offsets: tuple[int, int] | None = None


def find_file_kind(name: str) -> str:
    """Return the kind of a file from its name without temporary suffixes, or "" if the name has no known kind.

    >>> find_file_kind("00000000000000000042.log.deleted"), find_file_kind("notes.txt")
    ('log', '')
    """
    file_name = FileName.parse(name)
    kind = file_name.kind if file_name else name.rpartition(".")[2]
    return kind if kind in FILE_KINDS else ""


def list_files_to_dump(
    paths: Iterable[str],
    *,
    kinds: Collection[str] = RECORD_FILES,
    temporary: bool = False,
    options: Mapping[str, Any] | None = None,
    unreadable: list[UnreadablePartition] | None = None,
) -> list[DumpFile]:
    """Return the files under ``paths``, in the order of the paths.

    Args:
        paths: files, directories or patterns, as local paths or URLs.
        kinds: kinds of the files that are returned from directories.
        temporary: whether ``.deleted``, ``.swap`` and ``.cleaned`` files are returned from directories.
        options: options of the object stores, and ``key_files`` for encrypted tiered segments.
        unreadable: list to which partitions that cannot be listed are added; if None, they raise an error.

    Raises:
        LogDirError: a path does not exist or cannot be read, or a directory has no such file.
    """
    path_list, result = list(paths), list[DumpFile]()
    for path_text in path_list:
        path = plain_path(path_text)
        filesystem = find_filesystem(path, options=options)
        for match in expand_pattern(filesystem, path):
            files = _list_files_at(
                filesystem, match, kinds, temporary=temporary, options=options, unreadable=unreadable
            )
            if files is None:  # the directory is not a partition: it is a tiered store, or has no log
                files = _list_store_files(path_list, kinds, options=options).pop(match.rstrip("/"), None)
            if files is None:
                raise LogDirError("does not contain a log directory, partition or segment of Kafka", file=path)
            result += files
    return result


def _list_store_files(
    paths: list[str], kinds: Collection[str], *, options: Mapping[str, Any] | None
) -> dict[str, list[DumpFile]]:
    """Return the files of tiered stores, by each parent path of their partitions.

    Log directories among the paths help to identify the stores' partitions.
    """
    result: dict[str, list[DumpFile]] = {}
    for directory in discover(paths, options=options):
        if isinstance(directory.filesystem, TieredFileSystem):
            for partition in directory.partitions:
                entries = directory.filesystem.list_directory(partition.directory)
                files = _select_files(directory.filesystem, entries, kinds, temporary=False)
                for parent in _list_parent_paths(partition.directory):
                    result.setdefault(parent, []).extend(files)
    return result


def _list_parent_paths(view_directory: str) -> list[str]:
    """Return the parent paths of a tiered store's partition: its folder, its topic's folder, and those above."""
    parents = [view_directory.partition(VIEW_SEPARATOR)[0]]
    while split_path(parents[-1])[0] not in (parents[-1], "."):
        parents.append(split_path(parents[-1])[0])
    return parents


def _list_files_at(
    filesystem: FileSystem,
    path: str,
    kinds: Collection[str],
    *,
    temporary: bool,
    options: Mapping[str, Any] | None,
    unreadable: list[UnreadablePartition] | None,
) -> list[DumpFile] | None:
    """Return the files at a path; None for a directory without partitions."""
    info = filesystem.stat(path)
    if info is None:
        raise LogDirError(describe_missing_path(path), file=path)
    if not info.is_directory:
        return [_open_single_file(filesystem, path, info, options)]
    unreadable_here: list[UnreadablePartition] = []
    partitions = list(_find_partitions(filesystem, path.rstrip("/") or "/", MAX_NESTED_DEPTH, unreadable_here))
    if unreadable_here and unreadable is None:
        raise unreadable_here[0].error
    if unreadable is not None:
        unreadable += unreadable_here
    if not partitions and not unreadable_here:
        return None
    return [file for entries in partitions for file in _select_files(filesystem, entries, kinds, temporary=temporary)]


def _open_single_file(filesystem: FileSystem, path: str, info: FileInfo, options: Mapping[str, Any] | None) -> DumpFile:
    """Return a file that was passed itself. For an object of a tiered segment, return the segment."""
    view = to_view_path(path, options=options)
    if view == path:
        return DumpFile(filesystem, path, find_file_kind(info.name), info.size_bytes)
    tiered_source = find_filesystem(view, options=options)
    result = tiered_source.stat(view)
    return DumpFile(tiered_source, view, find_file_kind(view), info.size_bytes if result is None else result.size_bytes)


def _select_files(
    filesystem: FileSystem, entries: Iterable[FileInfo], kinds: Collection[str], *, temporary: bool
) -> list[DumpFile]:
    """Return the files of these kinds."""
    return [
        DumpFile(filesystem, entry.path, find_file_kind(entry.name), entry.size_bytes)
        for entry in entries
        if _is_requested(entry, kinds, temporary=temporary)
    ]


def _is_requested(entry: FileInfo, kinds: Collection[str], *, temporary: bool) -> bool:
    """Return whether a directory entry is a file of the requested kinds."""
    name = None if entry.is_directory else FileName.parse(entry.name)
    return name is not None and name.kind in kinds and (temporary or not name.temporary)


def _find_partitions(
    filesystem: FileSystem, path: str, depth: int, unreadable: list[UnreadablePartition]
) -> Iterator[list[FileInfo]]:
    """Yield the directory entries of each partition at or under ``path``.

    Partitions that cannot be accessed are added to a list.
    """
    entries = filesystem.list_directory(path)
    if any(FileName.parse(entry.name) for entry in entries if not entry.is_directory):
        yield entries
        return
    directories = [entry for entry in entries if entry.is_directory]
    partitions = [entry for entry in directories if DirectoryName.parse(entry.name)]
    if partitions:
        for entry in partitions:
            try:
                yield filesystem.list_directory(entry.path)
            except LogDirError as error:
                name = DirectoryName.parse(entry.name)
                assert name is not None  # selected above
                unreadable.append(UnreadablePartition(name.topic_partition, entry.path, name.state, error))
    elif depth:
        for directory in directories:
            yield from _find_partitions(filesystem, directory.path, depth - 1, unreadable)


def select_files(
    files: list[DumpFile],
    unreadable: list[UnreadablePartition],
    topics: Collection[str],
    partitions: Collection[int],
) -> tuple[list[DumpFile], list[UnreadablePartition]]:
    """Return the files, and the unreadable partitions, of topics (names or patterns) and partition numbers.

    An empty collection selects all.

    Raises:
        OptionError: a topic does not exist.
    """
    if not topics and not partitions:
        return files, unreadable
    names = [DirectoryName.parse(split_path(split_path(file.path)[0])[1]) for file in files]
    readable_topics = (name.topic_partition.topic for name in names if name is not None)
    check_topics(topics, (*readable_topics, *(entry.topic_partition.topic for entry in unreadable)))

    def is_requested(name: TopicPartition) -> bool:
        return is_selected(name.topic, topics) and (not partitions or name.partition in partitions)

    selected_files = [
        file for file, name in zip(files, names, strict=True) if name is not None and is_requested(name.topic_partition)
    ]
    return selected_files, [entry for entry in unreadable if is_requested(entry.topic_partition)]
