"""Explore a range of random schedules, in a test or as a command with several processes."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

# a function that runs the schedule with a seed and returns the events that occurred in it
Explore = Callable[[int], Counter[str]]


def explore_range(explore: Explore, first: int, number: int) -> tuple[Counter[str], list[str]]:
    """Run schedules one after the other. Return the event counts and the failures."""
    counters: Counter[str] = Counter()
    wrong = []
    for seed in range(first, first + number):
        try:
            counters += explore(seed)
        except Exception as error:  # any error of a broken machine
            wrong.append(f"seed {seed}: {type(error).__name__} {error}")
    return counters, wrong


def run_command(documentation: str, explore: Explore, *, schedules: int, range_size: int) -> int:
    """Explore as many schedules as the command line requests, and print the events that occurred.

    Args:
        documentation: docstring of the command's module.
        explore: runs one schedule.
        schedules: default value of ``--schedules``.
        range_size: maximum number of schedules in one task of a process.

    Returns:
        The number of failed schedules.
    """
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=schedules)
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    counters: Counter[str] = Counter()
    wrong: list[str] = []
    size = min(range_size, max(options.schedules // options.processes, 1))
    firsts = range(options.seed, options.seed + options.schedules, size)
    sizes = [min(size, options.seed + options.schedules - first) for first in firsts]
    with ProcessPoolExecutor(options.processes) as pool:
        for part, (counts, lines) in enumerate(pool.map(partial(explore_range, explore), firsts, sizes), 1):
            counters += counts
            wrong += lines
            print("\n".join(lines), end="\n" if lines else "", flush=True)
            if part % 10 == 0:
                print(f"schedules explored: {part * size}, wrong: {len(wrong)}", flush=True)
    print("\n".join(f"{name}: {number}" for name, number in sorted(counters.items())))
    print(f"schedules explored: {options.schedules}, wrong: {len(wrong)}")
    return len(wrong)
