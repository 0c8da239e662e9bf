"""Client metrics have Java's names and match the sent and read records."""

import asyncio
import math
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pyarrow as pa
import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncShareConsumer,
    Consumer,
    MetricName,
    Producer,
    ShareConsumer,
)
from kafkaframes.client.metrics import METRICS, PRODUCER, ClientMetrics, Sensor
from kafkaframes.errors import BrokerError, OptionError

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def broker():
    config = {"group.share.heartbeat.interval.ms": 200, "group.share.min.heartbeat.interval.ms": 100}
    with Broker(config=config) as broker:
        yield broker


@pytest.fixture
def topic(broker):
    name = f"t-{uuid4().hex[:8]}"
    broker.create_topic(name, 2)
    return name


def metric_value(metrics, name, group, **tags):
    """Return the value of the one metric with this name, group and tags (in addition to the client id)."""
    pairs = {(key.replace("_", "-"), str(value)) for key, value in tags.items()}
    matches = [
        value
        for key, value in metrics.items()
        if (key.name, key.group) == (name, group) and {tag for tag in key.tags if tag[0] != "client-id"} == pairs
    ]
    assert len(matches) == 1, (name, group, tags, len(matches))
    return matches[0]


def fill(broker, topic, count):
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % 2)


# ------------------------------------------------------------------------------------------------------------ sensors


def test_rates_equal_javas_rates():
    """Java's Rate: a window of two samples of 30 s is never shorter than one sample, and forgets older ones."""
    sensor = Sensor(2, 30.0)
    assert sensor.value("rate", 100.0) == 0
    sensor.record(60, 100.0)
    assert sensor.value("rate", 100.0) == 2.0  # 60 events in the 30 s of the first sample
    sensor.record(120, 140.0)
    assert sensor.value("rate", 140.0) == 180 / 40
    assert sensor.value("count rate", 140.0) == 2 / 40
    assert (sensor.value("avg", 140.0), sensor.value("max", 140.0)) == (90, 120)
    assert sensor.value("rate", 165.0) == 120 / 55  # the first sample has left the window; the second began 25 s ago
    assert (sensor.value("total", 1e6), sensor.value("count", 1e6)) == (180, 2)
    assert math.isnan(sensor.value("avg", 1e6))
    assert math.isnan(sensor.value("max", 1e6))


def test_each_metric_is_listed_once_per_client_and_has_one_unit():
    names = Counter((spec.name, spec.group, client) for spec in METRICS for client in spec.clients)
    assert [name for name, count in names.items() if count > 1] == []
    units: dict[str, str] = {}
    for spec in METRICS:
        assert units.setdefault(spec.name, spec.unit) == spec.unit, spec.name
        assert spec.name.endswith("-rate") == spec.unit.endswith("/s"), spec.name
    assert MetricName("batch-size-avg", "producer-metrics").unit == "bytes"


def test_the_cost_of_recording_does_not_grow_with_the_number_of_values():
    metrics = ClientMetrics(PRODUCER, "me", max_samples=2, sample_s=30)
    for _ in range(10_000):
        metrics.client["batch"].record(1)
    assert len(metrics.client["batch"]._samples) <= 2


# ------------------------------------------------------------------------------------------------------------ clients


def test_a_producer_counts_records_batches_and_bytes(broker, topic):
    with Producer(broker.bootstrap_servers, client_id="billing", batch_size=1_000) as producer:
        futures = [producer.send(topic, b"v" * 100, partition=number % 2) for number in range(100)]
        assert all(future.result(TIMEOUT_S) for future in futures)
        producer.send_arrow(pa.table({"value": [b"1", b"2", b"3"]}), topic=topic)
        metrics = producer.metrics()
    assert {dict(name.tags)["client-id"] for name in metrics} == {"billing"}
    assert metric_value(metrics, "record-send-total", "producer-metrics") == 103
    assert metric_value(metrics, "record-send-total", "producer-topic-metrics", topic=topic) == 103
    assert metric_value(metrics, "record-error-total", "producer-metrics") == 0
    assert metric_value(metrics, "byte-total", "producer-topic-metrics", topic=topic) > 100 * 100
    assert 100 < metric_value(metrics, "batch-size-avg", "producer-metrics") <= 1_100
    assert metric_value(metrics, "record-queue-time-avg", "producer-metrics") >= 0
    assert metric_value(metrics, "request-latency-max", "producer-metrics") > 0
    assert metric_value(metrics, "connection-count", "producer-metrics") >= 1
    requests = metric_value(metrics, "request-total", "producer-metrics")
    assert requests == metric_value(metrics, "response-total", "producer-metrics")
    nodes = [value for name, value in metrics.items() if name[:2] == ("request-total", "producer-node-metrics")]
    assert sum(nodes) == requests
    assert metric_value(metrics, "outgoing-byte-total", "producer-metrics") > 100 * 100
    total = metric_value(metrics, "buffer-total-bytes", "producer-metrics")
    assert metric_value(metrics, "buffer-available-bytes", "producer-metrics") == total == 33_554_432


