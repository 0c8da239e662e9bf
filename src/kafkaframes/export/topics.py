"""Copy a stretch of a live topic partition, as ``task.py`` copies a segment: a worker's work, by our own client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from kafkaframes.client import Consumer, TopicPartition
from kafkaframes.client.fetched import Fetched
from kafkaframes.errors import NetworkError, OptionError
from kafkaframes.export.settings import ExportTask, Settings
from kafkaframes.export.tally import SOURCE_COLUMNS
from kafkaframes.export.task import SegmentResult
from kafkaframes.records.memory import Recycler

SILENCE_SECONDS: Final = 120.0
_STEP_MS: Final = 1_000
_READER: Final[Mapping[str, Any]] = {
    "auto_offset_reset": "none",
    "enable_auto_commit": False,
    "fetch_max_bytes": 16 << 20,
    "max_partition_fetch_bytes": 8 << 20,
    "fetch_max_wait_ms": 100,
}


@dataclass(frozen=True, slots=True)
class TopicTask(ExportTask):
    """A stretch of a live topic partition, from ``first_offset`` up to ``end_offset`` (exclusive).

    Attributes:
        path: what messages call it.
        size_bytes: about what is fetched.
        client: settings of a consumer.
    """

    client: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


def copy_topic(
    result: SegmentResult,
    task: TopicTask,
    settings: Settings,
    write: Callable[[pa.RecordBatch], None],
    *,
    memory: Recycler,
) -> None:
    """Read a stretch and hand it over, batch by batch; count it in ``result``. Arguments as of ``copy_segment``.

    Raises:
        OptionError: the topic has lost offsets of the stretch meanwhile.
        CorruptRecordError: a batch is damaged.
        BrokerError, NetworkError: the partition cannot be read, or nothing came for ``SILENCE_SECONDS``.
    """
    with Consumer(**{**_READER, **task.client}) as consumer:
        consumer.assign({task.place: task.first_offset or 0}, ends={task.place: task.end_offset or 0})
        for fetched in _fetches(consumer, task):
            result.tally.begin_source()
            for batch in fetched.read(SOURCE_COLUMNS, end_offset=task.end_offset, memory=memory):
                write(result.tally.take(batch, settings.keep))


def _fetches(consumer: Consumer, task: TopicTask) -> Iterator[Fetched]:
    """Yield answers until the end of the stretch; offsets without records (compacted ones) are passed over."""
    reached, end = task.first_offset or 0, task.end_offset or 0
    deadline = time.monotonic() + SILENCE_SECONDS
    while reached < end:
        fetched = consumer.fetch(_STEP_MS)
        if fetched is not None:
            if fetched.log_start_offset > reached:
                raise OptionError(
                    f"{task.path}: offsets {reached} to {fetched.log_start_offset - 1} were removed while they were "
                    "read: run again"
                )
            deadline = time.monotonic() + SILENCE_SECONDS
            reached = fetched.next_offset
            yield fetched
        elif consumer.skip_gap(task.place, end):  # the log's last batches were compacted away
            return
        elif time.monotonic() > deadline:
            raise NetworkError(f"{task.path}: nothing came from offset {reached} on for {SILENCE_SECONDS:.0f} s")
