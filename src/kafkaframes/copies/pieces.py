"""The merged log of one partition: an ordered list of stretches of segment files, each from one of the copies."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaframes.copies.blocks import Copy
from kafkaframes.copies.decisions import Decision
from kafkaframes.files.directory import Segment
from kafkaframes.files.leader_epochs import Epochs
from kafkaframes.files.names import TopicPartition


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes ``start`` to ``end`` of a segment of a copy (both by their place): whole batches."""

    copy: int
    segment: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One stretch of the merged log.

    Attributes:
        at: the bytes.
        first_offset, end_offset: the offsets that it stands for; the end is exclusive.
        is_clipped: the bytes hold other offsets, too, which are to be left out.
        alternates: where the other copies have the same offsets, for batches that turn out to be damaged.
    """

    at: Stretch
    first_offset: int
    end_offset: int
    is_clipped: bool = False
    alternates: tuple[Stretch, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The bytes of log."""
        return self.at.end - self.at.start


@dataclass(frozen=True, slots=True)
class Merged:
    """One log from many copies.

    Attributes:
        copies: as they were given; places in ``pieces`` count from 0 among them.
        authority: the place of the copy whose history counts.
        pieces: by offset; what no copy has, or what is undecided, is not among them.
        start_offset: no record below it is served.
        end_offset: the offset that the next record would get.
        lineage: of the merged log.
        high_watermark: the largest that a copy's checkpoint has, within the log; None where none has one.
        clean_offset: up to where the log is compacted; None where it is not.
        decisions: what was decided, or could not be.
    """

    topic_partition: TopicPartition
    copies: tuple[Copy, ...]
    authority: int
    pieces: tuple[Piece, ...]
    start_offset: int
    end_offset: int
    lineage: Epochs = ()
    high_watermark: int | None = None
    clean_offset: int | None = None
    decisions: tuple[Decision, ...] = ()

    def segment(self, at: Stretch) -> Segment:
        """Return the segment that a stretch is of."""
        return self.copies[at.copy].segments[at.segment]

    @property
    def size_bytes(self) -> int:
        """The bytes of all pieces."""
        return sum(piece.size_bytes for piece in self.pieces)
