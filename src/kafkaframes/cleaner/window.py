"""A few megabytes of a segment, decoded: what both walks of a round (map, then filter) look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.files.directory import Segment
from kafkaframes.files.filesystem import FileSystem
from kafkaframes.files.headers import BatchHeader
from kafkaframes.files.scan import Window, scan_segment
from kafkaframes.records import control, decode
from kafkaframes.records.layout import CODEC_MASK, CONTROL, MESSAGE_V0, OVERHEAD_BYTES, TRANSACTIONAL
from kafkaframes.records.memory import Recycler
from kafkaframes.records.reasons import TORN
from kafkaframes.records.scan import Batches, as_array, check_crcs

Ints = npt.NDArray[np.int64]
_AT_MAGIC = MESSAGE_V0.place_of("magic") - OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class DecodedWindow:
    """Consecutive batches with the index of their records.

    Attributes:
        segment: where they lie.
        data: their bytes; positions of ``batches`` count from its first.
        in_file: ``batches`` with their positions in the file.
        owners: the batch of each record.
        starts: the place in the index of each batch's first record, and one more for the end.
    """

    segment: Segment
    data: npt.NDArray[np.uint8]
    batches: Batches
    in_file: Batches
    sections: decode.Sections
    index: decode.Index
    owners: Ints
    starts: Ints

    def header(self, batch: int) -> BatchHeader:
        """Return one batch's header."""
        return BatchHeader(*self.in_file.table[:, batch].tolist())

    def in_transactions(self) -> list[int]:
        """Return the batches that a transaction begins, holds or ends with; control batches of every kind."""
        flags = self.batches.column("attributes") & (TRANSACTIONAL | CONTROL)
        found: list[int] = np.flatnonzero((self.batches.column("magic") >= 2) & (flags != 0)).tolist()
        return found

    def control_type(self, batch: int) -> str | None:
        """Return the type of a control batch's first record; ``None`` for an empty batch."""
        first = int(self.starts[batch])
        if first == int(self.starts[batch + 1]):
            return None
        at, size = int(self.index.key_at[first]), int(self.index.key_size[first])
        try:
            return control.control_type(None if size < 0 else self.sections.buf[at : at + size].tobytes())
        except CorruptRecordError as error:
            raise self._error(batch, error.reason) from error

    def foreign_inner(self) -> npt.NDArray[np.bool_]:
        """Return which sets hold an inner message of another format than their own (KAFKA-4298)."""
        magics = self.batches.column("magic")
        wrapper = (magics < 2) & ((self.batches.column("attributes") & CODEC_MASK) != 0)
        found = np.zeros(len(self.batches), np.bool_)
        inner = np.flatnonzero(wrapper[self.owners])
        inner_magics = self.sections.buf[self.index.headers_at[inner] + _AT_MAGIC].astype(np.int8)
        found[self.owners[inner[inner_magics != magics[self.owners[inner]]]]] = True
        return found

    def _error(self, batch: int, reason: str) -> LogDirError:
        header = self.header(batch)
        return LogDirError(
            f"{reason}, in the batch of offsets {header.base_offset} to {header.last_offset}: nothing was cleaned",
            position=header.position,
            file=self.segment.path,
        )

    def check(self) -> None:
        """Refuse to clean what cannot be read as a whole: a repair comes first.

        Raises:
            LogDirError: names the file, the position and the batch.
        """
        wrong = np.flatnonzero(check_crcs(self.data, self.batches) == 0)
        if len(wrong):
            raise self._error(int(wrong[0]), "the CRC is not that of the bytes")
        damaged = np.flatnonzero(self.index.statuses)
        for batch in sorted({*damaged.tolist(), *self.sections.problems}):
            problem = decode.problem_of(batch, self.index, self.sections)
            if problem is not None:
                raise self._error(batch, problem.reason)


def windows(
    filesystem: FileSystem, segment: Segment, *, memory: Recycler, start: int = 0, end: int | None = None
) -> Iterator[DecodedWindow]:
    """Decode a segment, or a part of it, window by window.

    Args:
        memory: that of one window serves the next when nobody holds it any more.
        start, end: positions at which batches begin; by default the whole segment.

    Raises:
        LogDirError: it cannot be read, a batch is damaged, or bytes that are no batch follow the last.
    """
    size = segment.size_bytes if end is None else end
    with filesystem.open(segment.path) as read_at:
        for window in scan_segment(read_at, size_bytes=size, position=start, whole=True, file=segment.path):
            if len(window.batches):
                yield from _decoded(segment, window, memory)
            stop = window.batches.end
            if stop.corrupt or (stop.status == TORN and stop.position < size):
                raise LogDirError(f"{stop.reason}: nothing was cleaned", position=stop.position, file=segment.path)


def _decoded(segment: Segment, scanned: Window, memory: Recycler) -> Iterator[DecodedWindow]:
    array = as_array(scanned.data)
    for part in decode.in_turn(array, scanned.in_data(), allocate=memory.array):
        batches, index = part.batches, part.index
        owners = np.repeat(np.arange(len(batches)), index.rows)
        starts = np.concatenate(([0], np.cumsum(index.rows)))
        in_file = scanned.batches.part(part.first, part.first + len(batches))
        window = DecodedWindow(segment, array, batches, in_file, part.sections, index, owners, starts)
        window.check()
        yield window
