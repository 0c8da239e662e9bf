"""``spark.readStream.format("kafka-log")``: a log directory that grows, followed. Needs Spark 4.2 or later.

Thin: ``following.py`` does the work. Spark keeps one of these readers alive in a planner process for each query, asks
it for the end of the next micro-batch, and writes offsets to its checkpoint before any row is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from kafkaframes.scan.columns import Column
from kafkaframes.scan.log.following import Follower
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.ranges import Nested, flat, nested
from kafkaframes.scan.stream_offsets import StreamOffsets
from kafkaframes.spark.decode_options import Values
from kafkaframes.spark.following_reader import FollowingReader
from kafkaframes.spark.tasks import read_table
from kafkaframes.spark.worker import tells_plainly


@tells_plainly
class KafkaLogStreamReader(FollowingReader[ReadOptions]):
    """Follows a log directory."""

    read_work = staticmethod(read_table)

    def __init__(self, options: ReadOptions, columns: tuple[Column, ...], values: Values | None = None) -> None:
        super().__init__(options, columns, values)
        self.follower = Follower(options).checked()

    def start(self) -> Nested:
        """Return what the options say."""
        ids = self.follower.ids()
        return StreamOffsets(self.follower.start(), ids).to_json()

    def ends(self) -> Nested:
        """Return the ends of the log."""
        return nested(self.follower.ends())

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return where the next micro-batch ends."""
        self.first.looked()
        limited = not isinstance(limit, ReadAllAvailable)
        at = StreamOffsets.from_json(start)
        result = self.follower.next_offsets(
            at,
            ends=None if self.goal is None else flat(self.goal),
            max_offsets=self.options.max_offsets_per_trigger if limited else None,
            max_bytes=self.options.max_bytes_per_trigger if limited else None,
            is_first=self.first.is_at(start),
        )
        is_same = result.offsets == at.offsets and all(at.ids.get(name, id_) == id_ for name, id_ in result.ids.items())
        return dict(start) if is_same else result.to_json()  # a checkpoint without ids makes no empty micro-batch

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Share out a micro-batch."""
        self.first.check(start, end)  # Spark repeats a micro-batch that an earlier run planned
        at, goal = StreamOffsets.from_json(start), StreamOffsets.from_json(end)
        begins = self.follower.drop_recreated(dict(at.offsets), at.ids, goal.ids)
        ends = self.follower.drop_recreated(dict(goal.offsets), goal.ids, self.follower.ids())
        plan = self.follower.plan(begins, ends, cores=os.cpu_count() or 1)
        return [InputPartition(work) for work in plan.works]
