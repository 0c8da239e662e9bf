"""Measure a consumer's short calls while a Fetch waits at the broker, compared with other Python clients.

Each client is a member of a group of its own and has read to the end of the topic, so that the broker holds its Fetch
back. The clients take turns: in each round, each makes every call some times. ``close`` is measured with a new consumer
in each round, after its first poll. Every result is compared with what the topic and the group have.

Run:    python benchmarks/client_calls.py [--rounds 15] [--calls 10] [--servers HOST:PORT] [--save]
Saves:  benchmarks/results/client_calls.md
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition

RESULTS_FILE = Path(__file__).resolve().parent / "results" / "client_calls.md"
TOPIC, RECORDS, FIRST_MS, MIDDLE = "calls", 1_000, 1_700_000_000_000, 500
CALL_NAMES = ("commit", "committed", "end_offsets", "offsets_for_times")
PEER_NAMES = ("confluent-kafka", "kafka-python")


class CallClient:
    """A consumer, with the calls that our client and kafka-python have in common.

    Attributes:
        consumer: the client's consumer.
        partition: partition 0 of the topic, in the client's type.
    """

    consumer: Any
    partition: Any

    def poll(self) -> int:
        """Return the number of records that a poll returns."""
        raise NotImplementedError

    def committed(self) -> int:
        raise NotImplementedError

    def commit(self) -> None:
        self.consumer.commit()

    def end_offsets(self) -> int:
        return self.consumer.end_offsets([self.partition])[self.partition]

    def offsets_for_times(self) -> int:
        return self.consumer.offsets_for_times({self.partition: FIRST_MS + MIDDLE})[self.partition].offset

    def close(self) -> None:
        self.consumer.close()


class OurClient(CallClient):
    """Our consumer."""

    def __init__(self, servers: str) -> None:
        self.partition = TopicPartition(TOPIC, 0)
        self.consumer = Consumer(servers, group_id=uuid.uuid4().hex, auto_offset_reset="earliest")
        self.consumer.subscribe([TOPIC])

    def poll(self) -> int:
        return len(self.consumer.poll(1_000))

    def committed(self) -> int:
        return self.consumer.committed([self.partition])[self.partition].offset


class ConfluentClient(CallClient):
    """confluent-kafka's consumer."""

    def __init__(self, servers: str) -> None:
        from confluent_kafka import Consumer as Peer
        from confluent_kafka import TopicPartition as Partition

        self.partition = Partition(TOPIC, 0)
        self.end, self.time = Partition(TOPIC, 0, RECORDS), Partition(TOPIC, 0, FIRST_MS + MIDDLE)
        options = {"group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.consumer = Peer({"bootstrap.servers": servers, **options})
        self.consumer.subscribe([TOPIC])

    def poll(self) -> int:
        return len(self.consumer.consume(500, 1.0))

    def commit(self) -> None:
        # Without offsets, it commits only those that are not committed yet.
        self.consumer.commit(offsets=[self.end], asynchronous=False)

    def committed(self) -> int:
        return self.consumer.committed([self.partition], timeout=30)[0].offset

    def end_offsets(self) -> int:
        return self.consumer.get_watermark_offsets(self.partition, timeout=30)[1]

    def offsets_for_times(self) -> int:
        return self.consumer.offsets_for_times([self.time], timeout=30)[0].offset


class KafkaPythonClient(CallClient):
    """kafka-python's consumer."""

    def __init__(self, servers: str) -> None:
        from kafka import KafkaConsumer
        from kafka import TopicPartition as Partition

        self.partition = Partition(TOPIC, 0)
        options = {"group_id": uuid.uuid4().hex, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        self.consumer = KafkaConsumer(TOPIC, bootstrap_servers=servers, **options)

    def poll(self) -> int:
        return sum(map(len, self.consumer.poll(1_000).values()))

    def committed(self) -> int:
        return self.consumer.committed(self.partition)


CLIENT_CLASSES: dict[str, Callable[[str], CallClient]] = {
    "ours": OurClient,
    "confluent-kafka": ConfluentClient,
    "kafka-python": KafkaPythonClient,
}
EXPECTED_RESULTS = {"commit": None, "committed": RECORDS, "end_offsets": RECORDS, "offsets_for_times": MIDDLE}


def open_client(name: str, servers: str) -> CallClient:
    """Return a client that has read to the end of the topic."""
    client = CLIENT_CLASSES[name](servers)
    count = 0
    while count < RECORDS:
        count += client.poll()
    client.poll()  # no records follow, so the broker delays the response to the next Fetch
    return client


def time_call(call: Callable[[], object], expected_result: object) -> float:
    """Return the milliseconds of a call."""
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    assert result == expected_result, f"{call} returned {result}, not {expected_result}"
    return seconds * 1000


def time_close(name: str, servers: str) -> float:
    """Return the milliseconds that a consumer takes to close after its first poll."""
    client = CLIENT_CLASSES[name](servers)
    while not client.poll():
        pass
    return time_call(client.close, None)


def measure_calls(servers: str, rounds: int, calls: int) -> dict[str, dict[str, list[float]]]:
    """Return the milliseconds of every call, by client and name of the call."""
    times: dict[str, dict[str, list[float]]] = {
        name: {call: [] for call in (*CALL_NAMES, "close")} for name in CLIENT_CLASSES
    }
    clients = {name: open_client(name, servers) for name in CLIENT_CLASSES}
    for client in clients.values():
        client.commit()
    for _ in range(rounds):
        for name, client in clients.items():
            client.poll()
            for call in CALL_NAMES:
                times[name][call] += [time_call(getattr(client, call), EXPECTED_RESULTS[call]) for _ in range(calls)]
            times[name]["close"].append(time_close(name, servers))
    for client in clients.values():
        client.close()
    return times


def format_table(times: dict[str, dict[str, list[float]]]) -> list[str]:
    """Return the rows of the report: median and ninth decile of each call."""
    lines = ["| call | " + " | ".join(times) + " |", "|---|" + "---|" * len(times)]
    for call in (*CALL_NAMES, "close"):
        cells = []
        for rows in times.values():
            deciles = statistics.quantiles(rows[call], n=10)
            cells.append(f"{statistics.median(rows[call]):.2f} ({deciles[8]:.2f})")
        lines.append(f"| `{call}` | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Start a broker unless one is specified, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--servers", help="a cluster; default: an embedded broker in a separate process")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0"]
    broker = None if options.servers else subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    load = os.getloadavg()[0]
    try:
        servers = options.servers
        if broker is not None and broker.stderr is not None:
            servers = broker.stderr.readline().split()[-1]
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name=TOPIC, num_partitions=1, configs={"retention.ms": "-1"})])
        with Producer(servers) as producer:
            for number in range(RECORDS):
                producer.send(TOPIC, b"v" * 100, timestamp_ms=FIRST_MS + number)
        times = measure_calls(servers, options.rounds, options.calls)
    finally:
        if broker is not None:
            broker.terminate()
            broker.wait(10)
    versions = ", ".join(f"{name} {version(name)}" for name in PEER_NAMES)
    lines = [
        "# Short calls of a consumer",
        "",
        f"`python benchmarks/client_calls.py --rounds {options.rounds} --calls {options.calls}`, {date.today()}, "
        f"{os.cpu_count()} cores shared with other work (load {load:.1f} to {os.getloadavg()[0]:.1f}), "
        f"Python {platform.python_version()}, {versions}.",
        f"Milliseconds of a clock: median (ninth decile) of {options.rounds * options.calls} calls, and of "
        f"{options.rounds} for `close`, which includes the end of the membership. The clients take turns in one run.",
        "",
        *format_table(times),
    ]
    print("\n".join(lines))
    if options.save:
        RESULTS_FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
