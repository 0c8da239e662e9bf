"""Format numbers for people: sizes, counts, times and shares. Choose round numbers for axes."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNT_UNITS = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_DURATION_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
NO_VALUE_TEXT = "–"  # shown if a number is unknown or does not apply
_UNIX_EPOCH = datetime(1970, 1, 1)  # timestamp 0


def format_size(size_bytes: float) -> str:
    """Format a size with three significant digits and a unit.

    >>> format_size(0), format_size(1536), format_size(10 * 2**20), format_size(123 * 2**30 + 5)
    ('0 B', '1.50 KiB', '10.0 MiB', '123 GiB')
    """
    value, unit = _scale_size(size_bytes)
    return f"{_format_three_digits(value) if unit else round(value)} {_SIZE_UNITS[unit]}"


def _scale_size(size_bytes: float) -> tuple[float, int]:
    """Return a size below 1,000 and the index of its unit in ``_SIZE_UNITS``."""
    value, unit = float(size_bytes), 0
    while value >= 999.5 and unit < len(_SIZE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return value, unit


def format_size_tick(size_bytes: float) -> str:
    """Format a round size, for an axis.

    >>> format_size_tick(1536), format_size_tick(10 * 2**20), format_size_tick(512)
    ('1.5 KiB', '10 MiB', '512 B')
    """
    value, unit = _scale_size(size_bytes)
    return f"{_format_digits(value)} {_SIZE_UNITS[unit]}"


def _format_three_digits(value: float) -> str:
    """Return a number with three significant digits; an integer from 100 on."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _format_digits(value: float) -> str:
    """Return a number with three digits, without trailing zeros."""
    text = _format_three_digits(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_count_tick(count: float) -> str:
    """Format a count for an axis.

    >>> format_count_tick(950), format_count_tick(1_500), format_count_tick(20_000_000)
    ('950', '1.5k', '20M')
    """
    for size, unit in _COUNT_UNITS:
        if count >= size:
            return f"{_format_digits(count / size)}{unit}"
    return _format_digits(count)


def format_count(count: int) -> str:
    """Format a count as a number without a noun.

    >>> format_count(1200)
    '1,200'
    """
    return f"{count:,}"


def format_share(part: float, whole: float) -> str:
    """Format a share in percent. A small share is not rounded to 0 %, and a large one not to 100 %.

    >>> format_share(1, 3), format_share(1, 10_000), format_share(9_999, 10_000), format_share(0, 5)
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


def format_ratio(raw: int, stored_bytes: int) -> str:
    """Format a compression ratio.

    >>> format_ratio(250, 100), format_ratio(5, 0)
    ('2.50×', '–')
    """
    return f"{raw / stored_bytes:.2f}×" if stored_bytes else NO_VALUE_TEXT


def format_time(timestamp_ms: int | None) -> str:
    """Format a time in UTC. None and -1 become a dash; times outside the years 1 to 9999 stay in milliseconds.

    >>> format_time(1_700_000_000_123), format_time(-1), format_time(-2), format_time(2**62)
    ('2023-11-14 22:13:20', '–', '1969-12-31 23:59:59', '4611686018427387904 ms')
    """
    if timestamp_ms is None or timestamp_ms == -1:
        return NO_VALUE_TEXT
    try:
        return str(_UNIX_EPOCH + timedelta(seconds=timestamp_ms // 1000))
    except OverflowError:
        return f"{timestamp_ms} ms"


def format_minute(timestamp_ms: int) -> str:
    """Format a time without its seconds."""
    text = format_time(timestamp_ms)
    return text if text.endswith("ms") else text[:16]


def format_duration(milliseconds: float) -> str:
    """Format a duration.

    >>> format_duration(250), format_duration(1500), format_duration(90_000), format_duration(3 * 86_400_000)
    ('250 ms', '1.50 s', '1.50 min', '3.00 d')
    """
    for size, unit in _DURATION_UNITS:
        if milliseconds >= size:
            return f"{_format_three_digits(milliseconds / size)} {unit}"
    return f"{milliseconds:,.0f} ms"


def format_duration_tick(milliseconds: float) -> str:
    """Format a duration for an axis, with two digits.

    >>> format_duration_tick(1024), format_duration_tick(65536), format_duration_tick(131072), format_duration_tick(512)
    ('1 s', '1.1 min', '2.2 min', '510 ms')
    """
    for size, unit in (*_DURATION_UNITS, (1, "ms")):
        if milliseconds >= size:
            value = float(f"{milliseconds / size:.2g}")
            return f"{value:g} {unit}"
    return "0"


def choose_axis_ticks(max_value: float, *, tick_count: int = 4, binary: bool = False) -> list[float]:
    """Return round numbers from 0 to at least ``max_value``: the ticks of an axis.

    >>> choose_axis_ticks(730), choose_axis_ticks(3), choose_axis_ticks(0)
    ([0, 200, 400, 600, 800], [0, 1, 2, 3], [0, 1])
    >>> choose_axis_ticks(300_000, binary=True)
    [0, 102400, 204800, 307200]
    """
    unit = 1024 ** min(int(math.log(max_value, 1024)), 5) if binary and max_value >= 1024 else 1
    raw_step = max(max_value / unit / tick_count, 1e-9)
    power = 10 ** math.floor(math.log10(raw_step))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw_step * 0.999)
    step = max(step, 1) if unit == 1 else step
    count = max(math.ceil(max_value / unit / step - 1e-9), 1)
    return [
        round(number * step * unit, 6) if step * unit % 1 else int(number * step * unit) for number in range(count + 1)
    ]
