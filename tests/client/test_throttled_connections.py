"""After a response with a throttle time, a client sends nothing on the connection until it has passed (KIP-219).

The broker does not read the connection in the meantime. kafka-python #2506: requests were sent and timed out.
"""

import threading
import time
from contextlib import contextmanager

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer, QuotaEntity, network
from kafkaframes.errors import NetworkError
from kafkaframes.protocol.messages import message


@contextmanager
def throttled_admin(throttle_time_ms, *, broker_release=None, **settings):
    """Yield a function that sends a request on a connection that the last response has throttled."""
    cls = message("ListGroupsResponse")
    options = {} if broker_release is None else {"broker_release": broker_release}
    with Broker(**options) as broker, Admin(broker.bootstrap_servers, **settings) as admin:
        admin.list_groups()
        with broker.on("ListGroups").answer(lambda _: cls(throttle_time_ms=throttle_time_ms)):
            admin.list_groups()
        yield admin.list_groups


def measure_seconds(call):
    start = time.monotonic()
    call()
    return time.monotonic() - start


def test_the_next_request_is_sent_after_the_throttle_time():
    with throttled_admin(700) as send_request:
        assert measure_seconds(send_request) > 0.6


def test_an_extreme_throttle_time_is_limited(monkeypatch):
    monkeypatch.setattr(network, "_MAX_THROTTLE_S", 0.5)
    with throttled_admin(2**31 - 1, request_timeout_ms=500) as send_request:
        assert measure_seconds(send_request) < 20


def test_responses_of_brokers_before_kafka_2_are_already_delayed():
    with throttled_admin(20_000, broker_release="1.1") as send_request:
        assert measure_seconds(send_request) < 15


def test_a_throttled_client_can_be_closed():
    errors = []

    def wait_for_response(send_request):
        try:
            send_request()
        except NetworkError as error:
            errors.append(error)

    with throttled_admin(20_000) as send_request:
        call = threading.Thread(target=wait_for_response, args=(send_request,))
        call.start()
        time.sleep(0.1)
        start = time.monotonic()
    call.join(15)
    assert time.monotonic() - start < 15
    assert len(errors) == 1


@pytest.mark.slow
def test_a_producer_above_its_quota_loses_no_connection(caplog):
    """The request timeout is shorter than the throttle times of 13 batches of 10,000 bytes at 10,000 bytes per
    second.
    """
    with Broker() as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name="t", num_partitions=1)])
        entity = QuotaEntity(client_id="slow")
        admin.alter_client_quotas({entity: {"producer_byte_rate": 10_000.0}})
        broker.wait_for(lambda: admin.describe_client_quotas(client_id="slow"))
        with Producer(broker.bootstrap_servers, client_id="slow", linger_ms=0, request_timeout_ms=1_000) as producer:
            futures = [producer.send("t", bytes(10_000)) for _ in range(13)]
            seconds = measure_seconds(producer.flush)
        assert [future.result().offset for future in futures] == list(range(13))
    # The quota limits the mean over eleven seconds, so the last batches were throttled for longer than the request
    # timeout.
    assert seconds > 1
    assert not [record for record in caplog.records if "did not respond" in record.getMessage()]
