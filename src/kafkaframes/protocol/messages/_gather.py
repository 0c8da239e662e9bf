"""Prepare Arrow input for the encoder: find columns by name, cast them, validate them, and copy them to an arena.

This module does all validation, column by column and without a loop over rows. The validation rejects nulls at versions
that do not allow them, text that is too long, integers beyond an unsigned type's range, unknown tags that are not in
ascending order, and non-default values of fields that the version lacks. The EncodeError names the first invalid row.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import EncodeError
from kafkaframes.protocol.messages._arena import MAX_ROWS, Array, DecodeArena
from kafkaframes.protocol.messages._program import (
    ERROR_COLUMN,
    UNKNOWN_TAGS_COLUMN,
    BufferKind,
    ColumnProgram,
    TypeNode,
)
from kafkaframes.protocol.messages._reference import describe_missing_field, describe_tag_conflict
from kafkaframes.protocol.messages.plan import AbsentField, FieldPlan, MutableDefault, StructPlan
from kafkaframes.wire.primitives import MAX_STRING_BYTES

_MAX_VALUE_BY_TYPE: Final = {"uint16": 0xFFFF, "uint32": 0xFFFFFFFF}
_MAX_TAG: Final = 0x7FFFFFFE  # largest tag number of a tagged field
#: Largest encoded size of a row in one column, in bytes, without its data: a value, a length, or a struct marker.
_MAX_WIRE_BYTES_BY_KIND: Final = {BufferKind.BIT: 1, BufferKind.VAR: 5, BufferKind.LIST: 5, BufferKind.STRUCT: 1}
_MAX_TAG_HEADER_BYTES: Final = 16  # largest size of a tag, its size, and the section's count, in bytes


class Gatherer:
    """Collects the buffers of the caller's Arrow array; ``parts[column]`` contains the buffers of a column."""

    def __init__(self, program: ColumnProgram, count: int) -> None:
        self.program = program
        self.parts: dict[int, tuple[Array | None, Array | None, Array | None]] = {}
        self.lengths = [0] * len(program.levels)
        self.lengths[0] = count
        self.offsets: dict[int, Array] = {}
        self.parents = {
            index: int(program.columns[level.parent_column, 1]) for index, level in enumerate(program.levels) if index
        }

    def gather_structs(self, node: TypeNode, plan: StructPlan, array: pa.Array, live: Array, path: str) -> None:
        """Gather every field of a struct array; reject names that the spec does not declare."""
        names = [field.name for field in array.type]
        if len(set(names)) != len(names):
            raise EncodeError(f"{path or 'the message'} has a column twice")
        for child in node.children:
            if child.name == UNKNOWN_TAGS_COLUMN:
                self.gather_unknown_tags(child, plan, array, names, live, path)
            elif child.name in names:
                self.gather_field(child, array.field(names.index(child.name)), live, _join(path, child.name))
            else:
                self.gather_field(child, self.make_defaults(child, len(array)), live, _join(path, child.name))
        if not plan.flexible and UNKNOWN_TAGS_COLUMN in names:
            sizes = pc.fill_null(pc.list_value_length(array.field(names.index(UNKNOWN_TAGS_COLUMN))), 0)
            has_tags = live & (sizes.to_numpy(zero_copy_only=False) > 0)
            reason = (
                f"tagged fields are set, but version {self.program.plan.version} of this message does not support them"
            )
            self.reject_rows(has_tags, node.level, _join(path, UNKNOWN_TAGS_COLUMN), reason)
        column_names = {child.name for child in node.children} | {ERROR_COLUMN, UNKNOWN_TAGS_COLUMN}
        absent = {field.name[:1].lower() + field.name[1:]: field for field in plan.absent}
        for index, name in enumerate(names):
            if name in absent:
                self.check_absent(absent[name], array.field(index), live, node.level, _join(path, name))
            elif name not in column_names:
                raise EncodeError(f"{plan.name} has no field {_join(path, name)}")

    def gather_field(self, node: TypeNode, array: pa.Array, live: Array, path: str) -> None:
        """Gather one field of any kind."""
        plan = node.plan
        assert plan is not None
        array = _cast_column(array, node.type, path)
        valid = _mask_valid(array)
        if not plan.nullable:
            self.reject_rows(live & ~valid, node.level, path, "null in a field that is not nullable")
        if plan.array:
            self.gather_list(node, array, live & valid, valid, path)
        elif plan.struct is not None:
            if node.column >= 0:
                self.parts[node.column] = (None, valid, None)
            self.gather_structs(node, plan.struct, array, live & valid, path)
        else:
            self.gather_primitive(node, plan, array, live & valid, valid, path)

    def gather_list(self, node: TypeNode, array: pa.Array, live: Array, valid: Array, path: str) -> None:
        plan, item = node.plan, node.children[0]
        assert plan is not None
        counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        self.parts[node.column] = (self.make_offsets(node.column, counts), valid, None)
        self.lengths[item.level] = int(counts.sum())
        elements, alive = array.flatten(), np.repeat(live, counts)
        path = f"{path}[]"
        elements = _cast_column(elements, item.type, path)
        valid_elements = _mask_valid(elements)
        self.reject_rows(alive & ~valid_elements, item.level, path, "an array element is null")
        if plan.struct is not None:
            self.gather_structs(item, plan.struct, elements, alive, path)
        elif item.column >= 0:
            self.gather_primitive(item, plan, elements, alive, valid_elements, path)

    def make_offsets(self, column: int, counts: Array) -> Array:
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        if offsets[-1] > MAX_ROWS:
            raise EncodeError("one column has more than 2 GiB in one call; split the array")
        self.offsets[column] = offsets
        return offsets.astype(np.int32)

    def gather_primitive(
        self, node: TypeNode, plan: FieldPlan, array: pa.Array, live: Array, valid: Array, path: str
    ) -> None:
        kind = int(self.program.columns[node.column, 0])
        if kind == BufferKind.VAR:
            self.gather_texts(node, plan, array, live, valid, path)
        elif kind == BufferKind.BIT:
            bits = np.packbits(pc.fill_null(array, False).to_numpy(zero_copy_only=False), bitorder="little")
            self.parts[node.column] = (bits, valid, None)
        else:
            values = np.frombuffer(array.buffers()[1] or b"", np.uint8)[
                array.offset * kind : (array.offset + len(array)) * kind
            ]
            self.parts[node.column] = (values, valid, None)
            largest = _MAX_VALUE_BY_TYPE.get(plan.type)
            if largest is not None:
                numbers: Array = values.view(np.int32 if kind == BufferKind.FIXED4 else np.int64).astype(np.int64)
                self.reject_rows(live & ((numbers < 0) | (numbers > largest)), node.level, path, f"not a {plan.type}")

    def gather_texts(
        self, node: TypeNode, plan: FieldPlan | None, array: pa.Array, live: Array, valid: Array, path: str
    ) -> None:
        sizes = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
        if plan is not None and plan.type == "string":
            reason = f"the string has more than {MAX_STRING_BYTES} bytes"
            self.reject_rows(live & (sizes > MAX_STRING_BYTES), node.level, path, reason)
        offsets = self.make_offsets(node.column, sizes)
        if array.null_count:  # the bytes of a null row would shift the following rows' data
            array = pc.fill_null(array, "" if pa.types.is_string(array.type) else b"")
        data = np.zeros(0, np.uint8)
        if offsets[-1]:
            start = int(np.frombuffer(array.buffers()[1], np.int32, 1, array.offset * 4)[0])
            data = np.frombuffer(array.buffers()[2], np.uint8)[start : start + int(offsets[-1])]
        self.parts[node.column] = (offsets, valid, data)

    def gather_unknown_tags(
        self, node: TypeNode, plan: StructPlan, parent: pa.Array, names: list[str], live: Array, path: str
    ) -> None:
        """Gather a struct's unknown tags, which must ascend and must not be declared in the spec."""
        path = _join(path, UNKNOWN_TAGS_COLUMN)
        if UNKNOWN_TAGS_COLUMN not in names:
            array = _repeat_value([], len(parent), node.type)
        else:
            array = _cast_column(parent.field(names.index(UNKNOWN_TAGS_COLUMN)), node.type, path)
        counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        self.parts[node.column] = (self.make_offsets(node.column, counts), _mask_valid(array), None)
        item = node.children[0]
        elements = _cast_column(array.flatten(), item.type, path)
        self.lengths[item.level] = len(elements)
        alive = np.repeat(live & _mask_valid(array), counts)
        tag, data = (_select_field(elements, child, path) for child in item.children)
        self.reject_rows(
            alive & ~(_mask_valid(tag) & _mask_valid(data) & _mask_valid(elements)), item.level, path, "null"
        )
        numbers = pc.fill_null(tag, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        before = np.concatenate(([-1], numbers[:-1])) if len(numbers) else numbers
        starts = self.offsets[node.column][:-1]
        before[starts[counts > 0]] = -1
        wrong = alive & ((numbers <= before) | (numbers > _MAX_TAG))
        self.reject_rows(wrong, item.level, path, f"tags must be ascending numbers from 0 to {_MAX_TAG}")
        for declared_tag in plan.declared_tags:
            self.reject_rows(
                alive & (numbers == declared_tag), item.level, path, describe_tag_conflict(declared_tag, plan)
            )
        self.parts[item.children[0].column] = (numbers.astype(np.int32).view(np.uint8), _mask_valid(tag), None)
        self.gather_texts(item.children[1], None, data, alive, _mask_valid(data), path)

    def check_absent(self, field: AbsentField, array: pa.Array, live: Array, level: int, path: str) -> None:
        """Check that a field which the version lacks is ignorable or has its default."""
        if field.ignorable:
            return
        differs = live & ~_mask_defaults(array, field)
        self.reject_rows(differs, level, path, describe_missing_field(field, self.program.plan.version))

    def make_defaults(self, node: TypeNode, count: int) -> pa.Array:
        """Return ``count`` default values for a field without a column in the caller's array."""
        plan = node.plan
        assert plan is not None
        return _repeat_value(_make_default(node), count, node.type)

    def reject_rows(self, wrong: Array, level: int, path: str, reason: str) -> None:
        """Raise an error for the first row in ``wrong``, with its index in each enclosing list."""
        if not wrong.any():
            return
        rows = np.flatnonzero(wrong)
        indices: list[int] = []
        while level:
            column = self.program.levels[level].parent_column
            offsets = self.offsets[column]
            parents = np.searchsorted(offsets, rows, side="right") - 1
            indices.append(int(rows[0] - offsets[parents[0]]))
            rows, level = parents, self.parents[level]
        for index in reversed(indices):
            path = path.replace("[]", f"[{index}]", 1)
        error = EncodeError(f"row {rows[0]}, field {path}: {reason}")
        error.rows = tuple(np.unique(rows).tolist())
        raise error

    def build_arena(self) -> DecodeArena:
        """Return an arena with the gathered buffers."""
        data = np.zeros(len(self.program.columns), np.int64)
        for column, (_, _, part) in self.parts.items():
            data[column] = 0 if part is None else len(part)
        arena = DecodeArena.with_exact_size(self.program, rows=np.array(self.lengths, np.int64), data=data)
        for column, (values, valid, part) in self.parts.items():
            if values is not None:
                arena.copy_values(column, 0, values)
            if valid is not None and arena.shape.nullable[column]:
                arena.copy_values(column, 1, np.packbits(valid, bitorder="little"))
            if part is not None:
                arena.copy_values(column, 2, part)
        return arena

    def max_encoded_bytes(self) -> int:
        """Return an upper bound of the encoded size of all rows, in bytes."""
        total = 0
        for column, entry in enumerate(self.program.columns.tolist()):
            row_bytes = _MAX_WIRE_BYTES_BY_KIND.get(BufferKind(entry[0]), entry[0]) + _MAX_TAG_HEADER_BYTES
            part = self.parts[column][2] if column in self.parts else None
            total += self.lengths[entry[1]] * row_bytes + (0 if part is None else len(part))
        return total + self.lengths[0] * 8 + 64


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _mask_defaults(array: pa.Array, field: AbsentField) -> Array:
    """Return whether each row has the default of a field that the version lacks."""
    if field.default is None:
        return ~_mask_valid(array)
    if field.default is MutableDefault.STRUCT:
        return _mask_default_structs(array, field)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), bool)
    if field.default is MutableDefault.ARRAY:
        same = pc.equal(pc.list_value_length(array), 0)
    else:
        raw: Any = field.default.bytes if isinstance(field.default, UUID) else field.default
        same = pc.equal(array, pa.scalar(raw).cast(array.type))
    equal: Array = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    return equal


