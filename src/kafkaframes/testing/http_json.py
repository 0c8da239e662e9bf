"""JSON over HTTP in threads of its own, for test servers: routes to functions, errors as JSON, bounded bodies."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from kafkaframes.errors import KafkaframesError

MOST_BODY_BYTES = 64 << 20
_IDLE_SECONDS = 30.0


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


class Asked(NamedTuple):
    """A request: what stood in the path, the query, and the decoded body (None without one)."""

    path: tuple[str, ...]
    query: Mapping[str, str]
    body: Any

    def field(self, name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """Return a field of the body, which is an object.

        Raises:
            HttpError: 400: the body is none, lacks the field, or it is of another type.
        """
        body = {} if self.body is None else self.body
        if not isinstance(body, dict):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is a JSON object")
        value = body.get(name, default)
        if value is ...:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"the body lacks {name!r}")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if name in body and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            wanted = " or ".join(one.__name__ for one in kinds)
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{name!r} is {wanted}, not {json.dumps(value)[:60]}")
        return value

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number of the query.

        Raises:
            HttpError: 400: it is none.
        """
        text = self.query.get(name)
        if text is None:
            return default
        if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{name} is a number, not {text[:60]!r}")
        return int(text)


Handler = Callable[[Asked], Any]


class Route(NamedTuple):
    """What answers a method and a path; ``{}`` in the path stands for one step, given to the handler."""

    method: str
    path: str
    handler: Handler
    meaning: str = ""


class JsonServer:
    """Routes on an address, each request in a thread.

    Args:
        routes: asked in order.
        host: the address to listen on.
        port: 0 for a free one, see ``port``.
        content_type: of the answers.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        content_type: str = "application/json",
    ) -> None:
        self.routes = tuple(routes)
        self.content_type = content_type
        self._patterns = [_pattern(route.path) for route in self.routes]
        self._server = ThreadingHTTPServer((host, port), _handler_class(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """``http://HOST:PORT``."""
        return f"http://{self._server.server_address[0]!s}:{self.port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_IDLE_SECONDS)

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Any]:
        """Return the status of a request and what is answered."""
        try:
            return HTTPStatus.OK, self._route(method, target, body)
        except HttpError as error:
            return error.status, {"error_code": error.code, "message": str(error)}
        except KafkaframesError as error:
            return HTTPStatus.BAD_REQUEST, {"error_code": int(HTTPStatus.BAD_REQUEST), "message": str(error)}

    def _route(self, method: str, target: str, body: bytes) -> Any:
        parts = urlsplit(target)
        query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        allowed = []
        for route, pattern in zip(self.routes, self._patterns, strict=True):
            found = pattern.fullmatch(parts.path)
            if found is not None and route.method == method:
                return route.handler(Asked(tuple(map(unquote, found.groups())), query, _decoded(body)))
            if found is not None:
                allowed.append(route.method)
        if allowed:
            reason = f"{method} is not for {parts.path}, only {', '.join(allowed)}"
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, reason)
        raise HttpError(HTTPStatus.NOT_FOUND, f"nothing at {parts.path[:200]}")


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile("([^/]+)".join(re.escape(part) for part in path.split("{}")))


def _decoded(body: bytes) -> Any:
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {error}") from None


def _handler_class(server: JsonServer) -> type[BaseHTTPRequestHandler]:
    """Return the class that the library makes an instance of for each connection."""

    class OneRequest(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _IDLE_SECONDS

        def do_GET(self) -> None:
            length = self.headers.get("Content-Length", "0")
            if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
                self.close_connection = True
                reason = f"a body has a Content-Length of at most {MOST_BODY_BYTES} bytes"
                self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error_code": 413, "message": reason})
                return
            body = self.rfile.read(int(length))
            self._send(*server.answer(self.command, self.path, body))

        do_POST = do_PUT = do_DELETE = do_PATCH = do_GET  # noqa: N815 - the library's names

        def _send(self, status: int, answer: Any) -> None:
            data = json.dumps(answer, default=str).encode()
            self.send_response(status)
            self.send_header("Content-Type", server.content_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *told: Any) -> None:
            """Say nothing: a test's output is the test's."""

    return OneRequest
