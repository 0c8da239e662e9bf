"""The recording proxy: clients connect only through it, the file has the original bytes, and a slow disk loses
nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import io
import ipaddress
import socket
import struct
import threading
import time

import pytest
from confluent_kafka import Consumer, Producer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.protocol.messages.values import make_value

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.security.tls import create_server_context
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.capture.recorder import Recorder, RecorderSettings, SecuredSocket
from kafkaframes.capture.recording import create_client_tls, create_server_tls
from kafkaframes.capture.relay import (
    MAX_OUTSTANDING_REQUESTS,
    BrokerAddresses,
    OutstandingRequests,
    ResponseRewriter,
    replace_addresses,
)
from kafkaframes.errors import DecodeError, ErrorCode, OptionError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import decode_response, encode_request, encode_response
from kafkaframes.protocol.messages.registry import ApiRegistry
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.kip_636 import rewrite_errors

NODE_COUNT = 2
LOCAL_SETTINGS = RecorderSettings("127.0.0.1", (0,), ("127.0.0.1", 9))


@contextlib.contextmanager
def record_traffic(path, upstream, **options):
    with path.open("wb") as file, Recorder(RecorderSettings("127.0.0.1", (0,), upstream), file, **options) as recorder:
        yield recorder


def test_clients_stay_on_the_proxy_and_every_call_is_in_the_file(tmp_path):
    path = tmp_path / "trace.pcapng"
    with Broker(cluster=NODE_COUNT) as broker, record_traffic(path, (broker.host, broker.port)) as recorder:
        host, port = recorder.start()
        settings = {"bootstrap.servers": f"{host}:{port}", "client.id": "recorded"}
        producer = Producer(settings)
        for number in range(50):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(100) == 0
        consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        values, deadline = set(), time.monotonic() + 100
        while len(values) < 50 and time.monotonic() < deadline:
            values |= {one.value() for one in consumer.consume(50, 0.2) if not one.error()}
        consumer.close()
        del producer, consumer
        brokers = {address[1] for address in recorder.listeners}
    assert values == {b"%d" % number for number in range(50)}
    rows = read_capture(str(path)).read_all().to_pylist()
    assert {row["serverPort"] for row in rows} <= brokers
    assert not [row["_error"] for row in rows if row["_error"] and "response: not in the capture" not in row["_error"]]
    produced_rows = read_capture(str(path), CaptureOptions(table="records")).read_all().to_pylist()
    assert {row["value"] for row in produced_rows if row["apiName"] == "Produce"} == values
    metadata = [row["response"] for row in rows if row["apiName"] == "Metadata"]
    assert metadata
    assert f'"port":{port},' not in "".join(filter(None, metadata))


@contextlib.contextmanager
def start_server(handle):
    """Start a server that passes its connections to ``handle``."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(one,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[:2]
    finally:
        listener.close()


def echo(one):
    with one, contextlib.suppress(OSError):  # the recorder may reset it
        while data := one.recv(65536):
            one.sendall(data)


class SlowDisk(io.BytesIO):
    def write(self, data):
        if len(data) > 1000:
            time.sleep(0.3)
        return super().write(data)


def test_a_slow_disk_delays_clients_and_is_reported(monkeypatch):
    from kafkaframes.capture import recorder as module

    monkeypatch.setattr(module, "SLOW_WRITE_SECONDS", 0.2)
    messages, disk = [], SlowDisk()
    request = struct.pack(">ihhi", 40_008, 999, 0, 1) + bytes(40_000)
    with (
        start_server(echo) as upstream,
        Recorder(RecorderSettings("127.0.0.1", (0,), upstream), disk, on_slow=messages.append) as one,
        socket.create_connection(one.start()) as client,
    ):
        client.sendall(request)
        got = b""
        while len(got) < len(request):
            got += client.recv(65536)
    assert got == request
    assert messages
    assert len(disk.getvalue()) > 2 * len(request)
    assert disk.getvalue().count(0) > 2 * 40_000


