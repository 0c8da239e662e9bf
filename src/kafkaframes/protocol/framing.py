"""One connection's bytes, without I/O: frames, the client's end, and the versions that both ends know.

``FrameBuffer`` is filled by a socket and gives whole frames. Its shape is that of ``asyncio.BufferedProtocol``
(``get_buffer``, ``buffer_updated``): bytes go from the socket to their place without a copy between. It grows as bytes
come, by doubling, and never because a size prefix says so. A client, which knows what it asked for, can have each frame
that is larger than the buffer in memory of its own (``allocate``): received in its place, and handed out without a
copy, for as long as somebody holds it.

``ClientConnection`` takes requests and gives bytes, takes bytes and gives responses. Responses come in the order of the
requests (Kafka promises it), and each must carry its request's correlation id.
"""

from __future__ import annotations

import mmap
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kafkaframes.errors import BrokerError, DecodeError, EncodeError, ErrorCode
from kafkaframes.protocol.messages.headers import API_VERSIONS, Frame, body_class, decode_response, encode_request_parts
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.registry import Specs, specs_by_name
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.releases import release
from kafkaframes.protocol.spec.versions import Versions

MAX_REQUEST_BYTES: Final = 104_857_600  # the broker's default of socket.request.max.bytes


def size_prefix(size_bytes: int) -> bytes:
    """Return what stands before a payload of ``size_bytes`` bytes in a frame.

    Raises:
        EncodeError: it has 2 GiB or more.
    """
    if size_bytes > 0x7FFFFFFF:
        raise EncodeError(f"frame of {size_bytes} bytes, the most is 2147483647")
    return _SIZE.pack(size_bytes)


def frame(payload: bytes) -> bytes:
    """Return ``payload`` with its size before it; raises as ``size_prefix``."""
    return size_prefix(len(payload)) + payload


FIRST_BYTES: Final = 64 << 10
_LEAST_FREE: Final = 16 << 10
_MAPPED_BYTES: Final = 1 << 20  # larger buffers are mapped, so that the system gets their memory back at once
_SIZE: Final = struct.Struct(">i")


class FrameBuffer:
    """What came from a peer and was not taken yet.

    Args:
        max_bytes: the largest frame (the broker property ``socket.request.max.bytes``).
        allocate: gives writable memory of a size, for each frame of more than ``FIRST_BYTES``, whose size a peer says
            before it has sent that much: only for peers that were asked, and memory that costs nothing before it is
            written to.
    """

    __slots__ = ("_allocate", "_buffer", "_end", "_filled", "_large", "_start", "_view", "max_bytes")

    def __init__(
        self, max_bytes: int = MAX_REQUEST_BYTES, *, allocate: Callable[[int], memoryview] | None = None
    ) -> None:
        self.max_bytes = max_bytes
        self._allocate = allocate
        self._large: memoryview | None = None  # where the frame goes that is under way, and how much of it is there
        self._filled = 0
        self._buffer: bytearray | mmap.mmap = bytearray(4096)  # most connections only ever say hello
        self._view = memoryview(self._buffer)
        self._start = 0  # what lies before was taken
        self._end = 0  # what lies before was filled

    @property
    def capacity_bytes(self) -> int:
        """The size of the buffer."""
        return len(self._view)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes were filled and not taken."""
        return self._end - self._start + (0 if self._large is None else self._filled)

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Return where the next bytes go; its size is at least 1."""
        if self._large is not None and self._filled < len(self._large):
            return self._large[self._filled :]
        if self._start == self._end:
            self._start = self._end = 0
        if len(self._view) - self._end < min(_LEAST_FREE, len(self._view) >> 1):
            self._make_space()
        return self._view[self._end :]

    def _make_space(self) -> None:
        """Move what waits to the front, into a larger buffer if it fills more than half of this one."""
        waiting = self._view[self._start : self._end]
        size = len(self._view)
        if len(waiting) > size >> 1 or size < FIRST_BYTES:
            size = max(self._larger(waiting, size), FIRST_BYTES)
        elif len(waiting) < size >> 3:
            size = max(size >> 1, FIRST_BYTES)
        self._end = len(waiting)
        self._start = 0
        if size == len(self._view):  # a new one of a megabyte costs as much as all else about its bytes
            self._view[: len(waiting)] = waiting
            return
        buffer = bytearray(size) if size < _MAPPED_BYTES else mmap.mmap(-1, size)
        buffer[: len(waiting)] = waiting
        self._buffer, self._view = buffer, memoryview(buffer)

    def _larger(self, waiting: memoryview, size: int) -> int:
        """Return the next size of the buffer: twice as large, but no larger than the frame under way needs."""
        if len(waiting) < _SIZE.size:
            return size * 2
        (frame_size,) = _SIZE.unpack_from(waiting, 0)
        needed: int = _SIZE.size + frame_size + FIRST_BYTES  # and the beginning of the next one
        return min(size * 2, needed) if size < needed else size * 2

    def rest(self) -> None:
        """Give back memory that was needed for large frames, if nothing waits."""
        if self._start == self._end and len(self._view) > FIRST_BYTES:
            self._buffer = bytearray(FIRST_BYTES)
            self._view = memoryview(self._buffer)
            self._start = self._end = 0

    def buffer_updated(self, count: int) -> None:
        """Say that ``count`` bytes were filled in."""
        if self._large is not None and self._filled < len(self._large):
            self._filled += count
        else:
            self._end += count

    def receive_data(self, data: bytes) -> None:
        """Take bytes that came in some other way."""
        position = 0
        while position < len(data):
            free = self.get_buffer()
            count = min(len(free), len(data) - position)
            free[:count] = data[position : position + count]
            self.buffer_updated(count)
            position += count

    def next_frame(self) -> bytes | None:
        """Return the next whole frame without its size, or None: fill in more.

        Raises:
            DecodeError: the size is negative or above ``max_bytes``.
        """
        frame = self.next_kept()
        return frame if frame is None or isinstance(frame, bytes) else frame.tobytes()

    def next_kept(self) -> bytes | memoryview | None:
        """Do as :meth:`next_frame` does; what lies in memory of its own is a read-only view of that."""
        if self._large is None:
            view = self.next_view()
            if view is not None:
                return view.tobytes()
        return self._next_large()

    def _next_large(self) -> memoryview | None:
        """Return the frame that has memory of its own, if it is whole; give that to one which does not fit."""
        large = self._large
        if large is None:
            if self._allocate is None or self._end - self._start < _SIZE.size:
                return None
            (size,) = _SIZE.unpack_from(self._buffer, self._start)
            if size <= FIRST_BYTES:
                return None
            here = self._view[self._start + _SIZE.size : self._end]
            large, self._filled = self._allocate(size), len(here)
            large[: len(here)] = here
            self._start = self._end
            self._large = large
        if self._filled < len(large):
            return None
        self._large = None
        return large.toreadonly()

    def next_view(self) -> memoryview | None:
        """Do as :meth:`next_frame` does, without a copy: the view is good until the next ``get_buffer``."""
        start = self._start
        first = start + 4
        if first > self._end:
            return None
        (size,) = _SIZE.unpack_from(self._buffer, start)
        if not 0 <= size <= self.max_bytes:
            raise DecodeError(f"frame of {size} bytes, the most is {self.max_bytes}", position=0)
        end = first + size
        if end > self._end:
            return None
        self._start = end
        return self._view[first:end]


