"""Logs and live topics are read on clusters that share no files with the driver: a standalone cluster on loopback, and
Spark Connect.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer
from kafkaframes.kernels import demand
from kafkaframes.kernels import directories as places
from kafkaframes.spark.sessions import java

LOGS = Path(__file__).parents[2] / "examples" / "logs" / "kafka-4.3"
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
ORDER_COUNT = 6000
READ_SCRIPT = """
    import sys
    import kafkaframes
    spark = kafkaframes.spark.session({session})
    log = spark.read.format("kafka-log").option("subscribe", "orders").load(sys.argv[1])
    print("records", log.count(), "topics", log.select("topic").distinct().count())
    spark.stop()
"""
# A script that reads a topic, writes another one exactly once in micro-batches, of which one runs twice, and prints the
# result.
TOPICS_SCRIPT = """
    import sys, tempfile
    from pathlib import Path
    import kafkaframes
    spark = kafkaframes.spark.session({session})
    kafkaframes.spark.register(spark)
    options = {{"kafka.bootstrap.servers": sys.argv[1]}}
    def run(checkpoint):
        stream = spark.readStream.format("kafka-topic").options(**options, subscribe="in", startingOffsets="earliest")
        frame = stream.option("maxOffsetsPerTrigger", 400).load().select("key", "value")
        how = {{"checkpoint": checkpoint, "trigger": {{"availableNow": True}}, "query_name": "copy"}}
        query = kafkaframes.spark.write_topic(frame, options | {{"topic": "out"}}, **how)
        query.awaitTermination()
    told = []
    with tempfile.TemporaryDirectory() as folder:
        watch = kafkaframes.spark.watch_topics
        with watch(spark, options, query_name="copy", group_id="lag", report=told.append):
            run(folder)
        commits = Path(folder, "commits")
        newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for name in (str(newest), f".{{newest}}.crc"):
            (commits / name).unlink(missing_ok=True)
        run(folder)
    out = spark.read.format("kafka-topic").options(**options, subscribe="out").option(
        "kafka.isolation.level", "read_committed").load()
    print("rows", out.count(), "different", out.select("value").distinct().count(), "behind", told[-1].offsets_behind)
    spark.stop()
"""

# A script that reuses a DataFrame after records were added, for counts, a view, a self-join and a stream's lookups.
REUSE_SCRIPT = """
    import sys, tempfile
    import kafkaframes
    from kafkaframes.client import Producer
    spark = kafkaframes.spark.session({session})
    kafkaframes.spark.register(spark)
    options = {{"kafka.bootstrap.servers": sys.argv[1]}}
    frame = spark.read.format("kafka-topic").options(**options, subscribe="in").load()
    frame.createOrReplaceTempView("reused")
    def counts():
        joined = frame.alias("a").join(frame.alias("b"), ["partition", "offset"]).count()
        return frame.count(), spark.sql("SELECT count(*) FROM reused").first()[0], joined
    first = counts()
    with Producer(sys.argv[1]) as producer:
        for number in range(5):
            producer.send("in", b"w%d" % number, partition=number % 3)
    second = counts()
    looked_up = []
    if not {is_remote}:
        stream = spark.readStream.format("kafka-topic").options(**options, subscribe="in", startingOffsets="earliest")
        with tempfile.TemporaryDirectory() as folder:
            writer = stream.load().writeStream.foreachBatch(lambda batch, number: looked_up.append(frame.count()))
            query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
            query.awaitTermination()
    print("counts", first, second, looked_up)
    spark.stop()
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def environment() -> dict[str, str]:
    home = str(java.require_java((17, 21, 25)).home)
    source = str(Path(__file__).parents[2] / "src")
    return os.environ | {
        "JAVA_HOME": home,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(SPARK_CLASS.parents[1]),
    }