def test_failed_and_retried_records_are_counted(broker, topic):
    broker.create_topic(f"{topic}-small", 1, max_message_bytes=200)
    with Producer(broker.bootstrap_servers, retry_backoff_ms=1) as producer:
        with pytest.raises(BrokerError):
            producer.send(f"{topic}-small", b"v" * 500).result(TIMEOUT_S)
        with broker.on("Produce", topic=topic).times(2).error("NOT_LEADER_OR_FOLLOWER"):
            producer.send(topic, b"1").result(TIMEOUT_S)
        metrics = producer.metrics()
    assert metric_value(metrics, "record-error-total", "producer-metrics") == 1
    assert metric_value(metrics, "record-error-total", "producer-topic-metrics", topic=f"{topic}-small") == 1
    assert metric_value(metrics, "record-retry-total", "producer-topic-metrics", topic=topic) == 2
    assert metric_value(metrics, "record-send-total", "producer-topic-metrics", topic=topic) == 3


def test_buffered_records_use_memory_and_waiting_for_memory_is_measured(broker, topic):
    with Producer(broker.bootstrap_servers, buffer_memory=10_000, linger_ms=60_000, batch_size=8_000) as producer:
        producer.send(topic, b"v" * 5_000, partition=0)
        available = metric_value(producer.metrics(), "buffer-available-bytes", "producer-metrics")
        assert 4_000 < available < 5_000
        producer.send(topic, b"v" * 6_000, partition=1)
        assert metric_value(producer.metrics(), "bufferpool-wait-time-ns-total", "producer-metrics") > 0


def test_a_consumer_counts_returned_records_and_the_remaining_lag(broker, topic):
    fill(broker, topic, 100)
    settings = {"auto_offset_reset": "earliest", "group_id": topic, "enable_auto_commit": False}
    with Consumer(broker.bootstrap_servers, **settings) as consumer:
        assert metric_value(consumer.metrics(), "last-poll-seconds-ago", "consumer-metrics") == -1
        consumer.assign([(topic, 0), (topic, 1)])
        count = len(consumer.poll(30_000, max_records=30))
        metrics = consumer.metrics()
        assert metric_value(metrics, "records-consumed-total", "consumer-fetch-manager-metrics") == count
        lags = [value for name, value in metrics.items() if name.name == "records-lag"]
        assert len(lags) == 2
        deadline = time.monotonic() + TIMEOUT_S
        for _ in consumer:  # iteration counts as well
            count += 1
            if count == 60:
                break
        count += len(consumer.poll(30_000, max_records=5))  # the remaining records of the iteration
        while count < 100 and time.monotonic() < deadline:
            count += consumer.fetch_arrow(1_000).num_rows
        consumer.commit()
        metrics = consumer.metrics()
    assert metric_value(metrics, "records-consumed-total", "consumer-fetch-manager-metrics") == 100
    for number in range(2):
        tags = {"topic": topic, "partition": number}
        assert metric_value(metrics, "records-lag", "consumer-fetch-manager-metrics", **tags) == 0
        assert metric_value(metrics, "records-lead", "consumer-fetch-manager-metrics", **tags) == 50
    assert 0 < metric_value(metrics, "records-lag-max", "consumer-fetch-manager-metrics") < 100
    assert metric_value(metrics, "fetch-total", "consumer-fetch-manager-metrics") >= 1
    assert metric_value(metrics, "fetch-latency-max", "consumer-fetch-manager-metrics") > 0
    stored_bytes = metric_value(metrics, "bytes-consumed-total", "consumer-fetch-manager-metrics")
    assert stored_bytes >= sum(len(record.value) for number in range(2) for record in broker.records(topic, number))
    assert metric_value(metrics, "commit-total", "consumer-coordinator-metrics") == 1
    assert metric_value(metrics, "commit-latency-avg", "consumer-coordinator-metrics") > 0
    assert metric_value(metrics, "assigned-partitions", "consumer-coordinator-metrics") == 2
    assert 0 <= metric_value(metrics, "last-poll-seconds-ago", "consumer-metrics") < TIMEOUT_S


