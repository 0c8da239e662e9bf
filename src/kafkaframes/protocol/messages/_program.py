"""Programs, which contain a message's plan as integer tables for the kernels and as a tree of Arrow types. No numba.

A *level* is one nesting of lists. Level 0 has a row per message, and an array's level has a row per element. A *column*
has its own buffers; it is a fixed-width field, a string, a list's offsets, or a nullable struct's validity. Structs
outside arrays share their parent's level and rows. Columns are in depth-first order. In each struct, the tagged fields
follow the untagged fields, so the columns of any field are contiguous.

The decoding and encoding interpreters read ``Program.ops``, with one row of ``OP_WIDTH`` int64 per operation: ``[op,
column, a, b, c, base, valid, data]``. The last three are byte addresses in the arena. ``_arena.py`` sets these
addresses when it has computed the buffer layout. ``Program.columns`` has ``COLUMN_WIDTH`` int64 per column.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafkaframes.protocol.messages.plan import FieldPlan, MessagePlan, StructPlan

OP_WIDTH: Final = 8  # integers per operation
COLUMN_WIDTH: Final = 8  # integers per column
UNKNOWN_TAGS_COLUMN: Final = "_unknown_tags"
ERROR_COLUMN: Final = "_error"
TAG_TYPE: Final = pa.list_(pa.struct([("tag", pa.int32()), ("data", pa.binary())]))


class Op(IntEnum):
    """Operations of a program; ``_kernels_decode.py`` implements each."""

    END = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    UINT16 = 5
    UINT32 = 6
    BOOL = 7
    UUID = 8
    VAR = 9
    ARRAY = 10
    NEXT = 11
    FIXED_ARRAY = 12
    STRUCT = 13
    FILL = 14
    TAGS = 15
    TAG_STEP = 16
    TAG_BACK = 17
    TAG_FIELD = 18  # precedes the operations of a tagged field; only the encoder and TAG_BACK read it


class BufferKind(IntEnum):
    """Kinds of column buffers; the first five hold values of 1, 2, 4, 8 or 16 bytes."""

    FIXED1 = 1
    FIXED2 = 2
    FIXED4 = 4
    FIXED8 = 8
    FIXED16 = 16
    BIT = 32
    VAR = 33
    LIST = 34
    STRUCT = 35


# Flags of VAR, ARRAY, FIXED_ARRAY and STRUCT (argument ``a``). For arrays, higher bits hold the minimum
# size of an element, in bytes.
COMPACT: Final = 1  # flag: the length is a varint of n + 1
NULLABLE: Final = 2  # flag: null is valid
STRING: Final = 4  # flag: the length is an int16 unless it is compact
# Flag of an 8-byte column: values are compared with the default as floats. The table of columns stores the flag as the
# offset of the column's default, because the default of a number needs no offset.
FLOAT: Final = 1

#: Operation, column kind and Arrow type of each Kafka type. Unsigned types are widened, as in Java (Spark has none).
PRIMITIVES: Final[dict[str, tuple[Op, BufferKind, pa.DataType]]] = {
    "bool": (Op.BOOL, BufferKind.BIT, pa.bool_()),
    "int8": (Op.INT8, BufferKind.FIXED1, pa.int8()),
    "int16": (Op.INT16, BufferKind.FIXED2, pa.int16()),
    "uint16": (Op.UINT16, BufferKind.FIXED4, pa.int32()),
    "int32": (Op.INT32, BufferKind.FIXED4, pa.int32()),
    "uint32": (Op.UINT32, BufferKind.FIXED8, pa.int64()),
    "int64": (Op.INT64, BufferKind.FIXED8, pa.int64()),
    "float64": (Op.INT64, BufferKind.FIXED8, pa.float64()),
    "uuid": (Op.UUID, BufferKind.FIXED16, pa.binary(16)),
    "string": (Op.VAR, BufferKind.VAR, pa.string()),
    "bytes": (Op.VAR, BufferKind.VAR, pa.binary()),
    "records": (Op.VAR, BufferKind.VAR, pa.binary()),
}
#: Element sizes in bytes of the arrays that one tight loop copies (``FIXED_ARRAY``), without an operation per element.
_BULK_COPY_WIDTHS: Final = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16}


@dataclass(slots=True)
class TypeNode:
    """A node of the Arrow type tree; ``column`` is -1 for a struct that cannot be null."""

    name: str
    type: pa.DataType
    column: int
    level: int
    children: list[TypeNode] = field(default_factory=list)
    plan: FieldPlan | None = None


@dataclass(slots=True)
class ListLevel:
    """One nesting level of lists: the offsets column that counts its rows, and the minimum encoded row size."""

    parent_column: int
    min_size: int
    columns: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ColumnProgram:
    """A message plan, compiled to the integer tables for the column kernels that the module's docstring describes."""

    plan: MessagePlan
    ops: np.ndarray[Any, Any]
    columns: np.ndarray[Any, Any]
    tags: np.ndarray[Any, Any]
    consts: np.ndarray[Any, Any]
    levels: list[ListLevel]
    root: TypeNode
    type: pa.StructType
    depth: int
    decoded_bytes: int = 0  # total number of decoded bytes in this process


