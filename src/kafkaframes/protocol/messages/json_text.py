"""Write the JSON form of many messages from their columns, with operations for the kernel in ``_kernels_json.py``.

The text equals ``json.dumps`` of :meth:`Message.to_json` (``json_form.py`` is the plain twin), but no object per
message is created. The result is null for messages that the kernel does not support: messages that could not be
decoded, messages with undeclared tags, and all messages of a type with floats.
"""

from __future__ import annotations

import operator
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages import _kernels_json as kernels
from kafkaframes.protocol.messages._program import UNKNOWN_TAGS_COLUMN
from kafkaframes.protocol.messages.codec import Codec
from kafkaframes.protocol.messages.json_form import RECORDS_FORMS
from kafkaframes.protocol.messages.plan import FieldPlan, MutableDefault, StructPlan
from kafkaframes.wire.integers import MAX_INT32

Ints = npt.NDArray[np.int64]
_NUMBER_WIDTHS: Final = {"int8": 1, "int16": 2, "uint16": 4, "int32": 4, "uint32": 8, "int64": 8}
_INITIAL_MESSAGE_BYTES: Final = 256  # initial buffer size per message, in bytes


@cache
def can_write_text(plan: StructPlan) -> bool:
    """Return whether the kernel can write the struct; structs with floats are written in Python."""
    return all(
        field.type != "float64" and (field.struct is None or can_write_text(field.struct))
        for field in (*plan.fields, *plan.tagged_fields)
    )


def to_json_text(array: pa.StructArray, codec: Codec, *, left_out: Any = None, records: str = "empty") -> pa.Array:
    """Return the JSON texts of messages that were decoded to columns.

    Args:
        array: result of ``decode_columns``, or a struct column of it; not sliced.
        left_out: for each message, whether to skip it (because it has an ``_error``).
        records: form of fields of type records: ``empty`` or ``size`` (:meth:`Message.to_json`).

    Returns:
        A string array. The text is null for skipped messages and for messages that need :meth:`Message.to_json`.
    """
    if records not in RECORDS_FORMS or records == "base64":
        raise OptionError(f"records is {records!r}; expected 'empty' or 'size'")
    marks = np.zeros(len(array), np.uint8) if left_out is None else np.asarray(left_out).astype(np.uint8)
    if not can_write_text(codec.plan.root) or array.offset:
        return pa.nulls(len(array), pa.string())
    program = _JsonProgram(codec, records)
    program.add_struct(codec.plan.root, array, b"")
    program.emit(kernels.END)
    return _write_texts(program, marks, array.nbytes)


def _write_texts(program: _JsonProgram, left_out: npt.NDArray[np.uint8], size_bytes: int) -> pa.Array:
    count = len(left_out)
    ends = np.zeros(count + 1, np.int64)
    out = np.empty(size_bytes + count * _INITIAL_MESSAGE_BYTES + 1024, np.uint8)
    stack = np.zeros(kernels.STACK_FRAME * (program.deepest + 1), np.int64)
    tables = (program.table(program.ops, kernels.OP_WIDTH), program.table(program.checks, kernels.CHECK_WIDTH))
    names = np.frombuffer(bytes(program.names), np.uint8)
    message = position = 0
    while True:
        status, message, position = kernels.write_json(
            *tables, names, left_out, message, count, position, out, ends, stack
        )
        if status == kernels.DONE:
            break
        out = np.concatenate([out, np.empty(max(len(out), 1 << 16), np.uint8)])
    if position > MAX_INT32:
        return pa.nulls(count, pa.string())
    valid = np.packbits(left_out == 0, bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(out[:position])]
    return pa.Array.from_buffers(pa.string(), count, buffers)


