"""A decoder of Avro values. Each value is resolved from its writer schema to the table's schema and its columns.

No Avro library is used: ``avro_schema`` parses schemas, ``avro_columns`` plans the columns, and ``avro_resolution``
compiles the readers. An array of elements without bytes is rejected, because a small value could then announce any
number of elements.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.scan.values.avro_binary import Read
from kafkaframes.scan.values.avro_columns import plan_fields, plan_value
from kafkaframes.scan.values.avro_resolution import ReaderCompiler
from kafkaframes.scan.values.avro_schema import RECORD, AvroSchemaError, parse_avro_schema
from kafkaframes.scan.values.columns import Row
from kafkaframes.scan.values.registry import BadValueError

WHOLE_VALUE_COLUMN: Final = "value"
Schema = Any  # parsed JSON
SchemaOf = Callable[[bytes], tuple[Schema | None, bytes]]


class AvroDecoder:
    """A decoder of Avro values.

    Args:
        reader: Schema of the table.
        schema_of: Function that returns the writer schema of a value (None: the table's schema) and its payload.

    Raises:
        OptionError: The schema is invalid, or columns cannot represent its values.
    """

    def __init__(self, reader: Schema, schema_of: SchemaOf) -> None:
        try:
            self._schema = parse_avro_schema(reader)
        except AvroSchemaError as error:
            raise OptionError(f"not an Avro schema: {error}") from error
        self._schema_of = schema_of
        self._readers: dict[int, tuple[Schema, Read | str]] = {}
        if self._schema.kind == RECORD:
            if not self._schema.fields:
                raise OptionError(f"Avro schema: record {self._schema.name} has no fields, so there are no columns")
            self._parts, self._names = plan_fields(self._schema)
            columns = [(self._names[name], part.type) for name, part in self._parts.items()]
        else:
            self._value = plan_value(self._schema)
            columns = [(WHOLE_VALUE_COLUMN, self._value.type)]
        self.fields: tuple[pa.Field, ...] = tuple(pa.field(name, kind) for name, kind in columns)

    def decode(self, value: bytes) -> Row:
        """Return the columns of a value.

        Raises:
            BadValueError: The bytes do not match their schema, or their schema does not resolve to the table's schema.
        """
        writer_schema, payload = self._schema_of(value)
        read = self._get_reader(writer_schema)
        if isinstance(read, str):
            raise BadValueError(read)
        try:
            result, end = read(payload, 0)
        except BadValueError as error:
            raise BadValueError(f"the value does not match its Avro schema: {error}") from None
        except (IndexError, struct.error):
            raise BadValueError("the value does not match its Avro schema: it is truncated") from None
        except RecursionError:
            raise BadValueError("the value does not match its Avro schema: it is nested too deeply") from None
        if remaining_bytes := len(payload) - end:
            raise BadValueError(
                f"{remaining_bytes} byte{'s follow' if remaining_bytes > 1 else ' follows'} the Avro value"
            )
        row: Row = result if self._schema.kind == RECORD else {WHOLE_VALUE_COLUMN: result}
        return row

    def _get_reader(self, writer_schema: Schema | None) -> Read | str:
        """Return a reader of the values of a writer schema, or the reason why the schemas are incompatible."""
        reader = self._readers.get(id(writer_schema))
        if reader is None:
            try:
                result: Read | str = self._compile_reader(writer_schema)
            except AvroSchemaError as error:
                result = f"its schema is not an Avro schema: {error}"
            except RecursionError:
                result = "the schema is nested too deeply"
            reader = self._readers[id(writer_schema)] = (
                writer_schema,
                result,
            )  # keeps a reference to the schema, so that its id is not reused
        return reader[1]

    def _compile_reader(self, writer_schema: Schema | None) -> Read:
        """Return a compiled reader of a writer schema's values."""
        writer, resolver = self._schema if writer_schema is None else parse_avro_schema(writer_schema), ReaderCompiler()
        if self._schema.kind == RECORD:
            return resolver.create_record_reader(writer, self._schema, self._parts, self._names)
        return resolver.get_reader(writer, self._value)
