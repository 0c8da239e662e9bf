"""The public functions on a session's DataFrames and streams. Each imports its work only when it is called."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal

from kafkaframes.errors import LogDirError, OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.job import JobResult
    from kafkaframes.scan.scan import Scan
    from kafkaframes.spark.topic_listener import TopicListener
    from kafkaframes.spark.topic_progress import TopicProgress


def write_topic(
    frame: DataFrame,
    options: Mapping[str, str],
    *,
    checkpoint: str | None = None,
    sink: str = "sink",
    trigger: Mapping[str, Any] | None = None,
    output_mode: str | None = None,
    query_name: str | None = None,
) -> StreamingQuery | None:
    """Write a DataFrame into topics exactly once: a stream batch by batch, a batch as a whole or not at all.

    Args:
        frame: with the columns of ``format("kafka-topic")``.
        options: those of that format: ``kafka.bootstrap.servers``, ``topic``, other ``kafka.*`` settings.
            ``kafka.transaction.timeout.ms`` bounds how long one micro-batch may be open, at most what brokers allow
            (``transaction.max.timeout.ms``, 15 minutes); without it the first batch may take that long, the others
            four times as long as those before.
        checkpoint: of the stream.
        sink: names this sink among several of one query.
        trigger: what ``DataStreamWriter.trigger`` takes, ``{"availableNow": True}``.
        output_mode: what ``DataStreamWriter.outputMode`` takes: ``append`` (the default), ``update``, ``complete``.
        query_name: as Spark shows it.

    Returns:
        The running query; None for a batch, which is written then.

    Raises:
        OptionError: an option or a column does not fit.
        BrokerError, NetworkError: (of a batch) nothing was committed.
        KafkaframesError: (of a batch) the answer to the commit did not come; what is known.
    """
    from kafkaframes.spark.topic_exactly_once import write

    return write(
        frame,
        options,
        checkpoint=checkpoint,
        sink=sink,
        trigger=trigger,
        output_mode=output_mode,
        query_name=query_name,
    )


MODES = ("append", "overwrite", "errorifexists", "error", "ignore")


def write_log(frame: DataFrame, path: str, *, mode: str = "errorifexists", **options: Any) -> None:
    """Write a DataFrame into a Kafka log directory; see docs/writing-logs.md.

    Args:
        frame: rows with a column ``value``, and perhaps ``key``, ``topic``, ``partition``, ``timestamp``, ``headers``.
        path: of the directory, the same for all workers.
        mode: ``append``, ``overwrite``, ``errorifexists`` or ``ignore`` (do nothing where there is a log).
        options: those of ``df.write.format("kafka-log")``.

    Raises:
        LogDirError: something is there already, or is no log directory.
        OptionError: no such mode.
    """
    from kafkaframes.jobs.restore.writing import Target
    from kafkaframes.spark.builder import register

    if mode not in MODES:
        raise OptionError(f"no mode {mode!r}: one of {', '.join(MODES)}")
    if mode not in ("append", "overwrite"):
        target = Target.look(path)
        if target.exists and mode == "ignore":
            return
        if target.exists:
            raise LogDirError("exists already (mode errorifexists)", file=target.path)
    register(frame.sparkSession)
    writer = frame.write.format("kafka-log").options(**options)
    writer.mode("overwrite" if mode == "overwrite" else "append").save(path)


@contextmanager
def watch_topics(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    query_name: str | None = None,
    group_id: str | None = None,
    report: Callable[[TopicProgress], None] | None = None,
    samples: bool = True,
) -> Iterator[TopicListener]:
    """Watch streams of ``format("kafka-topic")`` while the block runs; start the queries inside it.

    Args:
        spark: whose queries are watched.
        options: how to reach the cluster: those of the stream that begin with ``kafka.``; others are passed over.
        query_name: of the one query to watch; without, all of the session that read topics.
        group_id: a consumer group that the offsets are committed to after each micro-batch, the last one of
            ``Trigger.AvailableNow`` too, for tools that show lag. The query itself goes by its checkpoint. No consumer
            may be a member of the group.
        report: called with each ``TopicProgress``, on a thread of its own.
        samples: estimate records, bytes and age of what is not read yet, by a small fetch of each partition.

    Yields:
        What listens; ``latest`` is the newest ``TopicProgress``.

    Raises:
        OptionError: no servers, an unknown setting, or a group without the name of a query: two queries must not
            commit to one group.
    """
    from kafkaframes.client.settings import ConsumerSettings
    from kafkaframes.spark.topic_listener import TopicListener

    if group_id is not None and query_name is None:
        raise OptionError("group_id needs query_name: two queries must not commit to one group")
    values = {name.lower(): value for name, value in options.items()}
    client = {name.removeprefix("kafka."): value for name, value in values.items() if name.startswith("kafka.")}
    if "bootstrap.servers" not in client:
        raise OptionError("option kafka.bootstrap.servers is missing: host:port, or several with commas")
    ConsumerSettings.of(client)  # refuses what no consumer has
    listener = TopicListener(client, query_name=query_name, group_id=group_id, report=report, samples=samples)
    spark.streams.addListener(listener)
    try:
        yield listener
    finally:
        listener.close(spark)


_PARTS_OF_A_CORE = 3  # so that no core waits long for the last slice


def read(scan: Scan, spark: SparkSession | None = None, *, parts: int | None = None) -> DataFrame:
    """Return a scan as a DataFrame: what is there now, however often it is used.

    Args:
        scan: of a log, topics or captures; ``limit`` makes it one task.
        spark: the session; by default the active one, or ``kafkaframes.spark.session()``.
        parts: into how many tasks a large source is cut at least; by default three for each core of this machine.

    Raises:
        OptionError: what is named is not there, or is lost.
        LogDirError: a path cannot be read.
        NetworkError, BrokerError: the cluster cannot be asked.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    from kafkaframes.spark.scan_tasks import reader_of, spark_schema

    if spark is None:
        from kafkaframes.spark.builder import session

        spark = session()
    plan = scan.plan(parts=parts or _PARTS_OF_A_CORE * (os.cpu_count() or 1))
    schema = spark_schema(plan.schema)
    rows = [(number, pickle.dumps(part)) for number, part in enumerate(plan.apart())]
    slices = spark.createDataFrame(rows, "number int, slice binary").repartitionByRange(max(len(rows), 1), "number")
    return slices.mapInArrow(reader_of(schema), from_arrow_schema(schema))


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
        OptionError: an option or the place does not fit, records are lost, or the session is of Spark Connect.
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
    from kafkaframes.spark.checkpoint_files import is_connect
    from kafkaframes.spark.jobs import runner
    from kafkaframes.spark.topic_options import reader_settings

    if format not in FORMATS:
        raise OptionError(f"no format {format!r}: one of {', '.join(FORMATS)}")
    if is_connect(spark):
        raise OptionError(
            "export_topics needs a classic session of Spark, not Spark Connect: run it where the driver is, or use "
            "`kafkaframes table`, or df.write of a DataFrame of kafka-topic"
        )
    names = [topics] if isinstance(topics, str) else list(topics)
    read = TopicOptions(reader_settings({**_COMMITTED, **_lower(options)}), subscribe=frozenset(names))
    target = os.fspath(to)
    settings = Settings(target, on_damage="fail")
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
