"""Compare ``kafka-topic`` with Spark's own Kafka connector: the same topics and queries, one session, ``local[2]``.

Both sides run in turn; the median of the rounds counts, by wall clock and by CPU seconds (user and system) of Spark's
processes (JVM and Python workers, without the broker). Ratios are the connector's time over ours: above 1 ours is
faster. The broker is ours, in a process of its own, or any other by ``--servers``, which leaves fewer cores to Spark
just the same. Maven fetches the connector's jars (once).

    python benchmarks/spark_topic.py [--sizes 20,100,1024,10240] [--codecs none,lz4,zstd] [--megabytes 100]
        [--queries count,length,noop,parquet] [--writes] [--decode] [--floor] [--backlog MB] [--rounds 3]
        [--servers HOST:PORT] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

ROOT_FOLDER = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT_FOLDER))

from tests.interop import connector  # noqa: E402

import kafkaframes  # noqa: E402
from kafkaframes.client import Admin, NewTopic, Producer, TopicPartition  # noqa: E402

PARTITION_COUNT = 4
FORM_NAMES = ("kafka", "kafka-topic")
MAX_RECORDS = 1_000_000
RECORD_OVERHEAD_BYTES = 16  # bytes of a record besides its value; limits the number of small records


def make_values(size: int, count: int) -> pa.Array:
    """Return text that compresses about as well as JSON: half of it is repeated."""
    rng = np.random.default_rng(size)
    text = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz012345", np.uint8)
    data = text[rng.integers(0, 32, size * count)].reshape(count, size)
    data[:, : size // 2] = np.resize(np.frombuffer(b'{"customer":"c1","city":"Oslo",', np.uint8), size // 2)
    offsets = np.arange(count + 1, dtype=np.int32) * size
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def create_topic(servers: str, size: int, codec: str, megabytes: int) -> tuple[str, int]:
    """Create a topic with records of one size; return its name and the number of records."""
    name, count = f"b{size}-{codec}", min(megabytes * 1_000_000 // (size + RECORD_OVERHEAD_BYTES), MAX_RECORDS)
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=PARTITION_COUNT)])
    with Producer(servers, compression_type=codec, batch_size=1 << 17, max_request_size=8 << 20) as producer:
        remaining_count = count
        while remaining_count:
            rows = min(remaining_count, max(20_000_000 // size, 1))
            at = np.arange(remaining_count - rows, remaining_count)
            columns = {"value": make_values(size, rows), "partition": pa.array(at % PARTITION_COUNT, pa.int32())}
            producer.send_arrow(pa.table(columns), topic=name)
            remaining_count -= rows
    return name, count


class ProcessTree:
    """The CPU seconds of this process's JVM and its descendants."""

    def __init__(self, broker: int | None) -> None:
        self._not = broker

    def read_cpu_seconds(self) -> float:
        """Return the CPU time of the JVM and its descendants."""
        total = 0.0
        for process in psutil.Process().children(recursive=True):
            if process.pid != self._not:
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    total += times.user + times.system + times.children_user + times.children_system
        return total


def spark_frame(spark, form: str, servers: str, topic: str):
    return spark.read.format(form).options(subscribe=topic).option("kafka.bootstrap.servers", servers).load()


def make_queries(spark, folder: Path):
    """Return the queries as functions of a DataFrame that return when the query is complete."""

    def parquet(frame):
        path = folder / uuid.uuid4().hex
        frame.write.parquet(str(path))
        shutil.rmtree(path)

    return {
        "count": lambda frame: frame.count(),
        "length": lambda frame: frame.selectExpr("max(length(value))").collect(),
        "noop": lambda frame: frame.write.format("noop").mode("overwrite").save(),
        "parquet": parquet,
    }


def make_worker_query(spark, servers: str, topic: str, folder: Path) -> None:
    """Write a topic's records to Parquet in the workers that fetch them."""
    path = folder / uuid.uuid4().hex
    kafkaframes.spark.table_topics(spark, topic, path, options={"kafka.bootstrap.servers": servers})
    shutil.rmtree(path)


