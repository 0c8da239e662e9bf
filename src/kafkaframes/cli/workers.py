"""Distribute work to processes, and return the results in order, with a progress bar."""

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
from kafkaframes.cli.text import is_quiet, make_console, print_text
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.records.limits import current_budget, limit_budget

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from pyspark.sql import SparkSession

    from kafkaframes.capture.coverage import Coverage
    from kafkaframes.jobs.analyze.traffic import TrafficTask
    from kafkaframes.jobs.job import Runner


_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")
MAX_SINGLE_PROCESS_BYTES = 256 << 20  # a single process does this amount of work before other processes have started
# Options for a JVM that compiles quickly rather than well. Spark's start and a conversion of examples/logs took 22 CPU
# seconds of Java, and 41 without them (2 cores under other load, one run of each, 2026-11-22).
_QUICK_JAVA_OPTIONS: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def run_in_order(
    function: Callable[[_Task], _Answer],
    tasks: Sequence[_Task],
    *,
    size_of: Callable[[_Task], int],
    workers: int | None = None,
    label: str = "reading",
) -> Iterator[_Answer]:
    """Yield ``function(task)`` for each task, in order. By default there is one process per core.

    Args:
        function: function that can be imported by its name. Tasks and results are pickled.
        tasks: arguments of the function.
        size_of: function that returns the size of a task in bytes, for the progress bar on a terminal's standard error.
        workers: number of processes; by default the number of cores, or one if there is little work.

    Raises:
        KafkaframesError: a process was killed.
    """
    with keep_workers(size_of=size_of, workers=workers, max_workers=len(tasks), label=label) as run:
        yield from run(function, tasks)


