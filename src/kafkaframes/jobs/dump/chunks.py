"""A segment in chunks of about a megabyte: the headers of its batches, the places of their records, and which of
these are requested: by offset, time and key, up to a limit.

Batches are cut by the rules of Kafka's file iterator. A chunk holds whole batches; one that is larger than a chunk is
one of its own. Nothing of a record is copied here: a chunk says where keys, values and headers stand.

Below are the searches of ``grep``: which rows of an Arrow batch have a pattern in their key, their value or their
headers. Arrow's kernels search; Python is entered per batch. A plain pattern is first searched in the whole column at
once; most batches of a log do not have it, and then no row is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import CorruptRecordError, DecodeError, LogDirError, OptionError
from kafkaframes.jobs.dump.files import DumpFile
from kafkaframes.jobs.dump.lines import Slices
from kafkaframes.jobs.dump.names import HEADERS, KEY, SEARCHED, VALUE
from kafkaframes.records import decode, scan
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.scan import Bytes, Chunks, as_array
from kafkaframes.storage.files.filesystem import split_path
from kafkaframes.storage.files.names import DirectoryName, printable

MAX_LINES = 1 << 18  # records of which lines are made at once
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
        above, segment = split_path(path)
        directory = split_path(above)[1]
        name = DirectoryName.parse(directory)
        if name is None:
            return cls(None, None, printable(directory), printable(segment))
        topic, partition = name.topic_partition.topic, name.topic_partition.partition
        return cls(topic, partition, printable(directory), printable(segment))


def split_for_lines(chunk: Decoded, most_records: int = MAX_LINES) -> Iterator[tuple[Decoded, bool]]:
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
        """The size of the file."""
        return self.file.size_bytes

    def read(self, position: int, length: int) -> Bytes:
        """Return some bytes of the file."""
        return as_array(self.file.filesystem.read(self.file.path, position=position, length=length))


@dataclass
class ChunkReader:
    """Reads one segment, chunk by chunk; how it ended is known when the iteration is over.

    Attributes:
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
        source = SegmentSource(self.file)
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
            yield from decode.decode_steps(chunk.data, chunk.batches, base=chunk.base, file=self.file.path)
            self.bytes_read = chunk.base + chunk.batches.end.position

    def _stop(self, end: scan.End | None) -> None:
        if end is not None and end.status == scan.CUT:
            self.fault = LogDirError(end.reason, file=self.file.path)
        elif end is not None and end.corrupt:
            self.fault = CorruptRecordError(end.reason, position=self.bytes_read, file=self.file.path)


Flags = npt.NDArray[np.bool_]


