"""Arrow out of a topic, imports included, next to the Arrow client kafkarrow (Rust with librdkafka).

Processes alternate. Each reads the whole topic into Arrow record batches. Its CPU time is that of the whole process,
with the start of the interpreter. The broker is the embedded one, in another process.

Run:    python benchmarks/arrow_topic.py [--records 2000000] [--runs 7] [--codecs none lz4]
Needs:  pip install kafkarrow
Saves:  nothing: benchmarks/results/arrow_topic.md has what it printed, with machine and date
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys

import pyarrow as pa

from clients import make_values
from kafkaframes.client import Admin, NewTopic, Producer

GOAL = 5
SCAN_CODE = """
import sys
from kafkaframes import scan_topic
servers, topic, count = sys.argv[1:]
assert scan_topic(servers, topic).to_arrow().num_rows == int(count)
"""
CONSUMER_CODE = """
import sys
from kafkaframes import Consumer
servers, topic, count = sys.argv[1:]
row_count, batches = 0, []
with Consumer(servers, auto_offset_reset="earliest", max_partition_fetch_bytes=8 << 20) as consumer:
    consumer.assign(consumer.partitions_for(topic))
    while row_count < int(count):
        batches.append(consumer.fetch_arrow(1_000))
        row_count += batches[-1].num_rows
"""
KAFKARROW_CODE = """
import sys
from kafkarrow import ConsumerManager, SourceTopic
servers, topic, count = sys.argv[1:]
row_count, batches = 0, []
manager = ConsumerManager(config={"bootstrap.servers": servers}, topics=[SourceTopic.from_earliest(topic)])
while row_count < int(count):
    batches.append(manager.poll(timeout_ms=1_000))
    row_count += batches[-1].num_rows
"""
CODES = {"scan_topic": SCAN_CODE, "Consumer": CONSUMER_CODE, "kafkarrow": KAFKARROW_CODE}


def create_topic(servers: str, codec: str, count: int) -> str:
    """Create a topic with ``count`` records of 100 bytes in two partitions, and return its name."""
    topic = f"records-{codec}"
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=topic, num_partitions=2)])
    partitions = pa.array([row % 2 for row in range(count)], pa.int32())
    table = pa.table({"value": make_values(count, 100), "partition": partitions})
    with Producer(servers, compression_type=codec, batch_size=1_000_000) as producer:
        producer.send_arrow(table, topic=topic)
    return topic


def measure(code: str, arguments: list[str]) -> float:
    """Return the CPU seconds of a process that runs ``code``."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code, *arguments], env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Run the benchmark, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--codecs", nargs="+", default=["none", "lz4"])
    options = parser.parse_args()
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0"]
    broker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert broker.stderr is not None
        servers = broker.stderr.readline().split()[-1]
        for codec in options.codecs:
            topic = create_topic(servers, codec, options.records)
            arguments = [servers, topic, str(options.records)]
            times: dict[str, list[float]] = {name: [] for name in CODES}
            for run in range(options.runs + 1):  # the first round fills caches
                for name, code in CODES.items():
                    spent_s = measure(code, arguments)
                    times[name] += [spent_s] if run else []
            print(f"{codec}, {options.records} records of 100 bytes, CPU s, median (minimum) of {options.runs}", end="")
            print(f"; load {os.getloadavg()[0]:.1f}")
            for name, spent in times.items():
                ratio = statistics.median(theirs / ours for theirs, ours in zip(times["kafkarrow"], spent, strict=True))
                print(f"  {name:12} {statistics.median(spent):.2f} ({min(spent):.2f})  kafkarrow / it: {ratio:.2f}")
        print(f"goal: {GOAL}")
    finally:
        broker.terminate()
        broker.wait(10)


if __name__ == "__main__":
    main()
