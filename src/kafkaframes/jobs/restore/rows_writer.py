"""Write the rows of one partition to its directory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.jobs.convert.segment import OUTSIDE_RANGE_REASON
from kafkaframes.jobs.restore.partition import RestoredPartition
from kafkaframes.jobs.restore.settings import Limits, RestoreSettings
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.batch_builder import BatchBuilder
from kafkaframes.storage.log.segment_writer import (
    DEFAULT_SEGMENT_BYTES,
    PartitionWriter,
    SegmentSettings,
)


class RowsWriter:
    """Writes the rows of one partition to its directory, which must be empty.

    Args:
        topic_id: topic id for ``partition.metadata``; if None, the caller writes this file.
        source: topic partition in the rows. Default: ``target``.
    """

    def __init__(
        self,
        directory: Path,
        target: TopicPartition,
        settings: RestoreSettings,
        *,
        topic_id: str | None = None,
        source: TopicPartition | None = None,
    ) -> None:
        self._directory, self._settings, self._topic_id = directory, settings, topic_id
        self._report = RestoredPartition(target.topic, target.partition)
        rows_of = source or target
        self._range = RowRange(settings.get_limits(rows_of.topic, rows_of.partition))
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

    def add_rows(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write rows, which must follow the previous ones.

        Raises:
            EncodeError: a value is out of range, or offsets do not increase. The message names the column and the row.
            LogDirError: a file cannot be written.
        """
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        self._report.bytes_read += table.nbytes
        selected_rows = self._range.select_rows(table)
        self._report.records_read += table.num_rows
        if table.num_rows > selected_rows.num_rows:
            self._report.records_left_out[OUTSIDE_RANGE_REASON] += table.num_rows - selected_rows.num_rows
        if selected_rows.num_rows:
            if (
                self._first_offset is None
                and "offset" in selected_rows.column_names
                and not self._settings.moves_offsets
            ):
                self._first_offset = selected_rows.column("offset")[0].as_py()
            self._write_batches(self._builder.add(selected_rows))

    def close(self) -> RestoredPartition:
        """Complete the directory, and return the report.

        Raises:
            LogDirError: some selected rows were not written, or a file cannot be written.
        """
        self._write_batches(self._builder.finish())
        writer = self._writer = self._writer or self._open_writer()
        written_partition, report = writer.close(), self._report
        report.add_result(written_partition, records=written_partition.records)
        report.log_start_offset = written_partition.log_start_offset
        report.check_record_counts()
        return report

    def discard_unfinished_file(self) -> None:
        """Remove the file that is being written."""
        if self._writer is not None:
            self._writer.__exit__(None, None, None)

    def _write_batches(self, batches: Iterable[bytes]) -> None:
        """Append finished batches to the log."""
        for batch in batches:
            if self._writer is None:
                self._writer = self._open_writer()
            self._writer.append(batch)

    def _open_writer(self) -> PartitionWriter:
        """Return the writer of the log, which starts at its first record."""
        first = self._first_offset
        start_offset = self._settings.start_offset if first is None else first
        settings = SegmentSettings(
            segment_bytes=self._settings.segment_bytes or DEFAULT_SEGMENT_BYTES,
            index_interval_bytes=self._settings.index_interval_bytes,
        )
        return PartitionWriter(self._directory, start_offset=start_offset, settings=settings, topic_id=self._topic_id)


class RowRange:
    """The selected range of a partition's rows, by offset or time.

    As for segments, a time means the offset of the first record that reaches it.
    """

    def __init__(self, limits: Limits) -> None:
        self._first_offset, self._end_offset, self._start_time, self._end_time = limits
        self._is_done = False

    def select_rows(self, table: pa.Table) -> pa.Table:
        """Return the selected rows of the next table."""
        if self._is_done:
            return table.slice(0, 0)
        if self._start_time is not None:
            first = _find_first_row_at_time(table, self._start_time)
            table = table.slice(table.num_rows if first is None else first)
            self._start_time = self._start_time if first is None else None
        if self._end_time is not None:
            stop = _find_first_row_at_time(table, self._end_time)
            self._is_done = stop is not None
            table = table if stop is None else table.slice(0, stop)
        if self._first_offset is not None:
            table = table.filter(pc.greater_equal(table.column("offset"), self._first_offset))
        if self._end_offset is not None:
            table = table.filter(pc.less(table.column("offset"), self._end_offset))
        return table


def _find_first_row_at_time(table: pa.Table, timestamp_ms: int) -> int | None:
    """Return the first row at or after a time; None if all rows are earlier."""
    column = table.column("timestamp")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    matching_rows = np.flatnonzero(pc.fill_null(column, -1).to_numpy() >= timestamp_ms)
    return int(matching_rows[0]) if len(matching_rows) else None
