"""Rows of a scan as Arrow batches, with record columns and columns of their origin; and row counts from headers."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.records.arrays import bool_array, int64_values, repeat_value
from kafkaframes.records.columns import DEFAULT_COLUMNS, ReadOptions, RecordReader
from kafkaframes.records.makers import COLUMNS
from kafkaframes.records.scan import BatchHeaders, BatchSource, Bytes, Flags, check_crcs
from kafkaframes.scan.where import RowFilter

if TYPE_CHECKING:
    import pandas as pd

_ORIGIN_FIELD_BY_NAME: Final = {
    "topic": pa.field("topic", pa.string()),
    "partition": pa.field("partition", pa.int32()),
    "file": pa.field("file", pa.string()),
}
TOPIC_COLUMNS: Final = ("topic", "partition")
LOG_COLUMNS: Final = (*TOPIC_COLUMNS, *DEFAULT_COLUMNS)  # default columns of a scan
TIMESTAMP_COLUMN: Final = "timestamp"
_SEARCH_STEP_BYTES: Final = 1 << 20  # size of the records that a search decodes per step


class RowOrigin(NamedTuple):
    """The topic partition and file of the rows of a batch, as an ``Origin``."""

    topic: str | None
    partition: int | None
    path: str = ""
    source: str = ""


class RecordBatches(Iterator[pa.RecordBatch]):
    """An iterator over Arrow record batches.

    Attributes:
        schema: Schema of all batches.
        errors: Damage found so far.
        notes: Further findings, complete after the first batch: records that an open transaction hides, and unexpected
            decisions about files. The text of a note is one line for users.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        errors: list[Any],
        notes: list[Any] | None = None,
    ) -> None:
        self._batches = batches
        self.schema = schema
        self.errors = errors
        self.notes: list[Any] = [] if notes is None else notes

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def __repr__(self) -> str:
        return f"Arrow batches of {', '.join(self.schema.names)}; read_all() returns a table"

    def read_all(self) -> pa.Table:
        """Return the remaining rows as a table in memory."""
        return pa.Table.from_batches(list(self), schema=self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Return the remaining rows as a pandas DataFrame.

        Args:
            options: Keyword arguments of ``pyarrow.Table.to_pandas``.
        """
        return self.read_all().to_pandas(**options)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the remaining batches as an Arrow stream (Arrow PyCapsule interface) for Polars, DuckDB or pandas."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self)
        return reader.__arrow_c_stream__(requested_schema)


def build_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns."""
    return pa.schema([_ORIGIN_FIELD_BY_NAME.get(name) or pa.field(name, COLUMNS[name].type) for name in columns])


def check_origin_columns(
    columns: Sequence[str], *, origin: Collection[str] = tuple(_ORIGIN_FIELD_BY_NAME)
) -> tuple[str, ...]:
    """Check the column names and return them.

    Raises:
        OptionError: A name does not exist (the message suggests the closest one), or is specified twice.
    """
    return check_names(columns, (*COLUMNS, *origin))


def check_names(columns: Sequence[str], valid_names: Sequence[str]) -> tuple[str, ...]:
    """Check that each name is in ``valid_names`` and is specified once, and return the names.

    Raises the same exceptions as ``check_origin_columns``.
    """
    for position, name in enumerate(columns):
        if name not in valid_names:
            near = difflib.get_close_matches(str(name), valid_names, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise OptionError(f"column {name!r} does not exist; {hint}expected one of {', '.join(valid_names)}")
        if name in columns[:position]:
            raise OptionError(f"column {name!r} is selected twice")
    return tuple(columns)


def choose_columns_to_read(columns: Sequence[str], row_filter: RowFilter) -> tuple[str, ...]:
    """Return the record columns to read; at least one, because its length is the row count."""
    sources = [name for name in columns if name not in _ORIGIN_FIELD_BY_NAME]
    if row_filter.has_times and TIMESTAMP_COLUMN not in sources:
        sources.append(TIMESTAMP_COLUMN)
    return tuple(sources) or DEFAULT_COLUMNS[:1]


def select_rows(
    batch: pa.RecordBatch, origin: RowOrigin, columns: Sequence[str], row_filter: RowFilter
) -> pa.RecordBatch | None:
    """Return the columns of the rows that fulfil the conditions; None if no row does."""
    is_kept = row_filter.mask_rows(batch.column(TIMESTAMP_COLUMN)) if row_filter.has_times else None
    if is_kept is not None:
        batch = batch.filter(bool_array(is_kept))
    if batch.num_rows == 0:
        return None
    if tuple(batch.schema.names) == tuple(columns):
        return batch
    values = {"topic": origin.topic, "partition": origin.partition, "file": origin.path}
    arrays = [
        repeat_value(values[name], _ORIGIN_FIELD_BY_NAME[name].type, batch.num_rows)
        if name in values
        else batch.column(name)
        for name in columns
    ]
    fields = [_ORIGIN_FIELD_BY_NAME.get(name) or batch.schema.field(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


@dataclass(frozen=True, slots=True)
class RecordCounter:
    """A counter of records, which reads batch headers only.

    Attributes:
        first_offset: First offset of the range.
        end_offset: End of the range, exclusive.
        row_filter: Conditions on rows.
        verify_crc: Whether the header of a batch is used only if its checksum is correct.
        control_records: Whether control records are counted.
    """

    first_offset: int
    end_offset: int
    row_filter: RowFilter
    verify_crc: bool = True
    control_records: bool = False

    def count_records(self, data: Bytes, batches: BatchHeaders, excluded_batches: Flags | None = None) -> int | None:
        """Return the number of records in batches; None if the headers do not determine it.

        Headers do not determine it for compressed message sets of formats 0 and 1, for batches that cross a bound of
        the range, for wrong checksums, and for a record count that is larger than the batch's offset range.

        Args:
            data: Bytes of the log.
            batches: Batches in ``data``.
            excluded_batches: Mask of the batches that are not counted (aborted transactions).
        """
        firsts, lasts, counts = (batches.column(name) for name in ("base_offset", "last_offset", "count"))
        is_v2 = batches.is_v2
        # The minimum of int64 means unknown.
        firsts = np.where(is_v2, firsts, np.where(batches.codecs == 0, lasts, np.iinfo(np.int64).min))
        counts = np.where(is_v2, counts, 1)
        is_counted = (lasts >= self.first_offset) & (firsts < self.end_offset)
        if not self.control_records:
            is_counted &= ~batches.is_control
        if excluded_batches is not None:
            is_counted &= ~excluded_batches
        is_counted &= ~self.row_filter.mask_batches_without_rows(batches)
        exact_counts = (is_v2 | (batches.codecs == 0)) & (counts >= 0) & (counts - 1 <= lasts - firsts)
        exact_counts &= (
            (firsts >= self.first_offset) & (lasts < self.end_offset) & self.row_filter.mask_batches_of_rows(batches)
        )
        if not exact_counts[is_counted].all():
            return None
        if self.verify_crc and not check_crcs(data, batches.select(is_counted)).all():
            return None
        return int(counts[is_counted].sum())


def find_offset_at_time(source: BatchSource, time_ms: int, *, rules: str, end: int | None = None) -> int | None:
    """Return the offset of the first record at or after a time, as ListOffsets does; None if there is none.

    Batches with an earlier largest timestamp in the header are not decompressed.

    Args:
        source: Batches.
        time_ms: Time in milliseconds.
        rules: ``FILE`` or ``MEMORY``.
        end: Number of bytes to read. Default: all.
    """
    row_filter = RowFilter(timestamps_ms=(time_ms, None))
    columns = ("offset", "timestamp")
    options = ReadOptions(
        columns=columns, rules=rules, unwanted=row_filter.mask_batches_without_rows, part_bytes=_SEARCH_STEP_BYTES
    )
    for batch in RecordReader(source, options, end=end):
        matching_rows = np.flatnonzero(int64_values(batch.column("timestamp")) >= time_ms)
        if matching_rows.size:
            return int(batch.column("offset")[int(matching_rows[0])].as_py())
    return None