def time_work(tree: ProcessTree, work) -> tuple[float, float]:
    """Return the wall and CPU seconds of a piece of work."""
    cpu, wall = tree.read_cpu_seconds(), time.perf_counter()
    work()
    return time.perf_counter() - wall, tree.read_cpu_seconds() - cpu


def compare_sides(tree: ProcessTree, sides: dict, rounds: int) -> dict[str, tuple[float, float]]:
    """Run each side once to warm up, then in turn; return the median wall and CPU seconds of each."""
    for work in sides.values():
        work()
    costs_by_side = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            costs_by_side[name].append(time_work(tree, work))
    return {
        name: tuple(statistics.median(column) for column in zip(*times, strict=True))
        for name, times in costs_by_side.items()
    }


def make_writes(spark, servers: str, source: str, codec: str):
    """Return the functions that write a DataFrame to a topic: the connector, and this package in both modes."""
    frame = spark.read.parquet(source)
    options = {"kafka.bootstrap.servers": servers, "kafka.compression.type": codec}

    def target() -> str:
        name = f"w-{uuid.uuid4().hex[:8]}"
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name=name, num_partitions=PARTITION_COUNT)])
        return name

    def plain(form: str):
        frame.write.format(form).options(topic=target(), **options).mode("append").save()

    def exactly():
        kafkaframes.spark.write_topic(frame, {**options, "topic": target()})

    return {"kafka": lambda: plain("kafka"), "kafka-topic": lambda: plain("kafka-topic"), "exactly once": exactly}


ORDER_DDL = "id BIGINT, customer STRING, amount DOUBLE, lines ARRAY<STRUCT<sku: STRING, quantity: BIGINT>>"
ORDER_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "amount": {"type": "number"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer"}},
            },
        },
    },
}
SUM_COLUMNS = ("sum(value.amount)", "count(DISTINCT value.customer)", "sum(size(value.lines))")


def create_orders_topic(servers: str, codec: str, megabytes: int) -> tuple[str, int]:
    """Create a topic of JSON orders of about 140 bytes; return its name and the number of records."""
    name, count = f"b-orders-{codec}", megabytes * 1_000_000 // 160
    text = [
        f'{{"id": {n}, "customer": "customer-{n % 997}", "amount": {n % 1000}.25, "lines": '
        f'[{{"sku": "a-{n % 83}", "quantity": {n % 7}}}, {{"sku": "b-{n % 19}", "quantity": {n % 5}}}]}}'.encode()
        for n in range(20_000)
    ]
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=PARTITION_COUNT)])
    with Producer(servers, compression_type=codec, batch_size=1 << 17) as producer:
        for first in range(0, count, len(text)):
            some = text[: count - first]
            at = pa.array(np.arange(len(some)) % PARTITION_COUNT, pa.int32())
            producer.send_arrow(pa.table({"value": pa.array(some, pa.binary()), "partition": at}), topic=name)
    return name, count


def make_decoding_queries(spark, servers: str, topic: str) -> dict:
    """Return the queries that sum over JSON, parsed by Spark with both sources, or by this package's workers."""

    def parsed(form: str):
        frame = spark_frame(spark, form, servers, topic)
        return (
            frame.selectExpr(f"from_json(CAST(value AS STRING), '{ORDER_DDL}') AS value")
            .selectExpr(*SUM_COLUMNS)
            .first()
        )

    def by_workers(**more):
        reader = spark.read.format("kafka-topic").options(subscribe=topic, decode="json", **more)
        frame = reader.options(**{"kafka.bootstrap.servers": servers, "schema": json.dumps(ORDER_SCHEMA)}).load()
        return frame.selectExpr(*SUM_COLUMNS).first()

    sides = {form: lambda form=form: parsed(form) for form in FORM_NAMES}
    sides |= {"decode": by_workers, "decode, columns=value": lambda: by_workers(columns="value")}
    rows = {name: work() for name, work in sides.items()}
    assert len(set(rows.values())) == 1, rows
    return sides


