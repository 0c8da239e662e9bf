"""Limits for hostile clients: memory for unread answers, and for the journal of requests."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest
from tests.soak.broker_bounds import fetch, frame, produce
from tests.waiting import wait_for

from kafkaframes import Broker
from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.faults.journal import Journal
from kafkaframes.broker.network import server
from kafkaframes.broker.requests.request import Request
from kafkaframes.broker.state.partitions import MAX_FETCH_MEMORY_BYTES
from kafkaframes.errors import OptionError
from kafkaframes.protocol.framing import FrameBuffer
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request


def fill_topic(broker: Broker, megabytes: int) -> None:
    broker.create_topic("t")
    for _ in range(3 * megabytes):
        broker.append("t", [{"value": bytes(300 << 10)}])


@pytest.mark.parametrize("options", [{}, {"journal": False}], ids=["journal", "short"])
def test_a_fetch_answer_is_limited_to_one_megabyte_and_the_next_fetch_returns_the_rest(options):
    with Broker(**options) as broker, socket.create_connection(("127.0.0.1", broker.port)) as peer:
        fill_topic(broker, 4)
        peer.sendall(frame("Fetch", 11, **fetch(["t"])))
        with peer.makefile("rb") as file:
            size = int.from_bytes(file.read(4), "big")
        assert 300 << 10 < size < MAX_FETCH_MEMORY_BYTES + 1000


def test_a_client_that_does_not_read_its_answers_is_closed_while_other_clients_are_served(monkeypatch):
    monkeypatch.setattr(server, "_MAX_UNSENT_BYTES", 1 << 20)
    with Broker(journal=False) as broker, ExitStack() as open_ones:
        fill_topic(broker, 1)
        silent = [socket.socket() for _ in range(6)]
        for silent_peer in silent:
            open_ones.enter_context(silent_peer)
            silent_peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent_peer.connect(("127.0.0.1", broker.port))
            silent_peer.sendall(frame("Fetch", 11, **fetch(["t"])) * 20)
        unsent = lambda state: sum(connection.unsent_bytes for connection in broker._server.connections)  # noqa: E731
        wait_for(lambda: len(broker._server.connections) < len(silent))
        wait_for(lambda: broker.call(unsent) <= 1 << 20)
        with socket.create_connection(("127.0.0.1", broker.port)) as other:
            other.sendall(frame("Metadata", 9, topics=[]))
            assert other.recv(4)


def test_a_buffer_releases_the_memory_of_a_large_frame():
    buffer = FrameBuffer()
    large = bytes(1 << 20)
    buffer.receive_data(len(large).to_bytes(4, "big") + large[:-1])
    buffer.shrink()
    assert buffer.waiting_bytes == 3 + len(large)
    buffer.receive_data(b"x")
    assert buffer.next_frame() == large[:-1] + b"x"
    buffer.shrink()
    assert len(buffer.get_buffer()) <= 64 << 10
    buffer.receive_data(b"\0\0\0\1y")
    assert buffer.next_frame() == b"y"


MIB = 1 << 20


@pytest.fixture
def limited_broker():
    """A broker that accepts requests of up to 8 MiB, and up to 16 MiB of unfinished requests in total."""
    config = {"socket.request.max.bytes": 8 * MIB, "queued.max.request.bytes": 16 * MIB}
    with Broker(config=config, journal=False) as broker:
        yield broker


def begin_frame(broker, size_bytes, sent_bytes):
    """Send the beginning of a frame; return the connection once the broker has read it."""
    peer = socket.create_connection(("127.0.0.1", broker.port), 60)
    peer.sendall(size_bytes.to_bytes(4, "big") + bytes(sent_bytes))
    address = "{}:{}".format(*peer.getsockname())

    def is_read():
        own_connections = [connection for connection in broker.connections() if connection.session.peer == address]
        return not own_connections or own_connections[0]._frames.waiting_bytes == 4 + sent_bytes

    broker.wait_for(is_read)
    return peer


def is_open(peer):
    peer.setblocking(False)
    try:
        return peer.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_the_connection_with_the_oldest_unfinished_frame_is_closed_first(limited_broker):
    """KIP-72: 20 unfinished frames of 90 MB took 2.7 GB."""
    peers = [begin_frame(limited_broker, 6 * MIB, 5 * MIB) for _ in range(2)]
    small = [begin_frame(limited_broker, MIB - 100_000, MIB - 200_000) for _ in range(30)]
    assert all(map(is_open, [*peers, *small]))
    peers += [begin_frame(limited_broker, 6 * MIB, 5 * MIB) for _ in range(2)]
    limited_broker.wait_for(lambda: len(limited_broker.connections()) == 32)
    assert list(map(is_open, peers)) == [False, False, True, True]
    assert all(map(is_open, small))
    for peer in [*peers, *small]:
        peer.close()
    server = limited_broker._server
    limited_broker.wait_for(lambda: (server._frame_memory, server._frame_memory_bytes) == ({}, 0))


def test_memory_of_finished_frames_is_released_before_a_connection_is_closed(limited_broker):
    types = message("ApiVersionsRequest")
    padding = types(client_software_name="a" * 20_000, client_software_version="1").encode(3)
    frame = encode_request(types(client_software_name="a", client_software_version="1"), 3)
    frame += bytes(6 * MIB - len(frame)) + padding  # the data after the request is not read
    peers = []
    for _ in range(4):
        peer = socket.create_connection(("127.0.0.1", limited_broker.port), 60)
        peer.sendall(len(frame).to_bytes(4, "big") + frame)
        assert peer.recv(4)
        peers.append(peer)
    assert len(limited_broker.connections()) == 4
    for peer in peers:
        peer.close()


def test_the_age_of_an_unfinished_frame_starts_at_its_own_first_byte(limited_broker):
    """A connection that keeps sending frames always has an unfinished one in its buffer, but finishes each in time."""
    frame = encode_request(message("ApiVersionsRequest")(client_software_name="a", client_software_version="1"), 3)
    sized_frame = len(frame).to_bytes(4, "big") + frame
    with socket.create_connection(("127.0.0.1", limited_broker.port), 60) as peer:
        peer.sendall(sized_frame[:9])
        limited_broker.wait_for(lambda: any(one.frame_began for one in limited_broker.connections()))
        (connection,) = limited_broker.connections()
        began = connection.frame_began
        peer.sendall(sized_frame[9:] + sized_frame[:9])
        assert peer.recv(4)
        limited_broker.wait_for(lambda: connection._frames.waiting_bytes == 9)
        assert limited_broker.call(lambda _: connection.frame_began) > began


def test_the_limit_for_unfinished_requests_must_allow_one_request():
    with pytest.raises(OptionError, match=r"is 100; expected socket\.request\.max\.bytes or more"):
        Broker(config={"queued.max.request.bytes": 100}).start()


@pytest.mark.parametrize("size_bytes", [90 << 20, (5 << 20) + 17])
def test_a_large_frame_uses_little_more_memory_than_its_size(size_bytes):
    buffer = FrameBuffer()
    buffer.receive_data(size_bytes.to_bytes(4, "big") + bytes(size_bytes - 1))
    assert buffer.capacity_bytes <= size_bytes + (256 << 10)


@pytest.fixture
def journal():
    return Journal(lambda: 0)


def note_request(journal: Journal, api: str, body, answer) -> Request:
    request = Request(next(api_info for api_info in collect_apis().values() if api_info.name == api), 9, decoded=body)
    journal.before(request)
    journal.after(request, answer)
    return request


def test_a_journal_entry_counts_the_memory_of_its_bodies(journal):
    types = message("MetadataResponse")
    topics = [types.MetadataResponseTopic(name=f"topic-{number}") for number in range(10_000)]
    request = note_request(journal, "Metadata", message("MetadataRequest")(), types(topics=topics))
    assert request.journal_entry.size_bytes > 10_000 * 100
    for _ in range(100):
        note_request(journal, "Metadata", message("MetadataRequest")(), types(topics=topics))
    kept_entries = [entry for entry in journal if entry.answer is not None]
    assert 0 < len(kept_entries) < 80
    assert kept_entries[-1] is list(journal)[-1]


def test_an_answer_added_after_its_request_was_evicted_is_counted_again(journal):
    types = message("ProduceRequest")
    large = types(**produce(bytes(40 << 20)))
    api = next(api for api in collect_apis().values() if api.name == "Produce")
    waiting = Request(api, 7, decoded=large)
    journal.before(waiting)
    note_request(journal, "Produce", large, None)
    assert waiting.journal_entry.body is None
    journal.after(waiting, message("ProduceResponse")())
    assert (waiting.journal_entry.answer is not None, waiting.journal_entry.size_bytes > 0) == (True, True)
    journal.clear()
    note_request(journal, "Produce", large, None)
    assert journal._bytes == next(iter(journal)).size_bytes


def test_an_abandoned_request_frees_its_journal_entry(journal):
    api = next(api for api in collect_apis().values() if api.name == "Metadata")
    for _ in range(20_000):
        journal.before(Request(api, 9, decoded=message("MetadataRequest")()))
    assert len(journal) <= 10_000
    assert not [name for name, value in vars(journal).items() if hasattr(value, "__len__") and len(value) > 10_000]
