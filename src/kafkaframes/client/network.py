"""A connection to one broker on asyncio: TLS, SASL, version negotiation, requests and responses.

Several requests may be in flight. A broker responds to the requests in order. When the connection ends, all in-flight
requests fail with ``NetworkError``, and the connection cannot be used again. If this process fails to read a response
(out of memory, a bug), the in-flight requests fail with that error instead, because another connection would not help.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np

from kafkaframes._version import __version__
from kafkaframes.client.loop import create_objects_in_thread, run_in_thread, start_background_task
from kafkaframes.client.metrics import NodeMetrics
from kafkaframes.client.security.logins import create_exchange
from kafkaframes.client.security.sasl import Exchange, advance_exchange
from kafkaframes.client.security.tls import create_ssl_context
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import (
    AuthenticationError,
    BrokerError,
    ErrorCode,
    KafkaframesError,
    NetworkError,
    to_broker_error,
)
from kafkaframes.protocol.addresses import format_address
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.framing import ClientConnection, ResponseBytes
from kafkaframes.protocol.messages.headers import Frame
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.negotiation import (
    Ranges,
    choose_version,
    fallback_version,
    find_release_versions,
    find_supported_versions,
    parse_advertised_versions,
)
from kafkaframes.records.memory import Recycler

_SASL_HANDSHAKE_VERSION: Final = 1
_MIN_REAUTHENTICATION_INTERVAL_S: Final = 1.1  # brokers reject SaslHandshake within a second of the last one
_FIRST_THROTTLE_API_VERSION: Final = 2  # version of ApiVersions since Kafka 2.0, where clients wait (KIP-219)
_MAX_THROTTLE_S: Final = 30.0  # longest wait for a broker that throttles, unless ``request_timeout_ms`` is longer
_MAX_REUSED_BYTES: Final = 64 << 20  # memory that a connection keeps for large responses
_DRAIN_INTERVAL_S: Final = 0.005  # time between two checks whether all data is written to the socket
_MAX_INLINE_BYTES: Final = 128 << 10  # largest response that is decoded in the event loop, in about 20 ms
_RECORD_APIS: Final = frozenset({0, 1, 78, 79})  # Produce, Fetch, ShareFetch, ShareAcknowledge: records are not decoded
_MIN_UNCOPIED_BYTES: Final = 16 << 10  # smallest buffer in bytes that is written without being copied


class _InFlightRequest(NamedTuple):
    """An in-flight request; ``deadline`` is a time of the event loop's clock."""

    answer: asyncio.Future[Any]
    request_name: str
    wait_ms: int
    deadline: float


def _set_response(entry: _InFlightRequest, frame: Frame) -> None:
    """Set the result of a request's future, unless the caller has cancelled it."""
    if not entry.answer.done():
        entry.answer.set_result(frame)


