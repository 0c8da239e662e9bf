"""From the columns of ``records`` to those of ``kafka-log``, in the very types that Spark's DDL asks for. No pyspark.

Spark compares the schema of a source's first batch with its own to the letter: ``binary`` is not ``large_binary``, the
field of a list is named ``element``, timestamps are microseconds in UTC, strings are no dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.records import arrays
from kafkaframes.spark.columns import HEADERS_TYPE, NAMES_TYPE, Column
from kafkaframes.spark.planning import Segment

_MOST_MILLISECONDS = (2**63 - 1) // 1000

ARROW_TYPES: dict[str, pa.DataType] = {
    NAMES_TYPE: pa.list_(pa.field("element", pa.string())),
    "binary": pa.binary(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    HEADERS_TYPE: pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
}
# What the segment itself says of all its records.
_OF_SEGMENT: dict[str, Callable[[Segment], Any]] = {
    "topic": lambda segment: segment.topic,
    "partition": lambda segment: segment.partition,
    "file": lambda segment: segment.path,
    "source": lambda segment: segment.source,
}


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema that Spark expects of these columns."""
    return pa.schema([pa.field(column.name, ARROW_TYPES[column.type]) for column in columns])


def source_columns(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the columns of ``records`` that these are made from; one at least, since rows are counted by it."""
    return tuple(column.source for column in columns if column.source) or ("offset",)


def to_spark(batch: pa.RecordBatch, columns: Sequence[Column], schema: pa.Schema, segment: Segment) -> pa.RecordBatch:
    """Return the Arrow batch for Spark that has the rows of ``batch``."""
    arrays = [
        _CONVERSIONS.get(column.type, _as_it_is)(batch.column(column.source))
        if column.source
        else repeated(column, segment, batch.num_rows)
        for column in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def repeated(column: Column, segment: Segment, rows: int) -> pa.Array:
    """Return a column that says of each row what its segment says."""
    return arrays.repeated(_OF_SEGMENT[column.name](segment), ARROW_TYPES[column.type], rows)


def instants(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    """Return timestamps; what no microseconds can say (the year 294247 and later) is null.

    >>> instants(np.array([1, 2**62])).is_null().to_pylist()
    [False, True]
    """
    beyond = (milliseconds > _MOST_MILLISECONDS) | (milliseconds < -_MOST_MILLISECONDS)
    return arrays.numbers(milliseconds * 1000, ARROW_TYPES["timestamp"], missing=beyond if beyond.any() else None)


def _as_it_is(array: pa.Array) -> pa.Array:
    return array


def _instants(array: pa.Array) -> pa.Array:
    return instants(arrays.int64_values(array))


def _null_where_empty(array: pa.Array) -> pa.Array:
    """Records without headers have null headers in Spark's Kafka source."""
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, offset=4 * array.offset)
    there = np.packbits(offsets[1:] > offsets[:-1], bitorder="little")
    buffers = [pa.py_buffer(there), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(ARROW_TYPES[HEADERS_TYPE], len(array), buffers, children=[array.values])


_CONVERSIONS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "timestamp": _instants,
    "string": lambda array: array.cast(pa.string()),
    HEADERS_TYPE: _null_where_empty,
}
