"""One task's rows become runs: for each topic partition a file of batches whose offsets count from 0.

A run is in the order of the task's rows. Batches are complete (compressed, with their CRC); what the commit changes
afterwards stands outside of both. Memory: ``PENDING_BYTES`` of rows and what is built of them, whatever the number of
partitions; so the batches of very many partitions are smaller than requested.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import EncodeError
from kafkaframes.jobs.restore.writing.routing import Ints, Routed, Router
from kafkaframes.jobs.restore.writing.settings import WriteSettings
from kafkaframes.records.arrays import whole_milliseconds
from kafkaframes.records.build import build_rows
from kafkaframes.records.rows import Rows, rows_of
from kafkaframes.storage.files import atomic
from kafkaframes.storage.files.names import TopicPartition

PENDING_BYTES = 32 << 20
_HEADER_BYTES = 10  # two lengths, at most
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
class _Open:
    """What is written of a partition so far."""

    path: Path
    size_bytes: int = 0
    records: int = 0
    first_offset: int = 0
    next_offset: int = 0


class RunWriter:
    """Writes the runs of one task into a directory of its own."""

    def __init__(self, directory: Path, settings: WriteSettings, *, task: int) -> None:
        """``directory``: exists and is empty; its maker removes it when the task fails."""
        self._directory = directory
        self._settings = settings
        self._task = task
        self._router = Router(settings, task=task)
        self._open: dict[TopicPartition, _Open] = {}
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows.

        Raises:
            EncodeError: a row cannot be written; the message has its number and the task's.
            LogDirError: the disk is full, or something is forbidden.
        """
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= PENDING_BYTES:
            self._flush()

    def finish(self) -> list[Run]:
        """Write the rest and say what there is.

        Raises:
            EncodeError, LogDirError: as ``add``.
        """
        self._flush()
        return [
            Run(partition, str(one.path), one.size_bytes, one.records, one.first_offset, one.next_offset)
            for partition, one in sorted(self._open.items())
        ]

    def _flush(self) -> None:
        """Route the rows that wait, and write each partition's."""
        pending, self._pending, self._pending_bytes = [one for one in self._pending if one.num_rows], [], 0
        for rows in _joined(pending):
            try:
                self._write_all(rows)
            except EncodeError as error:
                raise self._located(error) from error
            self._rows += rows.num_rows

    def _write_all(self, rows: pa.RecordBatch) -> None:
        routed = self._router.route(rows)
        records = self._laid_out(rows)
        self._check_sizes(records, routed)
        offsets = _kept_offsets(rows) if self._settings.keep_offsets else None
        for routed_rows in routed:
            opened = self._open.get(routed_rows.partition)
            if opened is None:
                opened = _Open(self._directory / f"run-{len(self._open):06}")
                self._open[routed_rows.partition] = opened
            mine = self._numbered(routed_rows, opened, offsets)
            data = self._built(records.take(routed_rows.rows, offsets=mine), routed_rows)
            with atomic.writing(opened.path), opened.path.open("ab") as out:
                out.write(data)
            opened.size_bytes += len(data)
            opened.records += len(mine)
            opened.next_offset = int(mine[-1]) + 1

    def _laid_out(self, rows: pa.RecordBatch) -> Rows:
        magic = self._settings.record_format
        columns = {name: rows.column(name) for name in ("key", "value", "headers") if name in rows.schema.names}
        if magic > 0:
            stamps = rows.column("timestamp") if "timestamp" in rows.schema.names else None
            columns["timestamp"] = _milliseconds(stamps, rows.num_rows, self._settings.now_ms)
        if magic < 2 and "headers" in columns:
            _refuse_headers(columns.pop("headers"), magic)
        return rows_of(columns)

    def _check_sizes(self, records: Rows, routed: list[Routed]) -> None:
        """Refuse a record that no batch can hold."""
        limit = self._settings.max_message_bytes
        sizes = _OVERHEAD_BYTES + np.maximum(records.keys.lengths, 0) + np.maximum(records.values.lengths, 0)
        if len(records.header_starts):
            entries = records.header_names.lengths + np.maximum(records.header_values.lengths, 0) + _HEADER_BYTES
            before = np.concatenate(([0], np.cumsum(entries)))
            sizes += before[records.header_starts[1:]] - before[records.header_starts[:-1]]
        if sizes.max(initial=0) > limit:
            row = int(np.flatnonzero(sizes > limit)[0])
            partition = next(one.partition for one in routed if row in one.rows)
            reason = f"a record of about {sizes[row]} bytes for {partition} is larger than maxMessageBytes ({limit})"
            raise EncodeError(reason).within(row)

    def _numbered(self, routed: Routed, opened: _Open, offsets: Ints | None) -> Ints:
        """Return the offsets of a partition's rows."""
        if offsets is None:
            return np.arange(opened.next_offset, opened.next_offset + len(routed.rows))
        mine: Ints = offsets[routed.rows]
        before = opened.next_offset - 1
        falls = np.flatnonzero(np.diff(mine, prepend=before) <= 0)
        if len(falls):
            at = int(falls[0])
            last = mine[at - 1] if at else before
            reason = f"offset {mine[at]} after {last} in {routed.partition}: sort each task by partition and offset"
            raise EncodeError(reason).within(int(routed.rows[at]))
        if not opened.records:
            opened.first_offset = int(mine[0])
        return mine

    def _built(self, records: Rows, routed: Routed) -> bytes:
        settings = self._settings
        try:
            return build_rows(
                records,
                record_format=settings.record_format,
                codec="none" if settings.compresses_late else settings.codec,
                level=settings.level,
                batch_bytes=settings.batch_bytes,
                batch_records=settings.batch_records,
            )
        except EncodeError as error:
            row = _row_of(error)
            raise EncodeError(error.reason).within(int(routed.rows[row])) if row is not None else error from error

    def _located(self, error: EncodeError) -> EncodeError:
        """Name the row of the task, where the error names one of those that waited."""
        row = _row_of(error)
        return error if row is None else EncodeError(f"task {self._task}, row {self._rows + row}: {error.reason}")


def _row_of(error: EncodeError) -> int | None:
    return next((step for step in error.path if isinstance(step, int)), None)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Put small batches together, where their values fit into one array."""
    if not batches:
        return []
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _kept_offsets(rows: pa.RecordBatch) -> Ints:
    column = rows.column("offset")
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise EncodeError("no offset; with offsets=keep every row has one").within(row)
    offsets: Ints = column.to_numpy()
    return offsets


def _refuse_headers(column: pa.Array, magic: int) -> None:
    has_some = pc.fill_null(pc.greater(pc.list_value_length(column), 0), False)
    if pc.any(has_some).as_py():
        row = int(np.flatnonzero(np.asarray(has_some))[0])
        raise EncodeError(f"format {magic} has no headers").within(row)


def _milliseconds(column: pa.Array | None, count: int, now_ms: int) -> pa.Array:
    """Return whole milliseconds, rounded down; rows without a timestamp get the time of the write, as producers do."""
    if column is None:
        return pa.array(np.full(count, now_ms))
    return whole_milliseconds(column, now_ms)
