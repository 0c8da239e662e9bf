"""The columns of a table, the rules for changing them, and the conversion of records to rows. No I/O.

* If a later run has a new column, or a new field in a nested column, the table gets it. The new column is null in
  existing rows.
* A number type can be widened if the table format supports it. Any other change to a column's type is rejected. A run
  is also rejected if the table lacks a column that it was created with, or has a kafkaframes column that the run does
  not write.
* A column that another program added is kept. A column of another program must be nullable, and is null in new rows.
* A table is always partitioned by topic and partition.

Rows have raw or decoded values. A table has all records, or the latest record of each key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.records.makers import HEADERS_TYPE
from kafkaframes.scan.arrow import OUT_OF_RANGE_TIMESTAMPS_COLUMN
from kafkaframes.scan.values.columns import REASON_COLUMN, TOMBSTONE_COLUMN, separate_rows
from kafkaframes.scan.values.decoding import DecodingOptions

TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")  # type of the column timestamp
PARTITION_COLUMNS = ("topic", "partition")  # columns by which tables are partitioned
_BASE_COLUMNS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
HEADERS_COLUMN = pa.field("headers", HEADERS_TYPE)
OUT_OF_RANGE_TIMESTAMPS_FIELD = pa.field(
    OUT_OF_RANGE_TIMESTAMPS_COLUMN, pa.int64()
)  # the column is added to a table with the first record that needs it


def build_table_schema(*, headers: bool) -> pa.Schema:
    """Return the columns of a table of undecoded records, in order."""
    return _BASE_COLUMNS.append(HEADERS_COLUMN) if headers else _BASE_COLUMNS


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


def find_column_changes(
    existing_schema: pa.Schema, new_schema: pa.Schema, *, where: str, widening: str = ""
) -> list[ColumnChange]:
    """Return the changes that a table needs before rows with the columns ``new_schema`` can be written.

    Args:
        existing_schema: the table's columns.
        new_schema: columns of the new rows.
        where: name of the table in error messages.
        widening: reason why types of this table format cannot be widened, with a remedy; empty if they can.

    Raises:
        OptionError: the rules of this module forbid a change. The message contains a remedy.
    """
    changes: list[ColumnChange] = []
    _compare_fields(existing_schema, new_schema, (), changes, where)
    for field in existing_schema:
        if field.name not in new_schema.names:
            _check_can_be_null(field, where)
    if missing_columns := [
        change.path[0] for change in changes if change.is_new and change.path[0] in _BASE_COLUMNS.names
    ]:
        raise OptionError(
            f"{where}: column {', '.join(missing_columns)} was removed from the table; add it again, or export to a "
            "new table"
        )
    type_change = next((change for change in changes if not change.is_new), None)
    if type_change is not None and widening:
        raise OptionError(
            f"{where}: column {'.'.join(type_change.path)} would have to be widened to "
            f"{format_logical_type(type_change.type)}: {widening}"
        )
    return changes


def _compare_fields(
    existing_fields: Iterable[pa.Field],
    new_fields: Iterable[pa.Field],
    path: tuple[str, ...],
    changes: list[ColumnChange],
    where: str,
) -> None:
    by_name = {field.name: field for field in existing_fields}
    similar_names = {name.lower(): name for name in by_name}
    for field in new_fields:
        inner = (*path, field.name)
        if field.name in by_name:
            _compare_types(by_name[field.name].type, field.type, inner, changes, where)
        elif (existing_field := similar_names.get(field.name.lower())) is not None:
            raise OptionError(
                f"{where}: column {'.'.join(inner)} would only differ from column {existing_field} by case; put the "
                "new field after the old one in the schema, or export to a new table"
            )
        else:
            changes.append(ColumnChange(inner, field.type, is_new=True))


def _compare_types(
    existing_type: pa.DataType, new_type: pa.DataType, path: tuple[str, ...], changes: list[ColumnChange], where: str
) -> None:
    if pa.types.is_struct(existing_type) and pa.types.is_struct(new_type):
        _compare_fields(existing_type, new_type, path, changes, where)
    elif _is_list(existing_type) and _is_list(new_type):
        _compare_types(existing_type.value_type, new_type.value_type, (*path, "element"), changes, where)
    elif (
        pa.types.is_map(existing_type)
        and pa.types.is_map(new_type)
        and format_logical_type(existing_type.key_type) == format_logical_type(new_type.key_type)
    ):
        _compare_types(existing_type.item_type, new_type.item_type, (*path, "value"), changes, where)
    elif format_logical_type(existing_type) == format_logical_type(new_type):
        pass
    elif _is_promotion(new_type, existing_type):
        changes.append(ColumnChange(path, new_type, is_new=False))
    else:
        raise OptionError(
            f"{where}: column {'.'.join(path)} has type {format_logical_type(existing_type)}, but the values have type "
            f"{format_logical_type(new_type)}; restore the old type in the schema, or export to a new table"
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


_TYPE_PROMOTIONS = ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


def _is_promotion(new_type: pa.DataType, old_type: pa.DataType) -> bool:
    """Return whether a type holds all values of another one, by Iceberg's rules for type promotion."""
    if pa.types.is_decimal(new_type) and pa.types.is_decimal(old_type):
        return bool(new_type.scale == old_type.scale and new_type.precision > old_type.precision)
    return any(old_type == from_type and new_type == to_type for from_type, to_type in _TYPE_PROMOTIONS)


