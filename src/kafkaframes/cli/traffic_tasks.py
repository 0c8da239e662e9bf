"""How commands measure traffic: captures and request logs are divided, and measured by processes or on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

import click

from kafkaframes.capture.files import find_files
from kafkaframes.cli import workers
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.jobs.analyze.traffic import Task

_WORTH_A_TASK: Final = 32 << 20  # in bytes
_Work = TypeVar("_Work")
_Answer = TypeVar("_Answer")

spark_option = click.option(
    "--spark", "on_spark", is_flag=True, help="Run on Spark, a task for each share of the connections."
)


def traffic_tasks(paths: tuple[str, ...], ports: str, jobs: int | None) -> tuple[list[Task], int]:
    """Return a task for each share of the connections in some files, and the bytes of a share.

    Args:
        paths: files and folders.
        ports: on which brokers listen, as the option has it; empty: found by what is said there.
        jobs: the largest number of shares; by default the number of cores.

    Raises:
        OptionError: a path cannot be read, or ``ports`` are no numbers.
    """
    from kafkaframes.capture.streams import ports_of
    from kafkaframes.jobs.analyze.traffic import Task

    files = tuple(find_files(paths))
    try:
        listening = ports_of(ports) if ports else ()
    except ValueError:
        raise OptionError(f"--ports {ports}: must be numbers and ranges") from None
    size_bytes = sum(os.path.getsize(path) for path in files)
    shares = max(min(jobs or os.cpu_count() or 1, -(-size_bytes // _WORTH_A_TASK)), 1)
    return [Task(files, share, shares, listening) for share in range(shares)], size_bytes // shares


def measured(
    function: Callable[[_Work], _Answer], tasks: list[_Work], share_bytes: int, *, on_spark: bool, jobs: int | None
) -> Iterable[_Answer]:
    """Return what ``function`` measures in each task.

    Args:
        function: importable by its name, since processes and Spark's workers call it.
        tasks, share_bytes: of ``traffic_tasks``, or made of them.
        on_spark: in Spark's workers instead of processes.
        jobs: how many run at once at most; by default the number of cores.
    """
    if not on_spark:
        return workers.in_order(function, tasks, size_of=lambda _: share_bytes, workers=jobs, label="measuring")
    from kafkaframes.spark.job_session import session_at
    from kafkaframes.spark.jobs import run_on_spark

    with session_at("analyze", f"local[{jobs or os.cpu_count() or 1}]") as spark:
        return list(run_on_spark(spark, function, tasks))
