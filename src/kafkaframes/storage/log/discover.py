"""Find log directories, partitions, segments and their companion files under a path, and select topics and partitions.

A path of ``discover`` is a log directory, a directory of log directories, a partition directory, a segment, a KRaft
snapshot, or a pattern; it is local or a URL. ``discover`` lists names, sizes and modification times. The function reads
only the small text files (checkpoints and ids). If a small file is corrupt, ``problems`` reports it and the segments
are still listed. ``select_partitions`` selects topics and partitions by names, shell patterns and numbers.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from kafkaframes.errors import LogDirError, OptionError, describe_missing_path
from kafkaframes.storage.files import checkpoints, names
from kafkaframes.storage.files.checkpoints import CleanShutdown
from kafkaframes.storage.files.contents import HEAD_BYTES, describe_content
from kafkaframes.storage.files.directory import (
    LogDirectory,
    Partition,
    Segment,
    UnreadablePartition,
    build_partition,
    read_small_file,
)
from kafkaframes.storage.files.filesystem import (
    KEY_FILES_OPTION,
    VIEW_SEPARATOR,
    FileInfo,
    FileSystem,
    LocalFileSystem,
    get_store,
    has_wildcard,
    join,
    plain_path,
    split_path,
    wrap_filesystem,
)
from kafkaframes.storage.files.names import DirectoryName, FileName, TopicPartition, name_segment_file
from kafkaframes.storage.log.swaps import replace_by_swaps
from kafkaframes.storage.tiered.names import TieredObjectStore, find_store, make_store_from_objects

# ---------------------------------------------------------------------------------------------------------------------
# Find the file system of a path: the local disk, a store, or the view of tiered segments in a store.


def find_filesystem(path: str, *, options: Mapping[str, Any] | None = None) -> FileSystem:
    """Return the file system of ``path``: the object store of a URL, the local disk, or a view of tiered segments.

    Args:
        options: arguments of the store's constructor, with the names of fsspec; ``key_files`` is used for encrypted
            tiered segments.
    """
    store_options = dict(options or {})
    key_files = store_options.pop(KEY_FILES_OPTION, ())
    filesystem = get_store(path, options=store_options)
    if VIEW_SEPARATOR in path:
        from kafkaframes.storage.tiered import view  # imports decompression and manifests, which few paths need
        from kafkaframes.storage.tiered.names import ViewPath

        return view.make_tiered_filesystem(filesystem, key_files) if ViewPath.parse(path) is not None else filesystem
    return filesystem


def to_view_path(path: str, *, options: Mapping[str, Any] | None = None) -> str:
    """Return the view path of a tiered segment for the path of its ``.log`` object; other paths are unchanged.

    Raises:
        LogDirError: the manifest of the object is missing or cannot be read.
    """
    from kafkaframes.storage.tiered import names, view

    name = names.ObjectName.parse(split_path(path)[1])
    if name is None or name.suffix != names.LOG:
        return path
    main = path.removesuffix(f".{names.LOG}")
    filesystem = view.make_tiered_filesystem(find_filesystem(path, options=options))
    if filesystem.inner.stat(f"{main}.{names.MANIFEST}") is None:
        raise LogDirError("the object has no manifest, which is required to read it", file=path)
    owner = filesystem.read_manifest(main).metadata.topic_partition
    return str(names.ViewPath(main, str(owner), name_segment_file(name.base_offset, names.LOG)))


def to_object_path(path: str) -> str:
    """Return the path of the ``.log`` object for a view path, as ``discover`` accepts it; other paths are unchanged."""
    if VIEW_SEPARATOR not in path:
        return path
    from kafkaframes.storage.tiered import names

    view = names.ViewPath.parse(path)
    return path if view is None else view.object_path(names.LOG)


# ---------------------------------------------------------------------------------------------------------------------

_ParsedFile = TypeVar("_ParsedFile")
_REGEX_SIGNS = re.compile(r"\.\*|\.\+|[|^$()\\]")  # in regular expressions, but not in topic names or shell patterns
MAX_SEARCH_DEPTH = 4  # number of directory levels that are searched for log directories


def discover(
    paths: str | Iterable[str],
    *,
    filesystem: Any = None,
    options: Mapping[str, Any] | None = None,
    omit_unreadable: bool = False,
) -> tuple[LogDirectory, ...]:
    """Return all log directories under ``paths``, in the order of ``paths``.

    Args:
        filesystem: a ``FileSystem``, or a file system of fsspec or pyarrow, for all paths; None selects the file
            system of each path.
        options: arguments of the store's constructor for URLs, and ``key_files`` for encrypted tiered segments.
        omit_unreadable: whether a partition that cannot be read is omitted. The caller then has to report
            ``unreadable_partitions``. If False, such a partition is an error, because most jobs need all partitions.

    Raises:
        LogDirError: a path does not exist, cannot be read, or contains no Kafka log, or a pattern matches nothing.
    """
    listed_logs: list[LogDirectory | TieredObjectStore] = []
    for pattern in (paths,) if isinstance(paths, str) else paths:
        path = plain_path(str(pattern))
        source = find_filesystem(path, options=options) if filesystem is None else wrap_filesystem(filesystem)
        files: dict[str, list[str]] = {}
        for match in expand_pattern(source, path):
            if _find_existing(source, match).is_directory:
                listed_logs += _list_directory(source, match if match.strip("/") == "" else match.rstrip("/"))
            else:
                files.setdefault(split_path(match)[0], []).append(split_path(match)[1])
        for directory, entries in files.items():
            listed_logs.append(
                make_store_from_objects(source, directory, entries) or _select_named_files(source, directory, entries)
            )
    directories = _merge_directories(_build_store_views(listed_logs, options or {}))
    for unreadable_partition in chain.from_iterable(directory.unreadable_partitions for directory in directories):
        if not omit_unreadable:
            raise unreadable_partition.error
    return directories


def _build_store_views(
    listed_logs: list[LogDirectory | TieredObjectStore], options: Mapping[str, Any]
) -> list[LogDirectory]:
    """Return all log directories, with each tiered store as a log directory.

    The local directories contain information about the partitions of the stores.
    """
    directories = [listed_log for listed_log in listed_logs if isinstance(listed_log, LogDirectory)]
    if len(directories) == len(listed_logs):
        return directories
    from kafkaframes.storage.tiered import view  # imports decompression, which only tiered stores need

    knowledge = view.LocalPartitionInfo.from_directories(_merge_directories(directories))
    key_files = options.get(KEY_FILES_OPTION, ())
    return [
        listed_log
        if isinstance(listed_log, LogDirectory)
        else view.build_view(listed_log, knowledge, key_files=key_files)
        for listed_log in listed_logs
    ]


class CheckpointedState(NamedTuple):
    """The state of one partition according to the checkpoints of its log directory.

    Attributes:
        is_clean: whether the broker shut down cleanly.
        offsets: the partition's offset in each checkpoint, by file name.
    """

    is_clean: bool = True
    offsets: Mapping[str, int] = {}


def discover_partition(
    filesystem: FileSystem,
    path: str,
    checkpointed_offsets: CheckpointedState | None = None,
    *,
    entries: list[FileInfo] | None = None,
) -> LogDirectory:
    """Return the directory of one partition, which may be empty, with the checkpoints of its parent directory.

    Args:
        checkpointed_offsets: the partition's checkpoints; None reads them, which is slow if repeated for many
            partitions.
        entries: directory entries; None lists the directory.

    Raises:
        LogDirError: the directory does not exist or cannot be read.
    """
    entries = filesystem.list_directory(path) if entries is None else entries
    if checkpointed_offsets is not None:
        above, (is_clean, offsets) = split_path(path)[0], checkpointed_offsets
        partition = replace(build_partition(filesystem, path, entries, above, {}), checkpointed_offsets=offsets)
        marker = CleanShutdown() if is_clean else None
        return LogDirectory(above, filesystem, (partition,), clean_shutdown=marker, problems=partition.problems)
    log_directory = _read_single_partition(filesystem, path, entries)
    is_clean = filesystem.stat(join(log_directory.path, names.CLEAN_SHUTDOWN_FILE)) is not None
    return replace(log_directory, clean_shutdown=CleanShutdown() if is_clean else None)


def expand_pattern(filesystem: FileSystem, path: str) -> list[str]:
    """Return the paths that match a pattern, or the path itself if it exists or is not a pattern.

    Raises:
        LogDirError: nothing matches the pattern.
    """
    if not has_wildcard(path) or filesystem.stat(path) is not None:
        return [path]
    matches = filesystem.glob(path)
    if not matches:
        raise LogDirError("nothing matches the pattern", file=path)
    return matches


def _find_existing(filesystem: FileSystem, path: str) -> FileInfo:
    """Return the entry of a path; raise an error if it does not exist."""
    info = filesystem.stat(path)
    if info is None:
        raise LogDirError(describe_missing_path(path), file=path)
    return info


def _list_directory(filesystem: FileSystem, path: str) -> list[LogDirectory | TieredObjectStore]:
    """Return the log directories and tiered stores below a directory; raise an error if there are none."""
    directories = _find_logs_below(filesystem, path, filesystem.list_directory(path), MAX_SEARCH_DEPTH)
    if not directories:
        raise LogDirError("contains no Kafka log directory, partition or segment", file=path)
    return directories


def _find_logs_below(
    filesystem: FileSystem, path: str, entries: list[FileInfo], depth: int
) -> list[LogDirectory | TieredObjectStore]:
    """Return the log directories and tiered stores at a path, which may also be a partition or a parent directory."""
    if any(FileName.parse(entry.name) for entry in entries if not entry.is_directory):
        return [_read_partition_with_swaps(filesystem, path, entries)]
    directories = [entry for entry in entries if entry.is_directory]
    is_partition = (_is_partition(entry) and not _holds_directories(filesystem, entry) for entry in directories)
    if any(entry.name == names.META_PROPERTIES for entry in entries) or any(is_partition):
        return [_read_log_directory(filesystem, path, entries)]
    if DirectoryName.parse(split_path(path)[1]) and any(entry.name == names.PARTITION_METADATA for entry in entries):
        return [_read_partition_with_swaps(filesystem, path, entries)]
    store = find_store(filesystem, path, entries)
    if store is not None:
        return [store]
    if depth == 0:
        return []
    listed = ((entry.path, filesystem.list_directory(entry.path)) for entry in directories)
    return [found for child, inner in listed for found in _find_logs_below(filesystem, child, inner, depth - 1)]


def _is_partition(entry: FileInfo) -> bool:
    return DirectoryName.parse(entry.name) is not None


def _holds_directories(filesystem: FileSystem, entry: FileInfo) -> bool:
    """Return whether an entry contains directories; False if it cannot be listed.

    Such an entry is a log directory, even if its name (``broker-1``) looks like the name of a partition: a partition
    contains only files.
    """
    try:
        return any(inner.is_directory for inner in filesystem.list_directory(entry.path))
    except LogDirError:
        return False


def _read_log_directory(filesystem: FileSystem, path: str, entries: list[FileInfo]) -> LogDirectory:
    files = {entry.name: entry for entry in entries if not entry.is_directory}
    problems: list[LogDirError] = []

    def small(name: str, parse: Callable[..., _ParsedFile]) -> _ParsedFile | None:
        return read_small_file(filesystem, files.get(name), parse, problems)

    read = {name: small(name, checkpoints.read_offset_checkpoint) for name in names.OFFSET_CHECKPOINTS}
    offsets = {name: values for name, values in read.items() if values is not None}
    partitions: list[Partition] = []
    unreadable_partitions: list[UnreadablePartition] = []
    for entry in entries:
        name = DirectoryName.parse(entry.name) if entry.is_directory else None
        if name is None:
            continue
        try:
            listed = filesystem.list_directory(entry.path)
            partition = build_partition(filesystem, entry.path, listed, path, offsets)
            partitions.append(replace_by_swaps(filesystem, partition))
        except LogDirError as error:
            unreadable_partitions.append(UnreadablePartition(name.topic_partition, entry.path, name.state, error))
    meta = small(names.META_PROPERTIES, checkpoints.read_meta_properties)
    marker = small(names.CLEAN_SHUTDOWN_FILE, checkpoints.read_clean_shutdown)
    if marker is None and names.CLEAN_SHUTDOWN_FILE in files:
        marker = CleanShutdown()  # Kafka checks only that the file exists
    return LogDirectory(
        path=path,
        filesystem=filesystem,
        partitions=_sort_partitions(partitions),
        meta=meta,
        clean_shutdown=marker,
        offset_checkpoints=offsets,
        bootstrap=files.get("bootstrap.checkpoint"),
        problems=(*problems, *(problem for partition in partitions for problem in partition.problems)),
        unreadable_partitions=tuple(unreadable_partitions),
    )


def _sort_partitions(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    return tuple(
        sorted(partitions, key=lambda partition: (partition.topic_partition, partition.state, partition.directory))
    )


def _read_partition_with_swaps(filesystem: FileSystem, path: str, entries: list[FileInfo]) -> LogDirectory:
    """Return the log directory of one partition with finished swap files in place of the segments that they cover."""
    listed = _read_single_partition(filesystem, path, entries)
    return replace(listed, partitions=tuple(replace_by_swaps(filesystem, partition) for partition in listed.partitions))


def _read_single_partition(filesystem: FileSystem, path: str, entries: list[FileInfo]) -> LogDirectory:
    """Return the log directory of one partition, with the broker's checkpoints from the parent directory."""
    above = split_path(path)[0]
    problems: list[LogDirError] = []
    offsets: dict[str, Mapping[TopicPartition, int]] = {}
    for name in names.OFFSET_CHECKPOINTS:
        try:  # the user may have no permission to read the parent directory
            entry = filesystem.stat(join(above, name))
            values = read_small_file(filesystem, entry, checkpoints.read_offset_checkpoint, problems)
        except LogDirError as error:
            problems.append(error)
            continue
        if values is not None:
            offsets[name] = values
    partition = build_partition(filesystem, path, entries, above, offsets)
    return LogDirectory(
        above, filesystem, (partition,), offset_checkpoints=offsets, problems=(*problems, *partition.problems)
    )