class FullDisk(io.BytesIO):
    def write(self, data):
        if self.tell() > 50_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def test_bytes_that_a_full_disk_rejects_are_not_forwarded(capfd):
    disk, served_sizes = FullDisk(), []

    def count_received(one):
        with one, contextlib.suppress(OSError):
            while data := one.recv(65536):
                served_sizes.append(len(data))

    with start_server(count_received) as upstream, Recorder(RecorderSettings("127.0.0.1", (0,), upstream), disk) as one:
        with socket.create_connection(one.start(), 60) as client, contextlib.suppress(ConnectionError):
            for _ in range(200):
                client.sendall(bytes(10_000))
        assert one.failed.wait(60)
    assert one.failure.errno == errno.ENOSPC
    assert sum(served_sizes) <= len(disk.getvalue())
    assert "Traceback" not in capfd.readouterr().err


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1."""
    directory = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "cert.pem", directory / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return tuple(map(str, paths))


def test_tls_is_terminated_and_opened_again_to_the_brokers(tmp_path, certificate):
    """Two brokers, and therefore two listeners. The capture is plaintext, with the brokers' addresses."""
    path, security = tmp_path / "trace.pcapng", Security(tls=create_server_context(*certificate))
    tls = {
        "server_tls": create_server_tls(*certificate),
        "upstream_tls": create_client_tls(certificate[0], is_encrypted=True),
    }
    with Broker(cluster=NODE_COUNT, security=security) as broker, path.open("wb") as file:
        with Recorder(RecorderSettings("127.0.0.1", (0,), (broker.host, broker.port), **tls), file) as recorder:
            host, port = recorder.start()
            settings = {"security.protocol": "SSL", "ssl.ca.location": certificate[0], "client.id": "recorded"}
            producer = Producer(settings | {"bootstrap.servers": f"{host}:{port}"})
            for number in range(40):
                producer.produce("orders", bytes([number]) * 20_000)
            assert producer.flush(100) == 0
            del producer
            listeners = set(recorder.listeners)
        assert recorder.counts.refused == 0
    assert len(listeners) == NODE_COUNT
    rows = read_capture(str(path)).read_all().to_pylist()
    assert {row["apiName"] for row in rows} >= {"ApiVersions", "Metadata", "Produce"}
    assert {(row["serverAddress"], row["serverPort"]) for row in rows} <= listeners
    assert not [row["_error"] for row in rows if row["_error"] and "response: not in the capture" not in row["_error"]]
    records = read_capture(str(path), CaptureOptions(table="records")).read_all().to_pylist()
    assert {row["value"] for row in records} == {bytes([number]) * 20_000 for number in range(40)}