def test_records_in_batches_of_bytes_are_counted(broker, topic):
    fill(broker, topic, 10)
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign({(topic, 0): 2})
        fetched_batches = consumer.fetch(30_000)
        metrics = consumer.metrics()
    assert fetched_batches.record_count >= 3
    assert (
        metric_value(metrics, "records-consumed-total", "consumer-fetch-manager-metrics")
        == fetched_batches.record_count
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_counts_joins_heartbeats_and_rebalances(protocol, broker, topic):
    fill(broker, topic, 2)
    settings = {"group_id": topic, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    with Consumer(broker.bootstrap_servers, heartbeat_interval_ms=50, **settings) as consumer:
        consumer.subscribe(topic)
        assert consumer.poll(30_000)
        deadline = time.monotonic() + TIMEOUT_S
        while not metric_value(metrics := consumer.metrics(), "heartbeat-total", "consumer-coordinator-metrics"):
            assert time.monotonic() < deadline
            consumer.poll(50)
    group = "consumer-coordinator-metrics"
    assert metric_value(metrics, "assigned-partitions", group) == 2
    assert metric_value(metrics, "rebalance-total", group) >= 1
    assert metric_value(metrics, "last-heartbeat-seconds-ago", group) >= 0
    assert metric_value(metrics, "last-rebalance-seconds-ago", group) >= 0
    assert (metric_value(metrics, "join-total", group) >= 1) == (protocol == "classic")
    assert (metric_value(metrics, "sync-total", group) >= 1) == (protocol == "classic")


def test_a_share_consumer_counts_records_and_acknowledgements(broker, topic):
    with Admin(broker.bootstrap_servers) as admin:
        admin.alter_configs("group", topic, {"share.auto.offset.reset": "earliest"})
        assert metric_value(admin.metrics(), "request-total", "admin-client-metrics") >= 1
    fill(broker, topic, 10)
    with ShareConsumer(broker.bootstrap_servers, group_id=topic, fetch_max_wait_ms=100) as consumer:
        consumer.subscribe(topic)
        count, deadline = 0, time.monotonic() + TIMEOUT_S
        while count < 10 and time.monotonic() < deadline:
            count += len(consumer.poll(500))
        consumer.commit()
        metrics = consumer.metrics()
    assert metric_value(metrics, "records-consumed-total", "consumer-share-fetch-manager-metrics") == count == 10
    assert metric_value(metrics, "acknowledgements-send-total", "consumer-share-fetch-manager-metrics") == 10
    assert metric_value(metrics, "assigned-partitions", "consumer-share-coordinator-metrics") == 2
    assert metric_value(metrics, "heartbeat-total", "consumer-share-coordinator-metrics") >= 1


def test_asyncio_clients_have_the_same_metrics(broker, topic):
    async def run():
        async with AsyncProducer(broker.bootstrap_servers) as producer:
            await producer.send_and_wait(topic, b"1", partition=0)
            producer_metrics = producer.metrics()
        async with AsyncConsumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            await consumer.assign([(topic, 0)])
            async for _ in consumer:
                break
            consumer_metrics = consumer.metrics()
        async with AsyncAdmin(broker.bootstrap_servers) as admin:
            await admin.list_topics()
            admin_metrics = admin.metrics()
        async with AsyncShareConsumer(broker.bootstrap_servers, group_id="g") as share_consumer:
            share_metrics = share_consumer.metrics()
        return producer_metrics, consumer_metrics, admin_metrics, share_metrics

    producer_metrics, consumer_metrics, admin_metrics, share_metrics = asyncio.run(run())
    assert metric_value(producer_metrics, "record-send-total", "producer-metrics") == 1
    assert metric_value(consumer_metrics, "records-consumed-total", "consumer-fetch-manager-metrics") == 1
    assert metric_value(admin_metrics, "response-total", "admin-client-metrics") >= 1
    assert metric_value(share_metrics, "connection-count", "consumer-share-metrics") == 0


def test_calls_of_a_transactional_producer_are_measured(broker, topic):
    with Producer(broker.bootstrap_servers, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"1")
        producer.flush()
        producer.send_offsets_to_transaction({(topic, 0): 1}, topic)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.abort_transaction()
        metrics = producer.metrics()
    for name in ("txn-init", "txn-begin", "txn-send-offsets", "txn-commit", "txn-abort", "flush", "metadata-wait"):
        assert metric_value(metrics, f"{name}-time-ns-total", "producer-metrics") > 0, name


def test_a_producer_without_transactions_has_no_transaction_metrics(broker, topic):
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"1").result(TIMEOUT_S)
        metrics = producer.metrics()
    assert metric_value(metrics, "txn-init-time-ns-total", "producer-metrics") == 0
    assert metric_value(metrics, "flush-time-ns-total", "producer-metrics") == 0


def test_divided_batches_are_counted(broker, topic):
    broker.create_topic(f"{topic}-small", 1, max_message_bytes=2_000)
    with Producer(broker.bootstrap_servers, linger_ms=60_000) as producer:
        futures = [producer.send(f"{topic}-small", b"v" * 500) for _ in range(6)]
        producer.flush()
        assert [future.result(TIMEOUT_S).offset for future in futures] == list(range(6))
        assert metric_value(producer.metrics(), "batch-split-total", "producer-metrics") >= 1


def test_calls_that_wait_for_memory_are_counted(broker, topic):
    with (
        Producer(broker.bootstrap_servers, buffer_memory=1_000, max_block_ms=TIMEOUT_S * 1000) as producer,
        ThreadPoolExecutor() as pool,
    ):
        with broker.on("Produce", topic=topic).times(1).delay(5):
            first = producer.send(topic, b"v" * 900)
            second = pool.submit(producer.send, topic, b"v" * 900)
            deadline = time.monotonic() + TIMEOUT_S
            while not metric_value(producer.metrics(), "waiting-threads", "producer-metrics"):
                assert time.monotonic() < deadline
        first.result(TIMEOUT_S)
        second.result(TIMEOUT_S).result(TIMEOUT_S)
        assert metric_value(producer.metrics(), "waiting-threads", "producer-metrics") == 0


@pytest.mark.parametrize("kind", [Consumer, ShareConsumer])
def test_the_poll_idle_ratio_is_the_time_that_the_caller_waits(kind, broker, topic):
    group = "consumer-metrics" if kind is Consumer else "consumer-share-metrics"
    with kind(broker.bootstrap_servers, group_id=topic) as consumer:
        consumer.subscribe(topic)
        for _ in range(3):
            consumer.poll(100)
            time.sleep(0.1)
        metrics = consumer.metrics()
    assert 0.2 < metric_value(metrics, "poll-idle-ratio-avg", group) < 0.9
    assert metric_value(metrics, "time-between-poll-max", group) >= 200
    assert 0 <= metric_value(metrics, "last-poll-seconds-ago", group) < TIMEOUT_S


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalances_and_callbacks_are_measured(protocol, broker, topic):
    fill(broker, topic, 2)
    group, calls = "consumer-coordinator-metrics", []
    settings = {"group_id": topic, "group_protocol": protocol, "auto_offset_reset": "earliest"}

    def on_assign(partitions):
        time.sleep(0.05)
        calls.append(partitions)

    with Consumer(broker.bootstrap_servers, heartbeat_interval_ms=50, **settings) as consumer:
        consumer.subscribe(topic, on_assign=on_assign, on_revoke=calls.append)
        assert consumer.poll(30_000)
        consumer.commit()
        consumer.committed([(topic, 0)])
        metrics = consumer.metrics()
        count = metric_value(metrics, "rebalance-total", group)
        consumer.unsubscribe()
        after = consumer.metrics()
    assert calls
    assert count >= 1
    assert metric_value(metrics, "rebalance-rate-per-hour", group) > 0
    assert (
        metric_value(metrics, "rebalance-latency-total", group)
        >= metric_value(metrics, "rebalance-latency-max", group)
        > 0
    )
    assert metric_value(metrics, "failed-rebalance-total", group) == 0
    assert metric_value(metrics, "partition-assigned-latency-max", group) >= 50
    assert math.isnan(metric_value(metrics, "partition-revoked-latency-max", group))
    assert metric_value(after, "partition-revoked-latency-max", group) >= 0
    assert math.isnan(metric_value(after, "partition-lost-latency-max", group))
    assert metric_value(metrics, "commit-sync-time-ns-total", "consumer-metrics") > 0
    assert metric_value(metrics, "committed-time-ns-total", "consumer-metrics") > 0
    assert metric_value(metrics, "records-lead-min", "consumer-fetch-manager-metrics") >= 1


def test_a_failed_rebalance_is_counted(broker, topic):
    with (
        Consumer(
            broker.bootstrap_servers, group_id=topic, session_timeout_ms=1_000, heartbeat_interval_ms=50
        ) as consumer,
        broker.on("SyncGroup").times(1).error("UNKNOWN_MEMBER_ID"),
    ):
        consumer.subscribe(topic)
        deadline = time.monotonic() + TIMEOUT_S
        while len(consumer.assignment()) < 2:
            assert time.monotonic() < deadline
            consumer.poll(50)
        metrics = consumer.metrics()
    assert metric_value(metrics, "failed-rebalance-total", "consumer-coordinator-metrics") == 1
    assert metric_value(metrics, "rebalance-total", "consumer-coordinator-metrics") == 1


def test_successful_authentications_are_counted(topic):
    with Broker(security=Security(users={"alice": "secret"})) as broker:
        broker.create_topic(topic, 1)
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "alice", "sasl_password": "secret"}
        with Producer(broker.bootstrap_servers, **login) as producer:
            producer.send(topic, b"1").result(TIMEOUT_S)
            metrics = producer.metrics()
    count = metric_value(metrics, "successful-authentication-total", "producer-metrics")
    assert count == metric_value(metrics, "connection-creation-total", "producer-metrics") >= 1


