"""Measure how long Kafka's own producer waits for this broker and for Kafka, with a paced and with an unlimited load,
and the CPU time of the brokers.

Kafka's ``ProducerPerformance`` with its defaults (acks of all, idempotent, linger of its release), a topic of one
partition for each run; both brokers are up for the whole run and take turns, so that a busy machine is busy for both.
CPU seconds are the broker's own, from /proc.

Run:      python benchmarks/broker_java.py --kafka COMMAND [--libraries DIR] [--rounds 3] [--count FACTOR]
          COMMAND starts the other broker, with {port} and {dir}, in the foreground until SIGTERM; DIR has Kafka's jars
Saves:    benchmarks/results/broker_java.md: medians, and ours divided by theirs; with the load of the machine
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import NamedTuple

from broker_peers import read_cpu_seconds, start_broker

RESULTS_FILE = Path(__file__).parent / "results" / "broker_java.md"
LIBRARIES = Path.home() / ".cache" / "real-kafka" / "4.3.1" / "lib"
OURS, THEIRS = "kafkaframes", "Kafka"
_RATE_LINE = re.compile(r"([\d.]+) MB/sec\), .* (\d+) ms 50th, \d+ ms 95th, (\d+) ms 99th")


class ProducerLoad(NamedTuple):
    """A producer's load: number, size and rate (-1 for unlimited) of the records, and producer settings."""

    name: str
    count: int
    size: int
    rate: int
    settings: tuple[str, ...] = ()


LOADS = (
    ProducerLoad("500 x 100 B a second", 10_000, 100, 500),
    ProducerLoad("500 x 100 B a second, linger.ms=0", 10_000, 100, 500, ("linger.ms=0",)),
    ProducerLoad("1,000,000 x 100 B", 1_000_000, 100, -1),
    ProducerLoad("200,000 x 1 KiB", 200_000, 1024, -1),
)


class Measurement(NamedTuple):
    """A load's result: MiB per second, milliseconds until acknowledgement, CPU seconds of the broker."""

    rate: float
    p50: float
    p99: float
    cpu: float


def measure_load(address: str, pid: int, topic: str, load: ProducerLoad, libraries: Path) -> Measurement:
    """Run one load; its topic is created by the first write."""
    arguments = {"--topic": topic, "--num-records": load.count, "--record-size": load.size, "--throughput": load.rate}
    words = [str(word) for pair in arguments.items() for word in pair]
    settings = ["--producer-props", f"bootstrap.servers={address}", *load.settings]
    command = [
        "java",
        "-Xmx512m",
        "-cp",
        f"{libraries}/*",
        "org.apache.kafka.tools.ProducerPerformance",
        *words,
        *settings,
    ]
    before = read_cpu_seconds(pid)
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    match = _RATE_LINE.search(process.stdout.strip().splitlines()[-1])
    if match is None:
        raise RuntimeError(process.stdout + process.stderr)
    return Measurement(*map(float, match.groups()), read_cpu_seconds(pid) - before)


def format_row(name: str, cells: tuple[str, ...]) -> str:
    """Return a table row."""
    return f"| {name} | {' | '.join(cells)} |"


def format_rows(measured_by_side: dict[str, list[Measurement]]) -> list[str]:
    """Return the rows of a load: the median of each broker, and ours divided by Kafka's."""
    shapes = ("{:.2f} MB/s", "{:.0f} ms", "{:.0f} ms", "{:.2f} s")
    medians = {
        name: Measurement(*map(statistics.median, zip(*ones, strict=True))) for name, ones in measured_by_side.items()
    }
    rows = []
    for name, one in medians.items():
        rows.append(format_row(name, tuple(shape.format(value) for shape, value in zip(shapes, one, strict=True))))
    ratios = (f"{ours / theirs:.2f}" if theirs else "-" for ours, theirs in zip(*medians.values(), strict=True))
    return [*rows, format_row("ratio", tuple(ratios))]


def main() -> None:
    """Run, print and save the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", metavar="COMMAND")
    parser.add_argument("--libraries", type=Path, default=LIBRARIES, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--count",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="factor of the number of records; trials are not saved",
    )
    options = parser.parse_args()
    if options.kafka is None or not options.libraries.is_dir():
        print("set the command that starts Kafka (--kafka) and its jars (--libraries)")
        return
    commands = {OURS: f"{sys.executable} -m kafkaframes broker --port {{port}} --data-dir {{dir}}/data"}
    commands[THEIRS] = options.kafka
    lines = [
        "# Java's producer with both brokers",
        "",
        f"{date.today()}, {os.cpu_count()} cores shared (load {os.getloadavg()[0]:.1f} at the start), Java's",
        f"ProducerPerformance with its defaults; median of {options.rounds} rounds in turn, one before them not",
        "counted. Milliseconds until a record is acknowledged; CPU seconds are the broker's.",
    ]
    with start_broker(commands[OURS]) as ours, start_broker(commands[THEIRS]) as theirs:
        for number, load in enumerate(LOADS):
            smaller = load._replace(count=max(1, int(load.count * options.count)))
            measured_by_side: dict[str, list[Measurement]] = {OURS: [], THEIRS: []}
            for turn in range(-1, options.rounds):
                for name, (address, pid, _) in ((OURS, ours), (THEIRS, theirs)):
                    one = measure_load(address, pid, f"load-{number}-{turn + 1}", smaller, options.libraries)
                    if turn >= 0:
                        measured_by_side[name].append(one)
                    print(load.name, name, one, f"load {os.getloadavg()[0]:.1f}", flush=True)
            lines += [
                "",
                f"## {load.name}",
                "",
                "| | in | p50 | p99 | CPU |",
                "|---|---|---|---|---|",
                *format_rows(measured_by_side),
            ]
    lines += ["", f"Load of the machine at the end: {os.getloadavg()[0]:.1f}."]
    print("\n".join(lines))
    if options.count == 1:
        RESULTS_FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
