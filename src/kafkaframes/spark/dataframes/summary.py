"""The main job: convert logs to Parquet, and summarize them. Users usually run it first on their own logs.

One pass reads the records with ``kafka-log`` and writes Parquet. The figures come from the Parquet files, and from a
concurrent scan of batch headers, which decompresses nothing. The job therefore reads every value of the log once.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkaframes.jobs.export.tally import CodecSummary, Dropped, Summary, TopicSummary
from kafkaframes.jobs.job import check_row_counts, paths_of
from kafkaframes.scan.columns import SPARK_COLUMNS
from kafkaframes.scan.log.resolve import ReadPlan, plan_log
from kafkaframes.spark.options.log_options import log_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GROUP_COLUMNS = ("topic", "partition", "codec")
# Producer payload: keys, values, and names and values of headers.
_PAYLOAD_EXPRESSION = """
    coalesce(octet_length(key), 0L) + coalesce(octet_length(value), 0L)
    + coalesce(aggregate(headers, 0L, (sum, h) -> sum + octet_length(h.key) + coalesce(octet_length(h.value), 0)), 0L)
"""


def summarize(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    to: str,
    options: Mapping[str, str] | None = None,
    overwrite: bool = False,
    plan: ReadPlan | None = None,
) -> Summary:
    """Read the logs under ``paths``, write them as Parquet under ``to`` (a directory per topic), and summarize them.

    Args:
        spark: Session.
        paths: Paths for ``kafka-log``: log directories, partition directories, segments or patterns.
        to: Directory, or a URL to which Spark can write.
        options: Options of ``kafka-log`` (``subscribe``, ``startingOffsets``, ``mode``, ...).
        overwrite: Whether existing data at ``to`` is replaced. Otherwise Spark raises an error.
        plan: Result of ``plan_summary``, if the caller has it.

    Raises:
        OptionError: A topic, partition or offset in the options does not exist, or is lost.
        LogDirError: A path cannot be read, or the Parquet files have another number of rows than the log.
    """
    from pyspark.sql import Observation
    from pyspark.sql.functions import expr

    start = time.monotonic()
    values = {**(options or {}), "includeHeaders": "true"}
    log_paths = paths_of(paths)
    plan = plan or plan_summary(log_paths, values)
    read = Observation()
    records = _load(spark, log_paths, {**values, "columns": ",".join((*SPARK_COLUMNS, "headers", "codec"))})
    records = records.observe(read, expr("count(*) AS rows"))
    with ThreadPoolExecutor(1, thread_name_prefix="kafkaframes scan") as pool:
        # headers are scanned while Parquet is written
        scan = pool.submit(_scan_counts, spark, log_paths, values)
        records.write.mode("overwrite" if overwrite else "errorifexists").partitionBy("topic").parquet(to)
        # without a schema, Spark would infer an integer from the directory name of a topic 2024
        written_counts = _dicts(
            spark.read.schema(records.schema).parquet(to).groupBy(*_GROUP_COLUMNS).agg(*_count_columns())
        )
    summary = _create_summary(written_counts, scan.result(), plan.internal_topics, to, start)
    rows_read = read.get.get("rows", 0)
    check_row_counts(rows_read, summary.records, {}, where=to, outcome="the Parquet files differ from the log")
    return replace(summary, records_read=rows_read)


def plan_summary(paths: Sequence[str], options: Mapping[str, str]) -> ReadPlan:
    """Return the plan of the read, without a session. Exceptions are those of ``summarize``."""
    read = replace(log_options(options, paths=tuple(paths)), replicas="all")  # copies are merged once, by the reader
    return plan_log(read, cores=1)


def _scan_counts(spark: SparkSession, log_paths: list[str], values: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the sizes of batches by codec, kind and damage, from batch headers."""
    batches = _load(spark, log_paths, {**values, "table": "batches", "deepIteration": "true"})
    return _dicts(batches.groupBy("codec", "control", "error").agg(*_size_columns()))


def _load(spark: SparkSession, paths: list[str], options: Mapping[str, str]) -> DataFrame:
    return spark.read.format("kafka-log").options(**options).load(paths)


def _dicts(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def _count_columns() -> list[Any]:
    from pyspark.sql.functions import expr

    return [
        expr("count(*) AS records"),
        expr(f"sum({_PAYLOAD_EXPRESSION}) AS payload_bytes"),
        expr("unix_millis(min(timestamp) FILTER (WHERE timestampType >= 0)) AS first"),
        expr("unix_millis(max(timestamp) FILTER (WHERE timestampType >= 0)) AS last"),
    ]


def _size_columns() -> list[Any]:
    from pyspark.sql.functions import expr

    return [
        expr("count(*) AS batches"),
        expr("sum(sizeBytes) AS log_bytes"),
        expr("sum(recordCount) AS counted"),
        expr("sum(readableRecords) AS readable"),
    ]


def _create_summary(
    written_counts: list[dict[str, Any]],
    scanned_counts: list[dict[str, Any]],
    left_alone: tuple[str, ...],
    output: str,
    start: float,
) -> Summary:
    of_topic: dict[str, list[dict[str, Any]]] = defaultdict(list)
    of_codec: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in written_counts:
        of_topic[row["topic"]].append(row)
        of_codec[row["codec"]].append(row)
    in_log: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in scanned_counts:
        if row["codec"] is not None and not row["control"]:
            in_log[row["codec"]].append(row)
    return Summary(
        topics=tuple(_topic_summary(topic, rows) for topic, rows in sorted(of_topic.items())),
        codecs=tuple(_codec_summary(codec, rows, of_codec[codec]) for codec, rows in sorted(in_log.items())),
        dropped=tuple(sorted(filter(None, map(_to_dropped, scanned_counts)), key=lambda entry: entry.reason)),
        internal_topics=left_alone,
        output=output,
        seconds=time.monotonic() - start,
    )


def _to_dropped(row: dict[str, Any]) -> Dropped | None:
    """Return the loss of a group of batches; None if there is none. A wrong checksum alone loses no record."""
    if row["error"] is not None:
        lost_records = None if row["counted"] is None else row["counted"] - (row["readable"] or 0)
        return None if lost_records == 0 else Dropped(row["error"], row["batches"], lost_records, row["log_bytes"])
    if row["control"]:
        return Dropped("control records (transaction markers)", row["batches"], row["readable"], row["log_bytes"])
    return None


def _topic_summary(topic: str, rows: list[dict[str, Any]]) -> TopicSummary:
    return TopicSummary(
        topic=topic,
        partitions=len({row["partition"] for row in rows}),
        records=sum(row["records"] for row in rows),
        payload_bytes=sum(row["payload_bytes"] for row in rows),
        first_timestamp_ms=min((row["first"] for row in rows if row["first"] is not None), default=None),
        last_timestamp_ms=max((row["last"] for row in rows if row["last"] is not None), default=None),
    )


def _codec_summary(codec: str, in_log: list[dict[str, Any]], written_counts: list[dict[str, Any]]) -> CodecSummary:
    return CodecSummary(
        codec=codec,
        batches=sum(row["batches"] for row in in_log),
        records=sum(row["records"] for row in written_counts),
        log_bytes=sum(row["log_bytes"] for row in in_log),
        payload_bytes=sum(row["payload_bytes"] for row in written_counts),
    )
