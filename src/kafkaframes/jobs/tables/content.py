"""How the rows of a table are made of records: as they are, or decoded; all, or the latest of each key. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from kafkaframes.jobs.export.settings import ExportTask, Settings
from kafkaframes.jobs.export.task import SegmentResult, copy_segment
from kafkaframes.jobs.export.topics import TopicTask, copy_topic
from kafkaframes.jobs.tables.schema import table_schema
from kafkaframes.records.memory import lent_memory
from kafkaframes.scan.values.columns import REASON, TOMBSTONE, split_rows
from kafkaframes.scan.values.decoding import Decoding

LATEST_WAVE_BYTES = 256 << 20  # of log: the keys that one commit changes are in memory at once


@dataclass(frozen=True)
class Content:
    """What a table holds.

    Attributes:
        decoding: how values are decoded; None keeps their bytes in ``value``.
        latest: whether it holds one row for each key of a topic, the latest, and none for a key whose latest record is
            a tombstone.
    """

    decoding: Decoding | None = None
    latest: bool = False

    @property
    def wave_bytes(self) -> int | None:
        """How much log one commit takes up at most; None where the keys do not matter."""
        return LATEST_WAVE_BYTES if self.latest else None

    def columns(self, *, headers: bool) -> pa.Schema:
        """Return the columns of the table, in order."""
        result = table_schema(headers=headers)
        if self.decoding is None:
            return result
        own = [] if self.latest else [pa.field(TOMBSTONE, pa.bool_())]
        index = result.get_field_index("value")
        fields = [result.field(name) for name in result.names]
        return pa.schema([*fields[:index], *own, *self.decoding.decoder().fields, *fields[index + 1 :]])

    def split(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """Return rows as the table's files have them, and those that make none, with the column ``reason``."""
        if self.decoding is None and not self.latest:
            return rows, None
        decoder = None if self.decoding is None else self.decoding.decoder()
        good, bad = split_rows(rows, decoder, needs_key=self.latest)
        if self.latest and decoder is None:
            good = good.append_column(TOMBSTONE, good.column("value").is_null())
        return good, bad


RAW = Content()


def dead_letter_schema(*, headers: bool) -> pa.Schema:
    """Return the columns of a table of dead letters: a record as it came, and the reason."""
    return table_schema(headers=headers).append(pa.field(REASON, pa.string()))


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
    sampled: list[bytes | None] = []

    def take(batch: pa.RecordBatch) -> None:
        sampled.extend(batch.column("value").slice(0, SAMPLED_VALUES - len(sampled)).to_pylist())
        if len(sampled) >= SAMPLED_VALUES:
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
    return sampled
