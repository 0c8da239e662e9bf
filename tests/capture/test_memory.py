"""Bounded memory: closed connections, holes, requests without responses."""

from __future__ import annotations

import io

import pytest
from tests.capture.conversation import CLIENT, SERVER, START_NS, frame_of

from kafkaframes.capture import reader, streams
from kafkaframes.capture.container import ConversationWriter, build_file_header
from kafkaframes.capture.packets import PacketReader
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.capture.redaction import redact
from kafkaframes.capture.streams import ENDED_CONNECTION_RETENTION_NS, Streams
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request, encode_response

WINDOW_BYTES = 4096
CONNECTION_COUNT = 300


def build_call(number):
    software = message("ApiVersionsRequest")(client_software_name=f"soft-{number % 7}", client_software_version="1")
    software_request = encode_request(software, 3, correlation_id=1, client_id=f"client-{number}")
    beats = encode_request(message("HeartbeatRequest")(group_id="g"), 4, correlation_id=2, client_id=f"client-{number}")
    answers = (
        encode_response(message("ApiVersionsResponse")(), 3, correlation_id=1),
        encode_response(message("HeartbeatResponse")(), 4, correlation_id=2),
    )
    return frame_of(software_request) + frame_of(beats), b"".join(map(frame_of, answers))


@pytest.fixture
def short_lived(tmp_path):
    """Return a capture of consecutive connections, of which every tenth stays open, with two calls on each."""
    parts, time = [build_file_header("test")], START_NS
    talks = []
    for number in range(CONNECTION_COUNT):
        talk = ConversationWriter(("10.0.0.1", 20000 + number), ("10.0.0.2", 9092))
        requests, responses = build_call(number)
        parts += [
            talk.build_handshake(time),
            *talk.build_data_packets(CLIENT, requests, time),
            *talk.build_data_packets(SERVER, responses, time + 1_000_000),
        ]
        if number % 10:
            parts += [talk.build_close_packet(CLIENT, time), talk.build_close_packet(SERVER, time)]
        talks.append(talk)
        time += ENDED_CONNECTION_RETENTION_NS // 20
    for number in range(0, CONNECTION_COUNT, 10):  # those that stayed open continue after the others were closed
        again = frame_of(
            encode_request(message("HeartbeatRequest")(), 4, correlation_id=3, client_id=f"client-{number}")
        )
        parts += talks[number].build_data_packets(CLIENT, again, time)
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(parts))
    return str(path)


def rows(path, **options):
    return sorted(map(str, read_capture(path, CaptureOptions(**options)).read_all().to_pylist()))


@pytest.mark.parametrize("table", ["calls", "connections", "gaps"])
def test_rows_do_not_change_when_closed_connections_are_forgotten(short_lived, monkeypatch, table):
    whole = rows(short_lived, table=table)
    assert (
        len(whole)
        == {"calls": 2 * CONNECTION_COUNT + CONNECTION_COUNT // 10, "connections": CONNECTION_COUNT, "gaps": 0}[table]
    )
    monkeypatch.setattr(reader, "Streams", forgetful)
    assert rows(short_lived, table=table, window_bytes=WINDOW_BYTES) == whole


def forgetful(packets, **options):
    return Streams(packets, forget_above=8, **options)


def test_only_open_and_recently_closed_connections_are_kept(short_lived):
    most = max(
        progress.connection_count for progress in forgetful(PacketReader([short_lived], window_bytes=WINDOW_BYTES))
    )
    assert CONNECTION_COUNT // 10 < most < CONNECTION_COUNT // 2


def test_a_redacted_capture_is_the_same_when_connections_are_forgotten(short_lived, monkeypatch):
    whole, redacted_output = io.BytesIO(), io.BytesIO()
    redact([short_lived], whole)
    monkeypatch.setattr("kafkaframes.capture.redaction.Streams", forgetful)
    small = lambda files: PacketReader(files, window_bytes=WINDOW_BYTES)  # noqa: E731
    monkeypatch.setattr("kafkaframes.capture.redaction.PacketReader", small)
    redact([short_lived], redacted_output, pseudonyms=None)
    assert len(redacted_output.getvalue()) == len(whole.getvalue())


def test_requests_without_responses_are_returned_before_the_end(tmp_path):
    """The capture has one direction only. When enough requests are pending, none waits for more than a window."""
    talk = ConversationWriter(("10.0.0.1", 20000), ("10.0.0.2", 9092))
    beat = message("HeartbeatRequest")(group_id="g" * 500)
    requests = [frame_of(encode_request(beat, 4, correlation_id=number, client_id="c")) for number in range(400)]
    parts = [build_file_header("test"), talk.build_handshake(START_NS)]
    parts += [packet for request in requests for packet in talk.build_data_packets(CLIENT, request, START_NS)]
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(parts))
    whole = rows(str(path))
    packets = PacketReader([str(path)], window_bytes=WINDOW_BYTES)
    calls, max_carried = 0, 0
    for progress in Streams(packets, held_bytes=3 * WINDOW_BYTES):
        calls += len(progress.calls)
        max_carried = max(max_carried, len(packets.carried[0]))
    assert calls == len(whole) == 400
    assert max_carried < 8 * WINDOW_BYTES < sum(map(len, requests)) / 4


def test_the_wait_for_a_hole_is_bounded_by_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "MAX_WAITING_BYTES", 10_000)
    talk = ConversationWriter(("10.0.0.1", 20000), ("10.0.0.2", 9092))
    beat = message("HeartbeatRequest")(group_id="g" * 500)
    requests = [frame_of(encode_request(beat, 4, correlation_id=number, client_id="c")) for number in range(400)]
    parts = [build_file_header("test"), talk.build_handshake(START_NS)]
    for number, one in enumerate(requests):
        if number == 3:
            talk.skip(CLIENT, len(one))
        else:
            parts += talk.build_data_packets(CLIENT, one, START_NS)
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(parts))
    packets = PacketReader([str(path)], window_bytes=WINDOW_BYTES)
    gaps, max_carried = [], 0
    for number, progress in enumerate(Streams(packets)):
        gaps += [number] * len(progress.gaps)
        max_carried = max(max_carried, sum(packets.carried[1][:, 4].tolist()))
    assert len(gaps) == 1
    assert max_carried < 30_000
    assert len(rows(str(path))) == 399
