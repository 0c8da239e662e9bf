"""A checkpoint of Spark's own connector is continued by ``kafka-topic``, state included; and looked at, copied."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from kafkaframes.broker import Broker
from kafkaframes.cli.main import cli
from kafkaframes.client import Admin, NewTopic, Producer
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.spark.checkpoint import convert_checkpoint, read_checkpoint, starting_offsets

CONNECTOR = Path(__file__).parent / "checkpoints" / "connector"


@pytest.fixture
def checkpoint(tmp_path):
    return Path(shutil.copytree(CONNECTOR, tmp_path / "checkpoint"))


@pytest.fixture
def first_in_flight(checkpoint):
    """As the connector leaves it when it is killed in a query's first micro-batch."""
    (checkpoint / "commits" / "0").unlink()
    return checkpoint


def call(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["checkpoint", *arguments])
    if result.exception is not None:
        raise result.exception
    return result.output


def test_where_a_query_stands(checkpoint):
    found = read_checkpoint(checkpoint)
    assert (found.planned, found.done, found.is_in_flight) == (0, 0, False)
    assert found.operators == ("stateStoreSave",)
    assert found.sources[0].planned == found.sources[0].done == {"in": {"0": 21, "1": 29}}
    assert found.sources[0].begins == {"in": {"0": 0, "1": 0}}
    assert starting_offsets(found) == {}
    told = call("show", str(checkpoint))
    assert "micro-batch 0 done" in told
    assert 'source 0: up to {"in": {"0": 21, "1": 29}}' in told
    assert "startingOffsets" not in told


def test_a_first_micro_batch_in_flight_says_what_must_be_given(first_in_flight):
    assert read_checkpoint(first_in_flight).first_is_in_flight
    assert 'give startingOffsets={"in": {"0": 0, "1": 0}}' in call("show", str(first_in_flight))
    assert json.loads(call("show", str(first_in_flight), "--json"))["done"] == -1


def test_a_copy_for_the_connector_has_its_note(first_in_flight, tmp_path):
    shutil.rmtree(first_in_flight / "sources")  # as kafka-topic leaves it
    with pytest.raises(OptionError, match="say where source 0 began"):
        call("convert", str(first_in_flight), str(tmp_path / "no"), "--for", "kafka")
    call(
        "convert", str(first_in_flight), str(tmp_path / "to"), "--for", "kafka", "--begins", '{"in": {"0": 3, "1": 0}}'
    )
    assert (tmp_path / "to" / "sources" / "0" / "0").read_bytes() == b'\0v1\n{"in":{"0":3,"1":0}}'
    assert (tmp_path / "to" / "offsets" / "0").read_bytes() == (CONNECTOR / "offsets" / "0").read_bytes()
    assert not (tmp_path / "no").exists()


def test_topics_get_other_names_in_a_copy_and_the_original_stays(checkpoint, tmp_path):
    before = {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}
    call("convert", str(checkpoint), str(tmp_path / "to"), "--for", "kafka", "--topic", "in=out")
    made = read_checkpoint(tmp_path / "to")
    assert made.sources[0].planned == {"out": {"0": 21, "1": 29}}
    assert made.sources[0].begins == {"out": {"0": 0, "1": 0}}
    assert {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()} == before
    delta = next((tmp_path / "to" / "state").rglob("1.delta"))
    assert delta.read_bytes() == (CONNECTOR / delta.relative_to(tmp_path / "to")).read_bytes()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": "delta"}, "no format 'delta'; there are kafka, kafka-topic"),
        ({"target": "kafka", "topics": {"other": "x"}}, "no topic other in the checkpoint; there are in"),
    ],
)
def test_what_cannot_be_converted(checkpoint, tmp_path, given, message):
    with pytest.raises(OptionError, match=message):
        convert_checkpoint(checkpoint, tmp_path / "to", **given)


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
    with pytest.raises(LogDirError, match="is no checkpoint"):
        read_checkpoint(checkpoint / "offsets")


# ------------------------------------------------------------------------------------------------------ with Spark


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
    counted = frame.selectExpr("CAST(key AS string) k", "timestamp").groupBy("k").count()
    found = {}
    writer = counted.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(availableNow=True)
    query = writer.foreachBatch(lambda batch, _: found.update(map(tuple, batch.collect()))).start()
    assert query.awaitTermination(240)
    return found


@pytest.mark.spark
def test_the_state_of_the_connectors_query_goes_on(spark, servers, checkpoint):
    assert counts(spark, servers, checkpoint) == {f"k{n}": 10 for n in range(7)}


@pytest.mark.spark
def test_a_first_micro_batch_is_repeated_exactly_or_not_at_all(spark, servers, first_in_flight):
    with pytest.raises(Exception, match=r"the query's first micro-batch, up to .* was planned by an earlier run"):
        counts(spark, servers, first_in_flight)
    (starting,) = starting_offsets(read_checkpoint(first_in_flight)).values()
    assert counts(spark, servers, first_in_flight, starting) == {f"k{n}": 10 for n in range(7)}
