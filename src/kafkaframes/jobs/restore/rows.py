"""Restore one partition from rows in Arrow: batches are built of them; transactions are not made again.

Rows come in the order of their offsets. Offsets are kept, holes and all, or assigned. What a row does not say (a
producer) the batches do not have; their leader epoch is the first, 0, unless one is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import OptionError
from kafkaframes.jobs.restore.partition import OUTSIDE, PartitionReport
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.batch_builder import BatchBuilder
from kafkaframes.storage.log.segment_writer import DEFAULT_SEGMENT_BYTES, PartitionWriter, SegmentSettings


class RowsWriter:
    """Writes the rows of one partition into its directory, which exists and is empty.

    Args:
        topic_id: for ``partition.metadata``; without it that file is left to the caller.
    """

    def __init__(
        self, directory: Path, target: TopicPartition, settings: RestoreSettings, *, topic_id: str | None = None
    ) -> None:
        self._directory, self._settings, self._topic_id = directory, settings, topic_id
        self._report = PartitionReport(target.topic, target.partition)
        self._range = RowRange(settings)
        self._builder = BatchBuilder(
            base_offset=settings.start_offset,
            reassign=settings.moves_offsets,
            record_format=settings.record_format,
            codec=settings.codec,
            level=settings.level,
            batch_bytes=settings.batch_bytes,
            leader_epoch=(settings.leader_epoch or 0) if settings.record_format == 2 else -1,
        )
        self._writer: PartitionWriter | None = None
        self._first_offset: int | None = None

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write rows that follow those before.

        Raises:
            EncodeError: a value does not fit, or offsets do not ascend; names column and row.
            LogDirError: the disk fails.
        """
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        self._report.bytes_read += table.nbytes
        selected = self._range.take(table)
        self._report.records_read += table.num_rows
        if table.num_rows > selected.num_rows:
            self._report.records_left_out[OUTSIDE] += table.num_rows - selected.num_rows
        if selected.num_rows:
            if self._first_offset is None and "offset" in selected.column_names and not self._settings.moves_offsets:
                self._first_offset = selected.column("offset")[0].as_py()
            self._write(self._builder.add(selected))

    def close(self) -> PartitionReport:
        """Complete the directory and return the report.

        Raises:
            LogDirError: not every selected row was written, or the disk fails.
        """
        self._write(self._builder.finish())
        writer = self._writer = self._writer or self._opened()
        written, report = writer.close(), self._report
        report.segments, report.bytes_written = len(written.segments), written.size_bytes
        report.batches = sum(one.batches for one in written.segments)
        report.records_written = written.records
        report.check_records()
        report.first_segment_offset = report.log_start_offset = written.log_start_offset
        report.log_end_offset = written.log_end_offset
        report.leader_epoch = max((one.leader_epoch for one in written.epochs), default=-1)
        return report

    def abandon(self) -> None:
        """Remove the file that is open."""
        if self._writer is not None:
            self._writer.__exit__(None, None, None)

    def _write(self, batches: Iterable[bytes]) -> None:
        for batch in batches:
            if self._writer is None:
                self._writer = self._opened()
            self._writer.append(batch)

    def _opened(self) -> PartitionWriter:
        """Return the writer of a log that begins with its first record."""
        first = self._first_offset
        start_offset = self._settings.start_offset if first is None else first
        settings = SegmentSettings(
            segment_bytes=self._settings.segment_bytes or DEFAULT_SEGMENT_BYTES,
            index_interval_bytes=self._settings.index_interval_bytes,
        )
        return PartitionWriter(self._directory, start_offset=start_offset, settings=settings, topic_id=self._topic_id)


class RowRange:
    """Which rows of a partition are selected: from one offset or time on, up to another.

    As for segments, a time stands for the offset of the first record that reaches it.
    """

    def __init__(self, settings: RestoreSettings) -> None:
        self._from_offset, self._until_offset = settings.from_offset, settings.until_offset
        self._from_time, self._until_time = settings.from_timestamp_ms, settings.until_timestamp_ms
        self._is_done = False

    def take(self, table: pa.Table) -> pa.Table:
        """Return the selected rows of the next table."""
        if self._is_done:
            return table.slice(0, 0)
        if self._from_time is not None:
            first = _first_reaching(table, self._from_time)
            table = table.slice(table.num_rows if first is None else first)
            self._from_time = self._from_time if first is None else None
        if self._until_time is not None:
            stop = _first_reaching(table, self._until_time)
            self._is_done = stop is not None
            table = table if stop is None else table.slice(0, stop)
        if self._from_offset is not None:
            table = table.filter(pc.greater_equal(table.column("offset"), self._from_offset))
        if self._until_offset is not None:
            table = table.filter(pc.less(table.column("offset"), self._until_offset))
        return table


def _first_reaching(table: pa.Table, timestamp_ms: int) -> int | None:
    column = table.column("timestamp")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    reached = np.flatnonzero(pc.fill_null(column, -1).to_numpy() >= timestamp_ms)
    return int(reached[0]) if len(reached) else None


def check_columns(schema: pa.Schema, settings: RestoreSettings) -> None:
    """Refuse a table that does not hold records.

    A number that is no integer (1.5 in a column of doubles) would fall into another partition, or nowhere, without a
    word: so the columns' types are checked, not their values.

    Raises:
        OptionError: names what is missing, or what has another type.
    """
    have = set(schema.names)
    lacking = [name for name in ("topic", "partition", "value") if name not in have]
    if (settings.from_offset, settings.until_offset) != (None, None) and "offset" not in have:
        lacking.append("offset")
    if (settings.from_timestamp_ms, settings.until_timestamp_ms) != (None, None) and "timestamp" not in have:
        lacking.append("timestamp")
    if lacking:
        raise OptionError(f"no column {', '.join(lacking)}; there are {', '.join(sorted(have))}")
    for name, (fits, expected) in _COLUMN_TYPES.items():
        if name not in have:
            continue
        kind = schema.field(name).type
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not pa.types.is_null(plain) and not any(fit(plain) for fit in fits):
            raise OptionError(f"column {name} is {kind} and must be {expected}: cast it")


_INTEGER = ((pa.types.is_integer,), "an integer")
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_PAYLOAD = ((*_TEXT, *_BYTES), "binary or string")
_COLUMN_TYPES: dict[str, tuple[tuple[Callable[[pa.DataType], bool], ...], str]] = {
    "topic": (_TEXT, "string"),
    "partition": _INTEGER,
    "offset": _INTEGER,
    "timestamp": ((pa.types.is_integer, pa.types.is_timestamp), "a timestamp, or milliseconds"),
    "key": _PAYLOAD,
    "value": _PAYLOAD,
}
