"""Measure the cost of a request in the broker: on the fast path, in the dispatcher, and over sockets.

In process: an ordinary Produce and Fetch of one batch of 100 bytes, answered by the fast path and by the dispatcher, in
turn; a Fetch of 1 MiB to the parts that are sent; reading, appending and making a partition. Over sockets: raw frames,
8 connections with 16 in flight, a broker as a command with a data directory. All figures are CPU time of the broker,
the best of several rounds, so that other work on the machine matters little.

Run:      python benchmarks/broker.py [seconds]
Saves:    benchmarks/results/broker.md
"""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from kafkaframes.broker.dispatch.dispatch import Dispatcher
from kafkaframes.broker.dispatch.fast_path import FastPath
from kafkaframes.broker.lifecycle.assembly import open_broker
from kafkaframes.broker.requests.request import Session
from kafkaframes.protocol.framing import FrameBuffer
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request
from kafkaframes.records.build import build_records
from kafkaframes.storage.files.names import TopicPartition

RESULTS_FILE = Path(__file__).parent / "results" / "broker.md"
CONNECTIONS, IN_FLIGHT = 8, 16
NOW_MS = 1_700_000_000_000
COLUMNS = {"key": [b"key"], "value": [b"v" * 100], "timestamp": [NOW_MS]}
BATCH = build_records(COLUMNS)
LARGE_BATCH = build_records({"value": [bytes(1000)] * 1000, "timestamp": [NOW_MS] * 1000}, batch_bytes=1 << 22)
TURNS, REQUESTS = 15, 300


def build_produce_frame(version: int = 9, records: bytes = BATCH, topic: str = "bench") -> bytes:
    """Return a Produce request with one batch, without its size prefix."""
    types = message("ProduceRequest")
    row = types.PartitionProduceData(index=0, records=records)
    data = types.TopicProduceData(name=topic, partition_data=[row])
    return encode_request(types(acks=-1, timeout_ms=1000, topic_data=[data]), version, client_id="bench")


def build_fetch_frame(version: int = 11, size: int = len(BATCH), topic: str = "bench", offset: int = 0) -> bytes:
    """Return a Fetch request for one batch, without its size prefix."""
    types = message("FetchRequest")
    row = types.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
    topics = [types.FetchTopic(topic=topic, partitions=[row])]
    return encode_request(types(max_bytes=1 << 22, session_epoch=-1, topics=topics), version, client_id="bench")


def add_size(frame: bytes) -> bytes:
    """Return a frame with its size prefix."""
    return len(frame).to_bytes(4, "big") + frame


def time_calls(*calls: Callable[[], object], count: int = REQUESTS) -> list[float]:
    """Return each call's microseconds of CPU, the best of several turns; the calls take turns."""
    best_us = [float("inf")] * len(calls)
    for _ in range(TURNS):
        for place, call in enumerate(calls):
            start_s = time.process_time()
            for _ in range(count):
                call()
            best_us[place] = min(best_us[place], (time.process_time() - start_s) / count * 1e6)
    return best_us


def measure_in_process(directory: str) -> list[str]:
    """Return the table's rows of the measurements without sockets."""
    state = open_broker(data_dir=directory)
    state.create_topic("bench", 1)
    state.create_topic("large", 1)
    dispatcher, session = Dispatcher(state), Session()
    short, files = FastPath(dispatcher), Session(sends_files=True)

    def answer(frame: bytes) -> object:
        request = dispatcher.decode_request(frame, session)
        return dispatcher.encode(request, dispatcher.answer(request))

    answer(build_produce_frame(records=LARGE_BATCH, topic="large"))
    rows = []
    for name, frame in (("Produce", build_produce_frame()), ("Fetch", build_fetch_frame(offset=100))):
        for _ in range(200):
            answer(build_produce_frame())
        assert short(memoryview(frame), session) is not None
        quick, plain = time_calls(lambda: short(memoryview(frame), session), lambda: answer(frame))  # noqa: B023
        rows.append(f"| {name} of one small batch: fast path, dispatcher | {quick:.0f} us, {plain:.0f} us |")
    frame = build_fetch_frame(size=1 << 20, topic="large")
    parts, plain = time_calls(lambda: short(memoryview(frame), files), lambda: answer(frame), count=30)
    rows.append(f"| Fetch of 1 MB, up to the data to send: a file range, bytes | {parts:.0f} us, {plain:.0f} us |")
    request = dispatcher.decode_request(frame, session)
    body = dispatcher.answer(request)
    (encoding_us,) = time_calls(lambda: dispatcher.encode(request, body), count=100)
    rows.append(f"| encoding and framing alone, records in memory | {encoding_us:.0f} us |")
    log = state.topics["bench"].partitions[0].log
    (read,) = time_calls(lambda: log.read(150, max_bytes=150))
    (append,) = time_calls(lambda: log.append_as_leader(BATCH, leader_epoch=0, now_ms=NOW_MS))
    rows.append(f"| `PartitionLog.read` of one small batch | {read:.0f} us |")
    rows.append(f"| `append_as_leader` of one small batch | {append:.0f} us |")
    rows.append(f"| the same, idempotent | {time_idempotent_append(log):.0f} us |")
    state.logs.abandon()
    memory = open_broker()
    names = iter(range(10**6))

    def create() -> None:
        key = TopicPartition(f"t{next(names)}", 0)
        memory.logs.create(key, topic_id="AAAAAAAAAAAAAAAAAAAAAQ", now_ms=NOW_MS)

    rows.append(f"| creating a partition, in memory | {time_calls(create, count=20)[0]:.0f} us |")
    return rows


