"""Enforced quotas: Kafka's throttle times, muted connections, and rejected topic changes (KIP-599)."""

from __future__ import annotations

import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.broker import Broker
from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.requests.quotas import Quotas, TokenBucket, UsageRate
from kafkaframes.broker.requests.request import TypedRequest as Request
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message
from kafkaframes.records.build import build_records

MUTATION_QUOTA = "controller_mutation_rate"


class QuotaClient:
    """One connection."""

    def __init__(self, port, client_id="app"):
        self._connection = ClientConnection(client_id=client_id)
        self._socket = socket.create_connection(("127.0.0.1", port), 60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def ask(self, name, version, **fields):
        self._connection.send_request(message(f"{name}Request")(**fields), version)
        self._socket.sendall(self._connection.data_to_send())
        while (frame := self._connection.next_response()) is None:
            data = self._socket.recv(65536)
            assert data, "the broker closed the connection"
            self._connection.receive_data(data)
        return frame.body

    def set_quota(self, entity, **values):
        types = message("AlterClientQuotasRequest")
        rows = [types.EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
        ops = [types.OpData(key=key, value=value or 0, remove=value is None) for key, value in values.items()]
        answer = self.ask("AlterClientQuotas", 1, entries=[types.EntryData(entity=rows, ops=ops)])
        assert answer.entries[0].error_code == 0

    def produce(self, size, version=9):
        types = message("ProduceRequest")
        row = types.PartitionProduceData(index=0, records=build_records({"value": [bytes(size)]}))
        data = types.TopicProduceData(name="orders", partition_data=[row])
        answer = self.ask("Produce", version, acks=-1, timeout_ms=1000, topic_data=[data])
        assert answer.responses[0].partition_responses[0].error_code == 0
        return answer.throttle_time_ms

    def fetch(self, max_bytes=1 << 20):
        types = message("FetchRequest")
        row = types.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
        topics = [types.FetchTopic(topic="orders", partitions=[row])]
        return self.ask("Fetch", 12, max_wait_ms=10, min_bytes=1, max_bytes=max_bytes, session_epoch=0, topics=topics)

    def create(self, name, partitions=1, version=7):
        types = message("CreateTopicsRequest")
        topic = types.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        return self.ask("CreateTopics", version, topics=[topic], timeout_ms=1000)


@pytest.fixture(params=[False, True], ids=["without a journal", "with a journal"])
def broker(request):
    with Broker(journal=request.param) as running:
        running.create_topic("orders")
        yield running


def test_a_producer_over_its_quota_gets_a_throttle_time_and_its_connection_is_muted(broker):
    with QuotaClient(broker.port) as client, QuotaClient(broker.port, "other") as other:
        assert client.produce(10_000) == 0
        client.set_quota({"client_id": "app"}, producer_byte_rate=1000)
        throttle_ms = client.produce(10_000)
        assert 90 <= throttle_ms <= 200  # about 10,100 bytes in a window of 10 s are 1,010 per second
        began = time.monotonic()
        assert client.produce(100) > 0
        assert time.monotonic() - began >= throttle_ms / 2000
        assert other.produce(10_000) == 0
        other.set_quota({"client_id": "app"}, producer_byte_rate=None)
        assert client.produce(10_000) == 0
        assert not broker.call(lambda state: state.quotas.limits)


def test_a_fetch_over_its_quota_is_empty_and_starts_no_session(broker):
    broker.append("orders", [{"value": bytes(20_000)}])
    with QuotaClient(broker.port) as client:
        assert client.fetch().session_id
        client.set_quota({"client_id": None}, consumer_byte_rate=1000)
        answer = client.fetch()
        assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
        assert answer.throttle_time_ms > 0
        before = broker.call(lambda state: len(state.fetch_sessions))
        with QuotaClient(broker.port, "another") as admin:  # the first connection is muted
            admin.set_quota({"client_id": None}, consumer_byte_rate=1_000_000)
    with QuotaClient(broker.port) as client:
        answer = client.fetch()
        assert (answer.throttle_time_ms, bool(answer.session_id)) == (0, True)
        assert len(answer.responses[0].partitions[0].records) > 20_000
        assert broker.call(lambda state: len(state.fetch_sessions)) == before + 1


def test_the_most_specific_quota_applies(broker):
    order = [
        {"client_id": None},
        {"client_id": "app"},
        {"user": None},
        {"user": None, "client_id": None},
        {"user": None, "client_id": "app"},
        {"user": "ANONYMOUS"},
        {"user": "ANONYMOUS", "client_id": None},
        {"user": "ANONYMOUS", "client_id": "app"},
    ]
    with QuotaClient(broker.port, "admin") as admin:
        admin.set_quota({"user": "ANONYMOUS", "client_id": "admin"}, producer_byte_rate=1e9)
        for entity in order:
            admin.set_quota(entity, producer_byte_rate=1)
            with QuotaClient(broker.port) as client:
                assert client.produce(1) > 0, entity
            admin.set_quota(entity, producer_byte_rate=1e9)  # the next quota is more specific and overrides it


def test_topic_changes_over_their_quota_are_rejected_or_delayed(broker):
    with QuotaClient(broker.port) as client:
        client.set_quota({"user": None}, **{MUTATION_QUOTA: 1})
        answer = client.create("large", 15)  # more than the remaining quota, which is not negative yet
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)
        answer = client.create("refused")
        assert answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 3000 <= answer.throttle_time_ms <= 4000
        assert sorted(broker.topics) == ["large", "orders"]
        with QuotaClient(broker.port) as later:  # the first connection is muted
            answer = later.create("old", version=5)
            assert answer.topics[0].error_code == 0
            assert 4000 <= answer.throttle_time_ms <= 5000
        with QuotaClient(broker.port) as last:
            deleting = last.ask("DeleteTopics", 5, topic_names=["old"], timeout_ms=1000)
            assert deleting.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_memory_is_limited_for_any_number_of_client_ids():
    quotas, request = Quotas(), Request(collect_apis()[0], 9)
    quotas.load([{"entity": {"client-id": None}, "values": {"producer_byte_rate": 10.0}}])
    for number in range(20_000):
        request.client_id = f"client {number}"
        quotas.charge(request, "producer_byte_rate", 1, 0)
    assert len(quotas._rates) == 10_000


def test_handler_time_counts_towards_the_request_quota(broker):
    with QuotaClient(broker.port) as client:
        client.set_quota({"user": None}, request_percentage=0.0001)
        first = client.ask("Metadata", 9, topics=None)
        assert 0 < first.throttle_time_ms <= 1000


def test_quotas_are_enforced_after_a_restart(tmp_path):
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("orders")
        with QuotaClient(broker.port) as client:
            client.set_quota({"client_id": "app"}, producer_byte_rate=1000)
    with Broker(data_dir=tmp_path) as broker, QuotaClient(broker.port) as client:
        assert client.produce(20_000) > 0


def test_rates_give_kafkas_throttle_times():
    """The expected values are Kafka 4.3.1's throttle times for 10,000 bytes every 100 ms with a quota of 20,000 per
    second.

    The throttle times were measured in wall-clock milliseconds. About 90 bytes around the records are counted as well.
    """
    measured_milliseconds = {22: 1446, 23: 1851, 24: 2253, 26: 3064, 28: 3874, 29: 4281, 31: 6093, 34: 7309, 38: 8936}
    rate, throttle_times = UsageRate(), {}
    for number in range(40):
        rate.add(10_090, number * 100)
        throttle_times[number] = rate.throttle_ms(20_000, number * 100)
    assert {throttle_times[number] for number in range(19)} == {0}
    for number, milliseconds in measured_milliseconds.items():
        assert abs(throttle_times[number] - milliseconds) < 150, number


# ------------------------------------------------------------------------------------------------ new connections


def connection_quotas(**rates):
    quotas = Quotas()
    names = {"every": None, "own": "10.0.0.1", "six": "0::1"}
    quotas.load(
        {"entity": {"ip": names[name]}, "values": {"connection_creation_rate": rate}} for name, rate in rates.items()
    )
    return quotas


def test_accepted_connections_of_an_address_are_counted_in_a_window():
    quotas = connection_quotas(every=1)
    assert [quotas.count_connection("10.0.0.2", 0) for _ in range(13)] == [0] * 10 + [1000] * 3
    assert quotas.count_connection("10.0.0.3", 0) == 0
    assert quotas.count_connection("10.0.0.2", 10_500) == 500  # 11 connections in 10.5 seconds
    assert quotas.count_connection("10.0.0.2", 11_000) == 0


def test_an_address_has_its_own_connection_quota_or_the_default():
    quotas = connection_quotas(every=1, own=2, six=3)
    counts = {
        name: sum(not quotas.count_connection(name, 0) for _ in range(40))
        for name in ("10.0.0.1", "::ffff:10.0.0.1", "::1", "10.9.9.9")
    }
    assert counts == {"10.0.0.1": 20, "::ffff:10.0.0.1": 0, "::1": 30, "10.9.9.9": 10}
    assert not any(connection_quotas(own=1).count_connection("10.0.0.2", 0) for _ in range(40))


def test_a_connection_over_the_quota_is_closed_and_others_continue(broker):
    with QuotaClient(broker.port) as admin:
        admin.set_quota({"ip": "127.0.0.1"}, connection_creation_rate=1)
        connect_repeatedly(broker.port, 10)
        with pytest.raises(AssertionError, match="closed the connection"):
            # the first connection may be accepted at the end of a sample of one second
            connect_repeatedly(broker.port, 2)
        admin.set_quota({"ip": "127.0.0.1"}, connection_creation_rate=None)
    connect_repeatedly(broker.port, 1)


def connect_repeatedly(port, times):
    for _ in range(times):
        with QuotaClient(port) as client:
            client.ask("ApiVersions", 0)


@given(st.lists(st.tuples(st.floats(0, 3000), st.integers(1, 5)), max_size=80), st.integers(1, 5))
def test_no_window_has_more_connections_than_its_quota(steps, limit):
    quotas, now, admission_times = connection_quotas(every=limit), 0.0, []
    for pause_ms, count in steps:
        now += pause_ms
        for _ in range(count):
            refused_ms = quotas.count_connection("10.0.0.2", now)
            assert 0 <= refused_ms <= 1000
            if not refused_ms:
                admission_times.append(now)
    for end in admission_times:
        assert sum(end - 10_000 < now_ms <= end for now_ms in admission_times) <= limit * 11


@given(
    st.floats(min_value=0, exclude_min=True, allow_infinity=True),
    st.lists(st.tuples(st.floats(0, 3000), st.integers(0, 10**12)), min_size=1, max_size=20),
)
def test_the_throttle_time_of_any_quota_fits_in_an_answer(value, steps):
    quotas = Quotas()
    entity = {"client-id": "app"}
    quotas.load([{"entity": entity, "values": {MUTATION_QUOTA: value}}])
    limit = quotas.limits[MUTATION_QUOTA][frozenset(entity.items())]
    rate, bucket, now_ms = UsageRate(), TokenBucket(limit, 0.0), 0.0
    for later_ms, amount in steps:
        now_ms += later_ms
        rate.add(amount, now_ms)
        bucket.refill(limit, now_ms)
        bucket.remaining_tokens -= amount
        for over_ms in (rate.throttle_ms(limit, now_ms), bucket.throttle_ms(limit)):
            assert 0 <= over_ms < 2**31
            assert not (over_ms and value == float("inf"))


def test_an_infinite_quota_limits_nothing(broker):
    with QuotaClient(broker.port) as client:
        client.set_quota({"client_id": "app"}, request_percentage=float("inf"), controller_mutation_rate=float("inf"))
        assert [client.create(f"made-{number}").topics[0].error_code for number in range(3)] == [ErrorCode.NONE] * 3
        assert client.fetch().throttle_time_ms == 0
