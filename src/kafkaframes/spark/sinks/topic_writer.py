"""``df.write.format("kafka-topic")``, which writes rows to topics. Each task sends Arrow batches through its producer.

Delivery is at-least-once, as in Spark's own sink: a task that Spark repeats writes its rows again.

Spark creates a writer in a planner process to check the columns, and again for the commit. Neither the check nor the
commit imports the client.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kafkaframes.errors import KafkaframesError, LostTaskError, OptionError
from kafkaframes.jobs.write_topic.producer import open_producer
from kafkaframes.scan.columns import RECORD_COLUMNS
from kafkaframes.scan.topic.options import TopicWriteOptions
from kafkaframes.spark.runtime.worker import freeze_imports, hide_tracebacks
from kafkaframes.spark.sinks.columns import COLUMN_TYPES

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaframes.client import Producer

_log = logging.getLogger("kafkaframes.spark")
_READER_COLUMNS: Final = frozenset(column.name for column in RECORD_COLUMNS)
_BYTES_PER_SEND: Final = 8 << 20  # size of rows that are sent together
_MAX_PENDING_SENDS: Final = 2  # largest number of unfinished sends, in addition to the rows that are being collected


@dataclass
class TaskSendResult(WriterCommitMessage):
    """The result of a write task: the number of records in each topic partition."""

    task: int
    counts: dict[tuple[str, int], int]


def select_columns_to_write(types: Mapping[str, str], options: TopicWriteOptions) -> list[str]:
    """Check the columns before tasks start, and return the columns that are written to records.

    Other columns are ignored, as in Spark's sink. The names of ignored columns that no reader returns are logged once.

    Raises:
        OptionError: ``value`` or a topic is missing, or a column has an invalid type.
    """
    names = [name for name in types if _is_written(name, options)]
    for name in names:
        if types[name] not in (*COLUMN_TYPES[name], "void"):
            raise OptionError(f"column {name} is {types[name]} and must be {' or '.join(COLUMN_TYPES[name])}")
    if "value" not in names:
        raise OptionError("a column named value is required")
    if "topic" not in names and options.topic is None:
        raise OptionError("the topic is missing; set the option topic, or add a column topic")
    if options.timestamps == "column" and "timestamp" not in names:
        raise OptionError("timestamps=column requires a column timestamp")
    _log_ignored_columns(options.topic, tuple(name for name in types if name not in _READER_COLUMNS))
    return names


@cache  # once for each set of names in a process: writers are created for each commit and micro-batch
def _log_ignored_columns(topic: str | None, names: tuple[str, ...]) -> None:
    """Log the names of columns that are not written."""
    if names:
        target = "topics" if topic is None else f"topic {topic}"
        _log.warning("columns not written to %s: %s", target, ", ".join(names))


def _is_written(name: str, options: TopicWriteOptions) -> bool:
    """Return whether a column is written to the records."""
    ignored_columns = {"offset": True, "topic": options.topic is not None, "timestamp": options.timestamps != "column"}
    return name in COLUMN_TYPES and not ignored_columns.get(name, False)


@hide_tracebacks
class TopicTaskWriter:
    """The part of Spark's batch and stream writers that sends rows to topics.

    The commit does nothing, as in Spark's own sink.
    """

    def __init__(self, options: TopicWriteOptions, types: Mapping[str, str]) -> None:
        select_columns_to_write(types, options)
        if "transactional.id" in options.client:
            raise OptionError("option kafka.transactional.id: transactions require delivery=exactly-once")
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of a task, and wait for the acknowledgements of the brokers."""
        context = TaskContext.get()
        task_sent = TaskSendResult(context.partitionId() if context else 0, send_rows(self.options, iterator))
        freeze_imports()
        return task_sent


class KafkaTopicWriter(TopicTaskWriter, DataSourceArrowWriter):
    """A Spark batch writer for topics. Spark pickles it for each task and for the commit."""

    def __init__(self, options: TopicWriteOptions, types: Mapping[str, str]) -> None:
        if options.delivery == "exactly-once":
            raise OptionError("delivery=exactly-once for a batch requires kafkaframes.spark.write_topic(df, ...)")
        super().__init__(options, types)


def find_first_failure(reported_errors: Iterable[tuple[bool | None, str | None]]) -> KafkaframesError | None:
    """Return the first error from the tasks; errors in a task itself take precedence over lost tasks.

    Args:
        reported_errors: For each task, whether the error is a lost task, and the text of the error. The text is None if
            the task succeeded.
    """
    for is_lost, failure in sorted((bool(is_lost), text) for is_lost, text in reported_errors if text is not None):
        return LostTaskError(failure) if is_lost else KafkaframesError(failure)
    return None


def send_rows(options: TopicWriteOptions, rows: Iterator[pa.RecordBatch]) -> dict[tuple[str, int], int]:
    """Send rows to their topics, and return the number of records in each topic partition."""
    with open_producer(options) as producer:
        return send_through_producer(producer, options, rows)


def send_through_producer(
    producer: Producer, options: TopicWriteOptions, rows: Iterator[pa.RecordBatch]
) -> dict[tuple[str, int], int]:
    """Send rows through a producer, and return the number of records in each topic partition.

    While requests are in flight, the next rows are read from Spark and encoded, in order.
    """
    from kafkaframes.jobs.write_topic.packing import resize_batches

    counts: dict[tuple[str, int], int] = {}
    pending_sends: deque[Future[pa.Table]] = deque()
    for batch in resize_batches(prepare_rows(rows, options), _BYTES_PER_SEND):
        pending_sends.append(producer.queue_arrow(batch, topic=options.topic))
        while len(pending_sends) > _MAX_PENDING_SENDS:
            _count_records(pending_sends.popleft().result(), counts)
    for request in pending_sends:
        _count_records(request.result(), counts)
    return counts


def _count_records(rows: pa.Table, counts: dict[tuple[str, int], int]) -> None:
    """Add the record counts of each topic partition to ``counts``."""
    names = zip(rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True)
    for name, count in zip(names, rows["count"].to_pylist(), strict=True):
        counts[name] = counts.get(name, 0) + count


def prepare_rows(rows: Iterator[pa.RecordBatch], options: TopicWriteOptions) -> Iterator[pa.RecordBatch]:
    """Yield the columns to write, in the types that the producer accepts."""
    return (_select_columns(batch, options) for batch in rows if batch.num_rows)


def _select_columns(batch: pa.RecordBatch, options: TopicWriteOptions) -> pa.RecordBatch:
    """Return the columns to write in the producer's types, after a check of topics and partitions."""
    import pyarrow as pa

    from kafkaframes.jobs.write_topic.packing import check_row_partitions, check_row_topics

    arrays, names = [], []
    for name in batch.schema.names:
        column = batch.column(name)
        if pa.types.is_null(column.type) or not _is_written(name, options):
            continue
        arrays.append(_to_milliseconds(column) if name == "timestamp" else column)
        names.append(name)
    if "topic" in names:
        check_row_topics(batch.column("topic"))
    if "partition" in names:
        check_row_partitions(batch.column("partition"))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _to_milliseconds(column: pa.Array) -> pa.Array:
    """Return a timestamp column in milliseconds; return other columns unchanged."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        return pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms", tz=column.type.tz))
    return column
