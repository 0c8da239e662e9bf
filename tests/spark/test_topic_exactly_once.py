"""Each micro-batch in one transaction: failures, kills and replays leave every row in the topic once.

The streams are written with ``write_topic`` and with ``writeStream.format``. ``test_topic_transaction.py`` tests
failures at each step of the protocol, without Spark. ``tests/jobs/write_topic`` tests the transaction process that
``writeStream.format`` starts.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable

import pyarrow as pa
import pytest
from tests.processes import descendants_of
from tests.spark.topics import recreate_topic

import kafkaframes
from kafkaframes.client import Consumer, Producer
from kafkaframes.spark.exactly_once.topic_stream_writer import _qualify_path
from kafkaframes.spark.progress.checkpoint_files import HadoopFiles

pytestmark = pytest.mark.spark


@pytest.fixture
def servers(brokers):
    recreate_topic(brokers.bootstrap_servers, "in", 2)
    recreate_topic(brokers.bootstrap_servers, "out", 3)
    return brokers.bootstrap_servers


def kill_workers() -> bool:
    """Kill the Python workers of this process's Spark, but not the daemons that fork them."""
    daemons = {each.pid for each in descendants_of(os.getpid()) if "pyspark.daemon" in each.arguments}
    return kill(each.pid for each in descendants_of(os.getpid()) if each.pid in daemons and each.parent in daemons)


def kill_an_executor() -> bool:
    """Kill one executor of the Spark application in this process. The executor's workers end by themselves a moment
    later.
    """
    return kill(
        [each.pid for each in descendants_of(os.getpid()) if "CoarseGrainedExecutorBackend" in each.arguments][:1]
    )


def kill(pids: Iterable[int]) -> bool:
    kills = [os.kill(pid, signal.SIGKILL) for pid in pids]
    return bool(kills)


def values(servers: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    with Consumer(servers, isolation_level=isolation, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        values = []
        while any(consumer.position(one) < end for one, end in ends.items()):
            values += consumer.fetch_arrow(2_000, columns=("value",))["value"].to_pylist()
        return values


def produce(servers: str, first: int, end: int) -> list[bytes]:
    rows = [f"v{n}".encode() for n in range(first, end)]
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"key": rows, "value": rows}), topic="in")
    return rows


@pytest.fixture(params=["write_topic", "format"])
def start(request):
    return {"write_topic": by_function, "format": by_format}[request.param]


def by_function(frame, options, checkpoint):
    return kafkaframes.spark.write_topic(frame, options, checkpoint=checkpoint, trigger={"availableNow": True})


def by_format(frame, options, checkpoint):
    writer = frame.writeStream.format("kafka-topic").options(**options, delivery="exactly-once")
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def run(spark, servers, checkpoint, start, *, failing: bool = False) -> None:
    stream = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    frame = stream.options(subscribe="in", startingOffsets="earliest").load()
    bad = "raise_error('a task fails')" if failing else "value"
    frame = frame.selectExpr("key", f"CASE WHEN value = 'v7' THEN {bad} ELSE value END AS value")
    options = {"kafka.bootstrap.servers": servers, "topic": "out"}
    assert start(frame, options, checkpoint).awaitTermination(240)


def test_a_failed_batch_and_one_repeated_after_its_commit(spark, servers, tmp_path, start):
    checkpoint = tmp_path / "checkpoint"
    expected_values = produce(servers, 0, 60)
    with pytest.raises(Exception, match="a task fails"):
        run(spark, servers, str(checkpoint), start, failing=True)
    assert values(servers, "out") == []
    run(spark, servers, str(checkpoint), start)
    assert sorted(values(servers, "out")) == sorted(expected_values)
    newest = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for name in (str(newest), f".{newest}.crc"):  # as if the query had been killed before it stored its commit
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    expected_values += produce(servers, 60, 90)
    run(spark, servers, str(checkpoint), start)
    assert sorted(values(servers, "out")) == sorted(expected_values)
    shutil.rmtree(checkpoint)


