"""``spark.readStream.format("kafka-topic")``: live topics, followed. Needs Spark 4.2 or later.

Thin: ``topic/following.py`` does the work; ``stream.py`` says how Spark treats such a reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from kafkaframes.scan.ranges import Nested
from kafkaframes.scan.topic.following import TopicFollower, flat, ids_in, nested
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.spark.stream import FollowingReader
from kafkaframes.spark.tasks import read_topic
from kafkaframes.spark.worker import tells_plainly


@tells_plainly
class KafkaTopicStreamReader(FollowingReader[TopicOptions]):
    """Follows live topics."""

    read_work = staticmethod(read_topic)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the planner's connections out: tasks need none of them."""
        return {name: value for name, value in self.__dict__.items() if name != "follower"}

    @cached_property
    def follower(self) -> TopicFollower:
        """What asks the cluster; it lives in the planner process."""
        return TopicFollower(self.options)

    def start(self) -> Nested:
        """Return what the options say, with the ids of the topics."""
        ids = self.follower.ids()
        return nested(self.follower.start(), ids)

    def ends(self) -> Nested:
        """Return the ends of the topics."""
        return nested(self.follower.ends())

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return where the next micro-batch ends."""
        self.first.looked()
        least = self.options.min_offsets_per_trigger is not None
        limited = least or not isinstance(limit, ReadAllAvailable)
        ids = self.follower.ids()
        begin = self.follower.still_there(flat(start), ids_in(start), ids)
        goal = None if self.goal is None else flat(self.goal)
        end = self.follower.latest(begin, goal=goal, limited=limited)
        return dict(start) if end == flat(start) else nested(end, ids)  # a checkpoint without ids gets no empty batch

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Share out a micro-batch."""
        self.first.check(start, end)  # Spark repeats a micro-batch that an earlier run planned
        begin = self.follower.still_there(flat(start), ids_in(start), ids_in(end))
        known = self.follower.still_there(flat(end), ids_in(end), self.follower.ids())
        return [InputPartition(work) for work in self.follower.plan(begin, known)]

    def stop(self) -> None:
        """End the connections."""
        if "follower" in self.__dict__:
            self.follower.close()
