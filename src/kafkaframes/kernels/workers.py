"""Worker processes that compile kernels, one per core.

A job is a tuple: ``module:function``, then the function's arguments as text. This module is also the program of a
worker: it reads one job per line from its input, and writes one result per line to its output.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kafkaframes.errors import KafkaframesError

Job = tuple[str, ...]
NUMBA_INSTALL_COMMAND: Final = "pip install 'kafkaframes[compile]'"


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_numba() -> bool:
    """Return whether numba, an optional dependency, is installed."""
    return importlib.util.find_spec("numba") is not None


def run_jobs(jobs: Sequence[Job], *, on_done: Callable[[Job], None] = lambda job: None) -> None:
    """Run jobs in worker processes, and call ``on_done`` after each job.

    Raises:
        KafkaframesError: a job failed (the others are finished first), or numba is not installed.
    """
    if not has_numba():
        raise KafkaframesError(f"numba is not installed, and is required to compile kernels: {NUMBA_INSTALL_COMMAND}")
    queue, failures = deque(jobs), []
    count = min(count_cores(), len(jobs))

    def run_jobs_of_process() -> None:
        with _start_worker() as process:
            assert process.stdin is not None
            assert process.stdout is not None
            while queue:
                job = queue.popleft()
                process.stdin.write(json.dumps(job) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
                if answer != "done\n":
                    failures.append(f"{' '.join(job)}: {answer.strip() or 'the process ended'}")
                    break
                on_done(job)
            process.stdin.close()

    with ThreadPoolExecutor(max(count, 1)) as pool:
        for future in [pool.submit(run_jobs_of_process) for _ in range(count)]:
            future.result()
    if failures:
        raise KafkaframesError(f"kernels could not be compiled: {failures[0]}")


def _start_worker() -> subprocess.Popen[str]:
    """Start a worker with this process's search path. The worker exits when its input is closed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "kafkaframes.kernels.workers"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, close_fds=True
    )


def main() -> None:
    """Run jobs until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps other output of a job out of the responses
    for line in sys.stdin:
        target, *args = json.loads(line)
        module, _, function = target.partition(":")
        try:
            getattr(importlib.import_module(module), function)(*args)
            answer = "done"
        except Exception as error:
            answer = f"{type(error).__name__}: {error}".replace("\n", " ")
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    main()
