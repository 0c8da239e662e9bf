"""A query builder for logs, ``kafkaframes.spark.read_log(spark, path)``; its methods set options of ``kafka-log``.

A query is immutable. Each method returns a new query, so that several queries can be derived from one, and each is read
by a ``load()`` of its own. Spark's own ways to derive queries are worse. One DataFrame with several ``where`` calls
reads all data each time, and with ``pushFilters`` it would return wrong rows (``tests/spark/test_push_filters.py``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkaframes.errors import OptionError
from kafkaframes.scan.where import Instant, to_milliseconds
from kafkaframes.storage.files.paths import to_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkaframes.scan.log.resolve import ReadPlan

PerPartition = Mapping[str, Mapping[int, int]]


def read_log(spark: SparkSession | None, *paths: str | os.PathLike[str]) -> LogQuery:
    """Return a query of the logs under ``paths``.

    Args:
        spark: Session. ``plan()`` does not need a session.
        paths: Log directories, partition directories, segments, patterns or URLs.
    """
    return LogQuery(spark, tuple(map(to_path, paths)), {})


@dataclass(frozen=True, slots=True)
class LogQuery:
    """An immutable query of logs, created by ``read_log``."""

    spark: SparkSession | None
    paths: tuple[str, ...]
    options: Mapping[str, str]

    def option(self, name: str, value: str | int | bool) -> LogQuery:
        """Return a query with an option of ``kafka-log``."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return replace(self, options={**self.options, name: text})

    def topics(self, *names: str) -> LogQuery:
        """Return a query of these topics."""
        return self.option("subscribe", ",".join(names))

    def partitions(self, topic: str, *numbers: int) -> LogQuery:
        """Return a query of these partitions, in addition to those of earlier calls for other topics."""
        assignment = json.loads(self.options.get("assign", "{}"))
        return self.option("assign", json.dumps({**assignment, topic: list(numbers)}))

    def between(self, start: Instant | None = None, end: Instant | None = None) -> LogQuery:
        """Return a query of a time range: from the first record at or after ``start`` to the first at or after
        ``end``.

        Args:
            start, end: Datetimes, dates or ISO 8601 text (UTC without a zone), or milliseconds since 1970. None means
                no bound. If a partition has no record at or after ``start``, none of its records are read.
        """
        query = self
        if start is not None:
            query = query.option("startingTimestamp", to_milliseconds(start))
            query = query.option("startingOffsetsByTimestampStrategy", "latest")
        return query if end is None else query.option("endingTimestamp", to_milliseconds(end))

    def offsets(self, start: PerPartition | None = None, end: PerPartition | None = None) -> LogQuery:
        """Return a query of offset ranges, ``{"orders": {0: 23}}``.

        The end is exclusive. The offset -2 means earliest, and -1 means latest.
        """
        query = self if start is None else self.option("startingOffsets", json.dumps(start))
        return query if end is None else query.option("endingOffsets", json.dumps(end))

    def columns(self, *names: str) -> LogQuery:
        """Return a query of these columns. Other columns are not decoded."""
        return self.option("columns", ",".join(names))

    def headers(self) -> LogQuery:
        """Return a query with the additional column ``headers``."""
        return self.option("includeHeaders", True)

    def read_committed(self) -> LogQuery:
        """Return a query of the records that a ``read_committed`` consumer receives."""
        return self.option("isolation", "read_committed")

    def batches(self) -> LogQuery:
        """Return a query with a row for each batch."""
        return self.option("table", "batches")

    def segments(self) -> LogQuery:
        """Return a query with a row for each segment."""
        return self.option("table", "segments")

    def load(self) -> DataFrame:
        """Return a new DataFrame. Segments are listed at the first action of the DataFrame."""
        if self.spark is None:
            raise OptionError("read_log(None, ...) supports only plan(); load() requires a Spark session")
        return self.spark.read.format("kafka-log").options(**self.options).load(list(self.paths))

    def plan(self, *, cores: int | None = None) -> ReadPlan:
        """Return the plan of the read (tasks, segments, bytes of log) without running a Spark job.

        Raises:
            OptionError: A topic or partition in the options does not exist.
            LogDirError: A path cannot be read.
        """
        from kafkaframes.scan.log.resolve import plan_log
        from kafkaframes.spark.options import parse_log_options

        options = parse_log_options(self.options, paths=tuple(self.paths))
        return plan_log(options, cores=cores or os.cpu_count() or 1)
