"""The request log: a line of JSON for each request, as Kafka writes them (``kafka.request.logger``, KIP-673).

A hook of the dispatcher. Records are shown by their size, as in Kafka's; what is secret is ``(redacted)``. Whatever
reads Kafka's own request log reads these lines.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

from kafkaframes.broker.api import Answer, CloseConnection
from kafkaframes.broker.request import Request
from kafkaframes.errors.sensitive import REQUEST, RESPONSE, without_secrets
from kafkaframes.protocol.messages import Message

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


def open_request_log(path: str) -> TextIO:
    """Open a request log to append to; a new one is its owner's alone."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    return open(path, "a", encoding="utf-8", opener=opener)


class RequestLog:
    """Writes a line for each answered request.

    Args:
        write: takes a line, without its end.
        now_ms: the clock.
    """

    def __init__(self, write: Callable[[str], None], now_ms: Callable[[], int]) -> None:
        self._write = write
        self._now_ms = now_ms

    def before(self, request: Request) -> None:
        """Let every request pass."""

    def after(self, request: Request, answer: Answer) -> None:
        """Write the line."""
        if request.is_unknown_version:
            return
        try:
            body = _shown(request, REQUEST, request.body)
        except CloseConnection:
            return
        response = _shown(request, RESPONSE, answer) if isinstance(answer, Message) else None
        line = json.dumps(self._line(request, body, response), separators=(",", ":"), default=str)
        moment = datetime.fromtimestamp(self._now_ms() / 1000, UTC)
        stamp = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03}"
        self._write(f"[{stamp}] DEBUG Completed request:{line} (kafka.request.logger)")

    def _line(self, request: Request, body: dict[str, Any], answer: dict[str, Any] | None) -> dict[str, Any]:
        session = request.session
        took = self._now_ms() - request.received_ms
        return {
            "isForwarded": False,
            "requestHeader": {
                "requestApiKey": request.api.key,
                "requestApiVersion": request.version,
                "correlationId": request.correlation_id,
                "clientId": request.client_id,
                "requestApiKeyName": _WORD.sub("_", request.api.name).upper(),
            },
            "request": body,
            "response": answer,
            "connection": f"{session.listener}-{session.peer}-{session.number}",
            "totalTimeMs": took,
            "requestQueueTimeMs": 0,
            "localTimeMs": took,
            "remoteTimeMs": 0,
            "throttleTimeMs": 0,
            "responseQueueTimeMs": 0,
            "sendTimeMs": 0,
            "securityProtocol": session.listener,
            "principal": session.principal,
            "listener": session.listener,
            "clientInformation": {
                "softwareName": session.software[0] or "unknown",
                "softwareVersion": session.software[1] or "unknown",
            },
        }


def _shown(request: Request, direction: str, message: Message) -> dict[str, Any]:
    return without_secrets(request.api.key, direction, message.to_json(request.version, records="size"))
