"""Resolve Avro values of a writer schema to the columns of a reader schema, by Avro's specification. Pure.

``Resolver`` compiles a writer type and a column to one function from bytes to the column's value. Details that the
specification does not define are as in Avro's Java library, except for units (``avro_scalars``).
``tests/interop/test_avro_differential.py`` compares both for random pairs of schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkaframes.scan.values.avro_binary import (
    PRIMITIVE_READERS,
    Read,
    array_reader,
    convert_with,
    fail_with,
    make_fixed_reader,
    map_reader,
    read_bytes,
    read_long,
    read_null,
    record_reader,
    refuse_types,
)
from kafkaframes.scan.values.avro_columns import ENTRIES, LIST, STRUCT, TEXT, AvroColumn
from kafkaframes.scan.values.avro_defaults import encode_default
from kafkaframes.scan.values.avro_scalars import (
    PROMOTIONS,
    column_value,
    has_same_name,
    json_text,
    scalar_reader,
    text_value,
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


class Resolver:
    """Compiles and caches readers for pairs of a writer type and a column."""

    def __init__(self) -> None:
        self._readers: dict[tuple[AvroType, object], Read | None] = {}
        self._texts: dict[tuple[AvroType, AvroType], Read | None] = {}
        self._skips: dict[AvroType, Read | None] = {}

    def reader(self, writer: AvroType, column: AvroColumn) -> Read:
        """Return a reader of a column's values, written with the type ``writer``.

        If a part cannot be resolved, reading it raises BadValueError, as in Java. An unused branch of a union therefore
        causes no error.
        """
        return _compile(self._readers, (writer, column), lambda: self._column(writer, column))

    def skip(self, writer: AvroType) -> Read:
        """Return a reader that skips a value."""
        return _compile(self._skips, writer, lambda: self._skip(writer))

    def record(
        self, writer: AvroType, reader: AvroType, parts: Mapping[str, AvroColumn], names: Mapping[str, str]
    ) -> Read:
        """Return a reader of a record as a dictionary by column name."""
        if writer.kind == UNION:
            return self._branches(writer, lambda branch: self.record(branch, reader, parts, names))
        if writer.kind != RECORD:
            return refuse_types(writer, reader)

        def part(source: AvroType, field: AvroField) -> Read:
            return self.reader(source, parts[field.name])

        return self._fields(writer, reader, part, {name: names[name] for name in parts})

    # ----------------------------------------------------------------------------------------------------- columns

    def _column(self, writer: AvroType, column: AvroColumn) -> Read:
        if column.form == TEXT:
            text = self._text_reader(writer, column.schema)
            return convert_with(text, _null_of_text)
        if writer.kind == UNION:
            return self._branches(writer, lambda branch: self.reader(branch, column))
        if writer.kind == NULL:
            if column.is_nullable or column.schema.kind == NULL:
                return read_null
            return refuse_types(writer, column.schema)
        if column.form == STRUCT:
            return self.record(writer, column.schema, column.parts, column.names)
        if column.form == LIST:
            if writer.kind != ARRAY:
                return refuse_types(writer, column.schema)
            return array_reader(self.reader(writer.element, column.parts[""]), writer.element)
        if column.form == ENTRIES:
            if writer.kind != MAP:
                return refuse_types(writer, column.schema)
            return map_reader(self.reader(writer.element, column.parts[""]))
        return scalar_reader(writer, column.schema, column_value)

    # -------------------------------------------------------------------------------------------------------- text

    def _text_reader(self, writer: AvroType, reader: AvroType) -> Read:
        return _compile(self._texts, (writer, reader), lambda: self._text(writer, reader))

    def _text(self, writer: AvroType, reader: AvroType) -> Read:
        if writer.kind == UNION:
            return self._branches(writer, lambda branch: self._text_reader(branch, reader))
        if reader.kind == UNION:
            index = self._matching_branch(writer, reader)
            return refuse_types(writer, reader) if index is None else self._text_reader(writer, reader.branches[index])
        if reader.kind == RECORD:
            if writer.kind != RECORD:
                return refuse_types(writer, reader)
            fields = self._fields(
                writer,
                reader,
                lambda source, field: self._text_reader(source, field.type),
                {field.name: field.name for field in reader.fields},
            )
            return convert_with(fields, _text_of_fields)
        if reader.kind == ARRAY:
            if writer.kind != ARRAY:
                return refuse_types(writer, reader)
            read = array_reader(self._text_reader(writer.element, reader.element), writer.element)
            return convert_with(read, lambda texts: f"[{','.join(texts)}]")
        if reader.kind == MAP:
            if writer.kind != MAP:
                return refuse_types(writer, reader)
            return convert_with(map_reader(self._text_reader(writer.element, reader.element)), _text_of_entries)
        if reader.kind == NULL or writer.kind == NULL:
            return (
                convert_with(read_null, lambda _: "null")
                if reader.kind == writer.kind
                else refuse_types(writer, reader)
            )
        return scalar_reader(writer, reader, text_value)

    def _matching_branch(self, writer: AvroType, reader: AvroType) -> int | None:
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
        promotions = PROMOTIONS.get(writer.kind, frozenset())
        return next((index for index, branch in enumerate(reader.branches) if branch.kind in promotions), None)

    def _can_resolve(self, writer: AvroType, reader: AvroType) -> bool:
        """Return whether a written record has every field of ``reader`` that has no default."""
        return all(
            field.default is not NO_DEFAULT or _find_source(writer, field) is not None for field in reader.fields
        )

    # ------------------------------------------------------------------------------------------------------- parts

    def _branches(self, writer: AvroType, read: Callable[[AvroType], Read]) -> Read:
        branches = [read(branch) for branch in writer.branches]
        count = len(branches)

        def read_union(data: bytes, position: int) -> tuple[Any, int]:
            index, position = read_long(data, position)
            if not 0 <= index < count:
                raise BadValueError(f"branch {index} of a union of {count} types")
            return branches[index](data, position)

        return read_union

    def _fields(
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
            source = _find_source(writer, field)
            if source is None:
                missing_fields.append(field)
            elif source.name in targets:
                return fail_with(
                    f"{reader.label}: fields {targets[source.name].name} and {field.name} are both "
                    f"{source.name} of the writer's schema"
                )
            else:
                targets[source.name] = field
        defaults: dict[str, Any] = {}
        for field in missing_fields:
            if field.default is NO_DEFAULT:
                return fail_with(f"{reader.label}: the writer's schema has no field {field.name}, which has no default")
            try:
                data = encode_default(field.type, field.default)
                defaults[names[field.name]], _ = part(field.type, field)(data, 0)
            except (BadValueError, RecursionError) as error:
                return fail_with(f"{reader.label}: the default of field {field.name}: {error}")
        steps: list[tuple[str | None, Read]] = []
        for field in writer.fields:
            target = targets.get(field.name)
            if target is None:
                steps.append((None, self.skip(field.type)))
            else:
                steps.append((names[target.name], part(field.type, target)))
        return record_reader(steps, defaults)

    def _skip(self, writer: AvroType) -> Read:
        kind = writer.kind
        if kind == UNION:
            return self._branches(writer, self.skip)
        if kind == RECORD:
            return record_reader([(None, self.skip(field.type)) for field in writer.fields], {})
        if kind == ARRAY:
            return array_reader(self.skip(writer.element), writer.element)
        if kind == MAP:
            return map_reader(self.skip(writer.element))
        if kind == NULL:
            return read_null
        if kind == FIXED:
            return make_fixed_reader(writer.size)
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


def _find_source(writer: AvroType, field: AvroField) -> AvroField | None:
    """Return the writer's field for a reader's field, by its name or an alias; None if it does not exist."""
    by_name = {one.name: one for one in writer.fields}
    for name in (field.name, *field.aliases):
        if name in by_name:
            return by_name[name]
    return None


def _null_of_text(text: str) -> str | None:
    return None if text == "null" else text


def _text_of_fields(fields: Mapping[str, str]) -> str:
    return f"{{{','.join(f'{json_text(name)}:{text}' for name, text in fields.items())}}}"


def _text_of_entries(entries: Sequence[tuple[str, str]]) -> str:
    return _text_of_fields(dict(entries))
