"""Histograms that need no second look at the data: of sizes, with fixed bounds, and of times, whose buckets widen.

Both are small, pickle, and merge: the result does not depend on how the records were split between processes.

Count distinct keys in bounded memory: exact up to ``MOST`` of them, then from the smallest hashes.

Hashes of 64 bits are spread evenly, so where the ``MOST`` smallest ones end says how many there are in all (KMV: "k
minimum values", the sketch behind theta sketches). The standard error is 1 / sqrt(MOST - 2): 0.8 %. Unlike a
HyperLogLog it is exact while it is small, and joining two is joining two sets.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.jobs.report import _kernels

MOST = 1 << 14
STANDARD_ERROR = 1 / math.sqrt(MOST - 2)
_SPAN = 2.0**64

Hashes = npt.NDArray[np.uint64]


def hash_keys(buf: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64], sizes: npt.NDArray[np.int32]) -> Hashes:
    """Return the hash of every key that is not null (a negative size is)."""
    result = np.empty(positions.size, np.int64)
    count = _kernels.hash_keys(buf, positions, sizes, result)
    return result[:count].view(np.uint64)


class Distinct:
    """The smallest hashes of the keys that were seen."""

    def __init__(self) -> None:
        self.hashes: Hashes = np.empty(0, np.uint64)
        self.is_exact = True

    def add(self, hashes: Hashes) -> None:
        """Note more keys."""
        if self.hashes.size == MOST:
            hashes = hashes[hashes <= self.hashes[-1]]
        if hashes.size:
            result = np.sort(np.concatenate((self.hashes, hashes)))  # np.unique took three times as long (numpy 2.4)
            result = result[np.append(result[1:] != result[:-1], True)]
            self.is_exact = self.is_exact and result.size <= MOST
            self.hashes = result[:MOST].copy()

    def merge(self, other: Distinct) -> None:
        """Note what another has seen."""
        self.is_exact = self.is_exact and other.is_exact
        self.add(other.hashes)

    def count(self) -> int:
        """Return the number of distinct keys: exact, or an estimate."""
        if self.is_exact:
            return int(self.hashes.size)
        return round((MOST - 1) * _SPAN / (float(self.hashes[-1]) + 1.0))


Ints = npt.NDArray[np.int64]

_STEPS = 8  # buckets between two powers of two: a quantile is right within 1/16
_OCTAVES = 42
_LARGEST = (1 << (_OCTAVES + 2)) - 1


class Bin(NamedTuple):
    """Values from ``low`` up to, not including, ``high``."""

    low: int
    high: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which a bin does not need


class Sizes:
    """How many values (bytes, milliseconds) there are of which size; sums and extremes are exact."""

    def __init__(self) -> None:
        self.counts: Ints = np.zeros(_STEPS * _OCTAVES, np.int64)
        self.total = 0
        self.smallest = 0
        self.largest = 0

    def __len__(self) -> int:
        return int(self.counts.sum())

    def add(self, values: npt.NDArray[Any]) -> None:
        """Note values; none is negative."""
        if values.size == 0:
            return
        low, high = int(values.min()), int(values.max())
        self.smallest = low if len(self) == 0 else min(self.smallest, low)
        self.largest = max(self.largest, high)
        self.counts += np.bincount(_buckets(values), minlength=self.counts.size)
        self.total += int(values.sum(dtype=np.int64))

    def merge(self, other: Sizes) -> None:
        """Note what another has seen."""
        if len(other) == 0:
            return
        self.smallest = other.smallest if len(self) == 0 else min(self.smallest, other.smallest)
        self.largest = max(self.largest, other.largest)
        self.counts = self.counts + other.counts
        self.total += other.total

    def quantile(self, share: float) -> int:
        """Return about the value below which that share of all lies; 0 for none."""
        count = len(self)
        if count == 0:
            return 0
        rank = max(int(np.ceil(share * count)), 1)
        bucket = int(np.searchsorted(np.cumsum(self.counts), rank))
        middle = (_lower(bucket) + _lower(bucket + 1) - 1) // 2
        return min(max(middle, self.smallest), self.largest)

    def octaves(self) -> list[Bin]:
        """Return bins between powers of two, from the first to the last one with a value; zero has its own.

        >>> sizes = Sizes()
        >>> sizes.add(np.array([0, 5, 5, 16]))
        >>> [(one.low, one.high, one.count) for one in sizes.octaves()]
        [(0, 1, 1), (1, 2, 0), (2, 4, 0), (4, 8, 2), (8, 16, 0), (16, 32, 1)]
        """
        starts = [0, 1, 2, 4, *range(_STEPS, self.counts.size, _STEPS)]
        counts = np.add.reduceat(self.counts, starts)
        result = [
            Bin(_lower(start), _lower(end), int(count))
            for start, end, count in zip(starts, [*starts[1:], self.counts.size], counts, strict=True)
        ]
        used = [index for index, one in enumerate(result) if one.count]
        return result[used[0] : used[-1] + 1] if used else []


def _buckets(values: npt.NDArray[Any]) -> Ints:
    if values.max() < _TABLE.size:
        result: Ints = _TABLE[values]
        return result
    return _computed(values)


def _computed(values: npt.NDArray[Any]) -> Ints:
    small = np.minimum(values.astype(np.int64), _LARGEST)
    exponents = np.frexp(small.astype(np.float64))[1].astype(np.int64) - 1
    shifts = np.maximum(exponents - 3, 0)
    buckets: Ints = np.where(small < _STEPS, small, (exponents - 2) * _STEPS + ((small >> shifts) & (_STEPS - 1)))
    return buckets


_TABLE: Ints = _computed(np.arange(1 << 16))


def _lower(bucket: int) -> int:
    """Return the smallest value of a bucket."""
    if bucket < _STEPS:
        return bucket
    octave, step = divmod(bucket, _STEPS)
    return int((_STEPS + step) << (octave - 1))


# Widths of buckets in milliseconds; each divides the next, so a histogram can always be made coarser.
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
WIDTHS: tuple[int, ...] = (
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
MOST_BUCKETS = 2048


class Times:
    """How many records there are of which time: only buckets with records are kept, up to ``MOST_BUCKETS``.

    One record of a strange time costs one bucket; it does not make the others coarser.

    Attributes:
        starts: of the buckets, in milliseconds, ascending.
        counts: of the records in each.
        without: records that have no timestamp (-1).
        first, last: exact; -1 for none.
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
        """How wide a bucket is."""
        return WIDTHS[self._rung]

    def add(self, timestamps: Ints) -> None:
        """Note the timestamps of records, in milliseconds; a negative one means that there is none."""
        known = timestamps[timestamps >= 0] if timestamps.size and timestamps.min() < 0 else timestamps
        self.without += int(timestamps.size - known.size)
        if known.size == 0:
            return
        self._extremes(int(known.min()), int(known.max()))
        starts = known - known % self.width_ms
        turns = np.flatnonzero(
            np.diff(starts, prepend=starts[0] - 1)
        )  # most logs go on in time: few runs, many records
        self._add_runs(starts[turns], np.diff(turns, append=starts.size))

    def merge(self, other: Times) -> None:
        """Note what another has seen."""
        self.without += other.without
        if other.first >= 0:
            self._extremes(other.first, other.last)
            self._rung = max(self._rung, other._rung)
            self._add_runs(other.starts, other.counts)

    def _extremes(self, first: int, last: int) -> None:
        self.first = first if self.first < 0 else min(self.first, first)
        self.last = max(self.last, last)

    def _add_runs(self, starts: Ints, counts: Ints) -> None:
        starts, counts = np.concatenate((self.starts, starts)), np.concatenate((self.counts, counts))
        while True:
            self.starts, indexes = np.unique(starts - starts % self.width_ms, return_inverse=True)
            if self.starts.size <= MOST_BUCKETS or self._rung == len(WIDTHS) - 1:
                break
            self._rung += 1
        self.counts = np.zeros(self.starts.size, np.int64)
        np.add.at(self.counts, indexes, counts)