class _ConnectionProtocol(asyncio.BufferedProtocol):
    """Transfers bytes between a transport and a ``ClientConnection``.

    One timer covers the timeouts of all in-flight requests.
    """

    def __init__(self, connection: ClientConnection, host_port: str, metrics: NodeMetrics | None = None) -> None:
        self.connection = connection
        self.host_port = host_port
        self.metrics = metrics
        self._received_bytes = 0  # bytes received since the last response
        self.transport: asyncio.Transport | None = None
        self.waiting: deque[_InFlightRequest] = deque()
        self._decoding: set[_InFlightRequest] = set()  # requests with responses that are being decoded in threads
        self.end_error: Exception | None = None
        self._is_retired = False
        self.hint = ""  # addition to the error if the broker closes the connection before its next response
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_full = False  # whether the transport accepts no more data
        self._throttle_timer: asyncio.TimerHandle | None = None
        self._is_authenticating = False
        self.max_throttle_s = 0.0  # longest wait after a response with throttle_time_ms; 0 for brokers before KIP-219

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        if self.metrics is not None:
            self.metrics.count_opened_connection()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.connection.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self.connection.buffer_updated(nbytes)
            self._received_bytes += nbytes
            while (response := self.connection.next_response_bytes()) is not None:
                self.hint = ""
                is_large = len(response.data) > _MAX_INLINE_BYTES and response.api_key not in _RECORD_APIS
                frame = None if is_large else self.connection.decode_response(response)
                entry = self.waiting.popleft()
                if self.metrics is not None:
                    now = self._loop.time()
                    sent_at = entry.deadline - entry.wait_ms / 1000
                    self.metrics.count_response(self._received_bytes, now - sent_at, now)
                    self._received_bytes = 0
                if frame is None:
                    self._decoding.add(entry)
                    start_background_task(self._decode_in_thread(response, entry))
                else:
                    self._apply_throttle(frame.body)
                    _set_response(entry, frame)
            if self._is_retired:
                self.retire()
        except Exception as error:
            self._end_after_decode_error(error)

    async def _decode_in_thread(self, response: ResponseBytes, entry: _InFlightRequest) -> None:
        """Decode a large response in a thread, because decoding would block the event loop for a long time."""
        try:
            frame = await create_objects_in_thread(partial(self.connection.decode_response, response))
            self._apply_throttle(frame.body)
            _set_response(entry, frame)
        except Exception as error:
            self._end_after_decode_error(error)
        finally:
            self._decoding.discard(entry)
            if self._is_retired:
                self.retire()

    def connection_lost(self, error: Exception | None) -> None:
        # asyncio reports this error after ``get_buffer`` has raised an exception.
        if error is not None and not isinstance(error, OSError):
            self.abort(error)
            return
        # With TLS 1.3, a broker may reject the client's certificate after the handshake.
        if isinstance(error, ssl.SSLError) and "CERTIFICATE" in (error.reason or ""):
            self.abort(AuthenticationError(f"{self.host_port}: {_describe_tls_error(error)}"))
            return
        reason = f"closed the connection{self.hint}" if error is None else f"is lost: {error}"
        self.abort(NetworkError(f"{self.host_port} {reason}"))

    def pause_writing(self) -> None:
        self._is_full = True
        self._writable.clear()

    def resume_writing(self) -> None:
        self._is_full = False
        self._update_writable()

    def _apply_throttle(self, body: Any) -> None:
        """Send nothing for the throttle time of a response, as in Java's clients (KIP-219).

        The broker does not read the connection in this time, so requests would only use up their timeouts. The timeouts
        of in-flight requests are extended.
        """
        throttle_s = min(getattr(body, "throttle_time_ms", 0) / 1000, self.max_throttle_s)
        if throttle_s <= 0 or self.end_error is not None:
            return
        end = self._loop.time() + throttle_s
        self.waiting = deque(entry._replace(deadline=entry.deadline + throttle_s) for entry in self.waiting)
        if self._throttle_timer is not None:
            end = max(end, self._throttle_timer.when())
            self._throttle_timer.cancel()
        self._writable.clear()
        self._throttle_timer = self._loop.call_at(end, self._end_throttle)

    def _end_throttle(self) -> None:
        self._throttle_timer = None
        self._update_writable()

    def _update_writable(self) -> None:
        if not self._is_full and self._throttle_timer is None and not self._is_authenticating:
            self._writable.set()

    @contextlib.contextmanager
    def hold_requests(self) -> Iterator[None]:
        """Let other requests wait while the connection authenticates again: brokers accept only SASL messages then."""
        self._is_authenticating = True
        self._writable.clear()
        try:
            yield
        finally:
            self._is_authenticating = False
            self._update_writable()

    async def wait_until_writable(self) -> None:
        """Wait until the transport accepts more data, and the connection is neither throttled nor authenticating."""
        while not self._writable.is_set():
            await self._writable.wait()

    @property
    def is_writable(self) -> bool:
        """Whether ``wait_until_writable`` would return at once."""
        return self._writable.is_set()

    def expect_response(self, request_name: str, wait_ms: int) -> asyncio.Future[Any]:
        """Return a future of the response to a request that was just queued. A late response ends the connection."""
        result = _InFlightRequest(self._loop.create_future(), request_name, wait_ms, self._loop.time() + wait_ms / 1000)
        self.waiting.append(result)
        if self._timer is None or result.deadline < self._timer.when():
            self._schedule_check(result.deadline)
        return result.answer

    def _schedule_check(self, time_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(time_s, self._check_deadlines)

    def _check_deadlines(self) -> None:
        """End the connection if a response is late: the following responses could no longer be matched to requests."""
        self._timer = None
        first = min(self.waiting, key=attrgetter("deadline"), default=None)
        if first is None:
            return
        if first.deadline <= self._loop.time():
            self.abort(
                NetworkError(f"{self.host_port} did not respond to {first.request_name} within {first.wait_ms} ms")
            )
        else:
            self._schedule_check(first.deadline)

    def retire(self) -> None:
        """Close the connection once no request is in flight. Data that was written is sent."""
        self._is_retired = True
        if self.waiting or self._decoding or self.end_error is not None or self.transport is None:
            return
        self.end_error = NetworkError(f"the connection to {self.host_port} was replaced")
        self._count_close()
        if self._timer is not None:
            self._timer.cancel()
        self.transport.close()

    def abort(self, error: Exception) -> None:
        """Fail all in-flight requests and abort the connection."""
        if self.end_error is None:
            self._count_close()
        self.end_error = self.end_error or error
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        self._writable.set()
        if self._timer is not None:
            self._timer.cancel()
        for entry in (*self.waiting, *self._decoding):
            if not entry.answer.done():
                entry.answer.set_exception(self.end_error)
                # Marks the exception as retrieved: asyncio logs exceptions that no task has retrieved.
                entry.answer.exception()
        self.waiting.clear()
        if self.transport is not None:
            self.transport.abort()

    def _end_after_decode_error(self, error: Exception) -> None:
        """End the connection because a response cannot be decoded."""
        if isinstance(error, KafkaframesError):
            error = NetworkError(f"a response from {self.host_port} cannot be decoded: {error}")
        self.abort(error)

    def _count_close(self) -> None:
        """Count the end of an open connection in the metrics."""
        if self.metrics is not None and self.transport is not None:
            self.metrics.count_closed_connection()


class _ResolvedAddress(NamedTuple):
    """One of the IP addresses of a broker, as ``getaddrinfo`` returns it."""

    family: int
    kind: int
    number: int
    name: str
    address: Any

    @property
    def ip(self) -> str:
        """The address without its port."""
        return str(self.address[0])

    async def connect(self) -> socket.socket:
        """Return a connected socket."""
        result = socket.socket(self.family, self.kind, self.number)
        try:
            result.setblocking(False)
            await asyncio.get_running_loop().sock_connect(result, self.address)
        except BaseException:
            result.close()
            raise
        return result


async def _look_up_addresses(host: str, port: int) -> list[_ResolvedAddress]:
    """Return the addresses of a host name in the system's order, without duplicates (KIP-302)."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list({entry[4]: _ResolvedAddress(*entry) for entry in entries}.values())


def _describe_tls_error(error: ssl.SSLError) -> str:
    """Return the reason for a failed TLS handshake, with the settings that change it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        hint = "`ssl_cafile` specifies the trusted certificates"
        if "mismatch" in reason:
            hint = "`ssl_check_hostname=False` accepts certificates of other hosts"
        return f"the broker's TLS certificate was rejected: {reason}; {hint}"
    if error.reason == "WRONG_VERSION_NUMBER":
        return f"TLS failed: {error}; does this port use TLS?"
    if "CERTIFICATE" in (error.reason or ""):
        return f"the broker rejected the client's TLS certificate: {error}; `ssl_certfile` specifies it"
    return f"TLS failed: {error}"


class Connection:
    """A connection that is ready for requests. Create a connection with ``Connection.open``."""

    def __init__(self, wire: _ConnectionProtocol, settings: ClientSettings) -> None:
        self._wire = wire
        self._settings = settings
        self.ranges: Ranges = {}
        self._versions: dict[tuple[int, int | None, int], int] = {}  # versions by API key and the caller's bounds
        self.features: dict[str, int] = {}
        self._authenticated_at = 0.0
        self._authenticated_until: float | None = None

    @classmethod
    async def open(
        cls, host: str, port: int, settings: ClientSettings, metrics: NodeMetrics | None = None
    ) -> Connection:
        """Connect, negotiate API versions, and authenticate.

        Raises:
            NetworkError: the broker cannot be reached within ``socket_connection_setup_timeout_ms``.
            BrokerError: the broker rejects the client, or supports none of its API versions.
        """
        host_port = format_address(host, port)
        limit_ms = settings.socket_connection_setup_timeout_ms
        deadline = time.monotonic() + limit_ms / 1000
        try:
            async with asyncio.timeout(limit_ms / 1000):
                addresses = await _look_up_addresses(host, port)
        except TimeoutError:
            raise NetworkError(f"{host_port} did not respond within {limit_ms} ms") from None
        except (OSError, UnicodeError, OverflowError) as error:  # an invalid host name such as a..b, an invalid port
            raise NetworkError(f"{host_port} cannot be reached: {error or type(error).__name__}") from None
        errors: list[NetworkError] = []
        for number, address in enumerate(addresses):
            share_s = max(deadline - time.monotonic(), 0.0) / (len(addresses) - number)
            try:
                return await cls._open_address(host, address, settings, host_port, share_s, metrics)
            except NetworkError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        raise NetworkError("; ".join(f"{error} ({one.ip})" for one, error in zip(addresses, errors, strict=True)))

    @classmethod
    async def _open_address(
        cls,
        host: str,
        address: _ResolvedAddress,
        settings: ClientSettings,
        host_port: str,
        timeout_s: float,
        metrics: NodeMetrics | None,
    ) -> Connection:
        """Connect to one address of a host, and prepare the connection for requests."""
        try:
            async with asyncio.timeout(timeout_s):
                return await cls._connect(host, address, settings, host_port, metrics)
        except TimeoutError:
            raise NetworkError(f"{host_port} did not respond within {timeout_s * 1000:.0f} ms") from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError) as error:  # the broker may be stopping
            raise NetworkError(f"{host_port}: TLS failed: {error}") from None
        except ssl.SSLError as error:  # as in Java's clients, where a failed handshake is not retried
            raise AuthenticationError(f"{host_port}: {_describe_tls_error(error)}") from None
        except (OSError, UnicodeError, OverflowError) as error:
            # The broker closed the connection without a TLS alert.
            if settings.uses_tls and isinstance(error, ConnectionResetError):
                protocol = f"security.protocol is {settings.security_protocol}"
                raise NetworkError(
                    f"{host_port} ended the TLS handshake; does this port use TLS? ({protocol})"
                ) from None
            raise NetworkError(f"{host_port} cannot be reached: {error or type(error).__name__}") from None

    @classmethod
    async def _connect(
        cls, host: str, address: _ResolvedAddress, settings: ClientSettings, host_port: str, metrics: NodeMetrics | None
    ) -> Connection:
        context = create_ssl_context(settings) if settings.uses_tls else None
        client_connection = ClientConnection(
            client_id=settings.client_id,
            max_response_bytes=settings.max_response_bytes,
            specs=settings.specs,
            header_tags=settings.header_tags,
            allocate=_create_allocator(),
        )
        loop = asyncio.get_running_loop()
        sock = await address.connect()
        try:
            _, protocol = await loop.create_connection(
                lambda: _ConnectionProtocol(client_connection, host_port, metrics),
                sock=sock,
                ssl=context,
                server_hostname=host if context else None,
            )
        except BaseException:
            sock.close()
            raise
        connection = cls(protocol, settings)
        _set_buffer_sizes(protocol, settings)
        try:
            await connection._negotiate_versions()
            if settings.uses_sasl:
                await connection._authenticate(host, await _get_token(settings))
            elif settings.api_version is None:
                question = f"does this port require SASL? (security.protocol is {settings.security_protocol})"
                protocol.hint = f", although it has responded to ApiVersions; {question}"
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_usable(self) -> bool:
        """Whether requests can be sent: the connection has not ended, and its authentication is valid (KIP-368)."""
        until = self._authenticated_until
        return not self.has_ended and (until is None or time.monotonic() < until)

    @property
    def can_reauthenticate(self) -> bool:
        """Whether the client may authenticate again on this connection.

        Brokers reject a second authentication within a second, and answer an authentication only after all requests in
        flight. The client therefore does not authenticate while a request is in flight that brokers may hold back for
        longer than ``request_timeout_ms``, such as JoinGroup.
        """
        if self.has_ended or self._authenticated_until is None:
            return False
        is_recent = time.monotonic() < self._authenticated_at + _MIN_REAUTHENTICATION_INTERVAL_S
        max_wait_ms = max((entry.wait_ms for entry in self._wire.waiting), default=0)
        return not is_recent and max_wait_ms <= self._settings.request_timeout_ms

    async def reauthenticate(self, host: str) -> None:
        """Authenticate again on this connection before the broker ends the session (KIP-368).

        Unlike with a new connection, brokers keep the share sessions of the connection. If the client cannot get a
        token, the connection is not changed. After other errors, the connection is closed.

        Args:
            host: broker's host name, used by GSSAPI only.

        Raises:
            NetworkError: the connection ended, or the client cannot get a token.
            BrokerError: the broker rejects the client.
            OptionError: no Kerberos ticket is available.
        """
        try:
            async with asyncio.timeout(self._settings.socket_connection_setup_timeout_ms / 1000):
                token = await _get_token(self._settings)
        except TimeoutError:
            raise NetworkError(f"{self.host_port}: no access token was available in time") from None
        try:
            with self._wire.hold_requests():
                await self._authenticate(host, token)
        except BaseException:
            self.close()
            raise

    @property
    def has_ended(self) -> bool:
        """Whether the connection has ended."""
        return self._wire.end_error is not None

    @property
    def host_port(self) -> str:
        """The address of the broker, ``host:port``."""
        return self._wire.host_port

    @property
    def in_flight(self) -> int:
        """The number of in-flight requests."""
        return len(self._wire.waiting)

    def retire(self) -> None:
        """Close the connection once all its requests have responses, after another connection has replaced it."""
        self._wire.retire()

    def close(self) -> None:
        """End the connection. In-flight requests fail with ``NetworkError``."""
        self._wire.abort(NetworkError(f"the connection to {self._wire.host_port} was closed"))

    def select_version(self, body: Message, *, max_version: int | None = None, min_version: int = 0) -> int:
        """Return the version in which ``body`` would be sent.

        Raises:
            BrokerError: client and broker have no common version.
        """
        bounds = (body.spec.api_key or 0, max_version, min_version)
        result = self._versions.get(bounds)
        if result is None:
            key = bounds[0]
            result = choose_version(
                key, self.ranges, max_version=max_version, min_version=min_version, specs=self._settings.specs
            )
            self._versions[bounds] = result
        return result

    async def request(self, body: Message, *, version: int | None = None, timeout_ms: int | None = None) -> Any:
        """Send a request, and return the body of the response.

        Raises:
            NetworkError: the connection ended, or no response arrived within ``timeout_ms`` (``request_timeout_ms`` if
                None). After a timeout the connection cannot be used again, because the response may still arrive.
            BrokerError: the broker does not support the API.
            EncodeError: the request cannot be encoded.
        """
        frame = await self.exchange(body, self.select_version(body) if version is None else version, timeout_ms)
        return frame.body

    async def _request_sasl(self, body: Message, version: int) -> Any:
        """Send an authentication request at once, while other requests wait, and return the body of the response."""
        answer = self._send_request(body, version, self._settings.request_timeout_ms)
        assert answer is not None
        return (await answer).body

    async def wait_until_writable(self) -> None:
        """Wait until the connection accepts more data."""
        await self._wire.wait_until_writable()

    async def drain(self) -> None:
        """Wait until all data is written to the socket, or the connection has ended."""
        wire = self._wire
        while wire.end_error is None and wire.transport is not None and wire.transport.get_write_buffer_size():
            await asyncio.sleep(_DRAIN_INTERVAL_S)

    @property
    def is_writable(self) -> bool:
        """Whether ``wait_until_writable`` would return at once: most of the written data has been sent."""
        return self._wire.is_writable

    def post(self, body: Message, version: int, *, expects_response: bool = True) -> asyncio.Future[Any] | None:
        """Write a request at once.

        Return a future of the response; None if brokers do not respond to the request (acks 0).

        Raises:
            NetworkError: the connection has ended. Nothing was written.
            EncodeError: the request cannot be encoded.
        """
        return self._send_request(body, version, self._settings.request_timeout_ms if expects_response else None)

    async def exchange(self, body: Message, version: int, timeout_ms: int | None = None) -> Frame:
        """Send a request, and return the response with its header. Raises the same errors as ``request``."""
        wait_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        await self._wire.wait_until_writable()
        answer = self._send_request(body, version, wait_ms)
        assert answer is not None
        frame: Frame = await answer
        return frame

    def _send_request(self, body: Message, version: int, wait_ms: int | None) -> asyncio.Future[Any] | None:
        wire = self._wire
        if wire.end_error is not None:
            raise wire.end_error
        wire.connection.send_request(body, version, expects_response=wait_ms is not None)
        answer = None if wait_ms is None else wire.expect_response(type(body).__name__, wait_ms)
        assert wire.transport is not None
        buffers = wire.connection.buffers_to_send()
        if wire.metrics is not None:
            wire.metrics.count_request(sum(map(len, buffers)), time.monotonic())
        for part in _join_short_buffers(buffers):
            wire.transport.write(part)
        return answer

    async def _negotiate_versions(self) -> None:
        """Request the range of versions of each API that the broker supports (KIP-35, KIP-511)."""
        if isinstance(self._settings.api_version, str):
            self.ranges = find_release_versions(self._settings.api_version)
            return
        cls = self._settings.message_class("ApiVersionsRequest")
        body = cls(client_software_name="kafkaframes", client_software_version=__version__)
        try:
            frame = await self.exchange(body, find_supported_versions(API_VERSIONS, self._settings.specs).highest)
        except NetworkError as error:
            settings = self._settings
            question = "; does this port use TLS?"
            if settings.uses_tls:
                question = "" if settings.has_client_certificate else "; does it require `ssl_certfile`?"
            hint = f"security.protocol is {settings.security_protocol}; brokers before 0.10 need `api_version`"
            raise NetworkError(f"{error}; it has not responded to any request yet{question} ({hint})") from None
        fallback = fallback_version(frame, specs=self._settings.specs)
        if fallback is not None:
            frame = await self.exchange(body, fallback)
        if frame.body.error_code:
            raise to_broker_error(frame.body.error_code, f"{self._wire.host_port} rejected ApiVersions")
        self.ranges = parse_advertised_versions(frame.body)
        if API_VERSIONS in self.ranges and self.ranges[API_VERSIONS].highest >= _FIRST_THROTTLE_API_VERSION:
            self._wire.max_throttle_s = max(self._settings.request_timeout_ms / 1000, _MAX_THROTTLE_S)
        self.features = {entry.name: entry.max_version_level for entry in frame.body.finalized_features}

    async def _authenticate(self, host: str, token: str) -> None:
        settings, started_at = self._settings, time.monotonic()
        body = settings.message_class("SaslHandshakeRequest")(mechanism=settings.sasl_mechanism)
        version = self.select_version(body, max_version=_SASL_HANDSHAKE_VERSION)
        handshake = await self._request_sasl(body, version)
        if handshake.error_code:
            subject = f"{self._wire.host_port} rejected the handshake for {settings.sasl_mechanism}"
            if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                mechanisms = ", ".join(handshake.mechanisms) or "none"
                subject = f"{self._wire.host_port} does not support {settings.sasl_mechanism}; it supports {mechanisms}"
            raise to_broker_error(handshake.error_code, subject)
        exchange = create_exchange(settings, host, token)
        lifetime_ms, answer = 0, None
        try:
            while (step := await self._advance_exchange(exchange, answer)) is not None:
                exchange_token = self._exchange_raw_token if version == 0 else self._exchange_token
                answer, lifetime_ms = await exchange_token(step)
        except BrokerError:
            discard = getattr(settings.sasl_oauthbearer_token, "discard", None)
            if discard is not None:
                await run_in_thread(partial(discard, token))
            raise
        self._authenticated_at = started_at
        self._authenticated_until = None
        if lifetime_ms > 0:  # authenticate again shortly before the broker would end the connection
            self._authenticated_until = time.monotonic() + lifetime_ms / 1000 * 0.85

    async def _advance_exchange(self, exchange: Exchange, answer: bytes | None) -> bytes | None:
        if self._settings.sasl_mechanism == "GSSAPI":  # GSSAPI sends requests to a key distribution center
            return await run_in_thread(lambda: advance_exchange(exchange, answer))
        return advance_exchange(exchange, answer)

    async def _exchange_token(self, token: bytes) -> tuple[bytes, int]:
        """Send a token. Return the broker's token and the lifetime of the session, in milliseconds."""
        body = self._settings.message_class("SaslAuthenticateRequest")(auth_bytes=token)
        answer = await self._request_sasl(body, self.select_version(body))
        if answer.error_code:
            reason = answer.error_message or "no reason given"
            raise to_broker_error(
                answer.error_code, f"{self._wire.host_port} rejected {self._settings.sasl_mechanism}: {reason}"
            )
        return answer.auth_bytes, answer.session_lifetime_ms

    async def _exchange_raw_token(self, token: bytes) -> tuple[bytes, int]:
        """Send a token without a request header, for brokers before 1.0.

        Brokers before 1.0 close the connection to reject a token.
        """
        self._wire.connection.send_token(token)
        answer = self._wire.expect_response("a SASL token", self._settings.request_timeout_ms)
        assert self._wire.transport is not None
        self._wire.transport.writelines(self._wire.connection.buffers_to_send())
        try:
            return (await answer).body, 0
        except NetworkError as error:
            reason = f"{self._wire.host_port} rejected {self._settings.sasl_mechanism} or its credentials: {error}"
            raise to_broker_error(ErrorCode.SASL_AUTHENTICATION_FAILED, reason) from None


