"""Define the worker tasks of a compaction that splits a partition, and their intermediate files.

Tasks are picklable and can be repeated, because each writes its files under temporary names first. Data that grows with
the keys or the batches is passed between steps in files of a scratch directory. The size of a task's result only grows
with the number of segments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.layout import BATCH_COLUMNS, COLUMN_INDEX
from kafkaframes.records.memory import Recycler
from kafkaframes.storage.cleaner.exchange import EntriesWriter, Secret, VerdictReader, judge_buckets
from kafkaframes.storage.cleaner.filter import BatchFilter, CleaningStatistics
from kafkaframes.storage.cleaner.latest import mask_counted_records
from kafkaframes.storage.cleaner.plan import CleanerSettings, CleaningPlan, plan_round
from kafkaframes.storage.cleaner.round import (
    SourceSegment,
    copy_unchanged_files,
    overflows_index,
    read_indexed_columns,
    read_kept_batches,
    write_indexes,
)
from kafkaframes.storage.cleaner.walk import (
    ABORT,
    COMMIT,
    CleanedTransactions,
    control_type,
    find_transactional_batches,
    make_batch_header,
)
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.directory import LogFile, Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.log.producers import Producers

Ints = npt.NDArray[np.int64]
_CONTROL_KINDS = (None, ABORT, COMMIT, "another")  # kinds of control batches by their number in the stored headers
_DATA_BATCH_KIND = -1  # kind of batches that are not markers
_LOG_BYTES_PER_HEADER_BYTE = 100  # assumed number of log bytes for each byte of stored batch headers


class StageTask(Protocol):
    """A task in one step of a split compaction. Tasks are picklable, because they may run in other processes."""

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read."""

    def execute(self) -> object:
        """Run the task, and return its result, which the next step of the compaction needs."""


def run_stage(task: StageTask) -> object:
    """Run a task. Runners (processes, Spark) call this function."""
    return task.execute()


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Neighboring segments, or parts of them, that one worker reads, and the directory for its intermediate files.

    Attributes:
        number: number of the chunk in log order.
        end_offset: start offset of the next chunk.
    """

    filesystem: FileSystem
    number: int
    sources: tuple[SourceSegment, ...]
    end_offset: int
    scratch: str

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read."""
        return sum(source.size_bytes for source in self.sources)

    def make_path(self, kind: str) -> Path:
        """Return the path of one of the chunk's intermediate files."""
        return Path(self.scratch) / f"{kind}-{self.number:06}"

    def read_windows(self) -> Iterator[tuple[int, SourceSegment, DecodedBatches]]:
        """Decode the chunk window by window."""
        memory = Recycler()
        for index, source in enumerate(self.sources):
            for window in source.read_windows(self.filesystem, memory):
                yield index, source, window


# ------------------------------------------------------------------------------------------------------- the plan


@dataclass(frozen=True, slots=True)
class CompactionPlanTask:
    """A task that plans the cleaning of a partition."""

    filesystem: FileSystem
    partition: Partition
    settings: CleanerSettings

    @property
    def size_bytes(self) -> int:
        """The size of the segments, in bytes. The task reads only their batch headers."""
        return self.partition.size_bytes

    def execute(self) -> CleaningPlan:
        """Plan the cleaning, and return the plan."""
        return plan_round(self.filesystem, self.partition, self.settings)


# --------------------------------------------------------------------------------------------- transactions: headers


class TransactionHeaders:
    """The batch headers of a chunk's transactional batches and markers.

    From these headers of all chunks, one task tracks the transactions of the whole partition.
    """

    def __init__(self) -> None:
        self._tables: list[Ints] = []

    def add_window(self, index: int, window: DecodedBatches) -> None:
        """Add the headers in a window of the chunk's segment number ``index``."""
        batches = find_transactional_batches(window)
        if not batches:
            return
        table = np.empty((len(BATCH_COLUMNS) + 2, len(batches)), np.int64)
        table[:-2] = window.batches.table[:, batches]
        table[COLUMN_INDEX["position"]] += window.base
        table[-2] = index
        control = window.batches.column("attributes")[batches]
        table[-1] = [_encode_batch_kind(window, batch) for batch in batches] if len(control) else []
        self._tables.append(table)

    def write(self, path: Path) -> bool:
        """Write the headers to a file unless there are none, and return whether a file was written."""
        if self._tables:
            with atomic.new_file(path, durable=False) as out:
                np.save(out, np.concatenate(self._tables, axis=1))
        return bool(self._tables)


