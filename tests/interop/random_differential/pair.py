"""Send a request to two brokers, and wait for responses and for asynchronous work after a response."""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from tests.interop.random_differential.requests import RandomRequest
from tests.interop.random_differential.symbols import BrokerMemory, learn_values

from kafkaframes.protocol.framing import FrameBuffer
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import decode_response, encode_request
from kafkaframes.protocol.spec.catalog import find_api as catalog_api

CLOSED, SILENT, NOTHING = "connection closed", "no answer yet", "no answer, as is right"
_PATIENCE_SECONDS = 60.0
_PARKED_SECONDS = 0.3  # if neither broker responds within this time, the request waits for another one
_RETRY_SECONDS = 0.02
# error codes: not leader, not coordinator yet, loading, and a transaction that is still ending
BUSY_CODES = {6, 14, 15, 16, 51}


class BrokerConnection:
    """A connection to a broker, opened on first use."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.peer: socket.socket | None = None
        self._frames = FrameBuffer()

    def send(self, frame: bytes) -> None:
        if self.peer is None:
            self.peer, self._frames = socket.create_connection(self.address, _PATIENCE_SECONDS), FrameBuffer()
        self.peer.sendall(len(frame).to_bytes(4, "big") + frame)

    def receive(self, seconds: float) -> bytes | str:
        """Return the next frame, ``CLOSED``, or ``SILENT`` after this many seconds."""
        end = time.monotonic() + seconds
        while (data := self._frames.next_frame()) is None:
            if self.peer is None:
                return CLOSED
            if not select.select([self.peer], [], [], max(0.0, end - time.monotonic()))[0]:
                return SILENT
            try:
                received_bytes = self.peer.recv(1 << 20)
            except ConnectionError:
                received_bytes = b""
            if not received_bytes:
                self.close()
                return CLOSED
            self._frames.receive_data(received_bytes)
        return bytes(data)

    def close(self) -> None:
        if self.peer is not None:
            self.peer.close()
            self.peer = None


@dataclass
class BrokerSide:
    """One of the two brokers in an episode."""

    address: tuple[str, int]
    memory: BrokerMemory
    connection: BrokerConnection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = BrokerConnection(self.address)

    def send(self, request: RandomRequest) -> Any:
        """Send a request in which symbols are replaced by this broker's values. Return its body."""
        body = message(f"{request.api}Request").from_json(self.memory.fill_symbols(request.body), request.version)
        frame = encode_request(body, request.version, correlation_id=1, client_id="differential")
        try:
            self.connection.send(frame)
        except ConnectionError:
            self.connection.close()
            self.connection.send(frame)
        if _has_no_answer(request):  # the next request is answered, or the connection is closed
            self.connection.send(encode_request(message("ApiVersionsRequest")(), 0, correlation_id=1, client_id=None))
        return body

    def read(self, request: RandomRequest, body: Any, data: bytes | str) -> Any:
        """Return a response as JSON in which this broker's values are replaced by names.

        The ids in the response are recorded.
        """
        if isinstance(data, str):
            return data
        if _has_no_answer(request):
            return NOTHING
        answer = decode_response(data, catalog_api(request.api).key, request.version).body
        learn_values(self.memory, request.api, body, answer)
        return answer

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """Send an extra request on the same connection. Return the response, or the reason why there is no response."""
        request = RandomRequest(api, version, message(f"{api}Request")().to_json(version) | fields)
        answer = self.read(request, self.send(request), self.connection.receive(_PATIENCE_SECONDS))
        if answer is CLOSED:  # by the request before
            answer = self.read(request, self.send(request), self.connection.receive(_PATIENCE_SECONDS))
        return answer


def _has_no_answer(request: RandomRequest) -> bool:
    return request.api == "Produce" and request.body["acks"] == 0


def error_codes_in(answer: Any) -> set[int]:
    """Return all error codes of a response."""
    if isinstance(answer, list):
        return set().union(*(error_codes_in(one) for one in answer)) if answer else set()
    if not hasattr(answer, "_fields"):
        return set()
    codes = set()
    for info in answer._fields:
        value = getattr(answer, info.attribute)
        if info.attribute.endswith("error_code"):
            codes.add(value)
        elif isinstance(value, list):
            codes |= error_codes_in(value)
    return codes


def ask_both(ours: BrokerSide, theirs: BrokerSide, request: RandomRequest) -> tuple[Any, Any]:
    """Return both brokers' responses. Repeat the request if Kafka is still busy with earlier ones."""
    own_data = ours.send(request)
    other = theirs.send(request)
    own_response = ours.connection.receive(_PARKED_SECONDS)
    data = theirs.connection.receive(_PARKED_SECONDS if own_response is SILENT else _PATIENCE_SECONDS)
    if own_response is SILENT and data is not SILENT:
        own_response = ours.connection.receive(_PATIENCE_SECONDS / 10)
    if (own_response is SILENT) != (data is SILENT):  # a late response must not be mistaken for the next one
        ours.connection.close()
        theirs.connection.close()
    first = ours.read(request, own_data, own_response)
    second = theirs.read(request, other, data)
    end = time.monotonic() + _PATIENCE_SECONDS / 4
    while _is_later(request, first, second) and time.monotonic() < end:
        time.sleep(_RETRY_SECONDS)
        data = _again(theirs, request)
        second = theirs.read(request, other, data)
    return first, second


def _is_later(request: RandomRequest, first: Any, second: Any) -> bool:
    """Return whether Kafka is slower than our broker: it creates a share group asynchronously."""
    if request.api == "ShareGroupHeartbeat" and not isinstance(first, str) and not isinstance(second, str):
        return bool(0 < second.member_epoch < first.member_epoch)
    return bool(error_codes_in(second) & BUSY_CODES) and not error_codes_in(first) & BUSY_CODES


def _again(side: BrokerSide, request: RandomRequest) -> bytes | str:
    side.send(request)
    return side.connection.receive(_PATIENCE_SECONDS)
