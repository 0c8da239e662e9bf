"""Limits in a producer's settings: the maximum record size, and how long a call may wait. The bounds apply to ``send``
and to tables.

Java's producer and librdkafka bound a producer's start and its metadata by ``max.block.ms`` (KIP-19, KAFKA-3539).
"""

import asyncio
import logging
import socket
import time
from contextlib import closing

import pyarrow as pa
import pytest

from kafkaframes import Broker
from kafkaframes.client import AsyncProducer, Consumer, Producer, TopicPartition
from kafkaframes.client.rejection_log import RejectionLog
from kafkaframes.errors import BrokerError, EncodeError, ErrorCode, MaybeWrittenError, NetworkError, OptionError

PROMPT_S = 20.0  # far below the defaults of 60 and 120 s


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        broker.create_topic("t", 2)
        yield broker


@pytest.fixture
def free_port():
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener.getsockname()[1]


CALLS = {
    "send": lambda producer: producer.send("t", b"x").result(60),
    "send_arrow": lambda producer: producer.send_arrow(pa.table({"value": [b"x"]}), topic="t"),
    "enter": lambda producer: producer.__enter__(),
    "partitions_for": lambda producer: producer.partitions_for("t"),
    "begin_transaction": lambda producer: producer.begin_transaction(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_producers_start_waits_at_most_max_block_ms(free_port, call):
    options = {"transactional_id": "x"} if call == "begin_transaction" else {}
    producer = Producer(f"127.0.0.1:{free_port}", max_block_ms=300, **options)
    began = time.monotonic()
    with pytest.raises(NetworkError, match="cannot be reached"):
        CALLS[call](producer)
    producer.close()
    assert time.monotonic() - began < PROMPT_S


def test_the_timeout_error_of_a_start_contains_the_last_retriable_error(broker):
    with broker.on("InitProducerId").error("COORDINATOR_LOAD_IN_PROGRESS"):
        producer = Producer(broker.bootstrap_servers, max_block_ms=300)
        with pytest.raises(NetworkError, match=r"300 ms.*`max_block_ms`.*COORDINATOR_LOAD_IN_PROGRESS"):
            producer.send("t", b"x")
        producer.close()


def test_a_table_waits_for_memory_at_most_max_block_ms(broker):
    table = pa.table({"value": [b"x" * 500] * 30})
    options = {
        "max_block_ms": 300,
        "buffer_memory": 5_000,
        "batch_size": 1_000,
        "max_in_flight_requests_per_connection": 1,
    }
    producer = Producer(broker.bootstrap_servers, **options)
    with broker.on("Produce").delay(3), pytest.raises(NetworkError, match="max_block_ms"):
        producer.send_arrow(table, topic="t")
    producer.close()


@pytest.mark.parametrize("kind", ["send", "send_arrow", "queue_arrow", "transaction"])
def test_a_batch_without_a_response_fails_after_delivery_timeout_ms(broker, kind):
    """KIP-91. In librdkafka, ``message.timeout.ms`` is the limit (librdkafka#1066, librdkafka#1160)."""
    settings = {"transactional_id": "late"} if kind == "transaction" else {}
    delay_s = 4 if kind == "transaction" else 60
    table = pa.table({"value": [b"x"], "partition": [0]})
    writes = {
        "send": lambda: producer.send("t", b"x", partition=0).result(60),
        "send_arrow": lambda: producer.send_arrow(table, topic="t"),
        "queue_arrow": lambda: producer.queue_arrow(table, topic="t").result(60),
        "transaction": lambda: producer.send("t", b"late, transaction", partition=0).result(60),
    }
    with Producer(broker.bootstrap_servers, delivery_timeout_ms=700, linger_ms=0, **settings) as producer:
        if settings:
            producer.begin_transaction()
        else:
            producer.send("t", b"first", partition=0).result(60)
        with broker.on("Produce").delay(delay_s):
            began = time.monotonic()
            with pytest.raises(MaybeWrittenError, match="700 ms"):
                writes[kind]()
            assert time.monotonic() - began < PROMPT_S
            if settings:
                with pytest.raises(BrokerError, match="700 ms"):
                    producer.commit_transaction()
                # after the leader's response, so that the record cannot be in a later transaction
                producer.abort_transaction()
        if settings:
            producer.begin_transaction()
            producer.send("t", b"later", partition=0).result(60)
            producer.commit_transaction()
    if settings:
        with Consumer(broker.bootstrap_servers, isolation_level="read_committed") as consumer:
            consumer.assign({("t", 0): 0})
            end, values = consumer.end_offsets([("t", 0)])[TopicPartition("t", 0)], []
            while consumer.position(("t", 0)) < end - 1:  # the last offset is that of the transaction marker
                values += [record.value for record in consumer.poll(1_000)]
        assert b"later" in values
        assert b"late, transaction" not in values


@pytest.mark.parametrize("kind", ["send", "send_arrow", "queue_arrow"])
def test_records_rejected_until_delivery_timeout_ms_fail(broker, kind):
    table = pa.table({"value": [b"x"]})
    calls = {
        "send": lambda producer: producer.send("t", b"x").result(60),
        "send_arrow": lambda producer: producer.send_arrow(table, topic="t"),
        "queue_arrow": lambda producer: producer.queue_arrow(table, topic="t").result(60),
    }
    began = time.monotonic()
    with (
        broker.on("Produce").error("NOT_ENOUGH_REPLICAS"),
        Producer(broker.bootstrap_servers, delivery_timeout_ms=500) as producer,
        pytest.raises(BrokerError, match="NOT_ENOUGH_REPLICAS"),
    ):
        calls[kind](producer)
    assert time.monotonic() - began < PROMPT_S


@pytest.mark.parametrize(
    "columns",
    [
        {"value": [b"1", None, b"x" * 980]},
        {"key": ["1", None, "é" * 490]},
        {"value": [b"1", b"2", b"3"], "headers": [[], None, [{"key": "h", "value": b"x" * 980}]]},
        {"value": pa.array([b"1", b"2", b"x" * 980], pa.large_binary())},
    ],
)
def test_a_row_larger_than_max_request_size_is_rejected_before_any_row_is_queued(broker, columns):
    before = len(broker.records("t"))
    with Producer(broker.bootstrap_servers, max_request_size=1_000) as producer:
        with pytest.raises(EncodeError, match=r"`max_request_size` is 1000.*\$\[2\]"):
            producer.send_arrow(pa.table(columns), topic="t")
        rows = pa.table(columns).slice(0, 2)
        assert sum(producer.send_arrow(rows, topic="t").column("count").to_pylist()) == 2
    assert len(broker.records("t")) == before + 2


def test_the_row_number_in_the_error_counts_over_all_chunks(broker):
    chunks = pa.chunked_array([[b"1"] * 5, [b"2"] * 5, [b"x" * 2_000]])
    with (
        Producer(broker.bootstrap_servers, max_request_size=1_000) as producer,
        pytest.raises(EncodeError, match=r"\$\[10\]"),
    ):
        producer.send_arrow(pa.table({"value": chunks}), topic="t")


@pytest.mark.parametrize("acks", ["all", "0"])
def test_a_batch_size_of_zero_disables_batching_of_tables_too(broker, acks):
    """KAFKA-14303, dpkp/kafka-python#556 (a division by zero, as previously here), and a Spark write with
    kafka.batch.size=0.
    """
    broker.create_topic(f"unbatched-{acks}", 3)
    values = [b"%d" % number for number in range(7)]
    with Producer(broker.bootstrap_servers, batch_size=0, acks=acks) as producer:
        producer.send_arrow(pa.table({"value": values}), topic=f"unbatched-{acks}")
        producer.flush()
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(f"unbatched-{acks}"))
        rows = []
        while len(rows) < len(values):
            rows += consumer.fetch_arrow(500, columns=("partition", "base_offset", "value")).to_pylist()
    assert sorted(row["value"] for row in rows) == values
    assert len({(row["partition"], row["base_offset"]) for row in rows}) == len(values)


@pytest.mark.parametrize("call", ["send", "send_arrow"])
def test_metadata_that_expire_immediately_do_not_block_a_producer(broker, call):
    """Kafka accepts metadata.max.age.ms=0, and KafkaMicroBatchSourceSuite uses 1.

    Previously ``send`` never returned with 0.
    """
    with Producer(broker.bootstrap_servers, metadata_max_age_ms=0) as producer:
        CALLS[call](producer)


@pytest.mark.parametrize(
    ("name", "value", "minimum"),
    [
        ("max_in_flight_requests_per_connection", 0, 1),
        ("batch_size", -1, 0),
        ("metadata_max_age_ms", -1, 0),
        ("request_timeout_ms", -1, 0),
        ("max_block_ms", -1, 0),
        ("reconnect_backoff_ms", -5, 0),
        ("retry_backoff_max_ms", -1, 0),
        ("retries", -1, 0),
        ("send_buffer_bytes", -2, -1),
        ("socket_connection_setup_timeout_ms", 0, 1),
        ("max_response_bytes", 0, 1),
        ("max_response_bytes", -1, 1),
    ],
)
def test_values_that_kafka_rejects_are_rejected(name, value, minimum):
    """The minimums are those of Java's ProducerConfig.

    Some smaller values were accepted earlier, and the producer then never sent a record.
    """
    with pytest.raises(OptionError, match=f"{name} is {value}; expected a number of at least {minimum}"):
        Producer("a:1", **{name: value})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heartbeat_interval_ms": 0}, "heartbeat_interval_ms is 0; expected a number of at least 1"),
        ({"heartbeat_interval_ms": 45_000}, r"45000; expected less than session_timeout_ms \(45000\)"),
        ({"session_timeout_ms": 3_000}, r"heartbeat_interval_ms is 3000; expected less than session_timeout_ms"),
    ],
)
def test_heartbeats_that_keep_no_member_are_rejected(settings, message):
    """Java's Heartbeat has the same check. Previously, with an interval of 0, a consumer sent 3,000 heartbeats per
    second.
    """
    with pytest.raises(OptionError, match=message):
        Consumer("a:1", group_id="g", **settings)


