"""The recording proxy: clients stay behind it, the file holds the originals, and a slow disk loses nothing."""

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

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.security.tls import server_context
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.capture.recorder import Recorder, Settings
from kafkaframes.capture.relay import Answers, Requests, with_local_addresses
from kafkaframes.capture.secured import SecuredSocket
from kafkaframes.cli.record import _client_tls, _server_tls
from kafkaframes.messages import message
from kafkaframes.messages.headers import decode_response, encode_request, encode_response

NODES = 2
HERE = Settings("127.0.0.1", (0,), ("127.0.0.1", 9))


@contextlib.contextmanager
def recorded(path, upstream, **options):
    with path.open("wb") as file, Recorder(Settings("127.0.0.1", (0,), upstream), file, **options) as recorder:
        yield recorder


def test_clients_stay_behind_it_and_every_call_is_in_the_file(tmp_path):
    path = tmp_path / "trace.pcapng"
    with Broker(nodes=NODES) as broker, recorded(path, (broker.host, broker.port)) as recorder:
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
    assert not [row["_error"] for row in rows if row["_error"] and "none in the capture" not in row["_error"]]
    produced = read_capture(str(path), CaptureOptions(table="records")).read_all().to_pylist()
    assert {row["value"] for row in produced if row["apiName"] == "Produce"} == values
    metadata = [row["response"] for row in rows if row["apiName"] == "Metadata"]
    assert metadata
    assert f'"port":{port},' not in "".join(filter(None, metadata))


@contextlib.contextmanager
def server_of(handle):
    """A server whose connections ``handle`` serves."""
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


def test_a_slow_disk_makes_clients_wait_and_is_told(monkeypatch):
    from kafkaframes.capture import recorder as module

    monkeypatch.setattr(module, "SLOW_SECONDS", 0.2)
    told, disk = [], SlowDisk()
    sent = struct.pack(">ihhi", 40_008, 999, 0, 1) + bytes(40_000)
    with (
        server_of(echo) as upstream,
        Recorder(Settings("127.0.0.1", (0,), upstream), disk, on_slow=told.append) as one,
        socket.create_connection(one.start()) as client,
    ):
        client.sendall(sent)
        got = b""
        while len(got) < len(sent):
            got += client.recv(65536)
    assert got == sent
    assert told
    assert len(disk.getvalue()) > 2 * len(sent)
    assert disk.getvalue().count(0) > 2 * 40_000


class FullDisk(io.BytesIO):
    def write(self, data):
        if self.tell() > 50_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def test_what_a_full_disk_does_not_take_is_not_passed_on(capfd):
    disk, served = FullDisk(), []

    def counted(one):
        with one, contextlib.suppress(OSError):
            while data := one.recv(65536):
                served.append(len(data))

    with server_of(counted) as upstream, Recorder(Settings("127.0.0.1", (0,), upstream), disk) as one:
        with socket.create_connection(one.start(), 60) as client, contextlib.suppress(ConnectionError):
            for _ in range(200):
                client.sendall(bytes(10_000))
        assert one.failed.wait(60)
    assert one.failure.errno == errno.ENOSPC
    assert sum(served) <= len(disk.getvalue())
    assert "Traceback" not in capfd.readouterr().err


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of 127.0.0.1 that is its own authority."""
    directory = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "cert.pem", directory / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return tuple(map(str, paths))


def test_tls_ends_here_and_begins_again_to_the_brokers(tmp_path, certificate):
    """Two brokers, so two listeners; the capture is plain, with the brokers' addresses."""
    path, security = tmp_path / "trace.pcapng", Security(tls=server_context(*certificate))
    tls = {"server_tls": _server_tls(*certificate), "upstream_tls": _client_tls(True, certificate[0])}
    with Broker(nodes=NODES, security=security) as broker, path.open("wb") as file:
        with Recorder(Settings("127.0.0.1", (0,), (broker.host, broker.port), **tls), file) as recorder:
            host, port = recorder.start()
            settings = {"security.protocol": "SSL", "ssl.ca.location": certificate[0], "client.id": "recorded"}
            producer = Producer(settings | {"bootstrap.servers": f"{host}:{port}"})
            for number in range(40):
                producer.produce("orders", bytes([number]) * 20_000)
            assert producer.flush(100) == 0
            del producer
            listeners = set(recorder.listeners)
        assert recorder.counts.refused == 0
    assert len(listeners) == NODES
    rows = read_capture(str(path)).read_all().to_pylist()
    assert {row["apiName"] for row in rows} >= {"ApiVersions", "Metadata", "Produce"}
    assert {(row["serverAddress"], row["serverPort"]) for row in rows} <= listeners
    assert not [row["_error"] for row in rows if row["_error"] and "none in the capture" not in row["_error"]]
    records = read_capture(str(path), CaptureOptions(table="records")).read_all().to_pylist()
    assert {row["value"] for row in records} == {bytes([number]) * 20_000 for number in range(40)}


