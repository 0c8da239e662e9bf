"""Sources and plans of scans, and the execution of a plan, one slice at a time or several in parallel.

Each slice can be read by itself: in a thread, a process or a Spark task. Rows keep their order, and the number of rows
in memory is bounded. In a notebook, a progress bar is shown.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from html import escape
from multiprocessing import get_context
from typing import Any, Protocol

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.kernels.workers import count_cores
from kafkaframes.records.limits import DEFAULT_BUDGET_BYTES
from kafkaframes.scan.decoded import ValueDecoding
from kafkaframes.scan.read_ahead import ReadAhead
from kafkaframes.scan.rows import LOG_COLUMNS, RecordBatches, build_schema
from kafkaframes.scan.where import RowFilter


class SliceWork(Protocol):
    """The description of a slice's data.

    A description is picklable, so that another process or machine can read the slice.
    """

    @property
    def size_bytes(self) -> int:
        """Approximate size of the slice, in bytes; 0 if it is unknown."""

    @property
    def label(self) -> str:
        """Description of the data for users."""


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The slices that a source consists of, and the findings of its planner.

    Attributes:
        works: Descriptions of the slices, in row order.
        notes: Findings of the planner other than damage. The text of each finding is one line.
        errors: Damage that the planner found: segments that a tiered store lacks.
    """

    works: Sequence[Any] = ()
    notes: tuple[Any, ...] = ()
    errors: tuple[Any, ...] = ()


class ScanSource(Protocol):
    """The source of a scan, such as a log.

    By default, the rows of a source are records, which are counted by reading them.
    """

    @property
    def label(self) -> str:
        """Description of the source for users, such as ``log /backup``."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are selected by name."""
        return ()

    @property
    def is_file_list(self) -> bool:
        """Whether the source is a list of segment files, whose topic and partition may be unknown."""
        return False

    @property
    def default_columns(self) -> tuple[str, ...]:
        """The columns of a scan without ``select``."""
        return LOG_COLUMNS

    def check_columns(self, columns: Sequence[str], row_filter: RowFilter) -> None:
        """Check that the source has these columns, and the columns of the conditions.

        Raises:
            OptionError: The source does not have a column.
        """

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of these columns."""
        return build_schema(columns)

    def plan_slices(self, row_filter: RowFilter, *, parts: int) -> SourcePlan:
        """Plan the read of the rows that fulfil the conditions.

        Args:
            row_filter: Conditions on rows.
            parts: Minimum number of slices, if the source is large.

        Raises:
            OptionError: A topic, partition or offset does not exist, or is lost.
            LogDirError, NetworkError, BrokerError: The source cannot be inspected.
        """

    def read_slice(
        self, work: Any, columns: Sequence[str], conditions_of_scan: RowFilter, errors: list[Any]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a slice in order, and append damage to ``errors``."""

    def count_slice(self, work: Any, row_filter: RowFilter) -> int | None:
        """Return the number of rows of a slice from headers alone; None if the headers do not determine it."""
        return None

    def has_out_of_range_timestamps(self, slices: Sequence[Any]) -> bool:
        """Return whether slices have timestamps that do not fit into microseconds, according to headers or an index.

        Records that arrive later, and early timestamps that no header contains, can still be out of range.
        """
        return False

    @property
    def reads_in_threads(self) -> bool:
        """Whether a scan reads several slices at the same time by default.

        Such a source is not divided into slices below a minimum size, however many parts are requested.
        """
        return False

    @property
    def budget_bytes(self) -> int:
        """Largest size of a scan's rows in memory, in bytes, if several slices are read at the same time."""
        return DEFAULT_BUDGET_BYTES

    def share_budget(self, readers: int) -> ScanSource:
        """Return the source for a scan with several concurrent readers, each with an equal share of the budget."""
        return self

    def close(self) -> None:
        """Close the idle connections of earlier reads."""
        return


