"""Frames and the client's side of a connection, as functions of bytes without I/O.

A socket fills a ``FrameBuffer``, which returns complete frames. The buffer has the interface of
``asyncio.BufferedProtocol`` (``get_buffer``, ``buffer_updated``), so that the socket writes directly into this memory.
The buffer doubles its size as data arrives, and never trusts a size prefix. A client can receive each large frame in
separate memory (``allocate``), and the frame is then returned without a copy.

``ClientConnection`` encodes requests and decodes responses. Kafka returns responses in the order of the requests, and
each response must have the correlation ID of its request.
"""

from __future__ import annotations

import mmap
import struct
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafkaframes.errors import DecodeError, EncodeError
from kafkaframes.protocol.api_keys import SASL_AUTHENTICATE
from kafkaframes.protocol.messages.headers import Frame, decode_response, encode_request_parts
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.registry import Specs, specs_by_name
from kafkaframes.wire.integers import MAX_INT32

MAX_REQUEST_BYTES: Final = 104_857_600  # the broker's default of socket.request.max.bytes


def size_prefix(size_bytes: int) -> bytes:
    """Return the size prefix of a frame.

    Raises:
        EncodeError: the payload has 2 GiB or more.
    """
    if size_bytes > MAX_INT32:
        raise EncodeError(f"the frame has {size_bytes} bytes; the maximum is {MAX_INT32}")
    return _SIZE_PREFIX_STRUCT.pack(size_bytes)


def make_frame(payload: bytes) -> bytes:
    """Return a payload with its size prefix; raise the same error as ``size_prefix``."""
    return size_prefix(len(payload)) + payload


INITIAL_BUFFER_BYTES: Final = 64 << 10
_MIN_FREE_BYTES: Final = 16 << 10  # if less memory is free, the received bytes are moved to make space
_MIN_MAPPED_BYTES: Final = 1 << 20  # larger buffers use mmap, which returns their memory to the system immediately
_SIZE_PREFIX_STRUCT: Final = struct.Struct(">i")


