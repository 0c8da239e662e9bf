"""Arrow types of a scan's columns, and the conversion of record batches of the package ``records`` to these types.

Spark requires that the schema of a source's first batch equals the planned schema exactly: ``binary`` rather than
``large_binary``, a list field named ``element``, timestamps in UTC microseconds, strings without a dictionary. Arrays
are created from buffers; ``records/arrays.py`` gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.records.arrays import int64_values, repeat_value
from kafkaframes.scan.columns import HEADERS_TYPE, NAME_LIST_TYPE, Column
from kafkaframes.wire.integers import MAX_INT64

INSTANT_TYPE = pa.timestamp("us", tz="UTC")
OUT_OF_RANGE_TIMESTAMPS_COLUMN = "timestampMs"  # timestamps that INSTANT_TYPE cannot represent, in ms
MAX_INSTANT_MS = MAX_INT64 // 1000
NULL_REMEDY = "`timestamp_errors`=null reads it as null"
ARROW_TYPES: dict[str, pa.DataType] = {
    NAME_LIST_TYPE: pa.list_(pa.field("element", pa.string())),
    "binary": pa.binary(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": INSTANT_TYPE,
    HEADERS_TYPE: pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
}


class Origin(Protocol):
    """The origin of rows: a segment or a live topic partition."""

    @property
    def topic(self) -> str | None:
        """The topic name; None if it is unknown."""

    @property
    def partition(self) -> int | None:
        """The partition number; None if it is unknown."""

    @property
    def path(self) -> str:
        """The path of the segment; empty for a live partition."""

    @property
    def source(self) -> str:
        """The log directory of the segment; empty for a live partition."""


# Columns that have the same value in all records of an origin.
_ORIGIN_COLUMN_GETTERS: dict[str, Callable[[Origin], Any]] = {
    "topic": lambda origin: origin.topic,
    "partition": lambda origin: origin.partition,
    "file": lambda origin: origin.path,
    "source": lambda origin: origin.source,
}


def build_arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema that Spark expects for these columns."""
    return pa.schema([pa.field(column.name, ARROW_TYPES[column.type]) for column in columns])


