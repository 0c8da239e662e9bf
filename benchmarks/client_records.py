"""Measure the CPU time of a record that is sent or read individually, compared with other clients on PyPI.

`client.py` measures tables; here every record is a call of `send`, or a turn of a loop that looks at its value.
Every client runs in this process, in turn, against one embedded broker in a process of its own; what counts is the CPU
time of this process, all threads, and of several runs the median with the minimum and the maximum. 100 bytes, acks=1.

Run:  python benchmarks/client_records.py [--records 200000] [--runs 5] [--only produce|consume] [--servers HOST:PORT]
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

from kafkaframes.client import Admin, AsyncConsumer, AsyncProducer, Consumer, NewTopic, Producer, TopicPartition

VALUE = b"v" * 100


def produce_with_ours(servers: str, topic: str, count: int) -> None:
    """Queue records, wait at the end, and check each result."""
    with Producer(servers, acks=1) as producer:
        futures = [producer.send(topic, VALUE) for _ in range(count)]
        producer.flush()
    assert all(future.exception() is None for future in futures)


def produce_with_callbacks(servers: str, topic: str, count: int) -> None:
    """Queue records with a function that is called for each."""
    seen_count = 0

    def on_delivery(error: Exception | None, record: object) -> None:
        nonlocal seen_count
        seen_count += error is None

    with Producer(servers, acks=1) as producer:
        for _ in range(count):
            producer.send(topic, VALUE, on_delivery=on_delivery)
    assert seen_count == count


def produce_with_asyncio(servers: str, topic: str, count: int) -> None:
    """Queue records on an event loop."""

    async def run() -> None:
        async with AsyncProducer(servers, acks=1) as producer:
            futures = [await producer.send(topic, VALUE) for _ in range(count)]
            await producer.flush()
        assert all(future.exception() is None for future in futures)

    asyncio.run(run())


def produce_with_kafka_python(servers: str, topic: str, count: int) -> None:
    """Queue records with kafka-python."""
    from kafka import KafkaProducer

    peer = KafkaProducer(bootstrap_servers=servers, acks=1, enable_idempotence=False, linger_ms=5)
    futures = [peer.send(topic, VALUE) for _ in range(count)]
    peer.flush()
    peer.close()
    assert all(future.succeeded() for future in futures)


def produce_with_confluent(servers: str, topic: str, count: int) -> None:
    """Queue records with librdkafka, and a function that is called for each."""
    from confluent_kafka import Producer as Peer

    seen_count = 0

    def on_delivery(error: object, message: object) -> None:
        nonlocal seen_count
        seen_count += error is None

    peer = Peer({"bootstrap.servers": servers, "acks": 1, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    for _ in range(count):
        peer.produce(topic, VALUE, on_delivery=on_delivery)
        peer.poll(0)
    peer.flush()
    assert seen_count == count


def produce_with_aiokafka(servers: str, topic: str, count: int) -> None:
    """Queue records with aiokafka."""
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        peer = AIOKafkaProducer(bootstrap_servers=servers, acks=1, linger_ms=5)
        await peer.start()
        futures = [await peer.send(topic, VALUE) for _ in range(count)]
        await peer.flush()
        await peer.stop()
        assert all(future.exception() is None for future in futures)

    asyncio.run(run())


def consume_with_ours(servers: str, topic: str, count: int) -> None:
    """Read with a plain loop."""
    with Consumer(servers, max_partition_fetch_bytes=8 << 20) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        size = 0
        for record_count, record in enumerate(consumer, 1):
            size += len(record.value)
            if record_count == count:
                break
    assert size == count * len(VALUE)


def consume_with_asyncio(servers: str, topic: str, count: int) -> None:
    """Read with `async for`."""

    async def run() -> int:
        size = seen_count = 0
        async with AsyncConsumer(servers, max_partition_fetch_bytes=8 << 20) as consumer:
            await consumer.assign({TopicPartition(topic, 0): 0})
            async for record in consumer:
                size += len(record.value)
                seen_count += 1
                if seen_count == count:
                    break
        return size

    assert asyncio.run(run()) == count * len(VALUE)


def consume_with_aiokafka(servers: str, topic: str, count: int) -> None:
    """Read with aiokafka's `async for`."""
    from aiokafka import AIOKafkaConsumer

    async def run() -> int:
        peer = AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
        await peer.start()
        size = seen_count = 0
        async for record in peer:
            size += len(record.value)
            seen_count += 1
            if seen_count == count:
                break
        await peer.stop()
        return size

    assert asyncio.run(run()) == count * len(VALUE)