class _JsonProgram:
    """The kernel's operations for one array, and its buffers, which ``buffer_owners`` keeps alive."""

    def __init__(self, codec: Codec, records: str) -> None:
        self.codec = codec
        self.records = records
        self.ops: list[list[int]] = []
        self.checks: list[list[int]] = []
        self.names = bytearray(b'""')
        self.buffer_owners: list[Any] = []
        self.depth = self.deepest = 0

    @staticmethod
    def table(rows: list[list[int]], width: int) -> Ints:
        return np.array(rows or [[0] * width], np.int64).ravel()

    def emit(self, op: int, name: bytes = b"", **columns: int) -> list[int]:
        """Add an operation; ``columns`` are named as in ``_kernels_json.py``."""
        row = [op, len(self.names), len(name), *(columns.get(column, 0) for column in _OPERATION_COLUMNS)]
        self.names += name
        self.ops.append(row)
        return row

    def next_index(self) -> int:
        """Return the index of the next operation."""
        return len(self.ops) * kernels.OP_WIDTH

    def buffer_address(self, array: pa.Array, buffer: int) -> int:
        """Return the address of an array's buffer, 0 if it does not exist; buffer 0 is the validity bitmap."""
        memory = array.buffers()[buffer]
        self.buffer_owners.append(array)
        return 0 if memory is None else int(memory.address)

    def add_struct(self, plan: StructPlan, array: pa.StructArray, name: bytes) -> None:
        """Write a struct's fields in declared order, tagged and untagged fields mixed."""
        start = self.emit(kernels.OPEN, name, valid=self.buffer_address(array, 0))
        plain_fields = {field.name: field for field in plan.fields}
        tagged_fields = {field.name: field for field in plan.tagged_fields}
        for info in self.codec.classes[plan.name]._fields:
            field = plain_fields.get(info.spec.name) or tagged_fields.get(info.spec.name)
            if field is not None:
                self.add_field(field, array.field(field.json_name))
        if plan.flexible:
            self.emit(kernels.UNKNOWN, values=self.buffer_address(array.field(UNKNOWN_TAGS_COLUMN), 1))
        self.emit(kernels.CLOSE)
        start[kernels.O_TARGET] = self.next_index()  # operation to continue at after a null

    def add_field(self, field: FieldPlan, array: pa.Array) -> None:
        """Write a field with its name; a tagged field only if it differs from its default."""
        check: list[int] | None = None
        if field.tag is not None:
            first = len(self.checks)
            self.add_check(field, array)
            check = self.emit(kernels.UNLESS_DEFAULT, width=first, last=len(self.checks))
        suffix = "SizeInBytes" if field.type == "records" and self.records == "size" else ""
        self.add_value(field, array, b'"%s":' % (field.json_name + suffix).encode(), array_of=field.array)
        if check is not None:
            check[kernels.O_TARGET] = self.next_index()

    def add_value(self, field: FieldPlan, array: pa.Array, name: bytes, *, array_of: bool) -> None:
        """Write one value, or an array of them."""
        if array_of:
            self.add_elements(field, array, name)
        elif field.struct is not None:
            self.add_struct(field.struct, array, name)
        else:
            self.add_primitive(field, array, name)

    def add_elements(self, field: FieldPlan, array: pa.ListArray, name: bytes) -> None:
        """Write an array."""
        start = self.emit(kernels.LIST, name, valid=self.buffer_address(array, 0), values=self.buffer_address(array, 1))
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        self.add_value(field, array.values, b"", array_of=False)
        self.depth -= 1
        self.emit(kernels.NEXT)
        start[kernels.O_TARGET] = self.next_index()

    def add_primitive(self, field: FieldPlan, array: pa.Array, name: bytes) -> None:
        """Write a value of a primitive type."""
        op = kernels.INT if field.type in _NUMBER_WIDTHS else _OPERATION_BY_TYPE[field.type]
        if field.type == "records":
            op = kernels.SIZE if self.records == "size" else kernels.EMPTY
        buffers = array.buffers()
        row = self.emit(
            op,
            name,
            valid=self.buffer_address(array, 0),
            values=self.buffer_address(array, 1),
            data=self.buffer_address(array, 2) if len(buffers) > 2 else 0,
            width=_NUMBER_WIDTHS.get(field.type, 0),
        )
        row[kernels.O_TARGET] = self.next_index()

    def add_check(self, field: FieldPlan, array: pa.Array) -> None:
        """Add the conditions under which a field, or each field of a struct, has its default."""
        valid = self.buffer_address(array, 0)
        if field.default is None:
            self.checks.append([kernels.IS_NULL, valid, 0, 0, 0, 0])
        elif field.struct is not None and not field.array:
            for part in (*field.struct.fields, *field.struct.tagged_fields):
                self.add_check(part, array.field(part.json_name))
            if field.struct.flexible:
                unknown = array.field(UNKNOWN_TAGS_COLUMN)
                self.checks.append([kernels.IS_EMPTY, 0, self.buffer_address(unknown, 1), 0, 0, 0])
            self.checks.append([kernels.IS_PRESENT, valid, 0, 0, 0, 0])
        else:
            self.checks.append(self.make_plain_check(field, array, valid))

    def make_plain_check(self, field: FieldPlan, array: pa.Array, valid: int) -> list[int]:
        """Return the default check for a field that is not a single struct."""
        values, default = self.buffer_address(array, 1), field.default
        if field.array or default is MutableDefault.ARRAY or field.type in ("bytes", "records"):
            return [kernels.IS_EMPTY, valid, values, 0, 0, 0]
        if isinstance(default, str):
            text = np.frombuffer(default.encode() or b"\0", np.uint8)
            self.buffer_owners.append(text)
            size = len(default.encode())
            return [kernels.IS_TEXT, valid, values, size, text.ctypes.data, self.buffer_address(array, 2)]
        if field.type == "bool":
            return [kernels.IS_BIT, valid, values, 0, int(bool(default)), 0]
        if field.type == "uuid":
            return [kernels.IS_UUID, valid, values, 0, 0, 0]
        return [kernels.IS_NUMBER, valid, values, _NUMBER_WIDTHS[field.type], operator.index(default), 0]  # type: ignore[arg-type]


_OPERATION_COLUMNS: Final = ("valid", "values", "data", "width", "target", "last")
_OPERATION_BY_TYPE: Final = {
    "bool": kernels.BOOL,
    "uuid": kernels.UUID,
    "string": kernels.TEXT,
    "bytes": kernels.BYTES_OP,
    "records": kernels.EMPTY,
}
