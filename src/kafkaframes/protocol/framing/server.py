"""The broker's end of one connection, without I/O: bytes in, requests out; responses in, bytes out in request order.

Kafka answers the requests of a connection in the order in which they came, whoever finishes first; that rule is here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from kafkaframes.errors import OptionError
from kafkaframes.protocol.framing.buffer import FrameBuffer
from kafkaframes.protocol.framing.frames import MAX_REQUEST_BYTES, frame
from kafkaframes.protocol.framing.negotiation import Ranges, answer_api_versions, known_versions
from kafkaframes.protocol.messages.headers import API_VERSIONS, Frame, body_class, decode_request, encode_response
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.registry import Specs, specs_by_name

MAX_IN_FLIGHT: Final = 1_000


@dataclass(slots=True)
class Request:
    """A request and its place in the connection's order."""

    sequence: int
    frame: Frame

    @property
    def is_unsupported_api_versions(self) -> bool:
        """Whether it is an ApiVersions request of an unknown version: answer at version 0 with error 35 (KIP-511)."""
        return self.frame.api_key == API_VERSIONS and isinstance(self.frame.body, bytes)


class ServerConnection:
    """Feed it with ``receive_data``, take from it with ``next_request`` and ``data_to_send``."""

    def __init__(
        self,
        *,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        max_in_flight: int = MAX_IN_FLIGHT,
        mode: str = "reference",
        specs: Specs | None = None,
    ) -> None:
        self._frames = FrameBuffer(max_request_bytes)
        self._max_in_flight = max_in_flight
        self._mode = mode
        self._specs = None if specs is None else specs_by_name(specs)  # a folder is read once
        self._next_sequence = 0
        self._unanswered: deque[int] = deque()
        self._requests: dict[int, Frame] = {}
        self._answers: dict[int, bytes] = {}

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer."""
        self._frames.receive_data(data)

    @property
    def in_flight(self) -> int:
        """How many requests have no sent answer yet."""
        return len(self._unanswered)

    def next_request(self) -> Request | None:
        """Return the next whole request, or None: feed more bytes, or answer first when ``max_in_flight`` wait.

        Raises:
            DecodeError: the size prefix is negative or above ``max_request_bytes`` (the broker property
                ``socket.request.max.bytes``), or the request is broken. Kafka then closes the connection.
        """
        if self.in_flight >= self._max_in_flight:
            return None
        data = self._frames.next_frame()
        if data is None:
            return None
        as_kafka = self._mode == "reference"
        decoded = decode_request(data, mode=self._mode, specs=self._specs, allow_surplus=as_kafka)
        request = Request(self._next_sequence, decoded)
        self._next_sequence += 1
        self._unanswered.append(request.sequence)
        self._requests[request.sequence] = request.frame
        return request

    def send_response(self, sequence: int, body: Message | None, *, version: int | None = None) -> None:
        """Answer a request; the bytes wait until every earlier request is answered.

        Args:
            sequence: of the request.
            body: the response, or None for a request that has no answer (Produce with acks 0).
            version: of the body; the request's, or 0 for an ApiVersions request of an unknown version.

        Raises:
            OptionError: no such request waits for an answer.
            EncodeError: the body cannot be written; the request still waits.
        """
        request = self._requests.get(sequence)
        if request is None:
            raise OptionError(f"request {sequence} waits for no answer")
        if version is None:
            version = 0 if isinstance(request.body, bytes) else request.api_version
        answer = b""
        if body is not None:
            expected = body_class(request.api_key, "response", specs=self._specs)
            if body.spec.name != expected.spec.name:
                raise OptionError(f"{body.spec.name} does not answer API {request.api_key}")
            answer = frame(encode_response(body, version, correlation_id=request.correlation_id))
        self._answers[sequence] = answer
        del self._requests[sequence]

    def send_versions(self, request: Request, *, advertised: Ranges | None = None) -> None:
        """Answer an ApiVersions request, of whatever version.

        Args:
            request: the request.
            advertised: the versions to list, by API; every API of the specs if None.

        Raises:
            OptionError: it is another API's request, or waits for no answer.
        """
        listed = known_versions(self._specs) if advertised is None else advertised
        body, version = answer_api_versions(request.frame, listed, specs=self._specs)
        self.send_response(request.sequence, body, version=version)

    def data_to_send(self) -> bytes:
        """Return the answers that are ready, in the order of the requests."""
        ready = []
        while self._unanswered and self._unanswered[0] in self._answers:
            ready.append(self._answers.pop(self._unanswered.popleft()))
        return b"".join(ready)