def consume_with_confluent(servers: str, topic: str, count: int) -> None:
    """Read with librdkafka's consume(500)."""
    from confluent_kafka import Consumer as Peer

    peer = Peer({"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    peer.subscribe([topic])
    size = seen_count = 0
    while seen_count < count:
        for message in peer.consume(500, 1.0):
            size += len(message.value())
            seen_count += 1
    peer.close()
    assert size == count * len(VALUE)


Work = Callable[[str, str, int], None]
PRODUCE_WORKS: dict[str, Work] = {
    "ours, futures": produce_with_ours,
    "ours, on_delivery": produce_with_callbacks,
    "ours, asyncio": produce_with_asyncio,
    "kafka-python": produce_with_kafka_python,
    "confluent-kafka": produce_with_confluent,
    "aiokafka": produce_with_aiokafka,
}
CONSUME_WORKS: dict[str, Work] = {
    "ours, for": consume_with_ours,
    "ours, async for": consume_with_asyncio,
    "aiokafka, async for": consume_with_aiokafka,
    "confluent-kafka, consume(500)": consume_with_confluent,
}


def measure_works(works: dict[str, Work], servers: str, topic: str, count: int, runs: int) -> None:
    """Print a line for each client: CPU and wall microseconds per record, records per second."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for work in works.values():  # kernels, caches, imports
        work(servers, topic, min(count, 2_000))
    for _ in range(runs):
        for name, work in works.items():
            begin, clock = time.process_time(), time.perf_counter()
            work(servers, topic, count)
            spent[name].append((time.process_time() - begin, time.perf_counter() - clock))
    first = next(iter(works))
    for name, times in spent.items():
        cpu = [one / count * 1e6 for one, _ in times]
        wall = statistics.median(one for _, one in times)
        ratio = statistics.median(mine / own for (mine, _), (own, _) in zip(times, spent[first], strict=True))
        line = f"{name:32} {statistics.median(cpu):6.2f} us CPU ({min(cpu):.2f}-{max(cpu):.2f})"
        print(f"{line}, {count / wall / 1e6:5.2f} M rec/s, {ratio:5.2f}x the CPU of {first!r}", flush=True)


def main() -> None:
    """Start a broker unless one is specified, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--servers", help="a cluster; default: an embedded broker in a separate process")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=("produce", "consume"))
    parser.add_argument("--without", default="", help="clients to skip, separated by commas")
    options = parser.parse_args()
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0"]
    broker = None if options.servers else subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    left_out = [name for name in options.without.split(",") if name]
    print(f"Load of the machine: {os.getloadavg()[0]:.1f}")
    try:
        servers = options.servers
        if broker is not None and broker.stderr is not None:
            servers = broker.stderr.readline().split()[-1]
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name=name, num_partitions=1) for name in ("produce", "consume")])
        if options.only != "consume":
            works = {name: work for name, work in PRODUCE_WORKS.items() if not any(word in name for word in left_out)}
            measure_works(works, servers, "produce", options.records, options.runs)
        if options.only != "produce":
            produce_with_ours(servers, "consume", options.records)
            works = {name: work for name, work in CONSUME_WORKS.items() if not any(word in name for word in left_out)}
            measure_works(works, servers, "consume", options.records, options.runs)
        print(f"Load of the machine: {os.getloadavg()[0]:.1f}")
    finally:
        if broker is not None:
            broker.terminate()
            broker.wait(10)


if __name__ == "__main__":
    main()
