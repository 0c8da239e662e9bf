"""``TypedRequest``, a request with its header and lazily decoded body, and ``Session``, the state of a connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import Any, Generic, TypeAlias, TypeVar

from kafkaframes.broker.requests.api import Api, CloseConnection
from kafkaframes.broker.requests.login import Login
from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.headers import body_class

ANONYMOUS_PRINCIPAL = "User:ANONYMOUS"
_LONG_REQUEST_BYTES = 64 << 10  # a thread decodes longer requests
_LONG_REQUEST_BYTES_BY_API = {"Produce": 2 << 20}  # higher limit, because the records of a request are not decoded
# A thread handles each of these requests, because a short one can have a long response: all settings, all members.
_LONG_REQUEST_BYTES_BY_API |= dict.fromkeys(
    ("ConsumerGroupDescribe", "DescribeConfigs", "DescribeGroups", "ShareGroupDescribe"), 0
)

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)
ClassOf: TypeAlias = Callable[[int, str], type[Message]]  # arguments: an API key, and "request" or "response"


@cache
def find_catalog_class(key: int, kind: str) -> type[Message]:
    """Return the catalog's class of a request or response. The class is cached, because each request needs it."""
    return body_class(key, kind)


@dataclass(slots=True, eq=False)
class Session:
    """The connection state that is available to handlers.

    Attributes:
        peer: client address, ``host:port``.
        expires_ms: when the authentication expires (KIP-368), on the broker's monotonic clock; None if it does not
            expire.
        software: name and version of the client software, from ApiVersions 3 and later.
        sends_files: whether file ranges can be sent with sendfile: the logs are files, the connection has no TLS, and
            no hook reads responses.
        records_at: position of the records' size in the last Produce request on the fast path; 0 before the first such
            request.
        login: state of the connection's SASL login.
        closes_after_response: whether the connection is closed after the next response.
        telemetry: client instance of the last GetTelemetrySubscriptions request; None before the first request.
        when_closed: functions to call after the connection has closed, by name. A function replaces an earlier function
            that has the same name.
    """

    number: int = 0
    listener: str = "PLAINTEXT"
    node_id: int = 1
    peer: str = ""
    principal: str = ANONYMOUS_PRINCIPAL
    is_authenticated: bool = True
    expires_ms: int | None = None
    software: tuple[str, str] = ("", "")
    sends_files: bool = False
    records_at: int = 0
    login: Login = field(default_factory=Login)
    closes_after_response: bool = False
    telemetry: object = None
    when_closed: dict[str, Callable[[], None]] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class TypedRequest(Generic[RequestT, ResponseT]):
    """A request of one API: its header, and its body, which is decoded when a handler reads it.

    The type parameters are the API's request and response class. With the type parameters, type checkers can check each
    field.

    Attributes:
        header_tags: unknown tagged fields of the request header, as ``(tag, bytes)``.
        answer_tags: tagged fields for the response header, which hooks may add.
        journal_entry: the request's journal entry; None without a journal.
        throttle_ms: time for which the connection is muted after the response because of a quota, in milliseconds.
        has_long_answer: whether the response may have so many rows that it is encoded in a thread.
        is_unknown_version: whether the version is not served; ``version`` is then 0, and the body is not decoded.
    """

    api: Api
    version: int
    _: KW_ONLY
    correlation_id: int = 0
    client_id: str | None = None
    data: bytes = b""
    position: int = 0
    session: Session = field(default_factory=Session)
    header_tags: list[tuple[int, bytes]] = field(default_factory=list)
    answer_tags: list[tuple[int, bytes]] = field(default_factory=list)
    received_ms: int = 0
    began_ms: int = 0
    class_of: ClassOf = find_catalog_class
    decoded: RequestT | None = None
    throttle_ms: int = 0
    has_long_answer: bool = False
    is_unknown_version: bool = False
    journal_entry: Any = None

    @property
    def body(self) -> RequestT:
        """The decoded request. If the body cannot be decoded, the connection is closed, as in Kafka."""
        if self.decoded is None:
            cls: Any = self.class_of(self.api.key, "request")
            try:
                # Bytes after the body are ignored, as in Kafka: librdkafka 2.16 sends Metadata 13 with three extra
                # bytes.
                body: RequestT = cls.decode_prefix(self.data, self.version, position=self.position)[0]
            except DecodeError as error:
                raise CloseConnection(str(error.within(cls.__name__))) from error
            self.decoded = body
        return self.decoded

    @property
    def may_be_long(self) -> bool:
        """Whether the request, or its response, may be so large that it is decoded or encoded in a thread."""
        return not self.is_unknown_version and len(self.data) > _LONG_REQUEST_BYTES_BY_API.get(
            self.api.name, _LONG_REQUEST_BYTES
        )

    @property
    def response(self) -> type[ResponseT]:
        """The response class; its attributes include its struct classes."""
        cls: Any = self.class_of(self.api.key, "response")
        answer: type[ResponseT] = cls
        return answer


Request: TypeAlias = TypedRequest[Any, Any]  # a request of any API
