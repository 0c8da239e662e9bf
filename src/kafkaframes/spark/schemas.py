"""Schemas as Spark hands them over: their columns, and the options that a catalog keeps in one. No pyspark.

Spark (4.3) hands the options of CREATE TABLE to a Python data source once, when it asks for the table's schema,
together with what the catalog adds (``owner``, ``provider``, ``location``, each option again under ``option.``). A
query on the table gets none of them: it gets what stands in ``WITH (...)`` and the table's schema
(``tests/spark/test_catalog_tables.py`` shows both). So the options are kept where the catalog gives them back: in the
comment of the first column, which reads ``kafka-log?path=/x&subscribe=orders``, as DESCRIBE TABLE shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from kafkaframes.errors import OptionError
from kafkaframes.errors.sensitive import is_secret, redact_text
from kafkaframes.scan.columns import Column, choose_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


# What a writer takes: column -> the types that it may have, as Spark's simpleString.
_TEXT: Final = ("binary", "string")
COLUMN_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "offset": ("bigint",),
    "timestamp": ("timestamp", "bigint"),
    "headers": ("array<struct<key:string,value:binary>>",),
}
# What the catalog adds to a table's options: TableCatalog's reserved properties, and Hive's own.
_ADDED: Final = frozenset(
    (
        "collation", "comment", "external", "is_managed_location", "location", "owner", "provider",
        "serialization.format", "table_type", "transient_lastddltime",
    )
)  # fmt: skip
_AGAIN: Final = "option."  # a catalog keeps what stands in OPTIONS (...) a second time, under this
_PATHS: Final = ("path", "paths", "kafka.bootstrap.servers")  # options that say what is read


def without_added(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options as they were written, without what a catalog adds; a table's location is its path.

    >>> without_added({"owner": "root", "location": "file:/x", "option.subscribe": "t", "provider": "kafka-log"})
    {'path': '/x', 'subscribe': 't'}
    """
    written: dict[str, str] = {}
    again: dict[str, str] = {}
    for name, text in options.items():
        lower = name.lower()
        if lower == "location":
            again["path"] = text
        elif lower.startswith(_AGAIN):
            again[name[len(_AGAIN) :]] = text
        elif lower not in _ADDED and not lower.startswith("spark.sql."):
            written[name] = text
    names = {name.lower() for name in written}
    if "paths" in names:
        again.pop("path", None)
    result = written | {name: text for name, text in again.items() if name.lower() not in names}
    return {name: _local(text) if name.lower() == "path" else text for name, text in result.items()}


def _local(path: str) -> str:
    """Return a path as a catalog writes it, ``file:/x``, as the file system does."""
    return f"/{path[5:].lstrip('/')}" if path.startswith("file:/") and not path.startswith("file://") else path


def comment_of(source: str, options: Mapping[str, str]) -> str:
    """Return the comment that keeps the options of a table being created; "" where no table is created.

    Raises:
        OptionError: a secret among the options, by its name or in its value; everybody who sees the table would see it.
    """
    if not any(name.lower() == "provider" for name in options):
        return ""
    written = without_added(options)
    for name, text in written.items():
        if is_secret(name) or redact_text(text) != text:
            raise OptionError(
                f"option {name} would be kept in the catalog for all to see: give it when reading, "
                f"SELECT ... FROM table WITH (`{name}` = ...), or use CREATE TEMPORARY VIEW instead of CREATE TABLE"
            )
    return f"{source}?{urlencode(written, safe='/:,')}"


def options_of(source: str, options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a read: those given, and where they do not say what is read, those that a table keeps.

    Raises:
        OptionError: neither says what is read.
    """
    values = without_added(options)
    names = {name.lower() for name in values}
    if names & set(_PATHS):
        return values
    for field in schema:
        kept, _, text = field.metadata.get("comment", "").partition("?")
        if kept == source:
            result = parse_qsl(text, keep_blank_values=True)
            return {name: value for name, value in result if name.lower() not in names} | values
    raise OptionError(
        f"{source} does not know what to read: Spark passes no options of CREATE TABLE to a query, and a table "
        "created with a list of columns keeps none; create it without that list, or use "
        f"CREATE TEMPORARY VIEW name USING `{source}` OPTIONS (...)"
    )


def types_of(schema: StructType) -> dict[str, str]:
    """Return name and type of each column of a schema, the type as Spark writes it in short (``simpleString``)."""
    return {field.name: field.dataType.simpleString() for field in schema}


def columns_of(schema: StructType, *, table: str = "records") -> tuple[Column, ...]:
    """Return the columns that a schema names, ours or one that the user has given.

    Raises:
        OptionError: a column is unknown, named twice, or of another type here.
    """
    columns = choose_columns(schema.names, table=table)
    for theirs, ours in zip(schema, columns, strict=True):
        if theirs.dataType.simpleString() != ours.type.replace(" ", ""):
            raise OptionError(f"schema: column {theirs.name} is {ours.type}, not {theirs.dataType.simpleString()}")
    return columns
