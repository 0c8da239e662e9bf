"""Measure a message from bytes to objects and back, compared with kio and kafka-python on the same bytes.

Run:  python benchmarks/messages_objects.py [--gc] [--rounds 60]
All three take turns in one process; the figures are medians of CPU time, so that other work on the machine matters
little. The garbage collector is off unless --gc is given, and a ballast of live objects keeps the allocator from giving
memory back. Bytes are equal.
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import subprocess
import sys
import time
import warnings
from statistics import median
from uuid import UUID

import kafkaframes

MESSAGE_GROUPS = {  # the target speed-up over each peer, if there is a target
    ("Metadata 100x10", "decode"): {"kafka-python": 3.0},
    ("Metadata 100x10", "encode"): {"kafka-python": 4.0, "kio": 8.0},
}


def _build_metadata():
    """Return a Metadata response and its version."""
    cls = kafkaframes.message_class("MetadataResponse")
    topic, partition = cls.MetadataResponseTopic, cls.MetadataResponsePartition
    brokers = [cls.MetadataResponseBroker(node_id=i, host=f"broker-{i}.example.com", port=9092) for i in range(3)]
    topics = [
        topic(
            name=f"topic-{t:05d}",
            topic_id=UUID(int=t + 1),
            partitions=[
                partition(
                    partition_index=p, leader_id=p % 3, leader_epoch=5, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
                )
                for p in range(10)
            ],
        )
        for t in range(100)
    ]
    return cls(brokers=brokers, cluster_id="abcdefghijklmnopqrstuv", controller_id=1, topics=topics), 13


def _build_api_versions():
    """Return an ApiVersions response and its version."""
    cls = kafkaframes.message_class("ApiVersionsResponse")
    return cls(api_keys=[cls.ApiVersion(api_key=key, max_version=12) for key in range(76)]), 4


def _build_fetch():
    """Return a Fetch response and its version."""
    cls = kafkaframes.message_class("FetchResponse")
    parts = [cls.PartitionData(partition_index=p, high_watermark=9, records=bytes(1024)) for p in range(50)]
    return cls(responses=[cls.FetchableTopicResponse(partitions=parts)]), 17


def _build_produce():
    """Return a Produce request and its version."""
    cls = kafkaframes.message_class("ProduceRequest")
    parts = [cls.PartitionProduceData(index=p, records=bytes(1024)) for p in range(50)]
    return cls(acks=-1, timeout_ms=30000, topic_data=[cls.TopicProduceData(partition_data=parts)]), 13


CASES = {
    "Metadata 100x10": _build_metadata,
    "ApiVersions 76": _build_api_versions,
    "Fetch 50x1KiB": _build_fetch,
    "Produce 50x1KiB": _build_produce,
}


def _make_kafka_python_calls(name, version, data):
    """Return functions that decode and encode a message with kafka-python."""
    from kafka.protocol.consumer import fetch
    from kafka.protocol.metadata import api_versions, metadata
    from kafka.protocol.producer import produce

    (cls,) = [getattr(module, name) for module in (fetch, api_versions, metadata, produce) if hasattr(module, name)]
    value = cls.decode(data, version=version)
    value._header = None
    assert bytes(value.encode(version=version)) == data
    return lambda: cls.decode(data, version=version), lambda: value.encode(version=version)


def _make_kio_calls(name, version, data):
    """Return functions that decode and encode a message with kio."""
    import importlib
    import re

    from kio.serial import entity_reader, entity_writer

    type_ = "request" if name.endswith("Request") else "response"
    api = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix(type_.capitalize())).lower()
    cls = getattr(importlib.import_module(f"kio.schema.{api}.v{version}.{type_}"), name)
    read, write = entity_reader(cls), entity_writer(cls)
    value, _ = read(data, 0)

    def encode():
        out = io.BytesIO()
        write(out, value)
        return out.getvalue()

    assert encode() == data
    return lambda: read(data, 0), encode


def _make_our_calls(value, version, data):
    """Return functions that decode and encode a message with this package."""
    cls = type(value)
    assert cls.decode(data, version) == value
    return lambda: cls.decode(data, version), lambda: value.encode(version)


def _time_medians(functions, rounds):
    """Run all in turn; return the median of each, in microseconds."""
    times = [[] for _ in functions]
    for function in functions * 3:
        function()
    for _ in range(rounds):
        for index, function in enumerate(functions):
            start = time.thread_time()
            result = function()
            times[index].append(time.thread_time() - start)
            del result
    return [median(time) * 1e6 for time in times]


def _time_cold_start():
    """Return the milliseconds (CPU and wall) from before the import to the end of a first decode, the best of five."""
    code = (
        "import time; wall, cpu = time.perf_counter(), time.process_time(); import kafkaframes\n"
        "kafkaframes.message_class('MetadataResponse').decode(bytes.fromhex('000000000100ffffffff01000300'), 13)\n"
        "print((time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True, env=environment) for _ in range(6)][1:]
    return [min(column) for column in zip(*(map(float, run.stdout.split()) for run in runs), strict=True)]


def main() -> int:
    """Run the benchmark, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ballast = [[index] for index in range(200_000)]
    (gc.enable if options.gc else gc.disable)()
    missed_count = 0
    print(
        f"microseconds of CPU, medians of {options.rounds} rounds; "
        f"GC {'on' if options.gc else 'off'}; load {os.getloadavg()[0]:.1f}"
    )
    print(f"{'':16} {'':7} {'ours':>8} {'kafka-python':>13} {'kio':>8} {'x kafka-python':>15} {'x kio':>7}")
    for name, make in CASES.items():
        value, version = make()
        data = value.encode(version)
        sides = [
            _make_our_calls(value, version, data),
            _make_kafka_python_calls(type(value).__name__, version, data),
            _make_kio_calls(type(value).__name__, version, data),
        ]
        for index, verb in enumerate(("decode", "encode")):
            ours, python, kio = _time_medians([side[index] for side in sides], options.rounds)
            print(f"{name:16} {verb:7} {ours:8.1f} {python:13.1f} {kio:8.1f} {python / ours:15.2f} {kio / ours:7.2f}")
            for peer, wanted_ratio in MESSAGE_GROUPS.get((name, verb), {}).items():
                ratio = (python if peer == "kafka-python" else kio) / ours
                missed_count += ratio < wanted_ratio
                verdict = "reached" if ratio >= wanted_ratio else "MISSED"
                print(f"{'':16} {'':7} goal: {wanted_ratio:.0f}x {peer}: {verdict}")
    cpu, wall = _time_cold_start()
    print(f"import kafkaframes and a first decode: {cpu:.0f} ms of CPU, {wall:.0f} ms on the clock (goal: 60)")
    del ballast
    return 1 if missed_count else 0


if __name__ == "__main__":
    sys.exit(main())
