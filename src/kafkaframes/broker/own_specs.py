"""A broker that serves specs of a user's own, such as KIP-636's rewrite: their versions are told and spoken.

A client with the same specs takes the new versions; every other client takes the ones that it knows, and notices
nothing. What the specs do not have is the catalog's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MappingProxyType

from kafkaframes.broker.api import Api
from kafkaframes.broker.table import ServedApis, all_apis
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.headers import body_class
from kafkaframes.protocol.messages.registry import Specs, with_catalog
from kafkaframes.protocol.spec.model import MessageSpec

_FLEXIBLE_HEADER = 2  # of a request


def serve_specs(specs: Specs) -> ServedApis:
    """Return the APIs as a user's specs have them, the catalog's where they have none.

    Raises:
        SpecError: a file is no spec.
        OptionError: a path cannot be read, or no stable version of an API has both request and response.
    """
    known = with_catalog(specs)

    @cache
    def class_of(key: int, kind: str) -> type[Message]:
        return body_class(key, kind, specs=known)

    halves = {(spec.api_key, spec.type): spec for spec in reversed(known.values())}  # the first of a key, as class_of
    apis = {key: _rewritten(api, halves[key, "request"], halves[key, "response"]) for key, api in all_apis().items()}
    advertised = {key: api.range for key, api in apis.items() if api.is_advertised}
    return ServedApis(apis, advertised, class_of)


def _rewritten(api: Api, request: MessageSpec, response: MessageSpec) -> Api:
    """Return an API with the versions and the headers of these specs; one that serves fewer versions keeps to them."""
    both = request.valid_versions.intersect(response.valid_versions)
    headers = {version: (request.header_version(version), response.header_version(version)) for version in both}
    flexible = [version for version, (header, _) in headers.items() if header >= _FLEXIBLE_HEADER]
    described = api.catalog._replace(
        versions=both,
        flexible_since=min(flexible, default=None),
        is_latest_unstable=request.latest_version_unstable and both.highest > request.latest_stable_version,
        header_versions=MappingProxyType(headers),
    )
    served = replace(api, rewritten=described)
    if served.range[0] > served.range[1]:
        raise OptionError(f"no stable version of {api.name} has both a request and a response among these specs")
    return served