def time_idempotent_append(log: object) -> float:
    """Return the microseconds of an append by a producer with an id; the batches are built before."""
    best_us = float("inf")
    for turn in range(TURNS):
        fields = {"producer_id": turn, "producer_epoch": 0}
        ready = [build_records(COLUMNS, base_sequence=number, **fields) for number in range(REQUESTS)]
        start_s = time.process_time()
        for records in ready:
            log.append_as_leader(records, leader_epoch=0, now_ms=NOW_MS)
        best_us = min(best_us, (time.process_time() - start_s) / REQUESTS * 1e6)
    return best_us


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def send_requests(port: int, frame: bytes, seconds: float) -> int:
    """Send requests on all connections until the time is over; return the number of responses."""
    deadline = time.perf_counter() + seconds

    async def one() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        frames, done_count, sent_count = FrameBuffer(), 0, 0
        writer.write(frame * IN_FLIGHT)
        sent_count += IN_FLIGHT
        while done_count < sent_count:
            frames.receive_data(await reader.read(1 << 16))
            came = 0
            while frames.next_view() is not None:
                came += 1
            done_count += came
            if time.perf_counter() < deadline and came:
                writer.write(frame * came)
                sent_count += came
        writer.close()
        return done_count

    return sum(await asyncio.gather(*(one() for _ in range(CONNECTIONS))))


def measure_over_sockets(directory: str, seconds: float) -> list[str]:
    """Return the table's rows of the measurements with a broker process."""
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", "--data-dir", directory]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = f"{directory}.bytecode"  # an installed package has its bytecode
    warm = [
        sys.executable,
        "-c",
        "import kafkaframes.cli.main; from kafkaframes import Broker; Broker().start().stop()",
    ]
    subprocess.run(warm, env=environment, check=True)
    rows, start = [], time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as broker:
        port = int(broker.stderr.readline().rsplit(":", 1)[1])
        used_cpu_s = read_cpu_seconds(broker.pid)
        took = time.perf_counter() - start
        rows.append(f"| the command, until the broker listens | {took:.2f} s, {used_cpu_s:.2f} s of CPU |")
        types = message("MetadataRequest")
        metadata_request = encode_request(types(topics=[types.MetadataRequestTopic(name="bench")]), 9)
        asyncio.run(send_requests(port, add_size(metadata_request), 0.1))
        for name, frame in (("Produce", add_size(build_produce_frame())), ("Fetch", add_size(build_fetch_frame()))):
            asyncio.run(send_requests(port, frame, 0.5))
            before, start_s = read_cpu_seconds(broker.pid), time.perf_counter()
            count = asyncio.run(send_requests(port, frame, seconds))
            used_cpu_s, wall = read_cpu_seconds(broker.pid) - before, time.perf_counter() - start_s
            rows.append(
                f"| {name} over sockets | {count / used_cpu_s:,.0f} per CPU second ({count / wall:,.0f} per second) |"
            )
        broker.terminate()
    return rows


def main() -> None:
    """Run, print and save the table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        rows = [*measure_in_process(first), *measure_over_sockets(second, seconds)]
    load_average = os.getloadavg()[0]
    lines = [
        "# Broker CPU time per request",
        "",
        f"{date.today()}, {os.cpu_count()} cores shared (load {load_average:.1f}), Python {platform.python_version()};",
        "`log` durability, best of several turns, two ways in turn where there are two.",
        "",
        "| | CPU time |",
        "|---|---|",
        *rows,
    ]
    print("\n".join(lines))
    RESULTS_FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
