"""Share work between processes, in order, with a progress bar for people who wait."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkaframes.capture.files import find_files
from kafkaframes.cli.options import ports_in
from kafkaframes.cli.text import console, is_quiet, say
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.records.limits import budget, current_budget

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from pyspark.sql import SparkSession

    from kafkaframes.capture.coverage import Coverage
    from kafkaframes.jobs.analyze.traffic import Task
    from kafkaframes.jobs.job import Runner


_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")
SMALL_BYTES = 256 << 20  # less is done before other processes have started


def in_order(
    function: Callable[[_Task], _Answer],
    tasks: Sequence[_Task],
    *,
    size_of: Callable[[_Task], int],
    workers: int | None = None,
    label: str = "reading",
) -> Iterator[_Answer]:
    """Yield ``function(task)`` for each task in order, from as many processes as there are cores.

    Args:
        function: importable by its name, as are the tasks' parts: they travel to other processes.
        size_of: a task's weight in bytes, for the bar, which a terminal shows on standard error.
        workers: how many processes; by default the cores, and one for little work.

    Raises:
        KafkaframesError: a process was killed.
    """
    with staying(size_of=size_of, workers=workers, most=len(tasks), label=label) as run:
        yield from run(function, tasks)


@contextmanager
def staying(
    *, size_of: Callable[[Any], int], workers: int | None = None, most: int | None = None, label: str = "reading"
) -> Iterator[Runner]:
    """Give what does ``in_order`` step after step with the same processes: to start some takes a second.

    ``most`` is the largest number of tasks at once; more processes than that are not needed.
    """
    with ExitStack() as stack:
        pools: list[Executor] = []

        def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
            sizes = [size_of(task) for task in tasks]
            count = workers or (os.cpu_count() or 1 if pools or sum(sizes) >= SMALL_BYTES else 1)
            answers: Iterator[Any] = map(function, tasks)
            if count > 1 and len(tasks) > 1:
                if not pools:
                    pools.append(stack.enter_context(_processes(min(count, most or count))))
                answers = _in_turn(pools[0], function, tasks, max(1, len(tasks) // (count * 64)))
            return _with_bar(answers, sizes, sum(sizes), label)

        yield run


@contextmanager
def runner(master: str | None, jobs: int | None, *, label: str, small: bool = False) -> Iterator[Runner]:
    """Give what carries a job's tasks out: processes of this machine, or Spark.

    Tasks may be many and small: neighbours then go into one task of Spark's, if ``small``.
    """
    if master is None:
        with staying(size_of=_size, workers=jobs, label=label) as run:
            yield run
        return
    if jobs is not None:
        raise OptionError("--workers are processes of this machine; with --master, Spark decides")
    from kafkaframes.spark import jobs as spark_jobs

    with spark_at(master, label) as spark:
        yield spark_jobs.runner(spark, size_of=_size if small else None)


@contextmanager
def spark_at(master: str, label: str, *, config: dict[str, str] | None = None) -> Iterator[SparkSession]:
    """Start Spark for a command, and stop it afterwards; a terminal shows that, and how many tasks are done."""
    from kafkaframes.spark.job_session import session_at, watch_tasks

    with (
        _bar("starting Spark", None, in_bytes=False) as show,
        session_at(f"kafkaframes {label}", master, config=config) as spark,
    ):
        show(description=label)
        with watch_tasks(spark, lambda done, total: show(completed=done, total=total)):
            yield spark
        show(description="stopping Spark")


def _size(task: Any) -> int:
    size = getattr(task, "size_bytes", None)
    return int((getattr(task, "segment", None) or task.partition).size_bytes if size is None else size)


def _processes(count: int) -> Executor:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_begin)


def _in_turn(
    pool: Executor, function: Callable[[_Task], _Answer], tasks: Sequence[_Task], size: int
) -> Iterator[_Answer]:
    """Hand tasks out, ``size`` at a time, and yield their answers.

    At a failure no process is left: what they write would be in the way of who cleans up. (``Executor.map`` calls off
    what waits then, at which the pool of a killed process fails aloud, in a thread of its own.)
    """
    with _interrupts_waiting():  # a process is born with them waiting, and takes them when it can
        memory = current_budget()
        requested = [pool.submit(_all_of, function, tasks[at : at + size], memory) for at in range(0, len(tasks), size)]
    return _answers_of(requested[::-1])


def _all_of(function: Callable[[_Task], _Answer], tasks: Sequence[_Task], budget_bytes: int) -> list[_Answer]:
    with budget(budget_bytes):
        return [function(task) for task in tasks]


def _answers_of(last_to_first: list[Future[list[_Answer]]]) -> Iterator[_Answer]:
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children

    try:
        while last_to_first:
            yield from last_to_first.pop().result()
    except GeneratorExit:
        for entry in last_to_first:
            entry.cancel()
        raise
    except BaseException as error:
        for process in active_children():
            process.terminate()
            process.join()
        if isinstance(error, BrokenProcessPool):
            reason = "a worker process was killed, perhaps for lack of memory: fewer --workers need less"
            raise KafkaframesError(reason) from error
        raise


@contextmanager
def _interrupts_waiting() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """End this process, without words, at Ctrl-C, and when the one that started it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, name="kafkaframes parent watch", daemon=True).start()


