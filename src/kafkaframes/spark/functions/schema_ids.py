"""Spark functions for the header of a schema registry's serializers: the schema id and the payload of a value.

    from kafkaframes.spark.functions import payload, schema_id

    df.select(schema_id("value"), from_avro(payload("value"), schema))

Both functions are native Spark expressions, so that values do not leave the JVM, and they work with every source.
``from_avro`` and ``from_protobuf`` are in Spark's packages spark-avro and spark-protobuf.

| ``registry`` | header |
|---|---|
| ``confluent`` | 0, the id as 4 bytes; also Karapace, Redpanda, and Apicurio from 3.0 on |
| ``apicurio`` | 0, the global id as 8 bytes: Apicurio before 3.0 |
| ``glue`` | 3, 0 (not compressed), the schema version's UUID: AWS Glue |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kafkaframes.errors import OptionError
from kafkaframes.wire.integers import MAX_INT32

if TYPE_CHECKING:
    from pyspark.sql import Column

    ColumnOrName: TypeAlias = Column | str


class _RegistryHeader(NamedTuple):
    """The bytes before a value in a schema registry's format: the first bytes, and the length of the schema id."""

    first: bytes
    id_bytes: int


HEADER_BY_REGISTRY: Final = {
    "confluent": _RegistryHeader(b"\0", 4),
    "apicurio": _RegistryHeader(b"\0", 8),
    "glue": _RegistryHeader(b"\3\0", 16),
}
_MAX_ONE_BYTE_INDEX: Final = 0x7F  # largest index that is encoded in one byte
_MAX_MESSAGE_INDEXES: Final = 3


def schema_id(value: ColumnOrName, registry: str = "confluent") -> Column:
    """Return a column with the schema id of each value; null if a value does not have the header.

    Args:
        value: Binary column.
        registry: ``confluent`` or ``apicurio`` (ids are bigint), or ``glue`` (ids are UUIDs as text).

    Raises:
        OptionError: The registry is unknown.
    """
    from pyspark.sql import functions

    header = _find_header(registry)
    number = functions.hex(functions.substring(_to_binary_column(value), len(header.first) + 1, header.id_bytes))
    if registry == "glue":
        pattern = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"
        id_column = functions.regexp_replace(functions.lower(number), pattern, "$1-$2-$3-$4-$5")
    else:
        id_column = functions.conv(number, 16, 10).cast("bigint")
    return functions.when(_has_header(value, header), id_column)


def payload(value: ColumnOrName, registry: str = "confluent", *, protobuf: bool = False) -> Column:
    """Return a column with the bytes after the header; null if a value does not have the header.

    Args:
        value: Binary column.
        registry: As for ``schema_id``. Values that Glue's serializer has compressed are null.
        protobuf: Whether Protobuf message indexes follow the header. Messages that are nested more than three levels
            deep are null.

    Raises:
        OptionError: The registry is unknown.
    """
    from pyspark.sql import functions

    header = _find_header(registry)
    size = len(header.first) + header.id_bytes
    encoded_payload = functions.substring(_to_binary_column(value), size + 1, MAX_INT32)
    return functions.when(
        _has_header(value, header), _drop_message_indexes(encoded_payload) if protobuf else encoded_payload
    )


def _find_header(registry: str) -> _RegistryHeader:
    """Return the header of a schema registry by its name."""
    if registry not in HEADER_BY_REGISTRY:
        raise OptionError(f"unknown schema registry {registry!r}; expected one of {', '.join(HEADER_BY_REGISTRY)}")
    return HEADER_BY_REGISTRY[registry]


def _to_binary_column(value: ColumnOrName) -> Column:
    """Return a column by its name, or the column itself."""
    from pyspark.sql import functions

    return functions.col(value) if isinstance(value, str) else value


def _has_header(value: ColumnOrName, header: _RegistryHeader) -> Column:
    """Return a boolean column: whether each value has the header."""
    from pyspark.sql import functions

    column = _to_binary_column(value)
    is_long = functions.octet_length(column) >= len(header.first) + header.id_bytes
    return is_long & (functions.substring(column, 1, len(header.first)) == functions.lit(header.first))


def _drop_message_indexes(encoded_payload: Column) -> Column:
    """Return the bytes after the index count (a zigzag varint, so twice the count) and the indexes of one byte each."""
    from pyspark.sql import functions

    def byte_at(position: int) -> Column:
        return functions.conv(functions.hex(functions.substring(encoded_payload, position, 1)), 16, 10).cast("int")

    id_column = functions.when(byte_at(1) == 0, functions.substring(encoded_payload, 2, MAX_INT32))
    for count in range(1, _MAX_MESSAGE_INDEXES + 1):
        are_short = byte_at(1) == 2 * count
        for index in range(count):
            are_short &= byte_at(2 + index) <= _MAX_ONE_BYTE_INDEX
        id_column = id_column.when(are_short, functions.substring(encoded_payload, 2 + count, MAX_INT32))
    return id_column
