"""``spark.readStream.format("kafka-log")``: a log directory that grows, followed. Needs Spark 4.2 or later.

Thin: ``following.py`` does the work. Spark keeps one of these readers alive in a planner process for each query, asks
it for the end of the next micro-batch, and writes offsets to its checkpoint before any row is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from kafkaframes.scan.columns import Column
from kafkaframes.scan.log.following import Ends, Follower
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.ranges import flat, nested
from kafkaframes.spark.decode_options import Values, decoded_rows
from kafkaframes.spark.micro_batches import FirstBatch, read_limit
from kafkaframes.spark.tasks import LogPartition, read_table
from kafkaframes.spark.worker import tells_plainly

if TYPE_CHECKING:
    import pyarrow as pa


@tells_plainly
class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the planner process, reads them in the workers."""

    def __init__(self, options: ReadOptions, columns: tuple[Column, ...], values: Values | None = None) -> None:
        self.options = options
        self.columns = columns
        self.values = values
        self.follower = Follower(options).checked()
        self.goal: Ends | None = None  # of Trigger.AvailableNow
        self.first = FirstBatch()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as those below)
        """Return where a query without a checkpoint starts."""
        return self.first.begin(lambda: nested(self.follower.start()))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return what the options allow a micro-batch."""
        return read_limit(self.options)

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends."""
        self.first.looked()
        limited = not isinstance(limit, ReadAllAvailable)
        result = self.follower.latest(
            flat(start),
            ends=self.goal,
            max_offsets=self.options.max_offsets_per_trigger if limited else None,
            max_bytes=self.options.max_bytes_per_trigger if limited else None,
        )
        return nested(result)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the ends of the log, for the query's progress."""
        return nested(self.follower.ends() if self.goal is None else self.goal)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of this run: what comes later is the next run's."""
        self.goal = self.follower.ends()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Share out a micro-batch."""
        self.first.check(start, end)  # Spark repeats a micro-batch that an earlier run planned
        plan = self.follower.plan(flat(start), flat(end), cores=os.cpu_count() or 1)
        return [LogPartition(work) for work in plan.works]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task as Arrow batches of about 1 MB."""
        assert isinstance(partition, LogPartition)
        yield from decoded_rows(read_table(partition.work, self.columns, self.options), self.values)
