"""The columns of a table, the rules by which a later run may change them, and how its rows are made of records. Pure.

* A column that a later run brings and the table lacks is added; it is null in the rows that were there before.
* A column of ours with another type, one that the table has lost, or one that it has and the run would not fill, is
  refused.
* A column that another program added stays, and is null in new rows; it must allow that.
* A table is partitioned by topic and partition, and stays so.

Rows are records as they are, or decoded; all, or the latest of each key.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.records.makers import HEADERS
from kafkaframes.scan.arrow import FAR_TIMES
from kafkaframes.scan.values.columns import REASON, TOMBSTONE, split_rows
from kafkaframes.scan.values.decoding import Decoding

TIMESTAMP = pa.timestamp("us", tz="UTC")
PARTITIONED_BY = ("topic", "partition")
_COLUMNS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
HEADERS_COLUMN = pa.field("headers", HEADERS)
FAR_TIMES_COLUMN = pa.field(FAR_TIMES, pa.int64())  # added to a table by the first record that needs it


def table_schema(*, headers: bool) -> pa.Schema:
    """Return the columns of a table, in order."""
    return _COLUMNS.append(HEADERS_COLUMN) if headers else _COLUMNS


def missing_columns(there: pa.Schema, requested: pa.Schema, *, where: str) -> list[pa.Field]:
    """Return the columns that a table has to be given before it can take rows with ``requested``.

    Raises:
        OptionError: the rules above forbid it; the message says what to do.
    """
    for field in requested:
        if field.name in there.names and (result := plain(there.field(field.name).type)) != plain(field.type):
            raise OptionError(
                f"{where}: column {field.name} is {result} and would have to be {plain(field.type)}: "
                "give it its type back, or export to a new table"
            )
    for field in there:
        if field.name not in requested.names:
            _check_can_stay_empty(field, where)
    missing = [field for field in requested if field.name not in there.names]
    if gone := [field.name for field in missing if field.name in _COLUMNS.names]:
        raise OptionError(f"{where}: has lost the column {', '.join(gone)}: add it again, or export to a new table")
    return missing


def _check_can_stay_empty(field: pa.Field, index: str) -> None:
    if field.name == HEADERS_COLUMN.name:
        raise OptionError(
            f"{index}: has the column headers, which this run leaves out: without includeHeaders=false it is filled; "
            "a table without it is a new table"
        )
    if not field.nullable:
        raise OptionError(
            f"{index}: column {field.name} is not one of the export's and must not be null: make it nullable, or "
            "export to a new table"
        )


def check_partitioning(there: tuple[str, ...], *, where: str) -> None:
    """Check that a table is partitioned as an export does it.

    Raises:
        OptionError: it is not.
    """
    if there != PARTITIONED_BY:
        shown = ", ".join(there) or "nothing"
        raise OptionError(
            f"{where}: is partitioned by {shown}, an export by {', '.join(PARTITIONED_BY)}: export to a new table"
        )


def plain(kind: pa.DataType) -> str:
    """Name a type by what it holds, not by how Arrow lays it out.

    >>> plain(pa.large_binary()), plain(pa.list_(pa.int32()))
    ('binary', 'list<int32>')
    """
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{plain(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {plain(field.type)}' for field in kind)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp"
    return str(kind).removeprefix("large_").removesuffix("_view")


# --------------------------------------------------------------------------------------------------------------- rows


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