def _mask_default_structs(array: pa.Array, field: AbsentField) -> Array:
    """Return whether each struct has only defaults; a null counts as default if the field is never nullable."""
    valid = _mask_valid(array)
    if not pa.types.is_struct(array.type):
        return np.zeros(len(array), bool) if field.nullable else ~valid
    same = valid.copy()
    parts = {f"{part.name[:1].lower()}{part.name[1:]}": part for part in field.parts}
    for index, name in enumerate(field_type.name for field_type in array.type):
        if name in parts:
            same &= _mask_defaults(array.field(index), parts[name])
        else:  # unknown tags, or a field that no version has
            same &= _mask_empty(array.field(index))
    return same if field.nullable else same | ~valid


def _mask_empty(array: pa.Array) -> Array:
    """Return whether each row is null or an empty list."""
    empty = ~_mask_valid(array)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        empty |= pc.fill_null(pc.equal(pc.list_value_length(array), 0), True).to_numpy(zero_copy_only=False)
    return empty


def _mask_valid(array: pa.Array) -> Array:
    if not array.null_count:
        return np.ones(len(array), bool)
    valid: Array = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _cast_column(array: pa.Array, to: pa.DataType, path: str) -> pa.Array:
    """Cast a column to the type of its buffers; structs are matched by field name later."""
    if array.type == to or pa.types.is_struct(to):
        if pa.types.is_struct(to) and not pa.types.is_struct(array.type) and not pa.types.is_null(array.type):
            raise EncodeError(f"field {path} is {array.type}, not a struct")
        return array.cast(to) if pa.types.is_null(array.type) else array
    if _is_list_of_structs(to) and not pa.types.is_null(array.type):
        if pa.types.is_list(array.type):
            return array
        if pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
            return array.cast(pa.list_(array.type.value_type))
        raise EncodeError(f"field {path} is {array.type}, not a list")
    try:
        return array.cast(to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise EncodeError(f"field {path} is {array.type}, not {to}: {error}") from None


def _select_field(structs: pa.Array, node: TypeNode, path: str) -> pa.Array:
    """Return a field of a struct array by name, cast to its type; all null if the structs lack the field."""
    index = structs.type.get_field_index(node.name)
    if index < 0:
        return pa.nulls(len(structs), node.type)
    return _cast_column(structs.field(index), node.type, _join(path, node.name))


def _is_list_of_structs(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) and pa.types.is_struct(type_.value_type))


def _make_default(node: TypeNode) -> Any:
    if node.name == UNKNOWN_TAGS_COLUMN:
        return []
    assert node.plan is not None
    default = node.plan.default
    if default is MutableDefault.ARRAY:
        return []
    if default is MutableDefault.STRUCT:
        return {child.name: _make_default(child) for child in node.children}
    return default.bytes if isinstance(default, UUID) else default


def _repeat_value(value: Any, count: int, type_: pa.DataType) -> pa.Array:
    """Return an array of ``count`` equal values. ``pa.repeat`` is 10 times slower for lists and structs."""
    if not count:
        return pa.array([], type_)
    if isinstance(value, list) and not value:
        offsets = pa.py_buffer(np.zeros(count + 1, np.int32))
        return pa.Array.from_buffers(type_, count, [None, offsets], children=[pa.array([], type_.value_type)])
    if isinstance(value, dict):
        children = [_repeat_value(value[child.name], count, child.type) for child in type_]
        return pa.StructArray.from_arrays(children, fields=list(type_))
    return pa.repeat(pa.scalar(value, type_), count)
