"""CPU time of ``from kafkaframes import Producer, Consumer, Admin``, next to that of pyarrow and numpy, which it needs.

Processes alternate: one imports only pyarrow and numpy, the other the clients. Each reports its CPU time, the start of
the interpreter included.

Run:    python benchmarks/import_time.py [--runs 25]
Saves:  nothing: benchmarks/results/import_time.md has what it printed, with machine and date
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

GOAL_S = 0.3
CODES = {
    "interpreter": "pass",
    "pyarrow, numpy": "import pyarrow, numpy",
    "kafkaframes": "from kafkaframes import Producer, Consumer, Admin",
}


def measure(code: str) -> float:
    """Return the CPU seconds of a Python process that runs ``code``. It writes and uses compiled files."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", f"import time\n{code}\nprint(time.process_time())"]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main() -> int:
    """Run the benchmark, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=25)
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in CODES}
    for code in CODES.values():
        measure(code)  # compiles the sources once
    for _ in range(options.runs):
        for name, code in CODES.items():
            times[name].append(measure(code))
    print(f"CPU seconds, median (minimum) of {options.runs} processes; load {os.getloadavg()[0]:.1f}")
    for name, values in times.items():
        print(f"{name:16} {statistics.median(values):.3f} ({min(values):.3f})")
    ratio = statistics.median(
        ours / theirs for ours, theirs in zip(times["kafkaframes"], times["pyarrow, numpy"], strict=True)
    )
    median = statistics.median(times["kafkaframes"])
    print(
        f"kafkaframes / pyarrow and numpy: {ratio:.2f}; goal {GOAL_S} s: {'reached' if median <= GOAL_S else 'MISSED'}"
    )
    return 0 if median <= GOAL_S else 1


if __name__ == "__main__":
    sys.exit(main())
