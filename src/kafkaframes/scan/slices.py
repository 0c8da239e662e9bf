"""What a scan is of; a scan that is planned; and its run, slice after slice or several at once.

Each slice is read by itself, in a thread, a process, a Spark task. Rows keep their order, and a bounded number of them
is in memory. In a notebook, with a progress bar.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from html import escape
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.scan.decoded import ValueDecoding
from kafkaframes.scan.rows import LOG_COLUMNS, RecordBatches, schema_of
from kafkaframes.scan.where import Where

if TYPE_CHECKING:
    import pyarrow as pa


class Work(Protocol):
    """What one slice reads: picklable, so that it can be read in another process, or on another machine."""

    @property
    def size_bytes(self) -> int:
        """How large the slice is, about; 0 where that is not known."""

    @property
    def label(self) -> str:
        """What is read, for people."""


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What a source will read.

    Attributes:
        works: in the order of their rows.
        notes: what there is to report next to rows and damage, as objects whose text is a line for people.
    """

    works: Sequence[Any] = ()
    notes: tuple[Any, ...] = ()


class Source(Protocol):
    """What a scan reads; by default the records of topics, which are read before they are counted."""

    @property
    def label(self) -> str:
        """What is read, for people: ``log /backup``."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are chosen by name."""
        return ()

    @property
    def is_files(self) -> bool:
        """Whether it is segments as they were named, of which topic and partition may not be known."""
        return False

    @property
    def default_columns(self) -> tuple[str, ...]:
        """The columns where none are chosen."""
        return LOG_COLUMNS

    def checked(self, columns: Sequence[str], where: Where) -> None:
        """Check columns and conditions.

        Raises:
            OptionError: this source has none of such a name.
        """

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of these columns."""
        return schema_of(columns)

    def plan(self, where: Where, *, parts: int) -> SourcePlan:
        """Return what will be read.

        Args:
            parts: into how many the source is cut at least, if it is large.

        Raises:
            OptionError: what is named is not there, or is lost.
            LogDirError, NetworkError, BrokerError: it cannot be looked at.
        """

    def read(self, work: Any, columns: Sequence[str], where: Where, errors: list[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a work, in order; damage is appended to ``errors``."""

    def count(self, work: Any, where: Where) -> int | None:
        """Return how many rows a work has, from headers alone; None where these do not say it."""
        return None

    def close(self) -> None:
        """End what reading has kept open: connections."""
        return


