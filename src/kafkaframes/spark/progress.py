"""Report how far Spark's running jobs are, for a progress bar: a thread asks Spark, the caller draws."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ASK_EVERY_SECONDS = 0.2


@contextmanager
def watch_tasks(spark: SparkSession, show: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``show(done, total)`` with the tasks of the jobs that run meanwhile, from another thread.

    Spark Connect has no such counts: nothing is shown then.
    """
    try:
        tracker = spark.sparkContext.statusTracker()
    except Exception:  # PySparkAttributeError where there is no SparkContext; a missing bar is no reason to fail
        yield
        return
    finished = threading.Event()
    thread = threading.Thread(target=_ask, args=(tracker, show, finished), name="kafkaframes progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def _ask(tracker: Any, show: Callable[[int, int], None], finished: threading.Event) -> None:
    while not finished.wait(_ASK_EVERY_SECONDS):
        try:
            done, total = _counts(tracker)
        except Exception:  # the JVM is gone, as after Ctrl-C: who waits for its result tells why
            return
        if total:
            show(done, total)


def _counts(tracker: Any) -> tuple[int, int]:
    """Return how many tasks of the running stages are done, and how many there are."""
    stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    result = [(info.numCompletedTasks, info.numTasks) for info in stages if info is not None]
    return sum(done for done, _ in result), sum(total for _, total in result)
