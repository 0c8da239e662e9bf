"""Which version two ends speak of each API: what one end knows, what it tells the other (ApiVersions), what is common.

KIP-35: a broker lists the versions of each API that it serves, a client takes the highest that it knows too. KIP-511: a
broker that does not know the version of the question answers at version 0 with error 35 and its own range for
ApiVersions, and the client asks again. With specs of one's own (``specs=``: a proposal's, such as KIP-636's), two ends
that both have them speak their new versions; an end without them takes the versions that it knows, and notices nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.headers import API_VERSIONS, UNSUPPORTED_VERSION, Frame
from kafkaframes.protocol.messages.registry import Specs, message, specs_by_name
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.protocol.spec.versions import Versions

#: Versions by API key.
Ranges: TypeAlias = Mapping[int, Versions]


def known_versions(specs: Specs | None = None, *, apis: Iterable[int] | None = None) -> dict[int, Versions]:
    """Return the versions that an end knows of each API: those that request and response have, released ones only.

    Args:
        specs: where it has its messages from, if not from the catalog; an API without both halves is not known.
        apis: keys of the APIs that it serves, if not all.
    """
    wanted = None if apis is None else set(apis)
    found: dict[int, Versions] = {}
    for request, response in _pairs(specs):
        both = request.valid_versions.intersect(response.valid_versions)
        stable = both.intersect(Versions(0, request.latest_stable_version))
        key = request.api_key
        if key is not None and not stable.is_empty and (wanted is None or key in wanted):
            found[key] = stable
    return dict(sorted(found.items()))


def _pairs(specs: Specs | None) -> Iterable[tuple[MessageSpec, MessageSpec]]:
    if specs is None:
        return [(catalog.entry(api.request).outline, catalog.entry(api.response).outline) for api in catalog.apis()]
    several = specs_by_name(specs).values()
    responses = {one.api_key: one for one in several if one.type == "response"}
    requests = [one for one in several if one.type == "request" and one.api_key in responses]
    return [(one, responses[one.api_key]) for one in requests]


def common_versions(ours: Ranges, theirs: Ranges) -> dict[int, Versions]:
    """Return the versions that both ends know, by API; without the APIs that have none in common.

    >>> common_versions({3: Versions(0, 13), 12: Versions(0, 5)}, {3: Versions(4, 12), 12: Versions(6, 6)})
    {3: Versions(lowest=4, highest=12)}
    """
    shared = {key: one.intersect(theirs[key]) for key, one in ours.items() if key in theirs}
    return {key: one for key, one in shared.items() if not one.is_empty}


def listed_versions(response: Any) -> dict[int, Versions]:
    """Return the versions that an ApiVersions response lists; a range that ends before it starts is left out."""
    ranges = {one.api_key: Versions(one.min_version, one.max_version) for one in response.api_keys}
    return {key: one for key, one in ranges.items() if not one.is_empty}


def answer_api_versions(request: Frame, advertised: Ranges, *, specs: Specs | None = None) -> tuple[Any, int]:
    """Return the answer to an ApiVersions request, and the version to write it at.

    Args:
        request: of a known version, or of an unknown one, whose body is bytes.
        advertised: what to list: :func:`known_versions`, or the ranges that a broker chooses to tell.
        specs: as for :func:`known_versions`.

    Raises:
        OptionError: the request is another API's.
    """
    if request.api_key != API_VERSIONS:
        raise OptionError(f"a request of API {request.api_key} is no question for ApiVersions")
    cls: Any = message("ApiVersionsResponse", specs=specs)
    is_known = not isinstance(request.body, bytes)
    listed = advertised if is_known else {key: one for key, one in advertised.items() if key == API_VERSIONS}
    rows = [
        cls.ApiVersion(api_key=key, min_version=one.lowest, max_version=one.highest)
        for key, one in sorted(listed.items())
    ]
    return cls(error_code=0 if is_known else UNSUPPORTED_VERSION, api_keys=rows), request.api_version * is_known
