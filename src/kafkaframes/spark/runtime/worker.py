"""Error handling and garbage collection in the Python processes of Spark. No pyspark.

Users of Spark see an error of this package as its message, without the traceback of a Python worker. In the message,
settings have the names of Spark's options.

Spark adds a prefix to the output of a worker's exception (``[PYTHON_DATA_SOURCE_ERROR] Failed to ...:``). It remains.
A worker omits the traceback if ``SPARK_HIDE_TRACEBACK`` is set in its environment, and then ends
(``handle_worker_exception`` in ``pyspark/util.py``). The variable is set only for errors of this package, because
errors of a user's functions need their traceback.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, wraps
from inspect import isfunction, isgeneratorfunction
from typing import Any, TypeVar

from kafkaframes.errors import KafkaframesError
from kafkaframes.errors.exceptions import rename_settings


@cache
def freeze_imports() -> None:
    """Exclude the imported modules of this worker from later garbage collections.

    Call this function at the end of the first task, or of the first request for a source. PySpark's workers collect
    garbage after each task or request. This took 60 ms each time for the 140,000 objects of numba and other modules,
    and 30 ms for 64,000 objects in planner processes (2026-11-22). ``gc.get_freeze_count`` is not used, because it
    takes 8 ms per task.
    """
    gc.collect()
    gc.freeze()


def freeze_objects() -> None:
    """Exclude all objects of this process from garbage collections, before a stream's planner imports its modules.

    Otherwise the imports cause garbage collections that visit PySpark's objects, which takes 25 of the 140 ms of CPU
        time of each stream (2026-11-27).
    """
    gc.freeze()


_Class = TypeVar("_Class", bound=type)
_HIDE_TRACEBACK_VARIABLE = "SPARK_HIDE_TRACEBACK"
_RUNTIME, _WORKER = "SPARK_PYTHON_RUNTIME", "PYTHON_WORKER"  # environment variable of worker processes, and its value


def hide_tracebacks(cls: _Class) -> _Class:
    """Make all methods of a class for Spark raise errors of this package without a traceback."""
    for name, method in list(vars(cls).items()):
        if isfunction(method):
            setattr(cls, name, _wrap_generator(method) if isgeneratorfunction(method) else _wrap_function(method))
    return cls


def _wrap_function(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method and translates its errors."""

    @wraps(method)
    def call_method(*values: Any, **keywords: Any) -> Any:
        """Call the method with translated errors."""
        with _translate_errors():
            return method(*values, **keywords)

    return call_method


def _wrap_generator(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Return a generator function that runs a method and translates its errors."""

    @wraps(method)
    def iterate_method(*values: Any, **keywords: Any) -> Iterator[Any]:
        """Yield the method's results with translated errors."""
        with _translate_errors():
            yield from method(*values, **keywords)

    return iterate_method


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Use Spark's option names in errors of this package, and hide their tracebacks in workers."""
    try:
        yield
    except KafkaframesError as error:
        rename_to_options(error)
        if os.environ.get(_RUNTIME) == _WORKER:  # the process ends after this error
            os.environ[_HIDE_TRACEBACK_VARIABLE] = "1"
        raise


def rename_to_options(error: KafkaframesError) -> None:
    """Replace names of settings in an error with names of Spark's options."""
    rename_settings(error, {**map_options_by_setting(), **_select_client_settings()})


@cache
def map_options_by_setting() -> Mapping[str, str]:
    """Return the options of ``kafka-log`` and ``kafka-topic``, by setting."""
    from kafkaframes.spark.options import LOG_OPTIONS, TOPIC_OPTIONS

    return {option.setting: option.name for option in (*TOPIC_OPTIONS.values(), *LOG_OPTIONS.values())}


def _select_client_settings() -> Mapping[str, str]:
    """Return the ``kafka.*`` options, by client setting."""
    from kafkaframes.client.settings import ConsumerSettings, ProducerSettings, list_setting_names

    names = {*list_setting_names(ConsumerSettings), *list_setting_names(ProducerSettings)}
    return {name: f"kafka.{name.replace('_', '.')}" for name in names}
