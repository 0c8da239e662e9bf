"""The work of one Spark task of ``kafka-log`` and ``kafka-topic``, and what reads it: the same for batch and stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from kafkaframes.scan.columns import Column
from kafkaframes.spark.worker import settle

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.scan.log.planning import Slice
    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.scan.topic.planning import Range

# layout of the rows -> the function that reads a task's work, imported in the worker only
_READERS = {
    "records": ("kafkaframes.scan.log.reading", "read_work"),
    "batches": ("kafkaframes.scan.log.tables", "read_batch_work"),
    "segments": ("kafkaframes.scan.log.tables", "read_segment_work"),
    "internal": ("kafkaframes.scan.log.tables", "read_internal_work"),
}


class LogPartition(InputPartition):
    """The work of one task: stretches of segments."""

    def __init__(self, work: tuple[Slice, ...]) -> None:
        super().__init__(work)
        self.work = work


def read_table(work: Sequence[Slice], columns: Sequence[Column], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task, of the table that the options ask for, in Arrow batches of about 1 MB."""
    from kafkaframes.scan.arrow import rebatch

    module, function = _READERS[options.layout]
    yield from rebatch(getattr(import_module(module), function)(work, columns, options))
    settle()


class TopicPart(InputPartition):
    """The work of one task: a stretch of one topic partition; None where there is nothing to read."""

    def __init__(self, work: Range | None) -> None:
        super().__init__(work)
        self.work = work


def read_topic(
    partition: InputPartition, columns: tuple[Column, ...], options: TopicOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task, of a batch or a stream."""
    from kafkaframes.scan.topic.reading import read_range

    if isinstance(partition, TopicPart) and partition.work is not None:
        yield from read_range(partition.work, columns, options)
        settle()
