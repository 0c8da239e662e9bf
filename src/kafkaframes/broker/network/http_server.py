"""An HTTP server for controls, metrics and the schema registry: each route calls a function, and each connection has a
thread.

``RequestGuard`` protects the server from web pages in a local browser: it checks Host, Origin, token and content type
before a route is selected. A web page can send requests to the local host. However, a page cannot choose the Host
except with DNS rebinding, cannot hide its Origin, and cannot send JSON or a token without a preflight request, which
this server never allows. Connections, header bytes, body bytes and the time for a request are limited.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import math
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from email.message import Message as Headers
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from kafkaframes.errors import EncodeError, KafkaframesError
from kafkaframes.errors.sensitive import redact_text
from kafkaframes.records.strict_json import parse_json

_LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_WILDCARD_HOSTS: Final = frozenset({"", "0.0.0.0", "::"})
_METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_DEFAULT_HTTP_PORT: Final = 80


class HttpError(Exception):
    """An error response. ``code`` is an error number for programs; by default the HTTP status."""

    def __init__(self, status: int, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = status if code is None else code


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestGuard:
    """The security checks that an HTTP server applies to each request.

    Attributes:
        token: bearer token that requests must contain; None if no token is required.
        body_types: accepted content types of bodies.
    """

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    body_types: tuple[str, ...] = ("application/json",)

    def check(self, method: str, headers: Headers, *, has_body: bool) -> None:
        """Check the headers of a request.

        Raises:
            HttpError: the request has another host, another origin, no valid token, or an unsupported content type.
        """
        hosts = headers.get_all("Host", ())
        if len(hosts) != 1 or not self.is_own_host(hosts[0]):
            raise HttpError(HTTPStatus.FORBIDDEN, "the Host header does not name this server")
        origins = headers.get_all("Origin", ())
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            raise HttpError(HTTPStatus.FORBIDDEN, "requests from other sites are rejected (Origin)")
        if self.token is not None and not self._has_valid_token(headers.get_all("Authorization", ())):
            raise HttpError(HTTPStatus.UNAUTHORIZED, "the request requires the header Authorization: Bearer TOKEN")
        if has_body or method in _METHODS_WITH_BODY:
            self._check_content_type(method, headers.get_content_type() if "Content-Type" in headers else "none")

    def _has_valid_token(self, values: list[str] | tuple[()]) -> bool:
        assert self.token is not None
        scheme, _, token = (values[0] if len(values) == 1 else "").partition(" ")
        sent_token, expected_token = token.strip().encode("utf-8", "surrogateescape"), self.token.encode()
        return hmac.compare_digest(sent_token, expected_token) and scheme.lower() == "bearer"

    def _check_content_type(self, method: str, kind: str) -> None:
        if kind not in self.body_types:
            reason = f"{method} requires Content-Type: {self.body_types[0]}, not {kind[:60]}"
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, reason)

    def is_own_host(self, text: str) -> bool:
        """Return whether a Host header names this server.

        >>> guard = RequestGuard(host="127.0.0.1", port=8765)
        >>> [guard.is_own_host(text) for text in ("localhost:8765", "[::1]:8765", "evil.example:8765", "localhost")]
        [True, True, False, False]
        """
        try:
            parts = urlsplit(f"//{text}")
            name, port = parts.hostname or "", parts.port or _DEFAULT_HTTP_PORT
        except ValueError:
            return False
        if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
            return False
        if self.host in _WILDCARD_HOSTS:  # a container's port may be mapped to a different port of the host
            return name in _LOOPBACK_HOSTS or name == socket.gethostname().lower() or _is_ip_address(name)
        return port == self.port and (name in _LOOPBACK_HOSTS or name == self.host.lower())


def _is_ip_address(name: str) -> bool:
    """Return whether a name is an IP address. DNS rebinding cannot produce a Host header with an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


MAX_BODY_BYTES: Final = 64 << 20
MAX_HEAD_BYTES: Final = 32 << 10
MAX_CONNECTIONS: Final = 128
TIMEOUT_SECONDS: Final = 30.0  # limit for sending a request, for reading a response, and between two requests


class PlainTextResponse(NamedTuple):
    """A response that is plain text instead of JSON."""

    text: str
    content_type: str


