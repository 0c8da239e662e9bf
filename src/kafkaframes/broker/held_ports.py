"""Keep the ports of a broker that is down for a moment from being given to anybody else.

The system gives the port of a listener that was closed to the next who asks for any port, a client's connection too:
a broker could not come back where its clients look for it. A socket that is bound, and does not listen, keeps the port;
who connects meanwhile is refused, as by a broker that is down.
"""

from __future__ import annotations

import contextlib
import socket


class HeldPorts:
    """Ports that are kept until they are let go."""

    def __init__(self) -> None:
        self._sockets: dict[int, socket.socket] = {}  # by port

    def hold(self, host: str, port: int) -> None:
        """Keep a port; one that somebody has already cannot be kept, which is no error here."""
        self.let_go(port)
        with contextlib.suppress(OSError):
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            held = self._sockets[port] = socket.socket(family, kind)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that were closed are no obstacle
            held.bind(address)

    def let_go(self, port: int) -> None:
        """Keep a port no more, so that its broker can listen."""
        if port in self._sockets:
            self._sockets.pop(port).close()

    def let_all_go(self) -> None:
        """Keep none any more."""
        for port in tuple(self._sockets):
            self.let_go(port)

    def __del__(self) -> None:
        self.let_all_go()
