"""The arena: one block of memory that holds every Arrow buffer of a decoded struct array.

The arena computes the buffer layout, grows while the kernels run, and passes the buffers to Arrow without a copy.
Kernels access the block as bytes. ``addresses`` has four values per column: base, validity, data, and the data capacity
in bytes. The layout depends only on the number of rows and data bytes, not on the messages' content.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafkaframes.protocol.messages._program import BufferKind, ColumnProgram, Op, TypeNode
from kafkaframes.wire.integers import MAX_INT32

MAX_ROWS: Final = MAX_INT32 - 1  # Arrow's offsets are int32
_ALIGNMENT_BYTES: Final = 64
_INITIAL_INPUT_BYTES: Final = (
    1 << 18
)  # initial capacities assume this much input and are then scaled by the real input size

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class BufferShape:
    """Properties of the buffers that a program fills, as arrays over its columns; computed once per program."""

    width: Array  # bytes of a row's value, 4 for offsets, 0 for bits and structs
    has_offsets: Array
    is_bit: Array
    nullable: Array
    is_var: Array
    level: Array
    min_sizes: Array  # of levels
    element_ops: Array  # indexes of the operations that need a second column's base address


@lru_cache(maxsize=1024)
def make_buffer_shape(program: ColumnProgram) -> BufferShape:
    """Return the buffer properties of a program."""
    kind = program.columns[:, 0]
    offsets = (kind == BufferKind.VAR) | (kind == BufferKind.LIST)
    width = np.where(kind <= BufferKind.FIXED16, kind, np.where(offsets, 4, 0))
    return BufferShape(
        width=width,
        has_offsets=offsets,
        is_bit=kind == BufferKind.BIT,
        nullable=program.columns[:, 3] == 1,
        is_var=kind == BufferKind.VAR,
        level=program.columns[:, 1],
        min_sizes=np.array([level.min_size for level in program.levels], np.int64),
        element_ops=np.flatnonzero((program.ops[:, 0] == Op.FIXED_ARRAY) & (program.ops[:, 3] >= 0)),
    )


class DecodeArena:
    """The memory for one decoding; ``rows`` (per level) and ``data`` (per column, in bytes) are capacities."""

    def __init__(self, program: ColumnProgram, shape: BufferShape, *, messages: int, size_bytes: int) -> None:
        self.program = program
        self.shape = shape
        self.size_bytes = size_bytes
        first = min(size_bytes, _INITIAL_INPUT_BYTES)
        self.rows = first // np.maximum(shape.min_sizes, 1) + 8
        self.rows[shape.min_sizes == 0] = MAX_ROWS
        self.rows[0] = messages
        defaults = program.columns[:, 6] * self.rows[shape.level]
        self.data = np.where(shape.is_var, first + defaults + 8, 0)
        self._allocate()

    @classmethod
    def with_exact_size(cls, program: ColumnProgram, *, rows: Array, data: Array) -> DecodeArena:
        """Return an arena for known numbers of rows (per level) and bytes of data (per column)."""
        arena = cls.__new__(cls)
        arena.program, arena.shape, arena.size_bytes = program, make_buffer_shape(program), 0
        arena.rows, arena.data = rows, data
        arena._allocate()
        return arena

    def copy_values(self, column: int, part: int, values: Array) -> None:
        """Copy values into a column's buffer: 0 for values or offsets, 1 for the validity bitmap, 2 for data."""
        start = int(self.addresses[column, part])
        raw = values.view(np.uint8)
        self.bytes[start : start + len(raw)] = raw

    def _allocate(self) -> None:
        shape = self.shape
        sizes = self._compute_buffer_sizes(self.rows, self.data)
        aligned_sizes = (sizes.ravel() + _ALIGNMENT_BYTES - 1) & -_ALIGNMENT_BYTES
        ends = np.cumsum(aligned_sizes)
        self.addresses = np.empty((len(sizes), 4), np.int64)
        self.addresses[:, :3] = (ends - aligned_sizes).reshape(-1, 3)
        self.addresses[:, 3] = self.data
        self.buffer = pa.allocate_buffer((int(ends[-1]) if len(ends) else 0) + _ALIGNMENT_BYTES)
        self.bytes = np.frombuffer(self.buffer, np.uint8)
        self.bytes[: len(self.bytes) & -4].view(np.int32)[self.addresses[shape.has_offsets, 0] >> 2] = 0

    def patch_ops(self) -> Array:
        """Return the program's operations with this arena's addresses, flattened for the table-driven kernels."""
        ops = self.program.ops.copy()
        if len(self.addresses):
            ops[:, 5:8] = self.addresses[ops[:, 1], :3]
            ops[self.shape.element_ops, 7] = self.addresses[ops[self.shape.element_ops, 3], 0]
        return ops.ravel()

    def _compute_buffer_sizes(self, rows_by_level: Array, data: Array) -> Array:
        """Return the sizes in bytes of each column's three buffers, for given numbers of rows and data bytes."""
        shape = self.shape
        rows = rows_by_level[shape.level]
        bits = (rows + 7) >> 3
        sizes = np.empty((len(rows), 3), np.int64)
        sizes[:, 0] = np.where(shape.is_bit, bits, (rows + shape.has_offsets) * shape.width)
        sizes[:, 1] = np.where(shape.nullable, bits, 0)
        sizes[:, 2] = data
        return sizes

    def grow_buffers(
        self, messages: int, consumed_bytes: int, *, level: int = 0, rows: int = 0, column: int = 0, data: int = 0
    ) -> None:
        """Grow the level or column that is full, and grow all others in proportion to the remaining input.

        Args:
            messages: number of decoded messages.
            consumed_bytes: number of input bytes of these messages.
            level: level that needs space for ``rows`` rows.
            column: column that needs space for ``data`` bytes.
        """
        lengths = self.level_lengths(messages)
        ends = [
            self.read_offset(index, lengths[self.shape.level[index]]) if self.shape.is_var[index] else 0
            for index in range(len(self.data))
        ]
        self.rows[1:] = self._extrapolate(self.rows[1:], np.array(lengths[1:], np.int64), consumed_bytes)
        self.data = self._extrapolate(self.data, np.array(ends, np.int64), consumed_bytes) * self.shape.is_var
        self.rows[level] = min(max(int(self.rows[level]), 2 * rows), MAX_ROWS)
        self.data[column] = min(max(int(self.data[column]), 2 * data), MAX_ROWS)
        old_bytes, old_addresses = self.bytes, self.addresses
        self._allocate()
        used_sizes = self._compute_buffer_sizes(np.array(lengths, np.int64), np.array(ends, np.int64))
        for column, part in np.argwhere(used_sizes > 0).tolist():
            start, target, size = (
                int(old_addresses[column, part]),
                int(self.addresses[column, part]),
                int(used_sizes[column, part]),
            )
            self.bytes[target : target + size] = old_bytes[start : start + size]

    def _extrapolate(self, current_sizes: Array, used_sizes: Array, consumed_bytes: int) -> Array:
        """Extrapolate the usage after ``consumed_bytes`` of input to all input; sizes never shrink."""
        expected_sizes = used_sizes * (self.size_bytes / max(consumed_bytes, 1)) * 1.05
        return np.clip(expected_sizes.astype(np.int64), current_sizes, np.maximum(current_sizes, MAX_ROWS))

    def level_lengths(self, messages: int) -> list[int]:
        """Return the number of rows in each level after ``messages`` decoded messages."""
        lengths = [messages]
        for level in self.program.levels[1:]:
            parent = int(self.program.columns[level.parent_column, 1])
            lengths.append(self.read_offset(level.parent_column, lengths[parent]))
        return lengths

    def read_offset(self, column: int, row: int) -> int:
        """Return the offset of a row in a list or string column."""
        address = int(self.addresses[column, 0]) + row * 4
        return int(self.bytes[address : address + 4].view(np.int32)[0])

    def to_arrow(self, messages: int, *, errors: pa.Array, valid: Array, texts: dict[int, Any]) -> pa.StructArray:
        """Return the arena's buffers as an Arrow struct array.

        Args:
            messages: number of decoded messages.
            errors: the ``_error`` column.
            valid: whether each message has a value; all columns of the other messages are null.
            texts: functions that convert a raw binary array to text, by column, for columns with invalid UTF-8.
        """
        lengths = self.level_lengths(messages)
        bitmap = None if valid.all() else np.packbits(valid, bitorder="little")
        children = [self._make_array(node, lengths, texts, bitmap) for node in self.program.root.children]
        return pa.StructArray.from_arrays([*children, errors], fields=list(self.program.type))

    def _make_array(
        self, node: TypeNode, lengths: list[int], texts: dict[int, Any], bitmap: Array | None = None
    ) -> pa.Array:
        length = lengths[node.level]
        children = [self._make_array(child, lengths, texts) for child in node.children]
        validity = self._slice_validity_buffer(node, length, bitmap)
        if node.column in texts:
            return texts[node.column](self._binary(node.column, length, validity))
        buffers = [validity]
        if node.column >= 0 and not pa.types.is_struct(node.type):
            buffers += self._slice_values_buffer(node.column, length)
        return pa.Array.from_buffers(node.type, length, buffers, children=children)

    def _slice_validity_buffer(self, node: TypeNode, length: int, bitmap: Array | None) -> pa.Buffer | None:
        size = (length + 7) >> 3
        start = int(self.addresses[node.column, 1]) if node.column >= 0 and self.shape.nullable[node.column] else -1
        if bitmap is not None:
            return pa.py_buffer(bitmap if start < 0 else bitmap & self.bytes[start : start + size])
        return None if start < 0 else self.buffer.slice(start, size)

    def _slice_values_buffer(self, column: int, length: int) -> list[pa.Buffer]:
        start = int(self.addresses[column, 0])
        kind = int(self.program.columns[column, 0])
        if kind == BufferKind.BIT:
            return [self.buffer.slice(start, (length + 7) >> 3)]
        if kind <= BufferKind.FIXED16:
            return [self.buffer.slice(start, length * kind)]
        offsets = self.buffer.slice(start, (length + 1) * 4)
        if kind == BufferKind.LIST:
            return [offsets]
        return [offsets, self.buffer.slice(int(self.addresses[column, 2]), self.read_offset(column, length))]

    def _binary(self, column: int, length: int, validity: pa.Buffer | None) -> pa.Array:
        return pa.Array.from_buffers(pa.binary(), length, [validity, *self._slice_values_buffer(column, length)])
