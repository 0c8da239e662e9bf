"""The fast path from batches to columns: one kernel verifies CRCs, decompresses, indexes and copies, batch by batch.

The columns are the same as those of ``decode.index_records`` and ``makers.make_binary_array`` with all records
selected. ``columns.py`` chooses the path. All column buffers of a chunk are in one block of memory, each as large as
the chunk could need. Unused parts of the block are never touched, and the block is reused when nothing refers to the
chunk's columns any more.
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
from kafkaframes.records.decoded import Allocate, BatchProblem
from kafkaframes.records.layout import CODEC_MASK, COLUMN_INDEX
from kafkaframes.records.scan import BatchHeaders, Bytes, Chunk, Ints

# The columns that the kernel can create.
FUSED_COLUMNS = frozenset({"offset", "timestamp", "timestamp_type", "key", "value", "headers"})
# The default size of records that are read at once. With their columns they fit into the processor's cache.
TARGET_PART_BYTES = 1 << 20
# Larger batches take the general path, which allocates no buffers for the worst case.
MAX_BATCH_BYTES = 16 << 20
_MAX_CONTENT_BYTES = 64 << 20
_MIN_CONTENT_BYTES = 1 << 20
_EXPECTED_BYTES_PER_ROW = 16  # an estimate; a part with smaller records ends below its target size
_MIN_BUFFER_BYTES = 256 << 10  # smallest size for which the column buffers are planned
_INITIAL_COMPRESSION_RATIO = 4  # estimate for the first compressed batches
_ALIGNMENT = 64  # bytes; Arrow recommends this alignment of buffers
_NO_TARGET_BYTES = 1 << 62  # a limit that no source reaches, so that chunks are not divided
_EMPTY_BYTES: Bytes = np.empty(0, np.uint8)
_POSITION, _SIZE, _ATTRIBUTES = COLUMN_INDEX["position"], COLUMN_INDEX["size"], COLUMN_INDEX["attributes"]

_SELECTION_BIT_BY_COLUMN = {
    "timestamp_type": kernels.WANT_TYPES,
    "key": kernels.WANT_KEY,
    "value": kernels.WANT_VALUE,
    "headers": kernels.WANT_HEADERS,
}


class BufferArea(NamedTuple):
    """One of the column buffers that the kernel fills.

    Attributes:
        slot: index in the kernel's plan of the buffer's position.
        selected: flag of the column that needs the buffer; 0 if all columns need it.
        of_rows: number of bytes that the buffer needs for each row.
        of_bytes: number of bytes that the buffer needs for each byte of records.
    """

    slot: int
    selected: int
    of_rows: float
    of_bytes: float


# The buffer of values comes first, because it is the largest. Its address then does not depend on the chunk size, so
# that the next chunk reuses the same resident pages.
_BUFFER_AREAS = (
    BufferArea(kernels.AT_VALUES, kernels.WANT_VALUE, 0, 1),
    BufferArea(kernels.AT_OFFSETS, 0, 8, 0),
    BufferArea(kernels.AT_STAMPS, 0, 8, 0),
    BufferArea(kernels.AT_TYPES, kernels.WANT_TYPES, 4, 0),
    BufferArea(kernels.AT_KEY_OFFSETS, kernels.WANT_KEY, 4, 0),
    BufferArea(kernels.AT_KEY_VALID, kernels.WANT_KEY, 1 / 8, 0),
    BufferArea(kernels.AT_KEYS, kernels.WANT_KEY, 0, 1),
    BufferArea(kernels.AT_VALUE_OFFSETS, kernels.WANT_VALUE, 4, 0),
    BufferArea(kernels.AT_VALUE_VALID, kernels.WANT_VALUE, 1 / 8, 0),
    BufferArea(kernels.AT_LISTS, kernels.WANT_HEADERS, 4, 0),
    BufferArea(kernels.AT_NAME_OFFSETS, kernels.WANT_HEADERS, 0, 4 / 2),  # a header has at least two bytes
    BufferArea(kernels.AT_NAMES, kernels.WANT_HEADERS, 0, 1),
    BufferArea(kernels.AT_CONTENT_OFFSETS, kernels.WANT_HEADERS, 0, 4 / 2),
    BufferArea(kernels.AT_CONTENT_VALID, kernels.WANT_HEADERS, 0, 1 / 16),
    BufferArea(kernels.AT_CONTENTS, kernels.WANT_HEADERS, 0, 1),
)


class ChunkState(NamedTuple):
    """The state of a chunk that is being read.

    Attributes:
        chunk: the chunk.
        table: the batch headers, as the kernel takes them.
        kinds: the state of each batch (whole, damaged or skipped).
        outcomes: the kernel's results, with a row per ``OUTCOME_*`` and a column per batch.
        problems: the problems that Python code found, by batch.
        end: the end of the last batch.
    """

    chunk: Chunk
    table: Ints
    kinds: npt.NDArray[np.int8]
    outcomes: Ints
    problems: dict[int, BatchProblem]
    end: int


class ColumnPart(NamedTuple):
    """The columns of consecutive batches of a chunk.

    Attributes:
        state: the state of the chunk.
        first, last: range of batch numbers in the chunk, without ``last``.
        records: number of records.
        has_damage: whether a batch is damaged.
        columns: the columns by name.
    """

    state: ChunkState
    first: int
    last: int
    records: int
    has_damage: bool
    columns: dict[str, pa.Array]

    @property
    def chunk(self) -> Chunk:
        """The chunk, with the batches of this part only."""
        chunk = self.state.chunk
        return chunk._replace(batches=BatchHeaders(self.state.table[:, self.first : self.last], chunk.batches.end))

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        """The state of each batch: whole, damaged or skipped."""
        return self.state.kinds[self.first : self.last]

    @property
    def problems(self) -> dict[int, BatchProblem]:
        """The problems of batches, by their numbers in this part."""
        problems = self.state.problems.items()
        return {row - self.first: problem for row, problem in problems if self.first <= row < self.last}

    @property
    def offsets(self) -> Ints:
        """The records' offsets."""
        return self._numbers("offset")

    @property
    def timestamps(self) -> Ints:
        """The records' timestamps, in milliseconds."""
        return self._numbers("timestamp")

    def _numbers(self, name: str) -> Ints:
        return np.frombuffer(self.columns[name].buffers()[1] if self.records else b"", np.int64)

    def outcome(self, row: int) -> Ints:
        """Return a row of the kernel's results (an ``OUTCOME_*``), one number per batch."""
        values: Ints = self.state.outcomes[row, self.first : self.last]
        return values


