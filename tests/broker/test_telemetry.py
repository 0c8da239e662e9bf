"""Client telemetry (KIP-714) of the embedded broker: advertised with a subscription, and throttled as Kafka does it."""

from uuid import UUID

import pytest
from tests.broker.direct import DirectBroker

from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message

CLIENT_METRICS = 16
NIL_ID = UUID(int=0)


@pytest.fixture
def broker():
    return DirectBroker()


def subscribe(broker, **configs):
    types = message("IncrementalAlterConfigsRequest")
    rows = [types.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    resource = types.AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name="all", configs=rows)
    assert broker.send("IncrementalAlterConfigs", 1, resources=[resource]).responses[0].error_code == 0


def read_advertised_keys(broker):
    answer = broker.send("ApiVersions", 4, client_software_name="a", client_software_version="1")
    return {row.api_key for row in answer.api_keys}


def get(broker, instance_id=NIL_ID):
    return broker.send("GetTelemetrySubscriptions", 0, client_instance_id=instance_id)


def push(broker, answer, **fields):
    body = {
        "client_instance_id": answer.client_instance_id,
        "subscription_id": answer.subscription_id,
        "terminating": False,
        "compression_type": 0,
        "metrics": b"",
    }
    return broker.send("PushTelemetry", 0, **{**body, **fields}).error_code


def test_the_apis_are_advertised_while_a_subscription_exists(broker):
    assert not read_advertised_keys(broker) & {71, 72}
    subscribe(broker, metrics="*")
    assert read_advertised_keys(broker) >= {71, 72}


def test_a_subscription_has_the_prefixes_and_the_shortest_interval(broker):
    subscribe(broker, metrics="org.apache.kafka.producer., org.apache.kafka.consumer.", interval_ms="1000")
    answer = get(broker)
    assert answer.error_code == ErrorCode.NONE
    assert answer.client_instance_id != NIL_ID
    assert (answer.push_interval_ms, answer.telemetry_max_bytes, answer.delta_temporality) == (1000, 1048576, True)
    assert answer.requested_metrics == ["org.apache.kafka.consumer.", "org.apache.kafka.producer."]
    assert answer.accepted_compression_types == [4, 3, 1, 2]


def test_requests_before_the_push_interval_are_throttled(broker):
    subscribe(broker, metrics="*", interval_ms="1000")
    answer = get(broker)
    assert get(broker, answer.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(broker, answer) == ErrorCode.NONE  # the first push after a subscription may arrive at any time
    broker.clock.advance(0.999)
    assert push(broker, answer) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    broker.clock.advance(0.001)
    assert push(broker, answer) == ErrorCode.NONE
    assert broker.state.counters["client_metrics_pushed"] == 2


def test_a_terminating_push_is_accepted_at_any_time_and_is_the_last(broker):
    subscribe(broker, metrics="*", interval_ms="1000")
    answer = get(broker)
    assert push(broker, answer) == ErrorCode.NONE
    assert push(broker, answer, terminating=True) == ErrorCode.NONE
    broker.clock.advance(1)
    assert push(broker, answer) == ErrorCode.INVALID_REQUEST


def test_a_changed_subscription_has_another_id_and_is_read_at_once(broker):
    subscribe(broker, metrics="*", interval_ms="1000")
    answer = get(broker)
    subscribe(broker, metrics="org.apache.kafka.producer.")
    assert push(broker, answer) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    subscription = get(broker, answer.client_instance_id)
    assert subscription.error_code == ErrorCode.NONE
    assert subscription.client_instance_id == answer.client_instance_id
    assert subscription.subscription_id != answer.subscription_id
    assert push(broker, subscription) == ErrorCode.THROTTLING_QUOTA_EXCEEDED  # Kafka counts the rejected push
    broker.clock.advance(1)
    assert push(broker, subscription) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"client_instance_id": NIL_ID}, ErrorCode.INVALID_REQUEST),
        ({"client_instance_id": UUID(int=1)}, ErrorCode.INVALID_REQUEST),
        ({"subscription_id": -1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": bytes(1048577)}, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
    ids=str,
)
def test_invalid_pushes_are_rejected(broker, fields, code):
    subscribe(broker, metrics="*")
    assert push(broker, get(broker), **fields) == code
    assert broker.state.counters["client_metrics_pushed"] == 0


def test_two_client_instances_have_different_subscription_ids(broker):
    subscribe(broker, metrics="*")
    first = get(broker)
    broker.close()
    second = get(broker)
    assert first.client_instance_id != second.client_instance_id
    assert first.subscription_id != second.subscription_id
