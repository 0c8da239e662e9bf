"""The columns of a table, the rules for changing them, and the conversion of records to rows. No I/O.

* If a later run has a new column, or a new field in a nested column, the table gets it. It is null in existing rows.
* A number type can be widened if the table format supports it. Any other type change of a column is rejected. A run is
  also rejected if the table has lost one of its columns, or has a column of ours that the run does not write.
* A column that another program added is kept. It must be nullable, and is null in new rows.
* A table is always partitioned by topic and partition.

Rows have raw or decoded values. A table has all records, or the latest record of each key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.records.makers import HEADERS
from kafkaframes.scan.arrow import FAR_TIMESTAMPS_COLUMN
from kafkaframes.scan.values.columns import REASON_COLUMN, TOMBSTONE_COLUMN, separate_rows
from kafkaframes.scan.values.decoding import DecodingOptions

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
FAR_TIMES_COLUMN = pa.field(FAR_TIMESTAMPS_COLUMN, pa.int64())  # added to a table with the first record that needs it


def table_schema(*, headers: bool) -> pa.Schema:
    """Return the columns of a table, in order."""
    return _COLUMNS.append(HEADERS_COLUMN) if headers else _COLUMNS


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A change that a later run makes to a table's columns.

    Attributes:
        path: names from the column to the nested field; ``element`` for list elements, ``value`` for map values.
        type: type of the new field, or new type of an existing field.
        is_new: whether the field is added.
    """

    path: tuple[str, ...]
    type: pa.DataType
    is_new: bool


def column_changes(there: pa.Schema, new_schema: pa.Schema, *, where: str, widening: str = "") -> list[ColumnChange]:
    """Return the changes that a table needs before rows with the columns ``new_schema`` can be written.

    Args:
        there: the table's columns.
        new_schema: columns of the new rows.
        where: the table, for error messages.
        widening: reason why types of this table format cannot be widened, with a remedy; empty if they can.

    Raises:
        OptionError: the rules of this module forbid a change. The message contains a remedy.
    """
    changes: list[ColumnChange] = []
    _compare_fields(there, new_schema, (), changes, where)
    for field in there:
        if field.name not in new_schema.names:
            _check_can_stay_empty(field, where)
    if missing_columns := [one.path[0] for one in changes if one.is_new and one.path[0] in _COLUMNS.names]:
        raise OptionError(
            f"{where}: has lost the column {', '.join(missing_columns)}: add it again, or export to a new table"
        )
    wider = next((one for one in changes if not one.is_new), None)
    if wider is not None and widening:
        raise OptionError(
            f"{where}: column {'.'.join(wider.path)} would have to become {plain(wider.type)}: {widening}"
        )
    return changes


def _compare_fields(
    there: Iterable[pa.Field],
    new_fields: Iterable[pa.Field],
    path: tuple[str, ...],
    changes: list[ColumnChange],
    where: str,
) -> None:
    by_name = {field.name: field for field in there}
    spellings = {name.lower(): name for name in by_name}
    for field in new_fields:
        inner = (*path, field.name)
        if field.name in by_name:
            _compare_types(by_name[field.name].type, field.type, inner, changes, where)
        elif (other := spellings.get(field.name.lower())) is not None:
            raise OptionError(
                f"{where}: column {'.'.join(inner)} would differ from the column {other} by case only: put the new "
                "field behind the old one in the schema, or export to a new table"
            )
        else:
            changes.append(ColumnChange(inner, field.type, is_new=True))


