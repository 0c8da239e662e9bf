"""The fast path from batches to columns: CRC, decompressing, index and copying in one kernel, a batch at a time.

It gives what ``decode.index_records`` and ``makers.binary_array`` give, where every record is selected; ``columns.py``
chooses. All buffers of a chunk's columns lie in one block of memory, each as large as the chunk's bytes could need:
what is not used of it is never touched, and the block serves the next chunk once nobody holds a column of this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.records import _kernels_columns as kernels
from kafkaframes.records import decode, native
from kafkaframes.records._kernels_gather import SLACK_BYTES
from kafkaframes.records._kernels_index import SKIPPED, WHOLE_DATA
from kafkaframes.records.decoded import Allocate, Problem
from kafkaframes.records.layout import CODEC_MASK, COLUMN
from kafkaframes.records.scan import Batches, Bytes, Chunk, Ints

# The columns that are made here.
FUSED_COLUMNS = frozenset({"offset", "timestamp", "timestamp_type", "key", "value", "headers"})
# Records are read in pieces of about this size unless told otherwise: with the columns made of them they stay in the
# cache.
TARGET_BYTES = 1 << 20
# Larger batches go the long way, which makes no buffers for the worst case.
MOST_BYTES = 16 << 20
_MOST_OPENED_BYTES = 64 << 20
_FEWEST_OPENED_BYTES = 1 << 20
_BYTES_OF_A_ROW = 16  # where records are smaller, a piece ends before its goal
_FEWEST_BYTES = 256 << 10
_USUAL_RATIO = 4  # of compressed batches, at first
_ALIGNMENT = 64
_NO_GOAL = 1 << 62
_NOTHING: Bytes = np.empty(0, np.uint8)
_POSITION, _SIZE, _ATTRIBUTES = COLUMN["position"], COLUMN["size"], COLUMN["attributes"]

_SELECTED = {
    "timestamp_type": kernels.WANT_TYPES,
    "key": kernels.WANT_KEY,
    "value": kernels.WANT_VALUE,
    "headers": kernels.WANT_HEADERS,
}


class Area(NamedTuple):
    """A buffer that the kernel fills.

    Attributes:
        slot: of its address in the kernel's plan.
        of_rows: its bytes for each row.
        of_bytes: its bytes for each byte of the records that are read.
    """

    slot: int
    selected: int
    of_rows: float
    of_bytes: float


# The values first: most bytes are theirs, and there they take the same memory, however large a piece is.
_AREAS = (
    Area(kernels.AT_VALUES, kernels.WANT_VALUE, 0, 1),
    Area(kernels.AT_OFFSETS, 0, 8, 0),
    Area(kernels.AT_STAMPS, 0, 8, 0),
    Area(kernels.AT_TYPES, kernels.WANT_TYPES, 4, 0),
    Area(kernels.AT_KEY_OFFSETS, kernels.WANT_KEY, 4, 0),
    Area(kernels.AT_KEY_VALID, kernels.WANT_KEY, 1 / 8, 0),
    Area(kernels.AT_KEYS, kernels.WANT_KEY, 0, 1),
    Area(kernels.AT_VALUE_OFFSETS, kernels.WANT_VALUE, 4, 0),
    Area(kernels.AT_VALUE_VALID, kernels.WANT_VALUE, 1 / 8, 0),
    Area(kernels.AT_LISTS, kernels.WANT_HEADERS, 4, 0),
    Area(kernels.AT_NAME_OFFSETS, kernels.WANT_HEADERS, 0, 4 / 2),  # a header takes two bytes at least
    Area(kernels.AT_NAMES, kernels.WANT_HEADERS, 0, 1),
    Area(kernels.AT_CONTENT_OFFSETS, kernels.WANT_HEADERS, 0, 4 / 2),
    Area(kernels.AT_CONTENT_VALID, kernels.WANT_HEADERS, 0, 1 / 16),
    Area(kernels.AT_CONTENTS, kernels.WANT_HEADERS, 0, 1),
)


class State(NamedTuple):
    """A chunk's batches while they are read.

    Attributes:
        table: their headers, as the kernel takes them.
        kinds: what the data of each batch is, or that it is skipped.
        outcomes: what the kernel says of each batch; its rows are the ``OUTCOME_*`` of the kernel's file.
        end: the byte behind the last batch.
    """

    chunk: Chunk
    table: Ints
    kinds: npt.NDArray[np.int8]
    outcomes: Ints
    problems: dict[int, Problem]
    end: int


class Made(NamedTuple):
    """The columns that were made of the records of some batches of a chunk.

    Attributes:
        first, last: the batches, by their numbers in the chunk; the last is exclusive.
        damaged: whether there is anything to report.
    """

    state: State
    first: int
    last: int
    records: int
    damaged: bool
    columns: dict[str, pa.Array]

    @property
    def chunk(self) -> Chunk:
        """The chunk's batches."""
        chunk = self.state.chunk
        return chunk._replace(batches=Batches(self.state.table[:, self.first : self.last], chunk.batches.end))

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        """What the data of each batch was."""
        return self.state.kinds[self.first : self.last]

    @property
    def problems(self) -> dict[int, Problem]:
        """What was wrong with batches, by their numbers in the chunk."""
        return {
            row - self.first: opened for row, opened in self.state.problems.items() if self.first <= row < self.last
        }

    @property
    def offsets(self) -> Ints:
        """The records' offsets."""
        return self._numbers("offset")

    @property
    def timestamps(self) -> Ints:
        """The records' timestamps, in ms."""
        return self._numbers("timestamp")

    def _numbers(self, name: str) -> Ints:
        return np.frombuffer(self.columns[name].buffers()[1] if self.records else b"", np.int64)

    def outcome(self, what: int) -> Ints:
        """Return one of the ``OUTCOME_*`` numbers for each batch."""
        row: Ints = self.state.outcomes[what, self.first : self.last]
        return row


