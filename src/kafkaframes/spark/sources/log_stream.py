"""``spark.readStream.format("kafka-log")``, which follows a growing log directory. Requires Spark 4.2 or later.

``following.py`` implements it. Spark keeps one reader for each query in a planner process, requests the end of the next
micro-batch from it, and writes offsets to its checkpoint before rows are read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from kafkaframes.scan.columns import Column
from kafkaframes.scan.log.following import LogFollower
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.ranges import Nested, flatten_topics, nest_by_topic
from kafkaframes.scan.stream_offsets import StreamOffsets
from kafkaframes.spark.runtime.worker import hide_tracebacks
from kafkaframes.spark.sources.following_reader import FollowingReader
from kafkaframes.spark.sources.schemas import RowDecoding
from kafkaframes.spark.sources.tasks import read_table


@hide_tracebacks
class KafkaLogStreamReader(FollowingReader[ReadOptions]):
    """A Spark stream reader for a log directory."""

    read_work = staticmethod(read_table)

    def __init__(self, options: ReadOptions, columns: tuple[Column, ...], values: RowDecoding | None = None) -> None:
        super().__init__(options, columns, values)
        self.follower = LogFollower(options).check_options()

    def find_start(self) -> Nested:
        """Return the start offsets of the options."""
        return self.follower.find_start_offsets().to_json()

    def find_ends(self) -> Nested:
        """Return the current end offsets of the log."""
        return nest_by_topic(self.follower.find_end_offsets())

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return the end of the next micro-batch."""
        self.first.record_lookup()
        is_limited = not isinstance(limit, ReadAllAvailable)
        start_offsets = StreamOffsets.from_json(start)
        result = self.follower.find_batch_end(
            start_offsets,
            ends=None if self.goal is None else flatten_topics(self.goal),
            max_offsets=self.options.max_offsets_per_trigger if is_limited else None,
            max_bytes=self.options.max_bytes_per_trigger if is_limited else None,
            is_first=self.first.is_first_batch(start),
        )
        is_same = (
            result.offsets == start_offsets.offsets
            and all(start_offsets.ids.get(name, id_) == id_ for name, id_ in result.ids.items())
            and all(start_offsets.fingerprints.get(name, rows) == rows for name, rows in result.fingerprints.items())
        )  # adding ids or fingerprints to old checkpoints needs no micro-batch
        return dict(start) if is_same else result.to_json()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch."""
        self.first.check_batch(start, end)  # Spark repeats a micro-batch that an earlier run planned
        start_offsets, end_offsets = StreamOffsets.from_json(start), StreamOffsets.from_json(end)
        plan = self.follower.plan_batch(start_offsets, end_offsets, cores=os.cpu_count() or 1)
        return [InputPartition(work) for work in plan.works]
