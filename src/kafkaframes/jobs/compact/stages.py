"""The steps of a compaction that is shared out by segments: what each worker does, and which files it leaves.

Tasks pickle and can be repeated: each writes its files under another name first. What grows with the keys or the
batches goes from step to step in files of a scratch directory; answers hold what grows with the segments.
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
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.layout import BATCH_COLUMNS, COLUMN
from kafkaframes.records.memory import Recycler
from kafkaframes.storage.cleaner.exchange import EntriesWriter, Secret, VerdictReader, judge_buckets
from kafkaframes.storage.cleaner.filter import Filter, Tally
from kafkaframes.storage.cleaner.latest import counted
from kafkaframes.storage.cleaner.plan import CleanerSettings, RoundPlan, plan_round
from kafkaframes.storage.cleaner.round import (
    SourceSegment,
    copy_rest,
    indexed_columns,
    kept_of,
    reaches_too_far,
    write_indexes,
)
from kafkaframes.storage.cleaner.walk import (
    ABORT,
    COMMIT,
    CleanedTransactions,
    control_type,
    header_of,
    in_transactions,
)
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.directory import LogFile, Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.log.producers import Producers

Ints = npt.NDArray[np.int64]
_KINDS = (None, ABORT, COMMIT, "another")  # of control batches, as the facts number them
_DATA = -1
_BYTES_BY_FACTS = 100


class Stage(Protocol):
    """One task of one step of a staged compaction; it travels to whatever process runs it."""

    @property
    def size_bytes(self) -> int:
        """How much there is to read."""

    def execute(self) -> object:
        """Do the work of this task, and return what the next step needs of it."""


def run_stage(task: Stage) -> object:
    """Run a task: the function that runners (processes, Spark) are given."""
    return task.execute()


@dataclass(frozen=True, slots=True)
class Chunk:
    """Neighbouring segments, or parts of them, that one worker walks through, and where it leaves what it finds.

    Attributes:
        number: chunks are numbered in the order of the log.
        end_offset: where the next one begins.
    """

    filesystem: FileSystem
    number: int
    sources: tuple[SourceSegment, ...]
    end_offset: int
    scratch: str

    @property
    def size_bytes(self) -> int:
        """Bytes to walk through."""
        return sum(source.size_bytes for source in self.sources)

    def path(self, kind: str) -> Path:
        """Return the file for one kind of finding."""
        return Path(self.scratch) / f"{kind}-{self.number:06}"

    def windows(self) -> Iterator[tuple[int, SourceSegment, Decoded]]:
        """Decode it window by window."""
        memory = Recycler()
        for index, source in enumerate(self.sources):
            for window in source.windows(self.filesystem, memory):
                yield index, source, window


# ------------------------------------------------------------------------------------------------------- the plan


@dataclass(frozen=True, slots=True)
class PlanTask:
    """Plan the round of a partition."""

    filesystem: FileSystem
    partition: Partition
    settings: CleanerSettings

    @property
    def size_bytes(self) -> int:
        """Bytes of which the headers are read."""
        return self.partition.size_bytes

    def execute(self) -> RoundPlan:
        """Return the plan."""
        return plan_round(self.filesystem, self.partition, self.settings)


# --------------------------------------------------------------------------------------------- transactions: facts


class Facts:
    """The batches of a chunk that are part of transactions, for those who follow these through the whole log."""

    def __init__(self) -> None:
        self._tables: list[Ints] = []

    def add(self, index: int, window: Decoded) -> None:
        """Note a window of the segment at a place in the chunk."""
        batches = in_transactions(window)
        if not batches:
            return
        table = np.empty((len(BATCH_COLUMNS) + 2, len(batches)), np.int64)
        table[:-2] = window.batches.table[:, batches]
        table[COLUMN["position"]] += window.base
        table[-2] = index
        control = window.batches.column("attributes")[batches]
        table[-1] = [_kind(window, batch) for batch in batches] if len(control) else []
        self._tables.append(table)

    def write(self, path: Path) -> bool:
        """Write them, if there are any; tell whether."""
        if self._tables:
            with atomic.new_file(path, durable=False) as out:
                np.save(out, np.concatenate(self._tables, axis=1))
        return bool(self._tables)


def _kind(window: Decoded, batch: int) -> int:
    if not header_of(window, batch).is_control:
        return _DATA
    kind = control_type(window, batch)
    return _KINDS.index(kind if kind in _KINDS else _KINDS[-1])


@dataclass(frozen=True, slots=True)
class _OfChunk:
    """A task that reads a chunk."""

    chunk: Chunk

    @property
    def size_bytes(self) -> int:
        """Bytes to read."""
        return self.chunk.size_bytes


@dataclass(frozen=True, slots=True)
class FactsTask(_OfChunk):
    """Only collect the facts of a chunk; answers whether there are any."""

    def execute(self) -> bool:
        """Collect and write them."""
        facts = Facts()
        for index, _, window in self.chunk.windows():
            facts.add(index, window)
        return facts.write(self.chunk.path("facts"))


@dataclass(frozen=True, slots=True)
class FollowTask:
    """Follow the transactions of a partition through the facts of its chunks.

    Attributes:
        announced: for the first walk, all aborted transactions of the dirty part; ``None`` for the second, in which
            each segment announces its own.
    """

    chunks: tuple[Chunk, ...]
    has_facts: tuple[bool, ...]
    announced: tuple[AbortedTransaction, ...] | None

    @property
    def size_bytes(self) -> int:
        """About those of the facts: 136 for a batch."""
        return sum(chunk.size_bytes for chunk in self.chunks) // _BYTES_BY_FACTS

    def execute(self) -> list[CleanedTransactions]:
        """Return how things stand at the beginning of each chunk."""
        transactions, states = CleanedTransactions(), []
        transactions.add(self.announced or ())
        for chunk, has_facts in zip(self.chunks, self.has_facts, strict=True):
            states.append(transactions.snapshot(chunk.end_offset))
            facts = np.load(chunk.path("facts")) if has_facts else np.empty((len(BATCH_COLUMNS) + 2, 0), np.int64)
            for index, source in enumerate(chunk.sources):
                self._through(source, facts[:, facts[-2] == index], transactions)
        return states

    def _through(self, source: SourceSegment, facts: Ints, transactions: CleanedTransactions) -> None:
        if self.announced is None:
            transactions.add(source.aborted)
        elif not source.is_dirty:
            return
        for *values, _, kind in facts.T.tolist():
            header = BatchHeader(*values)
            if kind == _DATA:
                transactions.data(header)
            else:
                transactions.control(header, _KINDS[kind])
        transactions.kept.clear()


# ------------------------------------------------------------------------------------------------ the first walk


@dataclass(frozen=True, slots=True)
class Walked:
    """What the first walk of a chunk has found.

    Attributes:
        runs: of its entries.
        first_offset, last_offset: of its records and batches; -1 without any.
        rises: whether every record's offset is above the one before.
    """

    runs: tuple[int, ...] = ()
    first_offset: int = -1
    last_offset: int = -1
    rises: bool = True
    has_facts: bool = False


@dataclass(frozen=True, slots=True)
class WalkTask(_OfChunk):
    """Walk through a chunk and write the entries of its keys.

    Attributes:
        transactions: how things stand at its beginning.
        collects: whether the facts are not known yet.
    """

    first_dirty_offset: int
    transactions: CleanedTransactions
    collects: bool
    secret: Secret
    buckets: int
    run_entries: int

    def execute(self) -> Walked:
        """Write entries and ledger."""
        chunk, facts = self.chunk, Facts()
        first = last = -1
        rises = True
        with (
            atomic.new_file(chunk.path("entries"), durable=False) as entries,
            atomic.new_file(chunk.path("ledger"), durable=False) as ledger,
        ):
            writer = EntriesWriter(
                entries, ledger, secret=self.secret, buckets=self.buckets, run_entries=self.run_entries
            )
            for index, source, window in chunk.windows():
                if self.collects:
                    facts.add(index, window)
                writer.put(window, self._selected(source, window))
                ends = int(window.batches.column("last_offset").max(initial=-1))
                offsets = window.index.offsets
                if len(offsets):
                    rises = rises and bool((np.diff(offsets, prepend=last) > 0).all())
                    first = int(offsets[0]) if first < 0 else first
                    last = max(int(offsets[-1]), ends)
            writer.finish_run()
        return Walked(tuple(writer.runs), first, last, rises, facts.write(chunk.path("facts")))

    def _selected(self, source: SourceSegment, window: Decoded) -> npt.NDArray[np.bool_]:
        if not source.is_dirty:
            return np.zeros(len(window.owners), np.bool_)
        return counted(window, self.transactions, self.first_dirty_offset)


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """Judge the entries of a range of buckets."""

    entries: tuple[tuple[str, tuple[int, ...]], ...]
    verdicts: str
    buckets: int
    first_bucket: int
    end_bucket: int
    size_bytes: int

    def execute(self) -> None:
        """Write the verdicts."""
        entries = [(Path(path), runs) for path, runs in self.entries]
        with atomic.new_file(Path(self.verdicts), durable=False) as out:
            judge_buckets(
                entries, out, buckets=self.buckets, first_bucket=self.first_bucket, end_bucket=self.end_bucket
            )


# ----------------------------------------------------------------------------------------------- the second walk


@dataclass(frozen=True, slots=True)
class Part:
    """What one chunk adds to a new segment.

    Attributes:
        base_offset: of the new segment.
        path: of the part; the columns for its indexes are beside it, with the suffix ``.npy``.
        kept: see ``CleanedTransactions``.
    """

    base_offset: int
    path: str
    kept: tuple[AbortedTransaction, ...]


@dataclass(slots=True)
class Rewritten:
    """What the second walk of a chunk has made; whether a new segment's offsets would reach too far."""

    parts: list[Part] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    overflows: bool = False


