"""Accept the connections of one listener, as long as enough file descriptors are left for everything else.

A connection for which none is left waits in the system's queue, where clients see it as connecting. It is accepted when
another one is closed. asyncio's own server accepts without looking, and reports every second that it cannot.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from kafkaframes.storage.files.descriptors import (
    NO_DESCRIPTORS,
    descriptor_limit,
    free_descriptors,
    reserved_descriptors,
)

BACKLOG: Final = 1024
_ACCEPTED_AT_ONCE: Final = 100
_RETRY_SECONDS: Final = 0.5
_LOG = logging.getLogger(__name__)


class DescriptorBudget:
    """How many connections the listeners of a broker may accept before they look at what is left again.

    Args:
        release_files: closes files that can be opened again; returns False if there are none.
    """

    def __init__(self, release_files: Callable[[], bool]) -> None:
        self._release_files = release_files
        self._left = 0
        self._is_exhausted = False

    def take(self) -> bool:
        """Return whether one more connection may be accepted."""
        if self._left < 1:
            self._left = self._count()
        self._left -= 1
        if self._left < 0 and not self._is_exhausted:
            _LOG.warning(
                "connections wait: %d file descriptors are the limit of this process; raise it with ulimit -n",
                descriptor_limit(),
            )
        self._is_exhausted = self._left < 0
        return not self._is_exhausted

    def _count(self) -> int:
        """Return half of the free descriptors above the reserve, rounded up: files are opened in the meantime."""
        while (free := free_descriptors() - reserved_descriptors()) < 1:
            if not self._release_files():
                return 0
        return (free + 1) // 2


class Acceptor:
    """The listening sockets of one listener.

    Args:
        make_connection: returns the protocol of a new connection.
        tls: for a listener with TLS.
    """

    def __init__(
        self,
        make_connection: Callable[[], asyncio.BufferedProtocol],
        sockets: Sequence[socket.socket],
        budget: DescriptorBudget,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.port = int(sockets[0].getsockname()[1])
        self.opening: set[asyncio.Task[Any]] = set()  # accepted, without a transport yet
        self._make_connection = make_connection
        self._sockets = tuple(sockets)
        self._budget = budget
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self.resume()

    def resume(self) -> None:
        """Accept connections, again if it had to wait for descriptors."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        for listening in self._sockets:
            if listening.fileno() >= 0:
                self._loop.add_reader(listening.fileno(), self._accept, listening)

    @property
    def is_waiting(self) -> bool:
        """Whether connections wait for a descriptor."""
        return self._retry is not None

    def _wait(self) -> None:
        for listening in self._sockets:
            self._loop.remove_reader(listening.fileno())
        self._retry = self._loop.call_later(_RETRY_SECONDS, self.resume)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if not self._budget.take():
                self._wait()
                return
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS:
                    _LOG.warning("a connection cannot be accepted: %s", error)
                self._wait()
                return
            accepted.setblocking(False)
            self._open(accepted)

    def _open(self, accepted: socket.socket) -> None:
        making = self._loop.connect_accepted_socket(self._make_connection, accepted, ssl=self._tls)
        task = self._loop.create_task(making)
        self.opening.add(task)

        def finish(done: asyncio.Task[Any]) -> None:
            self.opening.discard(done)
            if done.cancelled():
                accepted.close()
            elif (error := done.exception()) is not None:  # a TLS handshake that fails, for example
                _LOG.debug("a connection was not established: %s", error)
                accepted.close()

        task.add_done_callback(finish)

    def close(self) -> None:
        """Close the listening sockets; connections that are being established are dropped."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        for listening in self._sockets:
            if listening.fileno() >= 0:
                self._loop.remove_reader(listening.fileno())
                listening.close()
        for task in tuple(self.opening):
            task.cancel()


async def bind(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on each address of a host.

    Raises:
        OSError: an address cannot be bound.
    """
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
            listening.setblocking(False)
    except OSError as error:
        for listening in sockets:
            listening.close()
        reason = f"error while attempting to bind on address {address!r}: {(error.strerror or str(error)).lower()}"
        raise OSError(error.errno, reason) from None
    return sockets
