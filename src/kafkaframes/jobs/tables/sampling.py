"""Read the first values of the topics that a table is made from, to derive a schema where none is given."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from kafkaframes.jobs.export.settings import ExportTask, Settings
from kafkaframes.jobs.export.task import SegmentResult, copy_segment
from kafkaframes.jobs.export.topics import TopicTask, copy_topic
from kafkaframes.records.memory import lent_memory

SAMPLED_VALUES = 1_000  # of each topic partition


class _EnoughError(Exception):
    """The sample is full."""


def sample_values(tasks: Iterable[ExportTask], settings: Settings) -> list[bytes | None]:
    """Return the first values of each topic partition, at most ``SAMPLED_VALUES``, of its first task."""
    firsts: dict[tuple[str, int], ExportTask] = {}
    for task in tasks:
        firsts.setdefault((task.topic, task.partition), task)
    return [value for task in firsts.values() for value in _values(task, settings)]


def _values(task: ExportTask, settings: Settings) -> list[bytes | None]:
    found: list[bytes | None] = []

    def take(batch: pa.RecordBatch) -> None:
        found.extend(batch.column("value").slice(0, SAMPLED_VALUES - len(found)).to_pylist())
        if len(found) >= SAMPLED_VALUES:
            raise _EnoughError

    result = SegmentResult(task)
    try:
        with lent_memory() as memory:
            if isinstance(task, TopicTask):
                copy_topic(result, task, settings, take, memory=memory)
            else:
                copy_segment(result, settings, take, memory=memory)
    except _EnoughError:
        pass
    return found
