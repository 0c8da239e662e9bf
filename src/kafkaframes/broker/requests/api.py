"""``Api``, the declaration of an API by its handler, and the types of an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.spec import catalog
from kafkaframes.wire.primitives import DeferredBytes


class CloseConnection(Exception):  # noqa: N818  (an instruction to the server, not an error of the caller)
    """Raised to close the connection without a response, as Kafka does if it cannot answer."""


@dataclass(frozen=True, slots=True)
class EncodedResponse:
    """The encoded body of a response, in parts, without frame and header."""

    parts: Sequence[bytes | memoryview | DeferredBytes]


class DeferredResponse:
    """A response that a handler completes later. The handler calls ``complete`` once.

    A second call, or a call after the connection has closed, has no effect.
    """

    __slots__ = ("_abandon_callbacks", "_waiting", "answer", "error", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self.answer: Message | EncodedResponse | None = None
        self.error: Exception | None = None
        self._waiting: list[Callable[[DeferredResponse], None]] = []
        self._abandon_callbacks: list[Callable[[], None]] = []

    def complete(self, answer: Message | EncodedResponse | None) -> None:
        """Set the response, which is sent immediately."""
        if self.is_done:
            return
        self.is_done = True
        self.answer = answer
        for call in self._waiting:
            call(self)

    def fail(self, error: Exception) -> None:
        """Set an error instead of a response. The connection is closed, as after an error in a handler."""
        self.error = error
        self.complete(None)

    def follow(self, answer: Answer) -> None:
        """Complete this response with another answer, now or when that answer is complete."""
        if isinstance(answer, DeferredResponse) and self.is_done:  # abandoned
            answer.abandon()
        elif isinstance(answer, DeferredResponse):
            answer.call_when_complete(lambda other: self.complete(other.answer))
            self.call_when_abandoned(answer.abandon)
        else:
            self.complete(answer)

    def call_when_complete(self, call: Callable[[DeferredResponse], None]) -> None:
        """Call ``call`` when the response is complete; immediately if it is already complete."""
        if self.is_done:
            call(self)
        else:
            self._waiting.append(call)

    def call_when_abandoned(self, call: Callable[[], None]) -> None:
        """Call ``call`` if the connection is closed before the response is complete."""
        self._abandon_callbacks.append(call)

    def abandon(self) -> None:
        """Cancel the response, because its connection is closed."""
        if not self.is_done:
            self.is_done = True
            for call in self._abandon_callbacks:
                call()


Answer: TypeAlias = "Message | EncodedResponse | DeferredResponse | None"
# The arguments are a Request and the BrokerState. Both types are defined in modules that import this module.
Handler: TypeAlias = "Callable[[Any, Any], Answer]"
HandlerT = TypeVar("HandlerT", bound=Handler)


def map_answer(answer: Answer, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to an answer, now or when the answer is complete.

    Return the result, or a ``DeferredResponse`` that completes with the result.
    """
    if not isinstance(answer, DeferredResponse):
        return change(answer)
    response = DeferredResponse()
    answer.call_when_complete(lambda done: response.complete(change(done.answer)))
    return response


@cache
def _in_catalog(name: str) -> catalog.Api:
    return catalog.find_api(name)


OMIT_FROM_RESPONSE: Final = "left out"


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """A permission that a request requires: an AclOperation on a ResourceType.

    Attributes:
        field: request field with the resource's name; empty for the cluster. Without the permission, the whole request
            is rejected before its handler runs. If the field is null, the permission is not required.
        each: description of the request's parts that require the permission. The handler checks the permission for each
            part.
        denied: error of a part without the permission, or ``OMIT_FROM_RESPONSE`` if the response omits the part. The
            default is the resource's error.
        or_cluster: operation on the cluster that is sufficient instead of the permission.
        first_version, last_version: first and last request version that requires the permission.
        first_release: first Kafka release that requires the permission; empty for all releases with the API.
        is_needed: whether the emulated release requires the permission.
    """

    operation: str
    resource: str
    field: str = ""
    _: KW_ONLY
    each: str = ""
    denied: ErrorCode | str = ""
    or_cluster: str = ""
    first_version: int = 0
    last_version: int = 2**15 - 1
    first_release: tuple[int, ...] = ()
    is_needed: bool = True

    @property
    def error(self) -> ErrorCode:
        """The error code for a request, or a part of it, without the permission."""
        if isinstance(self.denied, ErrorCode):
            return self.denied
        resource = (
            "DELEGATION_TOKEN" if self.resource == "USER" else self.resource
        )  # permissions on a USER are about tokens
        return ErrorCode[f"{resource}_AUTHORIZATION_FAILED"]


def refuse_request(request: Any, code: int) -> Message:
    """Return a response with a top-level error code."""
    answer: Message = request.response(error_code=code)
    return answer


def _answers_nothing(request: Any, broker: Any) -> Answer:
    raise NotImplementedError("an API without a handler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The declaration of an API, used as its handler's decorator. ``dispatch/table.py`` collects the declarations.

    Attributes:
        name: Kafka's name of the API (``Metadata``). Key, versions and headers are in the catalog.
        tier: tier in the support table, from T0 (used by every client) to T6 (rarely used).
        behaviour: description of this implementation, in one or two sentences.
        notes: differences between versions: ``{"v4+": "..."}``.
        gaps: features that the API has in Kafka and that this broker lacks.
        versions: lowest and highest served version; None for all stable versions.
        before_authentication: whether the API is served on connections that have not authenticated.
        group_type: ``consumer``, ``share`` or ``streams``: the request is rejected with UNSUPPORTED_VERSION while these
            groups are disabled. Empty for APIs that are not about groups.
        rights: permissions that a client needs, in the order in which they are checked.
        refuse: creates the response if the whole request is rejected with an error code.
        rewritten: definition from user-supplied specs that replaces the catalog's (``dispatch/table.py``).
        on_unknown_version: answers unsupported versions of a request, at version 0 (KIP-511). If None, such a request
            closes the connection, as in Kafka.
        handle: the handler, which is the decorated function.
    """

    name: str
    tier: str
    behaviour: str
    notes: Mapping[str, str] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    versions: tuple[int, int] | None = None
    before_authentication: bool = False
    group_type: str = ""
    rights: tuple[RequiredPermission, ...] = ()
    refuse: Callable[[Any, int], Answer] = refuse_request
    rewritten: catalog.Api | None = None
    on_unknown_version: Handler | None = None
    handle: Handler = _answers_nothing

    def __call__(self, handle: HandlerT) -> HandlerT:
        """Register ``handle`` as the API's handler, and store the declaration as the function's attribute ``api``."""
        vars(handle)["api"] = replace(self, handle=handle)
        return handle

    @property
    def key(self) -> int:
        """The API key."""
        return self.definition.key

    @property
    def definition(self) -> catalog.Api:
        """The API's definition in the catalog, or in user-supplied specs."""
        return self.rewritten or _in_catalog(self.name)

    def list_permissions(self, version: int, *, whole: bool) -> Iterator[RequiredPermission]:
        """Yield the permissions that a version requires: for the whole request, or for its parts."""
        for right in self.rights:
            if right.first_version <= version <= right.last_version and whole is not bool(right.each):
                yield right

    @property
    def range(self) -> tuple[int, int]:
        """The lowest and highest served version. Versions that Kafka marks unstable are excluded."""
        if self.versions is not None:
            return self.versions
        definition = self.definition
        return definition.versions.lowest, definition.versions.highest - int(definition.is_latest_unstable)
