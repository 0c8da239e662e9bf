"""Negotiation by ApiVersions: two ends with rewritten specs speak the new versions, others notice nothing."""

from __future__ import annotations

import logging
import socket
import threading
import warnings
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from tests.protocol.messages.values import make_value

from kafkaframes.errors import BrokerError, OptionError
from kafkaframes.protocol.framing import ClientConnection, ServerConnection, common_versions, known_versions
from kafkaframes.protocol.messages import class_of, message
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.emit import to_text
from kafkaframes.protocol.spec.kip_636 import rewrite
from kafkaframes.protocol.spec.versions import Versions

SPECS = {name: catalog.load(name) for api in catalog.apis() for name in (api.request, api.response)}
DONE = rewrite(SPECS)
HEARTBEAT, INIT_PRODUCER_ID, OFFSET_DELETE = 12, 22, 47


def negotiate(client, server, *, rounds=1, **told):
    """Let a client find its versions; return the versions of the questions as the server saw them."""
    client.ask_versions(software_name="test", software_version="1.0")
    asked = []
    for _ in range(rounds):
        server.receive_data(client.data_to_send())
        request = server.next_request()
        asked.append(request.frame.api_version)
        server.send_versions(request, **told)
        client.receive_data(server.data_to_send())
        if client.learn_versions(client.next_response()):
            return asked
    raise AssertionError("no answer that could be learnt from")


def exchange(client, server, request, answer):
    """Send a request at the negotiated version; return it as bytes, its version, and its answer's bytes."""
    client.send_request(request)
    asked = client.data_to_send()
    server.receive_data(asked)
    got = server.next_request()
    assert got.frame.body == request or got.frame.body.encode(got.frame.api_version) == request.encode(
        got.frame.api_version
    )
    server.send_response(got.sequence, answer)
    answered = server.data_to_send()
    client.receive_data(answered)
    assert client.next_response().body.spec.name == answer.spec.name
    return asked, got.frame.api_version, answered


def test_two_ends_with_the_rewrite_speak_its_versions(tmp_path):
    for name, spec in DONE.specs.items():
        (tmp_path / f"{name}.json").write_text(to_text(spec))
    server, client = ServerConnection(specs=tmp_path), ClientConnection(specs=DONE.specs)
    assert negotiate(client, server) == [5]
    request, response = (class_of(DONE.specs[f"Heartbeat{half}"]) for half in ("Request", "Response"))
    _, version, answered = exchange(client, server, request(group_id="g"), response())
    assert (version, answered.hex()) == (5, "0000000a" + "0000000100" + "0000000000")
    _, version, answered = exchange(client, server, request(group_id="g"), response(error_code=27))
    assert answered.endswith(bytes.fromhex("01 00 02 001b"))
    for api in DONE.apis:
        assert client.version_of(api.key) == (5 if api.key == INIT_PRODUCER_ID else api.version)


def halves(api, specs, version):
    """Return a request and a response of an API that the old version can write."""
    old = [class_of(SPECS[name]) for name in (api.request, api.response)]
    data = [make_value(cls, version, 2).encode(version) for cls in old]
    new = [class_of(specs[name]) for name in (api.request, api.response)]
    return [cls.decode(one, version) for cls, one in zip(new, data, strict=True)]


@pytest.mark.parametrize("api", [pytest.param(one, id=one.response) for one in DONE.apis])
def test_an_unmodified_client_beside_a_rewritten_server_takes_the_old_version_and_sees_the_same_bytes(api):
    seen = []
    for specs in (None, DONE.specs):
        server, client = ServerConnection(specs=specs), ClientConnection()
        negotiate(client, server)
        version = client.version_of(api.key)
        request, _ = halves(api, SPECS, version)
        _, answer = halves(api, specs or SPECS, version)
        seen.append(exchange(client, server, request, answer))
    assert seen[0] == seen[1]
    assert seen[0][1] == (api.before if api.key != INIT_PRODUCER_ID else 5)


def test_a_rewritten_client_beside_an_unmodified_server_takes_the_old_version():
    server, client = ServerConnection(), ClientConnection(specs=DONE.specs)
    negotiate(client, server)
    assert client.version_of(HEARTBEAT) == 4
    assert client.version_of(OFFSET_DELETE) == 0


def test_a_client_of_the_future_asks_again_at_the_version_that_the_broker_lists():
    """KIP-511: both the question and the answer at version 0 are read by whoever does not know the other's newest."""
    spec = SPECS["ApiVersionsRequest"]
    raised = {
        name: load_raised(SPECS[name], spec.valid_versions.highest + 3)
        for name in ("ApiVersionsRequest", "ApiVersionsResponse")
    }
    client, server = ClientConnection(specs=SPECS | raised), ServerConnection()
    assert negotiate(client, server, rounds=2) == [8, 5]
    assert client.version_of(HEARTBEAT) == 4