def run(session: str, code: str = READ_SCRIPT, argument: str = str(LOGS)) -> str:
    text = textwrap.dedent(code.format(session=session, is_remote="remote=" in session))
    process = subprocess.run(
        [sys.executable, "-c", text, argument],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


@pytest.fixture
def standalone_cluster(tmp_path: Path) -> Iterator[str]:
    """A master and two workers, each in a separate process."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    commands = [
        ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
        *(
            [
                "org.apache.spark.deploy.worker.Worker",
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
                "-c",
                "1",
                "-m",
                "1g",
                "-d",
                str(tmp_path / f"worker-{number}"),
                master,
            ]
            for number in range(2)
        ),
    ]
    processes = []
    logs = []
    try:
        for number, command in enumerate(commands):
            log, home = tmp_path / f"{number}.log", tmp_path / f"home-{number}"
            home.mkdir()  # simulates a machine without this package
            logs.append(log)
            log_stream = log.open("w")
            process_environment = environment() | {"HOME": str(home), "TMPDIR": str(home), "XDG_CACHE_HOME": ""}
            processes.append(
                subprocess.Popen([SPARK_CLASS, *command], env=process_environment, stdout=log_stream, stderr=log_stream)
            )
            log_stream.close()
        deadline = time.monotonic() + 90
        while logs[0].read_text().count("Registering worker") < 2:
            assert time.monotonic() < deadline, "\n".join(log.read_text()[-1500:] for log in logs)
            time.sleep(0.5)
        yield master
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


@pytest.mark.parametrize("is_shipped", ["true", "false"])
def test_a_standalone_cluster_of_two_workers_with_empty_homes_reads_every_record(
    standalone_cluster, tmp_path, is_shipped
):
    demand.compile_modules(demand.list_kernel_modules(), folder=places.cache_folder(), report=demand.print_progress)
    settings = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.cores.max": "2"}
    settings["spark.kafkaframes.shipKernels"] = is_shipped
    out = run(f"master={standalone_cluster!r}, config={settings!r}")
    assert f"records {ORDER_COUNT} topics 1" in out
    worker_logs = [path.read_text() for path in tmp_path.glob("worker-*/app-*/*/stderr")]
    assert worker_logs
    compiling_logs = [text for text in worker_logs if "compiling kernels" in text]
    assert bool(compiling_logs) == (is_shipped == "false")
    assert bool(list(tmp_path.glob("home-*/.cache/kafkaframes/*.so"))) == (is_shipped == "false")


def test_spark_connect_reads_every_record():
    pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio, grpcio-status, googleapis-common-protos")
    pytest.importorskip("grpc_status")
    assert f"records {ORDER_COUNT} topics 1" in run("remote='local[2]'")


@pytest.fixture
def topics() -> Iterator[str]:
    """A broker with a thousand rows in the topic ``in``."""
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name="in", num_partitions=3), NewTopic(name="out", num_partitions=3)])
        rows = {"key": [b"k%d" % (n % 50) for n in range(1_000)], "value": [b"v%d" % n for n in range(1_000)]}
        with Producer(broker.bootstrap_servers) as producer:
            producer.send_arrow(pa.table(rows), topic="in")
        yield broker.bootstrap_servers


@pytest.mark.parametrize("where", ["local-cluster[2,1,1024]", "standalone", "connect"])
def test_live_topics_are_read_and_written_exactly_once(where, topics, request):
    session = f"master={where!r}"
    if where == "connect":
        pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio and others")
        pytest.importorskip("grpc_status")
        session = "remote='local[2]'"
    if where == "standalone":
        settings = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.cores.max": "2"}
        session = f"master={request.getfixturevalue('standalone_cluster')!r}, config={settings!r}"
    assert "rows 1000 different 1000 behind 0" in run(session, TOPICS_SCRIPT, topics)


@pytest.mark.parametrize("where", ["local-cluster[2,1,1024]", "standalone", "connect"])
def test_each_action_reads_a_topic_dataframe_again(where, topics, request):
    """Tasks on workers request their offsets from the driver. With Connect, the server plans and runs the query."""
    session, looked_up = f"master={where!r}", [1_005]
    if where == "connect":
        pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio and others")
        pytest.importorskip("grpc_status")
        session, looked_up = "remote='local[2]'", []
    if where == "standalone":
        settings = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.cores.max": "2"}
        session = f"master={request.getfixturevalue('standalone_cluster')!r}, config={settings!r}"
    expected_line = f"counts {(1_000,) * 3} {(1_005,) * 3} {looked_up}"
    assert expected_line in run(session, REUSE_SCRIPT, topics)


@pytest.mark.parametrize("where", ["local-cluster[2,1,1024]", "standalone"])
def test_a_table_of_a_live_topic_is_written_by_executors(where, topics, request, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    master = request.getfixturevalue("standalone_cluster") if where == "standalone" else where
    command = [sys.executable, "-m", "kafkaframes", "table", "in", "-b", topics, "--master", master, "--json"]
    for read in (1_000, 0):  # a second run finds no new records
        process = subprocess.run(
            [*command, "--to", "delta", str(tmp_path / "table")],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert process.returncode == 0, process.stderr[-3000:]
        assert json.loads(process.stdout)["records"] == read
    rows = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table()
    assert sorted(rows["value"].to_pylist()) == sorted(b"v%d" % number for number in range(1_000))
