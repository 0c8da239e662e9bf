"""Record the traffic between clients and brokers: a proxy that writes a capture, without root or libpcap.

The proxy has a listener for each broker and can terminate TLS. Two threads serve each connection. Each thread reads
bytes, writes them to the capture file and then forwards them. A slow disk therefore slows down all clients, no data are
omitted, and ``on_slow`` is called. The file contains the brokers' real addresses and their responses as sent. The file
is flushed every second, so a killed recorder loses at most one second of data. If the disk is full (``failure``),
connections are reset.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Final

from kafkaframes.capture.container import ConversationWriter, build_file_header
from kafkaframes.capture.relay import Address, BrokerAddresses, OutstandingRequests, ResponseRewriter
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry


class SecuredSocket:
    """The socket methods that the recorder needs, for a TLS connection that two threads use."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        """Wrap a socket after its TLS handshake."""
        tls.setblocking(False)
        self._tls = tls
        self._lock = threading.Lock()

    def recv_into(self, buffer: bytearray) -> int:
        """Read the available bytes, at least one. Return 0 at the end of the stream."""
        try:
            return int(self._call_until_done(lambda: self._tls.recv_into(buffer)))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            # the peer closed the connection with close_notify or, as many clients do, without it
            return 0
        except ValueError:  # both sides have sent close_notify
            return 0

    def sendall(self, data: bytes | memoryview) -> None:
        """Write all bytes."""
        view = memoryview(data)
        while len(view):
            part = view[: 1 << 18]
            view = view[self._call_until_done(lambda part=part: self._tls.send(part)) :]  # type: ignore[misc]

    def _call_until_done(self, call: Callable[[], Any]) -> Any:
        """Call a function again each time the socket is ready, until TLS needs no more data."""
        while True:
            try:
                with self._lock:
                    return call()
            except ssl.SSLWantReadError:
                self._wait_for_socket(select.POLLIN)
            except ssl.SSLWantWriteError:
                self._wait_for_socket(select.POLLOUT)

    def _wait_for_socket(self, event: int) -> None:
        poll = select.poll()
        poll.register(self._tls.fileno(), event)
        poll.poll(1000)

    def shutdown(self, how: int) -> None:
        """Send TLS close_notify, so that the peer does not suspect truncation, and shut down TCP."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._tls.unwrap()  # ``recv_into`` reads the peer's close_notify, for which this call would wait
        socket.socket.shutdown(self._tls, how)

    def close(self) -> None:
        """Close the socket."""
        self._tls.close()

    def getpeername(self) -> Any:
        """Return the address of the peer."""
        return self._tls.getpeername()


CHUNK_BYTES: Final = 256 << 10  # largest read from a socket
SLOW_WRITE_SECONDS: Final = 1.0  # ``on_slow`` is called for a write of the capture file that takes longer
FLUSH_INTERVAL_SECONDS: Final = 1.0  # longest time between two writes to the disk
CONNECT_TIMEOUT_SECONDS: Final = 10.0
MAX_REPORTED_ADDRESSES: Final = 1000  # largest number of different reports of addresses that were not replaced
CLIENT, SERVER = 0, 1
Channel = socket.socket | SecuredSocket


@dataclass
class RecorderSettings:
    """Settings of a recorder.

    Attributes:
        host: address of the listeners.
        ports: ports of the listeners, the first one for the first broker. After the last of these ports, free ports are
            used.
        upstream: address of the first broker.
        server_tls: TLS settings for connections from clients; None for plain text.
        upstream_tls: TLS settings for connections to brokers; None for plain text.
        apis: message specs for decoding responses. Default: the catalog.
        strict: whether to close a connection instead of forwarding an undecodable response that may contain an address.
    """

    host: str
    ports: tuple[int, ...]
    upstream: Address
    server_tls: ssl.SSLContext | None = None
    upstream_tls: ssl.SSLContext | None = None
    apis: ApiRegistry = CATALOG
    strict: bool = False


class _BrokerConnectionError(OSError):
    """A broker cannot be reached."""


