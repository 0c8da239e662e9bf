"""Compute histograms of sizes and times and count distinct keys, in one pass and in bounded memory.

Histograms of sizes have fixed bounds. The longer the time range of a histogram of times, the wider its buckets.
Histograms and counters are small, and can be pickled and merged. The result does not depend on the distribution of
records over processes.

The number of distinct keys is exact up to ``MAX_STORED_HASHES``. Larger numbers are estimated from the smallest hashes.
64-bit hashes are evenly distributed, so the largest of the ``MAX_STORED_HASHES`` smallest hashes gives the total number
(KMV: "k minimum values", as in theta sketches). The standard error is 1 / sqrt(MAX_STORED_HASHES - 2): 0.8 %. Unlike a
HyperLogLog, small counts are exact, and two counters are merged as sets.

A chart of times (``choose_timeline``) has a few dozen buckets with round calendar bounds in UTC, which cover most
records. A few records with an implausible time (a wrong clock, or 1970 in a test) would move all other records into one
bucket. Such records are counted as before or after the timeline, and are not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.jobs.report import _kernels

MAX_STORED_HASHES = 1 << 14  # up to this number of distinct keys, the count is exact
DISTINCT_COUNT_STANDARD_ERROR = 1 / math.sqrt(MAX_STORED_HASHES - 2)
_HASH_COUNT = 2.0**64  # number of different 64-bit hashes

Hashes = npt.NDArray[np.uint64]


def hash_keys(buf: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64], sizes: npt.NDArray[np.int32]) -> Hashes:
    """Return the hash of each key that is not null. A negative size means that the key is null."""
    result = np.empty(positions.size, np.int64)
    count = _kernels.hash_keys(buf, positions, sizes, result)
    return result[:count].view(np.uint64)


class DistinctCounter:
    """A counter of distinct keys: their smallest hashes, up to ``MAX_STORED_HASHES``."""

    def __init__(self) -> None:
        self.hashes: Hashes = np.empty(0, np.uint64)
        self.is_exact = True

    def add_hashes(self, hashes: Hashes) -> None:
        """Add the hashes of keys."""
        if self.hashes.size == MAX_STORED_HASHES:
            hashes = hashes[hashes <= self.hashes[-1]]
        if hashes.size:
            result = np.sort(np.concatenate((self.hashes, hashes)))  # np.unique took three times as long (numpy 2.4)
            result = result[np.append(result[1:] != result[:-1], True)]
            self.is_exact = self.is_exact and result.size <= MAX_STORED_HASHES
            self.hashes = result[:MAX_STORED_HASHES].copy()

    def merge(self, other: DistinctCounter) -> None:
        """Add the hashes of another counter."""
        self.is_exact = self.is_exact and other.is_exact
        self.add_hashes(other.hashes)

    def count(self) -> int:
        """Return the number of distinct keys; it is an estimate for more than ``MAX_STORED_HASHES`` keys."""
        if self.is_exact:
            return int(self.hashes.size)
        return round((MAX_STORED_HASHES - 1) * _HASH_COUNT / (float(self.hashes[-1]) + 1.0))


Ints = npt.NDArray[np.int64]

_BUCKETS_PER_OCTAVE = 8  # buckets between two powers of two: the error of a quantile is at most 1/16
_OCTAVE_COUNT = 42  # the buckets cover this many powers of two
_MAX_BUCKET_NUMBER = (1 << (_OCTAVE_COUNT + 2)) - 1


class HistogramBin(NamedTuple):
    """The number of values from ``low`` (inclusive) to ``high`` (exclusive)."""

    low: int
    high: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which a bin does not need


class SizeHistogram:
    """A histogram of sizes or durations. Sum, minimum and maximum are exact."""

    def __init__(self) -> None:
        self.counts: Ints = np.zeros(_BUCKETS_PER_OCTAVE * _OCTAVE_COUNT, np.int64)
        self.total = 0
        self.smallest = 0
        self.largest = 0

    def __len__(self) -> int:
        return int(self.counts.sum())

    def add_values(self, values: npt.NDArray[Any]) -> None:
        """Add values, which must not be negative."""
        if values.size == 0:
            return
        low, high = int(values.min()), int(values.max())
        self.smallest = low if len(self) == 0 else min(self.smallest, low)
        self.largest = max(self.largest, high)
        self.counts += np.bincount(_find_buckets(values), minlength=self.counts.size)
        self.total += int(values.sum(dtype=np.int64))

    def merge(self, other: SizeHistogram) -> None:
        """Add the values of another histogram."""
        if len(other) == 0:
            return
        self.smallest = other.smallest if len(self) == 0 else min(self.smallest, other.smallest)
        self.largest = max(self.largest, other.largest)
        self.counts = self.counts + other.counts
        self.total += other.total

    def estimate_quantile(self, share: float) -> int:
        """Return an approximate quantile of the values; 0 without values."""
        count = len(self)
        if count == 0:
            return 0
        rank = max(int(np.ceil(share * count)), 1)
        bucket = int(np.searchsorted(np.cumsum(self.counts), rank))
        midpoint = (_compute_lower_bound(bucket) + _compute_lower_bound(bucket + 1) - 1) // 2
        return min(max(midpoint, self.smallest), self.largest)

    def list_octaves(self) -> list[HistogramBin]:
        """Return bins whose bounds are powers of two, from the first bin to the last one that has values.

        Zero has its own bin.

        >>> sizes = SizeHistogram()
        >>> sizes.add_values(np.array([0, 5, 5, 16]))
        >>> [(one.low, one.high, one.count) for one in sizes.list_octaves()]
        [(0, 1, 1), (1, 2, 0), (2, 4, 0), (4, 8, 2), (8, 16, 0), (16, 32, 1)]
        """
        starts = [0, 1, 2, 4, *range(_BUCKETS_PER_OCTAVE, self.counts.size, _BUCKETS_PER_OCTAVE)]
        counts = np.add.reduceat(self.counts, starts)
        result = [
            HistogramBin(_compute_lower_bound(start), _compute_lower_bound(end), int(count))
            for start, end, count in zip(starts, [*starts[1:], self.counts.size], counts, strict=True)
        ]
        used_buckets = [index for index, index_of_bin in enumerate(result) if index_of_bin.count]
        return result[used_buckets[0] : used_buckets[-1] + 1] if used_buckets else []


def _find_buckets(values: npt.NDArray[Any]) -> Ints:
    """Return the bucket number of each value, from a table if all values are small."""
    if values.max() < _BUCKET_BY_SMALL_VALUE.size:
        result: Ints = _BUCKET_BY_SMALL_VALUE[values]
        return result
    return _compute_buckets(values)


def _compute_buckets(values: npt.NDArray[Any]) -> Ints:
    """Return the bucket number of each value. There are 8 buckets between two powers of two."""
    small = np.minimum(values.astype(np.int64), _MAX_BUCKET_NUMBER)
    exponents = np.frexp(small.astype(np.float64))[1].astype(np.int64) - 1
    shifts = np.maximum(exponents - 3, 0)
    buckets: Ints = np.where(
        small < _BUCKETS_PER_OCTAVE,
        small,
        (exponents - 2) * _BUCKETS_PER_OCTAVE + ((small >> shifts) & (_BUCKETS_PER_OCTAVE - 1)),
    )
    return buckets


_BUCKET_BY_SMALL_VALUE: Ints = _compute_buckets(np.arange(1 << 16))


def _compute_lower_bound(bucket: int) -> int:
    """Return the smallest value of a bucket."""
    if bucket < _BUCKETS_PER_OCTAVE:
        return bucket
    octave, step = divmod(bucket, _BUCKETS_PER_OCTAVE)
    return int((_BUCKETS_PER_OCTAVE + step) << (octave - 1))


# Widths of buckets in milliseconds. Each divides the next, so the buckets of a histogram can be joined exactly.
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
BUCKET_WIDTHS_MS: tuple[int, ...] = (
    1,
    10,
    100,
    SECOND,
    10 * SECOND,
    MINUTE,
    10 * MINUTE,
    HOUR,
    6 * HOUR,
    DAY,
    *(DAY * 10**n for n in range(1, 9)),
)
MAX_BUCKETS = 2048  # with more buckets, their width increases


class TimeHistogram:
    """A histogram of record timestamps. Only buckets with records are stored, at most ``MAX_BUCKETS``.

    A record with an implausible time therefore only adds one bucket, and does not widen the others.

    Attributes:
        starts: start of each bucket in milliseconds, ascending.
        without: number of records without a timestamp.
        first, last: exact smallest and largest timestamp, in milliseconds; -1 without timestamps.
    """

    def __init__(self) -> None:
        self.starts: Ints = np.empty(0, np.int64)
        self.counts: Ints = np.empty(0, np.int64)
        self.without = 0
        self.first = -1
        self.last = -1
        self._rung = 0

    @property
    def width_ms(self) -> int:
        """The width of a bucket, in milliseconds."""
        return BUCKET_WIDTHS_MS[self._rung]

    def add_timestamps(self, timestamps: Ints) -> None:
        """Add the timestamps of records, in milliseconds. A negative timestamp counts as missing."""
        known_times = timestamps[timestamps >= 0] if timestamps.size and timestamps.min() < 0 else timestamps
        self.without += int(timestamps.size - known_times.size)
        if known_times.size == 0:
            return
        self._extend_range(int(known_times.min()), int(known_times.max()))
        starts = known_times - known_times % self.width_ms
        run_starts = np.flatnonzero(
            np.diff(starts, prepend=starts[0] - 1)
        )  # times ascend in most logs, so there are few runs
        self._add_run_counts(starts[run_starts], np.diff(run_starts, append=starts.size))

    def merge(self, other: TimeHistogram) -> None:
        """Add the times of another histogram."""
        self.without += other.without
        if other.first >= 0:
            self._extend_range(other.first, other.last)
            self._rung = max(self._rung, other._rung)
            self._add_run_counts(other.starts, other.counts)

    def _extend_range(self, first: int, last: int) -> None:
        """Extend the time range."""
        self.first = first if self.first < 0 else min(self.first, first)
        self.last = max(self.last, last)

    def _add_run_counts(self, starts: Ints, counts: Ints) -> None:
        """Add counts of records by bucket start, and widen the buckets if there are too many."""
        starts, counts = np.concatenate((self.starts, starts)), np.concatenate((self.counts, counts))
        while True:
            self.starts, indexes = np.unique(starts - starts % self.width_ms, return_inverse=True)
            if self.starts.size <= MAX_BUCKETS or self._rung == len(BUCKET_WIDTHS_MS) - 1:
                break
            self._rung += 1
        self.counts = np.zeros(self.starts.size, np.int64)
        np.add.at(self.counts, indexes, counts)


MAX_TIMELINE_COLUMNS = 72  # largest number of columns in the chart of records over time
_MAX_TAIL_SHARE = 0.005  # largest fraction of the records that the timeline may omit at each end
_MIN_SHORTENING_FACTOR = 8  # records are omitted only if this makes the timeline at least this many times shorter
MAX_CALENDAR_MS = 253_402_300_799_000  # the end of the year 9999, at which Python's calendar ends
# Round widths in milliseconds. Months and years, which vary in width, follow separately.
_TIME_STEPS_MS = (
    *(scale * step for scale in (1, 10, 100) for step in (1, 2, 5)),
    *(SECOND * step for step in (1, 2, 5, 10, 15, 30)),
    *(MINUTE * step for step in (1, 2, 5, 10, 15, 30)),
    *(HOUR * step for step in (1, 2, 3, 6, 12)),
    *(DAY * step for step in (1, 2, 7)),
)
_MONTH_STEPS = (1, 3, 12, 24, 60, 120, 600, 1200, 6000, 12000)  # round bucket widths of whole months
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # timestamp 0


class Timeline(NamedTuple):
    """Counts of records in consecutive buckets.

    Attributes:
        edges: bounds of the buckets in milliseconds, ascending, one more than there are buckets.
        before, after: number of records before the first and after the last edge.
        unit: width of a bucket in words, such as ``10 minutes``.
    """

    edges: list[int]
    counts: list[int]
    before: int
    after: int
    unit: str

    def count_in_buckets(self, times: TimeHistogram) -> list[int]:
        """Return the counts of another histogram's records in the buckets of this timeline."""
        return _count_by_edge(self.edges, times.starts, times.counts)[0] if self.edges else []


