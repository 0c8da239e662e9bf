"""Measure the decoding of a message to columns, compared with kio's and kafka-python's decoding to objects.

Run: python benchmarks/messages_columns.py [--quick]. CPU time, best and median of interleaved rounds in one process,
GC off.
Large messages go in batches of 100, small ones in batches of 10,000; `one` is a single large message by itself, where
handing some forty Arrow arrays to Python is most of the time. `table`: the table-driven kernel; `special`: the
straight-line one, where `kafkaframes kernels warm --decoders` has compiled it.
"""

from __future__ import annotations

import gc
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kafkaframes.protocol.messages import columns
from kafkaframes.protocol.messages.plan import MessagePlan, plan_message
from kafkaframes.protocol.spec import catalog

# The targets: (subject, peer, minimum speed-up).
TARGET_RATIOS = {
    "MetadataResponse": (("special", "kio", 12), ("special", "kafka-python", 70), ("table", "kio", 4)),
    "FetchRequest": (("special", "kio", 10),),
    "HeartbeatRequest": (("table", "kio", 10),),
    "ApiVersionsRequest": (("table", "kio", 10),),
}


def build_metadata() -> dict[str, Any]:
    """Return the fields of a Metadata response."""

    def partition(index: int) -> dict[str, Any]:
        nodes = [(index + k) % 3 for k in range(3)]
        return {
            "partitionIndex": index,
            "leaderId": nodes[0],
            "leaderEpoch": 5,
            "replicaNodes": nodes,
            "isrNodes": nodes,
        }

    topics = [
        {
            "name": f"topic-{index:04d}",
            "topicId": index.to_bytes(16, "big"),
            "partitions": list(map(partition, range(10))),
        }
        for index in range(1, 101)
    ]
    brokers = [{"nodeId": node, "host": f"broker{node}.example.com", "port": 9092} for node in range(3)]
    return {"brokers": brokers, "clusterId": "abcdefghijklmnopqrstuv", "controllerId": 1, "topics": topics}


def build_fetch_response() -> dict[str, Any]:
    """Return the fields of a Fetch response."""
    partitions = [
        {
            "partitionIndex": index,
            "highWatermark": 1000,
            "lastStableOffset": 1000,
            "logStartOffset": 0,
            "records": b"x" * 1024,
        }
        for index in range(50)
    ]
    return {"sessionId": 7, "responses": [{"topicId": b"t" * 16, "partitions": partitions}]}


def build_produce_request() -> dict[str, Any]:
    """Return the fields of a Produce request."""
    partitions = [{"index": index, "records": b"x" * 1024} for index in range(50)]
    return {"acks": -1, "timeoutMs": 30000, "topicData": [{"topicId": b"t" * 16, "partitionData": partitions}]}


def build_fetch_request() -> dict[str, Any]:
    """Return the fields of a Fetch request."""
    partitions = [{"partition": index, "fetchOffset": 1000, "partitionMaxBytes": 1 << 20} for index in range(3)]
    return {"maxWaitMs": 500, "minBytes": 1, "topics": [{"topicId": b"t" * 16, "partitions": partitions}]}


# message, version, value, how many a batch; kio's module, kafka-python's module
CASES = (
    ("MetadataResponse", 13, build_metadata(), 100, "metadata.v13.response", "metadata"),
    ("FetchResponse", 18, build_fetch_response(), 100, "fetch.v18.response", "consumer"),
    ("ProduceRequest", 13, build_produce_request(), 100, "produce.v13.request", "producer"),
    ("FetchRequest", 18, build_fetch_request(), 10_000, "fetch.v18.request", "consumer"),
    ("HeartbeatRequest", 4, {"groupId": "orders", "generationId": 3, "memberId": "consumer-1-0c9f3f2e"}, 10_000,
     "heartbeat.v4.request", "consumer"),
    ("ApiVersionsRequest", 4, {"clientSoftwareName": "kafkaframes", "clientSoftwareVersion": "0.1.0"}, 10_000,
     "api_versions.v4.request", "metadata"),
)  # fmt: skip


