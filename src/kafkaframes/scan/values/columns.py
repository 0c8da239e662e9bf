"""Decoded values as Arrow columns: the interface of decoders, and the separation of valid and invalid rows. Pure.

A decoder has ``fields``, the columns of a value. A decoder converts the bytes of a value to Python values by column
name. For an invalid value it raises ``BadValueError`` with the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import OptionError
from kafkaframes.records.arrays import bool_array, get_flag_values
from kafkaframes.scan.arrow import OUT_OF_RANGE_TIMESTAMPS_COLUMN
from kafkaframes.scan.values.registry import VALUE_SCHEMA_ID_HEADER, BadValueError

REASON_COLUMN: Final = "reason"
TOMBSTONE_COLUMN: Final = "tombstone"
# The table's own column names. A field with such a name becomes the column value_NAME.
RESERVED_COLUMNS: Final = frozenset(
    {
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        OUT_OF_RANGE_TIMESTAMPS_COLUMN,
        "key",
        "headers",
        TOMBSTONE_COLUMN,
        REASON_COLUMN,
    }
)
_CONVERSION_ERRORS: Final = (pa.ArrowException, OverflowError, TypeError, ValueError)
_MAX_REASON_LENGTH: Final = 500
MAX_COLUMNS: Final = 5_000
MAX_NESTING_DEPTH: Final = 50
Row = Mapping[str, Any]


class ValueDecoder(Protocol):
    """A decoder that converts a value's bytes to columns."""

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The columns of a value, all nullable, in order."""

    def decode(self, value: bytes) -> Row:
        """Return the values of the columns by name. A missing name means null.

        Raises:
            BadValueError: The bytes do not match the schema.
        """


class ColumnBudget:
    """A counter of planned columns with a limit, because a few lines of a schema can describe millions.

    Args:
        kind: Name of the schema in messages.
    """

    def __init__(self, kind: str) -> None:
        self._kind, self._columns = kind, 0

    def add_column(self, path: str, name: str, depth: int) -> None:
        """Count a column.

        Args:
            path: Path of the column in the schema.
            name: Name of its type.
            depth: Number of types that contain the column.

        Raises:
            OptionError: There are more than ``MAX_COLUMNS`` columns or ``MAX_NESTING_DEPTH`` levels.
        """
        self._columns += 1
        if self._columns > MAX_COLUMNS:
            raise OptionError(
                f"{self._kind}: type {name}, at {_shorten(path)}, has more than {MAX_COLUMNS} columns. {_RAW_REMEDY}"
            )
        if depth > MAX_NESTING_DEPTH:
            raise OptionError(
                f"{self._kind}: type {name}, at {_shorten(path)}, is nested more than {MAX_NESTING_DEPTH} levels deep. "
                f"{_RAW_REMEDY}"
            )


_RAW_REMEDY: Final = "Use a smaller schema, or read bytes (`mode`=raw)"


def _shorten(path: str) -> str:
    return path if len(path) <= 60 else f"{path[:30]}...{path[-27:]}"


def choose_column_names(names: Iterable[str], *, reserved_names: Collection[str] = RESERVED_COLUMNS) -> dict[str, str]:
    """Return the column names of a value's fields, by field name.

    Many engines ignore the case of column names. A field with the name of another column of the table gets the prefix
    ``value_``. If names of fields differ only by case, the first field keeps its name, and each other one gets a
    suffix that depends only on its spelling. The field ``a.b`` also gets a suffix if a field ``a``, which may be a
    struct, exists.

    >>> choose_column_names(["id", "Offset", "ID", "a.b"])
    {'id': 'id', 'Offset': 'value_Offset', 'ID': 'ID_3843', 'a.b': 'a.b'}

    Args:
        reserved_names: Names of the table's own columns; empty inside of a struct.
    """
    field_names = list(names)
    lower_reserved_names, lower_field_names = (
        {name.lower() for name in reserved_names},
        {name.lower() for name in field_names},
    )
    used_names: set[str] = set()
    result = {}
    for name in field_names:
        column = f"value_{name}" if name.lower() in lower_reserved_names else name
        if column.lower() in used_names or _is_path_into(column.lower(), lower_field_names):
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
            column = next(
                longer for size in range(4, 64) if (longer := f"{column}_{digest[:size]}").lower() not in used_names
            )
        used_names.add(column.lower())
        result[name] = column
    return result


def _is_path_into(name: str, others: Collection[str]) -> bool:
    """Return whether a name with dots could be a path to a nested field of another column, as in Iceberg."""
    parts = name.split(".")
    return any(".".join(parts[:count]) in others for count in range(1, len(parts)))


def prepend_schema_ids(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with the schema id from the headers, if they have one, as a prefix of the value.

    Serializers can write the prefix, byte for byte, to the header ``VALUE_SCHEMA_ID_HEADER`` instead of the value.

    Args:
        batch: Rows with ``value`` (binary). Without the column ``headers``, rows are returned unchanged.
    """
    if "headers" not in batch.schema.names:
        return batch
    headers, values = batch.column("headers"), batch.column("value")
    keys = pc.struct_field(headers.flatten(), 0)
    if not len(keys) or not pc.any(pc.equal(keys.cast(pa.string()), VALUE_SCHEMA_ID_HEADER)).as_py():
        return batch
    prefixed_values = [_add_prefix(*row) for row in zip(values.to_pylist(), headers.to_pylist(), strict=True)]
    return batch.set_column(batch.schema.get_field_index("value"), "value", pa.array(prefixed_values, values.type))


