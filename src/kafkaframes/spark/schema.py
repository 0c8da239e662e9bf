"""Schemas as Spark hands them over: their columns as those of ``scan.columns``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaframes.errors import OptionError
from kafkaframes.scan.columns import Column, choose_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


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
