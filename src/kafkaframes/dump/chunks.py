"""A segment in pieces of about a megabyte: the headers of its batches and the places of their records.

Batches are cut by the rules of Kafka's file iterator. A piece holds whole batches; one that is larger than a piece is
one of its own. Nothing of a record is copied here: a piece says where keys, values and headers stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.dump.files import DumpFile
from kafkaframes.dump.lines import Slices
from kafkaframes.errors import CorruptRecordError, DecodeError, LogDirError
from kafkaframes.files.filesystem import split
from kafkaframes.files.names import DirectoryName, printable
from kafkaframes.records import decode, scan
from kafkaframes.records.chunks import Chunks
from kafkaframes.records.decode import Index, Sections
from kafkaframes.records.layout import CODEC_MASK, CONTROL
from kafkaframes.records.reasons import UNREADABLE_FIELD
from kafkaframes.records.scan import Batches, Bytes, Ints

MOST_LINES = 1 << 18  # records of which lines are made at once
CHUNK_BYTES = 1 << 20  # what is made of it stays in the caches: 4 MiB were slower by a third


@dataclass(frozen=True, slots=True)
class Place:
    """Where a segment lies, as its names say; topic and partition are None in a directory that is no partition's."""

    topic: str | None
    partition: int | None
    directory: str
    segment: str

    @classmethod
    def of(cls, path: str) -> Place:
        """Take a path apart.

        >>> Place.of("/logs/orders-3/00000000000000000000.log")
        Place(topic='orders', partition=3, directory='orders-3', segment='00000000000000000000.log')
        """
        above, segment = split(path)
        directory = split(above)[1]
        name = DirectoryName.parse(directory)
        if name is None:
            return cls(None, None, printable(directory), printable(segment))
        topic, partition = name.topic_partition.topic, name.topic_partition.partition
        return cls(topic, partition, printable(directory), printable(segment))


@dataclass
class Chunk:
    """Consecutive batches of one segment.

    Attributes:
        base: the position in the file of the first byte of ``data``.
        data, batches: the bytes, and the headers of the batches in them.
        sections, index: where each batch's records lie, and each record's parts.
        valid: 1 for each batch whose CRC is right.
        base_offsets: the first offset of each batch: of a compressed message that of its first record, which its own
            header does not say.
        reached: how many records Kafka's iterator hands out; a filter does not change it.
    """

    base: int
    data: Bytes
    batches: Batches
    sections: Sections
    index: Index
    valid: npt.NDArray[np.int8]
    file: str
    base_offsets: Ints
    reached: Ints

    @property
    def rows(self) -> Ints:
        """How many records of each batch are in ``index``: those that Kafka delivers, less what a filter took."""
        return self.index.rows

    @cached_property
    def batch_of(self) -> Ints:
        """The number of each record's batch."""
        return np.repeat(np.arange(len(self.batches)), self.rows)

    @cached_property
    def row_ends(self) -> Ints:
        """The number of records up to and with each batch."""
        return np.cumsum(self.rows)

    def select(self, keep: npt.NDArray[np.bool_]) -> Chunk:
        """Return the chunk with only the records for which ``keep`` is true."""
        return replace(self, index=self.index.take(keep, self.batch_of))

    def cut(self, most_records: int = MOST_LINES) -> Iterator[tuple[Chunk, bool]]:
        """Yield the chunk in pieces whose lines fit into memory, each with whether its batch has begun already.

        A chunk that is larger is cut into batches, and those into runs of records; damage is told with the last run.
        """
        if len(self.index.offsets) <= most_records:
            yield self, False
            return
        for batch, count in enumerate(self.rows.tolist()):
            start = int(self.row_ends[batch]) - count
            if self.is_control[batch]:  # their lines depend on each other
                yield self._run(batch, start, start + count, is_last=True), False
                continue
            for first in range(start, start + max(count, 1), most_records):
                last = min(first + most_records, start + count)
                yield self._run(batch, first, last, is_last=last == start + count), first > start

    def _run(self, batch: int, first: int, last: int, *, is_last: bool) -> Chunk:
        """Return records of one batch."""
        at = slice(batch, batch + 1)
        index = self.index.part(slice(first, last), at)
        sections = self.sections.part(batch, batch + 1)
        if not is_last:
            index, sections = index._replace(statuses=np.zeros(1, np.int64)), sections._replace(problems={})
        return replace(
            self,
            batches=self.batches.part(batch, batch + 1),
            sections=sections,
            index=index._replace(rows=np.array([last - first])),
            valid=self.valid[at],
            base_offsets=self.base_offsets[at],
            reached=self.reached[at],
        )

    @property
    def is_control(self) -> npt.NDArray[np.bool_]:
        """Which batches are control batches; no message of format 0 or 1 is."""
        control: npt.NDArray[np.bool_] = (self.batches.column("magic") >= 2) & (
            (self.batches.column("attributes") & CONTROL) != 0
        )
        return control

    @property
    def keys(self) -> Slices:
        """The key of each record."""
        return Slices(self.sections.buf, self.index.key_at, self.index.key_size)

    @property
    def values(self) -> Slices:
        """The value of each record."""
        return Slices(self.sections.buf, self.index.value_at, self.index.value_size)

    def problem(self, batch: int) -> DecodeError | None:
        """Return why the records of a batch ended before their time, with file and position; None for a whole one."""
        found = decode.problem_of(batch, self.index, self.sections)
        if found is None:
            return None
        position = self.base + int(self.batches.column("position")[batch])
        return CorruptRecordError(found.reason, position=position, file=self.file)

    @cached_property
    def problems(self) -> dict[int, DecodeError]:
        """The problem of each batch that has one."""
        suspects = {*self.sections.problems, *np.flatnonzero(self.index.statuses).tolist()}
        found = ((batch, self.problem(batch)) for batch in sorted(suspects))
        return {batch: problem for batch, problem in found if problem is not None}


