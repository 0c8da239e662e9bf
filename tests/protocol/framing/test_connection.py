"""Frames and the client's end of a connection: input in one piece, byte by byte, or invalid, without sockets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import DecodeError, ErrorCode
from kafkaframes.protocol.framing import ClientConnection, FrameBuffer, make_frame
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import decode_request, encode_response

ApiVersionsRequest, ApiVersionsResponse = (
    message("ApiVersionsRequest"),
    message("ApiVersionsResponse"),
)
HeartbeatRequest, HeartbeatResponse = message("HeartbeatRequest"), message("HeartbeatResponse")


@given(st.lists(st.binary(max_size=50)), st.integers(1, 7))
def test_frames_are_reassembled_from_pieces_of_any_size(payloads, step):
    stream = b"".join(map(make_frame, payloads))
    reader, frames = FrameBuffer(), []
    for at in range(0, len(stream), step):
        reader.receive_data(stream[at : at + step])
        while (one := reader.next_frame()) is not None:
            frames.append(one)
    assert (frames, reader.waiting_bytes) == (payloads, 0)


@pytest.mark.parametrize("step", [1_000, 65_540, 10**6])
def test_large_frames_are_received_into_their_own_memory(step):
    payloads = [b"a" * size for size in (0, 5, 65_536, 65_537, 200_000, 3, 70_000)]
    stream = b"".join(make_frame(bytes([number]) + payload) for number, payload in enumerate(payloads))
    sizes, frames = [], []

    def allocate(size):
        sizes.append(size)
        return memoryview(bytearray(size))

    reader = FrameBuffer(allocate=allocate)
    for at in range(0, len(stream), step):
        reader.receive_data(stream[at : at + step])
        while (one := reader.next_frame_or_view()) is not None:
            frames.append(one)
    assert [bytes(frame) for frame in frames] == [bytes([number]) + payload for number, payload in enumerate(payloads)]
    assert reader.waiting_bytes == 0
    if step < 10**6:  # a frame that is already complete is copied
        assert sizes == [65_537, 65_538, 200_001, 70_001]
        views = [isinstance(frame, memoryview) and frame.readonly for frame in frames]
        assert views == [False] * 2 + [True] * 3 + [False, True]


def test_no_memory_is_allocated_for_an_invalid_size():
    reader = FrameBuffer(max_bytes=10**6, allocate=lambda size: pytest.fail(f"{size} bytes"))
    reader.receive_data(make_frame(b"a" * 65_536) + (10**6 + 1).to_bytes(4))
    assert reader.next_frame_or_view() == b"a" * 65_536
    with pytest.raises(DecodeError, match="the maximum is 1000000"):
        reader.next_frame_or_view()


@given(
    sizes=st.lists(st.sampled_from([0, 10, 16_000, 40_000, 65_532, 140_000]), max_size=12),
    steps=st.lists(st.sampled_from([1_000, 20_000, 50_000, 70_000]), min_size=1, max_size=5),
    taken_counts=st.lists(st.integers(0, 3), min_size=1, max_size=5),
)
def test_long_frames_are_complete_for_any_buffered_bytes(sizes, steps, taken_counts):
    """Pending bytes are moved to the front of the same buffer, or of a larger or smaller one."""
    payloads = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream, reader, frames = b"".join(map(make_frame, payloads)), FrameBuffer(), []
    at, turn = 0, 0
    while at < len(stream):
        free = reader.get_buffer()
        count = min(len(free), steps[turn % len(steps)], len(stream) - at)
        free[:count] = stream[at : at + count]
        reader.buffer_updated(count)
        at += count
        for _ in range(taken_counts[turn % len(taken_counts)]):
            one = reader.next_frame()
            frames += [] if one is None else [one]
        turn += 1
    while (one := reader.next_frame()) is not None:
        frames.append(one)
    assert (frames == payloads, reader.waiting_bytes) == (True, 0)


@pytest.mark.parametrize("size", ["80000000", "ffffffff", "00000065"])
def test_an_invalid_size_is_rejected_immediately(size):
    reader = FrameBuffer(max_bytes=100)
    reader.receive_data(bytes.fromhex(size))
    with pytest.raises(DecodeError, match="the maximum is 100"):
        reader.next_frame()


@pytest.mark.parametrize("step", [1, 3, 10_000])
def test_requests_have_correlation_ids_and_responses_keep_their_order(step):
    client, requests = ClientConnection(client_id="me", first_correlation_id=2**31 - 2), FrameBuffer()
    numbers = [client.send_request(HeartbeatRequest(group_id=f"g{i}"), 4) for i in range(3)]
    assert numbers == [2**31 - 2, 2**31 - 1, 0]
    requests.receive_data(client.data_to_send())
    requests_seen = [decode_request(requests.next_frame()) for _ in numbers]
    assert [one.body.group_id for one in requests_seen] == ["g0", "g1", "g2"]
    assert [(one.header.client_id, one.correlation_id) for one in requests_seen] == [
        ("me", number) for number in numbers
    ]
    answers = b"".join(
        make_frame(encode_response(HeartbeatResponse(error_code=code), 4, correlation_id=number))
        for code, number in enumerate(numbers)
    )
    codes = []
    for at in range(0, len(answers), step):
        client.receive_data(answers[at : at + step])
        while (response := client.next_response()) is not None:
            codes.append(response.body.error_code)
    assert (codes, client.in_flight) == ([0, 1, 2], 0)


def test_a_request_without_a_response_is_not_pending():
    client = ClientConnection()
    client.send_request(message("ProduceRequest")(acks=0), 9, expects_response=False)
    number = client.send_request(HeartbeatRequest(), 4)
    client.receive_data(make_frame(encode_response(HeartbeatResponse(), 4, correlation_id=number)))
    assert client.next_response().api_key == 12
    assert client.in_flight == 0


def test_an_unsupported_api_versions_request_has_a_response_at_version_0():
    """The response has version 0 (KIP-511)."""
    client = ClientConnection()
    client.send_request(ApiVersionsRequest(), 4)
    keys = [ApiVersionsResponse.ApiVersion(api_key=18, max_version=3)]
    client.receive_data(
        make_frame(encode_response(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys), 0))
    )
    response = client.next_response()
    assert (response.api_version, response.body.error_code, response.body.api_keys) == (0, 35, keys)


def test_bytes_after_a_request_are_ignored_like_in_kafka():
    """librdkafka 2.16 sends Metadata 13 with three additional bytes. ``strict`` rejects them."""
    request_bytes = bytes.fromhex("0003000d0000000300077264 6b61666b6100 00000000 010000".replace(" ", ""))
    expected_body = message("MetadataRequest")(topics=None, allow_auto_topic_creation=False)
    assert decode_request(request_bytes, allow_surplus=True).body == expected_body
    with pytest.raises(DecodeError, match="3 bytes remain after the message"):
        decode_request(request_bytes, mode="strict")


def test_a_client_rejects_unexpected_responses():
    client = ClientConnection()
    client.receive_data(make_frame(bytes(8)))
    with pytest.raises(DecodeError, match="no request is pending"):
        client.next_response()
    client.send_request(HeartbeatRequest(), 0)
    client.receive_data(make_frame(bytes.fromhex("00000009 0000")))
    with pytest.raises(DecodeError, match="the correlation ID is 9; expected 0"):
        client.next_response()


@given(st.binary(max_size=80))
def test_any_bytes_are_a_request_or_an_error(data):
    try:
        request = decode_request(data, allow_surplus=True)
    except DecodeError:
        return
    assert request.api_key == int.from_bytes(data[:2], signed=True)