class Layout:
    """Where in a block of memory each buffer stands, given a number of rows and of bytes of records."""

    def __init__(self, selected: int, rows: int, size: int) -> None:
        self.rows, self.bytes = rows, size
        self.plan: Ints = np.zeros(kernels.WORDS, np.int64)
        self.plan[kernels.SELECTED], self.plan[kernels.ROW_CAPACITY], self.plan[kernels.BYTE_CAPACITY] = (
            selected,
            rows,
            size,
        )
        self.plan[kernels.CHUNK_ROW] = self.plan[kernels.OPENED_ROW] = -1
        self.total = 0
        for area in _AREAS:
            if area.selected & selected == area.selected:
                self.plan[area.slot] = self.total
                needed = int(area.of_rows * rows + area.of_bytes * size) + SLACK_BYTES
                self.total += -(-needed // _ALIGNMENT) * _ALIGNMENT
        self.positions: list[int] = self.plan.tolist()


_NO_LAYOUT = Layout(0, 0, 0)


class ColumnMaker:
    """Reads chunk after chunk of one source into columns; keeps the memory that it needs on the way."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        verify_crc: bool,
        limit_bytes: int,
        target_bytes: int,
        allocate: Allocate,
        types: dict[str, pa.DataType],
        text: Callable[[pa.Array], pa.Array],
    ) -> None:
        self._names = frozenset(names)
        self._selected = sum(bit for name, bit in _SELECTED.items() if name in names) + (
            verify_crc and kernels.WANT_CRC
        )
        self._limit = limit_bytes
        self._target = max(min(target_bytes, MOST_BYTES // 2), 1)
        self._allocate = allocate
        self._types = types
        self._text = text
        self._ratio = 1.0
        self._opened = _NOTHING
        self._layout = _NO_LAYOUT

    def _lay_out(self, rows: int, size: int) -> None:
        """Make the columns large enough for a number of rows and of bytes of records."""
        self._layout = Layout(self._selected, max(size // _BYTES_OF_A_ROW, rows + 1), size)
        self._scratch = self._allocate(self._layout.rows * kernels.INDEX_BYTES, np.uint8)

    def read(self, chunk: Chunk, skip: npt.NDArray[np.bool_] | None) -> Iterator[Made | Chunk]:
        """Read all batches of a chunk but those in ``skip``; a batch that is too large is given back."""
        table = np.ascontiguousarray(chunk.batches.table)
        count = table.shape[1]
        kinds: npt.NDArray[np.int8] = np.full(count, WHOLE_DATA, np.int8)
        if skip is not None:
            kinds[skip] = SKIPPED
        if not self._layout.bytes:  # of a short source, memory for whole pieces would be most of the cost
            is_compressed = (table[_ATTRIBUTES] & CODEC_MASK).any()
            likely = chunk.data.size * (_USUAL_RATIO if is_compressed else 1)
            self._lay_out(0, min(2 * self._target, max(likely, _FEWEST_BYTES)))
        end = int(table[_POSITION, -1] + table[_SIZE, -1])
        state = State(chunk, table, kinds, np.empty((4, count), np.int64), {}, end)
        first = 0
        with native.borrowed() as calls:
            while first < count:
                made, last, is_large = self._part(state, first, calls)
                if made is not None:
                    yield made
                if is_large:
                    yield chunk._replace(batches=Batches(table[:, last : last + 1], chunk.batches.end))
                first = last + is_large

    def _part(self, state: State, first: int, calls: Ints) -> tuple[Made | None, int, bool]:
        """Read batches from ``first`` on; return the chunk, the batch after its last, and whether that is too large."""
        plan, part = self._layout.plan.copy(), _NOTHING
        left = (state.end - int(state.table[_POSITION, first])) * self._ratio
        parts = round(left / self._target)  # of equal size
        plan[kernels.GOAL] = int(left / parts) if parts > 1 else _NO_GOAL
        plan[kernels.BATCH], plan[kernels.LAST], plan[kernels.LIMIT] = first, len(state.kinds), self._limit
        block, is_large = self._allocate(self._layout.total, np.uint8), False
        while True:
            why = kernels.read_columns(
                *(plan, state.chunk.data, part, state.table, state.kinds, state.outcomes),
                *(block, self._scratch, self._opened, calls),
            )
            if why == kernels.DONE or (why == kernels.FULL and plan[kernels.ROW]):
                break
            if why == native.UNUSUAL:
                part = self._careful(state, plan)
                is_large = part.size > MOST_BYTES
                if is_large:
                    break
            elif plan[kernels.NEEDED_BYTES] > _MOST[why]:
                is_large = True
                break
            elif why == native.TOO_SMALL:
                self._opened = self._allocate(max(2 * int(plan[kernels.NEEDED_BYTES]), _FEWEST_OPENED_BYTES), np.uint8)
            else:
                block = self._with_more_memory(plan)
        numbers = plan.tolist()
        last, count = numbers[kernels.BATCH], numbers[kernels.ROW]
        if last == first:
            return None, last, is_large
        stored = (state.end if last == len(state.kinds) else int(state.table[_POSITION, last])) - int(
            state.table[_POSITION, first]
        )
        self._ratio = max(numbers[kernels.SPANS] / stored, 0.01)
        columns = self._columns(_Cut(pa.py_buffer(block), self._layout.positions), count, numbers) if count else {}
        if why == kernels.FULL and self._layout.bytes < 2 * self._target:
            self._lay_out(0, 2 * self._target)
        damaged = bool(numbers[kernels.BAD] or state.problems)
        return Made(state, first, last, count, damaged, columns), last, is_large

    def _careful(self, state: State, plan: Ints) -> Bytes:
        """Open the unusual batch at which the kernel stopped as Kafka does; return its records.

        Not more than a byte too many for the short way: whether they are damaged is then another's to say.
        """
        row = int(plan[kernels.BATCH])
        single = Batches(state.table[:, row : row + 1], state.chunk.batches.end)
        opened = decode.open_sections(state.chunk.data, single, limit_bytes=min(self._limit, MOST_BYTES + 1))
        if opened.ends[0] - opened.starts[0] > MOST_BYTES:
            return opened.buf
        state.kinds[row] = opened.kinds[0]
        if opened.problems:
            state.problems[row] = opened.problems[0]
        plan[kernels.CHUNK_ROW] = row
        return opened.buf[opened.starts[0] : max(opened.starts[0], opened.ends[0])]

    def _with_more_memory(self, plan: Ints) -> Bytes:
        """Return a block that the next batch fits in; no record was read yet."""
        rows, size = int(plan[kernels.NEEDED_ROWS]), int(plan[kernels.NEEDED_BYTES])
        if rows >= self._layout.rows or size > self._layout.bytes:
            self._lay_out(rows, max(2 * self._target, size))
        plan[: kernels.LAST] = self._layout.plan[: kernels.LAST]
        plan[kernels.SPANS] = 0
        return self._allocate(self._layout.total, np.uint8)

    def _columns(self, cut: _Cut, count: int, numbers: list[int]) -> dict[str, pa.Array]:
        names, columns = self._names, {}
        for name, index, width in _PLAIN:
            if name in names or width == 8:
                buffers = [None, cut(index, width * count)]
                columns[name] = pa.Array.from_buffers(self._types[name], count, buffers, 0)
        for name, positions, end, nulls in _BINARY:
            if name in names:
                columns[name] = cut.binary(_BYTES, positions, count, numbers[end], numbers[nulls])
        if "headers" in names:
            columns["headers"] = self._headers(cut, count, numbers)
        return columns

    def _headers(self, cut: _Cut, count: int, numbers: list[int]) -> pa.Array:
        headers, size, of_type = numbers[kernels.HEADERS], numbers[kernels.NAME_END], self._types["headers"]
        if numbers[kernels.NAME_BITS] < 0x80:  # ASCII needs no further look
            names = cut.binary(_TEXT, _NAMES, headers, size, 0)
        else:
            names = self._text(cut.binary(_BYTES, _NAMES, headers, size, 0))
        contents = cut.binary(_BYTES, _CONTENTS, headers, numbers[kernels.CONTENT_END], numbers[kernels.CONTENT_NULLS])
        pairs = pa.Array.from_buffers(of_type.value_type, headers, [None], 0, 0, [names, contents])
        return pa.Array.from_buffers(of_type, count, [None, cut(kernels.AT_LISTS, 4 * count + 4)], 0, 0, [pairs])


_MOST = {native.TOO_SMALL: _MOST_OPENED_BYTES, kernels.FULL: MOST_BYTES}
_BYTES, _TEXT = pa.binary(), pa.string()
_PLAIN = (
    ("offset", kernels.AT_OFFSETS, 8),
    ("timestamp", kernels.AT_STAMPS, 8),
    ("timestamp_type", kernels.AT_TYPES, 4),
)
_NAMES = kernels.AT_NAME_OFFSETS, kernels.AT_NAMES, kernels.AT_NAMES  # never null
_CONTENTS = kernels.AT_CONTENT_OFFSETS, kernels.AT_CONTENTS, kernels.AT_CONTENT_VALID
_BINARY = (
    ("key", (kernels.AT_KEY_OFFSETS, kernels.AT_KEYS, kernels.AT_KEY_VALID), kernels.KEY_END, kernels.KEY_NULLS),
    (
        "value",
        (kernels.AT_VALUE_OFFSETS, kernels.AT_VALUES, kernels.AT_VALUE_VALID),
        kernels.VALUE_END,
        kernels.VALUE_NULLS,
    ),
)


class _Cut:
    """Cuts buffers out of a block."""

    def __init__(self, block: pa.Buffer, positions: list[int]) -> None:
        self._block = block
        self._positions = positions

    def __call__(self, index: int, size: int) -> pa.Buffer:
        return self._block.slice(self._positions[index], size)

    def binary(self, kind: pa.DataType, positions: tuple[int, int, int], count: int, size: int, nulls: int) -> pa.Array:
        """Make a binary column of the buffers of its offsets, bytes and validity."""
        offsets, data, validity = positions
        valid = self(validity, (count + 7) // 8) if nulls else None
        return pa.Array.from_buffers(kind, count, [valid, self(offsets, 4 * count + 4), self(data, size)], nulls)
