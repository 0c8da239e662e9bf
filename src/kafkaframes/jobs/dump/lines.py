"""Render a line of text for each row of columns, in bulk. A compiled kernel interprets the plan of a line.

A line is a tuple of parts: :class:`TextPart`, :class:`NumberPart`, :class:`WordPart`, :class:`BytesPart`,
:class:`Base64Part`, :class:`NullBranchPart`. :func:`plan_line` compiles them to a :class:`CompiledLine` once, and
:meth:`CompiledLine.render_lines` applies it to columns.
No Python code runs per row. All text formats of ``dump-log`` use these lines, including kcat's ``-f``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.jobs.dump import _kernels as kernels

_MAX_INTEGER_CHARACTERS = 20  # characters of the smallest int64, with its sign
MAX_ROWS_PER_PORTION = 1 << 17  # rows that are rendered at once
_NO_BYTES = np.frombuffer(b"", np.uint8)  # data of the empty columns that fill unused parameters of the kernel
_NO_STARTS = np.frombuffer(b"", np.int64)  # starts of these empty columns
_NO_SIZES = np.frombuffer(b"", np.int32)  # sizes of these empty columns


@dataclass(frozen=True, slots=True)
class TextPart:
    """A constant text in every line."""

    text: bytes


@dataclass(frozen=True, slots=True)
class NumberPart:
    """A number column, in decimal."""

    column: str


@dataclass(frozen=True, slots=True)
class WordPart:
    """The word for an index in a number column. An index out of range selects the nearest word."""

    column: str
    words: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class BytesPart:
    """The bytes of a bytes column. Null adds nothing."""

    column: str


@dataclass(frozen=True, slots=True)
class Base64Part:
    """A bytes column in base64. Null adds nothing."""

    column: str


@dataclass(frozen=True, slots=True)
class NullBranchPart:
    """The parts ``then`` if a bytes column is null, and the parts ``otherwise`` if it is not."""

    column: str
    then: tuple[Part, ...] = ()
    otherwise: tuple[Part, ...] = ()


Part = TextPart | NumberPart | WordPart | BytesPart | Base64Part | NullBranchPart


@dataclass(frozen=True, slots=True)
class BytesSlices:
    """A bytes column as slices of ``data``: the ``sizes[row]`` bytes from ``starts[row]``.

    A negative size means null.
    """

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int32]

    def __getitem__(self, rows: slice) -> BytesSlices:
        return BytesSlices(self.data, self.starts[rows], self.sizes[rows])

    def __len__(self) -> int:
        return len(self.starts)

    def null_unless(self, is_kept: npt.NDArray[np.bool_]) -> BytesSlices:
        """Return the column with null where ``is_kept`` is false."""
        return BytesSlices(self.data, self.starts, np.where(is_kept, self.sizes, -1).astype(np.int32))

    def value_at(self, row: int) -> bytes | None:
        """Return the value of a row; None for null."""
        start, size = int(self.starts[row]), int(self.sizes[row])
        return bytes(self.data[start : start + size]) if size >= 0 else None


# A number column is a numpy or Arrow array. A bytes column is a BytesSlices, or an Arrow array of bytes or strings.
Column: TypeAlias = Any


@dataclass(slots=True)
class RenderedLines:
    """Rendered lines: their bytes, and the end of each row's line in them."""

    data: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def slice_lines(self, first: int, stop: int) -> memoryview:
        """Return the lines of the rows ``first`` to ``stop`` (exclusive), without a copy."""
        start = int(self.ends[first - 1]) if first else 0
        end = int(self.ends[stop - 1]) if stop > first else start
        return self.data.data[start:end]


