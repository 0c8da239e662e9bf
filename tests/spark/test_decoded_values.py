"""``decode=`` in Spark's workers: Protobuf, registry schemas that change, and streams."""

import base64
import io
import json
import struct

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Producer
from kafkaframes.testing import SchemaRegistry

pytestmark = pytest.mark.spark
OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
INT64, STRING, MESSAGE, OPTIONAL, REPEATED = 3, 9, 11, 1, 3  # of a FieldDescriptorProto


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def registry():
    with SchemaRegistry() as registry:
        yield registry


def send(broker, topic, *values):
    with Producer(broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, partition=0).result()


def frame_message(schema_id, value):
    return struct.pack(">bI", 0, schema_id) + value


def avro(schema_id, schema, row):
    fastavro = pytest.importorskip("fastavro")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return frame_message(schema_id, out.getvalue())


def options(broker, topic, mode, **more):
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "decode": mode,
        **more,
    }


def read(spark, broker, topic, mode, **more):
    frame = spark.read.format("kafka-topic").options(**options(broker, topic, mode, **more)).load()
    return [row.asDict(recursive=True) for row in frame.orderBy("offset").select("value", "_error").collect()]


@pytest.fixture
def messages():
    """Return a Protobuf file descriptor and the class of its message ``shop.Order``."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=INT64, label=OPTIONAL)
    order.field.add(name="at", number=2, type=MESSAGE, type_name=".google.protobuf.Timestamp", label=OPTIONAL)
    order.field.add(name="tags", number=3, type=STRING, label=REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return file, message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def order(messages):
    order = messages[1](id=5, tags=["a", "b"])
    order.at.FromMilliseconds(1_500)
    return order.SerializeToString()


def test_protobuf_is_decoded_with_descriptors_of_protoc(spark, broker, messages, tmp_path):
    from google.protobuf import descriptor_pb2, timestamp_pb2

    files = descriptor_pb2.FileDescriptorSet()
    files.file.add().ParseFromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    files.file.append(messages[0])
    (tmp_path / "order.desc").write_bytes(files.SerializeToString())
    send(broker, "protobuf", order(messages), order(messages)[:-1], None)
    value_options = {"schema": str(tmp_path / "order.desc"), "messageName": "shop.Order"}
    whole, broken_row, empty = read(spark, broker, "protobuf", "protobuf", **value_options)
    assert (whole["value"]["id"], whole["value"]["tags"], whole["_error"]) == (5, ["a", "b"], None)
    assert whole["value"]["at"].timestamp() == 1.5
    assert broken_row["value"] is None
    assert "not a Protobuf message" in broken_row["_error"]
    assert empty == {"value": None, "_error": None}
    frame = spark.read.format("kafka-topic").options(**options(broker, "protobuf", "protobuf", **value_options)).load()
    assert frame.selectExpr("sum(value.id)", "max(size(value.tags))").first()[:] == (5, 2)


def test_protobuf_is_decoded_with_a_registry(spark, broker, messages, registry):
    text = base64.b64encode(messages[0].SerializeToString()).decode()
    schema_id = registry.register("protobuf-2-value", text, schema_type="PROTOBUF")
    send(
        broker,
        "protobuf-2",
        frame_message(schema_id, b"\0" + order(messages)),
        frame_message(99, b"\0" + order(messages)),
    )
    value_options = {"schemaRegistry": registry.url, "messageName": "shop.Order"}
    known_row, unknown = read(spark, broker, "protobuf-2", "protobuf", **value_options)
    assert known_row["value"]["id"] == 5
    assert unknown["value"] is None
    assert "99" in unknown["_error"]


def test_avro_is_decoded_with_several_schemas_of_a_registry(spark, broker, registry):
    old, new = registry.register("avro-value", json.dumps(OLD)), registry.register("avro-value", json.dumps(NEW))
    send(
        broker,
        "avro",
        avro(old, OLD, {"id": 1}),
        avro(new, NEW, {"id": 2, "note": "n"}),
        b"\1",
        frame_message(77, b"\2"),
    )
    *rows, without_prefix, unknown = read(spark, broker, "avro", "avro", schemaRegistry=registry.url)
    assert [row["value"] for row in rows] == [{"id": 1, "note": None}, {"id": 2, "note": "n"}]
    assert without_prefix["_error"]
    assert "77" in unknown["_error"]
    by_subject = options(broker, "avro", "avro", schemaRegistry=registry.url, schemaSubject="none-value")
    with pytest.raises(Exception, match="none-value"):
        spark.read.format("kafka-topic").options(**by_subject).load()


def test_avro_whose_schema_id_is_a_guid_in_a_header(spark, broker, registry):
    """The schema id is read from the headers, even if the headers are not among the columns."""
    import uuid

    schema_id = registry.register("guids-value", json.dumps(OLD))
    prefix = b"\1" + uuid.UUID(registry.guid_of(schema_id)).bytes
    framed_value = avro(schema_id, OLD, {"id": 7})
    broker.create_topic("guids", 1)
    broker.append(
        "guids", [{"value": framed_value[5:], "headers": [("__value_schema_id", prefix)]}, {"value": framed_value}]
    )
    rows = read(spark, broker, "guids", "avro", schemaRegistry=registry.url)
    assert rows == [{"value": {"id": 7}, "_error": None}] * 2


def test_json_is_decoded_with_a_registry(spark, broker, registry):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}
    schema_id = registry.register("json-value", json.dumps(schema), schema_type="JSON")
    send(broker, "json", frame_message(schema_id, b'{"id": 3, "note": "x"}'), frame_message(schema_id, b"{"))
    known_row, broken_row = read(spark, broker, "json", "json", schemaRegistry=registry.url)
    assert known_row == {"value": {"id": 3, "note": "x"}, "_error": None}
    assert "not JSON" in broken_row["_error"]


def test_a_stream_gets_the_columns_of_the_newest_schema_at_its_next_start(spark, broker, registry, tmp_path):
    old = registry.register("stream-value", json.dumps(OLD))
    send(broker, "stream", avro(old, OLD, {"id": 1}), avro(old, OLD, {"id": 2}))

    def run():
        stream_options = options(broker, "stream", "avro", schemaRegistry=registry.url)
        stream = spark.readStream.format("kafka-topic").options(**stream_options).load()
        rows = stream.selectExpr("offset", "value.*", "_error")
        query = rows.writeStream.format("json").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = query.trigger(availableNow=True).start(str(tmp_path / "rows"))
        assert query.awaitTermination(240)

    run()
    new = registry.register("stream-value", json.dumps(NEW))
    send(broker, "stream", avro(new, NEW, {"id": 3, "note": "n"}), b"\1", avro(old, OLD, {"id": 4}))
    run()
    written_rows = spark.read.json(str(tmp_path / "rows")).orderBy("offset").collect()
    assert [(row.offset, row.id, row.note) for row in written_rows] == [
        (0, 1, None),
        (1, 2, None),
        (2, 3, "n"),
        (3, None, None),
        (4, 4, None),
    ]
    assert [row.offset for row in written_rows if row._error] == [3]


def test_a_json_stream_fails_at_an_invalid_value_if_configured(spark, broker, tmp_path):
    schema = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
    send(broker, "stops", b'{"id": 1}', b"{")
    stream_options = options(broker, "stops", "json", schema=schema, decodeErrors="raise")
    stream = spark.readStream.format("kafka-topic").options(**stream_options).load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    with pytest.raises(Exception, match="topic stops, partition 0, offset 1: not JSON"):
        query.start().awaitTermination(240)
