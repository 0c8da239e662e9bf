"""The public functions for a session's DataFrames and streams.

Each function imports its implementation when it is called.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.errors.words import count_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.job import JobResult
    from kafkaframes.scan.scan import Scan
    from kafkaframes.spark.progress.topic_listener import TopicListener
    from kafkaframes.spark.progress.topic_progress import TopicProgress


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
    """Write a DataFrame to topics exactly once: a stream one micro-batch at a time, a batch in a single transaction.

    Args:
        frame: DataFrame with the columns of ``format("kafka-topic")``.
        options: Options of that format: ``kafka.bootstrap.servers``, ``topic`` and other ``kafka.*`` settings.
            ``kafka.transaction.timeout.ms`` limits the time for which a micro-batch's transaction may be open. Brokers
            limit it to ``transaction.max.timeout.ms`` (15 minutes). By default, the first micro-batch gets the
            brokers' limit as its time-out. Each later one gets four times the longest recent transaction, but at least
            a minute and at most the brokers' limit.
        checkpoint: Checkpoint location of the stream.
        sink: Name that distinguishes this sink from other sinks of the same query.
        trigger: Arguments of ``DataStreamWriter.trigger``, for example ``{"availableNow": True}``.
        output_mode: Argument of ``DataStreamWriter.outputMode``: ``append`` (default), ``update`` or ``complete``.
        query_name: Name of the query in Spark.

    Returns:
        The running query of a stream. None for a batch, which has been written when the call returns.

    Raises:
        OptionError: An option or a column is invalid.
        BrokerError, NetworkError: The write of a batch failed, and nothing was committed.
        KafkaframesError: The commit of a batch got no response. The message describes the state of the transaction.
    """
    from kafkaframes.spark.exactly_once.topic_exactly_once import write_frame_exactly_once

    return write_frame_exactly_once(
        frame,
        options,
        checkpoint=checkpoint,
        sink=sink,
        trigger=trigger,
        output_mode=output_mode,
        query_name=query_name,
    )


WRITE_MODES = ("append", "overwrite", "errorifexists", "error", "ignore")


def write_log(frame: DataFrame, path: str, *, mode: str = "errorifexists", **options: Any) -> None:
    """Write a DataFrame to a Kafka log directory (docs/writing-logs.md).

    Args:
        frame: Rows with the column ``value``, and optionally ``key``, ``topic``, ``partition``, ``timestamp``,
            ``headers``.
        path: Path of the directory, the same for all workers.
        mode: ``append``, ``overwrite``, ``errorifexists``, or ``ignore`` (write nothing if a log exists).
        options: Options of ``df.write.format("kafka-log")``.

    Raises:
        LogDirError: The path exists and ``mode`` is ``errorifexists``, or it is not a log directory.
        OptionError: The mode does not exist.
    """
    from kafkaframes.jobs.restore.writing import TargetState
    from kafkaframes.spark.sessions.builder import register

    if mode not in WRITE_MODES:
        raise OptionError(f"unknown mode {mode!r}; expected one of {', '.join(WRITE_MODES)}")
    if mode not in ("append", "overwrite"):
        target = TargetState.inspect_target(path)
        if target.exists and mode == "ignore":
            return
        if target.exists:
            raise LogDirError(
                "already exists, and mode is errorifexists; use mode append or overwrite", file=target.path
            )
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
    """Watch streams of ``format("kafka-topic")`` while the block runs. Start the queries inside the block.

    Args:
        spark: Session of the queries.
        options: Options of the stream. Options that begin with ``kafka.`` are used to connect; other options are
            ignored.
        query_name: Name of the query to watch. If None, all queries of the session that read topics are watched.
        group_id: Consumer group to which offsets are committed after each micro-batch, including the last one of
            ``Trigger.AvailableNow``, for tools that show lag. The query itself uses its checkpoint. The group must not
            have members.
        report: Function that is called with each ``TopicProgress`` in a separate thread.
        samples: Whether records, bytes and age of the backlog are estimated by a small fetch from each partition.

    Yields:
        The listener. The listener's attribute ``latest`` is the newest ``TopicProgress``.

    Raises:
        OptionError: The servers are missing, a setting is unknown, or ``group_id`` is set without ``query_name``: two
            queries must not commit to the same group.
    """
    from kafkaframes.client.settings import ConsumerSettings
    from kafkaframes.spark.progress.topic_listener import TopicListener

    if group_id is not None and query_name is None:
        raise OptionError("group_id requires query_name, because two queries must not commit to the same group")
    values = {name.lower(): value for name, value in options.items()}
    client = {name.removeprefix("kafka."): value for name, value in values.items() if name.startswith("kafka.")}
    if "bootstrap.servers" not in client:
        raise OptionError(
            "option kafka.bootstrap.servers is missing; expected host:port, or several separated by commas"
        )
    ConsumerSettings.from_options(client)  # rejects invalid consumer settings
    listener = TopicListener(client, query_name=query_name, group_id=group_id, report=report, samples=samples)
    spark.streams.addListener(listener)
    try:
        yield listener
    finally:
        listener.close(spark)


_TASKS_PER_CORE = 3  # several small tasks, so that cores do not wait long for the last one


def read(scan: Scan, spark: SparkSession | None = None, *, parts: int | None = None) -> DataFrame:
    """Return a scan as a DataFrame. The rows are fixed by this call; later actions return the same rows.

    Args:
        scan: Scan of a log, topics or captures. A scan with a limit is read by one task.
        spark: Session. If None, it is the active session, or otherwise ``kafkaframes.spark.session()``.
        parts: Minimum number of tasks for a large source. If None, it is three for each core of this machine.

    Raises:
        OptionError: A topic, partition or offset of the scan does not exist, or is lost.
        LogDirError: A path cannot be read.
        NetworkError, BrokerError: The cluster does not respond, or responds with an error.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    from kafkaframes.spark.dataframes.scan_tasks import create_slice_reader, to_spark_schema

    if spark is None:
        from kafkaframes.spark.sessions.builder import session

        spark = session()
    plan = scan.plan(parts=parts or _TASKS_PER_CORE * (os.cpu_count() or 1))
    schema = to_spark_schema(plan.schema)
    rows = [(number, pickle.dumps(part)) for number, part in enumerate(plan.split_by_slice())]
    slices = spark.createDataFrame(rows, "number int, slice binary").repartitionByRange(max(len(rows), 1), "number")
    return slices.mapInArrow(create_slice_reader(schema), from_arrow_schema(schema))