def choose_timeline(times: TimeHistogram) -> Timeline:
    """Choose the buckets of a timeline for the timestamps of all records. Without timestamps there are no buckets."""
    low, high = _choose_range(times)
    if high < 0:
        return Timeline([], [], 0, int(times.counts.sum()), "")
    edges, unit = round_calendar_edges(low, high, times.width_ms)
    counts, before, after = _count_by_edge(edges, times.starts, times.counts)
    return Timeline(edges, counts, before, after, unit)


def _choose_range(times: TimeHistogram) -> tuple[int, int]:
    """Return the first and last time of the timeline, ignoring rare times far from all others; -1 without times."""
    is_in_calendar = times.starts <= MAX_CALENDAR_MS
    starts, counts = times.starts[is_in_calendar], times.counts[is_in_calendar]
    if starts.size == 0:
        return -1, -1
    first, last = int(starts[0]), int(starts[-1])
    shares = np.cumsum(counts) / counts.sum()
    low = int(starts[int(np.searchsorted(shares, _MAX_TAIL_SHARE))])
    high = int(starts[min(int(np.searchsorted(shares, 1 - _MAX_TAIL_SHARE)), starts.size - 1)])
    tail_records = (high - low) // 10 + times.width_ms
    low, high = max(first, low - tail_records), min(last, high + tail_records)
    return (low, high) if (high - low + 1) * _MIN_SHORTENING_FACTOR < last - first else (first, last)