def merge_columns(existing_schema: pa.Schema, new_schema: pa.Schema) -> pa.Schema:
    """Return a table's columns after the changes of ``find_column_changes``."""
    return pa.schema(_merge_fields(existing_schema, new_schema))


def _merge_fields(existing_fields: Iterable[pa.Field], new_fields: Iterable[pa.Field]) -> list[pa.Field]:
    """Return the fields of both schemas, with merged types."""
    result = {field.name: field for field in existing_fields}
    for field in new_fields:
        fields_by_name = result.get(field.name)
        result[field.name] = (
            field if fields_by_name is None else fields_by_name.with_type(_merge_types(fields_by_name.type, field.type))
        )
    return list(result.values())


def _merge_types(existing_type: pa.DataType, new_type: pa.DataType) -> pa.DataType:
    """Return the new type, with the fields of both types in its structs."""
    if pa.types.is_struct(existing_type) and pa.types.is_struct(new_type):
        return pa.struct(_merge_fields(existing_type, new_type))
    if _is_list(existing_type) and _is_list(new_type):
        return pa.list_(pa.field("element", _merge_types(existing_type.value_type, new_type.value_type)))
    if pa.types.is_map(existing_type) and pa.types.is_map(new_type):
        return pa.map_(existing_type.key_type, _merge_types(existing_type.item_type, new_type.item_type))
    return new_type


def _check_can_be_null(field: pa.Field, index: str) -> None:
    """Check that a column that the new rows lack may be null."""
    if field.name == HEADERS_COLUMN.name:
        raise OptionError(
            f"{index}: the table has the column headers, but this run omits headers; remove includeHeaders=false, or "
            "export to a new table"
        )
    if not field.nullable:
        raise OptionError(
            f"{index}: column {field.name} is required, but an export does not have it; make the column nullable, or "
            "export to a new table"
        )


def check_partitioning(existing_columns: tuple[str, ...], *, where: str) -> None:
    """Check that a table is partitioned by topic and partition.

    Raises:
        OptionError: the table is partitioned differently.
    """
    if existing_columns != PARTITION_COLUMNS:
        column_list = ", ".join(existing_columns) or "nothing"
        raise OptionError(
            f"{where}: the table is partitioned by {column_list}, but an export requires "
            f"{', '.join(PARTITION_COLUMNS)}; export to a new table"
        )


def format_logical_type(kind: pa.DataType) -> str:
    """Return a type's logical name, without Arrow's physical variants.

    >>> format_logical_type(pa.large_binary()), format_logical_type(pa.list_(pa.int32()))
    ('binary', 'list<int32>')
    """
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{format_logical_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{format_logical_type(kind.key_type)}, {format_logical_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {format_logical_type(field.type)}' for field in kind)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp"
    return str(kind).removeprefix("large_").removesuffix("_view")


# --------------------------------------------------------------------------------------------------------------- rows


MAX_LATEST_COMMIT_BYTES = 256 << 20  # log bytes in a commit; all keys of a commit are in memory at once


@dataclass(frozen=True)
class TableContent:
    """The content of a table: one row per record, or one row per key.

    Attributes:
        decoding: how values are decoded; None keeps their bytes in ``value``.
        latest: whether the table has only the latest record of each key and topic. If that record is a tombstone, the
            table has no row for the key.
    """

    decoding: DecodingOptions | None = None
    latest: bool = False

    @property
    def max_commit_bytes(self) -> int | None:
        """The largest number of log bytes in a commit; None if the keys of a commit are not held in memory."""
        return MAX_LATEST_COMMIT_BYTES if self.latest else None

    def build_columns(self, *, headers: bool) -> pa.Schema:
        """Return the table's columns, in order."""
        result = build_table_schema(headers=headers)
        if self.decoding is None:
            return result
        own_fields = [] if self.latest else [pa.field(TOMBSTONE_COLUMN, pa.bool_())]
        index = result.get_field_index("value")
        fields = [result.field(name) for name in result.names]
        return pa.schema([*fields[:index], *own_fields, *self.decoding.get_decoder().fields, *fields[index + 1 :]])

    def split_by_validity(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """Convert records to the table's rows.

        Records that cannot be converted are returned separately, with a column ``reason``.
        """
        if self.decoding is None and not self.latest:
            return rows, None
        decoder = None if self.decoding is None else self.decoding.get_decoder()
        has_prefix = self.decoding is not None and self.decoding.has_prefix
        valid_rows, rejected_rows = separate_rows(rows, decoder, needs_key=self.latest, has_prefix=has_prefix)
        if self.latest and decoder is None:
            valid_rows = valid_rows.append_column(TOMBSTONE_COLUMN, valid_rows.column("value").is_null())
        return valid_rows, rejected_rows


RAW_CONTENT = TableContent()  # one row per record, with key and value as bytes


def build_dead_letter_schema(*, headers: bool) -> pa.Schema:
    """Return the columns of a dead-letter table: the unmodified record, and the reason."""
    return build_table_schema(headers=headers).append(pa.field(REASON_COLUMN, pa.string()))
