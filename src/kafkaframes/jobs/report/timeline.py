"""Which buckets a chart of times has: round ones of a calendar in UTC, some dozens, for where the records are.

A few records of a strange time (a client's clock, a test's 1970) would squeeze all others into one bucket: they are
counted as before or after the timeline, not drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from kafkaframes.jobs.report.histograms import DAY, HOUR, MINUTE, SECOND, Ints, Times

MOST_BUCKETS = 72
_TAIL = 0.005  # of the records, on each side, may be left out ...
_SQUEEZE = 8  # ... if that makes the timeline this many times shorter
LAST_MS = 253_402_300_799_000  # the end of the year 9999: no calendar goes on
# Round widths in milliseconds; months and years follow, which have none.
_STEPS = (
    *(scale * step for scale in (1, 10, 100) for step in (1, 2, 5)),
    *(SECOND * step for step in (1, 2, 5, 10, 15, 30)),
    *(MINUTE * step for step in (1, 2, 5, 10, 15, 30)),
    *(HOUR * step for step in (1, 2, 3, 6, 12)),
    *(DAY * step for step in (1, 2, 7)),
)
_MONTHS = (1, 3, 12, 24, 60, 120, 600, 1200, 6000, 12000)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Timeline(NamedTuple):
    """Buckets between ``edges`` (milliseconds, ascending, one more than there are buckets).

    Attributes:
        counts: records in each bucket.
        before, after: records outside.
        unit: a bucket's width in words: ``10 minutes``.
    """

    edges: list[int]
    counts: list[int]
    before: int
    after: int
    unit: str

    def of(self, times: Times) -> list[int]:
        """Return the counts of other records in the same buckets."""
        return _counted(self.edges, times.starts, times.counts)[0] if self.edges else []


def timeline(times: Times) -> Timeline:
    """Choose the buckets for what is known of all records; without a timestamp there are none."""
    low, high = _range(times)
    if high < 0:
        return Timeline([], [], 0, int(times.counts.sum()), "")
    edges, unit = calendar_edges(low, high, times.width_ms)
    counts, before, after = _counted(edges, times.starts, times.counts)
    return Timeline(edges, counts, before, after, unit)


def _range(times: Times) -> tuple[int, int]:
    known = times.starts <= LAST_MS
    starts, counts = times.starts[known], times.counts[known]
    if starts.size == 0:
        return -1, -1
    first, last = int(starts[0]), int(starts[-1])
    shares = np.cumsum(counts) / counts.sum()
    low = int(starts[int(np.searchsorted(shares, _TAIL))])
    high = int(starts[min(int(np.searchsorted(shares, 1 - _TAIL)), starts.size - 1)])
    margin = (high - low) // 10 + times.width_ms
    low, high = max(first, low - margin), min(last, high + margin)
    return (low, high) if (high - low + 1) * _SQUEEZE < last - first else (first, last)


def _counted(edges: list[int], starts: Ints, counts: Ints) -> tuple[list[int], int, int]:
    indexes = np.searchsorted(np.asarray(edges, np.int64), starts, side="right")
    result = np.bincount(indexes, counts, minlength=len(edges) + 1).astype(np.int64).tolist()
    return result[1 : len(edges)], result[0], sum(result[len(edges) :])


def calendar_edges(low: int, high: int, width: int) -> tuple[list[int], str]:
    """Return the edges of round buckets from one time to another, and a bucket's width in words.

    ``width`` (milliseconds) is how exactly the times are known: no bucket is narrower.
    """
    for step in _STEPS:
        if step % width == 0 and high // step - low // step < MOST_BUCKETS:
            return list(range(low - low % step, high + step + 1, step)), width_text(step)
    for months in _MONTHS:
        edges = list(_months(low, high, months))
        if len(edges) <= MOST_BUCKETS + 1:
            break
    return edges, _months_text(months)


def _months(low: int, high: int, step: int) -> Iterator[int]:
    """Yield the beginnings of every ``step``-th month, from the one that holds ``low`` to the one after ``high``."""
    first = _time(low)
    number = (first.year * 12 + first.month - 1) // step * step
    while True:
        year, month = divmod(number, 12)
        start = LAST_MS + 1 if year > 9999 else int(datetime(max(year, 1), month + 1, 1, tzinfo=UTC).timestamp()) * 1000
        yield start
        if start > high or year > 9999:
            return
        number += step


def _time(at: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at)


_UNITS = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"), (1, "millisecond"))


def width_text(width: int) -> str:
    """Write the width of a bucket.

    >>> width_text(600_000), width_text(86_400_000), width_text(604_800_000), width_text(1)
    ('10 minutes', 'day', '7 days', 'millisecond')
    """
    for size, name in _UNITS:
        if width % size == 0:
            return _plural(width // size, name)
    raise ValueError(f"{width} is no width")


def _months_text(months: int) -> str:
    return _plural(months // 12, "year") if months % 12 == 0 else "quarter" if months == 3 else _plural(months, "month")


def _plural(count: int, name: str) -> str:
    return name if count == 1 else f"{count} {name}s"


class Tick(NamedTuple):
    """A label of the axis at a time; ``is_new`` where the greater unit changes (a new day below hours)."""

    at: int
    label: str
    is_new: bool = False


def ticks(edges: list[int], *, about: int = 8) -> list[Tick]:
    """Return round times between the first and the last edge, with labels, in UTC."""
    low, high = edges[0], edges[-1]
    for step in _STEPS:
        if (high - low) / step <= about:
            result = list(range(-(-low // step) * step, high + 1, step))
            return _labelled(result, next(label for least, label in _LABELS if step >= least))
    for months in _MONTHS:
        result = [one for one in _months(low, high, months) if low <= one <= min(high, LAST_MS)]
        if len(result) <= about + 1:
            break
    return _labelled(result, _years if months >= 12 else _of_months)


Label = Callable[[datetime], tuple[str, str]]


def _days(time: datetime) -> tuple[str, str]:
    return f"{time.day} {time:%b}", f"{time.year}"


def _minutes(time: datetime) -> tuple[str, str]:
    return f"{time:%H:%M}", f"{time.day} {time:%b} {time.year}"


def _seconds(time: datetime) -> tuple[str, str]:
    return f"{time:%H:%M:%S}", f"{time.day} {time:%b} {time.year}"


def _millis(time: datetime) -> tuple[str, str]:
    return f"{time:%H:%M:%S}.{time.microsecond // 1000:03}", f"{time.day} {time:%b} {time.year}"


_LABELS = ((DAY, _days), (MINUTE, _minutes), (SECOND, _seconds), (1, _millis))


def _of_months(time: datetime) -> tuple[str, str]:
    return f"{time:%b}", f"{time.year}"


def _years(time: datetime) -> tuple[str, str]:
    return f"{time.year}", ""


def _labelled(result: list[int], label: Label) -> list[Tick]:
    ticks, before = [], None
    for at in result:
        small, great = label(_time(at))
        ticks.append(Tick(at, f"{small}\n{great}".strip() if great != before else small, great != before))
        before = great
    return ticks