TABLE_FORMATS: Final = ("parquet", "delta", "iceberg")


def table_topics(
    spark: SparkSession,
    topics: str | Sequence[str],
    to: str | PathLike[str],
    *,
    options: Mapping[str, str],
    format: Literal["parquet", "delta", "iceberg"] = "parquet",  # noqa: A002  # as the command's word is
    allow_loss: bool = False,
) -> JobResult[Outcome]:
    """Append the new records of live topics to a table, with values as bytes.

    Later calls continue where the last call ended.

    Each task fetches an offset range of a partition and writes it as a Parquet file. Records do not pass through the
    JVM, so the write takes a fraction of the time of ``df.write.parquet``. The commit of the rows also stores the end
    offset of each partition, so that the table contains each record once. The command ``kafkaframes table`` does the
    same. The command can also decode values and follow topics. This function and the command can continue each other's
    tables (mode ``raw``).

    >>> table_topics(spark, "orders", "lake/orders", options=servers)  # doctest: +SKIP
    80,000 records written to lake/orders, in 4 files

    Args:
        spark: Session, other than Spark Connect. Workers must be able to reach ``to`` and the cluster under the same
            names as the driver.
        topics: Topic names.
        to: Directory, new or of an earlier run; with ``delta`` also a URL. Workers on other machines need a shared
            directory.
        options: ``kafka.*`` settings as for ``format("kafka-topic")``. ``kafka.isolation.level`` is ``read_committed``
            by default.
        format: Table format: plain Parquet files under ``topic=T/partition=P``, Delta or Iceberg. Delta and Iceberg
            require optional extras.
        allow_loss: Whether to continue if the topic has lost records that are not in the table. The gap is recorded in
            the table.

    Returns:
        The result of the write. ``report.table`` contains the version and the offsets.

    Raises:
        OptionError: An option or ``to`` is invalid, records are lost, or the session is a Spark Connect session.
        MissingExtraError: The library of the format is not installed.
        BrokerError, NetworkError: The topics cannot be read.
        KafkaframesError: A task failed.
    """
    from kafkaframes.errors import OptionError
    from kafkaframes.jobs.export.live_planning import make_topic_planner
    from kafkaframes.jobs.export.task import ExportTaskSettings
    from kafkaframes.jobs.tables.run import TableRun
    from kafkaframes.jobs.tables.state import make_stored_settings
    from kafkaframes.jobs.tables.targets import open_table
    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.spark.options import parse_client_options
    from kafkaframes.spark.progress.checkpoint_files import is_connect
    from kafkaframes.spark.runtime.jobs import create_runner

    if format not in TABLE_FORMATS:
        raise OptionError(f"unknown format {format!r}; expected one of {', '.join(TABLE_FORMATS)}")
    if is_connect(spark):
        raise OptionError(
            "table_topics requires a classic Spark session, not Spark Connect: run it on the driver, or use "
            "`kafkaframes table`, or df.write of a DataFrame of kafka-topic"
        )
    names = [topics] if isinstance(topics, str) else list(topics)
    read = TopicOptions(
        parse_client_options({**_COMMITTED_OPTIONS, **_rename_to_client_options(options)}),
        subscribe=frozenset(names),
        fail_on_data_loss=not allow_loss,
    )
    target = os.fspath(to)
    settings = ExportTaskSettings(target, on_damage="fail")
    export = TableRun(
        open_table(format, target),
        settings,
        make_stored_settings(settings, isolation=read.isolation),
        run=create_runner(spark),
    )
    return _log_export_result(export.add_new_offsets(make_topic_planner(read), incremental=True), target)


_ISOLATION_OPTION: Final = "kafka.isolation.level"
_COMMITTED_OPTIONS: Final = {_ISOLATION_OPTION: "read_committed"}


def _rename_to_client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options under the client's names for them, regardless of their letter case.

    Raises:
        OptionError: An option is not a client setting, for example because it selects topics or offsets.
    """
    from kafkaframes.errors import OptionError

    for name in options:
        if not name.lower().startswith("kafka."):
            raise OptionError(
                f"option {name}: only kafka.* options are supported; a table starts at the earliest record"
            )
    return {_ISOLATION_OPTION if name.lower() == _ISOLATION_OPTION else name: value for name, value in options.items()}


def _log_export_result(outcome: Outcome, target: str) -> JobResult[Any]:
    """Log the summary of an export, and the names of the tables that list failures."""
    from kafkaframes.jobs.job import JobResult

    files = sum(1 for result in outcome.results if result.failed is None)
    summary_line = (
        f"{count_text(outcome.summary.records, 'record')} written to {target}, in {count_text(files, 'file')}"
    )
    faults = [fault for result in outcome.results for fault in result.faults]
    failures = [f"not in the table: {result.failed}" for result in outcome.failed]
    return JobResult(outcome, outcome.as_json(), (*faults, *failures, *outcome.notes, summary_line))
