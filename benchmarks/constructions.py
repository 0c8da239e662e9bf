"""Measure the cost of three constructions that a review called clever: a context variable, restarted handlers,
generators.

* The memory budget of ``records/limits.py`` is in a context variable. Measured: the functions on the path from a
  command's limit to the code that reads it, which would all need an argument instead; and the time of a look-up.
* A handler that needs bytes of a served store is cancelled and repeated (``broker/state/store_reads.py``). Measured:
  the CPU time of an answer that needs several reads, with attempts and without.
* Work that serves other clients in between is a generator, and a caller that cannot wait runs all of its steps at once
  (``finish_steps``). Measured: the time of that, and of the same work as a plain function.

Run:      python benchmarks/constructions.py [--save]
Saves:    benchmarks/results/constructions.md
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from checkouts import time_call
from trips import write_log_directory

RESULTS = Path(__file__).parent / "results" / "constructions.md"
READS = (0, 1, 4, 16)
READ_BYTES = 4096
Row = tuple[str, str]


def functions_on_the_way(call: Callable[[], object]) -> int:
    """Return the number of the package's functions from a call to its look-ups of the budget, those included."""
    import kafkaframes

    root = os.path.dirname(kafkaframes.__file__) + os.sep
    functions: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or frame.f_code.co_name != "current_budget":
            return
        caller = frame.f_back
        while caller is not None:
            if caller.f_code.co_filename.startswith(root):
                functions.add((caller.f_code.co_filename, caller.f_code.co_qualname))
            caller = caller.f_back

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(functions)


def context_variable(folder: Path) -> Iterator[Row]:
    """Count the look-ups of the budget, and the functions that would have to pass it on instead."""
    import kafkaframes
    from kafkaframes.records.limits import current_budget, limit_budget

    directory = write_log_directory(folder, "budget", count=2000, codec="lz4")
    jobs: dict[str, Callable[[], object]] = {
        "verify_log(deep=True)": lambda: kafkaframes.verify_log(directory, deep=True),
        "convert_log": lambda: kafkaframes.convert_log(directory, folder / "converted", record_format=1),
    }
    for name, job in jobs.items():
        with limit_budget(1 << 24):
            count = functions_on_the_way(job)
        yield f"budget: functions from `{name}` to a look-up", str(count)
    yield "budget: a look-up", f"{time_call(current_budget, count=10_000) * 1000:.0f} ns"


class Store:
    """A store with one file in memory, whose reads take no time."""

    def __init__(self) -> None:
        self._data = bytes(READ_BYTES * max(READS))

    @contextmanager
    def open(self, path: str) -> Iterator[Callable[[int, int], bytes]]:
        """Open the file."""
        yield lambda position, length: self._data[position : position + length]


class Owner:
    """The part of a broker's state that attempts use."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.counters: Counter[str] = Counter()


async def cpu_us(call: Callable[[], Any], turns: int = 30) -> float:
    """Return the minimum CPU time of a response, including its threads, in microseconds."""
    import time

    best_us = float("inf")
    for _ in range(turns):
        start_s = time.process_time()
        answer = call()
        while hasattr(answer, "is_done") and not answer.is_done:
            await asyncio.sleep(0)
        best_us = min(best_us, (time.process_time() - start_s) * 1e6)
    return best_us


async def restarts() -> list[Row]:
    """Measure answers that need several reads of a store, one after the other."""
    from kafkaframes.broker.state.store_reads import StoreFileSystem, run_when_read

    rows = []
    inner: Any = Store()
    store = StoreFileSystem(inner)
    attempts: Counter[int] = Counter()

    def handler(reads: int) -> object:
        attempts[reads] += 1
        with store.open("segment") as read_at:
            return sum(len(read_at(number * READ_BYTES, READ_BYTES)) for number in range(reads))

    for reads in READS:
        handle: Any = partial(handler, reads)
        restarted_us = await cpu_us(partial(run_when_read, Owner(store), handle))
        direct_us = await cpu_us(partial(run_when_read, Owner(None), handle))
        rows.append((f"restart: an answer with {reads} reads of a store, repeated for each", f"{restarted_us:.0f} us"))
        rows.append(("restart: the same, read at once on the loop's thread", f"{direct_us:.0f} us"))
    store.close()
    return rows


def generators() -> Iterator[Row]:
    """Measure a short answer in steps that run at once."""
    from kafkaframes.broker.state.changes import finish_steps

    def plain() -> int:
        return 1

    def steps() -> Generator[None, None, int]:
        yield from ()
        return 1

    def nested() -> Generator[None, None, int]:
        return (yield from steps())

    yield "generator: a plain function", f"{time_call(plain, count=10_000) * 1000:.0f} ns"
    yield (
        "generator: `finish_steps` of a generator",
        f"{time_call(lambda: finish_steps(steps()), count=10_000) * 1000:.0f} ns",
    )
    yield "generator: of one in another", f"{time_call(lambda: finish_steps(nested()), count=10_000) * 1000:.0f} ns"


def main() -> None:
    """Measure, and print or save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [*context_variable(Path(folder)), *asyncio.run(restarts()), *generators()]
    lines = [
        "# Three constructions",
        "",
        f"{date.today()}, {os.cpu_count()} cores shared with other work (load {os.getloadavg()[0]:.1f}), "
        f"Python {platform.python_version()}. CPU time, the minimum of several turns.",
        "",
        "| what | |",
        "|---|---|",
        *(f"| {name} | {figure} |" for name, figure in rows),
    ]
    print("\n".join(lines))
    if options.save:
        RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
