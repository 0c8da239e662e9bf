"""Clients push their metrics to a broker; its errors, its plugin's delays and its subscriptions affect only these
pushes.

Public reports that these tests play: KAFKA-17731 (closing waits 30 s for the last push), KAFKA-16759 (a response while
the client closes), KAFKA-19747 and its review (warnings on brokers without telemetry), KAFKA-20898 (a last push with an
old subscription), librdkafka #4833 (no requested metric exists), librdkafka #5465 (closing with telemetry disabled; the
id of a share consumer), librdkafka #4721 (large payloads), Dekaf #1102 (a fatal error is retried forever),
confluent-kafka-python #2185 (no requested metric exists, and brokers close the connection), confluent-kafka-dotnet
#2399 (log messages of ordinary pushes alarm users).
"""

import asyncio
import logging
import time
from collections import Counter
from uuid import UUID, uuid4

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from tests.waiting import PATIENCE_S, wait_for

from kafkaframes.broker import Broker
from kafkaframes.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncShareConsumer,
    Consumer,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from kafkaframes.errors import BrokerError, NetworkError, OptionError
from kafkaframes.records.codecs import decompress

PREFIX = "org.apache.kafka."
GET, PUSH = "GetTelemetrySubscriptions", "PushTelemetry"


@pytest.fixture(scope="module")
def broker_with_subscription():
    with Broker() as broker:
        broker.create_topic("t", 2)
        yield broker


@pytest.fixture
def broker(broker_with_subscription):
    subscribe(broker_with_subscription, metrics="*", **{"interval.ms": "100"})
    yield broker_with_subscription
    broker_with_subscription.clear_faults()


@pytest.fixture
def client_id():
    return f"c-{uuid4().hex[:8]}"


def subscribe(broker, **configs):
    with Admin(broker.bootstrap_servers) as admin:
        admin.alter_configs("client-metrics", "all", configs)


def requests(broker, api, client_id):
    return broker.journal.requests(api, client_id=client_id, where=lambda entry: entry.answer is not None)


def accepted_pushes(broker, client_id):
    return [entry.body for entry in requests(broker, PUSH, client_id) if not entry.answer.error_code]


def metrics_of(body):
    """Return the metrics of a push by name, and the labels of the client."""
    data = decompress(body.compression_type, body.metrics, magic=2)
    assert data.error is None
    [resource] = MetricsData.FromString(data.data).resource_metrics
    labels = {entry.key: entry.value.string_value for entry in resource.resource.attributes}
    return {metric.name.removeprefix(PREFIX): metric for metric in resource.scope_metrics[0].metrics}, labels


def total(bodies, name):
    """Return the sum of a counter over all pushes."""
    return sum(point.as_double for body in bodies for point in metrics_of(body)[0][name].sum.data_points)


# --------------------------------------------------------------------------------------------------------- all clients


def use_producer(client, topic):
    client.send(topic, b"1").result(PATIENCE_S)


def use_consumer(client, topic):
    client.subscribe(topic)
    assert client.poll(30_000)


def use_share_consumer(client, topic):
    client.subscribe(topic)
    client.poll(100)


def use_admin(client, topic):
    assert topic in client.list_topics()


async def use_async_producer(client, topic):
    await client.send_and_wait(topic, b"1")


async def use_async_consumer(client, topic):
    await client.subscribe(topic)
    assert await client.poll(30_000)


async def use_async_share_consumer(client, topic):
    await client.subscribe(topic)
    await client.poll(100)


async def use_async_admin(client, topic):
    assert topic in await client.list_topics()


CLIENTS = {
    "producer": (Producer, use_producer, {"transactional_id": None}),
    "consumer": (Consumer, use_consumer, {"group_id": "g", "group_instance_id": "i", "client_rack": "r"}),
    "consumer.share": (ShareConsumer, use_share_consumer, {"group_id": "sg", "client_rack": "r"}),
    "admin.client": (Admin, use_admin, {}),
}
ASYNC_CLIENTS = {
    "producer": (AsyncProducer, use_async_producer, {}),
    "consumer": (AsyncConsumer, use_async_consumer, {"group_id": "ag", "client_rack": "r"}),
    "consumer.share": (AsyncShareConsumer, use_async_share_consumer, {"group_id": "asg"}),
    "admin.client": (AsyncAdmin, use_async_admin, {}),
}


