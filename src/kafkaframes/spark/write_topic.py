"""``kafkaframes.spark.write_topic``: rows into topics exactly once. Imports its work only when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery


def write_topic(
    frame: DataFrame,
    options: Mapping[str, str],
    *,
    checkpoint: str | None = None,
    sink: str = "sink",
    trigger: Mapping[str, Any] | None = None,
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
        query_name: as Spark shows it.

    Returns:
        The running query; None for a batch, which is written then.

    Raises:
        OptionError: an option or a column does not fit.
        BrokerError, NetworkError: (of a batch) nothing was committed.
        KafkaframesError: (of a batch) the answer to the commit did not come; what is known.
    """
    from kafkaframes.spark.topic_exactly_once import write

    return write(frame, options, checkpoint=checkpoint, sink=sink, trigger=trigger, query_name=query_name)