def decode_with_kio(name: str, module: str, data: bytes) -> Callable[[], object]:
    """Return a function that decodes a message with kio."""
    from kio.serial import entity_reader

    read = entity_reader(getattr(importlib.import_module(f"kio.schema.{module}"), name))
    _, size = read(data, 0)
    assert size == len(data), "kio reads all of it"
    return lambda: read(data, 0)


def decode_with_kafka_python(name: str, version: int, module: str, data: bytes) -> Callable[[], object]:
    """Return a function that decodes a message with kafka-python."""
    message_type = getattr(importlib.import_module(f"kafka.protocol.{module}"), name)
    return lambda: message_type.decode(data, version=version)


def decode_to_columns(plan: MessagePlan, messages: Any, *, special: bool) -> Callable[[], object]:
    """Return a function that decodes many messages to Arrow columns, after a check of its result."""

    def run() -> object:
        return columns.decode_columns(plan, messages, specialized=special)

    rows = columns.decode_columns(plan, messages)
    assert rows.field("_error").null_count == len(messages), "all are good"
    assert columns.encode_columns(plan, rows).to_pylist()[0] == messages[0].as_py(), "and no bytes are lost"
    return run


def time_subjects(rounds: int, subjects: dict[str, tuple[Callable[[], object], int]]) -> dict[str, tuple[float, float]]:
    """Return microseconds per message as (best, median) of interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, (run, count) in subjects.items():
            start = time.process_time()
            run()
            times[name].append((time.process_time() - start) / count * 1e6)
    return {name: (min(figures), statistics.median(figures)) for name, figures in times.items()}


def measure_case(case: tuple[Any, ...], rounds: int) -> None:
    """Measure one message with each library in turns, and print the times."""
    name, version, value, count, kio_module, kafka_module = case
    plan = plan_message(catalog.load_spec(name), version)
    data = columns.encode_columns(plan, pa.array([value]))[0].as_py()
    messages = pa.array([data] * count, pa.binary())
    many = decode_with_kio(name, kio_module, data), decode_with_kafka_python(name, version, kafka_module, data)
    loops = 1 if count == 100 else 100
    subjects: dict[str, tuple[Callable[[], object], int]] = {
        "kio": (lambda: [many[0]() for _ in range(loops)], loops),
        "kafka-python": (lambda: [many[1]() for _ in range(loops)], loops),
        "table": (decode_to_columns(plan, messages, special=False), count),
    }
    if columns.is_specialized(plan):
        subjects["special"] = (decode_to_columns(plan, messages, special=True), count)
    if count == 100:
        subjects["one"] = (decode_to_columns(plan, messages[:1], special=True), 1)
    best_by_subject = time_subjects(rounds, subjects)
    print(f"{name} v{version}, {len(data)} bytes, {count} a batch; microseconds a message")
    for subject, (least, median) in best_by_subject.items():
        ratios = "  ".join(f"{best_by_subject[peer][0] / least:7.1f}x {peer}" for peer in ("kio", "kafka-python"))
        print(f"  {subject:<13}{least:10.2f} best {median:10.2f} median   {ratios}")
    for subject, peer, times in TARGET_RATIOS.get(name, ()):
        ratio = best_by_subject[peer][1] / best_by_subject[subject][1] if subject in best_by_subject else 0.0
        verdict = "reached" if ratio >= times else "missed"
        print(f"  goal for the medians: {subject} {times}x {peer}: {verdict}, {ratio:.1f}x")


def main() -> None:
    """Run the benchmark, and print the results."""
    gc.disable()
    rounds = 5 if "--quick" in sys.argv else 40
    for case in CASES:
        measure_case(case, rounds)


if __name__ == "__main__":
    main()