def test_closed_connections_are_counted(broker, topic):
    with Producer(broker.bootstrap_servers, reconnect_backoff_ms=1, retry_backoff_ms=1) as producer:
        producer.send(topic, b"1").result(TIMEOUT_S)
        with broker.on("Produce", topic=topic).times(1).close():
            producer.send(topic, b"2").result(TIMEOUT_S)
        metrics = producer.metrics()
    created_count = metric_value(metrics, "connection-creation-total", "producer-metrics")
    closed_count = metric_value(metrics, "connection-close-total", "producer-metrics")
    assert closed_count >= 1
    assert metric_value(metrics, "connection-count", "producer-metrics") == created_count - closed_count >= 1


def test_every_documented_metric_is_reported_by_its_clients(broker, topic):
    """A gauge that a client does not register would otherwise be missing unnoticed."""
    fill(broker, topic, 2)
    reported_metrics: set = set()
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"1").result(TIMEOUT_S)
        reported_metrics |= {(name.name, name.group) for name in producer.metrics()}
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        consumer.poll(30_000)
        reported_metrics |= {(name.name, name.group) for name in consumer.metrics()}
    with ShareConsumer(broker.bootstrap_servers, group_id="g") as consumer, Admin(broker.bootstrap_servers) as admin:
        consumer.subscribe(topic)
        admin.list_topics()
        reported_metrics |= {(name.name, name.group) for name in [*consumer.metrics(), *admin.metrics()]}
    expected_metrics = {(spec.name, f"{client}-{spec.group}") for spec in METRICS for client in spec.clients}
    assert expected_metrics - reported_metrics == {
        ("preferred-read-replica", "consumer-fetch-manager-metrics")
    }  # needs a rack


def test_the_number_and_window_of_samples_are_settings(broker):
    with Producer(broker.bootstrap_servers, metrics_num_samples=3, metrics_sample_window_ms=1_000) as producer:
        sensor = producer._twin._cluster.metrics.client["batch"]
    assert (sensor._max_samples, sensor._sample_s) == (3, 1.0)
    with pytest.raises(OptionError, match="metrics_num_samples is 0; expected a number of at least 1"):
        Producer({"bootstrap.servers": "a:1", "metrics.num.samples": "0"})
