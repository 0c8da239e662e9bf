"""API versions that releases of Apache Kafka advertise and accept, from 0.8.2 on.

``releases.json`` is generated from the published kafka-clients of each release (``tests/interop/releases.py``). For
each API, the file lists the releases in which the entry changed. Advertised versions are listed in an ApiVersions
response, and accepted versions are served by the broker. The two sets differ: Kafka 4 advertises Produce from version
0, because librdkafka otherwise does not compress, but rejects versions 0 to 2 (KAFKA-18659). Unstable versions of a
release are in neither set.

Listeners: ``zk_broker`` (a broker with ZooKeeper), ``broker`` (a KRaft broker) and ``controller`` (a KRaft controller).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from kafkaframes.errors import OptionError
from kafkaframes.protocol.spec.versions import Versions

RELEASES_FILE: Final = Path(__file__).with_suffix(".json")
LISTENERS: Final = ("zk_broker", "broker", "controller")


@dataclass(frozen=True, slots=True)
class ApiRange:
    """The versions of an API that one release supports.

    Attributes:
        key: API key.
        accepted_versions: versions that brokers of the release serve.
        advertised_versions: versions in the release's ApiVersions response.
        deprecated_versions: accepted versions that are deprecated (3.7 to 3.9; KIP-896 removed them in 4.0).
        listeners: names of the listeners that serve the API, from ``LISTENERS``.
    """

    key: int
    accepted_versions: Versions
    advertised_versions: Versions
    deprecated_versions: tuple[int, ...]
    listeners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """A release: its name, and its APIs by key."""

    name: str
    all_apis: Mapping[int, ApiRange]

    @property
    def line(self) -> str:
        """The release line, such as ``0.10.2``, ``2.8`` or ``4.0``."""
        return _release_line(self.name)

    @property
    def broker_listener(self) -> str:
        """The usual listener of the release's brokers: ``zk_broker`` up to 3.2, ``broker`` (KRaft) from 3.3 on."""
        return "broker" if _parse_numbers(self.name) >= (3, 3) else "zk_broker"

    def apis_of_listener(self, listener: str | None = None) -> dict[int, ApiRange]:
        """Return the APIs of a listener by key.

        Args:
            listener: one of ``LISTENERS``; default is ``broker_listener``.

        Raises:
            OptionError: the listener is unknown.
        """
        name = listener or self.broker_listener
        if name not in LISTENERS:
            raise OptionError(f"unknown listener {name!r}; expected {', '.join(LISTENERS)}")
        return {key: api for key, api in self.all_apis.items() if name in api.listeners}

    def accepts(self, key: int, version: int) -> bool:
        """Return whether any listener of the release serves a version of an API."""
        api = self.all_apis.get(key)
        return api is not None and api.accepted_versions.contains(version)


@cache
def _read_table() -> dict[str, Any]:
    value = json.loads(RELEASES_FILE.read_bytes())
    assert isinstance(value, dict)
    return value


def list_releases() -> tuple[str, ...]:
    """Return the releases in the table, oldest first."""
    return tuple(_read_table()["releases"])


@cache
def find_release(name: str) -> Release:
    """Return a release.

    Args:
        name: a release (``4.0.1``) or a release line (``4.3``, ``0.10``), which means its last release in the table.
            A patch release that is not in the table is treated as the next patch release in it, because Kafka changes
            its protocol only in minor releases. The table contains the only known exception, 4.0.0 and 4.0.1.

    Raises:
        OptionError: the release is unknown.
    """
    names, numbers = list_releases(), _parse_numbers(name)
    matches = [item for item in names if numbers and _parse_numbers(item)[: len(numbers)] == numbers][-1:]
    matches = matches or [
        item for item in names if _release_line(item) == _release_line(name) and _parse_numbers(item) >= numbers > ()
    ]
    if not matches:
        raise OptionError(
            f"unknown release {name!r}; expected {', '.join(names)}, "
            f"or a release line such as {_release_line(names[-1])}"
        )
    return _make_release(matches[0])


def find_first_release_with(key: int, version: int) -> str | None:
    """Return the oldest release in the table that serves a version of an API, or a later version.

    Args:
        key: API key.
        version: version of the API.

    Returns:
        The release, or None if no release in the table serves the version yet.

    >>> find_first_release_with(3, 9), find_first_release_with(1, 12)  # Metadata, Fetch: their first flexible versions
    ('2.4.1', '2.7.2')
    """
    for name in list_releases():
        api = find_release(name).all_apis.get(key)
        if api is not None and not api.accepted_versions.is_empty and api.accepted_versions.highest >= version:
            return name
    return None


def _make_release(name: str) -> Release:
    names = list_releases()
    index = names.index(name)
    ranges: dict[int, ApiRange] = {}
    for key, changes in _read_table()["apis"].items():
        rows = [row for since, row in changes if names.index(since) <= index]
        if rows and rows[-1] is not None:
            ranges[int(key)] = _make_range(int(key), *rows[-1])
    return Release(name, ranges)


def _make_range(key: int, accepted_text: str, advertised_text: str, deprecated_text: str, listeners: str) -> ApiRange:
    accepted_versions = Versions.parse(accepted_text)
    advertised_versions = Versions.parse(advertised_text) if advertised_text else accepted_versions
    deprecated_versions = tuple(int(number) for number in deprecated_text.split(",") if number)
    return ApiRange(key, accepted_versions, advertised_versions, deprecated_versions, tuple(listeners.split(",")))


def _parse_numbers(name: str) -> tuple[int, ...]:
    """Return the numbers of a release name, or an empty tuple if the text is not one."""
    parts = name.split(".")
    is_release = 2 <= len(parts) <= 4 and all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts)
    return tuple(map(int, parts)) if is_release else ()


def _release_line(name: str) -> str:
    """Return the release line: two numbers, or three if the first one is 0.

    >>> _release_line("0.10.2.2"), _release_line("4.0.1"), _release_line("4.3")
    ('0.10.2', '4.0', '4.3')
    """
    numbers = _parse_numbers(name)
    return ".".join(map(str, numbers[: 3 if numbers[:1] == (0,) else 2]))
