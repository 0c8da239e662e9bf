"""Two hooks of the dispatcher that record requests: the journal, which tests query, and the request log.

The journal contains each request, its response and its duration. The request log has one JSON line for each request, in
the format of Kafka's request log (``kafka.request.logger``, KIP-673), so that tools for Kafka's log can read it. As in
Kafka, the log contains the size of records instead of the records. The journal and the request log contain
``(redacted)`` instead of secrets (``errors.sensitive``).
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from sys import getsizeof
from typing import Any, TextIO

from kafkaframes.broker.requests.api import Answer, CloseConnection, EncodedResponse
from kafkaframes.broker.requests.request import Request
from kafkaframes.errors.sensitive import REQUEST, RESPONSE, redact_json, redact_message
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.structs import Struct

_MAX_JOURNAL_ENTRIES = 10_000
_MAX_JOURNAL_BYTES = 64 << 20
_ENTRY_OVERHEAD_BYTES = 512  # size of a journal entry without the request and response bodies
_MAX_SAMPLED_ELEMENTS = 32  # number of elements from which the size of a long list is estimated
_SEQUENCES = (list, tuple)  # types of lists in decoded messages
_PLAIN_TYPES = frozenset({int, bool, float, str, bytes, type(None)})  # types of values that contain no other values


@dataclass(slots=True)
class JournalEntry:
    """A request and its response.

    Attributes:
        number: sequence number of the request in the broker, from 1.
        connection: number of the connection on which the request arrived.
        peer: client address.
        software: name and version of the client library, from ApiVersions; empty texts if the client sent none.
        received_ms: time of arrival, by the broker's clock.
        duration_ms: time until the response, in milliseconds; None before the response.
        body: decoded request; None if it cannot be decoded.
        answer: decoded response; None before the response is sent, or if no response is sent.
        header_tags: unknown tagged fields of the request header, as ``(tag, bytes)``.
        answer_tags: unknown tagged fields of the response header.
        unknown_tags: unknown top-level tagged fields of the request body.
        fault: description of the fault that a rule caused.
        size_bytes: approximate memory of the request and response bodies, in bytes. The oldest bodies are dropped if
            the total is too large.
    """

    number: int
    api: str
    version: int
    connection: int
    peer: str
    client_id: str | None
    software: tuple[str, str]
    received_ms: int
    duration_ms: int | None = None
    body: Any = None
    answer: Any = None
    header_tags: list[tuple[int, bytes]] = field(default_factory=list)
    answer_tags: list[tuple[int, bytes]] = field(default_factory=list)
    unknown_tags: list[tuple[int, bytes]] = field(default_factory=list)
    fault: str = ""
    size_bytes: int = 0

    def __str__(self) -> str:
        """Return one line: number, connection, API and version, client id, duration and fault."""
        took = "unanswered" if self.duration_ms is None else f"{self.duration_ms} ms"
        fault = f"  [{self.fault}]" if self.fault else ""
        return f"#{self.number:<5} {self.connection:>4}  {self.api} v{self.version:<3} {self.client_id!r} {took}{fault}"


class Journal:
    """The last requests to a broker, oldest first; a hook of the dispatcher.

    The fast path is disabled while a broker has a journal, so that the journal contains every request.
    """

    def __init__(self, monotonic_ms: Callable[[], int], *, keep: int = _MAX_JOURNAL_ENTRIES) -> None:
        self._monotonic_ms = monotonic_ms
        self._entries: deque[JournalEntry] = deque(maxlen=keep)
        self._number = 0
        self._bytes = 0
        self._with_bodies: deque[JournalEntry] = deque()

    def before(self, request: Request) -> Callable[[Callable[[], Answer]], Answer] | None:
        """Add an entry for a request."""
        self._number += 1
        session = request.session
        entry = JournalEntry(
            self._number,
            request.api.name,
            request.version,
            session.number,
            session.peer,
            request.client_id,
            session.software,
            request.received_ms,
            header_tags=list(request.header_tags),
        )
        if not request.is_unknown_version:
            try:
                entry.body = redact_message(request.api.key, REQUEST, request.body)
                entry.unknown_tags = list(request.body._tags or ())
            except CloseConnection as error:
                entry.fault = f"not decoded: {error}"
        self._entries.append(entry)
        self._count_memory(entry, _ENTRY_OVERHEAD_BYTES + max(len(request.data), _estimate_memory(entry.body)))
        request.journal_entry = entry
        return None

    def after(self, request: Request, answer: Answer) -> None:
        """Add the response to the request's entry."""
        entry = request.journal_entry
        entry.duration_ms = self._monotonic_ms() - request.began_ms
        entry.software = request.session.software
        entry.answer_tags = list(request.answer_tags)
        if isinstance(answer, Message | EncodedResponse):
            is_message = isinstance(answer, Message)
            entry.answer = redact_message(request.api.key, RESPONSE, answer) if is_message else answer
            self._count_memory(entry, max(_count_record_bytes(answer), _estimate_memory(answer)))

    def _count_memory(self, entry: JournalEntry, size_bytes: int) -> None:
        """Count the memory of an entry, and drop the oldest bodies if the journal is too large."""
        if not entry.size_bytes:
            self._with_bodies.append(entry)
        entry.size_bytes += size_bytes
        self._bytes += size_bytes
        while self._is_too_much() and self._with_bodies[0] is not entry:
            oldest = self._with_bodies.popleft()
            oldest.body = oldest.answer = None
            self._bytes -= oldest.size_bytes
            oldest.size_bytes = 0

    def _is_too_much(self) -> bool:
        return self._bytes > _MAX_JOURNAL_BYTES or len(self._with_bodies) > (self._entries.maxlen or 0)

    def __iter__(self) -> Iterator[JournalEntry]:
        return iter(self._entries.copy())  # a copy, because the broker's thread appends entries

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        for entry in self._with_bodies:
            entry.size_bytes = 0
        self._with_bodies.clear()
        self._bytes = 0

    def requests(
        self,
        api: str | None = None,
        *,
        version: int | None = None,
        client_id: str | None = None,
        where: Callable[[JournalEntry], bool] | None = None,
    ) -> list[JournalEntry]:
        """Return the matching requests, oldest first."""
        return [
            entry
            for entry in self
            if (api is None or entry.api == api)
            and (version is None or entry.version == version)
            and (client_id is None or entry.client_id == client_id)
            and (where is None or where(entry))
        ]

    def count(self, api: str | None = None, **conditions: Any) -> int:
        """Return the number of matching requests."""
        return len(self.requests(api, **conditions))

    def assert_requested(self, api: str, *, times: int | None = None, **field_values: Any) -> list[JournalEntry]:
        """Return the matching requests.

        Raises:
            AssertionError: no request matches, or the number of matches is not ``times``. The message lists the last
                requests.
        """
        entries = self.requests(api, **field_values)
        if (times is None and entries) or len(entries) == times:
            return entries
        expected_times = "at least one" if times is None else str(times)
        conditions = "".join(f", {key}={value!r}" for key, value in field_values.items())
        raise AssertionError(f"{expected_times} {api}{conditions} expected, {len(entries)} came\n{self.text()}")

    def assert_not_requested(self, api: str, **conditions: Any) -> None:
        """Check that no request matches.

        Raises:
            AssertionError: a request matches. The message lists the last requests.
        """
        self.assert_requested(api, times=0, **conditions)

    def assert_order(self, *apis: str) -> None:
        """Check that requests of these APIs arrived in this order. Other requests may be in between.

        Raises:
            AssertionError: the requests did not arrive in this order. The message lists the last requests.
        """
        names = iter([entry.api for entry in self])
        for api in apis:
            if api not in names:
                raise AssertionError(f"no {api} in the order {' -> '.join(apis)}\n{self.text()}")

    def text(self, *, last: int = 40) -> str:
        """Return the last requests as text, one line each."""
        entries = list(self)[-last:]
        skipped_entries = len(self) - len(entries)
        lines = [f"... {skipped_entries} earlier requests"] if skipped_entries else []
        return "\n".join([*lines, *(str(entry) for entry in entries)]) or "no requests"


