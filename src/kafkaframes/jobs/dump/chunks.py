"""Read a segment in chunks of about a megabyte, and select records by offset, timestamp, key, or up to a limit.

A chunk has the batch headers, and the positions of the records' keys, values and headers in its data. The records'
bytes are not copied. Batches are split by the rules of Kafka's file iterator. A chunk has whole batches. A batch that
is larger than a chunk is a chunk of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import CorruptRecordError, DecodeError, LogDirError, OptionError
from kafkaframes.jobs.dump.files import DumpFile
from kafkaframes.jobs.dump.lines import BytesSlices
from kafkaframes.records import decode, scan
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.scan import Bytes, Chunks, as_array
from kafkaframes.storage.files.filesystem import split_path
from kafkaframes.storage.files.names import DirectoryName, escape_unprintable

MAX_RENDERED_RECORDS = 1 << 18  # records to render at once
MAX_CHUNK_BYTES = 1 << 20  # the lines of a chunk fit into the CPU caches: 4 MiB were slower by a third


@dataclass(frozen=True, slots=True)
class SegmentOrigin:
    """A segment's location, parsed from its path. Topic and partition are None outside of a partition's directory."""

    topic: str | None
    partition: int | None
    directory: str
    segment: str

    @classmethod
    def parse_path(cls, path: str) -> SegmentOrigin:
        """Parse the path of a segment.

        >>> SegmentOrigin.parse_path("/logs/orders-3/00000000000000000000.log")
        SegmentOrigin(topic='orders', partition=3, directory='orders-3', segment='00000000000000000000.log')
        """
        parent, segment = split_path(path)
        directory = split_path(parent)[1]
        name = DirectoryName.parse(directory)
        if name is None:
            return cls(None, None, escape_unprintable(directory), escape_unprintable(segment))
        topic, partition = name.topic_partition.topic, name.topic_partition.partition
        return cls(topic, partition, escape_unprintable(directory), escape_unprintable(segment))


def split_to_fit_memory(
    chunk: DecodedBatches, max_records: int = MAX_RENDERED_RECORDS
) -> Iterator[tuple[DecodedBatches, bool]]:
    """Split a chunk into parts whose printed lines fit into memory, each with a flag: whether it continues a batch.

    A larger chunk is split into batches, and these into runs of records. Damage in a batch is reported with its last
    part.
    """
    if len(chunk.index.offsets) <= max_records:
        yield chunk, False
        return
    is_control = chunk.batches.is_control
    for batch, count in enumerate(chunk.index.rows.tolist()):
        start = int(chunk.starts[batch])
        if is_control[batch]:  # the lines of control records depend on each other
            yield chunk.part(batch, start, start + count), False
            continue
        for first in range(start, start + max(count, 1), max_records):
            last = min(first + max_records, start + count)
            run = chunk.part(batch, first, last)
            yield run if last == start + count else _remove_damage(run), first > start


def _remove_damage(run: DecodedBatches) -> DecodedBatches:
    """Remove the report of damage from a run of a batch's records, because only the last run reports it."""
    run.index, run.sections = run.index._replace(statuses=np.zeros(1, np.int64)), run.sections._replace(problems={})
    return run


def get_keys(chunk: DecodedBatches) -> BytesSlices:
    """Return the keys of a chunk's records as slices of its data."""
    return BytesSlices(chunk.sections.buf, chunk.index.key_at, chunk.index.key_size)


def get_values(chunk: DecodedBatches) -> BytesSlices:
    """Return the values of a chunk's records as slices of its data."""
    return BytesSlices(chunk.sections.buf, chunk.index.value_at, chunk.index.value_size)


def map_errors_by_batch(chunk: DecodedBatches) -> dict[int, DecodeError]:
    """Return the decoding errors of a chunk by batch number, with file and position."""
    result = ((batch, chunk.to_error(batch)) for batch in chunk.problems)
    return {batch: error for batch, error in result if error is not None}


class SegmentSource(NamedTuple):
    """A dumped file as a source of batches."""

    file: DumpFile
    damage: None = None

    @property
    def name(self) -> str:
        """The path of the file."""
        return self.file.path

    @property
    def size_bytes(self) -> int:
        """The size of the file, in bytes."""
        return self.file.size_bytes

    def read(self, position: int, length: int) -> Bytes:
        """Return ``length`` bytes of the file from a position, or fewer at its end."""
        return as_array(self.file.filesystem.read(self.file.path, position=position, length=length))


