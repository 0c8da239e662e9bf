"""Several listeners: each client gets the addresses of its own listener; each listener has its own security."""

from __future__ import annotations

import confluent_kafka as confluent
import pytest
from confluent_kafka.admin import AdminClient
from tests.broker.test_handle import ask

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.settings.listeners import ListenerOptions, parse_listeners
from kafkaframes.errors import OptionError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
INSIDE_LISTENER = ListenerOptions(name="INSIDE")
OUTSIDE_LISTENER = ListenerOptions(name="OUTSIDE", advertised=("kafka.example", 19092))


def ports_of(broker, name):
    return broker.call(lambda state: [node.endpoints[name] for node in state.nodes.by_id.values()])


def listener_port(broker, name, node_id=1):
    return broker._ports.bound[node_id, name]


def test_each_listener_returns_its_own_addresses():
    with Broker(listeners=[INSIDE_LISTENER, OUTSIDE_LISTENER], cluster=2) as broker:
        inside = ask(listener_port(broker, "INSIDE"), "Metadata", 9, topics=None).brokers
        assert [(one.host, one.port) for one in inside] == [
            ("127.0.0.1", listener_port(broker, "INSIDE", 1)),
            ("127.0.0.1", listener_port(broker, "INSIDE", 2)),
        ]
        outside = ask(listener_port(broker, "OUTSIDE"), "Metadata", 9, topics=None).brokers
        assert {(one.host, one.port) for one in outside} == {("kafka.example", 19092)}
        coordinator = ask(listener_port(broker, "OUTSIDE"), "FindCoordinator", 2, key="g", key_type=0)
        assert (coordinator.host, coordinator.port) == ("kafka.example", 19092)
        assert broker.port == listener_port(broker, "INSIDE")
        assert broker.bootstrap_servers.count(",") == 1


def test_a_node_restarts_on_all_its_ports():
    with Broker(listeners=[INSIDE_LISTENER, OUTSIDE_LISTENER], cluster=2) as broker:
        before = dict(broker._ports.bound)
        broker.stop_node(2)
        broker.start_node(2)
        assert broker._ports.bound == before
        assert ask(listener_port(broker, "OUTSIDE", 2), "Metadata", 9, topics=None).brokers[1].port == 19092


def test_one_listener_requires_authentication_and_another_does_not():
    open_one = ListenerOptions(name="INSIDE")
    guarded_listener = ListenerOptions(name="OUTSIDE", protocol="SASL_PLAINTEXT")
    security = Security(users={"alice": "secret"})
    with Broker(listeners=[open_one, guarded_listener], security=security) as broker:
        servers = f"127.0.0.1:{listener_port(broker, 'INSIDE')}"
        producer = confluent.Producer({"bootstrap.servers": servers, "log_level": 0})
        producer.produce("orders", b"x")
        assert producer.flush(60) == 0
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "log_level": 0}
        login |= {"sasl.username": "alice", "bootstrap.servers": f"127.0.0.1:{listener_port(broker, 'OUTSIDE')}"}
        assert "orders" in AdminClient({**login, "sasl.password": "secret"}).list_topics(timeout=60).topics
        with pytest.raises(confluent.KafkaException):
            AdminClient({**login, "sasl.password": "wrong"}).list_topics(timeout=1)
        with pytest.raises(AssertionError, match="closed the connection"):
            ask(listener_port(broker, "OUTSIDE"), "Metadata", 1, topics=None)


def test_a_broker_restarts_with_its_listeners():
    with Broker(listeners=[INSIDE_LISTENER, OUTSIDE_LISTENER]) as broker:
        port = broker.port
        broker.restart()
        assert broker.port == port
        assert ask(listener_port(broker, "OUTSIDE"), "Metadata", 9, topics=None).brokers[0].host == "kafka.example"


def test_listeners_are_read_from_server_properties():
    settings = {
        "listeners": "INSIDE://:9092, OUTSIDE://[::1]:9093,CONTROLLER://:9094",
        "advertised.listeners": "INSIDE://broker-1:9092,OUTSIDE://kafka.example:443",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INSIDE",
        "num.partitions": "3",
    }
    assert parse_listeners(settings) == (
        ListenerOptions(name="INSIDE", host="0.0.0.0", port=9092, advertised=("broker-1", 9092)),
        ListenerOptions(
            name="OUTSIDE", protocol="SASL_PLAINTEXT", host="::1", port=9093, advertised=("kafka.example", 443)
        ),
    )
    assert settings == {"num.partitions": "3"}
    assert parse_listeners({}) == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"listeners": "TLS://:9093"},
        {"listeners": "9092"},
        {"listeners": "PLAINTEXT://a:99999"},
        {"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"},
        {"listeners": "PLAINTEXT://a:1,SSL://b:1"},
        {"listeners": "PLAINTEXT://a:1", "advertised.listeners": "SSL://b:1"},
        {"listeners": "PLAINTEXT://a:1", "advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
        {"listeners": "A://a:1", "listener.security.protocol.map": "A:TLS"},
        {"listeners": "A://a:1", "listener.security.protocol.map": "A"},
    ],
)
def test_an_invalid_listener_is_rejected(wrong):
    with pytest.raises(OptionError):
        parse_listeners(wrong)


def test_contradictory_listeners_are_rejected():
    with pytest.raises(OptionError, match="names must be unique"):
        Broker(listeners=[INSIDE_LISTENER, INSIDE_LISTENER])
    with pytest.raises(OptionError, match="certificate"):
        Broker(listeners=[ListenerOptions(protocol="SSL")])
    with pytest.raises(OptionError, match="protocol"):
        ListenerOptions(protocol="TLS")


def test_the_advertised_port_of_an_additional_node_is_in_range():
    listener = ListenerOptions(port=9092, advertised=("kafka", 65_535))
    assert listener.address_for_clients(9092) == ("kafka", 65_535)
    with pytest.raises(OptionError, match="65536"):
        listener.address_for_clients(9093)