def load_raised(spec, highest):
    return replace(spec, struct=replace(spec.struct, versions=Versions(0, highest)))


def test_what_a_broker_advertises_is_its_choice():
    server, client = ServerConnection(), ClientConnection()
    negotiate(client, server, advertised={18: Versions(0, 3), 12: Versions(0, 2)})
    assert client.version_of(HEARTBEAT) == 2
    with pytest.raises(BrokerError, match="no version of API 0 in common"):
        client.version_of(0)


def test_released_versions_only_and_of_both_halves():
    assert known_versions()[INIT_PRODUCER_ID] == Versions(0, 5)
    assert known_versions(apis=[HEARTBEAT, 9999]) == {HEARTBEAT: Versions(0, 4)}
    assert known_versions([SPECS["HeartbeatRequest"]]) == {}
    shorter = load_raised(SPECS["HeartbeatResponse"], 2)
    assert known_versions([SPECS["HeartbeatRequest"], shorter]) == {HEARTBEAT: Versions(0, 2)}
    assert common_versions({1: Versions(3, 4)}, {1: Versions(0, 2)}) == {}


def test_no_answer_no_version():
    client, server = ClientConnection(), ServerConnection()
    with pytest.raises(BrokerError, match="ask_versions"):
        client.send_request(message("HeartbeatRequest")())
    client.ask_versions()
    server.receive_data(client.data_to_send())
    request = server.next_request()
    server.send_response(request.sequence, message("ApiVersionsResponse")(error_code=42))
    client.receive_data(server.data_to_send())
    with pytest.raises(BrokerError, match="INVALID_REQUEST"):
        client.learn_versions(client.next_response())
    client.send_request(message("HeartbeatRequest")(), 4)
    server.receive_data(client.data_to_send())
    with pytest.raises(OptionError, match="no question"):
        server.send_versions(server.next_request())


def test_a_fallback_without_a_common_version_is_an_error():
    client, server = ClientConnection(), ServerConnection()
    client.ask_versions()
    server.receive_data(client.data_to_send())
    response = message("ApiVersionsResponse")
    rows = [response.ApiVersion(api_key=18, min_version=90, max_version=99)]
    server.send_response(server.next_request().sequence, response(error_code=35, api_keys=rows), version=0)
    client.receive_data(server.data_to_send())
    with pytest.raises(BrokerError, match="in common"):
        client.learn_versions(client.next_response())


# ---- real clients ---------------------------------------------------------------------------------------------------


@contextmanager
def broker_of_one_topic(specs):
    """Serve ApiVersions and Metadata on loopback; yield (port, the versions that were asked for)."""
    asked = set()
    cls = message("MetadataResponse", specs=specs)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    partition = cls.MetadataResponsePartition(
        leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1], error_code=0
    )
    topic = cls.MetadataResponseTopic(name="orders", partitions=[partition])
    node = cls.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port)
    metadata = cls(brokers=[node], cluster_id="c", controller_id=1, topics=[topic])
    served = known_versions(specs, apis=[3, 18])

    def serve(connection):
        server = ServerConnection(specs=specs)
        with connection, suppress(OSError):  # a client may just go
            while data := connection.recv(65536):
                server.receive_data(data)
                while (request := server.next_request()) is not None:
                    asked.add((request.frame.api_key, request.frame.api_version))
                    if request.frame.api_key == 18:
                        server.send_versions(request, advertised=served)
                    else:
                        server.send_response(request.sequence, metadata)
                    connection.sendall(server.data_to_send())

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield port, asked
        listener.shutdown(socket.SHUT_RDWR)


def topics_by_confluent_kafka(port):
    from confluent_kafka.admin import AdminClient

    found = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=60)
    return {name: sorted(topic.partitions) for name, topic in found.topics.items()}


def topics_by_kafka_python(port):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka import KafkaConsumer

    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{port}", request_timeout_ms=60_000)
    try:
        return {name: sorted(consumer.partitions_for_topic(name)) for name in consumer.topics()}
    finally:
        consumer.close()


@pytest.mark.parametrize("client", [topics_by_confluent_kafka, topics_by_kafka_python])
def test_real_clients_beside_a_rewritten_server_ask_as_before_and_read_the_answer(client):
    versions = {}
    for name, specs in (("as released", None), ("rewritten", DONE.specs)):
        with broker_of_one_topic(specs) as (port, asked):
            assert client(port) == {"orders": [0]}
            versions[name] = {one for one in asked.copy() if one[0] == 3}  # a client may still ask
    assert versions["as released"] == versions["rewritten"]
    assert (
        max(version for _, version in versions["rewritten"])
        <= 13
        < DONE.specs["MetadataResponse"].valid_versions.highest
    )
