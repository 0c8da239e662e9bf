"""Restore one partition from segments or from Arrow rows: the task of a worker, and its report.

``RowsWriter`` builds batches from rows, which must be in offset order. Offsets are kept, including gaps, or assigned.
Batches that are built from rows have no transactions and no producer. The leader epoch of these batches is 0 unless the
settings specify one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkaframes.errors import LogDirError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.attempts import AttemptResult, begin_attempt
from kafkaframes.jobs.job import JobOutputReport, JsonDataclass, ReprAsText, format_counts
from kafkaframes.jobs.restore.batches import BatchRewriter, OffsetTranslator
from kafkaframes.jobs.restore.cluster import LogOffsets
from kafkaframes.jobs.restore.groups import GroupsReport
from kafkaframes.jobs.restore.settings import ABORT, NO_LIMITS, Limits, RestoreSettings
from kafkaframes.jobs.restore.source import BatchRun, LostBytes, SegmentPart, read_valid_batches
from kafkaframes.jobs.row_counts import check_row_counts
from kafkaframes.records.build import build_end_transaction
from kafkaframes.records.decode import count_records
from kafkaframes.records.reasons import DROP
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.segment_writer import (
    PartitionWriter,
    SegmentSettings,
    WrittenPartition,
)
from kafkaframes.wire.integers import MAX_INT32


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTask:
    """One partition to restore. Tasks are picklable.

    Attributes:
        directory: directory for the output of task attempts.
        parts: segments of the source, in order.
        log_start_offset: log start offset of the source.
        committed_offsets: committed offsets of the source's groups.
        now_ms: timestamp of added markers, in milliseconds.
        limits: range of the source partition to restore.
    """

    target: TopicPartition
    directory: str
    topic_id: str
    settings: RestoreSettings
    parts: tuple[SegmentPart, ...] = ()
    log_start_offset: int = 0
    committed_offsets: tuple[int, ...] = ()
    now_ms: int = 0
    limits: Limits = NO_LIMITS

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read."""
        return sum(part.size_bytes for part in self.parts)


