"""Arrow arrays of numbers, made from buffers; whole milliseconds.

``pa.array``, ``pa.scalar``, ``to_numpy`` and functions that take a Python number import pandas where it is installed:
half a second of CPU time, which each new executor of Spark and each command would pay for its first row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import EncodeError

_OF_RECORDS = ("key", "value", "headers")
_PARTS = {"us": 1_000, "ns": 1_000_000}  # of a millisecond


def numbers(values: npt.NDArray[np.int64]) -> pa.Array:
    """Return numbers as an array.

    >>> numbers(np.array([1, 2])).to_pylist()
    [1, 2]
    """
    return pa.Array.from_buffers(pa.int64(), values.size, [None, pa.py_buffer(np.ascontiguousarray(values))])


def stamped(rows: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    """Return the columns of records, with whole milliseconds: rows without a timestamp get that of now.

    Raises:
        EncodeError: timestamps are neither numbers nor times.
    """
    names = [name for name in _OF_RECORDS if name in rows.schema.names]
    if "timestamp" in rows.schema.names:
        times = whole_milliseconds(rows.column("timestamp"), now_ms)
    else:
        times = numbers(np.full(rows.num_rows, now_ms, np.int64))
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
    if parts == 1:
        return counted
    values = np.frombuffer(counted.buffers()[1], np.int64, len(counted), offset=8 * counted.offset)
    return numbers(values // parts)
