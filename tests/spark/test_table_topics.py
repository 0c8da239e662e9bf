"""``kafkaframes.spark.table_topics``: the workers write each record of the topic once."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer
from kafkaframes.errors import OptionError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name="flights", num_partitions=2)])
        yield broker.bootstrap_servers


def send(servers, first, last, **settings):
    rows = {"key": [f"k{n}" for n in range(first, last)], "value": [f"v{n}" for n in range(first, last)]}
    with Producer(servers, compression_type="lz4", **settings) as producer:
        if "transactional_id" in settings:
            producer.begin_transaction()
        producer.send_arrow(pa.table(rows), topic="flights")
        if "transactional_id" in settings:
            producer.abort_transaction()


def values(root):
    table = ds.dataset(root, partitioning="hive", exclude_invalid_files=True).to_table()
    return sorted(pc.cast(table["value"], pa.string()).to_pylist())


def test_a_second_run_adds_only_new_records(spark, servers, tmp_path):
    options = {"kafka.bootstrap.servers": servers}
    send(servers, 0, 1_000)
    first = kafkaframes.spark.table_topics(spark, "flights", tmp_path / "t", options=options)
    assert str(first) == f"1,000 records written to {tmp_path / 't'}, in 2 files"
    assert first.to_dict()["table"]["format"] == "parquet"
    send(servers, 1_000, 1_500)
    send(servers, 5_000, 5_100, transactional_id="aborted")
    second = kafkaframes.spark.table_topics(spark, ["flights"], tmp_path / "t", options=options)
    assert second.report.summary.records == 500
    assert values(tmp_path / "t") == sorted(f"v{n}" for n in range(1_500))
    none = kafkaframes.spark.table_topics(spark, "flights", tmp_path / "t", options=options)
    assert none.report.summary.records == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"options": {}}, "kafka.bootstrap.servers"),
        ({"options": {"kafka.bootstrap.servers": "x:1", "startingOffsets": "latest"}}, "only kafka.* options"),
        ({"options": {"kafka.bootstrap.servers": "x:1"}, "format": "csv"}, "one of parquet, delta, iceberg"),
        ({"options": {"kafka.bootstrap.servers": "x:1", "kafka.fetch.max.bites": "1"}}, "fetch.max.bytes"),
    ],
)
def test_incompatible_settings_are_rejected_before_anything_runs(tmp_path, settings, message):
    with pytest.raises(OptionError, match=message):
        kafkaframes.spark.table_topics(None, "flights", tmp_path / "t", **settings)


def test_the_isolation_level_is_stored_with_a_table(spark, servers, tmp_path):
    options = {"kafka.bootstrap.servers": servers, "KAFKA.ISOLATION.LEVEL": "read_uncommitted"}
    kafkaframes.spark.table_topics(spark, "flights", tmp_path / "t", options=options)
    with pytest.raises(OptionError, match="isolation"):
        kafkaframes.spark.table_topics(spark, "flights", tmp_path / "t", options={"kafka.bootstrap.servers": servers})


def test_a_spark_connect_session_is_rejected_by_name(monkeypatch, tmp_path):
    from kafkaframes.spark.progress import checkpoint_files

    monkeypatch.setattr(checkpoint_files, "is_connect", lambda spark: True)
    with pytest.raises(OptionError, match="table_topics requires a classic Spark session, not Spark Connect"):
        kafkaframes.spark.table_topics(None, "t", tmp_path, options={"kafka.bootstrap.servers": "h:1"})