def _encode_batch_kind(window: DecodedBatches, batch: int) -> int:
    """Return the number by which the stored headers specify whether a batch is data, a commit or an abort marker."""
    if not make_batch_header(window, batch).is_control:
        return _DATA_BATCH_KIND
    kind = control_type(window, batch)
    return _CONTROL_KINDS.index(kind if kind in _CONTROL_KINDS else _CONTROL_KINDS[-1])


@dataclass(frozen=True, slots=True)
class _ChunkTask:
    """A task that reads a chunk."""

    chunk: LogChunk

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read."""
        return self.chunk.size_bytes


@dataclass(frozen=True, slots=True)
class CollectTransactionsTask(_ChunkTask):
    """A task that writes the headers of a chunk's transactional batches to a file."""

    def execute(self) -> bool:
        """Write the headers, and return whether the chunk has transactional batches."""
        headers = TransactionHeaders()
        for index, _, window in self.chunk.read_windows():
            headers.add_window(index, window)
        return headers.write(self.chunk.make_path("headers"))


@dataclass(frozen=True, slots=True)
class TrackTransactionsTask:
    """A task that tracks the transactions of a partition through all its chunks.

    Attributes:
        aborted_transactions: for the first pass, all aborted transactions of the dirty part; ``None`` for the second
            pass, which uses the aborted transactions of each segment.
    """

    chunks: tuple[LogChunk, ...]
    has_transactions: tuple[bool, ...]
    aborted_transactions: tuple[AbortedTransaction, ...] | None

    @property
    def size_bytes(self) -> int:
        """The estimated size of the stored headers, which take 136 bytes for each batch."""
        return sum(chunk.size_bytes for chunk in self.chunks) // _LOG_BYTES_PER_HEADER_BYTE

    def execute(self) -> list[CleanedTransactions]:
        """Return the state of transactions at the start of each chunk."""
        transactions, states = CleanedTransactions(), []
        transactions.add_aborted_transactions(self.aborted_transactions or ())
        for chunk, has_transactions in zip(self.chunks, self.has_transactions, strict=True):
            states.append(transactions.snapshot(chunk.end_offset))
            headers = (
                np.load(chunk.make_path("headers"))
                if has_transactions
                else np.empty((len(BATCH_COLUMNS) + 2, 0), np.int64)
            )
            for index, source in enumerate(chunk.sources):
                self._track_segment(source, headers[:, headers[-2] == index], transactions)
        return states

    def _track_segment(self, source: SourceSegment, headers: Ints, transactions: CleanedTransactions) -> None:
        """Process a segment's transactional batches and markers in order."""
        if self.aborted_transactions is None:
            transactions.add_aborted_transactions(source.aborted_transactions)
        elif not source.is_dirty:
            return
        for *values, _, kind in headers.T.tolist():
            header = BatchHeader(*values)
            if kind == _DATA_BATCH_KIND:
                transactions.process_data(header)
            else:
                transactions.process_control(header, _CONTROL_KINDS[kind])
        transactions.kept_transactions.clear()


# ------------------------------------------------------------------------------------------------ the first walk


@dataclass(frozen=True, slots=True)
class FirstPassResult:
    """The result of the first pass over a chunk.

    Attributes:
        runs: sorted runs of the chunk's entries.
        first_offset, last_offset: range of the offsets of records and batches; -1 for an empty chunk.
        rises: whether each record has a greater offset than the record before it.
        has_transactions: whether the chunk has transactional batches.
    """

    runs: tuple[int, ...] = ()
    first_offset: int = -1
    last_offset: int = -1
    rises: bool = True
    has_transactions: bool = False