def not_a_segment_error(filesystem: FileSystem, path: str) -> LogDirError:
    """Return the error for a file that is not a part of a log.

    The message describes the file and names the commands that read it.
    """
    content = describe_file(filesystem, path)
    reason = f"neither a directory, a segment (.log) nor a KRaft snapshot (.checkpoint), but {content}"
    return LogDirError(reason, file=path)


def describe_file(filesystem: FileSystem, path: str) -> str:
    """Return a description of a file, and which commands read it, as the end of an error message."""
    with filesystem.open(path) as read_at:
        return describe_content(bytes(read_at(0, HEAD_BYTES)), split_path(path)[1])


def _select_named_files(filesystem: FileSystem, directory: str, entries: list[str]) -> LogDirectory:
    """Return a partition with only the named segments and their companion files."""
    selected_names = set()
    for name in entries:
        file_name = FileName.parse(name)
        if file_name is None or file_name.kind not in ("log", "checkpoint"):
            raise not_a_segment_error(filesystem, join(directory, name))
        selected_names.add(file_name)
    listed_directory = _read_single_partition(filesystem, directory, filesystem.list_directory(directory))
    partition = listed_directory.partitions[0]
    temporary = tuple(Segment(file) for file in partition.temporary if file.name in selected_names)
    partial = replace(
        partition,
        segments=tuple(segment for segment in (*partition.segments, *temporary) if segment.log.name in selected_names),
        kraft_snapshots=tuple(
            snapshot for snapshot in partition.kraft_snapshots if snapshot.log.name in selected_names
        ),
        temporary=(),
        orphans=(),
    )
    return replace(listed_directory, partitions=(partial,))


