"""Which HTTP requests are answered at all: for this server by name, from no foreign web page, with the token.

A page that a browser shows can send requests to this machine. It cannot choose their Host, unless its own name leads
here (DNS rebinding), nor hide its Origin, nor send JSON or a token without asking first, which nothing here allows.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from dataclasses import dataclass, field
from email.message import Message as Headers
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ALL_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_HTTP_PORT: Final = 80


class HttpError(Exception):
    """An answer that is an error.

    Attributes:
        status: of HTTP.
        code: a number for programs; the status by default.
    """

    def __init__(self, status: int, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = status if code is None else code


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What is checked of each request.

    Attributes:
        host: the address that is listened on.
        port: the port.
        token: what requests have to bear; None: nothing.
        body_types: the types of bodies that are taken.
    """

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    body_types: tuple[str, ...] = ("application/json",)

    def check(self, method: str, headers: Headers, *, has_body: bool) -> None:
        """Let a request pass.

        Raises:
            HttpError: for another host, from another site, without the token, or of another type than JSON.
        """
        hosts = headers.get_all("Host", ())
        if len(hosts) != 1 or not self.is_own_host(hosts[0]):
            raise HttpError(HTTPStatus.FORBIDDEN, "the Host is not this server's")
        origins = headers.get_all("Origin", ())
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            raise HttpError(HTTPStatus.FORBIDDEN, "requests of other sites are not answered (Origin)")
        if self.token is not None and not self._bears_token(headers.get_all("Authorization", ())):
            raise HttpError(HTTPStatus.UNAUTHORIZED, "this needs the header Authorization: Bearer TOKEN")
        if has_body or method in _WITH_BODY:
            self._check_type(method, headers.get_content_type() if "Content-Type" in headers else "none")

    def _bears_token(self, values: list[str] | tuple[()]) -> bool:
        assert self.token is not None
        scheme, _, token = (values[0] if len(values) == 1 else "").partition(" ")
        sent, own = token.strip().encode("utf-8", "surrogateescape"), self.token.encode()
        return hmac.compare_digest(sent, own) and scheme.lower() == "bearer"

    def _check_type(self, method: str, kind: str) -> None:
        if kind not in self.body_types:
            reason = f"{method} takes Content-Type: {self.body_types[0]}, not {kind[:60]}"
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, reason)

    def is_own_host(self, text: str) -> bool:
        """Return whether a Host header names this server.

        >>> guard = Guard(host="127.0.0.1", port=8765)
        >>> [guard.is_own_host(text) for text in ("localhost:8765", "[::1]:8765", "evil.example:8765", "localhost")]
        [True, True, False, False]
        """
        try:
            parts = urlsplit(f"//{text}")
            name, port = parts.hostname or "", parts.port or _HTTP_PORT
        except ValueError:
            return False
        if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
            return False
        if self.host in _ALL_ADDRESSES:  # a container's port may have another number outside
            return name in _LOOPBACK or name == socket.gethostname().lower() or _is_address(name)
        return port == self.port and (name in _LOOPBACK or name == self.host.lower())


def _is_address(name: str) -> bool:
    """Return whether a name is an address, which no foreign name can stand for."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
