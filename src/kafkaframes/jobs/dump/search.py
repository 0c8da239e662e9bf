"""Search records: which rows of an Arrow batch have a pattern in their key, their value or their headers.

Arrow's kernels search; Python is entered per batch. A plain pattern is first searched in the whole column at once;
most batches of a log do not have it, and then no row is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.names import HEADERS, KEY, PLACES, VALUE

Flags = npt.NDArray[np.bool_]
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
        found = search(column, self.text.encode(), ignore_case=self.ignores_case)
        flags: Flags = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
        return flags


def _is_anywhere(column: pa.Array, plain: bytes) -> bool:
    """Say whether the concatenated bytes of all rows match; a match across two rows is a false positive."""
    _, offsets, data = column.buffers()
    if data is None or len(column) == 0:
        return not plain
    edges = np.frombuffer(offsets, np.int32)
    first, last = int(edges[column.offset]), int(edges[column.offset + len(column)])
    return bool(data.slice(first, last - first).to_pybytes().find(plain) >= 0)


def matching(batch: pa.RecordBatch, pattern: Pattern, places: Collection[str] = PLACES) -> pa.RecordBatch:
    """Return the rows in which the pattern is found.

    Args:
        batch: with the columns that are searched.
        pattern: what is searched for.
        places: where: ``key``, ``value``, ``headers`` (names and values).
    """
    found = np.zeros(batch.num_rows, np.bool_)
    for name in (one for one in (KEY, VALUE) if one in places):
        found |= pattern.rows_of(batch.column(name))
    if HEADERS in places:
        found |= _in_headers(batch.column(HEADERS), pattern)
    return batch if found.all() else batch.filter(pa.array(found))


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
