"""Broker addresses: accepted forms, and host names with several addresses. All addresses of a host name are tried, each
for a share of the timeout.

Users reported problems with ``PLAINTEXT://`` in bootstrap servers (kafka-python, aiokafka), IPv6 with and without
brackets (KAFKA-2719, librdkafka), and a host name whose first address is unreachable (KIP-302, KAFKA-6863).
"""

import socket
import threading
import time
from contextlib import ExitStack, closing

import pytest

from kafkaframes import Broker
from kafkaframes.broker.settings.listeners import ListenerOptions
from kafkaframes.client import Admin, Consumer, Producer, TopicPartition
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import KafkaframesError, NetworkError, OptionError


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("kafka-1:1", [("kafka-1", 1)]),
        ("kafka_1.local:1, b:2", [("kafka_1.local", 1), ("b", 2)]),
        ("b", [("b", 9092)]),
        ("PLAINTEXT://h:1", [("h", 1)]),
        ("plaintext://h:1,h:2", [("h", 1), ("h", 2)]),
        ("PLAINTEXT://[::1]:1", [("::1", 1)]),
        ("[2001:db8::7]:1", [("2001:db8::7", 1)]),
        ("[fe80::1%eth0]:1", [("fe80::1%eth0", 1)]),
        ("[::1]", [("::1", 9092)]),
        ("::1:9092", [("::1", 9092)]),
        ("2001:db8::7:9092", [("2001:db8::7", 9092)]),
        ("::1", [("::1", 9092)]),
        ("127.0.0.1:1", [("127.0.0.1", 1)]),
        ("bücher.example:1", [("bücher.example", 1)]),
    ],
)
def test_addresses_that_are_accepted(text, servers):
    assert ClientSettings(bootstrap_servers=text).servers == servers


@pytest.mark.parametrize(
    "text",
    [
        "h:0", "h:65536", "h:99999999999", "h:-1", "h:+1", "h:x", "h:", ":1", ":", "h:1:2", "h:１", "[::1", "::1]:1",
        "[h]:1", "[]:1", "[::1]1", "h:1/", "h:1/path", "PLAINTEXT://", "PLAINTEXT://h:1/", "user@h:1", "a b:1",
        "a..b:1",
        "h;g:1", "ok:1,h:x", "PLAINTEXT://PLAINTEXT://h:1", "//h:1", "://h:1",
    ],
)  # fmt: skip
def test_invalid_addresses_are_rejected_immediately(text):
    with pytest.raises(OptionError, match="bootstrap_servers"):
        ClientSettings(bootstrap_servers=text)


@pytest.mark.parametrize(
    ("text", "protocol"), [("SSL://h:1", "PLAINTEXT"), ("PLAINTEXT://h:1", "SSL"), ("http://h:1", "PLAINTEXT")]
)
def test_a_scheme_that_contradicts_the_security_protocol_is_rejected_with_both_names(text, protocol):
    with pytest.raises(OptionError, match=rf"{text.partition(':')[0]}.*security_protocol is {protocol}"):
        ClientSettings(bootstrap_servers=text, security_protocol=protocol)
    assert ClientSettings(bootstrap_servers="SSL://h:1", security_protocol="ssl").servers == [("h", 1)]


def has_ipv6() -> bool:
    try:
        with closing(socket.socket(socket.AF_INET6)) as listener:
            listener.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
def test_clients_accept_the_printed_address_of_an_ipv6_broker():
    with Broker(listeners=[ListenerOptions(name="A", host="::1", port=0)]) as broker:
        assert broker.bootstrap_servers == f"[::1]:{broker.port}"
        for servers in (broker.bootstrap_servers, f"::1:{broker.port}", f"PLAINTEXT://[::1]:{broker.port}"):
            with Producer(servers) as producer:
                producer.send("t", b"x").result(60)
        with Admin(broker.bootstrap_servers) as admin:
            assert admin.describe_configs("broker", "1")["advertised.listeners"].value.endswith(
                f"://[::1]:{broker.port}"
            )


@pytest.fixture
def resolve_to(monkeypatch):
    """Return a list; a host name resolves to the addresses in it."""
    addresses: list[str] = []
    resolve = socket.getaddrinfo

    def look_up(host, port, *args, **options):
        if host not in ("kafka.test", b"kafka.test"):
            return resolve(host, port, *args, **options)
        return [entry for address in addresses for entry in resolve(address, port, *args, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return addresses


@pytest.mark.parametrize("fault", ["refuses", "drops packets", "accepts connections without responding", "closes"])
def test_the_next_address_of_a_name_is_tried_in_time(resolve_to, fault):
    with Broker() as broker, ExitStack() as stack:
        if fault != "refuses":
            listener = stack.enter_context(closing(socket.socket()))
            listener.bind(("127.0.0.2", broker.port))
            listener.listen(0 if fault == "drops packets" else 16)
            for _ in range(4 if fault == "drops packets" else 0):
                client = stack.enter_context(closing(socket.socket()))
                client.setblocking(False)
                client.connect_ex(("127.0.0.2", broker.port))
            if fault == "closes":
                listener.close()
        resolve_to[:] = ["127.0.0.2", "127.0.0.1"]
        options = {"socket_connection_setup_timeout_ms": 2_000, "default_api_timeout_ms": 60_000}
        with Admin(f"kafka.test:{broker.port}", **options) as admin:
            assert admin.list_topics() == []


def test_the_error_names_every_address_of_a_name(resolve_to):
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        resolve_to[:] = ["127.0.0.2", "127.0.0.3"]
        start = time.monotonic()
        with (
            Admin(f"kafka.test:{port}", default_api_timeout_ms=300) as admin,
            pytest.raises(NetworkError, match=r"kafka\.test:\d+ .*127\.0\.0\.2.*127\.0\.0\.3"),
        ):
            admin.list_topics()
        assert time.monotonic() - start < 20


CALLS = {
    "partitions_for of a producer": (Producer, lambda client: client.partitions_for("t")),
    "poll": (Consumer, lambda client: (client.assign([("t", 0)]), client.poll(60_000))),
    "subscribe": (Consumer, lambda client: (client.subscribe("t"), client.poll(60_000))),
    "partitions_for": (Consumer, lambda client: client.partitions_for("t")),
    "end_offsets": (Consumer, lambda client: client.end_offsets([TopicPartition("t", 0)])),
    "committed": (Consumer, lambda client: client.committed([TopicPartition("t", 0)])),
    "list_topics": (Admin, lambda client: client.list_topics()),
    "describe_topics": (Admin, lambda client: client.describe_topics(["t"])),
}


def test_clients_wait_for_brokers_that_are_down_at_first():
    """librdkafka, Java and franz-go wait; kafka-python raises NoBrokersAvailable (dpkp/kafka-python#1308)."""
    with Broker() as closed_address:
        port = closed_address.port
    results = {}

    def run(name):
        kind, call = CALLS[name]
        options = {"group_id": name, "auto_offset_reset": "earliest"} if kind is Consumer else {}
        with kind(f"127.0.0.1:{port}", **options) as client:
            try:
                results[name] = call(client)
            except KafkaframesError as error:
                results[name] = error

    threads = [threading.Thread(target=run, args=[name], daemon=True) for name in CALLS]
    for thread in threads:
        thread.start()
    time.sleep(2.5)  # longer than the client waits for unknown topics
    with Broker(port=port) as broker:
        broker.create_topic("t")
        broker.append("t", [{"value": b"x"}])
        for thread in threads:
            thread.join(60)
    assert not [error for error in results.values() if isinstance(error, KafkaframesError)], results
    assert len(results) == len(threads)