@dataclass(frozen=True, slots=True)
class FirstPassTask(_ChunkTask):
    """A task that reads a chunk, and writes an entry for each key.

    Attributes:
        transactions: state of transactions at the start of the chunk.
        collects: whether to write the headers of transactional batches too.
    """

    first_dirty_offset: int
    transactions: CleanedTransactions
    collects: bool
    secret: Secret
    buckets: int
    run_entries: int

    def execute(self) -> FirstPassResult:
        """Write the entries of the chunk's keys, and the ledger of record positions."""
        chunk, headers = self.chunk, TransactionHeaders()
        first_offset = last_offset = -1
        rises = True
        with (
            atomic.new_file(chunk.make_path("entries"), durable=False) as entries,
            atomic.new_file(chunk.make_path("ledger"), durable=False) as ledger,
        ):
            writer = EntriesWriter(
                entries, ledger, secret=self.secret, buckets=self.buckets, run_entries=self.run_entries
            )
            for index, source, window in chunk.read_windows():
                if self.collects:
                    headers.add_window(index, window)
                writer.add_window(window, self._mask_selected_records(source, window))
                ends = int(window.batches.column("last_offset").max(initial=-1))
                offsets = window.index.offsets
                if len(offsets):
                    rises = rises and bool((np.diff(offsets, prepend=last_offset) > 0).all())
                    first_offset = int(offsets[0]) if first_offset < 0 else first_offset
                    last_offset = max(int(offsets[-1]), ends)
            writer.finish_run()
        return FirstPassResult(
            tuple(writer.runs), first_offset, last_offset, rises, headers.write(chunk.make_path("headers"))
        )

    def _mask_selected_records(self, source: SourceSegment, window: DecodedBatches) -> npt.NDArray[np.bool_]:
        """Return a flag for each record: whether it takes part in the search for the last record of each key."""
        if not source.is_dirty:
            return np.zeros(len(window.owners), np.bool_)
        return mask_counted_records(window, self.transactions, self.first_dirty_offset)


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """A task that decides, for a range of key-hash buckets, which records are the last of their key."""

    entries: tuple[tuple[str, tuple[int, ...]], ...]
    verdicts: str
    buckets: int
    first_bucket: int
    end_bucket: int
    size_bytes: int

    def execute(self) -> None:
        """Decide which entries are the last of their key, and write the verdicts to a file."""
        entries = [(Path(path), runs) for path, runs in self.entries]
        with atomic.new_file(Path(self.verdicts), durable=False) as out:
            judge_buckets(
                entries, out, buckets=self.buckets, first_bucket=self.first_bucket, end_bucket=self.end_bucket
            )


# ----------------------------------------------------------------------------------------------- the second walk


@dataclass(frozen=True, slots=True)
class OutputPart:
    """The part of a new segment that is written from one chunk.

    Attributes:
        base_offset: base offset of the new segment.
        path: file with the part's batches. The columns for its indexes are in a file of this name with the suffix
            ``.npy``.
        aborted_transactions: see ``CleanedTransactions``.
    """

    base_offset: int
    path: str
    aborted_transactions: tuple[AbortedTransaction, ...]


@dataclass(slots=True)
class SecondPassResult:
    """The result of the second pass over a chunk. ``overflows``: whether a new segment has too many offsets."""

    parts: list[OutputPart] = field(default_factory=list)
    tally: CleaningStatistics = field(default_factory=CleaningStatistics)
    overflows: bool = False


