"""From the paths of a ``load()`` to segments: what ``storage/log/discover.py`` lists, flattened for planning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafkaframes.scan.log.planning import NO_START, Segment
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.directory import Segment as StoredFiles
from kafkaframes.storage.files.filesystem import FileSystem, has_magic, plain_path, split
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.log.discover import discover


@dataclass(frozen=True, slots=True)
class Log:
    """One topic partition, who answers for its files, and the log directory it was found in."""

    filesystem: FileSystem
    partition: Partition
    log_directory: LogDirectory | None = None


@dataclass(frozen=True, slots=True)
class FoundLogs:
    """What lies under the paths of a ``load()``.

    Attributes:
        segments: that can be read.
        by_directory: the partitions that they belong to.
        whole: False where the paths name files, so that the partitions' other segments are not known.
    """

    segments: list[Segment]
    by_directory: dict[str, Log]
    whole: bool


def discover_logs(paths: tuple[str, ...], *, storage: Mapping[str, Any] | None = None) -> FoundLogs:
    """Return every live segment under the paths, and the partitions.

    Renamed directories (``-delete``, ``-future``, ``-stray``) and temporary files are left out, unless the path
    leads to the file itself.

    Raises:
        LogDirError: a path does not exist, cannot be read or holds nothing of Kafka's.
    """
    named = {plain_path(path).rstrip("/") for path in paths if not has_magic(path)}
    segments: list[Segment] = []
    by_directory: dict[str, Log] = {}
    for directory in discover(paths, options=storage):
        for partition in directory.partitions:
            by_directory[partition.directory] = Log(directory.filesystem, partition, directory)
            segments += segments_of(partition, named)
    return FoundLogs(segments, by_directory, whole=not any(_names_a_file(path) for path in paths))


def _names_a_file(path: str) -> bool:
    name = split(plain_path(path))[1]
    return FileName.parse(name) is not None or ".log" in name or ".checkpoint" in name


def segments_of(partition: Partition, named: set[str]) -> Iterator[Segment]:
    """Yield the live segments of a partition, and those of any kind whose paths were ``named``."""
    is_named = partition.directory in named
    for segment in (*partition.segments, *partition.kraft_snapshots):
        file_named = segment.path in named
        if not (file_named or (segment.log.name.kind == "log" and (partition.is_live or is_named))):
            continue
        yield Segment(
            path=segment.path,
            size_bytes=segment.size_bytes,
            base_offset=segment.base_offset,
            topic=partition.topic,
            partition=partition.partition,
            directory=partition.directory,
            index_path=segment.index.path if segment.index else None,
            named=is_named or file_named,
            log_start_offset=_start(partition, segment),
            stored=segment,
            source=partition.log_directory,
        )


def _start(partition: Partition, segment: StoredFiles) -> int:
    """Return the log start offset where it cuts this segment; a temporary file or a snapshot has none."""
    is_log = segment.log.name.kind == "log" and not segment.log.name.temporary
    start = partition.log_start_offset
    return start if is_log and start > segment.base_offset else NO_START
