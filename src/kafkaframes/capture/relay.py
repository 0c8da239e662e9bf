"""Forward the bytes of a recorded connection unchanged, except for broker addresses in responses. No I/O.

``BrokerAddresses`` determines which response fields contain addresses. ``OutstandingRequests`` follows a client's
requests, and ``ResponseRewriter`` rewrites the broker's responses. Bytes are forwarded as they arrive; only responses
that may contain addresses are buffered until they are complete. A response that cannot be decoded may contain a broker
address, so it is reported (``on_unknown``). If ``on_unknown`` raises an error, the connection ends before a byte of the
response is forwarded.
"""

from __future__ import annotations

import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from kafkaframes.errors import KafkaframesError
from kafkaframes.errors.sensitive import RESPONSE
from kafkaframes.errors.words import count_text
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.headers import decode_response
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.protocol.messages.structs import Struct

Address: TypeAlias = tuple[str, int]
Path: TypeAlias = tuple[str, ...]
_STREAMS_ENDPOINT_FIELD: Final = "UserEndpoint"  # address of a Kafka Streams application, not of a broker


class ResponseAddresses(NamedTuple):
    """A response class at a version, with the field paths of the structs that contain addresses."""

    cls: type[Message]
    version: int
    paths: tuple[Path, ...]


class BrokerAddresses:
    """A lookup of address fields in responses, from the catalog's specs or user-supplied specs."""

    def __init__(self, apis: ApiRegistry = CATALOG) -> None:
        self._apis = apis
        self._answers: dict[tuple[int, int], ResponseAddresses | None] = {}

    def find_response_addresses(self, key: int, version: int) -> ResponseAddresses | None:
        """Return the address fields of a response; None if no spec has that API and version.

        ApiVersions has an entry for every version, because brokers answer unsupported versions with version 0
        (KIP-511).
        """
        if (key, version) not in self._answers:
            self._answers[key, version] = self._find_address_fields(key, version)
        return self._answers[key, version]

    def _find_address_fields(self, key: int, version: int) -> ResponseAddresses | None:
        try:
            cls = self._apis.message_class(key, RESPONSE, version)
            if cls.spec.valid_versions.contains(version):
                cls.codec(version)  # fails for a recursive user-supplied spec
                return ResponseAddresses(cls, version, tuple(_iterate_paths(cls, version)))
        except KafkaframesError:
            return None
        return ResponseAddresses(cls, 0, ()) if key == API_VERSIONS else None

    def format_label(self, key: int, version: int) -> str:
        """Return a display name for an API and version."""
        return f"{self._apis.name_of(key) or f'API {key}'} version {version}"


def replace_addresses(
    response: bytes, answer: ResponseAddresses, get_local_address: Callable[[Address], Address]
) -> bytes | None:
    """Return a response with its broker addresses replaced; ``None`` if it contains none.

    Raises:
        DecodeError: the response cannot be decoded.
        OptionError: ``get_local_address`` cannot map an address.
    """
    frame = decode_response(response, answer.cls.spec.api_key or 0, answer.version, specs=answer.cls.spec)
    holders = [holder for path in answer.paths for holder in _iterate_structs(frame.body, path)]
    changes = [_replace_address(holder, get_local_address) for holder in holders]
    if not any(changes):
        return None
    return bytes(frame.header.encode(frame.header_version) + frame.body.encode(frame.api_version))


def _iterate_paths(cls: type[Struct], version: int, path: Path = ()) -> Iterator[Path]:
    """Yield the field paths of the structs that have a host and a port at a version."""
    fields = [field for field in cls._fields if field.spec.is_present(version) or field.spec.is_tagged(version)]
    if {"Host", "Port"} <= {field.spec.name for field in fields}:
        yield path
    for field in fields:
        if field.struct is not None and field.spec.name != _STREAMS_ENDPOINT_FIELD:
            yield from _iterate_paths(field.struct, version, (*path, field.attribute))


def _iterate_structs(value: Any, path: Path) -> Iterator[Any]:
    """Yield the structs at a field path."""
    if isinstance(value, list):
        for element in value:
            yield from _iterate_structs(element, path)
    elif value is not None and path:
        yield from _iterate_structs(getattr(value, path[0]), path[1:])
    elif value is not None:
        yield value


def _replace_address(holder: Any, get_local_address: Callable[[Address], Address]) -> bool:
    if not holder.host or holder.port <= 0:
        return False
    holder.host, holder.port = get_local_address((holder.host, holder.port))
    return True


_SASL_HANDSHAKE: Final = (17, 0)  # SaslHandshake 0, after which SASL tokens have no headers
_HEADER_BYTES: Final = 12  # size prefix, API key, version and correlation id of a request
_RESPONSE_HEADER_BYTES: Final = 8  # size prefix and correlation id of a response
_REQUEST_HEADER: Final = struct.Struct(">ihhi")  # size prefix, API key, version, correlation id
MAX_BUFFERED_BYTES: Final = 256 << 20  # largest response in which addresses are replaced
MAX_OUTSTANDING_REQUESTS: Final = 10_000  # outstanding requests in memory; Produce with acks=0 is never answered


