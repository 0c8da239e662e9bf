"""Measure the costs of reading topics on Spark besides the rows: first load, memory, planning, effect of settings.

    python benchmarks/spark_costs.py [--megabytes 60] [--rounds 3] [PART ...]

Results: benchmarks/results/spark_costs.md. Parts: ``load``, ``task``, ``idle``, ``plan``, ``pattern``, ``settings``.
Each runs in a process of its own with a session of ours (``local[2]``); the broker is another process, and is
in no figure. Memory is PSS: pages that several processes share are counted in parts. CPU seconds are those of the JVM
and of all Python processes below it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pyarrow as pa

import kafkaframes
from kafkaframes.client import Admin, NewTopic, Producer
from spark_topic import ProcessTree, create_topic, spark_frame, start_broker, time_work

SOCKETS, BUFFER = "spark.python.unix.domain.socket.enabled", "spark.buffer.size"
READ_SETTINGS = [  # ours first
    {},
    {SOCKETS: "false"},
    {BUFFER: "1048576"},
    {SOCKETS: "false", BUFFER: "1048576"},
]
MANY, TOPICS = 500, 1_000
IDLE_SECONDS = 90  # Spark ends workers that were idle for a minute


def session(config: dict[str, str] | None = None):
    return kafkaframes.spark.session("costs", master="local[2]", memory="1g", config=config or {})


def read_pss_mb(pid: int) -> float:
    """Return the proportional set size of a process, in MB."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1000
    return 0.0


def list_python_processes() -> list[psutil.Process]:
    """Return the Python processes below Spark's JVM."""
    python_processes = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "pyspark" in " ".join(process.cmdline()) and "java" not in process.name():
                python_processes.append(process)
    return python_processes


class PeakMemory:
    """The largest PSS of a Python worker between enter and exit."""

    def __enter__(self):
        self.largest, self._is_done = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._is_done.wait(0.05):
            self.largest = max([self.largest, *(read_pss_mb(process.pid) for process in list_python_processes())])

    def __exit__(self, *_):
        self._is_done.set()
        self._thread.join()


def measure_load(servers: str, _: argparse.Namespace) -> dict[str, float]:
    """Time the first and the second ``load()`` of a session, and before them Spark's first query."""
    spark, tree = session(), ProcessTree(None)
    figures = {}
    figures["a query without sources, wall s"], figures["a query without sources, CPU s"] = time_work(
        tree, lambda: spark.range(1).collect()
    )
    for name in ("first", "second"):
        figures[f"{name}, wall s"], figures[f"{name}, CPU s"] = time_work(
            tree, lambda: spark_frame(spark, "kafka-topic", servers, "absent").schema
        )
    return figures


def measure_task(servers: str, options: argparse.Namespace) -> dict[str, float]:
    """Find the memory of a worker that passes rows on, and of one that reads a topic."""
    topic, _ = create_topic(servers, 1024, "lz4", options.megabytes * 4)
    spark = session({SOCKETS: "true"})
    with PeakMemory() as bare:
        spark.range(3_000_000).mapInArrow(lambda batches: batches, "id long").write.format("noop").mode(
            "overwrite"
        ).save()
    with PeakMemory() as ours:
        spark_frame(spark, "kafka-topic", servers, topic).write.format("noop").mode("overwrite").save()
    return {"bare, MB": bare.largest, "reading, MB": ours.largest, "above, MB": ours.largest - bare.largest}


def measure_idle(servers: str, _: argparse.Namespace) -> dict[str, float]:
    """Count the Python processes of an idle stream, and measure their memory."""
    spark = session()
    create_measured_topic(servers, "idle", 4)
    with tempfile.TemporaryDirectory() as checkpoint:
        reader = spark.readStream.format("kafka-topic").options(subscribe="idle", startingOffsets="earliest")
        stream = reader.option("kafka.bootstrap.servers", servers).load()
        query = stream.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        query.processAllAvailable()
        figures = {}
        for seconds in (5, IDLE_SECONDS):
            time.sleep(seconds)
            sizes = [read_pss_mb(process.pid) for process in list_python_processes()]
            figures |= {f"processes after {seconds} s": len(sizes), f"all after {seconds} s, MB": sum(sizes)}
        query.stop()
    return figures


def measure_partitions_plan(servers: str, _: argparse.Namespace) -> dict[str, float]:
    """Time planning, a count and a micro-batch of 500 topic partitions with a record each."""
    create_measured_topic(servers, "many", MANY)
    return measure_planning(servers, {"subscribe": "many"}, "many")


