"""Accept the connections of a listener while enough file descriptors are free for the rest of the process.

If too few descriptors are free, new connections wait in the listener's backlog, and clients see them as connecting.
Waiting connections are accepted after other connections are closed. In contrast, asyncio's server does not limit
connections, and logs an error every second while no descriptor is free.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from kafkaframes.storage.files.descriptors import (
    TOO_MANY_FILES_ERRORS,
    count_free_descriptors,
    count_reserved_descriptors,
    get_descriptor_limit,
)

LISTEN_BACKLOG: Final = 1024
_MAX_ACCEPTS_PER_EVENT: Final = 100
_ACCEPT_RETRY_SECONDS: Final = 0.5
_WARNING_INTERVAL_SECONDS: Final = 60.0
_LOGGER = logging.getLogger("kafkaframes.broker")


class DescriptorBudget:
    """The number of connections that a broker's listeners may accept before free descriptors are counted again.

    A warning is logged when connections begin to wait, at most once a minute: while clients connect and disconnect
    near the limit, connections begin to wait many times a second.

    Args:
        release_files: function that closes files that can be reopened later, and returns whether it closed any.
    """

    def __init__(self, release_files: Callable[[], bool]) -> None:
        self._release_files = release_files
        self._remaining = 0
        self._is_exhausted = False
        self._next_warning_s = 0.0  # time.monotonic()

    def take_slot(self) -> bool:
        """Return whether one more connection may be accepted."""
        if self._remaining < 1:
            self._remaining = self._count_acceptable()
        self._remaining -= 1
        if self._remaining < 0 and not self._is_exhausted and time.monotonic() >= self._next_warning_s:
            self._next_warning_s = time.monotonic() + _WARNING_INTERVAL_SECONDS
            _LOGGER.warning(
                "connections wait: the process has reached its limit of %d file descriptors; raise it with ulimit -n",
                get_descriptor_limit(),
            )
        self._is_exhausted = self._remaining < 0
        return not self._is_exhausted

    def _count_acceptable(self) -> int:
        """Return half of the free descriptors above the reserve, rounded up.

        The remaining descriptors are for files.
        """
        while (free_count := count_free_descriptors() - count_reserved_descriptors()) < 1:
            if not self._release_files():
                return 0
        return (free_count + 1) // 2


class Acceptor:
    """The listening sockets of one listener.

    Args:
        make_connection: creates the protocol object of a new connection.
        sockets: listening sockets.
        budget: limit that all listeners of the broker share.
        tls: TLS configuration of the listener; None without TLS.
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
        self.opening: set[asyncio.Task[Any]] = set()  # accepted connections that have no transport yet
        self._make_connection = make_connection
        self._sockets = tuple(sockets)
        self._budget = budget
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None

    def resume(self) -> None:
        """Start to accept connections, or continue after a wait for descriptors."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        for listening in self._sockets:
            if listening.fileno() >= 0:
                self._loop.add_reader(listening.fileno(), self._accept_connections, listening)

    @property
    def is_waiting(self) -> bool:
        """Whether connections wait for a descriptor."""
        return self._retry is not None

    def _wait_for_descriptors(self) -> None:
        """Stop accepting connections for half a second, because too few file descriptors are free."""
        for listening in self._sockets:
            self._loop.remove_reader(listening.fileno())
        self._retry = self._loop.call_later(_ACCEPT_RETRY_SECONDS, self.resume)

    def _accept_connections(self, listening: socket.socket) -> None:
        """Accept waiting connections while descriptors are available."""
        for _ in range(_MAX_ACCEPTS_PER_EVENT):
            if not self._budget.take_slot():
                self._wait_for_descriptors()
                return
            try:
                client_socket, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in TOO_MANY_FILES_ERRORS:
                    _LOGGER.warning("a connection cannot be accepted: %s", error)
                self._wait_for_descriptors()
                return
            client_socket.setblocking(False)
            self._open_connection(client_socket)

    def _open_connection(self, client_socket: socket.socket) -> None:
        """Start a connection's TLS handshake and protocol."""
        setup = self._loop.connect_accepted_socket(self._make_connection, client_socket, ssl=self._tls)
        task = self._loop.create_task(setup)
        self.opening.add(task)

        def finish_opening(task: asyncio.Task[Any]) -> None:
            self.opening.discard(task)
            if task.cancelled():
                client_socket.close()
            elif (error := task.exception()) is not None:  # the connection failed, for example in the TLS handshake
                _LOGGER.debug("a connection was not established: %s", error)
                client_socket.close()

        task.add_done_callback(finish_opening)

    def close(self) -> None:
        """Close the listening sockets, and abort connections that are not established yet."""
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
            listening.listen(LISTEN_BACKLOG)
            listening.setblocking(False)
    except OSError as error:
        for listening in sockets:
            listening.close()
        reason = f"error while attempting to bind on address {address!r}: {(error.strerror or str(error)).lower()}"
        raise OSError(error.errno, reason) from None
    return sockets
