"""The task readers of ``kafka-log`` and ``kafka-topic``, shared by batches and streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from pyspark.sql.datasource import InputPartition

from kafkaframes.scan.columns import Column
from kafkaframes.spark.runtime.worker import freeze_imports, hide_tracebacks
from kafkaframes.spark.sources.schemas import RowDecoding, decode_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.scan.log.planning import SegmentSlice
    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.scan.topic.shares import PartitionRange
    from kafkaframes.spark.sources.execution_offsets import DeferredOffsetWork

# Layout of the rows -> name of the function that reads a task's work. Only workers import it.
_READER_FUNCTIONS = {
    "records": ("kafkaframes.scan.log.reading", "read_work"),
    "batches": ("kafkaframes.scan.log.tables", "read_batch_work"),
    "segments": ("kafkaframes.scan.log.tables", "read_segment_work"),
    "internal": ("kafkaframes.scan.log.tables", "read_internal_work"),
}


def read_table(
    work: Sequence[SegmentSlice], columns: Sequence[Column], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task as Arrow batches of about 1 MB, with the columns of the options' table."""
    from kafkaframes.scan.arrow import rebatch

    module, function = _READER_FUNCTIONS[options.layout]
    yield from rebatch(getattr(import_module(module), function)(work, columns, options))
    freeze_imports()


def read_topic(
    work: DeferredOffsetWork | PartitionRange | None, columns: Sequence[Column], options: TopicOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task.

    Args:
        work: Range of one topic partition, or shares of several partitions, whose offsets are looked up by this call.
            None: no rows.
        columns: Columns of the result.
        options: Options of the read.
    """
    from kafkaframes.scan.topic.reading import read_range
    from kafkaframes.spark.sources.execution_offsets import DeferredOffsetWork

    if work is None:
        return
    for entry in work.resolve_ranges(options) if isinstance(work, DeferredOffsetWork) else [work]:
        yield from read_range(entry, columns, options)
    freeze_imports()


_Options = TypeVar("_Options")


@hide_tracebacks
class TaskReader(Generic[_Options]):
    """The part of a Spark reader that runs in workers; ``read_work`` is ``read_table`` or ``read_topic``."""

    read_work: ClassVar[staticmethod[..., Iterator[pa.RecordBatch]]]

    def __init__(self, options: _Options, columns: tuple[Column, ...], values: RowDecoding | None = None) -> None:
        self.options = options
        self.columns = columns
        self.values = values

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task as Arrow batches of about 1 MB."""
        yield from decode_rows(self.read_work(partition.value, self.columns, self.options), self.values)
