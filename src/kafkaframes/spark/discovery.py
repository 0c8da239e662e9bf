"""From the paths of a ``load()`` to segments: what ``log.directory`` finds, flattened for planning. No pyspark."""

from __future__ import annotations

from collections.abc import Iterator

from kafkaframes.log.directory import Partition, discover
from kafkaframes.log.filesystem import has_magic, plain_path
from kafkaframes.spark.planning import Segment


def discover_segments(paths: tuple[str, ...]) -> list[Segment]:
    """Return every live segment under the paths.

    Renamed directories (``-delete``, ``-future``, ``-stray``) and temporary files are left out, unless the path
    leads to the file itself.

    Raises:
        LogDirError: a path does not exist, cannot be read or holds nothing of Kafka's.
    """
    named = {plain_path(path).rstrip("/") for path in paths if not has_magic(path)}
    return [
        segment
        for directory in discover(paths)
        for partition in directory.partitions
        for segment in _segments_of(partition, named)
    ]


def _segments_of(partition: Partition, named: set[str]) -> Iterator[Segment]:
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
        )
