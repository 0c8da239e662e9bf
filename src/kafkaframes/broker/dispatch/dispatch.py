"""``Dispatcher``, which answers request frames without I/O.

The dispatcher decodes the header, calls the hooks, checks permissions and quotas, calls the handler, and encodes the
response.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kafkaframes.broker.dispatch.login_states import may_call
from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.requests.api import Answer, Api, CloseConnection, DeferredResponse, EncodedResponse, Handler
from kafkaframes.broker.requests.failures import shorten_texts
from kafkaframes.broker.requests.quotas import FETCH, PRODUCE, REQUEST, is_counted
from kafkaframes.broker.requests.request import ClassOf, Request, Session, TypedRequest, find_catalog_class
from kafkaframes.broker.security.access import check_access
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.errors import DecodeError, EncodeError, ErrorCode
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.headers import peek_request, read_request_header, response_header_class
from kafkaframes.wire.primitives import DeferredBytes

Buffers = list["bytes | memoryview | DeferredBytes"]
_MIN_UNJOINED_BYTES: Final = 4096  # shorter buffers of a response are joined
_SIZE_AND_CORRELATION_ID: Final = struct.Struct(">ii")
_CORRELATION_ID_BYTES: Final = 4
_NO_TAGGED_FIELDS: Final = b"\x00"


class Hook(Protocol):
    """A listener of all requests and responses, such as the journal, the faults and the request log."""

    def before(self, request: Request) -> Callable[[Callable[[], Answer]], Answer] | None:
        """Return None to handle the request as usual, or a function that gets the handler and answers the request."""

    def after(self, request: Request, answer: Answer) -> None:
        """Process the response. A ``DeferredResponse`` is complete when ``after`` is called."""


@dataclass(slots=True, eq=False)
class Dispatcher:
    """Calls the handler of each request frame, and encodes the response.

    Attributes:
        apis: served APIs by key: all, or those of an emulated release.
        hooks: hooks that are called for each request, in order. All hooks are called, and the first function that a
            hook returns answers the request.
    """

    broker: BrokerState
    apis: Mapping[int, Api] = field(default_factory=collect_apis)
    hooks: list[Hook] = field(default_factory=list)
    class_of: ClassOf = find_catalog_class

    def decode_request(self, frame: bytes, session: Session) -> Request:
        """Decode a request header. As in Kafka, an unknown API or invalid header raises ``CloseConnection``."""
        try:
            return self._parse_request(frame, session)
        except DecodeError as error:
            raise CloseConnection(str(error)) from error

    def _parse_request(self, frame: bytes, session: Session) -> Request:
        """Return the request in a frame, with its header and session."""
        key, version, correlation_id = peek_request(frame)
        api = self.apis.get(key)
        if api is None:
            raise CloseConnection(f"unknown API key {key}")
        low, high = api.range
        request: Request = TypedRequest(
            api,
            version,
            correlation_id=correlation_id,
            data=frame,
            session=session,
            received_ms=self.broker.clock.now_ms,
            began_ms=self.broker.clock.monotonic_ms,
            class_of=self.class_of,
        )
        if not low <= version <= high:
            if api.on_unknown_version is None:
                raise CloseConnection(f"{api.name} {version} is not supported; expected version {low} to {high}")
            request.version = 0
            request.is_unknown_version = True
            return request
        header, request.position = read_request_header(frame, api.definition.header_versions[version][0])
        request.client_id, request.header_tags = header.client_id, header.unknown_tags
        return request

    def answer(self, request: Request) -> Answer:
        """Call the hooks, then the handler. Raise ``CloseConnection`` if no response is possible."""
        if not may_call(request.session, request.api.name):
            if not request.api.before_authentication:
                raise CloseConnection(f"{request.api.name} was sent before the connection authenticated")
            request.session.closes_after_response = True
            refusal: Message = request.response(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            return refusal
        expires_ms = request.session.expires_ms
        if (
            expires_ms is not None
            and self.broker.clock.monotonic_ms >= expires_ms
            and not request.api.before_authentication
        ):
            raise CloseConnection(f"{request.api.name} was sent after the session expired, without re-authentication")
        call = request.api.handle
        if request.is_unknown_version:
            assert request.api.on_unknown_version is not None
            call = request.api.on_unknown_version
        if not self.hooks:
            return self._call_handler(request, call)
        return self._answer_with_hooks(request, lambda: self._call_handler(request, call))

    def _call_handler(self, request: Request, call: Handler) -> Answer:
        """Return the handler's response, or reject the request if it is unsupported or not allowed."""
        group_type = request.api.group_type
        if group_type and not self.broker.offers_group_type(group_type):
            return request.api.refuse(request, ErrorCode.UNSUPPORTED_VERSION)
        code = check_access(request, self.broker.access)
        if code != ErrorCode.NONE:
            return request.api.refuse(request, code)
        return charge_quota(request, self.broker, lambda: call(request, self.broker))

    def _answer_with_hooks(self, request: Request, call: Callable[[], Answer]) -> Answer:
        """Return the handler's response, or that of a hook which replaces the handler.

        Call the hooks before and after the handler.
        """
        replace_answer = None
        for hook in self.hooks:
            hook_answer = hook.before(request)
            replace_answer = replace_answer or hook_answer
        answer = call() if replace_answer is None else replace_answer(call)
        if isinstance(answer, DeferredResponse):
            answer.call_when_complete(lambda response: self._notify_hooks(request, response.answer))
        else:
            self._notify_hooks(request, answer)
        return answer

    def _notify_hooks(self, request: Request, answer: Answer) -> None:
        """Pass the response to all hooks."""
        for hook in self.hooks:
            hook.after(request, answer)

    def encode(self, request: Request, answer: Message | EncodedResponse) -> Buffers:
        """Return the frame of a response in parts. Raise ``EncodeError`` if the version cannot encode the response."""
        parts = answer.parts if isinstance(answer, EncodedResponse) else encode_answer(answer, request.version)
        size = _CORRELATION_ID_BYTES + sum(map(len, parts))
        head = b""
        _, header_version = request.api.definition.header_versions[request.version]
        if header_version:
            head = _encode_tagged_fields(request.answer_tags)
        return join_short_parts([_SIZE_AND_CORRELATION_ID.pack(size + len(head), request.correlation_id), head, *parts])


