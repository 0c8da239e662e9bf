"""Format numbers for people: sizes, counts, times and shares. Choose round numbers for axes."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNT_UNITS = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_DURATIONS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
NONE = "–"
_EPOCH = datetime(1970, 1, 1)


def size_text(size_bytes: float) -> str:
    """Write a size with three digits.

    >>> size_text(0), size_text(1536), size_text(10 * 2**20), size_text(123 * 2**30 + 5)
    ('0 B', '1.50 KiB', '10.0 MiB', '123 GiB')
    """
    value, unit = _scale_size(size_bytes)
    return f"{_three(value) if unit else round(value)} {_UNITS[unit]}"


def _scale_size(size_bytes: float) -> tuple[float, int]:
    value, unit = float(size_bytes), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return value, unit


def size_mark(size_bytes: float) -> str:
    """Write a round size, for an axis.

    >>> size_mark(1536), size_mark(10 * 2**20), size_mark(512)
    ('1.5 KiB', '10 MiB', '512 B')
    """
    value, unit = _scale_size(size_bytes)
    return f"{_digits(value)} {_UNITS[unit]}"


def _three(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _digits(value: float) -> str:
    text = _three(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def short_text(count: float) -> str:
    """Write a count for an axis.

    >>> short_text(950), short_text(1_500), short_text(20_000_000)
    ('950', '1.5k', '20M')
    """
    for size, unit in _COUNT_UNITS:
        if count >= size:
            return f"{_digits(count / size)}{unit}"
    return _digits(count)


def count_mark(count: int) -> str:
    """Write a count alone.

    >>> count_mark(1200)
    '1,200'
    """
    return f"{count:,}"


def share_text(part: float, whole: float) -> str:
    """Format a share in percent. A small share is not rounded to 0 %, and a large one not to 100 %.

    >>> share_text(1, 3), share_text(1, 10_000), share_text(9_999, 10_000), share_text(0, 5)
    ('33 %', '< 0.1 %', '> 99.9 %', '0 %')
    """
    if not whole or not part:
        return "0 %"
    share = 100 * part / whole
    if share < 0.1:
        return "< 0.1 %"
    if 99.9 < share < 100:
        return "> 99.9 %"
    return f"{share:.1f} %" if share < 10 or 90 < share < 100 else f"{share:.0f} %"


def ratio_text(raw: int, stored_bytes: int) -> str:
    """Format a compression ratio.

    >>> ratio_text(250, 100), ratio_text(5, 0)
    ('2.50×', '–')
    """
    return f"{raw / stored_bytes:.2f}×" if stored_bytes else NONE


def time_text(timestamp_ms: int | None) -> str:
    """Return a time in UTC; a dash for None or -1; milliseconds for a time outside of the years 1 to 9999.

    >>> time_text(1_700_000_000_123), time_text(-1), time_text(-2), time_text(2**62)
    ('2023-11-14 22:13:20', '–', '1969-12-31 23:59:59', '4611686018427387904 ms')
    """
    if timestamp_ms is None or timestamp_ms == -1:
        return NONE
    try:
        return str(_EPOCH + timedelta(seconds=timestamp_ms // 1000))
    except OverflowError:
        return f"{timestamp_ms} ms"


def minute_text(timestamp_ms: int) -> str:
    """Format a time without its seconds."""
    text = time_text(timestamp_ms)
    return text if text.endswith("ms") else text[:16]


def duration_text(milliseconds: float) -> str:
    """Write a duration.

    >>> duration_text(250), duration_text(1500), duration_text(90_000), duration_text(3 * 86_400_000)
    ('250 ms', '1.50 s', '1.50 min', '3.00 d')
    """
    for size, unit in _DURATIONS:
        if milliseconds >= size:
            return f"{_three(milliseconds / size)} {unit}"
    return f"{milliseconds:,.0f} ms"


def duration_mark(milliseconds: float) -> str:
    """Write a duration for an axis, with two digits.

    >>> duration_mark(1024), duration_mark(65536), duration_mark(131072), duration_mark(512)
    ('1 s', '1.1 min', '2.2 min', '510 ms')
    """
    for size, unit in (*_DURATIONS, (1, "ms")):
        if milliseconds >= size:
            value = float(f"{milliseconds / size:.2g}")
            return f"{value:g} {unit}"
    return "0"


def steps(largest: float, *, tick_count: int = 4, binary: bool = False) -> list[float]:
    """Return round numbers from 0 to at least ``largest``: the ticks of an axis.

    >>> steps(730), steps(3), steps(0)
    ([0, 200, 400, 600, 800], [0, 1, 2, 3], [0, 1])
    >>> steps(300_000, binary=True)
    [0, 102400, 204800, 307200]
    """
    unit = 1024 ** min(int(math.log(largest, 1024)), 5) if binary and largest >= 1024 else 1
    raw_step = max(largest / unit / tick_count, 1e-9)
    power = 10 ** math.floor(math.log10(raw_step))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= raw_step * 0.999)
    step = max(step, 1) if unit == 1 else step
    count = max(math.ceil(largest / unit / step - 1e-9), 1)
    return [
        round(number * step * unit, 6) if step * unit % 1 else int(number * step * unit) for number in range(count + 1)
    ]