def check_pushes(broker, client_id, prefix, options, instance_id):
    bodies = accepted_pushes(broker, client_id)
    assert [body.terminating for body in bodies] == [False] * (len(bodies) - 1) + [True]
    assert {body.client_instance_id for body in bodies} == {instance_id}
    metrics, labels = metrics_of(bodies[0])
    assert f"{prefix}.connection.creation.total" in metrics
    assert {name.startswith(f"{prefix}.") for name in metrics} == {True}
    expected_labels = {name: value for name, value in options.items() if value and name != "auto_offset_reset"}
    assert {name: value for name, value in labels.items() if name != "group_member_id"} == expected_labels
    assert ("group_member_id" in labels) == ("group_id" in options)
    for entry in requests(broker, PUSH, client_id):
        assert entry.body.compression_type == 4  # the broker prefers zstd


@pytest.mark.parametrize("prefix", CLIENTS)
def test_a_client_pushes_its_metrics_and_pushes_again_when_it_is_closed(broker, client_id, prefix):
    broker.append("t", [{"value": b"v"}])
    kind, use, options = CLIENTS[prefix]
    reset = {"auto_offset_reset": "earliest"} if prefix == "consumer" else {}
    with kind(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True, **options, **reset) as client:
        use(client, "t")
        instance_id = client.client_instance_id(30_000)
        assert isinstance(instance_id, UUID)
        wait_for(lambda: accepted_pushes(broker, client_id))
        assert client.client_instance_id() == instance_id
    check_pushes(broker, client_id, prefix, options, instance_id)


@pytest.mark.parametrize("prefix", ASYNC_CLIENTS)
def test_an_asyncio_client_pushes_its_metrics_and_pushes_again_when_it_is_closed(broker, client_id, prefix):
    broker.append("t", [{"value": b"v"}])
    kind, use, options = ASYNC_CLIENTS[prefix]
    reset = {"auto_offset_reset": "earliest"} if prefix == "consumer" else {}

    async def run():
        settings = {"client_id": client_id, "enable_metrics_push": True, **options, **reset}
        async with kind(broker.bootstrap_servers, **settings) as client:
            await use(client, "t")
            instance_id = await client.client_instance_id(30_000)
            await asyncio.to_thread(wait_for, lambda: accepted_pushes(broker, client_id))
        return instance_id

    check_pushes(broker, client_id, prefix, options, asyncio.run(run()))


def test_the_sum_of_all_pushes_is_the_clients_total(broker, client_id):
    with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
        for count in range(1, 4):
            producer.send("t", b"v", partition=0).result(PATIENCE_S)
            wait_for(lambda count=count: len(accepted_pushes(broker, client_id)) >= count)
        wait_for(lambda: total(accepted_pushes(broker, client_id), "producer.record.send.total") == 3)
    assert total(accepted_pushes(broker, client_id), "producer.record.send.total") == 3


def test_records_of_an_iteration_are_in_the_push(broker, client_id):
    broker.append("t", [{"value": b"v"}] * 5)
    with Consumer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as consumer:
        consumer.assign({("t", 0): 0})
        for _ in zip(range(3), consumer, strict=False):
            pass
        wait_for(
            lambda: total(accepted_pushes(broker, client_id), "consumer.fetch.manager.records.consumed.total") >= 3
        )


# -------------------------------------------------------------------------------------------- clients that push none


def test_clients_push_nothing_by_default(broker, client_id):
    with Producer(broker.bootstrap_servers, client_id=client_id) as producer:
        producer.send("t", b"1").result(PATIENCE_S)
        with pytest.raises(OptionError, match="set enable_metrics_push=True"):
            producer.client_instance_id()
    assert not broker.journal.requests(GET, client_id=client_id)


def test_a_client_with_javas_property_pushes(broker, client_id):
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": client_id, "enable.metrics.push": "true"}
    with Admin(settings) as admin:
        admin.list_topics()
        wait_for(lambda: accepted_pushes(broker, client_id))


def test_a_broker_without_subscriptions_gets_no_request_and_causes_no_log(client_id, caplog):
    caplog.set_level(logging.INFO)
    with Broker() as broker:
        broker.create_topic("t", 1)
        with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
            producer.send("t", b"1").result(PATIENCE_S)
            with pytest.raises(BrokerError, match=r"does not support GetTelemetrySubscriptions; .* plugin") as failure:
                producer.client_instance_id(30_000)
            assert failure.value.code.name == "UNSUPPORTED_VERSION"
        assert {entry.api for entry in broker.journal} & {GET, PUSH} == set()
        assert len({entry.connection for entry in broker.journal.requests(client_id=client_id)}) <= 2
    assert not caplog.records


