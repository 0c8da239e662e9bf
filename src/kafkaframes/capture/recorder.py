"""Record what clients and brokers say: a proxy in between that writes a capture. No root, no libpcap; TLS may end here.

A listener for each broker. Threads, two for each connection: each reads, writes the bytes into the file, and sends
them on. A slow disk therefore slows down all clients, and nothing is left out; ``on_slow`` is called. The file holds
real addresses of brokers, and their answers as they gave them. It is flushed every second, so that a recorder that is
killed loses no more than that. When the disk is full (``failure``), connections are reset.
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

from kafkaframes.capture.container import Conversation, file_header
from kafkaframes.capture.relay import Address, Answers, BrokerAddresses, Requests
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.registry import CATALOG, Apis


class SecuredSocket:
    """The methods of a socket that the recorder needs."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        """Take a socket whose handshake is done."""
        tls.setblocking(False)
        self._tls = tls
        self._lock = threading.Lock()

    def recv_into(self, buffer: bytearray) -> int:
        """Read what there is, at least a byte; 0 at the end."""
        try:
            return int(self._done(lambda: self._tls.recv_into(buffer)))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):  # with TLS's own goodbye, and as many clients leave
            return 0
        except ValueError:  # both sides have said goodbye
            return 0

    def sendall(self, data: bytes | memoryview) -> None:
        """Write everything."""
        view = memoryview(data)
        while len(view):
            part = view[: 1 << 18]
            view = view[self._done(lambda part=part: self._tls.send(part)) :]  # type: ignore[misc]

    def _done(self, call: Callable[[], Any]) -> Any:
        while True:
            try:
                with self._lock:
                    return call()
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN)
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT)

    def _wait(self, event: int) -> None:
        poll = select.poll()
        poll.register(self._tls.fileno(), event)
        poll.poll(1000)

    def shutdown(self, how: int) -> None:
        """Say goodbye in TLS, so that the other side does not take the end for an attack, and end TCP."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._tls.unwrap()  # what it waits for, the other side's goodbye, is read like everything else
        socket.socket.shutdown(self._tls, how)

    def close(self) -> None:
        """Close the socket."""
        self._tls.close()

    def getpeername(self) -> Any:
        """Return the address of the other side."""
        return self._tls.getpeername()


CHUNK_BYTES: Final = 256 << 10
SLOW_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 1.0  # between two writes to the disk, where little is recorded
CONNECT_SECONDS: Final = 10.0
MOST_UNKNOWN: Final = 1000
CLIENT, SERVER = 0, 1
Channel = socket.socket | SecuredSocket


@dataclass
class Settings:
    """How to record.

    Attributes:
        host: where listeners are.
        ports: their ports, the first for the first broker; when they are used up, any free ones.
        upstream: the first broker.
        server_tls: ends TLS for clients; None: they speak plain text.
        upstream_tls: begins TLS to brokers.
        apis: by whose specs answers are read; the catalog's by default.
        strict: end a connection rather than pass on an answer that may hold an address and is not understood.
    """

    host: str
    ports: tuple[int, ...]
    upstream: Address
    server_tls: ssl.SSLContext | None = None
    upstream_tls: ssl.SSLContext | None = None
    apis: Apis = CATALOG
    strict: bool = False