class FrameBuffer:
    """A buffer of received bytes, which returns complete frames.

    Args:
        max_bytes: maximum size of a frame (the broker setting ``socket.request.max.bytes``).
        allocate: returns writable memory for a frame of more than ``INITIAL_BUFFER_BYTES``. The function is called with
            the size that the peer specifies, before the data arrives. Use ``allocate`` only for responses to this
            process's own requests, and only with memory that takes no space before it is written.
    """

    __slots__ = ("_allocate", "_buffer", "_end", "_large", "_large_size", "_start", "_view", "max_bytes")

    def __init__(
        self, max_bytes: int = MAX_REQUEST_BYTES, *, allocate: Callable[[int], memoryview] | None = None
    ) -> None:
        self.max_bytes = max_bytes
        self._allocate = allocate
        self._large: memoryview | None = None  # memory of an incomplete large frame
        self._large_size = 0  # number of received bytes in ``_large``
        self._buffer: bytearray | mmap.mmap = bytearray(4096)  # many connections only send ApiVersions
        self._view = memoryview(self._buffer)
        self._start = 0  # end of the consumed bytes
        self._end = 0  # end of the received bytes

    @property
    def capacity_bytes(self) -> int:
        """Size of the buffer."""
        return len(self._view)

    @property
    def waiting_bytes(self) -> int:
        """Number of received bytes that are not consumed."""
        return self._end - self._start + (0 if self._large is None else self._large_size)

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Return free memory for the next bytes, at least one byte."""
        if self._large is not None and self._large_size < len(self._large):
            return self._large[self._large_size :]
        if self._start == self._end:
            self._start = self._end = 0
        if len(self._view) - self._end < min(_MIN_FREE_BYTES, len(self._view) >> 1):
            self._make_space()
        return self._view[self._end :]

    def _make_space(self) -> None:
        """Move the unconsumed bytes to the front, or to a larger buffer if they fill more than half of this one."""
        waiting = self._view[self._start : self._end]
        size = len(self._view)
        if len(waiting) > size >> 1 or size < INITIAL_BUFFER_BYTES:
            size = max(self._next_buffer_size(waiting, size), INITIAL_BUFFER_BYTES)
        elif len(waiting) < size >> 3:
            size = max(size >> 1, INITIAL_BUFFER_BYTES)
        self._end = len(waiting)
        self._start = 0
        if size == len(self._view):  # a new buffer of 1 MiB would cost as much as all other work on its bytes
            self._view[: len(waiting)] = waiting
            return
        buffer = bytearray(size) if size < _MIN_MAPPED_BYTES else mmap.mmap(-1, size)
        buffer[: len(waiting)] = waiting
        self._buffer, self._view = buffer, memoryview(buffer)

    def _next_buffer_size(self, waiting: memoryview, size: int) -> int:
        """Return the buffer's next size: twice the current size, or less if the current frame needs less."""
        if len(waiting) < _SIZE_PREFIX_STRUCT.size:
            return size * 2
        (frame_size,) = _SIZE_PREFIX_STRUCT.unpack_from(waiting, 0)
        frame_end: int = (
            _SIZE_PREFIX_STRUCT.size + frame_size + INITIAL_BUFFER_BYTES
        )  # includes space for the start of the next frame
        return min(size * 2, frame_end) if size < frame_end else size * 2

    def shrink(self) -> None:
        """Shrink the buffer to its normal size if all bytes are consumed."""
        if self._start == self._end and len(self._view) > INITIAL_BUFFER_BYTES:
            self._buffer = bytearray(INITIAL_BUFFER_BYTES)
            self._view = memoryview(self._buffer)
            self._start = self._end = 0

    def buffer_updated(self, count: int) -> None:
        """Add ``count`` bytes, which the caller has written to the memory of ``get_buffer``."""
        if self._large is not None and self._large_size < len(self._large):
            self._large_size += count
        else:
            self._end += count

    def receive_data(self, data: bytes) -> None:
        """Copy received bytes into the buffer: an alternative to ``get_buffer`` and ``buffer_updated``."""
        position = 0
        while position < len(data):
            free = self.get_buffer()
            count = min(len(free), len(data) - position)
            free[:count] = data[position : position + count]
            self.buffer_updated(count)
            position += count

    def next_frame(self) -> bytes | None:
        """Return the next complete frame without its size prefix, or None if more data is needed.

        Raises:
            DecodeError: the size is negative or above ``max_bytes``.
        """
        frame = self.next_frame_or_view()
        return frame if frame is None or isinstance(frame, bytes) else frame.tobytes()

    def next_frame_or_view(self) -> bytes | memoryview | None:
        """Return the next frame like :meth:`next_frame`. A frame in separate memory is returned as a read-only view."""
        if self._large is None:
            view = self.next_view()
            if view is not None:
                return view.tobytes()
        return self._next_large_frame()

    def _next_large_frame(self) -> memoryview | None:
        """Return the large frame if it is complete. Allocate memory for the next frame if it is large."""
        large = self._large
        if large is None:
            if self._allocate is None or self._end - self._start < _SIZE_PREFIX_STRUCT.size:
                return None
            (size,) = _SIZE_PREFIX_STRUCT.unpack_from(self._buffer, self._start)
            if size <= INITIAL_BUFFER_BYTES:
                return None
            part = self._view[self._start + _SIZE_PREFIX_STRUCT.size : self._end]
            large, self._large_size = self._allocate(size), len(part)
            large[: len(part)] = part
            self._start = self._end
            self._large = large
        if self._large_size < len(large):
            return None
        self._large = None
        return large.toreadonly()

    def next_view(self) -> memoryview | None:
        """Return the next frame like :meth:`next_frame`, as a view.

        The view is valid until the next call of ``get_buffer``.
        """
        start = self._start
        first = start + 4
        if first > self._end:
            return None
        (size,) = _SIZE_PREFIX_STRUCT.unpack_from(self._buffer, start)
        if not 0 <= size <= self.max_bytes:
            raise DecodeError(f"the frame has {size} bytes; the maximum is {self.max_bytes}", position=0)
        end = first + size
        if end > self._end:
            return None
        self._start = end
        return self._view[first:end]


_FIRST_FLEXIBLE_HEADER: Final = 2  # first flexible version of the request header


@dataclass(frozen=True, slots=True)
class _SentRequest:
    """A request that awaits its response."""

    correlation_id: int
    api_key: int
    version: int


_SASL_TOKEN_REQUEST: Final = _SentRequest(-1, SASL_AUTHENTICATE, -1)  # stands for a token, which has no header


class ResponseBytes(NamedTuple):
    """A response before it is decoded, with the correlation ID, API key and version of its request."""

    data: bytes | memoryview
    correlation_id: int
    api_key: int
    version: int


