"""Copy a stretch of a live topic partition, as ``task.py`` copies a segment: a worker's work, by our own client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from kafkaframes.client import Consumer, TopicPartition
from kafkaframes.client.fetched import Fetched
from kafkaframes.client.stretch import Rules, fetches
from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.settings import ExportTask, Settings
from kafkaframes.jobs.export.tally import SOURCE_COLUMNS
from kafkaframes.jobs.export.task import SegmentResult
from kafkaframes.records.memory import Recycler

SILENCE_MS: Final = 120_000
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
    def topic_partition(self) -> TopicPartition:
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
        OptionError: the topic has lost offsets of the stretch meanwhile, or ends before it does.
        CorruptRecordError: a batch is damaged.
        BrokerError, NetworkError: the partition cannot be read, or nothing came for ``SILENCE_MS``.
    """
    with Consumer(**{**_READER, **task.client}) as consumer:
        for fetched in _fetches(consumer, task):
            result.tally.begin_source()
            for batch in fetched.read(SOURCE_COLUMNS, end_offset=task.end_offset, memory=memory):
                write(result.tally.take(batch, settings.keep))


def _fetches(consumer: Consumer, task: TopicTask) -> Iterator[Fetched]:
    def lost(problem: str) -> None:
        raise OptionError(f"{task.path} {problem}: run again")

    rules = Rules(lost, silence_ms=SILENCE_MS)
    return fetches(consumer, task.topic_partition, rules, first=task.first_offset or 0, end=task.end_offset or 0)
