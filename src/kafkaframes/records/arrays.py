"""Arrow arrays of numbers and texts, made from buffers.

``pa.array``, ``pa.scalar``, ``to_numpy`` and functions that take a Python number import pandas where it is installed:
half a second of CPU time, which each new executor of Spark and each command would pay for its first row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import EncodeError

INSTANT = pa.timestamp("us", tz="UTC")
_OF_RECORDS = ("key", "value", "headers")
_PARTS = {"us": 1_000, "ns": 1_000_000}  # of a millisecond
_MOST_MILLISECONDS = (2**63 - 1) // 1000


def repeated(value: str | int | None, kind: pa.DataType, count: int) -> pa.Array:
    """Return ``count`` times the same: a text, an integer of ``kind``, or null.

    >>> repeated("orders", pa.string(), 2).to_pylist(), repeated(3, pa.int32(), 2).to_pylist()
    (['orders', 'orders'], [3, 3])
    """
    if value is None:
        return pa.nulls(count, kind)
    if isinstance(value, str):
        text = value.encode()
        if len(text) * count > np.iinfo(np.int32).max:
            return pa.repeat(pa.scalar(value, kind), count)
        ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(ends), pa.py_buffer(text * count)], null_count=0)
    return numbers(np.full(count, value, dtype=f"i{kind.bit_width // 8}"), kind)


def numbers(values: npt.NDArray[Any], kind: pa.DataType, *, missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers as an array of ``kind``, which has the same width; null where ``missing`` says so.

    >>> numbers(np.array([1, 2]), pa.int64(), missing=np.array([False, True])).to_pylist()
    [1, None]
    """
    there = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(kind, values.size, [there, pa.py_buffer(np.ascontiguousarray(values))])


def instants(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    """Return times in UTC microseconds; what they cannot say (from the year 294247 on) is null.

    >>> instants(np.array([1, 2**62])).is_null().to_pylist()
    [False, True]
    """
    beyond = (milliseconds > _MOST_MILLISECONDS) | (milliseconds < -_MOST_MILLISECONDS)
    return numbers(milliseconds * 1000, INSTANT, missing=beyond if beyond.any() else None)


def instants_of(times: pa.Array) -> pa.Array:
    """Return an array of milliseconds that has no nulls as ``instants``."""
    return instants(int64_values(times))


def stamped(rows: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    """Return the columns of records, with whole milliseconds: rows without a timestamp get that of now.

    Raises:
        EncodeError: timestamps are neither numbers nor times.
    """
    names = [name for name in _OF_RECORDS if name in rows.schema.names]
    if "timestamp" in rows.schema.names:
        times = whole_milliseconds(rows.column("timestamp"), now_ms)
    else:
        times = repeated(now_ms, pa.int64(), rows.num_rows)
    return pa.RecordBatch.from_arrays([*map(rows.column, names), times], names=[*names, "timestamp"])


def whole_milliseconds(times: pa.Array, now_ms: int) -> pa.Array:
    """Return times of any unit and zone, or numbers, as milliseconds, rounded down; nulls become ``now_ms``.

    Raises:
        EncodeError: they are neither.

    >>> whole_milliseconds(pa.array([-1, None], pa.timestamp("us")), 5).to_pylist()
    [-1, 5]
    """
    is_instant = pa.types.is_timestamp(times.type)
    if not (is_instant or pa.types.is_integer(times.type) or pa.types.is_null(times.type)):
        raise EncodeError(f"{times.type} is neither an integer type nor a timestamp").within("timestamp")
    try:
        if is_instant and times.type.unit == "s":
            times = times.cast(pa.timestamp("ms", times.type.tz))
        parts = _PARTS.get(times.type.unit, 1) if is_instant else 1
        counted = pc.fill_null(times.cast(pa.int64()), now_ms * parts)
    except pa.ArrowInvalid as error:
        raise EncodeError(str(error)).within("timestamp") from None
    return counted if parts == 1 else numbers(np.floor_divide(int64_values(counted), parts), pa.int64())


def int64_values(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the values of an array of 64-bit numbers or times that has no nulls, without copying them.

    >>> int64_values(pa.array([1, 2, 3]).slice(1)).tolist()
    [2, 3]
    """
    if array.null_count:
        raise ValueError("nulls have no values")
    return np.frombuffer(array.buffers()[1], np.int64, len(array), offset=8 * array.offset)
