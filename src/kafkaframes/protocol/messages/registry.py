"""Find messages by name or API key, in a user's specs and in the catalog."""

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
from kafkaframes.protocol.spec.model import RPC_TYPES, MessageSpec
from kafkaframes.protocol.spec.versions import Versions

Specs: TypeAlias = Mapping[str, MessageSpec] | Iterable[MessageSpec] | MessageSpec | str | Path


def message(name: str, *, specs: Specs | None = None) -> type[Message]:
    """Return the class of a message (``kafkaframes.message_class``).

    Args:
        name: Kafka's name of the message, such as ``MetadataResponse`` or ``OffsetCommitValue``.
        specs: specs that replace those of the catalog: ``MessageSpec`` objects, or the path of a JSON file or a folder,
            which is read in each call.

    Raises:
        SpecError: the message does not exist, or its spec is invalid.
        OptionError: ``specs`` does not contain the message.
    """
    if specs is None:
        return class_in_catalog(name)
    by_name = specs_by_name(specs)
    if name not in by_name:
        raise OptionError(f"message {name!r} is not in the specs; they contain {', '.join(sorted(by_name)) or 'none'}")
    return class_of(by_name[name])


def specs_by_name(specs: Specs) -> dict[str, MessageSpec]:
    """Return a user's specs by name.

    Raises:
        SpecError: a file is not a valid spec.
        OptionError: a path cannot be read.
    """
    if isinstance(specs, str | Path):
        iterable: Iterable[MessageSpec] = _load_specs(Path(specs))
    elif isinstance(specs, MessageSpec):
        iterable = (specs,)
    else:
        iterable = specs.values() if isinstance(specs, Mapping) else specs
    return {spec.name: spec for spec in iterable}


def find_message_class_in(name: str, specs: Specs | None) -> type[Message]:
    """Return the class of a message in a user's specs or, if they do not contain it, in the catalog.

    Raises:
        SpecError: the message does not exist, or a file is not a valid spec.
        OptionError: a path cannot be read.
    """
    by_name = {} if specs is None else specs_by_name(specs)
    return class_of(by_name[name]) if name in by_name else class_in_catalog(name)


def add_catalog_specs(specs: Specs) -> dict[str, MessageSpec]:
    """Return a user's specs by name, with the catalog's requests and responses of all other APIs.

    Versions older than those of a user's spec are added from the catalog, so that both ends can still use them.

    Raises:
        SpecError: a file is not a valid spec, or a spec cannot be merged with the catalog's older versions.
        OptionError: a path cannot be read.
    """
    # Imported here: only clients with specs of their own need this module.
    from kafkaframes.protocol.spec.merge import merge_older

    result = specs_by_name(specs)
    names = {(spec.api_key, spec.type): name for name, spec in result.items()}
    for api in catalog.list_apis():
        for type_, catalog_name in (("request", api.request), ("response", api.response)):
            name = names.get((api.key, type_))
            if name is None:
                result.setdefault(catalog_name, catalog.load_spec(catalog_name))
            else:
                result[name] = merge_older(result[name], catalog.load_spec(catalog_name))
    return result


def _load_specs(path: Path) -> Iterator[MessageSpec]:
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    for file in files:
        try:
            text = file.read_bytes()
        except OSError as error:
            raise OptionError(f"spec {file} cannot be read: {error}") from None
        yield load_message(text, file=str(file))


