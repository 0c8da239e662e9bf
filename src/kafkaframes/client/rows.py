"""What a consumer gives of fetched records: columns with topic and partition beside them, or Python values. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.records.columns import DEFAULT_COLUMNS, ReadOptions

PLACE_COLUMNS: Final = {"topic": pa.string(), "partition": pa.int32()}


class ConsumerRecord(NamedTuple):
    """One record, as ``poll`` gives it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@lru_cache(maxsize=64)
def schema_of(columns: tuple[str, ...]) -> tuple[tuple[str, ...], pa.Schema]:
    """Return the columns that are the records' own, and the schema of all."""
    inner = tuple(name for name in columns if name not in PLACE_COLUMNS)
    known = ReadOptions(columns=inner).checked().schema
    return inner, pa.schema([(name, PLACE_COLUMNS.get(name) or known.field(name).type) for name in columns])


def placed(
    batch: pa.RecordBatch, partition: TopicPartition, columns: Sequence[str], schema: pa.Schema
) -> pa.RecordBatch:
    """Return these columns of a batch, with the partition that it is of where they name it."""
    if batch.schema.names == list(columns):
        return batch
    place = {"topic": pa.scalar(partition.topic, pa.string()), "partition": pa.scalar(partition.partition, pa.int32())}
    arrays = [pa.repeat(place[name], batch.num_rows) if name in place else batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def records_of(batch: pa.RecordBatch, partition: TopicPartition) -> list[ConsumerRecord]:
    """Return the records of a batch that has the default columns, as Python values."""
    values = {name: batch.column(name).to_pylist() for name in DEFAULT_COLUMNS}
    return [
        ConsumerRecord(
            partition.topic,
            partition.partition,
            offset,
            timestamp if isinstance(timestamp, int) else int(timestamp.timestamp() * 1000),
            key,
            value,
            [(one["key"], one["value"]) for one in headers or ()],
        )
        for offset, timestamp, key, value, headers in zip(
            values["offset"], values["timestamp"], values["key"], values["value"], values["headers"], strict=True
        )
    ]
