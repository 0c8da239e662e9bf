"""Share work between processes, in order, with a progress bar for people who wait."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import parent_process
from typing import Any, TypeVar

_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")
SMALL_BYTES = 256 << 20  # less is done before other processes have started


def in_order(
    function: Callable[[_Task], _Answer],
    tasks: Sequence[_Task],
    *,
    size_of: Callable[[_Task], int],
    workers: int | None = None,
    label: str = "reading",
) -> Iterator[_Answer]:
    """Yield ``function(task)`` for each task in order, from as many processes as there are cores.

    Args:
        function: importable by its name, as are the tasks' parts: they travel to other processes.
        size_of: a task's weight in bytes, for the bar.
        workers: how many processes; by default the cores, and one for little work.
        label: what the bar says. It is shown on a terminal only, on standard error.
    """
    total = sum(map(size_of, tasks))
    count = workers or (1 if total < SMALL_BYTES else os.cpu_count() or 1)
    answers = map(function, tasks) if count == 1 or len(tasks) < 2 else _from_processes(function, tasks, count)
    return _with_bar(answers, [size_of(task) for task in tasks], total, label)


def _from_processes(function: Callable[[_Task], _Answer], tasks: Sequence[_Task], count: int) -> Iterator[_Answer]:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    workers, context = min(count, len(tasks)), get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent) as pool:
        yield from pool.map(function, tasks, chunksize=max(1, len(tasks) // (count * 64)))


def _end_with_parent() -> None:
    """End this process when the one that started it is killed: it would wait for work for ever."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, name="kafkaframes parent watch", daemon=True).start()


def _with_bar(answers: Iterator[_Answer], sizes: Sequence[int], total: int, label: str) -> Iterator[_Answer]:
    if not sys.stderr.isatty() or total < SMALL_BYTES // 4:
        yield from answers
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(*_columns(), console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(label, total=total)
        for size, answer in zip(sizes, answers, strict=True):
            progress.advance(bar, size)
            yield answer


def _columns() -> tuple[Any, ...]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    return TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
