"""Measure many streams in one Spark driver: CPU time until each has run a micro-batch, peak and idle memory.

    python benchmarks/spark_fleet.py [--streams 20] [--before SRC] [--sides bare,kafka-topic,kafka]

Results: benchmarks/results/spark_fleet.md. Each side runs in a process and a session of its own (``local[2]``), and the
streams read a topic of one record each:

* ``bare``: a Python source that imports nothing of this package. Its figures are those of Spark's own runner.
* ``kafka-topic``: this source. With ``--before``, the folder ``src`` of another checkout is measured, too.
* ``kafka``: Spark's own connector, if Maven can fetch its jars.

The broker is another process, and is in no figure. Memory is the PSS of all Python processes below Spark's JVM. CPU
seconds are those of these processes, including the ones that have ended, and of the JVM after its first query.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

ROOT_FOLDER = Path(__file__).parents[1]
IDLE_SECONDS = 90  # Spark ends workers that were idle for a minute
TIMEOUT_SECONDS = 300
FORM_NAMES = ("bare", "kafka-topic", "kafka")


class BareReader(DataSourceStreamReader):
    """A stream of one micro-batch with one row."""

    def initialOffset(self):  # noqa: N802 (Spark's name, as those below)
        return {"offset": 0}

    def latestOffset(self):  # noqa: N802
        return {"offset": 1}

    def partitions(self, start, end):
        return [InputPartition(end["offset"])]

    def read(self, partition):
        yield (b"v",)


class BareSource(DataSource):
    """A Spark data source that starts a ``BareReader``."""

    @classmethod
    def name(cls):
        return "bare"

    def schema(self):
        return "value binary"

    def streamReader(self, schema):  # noqa: N802
        return BareReader()


class ProcessSampler(threading.Thread):
    """Samples the Python processes below this one: their PSS, and the CPU time of each one."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_mb, self._is_done = 0.0, threading.Event()
        self._seconds: dict[int, float] = {}

    def run(self) -> None:
        while not self._is_done.wait(0.2):
            self.sample_processes()

    def sample_processes(self) -> float:
        """Return the current PSS in megabytes."""
        from spark_costs import list_python_processes, read_pss_mb

        total = 0.0
        for process in list_python_processes():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            self._seconds[process.pid] = times.user + times.system
            total += read_pss_mb(process.pid)
        self.peak_mb = max(self.peak_mb, total)
        return total

    @property
    def python_seconds(self) -> float:
        return sum(self._seconds.values())

    def stop(self) -> None:
        self._is_done.set()
        self.join()


def read_jvm_seconds() -> float:
    """Return the CPU time of the JVM."""
    (jvm,) = [one for one in psutil.Process().children(recursive=True) if "java" in one.name()]
    times = jvm.cpu_times()
    return times.user + times.system


def measure_streams(form: str, servers: str, count: int) -> dict[str, float]:
    """Start the streams in a session of this process."""
    import kafkaframes
    from spark_topic import ProcessTree

    config = {"spark.ui.enabled": "false"}
    if form == "kafka":
        sys.path.insert(0, str(ROOT_FOLDER))
        from tests.interop import connector

        config["spark.jars"] = ",".join(map(str, connector.find_jars()))
    spark = kafkaframes.spark.session("fleet", master="local[2]", memory="1g", config=config)
    spark.dataSource.register(BareSource)
    spark.range(1).collect()
    tree, watch = ProcessTree(None), ProcessSampler()
    begin, begin_jvm, wall = tree.read_cpu_seconds(), read_jvm_seconds(), time.monotonic()
    watch.start()
    queries = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            reader = spark.readStream.format(form)
            if form != "bare":
                reader = reader.options(subscribe=f"fleet-{number}", startingOffsets="earliest")
                reader = reader.option("kafka.bootstrap.servers", servers)
            writer = reader.load().writeStream.format("noop").option("checkpointLocation", f"{folder}/{number}")
            queries.append(writer.trigger(processingTime="1 second").start())
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not all(query.lastProgress and query.recentProgress[0].numInputRows for query in queries):
            failures = [query.exception() for query in queries if query.exception() is not None]
            if failures or time.monotonic() > deadline:
                raise SystemExit(f"{len(failures)} of {count} streams failed: {failures[:1]}")
            time.sleep(0.1)
        watch.sample_processes()
        result = {
            "wall s": time.monotonic() - wall,
            "CPU s": tree.read_cpu_seconds() - begin,
            "of these JVM, CPU s": read_jvm_seconds() - begin_jvm,
            "of these Python, CPU s": watch.python_seconds,
            "peak, MB": watch.peak_mb,
        }
        time.sleep(IDLE_SECONDS)
        watch.stop()
        result |= {"idle, MB": watch.sample_processes(), "still active": sum(query.isActive for query in queries)}
        for query in queries:
            query.stop()
    return result


def run_form(form: str, source: Path, count: int) -> dict[str, float]:
    from kafkaframes.client import Admin, NewTopic, Producer
    from spark_topic import start_broker

    with tempfile.TemporaryDirectory(prefix="kf-bench-") as folder, start_broker(Path(folder)) as (servers, _):
        names = [f"fleet-{number}" for number in range(count)]
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name=name, num_partitions=1) for name in names])
        with Producer(servers) as producer:
            for name in names:
                producer.send(name, b"v")
        command = [sys.executable, __file__, "--here", servers, "--sides", form, "--streams", str(count)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(source), str(ROOT_FOLDER / "benchmarks")])}
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    result: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--before", type=Path, help="the folder src of another checkout")
    parser.add_argument("--sides", default=",".join(FORM_NAMES))
    parser.add_argument("--here", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps(measure_streams(arguments.sides, arguments.here, arguments.streams)))
        return
    sides = [(form, form, ROOT_FOLDER / "src") for form in arguments.sides.split(",")]
    if arguments.before:
        sides.append(("kafka-topic, before", "kafka-topic", arguments.before.absolute()))
    header = None
    for label, form, source in sides:
        figures = run_form(form, source, arguments.streams)
        if header is None:
            header = list(figures)
            print(f"| {arguments.streams} streams | {' | '.join(header)} | load |\n|{'---|' * (len(header) + 2)}")
        cells = " | ".join(f"{figures[name]:.1f}" for name in header)
        print(f"| {label} | {cells} | {os.getloadavg()[0]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
