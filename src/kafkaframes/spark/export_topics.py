"""``kafkaframes.spark.export_topics``: live topics into a table, written by Spark's workers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.job import JobResult

FORMATS: Final = ("parquet", "delta", "iceberg")


def export_topics(
    spark: SparkSession,
    topics: str | Sequence[str],
    to: str | PathLike[str],
    *,
    options: Mapping[str, str],
    format: Literal["parquet", "delta", "iceberg"] = "parquet",  # noqa: A002  # as the command's word is
    allow_loss: bool = False,
) -> JobResult[Outcome]:
    """Write what is new in live topics into a table, values as they are; called again, it goes on where it was.

    Each task fetches a stretch of a topic partition and writes it as one Parquet file: no record passes through the
    JVM, which takes a fraction of the time of ``df.write.parquet``. What the table has of each partition stands in the
    commit that brings the rows, so that each record is there once. ``kafkaframes table`` is the same as a command,
    decodes values besides, and goes on with what arrives; a table of one is a table of the other (mode ``raw``).

    >>> export_topics(spark, "orders", "lake/orders", options=servers)  # doctest: +SKIP
    80,000 records written to lake/orders, in 4 files

    Args:
        spark: a session that is no Spark Connect; its workers see ``to`` and the cluster as the driver does.
        topics: names.
        to: a directory, new or of an earlier run; with ``delta`` also a URL. Workers of other machines need a shared
            one.
        options: ``kafka.*`` settings as for ``format("kafka-topic")``; ``kafka.isolation.level`` is ``read_committed``
            unless it is said.
        format: of the table: plain Parquet files under ``topic=T/partition=P``, Delta or Iceberg (their extras).
        allow_loss: go on where the topic has lost records that the table does not have; the gap is in the table.

    Returns:
        What was written; ``report.table`` says version and offsets.

    Raises:
        OptionError: an option or the place does not fit, or records are lost.
        MissingExtraError: the format's library is absent.
        BrokerError, NetworkError: the topics cannot be read.
        KafkaframesError: a task failed.
    """
    from kafkaframes.errors import OptionError
    from kafkaframes.jobs.export.task import Settings
    from kafkaframes.jobs.tables.planning import live_plan
    from kafkaframes.jobs.tables.run import TableExport
    from kafkaframes.jobs.tables.state import table_settings
    from kafkaframes.jobs.tables.targets import open_table
    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.spark.jobs import runner
    from kafkaframes.spark.topic_options import reader_settings

    if format not in FORMATS:
        raise OptionError(f"no format {format!r}: one of {', '.join(FORMATS)}")
    names = [topics] if isinstance(topics, str) else list(topics)
    read = TopicOptions(reader_settings({**_COMMITTED, **_lower(options)}), subscribe=frozenset(names))
    target = os.fspath(to)
    settings = Settings(target, mode="FAILFAST")
    export = TableExport(
        open_table(format, target),
        settings,
        table_settings(settings, isolation="read_committed" if read.read_committed else "read_uncommitted"),
        run=runner(spark),
    )
    return _result_of(export.export(live_plan(names, read.client, allow_loss=allow_loss), incremental=True), target)


_ISOLATION: Final = "kafka.isolation.level"
_COMMITTED: Final = {_ISOLATION: "read_committed"}


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    """Return options under the names that defaults have, in whatever letter case they are given.

    Raises:
        OptionError: one is not a setting of the client: which topics, and from where, is said otherwise.
    """
    from kafkaframes.errors import OptionError

    for name in options:
        if not name.lower().startswith("kafka."):
            raise OptionError(f"option {name}: only kafka.* settings; a table begins at the earliest record")
    return {_ISOLATION if name.lower() == _ISOLATION else name: value for name, value in options.items()}


def _result_of(outcome: Outcome, target: str) -> JobResult[Any]:
    from kafkaframes.jobs.job import JobResult

    files = sum(1 for one in outcome.results if one.failed is None)
    counted = f"{outcome.summary.records:,} records written to {target}, in {files:,} files"
    faults = [fault for one in outcome.results for fault in one.faults]
    failed = [f"not in the table: {one.failed}" for one in outcome.failed]
    return JobResult(outcome, outcome.as_json(), (*faults, *failed, counted))
