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

INSTANT = pa.timestamp("us", tz="UTC")
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


def whole_milliseconds(times: pa.Array, now_ms: int) -> pa.Array:
    """Return times of any unit and zone, or numbers, as milliseconds, rounded down; nulls become ``now_ms``.

    >>> whole_milliseconds(pa.array([-1, None], pa.timestamp("us")), 5).to_pylist()
    [-1, 5]
    """
    if not pa.types.is_timestamp(times.type):
        return pc.fill_null(times.cast(pa.int64()), now_ms)
    micros = pc.fill_null(times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()), now_ms * 1000)
    return pa.array(np.floor_divide(micros.to_numpy(zero_copy_only=False), 1000))


def int64_values(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the values of an array of 64-bit numbers or times that has no nulls, without copying them.

    >>> int64_values(pa.array([1, 2, 3]).slice(1)).tolist()
    [2, 3]
    """
    if array.null_count:
        raise ValueError("nulls have no values")
    return np.frombuffer(array.buffers()[1], np.int64, len(array), offset=8 * array.offset)