def test_workers_killed_while_they_send(spark, brokers, servers, tmp_path):
    on = brokers.on
    expected_values = produce(servers, 0, 60)
    with on("Produce", topic="out", where=lambda _: kill_workers()).once().delay(1) as rule:
        run(spark, servers, str(tmp_path), by_function)
    assert rule.count
    assert sorted(values(servers, "out")) == sorted(expected_values)


def test_killed_workers_end_a_format_query_and_its_next_run_writes_all_rows(spark, brokers, servers, tmp_path):
    expected_values = produce(servers, 0, 60)
    with (
        brokers.on("Produce", topic="out", where=lambda _: kill_workers()).once().delay(1) as rule,
        pytest.raises(Exception, match=r"was lost|exited unexpectedly|Writing job failed"),
    ):
        run(spark, servers, str(tmp_path), by_format)
    assert rule.count
    assert values(servers, "out") == []
    run(spark, servers, str(tmp_path), by_format)
    assert sorted(values(servers, "out")) == sorted(expected_values)


def test_a_query_switches_between_both_ways_to_write(spark, servers, tmp_path):
    expected_values = []
    for round_, start in enumerate((by_function, by_format, by_function)):
        expected_values += produce(servers, 20 * round_, 20 * round_ + 20)
        run(spark, servers, str(tmp_path / "checkpoint"), start)
        newest = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        newest.unlink()  # as if the query had been killed before it stored its commit: the other one knows the marker
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    run(spark, servers, str(tmp_path / "checkpoint"), by_format)
    assert sorted(values(servers, "out")) == sorted(expected_values)


# The broker's side of a connection that is opened while its node stops is not always closed before it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("collect_garbage")
def test_a_broker_that_restarts_in_a_micro_batch(spark, brokers, servers, tmp_path, start):
    on = brokers.on
    expected_values = produce(servers, 0, 60)
    restarts = []

    def restart():
        brokers.stop_node(1)
        time.sleep(0.3)
        brokers.start_node(1)

    def begin(_):
        restarts.append(threading.Thread(target=restart))
        restarts[-1].start()
        return True

    rule = on("Produce", topic="out", where=begin).once().delay(1)
    run(spark, servers, str(tmp_path), start)
    rule.remove()
    restarts[0].join()
    assert sorted(values(servers, "out")) == sorted(expected_values)


def test_all_spellings_of_a_checkpoint_path_are_the_same_sink(spark, tmp_path):
    for path in (f"{tmp_path}/c", f"{tmp_path}/c/", f"file://{tmp_path}/c", f"file:{tmp_path}/d/../c"):
        assert _qualify_path(path) == HadoopFiles(spark, path).path == f"file:{tmp_path}/c"


CLUSTER = """
import sys
import kafkaframes
small = {"spark.executor.memory": "512m"}
spark = kafkaframes.spark.session("lost", master="local-cluster[2,1,1024]", memory="512m", config=small)
servers, checkpoint = sys.argv[1:]
options = {"kafka.bootstrap.servers": servers}
stream = spark.readStream.format("kafka-topic").options(**options, subscribe="in", startingOffsets="earliest").load()
query = kafkaframes.spark.write_topic(
    stream.select("key", "value"), {**options, "topic": "out"}, checkpoint=checkpoint, trigger={"availableNow": True}
)
assert query.awaitTermination(240)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("small_java")
def test_a_cluster_that_loses_workers_and_an_executor_continues_without_repeating_hopeless_tasks(
    brokers, servers, tmp_path
):
    kills = iter([kill_workers, kill_an_executor])
    expected_values = produce(servers, 0, 60)
    with (
        brokers.on("Produce", topic="out", where=lambda _: next(kills, bool)()).delay(1) as rule,
        (tmp_path / "errors").open("w+") as errors,
    ):
        command = [sys.executable, "-c", CLUSTER, servers, str(tmp_path / "checkpoint")]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.run(command, env=environ, stderr=errors, timeout=280, check=False)
        errors.seek(0)
        text = errors.read()
    assert process.returncode == 0, text
    assert rule.count
    assert sorted(values(servers, "out")) == sorted(expected_values)
    assert "micro-batch 0 is written again" in text
    assert set(re.findall(r"Lost task \d+\.(\d+)", text)) == {"0"}  # attempts; Spark would repeat each one three times
