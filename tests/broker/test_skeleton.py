"""Basic requests over a socket: the table of APIs, Metadata, unknown versions, malformed frames and deferred
answers.
"""

from __future__ import annotations

import re
import socket

import pytest

from kafkaframes.broker import Broker, Clock
from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.lifecycle.assembly import open_broker
from kafkaframes.broker.requests.api import DeferredResponse
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.negotiation import fallback_version


@pytest.fixture
def broker():
    with Broker() as running:
        yield running


def ask(broker, name, version, **fields):
    request = message(f"{name}Request")(**fields)
    connection = ClientConnection(client_id="test")
    connection.send_request(request, version)
    with socket.create_connection((broker.host, broker.port), 60) as peer:
        peer.sendall(connection.data_to_send())
        while (frame := connection.next_response()) is None:
            data = peer.recv(65536)
            assert data, "the broker closed the connection"
            connection.receive_data(data)
    return frame


@pytest.mark.parametrize("api", collect_apis().values(), ids=lambda api: api.name)
def test_versions_and_gaps_of_an_api_are_only_in_its_declaration(api):
    import importlib

    module = importlib.import_module(api.handle.__module__)
    low, high = api.range
    assert api.name in module.__doc__
    catalog_versions = api.definition.versions
    assert catalog_versions.lowest <= low <= high <= catalog_versions.highest
    assert re.search(r"^Versions? \d+( to|\.)|^\* v\d|^Gaps:", module.__doc__, re.M) is None


def test_metadata_returns_the_listening_port(broker):
    answer = ask(broker, "Metadata", 9, topics=None).body
    (only,) = answer.brokers
    assert (only.host, only.port, only.node_id) == ("127.0.0.1", broker.port, answer.controller_id)


@pytest.mark.parametrize("version", range(14))
def test_metadata_creates_a_topic_and_returns_its_id(broker, version):
    topic_type = message("MetadataRequest").MetadataRequestTopic
    answer = ask(broker, "Metadata", version, topics=[topic_type(name="orders")]).body
    (topic,) = answer.topics
    assert (topic.name, topic.error_code, len(topic.partitions)) == ("orders", 0, 1)
    assert bool(topic.topic_id.int) == (version >= 10)


def test_an_unknown_api_versions_version_is_answered_at_version_0_and_the_client_falls_back(broker):
    frame = ask(broker, "ApiVersions", 5, client_software_name="a", client_software_version="1")
    assert frame.body.error_code == 0
    raw = b"\x00\x12\x00\x63\x00\x00\x00\x00\xff\xff\x00"  # version 99, whose fields are unknown
    with socket.create_connection((broker.host, broker.port), 60) as peer:
        peer.sendall(len(raw).to_bytes(4, "big") + raw)
        connection = ClientConnection()
        connection.send_request(message("ApiVersionsRequest")(), 0)
        while (frame := connection.next_response()) is None:
            connection.receive_data(peer.recv(65536))
    assert fallback_version(frame) == 5
    assert [(row.api_key, row.min_version) for row in frame.body.api_keys] == [(18, 0)]


@pytest.mark.parametrize(
    "raw", [b"", b"\x00\x03", b"\x7f\xff\x00\x00\x00\x00\x00\x00\xff\xff", b"\x00\x03\x00\x63" + b"\0" * 9]
)
def test_a_malformed_request_closes_the_connection(broker, raw):
    with socket.create_connection((broker.host, broker.port), 60) as peer:
        peer.sendall(len(raw).to_bytes(4, "big") + raw)
        assert peer.recv(100) == b""
    assert ask(broker, "Metadata", 1, topics=None).body.brokers


def test_internal_records_are_replayed_after_a_restart(tmp_path):
    state = open_broker(data_dir=str(tmp_path))
    state.internal.append("__consumer_offsets", 0, [(b"k", b"v"), (b"l", None)])
    state.internal.append("__consumer_offsets", 0, [(b"m", b"w")], producer_id=7, producer_epoch=1, transactional=True)
    offsets = state.topics["__consumer_offsets"].partitions[0]
    state.internal.write_marker(offsets, commit=True, producer_id=7, producer_epoch=1)
    first = list(state.internal.replay("__consumer_offsets"))
    state.logs.abandon()
    again = list(open_broker(data_dir=str(tmp_path)).internal.replay("__consumer_offsets"))
    assert again == first
    assert [(one.offset, one.key, one.value) for one in first[:3]] == [
        (0, b"k", b"v"),
        (1, b"l", None),
        (2, b"m", b"w"),
    ]
    assert (first[3].is_marker, first[3].is_commit, first[3].producer_id) == (True, True, 7)


def test_the_clock_runs_callbacks_in_order_and_at_their_time():
    clock, calls = Clock(lambda: 1_000, is_frozen=True), []
    clock.call_later(5_000, lambda: calls.append(("late", clock.now_ms)))
    clock.call_later(1_000, lambda: clock.call_later(1_000, lambda: calls.append(("nested", clock.now_ms))))
    clock.call_later(2_500, lambda: calls.append(("cancelled", 0))).cancel()
    clock.advance(4.5)
    assert calls == [("nested", 3_000)]
    clock.advance(1)
    assert calls[1:] == [("late", 6_000)]
    assert clock.now_ms == 6_500


def test_long_polls_end_on_time_when_the_system_clock_is_set_back(monkeypatch):
    passed_ns = [5 * 10**9]
    monkeypatch.setattr("time.monotonic_ns", lambda: passed_ns[0])
    state, calls = open_broker(), []
    state.waits.call_later(1_000, lambda: calls.append("done"))
    monkeypatch.setattr("time.time_ns", lambda: 0)
    passed_ns[0] += 10**9 - 1
    state.waits.run_due()
    assert calls == []
    passed_ns[0] += 1
    state.waits.run_due()
    assert calls == ["done"]
    state.logs.abandon()


def test_a_deferred_answer_is_sent_once():
    later, answers = DeferredResponse(), []
    later.call_when_complete(lambda one: answers.append(one.answer))
    later.call_when_abandoned(lambda: answers.append("abandoned"))
    later.complete(None)
    later.complete(None)
    later.abandon()
    assert answers == [None]