def _estimate_memory(value: Any) -> int:
    """Return the approximate memory of a body, in bytes. Only a sample of a long list is measured."""
    if type(value) in _PLAIN_TYPES:
        return getsizeof(value)
    if isinstance(value, Struct):
        return getsizeof(value) + _estimate_total_memory(getattr(value, name) for name in type(value).__slots__)
    if isinstance(value, _SEQUENCES):
        step = max(len(value) // _MAX_SAMPLED_ELEMENTS, 1)
        sample = value[::step]
        return getsizeof(value) + (_estimate_total_memory(sample) * len(value) // len(sample) if sample else 0)
    if isinstance(value, EncodedResponse):
        return sum(map(len, value.parts))
    return getsizeof(value)


def _estimate_total_memory(values: Iterable[Any]) -> int:
    """Return the approximate memory of several values. Plain values are measured without a function call."""
    return sum(getsizeof(value) if type(value) in _PLAIN_TYPES else _estimate_memory(value) for value in values)


def _count_record_bytes(answer: Any) -> int:
    """Return the bytes of records in a Fetch response."""
    rows = (row for topic in getattr(answer, "responses", None) or () for row in getattr(topic, "partitions", ()))
    return sum(len(getattr(row, "records", None) or b"") for row in rows)


_WORD_START_PATTERN = re.compile(r"(?<!^)(?=[A-Z])")


def open_request_log(path: str) -> TextIO:
    """Open a request log for appending. A new file is readable only by its owner."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    return open(path, "a", encoding="utf-8", opener=opener)


@dataclass(frozen=True, slots=True)
class RequestLog:
    """A hook that calls ``write`` with one line, without a newline, for each answered request."""

    write: Callable[[str], None]
    now_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]

    def before(self, request: Request) -> None:
        """Handle the request as usual."""

    def after(self, request: Request, answer: Answer) -> None:
        """Write a request's line to the log."""
        if request.is_unknown_version:
            return
        try:
            body = _show_message(request, REQUEST, request.body)
        except CloseConnection:
            return
        response = _show_message(request, RESPONSE, answer) if isinstance(answer, Message) else None
        line = json.dumps(self._format_line(request, body, response), separators=(",", ":"), default=str)
        moment = datetime.fromtimestamp(self.now_ms() / 1000, UTC)
        stamp = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03}"
        self.write(f"[{stamp}] DEBUG Completed request:{line} (kafka.request.logger)")

    def _format_line(self, request: Request, body: dict[str, Any], answer: dict[str, Any] | None) -> dict[str, Any]:
        session = request.session
        duration_ms = self.monotonic_ms() - request.began_ms
        return {
            "isForwarded": False,
            "requestHeader": {
                "requestApiKey": request.api.key,
                "requestApiVersion": request.version,
                "correlationId": request.correlation_id,
                "clientId": request.client_id,
                "requestApiKeyName": _WORD_START_PATTERN.sub("_", request.api.name).upper(),
            },
            "request": body,
            "response": answer,
            "connection": f"{session.listener}-{session.peer}-{session.number}",
            "totalTimeMs": duration_ms,
            "requestQueueTimeMs": 0,
            "localTimeMs": duration_ms,
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


def _show_message(request: Request, direction: str, message: Message) -> dict[str, Any]:
    return redact_json(request.api.key, direction, message.to_json(request.version, records="size"))
