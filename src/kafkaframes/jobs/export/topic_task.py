"""Export an offset range of a live topic partition, which the kafkaframes client fetches. Workers run this code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafkaframes.client import Consumer, TopicPartition
from kafkaframes.client.range_reader import RangeReader
from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.tally import SOURCE_COLUMNS
from kafkaframes.jobs.export.task import ExportTask, ExportTaskSettings, Look, SegmentResult, Write, add_fault
from kafkaframes.records.columns import ReadError
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.memory import Recycler

MAX_FETCH_SILENCE_MS: Final = 120_000  # an export fails if no data arrive for this time
_READER_SETTINGS: Final[Mapping[str, Any]] = {
    "auto_offset_reset": "none",
    "enable_auto_commit": False,
    "fetch_max_bytes": 16 << 20,
    "max_partition_fetch_bytes": 8 << 20,
    "fetch_max_wait_ms": 100,
}


@dataclass(frozen=True)
class TopicTask(ExportTask):
    """The export of an offset range of a live topic partition, from ``first_offset`` to ``end_offset`` (exclusive).

    Attributes:
        path: name of the offset range in messages.
        size_bytes: estimated number of bytes to fetch.
        client: consumer settings.
    """

    client: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition."""
        return TopicPartition(self.topic, self.partition)

    def copy_records(
        self,
        result: SegmentResult,
        settings: ExportTaskSettings,
        write: Write,
        *,
        memory: Recycler,
        observe_batches: Look | None = None,
    ) -> None:
        """Fetch the range and pass it to ``write`` batch by batch, as ``ExportTask.copy_records`` does.

        Raises:
            OptionError: the topic has deleted offsets of the range since it was planned, or ends before the range.
            CorruptRecordError: a batch is damaged, and ``on_damage`` is "fail".
            BrokerError, NetworkError: the partition cannot be read, or no data arrive for ``MAX_FETCH_SILENCE_MS``.
        """
        with Consumer(**{**_READER_SETTINGS, **self.client}) as consumer:
            for fetched_batches in iter(_open_range_reader(consumer, self).read_next, None):
                if observe_batches is not None:
                    observe_batches(fetched_batches.batches)
                result.tally.begin_source_file()
                errors: list[ReadError] = []
                record_batches = fetched_batches.read(
                    SOURCE_COLUMNS,
                    end_offset=self.end_offset,
                    verify_crc=settings.verify_crc,
                    memory=memory,
                    on_damage=settings.on_damage,
                    control_records=settings.keep.control,
                    errors=errors,
                )
                for batch in record_batches:
                    write(result.tally.count_and_filter_rows(batch, settings.keep))
                data = fetched_batches.data
                for error in errors:
                    header = bytes(data[error.position : error.position + BATCH_V2.size])
                    add_fault(result, error, header, end=len(data))


def _open_range_reader(consumer: Consumer, task: TopicTask) -> RangeReader:
    """Return a reader of the task's offsets. The reader raises an error if records of the range are lost."""

    def raise_loss(problem: str) -> None:
        raise OptionError(f"{task.path} {problem}; run the job again")

    first, end = task.first_offset or 0, task.end_offset or 0
    return RangeReader(consumer, task.topic_partition, first, end, on_loss=raise_loss, silence_ms=MAX_FETCH_SILENCE_MS)