class _ProgramCompiler:
    """A compiler of one message plan to a ``ColumnProgram``."""

    def __init__(self, plan: MessagePlan) -> None:
        self.plan = plan
        self.ops: list[list[int]] = []
        self.columns: list[list[int]] = []
        self.tags: list[int] = []
        self.consts = bytearray()
        self.levels = [ListLevel(-1, plan.root.min_size)]
        self.depth = self.deepest = 0

    def emit(self, op: Op, column: int = -1, a: int = 0, b: int = 0, c: int = 0) -> int:
        self.ops.append([op, column, a, b, c, 0, 0, 0])
        return len(self.ops) - 1

    def add_column(
        self, kind: BufferKind, level: int, *, nullable: bool = False, child: int = -1, default: Any = None
    ) -> int:
        bits, offset, size = self.store_default(default, kind)
        self.levels[level].columns.append(len(self.columns))
        self.columns.append([kind, level, child, nullable, bits, offset, size, default is None])
        return len(self.columns) - 1

    def store_default(self, value: Any, kind: BufferKind) -> tuple[int, int, int]:
        """Return a default as (bits, offset in ``consts``, size)."""
        raw = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""
        if kind == BufferKind.FIXED16 and value is not None:
            raw = value.bytes
        if raw:
            self.consts += raw
            return 0, len(self.consts) - len(raw), len(raw)
        if isinstance(value, float):
            return struct.unpack("<q", struct.pack("<d", value))[0], FLOAT, 0
        return (int(value) if isinstance(value, bool | int) else 0), 0, 0

    def compile_struct(self, plan: StructPlan, level: int) -> list[TypeNode]:
        """Emit a struct's fields and tag section; return the nodes in declared order, unknown tags last."""
        nodes = [self.compile_field(field, level) for field in plan.fields]
        if plan.flexible:
            nodes += self.compile_tag_section(plan, level)
        return nodes

    def compile_tag_section(self, plan: StructPlan, level: int) -> list[TypeNode]:
        """Emit ``FILL TAGS TAG_STEP {a field, TAG_BACK} ...``: defaults first, then the tags that are present."""
        fill = self.emit(Op.FILL) if plan.tagged_fields else -1
        unknown = self.add_unknown_tags(level)
        first = len(self.columns)
        size = (
            max([*(field.tag for field in plan.tagged_fields if field.tag is not None), *plan.refused_tags], default=-1)
            + 1
        )
        table = len(self.tags)
        self.tags += [-1] * size  # -1: invalid at this version
        operands = {"column": unknown.column, "a": table, "b": size}
        start = self.emit(Op.TAGS, **operands)
        step = self.emit(Op.TAG_STEP, **operands, c=self.columns[unknown.column][2])
        nodes = []
        self.enter_level()
        for member in plan.tagged_fields:
            mark = self.emit(Op.TAG_FIELD, len(self.columns))
            self.tags[table + (member.tag or 0)] = len(self.ops)
            nodes.append(self.compile_field(member, level))
            self.ops[mark][2] = len(self.columns)
            self.emit(Op.TAG_BACK, self.ops[mark][1], step, len(self.columns))
        self.depth -= 1
        self.ops[start][4] = len(self.ops)
        if fill >= 0:
            self.ops[fill][1:3] = [first, len(self.columns)]
        return [*nodes, unknown]

    def add_unknown_tags(self, level: int) -> TypeNode:
        child = self.add_level(-1, 2)
        column = self.add_column(BufferKind.LIST, level, child=child)
        self.levels[child].parent_column = column
        tag = TypeNode("tag", pa.int32(), self.add_column(BufferKind.FIXED4, child), child)
        data = TypeNode("data", pa.binary(), self.add_column(BufferKind.VAR, child), child)
        item = TypeNode("item", TAG_TYPE.value_type, -1, child, [tag, data])
        return TypeNode(UNKNOWN_TAGS_COLUMN, TAG_TYPE, column, level, [item])

    def add_level(self, parent_column: int, min_size: int) -> int:
        self.levels.append(ListLevel(parent_column, min_size))
        return len(self.levels) - 1

    def enter_level(self) -> None:
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)

    def compile_field(self, plan: FieldPlan, level: int) -> TypeNode:
        """Emit one field of any kind."""
        if plan.array:
            return self.compile_array(plan, level)
        if plan.type == "struct":
            return self.compile_single_struct(plan, level)
        return self.compile_primitive(plan, level, plan.json_name, nullable=plan.nullable, default=plan.default)

    def compile_primitive(self, plan: FieldPlan, level: int, name: str, *, nullable: bool, default: Any) -> TypeNode:
        op, kind, type_ = PRIMITIVES[plan.type]
        flags = COMPACT * plan.compact | NULLABLE * nullable | STRING * (plan.type == "string")
        column = self.add_column(kind, level, nullable=nullable, default=default)
        self.emit(op, column, flags if op == Op.VAR else 0)
        return TypeNode(name, type_, column, level, plan=plan)

    def compile_single_struct(self, plan: FieldPlan, level: int) -> TypeNode:
        assert plan.struct is not None
        column, start = -1, -1
        if plan.nullable:
            default = None if plan.default is None else b""
            column = self.add_column(BufferKind.STRUCT, level, nullable=True, default=default)
            start = self.emit(Op.STRUCT, column, COMPACT * (plan.tag is not None))
        children = self.compile_struct(plan.struct, level)
        if start >= 0:
            self.ops[start][3:5] = [len(self.ops), len(self.columns)]
            self.columns[column][2] = len(self.columns)
        return TypeNode(plan.json_name, _struct_type(children), column, level, children, plan)

    def compile_array(self, plan: FieldPlan, level: int) -> TypeNode:
        flags = COMPACT * plan.compact | NULLABLE * plan.nullable
        child = self.add_level(-1, _compute_element_size(plan))
        default = None if plan.default is None else b""
        column = self.add_column(BufferKind.LIST, level, nullable=plan.nullable, child=child, default=default)
        self.levels[child].parent_column = column
        if plan.type in _BULK_COPY_WIDTHS:
            _, kind, type_ = PRIMITIVES[plan.type]
            values = self.add_column(kind, child)
            self.emit(Op.FIXED_ARRAY, column, flags | _BULK_COPY_WIDTHS[plan.type] << 8, values, child)
            item = TypeNode("item", type_, values, child, plan=plan)
        elif self.levels[child].min_size == 0:
            # Elements of zero bytes are not read in a loop, because the remaining bytes do not limit their count.
            self.emit(Op.FIXED_ARRAY, column, flags, -1, child)
            item = TypeNode("item", pa.struct([]), -1, child, plan=plan)
        else:
            start = self.emit(Op.ARRAY, column, flags | self.levels[child].min_size << 8, 0, child)
            self.enter_level()
            item = self.compile_element(plan, child)
            self.depth -= 1
            self.emit(Op.NEXT, a=start + 1)
            self.ops[start][3] = len(self.ops)
        return TypeNode(plan.json_name, pa.list_(item.type), column, level, [item], plan)

    def compile_element(self, plan: FieldPlan, level: int) -> TypeNode:
        if plan.struct is None:
            return self.compile_primitive(plan, level, "item", nullable=False, default=None)
        children = self.compile_struct(plan.struct, level)
        return TypeNode("item", _struct_type(children), -1, level, children, plan)


