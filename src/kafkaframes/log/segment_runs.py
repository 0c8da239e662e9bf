"""Read a segment on behind damaged chunks: the one loop of everybody who reads records or batches of a segment.

A tiered segment of which a chunk cannot be undone is read in *runs*: from its start up to the damaged chunk, then from
the first batch that is known to start behind the chunk, and so on. Every other segment is one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafkaframes.errors import DamagedChunkError
from kafkaframes.files.filesystem import FileSystem
from kafkaframes.log.segment_source import check_not_cut, damage_of, resume
from kafkaframes.records.chunks import Source
from kafkaframes.records.scan import End


@dataclass(slots=True)
class Run:
    """A part of a segment that is read without a break: up to its end, or to a damaged chunk.

    Attributes:
        start: the position of its first batch.
        end: where and why its batches ended; whoever reads the run sets it. None says that no more were wanted.
    """

    start: int
    end: End | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """What is not read of a segment because a chunk of it is damaged.

    Attributes:
        damage: which chunk it is, and why it cannot be undone.
        start: the position behind the last batch that was read.
        end: the position of the next run; None where nothing behind the chunk is read.
    """

    damage: DamagedChunkError
    start: int
    end: int | None

    def __str__(self) -> str:
        rest = "nothing behind it is read" if self.end is None else f"read on at byte {self.end}"
        first, last = self.damage.lost
        return f"{self.damage}; bytes {first} to {last} of the segment are lost, {rest}"


def runs(
    filesystem: FileSystem,
    path: str,
    source: Source,
    *,
    start: int = 0,
    end: int | None = None,
    mode: str,
    on_gap: Callable[[Gap], object],
) -> Iterator[Run]:
    """Yield the runs of a segment; each is to be read, and its ``end`` set, before the next one is asked for.

    Args:
        filesystem: who has the segment and its index.
        path: of the segment.
        source: the segment, open.
        start: a position at which a batch starts.
        end: a position that the batches are known to reach; None for wherever they end.
        mode: ``FAILFAST`` raises where a chunk is damaged; the others read on.
        on_gap: is told each gap before the next run begins.

    Raises:
        DamagedChunkError: a chunk is damaged, in mode FAILFAST.
        LogDirError: the file was cut while it was read: it does not reach ``end`` any more.
    """
    position: int | None = start
    while position is not None:
        run = Run(position)
        yield run
        if run.end is None:
            return
        damage = damage_of(source)
        if damage is None:
            if end is not None and run.end.position < end:
                check_not_cut(filesystem, path, end)
            return
        if mode == "FAILFAST":
            raise damage
        position = resume(filesystem, path, damage)
        if position is not None and end is not None and position >= end:
            position = None
        on_gap(Gap(damage, run.end.position, position))
