"""Schemas of the sources: their columns, and ``value`` as bytes or as a struct of decoded values.

With ``decode=json|avro|protobuf``, the readers of ``kafka-log`` and ``kafka-topic`` read ``value`` as bytes. For each
batch, ``decode_rows`` replaces the bytes with the struct, and appends the column ``_error``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkaframes.errors import OptionError
from kafkaframes.scan.columns import Column, choose_columns, format_ddl
from kafkaframes.spark.options import ERROR_COLUMN, VALUE_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkaframes.scan.decoded import ValueDecoding

_HEADERS_COLUMN: Final = "headers"


@dataclass(frozen=True)
class RowDecoding:
    """The decoder for the values that a read returns, and the schema of the decoded rows.

    Attributes:
        decoding: Decoder of bytes to structs.
        schema: Schema of the rows in Spark.
    """

    decoding: ValueDecoding
    schema: pa.Schema


def check_schema(schema: StructType, *, table: str = "records") -> tuple[Column, ...]:
    """Return the columns of a schema, which may come from the user.

    Raises:
        OptionError: A column is unknown, is named twice, or has an invalid type.
    """
    columns = choose_columns(schema.names, table=table)
    for field, column in zip(schema, columns, strict=True):
        if field.dataType.simpleString() != column.type.replace(" ", ""):
            raise OptionError(f"schema: column {field.name} is {column.type}, not {field.dataType.simpleString()}")
    return columns


def format_schema_ddl(columns: tuple[Column, ...], decoding: ValueDecoding | None, comment: str) -> str:
    """Return the schema of a source as Spark DDL, with the struct as the type of ``value``."""
    if decoding is None or VALUE_COLUMN not in [column.name for column in columns]:
        return format_ddl(columns, comment)
    import pyarrow as pa

    kind = _format_ddl_type(pa.struct(decoding.decoding.get_decoder().fields))
    new_columns = [Column(VALUE_COLUMN, kind, "") if column.name == VALUE_COLUMN else column for column in columns]
    return format_ddl([*new_columns, Column(ERROR_COLUMN, "string", "")], comment)


def _format_ddl_type(kind: pa.DataType) -> str:
    """Return an Arrow type as Spark DDL."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type

    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{_quote_name(field.name)}: {_format_ddl_type(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{_format_ddl_type(kind.key_type)}, {_format_ddl_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_format_ddl_type(kind.value_type)}>"
    return str(from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString())


def _quote_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def build_plain_schema(schema: StructType, decoding: ValueDecoding | None) -> tuple[StructType, RowDecoding | None]:
    """Return the schema that the source reads, with ``value`` as bytes, and the decoding to Spark's schema."""
    if decoding is None:
        return schema, None
    from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
    from pyspark.sql.types import BinaryType, StructField, StructType

    from kafkaframes.scan.arrow import ARROW_TYPES
    from kafkaframes.scan.columns import HEADERS_TYPE

    fields = [
        StructField(field.name, BinaryType(), metadata=field.metadata) if field.name == VALUE_COLUMN else field
        for field in schema
        if field.name != ERROR_COLUMN
    ]
    names = [field.name for field in fields]
    # Headers are read, but not returned.
    if VALUE_COLUMN in names and _HEADERS_COLUMN in decoding.source_columns and _HEADERS_COLUMN not in names:
        fields.append(StructField(_HEADERS_COLUMN, from_arrow_type(ARROW_TYPES[HEADERS_TYPE])))
    return StructType(fields), RowDecoding(decoding, to_arrow_schema(schema, timezone="UTC"))


def decode_rows(batches: Iterable[pa.RecordBatch], values: RowDecoding | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task with decoded values, in Spark's types.

    Raises:
        CorruptRecordError: A value cannot be decoded, and ``decodeErrors`` is ``raise``.
    """
    if values is None:
        yield from batches
        return
    import pyarrow as pa

    schema = values.schema
    for batch in batches:
        new_columns = values.decoding.decode_batch(batch, schema.names)
        columns = [column.cast(field.type) for column, field in zip(new_columns.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
