"""Start Spark for one job, show how far its tasks are, and stop it, whenever a signal comes in between."""

from __future__ import annotations

import importlib
import logging
import signal
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from kafkaframes.errors import KafkaframesError
from kafkaframes.spark import _compat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_Handlers = dict[int, Callable[[int, FrameType | None], Any]]
_PATIENCE_SECONDS = 20


@contextmanager
def session_at(app_name: str, master: str, *, config: dict[str, str] | None = None) -> Iterator[SparkSession]:
    """Start Spark at a master for one job, and stop it afterwards; Ctrl-C stops it, too.

    Raises:
        MissingExtraError: PySpark or a fit Java is absent.
        OptionError: the master's URL is invalid, even if a session of this process is used instead of it.
        KafkaframesError: Spark does not start there, or fails in its own way (an executor that was lost, ...).
    """
    from kafkaframes.spark.builder import check_master_url

    _compat.require_pyspark(app_name)
    check_master_url(master)
    try:
        with _handlers_of_signals() as handlers:
            spark, came = _session(app_name, master, handlers, config)
            with _ended_by_signals(spark, handlers):
                try:
                    for number in came:
                        signal.raise_signal(number)
                    yield spark
                finally:
                    spark.stop()
    except Exception as error:
        if isinstance(error, KafkaframesError) or not _compat.is_sparks(error):
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
        _put_back(handlers)


def _put_back(handlers: _Handlers) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _session(
    app_name: str, master: str, handlers: _Handlers, config: dict[str, str] | None
) -> tuple[SparkSession, list[int]]:
    """Start Spark, and return the signals that came meanwhile: a JVM half started would outlive this process."""
    from kafkaframes.spark.builder import session

    came: list[int] = []
    for number in handlers:
        signal.signal(number, lambda number, _: came.append(number))
    with _without_pysparks_handler():
        return session(app_name, master=master, config=config), came


@contextmanager
def _without_pysparks_handler() -> Iterator[None]:
    """Keep a SparkContext that starts from putting its own handler of SIGINT in the place of ours.

    It asks the JVM to cancel all jobs on the connection that a question was cut off on: two tracebacks of py4j's.
    """
    try:
        module: Any = importlib.import_module("pyspark.core.context")
    except ImportError:  # Spark Connect's client alone has no contexts
        yield
        return
    kept = module.signal
    module.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda number, handler: None)
    try:
        yield
    finally:
        module.signal = kept


@contextmanager
def _ended_by_signals(spark: SparkSession, handlers: _Handlers) -> Iterator[None]:
    """Let a signal end the JVM first: a thread that waits for its answer would wait until its tasks are done.

    What PySpark says when its JVM is gone (py4j's log, the server of accumulators, a warning at the stop) is what was
    asked for. A JVM that spark-submit has started is ended by spark-submit: signals then do what they did before.
    """
    jvm = _jvm_of(spark)
    if jvm is None:
        _put_back(handlers)
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
    result: subprocess.Popen[bytes] | None = getattr(getattr(spark.sparkContext, "_gateway", None), "proc", None)
    return result


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
