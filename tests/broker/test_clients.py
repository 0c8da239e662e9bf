"""Unmodified clients against a broker that is shared by the module: the versions and formats that they choose."""

from __future__ import annotations

import asyncio
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from tests.broker.polling import poll_with_kafka_python

from kafkaframes.broker import Broker

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
TIMEOUT = 60


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


def find_sent_formats(broker, topic):
    """Return the formats in which a client sent its records."""
    rows = [
        part
        for entry in broker.journal.requests("Produce")
        if entry.body is not None
        for data in entry.body.topic_data
        if data.name == topic
        for part in data.partition_data
    ]
    return {row.records[16] for row in rows}


def consume_values(settings, topic, count, **assignment):
    consumer = Consumer({"auto.offset.reset": "earliest", "group.id": f"group-{topic}", **settings})
    try:
        consumer.subscribe([topic])
        values, deadline = [], time.monotonic() + TIMEOUT
        while len(values) < count and time.monotonic() < deadline:
            values += [record for record in consumer.consume(count, 0.1) if not record.error()]
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return [value.value() for value in values]


OLD_CLIENT_CONFIG = {"api.version.request": "false"}


@pytest.mark.parametrize(
    ("name", "settings", "magic"),
    [
        ("new", {}, {2}),
        ("idempotent", {"enable.idempotence": True}, {2}),
        ("kafka-0.8.2", {**OLD_CLIENT_CONFIG, "broker.version.fallback": "0.8.2"}, {0}),
        ("kafka-0.9", {**OLD_CLIENT_CONFIG, "broker.version.fallback": "0.9.0"}, {0}),
    ],
)
@pytest.mark.parametrize("codec", ["none", "lz4", "gzip"])
def test_librdkafka_produces_and_consumes(broker, name, settings, magic, codec):
    topic = f"rd-{name}-{codec}"
    settings = {"bootstrap.servers": broker.bootstrap_servers, **settings}
    values = [b"%d" % number for number in range(100)]
    producer = Producer({**settings, "compression.type": codec, "linger.ms": 1})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT) == 0
    if codec != "lz4" or magic == {2}:
        assert find_sent_formats(broker, topic) == magic
    assert consume_values({"bootstrap.servers": broker.bootstrap_servers}, topic, 100) == values
    if "0.8" not in name:
        consumer_settings = {**settings, "group.id": f"old-{topic}"}
        consumer_settings.pop("enable.idempotence", None)
        assert consume_values(consumer_settings, topic, 100) == values


def test_a_new_group_gets_its_first_record_after_one_rebalance(broker):
    """One JoinGroup (two if a member id is required) and one SyncGroup; `benchmarks/broker.py` measures the time."""
    broker.append("quick", [{"value": b"x"}])
    before = len(broker.journal)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "quick", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["quick"])
    start = time.monotonic()
    while consumer.poll(0.05) is None:
        assert time.monotonic() - start < TIMEOUT
    consumer.close()
    apis = [entry.api for entry in list(broker.journal)[before:]]
    assert apis.count("JoinGroup") <= 2
    assert apis.count("SyncGroup") == 1


