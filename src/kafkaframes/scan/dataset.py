"""A scan as a pyarrow dataset, the only type of Python object to which DuckDB pushes down columns and filters.

The class is not in ``frames.py`` because importing ``pyarrow.dataset`` takes memory that few scans need.

Filters are evaluated by pyarrow itself. This module creates a dataset of virtual files, each with a partition
expression that holds for its rows, and pyarrow returns the files that may contain rows that the filter keeps. This
module therefore does not parse filter expressions.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.scan.arrow import INSTANT_TYPE, OUT_OF_RANGE_TIMESTAMPS_COLUMN, separate_instants
from kafkaframes.scan.slices import ReadableScan, log_damage_at_end
from kafkaframes.scan.where import Interval, RowFilter
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64

_TIMESTAMP_COLUMN: Final = "timestamp"
_MILLISECOND_TYPE: Final = pa.timestamp("ms", tz="UTC")
_MayKeep = Callable[[ds.Expression], bool]
_OFFSET_RANGE: Final = range(MAX_INT64)
_PARTITION_RANGE: Final = range(-1, MAX_INT32)  # -1 is the partition of a file whose name contains no partition
_LOGGER: Final = logging.getLogger("kafkaframes.scan")
_TIMESTAMP_RANGE_MS: Final = range(-1, 2**53)
_MAX_TESTED_PARTITIONS: Final = 1_000  # each partition is tested separately, in about 40 us
_QUOTED_NAME_PATTERN: Final = re.compile(r'"([\w.-]+)"')


class ScanDataset(ds.Dataset):  # type: ignore[misc]
    """A scan as a pyarrow dataset, with the methods that DuckDB calls.

    DuckDB stores instants in microseconds. Timestamps out of that range are null, and are integers in the column
    ``OUT_OF_RANGE_TIMESTAMPS_COLUMN``. A dataset without this column logs a warning if it reads such a timestamp.

    Args:
        scan: The scan that the dataset reads.
        has_out_of_range_timestamps: Whether the dataset has the column ``OUT_OF_RANGE_TIMESTAMPS_COLUMN``.
    """

    def __init__(self, scan: ReadableScan, *, has_out_of_range_timestamps: bool = False) -> None:
        self._scan = scan
        self._schema = _to_microsecond_schema(scan.schema)
        if has_out_of_range_timestamps:
            self._schema = self._schema.append(pa.field(OUT_OF_RANGE_TIMESTAMPS_COLUMN, pa.int64()))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: ds.Expression | None = None,  # noqa: A002 (pyarrow's name)
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner for these columns of the rows that the filter keeps."""
        schema_names, reading = self.schema.names, self._scan
        names, text = schema_names if columns is None else list(columns), "" if filter is None else str(filter)
        names_to_read = [name for name in schema_names if name in names or name in text]
        if filter is not None and reading.row_limit is None:  # a limit applies before the filter
            # OptionError: a captures table has different columns with these names. ArrowException: a type has no
            # bounds.
            with suppress(OptionError, pa.ArrowException):
                reading = reading.with_conditions(extract_row_filter(filter, self.schema))
        names_to_read = names_to_read or schema_names[:1]
        sources = dict.fromkeys(
            name if name in self._scan.schema.names else _TIMESTAMP_COLUMN for name in names_to_read
        )
        schema = pa.schema([self._schema.field(name) for name in names_to_read])
        has_out_of_range_timestamps = OUT_OF_RANGE_TIMESTAMPS_COLUMN in schema_names
        rows = log_damage_at_end(reading.select(*sources).to_batches())
        batches = (
            _convert_to_schema(batch, schema, has_out_of_range_timestamps=has_out_of_range_timestamps) for batch in rows
        )
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        return ds.Scanner.from_batches(reader, columns=names, filter=filter)


