"""Rows of a scan as Arrow batches: the columns of records and what their origin says of them; or only their number."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.records.arrays import flags, repeated
from kafkaframes.records.columns import DEFAULT_COLUMNS
from kafkaframes.records.makers import COLUMNS
from kafkaframes.records.scan import Batches, Bytes, Flags, check_crcs
from kafkaframes.scan.where import Where

_ORIGIN_FIELDS: Final = {
    "topic": pa.field("topic", pa.string()),
    "partition": pa.field("partition", pa.int32()),
    "file": pa.field("file", pa.string()),
}
TOPIC_COLUMNS: Final = ("topic", "partition")
LOG_COLUMNS: Final = (*TOPIC_COLUMNS, *DEFAULT_COLUMNS)  # of a scan, where none are chosen
TIMES: Final = "timestamp"


class RowOrigin(NamedTuple):
    """Whose records the rows of a batch are: an ``Origin``."""

    topic: str | None
    partition: int | None
    path: str = ""
    source: str = ""


class RecordBatches(Iterator[pa.RecordBatch]):
    """An iterator over Arrow record batches.

    Attributes:
        schema: of every Arrow batch.
        errors: what was damaged so far.
        notes: what there is to report next to rows and damage, once the first batch is there: records that an open
            transaction hides, files that were judged differently than expected. Their text is a line for people.
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
        return f"Arrow batches of {', '.join(self.schema.names)}; read_all() gives a table"

    def read_all(self) -> pa.Table:
        """Return what is left as one table: all of it in memory."""
        return pa.Table.from_batches(list(self), schema=self.schema)

    def to_pandas(self, **options: Any) -> Any:
        """Return what is left as a pandas DataFrame.

        Args:
            options: of ``pyarrow.Table.to_pandas``.
        """
        return self.read_all().to_pandas(**options)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the remaining batches as an Arrow stream (the Arrow PyCapsule interface): polars, DuckDB, pandas."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self)
        return reader.__arrow_c_stream__(requested_schema)


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns."""
    return pa.schema([_ORIGIN_FIELDS.get(name) or pa.field(name, COLUMNS[name].type) for name in columns])


def known_columns(columns: Sequence[str], *, origin: Collection[str] = tuple(_ORIGIN_FIELDS)) -> tuple[str, ...]:
    """Return the columns.

    Raises:
        OptionError: a name does not exist, and the nearest is named; or it is there twice.
    """
    return checked_names(columns, (*COLUMNS, *origin))


def checked_names(columns: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return names that are among the known ones, each once; raises as ``known_columns``."""
    for position, name in enumerate(columns):
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise OptionError(f"no column {name!r}: {hint}there are {', '.join(known)}")
        if name in columns[:position]:
            raise OptionError(f"column {name!r} is named twice")
    return tuple(columns)


def sources_of(columns: Sequence[str], where: Where) -> tuple[str, ...]:
    """Return the columns to read of records: one at least, since rows are counted by it."""
    sources = [name for name in columns if name not in _ORIGIN_FIELDS]
    if where.has_times and TIMES not in sources:
        sources.append(TIMES)
    return tuple(sources) or DEFAULT_COLUMNS[:1]


def rows_of(batch: pa.RecordBatch, origin: RowOrigin, columns: Sequence[str], where: Where) -> pa.RecordBatch | None:
    """Return the columns of the rows that are kept; None where none is."""
    kept = where.rows(batch.column(TIMES)) if where.has_times else None
    if kept is not None:
        batch = batch.filter(flags(kept))
    if batch.num_rows == 0:
        return None
    if tuple(batch.schema.names) == tuple(columns):
        return batch
    values = {"topic": origin.topic, "partition": origin.partition, "file": origin.path}
    arrays = [
        repeated(values[name], _ORIGIN_FIELDS[name].type, batch.num_rows) if name in values else batch.column(name)
        for name in columns
    ]
    fields = [_ORIGIN_FIELDS.get(name) or batch.schema.field(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


@dataclass(frozen=True, slots=True)
class Counting:
    """What is counted of batches.

    Attributes:
        verify_crc: whether a batch counts by its header only if its checksum is right.
    """

    first_offset: int
    end_offset: int
    where: Where
    verify_crc: bool = True
    control_records: bool = False

    def records(self, data: Bytes, batches: Batches, left_out: Flags | None = None) -> int | None:
        """Return how many records batches have; None where the headers do not say it.

        They do not say it of compressed sets of formats 0 and 1, of batches that lie across a bound, of those with a
        wrong checksum, or with a count that their offsets have no numbers for.

        Args:
            left_out: batches that are not counted (aborted transactions).
        """
        firsts, lasts, counts = (batches.column(name) for name in ("base_offset", "last_offset", "count"))
        is_v2 = batches.is_v2
        firsts = np.where(is_v2, firsts, np.where(batches.codecs == 0, lasts, np.iinfo(np.int64).min))  # or not known
        counts = np.where(is_v2, counts, 1)
        counted = (lasts >= self.first_offset) & (firsts < self.end_offset)
        if not self.control_records:
            counted &= ~batches.is_control
        if left_out is not None:
            counted &= ~left_out
        counted &= ~self.where.batches_without_rows(batches)
        sure = (is_v2 | (batches.codecs == 0)) & (counts >= 0) & (counts - 1 <= lasts - firsts)
        sure &= (firsts >= self.first_offset) & (lasts < self.end_offset) & self.where.batches_of_rows(batches)
        if not sure[counted].all():
            return None
        if self.verify_crc and not check_crcs(data, batches.select(counted)).all():
            return None
        return int(counts[counted].sum())
