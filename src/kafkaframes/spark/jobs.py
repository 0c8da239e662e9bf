"""Have a plain function run on a list of values by Spark's workers: for jobs whose bytes need not pass through the JVM.

The values and answers are small (a segment's path, what was counted); what is large is read and written by the workers.
Executors need this package and its dependencies, and see the same paths as the driver.
"""

from __future__ import annotations

import gc
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafkaframes.errors import KafkaframesError
from kafkaframes.spark import _compat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkaframes.log.rewrite.staged_compaction import Split

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
    from pyspark.errors import PySparkException

    if not tasks:
        return iter(())
    try:
        given = spark.sparkContext.parallelize(list(tasks), _slices(spark, len(tasks), total_bytes))
        return iter(given.mapPartitions(lambda some: _each(function, some)).collect())
    except Exception as error:
        # Py4JJavaError, which is none of PySpark's own exceptions, carries what a worker raised
        if (reason := _compat.reason_of(error)) is None or not _is_sparks(error, PySparkException):
            raise
        raise KafkaframesError(reason) from None


def _slices(spark: SparkSession, count: int, total_bytes: int | None) -> int:
    """Return in how many tasks of Spark's to put so many of ours."""
    if total_bytes is None:
        return min(count, TASKS_AT_MOST)
    cores: int = spark.sparkContext.defaultParallelism
    wanted = max(4 * cores, total_bytes // BYTES_OF_A_TASK)
    return min(count, wanted, TASKS_AT_MOST)


def _each(function: Callable[[_Task], _Answer], tasks: Iterable[_Task]) -> Iterator[_Answer]:
    yield from map(function, tasks)
    _settle()


def _settle() -> None:
    """Have the modules that this worker has imported left out of its garbage collections from now on.

    PySpark's workers collect after each task, and looked through numba's 140,000 objects for 60 ms each time.
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


def _is_sparks(error: Exception, kind: type[Exception]) -> bool:
    return isinstance(error, kind) or type(error).__module__.startswith("py4j")


def runner(spark: SparkSession) -> Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]:
    """Return what the rewrites of ``log/rewrite`` take as ``run``: an error of ours keeps its class and its place.

    Such an error is an answer to Spark, not a failure: trying again would not help.
    """

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        answers = list(run_on_spark(spark, partial(_attempt, function), tasks))
        for answer in answers:
            if isinstance(answer, KafkaframesError):
                raise answer
        return answers

    return run


def split(spark: SparkSession) -> Split:
    """Return how compaction shares out large partitions."""
    from kafkaframes.log.rewrite.staged_compaction import Split

    return Split(secret=new_secret(), workers=spark.sparkContext.defaultParallelism)


def new_secret() -> tuple[int, int]:
    """Return two random numbers of 64 bits, with their signs: the key of a compaction's digests."""
    return secrets.randbits(64) - 2**63, secrets.randbits(64) - 2**63


def _attempt(function: Callable[[Any], Any], task: Any) -> Any:
    try:
        return function(task)
    except KafkaframesError as error:
        return error


@contextmanager
def session_at(app_name: str, master: str) -> Iterator[SparkSession]:
    """Start Spark at a master for one job, and stop it afterwards.

    Raises:
        MissingExtraError: PySpark or a fit Java is absent.
    """
    from kafkaframes.spark.builder import session

    _compat.require_pyspark(app_name)
    spark = session(app_name, master=master)
    try:
        yield spark
    finally:
        spark.stop()