class BufferLayout:
    """Byte positions of the column buffers in a block of memory, which has space for some rows and record bytes."""

    def __init__(self, column_bits: int, rows: int, size: int) -> None:
        self.rows, self.bytes = rows, size
        self.plan: Ints = np.zeros(kernels.WORDS, np.int64)
        self.plan[kernels.SELECTED], self.plan[kernels.ROW_CAPACITY], self.plan[kernels.BYTE_CAPACITY] = (
            column_bits,
            rows,
            size,
        )
        self.plan[kernels.CHUNK_ROW] = self.plan[kernels.OPENED_ROW] = -1
        self.total = 0
        for area in _BUFFER_AREAS:
            if area.selected & column_bits == area.selected:
                self.plan[area.slot] = self.total
                size_bytes = int(area.of_rows * rows + area.of_bytes * size) + SLACK_BYTES
                self.total += -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
        self.positions: list[int] = self.plan.tolist()


_NO_LAYOUT = BufferLayout(0, 0, 0)


class FusedReader:
    """A reader of a source's chunks into columns, which reuses its working memory between chunks."""

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
        self._column_bits = sum(bit for name, bit in _SELECTION_BIT_BY_COLUMN.items() if name in names) + (
            verify_crc and kernels.WANT_CRC
        )
        self._limit = limit_bytes
        self._target = max(min(target_bytes, MAX_BATCH_BYTES // 2), 1)
        self._allocate = allocate
        self._types = types
        self._text = text
        self._ratio = 1.0
        self._content = _EMPTY_BYTES
        self._layout = _NO_LAYOUT

    def _lay_out(self, rows: int, size: int) -> None:
        """Plan buffers for a number of rows and a number of record bytes."""
        self._layout = BufferLayout(self._column_bits, max(size // _EXPECTED_BYTES_PER_ROW, rows + 1), size)
        self._scratch = self._allocate(self._layout.rows * kernels.INDEX_BYTES, np.uint8)

    def read_parts(self, chunk: Chunk, skip: npt.NDArray[np.bool_] | None) -> Iterator[ColumnPart | Chunk]:
        """Yield columns of all batches except those in ``skip``.

        A batch that is too large for the fast path is yielded as a chunk.
        """
        table = np.ascontiguousarray(chunk.batches.table)
        count = table.shape[1]
        kinds: npt.NDArray[np.int8] = np.full(count, WHOLE_DATA, np.int8)
        if skip is not None:
            kinds[skip] = SKIPPED
        if not self._layout.bytes:  # for a short source, buffers of full size would be most of the cost
            is_compressed = (table[_ATTRIBUTES] & CODEC_MASK).any()
            likely = chunk.data.size * (_INITIAL_COMPRESSION_RATIO if is_compressed else 1)
            self._lay_out(0, min(2 * self._target, max(likely, _MIN_BUFFER_BYTES)))
        end = int(table[_POSITION, -1] + table[_SIZE, -1])
        state = ChunkState(chunk, table, kinds, np.empty((4, count), np.int64), {}, end)
        first = 0
        with native.borrow_call_array() as calls:
            while first < count:
                part, last, is_large = self._read_part(state, first, calls)
                if part is not None:
                    yield part
                if is_large:
                    yield chunk._replace(batches=BatchHeaders(table[:, last : last + 1], chunk.batches.end))
                first = last + is_large

    def _read_part(self, state: ChunkState, first: int, calls: Ints) -> tuple[ColumnPart | None, int, bool]:
        """Read batches from ``first`` on; return the part, the next batch's number, and whether that batch is too
        large."""
        plan, content = self._layout.plan.copy(), _EMPTY_BYTES
        rest_bytes = (state.end - int(state.table[_POSITION, first])) * self._ratio
        parts = round(rest_bytes / self._target)  # of equal size
        plan[kernels.GOAL] = int(rest_bytes / parts) if parts > 1 else _NO_TARGET_BYTES
        plan[kernels.BATCH], plan[kernels.LAST], plan[kernels.LIMIT] = first, len(state.kinds), self._limit
        block, is_large = self._allocate(self._layout.total, np.uint8), False
        while True:
            why = kernels.read_columns(
                *(plan, state.chunk.data, content, state.table, state.kinds, state.outcomes),
                *(block, self._scratch, self._content, calls),
            )
            if why == kernels.DONE or (why == kernels.FULL and plan[kernels.ROW]):
                break
            if why == native.UNUSUAL:
                content = self._decompress_general(state, plan)
                is_large = content.size > MAX_BATCH_BYTES
                if is_large:
                    break
            elif plan[kernels.NEEDED_BYTES] > _MAX_BYTES_BY_STATUS[why]:
                is_large = True
                break
            elif why == native.TOO_SMALL:
                self._content = self._allocate(max(2 * int(plan[kernels.NEEDED_BYTES]), _MIN_CONTENT_BYTES), np.uint8)
            else:
                block = self._allocate_larger_block(plan)
        numbers = plan.tolist()
        last, count = numbers[kernels.BATCH], numbers[kernels.ROW]
        if last == first:
            return None, last, is_large
        stored_bytes = (state.end if last == len(state.kinds) else int(state.table[_POSITION, last])) - int(
            state.table[_POSITION, first]
        )
        self._ratio = max(numbers[kernels.SPANS] / stored_bytes, 0.01)
        columns = (
            self._make_columns(_BlockSlicer(pa.py_buffer(block), self._layout.positions), count, numbers)
            if count
            else {}
        )
        if why == kernels.FULL and self._layout.bytes < 2 * self._target:
            self._lay_out(0, 2 * self._target)
        has_damage = bool(numbers[kernels.BAD] or state.problems)
        return ColumnPart(state, first, last, count, has_damage, columns), last, is_large

    def _decompress_general(self, state: ChunkState, plan: Ints) -> Bytes:
        """Return the records of the batch that the kernel does not support, decompressed as Kafka does.

        Records that exceed the limit of the fast path are truncated one byte after the limit, and their damage is not
        reported. The general path then reads the batch again.
        """
        row = int(plan[kernels.BATCH])
        single = BatchHeaders(state.table[:, row : row + 1], state.chunk.batches.end)
        sections = decode.open_sections(state.chunk.data, single, limit_bytes=min(self._limit, MAX_BATCH_BYTES + 1))
        if sections.ends[0] - sections.starts[0] > MAX_BATCH_BYTES:
            return sections.buf
        state.kinds[row] = sections.kinds[0]
        if sections.problems:
            state.problems[row] = sections.problems[0]
        plan[kernels.CHUNK_ROW] = row
        return sections.buf[sections.starts[0] : max(sections.starts[0], sections.ends[0])]

    def _allocate_larger_block(self, plan: Ints) -> Bytes:
        """Return a block that is large enough for the next batch.

        This function is called before a record is read into the current block.
        """
        rows, size = int(plan[kernels.NEEDED_ROWS]), int(plan[kernels.NEEDED_BYTES])
        if rows >= self._layout.rows or size > self._layout.bytes:
            self._lay_out(rows, max(2 * self._target, size))
        plan[: kernels.LAST] = self._layout.plan[: kernels.LAST]
        plan[kernels.SPANS] = 0
        return self._allocate(self._layout.total, np.uint8)

    def _make_columns(self, block: _BlockSlicer, count: int, numbers: list[int]) -> dict[str, pa.Array]:
        names, columns = self._names, {}
        for name, index, width in _FIXED_WIDTH_COLUMNS:
            if name in names or width == 8:
                buffers = [None, block(index, width * count)]
                columns[name] = pa.Array.from_buffers(self._types[name], count, buffers, 0)
        for name, positions, end, nulls in _BINARY_COLUMN_BUFFERS:
            if name in names:
                columns[name] = block.binary_column(_BYTES, positions, count, numbers[end], numbers[nulls])
        if "headers" in names:
            columns["headers"] = self._make_headers(block, count, numbers)
        return columns

    def _make_headers(self, block: _BlockSlicer, count: int, numbers: list[int]) -> pa.Array:
        headers, size, of_type = numbers[kernels.HEADERS], numbers[kernels.NAME_END], self._types["headers"]
        if numbers[kernels.NAME_BITS] < 0x80:  # ASCII needs no conversion
            names = block.binary_column(_TEXT, _HEADER_NAME_BUFFERS, headers, size, 0)
        else:
            names = self._text(block.binary_column(_BYTES, _HEADER_NAME_BUFFERS, headers, size, 0))
        contents = block.binary_column(
            _BYTES, _HEADER_VALUE_BUFFERS, headers, numbers[kernels.CONTENT_END], numbers[kernels.CONTENT_NULLS]
        )
        pairs = pa.Array.from_buffers(of_type.value_type, headers, [None], 0, 0, [names, contents])
        return pa.Array.from_buffers(of_type, count, [None, block(kernels.AT_LISTS, 4 * count + 4)], 0, 0, [pairs])


_MAX_BYTES_BY_STATUS = {native.TOO_SMALL: _MAX_CONTENT_BYTES, kernels.FULL: MAX_BATCH_BYTES}
_BYTES, _TEXT = pa.binary(), pa.string()
_FIXED_WIDTH_COLUMNS = (
    ("offset", kernels.AT_OFFSETS, 8),
    ("timestamp", kernels.AT_STAMPS, 8),
    ("timestamp_type", kernels.AT_TYPES, 4),
)
_HEADER_NAME_BUFFERS = kernels.AT_NAME_OFFSETS, kernels.AT_NAMES, kernels.AT_NAMES  # never null
_HEADER_VALUE_BUFFERS = kernels.AT_CONTENT_OFFSETS, kernels.AT_CONTENTS, kernels.AT_CONTENT_VALID
_BINARY_COLUMN_BUFFERS = (
    ("key", (kernels.AT_KEY_OFFSETS, kernels.AT_KEYS, kernels.AT_KEY_VALID), kernels.KEY_END, kernels.KEY_NULLS),
    (
        "value",
        (kernels.AT_VALUE_OFFSETS, kernels.AT_VALUES, kernels.AT_VALUE_VALID),
        kernels.VALUE_END,
        kernels.VALUE_NULLS,
    ),
)


class _BlockSlicer:
    """A function object that returns buffers, which are slices of a block."""

    def __init__(self, block: pa.Buffer, positions: list[int]) -> None:
        self._block = block
        self._positions = positions

    def __call__(self, index: int, size: int) -> pa.Buffer:
        return self._block.slice(self._positions[index], size)

    def binary_column(
        self, kind: pa.DataType, positions: tuple[int, int, int], count: int, size: int, nulls: int
    ) -> pa.Array:
        """Return a binary column from the buffers of its offsets, bytes and validity."""
        offsets, data, validity = positions
        valid = self(validity, (count + 7) // 8) if nulls else None
        return pa.Array.from_buffers(kind, count, [valid, self(offsets, 4 * count + 4), self(data, size)], nulls)