class _FrameSplitter:
    """A splitter of a stream into frame heads of at most ``head_bytes`` bytes, and the remaining bytes of frames."""

    def __init__(self, head_bytes: int) -> None:
        self.remaining_bytes = 0  # bytes of the current frame that have not arrived
        self._max_bytes = head_bytes
        self._head = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[tuple[bytes, bytes | memoryview]]:
        """Yield (head, empty) for the start of each frame, and (empty, bytes) for its other bytes."""
        position, end = 0, len(data)
        while position < end:
            step = min(self.remaining_bytes or self._get_head_size() - len(self._head), end - position)
            part = data[position : position + step]
            position += step
            if self.remaining_bytes:
                self.remaining_bytes -= step
                yield b"", part
                continue
            self._head += part
            if len(self._head) >= 4 and len(self._head) == self._get_head_size():
                head = bytes(self._head)
                self._head.clear()
                self.remaining_bytes = max(int.from_bytes(head[:4], "big", signed=True) + 4 - len(head), 0)
                yield head, b""

    def _get_head_size(self) -> int:
        """Return the size of the current frame's head. Until the size prefix has arrived, return the prefix's size."""
        if len(self._head) < 4:
            return 4
        size = int.from_bytes(self._head[:4], "big", signed=True)
        return min(4 + max(size, 0), self._max_bytes)


class OutstandingRequests:
    """A client's outstanding requests, in the order in which the broker answers them.

    The object is shared by two threads.
    """

    def __init__(self) -> None:
        self.may_have_bare_tokens = False  # whether the client may send SASL tokens in frames without Kafka's headers
        self._frames = _FrameSplitter(_HEADER_BYTES)
        self._open: deque[tuple[int, int, int]] = deque()
        self._ids: Counter[int] = Counter()
        self._lock = threading.Lock()

    def feed(self, data: bytes | memoryview) -> None:
        """Process bytes that the client sent."""
        for head, _ in self._frames.feed(data):
            if len(head) == _HEADER_BYTES:
                _, key, version, correlation_id = _REQUEST_HEADER.unpack(head)
                self._add_request(correlation_id, key, version)

    def _add_request(self, correlation_id: int, key: int, version: int) -> None:
        with self._lock:
            self.may_have_bare_tokens |= (key, version) == _SASL_HANDSHAKE
            self._open.append((correlation_id, key, version))
            self._ids[correlation_id] += 1
            if len(self._open) > MAX_OUTSTANDING_REQUESTS:
                self._take_first_request()

    def _take_first_request(self) -> tuple[int, int, int]:
        """Remove and return the oldest outstanding request."""
        first = self._open.popleft()
        self._ids[first[0]] -= 1
        if not self._ids[first[0]]:
            del self._ids[first[0]]
        return first

    def complete_request(self, correlation_id: int) -> tuple[int, int] | None:
        """Return the API and version of the request with this correlation id.

        Drop this request and all earlier ones.
        """
        with self._lock:
            while correlation_id in self._ids:
                number, key, version = self._take_first_request()
                if number == correlation_id:
                    return key, version
        return None


class ResponseRewriter:
    """A rewriter of a broker's responses, which replaces the addresses in them."""

    def __init__(
        self,
        requests: OutstandingRequests,
        get_local_address: Callable[[Address], Address],
        *,
        addresses: BrokerAddresses | None = None,
        on_unknown: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.requests, self.get_local_address, self.on_unknown = requests, get_local_address, on_unknown
        self.addresses = addresses or BrokerAddresses()
        self._frames = _FrameSplitter(_RESPONSE_HEADER_BYTES)
        self._buffer: bytearray | None = None
        self._answer: ResponseAddresses | None = None

    def feed(self, data: bytes | memoryview) -> Iterator[bytes | memoryview]:
        """Process bytes that the broker sent, and yield the bytes for the client.

        Raises:
            Exception: any exception that ``on_unknown`` raises.
        """
        for head, part in self._frames.feed(data):
            if head:
                self._start_buffering(head)
                if self._buffer is None:
                    yield head
            elif self._buffer is None:
                yield part
            else:
                self._buffer += part
            if self._buffer is not None and not self._frames.remaining_bytes:
                yield self._join_response()

    def _start_buffering(self, head: bytes) -> None:
        """Start to buffer a response if it contains addresses."""
        if len(head) < _RESPONSE_HEADER_BYTES:  # the response to a SASL token may be empty
            return
        api = self.requests.complete_request(int.from_bytes(head[4:], "big", signed=True))
        if api is None:
            if not self.requests.may_have_bare_tokens:
                self.on_unknown("a response without a recorded request")
            return
        self._answer = self.addresses.find_response_addresses(*api)
        if self._answer is None:
            self.on_unknown(f"{self.addresses.format_label(*api)} is not in the specs")
        elif self._answer.paths and self._frames.remaining_bytes > MAX_BUFFERED_BYTES:
            self.on_unknown(
                f"{self.addresses.format_label(*api)}: a response of "
                f"{count_text(self._frames.remaining_bytes, 'byte')} is too large"
            )
        elif self._answer.paths:
            self._buffer = bytearray(head)

    def _join_response(self) -> bytes:
        assert self._buffer is not None
        assert self._answer is not None
        frame, self._buffer = bytes(self._buffer), None
        try:
            body = replace_addresses(frame[4:], self._answer, self.get_local_address)
        except KafkaframesError as error:
            name = self.addresses.format_label(self._answer.cls.spec.api_key or 0, self._answer.version)
            self.on_unknown(f"{name}: a response with addresses that cannot be replaced: {error}")
            return frame
        return frame if body is None else len(body).to_bytes(4, "big") + body
