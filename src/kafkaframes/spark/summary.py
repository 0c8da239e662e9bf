"""The main job: a log in, Parquet and a summary out. What people run first on their own logs.

One pass reads the records with ``kafka-log`` and writes Parquet; the figures come from that Parquet and from a scan of
the batches' headers, which decompresses nothing. So the job reads every value of the log once.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkaframes.spark.columns import SPARKS_OWN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The bytes that a producer handed over: keys, values, and names and values of headers.
_PAYLOAD = """
    coalesce(octet_length(key), 0L) + coalesce(octet_length(value), 0L)
    + coalesce(aggregate(headers, 0L, (sum, h) -> sum + octet_length(h.key) + coalesce(octet_length(h.value), 0)), 0L)
"""


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One topic as it was written. Timestamps are None where no record has one; sizes are in bytes."""

    topic: str
    partitions: int
    records: int
    payload_bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class CodecSummary:
    """What one codec stored: ``log_bytes`` in segments for ``payload_bytes`` of keys, values and headers."""

    codec: str
    batches: int
    records: int
    log_bytes: int
    payload_bytes: int

    @property
    def ratio(self) -> float:
        """Payload bytes for each byte of log."""
        return self.payload_bytes / self.log_bytes if self.log_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Dropped:
    """What is in the log and not in the output, and why."""

    reason: str
    batches: int
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of ``summarize``."""

    topics: tuple[TopicSummary, ...]
    codecs: tuple[CodecSummary, ...]
    dropped: tuple[Dropped, ...]
    output: str
    seconds: float

    @property
    def records(self) -> int:
        """Records written."""
        return sum(topic.records for topic in self.topics)


def summarize(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    to: str,
    options: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> Summary:
    """Read the logs under ``paths``, write them as Parquet below ``to`` (a folder a topic), and sum up.

    Args:
        spark: the session.
        paths: what ``kafka-log`` loads: log directories, partition directories, segments, patterns.
        to: a folder, or a URL that Spark can write.
        options: of ``kafka-log`` (``subscribe``, ``startingOffsets``, ``mode``, ...).
        overwrite: replace what is at ``to``; otherwise something there is an error of Spark's.
    """
    started = time.monotonic()
    given = {**(options or {}), "includeHeaders": "true"}
    where = [paths] if isinstance(paths, str) else list(paths)
    records = _load(spark, where, {**given, "columns": ",".join((*SPARKS_OWN, "headers", "codec"))})
    records.write.mode("overwrite" if overwrite else "errorifexists").partitionBy("topic").parquet(to)
    written = spark.read.parquet(to).groupBy("topic", "partition", "codec").agg(*_figures())
    batches = _load(spark, where, {**given, "table": "batches"})
    scanned = batches.groupBy("codec", "dropped").agg(*_sizes())
    return _summed_up(_dicts(written), _dicts(scanned), to, started)


def _load(spark: SparkSession, paths: list[str], options: Mapping[str, str]) -> DataFrame:
    return spark.read.format("kafka-log").options(**options).load(paths)


def _dicts(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def _figures() -> list[Any]:
    from pyspark.sql.functions import expr

    return [
        expr("count(*) AS records"),
        expr(f"sum({_PAYLOAD}) AS payload_bytes"),
        expr("unix_millis(min(timestamp) FILTER (WHERE timestampType >= 0)) AS first"),
        expr("unix_millis(max(timestamp) FILTER (WHERE timestampType >= 0)) AS last"),
    ]


def _sizes() -> list[Any]:
    from pyspark.sql.functions import expr

    return [expr("count(*) AS batches"), expr("sum(sizeBytes) AS log_bytes")]


def _summed_up(written: list[dict[str, Any]], scanned: list[dict[str, Any]], output: str, started: float) -> Summary:
    of_topic: dict[str, list[dict[str, Any]]] = defaultdict(list)
    of_codec: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in written:
        of_topic[row["topic"]].append(row)
        of_codec[row["codec"]].append(row)
    kept = [row for row in scanned if row["dropped"] is None]
    return Summary(
        topics=tuple(_topic(topic, rows) for topic, rows in sorted(of_topic.items())),
        codecs=tuple(_codec(row, of_codec[row["codec"]]) for row in sorted(kept, key=lambda row: str(row["codec"]))),
        dropped=tuple(
            Dropped(row["dropped"], row["batches"], row["log_bytes"]) for row in scanned if row["dropped"] is not None
        ),
        output=output,
        seconds=time.monotonic() - started,
    )


def _topic(topic: str, rows: list[dict[str, Any]]) -> TopicSummary:
    return TopicSummary(
        topic=topic,
        partitions=len({row["partition"] for row in rows}),
        records=sum(row["records"] for row in rows),
        payload_bytes=sum(row["payload_bytes"] for row in rows),
        first_timestamp_ms=min((row["first"] for row in rows if row["first"] is not None), default=None),
        last_timestamp_ms=max((row["last"] for row in rows if row["last"] is not None), default=None),
    )


def _codec(scanned: dict[str, Any], rows: list[dict[str, Any]]) -> CodecSummary:
    return CodecSummary(
        codec=scanned["codec"],
        batches=scanned["batches"],
        records=sum(row["records"] for row in rows),
        log_bytes=scanned["log_bytes"],
        payload_bytes=sum(row["payload_bytes"] for row in rows),
    )
