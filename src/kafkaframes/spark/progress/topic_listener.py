"""A listener that reports the lag of streams of live topics, and commits their offsets for tools that show lag.

Spark calls a listener after each micro-batch, including the last one of ``Trigger.AvailableNow``, which is not reported
to a source. The calls run in Spark's thread, so requests to brokers are sent in a separate thread.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from kafkaframes.client import Admin, Consumer
from kafkaframes.client.settings import select_client_options
from kafkaframes.errors import KafkaframesError
from kafkaframes.spark.progress.topic_progress import SAMPLE_FETCH_BYTES, TopicProgress, estimate_lags, parse_progress

log = logging.getLogger("kafkaframes.spark")
_CLOSE_TIMEOUT_SECONDS: Final = 10.0
_API_TIMEOUT_MS: Final = "10000"


class TopicListener(StreamingQueryListener):
    """A query listener that reports the lag of streams of live topics and commits their offsets to a group."""

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        query_name: str | None,
        group_id: str | None,
        report: Callable[[TopicProgress], None] | None,
        samples: bool,
    ) -> None:
        self.latest: TopicProgress | None = None
        self._client = {"default.api.timeout.ms": _API_TIMEOUT_MS, **client}
        self._query_name = query_name
        self._group_id = group_id
        self._report = report
        self._samples = samples
        self._runs: set[str] = set()  # runs that have started and not ended
        self._events: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._consumer: Consumer | None = None
        self._thread = threading.Thread(target=self._process_queue, name="kafkaframes lag", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------------------------------------- Spark's calls

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name, as those below)
        """Record the start of a query."""
        if self._query_name in (None, event.name):
            self._runs.add(str(event.runId))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Queue the progress of a micro-batch."""
        if self._query_name in (None, event.progress.name):
            self._events.put(event.progress.json)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Record the end of a query."""
        self._runs.discard(str(event.runId))

    # ---------------------------------------------------------------------------------------------------- the thread

    def close(self, spark: SparkSession, *, seconds: float = _CLOSE_TIMEOUT_SECONDS) -> None:
        """Wait until the ended queries are reported, then stop listening.

        Spark notifies a listener of the end of a query a little after ``awaitTermination`` returns.
        """
        deadline = time.monotonic() + seconds
        while self._runs and time.monotonic() < deadline and not self._are_active(spark):
            time.sleep(0.02)
        self._events.put(None)
        self._thread.join(seconds)
        spark.streams.removeListener(self)

    def _are_active(self, spark: SparkSession) -> bool:
        return any(str(query.runId) in self._runs for query in spark.streams.active)

    def _process_queue(self) -> None:
        """Process the queued progress events until the listener is closed. This is the main function of a thread."""
        while (text := self._events.get()) is not None:
            try:
                self._process_progress(text)
            except Exception as error:  # a failed lag report must not end the query
                log.warning("the lag of a stream cannot be determined: %s", error)
        if self._consumer is not None:
            self._consumer.close()

    def _process_progress(self, text: str) -> None:
        """Commit offsets, estimate the lag and call ``report`` for the progress of a micro-batch."""
        progress = parse_progress(text)
        if progress is None:
            return
        if self._group_id is not None:
            self._commit_group_offsets(progress, self._group_id)
        if self._samples and progress.offsets_behind:
            progress = replace(progress, **self._estimate_lag(progress))
        elif self._samples:
            progress = replace(progress, estimated_records=0, estimated_bytes=0)
        self.latest = progress
        if self._report is not None:
            self._report(progress)

    def _commit_group_offsets(self, progress: TopicProgress, group_id: str) -> None:
        """Commit the query's next offsets to a consumer group."""
        try:
            with Admin(**select_client_options(self._client)) as admin:
                admin.alter_group_offsets(group_id, progress.next_offsets)
        except KafkaframesError as error:
            log.warning("offsets of batch %d are not committed to group %s: %s", progress.batch_id, group_id, error)

    def _estimate_lag(self, progress: TopicProgress) -> dict[str, Any]:
        """Return the estimated number of records and bytes in the query's backlog."""
        if self._consumer is None:
            reader = {"enable.auto.commit": False, "auto.offset.reset": "none"}
            sizes = {"max.partition.fetch.bytes": SAMPLE_FETCH_BYTES, "fetch.max.bytes": SAMPLE_FETCH_BYTES}
            self._consumer = Consumer(**{**self._client, **reader, **sizes})
        return dict(estimate_lags(progress, self._consumer))
