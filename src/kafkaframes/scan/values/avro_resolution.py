"""Resolve Avro values of a writer schema to the columns of a reader schema, by Avro's specification, without I/O.

``ReaderCompiler`` compiles a writer type and a column to one function from bytes to the column's value. Details that
the specification does not define are as in Avro's Java library, except for units (``avro_scalars``).
``tests/interop/test_avro_differential.py`` compares this module with Java's library for random pairs of schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkaframes.scan.values.avro_binary import (
    PRIMITIVE_READERS,
    Read,
    create_array_reader,
    create_converting_reader,
    create_failing_reader,
    create_fixed_reader,
    create_map_reader,
    create_mismatch_reader,
    create_record_reader,
    read_bytes,
    read_long,
    read_null,
)
from kafkaframes.scan.values.avro_columns import ENTRIES, LIST, STRUCT, TEXT, AvroColumn
from kafkaframes.scan.values.avro_defaults import encode_default
from kafkaframes.scan.values.avro_scalars import (
    TYPE_PROMOTIONS,
    create_column_conversion,
    create_scalar_reader,
    create_text_conversion,
    has_same_name,
    quote_json_text,
)
from kafkaframes.scan.values.avro_schema import (
    ARRAY,
    ENUM,
    FIXED,
    MAP,
    NO_DEFAULT,
    NULL,
    RECORD,
    STRING,
    UNION,
    AvroField,
    AvroType,
)
from kafkaframes.scan.values.registry import BadValueError


class ReaderCompiler:
    """A compiler of readers for pairs of a writer type and a column, with a cache."""

    def __init__(self) -> None:
        self._readers: dict[tuple[AvroType, object], Read | None] = {}
        self._texts: dict[tuple[AvroType, AvroType], Read | None] = {}
        self._skips: dict[AvroType, Read | None] = {}

    def get_reader(self, writer: AvroType, column: AvroColumn) -> Read:
        """Return a reader that decodes values of the type ``writer`` to a column's values.

        If a part cannot be resolved, reading it raises BadValueError, as in Java. An unused branch of a union therefore
        causes no error.
        """
        return _compile(self._readers, (writer, column), lambda: self._create_column_reader(writer, column))

    def get_skipper(self, writer: AvroType) -> Read:
        """Return a reader that skips a value."""
        return _compile(self._skips, writer, lambda: self._create_skipper(writer))

    def create_record_reader(
        self, writer: AvroType, reader: AvroType, parts: Mapping[str, AvroColumn], names: Mapping[str, str]
    ) -> Read:
        """Return a reader of a record as a dictionary by column name."""
        if writer.kind == UNION:
            return self._create_union_reader(
                writer, lambda branch: self.create_record_reader(branch, reader, parts, names)
            )
        if writer.kind != RECORD:
            return create_mismatch_reader(writer, reader)

        def create_part_reader(source: AvroType, field: AvroField) -> Read:
            return self.get_reader(source, parts[field.name])

        return self._create_fields_reader(writer, reader, create_part_reader, {name: names[name] for name in parts})

    # ----------------------------------------------------------------------------------------------------- columns

    def _create_column_reader(self, writer: AvroType, column: AvroColumn) -> Read:
        """Return a reader that converts values of the type ``writer`` to a column's values."""
        if column.form == TEXT:
            text = self._text_reader(writer, column.schema)
            return create_converting_reader(text, _null_of_text)
        if writer.kind == UNION:
            return self._create_union_reader(writer, lambda branch: self.get_reader(branch, column))
        if writer.kind == NULL:
            if column.is_nullable or column.schema.kind == NULL:
                return read_null
            return create_mismatch_reader(writer, column.schema)
        if column.form == STRUCT:
            return self.create_record_reader(writer, column.schema, column.parts, column.names)
        if column.form == LIST:
            if writer.kind != ARRAY:
                return create_mismatch_reader(writer, column.schema)
            return create_array_reader(self.get_reader(writer.element, column.parts[""]), writer.element)
        if column.form == ENTRIES:
            if writer.kind != MAP:
                return create_mismatch_reader(writer, column.schema)
            return create_map_reader(self.get_reader(writer.element, column.parts[""]))
        return create_scalar_reader(writer, column.schema, create_column_conversion)

    # -------------------------------------------------------------------------------------------------------- text

    def _text_reader(self, writer: AvroType, reader: AvroType) -> Read:
        return _compile(self._texts, (writer, reader), lambda: self._create_text_reader(writer, reader))

    def _create_text_reader(self, writer: AvroType, reader: AvroType) -> Read:
        """Return a reader that converts values of the type ``writer`` to JSON text by the type ``reader``."""
        if writer.kind == UNION:
            return self._create_union_reader(writer, lambda branch: self._text_reader(branch, reader))
        if reader.kind == UNION:
            index = self._find_matching_branch(writer, reader)
            return (
                create_mismatch_reader(writer, reader)
                if index is None
                else self._text_reader(writer, reader.branches[index])
            )
        if reader.kind == RECORD:
            if writer.kind != RECORD:
                return create_mismatch_reader(writer, reader)
            fields = self._create_fields_reader(
                writer,
                reader,
                lambda source, field: self._text_reader(source, field.type),
                {field.name: field.name for field in reader.fields},
            )
            return create_converting_reader(fields, _text_of_fields)
        if reader.kind == ARRAY:
            if writer.kind != ARRAY:
                return create_mismatch_reader(writer, reader)
            read = create_array_reader(self._text_reader(writer.element, reader.element), writer.element)
            return create_converting_reader(read, lambda texts: f"[{','.join(texts)}]")
        if reader.kind == MAP:
            if writer.kind != MAP:
                return create_mismatch_reader(writer, reader)
            return create_converting_reader(
                create_map_reader(self._text_reader(writer.element, reader.element)), _text_of_entries
            )
        if reader.kind == NULL or writer.kind == NULL:
            return (
                create_converting_reader(read_null, lambda _: "null")
                if reader.kind == writer.kind
                else create_mismatch_reader(writer, reader)
            )
        return create_scalar_reader(writer, reader, create_text_conversion)

    def _find_matching_branch(self, writer: AvroType, reader: AvroType) -> int | None:
        """Return the branch of a reader's union that a type resolves to. The rules have the same order as in Java."""
        structure = None
        for index, branch in enumerate(reader.branches):
            if branch.kind != writer.kind:
                continue
            if not writer.name or writer.name == branch.name or writer.name in branch.aliases:
                return index
            if writer.kind != RECORD:
                if has_same_name(writer, branch):
                    return index
            elif self._can_resolve(writer, branch) and (structure is None or has_same_name(writer, branch)):
                structure = index
        if structure is not None:
            return structure
        promotions = TYPE_PROMOTIONS.get(writer.kind, frozenset())
        return next((index for index, branch in enumerate(reader.branches) if branch.kind in promotions), None)

    def _can_resolve(self, writer: AvroType, reader: AvroType) -> bool:
        """Return whether a written record has every field that has no default in ``reader``."""
        return all(
            field.default is not NO_DEFAULT or _find_writer_field(writer, field) is not None for field in reader.fields
        )

    # ------------------------------------------------------------------------------------------------------- parts

    def _create_union_reader(self, writer: AvroType, read: Callable[[AvroType], Read]) -> Read:
        """Return a reader that reads a union's branch index, and then the value with that branch's reader."""
        branches = [read(branch) for branch in writer.branches]
        count = len(branches)

        def read_union(data: bytes, position: int) -> tuple[Any, int]:
            """Read the branch index, and the value with the reader of this branch."""
            index, position = read_long(data, position)
            if not 0 <= index < count:
                raise BadValueError(f"the union has {count} types, but no branch {index}")
            return branches[index](data, position)

        return read_union

    def _create_fields_reader(
        self,
        writer: AvroType,
        reader: AvroType,
        part: Callable[[AvroType, AvroField], Read],
        names: Mapping[str, str],
    ) -> Read:
        """Return a reader of a record's fields as a dictionary, with ``names`` as keys."""
        targets: dict[str, AvroField] = {}
        missing_fields: list[AvroField] = []
        for field in reader.fields:
            source = _find_writer_field(writer, field)
            if source is None:
                missing_fields.append(field)
            elif source.name in targets:
                return create_failing_reader(
                    f"{reader.label}: fields {targets[source.name].name} and {field.name} are both "
                    f"{source.name} of the writer's schema"
                )
            else:
                targets[source.name] = field
        defaults: dict[str, Any] = {}
        for field in missing_fields:
            if field.default is NO_DEFAULT:
                return create_failing_reader(
                    f"{reader.label}: the writer's schema has no field {field.name}, which has no default"
                )
            try:
                data = encode_default(field.type, field.default)
                defaults[names[field.name]], _ = part(field.type, field)(data, 0)
            except (BadValueError, RecursionError) as error:
                return create_failing_reader(f"{reader.label}: the default of field {field.name} is invalid: {error}")
        steps: list[tuple[str | None, Read]] = []
        for field in writer.fields:
            target = targets.get(field.name)
            if target is None:
                steps.append((None, self.get_skipper(field.type)))
            else:
                steps.append((names[target.name], part(field.type, target)))
        return create_record_reader(steps, defaults)

    def _create_skipper(self, writer: AvroType) -> Read:
        """Return a reader that moves past a value without using it."""
        kind = writer.kind
        if kind == UNION:
            return self._create_union_reader(writer, self.get_skipper)
        if kind == RECORD:
            return create_record_reader([(None, self.get_skipper(field.type)) for field in writer.fields], {})
        if kind == ARRAY:
            return create_array_reader(self.get_skipper(writer.element), writer.element)
        if kind == MAP:
            return create_map_reader(self.get_skipper(writer.element))
        if kind == NULL:
            return read_null
        if kind == FIXED:
            return create_fixed_reader(writer.size)
        if kind == STRING:
            return read_bytes
        return read_long if kind == ENUM else PRIMITIVE_READERS[kind]


