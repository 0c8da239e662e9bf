"""Hostile input: a request of any bytes is answered or closes the connection, without large allocations."""

from __future__ import annotations

import random
import select
import socket
import struct
import time
import tracemalloc

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.requests.api import CloseConnection, DeferredResponse, EncodedResponse
from kafkaframes.broker.requests.login import Login
from kafkaframes.protocol.messages import Message, message
from kafkaframes.protocol.messages.headers import encode_request
from kafkaframes.records.build import build_records

BATCH = build_records({"key": [b"k"] * 3, "value": [b"v"] * 3}, codec="lz4")


def fill_message(cls, version, rng, depth=0):
    """Return a message with random values in all fields that its version has."""
    value = cls()
    for info in cls._fields:
        if not info.spec.versions.contains(version):
            continue
        kind = info.spec.type
        if info.struct is not None:
            row = fill_message(info.struct, version, rng, depth + 1)
            setattr(value, info.attribute, [row] if kind.is_array else row)
            continue
        field_value = random_value(kind.element.name if kind.is_array else kind.name, info.attribute, rng)
        if field_value is not None:
            setattr(value, info.attribute, [field_value] if kind.is_array else field_value)
    return value


def random_value(kind, attribute, rng):
    if kind == "string":
        return rng.choice(["orders", "g", "", "a/b", "range", "1"])
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "records":
        return BATCH
    if kind == "bytes":
        return bytes(rng.randrange(256) for _ in range(rng.randrange(8)))
    if kind in ("int8", "int16", "int32", "int64"):
        return rng.choice([0, 1, -1, 2, 100, 127])
    return None


CASES = [(api, version) for api in collect_apis().values() for version in range(api.range[0], api.range[1] + 1)]


@pytest.mark.parametrize(("api", "version"), CASES, ids=lambda value: getattr(value, "name", value))
def test_any_bytes_are_answered_or_close_the_connection(client, api, version):
    client.create()
    rng = random.Random(f"{api.name} {version}")
    cls = message(f"{api.name}Request")
    for _ in range(6):
        try:
            frame = bytearray(encode_request(fill_message(cls, version, rng), version, client_id="x"))
        except Exception:  # a value that this version cannot encode
            frame = bytearray(encode_request(cls(), version, client_id="x"))
        send(client, bytes(frame))
        for _ in range(12):
            mutated_frame = bytearray(frame)
            for _ in range(rng.choice([1, 1, 2, 5])):
                if len(mutated_frame) > 10:
                    mutated_frame[rng.randrange(8, len(mutated_frame))] = rng.choice(
                        [0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)]
                    )
            send(client, bytes(mutated_frame))


def send(client, frame):
    client.session.login = Login()
    try:
        request = client.dispatcher.decode_request(frame, client.session)
        answer = client.dispatcher.answer(request)
    except CloseConnection:
        return
    if isinstance(answer, DeferredResponse):
        if not answer.is_done:
            answer.abandon()
            return
        answer = answer.answer
    assert answer is None or isinstance(answer, Message | EncodedResponse)
    if answer is not None:
        client.dispatcher.encode(request, answer)


ATTACK_FRAMES = {
    "array of 2^31-1": struct.pack(">hhih", 1, 4, 1, -1) + struct.pack(">iiiibi", -1, 0, 0, 1 << 20, 0, 2**31 - 1),
    "compact array of 2^32": struct.pack(">hhihb", 3, 12, 1, -1, 0) + b"\xff\xff\xff\xff\x0f",
    "string of 32767": struct.pack(">hhih", 3, 1, 1, 32767),
    "tags without end": struct.pack(">hhih", 3, 12, 1, -1) + b"\xff\xff\xff\xff\x07" + b"\x00" * 20,
    "varint of 11 bytes": struct.pack(">hhih", 3, 12, 1, -1) + b"\xff" * 11,
    "records of 2^31-1": struct.pack(">hhih", 0, 3, 1, -1)
    + struct.pack(">hhiihcii", -1, 1, 1, 1, 1, b"a", 1, 0)
    + struct.pack(">i", 2**31 - 1),
}


@pytest.mark.parametrize("name", ATTACK_FRAMES)
def test_an_attack_is_disconnected_without_using_memory(name):
    frame = ATTACK_FRAMES[name]
    with Broker(journal=False) as broker:
        with socket.create_connection((broker.host, broker.port), 60) as warm:
            warm.sendall(struct.pack(">i", 14) + struct.pack(">hhihi", 3, 1, 1, -1, -1))
            warm.recv(1000)
        tracemalloc.start()
        for _ in range(5):
            with socket.create_connection((broker.host, broker.port), 60) as peer:
                peer.sendall(struct.pack(">i", len(frame)) + frame)
                assert peer.recv(100) == b""
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 16 << 20
        with socket.create_connection((broker.host, broker.port), 60) as peer:
            peer.sendall(struct.pack(">i", 14) + struct.pack(">hhihi", 3, 1, 1, -1, -1))
            assert peer.recv(1000)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_a_decompression_bomb_is_rejected_or_accepted_within_limits(client, codec):
    client.create()
    bomb = build_records({"value": [bytes(20 << 20)]}, codec=codec, batch_bytes=64 << 20)
    row = client.produce(bomb)
    assert row.error_code in (0, 10, 2, 87, -1)
    assert client.produce(build_records({"value": [b"x"]})).error_code == 0


def test_half_open_connections_are_limited():
    with Broker(config={"max.connections": 5}, journal=False) as broker:
        peers = [socket.create_connection((broker.host, broker.port), 60) for _ in range(8)]
        try:
            closed_sockets: set[socket.socket] = set()
            deadline = time.monotonic() + 60
            while len(closed_sockets) < 3 and time.monotonic() < deadline:
                closed_sockets |= set(
                    select.select([peer for peer in peers if peer not in closed_sockets], [], [], 1)[0]
                )
            assert len(closed_sockets) == 3
            assert all(_is_closed(peer) for peer in closed_sockets)
            assert not select.select([peer for peer in peers if peer not in closed_sockets], [], [], 0.3)[0]
        finally:
            for peer in peers:
                peer.close()


def _is_closed(peer):
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_client_that_does_not_read_has_limited_unsent_answers():
    with Broker(journal=False) as broker:
        broker.append("orders", [{"value": bytes(900_000)}])
        types = message("FetchRequest")
        row = types.FetchPartition(partition=0, partition_max_bytes=1 << 20)
        body = types(max_bytes=1 << 20, topics=[types.FetchTopic(topic="orders", partitions=[row])])
        frame = encode_request(body, 4)
        with socket.create_connection((broker.host, broker.port), 60) as peer:
            peer.settimeout(60)
            for _ in range(200):
                peer.sendall(struct.pack(">i", len(frame)) + frame)
            broker.wait_for(broker.connections)
            unsent = broker.call(lambda state: max(connection.unsent_bytes for connection in broker.connections()))
            assert unsent < 16 << 20
