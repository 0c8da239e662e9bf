"""The merged log of one partition: an ordered list of ranges of segment files, each from one of the copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkaframes.errors import DamagedChunkError
from kafkaframes.storage.copies.blocks import PartitionCopy
from kafkaframes.storage.copies.decisions import Decision
from kafkaframes.storage.files.checkpoints import Epochs
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.names import TopicPartition


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """A range of whole batches: bytes ``start`` to ``end`` of segment ``segment`` of copy ``copy`` (both indexes)."""

    copy: int
    segment: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Span:
    """A range of offsets of the merged log, and the file range of the copy that supplies its records.

    Attributes:
        segment_range: range of the segment file that contains the records.
        first_offset: first offset.
        end_offset: offset after the last offset of the range.
        is_clipped: whether the file range also contains other offsets, which must be skipped.
        alternates: file ranges of other copies with the same offsets, to replace batches that prove to be damaged.
    """

    segment_range: SegmentRange
    first_offset: int
    end_offset: int
    is_clipped: bool = False
    alternates: tuple[SegmentRange, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Size of the span, in bytes."""
        return self.segment_range.end - self.segment_range.start


@dataclass(frozen=True, slots=True)
class MergedLog:
    """One log that was merged from several copies.

    Attributes:
        authority: index of the copy with the authoritative history.
        spans: spans in offset order; offsets that are undecided or missing in every copy are in no span.
        high_watermark: highest high watermark in a copy's checkpoint, limited to the log; None if no copy has one.
        clean_offset: end of the compacted part; None if the log is not compacted.
    """

    topic_partition: TopicPartition
    copies: tuple[PartitionCopy, ...]
    authority: int
    spans: tuple[Span, ...]
    start_offset: int
    end_offset: int
    lineage: Epochs = ()
    high_watermark: int | None = None
    clean_offset: int | None = None
    decisions: tuple[Decision, ...] = ()

    def segment(self, segment_range: SegmentRange) -> Segment:
        """Return the segment that contains a range."""
        return self.copies[segment_range.copy].segments[segment_range.segment]

    def find_lost_chunks(self) -> Iterator[tuple[str, DamagedChunkError]]:
        """Yield each segment and damaged chunk with offsets that are in no other copy."""
        missing_ranges = [
            (decision.first_offset, decision.end_offset) for decision in self.decisions if decision.check == "missing"
        ]
        missing_ranges.append(
            (max((span.end_offset for span in self.spans), default=self.start_offset), self.end_offset)
        )
        for copy in self.copies:
            for broken_segment in copy.broken_segments:
                first, end = copy.find_lost_offsets(broken_segment)
                end = self.end_offset if end is None else end
                if broken_segment.damage is not None and any(
                    first < stop and start < end for start, stop in missing_ranges
                ):
                    yield copy.segments[broken_segment.segment].path, broken_segment.damage

    @property
    def size_bytes(self) -> int:
        """Total size of all spans, in bytes."""
        return sum(span.size_bytes for span in self.spans)
