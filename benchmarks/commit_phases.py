"""Which stages of a synchronous commit take its time, next to a commit of confluent-kafka in the same run?

A commit passes from the caller's thread to the client's event loop and back. The stages are measured by wrapping the
methods at their borders, so that each stage includes a few microseconds of measurement.

Run:    python benchmarks/commit_phases.py [--calls 1500] [--save]
Saves:  benchmarks/results/commit_phases.md
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import client_calls
from kafkaframes.client import Admin, NewTopic, Producer
from kafkaframes.client.consumer import AsyncConsumer
from kafkaframes.client.network import Connection, _ConnectionProtocol

RESULTS_FILE = Path(__file__).resolve().parent / "results" / "commit_phases.md"
STAGE_TEXTS = {
    ("call", "commit"): "from the caller's thread to the event loop",
    ("commit", "post"): "offsets, coordinator, request object",
    ("post", "posted"): "encoding and `send` of the socket",
    ("posted", "arrived"): "broker and network",
    ("arrived", "decoded"): "`recv` and decoding",
    ("decoded", "committed"): "checking the response, metrics",
    ("committed", "returned"): "from the event loop to the caller's thread",
}
marks: list[tuple[str, float]] = []


def mark_stage(name: str) -> None:
    """Store the time at which a stage ends."""
    marks.append((name, time.perf_counter()))


def wrap_method(cls: type, name: str, before: str, after: str) -> None:
    """Mark the start and the end of a method."""
    method: Callable[..., Any] = getattr(cls, name)

    def call(*arguments: Any, **options: Any) -> Any:
        mark_stage(before)
        result = method(*arguments, **options)
        mark_stage(after)
        return result

    setattr(cls, name, call)


def wrap_commit() -> None:
    """Mark the start and the end of the coroutine of a commit."""
    method = AsyncConsumer.commit

    async def commit(*arguments: Any) -> None:
        mark_stage("commit")
        await method(*arguments)
        mark_stage("committed")

    AsyncConsumer.commit = commit  # type: ignore[method-assign]


def measure_commits(servers: str, calls: int) -> tuple[dict[tuple[str, str], list[float]], list[float], list[float]]:
    """Return the microseconds of each stage, of the commits, and of the peer's commits."""
    client, peer = (client_calls.open_client(name, servers) for name in ("ours", "confluent-kafka"))
    stages: dict[tuple[str, str], list[float]] = defaultdict(list)
    totals, peer_totals = [], []
    for _ in range(calls):
        marks.clear()
        mark_stage("call")
        client.commit()
        mark_stage("returned")
        borders = list(pairwise(marks))
        if [(start[0], end[0]) for start, end in borders] == list(STAGE_TEXTS):  # no other request in the meantime
            for start, end in borders:
                stages[start[0], end[0]].append((end[1] - start[1]) * 1e6)
            totals.append((marks[-1][1] - marks[0][1]) * 1e6)
        peer_totals.append(client_calls.time_call(peer.commit, None) * 1000)
    client.close()
    peer.close()
    return stages, totals, peer_totals


def main() -> None:
    """Start a broker, measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=1_500)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    wrap_commit()
    wrap_method(Connection, "_send_request", "post", "posted")
    wrap_method(_ConnectionProtocol, "buffer_updated", "arrived", "decoded")
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as broker:
        assert broker.stderr is not None
        try:
            servers = broker.stderr.readline().split()[-1]
            with Admin(servers) as admin:
                admin.create_topics([NewTopic(name=client_calls.TOPIC, num_partitions=1)])
            with Producer(servers) as producer:
                for number in range(client_calls.RECORDS):
                    producer.send(client_calls.TOPIC, b"v" * 100, timestamp_ms=client_calls.FIRST_MS + number)
            stages, totals, peer_totals = measure_commits(servers, options.calls)
        finally:
            broker.terminate()
    rows = [(STAGE_TEXTS[stage], times) for stage, times in stages.items()]
    rows += [("whole commit", totals), ("whole commit of confluent-kafka", peer_totals)]
    lines = [
        "# Stages of a commit",
        "",
        f"`python benchmarks/commit_phases.py --calls {options.calls}`, {date.today()}, {os.cpu_count()} cores shared "
        f"with other work (load {os.getloadavg()[0]:.1f}), Python {platform.python_version()}.",
        f"Microseconds of {len(totals)} commits; the two clients take turns.",
        "",
        "| stage | median | smallest |",
        "|---|---|---|",
        *(f"| {name} | {statistics.median(times):.0f} | {min(times):.0f} |" for name, times in rows),
    ]
    print("\n".join(lines))
    if options.save:
        RESULTS_FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
