"""Restore one partition, from segments or from rows in Arrow: the task that a worker is given, and its report.

Rows come in the order of their offsets; batches are built of them, transactions are not made again. Offsets are kept,
holes and all, or assigned. What a row does not say (a producer) the batches do not have; their leader epoch is the
first, 0, unless one is requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.attempts import Attempt, begin_attempt
from kafkaframes.jobs.job import Done, Shown, Values, check_row_counts, counts_text
from kafkaframes.jobs.restore.batches import OUTSIDE as OUTSIDE
from kafkaframes.jobs.restore.batches import Renumbering, Translation
from kafkaframes.jobs.restore.cluster import Ends
from kafkaframes.jobs.restore.groups import GroupsReport
from kafkaframes.jobs.restore.settings import ABORT, RestoreSettings
from kafkaframes.jobs.restore.source import Lost, Run, SegmentPart, good_batches
from kafkaframes.records.build import build_end_transaction
from kafkaframes.records.decode import count_records
from kafkaframes.records.reasons import DROP
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.batch_builder import BatchBuilder
from kafkaframes.storage.log.segment_writer import (
    DEFAULT_SEGMENT_BYTES,
    LARGEST_SEGMENT,
    PartitionWriter,
    SegmentSettings,
    WrittenPartition,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTask:
    """One partition to restore; picklable.

    Attributes:
        directory: of the new log.
        parts: the source's segments, in order.
        log_start_offset: of the source.
        committed: the offsets that groups of the source have committed.
        now_ms: the time of markers that are added.
    """

    target: TopicPartition
    directory: str
    topic_id: str
    settings: RestoreSettings
    parts: tuple[SegmentPart, ...] = ()
    log_start_offset: int = 0
    committed: tuple[int, ...] = ()
    now_ms: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes to read."""
        return sum(part.size_bytes for part in self.parts)


@dataclass(slots=True)
class PartitionReport(Values):
    """What was done to one partition.

    Attributes:
        topic, partition: as they are called now.
        log_start_offset, log_end_offset: of the new log.
        first_segment_offset: the base offset of its first segment.
        leader_epoch: the latest in its batches; -1 for none.
        last_producer_id: the largest in its batches; -1 for none.
        lost: bytes of the source that are not in the result.
        dropped: what was left out on purpose, by kind.
        open_transactions: producers whose transaction has no marker at the end.
        aborted: how many such were ended with a marker.
        committed: pairs of a committed offset of the source and the new one.
        records_read, records_written: of the source and of the new log; a marker that ends a transaction here is
            among ``aborted``, not among these.
        records_left_out: reason to records that were read and not written.
    """

    topic: str
    partition: int
    segments: int = 0
    batches: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    log_start_offset: int = 0
    first_segment_offset: int = 0
    log_end_offset: int = 0
    leader_epoch: int = -1
    last_producer_id: int = -1
    lost: list[Lost] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    open_transactions: list[int] = field(default_factory=list)
    aborted: int = 0
    committed: list[tuple[int, int]] = field(default_factory=list)
    records_read: int = 0
    records_written: int = 0
    records_left_out: Counter[str] = field(default_factory=Counter)

    @property
    def ends(self) -> Ends:
        """Where the new log begins and ends."""
        return Ends(self.log_start_offset, self.first_segment_offset, self.log_end_offset)

    def note(self, written: WrittenPartition, *, records: int) -> None:
        """Take over what was written, with so many records of the source."""
        self.segments, self.bytes_written = len(written.segments), written.size_bytes
        self.batches = sum(one.batches for one in written.segments)
        self.log_end_offset, self.first_segment_offset = written.log_end_offset, written.log_start_offset
        self.leader_epoch = latest_epoch(written)
        self.records_written = records

    def check_records(self) -> None:
        """Compare the records that were read with those that were written.

        Raises:
            LogDirError: they differ.
        """
        check_row_counts(
            self.records_read, self.records_written, self.records_left_out, where=f"{self.topic}-{self.partition}"
        )


def latest_epoch(written: WrittenPartition) -> int:
    """Return the latest leader epoch of a log; -1 for none."""
    return max((one.leader_epoch for one in written.epochs), default=-1)


def restore_partition(task: RestoreTask) -> Attempt[PartitionReport]:
    """Write one partition's directory, as an attempt in ``task.directory``.

    Raises:
        LogDirError: the source is damaged or cannot be read, or the result cannot be written.
    """
    with begin_attempt(task.directory, str(task.target)) as directory:
        return Attempt(str(directory), _Restoring(task, directory).run())


