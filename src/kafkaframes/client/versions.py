"""Which version of an API to speak to a broker: the newest that both sides know. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafkaframes.errors import BrokerError
from kafkaframes.messages.headers import body_class
from kafkaframes.messages.registry import Specs
from kafkaframes.spec import catalog

Ranges = Mapping[int, tuple[int, int]]

# Requests that brokers before 0.10 take; they close the connection on ApiVersions, so nobody can ask them.
# https://kafka.apache.org/protocol lists the versions; the releases' own code has the ranges.
_BEFORE_API_VERSIONS: Final[Mapping[str, Ranges]] = {
    "0.8.0": {0: (0, 0), 1: (0, 0), 2: (0, 0), 3: (0, 0)},
    "0.8.1": {0: (0, 0), 1: (0, 0), 2: (0, 0), 3: (0, 0), 8: (0, 0), 9: (0, 0)},
    "0.8.2": {0: (0, 0), 1: (0, 0), 2: (0, 0), 3: (0, 0), 8: (0, 1), 9: (0, 1), 10: (0, 0)},
    "0.9.0": {
        **dict.fromkeys((2, 3, 10, 11, 12, 13, 14, 15, 16), (0, 0)),
        0: (0, 1),
        1: (0, 1),
        8: (0, 2),
        9: (0, 1),
    },
}


def ranges_of_release(release: str) -> Ranges:
    """Return the ranges of a broker that cannot be asked.

    Raises:
        BrokerError: the release is newer than 0.9 (it can be asked), or unknown.
    """
    found = [known for known in _BEFORE_API_VERSIONS if known == release or known.startswith(release + ".")]
    if not found:
        raise BrokerError(
            f"api_version {release!r} is none of those that cannot be asked: {', '.join(_BEFORE_API_VERSIONS)}"
        )
    return _BEFORE_API_VERSIONS[found[-1]]


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
