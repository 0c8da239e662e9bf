"""Store the options of a catalog table in its schema, and read them from there. No PySpark.

Spark (4.3) passes the options of CREATE TABLE to a Python data source only once, when it requests the table's schema.
Spark adds the catalog's properties (``owner``, ``provider``, ``location``, each option again under ``option.``). A
query on the table passes only the options in ``WITH (...)`` and the table's schema
(``tests/spark/test_catalog_tables.py`` shows both). The options are therefore stored in the schema, in the comment of
the first column. DESCRIBE TABLE shows this comment as ``kafka-log?path=/x&subscribe=orders``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from kafkaframes.errors import OptionError
from kafkaframes.errors.sensitive import is_secret, redact_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Properties that the catalog adds to a table's options: reserved properties of TableCatalog, and Hive's own.
_CATALOG_PROPERTIES: Final = frozenset(
    (
        "collation", "comment", "external", "is_managed_location", "location", "owner", "provider",
        "serialization.format", "table_type", "transient_lastddltime",
    )
)  # fmt: skip
_DUPLICATE_PREFIX: Final = "option."  # prefix under which a catalog stores options of OPTIONS (...) a second time
_SOURCE_OPTIONS: Final = ("path", "paths", "kafka.bootstrap.servers")  # options that identify the source


def remove_catalog_additions(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without the properties that a catalog adds. A table's location becomes its path.

    >>> remove_catalog_additions({"location": "file:/x", "option.subscribe": "t", "provider": "kafka-log"})
    {'path': '/x', 'subscribe': 't'}
    """
    schema_options: dict[str, str] = {}
    duplicates: dict[str, str] = {}
    for name, text in options.items():
        lower = name.lower()
        if lower == "location":
            duplicates["path"] = text
        elif lower.startswith(_DUPLICATE_PREFIX):
            duplicates[name[len(_DUPLICATE_PREFIX) :]] = text
        elif lower not in _CATALOG_PROPERTIES and not lower.startswith("spark.sql."):
            schema_options[name] = text
    names = {name.lower() for name in schema_options}
    if "paths" in names:
        duplicates.pop("path", None)
    result = schema_options | {name: text for name, text in duplicates.items() if name.lower() not in names}
    return {name: _to_local_path(text) if name.lower() == "path" else text for name, text in result.items()}


def _to_local_path(path: str) -> str:
    """Convert a catalog's form of a local path, ``file:/x``, to a file system path."""
    return f"/{path[5:].lstrip('/')}" if path.startswith("file:/") and not path.startswith("file://") else path


def format_table_comment(source: str, options: Mapping[str, str]) -> str:
    """Return the comment that stores the options of a new table; an empty string if no table is created.

    Raises:
        OptionError: An option contains a secret, by its name or in its value. All users of the table could read the
            secret.
    """
    if not any(name.lower() == "provider" for name in options):
        return ""
    schema_options = remove_catalog_additions(options)
    for name, text in schema_options.items():
        if is_secret(name) or redact_text(text) != text:
            raise OptionError(
                f"option {name} would be visible to all users of the catalog: pass it when reading, "
                f"SELECT ... FROM table WITH (`{name}` = ...), or use CREATE TEMPORARY VIEW instead of CREATE TABLE"
            )
    return f"{source}?{urlencode(schema_options, safe='/:,')}"


def resolve_read_options(source: str, options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a read: ``options``, or the options of the table if ``options`` do not name a source.

    Raises:
        OptionError: Neither the options nor the table name a source.
    """
    values = remove_catalog_additions(options)
    names = {name.lower() for name in values}
    if names & set(_SOURCE_OPTIONS):
        return values
    for field in schema:
        kept_name, _, text = field.metadata.get("comment", "").partition("?")
        if kept_name == source:
            result = parse_qsl(text, keep_blank_values=True)
            return {name: value for name, value in result if name.lower() not in names} | values
    raise OptionError(
        f"{source} has no path or topics: Spark does not pass the options of CREATE TABLE to a query, and a table "
        "created with a list of columns keeps none; create it without that list, or use "
        f"CREATE TEMPORARY VIEW name USING `{source}` OPTIONS (...)"
    )
