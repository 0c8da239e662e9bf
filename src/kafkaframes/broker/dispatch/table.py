"""The APIs that a broker serves: all APIs with a handler, or the APIs of a Kafka release or of user-supplied specs.

Clients with the same user-supplied specs can use the versions in these specs; other clients use the versions that they
support. Messages without a user-supplied spec use the catalog's spec.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from inspect import isfunction
from types import MappingProxyType
from typing import NamedTuple

from kafkaframes.broker import apis
from kafkaframes.broker.requests.api import Api
from kafkaframes.broker.requests.request import ClassOf, find_catalog_class
from kafkaframes.broker.settings.features import build_release_features
from kafkaframes.broker.settings.settings import BrokerSettings
from kafkaframes.errors import ErrorCode, OptionError
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.headers import body_class
from kafkaframes.protocol.messages.registry import Specs, add_catalog_specs
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.protocol.spec.releases import find_release


class ServedApis(NamedTuple):
    """The served APIs by key, the advertised versions, and the message classes of user-supplied specs."""

    apis: Mapping[int, Api]
    advertised: dict[int, tuple[int, int]]
    class_of: ClassOf = find_catalog_class


@cache
def collect_apis() -> Mapping[int, Api]:
    """Return every API that has a handler, by key."""
    modules = [importlib.import_module(f"{apis.__name__}.{info.name}") for info in pkgutil.iter_modules(apis.__path__)]
    handlers = [value for module in modules for value in vars(module).values() if isfunction(value)]
    served_apis = {api.key: api for handler in handlers if isinstance(api := vars(handler).get("api"), Api)}
    return MappingProxyType(dict(sorted(served_apis.items())))


_FLEXIBLE_HEADER_VERSION = 2  # request header version with tagged fields


def serve_specs(specs: Specs) -> ServedApis:
    """Return the served APIs.

    A message has the layout of the user's spec if there is one, else the layout of the catalog's spec.

    Raises:
        SpecError: a file is not a valid spec.
        OptionError: a path cannot be read, or no stable version of an API has both request and response.
    """
    known_specs = add_catalog_specs(specs)

    @cache
    def class_of(key: int, kind: str) -> type[Message]:
        return body_class(key, kind, specs=known_specs)

    # If several specs have the same key and type, the first spec is used, as in class_of.
    specs_by_key_and_type = {(spec.api_key, spec.type): spec for spec in reversed(known_specs.values())}
    apis = {
        key: _rewrite_api(api, specs_by_key_and_type[key, "request"], specs_by_key_and_type[key, "response"])
        for key, api in collect_apis().items()
    }
    advertised = {key: api.range for key, api in apis.items()}
    return ServedApis(apis, advertised, class_of)


def _rewrite_api(api: Api, request: MessageSpec, response: MessageSpec) -> Api:
    """Return an API with the versions and header versions of a request and a response spec."""
    common_versions = request.valid_versions.intersect(response.valid_versions)
    headers = {
        version: (request.header_version(version), response.header_version(version)) for version in common_versions
    }
    flexible = [version for version, (header, _) in headers.items() if header >= _FLEXIBLE_HEADER_VERSION]
    api_in_catalog = api.definition._replace(
        versions=common_versions,
        flexible_since=min(flexible, default=None),
        is_latest_unstable=request.latest_version_unstable and common_versions.highest > request.latest_stable_version,
        header_versions=MappingProxyType(headers),
    )
    served_api = replace(api, rewritten=api_in_catalog)
    if served_api.range[0] > served_api.range[1]:
        raise OptionError(f"no stable version of {api.name} has both a request and a response among these specs")
    return served_api


_MESSAGE_FORMAT_SETTING = "log.message.format.version"
_FIRST_RELEASE_WITH_GROUP_SETTINGS = (4,)
# From this release on, the controller creates topics, and a Metadata response does not wait for it.
_FIRST_KRAFT_RELEASE = (3, 3)
_FIRST_RELEASE_WITH_FORMAT_2 = (3,)  # this release and later ones ignore message.format.version (KIP-724)


def select_release_apis(name: str, settings: BrokerSettings) -> ServedApis:
    """Return the APIs of a known Kafka release that this broker serves.

    The release also decides the default format of topics.
    """
    release_info = find_release(name)
    version = tuple(int(part) for part in release_info.name.split(".")[:3])
    settings.writes_format_2 = version >= _FIRST_RELEASE_WITH_FORMAT_2
    settings.groups_have_settings = version >= _FIRST_RELEASE_WITH_GROUP_SETTINGS
    settings.features = build_release_features(version)
    is_controller_api = version >= _FIRST_KRAFT_RELEASE
    settings.new_topic_error = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_controller_api else ErrorCode.LEADER_NOT_AVAILABLE
    )
    settings.explicit.setdefault(_MESSAGE_FORMAT_SETTING, _find_default_format_version(version))
    apis: dict[int, Api] = {}
    advertised = {}
    for key, api_range in release_info.apis_of_listener().items():
        api = collect_apis().get(key)
        if api is None:
            continue
        low, high = (
            max(api_range.accepted_versions.lowest, api.range[0]),
            min(api_range.accepted_versions.highest, api.range[1]),
        )
        if low <= high:
            rights = tuple(replace(right, is_needed=version >= right.first_release) for right in api.rights)
            apis[key] = replace(api, versions=(low, high), rights=rights)
            advertised[key] = api_range.advertised_versions.lowest, min(api_range.advertised_versions.highest, high)
    return ServedApis(apis, advertised)


def _find_default_format_version(version: tuple[int, ...]) -> str:
    """Return the ``message.format.version`` that a release writes by default."""
    return "3.0-IV1" if version >= _FIRST_RELEASE_WITH_FORMAT_2 else ".".join(str(number) for number in version)
