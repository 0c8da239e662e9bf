"""Open the segment of a slice; what to do where it is gone, cut or damaged. No pyspark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kafkaframes.copies.healing import Healer
from kafkaframes.errors import LogDirError
from kafkaframes.files.filesystem import FileSystem, ReadAt
from kafkaframes.files.headers import BatchHeader, HeaderWalk
from kafkaframes.log.segment_runs import Gap, Run, runs
from kafkaframes.log.segment_source import Meter, TieredSource, open_source
from kafkaframes.log.transactions import TransactionState
from kafkaframes.log.where import filesystem_for
from kafkaframes.records.chunks import Source
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.scan import Batches, Flags
from kafkaframes.spark.options import ReadOptions
from kafkaframes.spark.planning import Slice

log = logging.getLogger("kafkaframes.spark")


@dataclass(frozen=True, slots=True)
class OpenSlice:
    """A slice whose segment is open.

    Attributes:
        filesystem: who has the segment and its index.
        source: the segment's bytes.
        piece: the slice; it may be larger than planned, where an index was wrong.
        healer: replaces damaged batches by those of other copies; None where there are no copies.
    """

    filesystem: FileSystem
    source: Source
    piece: Slice
    healer: Healer | None


@contextmanager
def open_slice(piece: Slice, options: ReadOptions, *, meter: Meter | None = None) -> Iterator[OpenSlice | None]:
    """Open the segment of a slice; None where it is gone and ``failOnDataLoss`` is false.

    Raises:
        LogDirError: it cannot be read, or has lost bytes since the read was planned: before or while it is read.
    """
    path = piece.segment.path
    filesystem = filesystem_for(path, options=options.storage)
    if not options.fail_on_data_loss and filesystem.stat(path) is None:
        problem = LogDirError("has vanished since the read was planned", file=path)
        log.warning("%s; its records are not read", problem)
        yield None
        return
    with open_source(filesystem, path, piece.end, meter=meter) as source:
        proven = piece
        if isinstance(source, TieredSource) and any(piece.unproven):
            proven = _proven(piece, source.read_at)
            source.size_bytes = proven.end
        yield OpenSlice(filesystem, source, proven, _healer_of(piece, options))


def _proven(piece: Slice, read_at: ReadAt) -> Slice:
    """See whether the index was right about where a slice starts and ends; without it the whole segment is read."""
    size_bytes = piece.segment.size_bytes
    start, end = piece.start, piece.end
    if piece.unproven[0] and start:
        first = _header(read_at, start, size_bytes)
        start = start if first is not None and first.base_offset <= piece.first_offset else 0
    if piece.unproven[1] and end < size_bytes:
        after = _header(read_at, end, size_bytes)
        end = end if after is not None and after.base_offset >= piece.end_offset else size_bytes
    if (start, end) != (piece.start, piece.end):
        log.warning("%s: its offset index is wrong, the segment is read without it", piece.segment.path)
    return replace(piece, start=start, end=end, unproven=(False, False))


def _header(read_at: ReadAt, position: int, size_bytes: int) -> BatchHeader | None:
    walk = HeaderWalk(read_at, size_bytes=size_bytes, position=position, window_bytes=BATCH_V2.size)
    header = next(iter(walk), None)
    return header if header is not None and 0 <= header.magic <= 2 else None


def slice_runs(opened: OpenSlice, mode: str) -> Iterator[Run]:
    """Yield the runs of a slice: where it was cut meanwhile is an error, a damaged chunk a warning, or one in FAILFAST.

    What a run had from other copies is told, when the run was read.

    Raises:
        LogDirError: the file was cut; or, in mode FAILFAST, a chunk of it cannot be undone.
    """
    piece, source, path = opened.piece, opened.source, opened.piece.segment.path

    def warn(gap: Gap) -> None:
        log.warning("%s: %s", path, gap)

    for run in runs(opened.filesystem, path, source, start=piece.start, end=piece.end, mode=mode, on_gap=warn):
        yield run
        _tell_healed(opened.healer)


def _healer_of(piece: Slice, options: ReadOptions) -> Healer | None:
    """Return what replaces damaged batches of a slice by those of other copies; None where there are no copies."""
    if not piece.segment.alternates:
        return None
    return Healer(piece.segment.path, piece.segment.alternates, options.storage)


def _tell_healed(healer: Healer | None) -> None:
    """Say what was read from other copies, once."""
    if healer is not None:
        for text in healer.healed:
            log.warning("%s", text)
        healer.healed.clear()


def unwanted_batches(piece: Slice) -> Callable[[Batches], Flags] | None:
    """Return what says of batches whether they belong to an aborted transaction; None where none does."""
    return TransactionState(piece.aborted).aborted_batches if piece.aborted else None