class ApiRegistry:
    """All APIs, from a user's specs and, for all other APIs, messages and versions, from the catalog.

    A pickle contains the specs, so that another process does not need their files.
    """

    def __init__(self, specs: Specs | None = None) -> None:
        """Load a user's specs, if any. Raises like ``specs_by_name``."""
        self._own: dict[tuple[int, str], MessageSpec] = {}
        for spec in specs_by_name(specs).values() if specs is not None else ():
            if spec.api_key is not None and spec.type in RPC_TYPES and not spec.valid_versions.is_empty:
                self._own.setdefault((spec.api_key, spec.type), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return ApiRegistry, (tuple(self._own.values()) or None,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApiRegistry) and self._own == other._own

    def __hash__(self) -> int:
        return hash(frozenset(self._own))

    @cached_property
    def apis_by_key(self) -> dict[int, Api]:
        """The APIs by key.

        Raises:
            OptionError: ``specs`` contains only the request or only the response of an API that the catalog lacks.
        """
        apis = {api.key: api for api in catalog.list_apis()}
        for key in sorted({key for key, _ in self._own}):
            apis[key] = self._merge_api(key, apis.get(key))
        return apis

    def find_api(self, text: str) -> Api:
        """Return an API by its name or its key.

        Raises:
            OptionError: the API does not exist.
        """
        for key, api in self.apis_by_key.items():
            if text in (api.name, str(key)):
                return api
        raise OptionError(f"unknown API {text!r}{did_you_mean(text, [api.name for api in self.apis_by_key.values()])}")

    def name_of(self, key: int) -> str | None:
        """Return the name of an API, or None if it does not exist.

        >>> ApiRegistry().name_of(3), ApiRegistry().name_of(9999)
        ('Metadata', None)
        """
        api = self.apis_by_key.get(key)
        return None if api is None else api.name

    def has_own_spec(self, key: int) -> bool:
        """Return whether a user's spec exists for an API."""
        return any((key, type_) in self._own for type_ in RPC_TYPES)

    def find_spec(self, key: int, type_: str, version: int) -> MessageSpec:
        """Return the spec of a ``request`` or ``response``. Versions that no spec has map to the catalog's spec.

        Raises:
            SpecError: the API does not exist.
        """
        own = self._own.get((key, type_))
        if own is not None and own.valid_versions.contains(version):
            return own
        try:
            api = catalog.find_api(key)
        except SpecError:
            if own is None:
                raise
            return own
        return catalog.load_spec(api.half(type_))

    def message_class(self, key: int, type_: str, version: int) -> type[Message]:
        """Return the class of ``find_spec(key, type_, version)``."""
        return class_of(self.find_spec(key, type_, version))

    def _merge_api(self, key: int, catalog_api: Api | None) -> Api:
        request, response = (self._own.get((key, type_)) for type_ in (REQUEST, RESPONSE))
        if catalog_api is None and (request is None or response is None):
            half = request or response
            assert half is not None
            raise OptionError(f"{half.name} has API key {key}, but the specs lack the API's other message")
        if catalog_api is not None:
            name = catalog_api.name
        else:
            assert request is not None
            name = request.name.removesuffix("Request")
        versions = _join_versions(
            [half.valid_versions for half in (request, response) if half is not None], catalog_api
        )
        spec = request or catalog.load_spec(f"{name}Request")
        halves = {
            number: (self.find_spec(key, REQUEST, number), self.find_spec(key, RESPONSE, number)) for number in versions
        }
        flexible = [version for version, (half, _) in halves.items() if half.is_flexible(version)]
        headers = {
            version: (first.header_version(version), second.header_version(version))
            for version, (first, second) in halves.items()
        }
        return Api(
            key=key,
            name=name,
            versions=versions,
            current_versions=versions if catalog_api is None else catalog_api.current_versions,
            flexible_since=min(flexible, default=None),
            is_latest_unstable=spec.latest_version_unstable,
            listeners=spec.listeners,
            header_versions=MappingProxyType(headers),
        )


def _join_versions(own: Iterable[Versions], catalog_api: Api | None) -> Versions:
    """Return the range from the lowest to the highest version that a user's spec or the catalog's API has."""
    ranges = [*own, *([] if catalog_api is None or catalog_api.versions.is_empty else [catalog_api.versions])]
    return Versions(min(part.lowest for part in ranges), max(part.highest for part in ranges))


CATALOG: Final = ApiRegistry()
