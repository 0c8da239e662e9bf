"""Start a Spark session for one job, and stop it afterwards, also after a signal."""

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
from kafkaframes.spark.runtime import _compat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_Handlers = dict[int, Callable[[int, FrameType | None], Any]]
_JVM_EXIT_TIMEOUT_SECONDS = 20


@contextmanager
def start_job_session(app_name: str, master: str, *, config: dict[str, str] | None = None) -> Iterator[SparkSession]:
    """Start Spark at a master for one job, and stop it afterwards or after Ctrl-C.

    Raises:
        MissingExtraError: PySpark or a supported Java is not installed.
        OptionError: The master's URL is invalid, even if an existing session of this process is used instead.
        KafkaframesError: Spark does not start, or fails for a reason such as a lost executor.
    """
    from kafkaframes.spark.sessions.builder import check_master_url

    _compat.require_pyspark(app_name)
    check_master_url(master)
    try:
        with _restore_handlers_at_end() as handlers:
            spark, received_signals = _create_session(app_name, master, handlers, config)
            with _end_on_signals(spark, handlers):
                try:
                    for number in received_signals:
                        signal.raise_signal(number)
                    yield spark
                finally:
                    spark.stop()
    except Exception as error:
        if isinstance(error, KafkaframesError) or not _compat.is_spark_error(error):
            raise
        raise KafkaframesError(
            _compat.find_package_error(error) or f"Spark at {master}: {_summarize_error(error)}"
        ) from error


@contextmanager
def _restore_handlers_at_end() -> Iterator[_Handlers]:
    """Yield the current handlers of SIGINT and SIGTERM, and restore them at the end."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    old_handlers = {number: signal.getsignal(number) for number in numbers}
    handlers: _Handlers = {number: handler for number, handler in old_handlers.items() if callable(handler)}
    try:
        yield handlers
    finally:
        _restore_handlers(handlers)


def _restore_handlers(handlers: _Handlers) -> None:
    """Set the signal handlers that were active before."""
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _create_session(
    app_name: str, master: str, handlers: _Handlers, config: dict[str, str] | None
) -> tuple[SparkSession, list[int]]:
    """Start Spark; return the signals received meanwhile, because a partly started JVM would outlive this process."""
    from kafkaframes.spark.sessions.builder import session

    received_signals: list[int] = []
    for number in handlers:
        signal.signal(number, lambda number, _: received_signals.append(number))
    with _keep_sigint_handler():
        return session(app_name, master=master, config=config), received_signals


@contextmanager
def _keep_sigint_handler() -> Iterator[None]:
    """Prevent a new SparkContext from replacing the SIGINT handler.

    PySpark's handler asks the JVM to cancel all jobs on a connection with an interrupted request, which prints two
    py4j tracebacks.
    """
    try:
        module: Any = importlib.import_module("pyspark.core.context")
    except ImportError:  # the package of Spark Connect's client has no SparkContext
        yield
        return
    signal_function = module.signal
    module.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda number, handler: None)
    try:
        yield
    finally:
        module.signal = signal_function


@contextmanager
def _end_on_signals(spark: SparkSession, handlers: _Handlers) -> Iterator[None]:
    """Make signals end the JVM before they have other effects.

    If the JVM ended later, a waiting thread would wait for its running tasks.

    PySpark's messages about the ended JVM (py4j's log, the accumulator server, a warning at the stop) are suppressed.
    If spark-submit has started the JVM, it also ends the JVM, and signals keep their previous handlers.
    """
    jvm = _find_own_jvm(spark)
    if jvm is None:
        _restore_handlers(handlers)
        yield
        return
    accumulators = getattr(spark.sparkContext, "_accumulatorServer", None)
    received_signals: list[int] = []

    def end_jvm(number: int, frame: FrameType | None) -> None:
        """Handle a signal: terminate the JVM, then call the previous handler."""
        received_signals.append(number)
        logging.disable(logging.CRITICAL)
        if accumulators is not None:
            accumulators.handle_error = _ignore_error
        jvm.terminate()
        handlers[number](number, frame)

    for number in handlers:
        signal.signal(number, end_jvm)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
            yield
    except BaseException:
        if received_signals:
            _end_jvm(jvm)
            logging.disable(logging.NOTSET)
            handlers[received_signals[0]](received_signals[0], None)
        raise


def _find_own_jvm(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """Return the JVM that this process has started; None if spark-submit has started the JVM and will end it."""
    result: subprocess.Popen[bytes] | None = getattr(getattr(spark.sparkContext, "_gateway", None), "proc", None)
    return result


def _ignore_error(request: object, client_address: object) -> None:
    """Ignore an error instead of :meth:`socketserver.BaseServer.handle_error`, which prints a traceback."""


def _end_jvm(jvm: subprocess.Popen[bytes]) -> None:
    """Terminate the JVM, and kill it if it does not end in time."""
    jvm.terminate()
    try:
        jvm.wait(_JVM_EXIT_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()


def _summarize_error(error: Exception) -> str:
    """Return the first line of an error, or of its Java exception."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)[:300]
