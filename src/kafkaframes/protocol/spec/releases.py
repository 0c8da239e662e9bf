"""Which versions of each API a release of Apache Kafka advertises and accepts, from 0.8.2 on: data and look-up.

``releases.json`` is made from the published kafka-clients of each release (``tests/interop/releases.py``): for each API
the releases at which what it says changed. Advertised is what an ApiVersions response says, accepted is what is parsed
and served. They differ: Kafka 4 advertises Produce from 0, for librdkafka takes less as "no compression", and refuses
0 to 2 (KAFKA-18659). Versions that a release calls unstable are in neither.

Listeners: a broker with ZooKeeper (``zk_broker``), a KRaft broker (``broker``), a KRaft ``controller``.
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

FILE: Final = Path(__file__).with_suffix(".json")
LISTENERS: Final = ("zk_broker", "broker", "controller")
API_VERSIONS: Final = 18


@dataclass(frozen=True, slots=True)
class ApiRange:
    """What one release says of one API.

    Attributes:
        accepted: the versions that it serves.
        advertised: the versions that it tells clients of.
        deprecated: the versions among them that it calls deprecated (3.7 to 3.9, before KIP-896 took them away).
        listeners: where it is served, some of ``LISTENERS``.
    """

    key: int
    accepted: Versions
    advertised: Versions
    deprecated: tuple[int, ...]
    listeners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """One release: its name, and its APIs by key."""

    name: str
    all_apis: Mapping[int, ApiRange]

    @property
    def line(self) -> str:
        """The line of releases that it stands for: ``0.10.2``, ``2.8``, ``4.0``."""
        return _line(self.name)

    @property
    def broker_listener(self) -> str:
        """What its brokers are: with ZooKeeper until 3.2, with KRaft, which 3.3 called fit for production, since."""
        return "broker" if _numbers(self.name) >= (3, 3) else "zk_broker"

    def apis(self, listener: str | None = None) -> dict[int, ApiRange]:
        """Return the APIs that a listener serves, by key.

        Args:
            listener: one of ``LISTENERS``; ``broker_listener`` if not told.

        Raises:
            OptionError: there is no such listener.
        """
        chosen = listener or self.broker_listener
        if chosen not in LISTENERS:
            raise OptionError(f"listener {chosen!r}: one of {', '.join(LISTENERS)}")
        return {key: one for key, one in self.all_apis.items() if chosen in one.listeners}

    def accepts(self, key: int, version: int) -> bool:
        """Return whether any of its listeners serves this version of an API."""
        served = self.all_apis.get(key)
        return served is not None and served.accepted.contains(version)


@cache
def _table() -> dict[str, Any]:
    value = json.loads(FILE.read_bytes())
    assert isinstance(value, dict)
    return value


def releases() -> tuple[str, ...]:
    """Return the releases that the table was made from, oldest first."""
    return tuple(_table()["releases"])


@cache
def release(name: str) -> Release:
    """Return what a release says.

    Args:
        name: a release (``4.0.1``) or a line of them (``4.3``, ``0.10``), which is the last of it in the table.
            A patch release that is not in it is taken for the next one that is: Kafka changes its protocol in minor
            releases; the one exception known, 4.0.0 and 4.0.1, is in the table with both.

    Raises:
        OptionError: no such release is known; the error lists those that are.
    """
    known, numbers = releases(), _numbers(name)
    matching = [one for one in known if numbers and _numbers(one)[: len(numbers)] == numbers][-1:]
    matching = matching or [one for one in known if _line(one) == _line(name) and _numbers(one) >= numbers > ()]
    if not matching:
        raise OptionError(f"no release {name!r} is known, but {', '.join(known)}, and lines such as {_line(known[-1])}")
    return _release(matching[0])


def first_release_with(key: int, version: int) -> str | None:
    """Return the oldest release in the table that serves a version of an API, or a later version.

    Args:
        key: API key.
        version: version of the API.

    Returns:
        None if no release serves it yet.

    >>> first_release_with(3, 9), first_release_with(1, 12)  # Metadata, Fetch: their first flexible versions
    ('2.4.1', '2.7.2')
    """
    for name in releases():
        served = release(name).all_apis.get(key)
        if served is not None and not served.accepted.is_empty and served.accepted.highest >= version:
            return name
    return None


def _release(name: str) -> Release:
    known = releases()
    until = known.index(name)
    ranges: dict[int, ApiRange] = {}
    for key, changes in _table()["apis"].items():
        said = [row for since, row in changes if known.index(since) <= until]
        if said and said[-1] is not None:
            ranges[int(key)] = _range(int(key), *said[-1])
    return Release(name, ranges)


def _range(key: int, accepted: str, advertised: str, deprecated: str, listeners: str) -> ApiRange:
    versions = Versions.parse(accepted)
    announced = Versions.parse(advertised) if advertised else versions
    old = tuple(int(one) for one in deprecated.split(",") if one)
    return ApiRange(key, versions, announced, old, tuple(listeners.split(",")))


def _numbers(name: str) -> tuple[int, ...]:
    """Return the numbers of a release's name; empty for what is none."""
    parts = name.split(".")
    is_one = 2 <= len(parts) <= 4 and all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts)
    return tuple(map(int, parts)) if is_one else ()


def _line(name: str) -> str:
    """Return a release's line: two numbers, three while Kafka's first number was 0.

    >>> _line("0.10.2.2"), _line("4.0.1"), _line("4.3")
    ('0.10.2', '4.0', '4.3')
    """
    numbers = _numbers(name)
    return ".".join(map(str, numbers[: 3 if numbers[:1] == (0,) else 2]))
