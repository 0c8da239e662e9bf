"""Clients authenticate again on an open connection (KIP-368), in situations that users of other clients reported."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.client import Admin, AsyncAdmin, NewTopic, Producer, ShareConsumer
from kafkaframes.errors import AuthenticationError

SESSION_MS = 1_500
SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "alice", "sasl_password": "secret"}
TOPIC, GROUP = "orders", "queue"


@pytest.fixture
def broker():
    security = Security(needs_sasl=True, users={"alice": "secret"})
    config = {"connections.max.reauth.ms": SESSION_MS, "group.share.heartbeat.interval.ms": 200}
    with Broker(security=security, config=config) as broker:
        with Admin(broker.bootstrap_servers, **SASL) as admin:
            admin.create_topics([NewTopic(TOPIC, 1)])
            admin.alter_configs("group", GROUP, {"share.auto.offset.reset": "earliest"})
        broker.journal.clear()
        yield broker


def connections_of(broker, client_id):
    return {entry.connection for entry in broker.journal if entry.client_id == client_id}


def test_a_share_consumer_keeps_its_records_when_its_session_ends(broker):
    """A new connection would lose the share session: acknowledgements fail and records are delivered again.

    KIP-368 with KIP-932: brokers close the share sessions of a connection that ends.
    """
    read = []
    with Producer(broker.bootstrap_servers, **SASL) as producer:
        for number in range(12):
            producer.send(TOPIC, b"%d" % number).result()
    share = {"group_id": GROUP, "max_poll_records": 3, "share_acquire_mode": "record_limit", "client_id": "share"}
    with ShareConsumer(broker.bootstrap_servers, **share, **SASL) as consumer:
        consumer.subscribe(TOPIC)
        while len(read) < 12:
            records = consumer.poll(10_000)
            read += records
            time.sleep(SESSION_MS / 1000)  # the session ends while the caller handles the records
            consumer.commit()
    assert [(record.offset, record.delivery_count) for record in read] == [(offset, 1) for offset in range(12)]
    assert len({entry.connection for entry in broker.journal if entry.api == "ShareFetch"}) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_other_requests_wait_until_the_authentication_is_complete(broker, mechanism):
    """librdkafka#3293 and #4301: brokers accept no other requests between the SASL messages of a connection."""

    def count_handshakes():
        return sum(entry.api == "SaslHandshake" for entry in broker.journal)

    async def call_repeatedly(admin, end):
        while not end.is_set():
            await admin.describe_configs("topic", TOPIC)

    async def set_at_third_handshake(end):
        deadline = time.monotonic() + 60
        while count_handshakes() < 3 and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        end.set()

    async def run():
        end = asyncio.Event()
        async with AsyncAdmin(broker.bootstrap_servers, sasl_mechanism=mechanism, client_id="admin", **SASL) as admin:
            await asyncio.gather(set_at_third_handshake(end), *(call_repeatedly(admin, end) for _ in range(8)))

    with broker.on("SaslAuthenticate").delay(0.05):
        asyncio.run(run())
    assert len(connections_of(broker, "admin")) <= 2  # the bootstrap server and the broker
    steps = 1 if mechanism == "PLAIN" else 2
    for connection in connections_of(broker, "admin"):
        names = [entry.api for entry in broker.journal if entry.connection == connection]
        for index, name in enumerate(names):
            if name == "SaslHandshake":
                assert names[index + 1 : index + 1 + steps] == ["SaslAuthenticate"] * steps
    assert count_handshakes() >= 3


def test_a_new_connection_is_opened_if_the_broker_rejects_the_old_one(broker):
    """A proxy may reject a second authentication. If the password has become invalid, the broker's error is raised."""
    with Admin(broker.bootstrap_servers, client_id="admin", **SASL) as admin:
        admin.list_topics()
        first_count = len(connections_of(broker, "admin"))
        time.sleep(SESSION_MS / 1000)
        with broker.on("SaslHandshake").error("ILLEGAL_SASL_STATE").once() as rule:
            assert admin.list_topics() == [TOPIC]
        assert rule.count == 1
        assert len(connections_of(broker, "admin")) == first_count + 1
        time.sleep(SESSION_MS / 1000)
        rule = broker.on("SaslAuthenticate").error("SASL_AUTHENTICATION_FAILED")
        with rule, pytest.raises(AuthenticationError):
            admin.list_topics()
        assert admin.list_topics() == [TOPIC]


def test_the_authentication_of_a_client_with_threads_is_repeated_once(broker):
    """aiokafka#1105: connections ended whenever a session expired, every hour with Amazon MSK."""
    failures = []

    def call_repeatedly(admin):
        try:
            for _ in range(20):
                admin.list_topics()
                time.sleep(SESSION_MS / 10_000)
        except Exception as error:
            failures.append(error)

    with Admin(broker.bootstrap_servers, client_id="admin", **SASL) as admin:
        threads = [threading.Thread(target=call_repeatedly, args=[admin]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    sasl = [entry for entry in broker.journal if entry.client_id == "admin" and entry.api == "SaslHandshake"]
    assert 2 <= len(sasl) <= 5
