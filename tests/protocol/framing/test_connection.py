"""Both ends of a connection against each other, fed whole, byte by byte, and with what is broken. No sockets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import DecodeError, EncodeError, OptionError
from kafkaframes.protocol.framing import ClientConnection, FrameBuffer, ServerConnection, frame, needs_fallback
from kafkaframes.protocol.messages import message

ApiVersionsRequest, ApiVersionsResponse = message("ApiVersionsRequest"), message("ApiVersionsResponse")
HeartbeatRequest, HeartbeatResponse = message("HeartbeatRequest"), message("HeartbeatResponse")


@given(st.lists(st.binary(max_size=50)), st.integers(1, 7))
def test_frames_come_out_whole_however_they_are_cut(payloads, step):
    stream = b"".join(map(frame, payloads))
    reader, found = FrameBuffer(), []
    for at in range(0, len(stream), step):
        reader.receive_data(stream[at : at + step])
        while (one := reader.next_frame()) is not None:
            found.append(one)
    assert (found, reader.waiting_bytes) == (payloads, 0)


@pytest.mark.parametrize("step", [1_000, 65_540, 10**6])
def test_large_frames_are_received_into_memory_of_their_own_and_stay_there(step):
    payloads = [b"a" * size for size in (0, 5, 65_536, 65_537, 200_000, 3, 70_000)]
    stream = b"".join(frame(bytes([number]) + payload) for number, payload in enumerate(payloads))
    sizes, found = [], []

    def allocate(size):
        sizes.append(size)
        return memoryview(bytearray(size))

    reader = FrameBuffer(allocate=allocate)
    for at in range(0, len(stream), step):
        reader.receive_data(stream[at : at + step])
        while (one := reader.next_kept()) is not None:
            found.append(one)
    assert [bytes(one) for one in found] == [bytes([number]) + payload for number, payload in enumerate(payloads)]
    assert reader.waiting_bytes == 0
    if step < 10**6:  # what is whole already when it is asked for is copied
        assert sizes == [65_537, 65_538, 200_001, 70_001]
        views = [isinstance(one, memoryview) and one.readonly for one in found]
        assert views == [False] * 2 + [True] * 3 + [False, True]


def test_no_memory_is_asked_for_a_size_that_cannot_be():
    reader = FrameBuffer(max_bytes=10**6, allocate=lambda size: pytest.fail(f"{size} bytes"))
    reader.receive_data(frame(b"a" * 65_536) + (10**6 + 1).to_bytes(4))
    assert reader.next_kept() == b"a" * 65_536
    with pytest.raises(DecodeError, match="the most is 1000000"):
        reader.next_kept()


@given(
    sizes=st.lists(st.sampled_from([0, 10, 16_000, 40_000, 65_532, 140_000]), max_size=12),
    steps=st.lists(st.sampled_from([1_000, 20_000, 50_000, 70_000]), min_size=1, max_size=5),
    taken=st.lists(st.integers(0, 3), min_size=1, max_size=5),
)
def test_long_frames_come_out_whole_whatever_waits_in_the_buffer(sizes, steps, taken):
    """What waits is moved to the front of the same buffer, or of a larger or smaller one."""
    payloads = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream, reader, found = b"".join(map(frame, payloads)), FrameBuffer(), []
    at, turn = 0, 0
    while at < len(stream):
        free = reader.get_buffer()
        count = min(len(free), steps[turn % len(steps)], len(stream) - at)
        free[:count] = stream[at : at + count]
        reader.buffer_updated(count)
        at += count
        for _ in range(taken[turn % len(taken)]):
            one = reader.next_frame()
            found += [] if one is None else [one]
        turn += 1
    while (one := reader.next_frame()) is not None:
        found.append(one)
    assert (found == payloads, reader.waiting_bytes) == (True, 0)


@pytest.mark.parametrize("size", ["80000000", "ffffffff", "00000065"])
def test_a_size_that_cannot_be_is_refused_at_once(size):
    reader = FrameBuffer(max_bytes=100)
    reader.receive_data(bytes.fromhex(size))
    with pytest.raises(DecodeError, match="the most is 100"):
        reader.next_frame()


@pytest.mark.parametrize("step", [1, 3, 10_000])
def test_requests_are_answered_in_their_order(step):
    client, server = ClientConnection(client_id="me", first_correlation_id=2**31 - 2), ServerConnection()
    numbers = [client.send_request(HeartbeatRequest(group_id=f"g{i}"), 4) for i in range(3)]
    assert numbers == [2**31 - 2, 2**31 - 1, 0]
    data = client.data_to_send()
    requests = []
    for at in range(0, len(data), step):
        server.receive_data(data[at : at + step])
        while (request := server.next_request()) is not None:
            requests.append(request)
    assert [one.frame.body.group_id for one in requests] == ["g0", "g1", "g2"]
    assert [one.frame.header.client_id for one in requests] == ["me"] * 3
    server.send_response(requests[2].sequence, HeartbeatResponse(error_code=2))
    server.send_response(requests[1].sequence, HeartbeatResponse(error_code=1))
    assert (server.data_to_send(), server.in_flight) == (b"", 3)
    server.send_response(requests[0].sequence, HeartbeatResponse(error_code=0))
    answers = server.data_to_send()
    assert server.in_flight == 0
    codes = []
    for at in range(0, len(answers), step):
        client.receive_data(answers[at : at + step])
        while (response := client.next_response()) is not None:
            codes.append(response.body.error_code)
    assert (codes, client.in_flight) == ([0, 1, 2], 0)


def test_a_request_without_an_answer_keeps_the_order():
    client, server = ClientConnection(), ServerConnection()
    produce = message("ProduceRequest")(acks=0)
    client.send_request(produce, 9, expects_response=False)
    client.send_request(HeartbeatRequest(), 4)
    server.receive_data(client.data_to_send())
    first, second = server.next_request(), server.next_request()
    server.send_response(second.sequence, HeartbeatResponse())
    assert server.data_to_send() == b""
    server.send_response(first.sequence, None)
    client.receive_data(server.data_to_send())
    assert client.next_response().api_key == 12
    assert client.in_flight == 0


def test_the_fallback_of_api_versions():
    """A client of the future asks at a version that the broker does not know (KIP-511)."""
    server, client = ServerConnection(), ClientConnection()
    client.send_request(ApiVersionsRequest(), 4)
    data = bytearray(client.data_to_send())
    data[6:8] = b"\x00\x09"  # version 9
    server.receive_data(bytes(data))
    request = server.next_request()
    assert request.is_unsupported_api_versions
    keys = [ApiVersionsResponse.ApiVersion(api_key=18, max_version=4)]
    server.send_response(request.sequence, ApiVersionsResponse(error_code=35, api_keys=keys))
    client.receive_data(server.data_to_send())
    response = client.next_response()
    assert needs_fallback(response)
    assert (response.api_version, response.body.api_keys) == (0, keys)


def test_bytes_behind_a_request_are_not_looked_at_as_in_kafka():
    """librdkafka 2.16 sends Metadata 13 with three bytes too many; ``strict`` refuses them."""
    sent = bytes.fromhex("0003000d0000000300077264 6b61666b6100 00000000 010000".replace(" ", ""))
    server = ServerConnection()
    server.receive_data(frame(sent))
    assert server.next_request().frame.body == message("MetadataRequest")(topics=None, allow_auto_topic_creation=False)
    server = ServerConnection(mode="strict")
    server.receive_data(frame(sent))
    with pytest.raises(DecodeError, match="3 bytes left over"):
        server.next_request()


def test_limits():
    server = ServerConnection(max_in_flight=1, max_request_bytes=100)
    client = ClientConnection()
    for _ in range(2):
        client.send_request(HeartbeatRequest(), 4)
    server.receive_data(client.data_to_send())
    first = server.next_request()
    assert server.next_request() is None
    server.send_response(first.sequence, HeartbeatResponse())
    assert server.next_request() is None
    server.data_to_send()
    second = server.next_request()
    assert second.sequence == 1
    server.send_response(1, HeartbeatResponse())
    server.data_to_send()
    server.receive_data(frame(bytes(101)))
    with pytest.raises(DecodeError, match="the most is 100"):
        server.next_request()


def test_answers_that_do_not_fit_are_refused_and_the_request_still_waits():
    server, client = ServerConnection(), ClientConnection()
    client.send_request(HeartbeatRequest(), 4)
    server.receive_data(client.data_to_send())
    request = server.next_request()
    for body, kind in ((HeartbeatResponse(error_code=10**6), EncodeError), (ApiVersionsResponse(), OptionError)):
        with pytest.raises(kind):
            server.send_response(request.sequence, body)
    server.send_response(request.sequence, HeartbeatResponse())
    with pytest.raises(OptionError, match="waits for no answer"):
        server.send_response(request.sequence, HeartbeatResponse())


def test_a_client_refuses_what_it_did_not_ask_for():
    client = ClientConnection()
    client.receive_data(frame(bytes(8)))
    with pytest.raises(DecodeError, match="no request asked"):
        client.next_response()
    client.send_request(HeartbeatRequest(), 0)
    client.receive_data(frame(bytes.fromhex("00000009 0000")))
    with pytest.raises(DecodeError, match="correlation id 9, expected 0"):
        client.next_response()


@given(st.binary(max_size=80))
def test_any_bytes_are_a_request_or_an_error(data):
    server = ServerConnection(max_request_bytes=1000)
    server.receive_data(frame(data))
    try:
        request = server.next_request()
    except DecodeError:
        return
    assert request.frame.api_key == int.from_bytes(data[:2], signed=True)
