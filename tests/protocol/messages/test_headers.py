"""Headers: expected bytes of Kafka, request and response of every API, KIP-1313, and ApiVersions."""

import json
from uuid import UUID

import pytest
from tests.protocol.messages.values import make_value

import kafkaframes
from kafkaframes.errors import DecodeError, EncodeError, TruncatedError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    peek_request,
    request_header_class,
    response_header_class,
)
from kafkaframes.protocol.spec import load_message

Header = request_header_class()


@pytest.mark.parametrize(
    ("version", "client_id", "expected_hex"),
    [
        (0, "cli", "0012000300000007"),  # the client id is ignorable
        (1, None, "0012000300000007ffff"),
        (2, "cli", "00120003000000070003636c6900"),  # an int16 length, even in the flexible header
        (3, None, "0012000300000007ffff" + "00" * 15 + "01" + "00"),
    ],
)
def test_request_headers_are_encoded(version, client_id, expected_hex):
    header = Header(request_api_key=18, request_api_version=3, correlation_id=7, client_id=client_id)
    if version == 3:
        header.client_instance_id = UUID(int=1)
    assert header.encode(version).hex() == expected_hex
    back = Header.decode(bytes.fromhex(expected_hex), version)
    assert back == (header if version else header.replace(client_id=Header().client_id))


def test_response_headers_are_encoded():
    header = response_header_class()(correlation_id=7)
    assert (header.encode(0).hex(), header.encode(1).hex()) == ("00000007", "0000000700")


@pytest.mark.parametrize("api", kafkaframes.list_apis(), ids=lambda api: api.name)
def test_every_api_survives_a_round_trip_with_its_headers(api):
    for version, (request_header, response_header) in api.header_versions.items():
        request = make_value(message(api.request), version, 0)
        tags = [(7, b"trace")] if request_header >= 2 else []
        data = encode_request(request, version, correlation_id=5, client_id="me", header_tags=tags)
        frame = decode_request(data, mode="strict")
        assert (frame.api_key, frame.api_version, frame.header_version) == (api.key, version, request_header)
        assert (frame.body, frame.correlation_id, frame.header.unknown_tags) == (request, 5, tags)
        assert peek_request(data) == (api.key, version, 5)
        assert frame.header.client_id == ("me" if request_header else Header().client_id)
        response = make_value(message(api.response), version, 0)
        tags = [(7, b"trace")] if response_header else []
        data = encode_response(response, version, correlation_id=5, header_tags=tags)
        answer = decode_response(data, api.key, version, mode="strict")
        assert (answer.body, answer.header_version, answer.header.unknown_tags) == (response, response_header, tags)


def test_an_api_versions_request_of_an_unknown_version_keeps_its_header():
    frame = decode_request(bytes.fromhex("0012 0063 00000007 0002 6d65 00") + b"whatever")
    assert (frame.api_version, frame.header.client_id, frame.body) == (99, "me", b"whatever")


def test_an_api_versions_response_at_version_0_is_recognised():
    """KIP-511: for any requested version, the response has header version 0, body version 0 and error 35."""
    data = bytes.fromhex("00000007 0023 00000001 0012 0000 0004")
    answer = decode_response(data, 18, 4)
    assert (answer.api_version, answer.body.error_code, answer.body.api_keys[0].max_version) == (0, 35, 4)
    with pytest.raises(DecodeError):
        decode_response(data[:-1], 18, 4)


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ("0003", "RequestHeader"),
        ("03e7000000000007ffff", "unknown API 999"),
        ("0003006300000007ffff", "no version 99"),
        ("0003000c00000007ffff00", "$.MetadataRequest.Topics"),
        ("0003000c000000070005", "$.RequestHeader.ClientId"),
        ("000c000000000007ffff00", "$.HeartbeatRequest.GroupId"),
    ],
)
def test_an_invalid_request_has_an_error_position(raw, place):
    with pytest.raises(DecodeError) as caught:
        decode_request(bytes.fromhex(raw))
    assert place in str(caught.value)


def test_a_message_of_the_wrong_type_is_rejected():
    with pytest.raises(EncodeError, match="not a request"):
        encode_request(message("HeartbeatResponse")(), 0)
    with pytest.raises(EncodeError, match="not a response"):
        encode_response(message("HeartbeatRequest")(), 0)
    with pytest.raises(TruncatedError):
        peek_request(b"1234567")


def test_a_spec_can_specify_the_header_of_kip_1313():
    fields = [{"name": "A", "type": "int8", "versions": "0+"}]
    spec = {
        "name": "OwnRequest",
        "type": "request",
        "apiKey": 900,
        "validVersions": "0-1",
        "flexibleVersions": "0+",
        "headerVersions": {"0": "2", "1+": "3"},
        "listeners": ["broker"],
        "fields": fields,
    }
    own = load_message(json.dumps(spec))
    body = kafkaframes.message_class("OwnRequest", specs=own)(a=4)
    data = encode_request(body, 1, client_instance_id=UUID(int=9))
    frame = decode_request(data, specs=own)
    assert (frame.header.client_instance_id, frame.header.client_id, frame.body.a) == (UUID(int=9), None, 4)
    with pytest.raises(EncodeError):
        body.replace(a=1000).encode(1)


@pytest.mark.parametrize("name", ["FetchResponse", "ShareFetchResponse", "MetadataResponse", "JoinGroupResponse"])
def test_a_response_decoded_as_views_is_equal_without_copies(name):
    """Records of a memoryview are views of it, and other values are equal, also in unusual or damaged messages."""
    cls = message(name)
    for version in (cls.spec.valid_versions.lowest, cls.spec.valid_versions.highest):
        for seed in range(4):
            body = make_value(cls, version, seed, unknown_tags=True)
            data = encode_response(body, version, correlation_id=seed)
            key = cls.spec.api_key
            read = decode_response(memoryview(data), key, version, views=True)
            assert read == decode_response(data, key, version)
            assert encode_response(read.body, version, correlation_id=seed) == data
            for cut_at in range(0, len(data), 1 + len(data) // 40):
                assert decode_or_get_error(data[:cut_at], key, version, views=True) == decode_or_get_error(
                    data[:cut_at], key, version
                )


def test_records_of_a_large_response_are_views():
    cls = message("FetchResponse")
    part = cls.PartitionData(records=b"r" * 100)
    data = encode_response(cls(responses=[cls.FetchableTopicResponse(partitions=[part])]), 17)
    read = decode_response(memoryview(data), 1, 17, views=True).body.responses[0].partitions[0].records
    assert (type(read), read.obj, bytes(read)) == (memoryview, data, b"r" * 100)


def decode_or_get_error(data, key, version, *, views=False):
    try:
        return decode_response(memoryview(data) if views else data, key, version, views=views)
    except DecodeError as error:
        return str(error)