class _Restoring:
    """One task while it is carried out."""

    def __init__(self, task: RestoreTask, directory: Path) -> None:
        settings = task.settings
        self._task = task
        self._directory = directory
        self._report = PartitionReport(task.target.topic, task.target.partition, bytes_read=task.size_bytes)
        self._translation = Translation(task.committed if settings.moves_offsets else ())
        self._chosen = Renumbering(settings, log_start_offset=task.log_start_offset, translation=self._translation)
        self._writer: PartitionWriter | None = None

    def run(self) -> PartitionReport:
        try:
            for part in self._task.parts:
                self._segment(part)
                if self._chosen.is_done:
                    break
            return self._finish()
        finally:
            if self._writer is not None:
                self._writer.__exit__(None, None, None)

    def _segment(self, part: SegmentPart) -> None:
        """Copy one segment; the new log has one that begins there too, unless segments are cut anew."""
        is_first = True
        for run in good_batches(part, self._report.lost, skip=self._task.settings.on_damage == DROP):
            for chunk in self._chunks(part, run):
                self._writer_for(part, is_first=is_first).append(chunk, mtime_ms=part.mtime_ms)
                is_first = False
            if self._chosen.is_done:
                return

    def _chunks(self, part: SegmentPart, run: Run) -> list[bytes]:
        ids = run.batches.column("producer_id")
        self._report.records_read += count_records(run.data, run.batches)
        self._report.last_producer_id = max(self._report.last_producer_id, int(ids.max(initial=-1)))
        try:
            return [chunk for chunk in self._chosen.take(run.data, run.batches) if chunk]
        except LogDirError as error:
            error.file, error.position = part.path, (error.position or 0) + run.start
            raise

    def _writer_for(self, part: SegmentPart, *, is_first: bool) -> PartitionWriter:
        """Return the writer; it begins with the segment of the first batch, and a segment where the source does."""
        moves = self._task.settings.moves_offsets
        if self._writer is None:
            self._writer = self._new_writer(self._task.settings.start_offset if moves else part.base_offset)
        elif is_first and self._task.settings.segment_bytes is None:
            end = self._writer.written.log_end_offset
            self._writer.roll(end if moves else max(part.base_offset, end))
        return self._writer

    def _new_writer(self, start_offset: int) -> PartitionWriter:
        settings = self._task.settings
        cut = SegmentSettings(
            segment_bytes=settings.segment_bytes or LARGEST_SEGMENT, index_interval_bytes=settings.index_interval_bytes
        )
        return PartitionWriter(self._directory, start_offset=start_offset, settings=cut, topic_id=self._task.topic_id)

    # ---------------------------------------------------------------------------------------------------- the end

    def _finish(self) -> PartitionReport:
        report, chosen, settings = self._report, self._chosen, self._task.settings
        writer = self._writer = self._writer or self._new_writer(self._empty_start())
        self._end_transactions(writer)
        if self._source_end() > writer.written.log_end_offset:  # the source's last segment is empty
            writer.roll(self._source_end())
        written = writer.close()
        report.note(written, records=written.records - report.aborted)
        start = written.log_start_offset if settings.moves_offsets else chosen.first_offset
        report.log_start_offset = min(max(start, written.log_start_offset), written.log_end_offset)
        report.dropped, report.records_left_out = chosen.dropped, chosen.left_out
        report.check_records()
        report.committed = sorted(self._translated().items())
        return report

    def _empty_start(self) -> int:
        """Return where a log begins if no record of it was selected: kept offsets end where the source's log does."""
        if self._task.settings.moves_offsets:
            return self._task.settings.start_offset
        return max(self._source_end(), self._chosen.seen_end, self._chosen.first_offset if not self._task.parts else 0)

    def _source_end(self) -> int:
        """Return where the last segment begins, if all of the source was selected: its log ends there or behind it."""
        is_all = not self._task.settings.moves_offsets and not self._chosen.is_done and self._task.parts
        return self._task.parts[-1].base_offset if is_all else 0

    def _end_transactions(self, writer: PartitionWriter) -> None:
        writer.end_segment()
        opened = writer.open_transactions
        if self._task.settings.open_transactions != ABORT:
            self._report.open_transactions = [entry.producer_id for entry in opened]
            return
        leader_epoch = latest_epoch(writer.written)
        for entry in opened:
            marker = build_end_transaction(
                writer.written.log_end_offset,
                commit=False,
                timestamp=self._task.now_ms,
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                coordinator_epoch=max(entry.coordinator_epoch, 0),
                leader_epoch=leader_epoch,
            )
            writer.append(marker)
        self._report.aborted = len(opened)

    def _translated(self) -> dict[int, int]:
        """Return where each committed offset points now; kept ones stay, but inside the log."""
        report = self._report
        if self._task.settings.moves_offsets:
            return self._translation.finish(report.log_end_offset)
        return {one: min(max(one, report.log_start_offset), report.log_end_offset) for one in set(self._task.committed)}


@dataclass(slots=True, repr=False)
class RestoreReport(Shown, Done):
    """What a restore did, or (``dry_run``) would do.

    Attributes:
        partitions: in their order.
        topic_ids: name to id.
        groups: what became of the committed offsets; None where none were requested.
        left_out: directories of the sources that were not restored, with the reason.
        decisions: what was decided where partitions have several copies.
        held: topics that keep everything (``retention.ms`` is -1) until the setting is changed.
        cluster_id: of the new node; empty for an existing cluster.
    """

    partitions: list[PartitionReport] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)
    groups: GroupsReport | None = None
    left_out: list[tuple[str, str]] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    cluster_id: str = ""
    dry_run: bool = False

    @property
    def bytes_lost(self) -> int:
        """Bytes of damaged batches that are not in the result; unfinished tails do not count."""
        return sum(one.end - one.start for report in self.partitions for one in report.lost if not one.is_tail)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing that the sources should have had."""
        return not self.bytes_lost and all(one["severity"] != "error" for one in self.decisions)

    @property
    def counted(self) -> str:
        """How many records were read and written, and why others were left out."""
        return counts_text(self.partitions, "records_read", "records_written", "records_left_out")

    def __str__(self) -> str:
        where = "nothing was written" if self.dry_run else f"written to {self.destination}"
        return f"{len(self.partitions):,} partitions, {self.counted}\n{where}"


# --------------------------------------------------------------------------------------------------------------- rows


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
        report.note(written, records=written.records)
        report.log_start_offset = written.log_start_offset
        report.check_records()
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
