"""Choose the version of a request: the newest version of an API that both the client and the broker support.

A broker lists the versions of each API that it supports, and the client uses the highest common version (KIP-35). A
broker that does not support the requested version of ApiVersions responds at version 0 with error 35 and its range for
ApiVersions, and the client sends the request again (KIP-511). If the client and the broker have the same custom specs
(``specs=``, for example those of a proposal), they use the new versions. In all other cases, the client uses the
versions of the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from kafkaframes.errors import BrokerError, ErrorCode
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.headers import Frame, body_class
from kafkaframes.protocol.messages.registry import Specs
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.releases import find_release
from kafkaframes.protocol.spec.versions import Versions

#: API key -> versions.
Ranges: TypeAlias = Mapping[int, Versions]
_ASSUMED_VERSIONS: Final = Versions(0, 0)  # assumed if a broker does not list ApiVersions itself


def find_supported_versions(api_key: int, specs: Specs | None = None) -> Versions:
    """Return the stable versions of an API for which this end has both a request and a response.

    Raises:
        SpecError: the API does not exist.
    """
    request, response = (body_class(api_key, half, specs=specs).spec for half in ("request", "response"))
    both = request.valid_versions.intersect(response.valid_versions)
    return both.intersect(Versions(0, request.latest_stable_version))


def find_release_versions(name: str) -> Ranges:
    """Return the versions that brokers of a release accept.

    A broker may advertise more versions than it accepts: Kafka 4 advertises Produce from version 0, but rejects
        versions below 3.

    Raises:
        OptionError: the release is unknown.
    """
    return {key: api.accepted_versions for key, api in find_release(name).apis_of_listener().items()}


def parse_advertised_versions(response: Any) -> Ranges:
    """Return the versions that an ApiVersions response lists."""
    return {row.api_key: Versions(row.min_version, row.max_version) for row in response.api_keys}


def choose_version(
    api_key: int,
    broker_versions: Ranges,
    *,
    max_version: int | None = None,
    min_version: int = 0,
    specs: Specs | None = None,
) -> int:
    """Return the newest version of an API that both ends support, within the caller's limits.

    Raises:
        BrokerError: client and broker have no common version (UNSUPPORTED_VERSION).
    """
    versions = broker_versions.get(api_key)
    name = catalog.find_api(api_key).name if specs is None else f"API {api_key}"
    if versions is None:
        raise BrokerError(f"the broker does not support {name}", ErrorCode.UNSUPPORTED_VERSION)
    common = find_supported_versions(api_key, specs).intersect(versions)
    common = common.intersect(Versions(min_version, common.highest if max_version is None else max_version))
    if common.is_empty:
        raise BrokerError(
            f"no common version of {name}: the broker supports versions {versions.lowest} to {versions.highest}",
            ErrorCode.UNSUPPORTED_VERSION,
        )
    return common.highest


def fallback_version(response: Frame, *, specs: Specs | None = None) -> int | None:
    """Return the version for a second ApiVersions request, or None if the broker supports the first one (KIP-511).

    Raises:
        BrokerError: client and broker have no common version of ApiVersions.
    """
    if response.api_key != API_VERSIONS or response.body.error_code != ErrorCode.UNSUPPORTED_VERSION:
        return None
    return choose_version(
        API_VERSIONS, {API_VERSIONS: _ASSUMED_VERSIONS, **parse_advertised_versions(response.body)}, specs=specs
    )