class ClientConnection:
    """The client's side of a connection: encodes requests, and decodes responses from received bytes."""

    def __init__(
        self,
        *,
        client_id: str | None = None,
        max_response_bytes: int = MAX_REQUEST_BYTES,
        first_correlation_id: int = 0,
        mode: str = "reference",
        specs: Specs | None = None,
        header_tags: Iterable[tuple[int, bytes]] = (),
        allocate: Callable[[int], memoryview] | None = None,
    ) -> None:
        """Create a connection without I/O.

        Args:
            client_id: client ID in request headers.
            max_response_bytes: maximum size of a response frame.
            first_correlation_id: correlation ID of the first request.
            mode: decoding mode, ``reference`` or ``strict``.
            specs: message specs that replace the catalog's specs.
            header_tags: raw tagged fields for the header of every request with a flexible version.
            allocate: function that returns memory for large responses, as for ``FrameBuffer``. The records of such a
                response are views of this memory.
        """
        self._frames = FrameBuffer(max_response_bytes, allocate=allocate)
        self._client_id = client_id
        self._next_id = first_correlation_id
        self._mode = mode
        self._specs = None if specs is None else specs_by_name(specs)  # reads a folder only once
        self._header_tags = list(header_tags)
        self._in_flight: deque[_SentRequest] = deque()
        self._out: list[bytes] = []

    @property
    def in_flight(self) -> int:
        """Number of requests without a response."""
        return len(self._in_flight)

    def send_request(self, body: Message, version: int, *, expects_response: bool = True, **header: Any) -> int:
        """Queue a request, and return its correlation ID.

        Args:
            body: the request.
            version: its version.
            expects_response: False for a Produce request with acks=0, which has no response.
            header: ``header_tags`` and ``client_instance_id`` as in ``encode_request``.

        Raises:
            EncodeError: the request cannot be encoded. A request that cannot be encoded is not queued.
        """
        number = self._next_id
        header.setdefault("client_id", self._client_id)
        if self._header_tags and body.spec.header_version(version) >= _FIRST_FLEXIBLE_HEADER:
            header.setdefault("header_tags", self._header_tags)
        parts = encode_request_parts(body, version, correlation_id=number, **header)
        self._out += (size_prefix(sum(map(len, parts))), *parts)
        self._next_id = 0 if number == MAX_INT32 else number + 1
        if expects_response:
            self._in_flight.append(_SentRequest(number, body.spec.api_key or 0, version))
        return number

    def send_token(self, token: bytes) -> None:
        """Queue a SASL token in a frame without a header, as brokers before 1.0 require (SaslHandshake 0, KIP-43).

        The response to a SASL token is a ``Frame`` with the broker's token as its body.
        """
        self._out += (size_prefix(len(token)), token)
        self._in_flight.append(_SASL_TOKEN_REQUEST)

    def data_to_send(self) -> bytes:
        """Return the bytes of the requests that were queued since the last call."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def buffers_to_send(self) -> list[bytes]:
        """Return the bytes of ``data_to_send`` as a list of buffers, for ``writelines``."""
        buffers, self._out = self._out, []
        return buffers

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Return free memory for the next bytes from the broker (``asyncio.BufferedProtocol``)."""
        return self._frames.get_buffer(size_hint)

    def buffer_updated(self, count: int) -> None:
        """Add ``count`` bytes from the broker, which are in the memory of ``get_buffer``."""
        self._frames.buffer_updated(count)

    def receive_data(self, data: bytes) -> None:
        """Copy bytes from the broker into the buffer."""
        self._frames.receive_data(data)

    def next_response(self) -> Frame | None:
        """Return the next response, or None if more data is needed.

        A broker that does not support the requested version of ApiVersions responds at version 0, with error code 35.
        Such a response is decoded at version 0, and its ``api_version`` is 0. Send the request again with a version
        that this response lists.

        Raises:
            DecodeError: the response is invalid, has another correlation ID, or belongs to no request. After this
                error, the connection cannot be used any longer.
        """
        response = self.next_response_bytes()
        return None if response is None else self.decode_response(response)

    def next_response_bytes(self) -> ResponseBytes | None:
        """Return the next response before it is decoded, or None if more data is needed.

        Raises:
            DecodeError: the response belongs to no request, or its size is invalid.
        """
        data = self._frames.next_frame_or_view()
        if data is None:
            return None
        if not self._in_flight:
            raise DecodeError("received a response, but no request is pending", position=0)
        request = self._in_flight.popleft()
        return ResponseBytes(data, request.correlation_id, request.api_key, request.version)

    def decode_response(self, response: ResponseBytes) -> Frame:
        """Decode a response. Responses can be decoded in any thread and in any order.

        Raises:
            DecodeError: as ``next_response``.
        """
        data, correlation_id, api_key, version = response
        if version == _SASL_TOKEN_REQUEST.version:
            return Frame(SASL_AUTHENTICATE, version, 0, None, bytes(data))
        views = isinstance(data, memoryview)
        frame = decode_response(data, api_key, version, mode=self._mode, specs=self._specs, views=views)
        if frame.correlation_id != correlation_id:
            reason = f"the correlation ID is {frame.correlation_id}; expected {correlation_id}"
            raise DecodeError(reason, position=0, path=("ResponseHeader", "CorrelationId"))
        return frame