def test_librdkafka_commits_and_aborts_transactions(broker):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "tx"})
    producer.init_transactions(TIMEOUT)
    for value, finish in ((b"1", producer.commit_transaction), (b"2", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("tx", value)
        producer.flush(TIMEOUT)
        finish(TIMEOUT)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    assert consume_values({**settings, "isolation.level": "read_committed"}, "tx", 1) == [b"1"]
    assert len(broker.records("tx")) == 2


def test_librdkafka_admin_client_manages_topics_and_configs(broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("admin", 2, 1, config={"retention.ms": "1000"})])["admin"].result(TIMEOUT)
    admin.create_partitions([NewPartitions("admin", 4)])["admin"].result(TIMEOUT)
    assert "admin" in admin.list_topics(timeout=TIMEOUT).topics  # its Metadata request has surplus bytes
    assert len(admin.list_topics("admin", timeout=TIMEOUT).topics["admin"].partitions) == 4
    resource = ConfigResource(ConfigResource.Type.TOPIC, "admin")
    configs = admin.describe_configs([resource])[resource].result(TIMEOUT)
    assert configs["retention.ms"].value == "1000"
    broker.append("admin", [{"value": b"%d" % number} for number in range(5)])
    deletions = admin.delete_records([TopicPartition("admin", 0, 3)])
    assert next(iter(deletions.values())).result(TIMEOUT).low_watermark == 3
    admin.delete_topics(["admin"])["admin"].result(TIMEOUT)
    with pytest.raises(KafkaException):
        admin.describe_configs([resource])[resource].result(TIMEOUT)


def test_librdkafka_looks_up_offsets_by_time(broker):
    broker.append("times", [{"value": b"%d" % time_ms, "timestamp": time_ms} for time_ms in (1000, 2000, 3000)])
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "times"})
    (partition,) = consumer.offsets_for_times([TopicPartition("times", 0, 1500)], timeout=TIMEOUT)
    assert partition.offset == 1
    assert consumer.get_watermark_offsets(TopicPartition("times", 0), timeout=TIMEOUT) == (0, 3)
    consumer.close()


@pytest.mark.parametrize(("version", "magic"), [(None, {2}), ((0, 8, 2), {0}), ((0, 10), {1})])
def test_kafka_python_produces_and_consumes(broker, kafka_python, version, magic):
    topic = f"kp-{'.'.join(map(str, version or ('new',)))}"
    settings = {"bootstrap_servers": broker.bootstrap_servers, **({"api_version": version} if version else {})}
    producer = kafka_python.KafkaProducer(**settings, compression_type="gzip", enable_idempotence=False)
    futures = [producer.send(topic, b"%d" % number) for number in range(20)]
    assert [future.get(TIMEOUT).offset for future in futures] == list(range(20))
    producer.close()
    assert find_sent_formats(broker, topic) == magic
    settings |= {"auto_offset_reset": "earliest", "group_id": None}
    consumer, records = poll_with_kafka_python(lambda: kafka_python.KafkaConsumer(topic, **settings), 20)
    assert [record.value for record in records] == [b"%d" % number for number in range(20)]
    consumer.close()


def test_aiokafka_produces_and_consumes_in_a_group(broker):
    async def main():
        with_warnings = pytest.importorskip("aiokafka")
        producer = with_warnings.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        await producer.send_and_wait("aio", b"x", key=b"k", headers=[("h", b"v")])
        await producer.stop()
        consumer = with_warnings.AIOKafkaConsumer(
            "aio", bootstrap_servers=broker.bootstrap_servers, group_id="aio", auto_offset_reset="earliest"
        )
        await consumer.start()
        record = await asyncio.wait_for(consumer.getone(), TIMEOUT)
        await consumer.commit()
        await consumer.stop()
        return record.key, record.value, record.headers

    assert asyncio.run(main()) == (b"k", b"x", (("h", b"v"),))


def test_an_idempotent_producer_retries_after_a_dropped_response_without_a_duplicate(broker):
    broker.create_topic("once")
    with broker.on("Produce", topic="once").once().drop_reply() as rule:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        producer.produce("once", b"x")
        assert producer.flush(TIMEOUT) == 0
        assert rule.count == 1
    broker.journal.assert_requested("Produce", times=2, where=lambda entry: entry.body.topic_data[0].name == "once")
    assert [record.value for record in broker.records("once")] == [b"x"]


def test_the_client_report_distinguishes_old_clients():
    with Broker() as broker:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, **OLD_CLIENT_CONFIG, "broker.version.fallback": "0.9.0"}
        )
        producer.produce("orders", b"x")
        assert producer.flush(TIMEOUT) == 0
        assert "rejected by Kafka 4: " in broker.report()
