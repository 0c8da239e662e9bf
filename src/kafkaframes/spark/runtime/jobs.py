"""Run a plain function on Spark's workers for each value of a list.

The data that a job reads and writes need not pass through the JVM.

The values and results are small, such as a segment path or counts. The workers read and write large data themselves.
Executors need this package and its dependencies, and must see the same paths as the driver.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafkaframes.errors import KafkaframesError
from kafkaframes.records.limits import current_budget, limit_budget
from kafkaframes.spark.runtime import _compat
from kafkaframes.spark.runtime.task_progress import show_in_notebook
from kafkaframes.spark.runtime.worker import freeze_imports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkaframes.jobs.compact.staged_compaction import SplitSettings
    from kafkaframes.jobs.job import Runner

_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")
BYTES_PER_TASK = 64 << 20
MAX_TASKS = 2000  # the overhead of a task is about 35 ms


def run_on_spark(
    spark: SparkSession,
    function: Callable[[_Task], _Answer],
    tasks: Sequence[_Task],
    *,
    total_bytes: int | None = None,
) -> Iterator[_Answer]:
    """Return ``function(task)`` for each task, in order. In a notebook, a progress bar is shown in the meantime.

    Args:
        spark: Session, other than Spark Connect.
        function: Function that executors can import by its name.
        tasks: Picklable values.
        total_bytes: Total size of many small tasks. Adjacent tasks are then combined to one Spark task.

    Raises:
        KafkaframesError: A task failed with an error of this package. Spark's retries apply.
    """
    if not tasks:
        return iter(())
    with _compat.restore_package_errors():
        task_rdd = spark.sparkContext.parallelize(list(tasks), _count_tasks(spark, len(tasks), total_bytes))
        memory = current_budget()
        with show_in_notebook(spark):
            return iter(task_rdd.mapPartitions(lambda some: _run_each_task(function, some, memory)).collect())


def _count_tasks(spark: SparkSession, count: int, total_bytes: int | None) -> int:
    """Return the number of Spark tasks for a job with ``count`` tasks."""
    if total_bytes is None:
        return min(count, MAX_TASKS)
    cores: int = spark.sparkContext.defaultParallelism
    min_tasks = max(4 * cores, total_bytes // BYTES_PER_TASK)
    return min(count, min_tasks, MAX_TASKS)


def _run_each_task(
    function: Callable[[_Task], _Answer], tasks: Iterable[_Task], budget_bytes: int
) -> Iterator[_Answer]:
    """Yield the results of the job tasks that one Spark task runs."""
    for task in tasks:
        with limit_budget(budget_bytes):
            answer = function(task)
        yield answer
    freeze_imports()


def create_runner(spark: SparkSession, *, size_of: Callable[[Any], int] | None = None) -> Runner:
    """Return a function that runs the tasks of a job on Spark. Errors of this package keep their class and location.

    Spark does not retry a task with such an error, because a retry would fail as well.

    Args:
        spark: Session, other than Spark Connect.
        size_of: Function that returns the size of a small task. Adjacent tasks are then combined to one Spark task.
    """

    def run_tasks(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Return the results of all tasks, or raise the first error of this package."""
        total_bytes = None if size_of is None else sum(map(size_of, tasks))
        answers = list(run_on_spark(spark, partial(_run_task, function), tasks, total_bytes=total_bytes))
        for answer in answers:
            if isinstance(answer, KafkaframesError):
                raise answer
        return answers

    return run_tasks


def create_split_settings(spark: SparkSession) -> SplitSettings:
    """Return the settings with which a compaction divides large partitions among tasks."""
    from kafkaframes.jobs.compact.staged_compaction import SplitSettings

    return SplitSettings(secret=create_secret(), workers=spark.sparkContext.defaultParallelism)


def create_secret() -> tuple[int, int]:
    """Return two random signed 64-bit integers, the key of a compaction's digests."""
    return secrets.randbits(64) - 2**63, secrets.randbits(64) - 2**63


def _run_task(function: Callable[[Any], Any], task: Any) -> Any:
    """Return the result of a task, or its error if it is one of this package."""
    try:
        return function(task)
    except KafkaframesError as error:
        return error