class Selection(Protocol):
    """Chooses records, chunk by chunk."""

    def apply(self, chunk: Decoded) -> Decoded:
        """Return the chunk with the records that are requested."""
        ...

    def is_done(self, chunk: Decoded) -> bool:
        """Tell whether nothing of the segment behind ``chunk`` can be requested."""
        ...


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that all must hold; None is no condition.

    Offsets and timestamps (milliseconds) have an exclusive end. ``key_pattern`` is found in the key.
    """

    from_offset: int | None = None
    until_offset: int | None = None
    from_timestamp: int | None = None
    until_timestamp: int | None = None
    keys: frozenset[bytes] | None = None
    key_pattern: re.Pattern[bytes] | None = None
    control: bool = True

    def apply(self, chunk: Decoded) -> Decoded:
        """Return the chunk with the records for which all conditions hold; the same one where there is no condition."""
        if self == NO_FILTER:
            return chunk
        keep = self._in_ranges(chunk)
        if not self.control:
            keep &= ~chunk.batches.is_control[chunk.owners]
        if self.keys is not None:
            _narrow(chunk, keep, self.keys.__contains__)
        if self.key_pattern is not None:
            pattern = self.key_pattern
            _narrow(chunk, keep, lambda key: pattern.search(key) is not None)
        return chunk if keep.all() else chunk.select(keep)

    def _in_ranges(self, chunk: Decoded) -> Flags:
        keep = np.ones(len(chunk.index.offsets), np.bool_)
        for values, least, limit in (
            (chunk.index.offsets, self.from_offset, self.until_offset),
            (chunk.index.timestamps, self.from_timestamp, self.until_timestamp),
        ):
            if least is not None:
                keep &= values >= least
            if limit is not None:
                keep &= values < limit
        return keep

    def is_done(self, chunk: Decoded) -> bool:
        """Tell whether the batches behind this chunk lie at or above the last offset."""
        if self.until_offset is None or len(chunk.batches) == 0:
            return False
        return int(chunk.batches.column("last_offset")[-1]) + 1 >= self.until_offset


NO_FILTER = Filter()


@dataclass
class Limited:
    """A limit on the number of records that another selection gives, over all segments."""

    selection: Selection
    left: int

    def apply(self, chunk: Decoded) -> Decoded:
        """Return the chunk with the records that are requested and still asked for."""
        selected_records = self.selection.apply(chunk)
        count = len(selected_records.index.offsets)
        if count > self.left:
            selected_records = selected_records.select(np.arange(count) < self.left)
        self.left -= min(count, self.left)
        return selected_records

    def is_done(self, chunk: Decoded) -> bool:
        """Tell whether no more records are asked for."""
        return self.left == 0 or self.selection.is_done(chunk)


def _narrow(chunk: Decoded, keep: Flags, selected_records: Callable[[bytes], bool]) -> None:
    """Keep those of the remaining rows whose key is requested; records without a key are not."""
    keys = keys_of(chunk)
    for row in np.flatnonzero(keep).tolist():
        key = keys.at(row)
        keep[row] = key is not None and selected_records(key)


def key_pattern(text: str) -> re.Pattern[bytes]:
    """Compile a regular expression for keys; what is none is an ``OptionError``."""
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise OptionError(f"not a regular expression: {text!r} ({error})") from None


_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\|()]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A search pattern, a regular expression of RE2 or plain text; it is matched against bytes, as UTF-8.

    Case is ignored of ASCII letters, and in a regular expression of others too.
    """

    text: str
    is_plain: bool = False
    ignores_case: bool = False

    @classmethod
    def of(cls, text: str, *, is_plain: bool = False, ignores_case: bool = False) -> Pattern:
        """Return a pattern; one without special characters is always plain.

        >>> Pattern.of("order-17").is_plain
        True

        Raises:
            OptionError: ``text`` is not a regular expression.
        """
        pattern = cls(text, is_plain or _SPECIAL.search(text) is None, ignores_case)
        try:
            pattern.rows_of(pa.array([b""]))
        except pa.ArrowInvalid as error:
            raise OptionError(f"not a regular expression: {text!r} ({error})") from None
        return pattern

    def rows_of(self, column: pa.Array) -> Flags:
        """Return which rows of a binary column match; nulls do not."""
        if self.is_plain and not self.ignores_case and not _is_anywhere(column, self.text.encode()):
            return np.zeros(len(column), np.bool_)
        search = pc.match_substring if self.is_plain else pc.match_substring_regex
        result = search(column, self.text.encode(), ignore_case=self.ignores_case)
        flags: Flags = pc.fill_null(result, False).to_numpy(zero_copy_only=False)
        return flags


def _is_anywhere(column: pa.Array, plain: bytes) -> bool:
    """Say whether the concatenated bytes of all rows match; a match across two rows is a false positive."""
    _, offsets, data = column.buffers()
    if data is None or len(column) == 0:
        return not plain
    edges = np.frombuffer(offsets, np.int32)
    first, last = int(edges[column.offset]), int(edges[column.offset + len(column)])
    return bool(data.slice(first, last - first).to_pybytes().find(plain) >= 0)


def matching(batch: pa.RecordBatch, pattern: Pattern, fields: Collection[str] = SEARCHED) -> pa.RecordBatch:
    """Return the rows in which the pattern is found: in the key, the value, or names and values of headers."""
    result = np.zeros(batch.num_rows, np.bool_)
    for name in (one for one in (KEY, VALUE) if one in fields):
        result |= pattern.rows_of(batch.column(name))
    if HEADERS in fields:
        result |= _in_headers(batch.column(HEADERS), pattern)
    return batch if result.all() else batch.filter(pa.array(result))


def _in_headers(column: Any, pattern: Pattern) -> Flags:
    flags = np.zeros(len(column), np.bool_)
    entries = column.flatten()
    if not len(entries):
        return flags
    owners = pc.list_parent_indices(column).to_numpy()
    names, values = entries.flatten()
    hit = pattern.rows_of(names.cast(pa.binary())) | pattern.rows_of(values)
    flags[owners[hit]] = True
    return flags
