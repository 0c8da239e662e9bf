"""Each micro-batch in one transaction: failures, kills and replays leave every row in the topic once.

What is cut off at each step of the protocol: ``test_topic_transaction.py``, without Spark.
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
from tests.spark.topics import make_anew

import kafkaframes
from kafkaframes.client import Consumer, Producer

pytestmark = pytest.mark.spark


@pytest.fixture
def servers(brokers):
    make_anew(brokers.bootstrap_servers, "in", 2)
    make_anew(brokers.bootstrap_servers, "out", 3)
    return brokers.bootstrap_servers


def kill_workers() -> bool:
    """Kill the Python workers of this process's Spark, not the daemons that make them."""
    daemons = {each.pid for each in descendants_of(os.getpid()) if "pyspark.daemon" in each.arguments}
    return kill(each.pid for each in descendants_of(os.getpid()) if each.pid in daemons and each.parent in daemons)


def kill_an_executor() -> bool:
    """Kill one of its executors; that one's workers end a moment later by themselves."""
    return kill(
        [each.pid for each in descendants_of(os.getpid()) if "CoarseGrainedExecutorBackend" in each.arguments][:1]
    )


def kill(pids: Iterable[int]) -> bool:
    killed = [os.kill(pid, signal.SIGKILL) for pid in pids]
    return bool(killed)


def values(servers: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    with Consumer(servers, isolation_level=isolation, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found = []
        while any(consumer.position(one) < end for one, end in ends.items()):
            found += consumer.fetch_arrow(2_000, columns=("value",))["value"].to_pylist()
        return found


def produce(servers: str, first: int, end: int) -> list[bytes]:
    rows = [f"v{n}".encode() for n in range(first, end)]
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"key": rows, "value": rows}), topic="in")
    return rows


def run(spark, servers, checkpoint, *, failing: bool = False) -> None:
    stream = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    frame = stream.options(subscribe="in", startingOffsets="earliest").load()
    bad = "raise_error('a task fails')" if failing else "value"
    frame = frame.selectExpr("key", f"CASE WHEN value = 'v7' THEN {bad} ELSE value END AS value")
    options = {"kafka.bootstrap.servers": servers, "topic": "out"}
    query = kafkaframes.spark.write_topic(frame, options, checkpoint=checkpoint, trigger={"availableNow": True})
    assert query.awaitTermination(240)


def test_a_failed_batch_and_one_that_is_repeated_after_its_commit(spark, servers, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    wanted = produce(servers, 0, 60)
    with pytest.raises(Exception, match="a task fails"):
        run(spark, servers, str(checkpoint), failing=True)
    assert values(servers, "out") == []
    run(spark, servers, str(checkpoint))
    assert sorted(values(servers, "out")) == sorted(wanted)
    newest = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for name in (str(newest), f".{newest}.crc"):  # as if the query had been killed before it noted its commit
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    wanted += produce(servers, 60, 90)
    run(spark, servers, str(checkpoint))
    assert sorted(values(servers, "out")) == sorted(wanted)
    shutil.rmtree(checkpoint)


def test_workers_that_are_killed_while_they_send(spark, brokers, servers, tmp_path):
    on = brokers.on
    wanted = produce(servers, 0, 60)
    with on("Produce", topic="out", where=lambda _: kill_workers()).once().delay(1) as rule:
        run(spark, servers, str(tmp_path))
    assert rule.seen
    assert sorted(values(servers, "out")) == sorted(wanted)


# the broker's side of a connection that is opened while its node stops is not always closed before it is collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("collected")
def test_a_broker_that_goes_down_and_comes_back_in_a_micro_batch(spark, brokers, servers, tmp_path):
    on = brokers.on
    wanted = produce(servers, 0, 60)
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
    run(spark, servers, str(tmp_path))
    rule.remove()
    restarts[0].join()
    assert sorted(values(servers, "out")) == sorted(wanted)


CLUSTER = """
import sys
import kafkaframes
small = {"spark.executor.memory": "512m", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
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
def test_a_cluster_that_loses_workers_and_then_an_executor_goes_on_and_repeats_no_doomed_task(
    brokers, servers, tmp_path
):
    kills = iter([kill_workers, kill_an_executor])
    wanted = produce(servers, 0, 60)
    with (
        brokers.on("Produce", topic="out", where=lambda _: next(kills, bool)()).delay(1) as rule,
        (tmp_path / "errors").open("w+") as errors,
    ):
        command = [sys.executable, "-c", CLUSTER, servers, str(tmp_path / "checkpoint")]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        ended = subprocess.run(command, env=environ, stderr=errors, timeout=280, check=False)
        errors.seek(0)
        text = errors.read()
    assert ended.returncode == 0, text
    assert rule.seen
    assert sorted(values(servers, "out")) == sorted(wanted)
    assert "micro-batch 0 is written anew" in text
    assert set(re.findall(r"Lost task \d+\.(\d+)", text)) == {"0"}  # attempts; Spark would repeat each three times
