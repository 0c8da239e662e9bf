"""``kafkaframes.spark.read_log(spark, path)``: the options of ``kafka-log`` as methods, a fresh ``load()`` each time.

A builder is a value: each method returns a new one, so that one can be kept and narrowed in several ways. What Spark
offers for that, one DataFrame with several ``where``, reads everything each time; its ``pushFilters`` would give wrong
rows (``tests/spark/test_push_filters.py``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkaframes.errors import OptionError
from kafkaframes.scan.where import Instant, milliseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkaframes.scan.log.resolve import ReadPlan

PerPartition = Mapping[str, Mapping[int, int]]


def read_log(spark: SparkSession | None, *paths: str | os.PathLike[str]) -> LogQuery:
    """Begin a read of the logs under ``paths``.

    Args:
        spark: the session; None will do for ``plan()``.
        paths: log directories, partition directories, segments, patterns, URLs.
    """
    return LogQuery(spark, tuple(os.fspath(path) for path in paths), {})


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What to read; made by ``read_log``."""

    spark: SparkSession | None
    paths: tuple[str, ...]
    options: Mapping[str, str]

    def option(self, name: str, value: str | int | bool) -> LogQuery:
        """Return a query with any option of ``kafka-log`` set."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return replace(self, options={**self.options, name: text})

    def topics(self, *names: str) -> LogQuery:
        """Return a query of these topics only."""
        return self.option("subscribe", ",".join(names))

    def partitions(self, topic: str, *numbers: int) -> LogQuery:
        """Return a query of these partitions; called again for another topic, of those too."""
        known = json.loads(self.options.get("assign", "{}"))
        return self.option("assign", json.dumps({**known, topic: list(numbers)}))

    def between(self, start: Instant | None = None, end: Instant | None = None) -> LogQuery:
        """Return a query of the records from the first at or after ``start`` to before the first at or after ``end``.

        Args:
            start, end: datetimes, dates or ISO texts (UTC without a zone), or milliseconds since 1970; None is no
                bound. Where a partition has nothing as late as ``start``, nothing is read of it.
        """
        query = self
        if start is not None:
            query = query.option("startingTimestamp", milliseconds(start))
            query = query.option("startingOffsetsByTimestampStrategy", "latest")
        return query if end is None else query.option("endingTimestamp", milliseconds(end))

    def offsets(self, start: PerPartition | None = None, end: PerPartition | None = None) -> LogQuery:
        """Return a query of offsets, ``{"orders": {0: 23}}``; the end is exclusive, -2 is earliest, -1 latest."""
        query = self if start is None else self.option("startingOffsets", json.dumps(start))
        return query if end is None else query.option("endingOffsets", json.dumps(end))

    def columns(self, *names: str) -> LogQuery:
        """Return a query of these columns; others are not even decoded."""
        return self.option("columns", ",".join(names))

    def headers(self) -> LogQuery:
        """Return a query that gives the column headers too."""
        return self.option("includeHeaders", True)

    def read_committed(self) -> LogQuery:
        """Return a query of what a ``read_committed`` consumer gets."""
        return self.option("isolation", "read_committed")

    def batches(self) -> LogQuery:
        """Return a query of a row for each batch."""
        return self.option("table", "batches")

    def segments(self) -> LogQuery:
        """Return a query of a row for each segment."""
        return self.option("table", "segments")

    def load(self) -> DataFrame:
        """Return a new DataFrame; segments are listed at its first action."""
        if self.spark is None:
            raise OptionError("read_log(None, ...) can only plan(); load() needs a session")
        return self.spark.read.format("kafka-log").options(**self.options).load(list(self.paths))

    def plan(self, *, cores: int | None = None) -> ReadPlan:
        """Say what would be read, without a Spark job: tasks, segments, bytes of log.

        Raises:
            OptionError: an option names what is not there.
            LogDirError: a path cannot be read.
        """
        from kafkaframes.scan.log.resolve import plan_log
        from kafkaframes.spark.log_options import log_options

        options = log_options(self.options, paths=tuple(self.paths))
        return plan_log(options, cores=cores or os.cpu_count() or 1)
