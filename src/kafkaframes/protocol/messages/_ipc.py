"""Hand a whole tree of Arrow arrays over in one call, as an IPC message that lies in front of its own body.

Building some sixty arrays one by one from Python takes longer than decoding a message. Arrow's IPC reader makes them
all from one flatbuffer of numbers (length, nulls, place and size of each buffer) and copies nothing. That flatbuffer
has the same layout for every array of a type; so it is made once, by Arrow itself, and only its numbers are replaced.
Format: https://arrow.apache.org/docs/format/Columnar.html#recordbatch-message.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafkaframes.protocol.messages._program import Kind, Node, Program

_ALIGN: Final = 64
_PREFIX: Final = 8  # the continuation mark and the size of the metadata
_UNKNOWN_NULLS: Final = -1
# Places of fields in their flatbuffer tables (Message.fbs).
_HEADER, _BODY_LENGTH, _LENGTH, _NODES, _BUFFERS = 2, 3, 0, 1, 2

Array = np.ndarray[Any, Any]


class Template:
    """The metadata of a program's record batches, and where its numbers stand.

    ``levels``: of each array, depth first. ``slots``: column and part (0 values or offsets, 1 validity, 2
    data) of each buffer; column -1 where there is none.
    """

    def __init__(self, program: Program) -> None:
        self.schema = pa.schema(list(program.root.type))
        row = [pa.nulls(1, field.type) for field in self.schema]  # one row: an empty batch leaves numbers out
        raw = pa.RecordBatch.from_arrays(row, schema=self.schema).serialize().to_pybytes()
        (size,) = struct.unpack_from("<i", raw, 4)
        padded = -(-(_PREFIX + size) // _ALIGN) * _ALIGN
        self.size = padded
        metadata = bytearray(raw[: _PREFIX + size].ljust(padded, b"\0"))
        struct.pack_into("<i", metadata, 4, padded - _PREFIX)
        self.metadata = bytes(metadata)
        message = self._follow(_PREFIX)
        batch = self._follow(self._field(message, _HEADER))
        self.body_length = self._field(message, _BODY_LENGTH)
        self.length = self._field(batch, _LENGTH)
        self.nodes_at = self._follow(self._field(batch, _NODES)) + 4
        self.buffers_at = self._follow(self._field(batch, _BUFFERS)) + 4
        levels: list[int] = []
        slots: list[tuple[int, int]] = []
        for child in program.root.children:
            _walk(program, child, levels, slots)
        self.levels = np.array(levels, np.int64)
        nullable = np.array([column >= 0 for column, part in slots if part == 1])
        self.nodes = np.zeros((len(levels), 2), np.int64)
        self.nodes[:, 1] = np.where(nullable, _UNKNOWN_NULLS, 0)
        self.there = np.array([column >= 0 for column, _ in slots])
        self.columns, self.parts = (np.array(one, np.int64)[self.there] for one in zip(*slots, strict=True))
        self.places = np.zeros((len(slots), 2), np.int64)
        self.fields = list(program.type)

    def _follow(self, at: int) -> int:
        return at + int(struct.unpack_from("<i", self.metadata, at)[0])

    def _field(self, table: int, number: int) -> int:
        vtable = table - int(struct.unpack_from("<i", self.metadata, table)[0])
        return table + int(struct.unpack_from("<H", self.metadata, vtable + 4 + 2 * number)[0])

    def read(self, buffer: pa.Buffer, memory: Array, rows: Array, starts: Array, sizes: Array) -> pa.RecordBatch:
        """Return the record batch whose buffers lie in ``buffer``, after the first ``size`` bytes, which this fills.

        Args:
            buffer: the arena; ``memory``: its bytes.
            rows: per level.
            starts: per column and part, where a buffer starts in the arena; ``sizes``: its bytes.
        """
        body = len(memory) - self.size
        metadata = bytearray(self.metadata)  # a copy: threads share the template
        struct.pack_into("<q", metadata, self.body_length, body)
        struct.pack_into("<q", metadata, self.length, int(rows[0]))
        memory[: self.size] = np.frombuffer(metadata, np.uint8)
        nodes, places = self.nodes.copy(), self.places.copy()
        nodes[:, 0] = rows[self.levels]
        places[self.there, 0] = starts[self.columns, self.parts] - self.size
        places[self.there, 1] = sizes[self.columns, self.parts]
        for at, values in ((self.nodes_at, nodes), (self.buffers_at, places)):
            raw = values.ravel().view(np.uint8)
            memory[at : at + len(raw)] = raw
        return pa.ipc.read_record_batch(pa.ipc.read_message(buffer), self.schema)


def _walk(program: Program, node: Node, levels: list[int], slots: list[tuple[int, int]]) -> None:
    """List the arrays and buffers of a node and of all below it, in the order of the format."""
    column = node.column
    nullable = column >= 0 and bool(program.columns[column, 3])
    kind = Kind.STRUCT if column < 0 or pa.types.is_struct(node.type) else Kind(int(program.columns[column, 0]))
    levels.append(node.level)
    slots.append((column if nullable else -1, 1))
    if kind != Kind.STRUCT:
        slots.append((column, 0))
    if kind == Kind.VAR:
        slots.append((column, 2))
    for child in node.children:
        _walk(program, child, levels, slots)


@lru_cache(maxsize=1024)
def template_of(program: Program) -> Template | None:
    """Return the template of a program, made once; ``None`` for a message without fields."""
    return Template(program) if program.root.children else None