def print_floor(spark, servers: str, folder: Path) -> None:
    """Print the duration of micro-batches of ten rows for both sources, from Spark's progress reports."""
    for form in FORM_NAMES:
        name = f"floor-{form}"
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name=name, num_partitions=PARTITION_COUNT)])
        stream = spark.readStream.format(form).option("kafka.bootstrap.servers", servers).option("subscribe", name)
        writer = stream.load().writeStream.format("noop").option("checkpointLocation", str(folder / name))
        query = writer.start()
        with Producer(servers) as producer:
            for _ in range(15):
                producer.send_arrow(pa.table({"value": [b"v"] * 10}), topic=name)
                query.processAllAvailable()
        took = sorted(one.durationMs["triggerExecution"] for one in query.recentProgress if one.numInputRows)[:-2]
        query.stop()
        print(f"micro-batch of 10 rows, {form}: median {took[len(took) // 2]} ms, minimum {took[0]} ms", flush=True)


def create_backlog(servers: str, codec: str, megabytes: int) -> tuple[str, int]:
    """Create a topic with a number of megabytes of values, from one batch that is sent repeatedly."""
    name = f"backlog-{codec}"
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=PARTITION_COUNT)])
    rows = 900
    value = pa.array([b'{"customer":"c1","city":"Oslo"}' * 33] * rows, pa.binary())  # 1,023 bytes each
    batch = kafkaframes.build_records(pa.table({"value": value}), codec=codec, batch_bytes=1_000_000)
    each, times = rows * PARTITION_COUNT, megabytes * 1_000_000 // (rows * 1_023 * PARTITION_COUNT)
    with Producer(servers, max_request_size=2 << 20, compression_type=codec) as producer:
        remaining_count = times
        while remaining_count:
            some = min(remaining_count, 32)
            for number in range(PARTITION_COUNT):
                producer.send_batches(TopicPartition(name, number), batch * some)
            remaining_count -= some
    return name, each * times


