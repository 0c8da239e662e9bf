"""Conditions on the rows of a scan: topics, partitions, offset ranges and time ranges. This module does no I/O.

A range is ``(from, to)``. ``to`` is exclusive, and None means no bound. Internally, times are milliseconds since 1970.
Text and datetimes without a zone are UTC.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kafkaframes.errors import OptionError
from kafkaframes.records.layout import LOG_APPEND_TIME  # all records of such a batch have its largest timestamp

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from kafkaframes.records.scan import BatchHeaders

    Flags: TypeAlias = npt.NDArray[np.bool_]

Instant = int | str | date | datetime
OffsetRange = int | tuple[int | None, int | None]
TimeRange = tuple[Instant | None, Instant | None]
Interval = tuple[int | None, int | None]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIKELY_SECONDS = range(10**9, 10**10)  # as seconds: 2001 to 2286; as milliseconds: January to April 1970
_LOGGER = logging.getLogger("kafkaframes.scan")
_MILLISECOND = timedelta(milliseconds=1)
_Name = TypeVar("_Name", str, int)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A conjunction of conditions on rows."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offsets: Interval = (None, None)
    timestamps_ms: Interval = (None, None)

    @property
    def has_times(self) -> bool:
        """Whether rows must be filtered by their timestamps."""
        return self.timestamps_ms != (None, None)

    def __and__(self, other: RowFilter) -> RowFilter:
        return RowFilter(
            _intersect_values(self.topics, other.topics),
            _intersect_values(self.partitions, other.partitions),
            _intersect_ranges(self.offsets, other.offsets),
            _intersect_ranges(self.timestamps_ms, other.timestamps_ms),
        )

    def __str__(self) -> str:
        parts = [] if self.topics is None else [f"topic {', '.join(sorted(self.topics))}"]
        parts += [] if self.partitions is None else [f"partition {', '.join(map(str, sorted(self.partitions)))}"]
        for name, (start, limit) in (("offset", self.offsets), ("timestamp", self.timestamps_ms)):
            if (start, limit) != (None, None):
                parts.append(f"{name} from {_format_limit(name, start)} to {_format_limit(name, limit)}")
        return ", ".join(parts)

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return whether a topic partition may have rows that fulfil the conditions."""
        is_topic = self.topics is None or topic in self.topics
        return is_topic and (self.partitions is None or partition in self.partitions)

    def limit_range(self, first: int, end: int) -> tuple[int, int]:
        """Return the offset range limited to the conditions. The end is never below the first offset."""
        start, limit = self.offsets
        first = first if start is None else max(first, start)
        return first, max(first, end if limit is None else min(end, limit))

    def mask_rows(self, timestamps: pa.Array) -> Flags | None:
        """Return a mask of the rows with a timestamp (milliseconds) in the range; None if all rows match."""
        if not self.has_times:
            return None
        import numpy as np

        from kafkaframes.records.arrays import int64_values

        values = int64_values(timestamps)
        start, limit = self.timestamps_ms
        is_kept = np.ones(values.size, np.bool_)
        if start is not None:
            is_kept &= values >= start
        if limit is not None:
            is_kept &= values < limit
        return None if is_kept.all() else is_kept

    def mask_batches_without_rows(self, batches: BatchHeaders) -> Flags:
        """Return a mask of the batches whose headers show that no record is in the time range (format 2 only)."""
        import numpy as np

        start, limit = self.timestamps_ms
        largest = batches.column("max_timestamp")
        has_no_rows = np.zeros(len(batches), np.bool_)
        if start is not None:
            has_no_rows |= largest < start
        if limit is not None:
            has_no_rows |= (largest >= limit) & batches.mask_flag(LOG_APPEND_TIME)
        return has_no_rows & batches.is_v2

    def mask_batches_of_rows(self, batches: BatchHeaders) -> Flags:
        """Return a mask of the batches whose headers show that every record is in the time range."""
        import numpy as np

        start, limit = self.timestamps_ms
        largest = batches.column("max_timestamp")
        is_whole = np.ones(len(batches), np.bool_)
        if start is not None:
            is_whole &= (largest >= start) & batches.mask_flag(LOG_APPEND_TIME)
        if limit is not None:
            is_whole &= largest < limit
        return is_whole & batches.is_v2 if self.has_times else is_whole


NO_CONDITIONS = RowFilter()


_WILDCARDS = frozenset("*?[")  # signs of patterns, which topic names cannot contain