def test_no_request_with_several_batches_is_larger_than_max_request_size(broker):
    broker.journal.clear()
    with Producer(broker.bootstrap_servers, max_request_size=5_000, batch_size=100_000, linger_ms=100) as producer:
        producer.send_arrow(pa.table({"value": [b"x" * 300] * 100}), topic="t")
        for _ in range(100):
            producer.send("t", b"x" * 300)
    sizes = [
        sum(len(part.records) for topic in entry.body.topic_data for part in topic.partition_data)
        for entry in broker.journal.requests("Produce")
    ]
    assert 3_000 < max(sizes) <= 5_000


def test_too_large_records_fail_alone_on_an_event_loop_too(free_port):
    async def run():
        producer = AsyncProducer(f"127.0.0.1:{free_port}", max_block_ms=300)
        for call in (
            producer.start(),
            producer.send("t", b"x"),
            producer.send_arrow(pa.table({"value": [b""]}), topic="t"),
        ):
            with pytest.raises(NetworkError, match="max_block_ms"):
                await call
        await producer.close()

    began = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - began < PROMPT_S


def test_a_topic_that_does_not_exist_is_named(broker):
    with broker.on("Metadata").error("UNKNOWN_TOPIC_OR_PARTITION"):
        producer = Producer(broker.bootstrap_servers, max_block_ms=300)
        with pytest.raises((BrokerError, NetworkError), match=r"UNKNOWN_TOPIC_OR_PARTITION|nothing") as error_info:
            producer.send("nothing", b"x")
        assert (
            getattr(error_info.value, "code", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        producer.close()


@pytest.mark.parametrize("record_format", [0, 1])
@pytest.mark.parametrize("release", ["4.0", "4.3"])
def test_an_old_record_format_is_rejected_immediately_by_the_advertised_versions(record_format, release):
    """Kafka 4 advertises Produce from version 0 on, but rejects the old record formats (KIP-896, KIP-724)."""
    began = time.monotonic()
    with (
        Broker(broker_release=release) as new,
        pytest.raises(OptionError, match=f"record_format {record_format}"),
        Producer(new.bootstrap_servers, record_format=record_format) as producer,
    ):
        producer.send("t", b"x").result(60)
    assert time.monotonic() - began < PROMPT_S


def test_retried_rejections_are_logged_with_their_origin_and_number(broker, caplog):
    with (
        caplog.at_level(logging.WARNING, "kafkaframes.client"),
        broker.on("Produce").error("NOT_ENOUGH_REPLICAS").times(3),
        Producer(broker.bootstrap_servers, client_id="shop") as producer,
    ):
        producer.send("t", b"x").result(60)
    lines = [record.getMessage() for record in caplog.records if "NOT_ENOUGH_REPLICAS" in record.getMessage()]
    assert len(lines) == 1  # the next line would be logged after ten seconds
    assert "'shop': node 1 at 127.0.0.1:" in lines[0]
    assert "rejected a request once" in lines[0]


def test_repeated_rejections_are_logged_less_often_with_their_count(caplog):
    log = RejectionLog("c")
    with caplog.at_level(logging.WARNING, "kafkaframes.client"):
        for second in range(200):
            log.add("kind", BrokerError("no"), "node 1", float(second))
        log.add("other", BrokerError("no"), "node 1", 200.0)
        log.add("kind", BrokerError("no"), "node 1", 1_000.0)
    counts = [record.getMessage().split("rejected a request ")[1].split(";")[0] for record in caplog.records]
    expected_texts = ["once", "11 times in 10 s", "41 times in 40 s", "101 times in 100 s", "161 times in 160 s"]
    assert counts == [*expected_texts, "once", "once"]


def test_the_final_error_has_the_last_rejection_and_the_number_of_attempts(broker):
    with (
        broker.on("Produce").error("NOT_LEADER_OR_FOLLOWER"),
        Producer(broker.bootstrap_servers, delivery_timeout_ms=400) as producer,
        pytest.raises(MaybeWrittenError, match=r"`delivery_timeout_ms`.*sent \d times.*NOT_LEADER_OR_FOLLOWER"),
    ):
        producer.send("t", b"x").result(60)
