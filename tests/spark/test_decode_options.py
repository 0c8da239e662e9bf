"""Options that decode values: Spark's types, or an error that names the missing option."""

import json

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkaframes.broker import Broker
from kafkaframes.client import Producer
from kafkaframes.errors import CorruptRecordError, OptionError
from kafkaframes.spark.options import split_decoding
from kafkaframes.spark.sources.kafka_log import KafkaLogDataSource
from kafkaframes.spark.sources.kafka_topic import KafkaTopicDataSource

ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
}
EVENT = {
    "type": "record",
    "name": "E",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
}
JSON = {"decode": "json", "schema": json.dumps(ORDER)}
BASE = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"schema": "{}"}, r"option schema requires decode=json\|avro\|protobuf"),
        ({"decode": "JSON"}, "requires the option schema or schemaRegistry"),
        ({"decode": "xml"}, "decode must be one of json, avro, protobuf, not xml"),
        ({**JSON, "schema": "id INT"}, "schema id INT is neither JSON nor a file"),
        ({**JSON, "columns": "offset, _error,value"}, "columns: _error is added automatically"),
        ({**JSON, "decodeErrors": "drop"}, "decodeErrors=drop: must be one of null, raise"),
    ],
)
def test_undecodable_schemas_are_reported_when_the_query_is_planned(options, reason):
    with pytest.raises(OptionError, match=reason):
        KafkaTopicDataSource({**BASE, **options}).schema()


def test_other_modes_are_those_of_the_source():
    assert split_decoding({"decode": "internal", "path": "x"}, other_modes=("internal",)) == (
        None,
        {"decode": "internal", "path": "x"},
    )


def test_the_struct_replaces_the_bytes_and_the_reason_follows():
    source = KafkaTopicDataSource({**BASE, **JSON, "columns": "offset,value"})
    assert source.schema() == "`offset` bigint, `value` struct<`id`: bigint, `tags`: array<string>>, `_error` string"
    assert "_error" not in KafkaTopicDataSource({**BASE, **JSON, "columns": "offset"}).schema()
    pytest.importorskip("fastavro")
    avro = KafkaLogDataSource({"path": "x", "columns": "value", "decode": "avro", "schema": json.dumps(EVENT)})
    assert avro.schema() == "`value` struct<`at`: timestamp, `counts`: map<string, int>>, `_error` string"


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker, Producer(broker.bootstrap_servers) as producer:
        for value in (b'{"id": 1, "tags": ["a"], "more": 2}', b"{", None):
            producer.send("orders", value, partition=0).result()
        yield broker.bootstrap_servers


def spark_type(source):
    """Return a source's schema as Spark types; the DDL parser only asks the JVM for its keywords."""
    return StructType.fromDDL(source.schema())


@pytest.mark.spark
def test_rows_have_exactly_the_types_of_spark(spark, servers):
    options = {"kafka.bootstrap.servers": servers, "subscribe": "orders", **JSON}
    source = KafkaTopicDataSource(options)
    schema = spark_type(source)
    reader = source.reader(schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert all(batch.schema.equals(to_arrow_schema(schema, timezone="UTC")) for batch in batches)
    rows = pa.Table.from_batches(batches).select(["value", "_error"]).to_pylist()
    assert [row["value"] for row in rows] == [{"id": 1, "tags": ["a"]}, None, None]
    assert [row["_error"] and row["_error"][:8] for row in rows] == [None, "not JSON", None]
    failing = KafkaTopicDataSource({**options, "decodeErrors": "raise"})
    with pytest.raises(CorruptRecordError, match="topic orders, partition 0, offset 1: not JSON"):
        list(failing.reader(schema).read(reader.partitions()[0]))
    frame = spark.read.format("kafka-topic").options(**options).load()
    assert [tuple(row) for row in frame.where("value IS NOT NULL").select("value.id", "value.tags").collect()] == [
        (1, ["a"])
    ]
