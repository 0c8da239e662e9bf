"""The outbox of a connection sends file ranges from disk to socket with the same bytes as an answer in memory."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import contextmanager

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.dispatch.dispatch import join_short_parts
from kafkaframes.errors import ErrorCode, StorageError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import decode_response, encode_request
from kafkaframes.records.batch import read_batches
from kafkaframes.storage.partition.segment import FileRange

_MAX_UNSENT_BYTES = 1 << 16
VALUES = [bytes([number]) * 150_000 for number in range(1, 21)]


def fetch_frame(version, *, size=2 << 20, offset=0, session=-1):
    types = message("FetchRequest")
    row = types.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
    body = types(
        max_bytes=size,
        max_wait_ms=100,
        session_epoch=session,
        topics=[types.FetchTopic(topic="orders", partitions=[row])],
    )
    frame = encode_request(body, version, correlation_id=3)
    return struct.pack(">i", len(frame)) + frame


def receive(peer):
    """Read one answer's frame."""
    missing_size, received_bytes = 4, bytearray()
    while len(received_bytes) < missing_size:
        piece = peer.recv(min(missing_size - len(received_bytes), 1 << 20))
        assert piece, "the connection was closed"
        received_bytes += piece
        if missing_size == 4 and len(received_bytes) == 4:
            missing_size += struct.unpack(">i", received_bytes)[0]
    return bytes(received_bytes[4:])


def take_all(peer, count):
    return [receive(peer) for _ in range(count)]


def connect_peer(broker):
    peer = socket.create_connection((broker.host, broker.port), 60)
    peer.settimeout(60)
    return peer


@contextmanager
def connect_narrow_peer(broker):
    """Connect with a small send buffer on the broker's side, so that most of an answer waits in the outbox."""
    with socket.socket() as peer:
        peer.settimeout(60)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _MAX_UNSENT_BYTES)
        peer.connect((broker.host, broker.port))
        broker.wait_for(broker.connections)
        broker.call(lambda state: _hold_at_most(_MAX_UNSENT_BYTES, broker.connections()))
        yield peer


def _hold_at_most(size, connections):
    for connection in connections:
        connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)


def unsent_bytes(broker):
    return broker.call(lambda state: max((connection.unsent_bytes for connection in broker.connections()), default=0))


@contextmanager
def fill_broker(**how):
    """Return a broker with one record for each value of ``VALUES``."""
    with Broker(**how) as broker:
        for value in VALUES:
            broker.append("orders", [{"value": value}])
        yield broker


def test_a_served_directory_is_also_sent_from_its_files(tmp_path):
    with fill_broker(journal=False, data_dir=tmp_path) as broker, connect_peer(broker) as peer:
        peer.sendall(fetch_frame(11))
        expected_answer = receive(peer)
    with Broker(serve=tmp_path, journal=False) as broker, connect_peer(broker) as peer:
        log = broker.call(lambda state: state.topics["orders"].partitions[0].log)
        read = broker.call(lambda state: log.read(0, max_bytes=2 << 20, min_range_bytes=1))
        assert read.file_range is not None
        read.file_range.close()
        peer.sendall(fetch_frame(11))
        assert read_records(receive(peer), 11) == read_records(expected_answer, 11)


def read_records(frame, version):
    body = decode_response(frame, 1, version).body
    return body.responses[0].partitions[0].records


@pytest.mark.parametrize("version", [4, 11, 12])
def test_an_answer_is_the_same_from_files_from_memory_and_with_a_journal(tmp_path, version):
    answers = []
    places = ({}, {"data_dir": tmp_path / "sent as a file"}, {"data_dir": tmp_path / "read", "journal": True})
    for source in places:
        with fill_broker(**{"journal": False, **source}) as broker, connect_peer(broker) as peer:
            peer.sendall(fetch_frame(version, size=1_000_000))  # an answer has little data in memory
            answers.append(receive(peer))
    assert len(answers[0]) > 1_000_000
    values = [
        [record.value for batch in read_batches(read_records(answer, version)) for record in batch.records]
        for answer in answers
    ]
    assert values[0] == values[1] == values[2] == VALUES[: len(values[0])]
    assert len(set(map(len, answers))) == 1


def open_log_files(directory):
    names = []
    for number in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return sum(name.startswith(str(directory)) for name in names)