def _count_by_edge(edges: list[int], starts: Ints, counts: Ints) -> tuple[list[int], int, int]:
    """Return the counts between the edges, before the first and after the last one."""
    indexes = np.searchsorted(np.asarray(edges, np.int64), starts, side="right")
    result = np.bincount(indexes, counts, minlength=len(edges) + 1).astype(np.int64).tolist()
    return result[1 : len(edges)], result[0], sum(result[len(edges) :])


def round_calendar_edges(low: int, high: int, width: int) -> tuple[list[int], str]:
    """Return the edges of buckets with round widths between two times, and the width of a bucket in words.

    ``width`` is the precision of the times, in milliseconds. Buckets are at least this wide.
    """
    for step in _TIME_STEPS_MS:
        if step % width == 0 and high // step - low // step < MAX_TIMELINE_COLUMNS:
            return list(range(low - low % step, high + step + 1, step)), format_width(step)
    for months in _MONTH_STEPS:
        edges = list(_iterate_months(low, high, months))
        if len(edges) <= MAX_TIMELINE_COLUMNS + 1:
            break
    return edges, _format_months(months)


def _iterate_months(low: int, high: int, step: int) -> Iterator[int]:
    """Yield the start of every ``step``-th month, from the one that contains ``low`` to the first after ``high``."""
    first = _to_datetime(low)
    number = (first.year * 12 + first.month - 1) // step * step
    while True:
        year, month = divmod(number, 12)
        start = (
            MAX_CALENDAR_MS + 1
            if year > 9999
            else int(datetime(max(year, 1), month + 1, 1, tzinfo=UTC).timestamp()) * 1000
        )
        yield start
        if start > high or year > 9999:
            return
        number += step


