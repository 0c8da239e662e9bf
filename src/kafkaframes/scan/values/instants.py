"""Format dates and timestamps: ISO 8601 for the years 1 to 9999, otherwise a number. Pure.

ISO 8601 and its parsers support years of four digits. Other timestamps are formatted as milliseconds since 1970, and
other dates as days since 1970.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

NANOSECONDS_PER_SECOND: Final = 1_000_000_000
NANOSECONDS_PER_MILLISECOND: Final = 1_000_000
_NANOSECONDS_PER_DAY: Final = 86_400 * NANOSECONDS_PER_SECOND
_EPOCH: Final = datetime(1970, 1, 1)
_MIN_EPOCH_SECOND: Final = -62_135_596_800  # the year 1
_MAX_EPOCH_SECOND: Final = 253_402_300_799  # the year 9999


def format_local(nanoseconds: int) -> str:
    """Return a date and time without a zone, with 0, 3, 6 or 9 digits of the second as necessary.

    >>> format_local(1_700_000_000_250_000_000), format_local(-62_135_596_801 * 10**9)
    ('2023-11-14T22:13:20.250', '-62135596801000')
    """
    seconds, fraction = divmod(nanoseconds, NANOSECONDS_PER_SECOND)
    if not _MIN_EPOCH_SECOND <= seconds <= _MAX_EPOCH_SECOND:
        return str(nanoseconds // NANOSECONDS_PER_MILLISECOND)
    text = (_EPOCH + timedelta(seconds=seconds)).isoformat()
    if not fraction:
        return text
    digits = f"{fraction:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}"


def format_instant(nanoseconds: int) -> str:
    """Return a timestamp in UTC.

    >>> format_instant(0)
    '1970-01-01T00:00:00Z'
    """
    text = format_local(nanoseconds)
    return text if text.lstrip("-").isdecimal() else f"{text}Z"


def format_date(nanoseconds: int) -> str:
    """Return the date of a timestamp, or the number of days since 1970.

    >>> format_date(86_400 * 10**9), format_date(10**6 * 86_400 * 10**9), format_date(10**7 * 86_400 * 10**9)
    ('1970-01-02', '4707-11-29', '10000000')
    """
    days = nanoseconds // _NANOSECONDS_PER_DAY
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return str(days)


def is_in_calendar(milliseconds: pa.Array) -> pa.Array:
    """Return a mask of the timestamps that are in the years 1 to 9999 or null."""
    first, last = _MIN_EPOCH_SECOND * 1000, _MAX_EPOCH_SECOND * 1000 + 999
    return pc.fill_null(pc.and_(pc.greater_equal(milliseconds, first), pc.less_equal(milliseconds, last)), True)


def format_instants(times: pa.Array) -> pa.Array:
    """Return an array of millisecond timestamps as text, in the format of Arrow's CSV writer.

    >>> format_instants(pa.array([0, 2**62], pa.timestamp("ms", "UTC"))).to_pylist()
    ['1970-01-01 00:00:00.000Z', '4611686018427387904']
    """
    milliseconds = times.cast(pa.int64())
    in_calendar = is_in_calendar(milliseconds)
    calendar_times = pc.if_else(in_calendar, times, pa.scalar(None, times.type))
    return pc.if_else(in_calendar, calendar_times.cast(pa.string()), milliseconds.cast(pa.string()))