@dataclass
class Counts:
    """What was recorded so far."""

    connections: int = 0
    bytes: int = 0
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Recorder:
    """Runs until it is closed; everything that it opened is closed then."""

    def __init__(
        self,
        settings: Settings,
        out: IO[bytes],
        *,
        on_slow: Callable[[float], None] = lambda _: None,
        on_unknown: Callable[[str], None] = lambda _: None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Take settings and a file.

        Args:
            settings: how to record.
            out: the file, open for writing.
            on_slow: called with the seconds of a slow write.
            on_unknown: called with what was not understood, once each.
            on_failure: called when the file cannot be written any more.
        """
        self.settings, self.on_slow, self.on_unknown, self.on_failure = settings, on_slow, on_unknown, on_failure
        self.unknown: dict[str, None] = {}  # what was not understood, each once
        self._addresses = BrokerAddresses(settings.apis)
        self.counts = Counts()
        self.listeners: dict[Address, socket.socket] = {}
        self._out = out
        out.write(file_header("kafkaframes record"))
        self._file_lock, self._listener_lock = threading.Lock(), threading.Lock()
        self._ports = list(settings.ports)
        self._open: set[Channel] = set()  # changed under the lock of listeners, as ``_closed`` is
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.failure: OSError | None = None  # why nothing more could be written
        self.failed = threading.Event()
        self._closing = threading.Event()
        self._is_flushed = False
        self._flusher: threading.Thread | None = None

    def start(self) -> Address:
        """Listen for the first broker; return where."""
        address = self.local_of(self.settings.upstream)
        if self._flusher is None:
            self._flusher = self._run(self._flush_regularly)
        return address

    def local_of(self, broker: Address, *, seen_as: str | None = None) -> Address:
        """Return where a broker is found on this side; the first time that it is asked for, a listener is opened.

        Raises:
            OptionError: no listener can be opened.
        """
        with self._listener_lock:
            listener = self.listeners.get(broker)
            if listener is None and self._closed:
                raise OptionError(f"no listener for {broker[0]}:{broker[1]}: recording has ended")
            if listener is None:
                listener = self.listeners[broker] = self._listen(broker)
                self._run(self._accept, listener, broker)
        host, port = listener.getsockname()[:2]
        if host in ("0.0.0.0", "::") and seen_as is not None:
            host = seen_as
        return host, port

    def _listen(self, broker: Address) -> socket.socket:
        port = self._ports.pop(0) if self._ports else 0
        family = socket.AF_INET6 if ":" in self.settings.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.settings.host, port))
            listener.listen(128)
        except (OSError, TypeError) as error:  # the latter: a host's name that cannot be encoded
            listener.close()
            raise OptionError(
                f"cannot listen on {self.settings.host}:{port} for {broker[0]}:{broker[1]}: {error}"
            ) from None
        return listener

    def _run(self, function: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self, listener: socket.socket, broker: Address) -> None:
        while not self._closed:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._run(self._serve, client, broker)

    def _serve(self, client: socket.socket, broker: Address) -> None:
        """Record one connection."""
        ends: list[Channel] = [client]
        try:
            peer, own = client.getpeername()[:2], client.getsockname()[0]  # fails where the client has gone already
            ends[0] = self._secured(client)
            ends.append(self._connected(broker))
            real = ends[1].getpeername()[:2]
        except (OSError, ValueError, OverflowError):  # no host's name, no port, which brokers may tell, too
            with self.counts.lock:
                self.counts.refused += 1
            _close(ends)
            return
        with self._listener_lock:
            if self._closed:  # while it was made: nobody else would end it
                _close(ends)
                return
            self._open.update(ends)
        near, far = ends
        with self.counts.lock:
            self.counts.connections += 1
            number = self.counts.connections
        talk = Conversation((peer[0], peer[1]), (real[0], real[1]), initial=number << 12)
        with contextlib.suppress(OSError):  # the first bytes tell
            self._record([talk.opening(time.time_ns())])
        requests = Requests()
        answers = Answers(
            requests,
            lambda address: self.local_of(address, seen_as=own),
            addresses=self._addresses,
            on_unknown=self._report_unknown,
        )
        other = threading.Thread(target=self._pump, args=(far, near, talk, SERVER, answers.feed), daemon=True)
        other.start()

        def passed(data: memoryview) -> list[memoryview]:
            requests.feed(data)
            return [data]

        self._pump(near, far, talk, CLIENT, passed)
        other.join()
        with self._listener_lock:
            self._open.difference_update(ends)
        _close(ends)

    def _report_unknown(self, what: str) -> None:
        """Report what may hold an address that was not replaced, each once; with ``strict`` the connection ends."""
        with self.counts.lock:
            is_new = what not in self.unknown and len(self.unknown) < MOST_UNKNOWN
            if is_new:
                self.unknown[what] = None
        if is_new:
            self.on_unknown(what)
        if self.settings.strict:
            raise ConnectionAbortedError(what)

    def _secured(self, client: socket.socket) -> Channel:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.settings.server_tls is None:
            return client
        client.settimeout(CONNECT_SECONDS)
        return SecuredSocket(self.settings.server_tls.wrap_socket(client, server_side=True))

    def _connected(self, broker: Address) -> Channel:
        server = socket.create_connection(broker, CONNECT_SECONDS)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.settings.upstream_tls is not None:
            return SecuredSocket(self.settings.upstream_tls.wrap_socket(server, server_hostname=broker[0]))
        server.settimeout(None)
        return server

    def _pump(
        self,
        source: Channel,
        target: Channel,
        talk: Conversation,
        side: int,
        feed: Callable[[memoryview], Iterable[bytes | memoryview]],
    ) -> None:
        """Pass one direction on until it ends; what arrives is in the file before anybody else sees it."""
        buffer = bytearray(CHUNK_BYTES)
        view, reset = memoryview(buffer), False
        try:
            while got := source.recv_into(buffer):
                self._record(list(talk.data(side, view[:got], time.time_ns())), got)
                for part in feed(view[:got]):
                    target.sendall(part)
        except OSError:
            reset = True
        with contextlib.suppress(OSError):
            self._record([talk.closing(side, time.time_ns(), reset=reset)])
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR if reset else socket.SHUT_WR)

    def _record(self, packets: list[bytes], size: int = 0) -> None:
        started = time.monotonic()
        with self._file_lock:
            if self.failure is not None:
                raise self.failure
            with self._failing():  # what cannot be recorded is not passed on either
                if not self._out.closed:
                    for packet in packets:
                        self._out.write(packet)
                    self._is_flushed = False
        taken = time.monotonic() - started
        if taken > SLOW_SECONDS:
            self.on_slow(taken)
        with self.counts.lock:
            self.counts.bytes += size

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Keep the first error of the file, and report it."""
        try:
            yield
        except OSError as error:
            if self.failure is None:
                self.failure = error
                self.failed.set()
                self.on_failure()
            raise

    def _flush_regularly(self) -> None:
        """Write buffered packets to the disk every second, until the recorder is closed."""
        while not self._closing.wait(FLUSH_SECONDS):
            with self._file_lock, contextlib.suppress(OSError):
                self._flush()

    def _flush(self) -> None:
        """Write buffered packets to the disk; the caller holds the lock of the file."""
        if not self._is_flushed and not self._out.closed:
            with self._failing():
                self._out.flush()
                self._is_flushed = True

    def close(self) -> None:
        """Stop listening, end all connections, write what is left."""
        self._closing.set()
        with self._listener_lock:
            self._closed = True
            listeners, connections = [*self.listeners.values()], [*self._open]
        for entry in [*listeners, *connections]:
            with contextlib.suppress(OSError):
                entry.shutdown(socket.SHUT_RDWR)
        _close(listeners)
        for thread in self._threads:
            thread.join(2)
        with self._file_lock, contextlib.suppress(OSError):
            self._flush()

    def __enter__(self) -> Recorder:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close(ends: Iterable[Channel]) -> None:
    for entry in ends:
        with contextlib.suppress(OSError):
            entry.close()
