"""Kill drivers, workers and brokers of an exactly-once stream repeatedly, then count its rows.

A broker, a continuous producer, and a driver with a stream from ``in`` to ``out`` are separate processes. In each
round, one of the processes is killed with SIGKILL at a random moment, or a response from the broker is dropped after
the request was processed. Sometimes a second fault follows immediately. A driver is restarted from its checkpoint, a
broker on its directory. Sometimes the driver is restarted on an older copy of its checkpoint, with
``onForeignMarker=skip``; without that option, the query would stop. At the end, ``out``, read with ``read_committed``,
must contain each row once, and the rows of a key in order. With ``--master local-cluster[2,1,1024]`` executors are
killed as well. Queries that end without a killed driver are counted. With ``--format`` the stream writes by
``writeStream.format``, the process that holds its transaction is killed as well, and no older checkpoint is restored.

    python -m tests.soak.spark_exactly_once [--rounds 100] [--seed 1] [--seconds 3600] [--master "local[2]"] [--format]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from tests.processes import descendants_of

from kafkaframes.client import Admin, Consumer, NewTopic, Producer
from kafkaframes.errors import KafkaframesError

ROWS, KEYS = 200, 13
BROKER_SCRIPT = """
import sys, threading
from kafkaframes.broker import Broker
with Broker(data_dir=sys.argv[1], port=int(sys.argv[2])) as broker:
    print(broker.port, flush=True)
    for line in sys.stdin:
        broker.on(line.strip()).once().drop_reply()
"""
DRIVER_SCRIPT = """
import os, sys
import kafkaframes
servers, checkpoint, master, form, foreign = sys.argv[1:]
small = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
small |= {"spark.executor.memory": "512m", "spark.deploy.maxExecutorRetries": "-1"}
spark = kafkaframes.spark.session("soak", master=master, memory="512m", config=small)
kafkaframes.spark.register(spark)
spark.sparkContext.setLogLevel("OFF")
options = {"kafka.bootstrap.servers": servers}
stream = spark.readStream.format("kafka-topic").options(**options, subscribe="in", startingOffsets="earliest").load()
print("started", flush=True)
while True:
    rows, to = stream.select("key", "value"), {**options, "topic": "out"}
    trigger = {"processingTime": "200 milliseconds"}
    if form == "format":
        writer = rows.writeStream.format("kafka-topic").options(**to, delivery="exactly-once").trigger(**trigger)
        query = writer.option("checkpointLocation", checkpoint).start()
    else:
        to["onForeignMarker"] = foreign
        query = kafkaframes.spark.write_topic(rows, to, checkpoint=checkpoint, trigger=trigger)
    try:
        query.awaitTermination()
    except Exception as error:
        with open(checkpoint + ".ended", "a") as ended:
            ended.write(str(error).replace("\\n", " ") + "\\n")