@dataclass(frozen=True, slots=True)
class RewriteTask(_OfChunk):
    """Walk through a chunk again and write what stays, or only count it.

    Attributes:
        groups: the new segment's base offset, and how many of the chunk's next segments go into it.
        writes: whether to write it.
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

    def execute(self) -> Rewritten:
        """Write the parts; without them the tally has the bytes that would be written."""
        made, filter_ = Rewritten(), self._filter()
        left = iter(self.chunk.sources)
        for base, count in self.groups:
            self.transactions.kept = []
            chunks = kept_of(self.chunk.filesystem, [next(left) for _ in range(count)], filter_, self.transactions)
            if self.writes:
                self._write(made, base, chunks)
            else:
                filter_.tally.bytes_written += sum(map(len, chunks))
        made.tally = filter_.tally
        return made

    def _filter(self) -> Filter:
        chunk = self.chunk
        verdicts = [(Path(path), first, end) for path, first, end in self.verdicts]
        known = VerdictReader(
            chunk.number,
            chunk.path("entries"),
            self.runs,
            chunk.path("ledger"),
            verdicts,
            buckets=self.buckets,
        )
        return Filter(self.producers, self.settings, known, self.transactions, end_offset=self.end_offset)

    def _write(self, made: Rewritten, base: int, chunks: Iterator[bytes | memoryview]) -> None:
        path = self.chunk.path(f"part-{base:020}")
        with atomic.new_file(path, durable=False) as out:
            out.writelines(chunks)
        columns = indexed_columns(path)
        with atomic.new_file(path.with_suffix(".npy"), durable=False) as out:
            np.save(out, columns)
        made.overflows = made.overflows or reaches_too_far(base, columns)
        made.parts.append(Part(base, str(path), tuple(self.transactions.kept)))


# ------------------------------------------------------------------------------------------------- the new segments


@dataclass(frozen=True, slots=True)
class AssembleTask:
    """Put the parts of a new segment together, and write its indexes."""

    base_offset: int
    parts: tuple[Part, ...]
    last: LogFile
    directory: str
    settings: CleanerSettings
    size_bytes: int

    def execute(self) -> int:
        """Return the new segment's size in bytes."""
        path = Path(self.directory) / names.segment_file_name(self.base_offset, "log")
        tables = [np.load(Path(part.path).with_suffix(".npy")) for part in self.parts]
        position = 0
        with atomic.new_file(path, mtime_ms=self.last.mtime_ms) as out:
            for part, table in zip(self.parts, tables, strict=True):
                table[0] += position
                position += _append(Path(part.path), out.fileno())
        kept = [one for part in self.parts for one in part.kept]
        with atomic.writing(path):
            write_indexes(path, self.base_offset, np.concatenate(tables, axis=1), self.settings, kept)
        return position


def _append(path: Path, target: int) -> int:
    """Copy a file to where another one stands, without passing it through this process; return its size."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        left = size
        while left:
            copied = os.sendfile(target, file.fileno(), size - left, left)
            if not copied:
                raise LogDirError("became shorter while it was copied", file=str(path))
            left -= copied
    return size


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Copy what the round does not touch."""

    filesystem: FileSystem
    plan: RoundPlan
    directory: str
    gone: frozenset[int]
    rewritten: frozenset[int]
    size_bytes: int

    def execute(self) -> None:
        """Copy the files."""
        target = Path(self.directory)
        with atomic.writing(target):
            copy_rest(self.filesystem, self.plan, target, gone=self.gone, rewritten=self.rewritten)
