"""The table of APIs, of the handlers in ``apis/``; ApiVersions and the support table come from here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from inspect import isfunction
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
    """Return every API that has a handler, by key."""
    modules = [importlib.import_module(f"{apis.__name__}.{info.name}") for info in pkgutil.iter_modules(apis.__path__)]
    handlers = [value for module in modules for value in vars(module).values() if isfunction(value)]
    served = {api.key: api for handler in handlers if isinstance(api := vars(handler).get("api"), Api)}
    return MappingProxyType(dict(sorted(served.items())))
