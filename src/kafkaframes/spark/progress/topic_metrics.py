"""The lag of a session's streams as Prometheus metrics: ``metrics_port`` of ``session()`` and ``register()``.

Spark does not request metrics from Python sources, so a listener reads the offsets from the progress of each
micro-batch, without requests to brokers. The values of a query are removed when it ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from kafkaframes.broker.network.http_server import HttpServer, PlainTextResponse, Route
from kafkaframes.broker.network.metrics import PROMETHEUS_CONTENT_TYPE, format_labels, format_metric
from kafkaframes.errors import OptionError
from kafkaframes.spark.progress.topic_progress import PartitionLag, TopicProgress, parse_progress

log = logging.getLogger("kafkaframes.spark")
_METRIC_PREFIX: Final = "kafkaframes_spark_"
_METRICS_BY_ADDRESS: Final[
    dict[tuple[str, int], TopicMetrics]
] = {}  # servers, which later calls for the same address reuse


def serve_metrics(spark: SparkSession, host: str, port: int) -> None:
    """Serve the lag of a session's streams at ``http://HOST:PORT/metrics``, until this process ends.

    Raises:
        OptionError: The address cannot be used.
    """
    if (host, port) not in _METRICS_BY_ADDRESS:
        _METRICS_BY_ADDRESS[host, port] = TopicMetrics(host, port)
    _METRICS_BY_ADDRESS[host, port].listen_to_queries(spark)


class TopicMetrics(StreamingQueryListener):
    """A query listener that serves the last progress of each query as metrics over HTTP."""

    def __init__(self, host: str, port: int) -> None:
        self._latest: dict[str, tuple[TopicProgress, float]] = {}
        self._application: str | None = None
        try:
            self._server = HttpServer([Route("GET", "/metrics", self._answer)], host=host, port=port)
        except OSError as error:
            raise OptionError(f"metrics cannot be served on {host}:{port}: {error.strerror or error}") from None
        log.info("the lag of streams is served on %s/metrics", self._server.url)

    def listen_to_queries(self, spark: SparkSession) -> None:
        """Listen to the queries of a session, once for each Spark application."""
        application = spark.conf.get("spark.app.id")
        if application != self._application:
            self._application = application
            self._latest.clear()
            spark.streams.addListener(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name, as those below)
        """Do nothing, because there are no offsets yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Store the progress of a micro-batch."""
        progress = parse_progress(event.progress.json)
        if progress is not None:
            self._latest[progress.run_id] = progress, time.time()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Remove the progress of a query that has ended."""
        self._latest.pop(str(event.runId), None)

    def _answer(self, _: object) -> PlainTextResponse:
        return PlainTextResponse("".join(f"{line}\n" for line in self._format_metrics()), PROMETHEUS_CONTENT_TYPE)

    def _format_metrics(self) -> Iterator[str]:
        """Return the metrics of all queries in Prometheus's text format."""
        queries = list(self._latest.values())
        partitions = [(_format_labels(progress, lag), lag) for progress, _ in queries for lag in progress.partitions]
        for name, words, value in _PARTITION_METRICS:
            yield from format_metric(
                _METRIC_PREFIX + name, "gauge", words, [(label, value(lag)) for label, lag in partitions]
            )
        labeled_queries = [
            (format_labels(query=_name(progress)), progress, end_seconds) for progress, end_seconds in queries
        ]
        yield from format_metric(
            _METRIC_PREFIX + "batch_id",
            "gauge",
            "the last micro-batch",
            [(q, p.batch_id) for q, p, _ in labeled_queries],
        )
        yield from format_metric(
            _METRIC_PREFIX + "batch_rows",
            "gauge",
            "rows of the last micro-batch",
            [(q, p.rows) for q, p, _ in labeled_queries],
        )
        words = "end time of the last micro-batch, in seconds since 1970"
        yield from format_metric(
            _METRIC_PREFIX + "batch_end_seconds",
            "gauge",
            words,
            [(q, round(end_seconds, 3)) for q, _, end_seconds in labeled_queries],
        )


_PARTITION_METRICS: Final[tuple[tuple[str, str, Callable[[PartitionLag], int]], ...]] = (
    ("lag_offsets", "offsets that the query has not read yet", lambda lag: lag.offsets),
    ("next_offset", "offset at which the query continues", lambda lag: lag.next_offset),
    ("latest_offset", "end offset of the partition when the micro-batch was planned", lambda lag: lag.latest_offset),
)


def _format_labels(progress: TopicProgress, lag: PartitionLag) -> str:
    """Return the labels of a gauge. If a query reads a topic twice, each of its sources has a gauge."""
    partition = str(lag.partition)
    return format_labels(query=_name(progress), topic=lag.topic, partition=partition, source=str(lag.source))


def _name(progress: TopicProgress) -> str:
    return progress.name or progress.query_id
