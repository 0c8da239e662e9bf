"""The fast path for what clients ask all day: an ordinary Produce or Fetch, from its frame to the answer's.

``None`` is no answer: what is unusual is decided by ``dispatch.py``. What both answer is the same, byte for
byte; ``tests/broker/test_short.py`` asks both, at every version, with right and wrong requests and with any bytes.

It is only taken where nobody looks at requests (no journal, no request log) and where messages are the catalog's.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from kafkaframes.broker import short_fetch, short_produce
from kafkaframes.broker.api import Answer, Later
from kafkaframes.broker.apis.produce import TopicOutcomes, respond
from kafkaframes.broker.changes import Waiting
from kafkaframes.broker.dispatch import Buffers, Dispatcher, together
from kafkaframes.broker.request import Request, Session
from kafkaframes.broker.short_produce import Repeats
from kafkaframes.broker.short_reading import UNUSUAL, Cursor
from kafkaframes.errors import DecodeError, ErrorCode
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.headers import peek_request, read_request_header

_PRODUCE: Final = 0
_FETCH: Final = 1
_SIZE_AND_ID: Final = struct.Struct(">ii")
_NO_RANGE: Final = (1, 0)
_NO_TAGS: Final = b"\x00"
_SMALL_BYTES: Final = 4096  # so small an answer has no part that is long or in a file


class Unfinished(NamedTuple):
    """A request that is being answered in turns, and its answer."""

    request: Request
    answer: Answer


class FastPath:
    """Answers ordinary frames of one broker."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._broker = dispatcher.broker
        ranges = {key: api.range for key, api in dispatcher.apis.items()}
        low, high = ranges.get(_FETCH, _NO_RANGE)
        self._repeats = Repeats(self._broker)
        self._ranges = {_PRODUCE: ranges.get(_PRODUCE, _NO_RANGE), _FETCH: (max(low, short_fetch.FIRST), high)}

    def __call__(self, frame: memoryview, session: Session) -> Buffers | Unfinished | None:
        """Return the answer's frame in parts; None where the request is not ordinary."""
        try:
            head = key, version, correlation_id = peek_request(frame)
        except DecodeError:
            return None
        if key not in self._ranges or not session.is_authenticated or "raw" in session.memory:
            return None
        if self._broker.quotas.limits:
            return None
        if session.expires_ms is not None and self._broker.clock.now_ms >= session.expires_ms:
            return None
        low, high = self._ranges[key]
        if not low <= version <= high:
            return None
        if key == _PRODUCE and session.records_at:
            again = self._again(frame, correlation_id, session)
            if again is not None:
                return again
        return self._in_full(frame, head, session)

    def _in_full(self, frame: memoryview, head: tuple[int, int, int], session: Session) -> Buffers | Unfinished | None:
        """Answer what is read word by word."""
        key, version, correlation_id = head
        is_flexible = version >= (short_produce.FIRST_FLEXIBLE if key == _PRODUCE else short_fetch.FIRST_FLEXIBLE)
        handy = frame.tobytes() if len(frame) < _SMALL_BYTES else frame  # a byte of a view costs twice that of bytes
        try:
            header, start = read_request_header(handy, 1 + is_flexible)
            if header.unknown_tags:
                return None
            cursor = Cursor(handy, start, is_flexible=is_flexible)
            if key == _FETCH:
                parts = short_fetch.answer(cursor, version, session, self._broker)
            else:
                requested, acks = short_produce.read(cursor, version, session, self._broker)
                cursor.no_tags()
        except UNUSUAL:
            return None
        if key == _PRODUCE:
            self._repeats.keep(frame, cursor, requested, acks, version, session)
            steps = short_produce.appending(requested, acks, self._broker, len(frame))
            try:
                waits_for = next(steps)
            except StopIteration as finished:
                done = finished.value
            else:
                return self._in_turns(frame, session, steps, waits_for)
            if not short_produce.is_ordinary(done):
                return self._explained(frame, session, done)
            parts = list(short_produce.write(done, version))
        size = 4 + is_flexible + sum(map(len, parts))
        begin = _SIZE_AND_ID.pack(size, correlation_id) + _NO_TAGS[: int(is_flexible)]
        if size < _SMALL_BYTES:
            small: list[Any] = parts
            return [begin + b"".join(small)]
        return together((begin, *parts))

    def _again(self, frame: memoryview, correlation_id: int, session: Session) -> Buffers | None:
        """Answer a Produce in words that came before."""
        try:
            taken = self._repeats.take(frame, session)
        except UNUSUAL:
            return None
        if taken is None:
            return None
        known, outcome = taken
        if outcome.error_code == ErrorCode.NONE:
            return [known.answer(correlation_id, outcome)]
        return self._explained(frame, session, [known.done(outcome)])

    def _explained(self, frame: memoryview, session: Session, done: list[short_produce.Done]) -> Buffers:
        """Write the answer to a request of which something was refused."""
        request = self._dispatcher.request_of(frame.tobytes(), session)
        return self._dispatcher.encode(request, self._response(request, done))

    def _response(self, request: Request, done: list[short_produce.Done]) -> Message:
        rows = [
            TopicOutcomes(one.requested.name, one.requested.topic_id, one.requested.topic, one.by_index())
            for one in done
        ]
        return respond(request, self._broker, rows)

    def _in_turns(
        self, frame: memoryview, session: Session, steps: Waiting[list[short_produce.Done]], waits_for: Later | None
    ) -> Unfinished:
        """Take the steps of a Produce that is long, after the first, with turns for others between them."""
        request = self._dispatcher.request_of(frame.tobytes(), session)

        def answering() -> Waiting[Answer]:
            yield waits_for
            return self._response(request, (yield from steps))

        return Unfinished(request, self._broker.changes.beside(answering()))