def create_row_filter(
    *,
    offset: OffsetRange | None = None,
    timestamp: TimeRange | None = None,
    partition: int | Iterable[int] | None = None,
    topic: str | Iterable[str] | None = None,
) -> RowFilter:
    """Convert a user's conditions to a ``RowFilter``.

    >>> create_row_filter(offset=(10, None), timestamp=("1970-01-02", None), partition=0)
    RowFilter(topics=None, partitions=frozenset({0}), offsets=(10, None), timestamps_ms=(86400000, None))

    Raises:
        OptionError: A value is not a valid range, a time cannot be parsed, a partition is not a number, or a topic is a
            pattern.
    """
    topics = None if topic is None else frozenset([topic] if isinstance(topic, str) else topic)
    partitions = (
        None if partition is None else frozenset([partition] if isinstance(partition, int | str) else partition)
    )
    if pattern := next((name for name in topics or () if not _WILDCARDS.isdisjoint(name)), None):
        raise OptionError(
            f"`topic` is {pattern!r}; expected names (`topics` of scan_log and scan_topic accept patterns)"
        )
    if any(isinstance(number, str) for number in partitions or ()):
        raise OptionError(f"`partition` is {partition!r}; expected a partition number or several")
    return RowFilter(
        topics,
        partitions,
        (None, None) if offset is None else _offsets(offset),
        (None, None) if timestamp is None else _to_time_range(timestamp),
    )


def to_milliseconds(instant: Instant) -> int:
    """Return a time as milliseconds since 1970, rounded up, because record timestamps are whole milliseconds.

    >>> to_milliseconds("1970-01-01T00:00:01"), to_milliseconds("1970-01-01T01:00:00.0001+01:00"), to_milliseconds(5)
    (1000, 1, 5)

    Raises:
        OptionError: The value is not a time.
    """
    if isinstance(instant, int):
        warn_of_seconds(instant)
        return instant
    parsed_time: object = instant
    if isinstance(instant, str):
        with suppress(ValueError):
            parsed_time = datetime.fromisoformat(instant)
    if not isinstance(parsed_time, date):
        raise OptionError(f"{instant!r} is not a time; expected a format such as 2026-11-21T00:00:00")
    if not isinstance(parsed_time, datetime):
        parsed_time = datetime(parsed_time.year, parsed_time.month, parsed_time.day, tzinfo=UTC)
    return -((_EPOCH - (parsed_time if parsed_time.tzinfo else parsed_time.replace(tzinfo=UTC))) // _MILLISECOND)


def warn_of_seconds(milliseconds: int) -> None:
    """Log a warning if a time was probably intended as seconds.

    Seconds are not an error, because a producer may have written seconds as well.

    Args:
        milliseconds: A time that a user wrote as an integer.
    """
    if milliseconds in _LIKELY_SECONDS:
        _LOGGER.warning(
            "the time %d is %s, because integers are milliseconds since 1970; for seconds, use %d or a date",
            milliseconds,
            _format_limit("timestamp", milliseconds),
            milliseconds * 1000,
        )


def _format_limit(name: str, limit: int | None) -> str:
    """Return the limit of a condition as text; "any" if it is None."""
    if limit is None:
        return "any"
    return str(limit) if name == "offset" else f"{_EPOCH + limit * _MILLISECOND:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def _offsets(value: OffsetRange) -> Interval:
    return (value, value + 1) if isinstance(value, int) else _to_pair("offset", value)


def _to_time_range(value: TimeRange) -> Interval:
    """Return a time range in milliseconds."""
    first, end = _to_pair("timestamp", value)
    return None if first is None else to_milliseconds(first), None if end is None else to_milliseconds(end)


def _to_pair(name: str, value: tuple[Instant | None, Instant | None]) -> tuple[int | None, int | None]:
    """Return the lower and upper limit of a condition, after a check that the value is a pair."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise OptionError(f"`{name}` is {value!r}; expected a range (from, to), in which None is no bound")
    return value[0], value[1]  # type: ignore[return-value]


def _intersect_ranges(first: Interval, second: Interval) -> Interval:
    starts = [bound for bound in (first[0], second[0]) if bound is not None]
    limits = [bound for bound in (first[1], second[1]) if bound is not None]
    return max(starts, default=None), min(limits, default=None)


def _intersect_values(first: frozenset[_Name] | None, second: frozenset[_Name] | None) -> frozenset[_Name] | None:
    """Return the values in both sets. None is the set of all values."""
    if first is None or second is None:
        return second if first is None else first
    return first & second
