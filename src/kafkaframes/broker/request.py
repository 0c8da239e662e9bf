"""A request on its way through the broker, and the connection that it came on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import Any, Generic, TypeAlias, TypeVar

from kafkaframes.broker.api import Api, CloseConnection
from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.headers import body_class

ANONYMOUS = "User:ANONYMOUS"
_LONG = 64 << 10  # bytes of a request
_LONG_BYTES = {"Produce": 2 << 20}  # most of it are records
# A short request may have a long answer: all settings, all members.
_LONG_BYTES |= dict.fromkeys(("ConsumerGroupDescribe", "DescribeConfigs", "DescribeGroups", "ShareGroupDescribe"), 0)

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)
ClassOf: TypeAlias = Callable[[int, str], type[Message]]  # of an API key, and "request" or "response"


@cache
def class_in_catalog(key: int, kind: str) -> type[Message]:
    """Return the class of a catalog's message; asked for with every request."""
    return body_class(key, kind)


@dataclass(slots=True, eq=False)
class Session:
    """One connection, as a handler sees it.

    Attributes:
        peer: the client's address, ``host:port``.
        expires_ms: when the authentication expires, by the broker's monotonic clock (KIP-368); None: never.
        software: name and version of the client's software, as ApiVersions 3 and later tell.
        sends_files: stretches of files can be sent on it as they are: there are files, no TLS, and nobody looks at
            answers.
        records_at: where the records' size stood in the last Produce of the short way; 0 before the first.
        memory: what API files keep for a connection, by name: the state of a SASL exchange.
        when_closed: called when the connection is gone, by name: a later one takes the place of an earlier.
    """

    number: int = 0
    listener: str = "PLAINTEXT"
    node_id: int = 1
    peer: str = ""
    principal: str = ANONYMOUS
    is_authenticated: bool = True
    expires_ms: int | None = None
    software: tuple[str, str] = ("", "")
    sends_files: bool = False
    records_at: int = 0
    memory: dict[str, Any] = field(default_factory=dict)
    when_closed: dict[str, Callable[[], None]] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class RequestOf(Generic[RequestT, ResponseT]):
    """A request of one API: its header, and its body once a handler reads it.

    An API's file names its classes for the type checker, which then knows each field: they cost nothing at run time.

    Attributes:
        header_tags: tagged fields of the header that no spec declares, as ``(tag, bytes)``.
        answer_tags: such fields for the response's header; a hook may add some.
        journal_entry: what the journal notes of it, if there is one.
        throttle_ms: for how long its connection is not heard after the answer: it is over a quota.
        has_long_answer: its answer may have so many rows that it is encoded in a thread.
        is_unknown_version: the version is not served; ``version`` is 0 then, and there is no body.
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
    class_of: ClassOf = class_in_catalog
    decoded: RequestT | None = None
    throttle_ms: int = 0
    has_long_answer: bool = False
    is_unknown_version: bool = False
    journal_entry: Any = None

    @property
    def body(self) -> RequestT:
        """The decoded request; where it cannot be decoded, the connection is closed, as by Kafka."""
        if self.decoded is None:
            cls: Any = self.class_of(self.api.key, "request")
            try:
                # What follows the body nobody looks at, as in Kafka: librdkafka 2.16 sends Metadata 13 with three
                # bytes too many.
                body: RequestT = cls.decode_prefix(self.data, self.version, position=self.position)[0]
            except DecodeError as error:
                raise CloseConnection(str(error.within(cls.__name__))) from error
            self.decoded = body
        return self.decoded

    @property
    def may_be_long(self) -> bool:
        """Whether it is large enough to have lists that take long to decode."""
        return not self.is_unknown_version and len(self.data) > _LONG_BYTES.get(self.api.name, _LONG)

    @property
    def response(self) -> type[ResponseT]:
        """The class of the answer; its structs are its attributes."""
        cls: Any = self.class_of(self.api.key, "response")
        answer: type[ResponseT] = cls
        return answer


Request: TypeAlias = RequestOf[Any, Any]  # of whichever API
