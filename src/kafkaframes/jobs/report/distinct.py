"""Count distinct keys in bounded memory: exact up to ``MOST`` of them, then from the smallest hashes.

Hashes of 64 bits are spread evenly, so where the ``MOST`` smallest ones end says how many there are in all (KMV: "k
minimum values", the sketch behind theta sketches). The standard error is 1 / sqrt(MOST - 2): 0.8 %. Unlike a
HyperLogLog it is exact while it is small, and joining two is joining two sets.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kafkaframes.jobs.report import _kernels

MOST = 1 << 14
STANDARD_ERROR = 1 / math.sqrt(MOST - 2)
_SPAN = 2.0**64

Hashes = npt.NDArray[np.uint64]


def hash_keys(buf: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], sizes: npt.NDArray[np.int32]) -> Hashes:
    """Return the hash of every key that is not null (a negative size is)."""
    found = np.empty(places.size, np.int64)
    count = _kernels.hash_keys(buf, places, sizes, found)
    return found[:count].view(np.uint64)


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
            found = np.sort(np.concatenate((self.hashes, hashes)))  # np.unique took three times as long (numpy 2.4)
            found = found[np.append(found[1:] != found[:-1], True)]
            self.is_exact = self.is_exact and found.size <= MOST
            self.hashes = found[:MOST].copy()

    def merge(self, other: Distinct) -> None:
        """Note what another has seen."""
        self.is_exact = self.is_exact and other.is_exact
        self.add(other.hashes)

    def count(self) -> int:
        """Return the number of distinct keys: exact, or an estimate."""
        if self.is_exact:
            return int(self.hashes.size)
        return round((MOST - 1) * _SPAN / (float(self.hashes[-1]) + 1.0))