def _merge_directories(directories: list[LogDirectory]) -> tuple[LogDirectory, ...]:
    """Merge the results of several paths (such as two segments or two partitions) in the same log directory."""
    by_path: dict[str, list[LogDirectory]] = {}
    for directory in directories:
        by_path.setdefault(directory.path, []).append(directory)
    return tuple(parts[0] if len(parts) == 1 else _join_directories(parts) for parts in by_path.values())


def _join_directories(parts: list[LogDirectory]) -> LogDirectory:
    """Join the parts of one log directory."""
    partitions: dict[str, list[Partition]] = {}
    for partition in (partition for part in parts for partition in part.partitions):
        partitions.setdefault(partition.directory, []).append(partition)
    # The main part is the directory with an identity or, without one, with the most partitions.
    main_part = max(parts, key=lambda part: (part.meta is not None, len(part.partitions)))
    problems = {str(problem): problem for part in parts for problem in part.problems}
    unreadable_partitions = {one.directory: one for part in parts for one in part.unreadable_partitions}
    return replace(
        main_part,
        partitions=_sort_partitions(map(_join_partitions, partitions.values())),
        problems=tuple(problems.values()),
        unreadable_partitions=tuple(unreadable_partitions.values()),
    )


def _join_partitions(copies: list[Partition]) -> Partition:
    """Join the parts of one partition: the segments and files of all of them."""
    return replace(
        copies[0],
        segments=_deduplicate_segments(segment for copy in copies for segment in copy.segments),
        kraft_snapshots=_deduplicate_segments(segment for copy in copies for segment in copy.kraft_snapshots),
        temporary=tuple({file.path: file for copy in copies for file in copy.temporary}.values()),
        replaced_segments=_deduplicate_segments(segment for copy in copies for segment in copy.replaced_segments),
        orphans=tuple({file.path: file for copy in copies for file in copy.orphans}.values()),
    )


