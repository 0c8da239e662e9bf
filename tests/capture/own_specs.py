"""Specs of a proposal (an API that no release has, and a newer Heartbeat version), and traffic with both."""

import json

from tests.capture.conversation import CLIENT, SERVER, START_NS, frame_of

from kafkaframes.capture.container import ConversationWriter, build_file_header
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request, encode_response

GREET_API_KEY = 120
_GREET_FIELDS = {"apiKey": GREET_API_KEY, "validVersions": "0-1", "flexibleVersions": "1+"}
_HEARTBEAT = {"apiKey": 12, "validVersions": "5", "flexibleVersions": "4+"}
SPECS = [
    _GREET_FIELDS
    | {
        "type": "request",
        "name": "GreetRequest",
        "listeners": ["broker"],
        "fields": [{"name": "Words", "type": "string", "versions": "0+"}],
    },
    _GREET_FIELDS
    | {
        "type": "response",
        "name": "GreetResponse",
        "fields": [
            {"name": "ErrorCode", "type": "int16", "versions": "0+"},
            {"name": "Mood", "type": "int8", "versions": "1+", "taggedVersions": "1+", "tag": 0},
        ],
    },
    _HEARTBEAT
    | {
        "type": "request",
        "name": "HeartbeatRequest",
        "listeners": ["broker"],
        "fields": [{"name": "GroupId", "type": "string", "versions": "0+"}],
    },
    _HEARTBEAT
    | {
        "type": "response",
        "name": "HeartbeatResponse",
        "fields": [{"name": "ErrorCode", "type": "int16", "versions": "0+", "taggedVersions": "5+", "tag": 0}],
    },
]


def write_specs(folder, *, greet=GREET_API_KEY):
    """Write the specs. ``greet`` is the API key of the new API."""
    folder.mkdir()
    for spec in SPECS:
        spec = spec | ({"apiKey": greet} if spec["apiKey"] == GREET_API_KEY else {})
        (folder / f"{spec['name']}.json").write_text(json.dumps(spec))
    return folder


def write_traffic(path, folder, *, header_tags=None):
    """Write a capture of four calls: Greet 0 and 1, Heartbeat 4 (the catalog's) and 5 (the proposal's)."""
    talk = ConversationWriter(("10.0.0.1", 50000), ("10.0.0.2", 9092))
    parts = [build_file_header("test"), talk.build_handshake(START_NS)]
    for number, (name, version, fields, answer) in enumerate(calls()):
        own = folder if name == "Greet" or version == 5 else None
        request = message(f"{name}Request", specs=own)(**fields)
        response = message(f"{name}Response", specs=own)(**answer)
        tags = header_tags if request.spec.is_flexible(version) else None
        request_bytes = encode_request(request, version, correlation_id=number, client_id="me", header_tags=tags)
        back = encode_response(response, version, correlation_id=number, header_tags=tags)
        parts += talk.build_data_packets(CLIENT, frame_of(request_bytes), START_NS + number * 2_000_000)
        parts += talk.build_data_packets(SERVER, frame_of(back), START_NS + number * 2_000_000 + 1_000_000)
    path.write_bytes(b"".join(parts))
    return str(path)


def calls():
    yield "Greet", 0, {"words": "hello"}, {"error_code": 0}
    yield "Greet", 1, {"words": "good day"}, {"error_code": 7, "mood": 3}
    yield "Heartbeat", 4, {"group_id": "g", "member_id": "m"}, {"error_code": 27}
    yield "Heartbeat", 5, {"group_id": "g"}, {"error_code": 25}