def _compile(cache: dict[Any, Read | None], key: object, create: Callable[[], Read]) -> Read:
    """Return the cached reader, or create it. For a recursive type, return a reader that looks it up when called."""
    result = cache.get(key)
    if result is not None:
        return result
    if key in cache:

        def read_later(data: bytes, position: int) -> tuple[Any, int]:
            """Read a value with the reader that was compiled in the meantime."""
            read = cache[key]
            assert read is not None
            return read(data, position)

        return read_later
    cache[key] = None
    try:
        result = cache[key] = create()
    except BaseException:
        del cache[key]
        raise
    return result


def _find_writer_field(writer: AvroType, field: AvroField) -> AvroField | None:
    """Return the writer's field for a reader's field, by its name or an alias; None if it does not exist."""
    by_name = {writer_field.name: writer_field for writer_field in writer.fields}
    for name in (field.name, *field.aliases):
        if name in by_name:
            return by_name[name]
    return None


def _null_of_text(text: str) -> str | None:
    return None if text == "null" else text


def _text_of_fields(fields: Mapping[str, str]) -> str:
    return f"{{{','.join(f'{quote_json_text(name)}:{text}' for name, text in fields.items())}}}"


def _text_of_entries(entries: Sequence[tuple[str, str]]) -> str:
    return _text_of_fields(dict(entries))
