"""The work of one Spark task of ``kafka-topic``, and the function that reads it: the same for batch and stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from kafkaframes.scan.columns import Column
from kafkaframes.spark.worker import settle

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.scan.topic.planning import Range


class TopicPiece(InputPartition):
    """The work of one task: a stretch of one topic partition; None where there is nothing to read."""

    def __init__(self, work: Range | None) -> None:
        super().__init__(work)
        self.work = work


def read_piece(
    partition: InputPartition, columns: tuple[Column, ...], options: TopicOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task, of a batch or a stream."""
    from kafkaframes.scan.topic.reading import read_range

    if isinstance(partition, TopicPiece) and partition.work is not None:
        yield from read_range(partition.work, columns, options)
        settle()
