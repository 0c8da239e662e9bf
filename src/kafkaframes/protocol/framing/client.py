"""The client's end of one connection, without I/O: requests in, bytes out; bytes in, responses out.

Responses come in the order of the requests (Kafka promises it), and each must carry its request's correlation id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kafkaframes.errors import BrokerError, DecodeError, ErrorCode
from kafkaframes.protocol.framing.buffer import MAX_REQUEST_BYTES, FrameBuffer, size_prefix
from kafkaframes.protocol.messages.headers import API_VERSIONS, Frame, body_class, decode_response, encode_request_parts
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.registry import Specs, specs_by_name
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.releases import release
from kafkaframes.protocol.spec.versions import Versions

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
    """Give it requests with ``send_request``; feed it with ``receive_data`` and take with ``next_response``.

    Which version to send a request at: ``client.py``.
    """

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
            body: the request.
            version: the API version.
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

    Args:
        api_key: of the API.
        specs: where its messages are, if not in the catalog.

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
    """Return the newest version of an API that both ends know.

    Args:
        api_key: of the API.
        theirs: what the broker serves.
        most, least: bounds of the caller's own.
        specs: as for :func:`known_versions`.

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
