"""Measure how fast this broker and others accept and return records, and their CPU time and memory.

One producer and one consumer (confluent-kafka, acks of all, linger 5 ms), one partition; every record has a number, so
that lost, repeated and reordered records are detected. The brokers take turns, load by load, in one run: compare
figures of one run only. CPU seconds are the broker's own, from /proc, with all its threads. ``floor`` is no broker: a
bare loop that receives as many bytes in requests of the same size, computes their CRC-32C, writes them to a file and
sends 60 bytes back; less than that no log can cost here.

Run:      python benchmarks/broker_peers.py [--peer NAME=COMMAND ...] [--rounds 1]
          COMMAND has {port} and {dir}; it runs in the foreground until SIGTERM. librdkafka's mock is always measured.
Saves:    benchmarks/results/broker_peers.md; a dash where a broker did not get so far: all records, in order, each once
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shlex
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import NamedTuple

import google_crc32c
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

RESULTS_FILE = Path(__file__).parent / "results" / "broker_peers.md"
OURS, MOCK, FLOOR = "kafkaframes", "librdkafka's mock", "floor"
TOPIC = "load"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
TIMEOUT_SECONDS = 90.0
MOCK_CODE = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "127.0.0.1:1", "log_level": 0})
print(*[f"{one.host}:{one.port}" for one in producer.list_topics(timeout=5).brokers.values()], flush=True)
time.sleep(3600)
"""


class ProducerLoad(NamedTuple):
    """A producer's load: number and size of the records, codec, and largest batch size in bytes."""

    count: int
    size: int
    codec: str
    batch_bytes: int

    @property
    def name(self) -> str:
        """The load as text."""
        return f"{self.count:,} x {self.size} B, {self.codec}, batches of {self.batch_bytes:,} B"


LOADS = (ProducerLoad(1_000_000, 100, "none", 1_000_000), ProducerLoad(1_000_000, 100, "lz4", 1_000_000))
LOADS += (ProducerLoad(200_000, 1024, "none", 16_384),)


class Measurement(NamedTuple):
    """A load's result: MB of values per second, and CPU seconds of the broker; None if the broker failed before."""

    started: float | None = None
    in_rate: float | None = None
    in_cpu: float | None = None
    out_rate: float | None = None
    out_cpu: float | None = None
    peak_mb: float | None = None


