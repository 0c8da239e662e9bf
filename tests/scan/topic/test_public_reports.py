"""Public reports about Spark's Kafka connector and other topic readers, reproduced with ``kafka-topic``; without a
JVM.
"""

import time

import pyarrow as pa
import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.client import AclBinding, Admin, NewTopic, Producer, TopicPartition
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import BrokerError, OptionError
from kafkaframes.scan.arrow import build_arrow_schema
from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.topic.following import TopicFollower
from kafkaframes.scan.topic.planning import plan_topic
from kafkaframes.scan.topic.reading import close_idle_consumers, read_range
from kafkaframes.scan.topic.shares import PartitionRange
from kafkaframes.spark.options import parse_topic_options, parse_topic_write_options
from kafkaframes.spark.sinks.topic_writer import send_rows

COLUMNS = choose_columns(["partition", "offset", "value"])
COMMITTED = {"kafka.isolation.level": "read_committed"}


def create_topic(servers: str, name: str, partitions: int = 1) -> str:
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=partitions)])
    return name


def write_transaction(servers: str, topic: str, values: list[bytes], *, commits: bool) -> None:
    with Producer(servers, transactional_id=topic, batch_size=1_000) as producer:
        producer.begin_transaction()
        producer.send_arrow(pa.table({"value": values}), topic=topic)
        producer.flush()
        producer.commit_transaction() if commits else producer.abort_transaction()


def read_ranges(ranges: list[PartitionRange], servers: str, topic: str, **options: str) -> list[bytes]:
    """Return the values that tasks read in these ranges."""
    read_options = parse_topic_options(
        {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}, is_stream=False
    )
    batches = [batch for part in ranges for batch in read_range(part, COLUMNS, read_options)]
    close_idle_consumers(read_options)
    return pa.Table.from_batches(batches, build_arrow_schema(COLUMNS))["value"].to_pylist()


def read_topic(servers: str, topic: str, **options: str) -> list[bytes]:
    read_options = parse_topic_options(
        {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}, is_stream=False
    )
    return read_ranges(plan_topic(read_options), servers, topic, **options)


def open_stream(servers: str, topic: str, **options: str) -> TopicFollower:
    topic_settings = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest", **options}
    return TopicFollower(parse_topic_options(topic_settings, is_stream=True))


@pytest.mark.parametrize(
    ("isolation", "values"), [({}, [b"a", b"b", b"x", b"y", b"c"]), (COMMITTED, [b"a", b"b", b"c"])]
)
def test_every_range_of_a_topic_with_transactions_is_read(servers, isolation, values):
    """SPARK-25005 and apache/pinot#19161 are about ranges without records, or with a marker at an end."""
    topic = create_topic(servers, f"ranges-{len(isolation)}")
    write_transaction(servers, topic, [b"a", b"b"], commits=True)  # marker at offset 2
    write_transaction(servers, topic, [b"x", b"y"], commits=False)  # marker at offset 5
    write_transaction(servers, topic, [b"c"], commits=True)  # marker at offset 7
    by_offset = {0: b"a", 1: b"b", 3: b"x", 4: b"y", 6: b"c"}
    for first in range(8):
        for end in range(first + 1, 9):
            expected_values = [
                value for offset, value in by_offset.items() if first <= offset < end and value in values
            ]
            assert (
                read_ranges([PartitionRange(topic, 0, first, end)], servers, topic, **isolation) == expected_values
            ), (
                first,
                end,
            )


def test_a_long_aborted_transaction_is_not_a_timeout(servers):
    """In apache/hudi#1598, #8258 and seatunnel#11471, readers stopped or never ended if many offsets had no record."""
    topic = create_topic(servers, "aborted")
    write_transaction(servers, topic, [b"x" * 1_000] * 3_000, commits=False)
    write_transaction(servers, topic, [b"c"], commits=True)
    small = {"kafkaConsumer.pollTimeoutMs": "20000", "kafka.max.partition.fetch.bytes": "10000", **COMMITTED}
    assert read_topic(servers, topic, **small) == [b"c"]
    assert read_ranges([PartitionRange(topic, 0, 0, 2_000)], servers, topic, **small) == []


def test_a_limit_below_the_number_of_partitions_makes_progress(servers):
    """In apache/hudi#1652, nothing was read with a limit below the number of partitions."""
    topic = create_topic(servers, "narrow", 5)
    with Producer(servers) as producer:
        for partition in range(5):
            producer.send(topic, b"v", partition=partition)
    follower = open_stream(servers, topic, maxOffsetsPerTrigger="1")
    at, batches = follower.find_start_offsets(), 0
    while (end := follower.find_batch_end(at)) != at:
        at, batches = end, batches + 1
    assert set(at.values()) == {1}
    assert 1 <= batches <= 5
    follower.close()


