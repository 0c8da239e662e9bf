"""Search the records of logs: ``grep_log`` finds those whose key, value or headers match a pattern.

Arrow's kernels search. Python code runs once for each batch. A plain pattern is first searched in the whole column at
once. Most batches of a log do not contain the text, so their rows are not searched one by one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.names import HEADERS, KEY, SEARCHED_FIELDS, VALUE
from kafkaframes.scan.functions import scan_log
from kafkaframes.scan.log.following import AppendedRowReader
from kafkaframes.scan.ranges import EARLIEST, to_log_bound
from kafkaframes.scan.rows import RecordBatches, build_schema
from kafkaframes.scan.selection import Selection, check_choice
from kafkaframes.scan.where import create_row_filter
from kafkaframes.storage.files.filesystem import storage_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaframes.scan.selection import Isolation, OnDamage

SEARCH_RESULT_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", KEY, VALUE, HEADERS)
POLL_INTERVAL_S: Final = 1.0  # time between two reads of a followed log
Flags = npt.NDArray[np.bool_]
_REGEX_CHARACTERS = re.compile(r"[.^$*+?{}\[\]\\|()]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A search pattern: an RE2 regular expression or plain text.

    A pattern is encoded in UTF-8 and matched against bytes.

    If case is ignored, plain text ignores it for ASCII letters only, and regular expressions for all letters.
    """

    text: str
    is_plain: bool = False
    ignores_case: bool = False

    @classmethod
    def from_text(cls, text: str, *, is_plain: bool = False, ignores_case: bool = False) -> Pattern:
        """Return a pattern. A text without special characters is a plain pattern.

        >>> Pattern.from_text("order-17").is_plain
        True

        Raises:
            OptionError: ``text`` is not a regular expression.
        """
        pattern = cls(text, is_plain or _REGEX_CHARACTERS.search(text) is None, ignores_case)
        try:
            pattern.match_rows(pa.array([b""]))
        except pa.ArrowInvalid as error:
            raise OptionError(f"{text!r} is not a regular expression ({error})") from None
        return pattern

    def match_rows(self, column: pa.Array) -> Flags:
        """Return a flag for each row of a binary column: whether it matches. Nulls do not match."""
        if self.is_plain and not self.ignores_case and not _may_match_anywhere(column, self.text.encode()):
            return np.zeros(len(column), np.bool_)
        search = pc.match_substring if self.is_plain else pc.match_substring_regex
        result = search(column, self.text.encode(), ignore_case=self.ignores_case)
        flags: Flags = pc.fill_null(result, False).to_numpy(zero_copy_only=False)
        return flags


def _may_match_anywhere(column: pa.Array, plain: bytes) -> bool:
    """Return whether the concatenated rows contain the bytes. A match across two rows is a false positive."""
    _, offsets, data = column.buffers()
    if data is None or len(column) == 0:
        return not plain
    edges = np.frombuffer(offsets, np.int32)
    first, last = int(edges[column.offset]), int(edges[column.offset + len(column)])
    return bool(data.slice(first, last - first).to_pybytes().find(plain) >= 0)


def select_matching_rows(
    batch: pa.RecordBatch, pattern: Pattern, fields: Collection[str] = SEARCHED_FIELDS
) -> pa.RecordBatch:
    """Return the rows whose key, value, header names or header values match, as ``fields`` selects."""
    result = np.zeros(batch.num_rows, np.bool_)
    for name in (payload_name for payload_name in (KEY, VALUE) if payload_name in fields):
        result |= pattern.match_rows(batch.column(name))
    if HEADERS in fields:
        result |= _match_headers(batch.column(HEADERS), pattern)
    return batch if result.all() else batch.filter(pa.array(result))


def _match_headers(column: Any, pattern: Pattern) -> Flags:
    """Return a flag for each record: whether a header's name or value matches."""
    flags = np.zeros(len(column), np.bool_)
    entries = column.flatten()
    if not len(entries):
        return flags
    owners = pc.list_parent_indices(column).to_numpy()
    names, values = entries.flatten()
    is_match = pattern.match_rows(names.cast(pa.binary())) | pattern.match_rows(values)
    flags[owners[is_match]] = True
    return flags


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepSettings:
    """Settings of ``grep_log``, whose docstring describes them."""

    pattern: Pattern
    fields: Sequence[str]
    max_count: int | None
    selection: Selection
    replicas: Literal["merge", "all"]
    key_files: Sequence[str]
    follow_links: bool
    store: Mapping[str, Any] | None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            OptionError: a value is invalid.
        """
        for name in self.fields:
            check_choice("fields", name, SEARCHED_FIELDS)
        if self.max_count is not None and self.max_count < 1:
            raise OptionError(f"`max_count` must be at least 1, not {self.max_count}")


def search_log(paths: Sequence[str], settings: GrepSettings) -> RecordBatches:
    """Return the matching records of logs."""
    selection = settings.selection
    isolation: Isolation | None = selection.isolation
    on_damage: OnDamage = selection.on_damage
    batches = (
        scan_log(
            paths,
            topics=selection.topics,
            partitions=selection.partitions,
            start=selection.start,
            end=selection.end,
            isolation=isolation,
            control_records=selection.control_records,
            on_damage=on_damage,
            replicas=settings.replicas,
            key_files=settings.key_files,
            follow_links=settings.follow_links,
            storage=settings.store,
        )
        .select(*SEARCH_RESULT_COLUMNS)
        .to_batches()
    )
    return RecordBatches(_select_matches(batches, settings), batches.schema, batches.errors, batches.notes)


def follow_log(paths: Sequence[str], settings: GrepSettings) -> RecordBatches:
    """Return the matching records of logs, and then those that are appended. An empty batch follows each read."""
    selection = settings.selection
    if selection.end is not None:
        raise OptionError("`end` cannot be combined with `follow`, which does not end")
    defaults = {"isolation": "read_uncommitted", "control_records": False, "on_damage": "keep"}
    for name, default in defaults.items():
        if getattr(selection, name) != default:
            raise OptionError(
                f"`{name}` cannot be combined with `follow`, which reads all records as they are appended"
            )
    follower = AppendedRowReader(
        paths,
        selection.topic_names,
        columns=SEARCH_RESULT_COLUMNS,
        row_filter=create_row_filter(partition=sorted(selection.partition_numbers or ()) or None),
        start=to_log_bound("start", selection.start, unset=EARLIEST),
        storage=storage_options(settings.key_files, follow_links=settings.follow_links, store=settings.store),
    )
    schema = build_schema(SEARCH_RESULT_COLUMNS)

    def read_steps() -> Iterator[pa.RecordBatch]:
        while True:
            yield from follower.read_new_rows()
            yield pa.RecordBatch.from_pylist([], schema=schema)
            time.sleep(POLL_INTERVAL_S)

    return RecordBatches(_select_matches(read_steps(), settings, keep_empty=True), schema, follower.errors)


def _select_matches(
    batches: Iterator[pa.RecordBatch], settings: GrepSettings, *, keep_empty: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows of the batches that have any, up to ``max_count`` rows in total."""
    remaining = settings.max_count
    fields = settings.fields or SEARCHED_FIELDS
    for batch in batches:
        rows = select_matching_rows(batch, settings.pattern, fields)
        if remaining is not None:
            rows = rows.slice(0, remaining)
            remaining -= rows.num_rows
        if rows.num_rows or (keep_empty and not batch.num_rows):
            yield rows
        if remaining == 0:
            return
