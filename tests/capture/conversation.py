"""A conversation with known calls, as segments that a test may split, reorder, repeat and drop."""

from __future__ import annotations

import struct
from itertools import chain

from kafkaframes.capture.container import ConversationWriter, _encode_record, build_file_header
from kafkaframes.capture.layout import ACK, PSH
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.records.build import build_records

CLIENT, SERVER = 0, 1
START_NS = 1_700_000_000_000_000_000


def frame_of(data):
    return struct.pack(">i", len(data)) + data


def build_produce_request(acks):
    records = build_records([{"key": b"k", "value": b"v" * 20}] * 2)
    data = [{"name": "orders", "partitionData": [{"index": 0, "records": ""}]}]
    body = message("ProduceRequest").from_json(
        {"transactionalId": None, "acks": acks, "timeoutMs": 1000, "topicData": data}, 7
    )
    body.topic_data[0].partition_data[0].records = records
    return body


def yield_calls():
    """Yield (API key, version, request body, response body or None)."""
    yield (
        18,
        3,
        message("ApiVersionsRequest")(client_software_name="soft", client_software_version="1"),
        message("ApiVersionsResponse")(),
    )
    yield (
        3,
        5,
        message("MetadataRequest")(topics=[]),
        message("MetadataResponse")(controller_id=1),
    )
    yield 0, 7, build_produce_request(1), message("ProduceResponse")()
    yield 0, 7, build_produce_request(0), None
    yield (
        12,
        4,
        message("HeartbeatRequest")(group_id="g", member_id="m"),
        message("HeartbeatResponse")(error_code=27),
    )
    yield (
        10,
        1,
        message("FindCoordinatorRequest")(key="g"),
        message("FindCoordinatorResponse")(host="h", port=1),
    )


def build_streams(client_id="tester", *, rounds=1):
    """Return the bytes of both sides, and of each call (key, version, correlation id, request size, response size)."""
    requests, answers, known_calls = b"", b"", []
    for number, (key, version, request, response) in enumerate(
        chain.from_iterable(yield_calls() for _ in range(rounds)), 100
    ):
        one = frame_of(encode_request(request, version, correlation_id=number, client_id=client_id))
        other = b"" if response is None else frame_of(encode_response(response, version, correlation_id=number))
        known_calls.append(
            (key, version, number, len(one) - 4, len(other) - 4 if other else None, len(requests), len(answers))
        )
        requests, answers = requests + one, answers + other
    return requests, answers, known_calls


class Tape:
    """Packets of one connection, in the recorded order."""

    def __init__(self, *, initial=0, opening=True):
        self.talk = ConversationWriter(("10.0.0.1", 50000), ("10.0.0.2", 9092), initial=initial)
        self.time = START_NS
        self.parts = [build_file_header("test")]
        if opening:
            self.parts.append(self.talk.build_handshake(self.time))

    def segment(self, side, offset, data, *, captured_bytes=None):
        """Send a segment, of which the capture has ``captured_bytes`` bytes, by default all."""
        self.time += 1_000_000
        packet = self.talk._build_packet(
            side, self.talk.get_sequence_number(offset), self.talk.get_sequence_number(0), PSH | ACK, data
        )
        left_out = 0 if captured_bytes is None else len(data) - captured_bytes
        record = bytearray(_encode_record(self.time, packet[: len(packet) - left_out]))
        struct.pack_into("<I", record, 24, len(packet))
        self.parts.append(bytes(record))
        return self

    def write(self, path):
        path.write_bytes(b"".join(self.parts))
        return str(path)
