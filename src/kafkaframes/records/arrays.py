"""Build Arrow arrays of numbers and texts from buffers, and convert timestamps to milliseconds.

``pa.array``, ``pa.scalar``, ``to_numpy`` and functions that take a Python number import pandas if it is installed. The
import of pandas takes half a second of CPU time, which every new Spark executor and every command would spend before
its first row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import EncodeError
from kafkaframes.wire.integers import MAX_INT32

_RECORD_COLUMNS = ("key", "value", "headers")
_UNITS_PER_MILLISECOND = {"us": 1_000, "ns": 1_000_000}


def int64_array(values: npt.NDArray[np.int64]) -> pa.Array:
    """Return an int64 array.

    >>> int64_array(np.array([1, 2])).to_pylist()
    [1, 2]
    """
    return pa.Array.from_buffers(pa.int64(), values.size, [None, pa.py_buffer(np.ascontiguousarray(values))])


def make_string_array(values: Sequence[str]) -> pa.Array:
    """Return a string array.

    >>> make_string_array(["orders", ""]).to_pylist()
    ['orders', '']
    """
    raw_texts = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, raw_texts)], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(raw_texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(raw_texts))]
    )


def repeat_value(value: str | int | None, kind: pa.DataType, count: int) -> pa.Array:
    """Return an array of ``count`` equal values: a text, an integer of type ``kind``, or null.

    >>> repeat_value("orders", pa.string(), 2).to_pylist(), repeat_value(3, pa.int32(), 2).to_pylist()
    (['orders', 'orders'], [3, 3])
    """
    if value is None:
        return pa.nulls(count, kind)
    if isinstance(value, str):
        text = value.encode()
        if len(text) * count > MAX_INT32:
            return pa.repeat(pa.scalar(value, kind), count)
        ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(ends), pa.py_buffer(text * count)], null_count=0)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(np.full(count, value, f"i{kind.bit_width // 8}"))])


def bool_array(values: npt.NDArray[np.bool_]) -> pa.Array:
    """Return a boolean array.

    >>> bool_array(np.array([True, False])).to_pylist()
    [True, False]
    """
    return pa.Array.from_buffers(pa.bool_(), values.size, [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def get_flag_values(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return the values of a boolean array without nulls.

    >>> get_flag_values(pa.array([True, False, True]).slice(1)).tolist()
    [False, True]
    """
    if not len(array):
        return np.zeros(0, np.bool_)
    bits = np.frombuffer(array.buffers()[1], np.uint8)
    end = array.offset + len(array)
    return np.unpackbits(bits, count=end, bitorder="little")[array.offset :].view(np.bool_)


def add_timestamps(rows: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    """Return the columns of a record, with timestamps in milliseconds; ``now_ms`` replaces missing timestamps.

    Raises:
        EncodeError: the timestamp column holds neither numbers nor timestamps.
    """
    names = [name for name in _RECORD_COLUMNS if name in rows.schema.names]
    if "timestamp" in rows.schema.names:
        times = whole_milliseconds(rows.column("timestamp"), now_ms)
    else:
        times = int64_array(np.full(rows.num_rows, now_ms, np.int64))
    return pa.RecordBatch.from_arrays([*map(rows.column, names), times], names=[*names, "timestamp"])


def whole_milliseconds(times: pa.Array, now_ms: int) -> pa.Array:
    """Return timestamps (any unit and zone) or numbers as milliseconds, rounded down; nulls become ``now_ms``.

    Raises:
        EncodeError: the values are neither numbers nor timestamps.

    >>> whole_milliseconds(pa.array([-1, None], pa.timestamp("us")), 5).to_pylist()
    [-1, 5]
    """
    is_instant = pa.types.is_timestamp(times.type)
    if not (is_instant or pa.types.is_integer(times.type) or pa.types.is_null(times.type)):
        raise EncodeError(f"{times.type} is neither an integer type nor a timestamp").within("timestamp")
    try:
        if is_instant and times.type.unit == "s":
            times = times.cast(pa.timestamp("ms", times.type.tz))
        units_per_ms = _UNITS_PER_MILLISECOND.get(times.type.unit, 1) if is_instant else 1
        values = int64_values(times.cast(pa.int64()), null_value=now_ms * units_per_ms)
    except pa.ArrowInvalid as error:
        raise EncodeError(str(error)).within("timestamp") from None
    return int64_array(values if units_per_ms == 1 else values // units_per_ms)


def int64_values(array: pa.Array, *, null_value: int | None = None) -> npt.NDArray[np.int64]:
    """Return the values of an array of 64-bit numbers or timestamps. Values without nulls are not copied.

    Nulls become ``null_value``. If ``null_value`` is None, nulls raise ``ValueError``.

    >>> int64_values(pa.array([1, 2, 3]).slice(1)).tolist(), int64_values(pa.array([1, None]), null_value=-1).tolist()
    ([2, 3], [1, -1])
    """
    if array.null_count:
        if null_value is None:
            raise ValueError("the array has nulls; specify `missing`")
        array = array.cast(pa.int64()).fill_null(int64_array(np.array([null_value]))[0])
    data = array.buffers()[1] if len(array) else b""
    return np.frombuffer(data, np.int64, len(array), offset=8 * array.offset if len(array) else 0)
