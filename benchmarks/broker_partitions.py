"""Measure the cost of many partitions in a broker: creation, shutdown, startup after a clean stop and after kill -9,
memory.

The broker runs in a separate process with a data directory. Topics of 20 partitions are made, 300 in a request; another
client asks for Metadata of no topic all the time, and its slowest answer while they are made is in the table. Each row
is measured with empty partitions and with a record in each, to which another is added before the kill. A start is timed
from its beginning until the broker listens, without the imports; CPU seconds are the process's.

Run:      python benchmarks/broker_partitions.py [--counts 100 1000 ...] [--durability log]
Saves:    benchmarks/results/broker_partitions.md
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from kafkaframes import build_records
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request

RESULTS_FILE = Path(__file__).parent / "results" / "broker_partitions.md"
PARTITION_COUNTS = (100, 1_000, 6_000, 10_000, 50_000)
PARTITIONS, TOPICS_OF_A_REQUEST = 20, 300
RESULTS_HEAD = """# Many partitions

{date}, {cores} cores, load {before:.1f} at the beginning and {after:.1f} at the end, {system}, Python {python},
durability `{durability}`. Seconds of the wall, in brackets of the broker's CPU: with more load than cores read the CPU.

* others ms: the slowest Metadata of another client while topics are made, 300 of 20 partitions in a request
* start: after a clean stop; the one after kill -9 follows a second record in each partition
* MB, fds: of the broker after the clean start

"""
BROKER_CODE = """
import json, signal, sys, threading, time
from kafkaframes.broker import Broker
end = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: end.set())
broker = Broker(data_dir=sys.argv[1], durability=sys.argv[2], journal=False)
cpu, wall = time.process_time(), time.perf_counter()
broker.start()
print(json.dumps([broker.port, time.perf_counter() - wall, time.process_time() - cpu]), flush=True)
end.wait()
cpu, wall = time.process_time(), time.perf_counter()
broker.stop()
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]), flush=True)
"""


class BrokerProcess:
    """A broker in a separate process; ``start_costs`` is [wall, CPU] seconds."""

    def __init__(self, directory: str, durability: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", BROKER_CODE, directory, durability], stdout=subprocess.PIPE, text=True
        )
        self.port, *self.start_costs = self._line()

    def _line(self) -> list[Any]:
        assert self.process.stdout is not None
        values: list[Any] = json.loads(self.process.stdout.readline())
        return values

    def stop(self) -> list[float]:
        """Stop the broker with SIGTERM; return [wall, CPU] seconds."""
        self.process.terminate()
        took = self._line()
        self.process.wait()
        return took

    def kill(self) -> None:
        """Kill it with signal 9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def read_memory_bytes(self) -> int:
        """Return its proportional set size."""
        with open(f"/proc/{self.process.pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) << 10

    def count_descriptors(self) -> int:
        """Return the number of its open descriptors."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class BrokerConnection:
    """A connection that sends a request and reads the response."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=900)

    def send_request(self, name: str, version: int, **fields: Any) -> bytes:
        """Return the bytes of the response."""
        raw = encode_request(message(f"{name}Request")(**fields), version)
        self._socket.sendall(struct.pack(">i", len(raw)) + raw)
        (size,) = struct.unpack(">i", self._socket.recv(4, socket.MSG_WAITALL))
        return self._socket.recv(size, socket.MSG_WAITALL)

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def create_topics(port: int, partitions: int) -> tuple[float, float]:
    """Create partitions; return the seconds, and the slowest response to another client in this time."""
    waits, end, client = [0.0], threading.Event(), BrokerConnection(port)

    def watch() -> None:
        """Send requests of another client until the topics are created, and store the times of the responses."""
        other = BrokerConnection(port)
        while not end.wait(0.02):
            began = time.perf_counter()
            other.send_request("Metadata", 9, topics=[])
            waits.append(time.perf_counter() - began)
        other.close()

    thread = threading.Thread(target=watch)
    thread.start()
    began = time.perf_counter()
    names = list_topics(partitions)
    kind = message("CreateTopicsRequest").CreatableTopic
    for first in range(0, len(names), TOPICS_OF_A_REQUEST):
        topics = [
            kind(name=name, num_partitions=PARTITIONS, replication_factor=1)
            for name in names[first : first + TOPICS_OF_A_REQUEST]
        ]
        client.send_request("CreateTopics", 6, topics=topics, timeout_ms=600_000)
    took = time.perf_counter() - began
    end.set()
    thread.join()
    client.close()
    return took, max(waits)


def list_topics(partitions: int) -> list[str]:
    """Return the names of the topics that contain a number of partitions."""
    return [f"topic-{number}" for number in range(partitions // PARTITIONS)]


def fill_partitions(port: int, partitions: int) -> float:
    """Write a record to each partition; return the seconds."""
    client, types = BrokerConnection(port), message("ProduceRequest")
    rows = [
        types.PartitionProduceData(index=number, records=build_records({"value": [b"v" * 100]}))
        for number in range(PARTITIONS)
    ]
    began = time.perf_counter()
    for name in list_topics(partitions):
        topic = types.TopicProduceData(name=name, partition_data=rows)
        client.send_request("Produce", 7, acks=1, timeout_ms=60_000, topic_data=[topic])
    client.close()
    return time.perf_counter() - began


def measure_partitions(partitions: int, durability: str, *, is_filled: bool) -> list[str]:
    """Return the cells of a row."""
    with tempfile.TemporaryDirectory() as directory:
        subject = BrokerProcess(directory, durability)
        create_s, slowest = create_topics(subject.port, partitions)
        fill_text = f"{fill_partitions(subject.port, partitions):.2f}" if is_filled else ""
        stop_costs = subject.stop()
        subject = BrokerProcess(directory, durability)
        clean, memory, descriptors = subject.start_costs, subject.read_memory_bytes(), subject.count_descriptors()
        if is_filled:
            fill_partitions(subject.port, partitions)
        subject.kill()
        subject = BrokerProcess(directory, durability)
        after_kill = subject.start_costs
        again = subject.stop()
    times = [f"{wall:.2f} ({cpu:.2f})" for wall, cpu in (stop_costs, clean, after_kill, again)]
    kind = "a record each" if is_filled else "empty"
    return [
        f"{partitions:,}",
        kind,
        f"{create_s:.2f}",
        f"{slowest * 1000:.0f}",
        fill_text,
        *times,
        f"{memory >> 20}",
        str(descriptors),
    ]


def main() -> None:
    """Measure all, print a table and save it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="*", default=PARTITION_COUNTS)
    parser.add_argument("--durability", choices=("log", "fsync"), default="log")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    head = "partitions | | made s | others ms | filled s | stop | start | start after kill -9 | stop of it | MB | fds"
    lines = [f"| {head} |", "|" + "---|" * (head.count("|") + 1)]
    print(*lines, sep="\n")
    for count in options.counts:
        for is_filled in (False, True):
            lines.append("| " + " | ".join(measure_partitions(count, options.durability, is_filled=is_filled)) + " |")
            print(lines[-1], flush=True)
            save_results(lines, durability=options.durability, before=before)


def save_results(lines: list[str], *, durability: str, before: float) -> None:
    """Write the results so far, because the last rows take long."""
    text = RESULTS_HEAD.format(
        date=time.strftime("%Y-%m-%d %H:%M"),
        cores=os.cpu_count(),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()}",
        durability=durability,
        before=before,
        after=os.getloadavg()[0],
    )
    RESULTS_FILE.write_text(text + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