def read_process_fields(pid: int | str) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` from the state on; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def list_processes(pid: int) -> list[int]:
    """Return a process and its descendants, because some brokers are started by a script."""
    parents = {
        int(path.name): read_process_fields(path.name)[1:2] for path in Path("/proc").iterdir() if path.name.isdigit()
    }
    pids = [pid]
    for one in pids:
        pids += [child for child, parent in parents.items() if parent == [str(one)]]
    return pids


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a broker's processes."""
    return sum(sum(map(int, read_process_fields(one)[11:13])) for one in list_processes(pid)) / TICKS_PER_SECOND


def read_peak_megabytes(pid: int) -> float:
    """Return the peak resident memory."""
    texts = [Path(f"/proc/{one}/status").read_text() for one in list_processes(pid)]
    return sum(int(text.split("VmHWM:")[1].split()[0]) for text in texts) / 1024


def find_free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def time_first_metadata(port: int, start_s: float) -> float:
    """Return the seconds until the first response to Metadata 1."""
    request = struct.pack(">ihhihi", 14, 3, 1, 1, 0, 0)
    while time.perf_counter() - start_s < TIMEOUT_SECONDS:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as client:
                client.sendall(request)
                client.settimeout(5)
                if len(client.recv(8)) >= 4:
                    return time.perf_counter() - start_s
        except OSError:
            time.sleep(0.002)
    raise TimeoutError(f"no broker responds on port {port}")


@contextmanager
def start_broker(command: str) -> Iterator[tuple[str, int, float]]:
    """Start a broker; yield its address, its process and the seconds until its first response."""
    port, directory = find_free_port(), tempfile.mkdtemp()
    words = shlex.split(command.format(port=port, dir=directory))
    start_s = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield f"127.0.0.1:{port}", process.pid, time_first_metadata(port, start_s)
    finally:
        _end_process(process)
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def start_mock() -> Iterator[tuple[str, int, float]]:
    """Start librdkafka's mock broker in a separate process."""
    start_s = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", MOCK_CODE], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        address = process.stdout.readline().strip()
        yield address, process.pid, time_first_metadata(int(address.rsplit(":", 1)[1]), start_s)
    finally:
        _end_process(process)


def _end_process(process: subprocess.Popen) -> None:
    """End a broker, including the processes that its start script leaves."""
    os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def client_settings(address: str) -> dict[str, object]:
    """Return the settings of every client."""
    return {"bootstrap.servers": address, "broker.address.family": "v4", "log_level": 0}


def make_values(size: int) -> list[bytes]:
    """Return values, half of which are compressible, after a number."""
    choose, body = random.Random(7), size - 8
    return [choose.randbytes(body // 2) + b"x" * (body - body // 2) for _ in range(1024)]


def produce_load(address: str, load: ProducerLoad) -> float:
    """Send all records; return the seconds until all are acknowledged."""
    producer = Producer(
        {
            **client_settings(address),
            "acks": "all",
            "linger.ms": 5,
            "compression.type": load.codec,
            "batch.size": load.batch_bytes,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "max.in.flight.requests.per.connection": 5,
            "message.timeout.ms": int(TIMEOUT_SECONDS * 1000),
        }
    )
    acknowledged_counts = [0, 0]

    def note(error, _message) -> None:
        acknowledged_counts[error is not None] += 1

    values, pack, start_s = make_values(load.size), struct.Struct(">q").pack, time.perf_counter()
    for number in range(load.count):
        while True:
            try:
                producer.produce(TOPIC, pack(number) + values[number & 1023], partition=0, on_delivery=note)
                break
            except BufferError:
                producer.poll(0.05)
        if not number & 4095:
            producer.poll(0)
    producer.flush(TIMEOUT_SECONDS)
    if acknowledged_counts != [load.count, 0]:
        raise RuntimeError(f"{acknowledged_counts[0]} of {load.count} records acknowledged")
    return time.perf_counter() - start_s


def consume_load(address: str, load: ProducerLoad) -> float:
    """Read all records, each once and in order; return the seconds."""
    consumer = Consumer(
        {
            **client_settings(address),
            "group.id": "load",
            "enable.auto.commit": False,
            "check.crcs": True,
            "fetch.message.max.bytes": 10 << 20,
            "fetch.max.bytes": 50 << 20,
            "queued.max.messages.kbytes": 1 << 19,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
        }
    )
    unpack, next_number, start_s = struct.Struct(">q").unpack_from, 0, time.perf_counter()
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:
        while next_number < load.count:
            messages = consumer.consume(min(20_000, load.count - next_number), 20)
            if not messages:
                raise RuntimeError(f"{next_number} of {load.count} records read, then none for 20 seconds")
            for one in messages:
                if one.error() is not None or unpack(one.value())[0] != next_number:
                    raise RuntimeError(f"record {next_number}: {one.error() or 'another one came'}")
                next_number += 1
        return time.perf_counter() - start_s
    finally:
        consumer.close()


def measure_load(running_broker, load: ProducerLoad, *, reads: bool) -> Measurement:
    """Run one load against one broker."""
    with running_broker as (address, pid, seconds):
        measurement = Measurement(started=seconds)
        if reads:  # the mock creates the topic at the first request for it
            admin = AdminClient(client_settings(address))
            admin.create_topics([NewTopic(TOPIC, 1, 1)], operation_timeout=10)[TOPIC].result(15)
        megabytes, before = load.count * load.size / 1e6, read_cpu_seconds(pid)
        try:
            rate = megabytes / produce_load(address, load)
            middle = read_cpu_seconds(pid)
            measurement = measurement._replace(in_rate=rate, in_cpu=middle - before, peak_mb=read_peak_megabytes(pid))
            if reads:
                rate = megabytes / consume_load(address, load)
                used_cpu_s = read_cpu_seconds(pid) - middle
                measurement = measurement._replace(out_rate=rate, out_cpu=used_cpu_s, peak_mb=read_peak_megabytes(pid))
        except (RuntimeError, KafkaException) as error:
            print(f"    {error}", flush=True)
        return measurement


def measure_floor(load: ProducerLoad) -> Measurement:
    """Receive, check, write and respond without a broker, in a separate process."""
    size = min(load.batch_bytes, load.count * load.size)
    count = load.count * load.size // size
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            _send_bytes(server.getsockname()[1], size, count)
            os._exit(0)
        client, _ = server.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer, answer = bytearray(size), bytes(60)
        view, start_s, before = memoryview(buffer), time.perf_counter(), time.process_time()
        for _ in range(count):
            have = 0
            while have < size:
                have += client.recv_into(view[have:])
            google_crc32c.value(bytes(buffer))
            os.write(file.fileno(), view)
            client.sendall(answer)
        used_cpu_s, took = time.process_time() - before, time.perf_counter() - start_s
        client.close()
        os.waitpid(child, 0)
    return Measurement(in_rate=count * size / took / 1e6, in_cpu=used_cpu_s)


def _send_bytes(port: int, size: int, count: int) -> None:
    """Send requests with five in flight."""
    request = os.urandom(size)
    with socket.create_connection(("127.0.0.1", port)) as client:
        for number in range(count):
            client.sendall(request)
            if number >= 4:
                client.recv(60, socket.MSG_WAITALL)
        while client.recv(60):
            pass


def median_measurement(measurements: list[Measurement]) -> Measurement:
    """Return the median of each figure."""
    columns = ([one for one in column if one is not None] for column in zip(*measurements, strict=True))
    return Measurement(*(statistics.median(column) if column else None for column in columns))


def format_row(name: str, one: Measurement) -> str:
    """Return a table row."""
    shapes = ("{:.2f} s", "{:.0f} MB/s", "{:.2f} s", "{:.0f} MB/s", "{:.2f} s", "{:.0f} MB")
    cells = ["-" if value is None else shape.format(value) for shape, value in zip(shapes, one, strict=True)]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Run, print and save the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    commands = {OURS: f"{sys.executable} -m kafkaframes broker --port {{port}} --data-dir {{dir}}/data"}
    commands |= dict(one.split("=", 1) for one in options.peer)
    lines = [
        "# Brokers under load",
        "",
        f"{date.today()}, {os.cpu_count()} cores shared (load {os.getloadavg()[0]:.1f} at the start), Python",
        f"{platform.python_version()}; median of {options.rounds} rounds in turn. CPU seconds are the broker's,",
        "memory is its peak; kafkaframes with `log` durability.",
    ]
    for load in LOADS:
        measured_by_name: dict[str, list[Measurement]] = {name: [] for name in (*commands, MOCK, FLOOR)}
        for _ in range(options.rounds):
            for name, command in commands.items():
                measured_by_name[name].append(measure_load(start_broker(command), load, reads=True))
                print(format_row(f"{load.name}: {name}", measured_by_name[name][-1]), flush=True)
            measured_by_name[MOCK].append(measure_load(start_mock(), load, reads=False))  # it retains only 5 MiB
            measured_by_name[FLOOR].append(measure_floor(load))
        lines += [
            "",
            f"## {load.name}",
            "",
            "| | first response | produce | CPU, produce | consume | CPU, consume | memory |",
        ]
        lines += [
            "|---|---|---|---|---|---|---|",
            *(format_row(name, median_measurement(ones)) for name, ones in measured_by_name.items()),
        ]
    lines += ["", f"Load of the machine at the end: {os.getloadavg()[0]:.1f}."]
    print("\n".join(lines))
    RESULTS_FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