def test_many_long_answers_to_a_slow_reader_are_in_order_and_not_in_memory(tmp_path):
    with fill_broker(journal=False, data_dir=tmp_path) as broker, connect_narrow_peer(broker) as peer:
        before = open_log_files(tmp_path)
        offsets = [0, 7, 3, 19, 12] * 4
        peer.sendall(b"".join(fetch_frame(11, offset=offset, size=1 << 20) for offset in offsets))
        broker.wait_for(lambda: unsent_bytes(broker))
        assert unsent_bytes(broker) < 4 << 20
        for offset in offsets:
            records = read_records(receive(peer), 11)
            first = next(iter(read_batches(records))).records[0]
            assert (first.offset, first.value) == (offset, VALUES[offset])
        broker.wait_for(lambda: open_log_files(tmp_path) == before)


def test_a_disconnected_reader_leaves_no_file_open(tmp_path):
    with fill_broker(journal=False, data_dir=tmp_path) as broker:
        before = open_log_files(tmp_path)
        with connect_narrow_peer(broker) as peer:
            peer.sendall(fetch_frame(11) * 10)
            broker.wait_for(lambda: unsent_bytes(broker) > 1 << 20)
        broker.wait_for(lambda: not broker.connections())
        assert open_log_files(tmp_path) == before


def test_truncating_a_file_during_an_answer_closes_the_connection(tmp_path):
    with fill_broker(journal=False, data_dir=tmp_path) as broker, connect_narrow_peer(broker) as peer:
        peer.sendall(fetch_frame(11))
        broker.wait_for(lambda: unsent_bytes(broker) > 1 << 20)
        os.truncate(tmp_path / "orders-0" / "00000000000000000000.log", 100)
        with pytest.raises((ConnectionError, AssertionError)):
            receive(peer)


def test_fetching_from_a_truncated_file_is_a_storage_error(tmp_path):
    with fill_broker(journal=False, data_dir=tmp_path) as broker, connect_peer(broker) as peer:
        os.truncate(tmp_path / "orders-0" / "00000000000000000000.log", 100)
        peer.sendall(fetch_frame(11))
        row = decode_response(receive(peer), 1, 11).body.responses[0].partitions[0]
        assert (row.error_code, row.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")


def test_a_fetch_session_is_also_answered_from_files(tmp_path):
    with fill_broker(journal=False, data_dir=tmp_path) as broker, connect_peer(broker) as peer:
        peer.sendall(fetch_frame(11, session=0))
        body = decode_response(receive(peer), 1, 11).body
        assert body.session_id
        assert len(body.responses[0].partitions[0].records) == 2 << 20


def test_short_buffers_are_joined_and_long_ones_are_not_copied(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789")
    stretch = FileRange(os.open(tmp_path / "file", os.O_RDONLY), 2, 5)
    long = bytes(10_000)
    buffers = join_short_parts([b"a", b"b", long, b"c", stretch, b"", b"d"])
    assert buffers[0] == b"ab"
    assert buffers[1] is long
    assert buffers[2] == b"c"
    assert buffers[3] is stretch
    assert buffers[4] == b"d"
    assert bytes(stretch) == b"23456"
    os.truncate(tmp_path / "file", 4)
    with pytest.raises(StorageError, match="the file was truncated"):
        bytes(stretch)
    stretch.close()


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_a_file_range_is_encoded_as_its_bytes_unless_it_is_sent_directly(tmp_path, version):
    (tmp_path / "file").write_bytes(b"x" * 300)
    types = message("FetchResponse")

    def answer(*records):
        rows = [types.PartitionData(partition_index=1, records=record) for record in records]
        return types(responses=[types.FetchableTopicResponse(topic="t", partitions=rows)])

    def stretch():
        return FileRange(os.open(tmp_path / "file", os.O_RDONLY), 50, 200)

    expected_bytes = answer(b"x" * 200).encode(version)
    assert answer(stretch()).encode(version) == expected_bytes
    parts = answer(stretch()).encode_parts(version)
    assert any(isinstance(part, FileRange) for part in parts)
    assert b"".join(map(bytes, parts)) == expected_bytes
    mixed_parts = answer(stretch(), bytearray(b"y")).encode_parts(version)  # for plain CPython
    assert b"".join(mixed_parts) == answer(b"x" * 200, b"y").encode(version)
