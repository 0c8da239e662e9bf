"""Divide a partition's segments into shares of about the same size; a segment that is larger than one in the middle.

A segment may only be divided where a batch begins, and that is known for certain only by walking there from header to
header: an index may be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafkaframes.storage.cleaner.round import SourceSegment
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.scan import scan_segment

Boundary = tuple[int, int]
_PARTS_OF_A_SHARE = 2
_HEADERS_WEIGH = 12  # to walk through headers costs that much less than through records; measured: 20


@dataclass(frozen=True, slots=True)
class DivideTask:
    """Find where a segment can be divided.

    Attributes:
        part_bytes: about how far from each other.
    """

    filesystem: FileSystem
    segment: Segment
    part_bytes: int

    @property
    def size_bytes(self) -> int:
        """What that is worth in bytes to walk through."""
        return self.segment.size_bytes // _HEADERS_WEIGH

    def execute(self) -> list[Boundary]:
        """Return positions at which batches begin, each with an offset above all before it."""
        boundaries: list[Boundary] = []
        next_cut, highest = self.part_bytes, self.segment.base_offset - 1
        with self.filesystem.open(self.segment.path) as read_at:
            for window in scan_segment(read_at, size_bytes=self.segment.size_bytes, file=self.segment.path):
                positions, ends = window.batches.column("position"), window.batches.column("last_offset")
                highests = np.maximum.accumulate(np.concatenate(([highest], ends)))
                highest = int(highests[-1])
                while len(positions) and positions[-1] >= next_cut:
                    index = int(np.searchsorted(positions, next_cut))
                    boundaries.append((int(positions[index]), int(highests[index]) + 1))
                    next_cut = int(positions[index]) + self.part_bytes
        return boundaries


def part_bytes(sources: Sequence[SourceSegment], count: int) -> int:
    """Return how large the parts should be of which ``count`` shares can be made."""
    return max(sum(source.size_bytes for source in sources) // (count * _PARTS_OF_A_SHARE), 1)


def is_too_large(source: SourceSegment, part_size: int) -> bool:
    """Say whether a segment has to be divided for that."""
    return source.size_bytes > part_size * (_PARTS_OF_A_SHARE + 1)


def divided(source: SourceSegment, boundaries: Sequence[Boundary]) -> list[SourceSegment]:
    """Return the parts of a segment; its transactions are announced with the first."""
    starts = [(0, source.segment.base_offset), *boundaries]
    ends = [*(position for position, _ in boundaries), source.segment.size_bytes]
    return [
        replace(source, start=start, end=end, first_offset=offset, aborted=() if start else source.aborted)
        for (start, offset), end in zip(starts, ends, strict=True)
    ]


def cut(sources: Sequence[SourceSegment], count: int) -> list[tuple[SourceSegment, ...]]:
    """Cut segments into up to ``count`` runs of neighbours of about the same size; none is empty."""
    total = sum(source.size_bytes for source in sources)
    runs: list[list[SourceSegment]] = [[]]
    before = 0
    for source in sources:
        middle = before + source.size_bytes / 2
        if runs[-1] and middle * count >= len(runs) * total:
            runs.append([])
        runs[-1].append(source)
        before += source.size_bytes
    return [tuple(run) for run in runs if run]
