"""``df.writeStream.format("kafka-topic")``: each micro-batch into topics, at least once, as Spark's own sink does.

Spark makes this writer twice for each micro-batch, once for the tasks and once for the commit, so making it does
nothing. For exactly once see ``topic_exactly_once.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from kafkaframes.errors import OptionError
from kafkaframes.scan.topic.options import TopicWriteOptions
from kafkaframes.spark.topic_writer import send_task, written_columns
from kafkaframes.spark.worker import tells_plainly

if TYPE_CHECKING:
    import pyarrow as pa


@tells_plainly
class KafkaTopicStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch's writer."""

    def __init__(self, options: TopicWriteOptions, types: Mapping[str, str]) -> None:
        if options.delivery == "exactly-once":
            raise OptionError(
                "exactly-once needs a driver that holds the transaction while tasks write: "
                "kafkaframes.spark.write_topic(df, checkpoint=..., ...) does that"
            )
        written_columns(types, options)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send one task's rows, and wait until the brokers have them."""
        return send_task(self.options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Nothing: the records are there."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Nothing: what was written stays, and is written again by the next attempt."""
