"""Run jobs that compile in processes of their own, as many as there are cores. A job is (module:function, text...).

This module is what each process runs, too: a job a line on its input, an answer a line on its output.
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
HOW_TO_GET_NUMBA: Final = "pip install 'kafkaframes[compile]'"


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_numba() -> bool:
    """Tell whether anything can be compiled: numba is an extra."""
    return importlib.util.find_spec("numba") is not None


def run(jobs: Sequence[Job], *, done: Callable[[Job], None] = lambda job: None) -> None:
    """Run jobs, each process taking the next one when it is through with one; ``done`` is called with each.

    Raises:
        KafkaframesError: with the last line of a job that failed, when the others are through; or without numba.
    """
    if not has_numba():
        raise KafkaframesError(f"kernels are compiled by numba, which is not installed: {HOW_TO_GET_NUMBA}")
    waiting, failures = deque(jobs), []
    count = min(cores(), len(jobs))

    def serve() -> None:
        with _start() as process:
            assert process.stdin is not None
            assert process.stdout is not None
            while waiting:
                job = waiting.popleft()
                process.stdin.write(json.dumps(job) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
                if answer != "done\n":
                    failures.append(f"{' '.join(job)}: {answer.strip() or 'the process ended'}")
                    break
                done(job)
            process.stdin.close()

    with ThreadPoolExecutor(max(count, 1)) as pool:
        for future in [pool.submit(serve) for _ in range(count)]:
            future.result()
    if failures:
        raise KafkaframesError(f"kernels could not be compiled: {failures[0]}")


def _start() -> subprocess.Popen[str]:
    """Start a worker with this process's search path; it ends when its input does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "kafkaframes.kernels.workers"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, close_fds=True
    )


def main() -> None:
    """Do one job after the other until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
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
