"""A segment in chunks of about a megabyte: the headers of its batches and the places of their records.

Batches are cut by the rules of Kafka's file iterator. A chunk holds whole batches; one that is larger than a chunk is
one of its own. Nothing of a record is copied here: a chunk says where keys, values and headers stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import CorruptRecordError, DecodeError, LogDirError
from kafkaframes.jobs.dump.files import DumpFile
from kafkaframes.jobs.dump.lines import Slices
from kafkaframes.records import decode, scan
from kafkaframes.records.chunks import Chunks
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.scan import Bytes, as_array
from kafkaframes.storage.files.filesystem import split
from kafkaframes.storage.files.names import DirectoryName, printable

MOST_LINES = 1 << 18  # records of which lines are made at once
CHUNK_BYTES = 1 << 20  # the lines of a chunk stay in the CPU caches: 4 MiB were slower by a third


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a segment lies, as its names say; topic and partition are None in a directory that is no partition's."""

    topic: str | None
    partition: int | None
    directory: str
    segment: str

    @classmethod
    def of(cls, path: str) -> Origin:
        """Take a path apart.

        >>> Origin.of("/logs/orders-3/00000000000000000000.log")
        Origin(topic='orders', partition=3, directory='orders-3', segment='00000000000000000000.log')
        """
        above, segment = split(path)
        directory = split(above)[1]
        name = DirectoryName.parse(directory)
        if name is None:
            return cls(None, None, printable(directory), printable(segment))
        topic, partition = name.topic_partition.topic, name.topic_partition.partition
        return cls(topic, partition, printable(directory), printable(segment))


def cut_lines(chunk: Decoded, most_records: int = MOST_LINES) -> Iterator[tuple[Decoded, bool]]:
    """Yield a chunk in parts whose lines fit into memory, each with whether its batch has begun already.

    A larger chunk is cut into batches, and those into runs of records; damage is reported with the last run.
    """
    if len(chunk.index.offsets) <= most_records:
        yield chunk, False
        return
    is_control = chunk.batches.is_control
    for batch, count in enumerate(chunk.index.rows.tolist()):
        start = int(chunk.starts[batch])
        if is_control[batch]:  # their lines depend on each other
            yield chunk.part(batch, start, start + count), False
            continue
        for first in range(start, start + max(count, 1), most_records):
            last = min(first + most_records, start + count)
            run = chunk.part(batch, first, last)
            yield run if last == start + count else _without_damage(run), first > start


def _without_damage(run: Decoded) -> Decoded:
    """Return a run of a batch's records without its damage, which belongs to the last run."""
    run.index, run.sections = run.index._replace(statuses=np.zeros(1, np.int64)), run.sections._replace(problems={})
    return run


def keys_of(chunk: Decoded) -> Slices:
    """Return the key of each record."""
    return Slices(chunk.sections.buf, chunk.index.key_at, chunk.index.key_size)


def values_of(chunk: Decoded) -> Slices:
    """Return the value of each record."""
    return Slices(chunk.sections.buf, chunk.index.value_at, chunk.index.value_size)


def errors_in(chunk: Decoded) -> dict[int, DecodeError]:
    """Return the problem of each batch that has one, with the file and the position."""
    result = ((batch, chunk.error(batch)) for batch in chunk.problems)
    return {batch: error for batch, error in result if error is not None}


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

    def read(self, position: int, length: int) -> Bytes:
        return as_array(self.file.filesystem.read(self.file.path, position=position, length=length))


@dataclass
class ChunkReader:
    """Reads one segment, chunk by chunk; how it ended is known when the iteration is over.

    Attributes:
        file: the segment.
        max_bytes: read no batch that ends beyond this byte of the file.
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

    def __iter__(self) -> Iterator[Decoded]:
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
            yield from decode.in_turn(chunk.data, chunk.batches, base=chunk.base, file=self.file.path)
            self.bytes_read = chunk.base + chunk.batches.end.position

    def _stop(self, end: scan.End | None) -> None:
        if end is not None and end.status == scan.CUT:
            self.fault = LogDirError(end.reason, file=self.file.path)
        elif end is not None and end.corrupt:
            self.fault = CorruptRecordError(end.reason, position=self.bytes_read, file=self.file.path)
