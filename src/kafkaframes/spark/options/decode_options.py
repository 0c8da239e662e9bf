"""Options that decode values in Spark's workers: ``decode=json|avro|protobuf`` of ``kafka-log`` and ``kafka-topic``.

Decoding options become a ``ValueDecoding``. The other options are those of the source, which reads ``value`` as bytes.
For each batch of the source, ``decode_rows`` replaces the bytes by the struct, and appends the column ``_error``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkaframes.errors import OptionError
from kafkaframes.scan.columns import Column, format_ddl
from kafkaframes.spark.options.option_values import Option, boolean, choice_parser, field_values

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkaframes.scan.decoded import ValueDecoding

VALUE_COLUMN: Final = "value"
HEADERS: Final = "headers"
ERROR_COLUMN: Final = "_error"
DECODE_OPTION: Final = "decode"
MODES: Final = ("json", "avro", "protobuf")
DECODE_ROWS: Final = (
    Option(
        "schema",
        "schema",
        str,
        "with decode: JSON Schema, Avro schema or Protobuf descriptor set, as text or as the path of a file "
        "on the driver",
    ),
    Option("schemaRegistry", "registry", str, "with decode: URL of the schema registry of the values' prefixes"),
    Option(
        "schemaSubject", "subject", str, "with decode: subject whose newest schema defines the columns", "TOPIC-value"
    ),
    Option("messageName", "message", str, "with decode=protobuf: full name of the message; by default the first one"),
    Option(
        "decodeErrors",
        "errors",
        choice_parser(("null", "raise")),
        "with decode, for invalid values: null, with the reason in the column _error; or raise",
        "null",
    ),
    Option(
        "otherFields",
        "other_fields",
        boolean,
        "with decode=json: return fields that the schema lacks as JSON text in other_fields",
        "false",
    ),
)
_OPTION_BY_NAME: Final[Mapping[str, Option]] = {option.name.lower(): option for option in DECODE_ROWS}


@dataclass(frozen=True)
class DecodedValues:
    """The decoding of the values of a read.

    Attributes:
        decoding: Decoder of bytes to structs.
        schema: Schema of the rows in Spark; None while it is unknown.
    """

    decoding: ValueDecoding
    schema: pa.Schema | None = None


def split_options(
    options: Mapping[str, str], *, other_modes: tuple[str, ...] = ()
) -> tuple[DecodedValues | None, dict[str, str]]:
    """Return the decoding (None: values are bytes), and the options of the source.

    Args:
        options: Options as Spark passes them.
        other_modes: Values of the option ``decode`` that the source handles itself.

    Raises:
        OptionError: A decoding option is given without ``decode``, or the schema is missing or invalid.
        MissingExtraError, NetworkError: As for ``Scan.decode``.
    """
    by_name = {name.lower(): text for name, text in options.items()}
    mode = by_name.get(DECODE_OPTION, "").lower()
    source_options = {name: text for name, text in options.items() if name.lower() not in _OPTION_BY_NAME}
    choice = field_values(_OPTION_BY_NAME, {name: text for name, text in by_name.items() if name in _OPTION_BY_NAME})
    if mode not in MODES:
        if mode and mode not in other_modes:
            raise OptionError(f"option decode must be one of {', '.join((*MODES, *other_modes))}, not {mode}")
        if choice:
            names = ", ".join(option.name for option in DECODE_ROWS if option.field in choice)
            raise OptionError(f"option {names} requires decode={'|'.join(MODES)}")
        return None, source_options
    del source_options[next(name for name in source_options if name.lower() == DECODE_OPTION)]
    if not choice.keys() & {"schema", "registry"}:
        raise OptionError(f"decode={mode} requires the option schema or schemaRegistry")
    if ERROR_COLUMN in (name.strip() for name in by_name.get("columns", "").split(",")):
        raise OptionError(
            f"columns: {ERROR_COLUMN} is added automatically after the other columns if value is one of them"
        )
    return DecodedValues(_decoding(mode, choice, by_name.get("subscribe", ""))), source_options


def _decoding(mode: str, choice: dict[str, Any], subscribed: str) -> ValueDecoding:
    from kafkaframes.scan.decoded import SchemaArguments, ValueDecoding

    raises = choice.pop("errors", "null") == "raise"
    topics = [name.strip() for name in subscribed.split(",") if name.strip()]
    schema = SchemaArguments(**{"other_fields": False, **choice})
    return ValueDecoding(schema.create_decoding(mode, topics=topics, sample=list), raises=raises)


def refuse_decoding(names: Iterable[str]) -> None:
    """Reject decoding options in jobs, because only ``spark.read`` and ``spark.readStream`` support them.

    Args:
        names: Names of the options, in lower case.

    Raises:
        OptionError: There is a decoding option. The message names the reads that support it.
    """
    for name in names:
        if name in _OPTION_BY_NAME:
            raise OptionError(
                f"option {_OPTION_BY_NAME[name].name}: only spark.read and spark.readStream decode values"
            )


def ddl_of_decoded(columns: tuple[Column, ...], values: DecodedValues | None, comment: str) -> str:
    """Return the schema of a source as Spark DDL, with the struct as the type of ``value``."""
    if values is None or VALUE_COLUMN not in [column.name for column in columns]:
        return format_ddl(columns, comment)
    import pyarrow as pa

    kind = _ddl_type(pa.struct(values.decoding.decoding.decoder().fields))
    new_columns = [Column(VALUE_COLUMN, kind, "") if column.name == VALUE_COLUMN else column for column in columns]
    return format_ddl([*new_columns, Column(ERROR_COLUMN, "string", "")], comment)


def _ddl_type(kind: pa.DataType) -> str:
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type

    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{_quote_name(field.name)}: {_ddl_type(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{_ddl_type(kind.key_type)}, {_ddl_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_ddl_type(kind.value_type)}>"
    return str(from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString())


def _quote_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def plain_schema(schema: StructType, values: DecodedValues | None) -> tuple[StructType, DecodedValues | None]:
    """Return the schema that the source reads, with ``value`` as bytes, and the decoding to Spark's schema."""
    if values is None:
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
    if VALUE_COLUMN in names and HEADERS in values.decoding.sources and HEADERS not in names:  # read, but not returned
        fields.append(StructField(HEADERS, from_arrow_type(ARROW_TYPES[HEADERS_TYPE])))
    return StructType(fields), DecodedValues(values.decoding, to_arrow_schema(schema, timezone="UTC"))


def decode_rows(batches: Iterable[pa.RecordBatch], values: DecodedValues | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task with decoded values, in Spark's types.

    Raises:
        CorruptRecordError: A value cannot be decoded, and ``decodeErrors`` is ``raise``.
    """
    if values is None or values.schema is None:
        yield from batches
        return
    import pyarrow as pa

    schema = values.schema
    for batch in batches:
        new_columns = values.decoding.decode_batch(batch, schema.names)
        columns = [column.cast(field.type) for column, field in zip(new_columns.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