class _Source(NamedTuple):
    """A dumped file as a source of batches."""

    file: DumpFile
    damage: None = None

    @property
    def name(self) -> str:
        return self.file.path

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes

    def read(self, position: int, length: int) -> bytes:
        return self.file.filesystem.read(self.file.path, position=position, length=length)


@dataclass
class ChunkReader:
    """Reads one segment, chunk by chunk; how it ended is known when the iteration is over.

    Attributes:
        file: the segment.
        max_bytes: read no batch that ends beyond so many bytes.
        bytes_read: up to where there were whole batches.
        fault: what ended the batches with an error; None at a torn, zero-length or regular end.
    """

    file: DumpFile
    max_bytes: int | None = None
    chunk_bytes: int = CHUNK_BYTES
    bytes_read: int = 0
    fault: DecodeError | LogDirError | None = field(default=None)

    @property
    def end(self) -> int:
        """The byte after the last that is looked at."""
        size = self.file.size_bytes
        return size if self.max_bytes is None else min(size, self.max_bytes)

    def __iter__(self) -> Iterator[Chunk]:
        source = _Source(self.file)
        chunks = Chunks(source, rules=scan.FILE, start=self.bytes_read, end=self.end, chunk_bytes=self.chunk_bytes)
        waiting = iter(chunks)
        while self.bytes_read < self.end:
            try:
                chunk = next(waiting, None)
            except LogDirError as error:  # it vanished, or the disk failed: what was read stays read
                self.fault = error
                return
            if chunk is None:
                self._stop(chunks.end)
                return
            yield from self._opened(chunk.base, chunk.data, chunk.batches)
            self.bytes_read = chunk.base + chunk.batches.end.position

    def _stop(self, end: scan.End | None) -> None:
        if end is not None and end.status == scan.CUT:
            self.fault = LogDirError(end.reason, file=self.file.path)
        elif end is not None and end.corrupt:
            self.fault = CorruptRecordError(end.reason, position=self.bytes_read, file=self.file.path)

    def _opened(self, base: int, data: Bytes, batches: Batches) -> Iterator[Chunk]:
        for part in decode.in_turn(data, batches):
            yield Chunk(
                base=base,
                data=data,
                batches=part.batches,
                sections=part.sections,
                index=part.index,
                valid=scan.check_crcs(data, part.batches),
                file=self.file.path,
                base_offsets=_base_offsets(part.batches, part.index),
                reached=_reached(part.sections, part.index),
            )


def is_wrapper(batches: Batches) -> npt.NDArray[np.bool_]:
    """Tell which batches are compressed messages of format 0 or 1."""
    wrapper: npt.NDArray[np.bool_] = (batches.column("magic") < 2) & ((batches.column("attributes") & CODEC_MASK) != 0)
    return wrapper


def _base_offsets(batches: Batches, index: Index) -> Ints:
    found = batches.column("base_offset").copy()
    wrappers = np.flatnonzero(is_wrapper(batches) & (index.rows > 0))
    found[wrappers] = index.offsets[(np.cumsum(index.rows) - index.rows)[wrappers]]
    return found


def _reached(sections: Sections, index: Index) -> Ints:
    """Count one more where the key or the value of the last record cannot be read, as Kafka's iterator does."""
    reached = index.rows.copy()
    for batch in np.flatnonzero(index.statuses == UNREADABLE_FIELD).tolist():
        reached[batch] += batch not in sections.problems
    return reached