def measure_pattern_plan(servers: str, _: argparse.Namespace) -> dict[str, float]:
    """Time the same of 1,000 topics with a partition and a record each, which a pattern finds."""
    names = [f"many-{number}" for number in range(TOPICS)]
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=1) for name in names])
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"value": [b"v"] * TOPICS, "topic": names}))
    return measure_planning(servers, {"subscribePattern": "many-.*"}, names[0])


def measure_planning(servers: str, subscription: dict[str, str], topic: str) -> dict[str, float]:
    """Time planning, a count and micro-batches of one record of ``topic``."""
    spark, tree = session(), ProcessTree(None)
    spark_frame(spark, "kafka-topic", servers, "absent").printSchema()  # the first load is not planning
    frame = spark.read.format("kafka-topic").options(**subscription).option("kafka.bootstrap.servers", servers).load()
    figures = {}
    figures["plan, wall s"], figures["plan, CPU s"] = time_work(tree, lambda: frame._jdf.rdd().getNumPartitions())
    figures["count, wall s"], figures["count, CPU s"] = time_work(tree, frame.count)
    with tempfile.TemporaryDirectory() as checkpoint:
        reader = spark.readStream.format("kafka-topic").options(**subscription, startingOffsets="earliest")
        stream = reader.option("kafka.bootstrap.servers", servers).load()
        query = stream.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        query.processAllAvailable()
        with Producer(servers) as producer:
            for _ in range(5):
                producer.send(topic, b"v", partition=0).result()
                query.processAllAvailable()
        took = [one.durationMs for one in query.recentProgress if one.numInputRows == 1]
        query.stop()
    for name in ("triggerExecution", "latestOffset", "getBatch", "queryPlanning", "addBatch", "walCommit"):
        figures[f"micro-batch of one record, {name}, ms"] = statistics.median(one.get(name, 0) for one in took)
    return figures


def measure_settings(servers: str, options: argparse.Namespace) -> dict[str, float]:
    """Time a read with one set of settings."""
    config = READ_SETTINGS[options.setting]
    spark, tree = session(config), ProcessTree(None)
    small, large = (create_topic(servers, size, "lz4", options.megabytes)[0] for size in (100, 1024))
    figures = {}
    work = {
        "16 empty tasks": lambda: spark.range(0, 16, 1, 16).mapInArrow(lambda rows: rows, "id long").count(),
        "100 B": lambda: spark_frame(spark, "kafka-topic", servers, small).write.format("noop").mode("append").save(),
        "1 KiB": lambda: spark_frame(spark, "kafka-topic", servers, large).write.format("noop").mode("append").save(),
    }
    for name, run in work.items():
        run()
        times = [time_work(tree, run) for _ in range(options.rounds)]
        for unit, values in zip(("wall s", "CPU s"), zip(*times, strict=True), strict=True):
            figures[f"{name}, {unit}"] = statistics.median(values)
    return figures


def create_measured_topic(servers: str, name: str, partitions: int) -> None:
    """Create a topic with a record in each partition."""
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=partitions)])
    rows = {"value": [b"v"] * partitions, "partition": pa.array(range(partitions), pa.int32())}
    with Producer(servers) as producer:
        producer.send_arrow(pa.table(rows), topic=name)


MEASURED_PARTS = {
    "load": measure_load,
    "task": measure_task,
    "idle": measure_idle,
    "plan": measure_partitions_plan,
    "pattern": measure_pattern_plan,
    "settings": measure_settings,
}


def run_part(part: str, options: argparse.Namespace, setting: int = 0) -> dict[str, float]:
    """Run a part in a separate process, with a separate broker."""
    with tempfile.TemporaryDirectory(prefix="kf-bench-") as folder, start_broker(Path(folder)) as (servers, _):
        command = [sys.executable, __file__, part, "--here", servers, "--setting", str(setting)]
        command += ["--megabytes", str(options.megabytes), "--rounds", str(options.rounds)]
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(MEASURED_PARTS))
    parser.add_argument("--megabytes", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("--setting", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(MEASURED_PARTS[options.parts[0]](options.here, options)))
        return
    print("| part | | figure | load |\n|---|---|---|---|")
    for part in options.parts or MEASURED_PARTS:
        for at, config in enumerate(READ_SETTINGS if part == "settings" else READ_SETTINGS[:1]):
            name = part + "".join(f", {key}={value}" for key, value in config.items())
            for label, value in run_part(part, options, at).items():
                print(f"| {name} | {label} | {value:.2f} | {os.getloadavg()[0]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