@dataclass(slots=True)
class _LineCompiler:
    """The tables of a line that :func:`plan_line` is compiling."""

    program: list[tuple[int, int, int, int]] = field(default_factory=list)
    pool: bytearray = field(default_factory=bytearray)
    words: list[tuple[int, int]] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    bytes_columns: list[str] = field(default_factory=list)

    def pool_text(self, text: bytes) -> tuple[int, int]:
        """Add a constant text to the pool, and return its start and end there."""
        start = len(self.pool)
        self.pool += text
        return start, len(self.pool)

    def add_part(self, part: Part) -> None:
        """Append the instructions of a part of the line to the program."""
        match part:
            case TextPart(text):
                self.program.append((kernels.LITERAL, *self.pool_text(text), 0))
            case NumberPart(column):
                self.program.append((kernels.INTEGER, _find_or_add_index(self.numbers, column), 0, 0))
            case WordPart(column, words):
                first = len(self.words)
                self.words += [self.pool_text(word) for word in words]
                self.program.append(
                    (kernels.CHOICE, _find_or_add_index(self.numbers, column), first, len(self.words) - 1)
                )
            case BytesPart(column):
                self.program.append((kernels.RAW, _find_or_add_index(self.bytes_columns, column), 0, 0))
            case Base64Part(column):
                self.program.append((kernels.BASE64, _find_or_add_index(self.bytes_columns, column), 0, 0))
            case NullBranchPart(column, then, otherwise):
                self.add_branch(kernels.IF_NULL, column, then)
                self.add_branch(kernels.IF_VALID, column, otherwise)

    def add_branch(self, operation: int, column: str, parts: Sequence[Part]) -> None:
        """Append parts that are printed only if the column is null, or only if it is not."""
        if not parts:
            return
        branch, index = len(self.program), _find_or_add_index(self.bytes_columns, column)
        self.program.append((operation, index, 0, 0))
        for part in parts:
            self.add_part(part)
        self.program[branch] = (operation, index, len(self.program) - branch - 1, 0)


def _find_or_add_index(names: list[str], name: str) -> int:
    """Return the index of a name in a list, to which it is added if it is missing."""
    if name not in names:
        names.append(name)
    return names.index(name)


@dataclass(frozen=True, slots=True)
class CompiledLine:
    """A compiled line. :func:`plan_line` creates it."""

    program: npt.NDArray[np.int64]
    pool: npt.NDArray[np.uint8]
    word_starts: npt.NDArray[np.int64]
    word_ends: npt.NDArray[np.int64]
    number_columns: tuple[str, ...]
    bytes_columns: tuple[str, ...]

    def render_lines(self, columns: Mapping[str, Column], count: int) -> RenderedLines:
        """Return the lines of ``count`` rows.

        Number and word parts need columns of integers or booleans, other parts bytes columns.
        """
        if (
            count > MAX_ROWS_PER_PORTION
        ):  # the buffer is sized for the longest possible lines, and most lines are much shorter
            return _join_portions(
                [
                    self._render_portion(columns, row, min(row + MAX_ROWS_PER_PORTION, count))
                    for row in range(0, count, MAX_ROWS_PER_PORTION)
                ]
            )
        return self._render_portion(columns, 0, count)

    def _render_portion(self, columns: Mapping[str, Column], first: int, stop: int) -> RenderedLines:
        """Return the lines of the rows ``first`` to ``stop`` (exclusive)."""
        count = stop - first
        numbers = np.empty((len(self.number_columns), count), np.int64)
        for index, name in enumerate(self.number_columns):
            numbers[index] = _to_integers(columns[name][first:stop])
        slices = _view_bytes_columns([columns[name][first:stop] for name in self.bytes_columns])
        out = np.empty(self._compute_max_bytes(count, slices[2]), np.uint8)
        ends = np.empty(count, np.int64)
        status, size = kernels.render(
            self.program, self.pool, self.word_starts, self.word_ends, numbers, *slices, out, ends
        )
        if status != kernels.DONE:
            raise AssertionError("a line is longer than the sum of its parts")
        return RenderedLines(out[:size], ends)

    def _compute_max_bytes(self, count: int, sizes: Sequence[npt.NDArray[np.int32]]) -> int:
        """Return the maximum size of ``count`` lines, in bytes. Memory pages that are not written cost nothing."""
        widest_word = int((self.word_ends - self.word_starts).max(initial=0))
        per_row = 0
        total_bytes = 0
        for operation, first_operand, second_operand, _ in self.program.tolist():
            if operation == kernels.LITERAL:
                per_row += second_operand - first_operand
            elif operation == kernels.CHOICE:
                per_row += widest_word
            elif operation == kernels.INTEGER:
                per_row += _MAX_INTEGER_CHARACTERS
            elif operation in (kernels.RAW, kernels.BASE64) and count:
                size = int(np.maximum(sizes[first_operand], 0).sum(dtype=np.int64))
                total_bytes += size if operation == kernels.RAW else size * 4 // 3 + 4 * count
        return count * per_row + total_bytes