class SparkConversion:
    """A conversion of batches of the package ``records`` to the columns that Spark requests, planned once for a task.

    Args:
        columns: Columns of the result.
        timestamp_errors: ``raise`` or ``null``: raise an error for a timestamp that ``INSTANT_TYPE`` cannot represent,
            or convert it to null.

    Attributes:
        schema: Schema of the batches for Spark.
        sources: Columns that the conversion reads from a batch of ``records``; at least one, because its length is the
            row count.
    """

    def __init__(self, columns: Sequence[Column], *, timestamp_errors: str = "raise") -> None:
        self.schema = build_arrow_schema(columns)
        sources = [column.source for column in columns if column.source]
        self._has_strict_times = timestamp_errors == "raise" and "timestamp" in sources
        if (self._has_strict_times or not sources) and "offset" not in sources:
            sources.append("offset")
        self.sources = tuple(sources)
        self._steps = [(column, _CONVERSION_BY_COLUMN.get(column.type, _as_it_is)) for column in columns]

    def convert_batch(self, batch: pa.RecordBatch, origin: Origin) -> pa.RecordBatch:
        """Return the rows of ``batch``, which are records of ``origin``, with the columns for Spark.

        Raises:
            OptionError: A timestamp is out of range and ``timestamp_errors`` is ``raise``. The message names the topic,
                partition and offset of the record, and the timestamp.
        """
        if self._has_strict_times:
            check_instants(batch, origin.topic, origin.partition)
        arrays = [
            convert(batch.column(column.source)) if column.source else repeat_origin(origin, column, batch.num_rows)
            for column, convert in self._steps
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def repeat_origin(origin: Origin, column: Column, rows: int) -> pa.Array:
    """Return an array that repeats a value of the origin, such as the topic, for each row."""
    return repeat_value(_ORIGIN_COLUMN_GETTERS[column.name](origin), ARROW_TYPES[column.type], rows)


def to_instants(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    """Return milliseconds as UTC microseconds. Times out of the range of microseconds (year 294247) are null.

    >>> to_instants(np.array([1, 2**62])).is_null().to_pylist()
    [False, True]
    """
    is_out_of_range = (milliseconds > MAX_INSTANT_MS) | (milliseconds < -MAX_INSTANT_MS)
    validity = pa.py_buffer(np.packbits(~is_out_of_range, bitorder="little")) if is_out_of_range.any() else None
    return pa.Array.from_buffers(INSTANT_TYPE, milliseconds.size, [validity, pa.py_buffer(milliseconds * 1000)])


def to_instant_array(times: pa.Array) -> pa.Array:
    """Return an array of milliseconds converted with ``to_instants``. Nulls stay null."""
    return to_instants(int64_values(times, null_value=np.iinfo(np.int64).max))


def check_instants(
    batch: pa.RecordBatch, topic: str | None = None, partition: int | None = None, *, remedy: str = NULL_REMEDY
) -> None:
    """Check that microseconds can represent the timestamp of each record.

    Args:
        batch: Batch with the column ``timestamp`` in milliseconds. The error identifies the record by the columns
            ``topic``, ``partition`` and ``offset``, if the batch has them.
        topic, partition: Topic and partition of all records, if they are known.
        remedy: Advice in the error message.

    Raises:
        OptionError: A timestamp is out of range.
    """
    milliseconds = int64_values(batch.column("timestamp"), null_value=0)

    def value_of(name: str, row: int, plain_value: object) -> object:
        return batch.column(name)[row].as_py() if plain_value is None and name in batch.schema.names else plain_value

    def describe_record(row: int) -> str:
        """Return the subject of the error message for a row: the record, with its offset and topic partition."""
        offset, topic_name = value_of("offset", row, None), value_of("topic", row, topic)
        record = "a record" if offset is None else f"the record at offset {offset}"
        number = value_of("partition", row, partition)
        return f"{record}{'' if topic_name is None else f' of topic partition {topic_name}-{number}'} has the timestamp"

    check_milliseconds(milliseconds, describe_record, remedy=remedy)


def check_milliseconds(
    milliseconds: npt.NDArray[np.int64], describe: Callable[[int], str], *, remedy: str = NULL_REMEDY
) -> None:
    """Check that each time fits into 64-bit microseconds, as in Arrow's timestamp columns.

    Args:
        milliseconds: Times in milliseconds since 1970.
        describe: Function that returns the start of the error message for the index of a time, up to the time itself.
        remedy: Advice in the error message.

    Raises:
        OptionError: A time is out of range.
    """
    is_out_of_range = np.flatnonzero((milliseconds > MAX_INSTANT_MS) | (milliseconds < -MAX_INSTANT_MS))
    if is_out_of_range.size:
        row = int(is_out_of_range[0])
        raise OptionError(
            f"{describe(row)} {milliseconds[row]}, which must be milliseconds from {-MAX_INSTANT_MS} to "
            f"{MAX_INSTANT_MS} to become a Spark timestamp (microseconds). Does its producer use another unit? "
            f"{remedy}"
        )


def separate_instants(times: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Return the converted timestamps, and the milliseconds of those that are out of range; None if all are in range.

    >>> near, far = separate_instants(pa.array([1, 2**62, None], pa.timestamp("ms", "UTC")))
    >>> near.is_null().to_pylist(), far.to_pylist()
    ([False, True, True], [None, 4611686018427387904, None])
    """
    in_range_times = to_instant_array(times)
    if in_range_times.null_count == times.null_count:
        return in_range_times, None
    milliseconds = times.cast(pa.int64())
    import pyarrow.compute as pc  # this import costs 4 MB and 20 ms; timestamps in range do not need it

    return in_range_times, pc.if_else(in_range_times.is_null(), milliseconds, pa.scalar(None, pa.int64()))


def merge_out_of_range_timestamps(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with all timestamps in milliseconds, including ``OUT_OF_RANGE_TIMESTAMPS_COLUMN``."""
    index = rows.schema.get_field_index("timestamp")
    times = rows.column(index)
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
    if OUT_OF_RANGE_TIMESTAMPS_COLUMN in rows.schema.names:
        import pyarrow.compute as pc

        times = pc.coalesce(times, rows.column(OUT_OF_RANGE_TIMESTAMPS_COLUMN))
        rows = rows.drop_columns([OUT_OF_RANGE_TIMESTAMPS_COLUMN])
    return rows.set_column(index, pa.field("timestamp", pa.int64()), times)


def _as_it_is(array: pa.Array) -> pa.Array:
    return array


def _nullify_empty_headers(array: pa.Array) -> pa.Array:
    """Convert empty headers to null, as in Spark's Kafka source."""
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, offset=4 * array.offset)
    validity = np.packbits(offsets[1:] > offsets[:-1], bitorder="little")
    buffers = [pa.py_buffer(validity), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(ARROW_TYPES[HEADERS_TYPE], len(array), buffers, children=[array.values])


_CONVERSION_BY_COLUMN: dict[str, Callable[[pa.Array], pa.Array]] = {
    "timestamp": to_instant_array,
    "string": lambda array: array.cast(pa.string()),
    HEADERS_TYPE: _nullify_empty_headers,
}


TARGET_BATCH_BYTES = 1 << 20


def rebatch(batches: Iterable[pa.RecordBatch], *, target: int = TARGET_BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, in batches of about ``target`` bytes. Empty batches are dropped.

    A row that is larger than the target becomes a separate batch.
    """
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if waiting and waiting_bytes + batch.nbytes > target:
            yield _concatenate(waiting)
            waiting, waiting_bytes = [], 0
        if not waiting and batch.nbytes > target // 2:  # concatenation copies; avoid it for batches near the target
            yield from _split_batch(batch, target)
        else:
            waiting.append(batch)
            waiting_bytes += batch.nbytes
    if waiting:
        yield _concatenate(waiting)


def _split_batch(batch: pa.RecordBatch, target: int) -> Iterator[pa.RecordBatch]:
    """Return the rows of a batch in slices of about ``target`` bytes."""
    parts = max(1, round(batch.nbytes / target))
    rows = -(-batch.num_rows // parts)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _concatenate(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