class HttpRequest(NamedTuple):
    """A request: the variable steps of its path, its query, and its decoded body (None without one)."""

    path: tuple[str, ...]
    query: Mapping[str, str]
    body: Any

    def get_field(self, name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """Return a field of the body, which must be a JSON object.

        Raises:
            HttpError: status 400: the body is not an object, lacks the field, or the field has another type.
        """
        body = {} if self.body is None else self.body
        if not isinstance(body, dict):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body must be a JSON object")
        value = body.get(name, default)
        if value is ...:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"the body lacks the field {name!r}")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if name in body and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            names = " or ".join(field_type.__name__ for field_type in kinds)
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{name!r} must be {names}, not {json.dumps(value)[:60]}")
        return value

    def reject_unknown_fields(self, *accepted_names: str) -> None:
        """Reject unknown fields in the body and unknown parameters in the query.

        Raises:
            HttpError: status 400: a name is unknown.
        """
        for name in (*(self.body if isinstance(self.body, dict) else ()), *self.query):
            if name not in accepted_names:
                suggestions = get_close_matches(name, accepted_names, 1)
                hint = f"did you mean {suggestions[0]!r}? " if suggestions else ""
                accepted_list = ", ".join(accepted_names) or "none"
                raise HttpError(HTTPStatus.BAD_REQUEST, f"unknown field {name[:60]!r}; {hint}expected {accepted_list}")

    def get_number(self, name: str, default: int | None = None) -> int | None:
        """Return an integer parameter of the query; raise an ``HttpError`` with status 400 if it is not an integer."""
        text = self.query.get(name)
        if text is None:
            return default
        if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{name} must be an integer, not {text[:60]!r}")
        return int(text)


Handler = Callable[[HttpRequest], Any]


class Route(NamedTuple):
    """A method and a path, with their handler. ``{}`` in the path matches one step, which is passed to the handler.

    A handler that returns None is answered with an empty object.

    Attributes:
        meaning: description of the route.
        accepts: accepted names of body fields and query parameters; None if the handler checks them.
    """

    method: str
    path: str
    handler: Handler
    meaning: str = ""
    accepts: tuple[str, ...] | None = None


class HttpServer:
    """An HTTP server that listens at one address, with a thread for each connection.

    Args:
        routes: tried in order.
        port: port to listen on; 0 selects a free port.
        content_type: content type of JSON responses.
        token, body_types: arguments of ``RequestGuard``.
        max_body_bytes: largest body of a request, in bytes.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        content_type: str = "application/json",
        token: str | None = None,
        body_types: tuple[str, ...] = ("application/json",),
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.max_body_bytes = max_body_bytes
        self.routes = tuple(routes)
        self.content_type = content_type
        self._patterns = [_pattern(route.path) for route in self.routes]
        self._server = _SocketServer((host, port), self)
        self.guard = RequestGuard(host=host, port=self.port, token=token, body_types=body_types)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port of the listening socket."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The URL of the server: ``http://HOST:PORT``."""
        host = str(self._server.server_address[0])
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self._server.shutdown()
        self._server.server_close()
        self._server.end_connections()
        self._thread.join(TIMEOUT_SECONDS)

    def check_request(self, method: str, headers: Any, *, has_body: bool) -> tuple[int, Any] | None:
        """Return the error for the headers of a request; None if they are valid."""
        try:
            self.guard.check(method, headers, has_body=has_body)
        except HttpError as error:
            return error.status, {"error_code": error.code, "message": str(error)}
        return None

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Any]:
        """Handle a request; return the status and the body of the response."""
        try:
            return HTTPStatus.OK, self._dispatch_request(method, target, body)
        except HttpError as error:
            return error.status, {"error_code": error.code, "message": str(error)}
        except KafkaframesError as error:
            status, reason = HTTPStatus.BAD_REQUEST, redact_text(str(error))
        except Exception as error:  # a bug in a handler; its message may contain secrets
            status, reason = HTTPStatus.INTERNAL_SERVER_ERROR, f"failed inside: {type(error).__name__}"
        return status, {"error_code": int(status), "message": reason}

    def _dispatch_request(self, method: str, target: str, body: bytes) -> Any:
        """Return the response from the route's handler. Raise HttpError if no route matches."""
        parts = urlsplit(target)
        query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        allowed_methods = []
        for route, pattern in zip(self.routes, self._patterns, strict=True):
            match = pattern.fullmatch(parts.path)
            if match is not None and route.method == method:
                request = HttpRequest(tuple(map(unquote, match.groups())), query, _decode_body(body))
                if route.accepts is not None:
                    request.reject_unknown_fields(*route.accepts)
                answer = route.handler(request)
                return {} if answer is None else answer
            if match is not None:
                allowed_methods.append(route.method)
        if allowed_methods:
            reason = f"{parts.path} does not support {method}; expected {', '.join(allowed_methods)}"
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, reason)
        raise HttpError(HTTPStatus.NOT_FOUND, f"nothing at {parts.path[:200]}")


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile("([^/]+)".join(re.escape(part) for part in path.split("{}")))


