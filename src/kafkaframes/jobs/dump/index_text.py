"""Print ``.index`` and ``.timeindex`` files, and check each entry against the segment, as kafka-dump-log does.

The checks are those of kafka-dump-log, including a doubtful one: an entry of an offset index is a mismatch unless it is
the last offset of the batch at its position. Brokers before KAFKA-806 wrote the last offset of an append with the
position of its first batch, so these mismatches are not damage. ``kafkaframes verify`` checks the invariant that holds
for all brokers. The entries end at the first entry of zeros after the first entry, which begins the unused rest of a
preallocated file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.jobs.dump.styles import FileFindings, TextOptions, find_style
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.scan import FILE, scan_batches
from kafkaframes.storage.files import indexes
from kafkaframes.storage.files.filesystem import FileSystem, join, split_path
from kafkaframes.storage.files.names import FileName, name_segment_file

NO_TIMESTAMP = -1
NO_OFFSET = -1
_RECENT_INDEX_BYTES = 8192  # Kafka searches the last two pages of an index first
MaxTimestamp = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class IndexWithSegment:
    """An index file and the segment with the same base offset.

    Attributes:
        max_timestamp: function that returns the largest record timestamp of the batch at a position with a size. Raises
            ``DecodeError`` if its records cannot be read.
    """

    filesystem: FileSystem
    path: str
    base_offset: int
    log_path: str
    log_size: int
    max_timestamp: MaxTimestamp

    def make_sibling_path(self, kind: str) -> str:
        """Return the path of another file of the same segment."""
        return join(split_path(self.path)[0], name_segment_file(self.base_offset, kind))

    def read_batch_extent(self, position: int, end: int) -> tuple[int, int] | None:
        """Return (last offset, size in bytes) of the batch at ``position``; None if it does not end before ``end``.

        Raises:
            CorruptRecordError: the position is outside the log, or the batch size is too small.
        """
        if not 0 <= position <= self.log_size:
            raise CorruptRecordError(
                "an index entry's position is outside the segment", position=position, file=self.log_path
            )
        raw = self.filesystem.read(self.log_path, position=position, length=BATCH_V2.size)
        result = scan_batches(raw, end=end - position, rules=FILE, includes_data=False)
        if len(result) == 0:
            if result.end.is_corrupt:
                raise CorruptRecordError(result.end.reason, position=position, file=self.log_path)
            return None
        return int(result.column("last_offset")[0]), int(result.column("size")[0])


def open_index(filesystem: FileSystem, path: str, max_timestamp: Callable[[str], MaxTimestamp]) -> IndexWithSegment:
    """Return an index file with its segment.

    Raises:
        LogDirError: the file name has no base offset, or the segment is missing.
    """
    name = FileName.parse(split_path(path)[1])
    if name is None:
        raise LogDirError("the name of an index must begin with its base offset in 20 digits", file=path)
    log_path = join(split_path(path)[0], name_segment_file(name.offset, "log"))
    info = filesystem.stat(log_path)
    if info is None:
        raise LogDirError("the segment of an index file is missing", file=log_path)
    return IndexWithSegment(filesystem, path, name.offset, log_path, info.size_bytes, max_timestamp(log_path))


def format_offset_index(index: IndexWithSegment, options: TextOptions, findings: FileFindings) -> Iterator[str]:
    """Yield the lines of an offset index. Mismatches and faults are added to ``findings``."""
    entries = _read_entries(index, index.path, indexes.OFFSET_ENTRY)
    if len(entries) == 0:
        yield f"{findings.file} is empty."
    elif options.index_sanity_check:
        _check_entries(index, entries, "relative_offset", "offset", indexes.OFFSET_ENTRY)
        yield f"{findings.file} passed sanity check."
    else:
        yield from _format_offset_entries(index, entries, options, findings)


def _format_offset_entries(
    index: IndexWithSegment, entries: npt.NDArray[Any], options: TextOptions, findings: FileFindings
) -> Iterator[str]:
    """Check the entries of an offset index up to the tail of zeros, and yield their lines if requested."""
    for number, (relative_offset, position) in enumerate(entries.tolist()):
        if relative_offset == 0 and number:
            return
        offset = index.base_offset + relative_offset
        try:
            batch = index.read_batch_extent(position, min(position + options.max_message_size, index.log_size))
            if batch is None:
                raise CorruptRecordError(
                    "no batch starts at an index entry's position", position=position, file=index.log_path
                )
            if batch[0] != offset:
                findings.mismatches.append((offset, batch[0]))
        except CorruptRecordError as error:
            findings.faults.append(error)
        if not options.verify_index_only:
            yield f"offset: {offset} position: {position}"


def format_time_index(index: IndexWithSegment, options: TextOptions, findings: FileFindings) -> Iterator[str]:
    """Yield the lines of a time index. Mismatches and faults are added to ``findings``."""
    entries = _read_entries(index, index.path, indexes.TIME_ENTRY)
    if options.index_sanity_check:
        _check_entries(index, entries, "timestamp", "timestamp", indexes.TIME_ENTRY)
        yield f"{findings.file} passed sanity check."
        return
    if index.filesystem.stat(index.make_sibling_path("index")) is None:
        findings.faults.append(LogDirError("the offset index is missing", file=index.make_sibling_path("index")))
    positions = _read_entries(index, index.make_sibling_path("index"), indexes.OFFSET_ENTRY)
    if find_style(options.style).walks_to_the_end and len(entries):
        _check_remaining_batches(
            index, _find_entry_at_or_before(positions, int(entries["relative_offset"][-1])), findings
        )
    previous_timestamp = NO_TIMESTAMP
    for number, (timestamp, relative_offset) in enumerate(entries.tolist()):
        if relative_offset == 0 and number:
            return
        offset = index.base_offset + relative_offset
        try:
            _check_timestamp(
                index,
                _find_entry_at_or_before(positions, relative_offset),
                (timestamp, offset, previous_timestamp),
                findings,
            )
        except CorruptRecordError as error:
            findings.faults.append(error)
        if not options.verify_index_only:
            yield f"timestamp: {timestamp} offset: {offset}"
        previous_timestamp = timestamp


def _check_remaining_batches(index: IndexWithSegment, position: int, findings: FileFindings) -> None:
    """Walk the batches from ``position`` to the end, and add the first corrupt one to the findings."""
    try:
        while batch := index.read_batch_extent(position, index.log_size):
            position += batch[1]
    except CorruptRecordError as error:
        findings.faults.append(error)


def _check_timestamp(
    index: IndexWithSegment, position: int, entry: tuple[int, int, int], findings: FileFindings
) -> None:
    """Compare an entry (timestamp, offset, previous timestamp) with the batch that ends at its offset."""
    timestamp, offset, previous_timestamp = entry
    last_offset, size = NO_OFFSET, 0
    while last_offset < offset:
        position += size
        batch = index.read_batch_extent(position, index.log_size)
        if batch is None:
            findings.missing.append((offset, NO_OFFSET))
            return
        last_offset, size = batch
    if last_offset != offset:
        findings.missing.append((offset, last_offset))
        return
    max_timestamp = index.max_timestamp(position, size)
    if max_timestamp != timestamp:
        findings.timestamp_mismatches.append((timestamp, max_timestamp))
    if previous_timestamp >= timestamp:
        findings.out_of_order.append((timestamp, previous_timestamp))


def _read_entries(index: IndexWithSegment, path: str, entry: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return all whole entries of a file, including its tail of zeros. A missing file has no entries."""
    if index.filesystem.stat(path) is None:
        return np.empty(0, entry)
    raw = index.filesystem.read(path)
    return np.frombuffer(raw, entry, len(raw) // entry.itemsize)


def _check_entries(
    index: IndexWithSegment, entries: npt.NDArray[Any], column: str, quantity: str, entry: np.dtype[Any]
) -> None:
    """Check an index as a broker does at its start (``sanityCheck``).

    Raises:
        LogDirError: the last entry is less than the first (time index) or than the base offset, or an entry is torn.
    """
    if len(entries):
        minimum = int(entries[column][0]) if quantity == "timestamp" else 0
        for name, first_value in ((column, minimum), ("relative_offset", 0)):
            if entries[name][-1] < first_value:
                raise LogDirError(f"the last {quantity} of the index is less than {first_value}", file=index.path)
    info = index.filesystem.stat(index.path)
    if info is not None and info.size_bytes % entry.itemsize:
        raise LogDirError(
            f"the index has {info.size_bytes} bytes, which is not a multiple of the entry size {entry.itemsize}",
            file=index.path,
        )


def _find_entry_at_or_before(entries: npt.NDArray[Any], target: int) -> int:
    """Return the position of the last entry at or before a relative offset, with a broker's search.

    The search requires ascending entries. If the entries are not ascending (a tail of zeros), the result depends on the
    steps of the search, so the steps are those of Kafka, which searches the last pages first.
    """
    if len(entries) == 0:
        return 0
    offsets = entries["relative_offset"]
    first_recent_entry = max(0, len(entries) - 1 - _RECENT_INDEX_BYTES // entries.itemsize)
    low, high = (
        (first_recent_entry, len(entries) - 1) if offsets[first_recent_entry] < target else (0, first_recent_entry)
    )
    if offsets[low] > target:
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        if offsets[middle] == target:
            return int(entries["position"][middle])
        low, high = (low, middle - 1) if offsets[middle] > target else (middle, high)
    return int(entries["position"][low])