def _with_bar(answers: Iterator[_Answer], sizes: Sequence[int], total: int, label: str) -> Iterator[_Answer]:
    if total < SMALL_BYTES // 4:
        yield from answers
        return
    with _bar(label, total, in_bytes=True) as show:
        for size, answer in zip(sizes, answers, strict=True):
            show(advance=size)
            yield answer


@contextmanager
def _bar(label: str, total: int | None, *, in_bytes: bool) -> Iterator[Callable[..., None]]:
    """Draw a bar on standard error if that is a terminal, and the command not quiet; give what moves it."""
    if is_quiet() or not sys.stderr.isatty():
        yield lambda **_: None
        return
    from rich import progress as rich

    bytes_at_speed = (rich.DownloadColumn(), rich.TransferSpeedColumn(), rich.TimeRemainingColumn())
    numbers = bytes_at_speed if in_bytes else (rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), *numbers)
    with rich.Progress(*columns, console=console(stderr=True), transient=True) as progress:
        yield partial(progress.update, progress.add_task(label, total=total))


_WORTH_A_TASK: Final = 32 << 20  # in bytes

spark_option = click.option(
    "--spark", "on_spark", is_flag=True, help="Run on Spark, a task for each share of the connections."
)


def traffic_tasks(paths: tuple[str, ...], ports: str, jobs: int | None) -> tuple[list[Task], int]:
    """Return a task for each share of the connections in some files, at most ``jobs``, and the bytes of a share.

    Without ``ports``, brokers are found by what is said there.
    """
    from kafkaframes.jobs.analyze.traffic import Task

    files, listening = tuple(find_files(paths)), ports_in(ports)
    size_bytes = sum(os.path.getsize(path) for path in files)
    shares = max(min(jobs or os.cpu_count() or 1, -(-size_bytes // _WORTH_A_TASK)), 1)
    return [Task(files, share, shares, listening) for share in range(shares)], size_bytes // shares


EXIT_UNREAD: Final = 1


def exit_if_unread(coverage: Coverage) -> None:
    """Print what was not read of captures and request logs, and end with the status for it, if there is anything."""
    from kafkaframes.capture.coverage import summary

    if coverage.unread:
        say(f"kafkaframes: not read: {summary(coverage.unread)}", err=True)
        sys.exit(EXIT_UNREAD)


def measured(
    function: Callable[[_Task], _Answer], tasks: list[_Task], share_bytes: int, *, on_spark: bool, jobs: int | None
) -> Iterable[_Answer]:
    """Return what ``function`` measures in each task of ``traffic_tasks``, or made of them.

    Args:
        function: importable by its name, since processes and Spark's workers call it.
        on_spark: in Spark's workers instead of processes.
        jobs: how many run at once at most; by default the number of cores.
    """
    if not on_spark:
        return in_order(function, tasks, size_of=lambda _: share_bytes, workers=jobs, label="measuring")
    with runner(f"local[{jobs or os.cpu_count() or 1}]", None, label="analyze") as run:
        return list(run(function, tasks))