def _set_buffer_sizes(wire: _ConnectionProtocol, settings: ClientSettings) -> None:
    sizes = {socket.SO_SNDBUF: settings.send_buffer_bytes, socket.SO_RCVBUF: settings.receive_buffer_bytes}
    sock = None if wire.transport is None else wire.transport.get_extra_info("socket")
    for option, size in sizes.items():
        if sock is not None and size >= 0:
            sock.setsockopt(socket.SOL_SOCKET, option, size)


def _join_short_buffers(buffers: Iterable[bytes]) -> Iterator[bytes]:
    """Join short buffers. Long buffers are yielded unchanged, because ``writelines`` of Python 3.11 would copy them."""
    short: list[bytes] = []
    for entry in buffers:
        if len(entry) < _MIN_UNCOPIED_BYTES:
            short.append(entry)
            continue
        if short:
            yield b"".join(short)
            short = []
        yield entry
    if short:
        yield b"".join(short)


async def _get_token(settings: ClientSettings) -> str:
    """Return a bearer token for OAUTHBEARER; an empty string for other mechanisms."""
    if settings.sasl_mechanism != "OAUTHBEARER":
        return ""
    from kafkaframes.client.security.tokens import request_token  # imports an HTTP client

    return await request_token(settings.sasl_oauthbearer_token or "")


def _create_allocator() -> Callable[[int], memoryview]:
    """Return an allocator of memory for large responses. The allocator reuses memory to which no records refer."""
    blocks = Recycler(kept_bytes=_MAX_REUSED_BYTES, is_filled=True)
    return lambda size: blocks.new_array(size, np.uint8).data
