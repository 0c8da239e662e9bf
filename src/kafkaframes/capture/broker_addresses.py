"""Which responses hold addresses of brokers, and where: told from the specs, not from a list. No I/O.

An address is a struct's ``Host`` and ``Port``. Every such pair of a response is a broker's or a controller's, but for
``UserEndpoint`` of streams groups (KIP-1071), which is where an application answers its own queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from kafkaframes.errors import KafkaframesError
from kafkaframes.errors.sensitive import RESPONSE
from kafkaframes.protocol.messages.apis import CATALOG, Apis
from kafkaframes.protocol.messages.headers import API_VERSIONS, decode_response
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.structs import Struct

Address: TypeAlias = tuple[str, int]
Path: TypeAlias = tuple[str, ...]
_APPLICATIONS_OWN: Final = "UserEndpoint"


class Answer(NamedTuple):
    """A response at a version, and the ways to the structs in it that hold addresses."""

    cls: type[Message]
    version: int
    paths: tuple[Path, ...]


class BrokerAddresses:
    """Finds and replaces addresses in responses of the catalog, or of a user's specs before it."""

    def __init__(self, apis: Apis = CATALOG) -> None:
        self._apis = apis
        self._known: dict[tuple[int, int], Answer | None] = {}

    def of(self, key: int, version: int) -> Answer | None:
        """Return where the response of an API's version holds addresses; None if no spec has that version.

        ApiVersions is known at any version: brokers answer it at version 0 (KIP-511).
        """
        found = self._known.get((key, version), self)
        if found is self:
            found = self._known[key, version] = self._find(key, version)
        return found  # type: ignore[return-value]

    def _find(self, key: int, version: int) -> Answer | None:
        try:
            cls = self._apis.message_class(key, RESPONSE, version)
        except KafkaframesError:
            return None
        if cls.spec.valid_versions.contains(version):
            return _answer(cls, version)
        return Answer(cls, 0, ()) if key == API_VERSIONS else None

    def label(self, key: int, version: int) -> str:
        """Return how people call an API's version."""
        return f"{self._apis.name(key) or f'API {key}'} version {version}"


def with_local_addresses(response: bytes, answer: Answer, local_of: Callable[[Address], Address]) -> bytes | None:
    """Return a response with other addresses of brokers; ``None`` where it holds none.

    Raises:
        DecodeError: it cannot be read.
        OptionError: (of ``local_of``) there is no such address here.
    """
    frame = decode_response(response, answer.cls.spec.api_key or 0, answer.version, specs=answer.cls.spec)
    holders = [holder for path in answer.paths for holder in _at(frame.body, path)]
    changed = [_replace(holder, local_of) for holder in holders]
    if not any(changed):
        return None
    return bytes(frame.header.encode(frame.header_version) + frame.body.encode(frame.api_version))


def _answer(cls: type[Message], version: int) -> Answer | None:
    try:
        cls.codec(version)
    except KafkaframesError:  # a spec of a user that contains itself
        return None
    return Answer(cls, version, tuple(_paths(cls, version)))


def _paths(cls: type[Struct], version: int, path: Path = ()) -> Iterator[Path]:
    """Yield the ways to the structs that hold a host and a port at a version."""
    fields = [info for info in cls._fields if info.spec.is_present(version) or info.spec.is_tagged(version)]
    if {"Host", "Port"} <= {info.spec.name for info in fields}:
        yield path
    for info in fields:
        if info.struct is not None and info.spec.name != _APPLICATIONS_OWN:
            yield from _paths(info.struct, version, (*path, info.attribute))


def _at(value: Any, path: Path) -> Iterator[Any]:
    if isinstance(value, list):
        for element in value:
            yield from _at(element, path)
    elif value is not None and path:
        yield from _at(getattr(value, path[0]), path[1:])
    elif value is not None:
        yield value


def _replace(holder: Any, local_of: Callable[[Address], Address]) -> bool:
    if not holder.host or holder.port <= 0:
        return False
    holder.host, holder.port = local_of((holder.host, holder.port))
    return True
