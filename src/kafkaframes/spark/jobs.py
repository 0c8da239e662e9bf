"""Have a plain function run on a list of values by Spark's workers: for jobs whose bytes need not pass through the JVM.

The values and answers are small (a segment's path, what was counted); what is large is read and written by the workers.
Executors need this package and its dependencies, and see the same paths as the driver.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafkaframes.errors import KafkaframesError
from kafkaframes.records.limits import budget, current_budget
from kafkaframes.spark import _compat
from kafkaframes.spark.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkaframes.jobs.compact.staged_compaction import Split
    from kafkaframes.jobs.job import Runner

_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")
BYTES_OF_A_TASK = 64 << 20
TASKS_AT_MOST = 2000  # a task costs about 35 ms before it does anything


def run_on_spark(
    spark: SparkSession,
    function: Callable[[_Task], _Answer],
    tasks: Sequence[_Task],
    *,
    total_bytes: int | None = None,
) -> Iterator[_Answer]:
    """Return ``function(task)`` for each task, in order.

    Args:
        spark: a session that is no Spark Connect.
        function: importable by its name on the executors.
        tasks: values that pickle.
        total_bytes: of all tasks, where many are small: neighbours then go into one task of Spark's.

    Raises:
        KafkaframesError: a task failed with one of our errors, as often as Spark tries it.
    """
    if not tasks:
        return iter(())
    with _compat.plain_errors():
        shared = spark.sparkContext.parallelize(list(tasks), _slices(spark, len(tasks), total_bytes))
        memory = current_budget()
        return iter(shared.mapPartitions(lambda some: _each(function, some, memory)).collect())


def _slices(spark: SparkSession, count: int, total_bytes: int | None) -> int:
    """Return among how many of Spark's tasks our tasks are shared out."""
    if total_bytes is None:
        return min(count, TASKS_AT_MOST)
    cores: int = spark.sparkContext.defaultParallelism
    requested = max(4 * cores, total_bytes // BYTES_OF_A_TASK)
    return min(count, requested, TASKS_AT_MOST)


def _each(function: Callable[[_Task], _Answer], tasks: Iterable[_Task], budget_bytes: int) -> Iterator[_Answer]:
    for task in tasks:
        with budget(budget_bytes):
            answer = function(task)
        yield answer
    settle()


def runner(spark: SparkSession, *, size_of: Callable[[Any], int] | None = None) -> Runner:
    """Return what jobs take as ``run``: an error of ours keeps its class and its place.

    Such an error is an answer to Spark, not a failure: trying again would not help.

    Args:
        size_of: a task's bytes, where many are small: neighbours then go into one task of Spark's.
    """

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        total_bytes = None if size_of is None else sum(map(size_of, tasks))
        answers = list(run_on_spark(spark, partial(_attempt, function), tasks, total_bytes=total_bytes))
        for answer in answers:
            if isinstance(answer, KafkaframesError):
                raise answer
        return answers

    return run


def split(spark: SparkSession) -> Split:
    """Return how compaction shares out large partitions."""
    from kafkaframes.jobs.compact.staged_compaction import Split

    return Split(secret=new_secret(), workers=spark.sparkContext.defaultParallelism)


def new_secret() -> tuple[int, int]:
    """Return two random numbers of 64 bits, with their signs: the key of a compaction's digests."""
    return secrets.randbits(64) - 2**63, secrets.randbits(64) - 2**63


def _attempt(function: Callable[[Any], Any], task: Any) -> Any:
    try:
        return function(task)
    except KafkaframesError as error:
        return error