@dataclass(frozen=True, slots=True)
class SecondPassTask(_ChunkTask):
    """A task that reads a chunk again, and writes or counts the remaining records.

    Attributes:
        groups: base offset of each new segment, and number of the chunk's segments that are merged into it.
        writes: whether to write the records. If False, the records are only counted.
    """

    groups: tuple[tuple[int, int], ...]
    runs: tuple[int, ...]
    verdicts: tuple[tuple[str, int, int], ...]
    buckets: int
    end_offset: int
    producers: Producers
    transactions: CleanedTransactions
    settings: CleanerSettings
    writes: bool

    def execute(self) -> SecondPassResult:
        """Write the chunk's parts of the new segments, or only count their bytes."""
        result, filter_ = SecondPassResult(), self._make_filter()
        remaining = iter(self.chunk.sources)
        for base, count in self.groups:
            self.transactions.kept_transactions = []
            chunks = read_kept_batches(
                self.chunk.filesystem, [next(remaining) for _ in range(count)], filter_, self.transactions
            )
            if self.writes:
                self._write_part(result, base, chunks)
            else:
                filter_.tally.bytes_written += sum(map(len, chunks))
        result.tally = filter_.tally
        return result

    def _make_filter(self) -> BatchFilter:
        """Return the filter that removes the records which the verdicts do not keep."""
        chunk = self.chunk
        verdicts = [(Path(path), first, end) for path, first, end in self.verdicts]
        verdict_reader = VerdictReader(
            chunk.number,
            chunk.make_path("entries"),
            self.runs,
            chunk.make_path("ledger"),
            verdicts,
            buckets=self.buckets,
        )
        return BatchFilter(self.producers, self.settings, verdict_reader, self.transactions, end_offset=self.end_offset)

    def _write_part(self, result: SecondPassResult, base: int, chunks: Iterator[bytes | memoryview]) -> None:
        """Write the chunk's part of the new segment with base offset ``base``, and its index columns."""
        path = self.chunk.make_path(f"part-{base:020}")
        with atomic.new_file(path, durable=False) as out:
            out.writelines(chunks)
        columns = read_indexed_columns(path)
        with atomic.new_file(path.with_suffix(".npy"), durable=False) as out:
            np.save(out, columns)
        result.overflows = result.overflows or overflows_index(base, columns)
        result.parts.append(OutputPart(base, str(path), tuple(self.transactions.kept_transactions)))


# ------------------------------------------------------------------------------------------------- the new segments


@dataclass(frozen=True, slots=True)
class AssembleTask:
    """A task that joins the parts of a new segment, and writes its indexes."""

    base_offset: int
    parts: tuple[OutputPart, ...]
    last: LogFile
    directory: str
    settings: CleanerSettings
    size_bytes: int

    def execute(self) -> int:
        """Write the new segment and its indexes, and return the size of the segment in bytes."""
        path = Path(self.directory) / names.name_segment_file(self.base_offset, "log")
        tables = [np.load(Path(part.path).with_suffix(".npy")) for part in self.parts]
        position = 0
        with atomic.new_file(path, mtime_ms=self.last.mtime_ms) as out:
            for part, table in zip(self.parts, tables, strict=True):
                table[0] += position
                position += _append_file(Path(part.path), out.fileno())
        kept_transactions = [transaction for part in self.parts for transaction in part.aborted_transactions]
        with atomic.name_path_in_errors(path):
            write_indexes(path, self.base_offset, np.concatenate(tables, axis=1), self.settings, kept_transactions)
        return position


def _append_file(path: Path, target: int) -> int:
    """Append a file to another one with ``sendfile``, and return the size of the appended file."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        remaining = size
        while remaining:
            copied_bytes = os.sendfile(target, file.fileno(), size - remaining, remaining)
            if not copied_bytes:
                raise LogDirError("was truncated while it was copied", file=str(path))
            remaining -= copied_bytes
    return size


@dataclass(frozen=True, slots=True)
class CopyTask:
    """A task that copies the files of a partition that the cleaning does not change."""

    filesystem: FileSystem
    plan: CleaningPlan
    directory: str
    deleted_bases: frozenset[int]
    rewritten_bases: frozenset[int]
    size_bytes: int

    def execute(self) -> None:
        """Copy the files to the new directory."""
        target = Path(self.directory)
        with atomic.name_path_in_errors(target):
            copy_unchanged_files(
                self.filesystem,
                self.plan,
                target,
                deleted_bases=self.deleted_bases,
                rewritten_bases=self.rewritten_bases,
            )
