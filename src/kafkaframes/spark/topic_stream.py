"""``spark.readStream.format("kafka-topic")``: live topics, followed. Needs Spark 4.2 or later.

Thin: ``topic_following.py`` does the work; ``stream.py`` says how Spark treats such a reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from kafkaframes.scan.columns import Column
from kafkaframes.scan.ranges import Nested
from kafkaframes.scan.topic.following import TopicFollower, flat, ids_in, nested
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import Offsets
from kafkaframes.spark.decode_options import Values, decoded_rows
from kafkaframes.spark.micro_batches import FirstBatch, read_limit
from kafkaframes.spark.tasks import TopicPart, read_topic
from kafkaframes.spark.worker import tells_plainly

if TYPE_CHECKING:
    import pyarrow as pa


@tells_plainly
class KafkaTopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the planner process, reads them in the workers."""

    def __init__(self, options: TopicOptions, columns: tuple[Column, ...], values: Values | None = None) -> None:
        self.options = options
        self.columns = columns
        self.values = values
        self.goal: Offsets | None = None  # of Trigger.AvailableNow
        self.first = FirstBatch()
        self._follower: TopicFollower | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_follower": None}  # tasks need no connections of the planner's

    @property
    def follower(self) -> TopicFollower:
        """What asks the cluster; it lives in the planner process."""
        if self._follower is None:
            self._follower = TopicFollower(self.options)
        return self._follower

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as those below)
        """Return where a query without a checkpoint starts."""

        def begin() -> Nested:
            ids = self.follower.ids()
            return nested(self.follower.start(), ids)

        return self.first.begin(begin)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return what the options allow a micro-batch."""
        return read_limit(self.options)

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends."""
        self.first.looked()
        least = self.options.min_offsets_per_trigger is not None
        limited = least or not isinstance(limit, ReadAllAvailable)
        ids = self.follower.ids()
        begin = self.follower.still_there(flat(start), ids_in(start), ids)
        end = self.follower.latest(begin, goal=self.goal, limited=limited)
        return dict(start) if end == flat(start) else nested(end, ids)  # a checkpoint without ids gets no empty batch

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the ends of the topics, for the query's progress."""
        return nested(self.follower.ends() if self.goal is None else self.goal)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of this run: what comes later is the next run's."""
        self.goal = self.follower.ends()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Share out a micro-batch."""
        self.first.check(start, end)  # Spark repeats a micro-batch that an earlier run planned
        begin = self.follower.still_there(flat(start), ids_in(start), ids_in(end))
        known = self.follower.still_there(flat(end), ids_in(end), self.follower.ids())
        return [TopicPart(work) for work in self.follower.plan(begin, known)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task as Arrow batches of about 1 MB."""
        yield from decoded_rows(read_topic(partition, self.columns, self.options), self.values)

    def stop(self) -> None:
        """End the connections."""
        if self._follower is not None:
            self._follower.close()
