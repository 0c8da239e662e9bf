"""The segments of a log by base offset (LogSegments)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from kafkaframes.errors import LogDirError
from kafkaframes.storage.partition.segment import LogSegment


class Segments:
    """At least one segment, once the log is open; the last one is active."""

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(tuple(self._segments))

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> LogSegment:
        """The segment that is appended to: the last one."""
        return self._segments[-1]

    @property
    def first(self) -> LogSegment:
        """The oldest segment."""
        return self._segments[0]

    @property
    def bases(self) -> tuple[int, ...]:
        """The base offsets, ascending."""
        return tuple(self._bases)

    @property
    def size_bytes(self) -> int:
        """How many bytes the batches of all segments have."""
        return sum(one.size_bytes for one in self._segments)

    def add(self, segment: LogSegment) -> None:
        """Add a segment behind the others.

        Raises:
            LogDirError: it does not lie behind them.
        """
        if self._bases and segment.base_offset <= self._bases[-1]:
            raise LogDirError(f"a segment {segment.base_offset} follows {self._bases[-1]}", file=segment.path)
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def remove(self, segment: LogSegment) -> None:
        """Take a segment out of the list."""
        at = self._segments.index(segment)
        del self._segments[at], self._bases[at]

    def replace(self, old: Iterable[LogSegment], segment: LogSegment) -> None:
        """Replace neighbouring segments by one that has the base offset of the first."""
        gone = set(map(id, old))
        kept = [other for other in self._segments if id(other) not in gone]
        self._segments = sorted([*kept, segment], key=lambda other: other.base_offset)
        self._bases = [other.base_offset for other in self._segments]

    def from_floor(self, offset: int) -> list[LogSegment]:
        """Return the segment that holds ``offset`` and all later ones; all segments if it lies before the first."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def above(self, offset: int) -> list[LogSegment]:
        """Return the segments that begin above ``offset``."""
        return self._segments[bisect_right(self._bases, offset) :]

    def next_base(self, segment: LogSegment) -> int | None:
        """Return where the following segment begins; None behind the last."""
        at = bisect_left(self._bases, segment.base_offset) + 1
        return self._bases[at] if at < len(self._bases) else None
