"""Which version of an API to speak to a broker: the newest that both sides know. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkaframes.errors import BrokerError
from kafkaframes.protocol.messages.headers import body_class
from kafkaframes.protocol.messages.registry import Specs
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.releases import release

Ranges = Mapping[int, tuple[int, int]]


def ranges_of_release(name: str) -> Ranges:
    """Return the ranges that brokers of a release serve, for one that cannot be asked or is not to be.

    What it accepts, not what it advertises: Kafka 4 advertises Produce from 0 and refuses what is below 3.

    Raises:
        OptionError: no such release is known.
    """
    return {key: (one.accepted.lowest, one.accepted.highest) for key, one in release(name).apis().items()}


def ranges_of_response(response: Any) -> dict[int, tuple[int, int]]:
    """Return the ranges that an ApiVersions response lists."""
    return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}


def newest(api_key: int, specs: Specs | None = None) -> tuple[int, int]:
    """Return the versions of an API that we speak; a version still unstable is not among them (KIP-848's word)."""
    request, response = (body_class(api_key, kind, specs=specs).spec for kind in ("request", "response"))
    both = request.valid_versions.intersect(response.valid_versions)
    return both.lowest, min(both.highest, request.latest_stable_version)


def choose(api_key: int, ranges: Ranges, *, most: int | None = None, least: int = 0, specs: Specs | None = None) -> int:
    """Return the newest version of an API that both sides know.

    Args:
        api_key: of the API.
        ranges: what the broker takes.
        most, least: bounds of the caller's own.
        specs: where the specs are, if not the catalog's.

    Raises:
        BrokerError: there is none.
    """
    low, high = newest(api_key, specs)
    theirs = ranges.get(api_key)
    name = catalog.api(api_key).name if specs is None else f"API {api_key}"
    if theirs is None:
        raise BrokerError(f"the broker has no {name}")
    low, high = max(low, least, theirs[0]), min(high, theirs[1], high if most is None else most)
    if low > high:
        raise BrokerError(f"no version of {name} in common: the broker takes {theirs[0]} to {theirs[1]}")
    return high
