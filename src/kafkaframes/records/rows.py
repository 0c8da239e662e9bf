"""Rows to write as records: Arrow columns or plain Python values, converted to flat arrays for the kernels.

Columns have the same names as those of the readers. All columns are optional, except that ``key`` or ``value`` is
required:

==========  ==========================================================  ======================
name        Arrow type                                                  default
==========  ==========================================================  ======================
offset      any integer; increasing                                     counted from a base
timestamp   any integer (ms), or a timestamp of whole milliseconds      -1, "no timestamp"
key, value  binary or string of any width, or null                      null
headers     list of struct<key, value>, or map                          none
==========  ==========================================================  ======================

Byte strings are not copied: the arrays refer to Arrow's memory by start and length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafkaframes.errors import EncodeError
from kafkaframes.records.arrays import int64_values
from kafkaframes.records.fields import NO_TIMESTAMP
from kafkaframes.wire.integers import MAX_INT64

_RECORD_COLUMNS = ("offset", "timestamp", "key", "value", "headers")

Int64s = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class ByteStrings(NamedTuple):
    """Byte strings ``data[starts[i] : starts[i] + lengths[i]]``; a length of -1 means null."""

    starts: Int64s
    lengths: Int64s
    data: Bytes

    def take(self, indexes: Int64s) -> ByteStrings:
        """Return the byte strings at ``indexes``, in that order, without copying bytes."""
        return ByteStrings(self.starts[indexes], self.lengths[indexes], self.data)


class Rows(NamedTuple):
    """Records as arrays, the input of the write kernels. ``header_starts`` is empty if no record has headers."""

    offsets: Int64s
    timestamps: Int64s
    keys: ByteStrings
    values: ByteStrings
    header_starts: Int64s
    header_names: ByteStrings
    header_values: ByteStrings

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.offsets)

    def take(self, indexes: Int64s, *, offsets: Int64s) -> Rows:
        """Return the rows at ``indexes``, in that order, with new offsets. Keys, values and headers are not copied."""
        starts, names, values = self.header_starts, self.header_names, self.header_values
        if len(starts):
            counts = np.diff(starts)[indexes]
            starts = np.concatenate(([0], np.cumsum(counts)))
            entries = np.repeat(self.header_starts[indexes] - starts[:-1], counts) + np.arange(starts[-1])
            names, values = names.take(entries), values.take(entries)
        keys, bodies = self.keys.take(indexes), self.values.take(indexes)
        return Rows(offsets, self.timestamps[indexes], keys, bodies, starts, names, values)


def rows_of(
    columns: Any, *, base_offset: int = 0, ignore: Iterable[str] = (), negative_timestamps: bool = False
) -> Rows:
    """Validate ``columns`` and convert them to rows.

    Args:
        columns: a ``pa.Table``, a ``pa.RecordBatch``, a mapping of names to arrays or sequences, or a
            sequence of mappings.
        base_offset: the first offset if there is no column ``offset``.
        ignore: names of other columns to accept; their values are not written.
        negative_timestamps: whether timestamps below -1 are accepted, which a log may contain but Kafka's producers
            reject.

    Raises:
        EncodeError: a value is invalid; ``path`` names the column and, if possible, the row.
    """
    columns_by_name = map_columns(columns, ignore=ignore)
    arrays = {name: to_column_array(name, columns_by_name[name]) for name in _RECORD_COLUMNS if name in columns_by_name}
    count = _check_common_length(arrays)
    none = pa.nulls(count, pa.binary())
    header_starts, names, values = _to_headers(arrays.get("headers"))
    return Rows(
        _to_offsets(arrays.get("offset"), base_offset, count),
        _to_timestamps(arrays.get("timestamp"), count, negative=negative_timestamps),
        to_byte_strings("key", arrays.get("key", none)),
        to_byte_strings("value", arrays.get("value", none)),
        header_starts,
        names,
        values,
    )


def make_rows_from_lists(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Sequence[Sequence[tuple[str, bytes | None]]],
    *,
    counts: Sequence[int],
) -> Rows:
    """Convert a producer's buffered records, with types already checked, to rows. All lists have the same length.

    Args:
        timestamps: timestamps in milliseconds; -1 means no timestamp.
        counts: number of records in each batch. The offsets of each batch start at 0.

    Raises:
        EncodeError: a timestamp is below -1; ``path`` names the row.
    """
    times = np.array(timestamps, np.int64)
    if times.min(initial=NO_TIMESTAMP) < NO_TIMESTAMP:
        row = int(np.flatnonzero(times < NO_TIMESTAMP)[0])
        raise EncodeError(f"timestamp {times[row]} is below -1").within(row).within("timestamp")
    ends = np.cumsum(counts, dtype=np.int64)
    offsets = np.arange(len(times)) - np.repeat(ends - counts, counts)
    return Rows(offsets, times, _join_byte_strings(keys), _join_byte_strings(values), *_join_headers(headers))


def _join_headers(headers: Sequence[Sequence[tuple[str, bytes | None]]]) -> tuple[Int64s, ByteStrings, ByteStrings]:
    pairs = list(chain.from_iterable(headers))
    if not pairs:
        return _NO_HEADERS
    starts = np.cumsum([0, *map(len, headers)], dtype=np.int64)
    return (
        starts,
        _join_byte_strings([name.encode() for name, _ in pairs]),
        _join_byte_strings([value for _, value in pairs]),
    )


def _join_byte_strings(values: Sequence[bytes | None]) -> ByteStrings:
    """Join byte strings. A null has length -1 and no bytes in the result."""
    if None not in values:
        lengths = np.fromiter(map(len, values), np.int64, len(values))  # type: ignore[arg-type]
        return ByteStrings(np.cumsum(lengths) - lengths, lengths, np.frombuffer(b"".join(values), np.uint8))  # type: ignore[arg-type]
    lengths = np.array([-1 if value is None else len(value) for value in values], np.int64)
    sizes = np.maximum(lengths, 0)
    data = b"".join(value for value in values if value is not None)
    return ByteStrings(np.cumsum(sizes) - sizes, lengths, np.frombuffer(data, np.uint8))


# --------------------------------------------------------------------------------------------- the caller's values


def map_columns(columns: Any, *, ignore: Iterable[str] = ()) -> Mapping[str, Any]:
    """Return columns by name, after checking the names.

    Args:
        columns: as for ``rows_of``.
        ignore: names of other columns to accept.

    Raises:
        EncodeError: a column is unknown or given twice, or neither ``key`` nor ``value`` exists.
    """
    if isinstance(columns, pa.Table | pa.RecordBatch):
        reject_unknown_columns(columns.schema.names, ignore=ignore)
        return dict(zip(columns.schema.names, columns.columns, strict=True))
    if isinstance(columns, Mapping):
        reject_unknown_columns(columns, ignore=ignore)
        return columns
    if isinstance(columns, Sequence) and all(isinstance(row, Mapping) for row in columns):
        names = dict.fromkeys(name for row in columns for name in row) if columns else ("value",)
        reject_unknown_columns(names, ignore=ignore)
        empty = next((index for index, row in enumerate(columns) if "key" not in row and "value" not in row), None)
        if empty is not None:
            raise EncodeError("a record needs a key or a value").within(empty)
        return {name: [row.get(name) for row in columns] for name in names}
    raise EncodeError(f"expected Arrow columns or mappings, not {type(columns).__name__}")


def reject_unknown_columns(names: Iterable[str], *, ignore: Iterable[str] = ()) -> None:
    """Reject column names that no writer of records understands.

    Args:
        names: names of the columns.
        ignore: names of other columns to accept.

    Raises:
        EncodeError: a column is unknown or given twice, or neither ``key`` nor ``value`` exists.
    """
    columns, accepted_names = list(names), {*_RECORD_COLUMNS, *ignore}
    for position, name in enumerate(columns):
        if name not in accepted_names:
            near = get_close_matches(str(name), _RECORD_COLUMNS, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            reason = (
                f"not a column of records; {hint}expected {', '.join(_RECORD_COLUMNS)} or another column of a reader"
            )
            raise EncodeError(reason).within(str(name))
        if name in columns[:position]:
            raise EncodeError("this column is given twice").within(name)
    if "key" not in columns and "value" not in columns:
        raise EncodeError("records need a column key or value")


def to_column_array(name: str, values: Any) -> pa.Array:
    """Return a column as one Arrow array.

    Args:
        name: name of a column of records.
        values: an Arrow array, chunked or not, or a sequence of Python values.

    Raises:
        EncodeError: Arrow cannot hold the values; ``path`` names the column.
    """
    if isinstance(values, pa.ChunkedArray):
        return _combine_chunks(values)
    if isinstance(values, pa.Array):
        return values
    try:
        return _to_plain_headers(values) if name == "headers" else _to_plain_list(name, values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise EncodeError(str(error)).within(name) from None


def _combine_chunks(chunks: pa.ChunkedArray) -> pa.Array:
    narrow = {pa.binary(): pa.large_binary(), pa.string(): pa.large_string()}
    if chunks.num_chunks > 1 and chunks.nbytes >= 2**31 and chunks.type in narrow:
        chunks = chunks.cast(narrow[chunks.type])
    joined = chunks.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _to_plain_list(name: str, values: Any) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(values)
    if name in ("key", "value"):
        return pa.array(values, pa.large_binary())
    return pa.array(values) if len(values) else pa.array([], pa.int64())


def _to_plain_headers(rows: Any) -> pa.Array:
    """Convert headers as lists of pairs, or of mappings with ``key`` and ``value``, to one Arrow array."""
    pairs = [None if row is None else [_to_pair(header) for header in row] for row in rows]
    return pa.array(pairs, pa.map_(pa.binary(), pa.binary()))


def _to_pair(header: Any) -> tuple[Any, Any]:
    if isinstance(header, Mapping):
        return header["key"], header["value"]
    name, value = header
    return name, value


def _check_common_length(arrays: Mapping[str, pa.Array]) -> int:
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise EncodeError(f"columns differ in length: {lengths}")
    return next(iter(lengths.values()))


# ----------------------------------------------------------------------------------------------------- flat arrays


def _reject_nulls(name: str, array: pa.Array) -> None:
    if array.null_count:
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        raise EncodeError("null is not allowed here").within(row).within(name)


def _to_int64s(name: str, array: pa.Array) -> Int64s:
    _reject_nulls(name, array)
    if not pa.types.is_integer(array.type):
        raise EncodeError(f"{array.type} is not an integer type").within(name)
    try:
        return int64_values(array.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise EncodeError(str(error)).within(name) from None


def _to_offsets(array: pa.Array | None, base_offset: int, count: int) -> Int64s:
    if array is None:
        if base_offset < 0 or base_offset + count - 1 > MAX_INT64:
            raise EncodeError(f"{count} offsets from {base_offset} on exceed the range 0 to 2^63 - 1").within("offset")
        return np.arange(base_offset, base_offset + count, dtype=np.int64)
    offsets = _to_int64s("offset", array)
    if count and offsets[0] < 0:
        raise EncodeError(f"offset {offsets[0]} is negative").within(0).within("offset")
    falling = np.flatnonzero(offsets[1:] <= offsets[:-1])
    if len(falling):
        row = int(falling[0]) + 1
        raise (
            EncodeError(f"offset {offsets[row]} follows {offsets[row - 1]}; offsets must increase")
            .within(row)
            .within("offset")
        )
    return offsets


def _to_timestamps(array: pa.Array | None, count: int, *, negative: bool) -> Int64s:
    if array is None:
        return np.full(count, NO_TIMESTAMP, np.int64)
    if pa.types.is_timestamp(array.type):
        _reject_nulls("timestamp", array)
        try:
            array = array.cast(pa.timestamp("ms")).cast(pa.int64())
        except pa.ArrowInvalid:
            raise EncodeError(f"{array.type} does not have whole milliseconds").within("timestamp") from None
    timestamps = _to_int64s("timestamp", array)
    rejected = np.flatnonzero(timestamps < NO_TIMESTAMP)
    if len(rejected) and not negative:
        row = int(rejected[0])
        raise EncodeError(f"timestamp {timestamps[row]} is below -1").within(row).within("timestamp")
    return timestamps


_OFFSET_TYPES = {pa.binary(): np.int32, pa.string(): np.int32, pa.large_binary(): np.int64, pa.large_string(): np.int64}


def to_byte_strings(name: str, array: pa.Array) -> ByteStrings:
    """Convert an array to byte strings. Types without offsets into bytes are cast first."""
    kind = array.type
    if kind not in _OFFSET_TYPES:
        array = _cast_to_binary(name, array)
    count = len(array)
    if count == 0:
        return _NO_BYTE_STRINGS
    validity, ends, data = array.buffers()
    bounds = np.frombuffer(ends, _OFFSET_TYPES[array.type])[array.offset : array.offset + count + 1].astype(np.int64)
    lengths = np.diff(bounds)
    if validity is not None and array.null_count:
        lengths[np.asarray(array.is_null())] = -1
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return ByteStrings(bounds[:-1], lengths, content)


_NO_BYTE_STRINGS = ByteStrings(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8))
_NO_HEADERS = np.zeros(0, np.int64), _NO_BYTE_STRINGS, _NO_BYTE_STRINGS


def _cast_to_binary(name: str, array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _cast_to_binary(name, array.dictionary_decode())
    view = pa.types.is_binary_view(kind) or pa.types.is_string_view(kind)
    if kind in _OFFSET_TYPES or pa.types.is_null(kind) or pa.types.is_fixed_size_binary(kind) or view:
        return array.cast(pa.large_binary())
    raise EncodeError(f"{kind} is neither binary nor string").within(name)


def _to_headers(array: pa.Array | None) -> tuple[Int64s, ByteStrings, ByteStrings]:
    """Convert an array of header lists to flat arrays. A null list counts as empty."""
    if array is None or pa.types.is_null(array.type):
        return _NO_HEADERS
    kind = array.type
    if pa.types.is_map(kind):
        names, values = array.keys, array.items
    elif (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_header(kind.value_type):
        _reject_null_headers(array)
        names, values = array.values.flatten()
    else:
        raise EncodeError(f"{kind} is not a list of struct<key, value>").within("headers")
    starts = _list_bounds(array)
    if starts[0] == starts[-1]:
        return _NO_HEADERS
    name_blobs, value_blobs = to_byte_strings("headers", names), to_byte_strings("headers", values)
    _reject_null_keys(name_blobs, starts)
    return starts, name_blobs, value_blobs


def _is_header(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and [kind.field(index).name for index in range(kind.num_fields)] == ["key", "value"]


def _list_bounds(array: pa.Array) -> Int64s:
    """Return the position of each row's first header, and the end of the last row's headers.

    A null row must not have headers.
    """
    if array.null_count and not pa.types.is_map(array.type):
        array = array.fill_null([])
    bounds = np.asarray(array.offsets).astype(np.int64)
    if array.null_count:
        rows = np.flatnonzero(np.asarray(array.is_null()) & (np.diff(bounds) > 0))
        if len(rows):
            raise EncodeError("the map is null but has entries").within(int(rows[0])).within("headers")
    return bounds


def _reject_null_headers(array: pa.Array) -> None:
    flat = array.flatten()
    if flat.null_count:
        raise EncodeError("a header is null").within("headers")


def _reject_null_keys(names: ByteStrings, starts: Int64s) -> None:
    null = np.flatnonzero(names.lengths[starts[0] : starts[-1]] < 0)
    if len(null):
        header = int(null[0]) + int(starts[0])
        row = int(np.searchsorted(starts, header, side="right")) - 1
        raise EncodeError("the key of a header is null").within(row).within("headers")
