"""Arrow's types as Iceberg's, and which columns have no statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import pyarrow as pa

from kafkaframes.errors import OptionError

_METRICS = "write.metadata.metrics.column."
_LONG_BYTES = frozenset({"key", "value"})  # bytes that seldom repeat are not worth bounds


def iceberg_schema(columns: Iterable[pa.Field]) -> Any:
    """Return a schema with ids of its own: the columns first, in order, then what is inside of them."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    fields = list(columns)
    ids = count(len(fields) + 1)
    return Schema(*(NestedField(number, one.name, iceberg_type(one.type, ids)) for number, one in enumerate(fields, 1)))


def add_columns(transaction: Any, missing: Iterable[pa.Field]) -> None:
    """Add columns that a later run brings; null in the rows that are there."""
    ids = count(-2, -1)  # Iceberg gives its own
    with transaction.update_schema() as update:
        for entry in missing:
            update.add_column(entry.name, iceberg_type(entry.type, ids))


def iceberg_type(kind: pa.DataType, ids: Iterator[int]) -> Any:
    """Return Iceberg's type.

    Args:
        ids: gives the ids of what is inside of it.

    Raises:
        OptionError: Iceberg has no such type.
    """
    from pyiceberg import types

    if pa.types.is_struct(kind):
        return types.StructType(*(types.NestedField(next(ids), one.name, iceberg_type(one.type, ids)) for one in kind))
    if pa.types.is_list(kind):
        return types.ListType(next(ids), iceberg_type(kind.value_type, ids), element_required=False)
    if pa.types.is_map(kind):
        keys, values = next(ids), next(ids)
        return types.MapType(
            keys, iceberg_type(kind.key_type, ids), values, iceberg_type(kind.item_type, ids), value_required=False
        )
    if pa.types.is_decimal(kind):
        return types.DecimalType(kind.precision, kind.scale)
    name = _PLAIN.get(str(kind))
    if name is None:
        raise OptionError(f"Iceberg has no type for {kind}")
    return getattr(types, name)()


_PLAIN = {
    "string": "StringType",
    "binary": "BinaryType",
    "bool": "BooleanType",
    "int32": "IntegerType",
    "int64": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "date32[day]": "DateType",
    "timestamp[us, tz=UTC]": "TimestamptzType",
    "timestamp[us]": "TimestampType",
}


def unmeasured(columns: Iterable[pa.Field]) -> dict[str, str]:
    """Return the table's properties by which columns without statistics are not missed (pyiceberg would, aloud)."""
    names = [name for one in columns for name in _leaves(one.name, one.type) if "." in name or name in _LONG_BYTES]
    return {_METRICS + name: "none" for name in names}


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_struct(kind):
        for entry in kind:
            yield from _leaves(f"{path}.{entry.name}", entry.type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key", kind.key_type)
        yield from _leaves(f"{path}.value", kind.item_type)
    else:
        yield path