@contextmanager
def keep_workers(
    *, size_of: Callable[[Any], int], workers: int | None = None, max_workers: int | None = None, label: str = "reading"
) -> Iterator[Runner]:
    """Yield a runner that calls ``run_in_order`` several times with the same processes, because a start takes a second.

    ``max_workers`` is the largest number of concurrent tasks, and so of processes.
    """
    with ExitStack() as stack:
        pools: list[Executor] = []

        def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
            sizes = [size_of(task) for task in tasks]
            count = workers or (os.cpu_count() or 1 if pools or sum(sizes) >= MAX_SINGLE_PROCESS_BYTES else 1)
            answers: Iterator[Any] = map(function, tasks)
            if count > 1 and len(tasks) > 1:
                if not pools:
                    pools.append(stack.enter_context(_open_pool(min(count, max_workers or count))))
                answers = _submit_in_turn(pools[0], function, tasks, max(1, len(tasks) // (count * 64)))
            return _show_progress(answers, sizes, sum(sizes), label)

        yield run


@contextmanager
def open_runner(
    master: str | None, jobs: int | None, *, label: str, small: bool = False, size_bytes: int | None = None
) -> Iterator[Runner]:
    """Yield a runner of a job's tasks: local processes, or Spark.

    Args:
        master: Spark master; None for local processes.
        jobs: number of local processes; None for one per core.
        label: name of the work for the progress bar.
        small: whether the job may have many small tasks. Adjacent tasks then form one Spark task.
        size_bytes: amount of work; None if it is unknown. For a small job, the JVM is started with less optimization.
    """
    if master is None:
        with keep_workers(size_of=_get_task_size, workers=jobs, label=label) as run:
            yield run
        return
    if jobs is not None:
        raise OptionError("--workers cannot be combined with --master, because Spark chooses the number of workers")
    from kafkaframes.spark.runtime import jobs as spark_jobs

    config = _QUICK_JAVA_OPTIONS if size_bytes is not None and size_bytes < MAX_SINGLE_PROCESS_BYTES else None
    with open_spark(master, label, config=config) as spark:
        yield spark_jobs.create_runner(spark, size_of=_get_task_size if small else None)


@contextmanager
def open_spark(master: str, label: str, *, config: dict[str, str] | None = None) -> Iterator[SparkSession]:
    """Start Spark for a command, and stop it afterwards. A terminal shows the number of finished tasks."""
    from kafkaframes.spark.runtime.task_progress import watch_tasks
    from kafkaframes.spark.sessions.job_session import start_job_session

    with (
        _show_progress_bar("starting Spark", None, in_bytes=False) as show,
        start_job_session(f"kafkaframes {label}", master, config=config) as spark,
    ):
        show(description=label)
        with watch_tasks(spark, lambda finished_tasks, total: show(completed=finished_tasks, total=total)):
            yield spark
        show(description="stopping Spark")


def _get_task_size(task: Any) -> int:
    """Return how many bytes a task reads: its own size, or the size of its segment or partition."""
    size = getattr(task, "size_bytes", None)
    return int((getattr(task, "segment", None) or task.partition).size_bytes if size is None else size)


def _open_pool(count: int) -> Executor:
    """Return a pool of worker processes, which are spawned and not forked."""

    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_begin_worker)


def _submit_in_turn(
    pool: Executor, function: Callable[[_Task], _Answer], tasks: Sequence[_Task], size: int
) -> Iterator[_Answer]:
    """Submit tasks, ``size`` at a time, and yield their results in order.

    After a failure no process is left, because its files would interfere with the clean-up. (``Executor.map`` cancels
    waiting tasks, after which the pool of a killed process prints an error from a thread of its own.)
    """
    with _delay_interrupts():  # new processes start with blocked signals, and unblock signals after setting handlers
        memory = current_budget()
        futures = [
            pool.submit(_run_all, function, tasks[start : start + size], memory) for start in range(0, len(tasks), size)
        ]
    return _collect_answers(futures[::-1])


def _run_all(function: Callable[[_Task], _Answer], tasks: Sequence[_Task], budget_bytes: int) -> list[_Answer]:
    """Run the function on several tasks within the memory budget, and return its results."""
    with limit_budget(budget_bytes):
        return [function(task) for task in tasks]


def _collect_answers(last_to_first: list[Future[list[_Answer]]]) -> Iterator[_Answer]:
    """Yield the results of all groups of tasks, in order. A failure ends all worker processes."""

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
            reason = "a worker process was killed, probably because memory was exhausted; use fewer --workers"
            raise KafkaframesError(reason) from error
        raise


@contextmanager
def _delay_interrupts() -> Iterator[None]:
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


def _begin_worker() -> None:
    """Let this process end silently at Ctrl-C, and if its parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = parent_process()

    def exit_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=exit_with_parent, name="kafkaframes parent watch", daemon=True).start()


def _show_progress(answers: Iterator[_Answer], sizes: Sequence[int], total: int, label: str) -> Iterator[_Answer]:
    """Yield the answers, with a progress bar if the tasks are large."""
    if total < MAX_SINGLE_PROCESS_BYTES // 4:
        yield from answers
        return
    with _show_progress_bar(label, total, in_bytes=True) as show:
        for size, answer in zip(sizes, answers, strict=True):
            show(advance=size)
            yield answer


@contextmanager
def _show_progress_bar(label: str, total: int | None, *, in_bytes: bool) -> Iterator[Callable[..., None]]:
    """Draw a progress bar on standard error if that is a terminal and the command is not quiet. Yield its update."""
    if is_quiet() or not sys.stderr.isatty():
        yield lambda **_: None
        return
    from rich import progress as rich

    bytes_at_speed = (rich.DownloadColumn(), rich.TransferSpeedColumn(), rich.TimeRemainingColumn())
    numbers = bytes_at_speed if in_bytes else (rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), *numbers)
    with rich.Progress(*columns, console=make_console(stderr=True), transient=True) as progress:
        yield partial(progress.update, progress.add_task(label, total=total))


_MIN_TASK_BYTES: Final = 32 << 20  # smallest amount of work for a task, in bytes

spark_option = click.option(
    "--spark", "on_spark", is_flag=True, help="Run on Spark, with a task for each share of the connections."
)


def split_traffic_tasks(paths: tuple[str, ...], ports: str, jobs: int | None) -> tuple[list[TrafficTask], int]:
    """Return at most ``jobs`` tasks, each for a share of the files' connections, and the size of a share in bytes.

    Without ``ports``, brokers are recognized by the content of their connections.
    """
    from kafkaframes.capture.streams import parse_ports
    from kafkaframes.jobs.analyze.traffic import TrafficTask

    files, listening = tuple(find_files(paths)), parse_ports(ports)
    size_bytes = sum(os.path.getsize(path) for path in files)
    shares = max(min(jobs or os.cpu_count() or 1, -(-size_bytes // _MIN_TASK_BYTES)), 1)
    return [TrafficTask(files, share, shares, listening) for share in range(shares)], size_bytes // shares


EXIT_UNREAD_INPUT: Final = 1  # exit status if a part of a capture or request log could not be read


def exit_if_unread(coverage: Coverage) -> None:
    """Print the unread parts of captures and request logs. If there are any, exit with the status for them."""
    from kafkaframes.capture.coverage import summarize_entries

    if coverage.unread:
        print_text(f"kafkaframes: not read: {summarize_entries(coverage.unread)}", err=True)
        sys.exit(EXIT_UNREAD_INPUT)


def run_traffic_tasks(
    function: Callable[[_Task], _Answer], tasks: list[_Task], share_bytes: int, *, on_spark: bool, jobs: int | None
) -> Iterable[_Answer]:
    """Return the results of ``function`` for the tasks of ``split_traffic_tasks``.

    Args:
        function: function that can be imported by its name, because processes and Spark workers call it.
        tasks: tasks of ``split_traffic_tasks``, or derived ones.
        on_spark: whether to use Spark workers instead of processes.
        jobs: largest number of concurrent tasks; by default the number of cores.
    """
    if not on_spark:
        return run_in_order(function, tasks, size_of=lambda _: share_bytes, workers=jobs, label="measuring")
    with open_runner(f"local[{jobs or os.cpu_count() or 1}]", None, label="analyze") as run:
        return list(run(function, tasks))
