"""Find messages, by name or for traffic: a user's specs, and the catalog's for all that these lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from kafkaframes.errors import OptionError, SpecError
from kafkaframes.errors.sensitive import REQUEST, RESPONSE
from kafkaframes.errors.suggestions import did_you_mean
from kafkaframes.protocol.messages.objects import Message, class_in_catalog, class_of
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.catalog import Api
from kafkaframes.protocol.spec.load import load_message
from kafkaframes.protocol.spec.merge import merge_older
from kafkaframes.protocol.spec.model import RPC_TYPES, MessageSpec
from kafkaframes.protocol.spec.versions import Versions

Specs: TypeAlias = Mapping[str, MessageSpec] | Iterable[MessageSpec] | MessageSpec | str | Path


def message(name: str, *, specs: Specs | None = None) -> type[Message]:
    """Return the class of a message (``kafkaframes.message_class``).

    Args:
        name: as Kafka names it: ``MetadataResponse``, ``OffsetCommitValue``.
        specs: where to find it instead of the catalog: specs, by name or one after another; or a path to a spec's
            file or a folder of them, which is read at each call.

    Raises:
        SpecError: there is no such message, or its file is no spec.
        OptionError: ``specs`` has no such message.
    """
    if specs is None:
        return class_in_catalog(name)
    known = specs_by_name(specs)
    if name not in known:
        raise OptionError(f"no message {name!r} among these specs: {', '.join(sorted(known)) or 'none at all'}")
    return class_of(known[name])


def specs_by_name(specs: Specs) -> dict[str, MessageSpec]:
    """Return a user's specs by name.

    Raises:
        SpecError: a file is no spec.
        OptionError: a path cannot be read.
    """
    if isinstance(specs, str | Path):
        several: Iterable[MessageSpec] = _from_path(Path(specs))
    elif isinstance(specs, MessageSpec):
        several = (specs,)
    else:
        several = specs.values() if isinstance(specs, Mapping) else specs
    return {spec.name: spec for spec in several}


def message_of(name: str, specs: Specs | None) -> type[Message]:
    """Return the class of a message of a user's specs, or of the catalog where they have none of this name.

    Raises:
        SpecError: there is no such message, or a file is no spec.
        OptionError: a path cannot be read.
    """
    own = {} if specs is None else specs_by_name(specs)
    return class_of(own[name]) if name in own else class_in_catalog(name)


def with_catalog(specs: Specs) -> dict[str, MessageSpec]:
    """Return a user's specs by name, and the catalog's request or response of each API where they have none.

    Versions below those of a user's spec are the catalog's: both ends go on speaking them.

    Raises:
        SpecError: a file is no spec, or one class cannot have its versions and the catalog's.
        OptionError: a path cannot be read.
    """
    known = specs_by_name(specs)
    own = {(spec.api_key, spec.type): name for name, spec in known.items()}
    for api in catalog.apis():
        for type_, name in (("request", api.request), ("response", api.response)):
            own_name = own.get((api.key, type_))
            if own_name is None:
                known.setdefault(name, catalog.load(name))
            else:
                known[own_name] = merge_older(known[own_name], catalog.load(name))
    return known


def _from_path(path: Path) -> Iterator[MessageSpec]:
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    for file in files:
        try:
            text = file.read_bytes()
        except OSError as error:
            raise OptionError(f"no spec can be read at {file}: {error}") from None
        yield load_message(text, file=str(file))


class Apis:
    """All APIs, those of a user's specs among them; what ``specs`` lacks (an API, a half, a version) is the catalog's.

    A pickle holds the specs themselves: another process needs no files.
    """

    def __init__(self, specs: Specs | None = None) -> None:
        """Take specs, or a path to some; without them all is the catalog's. Raises as ``specs_by_name``."""
        self._own: dict[tuple[int, str], MessageSpec] = {}
        for spec in specs_by_name(specs).values() if specs is not None else ():
            if spec.api_key is not None and spec.type in RPC_TYPES and not spec.valid_versions.is_empty:
                self._own.setdefault((spec.api_key, spec.type), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return Apis, (tuple(self._own.values()) or None,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Apis) and self._own == other._own

    def __hash__(self) -> int:
        return hash(frozenset(self._own))

    @cached_property
    def table(self) -> dict[int, Api]:
        """The APIs by key.

        Raises:
            OptionError: an API that the catalog does not have lacks its request or its response.
        """
        known = {api.key: api for api in catalog.apis()}
        for key in sorted({key for key, _ in self._own}):
            known[key] = self._merged(key, known.get(key))
        return known

    def named(self, text: str) -> Api:
        """Return an API by its name or its number.

        Raises:
            OptionError: there is none.
        """
        for key, api in self.table.items():
            if text in (api.name, str(key)):
                return api
        raise OptionError(f"there is no API {text!r}{did_you_mean(text, [api.name for api in self.table.values()])}")

    def name(self, key: int) -> str | None:
        """Return the name of an API, None for one that does not exist.

        >>> Apis().name(3), Apis().name(9999)
        ('Metadata', None)
        """
        api = self.table.get(key)
        return None if api is None else api.name

    def is_own(self, key: int) -> bool:
        """Tell whether a user's spec describes some version of an API."""
        return any((key, type_) in self._own for type_ in RPC_TYPES)

    def spec(self, key: int, type_: str, version: int) -> MessageSpec:
        """Return the spec of a ``request`` or ``response``; the catalog's for a version that nobody has.

        Raises:
            SpecError: there is no such API.
        """
        own = self._own.get((key, type_))
        if own is not None and own.valid_versions.contains(version):
            return own
        try:
            api = catalog.api(key)
        except SpecError:
            if own is None:
                raise
            return own
        return catalog.load(api.half(type_))

    def message_class(self, key: int, type_: str, version: int) -> type[Message]:
        """Return the class of the same; raises as ``spec``."""
        return class_of(self.spec(key, type_, version))

    def _merged(self, key: int, known: Api | None) -> Api:
        request, response = (self._own.get((key, type_)) for type_ in (REQUEST, RESPONSE))
        if known is None and (request is None or response is None):
            half = request or response
            assert half is not None
            raise OptionError(f"{half.name} has API key {key}, and its other half is not among these specs")
        if known is not None:
            name = known.name
        else:
            assert request is not None
            name = request.name.removesuffix("Request")
        versions = _span([one.valid_versions for one in (request, response) if one is not None], known)
        spec = request or catalog.load(f"{name}Request")
        halves = {one: (self.spec(key, REQUEST, one), self.spec(key, RESPONSE, one)) for one in versions}
        flexible = [version for version, (half, _) in halves.items() if half.is_flexible(version)]
        headers = {
            version: (first.header_version(version), second.header_version(version))
            for version, (first, second) in halves.items()
        }
        return Api(
            key=key,
            name=name,
            versions=versions,
            current_versions=versions if known is None else known.current_versions,
            flexible_since=min(flexible, default=None),
            is_latest_unstable=spec.latest_version_unstable,
            listeners=spec.listeners,
            header_versions=MappingProxyType(headers),
        )


def _span(own: Iterable[Versions], known: Api | None) -> Versions:
    """Return the range from the lowest to the highest version."""
    ranges = [*own, *([] if known is None or known.versions.is_empty else [known.versions])]
    return Versions(min(one.lowest for one in ranges), max(one.highest for one in ranges))


CATALOG: Final = Apis()
