"""Write the rows of a task to files of batches, called runs.

A run is a file of one topic partition's batches, with offsets from 0.

Batches in a run have the order of the task's rows. Batches are complete, with compression and CRC. The commit only
changes header fields that neither compression nor CRC cover. Memory is limited to ``MAX_PENDING_BYTES`` of rows and the
batches built from them, for any number of partitions. With very many partitions, batches are therefore smaller than
requested.

The commit joins the runs of a topic partition into segments. The commit assigns offsets in place, without recompression
(KIP-31): in a batch of format 2, and in a message or wrapper of format 1, only the first eight bytes and the leader
epoch change, which the CRC does not cover. A compressed set of format 0 contains its offsets, so tasks do not compress
it. The commit does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import EncodeError, LogDirError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.restore.writing.routing import Ints, RoutedRows, Router, WriteSettings
from kafkaframes.records.append.headers import set_leader_epoch, set_offsets
from kafkaframes.records.arrays import add_timestamps
from kafkaframes.records.build import build_rows
from kafkaframes.records.decode import index_records, open_sections
from kafkaframes.records.makers import make_rows_from_index
from kafkaframes.records.rows import Rows, rows_of
from kafkaframes.records.scan import as_array
from kafkaframes.storage.files import atomic
from kafkaframes.storage.files.checkpoints import EpochStart
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.files.scan import SegmentWindow, scan_segment
from kafkaframes.storage.log.producers import Producers
from kafkaframes.storage.log.segment_writer import PartitionWriter, WrittenPartition

MAX_PENDING_BYTES = 32 << 20  # size of the rows that are built into batches together
_MAX_HEADER_PREFIX_BYTES = 10  # largest size of two varint lengths
_MAX_BATCH_OVERHEAD_BYTES = 61 + 21  # largest size of a batch with one record, without key, value or headers


@dataclass(slots=True)
class WrittenRun:
    """The batches of one topic partition that a task has written so far. Runs are picklable.

    Attributes:
        first_offset, next_offset: offset range of the batches; it starts at 0 unless the rows' own offsets are kept.
    """

    partition: TopicPartition
    path: str
    size_bytes: int = 0
    records: int = 0
    first_offset: int = 0
    next_offset: int = 0


class RunWriter:
    """Writes the runs of one task to a directory of its own."""

    def __init__(self, directory: Path, settings: WriteSettings, *, task: int) -> None:
        """``directory`` must be empty. The caller removes the directory if the task fails."""
        self._directory = directory
        self._settings = settings
        self._task = task
        self._router = Router(settings, task=task)
        self._runs: dict[TopicPartition, WrittenRun] = {}
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._rows = 0

    def add_rows(self, rows: pa.RecordBatch) -> None:
        """Add rows, and write the pending rows if they exceed ``MAX_PENDING_BYTES``.

        Raises:
            EncodeError: a row cannot be written. The message contains the numbers of the row and the task.
            LogDirError: a file cannot be written.
        """
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= MAX_PENDING_BYTES:
            self._flush_rows()

    def finish(self) -> list[WrittenRun]:
        """Write the pending rows, and return all runs.

        Raises:
            EncodeError, LogDirError: as in ``add_rows``.
        """
        self._flush_rows()
        return [run for _, run in sorted(self._runs.items())]

    def _flush_rows(self) -> None:
        """Assign the pending rows to partitions, and write them."""
        pending, self._pending, self._pending_bytes = [batch for batch in self._pending if batch.num_rows], [], 0
        for rows in _join_batches(pending):
            try:
                self._write_rows(rows)
            except EncodeError as error:
                raise self._add_row_number(error) from error
            self._rows += rows.num_rows

    def _write_rows(self, rows: pa.RecordBatch) -> None:
        partition_rows = self._router.route_rows(rows)
        records = self._to_rows(rows)
        self._check_sizes(records, partition_rows)
        offsets = _read_offsets(rows) if self._settings.keep_offsets else None
        for routed_rows in partition_rows:
            run = self._runs.get(routed_rows.partition)
            if run is None:
                run = WrittenRun(routed_rows.partition, str(self._directory / f"run-{len(self._runs):06}"))
                self._runs[routed_rows.partition] = run
            partition_offsets = self._assign_offsets(routed_rows, run, offsets)
            data = self._build_batches(records.take(routed_rows.rows, offsets=partition_offsets), routed_rows)
            path = Path(run.path)
            with atomic.name_path_in_errors(path), path.open("ab") as file:
                file.write(data)
            run.size_bytes += len(data)
            run.records += len(partition_offsets)
            run.next_offset = int(partition_offsets[-1]) + 1

    def _to_rows(self, rows: pa.RecordBatch) -> Rows:
        magic = self._settings.record_format
        names: tuple[str, ...] = ("key", "value", "headers")
        if magic > 0:
            rows, names = add_timestamps(rows, self._settings.now_ms), (*names, "timestamp")
        columns = {name: rows.column(name) for name in names if name in rows.schema.names}
        if magic < 2 and "headers" in columns:
            _reject_headers(columns.pop("headers"), magic)
        # Logs may contain negative timestamps, so restore accepts them.
        return rows_of(columns, negative_timestamps=True)

    def _check_sizes(self, records: Rows, routed_rows: list[RoutedRows]) -> None:
        """Reject a record that exceeds the largest batch."""
        limit = self._settings.max_message_bytes
        sizes = _MAX_BATCH_OVERHEAD_BYTES + np.maximum(records.keys.lengths, 0) + np.maximum(records.values.lengths, 0)
        if len(records.header_starts):
            entries = (
                records.header_names.lengths + np.maximum(records.header_values.lengths, 0) + _MAX_HEADER_PREFIX_BYTES
            )
            header_starts = np.concatenate(([0], np.cumsum(entries)))
            sizes += header_starts[records.header_starts[1:]] - header_starts[records.header_starts[:-1]]
        if sizes.max(initial=0) > limit:
            row = int(np.flatnonzero(sizes > limit)[0])
            partition = next(
                routed_partition.partition for routed_partition in routed_rows if row in routed_partition.rows
            )
            reason = (
                f"a record of about {count_text(sizes[row], 'byte')} for {partition} "
                f"is larger than maxMessageBytes ({limit})"
            )
            raise EncodeError(reason).within(row)

    def _assign_offsets(self, routed_rows: RoutedRows, run: WrittenRun, offsets: Ints | None) -> Ints:
        """Return the offsets of a partition's rows."""
        if offsets is None:
            return np.arange(run.next_offset, run.next_offset + len(routed_rows.rows))
        row_offsets: Ints = offsets[routed_rows.rows]
        previous_offset = run.next_offset - 1
        decreases = np.flatnonzero(np.diff(row_offsets, prepend=previous_offset) <= 0)
        if len(decreases):
            index = int(decreases[0])
            last = row_offsets[index - 1] if index else previous_offset
            reason = (
                f"offset {row_offsets[index]} follows {last} in {routed_rows.partition}; "
                "sort the rows of each task by partition and offset"
            )
            raise EncodeError(reason).within(int(routed_rows.rows[index]))
        if not run.records:
            run.first_offset = int(row_offsets[0])
        return row_offsets

    def _build_batches(self, records: Rows, routed_rows: RoutedRows) -> bytes:
        try:
            return _build_batch_list(records, self._settings, "none" if self._settings.compresses_late else None)
        except EncodeError as error:
            row = _row_of(error)
            raise EncodeError(error.reason).within(int(routed_rows.rows[row])) if row is not None else error from error

    def _add_row_number(self, error: EncodeError) -> EncodeError:
        """Add the row number in the task to an error about a pending row."""
        row = _row_of(error)
        return error if row is None else EncodeError(f"task {self._task}, row {self._rows + row}: {error.reason}")