def _deduplicate_segments(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    by_path = {segment.path: segment for segment in segments}
    return tuple(sorted(by_path.values(), key=lambda segment: (segment.base_offset, segment.path)))


# ---------------------------------------------------------------------------------------------------------------------
# Find symbolic links under the paths of a log, to report that they are not followed.


def find_links(paths: Iterable[str]) -> list[str]:
    """Return the symbolic links in local directories, down to the depth of the search for logs.

    Symbolic links in ``paths`` are followed, because the user chose them.
    """
    disk = LocalFileSystem()
    links: dict[str, None] = {}
    for pattern in paths:
        path = plain_path(pattern)
        if "://" in path:
            continue
        starts = disk.glob(path) if has_wildcard(path) and not os.path.exists(path) else [path]
        for start in starts:
            links |= dict.fromkeys(_find_links_below(start, MAX_SEARCH_DEPTH + 1))
    return list(links)


def _find_links_below(directory: str, depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return  # reading the log will report why the directory cannot be read
    for entry in entries:
        if entry.is_symlink():
            yield entry.path
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _find_links_below(entry.path, depth - 1)


def plain_directories(paths: Iterable[str]) -> set[str]:
    """Return paths as a file system expects them, without slashes at the end."""
    return {plain_path(path).rstrip("/") for path in paths}


def has_copies(directories: Iterable[LogDirectory], paths: Iterable[str]) -> bool:
    """Return whether a partition occurs more than once. Renamed directories count if a path leads to them.

    Only file names are needed. The code that merges copies, which reads headers, is therefore only imported for copies.
    """
    plain_paths = plain_directories(paths)
    names = [
        partition.topic_partition
        for directory in directories
        for partition in directory.partitions
        if partition.is_live or partition.directory in plain_paths
    ]
    return len(set(names)) < len(names)


def is_selected(topic: str, patterns: Collection[str]) -> bool:
    """Return whether a topic matches one of the names and patterns; without patterns, every topic matches.

    >>> is_selected("orders", ()), is_selected("orders", ("ord*",)), is_selected("orders", ("users",))
    (True, True, False)
    """
    return not patterns or topic in patterns or any(fnmatchcase(topic, pattern) for pattern in patterns)


def check_topics(patterns: Iterable[str], existing_topics: Iterable[str]) -> None:
    """Raise an error if a name or pattern matches no topic.

    Raises:
        OptionError: a name or pattern matches no topic; the message suggests a similar topic.
    """
    topics = sorted(set(existing_topics))
    for name in patterns:
        if not any(is_selected(topic, (name,)) for topic in topics):
            near = difflib.get_close_matches(name, topics, n=1)
            topic_list = ", ".join(topics[:10]) + (", ..." if len(topics) > 10 else "")
            hint = (
                "expected a name or a shell pattern, such as orders*, instead of a regular expression"
                if _REGEX_SIGNS.search(name)
                else f"did you mean {near[0]}?"
                if near
                else f"the logs contain {topic_list}"
                if topics
                else "the logs contain no topic"
            )
            raise OptionError(f"no topic {name}: {hint}")


def select_partitions(
    directories: Sequence[LogDirectory], topics: Collection[str] = (), partitions: Collection[int] = ()
) -> tuple[LogDirectory, ...]:
    """Return the directories with only the selected partitions.

    Args:
        topics: topic names or patterns; an empty collection selects all topics.
        partitions: partition numbers; an empty collection selects all partitions.

    Raises:
        OptionError: a topic does not exist, or no selected topic has a partition with one of the numbers.
    """
    readable_topics = (one.topic for directory in directories for one in directory.partitions)
    unreadable = (one for directory in directories for one in directory.unreadable_partitions)
    check_topics(topics, (*readable_topics, *(one.topic_partition.topic for one in unreadable)))

    def has_partition(name: TopicPartition) -> bool:
        return is_selected(name.topic, topics) and (not partitions or name.partition in partitions)

    selected_directories = tuple(
        replace(
            directory,
            partitions=tuple(one for one in directory.partitions if has_partition(one.topic_partition)),
            unreadable_partitions=tuple(
                one for one in directory.unreadable_partitions if has_partition(one.topic_partition)
            ),
        )
        for directory in directories
    )
    if partitions and not any(one.partitions or one.unreadable_partitions for one in selected_directories):
        raise OptionError(f"the selected topics have no partition {', '.join(map(str, sorted(partitions)))}")
    return selected_directories