def _to_datetime(milliseconds: int) -> datetime:
    """Return a time in milliseconds since 1970 as a datetime in UTC."""
    return _UNIX_EPOCH + timedelta(milliseconds=milliseconds)


_WIDTH_UNITS = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"), (1, "millisecond"))


def format_width(width: int) -> str:
    """Format the width of a bucket.

    >>> format_width(600_000), format_width(86_400_000), format_width(604_800_000), format_width(1)
    ('10 minutes', 'day', '7 days', 'millisecond')
    """
    return next(_format_plural(width // size, name) for size, name in _WIDTH_UNITS if width % size == 0)


def _format_months(months: int) -> str:
    return (
        _format_plural(months // 12, "year")
        if months % 12 == 0
        else "quarter"
        if months == 3
        else _format_plural(months, "month")
    )


def _format_plural(count: int, name: str) -> str:
    return name if count == 1 else f"{count} {name}s"


class AxisTick(NamedTuple):
    """A label on a time axis. ``is_new`` is set if a larger unit changes (a new day between hours)."""

    position: int
    label: str
    is_new: bool = False


def choose_ticks(edges: list[int], *, tick_count: int = 8) -> list[AxisTick]:
    """Return round times between the first and the last edge, with labels, in UTC."""
    low, high = edges[0], edges[-1]
    for step in _TIME_STEPS_MS:
        if (high - low) / step <= tick_count:
            result = list(range(-(-low // step) * step, high + 1, step))
            return _label_ticks(result, next(label for min_step, label in _LABEL_FORMATS if step >= min_step))
    for months in _MONTH_STEPS:
        result = [
            month_start
            for month_start in _iterate_months(low, high, months)
            if low <= month_start <= min(high, MAX_CALENDAR_MS)
        ]
        if len(result) <= tick_count + 1:
            break
    return _label_ticks(result, _YEARS if months >= 12 else _OF_MONTHS)


# Format of a label, and of the larger unit, by the minimum step in milliseconds. The first match applies.
_DAY, _YEAR = "{0.day} {0:%b} {0.year}", "{0.year}"
_LABEL_FORMATS = (
    (DAY, ("{0.day} {0:%b}", _YEAR)),
    (MINUTE, ("{0:%H:%M}", _DAY)),
    (SECOND, ("{0:%H:%M:%S}", _DAY)),
    (1, ("{0:%H:%M:%S}.{1:03}", _DAY)),
)
_YEARS, _OF_MONTHS = (_YEAR, ""), ("{0:%b}", _YEAR)


def _label_ticks(result: list[int], label: tuple[str, str]) -> list[AxisTick]:
    """Return labelled ticks.

    A tick gets an outer label (such as the day) only if the label differs from the previous one.
    """
    ticks, previous_time = [], None
    for time in result:
        inner_label, outer_label = (text.format(_to_datetime(time), time % SECOND) for text in label)
        ticks.append(
            AxisTick(
                time,
                f"{inner_label}\n{outer_label}".strip() if outer_label != previous_time else inner_label,
                outer_label != previous_time,
            )
        )
        previous_time = outer_label
    return ticks