def _struct_type(children: list[TypeNode]) -> pa.StructType:
    return pa.struct([(child.name, child.type) for child in children])


def _compute_element_size(plan: FieldPlan) -> int:
    if plan.struct is not None:
        return plan.struct.min_size
    kind = PRIMITIVES[plan.type][1]
    if kind == BufferKind.VAR:
        return 1 if plan.compact else 2 if plan.type == "string" else 4
    return {"bool": 1, "uint16": 2, "uint32": 4}.get(plan.type, int(kind))


@lru_cache(maxsize=1024)
def compile_program(plan: MessagePlan) -> ColumnProgram:
    """Compile a plan. Later calls return the same object.

    >>> compile_program(plan).type            # doctest: +SKIP
    struct<throttleTimeMs: int32, ..., _unknown_tags: list<item: struct<tag: int32, data: binary>>, _error: string>
    """
    compiler = _ProgramCompiler(plan)
    children = compiler.compile_struct(plan.root, 0)
    compiler.emit(Op.END)
    root = TypeNode(plan.name, _struct_type(children), -1, 0, children)
    return ColumnProgram(
        plan=plan,
        ops=np.array(compiler.ops, np.int64),
        columns=np.array(compiler.columns, np.int64).reshape(-1, COLUMN_WIDTH),
        tags=np.array(compiler.tags or [-1], np.int64),
        consts=np.frombuffer(bytes(compiler.consts) or b"\0", np.uint8),
        levels=compiler.levels,
        root=root,
        type=pa.struct([*root.type, pa.field(ERROR_COLUMN, pa.string())]),
        depth=compiler.deepest,
    )