def test_both_directions_of_one_tls_connection_at_once_and_a_half_close(certificate):
    """An echo of 20 MB is read while it is written. Its end is forwarded, and later data are still encrypted."""
    sent_bytes = bytes(range(256)) * (20_000_000 // 256)
    server = create_server_tls(*certificate)

    def secured_echo(one):
        with contextlib.suppress(OSError):
            echo(server.wrap_socket(one, server_side=True))

    tls = {"server_tls": server, "upstream_tls": create_client_tls(certificate[0], is_encrypted=True)}
    with start_server(secured_echo) as upstream:
        recorder = Recorder(RecorderSettings("127.0.0.1", (0,), upstream, **tls), io.BytesIO())
        with recorder as one:
            plain = socket.create_connection(one.start(), 100)
            client = create_client_tls(certificate[0], is_encrypted=True).wrap_socket(
                plain, server_hostname="127.0.0.1"
            )
            secured_socket = SecuredSocket(client)
            writer = threading.Thread(target=secured_socket.sendall, args=(sent_bytes,), daemon=True)
            writer.start()
            got, buffer = bytearray(), bytearray(1 << 18)
            while len(got) < len(sent_bytes) and (count := secured_socket.recv_into(buffer)):
                got += buffer[:count]
            writer.join(100)
            secured_socket.shutdown(socket.SHUT_WR)
            assert secured_socket.recv_into(buffer) == 0
            secured_socket.close()
    assert got == sent_bytes


def test_a_client_without_tls_is_rejected_and_counted(certificate):
    with start_server(echo) as upstream:
        settings = RecorderSettings("127.0.0.1", (0,), upstream, server_tls=create_server_tls(*certificate))
        with Recorder(settings, io.BytesIO()) as one, socket.create_connection(one.start(), 60) as client:
            client.sendall(bytes(64))
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(100)[:1] in (b"", bytes([21]))  # TLS's alert
            deadline = time.monotonic() + 60
            while not one.counts.refused and time.monotonic() < deadline:
                time.sleep(0.01)
            assert (one.counts.refused, one.counts.connections) == (1, 0)


def test_a_client_that_disconnects_before_it_is_served_is_counted():
    with socket.create_server(("127.0.0.1", 0)) as listener, Recorder(LOCAL_SETTINGS, io.BytesIO()) as one:
        client = socket.create_connection(listener.getsockname())
        accepted_socket, _ = listener.accept()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        with pytest.raises(ConnectionResetError):
            accepted_socket.recv(1)
        one._serve_client(accepted_socket, LOCAL_SETTINGS.upstream)
        assert (one.counts.refused, one.counts.connections) == (1, 0)
        assert accepted_socket.fileno() < 0


def test_a_connection_opened_while_the_recording_ends_is_closed(monkeypatch):
    has_reached, go, connect_broker = threading.Event(), threading.Event(), Recorder._connect_broker

    def late(one, broker):
        has_reached.set()
        assert go.wait(100)
        return connect_broker(one, broker)

    monkeypatch.setattr(Recorder, "_connect_broker", late)
    with start_server(echo) as upstream:
        one = Recorder(RecorderSettings("127.0.0.1", (0,), upstream), io.BytesIO())
        with socket.create_connection(one.start(), 100) as client:
            assert has_reached.wait(100)
            ending = threading.Thread(target=one.close)
            ending.start()
            while not one._is_closed:
                time.sleep(0.001)
            go.set()
            assert client.recv(1) == b""
            ending.join(100)
    assert one.counts.connections == 0


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_responses_are_forwarded_in_pieces_of_any_size(step):
    requests = OutstandingRequests()
    answers = ResponseRewriter(requests, lambda address: ("local", address[1] + 1))
    body = message("MetadataResponse").from_json(
        {
            "throttleTimeMs": 0,
            "brokers": [{"nodeId": 1, "host": "kafka-1", "port": 9092, "rack": None}],
            "clusterId": None,
            "controllerId": 1,
            "topics": [],
        },
        7,
    )
    metadata = encode_response(body, 7, correlation_id=5)
    other = encode_response(message("HeartbeatResponse")(), 0, correlation_id=6)
    request_bytes = b"".join(
        struct.pack(">i", len(one)) + one
        for one in (
            encode_request(message("MetadataRequest")(), 7, correlation_id=5),
            encode_request(message("HeartbeatRequest")(), 0, correlation_id=6),
        )
    )
    responses = b"".join(struct.pack(">i", len(one)) + one for one in (metadata, other)) + bytes(4)
    for start in range(0, len(request_bytes), step):
        requests.feed(request_bytes[start : start + step])
    out = b"".join(
        bytes(piece) for at in range(0, len(responses), step) for piece in answers.feed(responses[at : at + step])
    )
    size = struct.unpack(">i", out[:4])[0]
    (broker,) = decode_response(out[4 : 4 + size], 3, 7).body.brokers
    assert (broker.host, broker.port) == ("local", 9093)
    assert out[4 + size :] == struct.pack(">i", len(other)) + other + bytes(4)


def test_only_addresses_change():
    body = message("FindCoordinatorResponse")(host="kafka-1", port=9092, node_id=3)
    answer = BrokerAddresses().find_response_addresses(10, 2)
    local_response = replace_addresses(encode_response(body, 2, correlation_id=9), answer, lambda _: ("here", 1))
    assert decode_response(local_response, 10, 2).body == body.replace(host="here", port=1)
    error_response = message("FindCoordinatorResponse")(
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, host="", port=-1
    )
    assert replace_addresses(encode_response(error_response, 2), answer, lambda _: ("here", 1)) is None
    with pytest.raises(DecodeError):
        replace_addresses(b"\0\0", answer, lambda _: ("here", 1))


def frame_of(data):
    return struct.pack(">i", len(data)) + data


class RecordedConversation:
    """A client and a broker with a recorder between them, without sockets."""

    def __init__(self, *, specs=None, strict=False):
        self.unknown, self.requests = [], OutstandingRequests()
        self.strict = strict
        self.answers = ResponseRewriter(
            self.requests,
            lambda address: ("local", 1),
            addresses=BrokerAddresses(ApiRegistry(specs)),
            on_unknown=self.note,
        )

    def note(self, what):
        self.unknown.append(what)
        if self.strict:
            raise ConnectionAbortedError(what)

    def ask(self, key, version, correlation_id=1, rest=b"\xff\xff"):
        self.requests.feed(frame_of(struct.pack(">hhi", key, version, correlation_id) + rest))
        return self

    def answer(self, data):
        return b"".join(map(bytes, self.answers.feed(frame_of(data))))


HOST = "kafka-1.internal"


def fill_addresses(cls, version):
    """Return a response with an address in every possible field."""
    value = make_value(cls, version, 1, plain=True)

    def fill(struct_):
        for info in struct_._fields:
            content = getattr(struct_, info.attribute)
            if not content and info.spec.is_present(version):
                if info.spec.type.name == "records":
                    content = b""
                elif info.struct is not None:
                    content = [info.struct()] if info.spec.type.is_array else info.struct()
                setattr(struct_, info.attribute, content)
            if info.struct is not None and content is not None:
                for one in content if isinstance(content, list) else [content]:
                    fill(one)
        names = {info.spec.name: info for info in struct_._fields if info.spec.is_present(version)}
        if {"Host", "Port"} <= names.keys():
            struct_.host, struct_.port = HOST, 9092

    fill(value)
    return value


@pytest.mark.parametrize("api", catalog.list_apis(), ids=lambda api: api.request.removesuffix("Request"))
def test_no_response_contains_a_broker_address(api):
    """The test checks every API at every version, with an address in every struct that has a host and a port."""
    for version in api.versions:
        cls = message(api.response)
        response = encode_response(fill_addresses(cls, version), version, correlation_id=1)
        passed_on = RecordedConversation(strict=True).ask(api.key, version).answer(response)
        if "StreamsGroup" in api.request:  # these are addresses of applications, not of brokers
            assert passed_on == frame_of(response)
        else:
            assert HOST.encode() not in passed_on
            assert (HOST.encode() in response) == (
                BrokerAddresses().find_response_addresses(api.key, version).paths != ()
            )


def kip_636_metadata():
    """Return KIP-636's specs, and a Metadata response in the version that it adds."""
    specs = rewrite_errors({spec.name: spec for spec in map(catalog.load_spec, catalog.list_names())}).specs
    cls = message("MetadataResponse", specs=specs)
    return (
        specs,
        cls.spec.valid_versions.highest,
        encode_response(
            fill_addresses(cls, cls.spec.valid_versions.highest), cls.spec.valid_versions.highest, correlation_id=1
        ),
    )


def test_a_version_missing_from_the_catalog_is_reported_rejected_or_decoded_with_own_specs():
    specs, version, response = kip_636_metadata()
    assert version == catalog.find_api(3).versions.highest + 1
    loose = RecordedConversation().ask(3, version)
    assert loose.answer(response) == frame_of(response)
    assert loose.unknown == [f"Metadata version {version} is not in the specs"]
    with pytest.raises(ConnectionAbortedError):
        RecordedConversation(strict=True).ask(3, version).answer(response)
    understood = RecordedConversation(specs=specs, strict=True).ask(3, version)
    passed_on = understood.answer(response)
    assert HOST.encode() not in passed_on
    metadata = decode_response(passed_on[4:], 3, version, specs=specs).body
    assert {(broker.host, broker.port) for broker in metadata.brokers} == {("local", 1)}
    older = encode_response(fill_addresses(message("MetadataResponse"), 5), 5, correlation_id=1)
    assert HOST.encode() not in understood.ask(3, 5).answer(older)


def test_undecodable_responses_that_may_have_an_address_are_reported():
    metadata = encode_response(fill_addresses(message("MetadataResponse"), 5), 5, correlation_id=1)
    cases = {
        "API 999 version 0 is not in the specs": RecordedConversation().ask(999, 0),
        "a response without a recorded request": RecordedConversation(),
        "Metadata version 7: a response with addresses that cannot be replaced": RecordedConversation().ask(3, 7),
    }
    for reason, talk in cases.items():
        assert talk.answer(metadata) == frame_of(metadata)
        assert [what.startswith(reason) for what in talk.unknown] == [True], talk.unknown


def test_a_broker_without_a_listener_is_reported():
    def nowhere(_):
        raise OptionError("no port is free")

    talk = RecordedConversation(strict=True).ask(3, 5)
    talk.answers.get_local_address = nowhere
    with pytest.raises(ConnectionAbortedError, match="no port is free"):
        talk.answer(encode_response(fill_addresses(message("MetadataResponse"), 5), 5, correlation_id=1))


def test_requests_with_equal_correlation_ids_are_answered_in_order():
    """A client may use one correlation id for all requests, and a Produce with acks=0 has no response."""
    talk = RecordedConversation(strict=True).ask(0, 7, 4).ask(12, 0).ask(3, 5).ask(3, 7)
    beat = encode_response(message("HeartbeatResponse")(), 0, correlation_id=1)
    assert talk.answer(beat) == frame_of(beat)
    for version in (5, 7):
        response = encode_response(fill_addresses(message("MetadataResponse"), version), version, correlation_id=1)
        assert HOST.encode() not in talk.answer(response)


def test_tokens_of_any_size_do_not_hide_later_data():
    talk = RecordedConversation(strict=True).ask(17, 0)
    handshake = encode_response(message("SaslHandshakeResponse")(), 0, correlation_id=1)
    assert talk.answer(handshake) == frame_of(handshake)
    for size in range(12):
        talk.requests.feed(frame_of(b"t" * size))
        assert talk.answer(b"u" * size) == frame_of(b"u" * size)
    response = encode_response(fill_addresses(message("MetadataResponse"), 5), 5, correlation_id=7)
    assert HOST.encode() not in talk.ask(3, 5, 7).answer(response)


def test_requests_without_responses_take_bounded_memory():
    requests = OutstandingRequests()
    for number in range(3 * MAX_OUTSTANDING_REQUESTS):
        requests.feed(frame_of(struct.pack(">hhi", 0, 10, number)))
    assert len(requests._open) == len(requests._ids) == MAX_OUTSTANDING_REQUESTS


def test_a_strict_recorder_closes_the_connection_and_reports_the_version_once():
    specs, version, response = kip_636_metadata()
    request = frame_of(struct.pack(">hhi", 3, version, 1) + b"\xff\xff")

    def broker(one):
        with one:
            one.recv(65536)
            one.sendall(frame_of(response))
            one.recv(1)

    unknown_versions = []
    with start_server(broker) as upstream:
        settings = RecorderSettings("127.0.0.1", (0,), upstream, strict=True)
        with Recorder(settings, io.BytesIO(), on_unknown=unknown_versions.append) as recorder:
            for _ in range(2):
                with socket.create_connection(recorder.start(), 60) as client:
                    client.sendall(request)
                    with contextlib.suppress(ConnectionResetError):
                        assert client.recv(65536) == b""
        assert unknown_versions == [f"Metadata version {version} is not in the specs"]
        settings = RecorderSettings("127.0.0.1", (0,), upstream, apis=ApiRegistry(specs), strict=True)
        with Recorder(settings, io.BytesIO()) as recorder, socket.create_connection(recorder.start(), 60) as client:
            client.sendall(request)
            got = client.recv(65536)
    assert got
    assert HOST.encode() not in got
