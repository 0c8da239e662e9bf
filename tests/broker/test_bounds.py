"""What a stranger may cost: memory for answers that nobody reads, and for what is remembered of requests."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import pytest
from tests.soak.broker_bounds import fetch, frame, produce

from kafkaframes import Broker
from kafkaframes.broker import server
from kafkaframes.broker.journal import Journal
from kafkaframes.broker.partitions import MOST_HELD_BYTES
from kafkaframes.broker.request import Request
from kafkaframes.broker.table import all_apis
from kafkaframes.protocol.framing import FrameBuffer
from kafkaframes.protocol.messages import message


def eventually(holds) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def written(broker: Broker, megabytes: int) -> None:
    broker.create_topic("t")
    for _ in range(3 * megabytes):
        broker.append("t", [{"value": bytes(300 << 10)}])


@pytest.mark.parametrize("options", [{}, {"journal": False}], ids=["journal", "short"])
def test_an_answer_holds_a_megabyte_of_records_and_the_next_fetch_brings_the_rest(options):
    with Broker(**options) as broker, socket.create_connection(("127.0.0.1", broker.port)) as peer:
        written(broker, 4)
        peer.sendall(frame("Fetch", 11, **fetch(["t"])))
        with peer.makefile("rb") as file:
            size = int.from_bytes(file.read(4), "big")
        assert 300 << 10 < size < MOST_HELD_BYTES + 1000


def test_who_reads_no_answers_is_closed_when_too_much_waits_and_others_are_served(monkeypatch):
    monkeypatch.setattr(server, "_MOST_UNSENT", 1 << 20)
    with Broker(journal=False) as broker, ExitStack() as open_ones:
        written(broker, 1)
        silent = [socket.socket() for _ in range(6)]
        for one in silent:
            open_ones.enter_context(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", broker.port))
            one.sendall(frame("Fetch", 11, **fetch(["t"])) * 20)
        unsent = lambda state: sum(one.unsent_bytes for one in broker._server.connections)  # noqa: E731
        eventually(lambda: len(broker._server.connections) < len(silent))
        eventually(lambda: broker.call(unsent) <= 1 << 20)
        with socket.create_connection(("127.0.0.1", broker.port)) as other:
            other.sendall(frame("Metadata", 9, topics=[]))
            assert other.recv(4)


def test_a_buffer_gives_back_what_only_a_large_frame_needed():
    buffer = FrameBuffer()
    large = bytes(1 << 20)
    buffer.receive_data(len(large).to_bytes(4, "big") + large[:-1])
    buffer.rest()
    assert buffer.waiting_bytes == 3 + len(large)
    buffer.receive_data(b"x")
    assert buffer.next_frame() == large[:-1] + b"x"
    buffer.rest()
    assert len(buffer.get_buffer()) <= 64 << 10
    buffer.receive_data(b"\0\0\0\1y")
    assert buffer.next_frame() == b"y"


@pytest.fixture
def journal():
    return Journal(lambda: 0)


def noted(journal: Journal, api: str, body, answer) -> Request:
    request = Request(next(one for one in all_apis().values() if one.name == api), 9, decoded=body)
    journal.before(request)
    journal.after(request, answer)
    return request


def test_an_entry_counts_what_its_bodies_take(journal):
    types = message("MetadataResponse")
    topics = [types.MetadataResponseTopic(name=f"topic-{number}") for number in range(10_000)]
    request = noted(journal, "Metadata", message("MetadataRequest")(), types(topics=topics))
    assert request.journal_entry.size_bytes > 10_000 * 100
    for _ in range(100):
        noted(journal, "Metadata", message("MetadataRequest")(), types(topics=topics))
    kept = [entry for entry in journal if entry.answer is not None]
    assert 0 < len(kept) < 80
    assert kept[-1] is list(journal)[-1]


def test_an_answer_that_comes_after_its_request_was_forgotten_counts_again(journal):
    types = message("ProduceRequest")
    large = types(**produce(bytes(40 << 20)))
    api = next(one for one in all_apis().values() if one.name == "Produce")
    waiting = Request(api, 7, decoded=large)
    journal.before(waiting)
    noted(journal, "Produce", large, None)
    assert waiting.journal_entry.body is None
    journal.after(waiting, message("ProduceResponse")())
    assert (waiting.journal_entry.answer is not None, waiting.journal_entry.size_bytes > 0) == (True, True)
    journal.clear()
    noted(journal, "Produce", large, None)
    assert journal._bytes == next(iter(journal)).size_bytes


def test_a_request_that_is_abandoned_leaves_nothing_behind(journal):
    api = next(one for one in all_apis().values() if one.name == "Metadata")
    for _ in range(20_000):
        journal.before(Request(api, 9, decoded=message("MetadataRequest")()))
    assert len(journal) <= 10_000
    assert not [name for name, value in vars(journal).items() if hasattr(value, "__len__") and len(value) > 10_000]