@dataclass
class ChunkReader:
    """Reads a segment chunk by chunk. ``bytes_read`` and ``fault`` are final after the iteration.

    Attributes:
        max_bytes: upper bound of the position at which a batch ends; None for the end of the file.
        bytes_read: end of the last whole batch that was read.
        fault: error at which reading batches ended; None after a regular end, a torn batch or a tail of zeros.
    """

    file: DumpFile
    max_bytes: int | None = None
    chunk_bytes: int = MAX_CHUNK_BYTES
    bytes_read: int = 0
    fault: DecodeError | LogDirError | None = field(default=None)

    @property
    def end(self) -> int:
        """The position at which reading ends."""
        size = self.file.size_bytes
        return size if self.max_bytes is None else min(size, self.max_bytes)

    def __iter__(self) -> Iterator[DecodedBatches]:
        source = SegmentSource(self.file)
        chunks = Chunks(source, rules=scan.FILE, start=self.bytes_read, end=self.end, chunk_bytes=self.chunk_bytes)
        waiting = iter(chunks)
        while self.bytes_read < self.end:
            try:
                chunk = next(waiting, None)
            except LogDirError as error:  # the file vanished, or the disk failed: the chunks so far remain valid
                self.fault = error
                return
            if chunk is None:
                self._record_fault_at(chunks.end)
                return
            yield from decode.decode_steps(chunk.data, chunk.batches, base=chunk.base, file=self.file.path)
            self.bytes_read = chunk.base + chunk.batches.end.position

    def _record_fault_at(self, end: scan.ScanEnd | None) -> None:
        """Set ``fault`` if the chunks ended at damage, or because the file became shorter during the read."""
        if end is not None and end.status == scan.TRUNCATED_SOURCE:
            self.fault = LogDirError(end.reason, file=self.file.path)
        elif end is not None and end.is_corrupt:
            self.fault = CorruptRecordError(end.reason, position=self.bytes_read, file=self.file.path)


Flags = npt.NDArray[np.bool_]


class RecordSelection(Protocol):
    """Chooses records, chunk by chunk."""

    def select_records(self, chunk: DecodedBatches) -> DecodedBatches:
        """Return the chunk with the selected records."""
        ...

    def is_exhausted(self, chunk: DecodedBatches) -> bool:
        """Return whether the rest of the segment after ``chunk`` has no selected records."""
        ...


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions that a selected record must all meet. A condition of None is not checked.

    Offsets and timestamps (milliseconds) have an exclusive end. A pattern from ``compile_key_pattern`` may match any
    part of the key.
    """

    from_offset: int | None = None
    until_offset: int | None = None
    from_timestamp: int | None = None
    until_timestamp: int | None = None
    keys: frozenset[bytes] | None = None
    key_pattern: re.Pattern[bytes] | None = None
    control: bool = True

    def select_records(self, chunk: DecodedBatches) -> DecodedBatches:
        """Return the chunk with the records that meet all conditions; the chunk itself if there are no conditions."""
        if self == NO_FILTER:
            return chunk
        is_selected = self._mask_ranges(chunk)
        if not self.control:
            is_selected &= ~chunk.batches.is_control[chunk.owners]
        if self.keys is not None:
            _filter_by_key(chunk, is_selected, self.keys.__contains__)
        if self.key_pattern is not None:
            pattern = self.key_pattern
            _filter_by_key(chunk, is_selected, lambda key: pattern.search(key) is not None)
        return chunk if is_selected.all() else chunk.select(is_selected)

    def _mask_ranges(self, chunk: DecodedBatches) -> Flags:
        """Return a flag for each record: whether its offset and timestamp are in the ranges."""
        is_selected = np.ones(len(chunk.index.offsets), np.bool_)
        for values, minimum, limit in (
            (chunk.index.offsets, self.from_offset, self.until_offset),
            (chunk.index.timestamps, self.from_timestamp, self.until_timestamp),
        ):
            if minimum is not None:
                is_selected &= values >= minimum
            if limit is not None:
                is_selected &= values < limit
        return is_selected

    def is_exhausted(self, chunk: DecodedBatches) -> bool:
        """Return whether all later batches are at or above ``until_offset``."""
        if self.until_offset is None or len(chunk.batches) == 0:
            return False
        return int(chunk.batches.column("last_offset")[-1]) + 1 >= self.until_offset


NO_FILTER = RecordFilter()  # selects all records


@dataclass
class LimitedSelection:
    """A selection with a limit on its number of records, over all segments.

    Attributes:
        remaining_records: number of records that may still be selected.
    """

    selection: RecordSelection
    remaining_records: int

    def select_records(self, chunk: DecodedBatches) -> DecodedBatches:
        """Return the chunk with the selected records, up to the limit."""
        selected_records = self.selection.select_records(chunk)
        count = len(selected_records.index.offsets)
        if count > self.remaining_records:
            selected_records = selected_records.select(np.arange(count) < self.remaining_records)
        self.remaining_records -= min(count, self.remaining_records)
        return selected_records

    def is_exhausted(self, chunk: DecodedBatches) -> bool:
        """Return whether the limit is reached or the selection is done."""
        return self.remaining_records == 0 or self.selection.is_exhausted(chunk)


def _filter_by_key(chunk: DecodedBatches, keep: Flags, is_selected: Callable[[bytes], bool]) -> None:
    """Clear the flags of rows whose key is not selected. Records without a key are never selected."""
    keys = get_keys(chunk)
    for row in np.flatnonzero(keep).tolist():
        key = keys.value_at(row)
        keep[row] = key is not None and is_selected(key)


def compile_key_pattern(text: str) -> re.Pattern[bytes]:
    """Compile a regular expression for keys.

    Raises:
        OptionError: the text is not a regular expression.
    """
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise OptionError(f"{text!r} is not a regular expression ({error})") from None