def encode_answer(answer: Message, version: int) -> list[bytes | DeferredBytes]:
    """Encode a response in parts. Error messages that exceed the limit for strings are shortened."""
    try:
        return answer.encode_parts(version)
    except EncodeError:
        shorten_texts(answer)
        return answer.encode_parts(version)


def join_short_parts(parts: Iterable[bytes | memoryview | DeferredBytes]) -> Buffers:
    """Join short parts. Long buffers and file ranges stay separate.

    >>> join_short_parts([b"a", b"", b"b", bytes(5000), b"c"]) == [b"ab", bytes(5000), b"c"]
    True
    """
    buffers: Buffers = []
    short: list[bytes | memoryview] = []
    for part in parts:
        if isinstance(part, DeferredBytes) or len(part) >= _MIN_UNJOINED_BYTES:
            if short:
                buffers.append(b"".join(short))
                short = []
            buffers.append(part)
        else:
            short.append(part)
    if short:
        buffers.append(b"".join(short))
    return buffers


def _encode_tagged_fields(tags: list[tuple[int, bytes]]) -> bytes:
    """Return the tagged fields of a response header."""
    if not tags:
        return _NO_TAGGED_FIELDS
    return response_header_class()(unknown_tags=sorted(tags)).encode(1)[_CORRELATION_ID_BYTES:]


_PERCENT = 100
_FRAME_SIZE_BYTES = 4


def charge_quota(request: Request, broker: BrokerState, call: Callable[[], Answer]) -> Answer:
    """Handle a request, charge its usage to the client's quotas, and set the throttle time."""
    if not broker.quotas.limits:
        return call()
    start_seconds = time.perf_counter()
    answer = call()
    seconds = time.perf_counter() - start_seconds
    if isinstance(answer, DeferredResponse):
        answer.call_when_complete(lambda response: _charge_usage(request, broker, response.answer, seconds))
    else:
        _charge_usage(request, broker, answer, seconds)
    return answer


def _charge_usage(request: Request, broker: BrokerState, answer: Any, seconds: float) -> None:
    """Charge a request to the client's quotas, and set its throttle time."""
    quotas, now_ms = broker.quotas, broker.waits.now_ms
    waits = [request.throttle_ms]
    if request.api.name == "Produce":
        waits.append(quotas.charge(request, PRODUCE, len(request.data), now_ms))
    elif request.api.name == "Fetch" and isinstance(answer, Message):
        size = _FRAME_SIZE_BYTES + sum(map(len, answer.encode_parts(request.version)))
        waits.append(quotas.charge(request, FETCH, size, now_ms))
        if waits[-1]:
            quotas.refund(request, FETCH, size, now_ms)
            _remove_records(request, broker, answer)
    if is_counted(request):
        waits.append(quotas.charge(request, REQUEST, seconds * _PERCENT, now_ms))
    request.throttle_ms = max(waits)
    if request.throttle_ms and hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = request.throttle_ms


def _remove_records(request: Request, broker: BrokerState, answer: Any) -> None:
    """Remove the records and the new session from the response to a throttled Fetch.

    See Kafka's FetchContext.getThrottledResponse.
    """
    answer.responses = []
    if request.body.session_epoch <= 0 and answer.session_id:
        broker.fetch_sessions.end(answer.session_id)
        answer.session_id = 0