def _join_portions(portions: list[RenderedLines]) -> RenderedLines:
    """Return rendered lines of consecutive rows as one result."""
    starts = np.cumsum([0, *(len(portion.data) for portion in portions[:-1])])
    ends = [portion.ends + start for portion, start in zip(portions, starts, strict=True)]
    return RenderedLines(np.concatenate([portion.data for portion in portions]), np.concatenate(ends))


def plan_line(*parts: Part) -> CompiledLine:
    """Compile a line. The result does not depend on columns and can be reused.

    >>> key = NullBranchPart("key", (), (TextPart(b" "), BytesPart("key")))
    >>> line = plan_line(TextPart(b"offset: "), NumberPart("offset"), key, TextPart(b"\\n"))
    >>> bytes(line.render_lines({"offset": np.array([7, 8]), "key": pa.array([b"k", None])}, 2).data)
    b'offset: 7 k\\noffset: 8\\n'
    """
    plan = _LineCompiler()
    for part in parts:
        plan.add_part(part)
    if len(plan.bytes_columns) > kernels.MAX_BYTES_COLUMNS:
        raise ValueError(
            f"a line may use at most {kernels.MAX_BYTES_COLUMNS} bytes columns, not {len(plan.bytes_columns)}"
        )
    return CompiledLine(
        np.array(plan.program, np.int64).reshape(-1, 4),
        np.frombuffer(bytes(plan.pool), np.uint8),
        np.array([start for start, _ in plan.words], np.int64),
        np.array([end for _, end in plan.words], np.int64),
        tuple(plan.numbers),
        tuple(plan.bytes_columns),
    )


def _to_integers(column: Column) -> npt.NDArray[Any]:
    """Return a number column as a numpy array."""
    if isinstance(column, np.ndarray):
        return column
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _view_bytes_columns(columns: Sequence[Column]) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Return bytes columns as three tuples of fixed length and fixed array types, as the kernel requires."""
    views = [
        _make_read_only(column if isinstance(column, BytesSlices) else view_binary_array(column)) for column in columns
    ]
    views += itertools.repeat((_NO_BYTES, _NO_STARTS, _NO_SIZES), kernels.MAX_BYTES_COLUMNS - len(views))
    datas, starts, sizes = zip(*views, strict=True)
    return datas, starts, sizes


def view_binary_array(column: pa.Array) -> BytesSlices:
    """Return the values of an Arrow array of binary or strings as slices of its data, without copying.

    >>> view_binary_array(pa.array([b"one", None, b"three"])).sizes.tolist()
    [3, -1, 5]
    """
    wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    if not wide and not (pa.types.is_binary(column.type) or pa.types.is_string(column.type)):
        raise TypeError(f"a bytes column must be binary or string, not {column.type}")
    validity, offset_buffer, data_buffer = column.buffers()
    data = _NO_BYTES if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    if offset_buffer is None or len(column) == 0:
        return BytesSlices(data, _NO_STARTS, _NO_SIZES)
    stored_offsets: npt.NDArray[Any] = np.frombuffer(offset_buffer, np.int64 if wide else np.int32)
    offsets = stored_offsets[column.offset : column.offset + len(column) + 1].astype(np.int64)
    sizes = np.diff(offsets).astype(np.int32)
    if column.null_count:
        bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
        sizes[bits[column.offset : column.offset + len(column)] == 0] = -1
    return BytesSlices(data, offsets[:-1], sizes)


def _make_read_only(slices: BytesSlices) -> tuple[npt.NDArray[Any], ...]:
    """Return read-only views of slices, because in numba a tuple of writable arrays has another type."""
    views = slices.data[:], np.ascontiguousarray(slices.starts)[:], np.ascontiguousarray(slices.sizes)[:]
    for view in views:
        view.setflags(write=False)
    return views
