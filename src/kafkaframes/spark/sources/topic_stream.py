"""``spark.readStream.format("kafka-topic")``, which follows live topics. Requires Spark 4.2 or later.

``topic/following.py`` implements it. ``following_reader.py`` describes how Spark uses the reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from kafkaframes.scan.ranges import Nested
from kafkaframes.scan.stream_offsets import AbsentPartition, StreamOffsets
from kafkaframes.scan.topic.following import TopicFollower, TopicListing, key_by_name, key_by_partition
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import Offsets
from kafkaframes.spark.runtime.worker import hide_tracebacks
from kafkaframes.spark.sources.following_reader import FollowingReader
from kafkaframes.spark.sources.tasks import read_topic


@hide_tracebacks
class KafkaTopicStreamReader(FollowingReader[TopicOptions]):
    """A Spark stream reader for live topics."""

    read_work = staticmethod(read_topic)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the planner's connections, which tasks do not need."""
        return {name: value for name, value in self.__dict__.items() if name != "follower"}

    @cached_property
    def follower(self) -> TopicFollower:
        """The planner of the stream, which exists only in the planner process."""
        return TopicFollower(self.options)

    def find_start(self) -> Nested:
        """Return the start offsets of the options, with the topic ids."""
        ids = self.follower.list_partitions().ids
        return StreamOffsets(key_by_name(self.follower.find_start_offsets()), ids).to_json()

    def find_ends(self) -> Nested:
        """Return the current end offsets of the topics."""
        return StreamOffsets(key_by_name(self.follower.find_end_offsets())).to_json()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return the end of the next micro-batch; ``start`` itself if no partition has new offsets.

        Therefore neither topics that are missing in the metadata nor a checkpoint without topic ids cause a
        micro-batch.
        """
        self.first.record_lookup()
        has_min_offsets = self.options.min_offsets_per_trigger is not None
        is_limited = has_min_offsets or not isinstance(limit, ReadAllAvailable)
        start_offsets = StreamOffsets.from_json(start)
        listing = self.follower.list_partitions(is_expected=bool(start_offsets.offsets))
        begins, absent = self.follower.find_resume_offsets(start_offsets, listing)
        goal = self._find_available_run_end(listing)
        ends = self.follower.find_batch_end(
            begins, goal=goal, is_limited=is_limited, is_first=self.first.is_first_batch(start)
        )
        if all(begins.get(partition) == end for partition, end in ends.items()):
            return dict(start)
        for partition, offset in begins.items():
            if partition not in ends:
                topic_id = start_offsets.ids.get(partition.topic, listing.ids.get(partition.topic, ""))
                absent[partition.topic, partition.partition] = AbsentPartition(topic_id, offset)
        return StreamOffsets(key_by_name(ends), listing.ids, absent).to_json()

    def _find_available_run_end(self, listing: TopicListing) -> Offsets | None:
        """Return the end of this AvailableNow run in the listed partitions; None for other triggers."""
        if self.goal is None:
            return None
        if not self.goal and listing.partitions:  # brokers listed no partitions when the run began
            self.goal = self.find_ends()
        offsets, goal_offsets = key_by_partition(StreamOffsets.from_json(self.goal).offsets), set(listing.partitions)
        return {partition: offset for partition, offset in offsets.items() if partition in goal_offsets}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch."""
        self.first.check_batch(start, end)  # Spark repeats a micro-batch that an earlier run planned
        start_offsets, end_offsets = StreamOffsets.from_json(start), StreamOffsets.from_json(end)
        begins = self.follower.find_planned_start(start_offsets, end_offsets)
        listing = self.follower.list_partitions(is_expected=bool(end_offsets.offsets))
        ends = self.follower.drop_recreated_topics(key_by_partition(end_offsets.offsets), end_offsets.ids, listing.ids)
        works = self.follower.plan_batch(begins, ends, is_first=self.first.is_first_batch(start))
        return [InputPartition(work) for work in works]

    def stop(self) -> None:
        """Close the connections."""
        if "follower" in self.__dict__:
            self.follower.close()
