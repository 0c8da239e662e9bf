"""Open a segment, on a disk or in a store, as what ``records`` reads batches from. No pyspark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError
from kafkaframes.log.filesystem import FileSystem, LocalFileSystem, ReadAt, filesystem_for
from kafkaframes.log.segment_file import open_segment_file
from kafkaframes.log.transactions import TransactionState
from kafkaframes.records.chunks import Source
from kafkaframes.records.scan import Batches, Bytes
from kafkaframes.spark.options import ReadOptions
from kafkaframes.spark.planning import Slice

log = logging.getLogger("kafkaframes.spark")
STORE_BYTES = 8 << 20  # asked of a store at once: a request costs some milliseconds, whatever its size


@dataclass(slots=True)
class Meter:
    """Counts what a task reads of its segments."""

    bytes_read: int = 0


@dataclass(slots=True)
class StoredSegment:
    """A segment that a store answers for, some megabytes at a time; never a byte behind ``size_bytes``."""

    name: str
    size_bytes: int
    read_at: ReadAt
    meter: Meter
    _start: int = 0
    _data: bytes = b""

    def read(self, position: int, length: int) -> bytes | memoryview:
        """Return up to ``length`` bytes from ``position`` on.

        Raises:
            LogDirError: the store fails; it names the file.
        """
        at = position - self._start
        if at < 0 or at + length > len(self._data):
            wanted = min(max(length, STORE_BYTES), max(self.size_bytes - position, 0))
            self._start, self._data, at = position, self.read_at(position, wanted), 0
            self.meter.bytes_read += len(self._data)
            if len(self._data) < wanted:
                reason = f"the store gave {len(self._data)} of {wanted} bytes"
                raise LogDirError(reason, position=position, file=self.name)
        return memoryview(self._data)[at : at + length]


@dataclass(slots=True)
class Metered:
    """A source that counts what is read of it."""

    source: Source
    meter: Meter

    @property
    def name(self) -> str | None:
        """The path."""
        return self.source.name

    @property
    def size_bytes(self) -> int:
        """The size when it was opened."""
        return self.source.size_bytes

    def read(self, position: int, length: int) -> bytes | memoryview | Bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        data = self.source.read(position, length)
        self.meter.bytes_read += len(data)
        return data


@contextmanager
def open_slice(piece: Slice, options: ReadOptions, *, meter: Meter | None = None) -> Iterator[Source | None]:
    """Open the segment of a slice; None where it is gone and ``failOnDataLoss`` is false.

    Raises:
        LogDirError: it cannot be read, or has lost bytes since the read was planned: before or while it is read.
    """
    path = piece.segment.path
    filesystem = filesystem_for(path, options=options.storage)
    counted = meter or Meter()
    if not _is_there(filesystem, piece, options):
        yield None
    elif isinstance(filesystem, LocalFileSystem):
        with open_segment_file(path) as source:
            yield Metered(source, counted)
    else:
        with filesystem.open(path) as read_at:
            yield StoredSegment(path, piece.end, read_at, counted)


def check_not_cut(piece: Slice, options: ReadOptions) -> None:
    """See whether a slice that ended early did so because its file was cut meanwhile.

    Raises:
        LogDirError: it was.
    """
    _is_there(filesystem_for(piece.segment.path, options=options.storage), piece, options)


def _is_there(filesystem: FileSystem, piece: Slice, options: ReadOptions) -> bool:
    found = filesystem.stat(piece.segment.path)
    if found is None:
        problem = LogDirError("has vanished since the read was planned", file=piece.segment.path)
        if options.fail_on_data_loss:
            raise problem
        log.warning("%s; its records are not read", problem)
        return False
    if found.size_bytes < piece.end:
        raise LogDirError("has become shorter since the read was planned", file=piece.segment.path)
    return True


def aborted_batches(piece: Slice) -> Callable[[Batches], npt.NDArray[np.bool_]] | None:
    """Return what says of batches whether they belong to an aborted transaction; None where none does."""
    if not piece.aborted:
        return None
    state = TransactionState(piece.aborted)

    def unwanted(batches: Batches) -> npt.NDArray[np.bool_]:
        columns = (batches.column(name) for name in ("base_offset", "producer_id", "attributes"))
        return state.aborted_batches(*columns) & (batches.column("magic") >= 2)

    return unwanted
