"""Request headers are read as by Kafka's generated ``RequestHeaderData``, at the API's header version."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from kafkaframes.broker.dispatch.table import serve_specs
from kafkaframes.broker.requests.api import CloseConnection
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request
from kafkaframes.protocol.spec import catalog, load_message
from kafkaframes.protocol.spec.emit import to_text

HEARTBEAT_API_KEY = 12


def heartbeat(client_id: bytes, *, flexible: bool = False) -> bytes:
    """Return a Heartbeat request of version 3 or 4; ``client_id`` includes its length prefix."""
    version, tags = (4, b"\x00") if flexible else (3, b"")
    body = message("HeartbeatRequest")(group_id="g").encode(version)
    return HEARTBEAT_API_KEY.to_bytes(2) + version.to_bytes(2) + bytes(4) + client_id + tags + body


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize(
    ("raw", "client_id"),
    [
        (b"\x00\x02me", "me"),
        (b"\x00\x00", ""),
        (b"\xff\xff", None),
        (b"\xff\xfe", None),  # Kafka: every negative length is null
        (b"\x00\x03a\xffb", "a\ufffdb"),  # Kafka replaces bytes that are not UTF-8
    ],
)
def test_a_client_id_is_read_as_kafka_reads_it(client, raw, client_id, flexible):
    request = client.dispatcher.decode_request(heartbeat(raw, flexible=flexible), client.session)
    assert request.client_id == client_id
    assert request.body.group_id == "g"


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\x00\x40", b"\x7f\xffabc"])
def test_a_header_that_ends_too_early_closes_the_connection(client, raw):
    with pytest.raises(CloseConnection):
        client.dispatcher.decode_request(heartbeat(raw)[: 8 + len(raw)], client.session)


def test_each_api_uses_the_header_version_of_its_spec(client):
    """Header version 3 (KIP-1313) has a client instance id after the client id."""
    spec = json.loads(to_text(catalog.load_spec("HeartbeatRequest")))
    spec["headerVersions"] = {"0-3": "1", "4+": "3"}
    own = load_message(json.dumps(spec))
    served_apis = serve_specs([own, catalog.load_spec("HeartbeatResponse")])
    client.dispatcher.apis, client.dispatcher.class_of = served_apis.apis, served_apis.class_of
    body = message("HeartbeatRequest", specs=[own])(group_id="g")
    frame = encode_request(body, 4, client_id="me", client_instance_id=UUID(int=7), header_tags=[(3, b"trace")])
    request = client.dispatcher.decode_request(frame, client.session)
    assert (request.client_id, request.header_tags, request.body.group_id) == ("me", [(3, b"trace")], "g")
