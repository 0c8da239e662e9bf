"""The catalog: the specs of all versions of Apache Kafka's messages, loaded on demand.

``index.json`` lists the messages. The first ``load_spec`` of a message opens the message's file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from kafkaframes.errors import SpecError
from kafkaframes.errors.suggestions import did_you_mean
from kafkaframes.protocol.spec.load import load_trusted
from kafkaframes.protocol.spec.model import RPC_TYPES, MessageSpec
from kafkaframes.protocol.spec.versions import Versions

MESSAGES_FOLDER = Path(__file__).parent / "messages"
ABOUT_FILE = Path(__file__).parent / "about.json"
_RPC_SUFFIX_PATTERN = re.compile(r"(?:Request|Response)$")


class IndexEntry(NamedTuple):
    """A message's entry in the catalog's index.

    Attributes:
        outline: the message's spec without fields: type, API key, versions, listeners, header versions.
        module: the Kafka jar that contains the message; record API keys are unique within a module only.
        last_release: the newest release that supports any version of the message.
        current_versions: the versions that the catalog's newest release supports; empty for a removed message.
    """

    outline: MessageSpec
    module: str
    last_release: str
    current_versions: Versions

    @property
    def name(self) -> str:
        """The message's name."""
        return self.outline.name


class Api(NamedTuple):
    """An API: its key, its name (``Metadata``), its versions and their header versions.

    Attributes:
        versions: all versions in the catalog.
        current_versions: versions in the newest release; empty for a removed API.
        flexible_since: the first flexible version, or ``None``.
        is_latest_unstable: whether the highest version is unreleased (``latestVersionUnstable`` in the request spec).
        header_versions: version to (request header version, response header version).
    """

    key: int
    name: str
    versions: Versions
    current_versions: Versions
    flexible_since: int | None
    is_latest_unstable: bool
    listeners: tuple[str, ...]
    header_versions: Mapping[int, tuple[int, int]]

    @property
    def request(self) -> str:
        """The name of the request's spec."""
        return f"{self.name}Request"

    @property
    def response(self) -> str:
        """The name of the response's spec."""
        return f"{self.name}Response"

    def half(self, type_: str) -> str:
        """Return the name of the API's ``request`` or ``response`` spec."""
        return self.request if type_ == "request" else self.response

    def is_flexible(self, version: int) -> bool | None:
        """Return whether a version is flexible; ``None`` if the version does not exist."""
        if not self.versions.contains(version):
            return None
        return self.flexible_since is not None and version >= self.flexible_since


@cache
def _read_index() -> dict[str, Any]:
    value = json.loads((MESSAGES_FOLDER / "index.json").read_bytes())
    assert isinstance(value, dict)
    return value


def newest_release() -> str:
    """Return the newest Kafka release in the catalog."""
    return str(_read_index()["newestRelease"])


def list_names() -> tuple[str, ...]:
    """Return the names of all messages, sorted."""
    return tuple(_read_index()["messages"])


@cache
def find_entry(name: str) -> IndexEntry:
    """Return a message's entry in the index.

    Raises:
        SpecError: the catalog has no message of this name.
    """
    row = _read_index()["messages"].get(name)
    if row is None:
        raise SpecError(f"the catalog has no message {name!r}{_suggest_names(name)}")
    row = dict(row)
    module, release, current = row.pop("module"), row.pop("lastRelease"), row.pop("currentVersions")
    return IndexEntry(load_trusted({**row, "name": name}), module, release, Versions.parse(current))


def _suggest_names(name: str) -> str:
    from difflib import get_close_matches

    names_by_lower_case = {message_name.lower(): message_name for message_name in list_names()}
    candidates = [name.lower(), f"{name.lower()}request", f"{name.lower()}response"]
    near = [
        message_name
        for candidate in candidates
        for message_name in get_close_matches(candidate, names_by_lower_case, n=2, cutoff=0.8)
    ]
    return (
        f"; did you mean {' or '.join(dict.fromkeys(names_by_lower_case[lower_name] for lower_name in near))}?"
        if near
        else ""
    )