@dataclass(slots=True)
class RestoredPartition(JsonDataclass):
    """The report of one partition.

    Attributes:
        topic, partition: new topic name, and partition number.
        log_start_offset, log_end_offset: offset range of the new log.
        first_segment_offset: base offset of the new log's first segment.
        leader_epoch: latest leader epoch in the new log; -1 if no batch has one.
        last_producer_id: largest producer id in the new log; -1 if no batch has one.
        lost: byte ranges of the source that were lost through damage.
        dropped: amounts of data that was omitted on purpose, by kind.
        open_transactions: producer ids of transactions without a marker at the log end.
        aborted: number of open transactions that the restore aborted with a marker.
        committed_offsets: pairs of a committed source offset and its new offset.
        records_read, records_written: number of records read from the source, and number written to the new log. Added
            markers are counted in ``aborted`` only.
        records_left_out: number of records that were read and not written, by reason.
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
    lost: list[LostBytes] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    open_transactions: list[int] = field(default_factory=list)
    aborted: int = 0
    committed: list[tuple[int, int]] = field(default_factory=list)
    records_read: int = 0
    records_written: int = 0
    records_left_out: Counter[str] = field(default_factory=Counter)

    @property
    def log_offsets(self) -> LogOffsets:
        """The start and end offsets of the new log."""
        return LogOffsets(self.log_start_offset, self.first_segment_offset, self.log_end_offset)

    def add_result(self, written_partition: WrittenPartition, *, records: int) -> None:
        """Set the sizes and offsets of a written partition, and add the number of records read."""
        self.segments, self.bytes_written = len(written_partition.segments), written_partition.size_bytes
        self.batches = sum(segment.batches for segment in written_partition.segments)
        self.log_end_offset, self.first_segment_offset = (
            written_partition.log_end_offset,
            written_partition.log_start_offset,
        )
        self.leader_epoch = find_latest_epoch(written_partition)
        self.records_written = records

    def check_record_counts(self) -> None:
        """Check that the counts of read and written records match.

        Raises:
            LogDirError: the counts do not match.
        """
        check_row_counts(
            self.records_read, self.records_written, self.records_left_out, where=f"{self.topic}-{self.partition}"
        )


def find_latest_epoch(written_partition: WrittenPartition) -> int:
    """Return the latest leader epoch of a log; -1 if no batch has one."""
    return max((epoch_start.leader_epoch for epoch_start in written_partition.epochs), default=-1)


def restore_partition(task: RestoreTask) -> AttemptResult[RestoredPartition]:
    """Write one partition's directory, as an attempt in ``task.directory``.

    Raises:
        LogDirError: the source is damaged or cannot be read, or the result cannot be written.
    """
    with begin_attempt(task.directory, str(task.target)) as directory:
        return AttemptResult(str(directory), _PartitionRestore(task, directory).restore())


class _PartitionRestore:
    """The restore of one partition."""

    def __init__(self, task: RestoreTask, directory: Path) -> None:
        settings = task.settings
        self._task = task
        self._directory = directory
        self._report = RestoredPartition(task.target.topic, task.target.partition, bytes_read=task.size_bytes)
        self._translation = OffsetTranslator(task.committed_offsets if settings.moves_offsets else ())
        self._renumbering = BatchRewriter(
            settings, task.limits, log_start_offset=task.log_start_offset, translation=self._translation
        )
        self._writer: PartitionWriter | None = None

    def restore(self) -> RestoredPartition:
        """Restore the partition, and return its report."""
        try:
            for part in self._task.parts:
                self._restore_segment(part)
                if self._renumbering.is_done:
                    break
            return self._finish_log()
        finally:
            if self._writer is not None:
                self._writer.__exit__(None, None, None)

    def _restore_segment(self, part: SegmentPart) -> None:
        """Copy one segment. The new log starts a segment there too, unless ``segment_bytes`` is set."""
        is_first = True
        for run in read_valid_batches(part, self._report.lost, skip=self._task.settings.on_damage == DROP):
            for chunk in self._rewrite_run(part, run):
                self._choose_writer(part, is_first=is_first).append(chunk, mtime_ms=part.mtime_ms)
                is_first = False
            if self._renumbering.is_done:
                return

    def _rewrite_run(self, part: SegmentPart, run: BatchRun) -> list[bytes]:
        """Return the rewritten bytes of a run of batches. Errors have the position in the source segment."""
        ids = run.batches.column("producer_id")
        self._report.records_read += count_records(run.data, run.batches)
        self._report.last_producer_id = max(self._report.last_producer_id, int(ids.max(initial=-1)))
        try:
            return [chunk for chunk in self._renumbering.rewrite_batches(run.data, run.batches) if chunk]
        except LogDirError as error:
            error.file, error.position = part.path, (error.position or 0) + run.start
            raise

    def _choose_writer(self, part: SegmentPart, *, is_first: bool) -> PartitionWriter:
        """Return the writer. The new log begins with the first restored batch, and keeps the segment boundaries."""
        moves = self._task.settings.moves_offsets
        if self._writer is None:
            self._writer = self._create_writer(self._task.settings.start_offset if moves else part.base_offset)
        elif is_first and self._task.settings.segment_bytes is None:
            end = self._writer.result.log_end_offset
            self._writer.roll(end if moves else max(part.base_offset, end))
        return self._writer

    def _create_writer(self, start_offset: int) -> PartitionWriter:
        """Return the writer of the new log, which starts at ``start_offset``."""
        settings = self._task.settings
        segment_settings = SegmentSettings(
            segment_bytes=settings.segment_bytes or MAX_INT32, index_interval_bytes=settings.index_interval_bytes
        )
        return PartitionWriter(
            self._directory, start_offset=start_offset, settings=segment_settings, topic_id=self._task.topic_id
        )

    # ---------------------------------------------------------------------------------------------------- the end

    def _finish_log(self) -> RestoredPartition:
        """Complete the new log, and return the report."""
        report, renumbering, settings = self._report, self._renumbering, self._task.settings
        writer = self._writer = self._writer or self._create_writer(self._choose_empty_start())
        self._end_transactions(writer)
        if self._find_min_source_end() > writer.result.log_end_offset:  # the source's last segment is empty
            writer.roll(self._find_min_source_end())
        written_partition = writer.close()
        report.add_result(written_partition, records=written_partition.records - report.aborted)
        start = written_partition.log_start_offset if settings.moves_offsets else renumbering.first_offset
        report.log_start_offset = min(max(start, written_partition.log_start_offset), written_partition.log_end_offset)
        report.dropped, report.records_left_out = renumbering.dropped, renumbering.left_out
        report.check_record_counts()
        report.committed = sorted(self._translate_offsets().items())
        return report

    def _choose_empty_start(self) -> int:
        """Return the start offset of a log without selected records: the source end if offsets are kept."""
        if self._task.settings.moves_offsets:
            return self._task.settings.start_offset
        return max(
            self._find_min_source_end(),
            self._renumbering.seen_end,
            self._renumbering.first_offset if not self._task.parts else 0,
        )

    def _find_min_source_end(self) -> int:
        """Return a lower bound of the source's end offset.

        The bound is the base offset of the last segment if offsets are kept and the source is read to its end;
        otherwise it is 0.
        """
        is_all = not self._task.settings.moves_offsets and not self._renumbering.is_done and self._task.parts
        return self._task.parts[-1].base_offset if is_all else 0

    def _end_transactions(self, writer: PartitionWriter) -> None:
        """Abort the open transactions with markers, or report them, as the settings request."""
        writer.end_segment()
        open_transactions = writer.open_transactions
        if self._task.settings.open_transactions != ABORT:
            self._report.open_transactions = [entry.producer_id for entry in open_transactions]
            return
        leader_epoch = find_latest_epoch(writer.result)
        for entry in open_transactions:
            marker = build_end_transaction(
                writer.result.log_end_offset,
                commit=False,
                timestamp=self._task.now_ms,
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                coordinator_epoch=max(entry.coordinator_epoch, 0),
                leader_epoch=leader_epoch,
            )
            writer.append(marker)
        self._report.aborted = len(open_transactions)

    def _translate_offsets(self) -> dict[int, int]:
        """Return the new value of each committed offset.

        If offsets are kept, they are only limited to the range of the new log.
        """
        report = self._report
        if self._task.settings.moves_offsets:
            return self._translation.finish(report.log_end_offset)
        return {
            committed_offset: min(max(committed_offset, report.log_start_offset), report.log_end_offset)
            for committed_offset in set(self._task.committed_offsets)
        }


@dataclass(slots=True, repr=False)
class RestoreReport(ReprAsText, JobOutputReport):
    """The report of a restore. With ``dry_run`` it describes what the restore would do.

    Attributes:
        partitions: reports of the partitions, in order.
        topic_ids: topic id by topic name.
        groups: report of the committed offsets; None if they were not requested.
        left_out: source directories that were not restored, with the reason.
        decisions: choices between several copies of a partition.
        held: topics with unlimited retention (``retention.ms`` is -1) until the user changes the setting.
        cluster_id: cluster id of the new node; empty for an existing cluster.
    """

    partitions: list[RestoredPartition] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)
    groups: GroupsReport | None = None
    left_out: list[tuple[str, str]] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    cluster_id: str = ""
    dry_run: bool = False

    @property
    def bytes_lost(self) -> int:
        """The size of damaged batches that were lost, in bytes. Incomplete tails do not count."""
        return sum(loss.end - loss.start for report in self.partitions for loss in report.lost if not loss.is_tail)

    @property
    def is_whole(self) -> bool:
        """Whether the restore lost no data of the sources."""
        return not self.bytes_lost and all(decision["severity"] != "error" for decision in self.decisions)

    @property
    def counted(self) -> str:
        """The numbers of records read and written, and of omitted records by reason, as text."""
        return format_counts(self.partitions, "records_read", "records_written", "records_left_out")

    def __str__(self) -> str:
        outcome = "nothing was written" if self.dry_run else f"written to {self.destination}"
        return f"{count_text(len(self.partitions), 'partition')}, {self.counted}\n{outcome}"