@pytest.mark.parametrize("release", ["2.8.2", "3.6.2"])
def test_releases_before_3_7_get_no_telemetry_requests(release, client_id, caplog):
    with Broker(broker_release=release) as broker:
        broker.create_topic("t", 1)
        with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
            producer.send("t", b"1").result(PATIENCE_S)
        assert {entry.api for entry in broker.journal} & {GET, PUSH} == set()
    assert not caplog.records


def test_a_fixed_api_version_hides_whether_a_broker_accepts_telemetry():
    with pytest.raises(OptionError, match="enable_metrics_push does not work with api_version"):
        Producer("a:1", enable_metrics_push=True, api_version="3.9")


def test_an_unreachable_broker_gives_no_instance_id(client_id):
    with Admin("127.0.0.1:1", client_id=client_id, enable_metrics_push=True) as admin, pytest.raises(NetworkError):
        admin.client_instance_id(200)


# ----------------------------------------------------------------------------------------------------------- responses


@pytest.mark.parametrize("error", ["INVALID_RECORD", "CLUSTER_AUTHORIZATION_FAILED"])
@pytest.mark.parametrize("api", [GET, PUSH])
def test_a_client_whose_pushes_are_rejected_logs_one_warning_and_continues(broker, client_id, api, error, caplog):
    broker.on(api, client_id=client_id).error(error)
    with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
        producer.send("t", b"1").result(PATIENCE_S)
        wait_for(lambda: requests(broker, api, client_id))
        wait_for(lambda: caplog.records)
        time.sleep(0.5)  # wait five intervals, in which a retry would be sent
        if api == GET:
            with pytest.raises(BrokerError, match=error):
                producer.client_instance_id(30_000)
        producer.send("t", b"2").result(PATIENCE_S)
    assert len(requests(broker, api, client_id)) == 1
    [record] = caplog.records
    assert f"client {client_id!r} no longer pushes metrics" in record.message
    assert error in record.message


def test_a_changed_subscription_takes_effect_without_log_messages(broker, client_id, caplog):
    caplog.set_level(logging.INFO)
    with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
        producer.send("t", b"1").result(PATIENCE_S)
        wait_for(lambda: accepted_pushes(broker, client_id))
        subscribe(broker, metrics="org.apache.kafka.producer.record.send.total")
        wait_for(lambda: set(metrics_of(accepted_pushes(broker, client_id)[-1])[0]) == {"producer.record.send.total"})
    codes = Counter(entry.answer.error_code for entry in requests(broker, PUSH, client_id))
    assert codes.keys() <= {0, 117}
    assert codes[117] == 1
    assert not caplog.records


def test_a_last_push_with_an_outdated_subscription_is_not_retried(broker, client_id, caplog):
    subscribe(broker, **{"interval.ms": "3600000"})
    with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
        producer.client_instance_id(30_000)
        subscribe(broker, metrics="org.apache.kafka.producer.")
    assert [entry.answer.error_code for entry in requests(broker, PUSH, client_id)] == [117]
    assert not caplog.records


def test_a_subscription_to_an_unknown_metric_is_not_an_error(broker, client_id, caplog):
    subscribe(broker, metrics="org.apache.kafka.streams.")
    with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
        producer.send("t", b"1").result(PATIENCE_S)
        body = wait_for(lambda: accepted_pushes(broker, client_id))[0]
    assert body.metrics is not None  # a null metrics field would close the connection
    assert decompress(body.compression_type, body.metrics, magic=2).data == b""
    assert len({entry.connection for entry in requests(broker, PUSH, client_id)}) == 1
    assert not caplog.records


def test_a_subscription_without_metrics_is_read_again(broker, client_id):
    subscribe(broker, metrics="")
    with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
        producer.send("t", b"1").result(PATIENCE_S)
        assert producer.client_instance_id(30_000)
        wait_for(lambda: len(requests(broker, GET, client_id)) >= 2)
        assert not broker.journal.requests(PUSH, client_id=client_id)
        subscribe(broker, metrics="*")
        wait_for(lambda: accepted_pushes(broker, client_id))
    identities = {entry.body.client_instance_id for entry in requests(broker, GET, client_id)[1:]}
    assert len(identities) == 1


def test_a_codec_that_the_broker_rejects_is_replaced(broker, client_id):
    broker.on(PUSH, client_id=client_id).times(1).error("UNSUPPORTED_COMPRESSION_TYPE")
    with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
        producer.send("t", b"1").result(PATIENCE_S)
        body = wait_for(lambda: accepted_pushes(broker, client_id))[0]
    assert body.compression_type == 3  # lz4, the broker's second choice
    assert metrics_of(body)[0]


