"""Follow logs that grow: each call returns what was appended since the previous one, without waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kafkaframes.records.columns import ReadError, ReadOptions, RecordReader
from kafkaframes.records.scan import FILE
from kafkaframes.scan.rows import RowOrigin, rows_of, sources_of
from kafkaframes.scan.where import Where
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.names import INTERNAL_TOPICS, TopicPartition
from kafkaframes.storage.log.discover import discover, is_selected
from kafkaframes.storage.log.open_segment import open_planned


class Follower:
    """The position of a reader in each segment. Each copy of a partition is read by itself; there are no markers.

    Args:
        paths: log directories or partitions; new partitions and segments under them are read, too.
        topics: names or patterns; by default those that are not Kafka's own.
        columns: of the rows, as of ``kafkaframes.scan_log``.
        where: what rows are kept.
        storage: options of the stores.

    Attributes:
        errors: the damage so far; the caller clears it.
    """

    def __init__(
        self,
        paths: Sequence[str],
        topics: Sequence[str] = (),
        *,
        columns: Sequence[str],
        where: Where,
        storage: Mapping[str, Any],
    ) -> None:
        self.errors: list[ReadError] = []
        self._paths, self._topics, self._storage = list(paths), topics, storage
        self._columns, self._where = tuple(columns), where
        self._positions: dict[str, int] = {}
        self._options = ReadOptions(
            columns=sources_of(columns, where),
            control_records=False,
            rules=FILE,
            first_offset=where.offsets[0],
            end_offset=where.offsets[1],
        )

    def new(self) -> Iterator[pa.RecordBatch]:
        """Yield the records that were appended since the last call, partition by partition.

        Raises:
            LogDirError: a path cannot be read.
        """
        for directory in discover(self._paths, options=self._storage):
            for partition in directory.partitions:
                if partition.is_live and self._wants(partition.topic_partition):
                    for segment in partition.segments:
                        yield from self._rest_of(partition.topic_partition, segment)

    def _wants(self, of: TopicPartition) -> bool:
        is_hidden = not self._topics and of.topic in INTERNAL_TOPICS
        return (
            is_selected(of.topic, self._topics) and self._where.has_partition(of.topic, of.partition) and not is_hidden
        )

    def _rest_of(self, of: TopicPartition, segment: Segment) -> Iterator[pa.RecordBatch]:
        start = self._positions.get(segment.path, 0)
        if segment.size_bytes <= start:
            return
        origin = RowOrigin(of.topic, of.partition, segment.path)
        with open_planned(segment.path, segment.size_bytes, options=self._storage) as opened:
            reader = RecordReader(opened.source, self._options, errors=self.errors, start=start, end=segment.size_bytes)
            for batch in reader:
                rows = rows_of(batch, origin, self._columns, self._where)
                if rows is not None:
                    yield rows
        # An incomplete batch is still being written; it is read next time.
        is_torn = reader.end is not None and not reader.end.corrupt
        self._positions[segment.path] = reader.end.position if reader.end and is_torn else segment.size_bytes
