"""Select records of a chunk by offset, time and key, up to a limit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.chunks import keys_of
from kafkaframes.records.decoded import Decoded

Flags = npt.NDArray[np.bool_]


class Selection(Protocol):
    """Chooses records, chunk by chunk."""

    def apply(self, chunk: Decoded) -> Decoded:
        """Return the chunk with the records that are wanted."""
        ...

    def is_done(self, chunk: Decoded) -> bool:
        """Tell whether nothing of the segment behind ``chunk`` can be wanted."""
        ...


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that all must hold; None is no condition.

    Attributes:
        from_offset, until_offset: the first offset wanted, the first not wanted any more.
        from_timestamp, until_timestamp: the same in milliseconds.
        keys: the key is one of these.
        key_pattern: a regular expression that is found in the key (bytes).
        control: whether control records are wanted.
    """

    from_offset: int | None = None
    until_offset: int | None = None
    from_timestamp: int | None = None
    until_timestamp: int | None = None
    keys: frozenset[bytes] | None = None
    key_pattern: re.Pattern[bytes] | None = None
    control: bool = True

    def apply(self, chunk: Decoded) -> Decoded:
        """Return the chunk with the records for which all conditions hold; the same one where there is no condition."""
        if self == NO_FILTER:
            return chunk
        keep = self._in_ranges(chunk)
        if not self.control:
            keep &= ~chunk.batches.is_control[chunk.owners]
        if self.keys is not None:
            _narrow(chunk, keep, self.keys.__contains__)
        if self.key_pattern is not None:
            pattern = self.key_pattern
            _narrow(chunk, keep, lambda key: pattern.search(key) is not None)
        return chunk if keep.all() else chunk.select(keep)

    def _in_ranges(self, chunk: Decoded) -> Flags:
        keep = np.ones(len(chunk.index.offsets), np.bool_)
        for values, least, limit in (
            (chunk.index.offsets, self.from_offset, self.until_offset),
            (chunk.index.timestamps, self.from_timestamp, self.until_timestamp),
        ):
            if least is not None:
                keep &= values >= least
            if limit is not None:
                keep &= values < limit
        return keep

    def is_done(self, chunk: Decoded) -> bool:
        """Tell whether the batches behind this chunk lie at or above the last offset."""
        if self.until_offset is None or len(chunk.batches) == 0:
            return False
        return int(chunk.batches.column("last_offset")[-1]) + 1 >= self.until_offset


NO_FILTER = Filter()


@dataclass
class Limited:
    """A limit on the number of records that another selection gives, over all segments."""

    selection: Selection
    left: int

    def apply(self, chunk: Decoded) -> Decoded:
        """Return the chunk with the records that are wanted and still asked for."""
        wanted = self.selection.apply(chunk)
        count = len(wanted.index.offsets)
        if count > self.left:
            wanted = wanted.select(np.arange(count) < self.left)
        self.left -= min(count, self.left)
        return wanted

    def is_done(self, chunk: Decoded) -> bool:
        """Tell whether no more records are asked for."""
        return self.left == 0 or self.selection.is_done(chunk)


def _narrow(chunk: Decoded, keep: Flags, wanted: Callable[[bytes], bool]) -> None:
    """Keep those of the remaining rows whose key is wanted; records without a key are not."""
    keys = keys_of(chunk)
    for row in np.flatnonzero(keep).tolist():
        key = keys.at(row)
        keep[row] = key is not None and wanted(key)


def key_pattern(text: str) -> re.Pattern[bytes]:
    """Compile a regular expression for keys.

    Raises:
        OptionError: ``text`` is not a regular expression.
    """
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise OptionError(f"not a regular expression: {text!r} ({error})") from None
