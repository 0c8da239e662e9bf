"""Columns that the sinks accept: the columns of Spark's Kafka sink, and ``timestamp`` and ``offset``. No PySpark.

Other columns of the source (``timestampType``, ``magic``, ...) are ignored. Any other column is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkaframes.errors import OptionError
from kafkaframes.scan.columns import RECORD_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafkaframes.jobs.restore.writing.routing import WriteSettings

# Columns of a write -> their valid types, as Spark's simpleString.
_TEXT_TYPES: Final = ("binary", "string")
COLUMN_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": _TEXT_TYPES,
    "value": _TEXT_TYPES,
    "topic": ("string",),
    "partition": ("int",),
    "offset": ("bigint",),
    "timestamp": ("timestamp", "bigint"),
    "headers": ("array<struct<key:string,value:binary>>",),
}
_IGNORED_COLUMNS = frozenset(column.name for column in RECORD_COLUMNS) - frozenset(COLUMN_TYPES)


def map_column_types(schema: StructType) -> dict[str, str]:
    """Return the type of each column in a schema by name, as Spark's ``simpleString``."""
    return {field.name: field.dataType.simpleString() for field in schema}


def check_columns(columns: Mapping[str, str], settings: WriteSettings) -> None:
    """Reject a DataFrame that cannot be written.

    Args:
        columns: Types of the columns, by name.
        settings: Settings of the write.

    Raises:
        OptionError: A column is missing, unknown or has an invalid type. The message names the column.
    """
    for name, kind in columns.items():
        if name in _IGNORED_COLUMNS:
            continue
        allowed_types = COLUMN_TYPES.get(name)
        if allowed_types is None:
            raise OptionError(f"column {name}: must be one of {', '.join(COLUMN_TYPES)}; drop it, or rename it")
        if kind not in (*allowed_types, "void"):
            raise OptionError(f"column {name} is {' or '.join(allowed_types)}, not {kind}")
    if "value" not in columns:
        raise OptionError("a column named value is required; nulls in it are tombstones")
    if settings.topic is None and "topic" not in columns:
        raise OptionError("the topic is missing; set the option topic, or add a column topic")
    if settings.keep_offsets and "offset" not in columns:
        raise OptionError("offsets=keep requires the column offset")
