"""Select records of a chunk by offset, time and key, up to a limit.

Search records: which rows of an Arrow batch have a pattern in their key, their value or their headers.

Arrow's kernels search; Python is entered per batch. A plain pattern is first searched in the whole column at once;
most batches of a log do not have it, and then no row is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.chunks import keys_of
from kafkaframes.jobs.dump.names import HEADERS, KEY, SEARCHED, VALUE
from kafkaframes.records.decoded import Decoded

Flags = npt.NDArray[np.bool_]


class Selection(Protocol):
    """Chooses records, chunk by chunk."""

    def apply(self, chunk: Decoded) -> Decoded:
        """Return the chunk with the records that are requested."""
        ...

    def is_done(self, chunk: Decoded) -> bool:
        """Tell whether nothing of the segment behind ``chunk`` can be requested."""
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
        """Return the chunk with the records that are requested and still asked for."""
        chosen = self.selection.apply(chunk)
        count = len(chosen.index.offsets)
        if count > self.left:
            chosen = chosen.select(np.arange(count) < self.left)
        self.left -= min(count, self.left)
        return chosen

    def is_done(self, chunk: Decoded) -> bool:
        """Tell whether no more records are asked for."""
        return self.left == 0 or self.selection.is_done(chunk)


def _narrow(chunk: Decoded, keep: Flags, chosen: Callable[[bytes], bool]) -> None:
    """Keep those of the remaining rows whose key is requested; records without a key are not."""
    keys = keys_of(chunk)
    for row in np.flatnonzero(keep).tolist():
        key = keys.at(row)
        keep[row] = key is not None and chosen(key)


def key_pattern(text: str) -> re.Pattern[bytes]:
    """Compile a regular expression for keys.

    Raises:
        OptionError: ``text`` is not a regular expression.
    """
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise OptionError(f"not a regular expression: {text!r} ({error})") from None


_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\|()]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A search pattern; it is matched against bytes, as UTF-8.

    Attributes:
        text: a regular expression of RE2, or plain text.
        is_plain: whether the text is searched literally.
        ignores_case: of ASCII letters, and in a regular expression of others too.
    """

    text: str
    is_plain: bool = False
    ignores_case: bool = False

    @classmethod
    def of(cls, text: str, *, is_plain: bool = False, ignores_case: bool = False) -> Pattern:
        """Return a pattern; one without special characters is always plain.

        >>> Pattern.of("order-17").is_plain
        True

        Raises:
            OptionError: ``text`` is not a regular expression.
        """
        made = cls(text, is_plain or _SPECIAL.search(text) is None, ignores_case)
        try:
            made.rows_of(pa.array([b""]))
        except pa.ArrowInvalid as error:
            raise OptionError(f"not a regular expression: {text!r} ({error})") from None
        return made

    def rows_of(self, column: pa.Array) -> Flags:
        """Return which rows of a binary column match; nulls do not."""
        if self.is_plain and not self.ignores_case and not _is_anywhere(column, self.text.encode()):
            return np.zeros(len(column), np.bool_)
        search = pc.match_substring if self.is_plain else pc.match_substring_regex
        result = search(column, self.text.encode(), ignore_case=self.ignores_case)
        flags: Flags = pc.fill_null(result, False).to_numpy(zero_copy_only=False)
        return flags


def _is_anywhere(column: pa.Array, plain: bytes) -> bool:
    """Say whether the concatenated bytes of all rows match; a match across two rows is a false positive."""
    _, offsets, data = column.buffers()
    if data is None or len(column) == 0:
        return not plain
    edges = np.frombuffer(offsets, np.int32)
    first, last = int(edges[column.offset]), int(edges[column.offset + len(column)])
    return bool(data.slice(first, last - first).to_pybytes().find(plain) >= 0)


def matching(batch: pa.RecordBatch, pattern: Pattern, fields: Collection[str] = SEARCHED) -> pa.RecordBatch:
    """Return the rows in which the pattern is found.

    Args:
        batch: with the columns that are searched.
        pattern: what is searched for.
        fields: where: ``key``, ``value``, ``headers`` (names and values).
    """
    result = np.zeros(batch.num_rows, np.bool_)
    for name in (one for one in (KEY, VALUE) if one in fields):
        result |= pattern.rows_of(batch.column(name))
    if HEADERS in fields:
        result |= _in_headers(batch.column(HEADERS), pattern)
    return batch if result.all() else batch.filter(pa.array(result))


def _in_headers(column: Any, pattern: Pattern) -> Flags:
    flags = np.zeros(len(column), np.bool_)
    entries = column.flatten()
    if not len(entries):
        return flags
    owners = pc.list_parent_indices(column).to_numpy()
    names, values = entries.flatten()
    hit = pattern.rows_of(names.cast(pa.binary())) | pattern.rows_of(values)
    flags[owners[hit]] = True
    return flags
