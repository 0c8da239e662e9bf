"""What an API's file declares, and the forms that an answer can have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.spec import catalog
from kafkaframes.wire.primitives import Part


class CloseConnection(Exception):  # noqa: N818  (a command to the shell, not an error of the caller)
    """Drop the connection and answer nothing, as Kafka does where it cannot answer."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """An answer's body, without frame and header, that is bytes already, in parts."""

    parts: Sequence[bytes | memoryview | Part]


class Later:
    """An answer that is not there yet; its holder calls ``complete``, once.

    Completing twice, or after the connection is gone, does nothing.
    """

    __slots__ = ("_abandoned", "_waiting", "answer", "error", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self.answer: Message | Encoded | None = None
        self.error: Exception | None = None
        self._waiting: list[Callable[[Later], None]] = []
        self._abandoned: list[Callable[[], None]] = []

    def complete(self, answer: Message | Encoded | None) -> None:
        """Give the answer; it is sent at once."""
        if self.is_done:
            return
        self.is_done = True
        self.answer = answer
        for call in self._waiting:
            call(self)

    def fail(self, error: Exception) -> None:
        """Give an error instead: the connection is closed, as where a handler fails."""
        self.error = error
        self.complete(None)

    def follow(self, answer: Answer) -> None:
        """Give an answer that may itself come later."""
        if isinstance(answer, Later) and self.is_done:  # abandoned
            answer.abandon()
        elif isinstance(answer, Later):
            answer.when_complete(lambda other: self.complete(other.answer))
            self.when_abandoned(answer.abandon)
        else:
            self.complete(answer)

    def when_complete(self, call: Callable[[Later], None]) -> None:
        """Call ``call`` when the answer is there, at once if it is."""
        if self.is_done:
            call(self)
        else:
            self._waiting.append(call)

    def when_abandoned(self, call: Callable[[], None]) -> None:
        """Call ``call`` if the connection is closed before the answer."""
        self._abandoned.append(call)

    def abandon(self) -> None:
        """Say that nobody waits any more."""
        if not self.is_done:
            self.is_done = True
            for call in self._abandoned:
                call()


Answer: TypeAlias = "Message | Encoded | Later | None"
Handler: TypeAlias = "Callable[[Any, Any], Answer]"  # of a Request and the BrokerState, which stand above this file
HandlerT = TypeVar("HandlerT", bound=Handler)


def changed(answer: Answer, change: Callable[[Any], Any]) -> Any:
    """Return what ``change`` makes of an answer: at once, or when it is there."""
    if not isinstance(answer, Later):
        return change(answer)
    later = Later()
    answer.when_complete(lambda done: later.complete(change(done.answer)))
    return later


@cache
def _in_catalog(name: str) -> catalog.Api:
    return catalog.api(name)


LEFT_OUT: Final = "left out"


@dataclass(frozen=True, slots=True)
class Right:
    """What a client must be allowed to do, as AclOperation and ResourceType; a row of the table of access rights.

    Attributes:
        field: of the request, with the resource's name (a cluster needs none): without the right the whole request is
            refused, and its handler does not see it. A request in which the field is null does not need the right.
        each: the parts that need the right, in words; the handler asks for each of them.
        denied: the error, or ``LEFT_OUT``: the part is not in the answer; by default the resource's error.
        or_cluster: an operation on the cluster that is enough instead.
        since, until: the versions that need it.
        first_release: of Kafka that asks for it; empty: all that have the API.
        is_needed: it is, in the release that is played.
    """

    operation: str
    resource: str
    field: str = ""
    _: KW_ONLY
    each: str = ""
    denied: ErrorCode | str = ""
    or_cluster: str = ""
    since: int = 0
    until: int = 2**15 - 1
    first_release: tuple[int, ...] = ()
    is_needed: bool = True

    @property
    def error(self) -> ErrorCode:
        """The error without the right, where the part is not left out."""
        if isinstance(self.denied, ErrorCode):
            return self.denied
        resource = "DELEGATION_TOKEN" if self.resource == "USER" else self.resource  # what users are resources for
        return ErrorCode[f"{resource}_AUTHORIZATION_FAILED"]


def refuse_whole(request: Any, code: int) -> Message:
    """Refuse a request by the error code of its answer."""
    answer: Message = request.response(error_code=code)
    return answer


def _answers_nothing(request: Any, broker: Any) -> Answer:
    raise NotImplementedError("an API without a handler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """What is to know of an API, as the decorator of its handler; ``table.py`` collects them.

    Attributes:
        name: Kafka's (``Metadata``); key, versions and headers are the catalog's.
        tier: T0 (every client) to T6, for the support table.
        behaviour: what it does here, in a sentence or two.
        notes: what changes with a version: ``{"v4+": "..."}``.
        gaps: what Kafka does and this does not.
        versions: lowest and highest; None for all that are stable.
        before_authentication: answered on connections that have not authenticated.
        group_type: ``consumer``, ``share`` or ``streams``: refused with UNSUPPORTED_VERSION while these groups are
            disabled. Empty for other APIs.
        is_advertised: named in ApiVersions.
        rights: what a client must be allowed to do, in the order in which it is looked at.
        refuse: answers a request that is refused whole with an error code.
        rewritten: what specs of a user's own say of it, instead of the catalog (``table.py``).
        on_unknown_version: answers a request of a version that is not served, at version 0 (KIP-511); None: the
            connection is closed, as Kafka does.
        handle: answers a request: the function that is decorated.
    """

    name: str
    tier: str
    behaviour: str
    notes: Mapping[str, str] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    versions: tuple[int, int] | None = None
    before_authentication: bool = False
    group_type: str = ""
    is_advertised: bool = True
    rights: tuple[Right, ...] = ()
    refuse: Callable[[Any, int], Answer] = refuse_whole
    rewritten: catalog.Api | None = None
    on_unknown_version: Handler | None = None
    handle: Handler = _answers_nothing

    def __call__(self, handle: HandlerT) -> HandlerT:
        """Declare ``handle`` the API's handler: its attribute ``api`` says so."""
        vars(handle)["api"] = replace(self, handle=handle)
        return handle

    @property
    def key(self) -> int:
        """The API key."""
        return self.catalog.key

    @property
    def catalog(self) -> catalog.Api:
        """What the catalog says of it, or the specs that are served instead."""
        return self.rewritten or _in_catalog(self.name)

    def rights_at(self, version: int, *, whole: bool) -> Iterator[Right]:
        """Yield the rights that a version needs for the whole request, or for its parts."""
        for right in self.rights:
            if right.since <= version <= right.until and whole is not bool(right.each):
                yield right

    @property
    def range(self) -> tuple[int, int]:
        """The lowest and the highest version that is served; versions that Kafka calls unstable are not."""
        if self.versions is not None:
            return self.versions
        known = self.catalog
        return known.versions.lowest, known.versions.highest - int(known.is_latest_unstable)
