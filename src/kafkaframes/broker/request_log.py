"""The request log: a line of JSON for each request, as Kafka writes them (``kafka.request.logger``, KIP-673).

A hook of the dispatcher. Records are told by their size, as in Kafka's. Whatever reads Kafka's own request log reads
these lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kafkaframes.broker.api import Answer, CloseConnection
from kafkaframes.broker.request import Request
from kafkaframes.messages import Message

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


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
            body = request.body.to_json(request.version, records="size")
        except CloseConnection:
            return
        told = answer.to_json(request.version, records="size") if isinstance(answer, Message) else None
        line = json.dumps(self._line(request, body, told), separators=(",", ":"), default=str)
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