_LAST_CORRELATION_ID: Final = (1 << 31) - 1
_FLEXIBLE_HEADER: Final = 2  # of a request


@dataclass(frozen=True, slots=True)
class _Sent:
    correlation_id: int
    api_key: int
    version: int


_SASL_AUTHENTICATE: Final = 36
_TOKEN: Final = _Sent(-1, _SASL_AUTHENTICATE, -1)


class ClientConnection:
    """Give it requests with ``send_request``; feed it with ``receive_data`` and take with ``next_response``."""

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
        """Begin.

        Args:
            client_id, mode, specs: of every request and response.
            max_response_bytes: a longer response is an error.
            first_correlation_id: of the first request.
            header_tags: raw tagged fields for the header of every request whose version is flexible.
            allocate: (see ``FrameBuffer``) the records of large responses are views of its memory.
        """
        self._frames = FrameBuffer(max_response_bytes, allocate=allocate)
        self._client_id = client_id
        self._next_id = first_correlation_id
        self._mode = mode
        self._specs = None if specs is None else specs_by_name(specs)  # a folder is read once
        self._header_tags = list(header_tags)
        self._sent: deque[_Sent] = deque()
        self._out: list[bytes] = []

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._sent)

    def send_request(self, body: Message, version: int, *, expects_response: bool = True, **header: Any) -> int:
        """Queue a request; return its correlation id.

        Args:
            expects_response: False for a Produce request with acks 0, which is never answered.
            header: ``header_tags`` and ``client_instance_id`` as in ``encode_request``.

        Raises:
            EncodeError: it cannot be written; nothing is queued.
        """
        number = self._next_id
        header.setdefault("client_id", self._client_id)
        if self._header_tags and body.spec.header_version(version) >= _FLEXIBLE_HEADER:
            header.setdefault("header_tags", self._header_tags)
        parts = encode_request_parts(body, version, correlation_id=number, **header)
        self._out += (size_prefix(sum(map(len, parts))), *parts)
        self._next_id = 0 if number == _LAST_CORRELATION_ID else number + 1
        if expects_response:
            self._sent.append(_Sent(number, body.spec.api_key or 0, version))
        return number

    def send_token(self, token: bytes) -> None:
        """Queue a SASL token as brokers before 1.0 want it: a frame without any header (SaslHandshake 0, KIP-43).

        The next response is the broker's token: a ``Frame`` whose body are its bytes.
        """
        self._out += (size_prefix(len(token)), token)
        self._sent.append(_TOKEN)

    def data_to_send(self) -> bytes:
        """Return the bytes of the requests that were queued since the last call."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def buffers_to_send(self) -> list[bytes]:
        """Return the same as a list of buffers, for ``writelines``."""
        buffers, self._out = self._out, []
        return buffers

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Return where the next bytes from the broker go (``asyncio.BufferedProtocol``)."""
        return self._frames.get_buffer(size_hint)

    def buffer_updated(self, count: int) -> None:
        """Say that ``count`` bytes from the broker were filled in."""
        self._frames.buffer_updated(count)

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the broker that came in some other way."""
        self._frames.receive_data(data)

    def next_response(self) -> Frame | None:
        """Return the next response, or None: feed more bytes.

        An ApiVersions response that a broker gave at version 0, because it does not know the version asked for, is
        read so: its ``api_version`` is 0 and its error code 35. Ask again at a version it lists.

        Raises:
            DecodeError: a response that nobody asked for, another correlation id, or broken bytes; the connection is
                of no more use.
        """
        data = self._frames.next_kept()
        if data is None:
            return None
        if not self._sent:
            raise DecodeError("a response to no request", position=0)
        sent = self._sent.popleft()
        if sent is _TOKEN:
            return Frame(_SASL_AUTHENTICATE, sent.version, 0, None, bytes(data))
        views = isinstance(data, memoryview)
        response = decode_response(data, sent.api_key, sent.version, mode=self._mode, specs=self._specs, views=views)
        if response.correlation_id != sent.correlation_id:
            reason = f"correlation id {response.correlation_id}, expected {sent.correlation_id}"
            raise DecodeError(reason, position=0, path=("ResponseHeader", "CorrelationId"))
        return response


# ---------------------------------------------------------------------------------------------------------------------
# Which version of an API two ends speak: the newest that both know.
#
# KIP-35: a broker lists the versions of each API that it serves, a client takes the highest that it knows too. KIP-511:
# a broker that does not know the version of the question answers at version 0 with error 35 and its own range for
# ApiVersions, and the client asks again. With specs of one's own (``specs=``: a proposal's, such as KIP-636's), two
# ends that both have them speak their new versions; an end without them takes the versions that it knows, and notices
# nothing.

#: Versions by API key.
Ranges: TypeAlias = Mapping[int, Versions]
_OLDEST: Final = Versions(0, 0)  # what a broker knows that names no version of ApiVersions


def known_versions(api_key: int, specs: Specs | None = None) -> Versions:
    """Return the versions of an API that this end knows: those that request and response have, stable ones only.

    Raises:
        SpecError: no such API.
    """
    request, response = (body_class(api_key, half, specs=specs).spec for half in ("request", "response"))
    both = request.valid_versions.intersect(response.valid_versions)
    return both.intersect(Versions(0, request.latest_stable_version))


def versions_of_release(name: str) -> Ranges:
    """Return what brokers of a release serve, for one that cannot be asked or is not to be.

    What it accepts, not what it advertises: Kafka 4 advertises Produce from 0 and refuses what is below 3.

    Raises:
        OptionError: no such release is known.
    """
    return {key: api.accepted for key, api in release(name).apis().items()}


def listed_versions(response: Any) -> Ranges:
    """Return the versions that an ApiVersions response lists."""
    return {row.api_key: Versions(row.min_version, row.max_version) for row in response.api_keys}


def choose_version(
    api_key: int, theirs: Ranges, *, most: int | None = None, least: int = 0, specs: Specs | None = None
) -> int:
    """Return the newest version of an API that both ends know, within the caller's own bounds.

    Raises:
        BrokerError: there is none.
    """
    listed = theirs.get(api_key)
    name = catalog.api(api_key).name if specs is None else f"API {api_key}"
    if listed is None:
        raise BrokerError(f"the broker has no {name}")
    common = known_versions(api_key, specs).intersect(listed)
    common = common.intersect(Versions(least, common.highest if most is None else most))
    if common.is_empty:
        raise BrokerError(f"no version of {name} in common: the broker takes {listed.lowest} to {listed.highest}")
    return common.highest


def fallback_version(response: Frame, *, specs: Specs | None = None) -> int | None:
    """Return the version at which to ask ApiVersions again, None where the broker knew that of the question (KIP-511).

    Raises:
        BrokerError: the broker knows no version of ApiVersions that this end knows.
    """
    if response.api_key != API_VERSIONS or response.body.error_code != ErrorCode.UNSUPPORTED_VERSION:
        return None
    return choose_version(API_VERSIONS, {API_VERSIONS: _OLDEST, **listed_versions(response.body)}, specs=specs)
