"""``df.writeStream.format("kafka-topic")``, which writes micro-batches to topics, at-least-once or exactly-once.

Spark creates a writer twice for each micro-batch, in two processes on the driver's machine: for the tasks, and for the
commit. The commit of an at-least-once writer does nothing.

The exactly-once writer works in the same way as ``write_topic`` (``topic_exactly_once.py``), but a separate process
owns the transaction (``jobs/write_topic/process_control.py``). A lost task fails the micro-batch and ends the query,
and the next run writes it again. Unlike ``foreachBatch``, a writer cannot make Spark repeat all tasks.
"""

from __future__ import annotations

import os
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from kafkaframes.errors import KafkaframesError, LostTaskError, OptionError
from kafkaframes.jobs.write_topic.process_control import TransactionProcess
from kafkaframes.scan.topic.options import TopicWriteOptions
from kafkaframes.spark.exactly_once.speculation import SPECULATION_SETTING, check_speculation
from kafkaframes.spark.options import check_exactly_once
from kafkaframes.spark.runtime.micro_batches import get_micro_batch_of_task
from kafkaframes.spark.runtime.worker import freeze_imports, hide_tracebacks
from kafkaframes.spark.sinks.topic_writer import (
    TopicTaskWriter,
    find_first_failure,
    prepare_rows,
    select_columns_to_write,
)

if TYPE_CHECKING:
    import pyarrow as pa


class KafkaTopicStreamWriter(TopicTaskWriter, DataSourceStreamArrowWriter):
    """A writer with which Spark writes a stream to topics at least once."""


@dataclass
class TaskWriteResult(WriterCommitMessage):
    """The record counts of a task attempt, or its error."""

    attempt: str
    counts: dict[tuple[str, int], int] = field(default_factory=dict)
    failure: str | None = None
    is_lost: bool = False


@hide_tracebacks
class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """A writer with which Spark writes a stream to topics exactly once."""

    def __init__(self, options: TopicWriteOptions, types: Mapping[str, str], checkpoint: str) -> None:
        check_exactly_once(options)
        if options.on_foreign_marker == "skip":
            raise OptionError(
                "onForeignMarker=skip changes the checkpoint, which only kafkaframes.spark.write_topic can do"
            )
        if not checkpoint:
            raise OptionError(
                "delivery=exactly-once needs the checkpoint's path as the sink's option checkpointLocation: a setting "
                "of the session does not reach it"
            )
        select_columns_to_write(types, options)
        self._options = options
        self._attempt = uuid.uuid4().hex
        self._process = TransactionProcess(options, _qualify_path(checkpoint))
        self._address = self._process.announce_tasks(self._attempt)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task. An error is returned in the message, so that Spark does not repeat the task."""
        from kafkaframes.spark.exactly_once.exactly_once_task import TaskArguments, write_rows

        context, query_id, number = get_micro_batch_of_task()
        batch = {"attempt": self._attempt, "query": query_id, "batch": number}
        rows = prepare_rows(iterator, self._options)
        wrote = TaskWriteResult(self._attempt)
        try:
            check_speculation(context.getLocalProperty(SPECULATION_SETTING))
            counts = write_rows(TaskArguments(self._options, self._address, batch), context.partitionId(), rows)
            wrote.counts = {
                (topic_partition.topic, topic_partition.partition): records
                for topic_partition, records in counts.items()
            }
        except KafkaframesError as error:
            if context.attemptNumber():  # rows that failed twice may be invalid; Spark then reports the error
                deque(iterator, maxlen=0)
            wrote.failure, wrote.is_lost = str(error), isinstance(error, LostTaskError)
        freeze_imports()
        return wrote

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Commit the transaction with the rows of all tasks."""
        wrote = [message for message in messages if isinstance(message, TaskWriteResult)]
        failure = find_first_failure((task_result.is_lost, task_result.failure) for task_result in wrote)
        if failure is not None:
            self._process.abort_attempt(wrote[0].attempt)
            raise KafkaframesError(f"micro-batch {batchId} was not written: {failure}") from failure
        counts: dict[tuple[str, int], int] = {}
        for task_result in wrote:
            for topic_partition, records in task_result.counts.items():
                counts[topic_partition] = counts.get(topic_partition, 0) + records
        self._process.commit_attempt(wrote[0].attempt if wrote else "", batchId, counts)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Abort the transaction."""
        self._process.abort_attempt(
            next((message.attempt for message in messages if isinstance(message, TaskWriteResult)), "")
        )


def _qualify_path(checkpoint: str) -> str:
    """Return a checkpoint path as Hadoop qualifies it, so that markers are compatible with those of ``write_topic``.

    >>> _qualify_path("/c/"), _qualify_path("file:///c"), _qualify_path("s3a://b/c/")
    ('file:/c', 'file:/c', 's3a://b/c')
    """
    if "://" in checkpoint and not checkpoint.startswith("file://"):
        return checkpoint.rstrip("/")
    return "file:" + os.path.abspath(checkpoint.removeprefix("file://").removeprefix("file:"))