@cache
def load_spec(name: str) -> MessageSpec:
    """Return the spec of a message, across all versions that any release has supported.

    Raises:
        SpecError: the catalog has no message of this name.
    """
    find_entry(name)
    return load_trusted(json.loads((MESSAGES_FOLDER / f"{name}.json").read_bytes()))


@cache
def _list_halves() -> dict[tuple[int, str], str]:
    """Return the name of each request and response, by API key and type; a renamed API has its current name."""
    names: dict[tuple[int, str], str] = {}
    for name, row in _read_index()["messages"].items():
        if row["type"] in RPC_TYPES and "apiKey" in row:
            half = (row["apiKey"], row["type"])
            if half not in names or _make_age_key(names[half]) < _make_age_key(name):
                names[half] = name
    return names


def _make_age_key(name: str) -> tuple[bool, tuple[int, ...]]:
    """Return a sort key: removed messages first, then by the last release that contains the message."""
    entry = find_entry(name)
    return not entry.current_versions.is_empty, tuple(int(part) for part in entry.last_release.split("."))


@cache
def list_apis() -> tuple[Api, ...]:
    """Return the APIs, ordered by key; a renamed API has its current name."""
    return tuple(_make_api(key) for key in sorted({key for key, _ in _list_halves()}))


@cache
def _make_api(key: int) -> Api:
    names = _list_halves()
    request, response = find_entry(names[key, "request"]), find_entry(names[key, "response"])
    outline = request.outline
    headers = {v: (outline.header_version(v), response.outline.header_version(v)) for v in outline.valid_versions}
    flexible = outline.flexible_versions
    return Api(
        key=key,
        name=request.name.removesuffix("Request"),
        versions=outline.valid_versions,
        current_versions=request.current_versions,
        flexible_since=None if flexible.is_empty else flexible.lowest,
        is_latest_unstable=outline.latest_version_unstable,
        listeners=outline.listeners,
        header_versions=MappingProxyType(headers),
    )


@cache
def _keys_by_name() -> dict[str, int]:
    return {name.removesuffix("Request"): key for (key, type_), name in _list_halves().items() if type_ == "request"}


@cache  # cached because each response needs it
def find_api(key_or_name: int | str) -> Api:
    """Return an API by its key or its name (``3``, ``"Metadata"``).

    Raises:
        SpecError: the API does not exist.
    """
    key = _keys_by_name().get(key_or_name) if isinstance(key_or_name, str) else key_or_name
    if key is None or (key, "request") not in _list_halves():
        hint = did_you_mean(str(key_or_name), [api.name for api in list_apis()])
        raise SpecError(f"unknown API {key_or_name!r}{hint}")
    return _make_api(key)


def list_records(module: str) -> Iterator[tuple[int, MessageSpec]]:
    """Yield (record type, outline) of every record of a module, by type, keys before values.

    Modules are ``kafka-metadata`` (KRaft's log), ``kafka-storage`` (remote log metadata), ``kafka-group-coordinator``
    (``__consumer_offsets``), ``kafka-transaction-coordinator`` and ``kafka-share-coordinator``.
    """
    outlines = [entry.outline for entry in map(find_entry, list_names()) if entry.module == module]
    record_specs = [spec for spec in outlines if spec.api_key is not None and spec.type not in RPC_TYPES]
    yield from (
        (spec.api_key or 0, spec) for spec in sorted(record_specs, key=lambda spec: (spec.api_key or 0, spec.type))
    )


@cache
def _read_descriptions() -> dict[str, dict[str, str]]:
    value = json.loads(ABOUT_FILE.read_bytes())
    assert isinstance(value, dict)
    return value


def field_descriptions() -> dict[str, str]:
    """Return this package's descriptions of fields, by bare field name."""
    return dict(_read_descriptions()["fields"])


def find_description(name: str, field: str | None = None) -> str:
    """Return the description of a message or API, or of a field by its bare name; ``""`` if it has none."""
    table = _read_descriptions()
    if field is not None:
        return table["fields"].get(field, "")
    return table["messages"].get(name, "") or table["messages"].get(_RPC_SUFFIX_PATTERN.sub("", name), "")
