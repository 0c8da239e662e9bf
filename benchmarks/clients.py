"""Measure the CPU time of this client per produced and consumed record, compared with other clients on PyPI.

Every client runs in this process, in turn, against one embedded broker in a separate process. The results are CPU
times of this process: the median of several runs, with the minimum and the maximum. A ratio compares two clients in
the same round. This client converts fetched bytes to Arrow and back, the other clients convert to their own objects.

Run:  python benchmarks/clients.py [--records 400000] [--runs 5] [--core 1] [--peers NAME,NAME] [--servers HOST:PORT]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from kafkaframes.client import Admin, Consumer, NewTopic, Producer

VALUE_SIZES = {"100 B": 100, "1 KiB": 1024}


def make_values(count: int, size: int) -> pa.Array:
    """Return values of 500 different words in random order, which LZ4 compresses to one half, like text."""
    random = np.random.default_rng(1)
    words = [random.integers(97, 123, length, np.uint8).tobytes() + b" " for length in random.integers(2, 11, 500)]
    some = b"".join(words[one] for one in random.integers(0, 500, 1_000_000).tolist())
    data = (some * (count * size // len(some) + 1))[: count * size]
    offsets = pa.array(np.arange(0, (count + 1) * size, size, dtype=np.int32)).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(data)])


def measure_in_turn(works: dict[str, Callable[[], int]], runs: int) -> dict[str, list[tuple[float, float]]]:
    """Return the CPU and wall seconds of every run of each task."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            begin, clock = time.process_time(), time.perf_counter()
            work()
            spent[name].append((time.process_time() - begin, time.perf_counter() - clock))
    return spent


def format_rates(label: str, count: int, spent: dict[str, list[tuple[float, float]]]) -> str:
    """Return a line: records of a CPU second and of a second, and how many times as much CPU the others took."""
    ours = spent.pop("ours")
    line = f"{label:30} {_spread([count / cpu / 1e6 for cpu, _ in ours])} M rec/CPU s"
    line += f", {statistics.median(count / clock / 1e6 for _, clock in ours):.2f} M rec/s"
    for name, theirs in spent.items():
        ratios = [cpu / own for (cpu, _), (own, _) in zip(theirs, ours, strict=True)]
        clocks = statistics.median(clock / own for (_, clock), (_, own) in zip(theirs, ours, strict=True))
        line += f" | {name} {_spread(ratios)}x CPU, {clocks:.1f}x time"
    return line


def _spread(numbers: list[float]) -> str:
    return f"{statistics.median(numbers):.2f} ({min(numbers):.2f}-{max(numbers):.2f})"


def write_with_ours(servers: str, topic: str, data: pa.Array, codec: str) -> int:
    """Write an Arrow table."""
    with Producer(servers, compression_type=codec, batch_size=1_000_000) as producer:
        return sum(producer.send_arrow(pa.table({"value": data}), topic=topic)["count"].to_pylist())


def read_with_ours(servers: str, topic: str, count: int) -> int:
    """Read to Arrow."""
    seen_count = 0
    settings = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 8 << 20}
    with Consumer(servers, **settings) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        while seen_count < count:
            seen_count += consumer.fetch_arrow(5_000, columns=("offset", "timestamp", "key", "value")).num_rows
    return seen_count


def write_with_confluent(servers: str, topic: str, data: pa.Array, codec: str) -> int:
    """Write with librdkafka."""
    from confluent_kafka import Producer as Peer

    settings = {"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 5, "batch.size": 1_000_000}
    peer = Peer({**settings, "queue.buffering.max.messages": 1_000_000})
    for value in data.to_pylist():
        while True:
            try:
                peer.produce(topic, value)
                break
            except BufferError:
                peer.poll(0.01)
    peer.flush()
    return len(data)


def read_with_confluent(servers: str, topic: str, count: int) -> int:
    """Read with librdkafka's consume()."""
    from confluent_kafka import Consumer as Peer

    peer = Peer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "queued.min.messages": 1_000_000,
        }
    )
    peer.subscribe([topic])
    seen_count = 0
    while seen_count < count:
        for message in peer.consume(10_000, 1.0):
            seen_count += message.value() is not None
    peer.close()
    return seen_count


def read_with_aiokafka(servers: str, topic: str, count: int) -> int:
    """Read with aiokafka's getmany()."""
    from aiokafka import AIOKafkaConsumer

    async def read() -> int:
        peer = AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
        await peer.start()
        seen_count = 0
        while seen_count < count:
            for messages in (await peer.getmany(timeout_ms=1_000)).values():
                seen_count += len(messages)
        await peer.stop()
        return seen_count

    return asyncio.run(read())


def read_with_kafka_python(servers: str, topic: str, count: int) -> int:
    """Read with kafka-python's poll()."""
    from kafka import KafkaConsumer

    peer = KafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=10_000)
    seen_count = 0
    while seen_count < count:
        for messages in peer.poll(1_000).values():
            seen_count += len(messages)
    peer.close()
    return seen_count


READERS = {
    "confluent-kafka": read_with_confluent,
    "aiokafka": read_with_aiokafka,
    "kafka-python": read_with_kafka_python,
}


def measure_clients(servers: str, name: str, size: int, count: int, codec: str, *, runs: int, peers: list[str]) -> None:
    """Measure and print one size and codec."""
    data = make_values(count, size)
    ours_topic, peers_topic = f"ours-{size}-{codec}", f"peers-{size}-{codec}"
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=one, num_partitions=1) for one in (ours_topic, peers_topic)])
    writers = {"ours": lambda: write_with_ours(servers, ours_topic, data, codec)}
    writers["confluent-kafka"] = lambda: write_with_confluent(servers, peers_topic, data, codec)
    write_with_ours(servers, ours_topic, data, codec)  # kernels, caches
    print(format_rates(f"{name} {codec} produce from Arrow", count, measure_in_turn(writers, runs)), flush=True)
    readers = {"ours": lambda: read_with_ours(servers, ours_topic, count)}
    for peer in peers:
        readers[peer] = lambda read_all=READERS[peer]: read_all(servers, ours_topic, count)
    read_with_ours(servers, ours_topic, count)
    print(format_rates(f"{name} {codec} consume to Arrow", count, measure_in_turn(readers, runs)), flush=True)


def main() -> None:
    """Start a broker unless one is specified, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=400_000, help="records of 100 bytes; a quarter of 1 KiB")
    parser.add_argument("--servers", help="a cluster; default: an embedded broker in a separate process")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--core", type=int, help="run on this core only; the broker runs on all")
    parser.add_argument("--peers", default=",".join(READERS), help="other clients to measure")
    options = parser.parse_args()
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0"]
    peers = [peer for peer in options.peers.split(",") if peer]
    broker = None if options.servers else subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    print(f"Load of the machine: {os.getloadavg()[0]:.1f}")
    try:
        servers = options.servers
        if broker is not None and broker.stderr is not None:
            servers = broker.stderr.readline().split()[-1]
        if options.core is not None:
            os.sched_setaffinity(0, {options.core})
        for name, size in VALUE_SIZES.items():
            count = options.records if size == 100 else options.records // 4
            for codec in ("none", "lz4"):
                measure_clients(servers, name, size, count, codec, runs=options.runs, peers=peers)
        print(f"Load of the machine: {os.getloadavg()[0]:.1f}")
    finally:
        if broker is not None:
            broker.terminate()
            broker.wait(10)


if __name__ == "__main__":
    main()