def _build_batch_list(records: Rows, settings: WriteSettings, codec: str | None = None) -> bytes:
    """Build batches. ``codec`` overrides the codec of the settings."""
    return build_rows(
        records,
        record_format=settings.record_format,
        codec=codec or settings.codec,
        level=settings.level,
        batch_bytes=settings.batch_bytes,
        batch_records=settings.batch_records,
    )


def _row_of(error: EncodeError) -> int | None:
    return next((step for step in error.path if isinstance(step, int)), None)


def _join_batches(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Join small Arrow record batches, if their values fit into one Arrow array."""
    if not batches:
        return []
    joined_batches: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined_batches


def _read_offsets(rows: pa.RecordBatch) -> Ints:
    column = rows.column("offset")
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise EncodeError("the row has no offset; offsets=keep requires one in every row").within(row)
    offsets: Ints = column.to_numpy()
    return offsets


def _reject_headers(column: pa.Array, magic: int) -> None:
    has_headers = pc.fill_null(pc.greater(pc.list_value_length(column), 0), False)
    if pc.any(has_headers).as_py():
        row = int(np.flatnonzero(np.asarray(has_headers))[0])
        raise EncodeError(f"record format {magic} does not support headers").within(row)


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """One partition to write. Tasks are picklable.

    Attributes:
        directory: an existing, empty directory.
        runs: the partition's files of batches, in log order.
        start_offset: base offset of the first new segment: the log end offset, or 0.
        leader_epoch: leader epoch of the new batches.
        epochs, producers: leader epochs and producer states of the existing log.
    """

    partition: TopicPartition
    directory: str
    runs: tuple[WrittenRun, ...]
    settings: WriteSettings
    start_offset: int = 0
    topic_id: str | None = None
    leader_epoch: int = 0
    epochs: tuple[EpochStart, ...] = ()
    producers: Producers | None = None


def write_partition(task: PartitionTask) -> WrittenPartition:
    """Write the segments of a partition and its other files.

    Raises:
        LogDirError: kept offsets overlap, or a file cannot be written.
    """
    end = task.start_offset
    with PartitionWriter(
        task.directory,
        start_offset=task.start_offset,
        settings=task.settings.segment_settings,
        topic_id=task.topic_id,
        epochs=task.epochs,
        producers=task.producers,
    ) as writer:
        keeps = task.settings.keep_offsets
        for run in sorted(task.runs, key=lambda run: run.first_offset) if keeps else task.runs:
            if keeps:
                _check_after_log_end(task.partition, run, end)
            shift = 0 if keeps else end
            for data in _read_run_batches(run, shift, task):
                writer.append(data)
            end = shift + run.next_offset
        return writer.close()


def _check_after_log_end(partition: TopicPartition, run: WrittenRun, end: int) -> None:
    if run.first_offset < end:
        raise LogDirError(
            f"{partition}: a task has offsets from {run.first_offset} on, but another task or the log has offsets up "
            f"to {end - 1}; "
            "offsets=keep requires a separate range for each task; use repartitionByRange by partition and offset",
        )


def _read_run_batches(run: WrittenRun, shift: int, task: PartitionTask) -> Iterator[bytes | bytearray | memoryview]:
    """Yield a run's batches with their final offsets, about a window at a time."""
    with LocalFileSystem().open(run.path) as read_at:
        for window in scan_segment(read_at, size_bytes=run.size_bytes, includes_data=True, file=run.path):
            if not len(window.batches):
                continue
            if task.settings.compresses_late:
                yield _compress_window(window, shift, task.settings)
            else:
                yield _patch_window(window, shift, task)


def _patch_window(window: SegmentWindow, shift: int, task: PartitionTask) -> memoryview:
    output, batches = bytearray(window.data), window.batches_in_data()
    set_offsets(output, batches, batches.column("last_offset") + shift)
    if task.settings.record_format == 2:
        set_leader_epoch(output, batches, task.leader_epoch)
    size = int((batches.column("position") + batches.column("size"))[-1])
    return memoryview(output)[:size]


def _compress_window(window: SegmentWindow, shift: int, settings: WriteSettings) -> bytes:
    data, batches = as_array(window.data), window.batches_in_data()
    sections = open_sections(data, batches)
    index = index_records(batches, sections)
    return _build_batch_list(
        make_rows_from_index(sections, index, offsets=index.offsets + shift, headers=False), settings
    )