@dataclass
class RecorderCounters:
    """Counters of the recorded connections and bytes, and of refused connections."""

    connections: int = 0
    bytes: int = 0
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Recorder:
    """A recording proxy. The recorder runs until ``close``, which closes all listeners and connections."""

    def __init__(
        self,
        settings: RecorderSettings,
        out: IO[bytes],
        *,
        on_slow: Callable[[float], None] = lambda _: None,
        on_unknown: Callable[[str], None] = lambda _: None,
        on_refused: Callable[[str], None] = lambda _: None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Write the file header. ``start`` opens the first listener.

        Args:
            settings: addresses, ports, TLS settings and specs.
            out: capture file, open for writing.
            on_slow: function that is called with the duration of a slow write, in seconds.
            on_unknown: function that is called once for each kind of response that may contain an address and cannot be
                decoded.
            on_refused: function that is called once for each reason why a connection is refused, with the reason.
            on_failure: function that is called when the file can no longer be written.
        """
        self.settings, self.on_slow, self.on_unknown, self.on_failure = settings, on_slow, on_unknown, on_failure
        self.on_refused = on_refused
        self._refusal_reasons: set[str] = set()  # guarded by the lock of ``counts``
        self.unknown: dict[str, None] = {}  # descriptions of undecodable responses, in order of occurrence
        self._addresses = BrokerAddresses(settings.apis)
        self.counts = RecorderCounters()
        self.listeners: dict[Address, socket.socket] = {}
        self._out = out
        out.write(build_file_header("kafkaframes record"))
        self._file_lock, self._listener_lock = threading.Lock(), threading.Lock()
        self._ports = list(settings.ports)
        self._open: set[Channel] = set()  # guarded by ``_listener_lock``, like ``_is_closed``
        self._threads: list[threading.Thread] = []
        self._is_closed = False
        self.failure: OSError | None = None  # the first error while writing the file
        self.failed = threading.Event()
        self._closing = threading.Event()
        self._is_flushed = False
        self._flusher: threading.Thread | None = None

    def start(self) -> Address:
        """Listen for the first broker and return the listener's address."""
        address = self.open_local_address(self.settings.upstream)
        if self._flusher is None:
            self._flusher = self._run_in_thread(self._flush_regularly)
        return address

    def open_local_address(self, broker: Address, *, reported_address: str | None = None) -> Address:
        """Return the address of a broker's listener, which is opened at the first call.

        Args:
            broker: address of the broker.
            reported_address: host to return if the listener is bound to all addresses.

        Raises:
            OptionError: no listener can be opened.
        """
        with self._listener_lock:
            listener = self.listeners.get(broker)
            if listener is None and self._is_closed:
                raise OptionError(f"cannot listen for {broker[0]}:{broker[1]}: the recorder is closed")
            if listener is None:
                listener = self.listeners[broker] = self._open_listener(broker)
                self._run_in_thread(self._accept_clients, listener, broker)
        host, port = listener.getsockname()[:2]
        if host in ("0.0.0.0", "::") and reported_address is not None:
            host = reported_address
        return host, port

    def _open_listener(self, broker: Address) -> socket.socket:
        port = self._ports.pop(0) if self._ports else 0
        family = socket.AF_INET6 if ":" in self.settings.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.settings.host, port))
            listener.listen(128)
        except (OSError, TypeError) as error:  # TypeError: a host name that cannot be encoded
            listener.close()
            raise OptionError(
                f"cannot listen on {self.settings.host}:{port} for {broker[0]}:{broker[1]}: {error}"
            ) from None
        return listener

    def _run_in_thread(self, function: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept_clients(self, listener: socket.socket, broker: Address) -> None:
        while not self._is_closed:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._run_in_thread(self._serve_client, client, broker)

    def _serve_client(self, client: socket.socket, broker: Address) -> None:
        """Record one connection."""
        sockets: list[Channel] = [client]
        try:
            peer, local_address = (
                client.getpeername()[:2],
                client.getsockname()[0],
            )  # fails if the client already disconnected
            sockets[0] = self._secure_client(client)
            sockets.append(self._connect_broker(broker))
            server_address = sockets[1].getpeername()[:2]
        # Raised, among others, for an invalid host or port, which a broker may advertise.
        except (OSError, ValueError, OverflowError) as error:
            _close_connections(sockets)
            self._count_refusal(broker, error)
            return
        with self._listener_lock:
            # The recorder was closed during the set-up of this connection, which ``close`` therefore missed.
            if self._is_closed:
                _close_connections(sockets)
                return
            self._open.update(sockets)
        client_socket, server_socket = sockets
        with self.counts.lock:
            self.counts.connections += 1
            number = self.counts.connections
        conversation = ConversationWriter(
            (peer[0], peer[1]), (server_address[0], server_address[1]), initial=number << 12
        )
        with contextlib.suppress(OSError):  # ignored here: a persistent error is raised again with the first bytes
            self._write_packets([conversation.build_handshake(time.time_ns())])
        requests = OutstandingRequests()
        response_rewriter = ResponseRewriter(
            requests,
            lambda address: self.open_local_address(address, reported_address=local_address),
            addresses=self._addresses,
            on_unknown=self._report_unknown,
        )
        response_thread = threading.Thread(
            target=self._forward,
            args=(server_socket, client_socket, conversation, SERVER, response_rewriter.feed),
            daemon=True,
        )
        response_thread.start()

        def forward_request(data: memoryview) -> list[memoryview]:
            requests.feed(data)
            return [data]

        self._forward(client_socket, server_socket, conversation, CLIENT, forward_request)
        response_thread.join()
        with self._listener_lock:
            self._open.difference_update(sockets)
        _close_connections(sockets)

    def _report_unknown(self, address: str) -> None:
        """Report an unreplaced address once for each description. With ``strict``, raise to end the connection."""
        with self.counts.lock:
            is_new = address not in self.unknown and len(self.unknown) < MAX_REPORTED_ADDRESSES
            if is_new:
                self.unknown[address] = None
        if is_new:
            self.on_unknown(address)
        if self.settings.strict:
            raise ConnectionAbortedError(address)

    def _count_refusal(self, broker: Address, error: Exception) -> None:
        """Count a connection that cannot be recorded, and report each reason once."""
        is_about_broker = isinstance(error, _BrokerConnectionError)
        subject = (
            f"the broker {broker[0]}:{broker[1]} cannot be reached" if is_about_broker else "a client was rejected"
        )
        reason = f"{subject}: {getattr(error, 'strerror', None) or error}"
        with self.counts.lock:
            self.counts.refused += 1
            is_new = reason not in self._refusal_reasons and len(self._refusal_reasons) < MAX_REPORTED_ADDRESSES
            if is_new:
                self._refusal_reasons.add(reason)
        if is_new and not self._is_closed:
            self.on_refused(reason)

    def _secure_client(self, client: socket.socket) -> Channel:
        """Return the channel to a client, after the TLS handshake if the listener uses TLS."""
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.settings.server_tls is None:
            return client
        client.settimeout(CONNECT_TIMEOUT_SECONDS)
        return SecuredSocket(self.settings.server_tls.wrap_socket(client, server_side=True))

    def _connect_broker(self, broker: Address) -> Channel:
        try:
            server = socket.create_connection(broker, CONNECT_TIMEOUT_SECONDS)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.settings.upstream_tls is not None:
                return SecuredSocket(self.settings.upstream_tls.wrap_socket(server, server_hostname=broker[0]))
        except (OSError, ValueError, OverflowError) as error:
            raise _BrokerConnectionError(getattr(error, "strerror", None) or str(error)) from error
        server.settimeout(None)
        return server

    def _forward(
        self,
        source: Channel,
        target: Channel,
        conversation: ConversationWriter,
        side: int,
        feed: Callable[[memoryview], Iterable[bytes | memoryview]],
    ) -> None:
        """Forward the bytes of one direction until the stream ends.

        Bytes are written to the file before they are forwarded.
        """
        buffer = bytearray(CHUNK_BYTES)
        view, reset = memoryview(buffer), False
        try:
            while byte_count := source.recv_into(buffer):
                self._write_packets(
                    list(conversation.build_data_packets(side, view[:byte_count], time.time_ns())), byte_count
                )
                for part in feed(view[:byte_count]):
                    target.sendall(part)
        except OSError:
            reset = True
        with contextlib.suppress(OSError):
            self._write_packets([conversation.build_close_packet(side, time.time_ns(), reset=reset)])
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR if reset else socket.SHUT_WR)

    def _write_packets(self, packets: list[bytes], size: int = 0) -> None:
        start = time.monotonic()
        with self._file_lock:
            if self.failure is not None:
                raise self.failure
            with self._report_failure():  # data that cannot be recorded is not forwarded
                if not self._out.closed:
                    for packet in packets:
                        self._out.write(packet)
                    self._is_flushed = False
        seconds = time.monotonic() - start
        if seconds > SLOW_WRITE_SECONDS:
            self.on_slow(seconds)
        with self.counts.lock:
            self.counts.bytes += size

    @contextlib.contextmanager
    def _report_failure(self) -> Iterator[None]:
        """Store and report the file's first error."""
        try:
            yield
        except OSError as error:
            if self.failure is None:
                self.failure = error
                self.failed.set()
                self.on_failure()
            raise

    def _flush_regularly(self) -> None:
        """Flush buffered packets every second until the recorder is closed."""
        while not self._closing.wait(FLUSH_INTERVAL_SECONDS):
            with self._file_lock, contextlib.suppress(OSError):
                self._flush()

    def _flush(self) -> None:
        """Flush buffered packets. The caller holds the file lock."""
        if not self._is_flushed and not self._out.closed:
            with self._report_failure():
                self._out.flush()
                self._is_flushed = True

    def close(self) -> None:
        """Stop listening, end all connections and flush the file."""
        self._closing.set()
        with self._listener_lock:
            self._is_closed = True
            listeners, connections = [*self.listeners.values()], [*self._open]
        for entry in [*listeners, *connections]:
            with contextlib.suppress(OSError):
                entry.shutdown(socket.SHUT_RDWR)
        _close_connections(listeners)
        for thread in self._threads:
            thread.join(2)
        with self._file_lock, contextlib.suppress(OSError):
            self._flush()

    def __enter__(self) -> Recorder:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close_connections(ends: Iterable[Channel]) -> None:
    for entry in ends:
        with contextlib.suppress(OSError):
            entry.close()
