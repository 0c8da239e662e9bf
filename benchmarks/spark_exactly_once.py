"""Compare exactly-once with at-least-once writes: the same stream, topic to topic, one session, ``local[2]``.

Each side is a streaming query over the same topic, with micro-batches of ``--megabytes``; they run in turn, from the
beginning each time. What counts is the median over micro-batches, the first of each query left out, of Spark's own
``triggerExecution``, and the CPU seconds (user and system) of Spark's processes for a query, without the broker.
Exactly once is measured in both its forms, ``write_topic`` and ``writeStream.format``; ratios are each over at least
once. The broker is ours, in a process of its own, or any other by ``--servers``.

    python benchmarks/spark_exactly_once.py [--sizes 100,1024,10240] [--codec lz4] [--megabytes 30] [--batches 4]
        [--rounds 3] [--few] [--servers HOST:PORT]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.spark_topic import PARTITION_COUNT, ProcessTree, create_topic, start_broker

import kafkaframes
from kafkaframes.client import Admin, NewTopic

SIDE_NAMES = ("at least once", "write_topic", "writeStream.format")
SMALL_BATCH_RECORDS = 40  # records of the smallest micro-batches


def run_side(spark, servers: str, source: str, codec: str, per_batch: int, side: str) -> list[int]:
    """Write a whole topic into a new one; return the milliseconds of each micro-batch."""
    target = f"w-{uuid.uuid4().hex[:8]}"
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=target, num_partitions=PARTITION_COUNT)])
    stream = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    stream = stream.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=str(per_batch))
    frame = stream.load().select("key", "value")
    options = {"kafka.bootstrap.servers": servers, "kafka.compression.type": codec, "topic": target}
    with tempfile.TemporaryDirectory(prefix="kf-bench-") as checkpoint:
        if side == "write_topic":
            query = kafkaframes.spark.write_topic(frame, options, checkpoint=checkpoint, trigger={"availableNow": True})
        else:
            writer = frame.writeStream.format("kafka-topic").options(**options).option("checkpointLocation", checkpoint)
            writer = writer.option("delivery", "at-least-once" if side == "at least once" else "exactly-once")
            query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        took = [one.durationMs["triggerExecution"] for one in query.recentProgress if one.numInputRows]
    with Admin(servers) as admin:
        admin.delete_topics([target])
    return took[1:]


def compare_sides(spark, servers: str, tree: ProcessTree, source: str, codec: str, per_batch: int, rounds: int) -> dict:
    """Run both sides in turn; return the median milliseconds of a micro-batch and CPU seconds of a query, of each."""
    times, cpu = {side: [] for side in SIDE_NAMES}, {side: [] for side in SIDE_NAMES}
    for turn in range(rounds + 1):
        for side in SIDE_NAMES:
            before = tree.read_cpu_seconds()
            took = run_side(spark, servers, source, codec, per_batch, side)
            spent = tree.read_cpu_seconds() - before
            print(f"round {turn}, {side}: {took} ms, {spent:.1f} CPU s", file=sys.stderr, flush=True)
            if turn:  # the first of each warms up
                times[side] += took
                cpu[side].append(spent)
    return {side: (statistics.median(times[side]), statistics.median(cpu[side])) for side in SIDE_NAMES}


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,1024,10240")
    parser.add_argument("--codec", default="lz4")
    parser.add_argument("--megabytes", type=int, default=30)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--few", action="store_true", help=f"also micro-batches of {SMALL_BATCH_RECORDS} records")
    parser.add_argument("--servers")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kf-bench-")))
        servers, broker = options.servers, None
        if servers is None:
            servers, broker = stack.enter_context(start_broker(folder))
        config = {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC"}
        spark = kafkaframes.spark.session("benchmark", master="local[2]", memory="2g", config=config)
        stack.callback(spark.stop)
        kafkaframes.spark.register(spark)
        spark.sparkContext.setLogLevel("ERROR")
        print("| bytes | records | at least once ms | exactly once by | ms | wall | CPU | load |", flush=True)
        print("|---" * 8 + "|", flush=True)
        for size in map(int, options.sizes.split(",")):
            topic, count = create_topic(servers, size, options.codec, options.megabytes * options.batches)
            for per_batch in [count // options.batches, *([SMALL_BATCH_RECORDS] if options.few else [])]:
                if per_batch == SMALL_BATCH_RECORDS:
                    topic, _ = create_small_topic(servers, topic)
                costs_by_side = compare_sides(
                    spark, servers, ProcessTree(broker), topic, options.codec, per_batch, options.rounds
                )
                least, least_cpu = costs_by_side.pop(SIDE_NAMES[0])
                for side, (exactly, exactly_cpu) in costs_by_side.items():
                    print(
                        f"| {size} | {per_batch:,} | {least:.0f} | `{side}` | {exactly:.0f} | {exactly / least:.2f} "
                        f"| {exactly_cpu / least_cpu:.2f} | {os.getloadavg()[0]:.1f} |",
                        flush=True,
                    )


def create_small_topic(servers: str, like: str) -> tuple[str, int]:
    """Create a topic for a dozen micro-batches of few records."""
    import pyarrow as pa

    from kafkaframes.client import Producer

    name = f"{like}-few"
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=PARTITION_COUNT)])
    at = pa.array([n % PARTITION_COUNT for n in range(SMALL_BATCH_RECORDS * 12)], pa.int32())
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"value": [b"v"] * len(at), "partition": at}), topic=name)
    return name, len(at)


if __name__ == "__main__":
    main()
