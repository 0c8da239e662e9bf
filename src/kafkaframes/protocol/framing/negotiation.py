"""Which version of an API two ends speak: the newest that both know.

KIP-35: a broker lists the versions of each API that it serves, a client takes the highest that it knows too. KIP-511: a
broker that does not know the version of the question answers at version 0 with error 35 and its own range for
ApiVersions, and the client asks again. With specs of one's own (``specs=``: a proposal's, such as KIP-636's), two ends
that both have them speak their new versions; an end without them takes the versions that it knows, and notices nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from kafkaframes.errors import BrokerError, ErrorCode
from kafkaframes.protocol.messages.headers import API_VERSIONS, Frame, body_class
from kafkaframes.protocol.messages.registry import Specs
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.releases import release
from kafkaframes.protocol.spec.versions import Versions

#: Versions by API key.
Ranges: TypeAlias = Mapping[int, Versions]
_OLDEST: Final = Versions(0, 0)  # what a broker knows that names no version of ApiVersions


def known_versions(api_key: int, specs: Specs | None = None) -> Versions:
    """Return the versions of an API that this end knows: those that request and response have, stable ones only.

    Args:
        api_key: of the API.
        specs: where its messages are, if not in the catalog.

    Raises:
        SpecError: no such API.
    """
    request, response = (body_class(api_key, half, specs=specs).spec for half in ("request", "response"))
    both = request.valid_versions.intersect(response.valid_versions)
    return both.intersect(Versions(0, request.latest_stable_version))


def versions_of_release(name: str) -> Ranges:
    """Return what brokers of a release serve, for one that cannot be asked or is not to be.

    What it accepts, not what it advertises: Kafka 4 advertises Produce from 0 and refuses what is below 3.

    Raises:
        OptionError: no such release is known.
    """
    return {key: api.accepted for key, api in release(name).apis().items()}


def listed_versions(response: Any) -> Ranges:
    """Return the versions that an ApiVersions response lists."""
    return {row.api_key: Versions(row.min_version, row.max_version) for row in response.api_keys}


def choose_version(
    api_key: int, theirs: Ranges, *, most: int | None = None, least: int = 0, specs: Specs | None = None
) -> int:
    """Return the newest version of an API that both ends know.

    Args:
        api_key: of the API.
        theirs: what the broker serves.
        most, least: bounds of the caller's own.
        specs: as for :func:`known_versions`.

    Raises:
        BrokerError: there is none.
    """
    listed = theirs.get(api_key)
    name = catalog.api(api_key).name if specs is None else f"API {api_key}"
    if listed is None:
        raise BrokerError(f"the broker has no {name}")
    common = known_versions(api_key, specs).intersect(listed)
    common = common.intersect(Versions(least, common.highest if most is None else most))
    if common.is_empty:
        raise BrokerError(f"no version of {name} in common: the broker takes {listed.lowest} to {listed.highest}")
    return common.highest


def fallback_version(response: Frame, *, specs: Specs | None = None) -> int | None:
    """Return the version at which to ask ApiVersions again, None where the broker knew that of the question (KIP-511).

    Raises:
        BrokerError: the broker knows no version of ApiVersions that this end knows.
    """
    if response.api_key != API_VERSIONS or response.body.error_code != ErrorCode.UNSUPPORTED_VERSION:
        return None
    return choose_version(API_VERSIONS, {API_VERSIONS: _OLDEST, **listed_versions(response.body)}, specs=specs)