def _compare_types(
    there: pa.DataType, new_type: pa.DataType, path: tuple[str, ...], changes: list[ColumnChange], where: str
) -> None:
    if pa.types.is_struct(there) and pa.types.is_struct(new_type):
        _compare_fields(there, new_type, path, changes, where)
    elif _is_list(there) and _is_list(new_type):
        _compare_types(there.value_type, new_type.value_type, (*path, "element"), changes, where)
    elif pa.types.is_map(there) and pa.types.is_map(new_type) and plain(there.key_type) == plain(new_type.key_type):
        _compare_types(there.item_type, new_type.item_type, (*path, "value"), changes, where)
    elif plain(there) == plain(new_type):
        pass
    elif _is_wider(new_type, there):
        changes.append(ColumnChange(path, new_type, is_new=False))
    else:
        raise OptionError(
            f"{where}: column {'.'.join(path)} is {plain(there)} and would have to be {plain(new_type)}: "
            "give it its type back, or export to a new table"
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


_WIDER_NUMBERS = ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


def _is_wider(kind: pa.DataType, than: pa.DataType) -> bool:
    """Return whether a type holds all values of another one, by Iceberg's rules for type promotion."""
    if pa.types.is_decimal(kind) and pa.types.is_decimal(than):
        return bool(kind.scale == than.scale and kind.precision > than.precision)
    return any(than == narrow and kind == wide for narrow, wide in _WIDER_NUMBERS)


def merge_columns(there: pa.Schema, new_schema: pa.Schema) -> pa.Schema:
    """Return a table's columns after the changes of ``column_changes``."""
    return pa.schema(_merge_fields(there, new_schema))


def _merge_fields(there: Iterable[pa.Field], new_fields: Iterable[pa.Field]) -> list[pa.Field]:
    result = {field.name: field for field in there}
    for field in new_fields:
        old = result.get(field.name)
        result[field.name] = field if old is None else old.with_type(_merge_types(old.type, field.type))
    return list(result.values())


def _merge_types(there: pa.DataType, new_type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(there) and pa.types.is_struct(new_type):
        return pa.struct(_merge_fields(there, new_type))
    if _is_list(there) and _is_list(new_type):
        return pa.list_(pa.field("element", _merge_types(there.value_type, new_type.value_type)))
    if pa.types.is_map(there) and pa.types.is_map(new_type):
        return pa.map_(there.key_type, _merge_types(there.item_type, new_type.item_type))
    return new_type


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
    """Check that a table is partitioned by topic and partition.

    Raises:
        OptionError: it is partitioned differently.
    """
    if there != PARTITIONED_BY:
        column_list = ", ".join(there) or "nothing"
        raise OptionError(
            f"{where}: is partitioned by {column_list}, an export by {', '.join(PARTITIONED_BY)}: export to a new table"
        )


def plain(kind: pa.DataType) -> str:
    """Return a type's logical name, without Arrow's physical variants.

    >>> plain(pa.large_binary()), plain(pa.list_(pa.int32()))
    ('binary', 'list<int32>')
    """
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{plain(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{plain(kind.key_type)}, {plain(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {plain(field.type)}' for field in kind)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp"
    return str(kind).removeprefix("large_").removesuffix("_view")


# --------------------------------------------------------------------------------------------------------------- rows


LATEST_WAVE_BYTES = 256 << 20  # log bytes in a commit; all keys of a commit are in memory at once


@dataclass(frozen=True)
class Content:
    """The kind of rows in a table.

    Attributes:
        decoding: how values are decoded; None keeps their bytes in ``value``.
        latest: whether the table has only the latest record of each key and topic. If that record is a tombstone, the
            table has no row for the key.
    """

    decoding: DecodingOptions | None = None
    latest: bool = False

    @property
    def wave_bytes(self) -> int | None:
        """The largest number of log bytes in a commit; None if keys do not have to be in memory."""
        return LATEST_WAVE_BYTES if self.latest else None

    def columns(self, *, headers: bool) -> pa.Schema:
        """Return the table's columns, in order."""
        result = table_schema(headers=headers)
        if self.decoding is None:
            return result
        own = [] if self.latest else [pa.field(TOMBSTONE_COLUMN, pa.bool_())]
        index = result.get_field_index("value")
        fields = [result.field(name) for name in result.names]
        return pa.schema([*fields[:index], *own, *self.decoding.decoder().fields, *fields[index + 1 :]])

    def split(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """Convert records to the table's rows. Return other records separately, with a column ``reason``."""
        if self.decoding is None and not self.latest:
            return rows, None
        decoder = None if self.decoding is None else self.decoding.decoder()
        has_prefix = self.decoding is not None and self.decoding.has_prefix
        good, bad = separate_rows(rows, decoder, needs_key=self.latest, has_prefix=has_prefix)
        if self.latest and decoder is None:
            good = good.append_column(TOMBSTONE_COLUMN, good.column("value").is_null())
        return good, bad


RAW = Content()


def dead_letter_schema(*, headers: bool) -> pa.Schema:
    """Return the columns of a dead-letter table: the unmodified record, and the reason."""
    return table_schema(headers=headers).append(pa.field(REASON_COLUMN, pa.string()))