def _to_microsecond_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with timestamps in microseconds instead of milliseconds."""
    index = schema.get_field_index(_TIMESTAMP_COLUMN)
    if index < 0 or schema.field(index).type != _MILLISECOND_TYPE:
        return schema
    return schema.set(index, schema.field(index).with_type(INSTANT_TYPE))


def _convert_to_schema(
    batch: pa.RecordBatch, schema: pa.Schema, *, has_out_of_range_timestamps: bool
) -> pa.RecordBatch:
    """Return a batch with the columns and types of ``schema``, with timestamps in microseconds."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    if _TIMESTAMP_COLUMN in columns and columns[_TIMESTAMP_COLUMN].type == _MILLISECOND_TYPE:
        columns[_TIMESTAMP_COLUMN], out_of_range_times = separate_instants(columns[_TIMESTAMP_COLUMN])
        if out_of_range_times is not None and not has_out_of_range_timestamps:
            count = len(out_of_range_times) - out_of_range_times.null_count
            _LOGGER.warning(
                "%s beyond the range of microseconds %s null; register the scan again, and the column %s has the "
                "milliseconds",
                count_text(count, "timestamp"),
                verb_text(count),
                OUT_OF_RANGE_TIMESTAMPS_COLUMN,
            )
        columns[OUT_OF_RANGE_TIMESTAMPS_COLUMN] = (
            pa.nulls(batch.num_rows, pa.int64()) if out_of_range_times is None else out_of_range_times
        )
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def extract_row_filter(condition: ds.Expression, schema: pa.Schema) -> RowFilter:
    """Return conditions on topic, partition, offset and timestamp that hold for every row that a filter keeps."""
    form, nowhere = ds.IpcFileFormat(), LocalFileSystem()

    def may_keep_rows(rows: ds.Expression) -> bool:
        """Return whether the filter may keep rows for which the expression ``rows`` holds."""
        dataset = ds.FileSystemDataset.from_paths(
            ["rows"], schema=schema, format=form, filesystem=nowhere, partitions=[rows]
        )
        return any(True for _ in dataset.get_fragments(condition))

    columns = {name for name in schema.names if name in str(condition) and not may_keep_rows(ds.field(name).is_null())}
    return RowFilter(
        _find_topics(may_keep_rows, sorted(set(_QUOTED_NAME_PATTERN.findall(str(condition)))))
        if "topic" in columns
        else None,
        _find_partitions(may_keep_rows) if "partition" in columns else None,
        _find_bounds(may_keep_rows, "offset", _OFFSET_RANGE) if "offset" in columns else (None, None),
        _find_bounds(may_keep_rows, "timestamp", _TIMESTAMP_RANGE_MS) if "timestamp" in columns else (None, None),
    )


def _find_bounds(may_keep: _MayKeep, name: str, values: range) -> Interval:
    """Return bounds of the values that the filter may keep. A time in milliseconds covers all of its microseconds."""
    column = ds.field(name)

    def up_to(value: int) -> pa.Scalar:
        return pa.scalar(value * 1000 + 999, pa.timestamp("us", "UTC")) if name == "timestamp" else pa.scalar(value)

    first = values[bisect_left(values, True, hi=len(values) - 1, key=lambda value: may_keep(column <= up_to(value)))]
    last = values[bisect_left(values, True, hi=len(values) - 1, key=lambda value: not may_keep(column > up_to(value)))]
    return (None if first == values[0] else first), (None if last == values[-1] else last + 1)


def _find_partitions(may_keep: _MayKeep) -> frozenset[int] | None:
    """Return the partition numbers that the filter may keep; None if they are too many to list."""
    first, end = _find_bounds(may_keep, "partition", _PARTITION_RANGE)
    first = _PARTITION_RANGE[0] if first is None else first
    if end is None or end - first > _MAX_TESTED_PARTITIONS:
        return None
    return frozenset(number for number in range(first, end) if may_keep(ds.field("partition") == number))


def _find_topics(may_keep: _MayKeep, topics: Sequence[str]) -> frozenset[str] | None:
    """Return the topics that the filter may keep; None if the filter may keep topics that it does not name."""
    column = ds.field("topic")
    between_topics = [(column > lower) & (column < upper) for lower, upper in pairwise(topics)]
    if not topics or any(map(may_keep, [column < topics[0], *between_topics, column > topics[-1]])):
        return None
    return frozenset(name for name in topics if may_keep(column == name))