def test_both_directions_of_one_tls_connection_at_once_and_a_half_closed_one(certificate):
    """An echo of 20 MB that is read while it is written; its end is passed on, and what comes after is still TLS."""
    sent = bytes(range(256)) * (20_000_000 // 256)
    server = _server_tls(*certificate)

    def secured_echo(one):
        with contextlib.suppress(OSError):
            echo(server.wrap_socket(one, server_side=True))

    tls = {"server_tls": server, "upstream_tls": _client_tls(True, certificate[0])}
    with server_of(secured_echo) as upstream:
        recorder = Recorder(Settings("127.0.0.1", (0,), upstream, **tls), io.BytesIO())
        with recorder as one:
            plain = socket.create_connection(one.start(), 100)
            client = _client_tls(True, certificate[0]).wrap_socket(plain, server_hostname="127.0.0.1")
            shared = SecuredSocket(client)
            writer = threading.Thread(target=shared.sendall, args=(sent,), daemon=True)
            writer.start()
            got, buffer = bytearray(), bytearray(1 << 18)
            while len(got) < len(sent) and (count := shared.recv_into(buffer)):
                got += buffer[:count]
            writer.join(100)
            shared.shutdown(socket.SHUT_WR)
            assert shared.recv_into(buffer) == 0
            shared.close()
    assert got == sent


def test_a_client_that_speaks_no_tls_is_refused_and_counted(certificate):
    with server_of(echo) as upstream:
        settings = Settings("127.0.0.1", (0,), upstream, server_tls=_server_tls(*certificate))
        with Recorder(settings, io.BytesIO()) as one, socket.create_connection(one.start(), 60) as client:
            client.sendall(bytes(64))
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(100)[:1] in (b"", bytes([21]))  # TLS's alert
            deadline = time.monotonic() + 60
            while not one.counts.refused and time.monotonic() < deadline:
                time.sleep(0.01)
            assert (one.counts.refused, one.counts.connections) == (1, 0)


def test_a_client_that_has_gone_before_it_is_served_is_refused_and_counted():
    with socket.create_server(("127.0.0.1", 0)) as listener, Recorder(HERE, io.BytesIO()) as one:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        with pytest.raises(ConnectionResetError):
            accepted.recv(1)
        one._serve(accepted, HERE.upstream)
        assert (one.counts.refused, one.counts.connections) == (1, 0)
        assert accepted.fileno() < 0


def test_a_connection_that_is_made_while_recording_ends_is_closed(monkeypatch):
    reached, go, connected = threading.Event(), threading.Event(), Recorder._connected

    def late(one, broker):
        reached.set()
        assert go.wait(100)
        return connected(one, broker)

    monkeypatch.setattr(Recorder, "_connected", late)
    with server_of(echo) as upstream:
        one = Recorder(Settings("127.0.0.1", (0,), upstream), io.BytesIO())
        with socket.create_connection(one.start(), 100) as client:
            assert reached.wait(100)
            ending = threading.Thread(target=one.close)
            ending.start()
            while not one._closed:
                time.sleep(0.001)
            go.set()
            assert client.recv(1) == b""
            ending.join(100)
    assert one.counts.connections == 0


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_answers_are_passed_on_in_any_pieces(step):
    requests = Requests()
    answers = Answers(requests, lambda address: ("local", address[1] + 1))
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
    asked = b"".join(
        struct.pack(">i", len(one)) + one
        for one in (
            encode_request(message("MetadataRequest")(), 7, correlation_id=5),
            encode_request(message("HeartbeatRequest")(), 0, correlation_id=6),
        )
    )
    answered = b"".join(struct.pack(">i", len(one)) + one for one in (metadata, other)) + bytes(4)
    for start in range(0, len(asked), step):
        requests.feed(asked[start : start + step])
    out = b"".join(
        bytes(piece) for at in range(0, len(answered), step) for piece in answers.feed(answered[at : at + step])
    )
    size = struct.unpack(">i", out[:4])[0]
    (seen,) = decode_response(out[4 : 4 + size], 3, 7).body.brokers
    assert (seen.host, seen.port) == ("local", 9093)
    assert out[4 + size :] == struct.pack(">i", len(other)) + other + bytes(4)


def test_only_addresses_change():
    body = message("FindCoordinatorResponse")(host="kafka-1", port=9092, node_id=3)
    found = with_local_addresses(encode_response(body, 2, correlation_id=9), 10, 2, lambda _: ("here", 1))
    assert decode_response(found, 10, 2).body == body.replace(host="here", port=1)
    failed = message("FindCoordinatorResponse")(error_code=15, host="", port=-1)
    assert with_local_addresses(encode_response(failed, 2), 10, 2, lambda _: ("here", 1)) is None
    assert with_local_addresses(b"\0\0", 3, 5, lambda _: ("here", 1)) is None
