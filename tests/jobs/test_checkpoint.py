"""``kafka-topic`` continues a checkpoint of Spark's own connector, including state; inspection and conversion."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.checkpoint import convert_checkpoint, read_checkpoint

CONNECTOR = Path(__file__).parents[1] / "data" / "checkpoints" / "connector"


@pytest.fixture
def checkpoint(tmp_path):
    return Path(shutil.copytree(CONNECTOR, tmp_path / "checkpoint"))


@pytest.fixture
def first_in_flight(checkpoint):
    """The state that the connector leaves when it is killed in a query's first micro-batch."""
    (checkpoint / "commits" / "0").unlink()
    return checkpoint


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "delta"}, "unknown format 'delta'; expected kafka, kafka-topic"),
        ({"target": "kafka", "topics": {"other": "x"}}, "unknown topic other; the checkpoint has in"),
    ],
)
def test_checkpoints_that_cannot_be_converted_are_rejected(checkpoint, tmp_path, settings, message):
    with pytest.raises(OptionError, match=message):
        convert_checkpoint(checkpoint, tmp_path / "to", **settings)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metadata", b"[]"),
        ("metadata", b'{"id": 7}'),
        ("offsets/0", b""),
        ("offsets/0", b"v9\n{}\n{}"),
        ("offsets/0", b"v1"),
        ("offsets/0", b"v1\n\xff"),
    ],
)
def test_damaged_files_are_named(checkpoint, name, content):
    (checkpoint / name).write_bytes(content)
    with pytest.raises(LogDirError, match=name):
        read_checkpoint(checkpoint)
    with pytest.raises(LogDirError, match="is not a checkpoint"):
        read_checkpoint(checkpoint / "offsets")


# With Spark


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name="in", num_partitions=2)])
        rows = {"key": [f"k{n % 7}" for n in range(70)], "value": [f"v{n}" for n in range(70)]}
        with Producer(broker.bootstrap_servers) as producer:
            producer.send_arrow(pa.table(rows).slice(0, 50), topic="in")
            producer.send_arrow(pa.table(rows).slice(50), topic="in")
        yield broker.bootstrap_servers


def counts(spark, servers, checkpoint, starting="latest"):
    stream = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    frame = stream.options(subscribe="in", startingOffsets=starting).load()
    counts_frame = frame.selectExpr("CAST(key AS string) k", "timestamp").groupBy("k").count()
    counts_by_key = {}
    writer = counts_frame.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(availableNow=True)
    query = writer.foreachBatch(lambda batch, _: counts_by_key.update(map(tuple, batch.collect()))).start()
    assert query.awaitTermination(240)
    return counts_by_key


@pytest.mark.spark
def test_the_state_of_the_connectors_query_is_continued(spark, servers, checkpoint):
    assert counts(spark, servers, checkpoint) == {f"k{n}": 10 for n in range(7)}


@pytest.mark.spark
def test_a_first_micro_batch_is_repeated_exactly_or_rejected(spark, servers, first_in_flight):
    with pytest.raises(Exception, match=r"the query's first micro-batch, up to .* was planned by an earlier run"):
        counts(spark, servers, first_in_flight)
    (starting,) = read_checkpoint(first_in_flight).starting_offsets.values()
    assert counts(spark, servers, first_in_flight, starting) == {f"k{n}": 10 for n in range(7)}
