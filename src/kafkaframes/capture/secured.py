"""One end of TLS that two threads share: one reads while the other writes.

OpenSSL allows no two calls at once on a connection, and Python 3.11's ``ssl`` does not lock it. Here a lock is held for
a call that does not wait, and the waiting is done outside. ``ssl.SSLSocket.shutdown`` ends TLS for reading, too, so
that what the other side still sends would be taken for plain text: here one direction is ended and nothing else.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any


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
            piece = view[: 1 << 18]
            view = view[self._done(lambda piece=piece: self._tls.send(piece)) :]  # type: ignore[misc]

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
