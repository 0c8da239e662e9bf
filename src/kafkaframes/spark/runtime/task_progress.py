"""Progress of Spark jobs: the number of completed tasks, for a bar on the terminal or in a notebook."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_INTERVAL_SECONDS = 0.2


@contextmanager
def watch_tasks(spark: SparkSession, show: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``show(done, total)`` with the task counts of running jobs, from another thread, while the block runs.

    Spark Connect does not report task counts, so ``show`` is not called.
    """
    try:
        tracker = spark.sparkContext.statusTracker()
    except Exception:  # PySparkAttributeError without a SparkContext; a missing progress bar must not fail the job
        yield
        return
    end_event = threading.Event()
    thread = threading.Thread(
        target=_poll_progress, args=(tracker, show, end_event), name="kafkaframes progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        end_event.set()
        thread.join()


@contextmanager
def show_in_notebook(spark: SparkSession) -> Iterator[None]:
    """Show a progress bar below the cell of a notebook while the block runs, and remove it afterwards.

    Outside of notebooks nothing is shown.
    """
    display = _create_display()
    if display is None:
        yield
        return
    try:
        with watch_tasks(spark, lambda done_tasks, total: display.update(_format_bar(done_tasks, total))):
            yield
    finally:
        display.update(_Html(""))


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook. A program may have imported ``ipykernel`` as well."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class _Html:
    """A piece of HTML for the cell of a notebook."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text


def _format_bar(done_tasks: int, total: int) -> _Html:
    """Return a progress bar in HTML."""
    bar = f'<progress value="{done_tasks}" max="{total}" aria-label="Spark tasks"></progress>'
    return _Html(f"{bar} {done_tasks:,} of {total:,} tasks")


def _create_display() -> Any:
    """Return the handle of an empty output of the current cell; None outside of notebooks."""
    if not is_notebook():
        return None
    module = importlib.import_module("IPython.display")  # the notebook's kernel has already imported this module
    return module.display(_Html(""), display_id=True)


def _poll_progress(tracker: Any, show: Callable[[int, int], None], end_event: threading.Event) -> None:
    """Show the task counts of running jobs until ``end_event`` is set."""
    while not end_event.wait(_POLL_INTERVAL_SECONDS):
        try:
            done_tasks, total = _count_tasks(tracker)
        except Exception:  # the JVM has ended, as after Ctrl-C; the thread that waits for its result reports it
            return
        if total:
            show(done_tasks, total)


def _count_tasks(tracker: Any) -> tuple[int, int]:
    """Return the numbers of completed tasks and of all tasks in the running stages."""
    stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    result = [(info.numCompletedTasks, info.numTasks) for info in stages if info is not None]
    return sum(done_tasks for done_tasks, _ in result), sum(total for _, total in result)