@dataclass(frozen=True, slots=True)
class ScanSlice:
    """A part of a scan.

    Attributes:
        source: what is read, and how; passwords may be in it.
    """

    source: Source = field(repr=False)
    work: Work
    plain_columns: tuple[str, ...]
    where: Where
    columns: tuple[str, ...]
    decoding: ValueDecoding | None = None

    @property
    def size_bytes(self) -> int:
        """How large it is, about; 0 where that is not known."""
        return self.work.size_bytes

    def read(self, errors: list[Any] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in order; raises as ``Scan.to_batches``.

        Args:
            errors: what was damaged is appended.
        """
        batches = self.source.read(self.work, self.plain_columns, self.where, [] if errors is None else errors)
        if self.decoding is None:
            return batches
        decoding = self.decoding
        return (decoding.batch(batch, self.columns) for batch in batches)

    def count(self) -> int:
        """Return how many rows it has, from headers where these say it."""
        counted = self.source.count(self.work, self.where)
        if counted is not None:
            return counted
        cheapest = [name for name in self.source.default_columns if name in _CHEAP] or self.source.default_columns[:1]
        return sum(batch.num_rows for batch in self.source.read(self.work, cheapest[:1], self.where, []))


_CHEAP = ("offset", "connection")


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What a scan will do, before it does it.

    Attributes:
        slices: in the order of their rows.
        schema: of the rows.
        limit: how many of the first rows are read; None: all.
        notes: what there is to report next to rows and damage, such as records that an open transaction hides; their
            text is a line for people.
    """

    slices: tuple[ScanSlice, ...]
    schema: pa.Schema
    limit: int | None = None
    notes: tuple[Any, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The bytes that are read; 0 where that is not known."""
        return sum(part.size_bytes for part in self.slices)

    def apart(self) -> list[ScanPlan]:
        """Return plans of one slice each, or this one alone where the first rows of all are read."""
        if self.limit is not None or not self.slices:
            return [self]
        return [replace(self, slices=(part,)) for part in self.slices]

    def rows(self, running: Running) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one slice after the other."""
        batches = _serial(self.slices, running)
        return batches if self.limit is None else _first(batches, self.limit)

    def __len__(self) -> int:
        return len(self.slices)

    def __iter__(self) -> Iterator[ScanSlice]:
        return iter(self.slices)

    def __repr__(self) -> str:
        lines = [f"{len(self.slices)} slices, {self.size_bytes} bytes"]
        lines += [f"  {part.work.label}" for part in self.slices[:20]]
        return "\n".join([*lines, f"  and {len(self.slices) - 20} more"] if len(self.slices) > 20 else lines)


class Rows(Protocol):
    """A scan, as those see it that run, show and convert one: the methods of ``scan.Scan``."""

    @property
    def source(self) -> Source:  # noqa: D102
        ...

    @property
    def schema(self) -> pa.Schema:  # noqa: D102
        ...

    @property
    def most(self) -> int | None:  # noqa: D102
        ...

    def select(self, *columns: str) -> Rows:  # noqa: D102
        ...

    def limit(self, rows: int) -> Rows:  # noqa: D102
        ...

    def narrowed(self, where: Where) -> Rows:  # noqa: D102
        ...

    def plan(self, *, parts: int = 1) -> ScanPlan:  # noqa: D102
        ...

    def to_batches(self, *, workers: int = 1) -> RecordBatches:  # noqa: D102
        ...


_LOG = logging.getLogger("kafkaframes.scan")
_Result = tuple[list[pa.RecordBatch], list[Any]]


@dataclass(slots=True)
class Running:
    """A scan that runs.

    Attributes:
        errors: what was damaged so far.
        notes: of the plan, once it is made.
        total_bytes: of the plan, once it is made; 0 where that is not known.
        done_bytes: of the slices that are read.
    """

    errors: list[Any]
    notes: list[Any] = field(default_factory=list)
    total_bytes: int = 0
    done_bytes: int = 0


def run(scan: Rows, running: Running, workers: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan, as ``Scan.to_batches`` says.

    Raises:
        OptionError: ``workers`` is below 1.
    """
    if workers < 1:
        raise OptionError(f"`workers` is at least 1, not {workers}")
    plan = scan.plan(parts=workers)
    running.notes += plan.notes
    running.total_bytes = plan.size_bytes
    try:
        if plan.limit is not None or workers == 1 or len(plan) < 2:  # first rows: to read ahead could be in vain
            yield from plan.rows(running)
        else:
            yield from _pooled(plan, running, workers)
    finally:
        scan.source.close()


def read_plan(plan: ScanPlan) -> pa.Table:
    """Return the rows of a plan, slice after slice, wherever it was sent to; damage is a warning there."""
    running = Running([])
    rows = list(plan.rows(running))
    for part in plan.slices[:1]:
        part.source.close()
    warn([*running.errors, *plan.notes])
    return pa.Table.from_batches(rows, plan.schema)


def warn(errors: Sequence[Any]) -> None:
    """Log damage and notes as warnings."""
    for error in errors:
        _LOG.warning("%s", error.as_exception() if hasattr(error, "as_exception") else error)


def warn_at_end(batches: RecordBatches) -> Iterator[pa.RecordBatch]:
    """Yield batches, and log damage and notes after the last one, for consumers that show neither."""
    yield from batches
    warn([*batches.errors, *batches.notes])


def _serial(slices: Sequence[ScanSlice], running: Running) -> Iterator[pa.RecordBatch]:
    for part in slices:
        yield from part.read(running.errors)
        running.done_bytes += part.size_bytes


def _first(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
        if rows <= 0:
            return


def _pooled(plan: ScanPlan, running: Running, workers: int) -> Iterator[pa.RecordBatch]:
    """Read ``workers`` slices at once, and one more ahead."""
    waiting = iter(plan.slices)
    ahead: deque[tuple[ScanSlice, Future[_Result]]] = deque()
    with _executor(plan, workers) as pool:
        try:
            while True:
                while len(ahead) <= workers and (part := next(waiting, None)) is not None:
                    ahead.append((part, pool.submit(_read, part)))
                if not ahead:
                    return
                part, future = ahead.popleft()
                batches, errors = future.result()
                running.errors += errors
                yield from batches
                running.done_bytes += part.size_bytes
        finally:
            for _, future in ahead:
                future.cancel()


def _executor(plan: ScanPlan, workers: int) -> Executor:
    """Return threads: kernels let other threads run, and rows are not copied. Decoding is Python: processes."""
    count = min(workers, len(plan))
    if plan.slices[0].decoding is None:
        return ThreadPoolExecutor(count, thread_name_prefix="kafkaframes scan")
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


def _read(part: ScanSlice) -> _Result:
    errors: list[Any] = []
    return list(part.read(errors)), errors


def scan_html(scan: Rows) -> str:
    """Return a scan as HTML: what it reads, and a table of its columns. Nothing is read for it."""
    rows = "".join(f"<tr><td>{escape(field.name)}</td><td>{escape(str(field.type))}</td></tr>" for field in scan.schema)
    head = "<tr><th>column</th><th>type</th></tr>"
    return f"<div>{escape(repr(scan))}</div><table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def watched(batches: Iterator[pa.RecordBatch], running: Running, label: str) -> Iterator[pa.RecordBatch]:
    """Yield batches; in a notebook, with a bar of the bytes that are read, where the library tqdm is there."""
    bar = _bar(label) if _is_notebook() else None
    if bar is None:
        yield from batches
        return
    with bar:
        for batch in batches:
            bar.total = running.total_bytes or None
            bar.update(running.done_bytes - bar.n)
            yield batch
        bar.update(running.done_bytes - bar.n)


def _is_notebook() -> bool:
    """Say whether this is the kernel of a notebook: a terminal has no use for what it shows."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _bar(label: str) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=label, unit="B", unit_scale=True)
