"""The merged log of one partition: an ordered list of stretches of segment files, each from one of the copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkaframes.errors import DamagedChunkError
from kafkaframes.storage.copies.blocks import Copy
from kafkaframes.storage.copies.decisions import Decision
from kafkaframes.storage.files.checkpoints import Epochs
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.names import TopicPartition


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Bytes ``start`` to ``end`` of a segment of a copy (both by index): whole batches."""

    copy: int
    segment: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of the merged log.

    Attributes:
        first_offset, end_offset: the offsets that it stands for; the end is exclusive.
        is_clipped: the bytes hold other offsets, too, which are to be left out.
        alternates: where the other copies have the same offsets, for batches that turn out to be damaged.
    """

    at: SegmentRange
    first_offset: int
    end_offset: int
    is_clipped: bool = False
    alternates: tuple[SegmentRange, ...] = ()

    @property
    def size_bytes(self) -> int:
        """How many bytes of the log the span has."""
        return self.at.end - self.at.start


@dataclass(frozen=True, slots=True)
class Merged:
    """One log from many copies.

    Attributes:
        authority: the index of the copy whose history counts.
        spans: by offset, without those that no copy has or that are undecided.
        high_watermark: the largest that a copy's checkpoint has, within the log; None where none has one.
        clean_offset: up to where the log is compacted; None where it is not.
    """

    topic_partition: TopicPartition
    copies: tuple[Copy, ...]
    authority: int
    spans: tuple[Span, ...]
    start_offset: int
    end_offset: int
    lineage: Epochs = ()
    high_watermark: int | None = None
    clean_offset: int | None = None
    decisions: tuple[Decision, ...] = ()

    def segment(self, at: SegmentRange) -> Segment:
        """Return the segment that a stretch belongs to."""
        return self.copies[at.copy].segments[at.segment]

    def find_lost_chunks(self) -> Iterator[tuple[str, DamagedChunkError]]:
        """Yield the segments and their damaged chunks whose offsets no other copy has either."""
        missing = [(one.first_offset, one.end_offset) for one in self.decisions if one.check == "missing"]
        missing.append((max((span.end_offset for span in self.spans), default=self.start_offset), self.end_offset))
        for copy in self.copies:
            for broken_segment in copy.broken_segments:
                first, end = copy.offsets_lost_at(broken_segment)
                end = self.end_offset if end is None else end
                if broken_segment.damage is not None and any(first < stop and start < end for start, stop in missing):
                    yield copy.segments[broken_segment.segment].path, broken_segment.damage

    @property
    def size_bytes(self) -> int:
        """The bytes of all spans."""
        return sum(span.size_bytes for span in self.spans)
