"""The table of APIs: every file of ``apis/`` has one; ApiVersions and the support table come from here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from kafkaframes.broker import apis
from kafkaframes.broker.api import Api
from kafkaframes.broker.request import ClassOf, class_in_catalog


class ServedApis(NamedTuple):
    """What a broker serves instead of everything: ``apis`` by key, what ApiVersions says, and the messages' classes."""

    apis: Mapping[int, Api]
    advertised: dict[int, tuple[int, int]]
    class_of: ClassOf = class_in_catalog


@cache
def all_apis() -> Mapping[int, Api]:
    """Return every API that has a file, by key."""
    found: list[Api] = []
    for info in pkgutil.iter_modules(apis.__path__):
        if not info.name.startswith("_"):
            found.append(importlib.import_module(f"{apis.__name__}.{info.name}").API)
    return MappingProxyType({api.key: api for api in sorted(found, key=lambda api: api.key)})
