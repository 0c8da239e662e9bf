"""The base class of stream readers for logs and topics, from which Spark requests the end of the next micro-batch.

Spark keeps one reader for each query in a planner process, and writes offsets to its checkpoint before rows are read.
The class requires Spark 4.2 or later. Each stream has its own process, so this module imports neither source, to save
memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from kafkaframes.spark.runtime.micro_batches import FirstBatch, create_read_limit
from kafkaframes.spark.runtime.worker import hide_tracebacks
from kafkaframes.spark.sources.tasks import TaskReader

if TYPE_CHECKING:
    from kafkaframes.scan.columns import Column
    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.scan.ranges import Nested
    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.spark.sources.schemas import RowDecoding

_Options = TypeVar("_Options", bound="ReadOptions | TopicOptions")


@hide_tracebacks
class FollowingReader(TaskReader[_Options], DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The common part of stream readers: micro-batches are planned in the planner process and read in workers."""

    def __init__(self, options: _Options, columns: tuple[Column, ...], values: RowDecoding | None = None) -> None:
        super().__init__(options, columns, values)
        self.goal: Nested | None = None  # end of the run for Trigger.AvailableNow
        self.first = FirstBatch()

    def find_start(self) -> Nested:
        """Return the current start of a query without a checkpoint."""
        raise NotImplementedError

    def find_ends(self) -> Nested:
        """Return the current end offsets."""
        raise NotImplementedError

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as those below)
        """Return the start of a query without a checkpoint. Repeated calls return the same offsets."""
        return self.first.find_start(self.find_start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the options' limit for a micro-batch."""
        return create_read_limit(self.options)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the current end offsets for the query's progress."""
        return self.find_ends() if self.goal is None else self.goal

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Determine the end of this run.

        Later records are read by the next run.
        """
        self.goal = self.find_ends()
