"""Which records of a chunk are wanted: by offset, time and key."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import OptionError
from kafkaframes.log.dump.chunks import Chunk

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that all must hold; None is no condition.

    Attributes:
        from_offset, until_offset: the first offset wanted, the first not wanted any more.
        from_timestamp, until_timestamp: the same in milliseconds.
        keys: the key is one of these.
        key_pattern: a regular expression that is found in the key (bytes).
    """

    from_offset: int | None = None
    until_offset: int | None = None
    from_timestamp: int | None = None
    until_timestamp: int | None = None
    keys: frozenset[bytes] | None = None
    key_pattern: re.Pattern[bytes] | None = None

    @property
    def wants_all(self) -> bool:
        """Whether there is no condition at all."""
        return self == NO_FILTER

    def apply(self, chunk: Chunk) -> Chunk:
        """Return the chunk with the records that are wanted."""
        if self.wants_all:
            return chunk
        index = chunk.index
        keep = np.ones(len(index.offsets), np.bool_)
        for values, least, limit in (
            (index.offsets, self.from_offset, self.until_offset),
            (index.timestamps, self.from_timestamp, self.until_timestamp),
        ):
            if least is not None:
                keep &= values >= least
            if limit is not None:
                keep &= values < limit
        if self.keys is not None:
            _narrow(chunk, keep, self.keys.__contains__)
        if self.key_pattern is not None:
            pattern = self.key_pattern
            _narrow(chunk, keep, lambda key: pattern.search(key) is not None)
        return chunk.select(keep)

    def is_past(self, chunk: Chunk) -> bool:
        """Whether nothing behind this chunk can be wanted: its batches lie at or above the last offset."""
        if self.until_offset is None or len(chunk.batches) == 0:
            return False
        return int(chunk.batches.column("last_offset")[-1]) + 1 >= self.until_offset


NO_FILTER = Filter()


def _narrow(chunk: Chunk, keep: Flags, wanted: Callable[[bytes], bool]) -> None:
    """Keep of the rows that are left those whose key is wanted; a record without a key never is."""
    keys = chunk.keys
    for row in np.flatnonzero(keep).tolist():
        key = keys.at(row)
        keep[row] = key is not None and wanted(key)


def key_pattern(text: str) -> re.Pattern[bytes]:
    """Compile a regular expression for keys.

    Raises:
        OptionError: it is none.
    """
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise OptionError(f"no regular expression: {text!r} ({error})") from None
