"""Report how far Spark's running jobs are, for a progress bar: a thread asks Spark, the caller draws."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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


def _ask(tracker: object, show: Callable[[int, int], None], finished: threading.Event) -> None:
    while not finished.wait(_ASK_EVERY_SECONDS):
        done = total = 0
        for stage in tracker.getActiveStageIds():  # type: ignore[attr-defined]
            info = tracker.getStageInfo(stage)  # type: ignore[attr-defined]
            if info is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
        if total:
            show(done, total)