def _add_prefix(value: bytes | None, headers: Sequence[Mapping[str, Any]] | None) -> bytes | None:
    """Return a value with the schema id of a header as its prefix, in the registry's format."""
    prefix = next((header["value"] for header in headers or () if header["key"] == VALUE_SCHEMA_ID_HEADER), None)
    return value if value is None or prefix is None else prefix + value


def separate_rows(
    batch: pa.RecordBatch, decoder: ValueDecoder | None, *, needs_key: bool, has_prefix: bool = False
) -> tuple[pa.RecordBatch, Any]:
    """Decode the column ``value``, and separate valid from invalid rows.

    Args:
        batch: Rows with ``key`` and ``value`` (binary). A null value is a tombstone; all of its columns are null.
        decoder: Decoder of values. If None, ``value`` is not changed.
        needs_key: Whether a row without a key is invalid.
        has_prefix: Whether values start with a schema registry's prefix, or have it in their headers.

    Returns: The valid rows; if there is a decoder, ``tombstone`` and the columns of the value replace ``value``. A
        pair: the
        valid rows, and the invalid rows, unchanged, with an additional column ``reason``; None if there are no invalid
        rows.
    """
    reasons: dict[int, str] = {}
    columns = {name: batch.column(name) for name in batch.schema.names}
    if needs_key:
        keyless_rows = np.flatnonzero(get_flag_values(batch.column("key").is_null()))
        reasons |= dict.fromkeys(
            keyless_rows.tolist(), "the record has no key, which a table of the latest value by key requires"
        )
    if decoder is not None:
        values = (prepend_schema_ids(batch) if has_prefix else batch).column("value")
        del columns["value"]
        columns[TOMBSTONE_COLUMN] = values.is_null()
        columns |= _decode_columns(values, decoder, reasons)
    decoded_batch = pa.RecordBatch.from_pydict(columns)
    if not reasons:
        return decoded_batch, None
    valid_rows = np.ones(batch.num_rows, np.bool_)
    valid_rows[list(reasons)] = False
    invalid_rows = batch.filter(bool_array(~valid_rows))
    reason_column = pa.array([reasons[index][:_MAX_REASON_LENGTH] for index in sorted(reasons)], pa.string())
    return decoded_batch.filter(bool_array(valid_rows)), invalid_rows.append_column(REASON_COLUMN, reason_column)


def decode_to_struct(values: pa.Array, decoder: ValueDecoder) -> tuple[pa.StructArray, dict[int, str]]:
    """Decode a column of values.

    Returns:
        A struct for each value (null if the value is null or cannot be decoded), and the reasons of failures by row.
    """
    reasons: dict[int, str] = {}
    columns = _decode_columns(values, decoder, reasons)
    is_missing = get_flag_values(values.is_null())
    is_missing[list(reasons)] = True
    reasons = {row: reason[:_MAX_REASON_LENGTH] for row, reason in reasons.items()}
    return pa.StructArray.from_arrays(
        list(columns.values()), fields=list(decoder.fields), mask=bool_array(is_missing)
    ), reasons


def _decode_columns(values: pa.Array, decoder: ValueDecoder, reasons: dict[int, str]) -> dict[str, pa.Array]:
    """Return a column for each field. Rows that do not fit are null, and their reasons are added to ``reasons``."""
    at_once = getattr(decoder, "columns", None)  # only the JSON decoder has this method
    if at_once is not None and not reasons and (columns := at_once(values)) is not None:
        columns_by_name: dict[str, pa.Array] = columns
        return columns_by_name
    rows = [_decode_row(value, row, decoder, reasons) for row, value in enumerate(values.to_pylist())]
    try:
        return {field.name: _build_column(rows, field) for field in decoder.fields}
    except _CONVERSION_ERRORS:  # find the rows that cause the error
        for index, row in enumerate(rows):
            rows[index] = row if row is None else _fit_row(row, index, decoder.fields, reasons)
    return {field.name: _build_column(rows, field) for field in decoder.fields}


def _decode_row(value: bytes | None, index: int, decoder: ValueDecoder, reasons: dict[int, str]) -> Row | None:
    """Decode a value. If the value is invalid, return None and store the reason."""
    if value is None or index in reasons:
        return None
    try:
        return decoder.decode(value)
    except BadValueError as error:
        reasons[index] = str(error)
        return None


def _fit_row(row: Row, index: int, fields: Sequence[pa.Field], reasons: dict[int, str]) -> Row | None:
    """Return a row if its values fit into the column types.

    If a value does not fit, return None and store the reason.
    """
    for field in fields:
        try:
            _build_column([row], field)
        except _CONVERSION_ERRORS as error:
            reasons[index] = f"{field.name}: {error}"
            return None
    return row


def _build_column(rows: Sequence[Row | None], field: pa.Field) -> pa.Array:
    """Return the values of a field in all rows as an array."""
    name = field.name
    return pa.array([None if row is None else row.get(name) for row in rows], field.type)
