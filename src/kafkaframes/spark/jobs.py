"""Have a plain function run on a list of values by Spark's workers: for jobs whose bytes need not pass through the JVM.

The values and answers are small (a segment's path, what was counted); what is large is read and written by the workers.
Executors need this package and its dependencies, and see the same paths as the driver.
"""

from __future__ import annotations

import logging
import secrets
import signal
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from kafkaframes.errors import KafkaframesError
from kafkaframes.records.limits import budget, current_budget
from kafkaframes.spark import _compat
from kafkaframes.spark.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkaframes.rewrite.staged_compaction import Split

_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")
_Handlers = dict[int, Callable[[int, FrameType | None], Any]]
BYTES_OF_A_TASK = 64 << 20
_PATIENCE_SECONDS = 20
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
    try:
        given = spark.sparkContext.parallelize(list(tasks), _slices(spark, len(tasks), total_bytes))
        memory = current_budget()
        return iter(given.mapPartitions(lambda some: _each(function, some, memory)).collect())
    except Exception as error:
        # Py4JJavaError, which is not one of PySpark's own exceptions, carries what a worker raised
        if (reason := _compat.reason_of(error)) is None or not _is_sparks(error):
            raise
        raise KafkaframesError(reason) from None


def _slices(spark: SparkSession, count: int, total_bytes: int | None) -> int:
    """Return among how many of Spark's tasks our tasks are shared out."""
    if total_bytes is None:
        return min(count, TASKS_AT_MOST)
    cores: int = spark.sparkContext.defaultParallelism
    wanted = max(4 * cores, total_bytes // BYTES_OF_A_TASK)
    return min(count, wanted, TASKS_AT_MOST)


def _each(function: Callable[[_Task], _Answer], tasks: Iterable[_Task], budget_bytes: int) -> Iterator[_Answer]:
    for task in tasks:
        with budget(budget_bytes):
            answer = function(task)
        yield answer
    settle()


def _is_sparks(error: Exception) -> bool:
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException) or type(error).__module__.startswith("py4j")


def runner(spark: SparkSession) -> Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]:
    """Return what the rewrites of ``rewrite`` take as ``run``: an error of ours keeps its class and its place.

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
    from kafkaframes.rewrite.staged_compaction import Split

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
def session_at(app_name: str, master: str, *, config: dict[str, str] | None = None) -> Iterator[SparkSession]:
    """Start Spark at a master for one job, and stop it afterwards; Ctrl-C stops it, too.

    Raises:
        MissingExtraError: PySpark or a fit Java is absent.
        KafkaframesError: Spark does not start there, or fails in its own way (an executor that was lost, ...).
    """
    _compat.require_pyspark(app_name)
    try:
        with _handlers_of_signals() as handlers:
            spark = _session(app_name, master, handlers, config)
            with _ended_by_signals(spark, handlers):
                try:
                    yield spark
                finally:
                    spark.stop()
    except Exception as error:
        if isinstance(error, KafkaframesError) or not _is_sparks(error):
            raise
        raise KafkaframesError(_compat.reason_of(error) or f"Spark at {master}: {_first_line(error)}") from error


@contextmanager
def _handlers_of_signals() -> Iterator[_Handlers]:
    """Give what Python does at SIGINT and SIGTERM, where it does something, and put it back at the end."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    known = {number: signal.getsignal(number) for number in numbers}
    handlers: _Handlers = {number: handler for number, handler in known.items() if callable(handler)}
    try:
        yield handlers
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _session(app_name: str, master: str, handlers: _Handlers, config: dict[str, str] | None) -> SparkSession:
    """Start Spark; a signal waits, for a JVM that is half started would outlive this process."""
    from kafkaframes.spark.builder import session

    came: list[int] = []
    for number in handlers:
        signal.signal(number, lambda number, _: came.append(number))
    spark = session(app_name, master=master, config=config)
    if came:
        if (jvm := _jvm_of(spark)) is not None:
            _end(jvm)
        handlers[came[0]](came[0], None)
    return spark


@contextmanager
def _ended_by_signals(spark: SparkSession, handlers: _Handlers) -> Iterator[None]:
    """Let a signal end the JVM first: a thread that waits for its answer would wait until its tasks are done.

    PySpark's own handler asks the JVM to cancel, on the connection that another question was cut off on. What PySpark
    says when its JVM is gone (py4j's log, the server of accumulators, a warning at the stop) is what was asked for.
    """
    jvm = _jvm_of(spark)
    if jvm is None:
        yield
        return
    accumulators = getattr(spark.sparkContext, "_accumulatorServer", None)
    came: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        logging.disable(logging.CRITICAL)
        if accumulators is not None:
            accumulators.handle_error = _say_nothing
        jvm.terminate()
        handlers[number](number, frame)

    for number in handlers:
        signal.signal(number, end)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
            yield
    except BaseException:
        if came:
            _end(jvm)
            logging.disable(logging.NOTSET)
            handlers[came[0]](came[0], None)
        raise


def _jvm_of(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """Return the JVM that this process has started; none where spark-submit has, which ends it."""
    found: subprocess.Popen[bytes] | None = getattr(getattr(spark.sparkContext, "_gateway", None), "proc", None)
    return found


def _say_nothing(request: object, client_address: object) -> None:
    """Take the place of :meth:`socketserver.BaseServer.handle_error`, which prints a traceback."""


def _end(jvm: subprocess.Popen[bytes]) -> None:
    jvm.terminate()
    try:
        jvm.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)[:300]
