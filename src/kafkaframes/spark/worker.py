"""What our code does for the Python processes of Spark's that it runs in. No pyspark.

Errors of ours reach Spark's user as their sentence, without the traceback of a Python worker; settings have the names
of Spark's options in them.

Spark puts what a worker's exception prints behind a prefix of its own (``[PYTHON_DATA_SOURCE_ERROR] Failed to ...:``),
which stays. A worker leaves the traceback out where ``SPARK_HIDE_TRACEBACK`` is set in its environment, and ends after
it (``handle_worker_exception`` in ``pyspark/util.py``). So it is set there when one of our errors is on its way out,
and never for errors of a user's own functions, which are worth nothing without their traceback.
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
def settle() -> None:
    """Have the modules that this worker has imported left out of its garbage collections from now on.

    At the end of its first task of ours, or of its first question about a source. PySpark's workers collect after each
    one, and looked through the 140,000 objects of numba and others for 60 ms each time, those that plan through 64,000
    for 30 ms (2026-11-22). To ask ``gc.get_freeze_count`` whether it is done would count them, for 8 ms a task.
    """
    gc.collect()
    gc.freeze()


_Class = TypeVar("_Class", bound=type)
_HIDE = "SPARK_HIDE_TRACEBACK"
_RUNTIME, _WORKER = "SPARK_PYTHON_RUNTIME", "PYTHON_WORKER"  # how Spark marks the processes of its workers


def tells_plainly(cls: _Class) -> _Class:
    """Have every method that a class of Spark's interface defines raise our errors as their sentence alone."""
    for name, method in list(vars(cls).items()):
        if isfunction(method):
            setattr(cls, name, _generator(method) if isgeneratorfunction(method) else _function(method))
    return cls


def _function(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def translated(*values: Any, **named: Any) -> Any:
        with _plain():
            return method(*values, **named)

    return translated


def _generator(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @wraps(method)
    def translated(*values: Any, **named: Any) -> Iterator[Any]:
        with _plain():
            yield from method(*values, **named)

    return translated


@contextmanager
def _plain() -> Iterator[None]:
    try:
        yield
    except KafkaframesError as error:
        rename_to_options(error)
        if os.environ.get(_RUNTIME) == _WORKER:  # it ends with this error
            os.environ[_HIDE] = "1"
        raise


def rename_to_options(error: KafkaframesError) -> None:
    """Have an error name Spark's options instead of settings."""
    rename_settings(error, {**setting_names(), **_client_settings()})


@cache
def setting_names() -> Mapping[str, str]:
    """Return the options of ``kafka-log`` and ``kafka-topic`` by the settings that they fill."""
    from kafkaframes.spark.log_options import OPTIONS
    from kafkaframes.spark.topic_options import OPTIONS as TOPIC_OPTIONS

    return {option.field: option.name for option in (*TOPIC_OPTIONS.values(), *OPTIONS.values())}


def _client_settings() -> Mapping[str, str]:
    """Return the ``kafka.*`` options by the settings of our client that they fill."""
    from kafkaframes.client.settings import ConsumerSettings, ProducerSettings
    from kafkaframes.client.settings import setting_names as names_of

    names = {*names_of(ConsumerSettings), *names_of(ProducerSettings)}
    return {name: f"kafka.{name.replace('_', '.')}" for name in names}