def test_a_source_without_new_records_has_no_tasks_and_keeps_its_offsets(servers):
    """In SPARK-22956, a source without new records in a union failed after a restart."""
    topic = create_topic(servers, "idle", 2)
    with Producer(servers) as producer:
        producer.send(topic, b"v", partition=0)
    at = {TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 0}
    for _ in range(2):  # also in a new process, after a restart
        follower = open_stream(servers, topic)
        assert follower.plan_batch(at, at) == []
        assert follower.find_batch_end(at) == at
        with Producer(servers) as producer:
            producer.send(topic, b"w", partition=1)
        end = follower.find_batch_end(at)
        assert [(part.partition, part.first, part.end) for part in follower.plan_batch(at, end)] == [
            (1, end[TopicPartition(topic, 1)] - 1, end[TopicPartition(topic, 1)])
        ]
        at = end
        follower.close()


def test_a_row_for_a_partition_that_does_not_exist_is_an_error_at_once(servers):
    """In SPARK-29500, the connector's producer waits for max.block.ms, and its error names no partition."""
    topic = create_topic(servers, "two", 2)
    options = parse_topic_write_options({"kafka.bootstrap.servers": servers, "topic": topic})
    begin = time.monotonic()
    rows = pa.record_batch({"value": pa.array([b"v"]), "partition": pa.array([7], pa.int32())})
    with pytest.raises(BrokerError, match="topic two has no partition 7; it has 2"):
        send_rows(options, iter([rows]))
    assert time.monotonic() - begin < 30  # max.block.ms is twice that


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("kafkaConsumer.pollTimeoutMs", "2x"),
        ("kafkaConsumer.pollTimeoutMs", "1.5"),
        ("fetchOffset.numRetries", "x"),
        ("fetchOffset.retryIntervalMs", "-1"),
        ("maxOffsetsPerTrigger", "1e3"),
        ("minOffsetsPerTrigger", ""),
        ("maxTriggerDelay", "1 fortnight"),
        ("minPartitions", "-1"),
        ("maxRecordsPerPartition", "0"),
        ("startingTimestamp", "yesterday"),
        ("failOnDataLoss", "yes please"),
    ],
)
def test_a_value_that_is_not_a_number_names_its_option(option, value):
    """In SPARK-28163, an invalid number raised a NumberFormatException without the option's name."""
    with pytest.raises(OptionError, match=f"option {option}={value}"):
        parse_topic_options({"kafka.bootstrap.servers": "a:1", "subscribe": "t", option: value}, is_stream=True)


@pytest.mark.parametrize("prefix", ["org.apache.kafka", "kafkashaded.org.apache.kafka", "shaded.kafka"])
def test_a_login_module_of_a_shaded_client_is_the_same_login(prefix):
    """Databricks shades Kafka's client (kafkashaded.org.apache.kafka...), and some Python code uses single quotes."""
    jaas = f"{prefix}.common.security.plain.PlainLoginModule required username='u' password=\"p=;'x\";"
    create_login = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": jaas,
    }
    read = parse_topic_options({"kafka.bootstrap.servers": "a:1", "subscribe": "t", **create_login}, is_stream=True)
    settings = ConsumerSettings.from_options(read.client)
    assert (settings.sasl_username, settings.sasl_password) == ("u", "p=;'x")


def test_a_principal_with_read_on_the_topic_needs_no_acl_on_a_group():
    """In SPARK-40844, lookups with a consumer group required an ACL on groups with random names."""
    security = Security(users={"admin": "a", "reader": "r"}, authorizer=True)
    with Broker(security=security, config={"super.users": "User:admin"}) as broker:

        def create_login(user: str) -> dict[str, str]:
            return {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": user[0],
            }

        servers = broker.bootstrap_servers
        with Admin(servers, **create_login("admin")) as admin:
            admin.create_topics([NewTopic(name="secret", num_partitions=1)])
            admin.create_acls([AclBinding("topic", "secret", "User:reader", "read")])
        with Producer(servers, **create_login("admin")) as producer:
            producer.send("secret", b"v")
        options = {f"kafka.{name}": value for name, value in create_login("reader").items()}
        assert read_topic(servers, "secret", **options, groupIdPrefix="any") == [b"v"]
        follower = open_stream(servers, "secret", **options)
        assert follower.find_batch_end(follower.find_start_offsets()) == {TopicPartition("secret", 0): 1}
        follower.close()