def print_memory(spark, servers: str, codec: str, megabytes: int) -> None:
    """Print the memory of the largest Python worker while a backlog is read."""
    topic, count = create_backlog(servers, codec, megabytes)
    largest, is_done = [0, 0], threading.Event()

    def watch():
        while not is_done.wait(0.1):
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    is_worker = "pyspark.daemon" in process.cmdline()
                    largest[not is_worker] = max(largest[not is_worker], process.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    began = time.perf_counter()
    spark_frame(spark, "kafka-topic", servers, topic).write.format("noop").mode("overwrite").save()
    took = time.perf_counter() - began
    is_done.set()
    thread.join()
    print(
        f"a backlog of {megabytes} MB in {codec} ({count:,} records), read in {took:.0f} s: the largest worker had "
        f"{largest[0] / 1e6:.0f} MB, the JVM {largest[1] / 1e6:.0f} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="20,100,1024,10240")
    parser.add_argument("--codecs", default="none,lz4,zstd")
    parser.add_argument("--queries", default="count,length,noop,parquet")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--servers")
    parser.add_argument("--writes", action="store_true")
    parser.add_argument("--decode", action="store_true", help="also JSON: from_json compared with decode=json")
    parser.add_argument("--floor", action="store_true", help="also the time of the smallest micro-batches")
    parser.add_argument("--backlog", type=int, help="also the memory of workers that read so many megabytes")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    try:
        jars = connector.find_jars()
    except LookupError as error:
        print(f"skipped: {error}")
        return
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kf-bench-")))
        servers, broker = options.servers, None
        if servers is None:
            servers, broker = stack.enter_context(start_broker(folder))
        config = {"spark.jars": ",".join(map(str, jars)), "spark.driver.extraJavaOptions": "-XX:+UseParallelGC"}
        spark = kafkaframes.spark.session("benchmark", master="local[2]", memory="2g", config=config)
        stack.callback(spark.stop)
        kafkaframes.spark.register(spark)
        if options.floor:
            print_floor(spark, servers, folder)
        if options.backlog:
            for codec in options.codecs.split(","):
                print_memory(spark, servers, codec, options.backlog)
                delete_topics(servers)
        rows = list(measure_points(spark, servers, ProcessTree(broker), folder, options))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def measure_points(spark, servers, tree, folder, options):
    """Print a line for each point, and yield it."""
    print(f"| bytes | codec | query | rows/s connector | rows/s ours | wall | CPU | load |\n|{'---|' * 8}")
    for size in map(int, options.sizes.split(",")):
        for codec in options.codecs.split(","):
            topic, count = create_topic(servers, size, codec, options.megabytes)
            ways = make_queries(spark, folder)
            for name in filter(None, options.queries.split(",")):
                sides = {
                    form: lambda form=form, way=ways[name], topic=topic: way(spark_frame(spark, form, servers, topic))
                    for form in FORM_NAMES
                }
                if name == "parquet":
                    sides["workers"] = lambda topic=topic: make_worker_query(spark, servers, topic, folder)
                costs_by_side = compare_sides(tree, sides, options.rounds)
                yield print_report_row(size, codec, name, count, costs_by_side, *FORM_NAMES)
                if name == "parquet":
                    yield print_report_row(size, codec, "parquet in workers", count, costs_by_side, "kafka", "workers")
            if options.writes:
                source = str(folder / f"source-{size}-{codec}")
                spark_frame(spark, "kafka", servers, topic).select("value").write.parquet(source)
                costs_by_side = compare_sides(tree, make_writes(spark, servers, source, codec), options.rounds)
                yield print_report_row(size, codec, "write", count, costs_by_side, *FORM_NAMES)
                yield print_report_row(
                    size,
                    codec,
                    "exactly once compared with at least once",
                    count,
                    costs_by_side,
                    "kafka-topic",
                    "exactly once",
                )
            delete_topics(servers)

    for codec in options.codecs.split(",") if options.decode else ():
        topic, count = create_orders_topic(servers, codec, options.megabytes)
        costs_by_side = compare_sides(tree, make_decoding_queries(spark, servers, topic), options.rounds)
        for name in list(costs_by_side)[1:]:
            yield print_report_row(
                "JSON", codec, f"from_json compared with {name}", count, costs_by_side, "kafka", name
            )


def delete_topics(servers: str) -> None:
    """Make room on the disk."""
    with Admin(servers) as admin:
        admin.delete_topics([name for name in admin.list_topics() if name.startswith(("b", "w-"))])


def print_report_row(size, codec, query, count, costs_by_side, one, other) -> dict:
    """Print and return the results of a query with both sources."""
    (theirs, their_cpu), (ours, our_cpu) = costs_by_side[one], costs_by_side[other]
    row = {
        "bytes": size,
        "codec": codec,
        "query": query,
        "theirs": count / theirs,
        "ours": count / ours,
        "wall": theirs / ours,
        "cpu": their_cpu / our_cpu,
        "load": os.getloadavg()[0],
    }
    print(
        f"| {size} | {codec} | {query} | {row['theirs']:,.0f} | {row['ours']:,.0f} "
        f"| {row['wall']:.2f} | {row['cpu']:.2f} | {row['load']:.1f} |",
        flush=True,
    )
    return row


@contextlib.contextmanager
def start_broker(folder: Path):
    """Start the embedded broker in a separate process; yield its address and process id."""
    code = (
        "import sys, time\nfrom kafkaframes.broker import Broker\n"
        "with Broker(data_dir=sys.argv[1], journal=False) as broker:\n"
        "    print(broker.bootstrap_servers, flush=True)\n    sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(folder / "data")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.stdin.close()
            process.wait(60)


if __name__ == "__main__":
    main()
