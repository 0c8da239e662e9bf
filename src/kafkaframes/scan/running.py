"""Run a scan: slice after slice, or several at once, with the rows in the same order and a bounded number in memory.

In a notebook, with a progress bar.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from multiprocessing import get_context
from typing import Any

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.scan.slices import Rows, ScanPlan, ScanSlice

_LOG = logging.getLogger("kafkaframes.scan")
_Result = tuple[list[pa.RecordBatch], list[Any]]


@dataclass(slots=True)
class Running:
    """A scan that runs.

    Attributes:
        errors: what was damaged so far.
        total_bytes: of the plan, once it is made; 0 where that is not known.
        done_bytes: of the slices that are read.
    """

    errors: list[Any]
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
    running.total_bytes = plan.size_bytes
    try:
        if plan.limit is not None:  # slices that are read ahead could all be in vain
            yield from _first(_serial(plan.slices, running), plan.limit)
        elif workers == 1 or len(plan) < 2:
            yield from _serial(plan.slices, running)
        else:
            yield from _pooled(plan, running, workers)
    finally:
        scan.source.close()


def read_plan(plan: ScanPlan) -> pa.Table:
    """Return the rows of a plan, slice after slice, wherever it was sent to; damage is a warning there."""
    running = Running([])
    batches = _serial(plan.slices, running)
    rows = list(batches if plan.limit is None else _first(batches, plan.limit))
    for part in plan.slices[:1]:
        part.source.close()
    warn(running.errors)
    return pa.Table.from_batches(rows, plan.schema)


def warn(errors: Sequence[Any]) -> None:
    """Tell of damage."""
    for error in errors:
        _LOG.warning("%s", error.as_exception() if hasattr(error, "as_exception") else error)


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
