"""One task's rows become runs: for each topic partition a file of batches whose offsets count from 0.

A run is in the order of the task's rows. Batches are complete (compressed, with their CRC); what the commit changes
afterwards stands outside of both. Memory: ``PENDING_BYTES`` of rows, whatever the number of partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import EncodeError
from kafkaframes.log.names import TopicPartition
from kafkaframes.log.rewrite import files
from kafkaframes.log.writing.routing import Ints, Routed, Router
from kafkaframes.log.writing.settings import WriteSettings
from kafkaframes.records.build import build_records

PENDING_BYTES = 64 << 20
_BUILD_BYTES = 8 << 20
_RECORD = ("offset", "timestamp", "key", "value", "headers")
_OVERHEAD_BYTES = 61 + 21  # of a batch with one record, at most, without key, value and headers


@dataclass(frozen=True, slots=True)
class Run:
    """The batches of one topic partition that one task wrote; picklable.

    Attributes:
        first_offset, next_offset: from 0 on, or the rows' own.
    """

    partition: TopicPartition
    path: str
    size_bytes: int
    records: int
    first_offset: int
    next_offset: int


@dataclass(slots=True)
class _Pending:
    """Rows of a partition that are not written yet, and what is."""

    path: Path
    rows: list[pa.RecordBatch] = field(default_factory=list)
    numbers: list[Ints] = field(default_factory=list)
    waiting_bytes: int = 0
    written_bytes: int = 0
    records: int = 0
    first_offset: int = 0
    next_offset: int = 0


class RunWriter:
    """Writes the runs of one task into a directory of its own."""

    def __init__(self, directory: Path, settings: WriteSettings, *, task: int) -> None:
        """``directory``: exists and is empty; whoever made it removes it when the task fails."""
        self._directory = directory
        self._settings = settings
        self._task = task
        self._router = Router(settings, task=task)
        self._pending: dict[TopicPartition, _Pending] = {}
        self._waiting_bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows.

        Raises:
            EncodeError: a row cannot be written; the message has its number and the task's.
            LogDirError: the disk is full, or something is forbidden.
        """
        for routed in self._router.route(rows):
            pending = self._of(routed.partition)
            self._check_sizes(routed)
            size = routed.rows.nbytes
            pending.rows.append(routed.rows)
            pending.numbers.append(routed.numbers)
            pending.waiting_bytes += size
            self._waiting_bytes += size
            if pending.waiting_bytes >= _BUILD_BYTES:
                self._write(pending)
        if self._waiting_bytes >= PENDING_BYTES:
            for pending in self._pending.values():
                self._write(pending)

    def finish(self) -> list[Run]:
        """Write the rest and say what there is.

        Raises:
            EncodeError, LogDirError: as ``add``.
        """
        for pending in self._pending.values():
            self._write(pending)
        return [
            Run(partition, str(one.path), one.written_bytes, one.records, one.first_offset, one.next_offset)
            for partition, one in sorted(self._pending.items())
        ]

    def _of(self, partition: TopicPartition) -> _Pending:
        found = self._pending.get(partition)
        if found is None:
            found = self._pending[partition] = _Pending(self._directory / f"run-{len(self._pending):06}")
        return found

    def _bad(self, number: int, reason: str) -> EncodeError:
        return EncodeError(f"task {self._task}, row {number}: {reason}")

    def _check_sizes(self, routed: Routed) -> None:
        """Refuse a record that no batch can hold."""
        sizes = np.full(routed.rows.num_rows, _OVERHEAD_BYTES, np.int64)
        for name in ("key", "value"):
            if name in routed.rows.schema.names:
                lengths = pc.fill_null(pc.binary_length(routed.rows.column(name)), 0)
                sizes += lengths.to_numpy(zero_copy_only=False)
        large = np.flatnonzero(sizes > self._settings.max_message_bytes)
        if len(large):
            row = int(large[0])
            raise self._bad(
                int(routed.numbers[row]),
                f"a record of about {sizes[row]} bytes for {routed.partition} is larger than maxMessageBytes "
                f"({self._settings.max_message_bytes})",
            )

    def _write(self, pending: _Pending) -> None:
        if not pending.rows:
            return
        rows, numbers = pa.Table.from_batches(pending.rows), np.concatenate(pending.numbers)
        self._waiting_bytes -= pending.waiting_bytes
        pending.rows, pending.numbers, pending.waiting_bytes = [], [], 0
        data = self._built(rows, numbers, pending)
        with files.writing(pending.path), pending.path.open("ab") as out:
            out.write(data)
        pending.written_bytes += len(data)
        pending.records += rows.num_rows

    def _built(self, rows: pa.Table, numbers: Ints, pending: _Pending) -> bytes:
        settings = self._settings
        columns = {name: rows.column(name) for name in _RECORD if name in rows.column_names}
        if settings.keep_offsets:
            self._keep_offsets(columns["offset"], numbers, pending)
        else:
            columns.pop("offset", None)
        columns["timestamp"] = _milliseconds(columns.get("timestamp"), rows.num_rows, settings.now_ms)
        if settings.magic == 0:
            del columns["timestamp"]
        if settings.magic < 2 and "headers" in columns:
            self._refuse_headers(columns.pop("headers"), numbers)
        try:
            data = build_records(
                columns,
                magic=settings.magic,
                codec="none" if settings.compresses_late else settings.codec,
                level=settings.level,
                base_offset=pending.next_offset,
                batch_bytes=settings.batch_bytes,
                batch_records=settings.batch_records,
            )
        except EncodeError as error:
            raise self._located(error, numbers) from error
        if not settings.keep_offsets:
            pending.next_offset += rows.num_rows
        return data

    def _located(self, error: EncodeError, numbers: Ints) -> EncodeError:
        """Name the row of the task where the error names one of those that waited."""
        row = next((part for part in error.path if isinstance(part, int)), None)
        return error if row is None or row >= len(numbers) else self._bad(int(numbers[row]), str(error))

    def _keep_offsets(self, column: pa.ChunkedArray, numbers: Ints, pending: _Pending) -> None:
        if column.null_count:
            row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
            raise self._bad(int(numbers[row]), "no offset; with offsets=keep every row has one")
        offsets = column.to_numpy()
        before = pending.next_offset - 1 if pending.records else -1
        falls = np.flatnonzero(np.diff(offsets, prepend=before) <= 0)
        if len(falls):
            row = int(falls[0])
            reason = f"offset {offsets[row]} after {offsets[row - 1] if row else before}: sort each task by offset"
            raise self._bad(int(numbers[row]), reason)
        if not pending.records:
            pending.first_offset = int(offsets[0])
        pending.next_offset = int(offsets[-1]) + 1

    def _refuse_headers(self, column: pa.ChunkedArray, numbers: Ints) -> None:
        has_some = pc.fill_null(pc.greater(pc.list_value_length(column), 0), False)
        if pc.any(has_some).as_py():
            row = int(np.flatnonzero(np.asarray(has_some))[0])
            raise self._bad(int(numbers[row]), f"format {self._settings.magic} has no headers")


def _milliseconds(column: pa.ChunkedArray | None, count: int, now_ms: int) -> pa.ChunkedArray | pa.Array:
    """Return whole milliseconds, rounded down; rows without a timestamp get the time of the write, as producers do."""
    if column is None:
        return pa.array(np.full(count, now_ms))
    if pa.types.is_timestamp(column.type):
        micros = pc.fill_null(column.cast(pa.timestamp("us")).cast(pa.int64()), now_ms * 1000)
        return pa.array(np.floor_divide(micros.to_numpy(), 1000))
    return pc.fill_null(column.cast(pa.int64()), now_ms)
