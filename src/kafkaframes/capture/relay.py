"""What a recording proxy does to the bytes that pass: nothing, but for brokers' addresses in some answers. No I/O.

``Requests`` looks at what a client sends, ``Answers`` at what comes back. Bytes go on as they come; only an answer
that may hold addresses is kept until it is whole: Metadata, FindCoordinator, DescribeCluster, and the NodeEndpoints of
Produce, Fetch, ShareFetch and ShareAcknowledge (KIP-951).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from kafkaframes.errors import KafkaframesError
from kafkaframes.messages.headers import Frame, decode_response

Address = tuple[str, int]
#: API key -> the first version whose answer holds addresses, and the list that they are in (None: at the top).
WITH_ADDRESSES: Final = {
    3: (0, "brokers"),
    10: (0, "coordinators"),
    60: (0, "brokers"),
    0: (10, "node_endpoints"),
    1: (16, "node_endpoints"),
    78: (0, "node_endpoints"),
    79: (0, "node_endpoints"),
}
FIND_COORDINATOR: Final = 10
_HEADER_BYTES: Final = 12  # size, API key, version, correlation id
_ANSWER_BYTES: Final = 8  # size, correlation id
_REQUEST: Final = struct.Struct(">ihhi")
_ANSWER: Final = struct.Struct(">ii")
LARGEST_KEPT: Final = 256 << 20


class Requests:
    """Follows the frames of a client, and notes which answers will hold addresses."""

    def __init__(self) -> None:
        self.expected: dict[int, tuple[int, int]] = {}
        self._head = bytearray()
        self._left = 0  # bytes of the current frame that are still to come

    def feed(self, data: bytes | memoryview) -> None:
        """Take what the client sent."""
        at, end = 0, len(data)
        while at < end:
            if self._left:
                step = min(self._left, end - at)
                self._left -= step
                at += step
                continue
            step = min(_HEADER_BYTES - len(self._head), end - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == _HEADER_BYTES:
                self._note()

    def _note(self) -> None:
        size, key, version, correlation_id = _REQUEST.unpack(self._head)
        self._head.clear()
        self._left = max(size - (_HEADER_BYTES - 4), 0)
        first = WITH_ADDRESSES.get(key)
        if first is not None and version >= first[0]:
            self.expected[correlation_id] = key, version


class Answers:
    """Gives what a client is to see of what a broker answers."""

    def __init__(self, requests: Requests, local_of: Callable[[Address], Address]) -> None:
        self.requests, self.local_of = requests, local_of
        self._head = bytearray()
        self._left = 0
        self._kept: bytearray | None = None
        self._api = (0, 0)

    def feed(self, data: bytes | memoryview) -> Iterator[bytes | memoryview]:
        """Take what the broker sent; yield what goes on to the client."""
        at, end = 0, len(data)
        while at < end:
            if self._left:
                step = min(self._left, end - at)
                piece = data[at : at + step]
                self._left -= step
                at += step
                if self._kept is None:
                    yield piece
                    continue
                self._kept += piece
                if not self._left:
                    yield self._whole()
                continue
            step = min(_ANSWER_BYTES - len(self._head), end - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == _ANSWER_BYTES or self._is_short():
                yield from self._begun()

    def _is_short(self) -> bool:
        """Tell a frame of less than a correlation id (the answer to a SASL token may be empty)."""
        size = int.from_bytes(self._head[:4], "big", signed=True) if len(self._head) >= 4 else 4
        return 0 <= size < 4 and len(self._head) >= 4 + size

    def _begun(self) -> Iterator[bytes]:
        head = bytes(self._head)
        self._head.clear()
        if len(head) < _ANSWER_BYTES:
            yield head
            return
        size, correlation_id = _ANSWER.unpack(head)
        self._left = max(size - 4, 0)
        api = self.requests.expected.pop(correlation_id, None)
        if api is None or not self._left or size > LARGEST_KEPT:
            yield head
            return
        self._api, self._kept = api, bytearray(head)

    def _whole(self) -> bytes:
        assert self._kept is not None
        frame, self._kept = bytes(self._kept), None
        body = with_local_addresses(frame[4:], *self._api, self.local_of)
        return frame if body is None else len(body).to_bytes(4, "big") + body


def with_local_addresses(
    response: bytes, key: int, version: int, local_of: Callable[[Address], Address]
) -> bytes | None:
    """Return a response with other addresses of brokers; ``None`` where it holds none, or cannot be read."""
    try:
        frame = decode_response(response, key, version)
        if not _replaced(frame, key, local_of):
            return None
        return bytes(frame.header.encode(frame.header_version) + frame.body.encode(frame.api_version))
    except KafkaframesError:
        return None


def _replaced(frame: Frame, key: int, local_of: Callable[[Address], Address]) -> bool:
    holders = list(getattr(frame.body, WITH_ADDRESSES[key][1]))
    if key == FIND_COORDINATOR and not holders:
        holders = [frame.body]
    changed = [_replace(one, local_of) for one in holders]
    return any(changed)


def _replace(holder: Any, local_of: Callable[[Address], Address]) -> bool:
    if not holder.host or holder.port < 0:
        return False
    holder.host, holder.port = local_of((holder.host, holder.port))
    return True