def _decode_body(body: bytes) -> Any:
    if not body.strip():
        return None
    try:
        value = parse_json(body)
        json.dumps(value, ensure_ascii=False).encode()  # fails for lone surrogates, which are not valid Unicode
    except UnicodeEncodeError:
        raise HttpError(
            HTTPStatus.BAD_REQUEST, "the body contains a lone surrogate, which is not valid Unicode"
        ) from None
    except EncodeError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the body is invalid: {error}") from None
    return value


class _SocketServer(ThreadingHTTPServer):
    """A socket server that limits its connections, and closes connections that take too long to send a request."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], owner: HttpServer) -> None:
        self.owner = owner
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._open: dict[socket.socket, float] = {}  # deadline of each connection's next complete request
        self._lock = threading.Lock()
        super().__init__(address, _HttpConnection)

    def server_bind(self) -> None:
        """Bind without the reverse DNS lookup of the standard library."""
        socketserver.TCPServer.server_bind(self)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Reject a connection above the limit."""
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                return False
            self._open[request] = time.monotonic() + TIMEOUT_SECONDS
        return True

    def set_request_deadline(self, connection: socket.socket, seconds: float) -> None:
        """Set the time after which a connection is closed, in seconds; infinite while a request is handled."""
        with self._lock:
            if connection in self._open:
                self._open[connection] = time.monotonic() + seconds

    def service_actions(self) -> None:
        """Close connections after their deadline."""
        now = time.monotonic()
        with self._lock:
            overdue_connections = [connection for connection, deadline in self._open.items() if deadline < now]
        for connection in overdue_connections:
            _close_connection(connection)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and remove it from the count."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """Close all connections."""
        with self._lock:
            open_connections = list(self._open)
        for connection in open_connections:
            _close_connection(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing, because a client may disconnect at any time."""


def _close_connection(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _TooLongError(Exception):
    """Raised if the headers of a request exceed the size limit."""


class _RequestReader:
    """A reader of a connection that limits the size of the headers."""

    def __init__(self, raw: BufferedIOBase) -> None:
        self._raw, self.remaining_bytes = raw, MAX_HEAD_BYTES

    def readline(self, limit: int = -1) -> bytes:
        line = self._raw.readline(self.remaining_bytes + 1)
        self.remaining_bytes -= len(line)
        if self.remaining_bytes < 0:
            raise _TooLongError
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


class _HttpConnection(BaseHTTPRequestHandler):
    """A connection. The standard library creates an instance for each connection, in a thread."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_SECONDS
    server: _SocketServer

    def setup(self) -> None:
        super().setup()
        self.rfile: Any = _RequestReader(self.rfile)

    def handle_one_request(self) -> None:
        self.rfile.left = MAX_HEAD_BYTES
        self.server.set_request_deadline(self.connection, TIMEOUT_SECONDS)
        try:
            super().handle_one_request()
        except _TooLongError:
            self.close_connection = True
            self.requestline, self.request_version, self.command = "", self.protocol_version, ""
            self._send_error(431, f"the headers exceed {MAX_HEAD_BYTES} bytes")

    def do_GET(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or len(self.headers.get_all("Content-Length", ())) > 1:
            self._send_error(
                HTTPStatus.NOT_IMPLEMENTED, "a body requires exactly one Content-Length and no Transfer-Encoding"
            )
            return
        max_body_bytes = self.server.owner.max_body_bytes
        if not (length.isascii() and length.isdecimal()) or int(length) > max_body_bytes:
            reason = f"Content-Length must be at most {max_body_bytes} bytes"
            self._send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
            return
        refusal = self.server.owner.check_request(self.command, self.headers, has_body=length != "0")
        if refusal is not None:
            self.close_connection = True
            self._send_response(*refusal)
            return
        body = self.rfile.read(int(length))
        self.server.set_request_deadline(self.connection, math.inf)
        self._send_response(*self.server.owner.answer(self.command, self.path, body))

    do_POST = do_PUT = do_DELETE = do_PATCH = do_GET  # noqa: N815 - names of the standard library

    def _send_error(self, status: int, reason: str) -> None:
        self.close_connection = True
        self._send_response(status, {"error_code": int(status), "message": reason})

    def _send_response(self, status: int, answer: Any) -> None:
        is_text = isinstance(answer, PlainTextResponse)
        data = (answer.text if is_text else json.dumps(answer, default=str)).encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", answer.content_type if is_text else self.server.owner.content_type)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *parts: Any) -> None:
        """Log nothing, so that the output of tests contains no requests."""