"""
APIS_TO_DROP = ("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn", "Fetch", "ListOffsets", "Metadata")


class RestartableProcess:
    """A process that can be killed and started again."""

    def __init__(self, code: str, *arguments: str) -> None:
        self._command = [sys.executable, "-c", code, *arguments]
        self._process: subprocess.Popen[str] | None = None

    def start(self, *more: str) -> str:
        """Start the process, optionally with more arguments. Return the process's first output line."""
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(
            [*self._command, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def send_line(self, line: str) -> None:
        """Send the process a line."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill the process and all its descendants at once."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid


def find_workers(driver: int) -> list[int]:
    """Return the Python workers of a driver and of its executors, which ``pyspark.daemon`` has forked."""
    python_daemons = [each for each in descendants_of(driver) if "pyspark.daemon" in each.arguments]
    daemons = {each.pid for each in python_daemons}
    return [each.pid for each in python_daemons if each.parent in daemons]


def find_executors(driver: int) -> list[int]:
    """Return the executors of a driver that are separate processes."""
    return [each.pid for each in descendants_of(driver) if "CoarseGrainedExecutorBackend" in each.arguments]


def find_transaction_holders() -> list[int]:
    """Return the processes that hold transactions of ``writeStream.format``.

    The parents of these processes may have ended.
    """
    return [each.pid for each in descendants_of(1) if "write_topic.transaction_process" in each.arguments]


def produce(servers: str, first: int) -> None:
    """Write rows with consecutive numbers. Failed writes are retried until the broker accepts the rows."""
    rows = {
        "key": [b"k%d" % (n % KEYS) for n in range(first, first + ROWS)],
        "value": [b"%d" % n for n in range(first, first + ROWS)],
    }
    with Producer(servers) as producer:
        producer.send_arrow(pa.table(rows), topic="in")


def read_written(servers: str) -> list[tuple[bytes, int]]:
    """Return the key and number of each row that a read_committed consumer reads, in order."""
    with Consumer(servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for("out")
        consumer.assign(partitions)
        ends, rows_so_far = consumer.end_offsets(partitions), []
        while any(consumer.position(one) < end for one, end in ends.items()):
            table = consumer.fetch_arrow(2_000, columns=("key", "value"))
            rows_so_far += zip(table["key"].to_pylist(), map(int, table["value"].to_pylist()), strict=True)
    return rows_so_far


def check(rows: list[tuple[bytes, int]], total: int) -> None:
    """Raise unless each row exists once, and the rows of a key are in order."""
    numbers = [number for _, number in rows]
    missing, double = set(range(total)) - set(numbers), len(numbers) - len(set(numbers))
    if missing or double:
        raise SystemExit(f"FAILED: {len(missing)} rows missing ({sorted(missing)[:5]}), {double} written twice")
    for key in {key for key, _ in rows}:
        numbers_of_key = [number for one, number in rows if one == key]
        if numbers_of_key != sorted(numbers_of_key):
            raise SystemExit(f"FAILED: rows of key {key!r} are out of order")


def restart_driver(driver: RestartableProcess, checkpoint: Path, *, is_restored: bool) -> str:
    """Kill the driver and restart it, perhaps on the copy of the checkpoint from its last kill. Return a
    description.
    """
    driver.kill()
    copy, newer = checkpoint.with_name("copy"), checkpoint.with_name("newer")
    if checkpoint.exists():
        shutil.copytree(checkpoint, newer)
    is_restored = is_restored and copy.exists()
    if is_restored:
        shutil.rmtree(checkpoint)
        copy.rename(checkpoint)
    shutil.rmtree(copy, ignore_errors=True)
    if newer.exists():
        newer.rename(copy)
    newest = newest_committed_batch(checkpoint)
    driver.start("skip" if is_restored else "error")
    return f"driver, {'restored' if is_restored else 'again'} at micro-batch {newest}"


def newest_committed_batch(checkpoint: Path) -> int:
    """Return the newest committed micro-batch of a checkpoint; -1 if there is none."""
    return max((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), default=-1)


def wait_for_progress(checkpoint: Path, before: int) -> None:
    """Wait at most a minute until a micro-batch is committed, so that the next fault hits a running process."""
    deadline = time.monotonic() + 60
    while newest_committed_batch(checkpoint) <= before and time.monotonic() < deadline:
        time.sleep(0.1)


def inject_fault(
    broker: RestartableProcess, driver: RestartableProcess, checkpoint: Path, rng: random.Random, form: str
) -> str:
    """Inject one random fault. Return its description."""
    executors = find_executors(driver.pid)
    special_faults = ("restored",) if form == "write_topic" else ("holder", "holder")
    fault = rng.choice(
        ("driver", *special_faults, "workers", "workers", "broker", *("reply",) * 4, *("executor",) * len(executors))
    )
    if fault in ("driver", "restored"):
        return restart_driver(driver, checkpoint, is_restored=fault == "restored")
    if fault == "workers":
        for worker in find_workers(driver.pid):
            os.kill(worker, signal.SIGKILL)
    elif fault == "holder":
        for process in find_transaction_holders():
            os.kill(process, signal.SIGKILL)
    elif fault == "executor":
        os.kill(rng.choice(executors), signal.SIGKILL)
    elif fault == "broker":
        broker.kill()
        time.sleep(rng.random())
        broker.start()
    else:
        api = rng.choice(APIS_TO_DROP)
        broker.send_line(api)
        fault = f"reply of {api}"
    return fault


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=3600, help="no new round starts after this time")
    parser.add_argument("--master", default="local[2]", help="master of the driver's Spark session")
    parser.add_argument("--format", action="store_true", help="write by writeStream.format")
    options = parser.parse_args()
    form = "format" if options.format else "write_topic"
    print(f"seed {options.seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="kf-soak-")
    try:
        run(
            folder,
            options.rounds,
            random.Random(options.seed),
            time.monotonic() + options.seconds,
            options.master,
            form,
        )
    except BaseException:
        print(f"broker and checkpoint directories are kept in {folder}", flush=True)
        raise
    shutil.rmtree(folder)


def run(folder: str, max_rounds: int, rng: random.Random, deadline: float, master: str, form: str) -> None:
    """Inject a fault in each round, then count the rows. Broker and checkpoint directories are in ``folder``."""
    first = RestartableProcess(BROKER_SCRIPT, f"{folder}/data", "0")
    port = first.start()
    first.kill()
    broker, servers = RestartableProcess(BROKER_SCRIPT, f"{folder}/data", port), f"127.0.0.1:{port}"
    broker.start()
    checkpoint = Path(folder, "checkpoint")
    driver = RestartableProcess(DRIVER_SCRIPT, servers, str(checkpoint), master, form)
    try:
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="in", num_partitions=2), NewTopic(name="out", num_partitions=3)])
        driver.start("error")
        total, rounds = 0, 0
        while rounds < max_rounds and time.monotonic() < deadline:
            before = newest_committed_batch(checkpoint)
            produce(servers, total)
            total += ROWS
            wait_for_progress(checkpoint, before)
            time.sleep(rng.random() * 2)
            if rng.random() < 0.7:  # so that a micro-batch is in progress
                produce(servers, total)
                total += ROWS
                time.sleep(rng.random() * 0.5)
            faults = [inject_fault(broker, driver, checkpoint, rng, form) for _ in range(rng.choice((1, 1, 1, 2)))]
            print(f"round {rounds}: {', then '.join(faults)}", flush=True)
            rounds += 1
        wait_for_rows(servers, total)
        check(read_written(servers), total)
        ended_processes = (
            Path(f"{checkpoint}.ended").read_text().splitlines() if Path(f"{checkpoint}.ended").exists() else []
        )
        print(
            f"OK: {rounds} rounds; each of {total} rows exists once, in order; {len(ended_processes)} queries ended",
            flush=True,
        )
        print("\n".join(text[:300] for text in ended_processes))
    finally:
        driver.kill()
        broker.kill()


def wait_for_rows(servers: str, total: int) -> None:
    """Wait at most two minutes until all rows are written."""
    deadline, count = time.monotonic() + 120, -1
    while count < total and time.monotonic() < deadline:
        time.sleep(1)
        try:
            count = len(read_written(servers))
        except KafkaframesError:
            continue


if __name__ == "__main__":
    main()
