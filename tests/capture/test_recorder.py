"""The recording proxy: clients stay behind it, the file holds the originals, and a slow disk loses nothing."""

from __future__ import annotations

import io
import socket
import struct
import threading
import time
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer

from kafkaframes.broker import Broker
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.capture.recorder import Recorder, Settings
from kafkaframes.capture.relay import Answers, Requests, with_local_addresses
from kafkaframes.cli.record import _listen, _upstream
from kafkaframes.errors import OptionError
from kafkaframes.messages import message
from kafkaframes.messages.headers import decode_response, encode_request, encode_response

NODES = 2


@contextmanager
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
        assert producer.flush(20) == 0
        consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        values, deadline = set(), time.monotonic() + 20
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


@contextmanager
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
    with one:
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
    with server_of(echo) as upstream, Recorder(Settings("127.0.0.1", (0,), upstream), disk, on_slow=told.append) as one:
        with socket.create_connection(one.start()) as client:
            client.sendall(sent)
            got = b""
            while len(got) < len(sent):
                got += client.recv(65536)
        time.sleep(0.2)
    assert got == sent
    assert told
    assert disk.getvalue().count(bytes(30_000)) >= 1
    assert len(disk.getvalue()) > 2 * len(sent)


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


@pytest.mark.parametrize("text", [":x", ":9093-9092", ":0-99999"])
def test_options_that_make_no_sense(text):
    with pytest.raises(OptionError):
        _listen(text)
    with pytest.raises(OptionError):
        _upstream(text)


def test_listen_takes_a_range():
    assert _listen(":9092-9094") == ("0.0.0.0", (9092, 9093, 9094))
    assert _listen("[::1]:9092") == ("::1", (9092,))