def test_a_too_large_payload_is_reduced(broker, client_id, caplog):
    broker.on(PUSH, client_id=client_id).times(2).error("TELEMETRY_TOO_LARGE")
    with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
        producer.send("t", b"1").result(PATIENCE_S)
        wait_for(lambda: accepted_pushes(broker, client_id))
    entries = requests(broker, PUSH, client_id)[:3]
    first, second, third = (len(decompress(4, entry.body.metrics, magic=2).data) for entry in entries)
    assert first / 2 >= second
    assert second / 2 >= third > 0
    assert [record.message for record in caplog.records if "pushes only some of its metrics" in record.message]


# ------------------------------------------------------------------------------------------ connections and closing


def test_a_slow_plugin_delays_neither_records_nor_closing(broker, client_id):
    broker.on(PUSH, client_id=client_id).delay(60)
    with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
        producer.send("t", b"1").result(PATIENCE_S)
        wait_for(lambda: broker.journal.requests(PUSH, client_id=client_id))
        producer.send("t", b"2").result(PATIENCE_S)
        start_time = time.monotonic()
    assert time.monotonic() - start_time < 20


@pytest.mark.parametrize("timeout_ms", [0, 50])
def test_telemetry_does_not_delay_closing_beyond_its_timeout(broker, client_id, timeout_ms):
    broker.on(PUSH, client_id=client_id).delay(60)
    consumer = Consumer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True)
    consumer.assign([("t", 0)])
    wait_for(lambda: broker.journal.requests(PUSH, client_id=client_id))
    start_time = time.monotonic()
    consumer.close(timeout_ms=timeout_ms)
    assert time.monotonic() - start_time < 20


def test_a_client_closed_before_its_first_push_pushes_at_most_once(broker, client_id):
    for _ in range(5):
        Consumer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True).close()
        consumer = Consumer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True)
        consumer.assign([TopicPartition("t", 0)])
        consumer.close()
    bodies = accepted_pushes(broker, client_id)
    assert all(body.terminating for body in bodies)


def test_a_short_lived_client_pushes_once(broker, client_id):
    subscribe(broker, **{"interval.ms": "3600000"})
    with Producer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
        producer.send("t", b"1").result(PATIENCE_S)
        producer.client_instance_id(30_000)
    [body] = accepted_pushes(broker, client_id)
    assert body.terminating
    assert metrics_of(body)[0]["producer.record.send.total"].sum.data_points[0].as_double == 1


def test_a_lost_connection_loses_no_counts(broker, client_id):
    with Producer(
        broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True, reconnect_backoff_ms=1
    ) as producer:
        producer.send("t", b"1").result(PATIENCE_S)
        wait_for(lambda: accepted_pushes(broker, client_id))
        with broker.on(PUSH, client_id=client_id).times(1).close():
            producer.send("t", b"2").result(PATIENCE_S)
        count = len(accepted_pushes(broker, client_id))
        wait_for(lambda: len(accepted_pushes(broker, client_id)) > count)
        wait_for(lambda: total(accepted_pushes(broker, client_id), "producer.record.send.total") == 2)


def test_telemetry_follows_the_client_to_another_node(client_id):
    with Broker(cluster=3) as broker:
        broker.create_topic("t", 3)
        subscribe(broker, metrics="*", **{"interval.ms": "100"})
        with Producer(
            broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True, reconnect_backoff_ms=1
        ) as producer:
            for partition in range(3):
                producer.send("t", b"1", partition=partition).result(PATIENCE_S)
            wait_for(lambda: accepted_pushes(broker, client_id))
            instance_id = producer.client_instance_id()
            for node_id in list(broker.call(lambda state: list(state.nodes.by_id)))[:2]:
                broker.stop_node(node_id)
            producer.send("t", b"2").result(PATIENCE_S)
            count = len(accepted_pushes(broker, client_id))
            wait_for(lambda: len(accepted_pushes(broker, client_id)) > count)
        assert {body.client_instance_id for body in accepted_pushes(broker, client_id)} == {instance_id}


def test_an_error_inside_the_telemetry_does_not_reach_the_application(broker, client_id, caplog):
    async def run():
        async with AsyncProducer(broker.bootstrap_servers, client_id=client_id, enable_metrics_push=True) as producer:
            producer._cluster.metrics.add_gauge("metadata-age", lambda: 1 / 0)
            await producer.send_and_wait("t", b"1")
            deadline = time.monotonic() + PATIENCE_S
            while not caplog.records and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            await producer.send_and_wait("t", b"2")

    asyncio.run(run())
    [record] = caplog.records
    assert "no longer pushes metrics" in record.message
    assert record.exc_info is not None