@dataclass(frozen=True, slots=True)
class ScanSlice:
    """A part of a scan that can be read independently of the other parts, also in another process.

    Attributes:
        source: Source of the scan. The source may contain passwords.
        work: Description of the slice's data.
        plain_columns: Columns that the source reads.
        where: Conditions on rows.
        columns: Columns of the result.
        decoding: Decoding of the values. If None, values are bytes.
    """

    source: ScanSource = field(repr=False)
    work: SliceWork
    plain_columns: tuple[str, ...]
    where: RowFilter
    columns: tuple[str, ...]
    decoding: ValueDecoding | None = None

    @property
    def size_bytes(self) -> int:
        """Approximate size of the slice, in bytes; 0 if it is unknown."""
        return self.work.size_bytes

    def read(self, errors: list[Any] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order. Raises the same exceptions as ``Scan.to_batches``.

        Args:
            errors: List to which damage is appended.
        """
        batches = self.source.read_slice(self.work, self.plain_columns, self.where, [] if errors is None else errors)
        if self.decoding is None:
            return batches
        decoding = self.decoding
        return (decoding.decode_batch(batch, self.columns) for batch in batches)

    def count(self) -> int:
        """Return the number of rows, from headers if they determine it, otherwise by reading the slice."""
        count = self.source.count_slice(self.work, self.where)
        if count is not None:
            return count
        cheapest = [
            name for name in self.source.default_columns if name in _COLUMNS_FOR_COUNT
        ] or self.source.default_columns[:1]
        return sum(batch.num_rows for batch in self.source.read_slice(self.work, cheapest[:1], self.where, []))


# Columns that are read if only rows are counted: ``offset`` to count records, ``connection`` to count calls.
_COLUMNS_FOR_COUNT = ("offset", "connection")


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A scan divided into slices, with the schema of its rows.

    Attributes:
        slices: Slices in row order.
        schema: Schema of the rows.
        limit: Largest number of rows; None means no limit.
        notes: Findings of the planner other than damage, such as records that an open transaction hides. The text of
            each finding is one line.
        errors: Damage that the planner found: segments that a tiered store lacks.
    """

    slices: tuple[ScanSlice, ...]
    schema: pa.Schema
    limit: int | None = None
    notes: tuple[Any, ...] = ()
    errors: tuple[Any, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Number of bytes to read; 0 if it is unknown."""
        return sum(part.size_bytes for part in self.slices)

    def split_by_slice(self) -> list[ScanPlan]:
        """Return a plan for each slice. A plan with a row limit or without slices is returned unchanged, in a list."""
        if self.limit is not None or not self.slices:
            return [self]
        return [replace(self, slices=(part,)) for part in self.slices]

    def read_rows(self, running: ScanProgress) -> Iterator[pa.RecordBatch]:
        """Yield the rows slice by slice."""
        batches = _read_serially(self.slices, running)
        return batches if self.limit is None else _limit_rows(batches, self.limit)

    def __len__(self) -> int:
        return len(self.slices)

    def __iter__(self) -> Iterator[ScanSlice]:
        return iter(self.slices)

    def __repr__(self) -> str:
        lines = [f"{count_text(len(self.slices), 'slice')}, {count_text(self.size_bytes, 'byte')}"]
        lines += [f"  {part.work.label}" for part in self.slices[:20]]
        return "\n".join([*lines, f"  and {len(self.slices) - 20} more"] if len(self.slices) > 20 else lines)


class ReadableScan(Protocol):
    """The interface of ``scan.Scan`` for the modules that run, display and convert scans."""

    @property
    def source(self) -> ScanSource:  # noqa: D102
        ...

    @property
    def schema(self) -> pa.Schema:  # noqa: D102
        ...

    @property
    def row_limit(self) -> int | None:  # noqa: D102
        ...

    def select(self, *columns: str) -> ReadableScan:  # noqa: D102
        ...

    def limit(self, rows: int) -> ReadableScan:  # noqa: D102
        ...

    def with_conditions(self, row_filter: RowFilter) -> ReadableScan:  # noqa: D102
        ...

    def plan(self, *, parts: int = 1) -> ScanPlan:  # noqa: D102
        ...

    @property
    def decoding(self) -> ValueDecoding | None:  # noqa: D102
        ...

    def to_batches(self, *, workers: int | None = None) -> RecordBatches:  # noqa: D102
        ...


_LOGGER = logging.getLogger("kafkaframes.scan")
_MAX_SLICES = 1 << 20  # each slice of a log then has the smallest size that is worth a read
_Result = tuple[list[pa.RecordBatch], list[Any]]


@dataclass(slots=True)
class ScanProgress:
    """The damage and notes that a scan has found so far, and its progress in bytes.

    Attributes:
        errors: Damage that was found so far.
        notes: Notes of the plan; empty before it is created.
        total_bytes: Size of the plan; 0 if it is unknown, or before the plan is created.
        done_bytes: Size of the slices that have been read.
    """

    errors: list[Any]
    notes: list[Any] = field(default_factory=list)
    total_bytes: int = 0
    done_bytes: int = 0


def read_scan(
    scan: ReadableScan, running: ScanProgress, workers: int | None, *, collects: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan, as ``Scan.to_batches`` does.

    Args:
        scan: The scan.
        running: Progress and findings of the scan, which this function updates.
        workers: Number of slices that are read at the same time. If None, it is the number of usable cores if the
            caller collects the plain rows of a log, otherwise 1. More workers do not help a caller that drops each
            batch, because waiting rows do not stay in the processor's cache (benchmarks/results/scans.md).
        collects: Whether the caller keeps all rows. The rows that are read ahead then have no limit.

    Raises:
        OptionError: ``workers`` is less than 1.
    """
    if workers is not None and workers < 1:
        raise OptionError(f"`workers` is {workers}; expected at least 1")
    is_decoded = scan.decoding is not None
    if workers is None:
        workers = count_cores() if collects and scan.source.reads_in_threads and not is_decoded else 1
    reads_ahead = workers > 1 and not is_decoded
    # Rows wait until all earlier ones are taken, so slices are small if the rows that wait are limited.
    has_small_slices = reads_ahead and not collects and scan.source.reads_in_threads
    plan = scan.plan(parts=_MAX_SLICES if has_small_slices else workers)
    running.notes += plan.notes
    running.errors += plan.errors
    running.total_bytes = plan.size_bytes
    try:
        if plan.limit is not None or workers == 1 or len(plan) < 2:  # with a limit, read-ahead could be wasted
            yield from plan.read_rows(running)
        elif reads_ahead:
            yield from _read_in_threads(plan, running, workers, collects=collects)
        else:
            yield from _read_in_processes(plan, running, workers)
    finally:
        scan.source.close()


def read_plan(plan: ScanPlan) -> pa.Table:
    """Return the rows of a plan, slice by slice, for plans sent to another process. Damage is logged as warnings."""
    running = ScanProgress([])
    rows = list(plan.read_rows(running))
    for part in plan.slices[:1]:
        part.source.close()
    log_damage([*plan.errors, *running.errors, *plan.notes])
    return pa.Table.from_batches(rows, plan.schema)


def log_damage(errors: Sequence[Any]) -> None:
    """Log damage and notes as warnings."""
    for error in errors:
        _LOGGER.warning("%s", error.as_exception() if hasattr(error, "as_exception") else error)


def log_damage_at_end(batches: RecordBatches) -> Iterator[pa.RecordBatch]:
    """Yield batches, and log damage and notes after the last one, for libraries that do not report them."""
    yield from batches
    log_damage([*batches.errors, *batches.notes])


def _read_serially(slices: Sequence[ScanSlice], running: ScanProgress) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one slice after the other."""
    for part in slices:
        yield from part.read(running.errors)
        running.done_bytes += part.size_bytes


def _limit_rows(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the first ``rows`` rows of the batches."""
    for batch in batches:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
        if rows <= 0:
            return


def _read_in_threads(
    plan: ScanPlan, running: ScanProgress, workers: int, *, collects: bool
) -> Iterator[pa.RecordBatch]:
    """Read slices in threads.

    Half of the memory budget is for decompressed batches, and half is for rows that wait for the caller.
    """
    source = plan.slices[0].source
    shared_source = source.share_budget(2 * workers)
    slices = [replace(part, source=shared_source) for part in plan.slices]
    with ReadAhead(slices, threads=workers, max_bytes=None if collects else source.budget_bytes // 2) as ahead:
        for index, part in enumerate(slices):
            yield from ahead.read_slice_rows(index, running.errors)
            running.done_bytes += part.size_bytes


def _read_in_processes(plan: ScanPlan, running: ScanProgress, workers: int) -> Iterator[pa.RecordBatch]:
    """Read ``workers`` slices in parallel, with one more queued: values are decoded in Python, which holds the GIL."""
    waiting = iter(plan.slices)
    ahead: deque[tuple[ScanSlice, Future[_Result]]] = deque()
    with ProcessPoolExecutor(min(workers, len(plan)), mp_context=get_context("spawn")) as pool:
        try:
            while True:
                while len(ahead) <= workers and (part := next(waiting, None)) is not None:
                    ahead.append((part, pool.submit(_read_slice, part)))
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


def _read_slice(part: ScanSlice) -> _Result:
    """Return all rows of a slice and its damage, for a worker process."""
    errors: list[Any] = []
    return list(part.read(errors)), errors


def render_scan_html(scan: ReadableScan) -> str:
    """Return a scan as HTML: its description and a table of its columns. No data is read."""
    rows = "".join(f"<tr><td>{escape(field.name)}</td><td>{escape(str(field.type))}</td></tr>" for field in scan.schema)
    head = "<tr><th>column</th><th>type</th></tr>"
    return f"<div>{escape(repr(scan))}</div><table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def show_progress(batches: Iterator[pa.RecordBatch], running: ScanProgress, label: str) -> Iterator[pa.RecordBatch]:
    """Yield batches. In a notebook, show a progress bar in bytes if tqdm is installed."""
    bar = _create_progress_bar(label) if _is_notebook() else None
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
    """Return whether the process is a notebook kernel. A terminal cannot display the progress bar."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _create_progress_bar(label: str) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=label, unit="B", unit_scale=True)
