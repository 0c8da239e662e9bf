"""Metrics over HTTP: ``GET /metrics``. As small as it can be: one answer, then the connection is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_SECONDS = 30.0
_MOST_BYTES = 16 << 10
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def serve_metrics(host: str, port: int, text: Callable[[], str]) -> asyncio.Server:
    """Listen; each request for ``/metrics`` is answered with what ``text`` gives, anything else with 404."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(head, text))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port, limit=_MOST_BYTES)


def _answer(head: bytes, text: Callable[[], str]) -> bytes:
    line = head.split(b"\r\n", 1)[0].split(b" ")
    is_asked = len(line) == 3 and line[0] == b"GET" and line[1].partition(b"?")[0] == b"/metrics"
    body = (text() if is_asked else "there is /metrics\n").encode()
    status = "200 OK" if is_asked else "404 Not Found"
    lines = f"HTTP/1.1 {status}\r\nContent-Type: {_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return lines.encode() + body
