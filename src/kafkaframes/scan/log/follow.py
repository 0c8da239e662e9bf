"""Follow logs that grow: each call returns what was appended since the previous one, without waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kafkaframes.records.columns import ReadError, ReadOptions, RecordReader
from kafkaframes.records.scan import FILE
from kafkaframes.scan.log.records import TOPIC_COLUMNS, with_topic
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.names import INTERNAL_TOPICS, TopicPartition
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.open_segment import open_planned
from kafkaframes.storage.log.selection import is_selected


class Follower:
    """The position of a reader in each segment. Each copy of a partition is read by itself.

    Args:
        paths: log directories or partitions; new partitions and segments under them are found.
        topics: names or patterns; by default those that are not Kafka's own.
        partitions: numbers; none are all.
        storage: options of the stores.
        columns, mode, verify_crc, control_records, offsets, limit_bytes: as of ``kafkaframes.read_records``.

    Attributes:
        errors: the damage so far; the caller clears it.
    """

    def __init__(
        self,
        paths: Sequence[str],
        topics: Sequence[str] = (),
        partitions: Sequence[int] = (),
        *,
        storage: Mapping[str, Any],
        columns: Sequence[str],
        mode: str,
        verify_crc: bool,
        control_records: bool,
        offsets: tuple[int | None, int | None],
        limit_bytes: int | None,
    ) -> None:
        self.errors: list[ReadError] = []
        self._paths, self._topics, self._partitions, self._storage = list(paths), topics, partitions, storage
        self._places: dict[str, int] = {}
        options = ReadOptions(
            columns=tuple(name for name in columns if name not in TOPIC_COLUMNS),
            mode=mode,
            verify_crc=verify_crc,
            control_records=control_records,
            rules=FILE,
            first_offset=offsets[0],
            end_offset=offsets[1],
        )
        self._options = options if limit_bytes is None else options._replace(limit_bytes=limit_bytes)
        self._columns = tuple(columns)

    def new(self) -> Iterator[pa.RecordBatch]:
        """Yield the records that were appended since the last call, partition by partition.

        Raises:
            LogDirError: a path cannot be read.
        """
        for directory in discover(self._paths, options=self._storage):
            for one in directory.partitions:
                if one.is_live and self._wants(one.topic_partition):
                    for segment in one.segments:
                        yield from self._rest_of(one.topic_partition, segment)

    def _wants(self, of: TopicPartition) -> bool:
        is_hidden = not self._topics and of.topic in INTERNAL_TOPICS
        is_chosen = is_selected(of.topic, self._topics) and (not self._partitions or of.partition in self._partitions)
        return is_chosen and not is_hidden

    def _rest_of(self, of: TopicPartition, segment: Segment) -> Iterator[pa.RecordBatch]:
        start = self._places.get(segment.path, 0)
        if segment.size_bytes <= start:
            return
        with open_planned(segment.path, segment.size_bytes, options=self._storage) as opened:
            reader = RecordReader(opened.source, self._options, errors=self.errors, start=start, end=segment.size_bytes)
            yield from (with_topic(batch, of, self._columns) for batch in reader)
        is_torn = (
            reader.end is not None and not reader.end.corrupt
        )  # an incomplete batch is still being written; it is read next time
        self._places[segment.path] = reader.end.position if reader.end and is_torn else segment.size_bytes
