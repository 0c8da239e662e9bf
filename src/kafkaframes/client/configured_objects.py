"""Python objects in properties, specified as ``module:name`` instead of a Java class name."""

from __future__ import annotations

import importlib
from typing import Any

from kafkaframes.errors import OptionError


def load_object(setting: str, name: str) -> Any:
    """Return the object at ``module:name``. The name may have several parts (``module:Class.method``).

    Raises:
        OptionError: the text has another form, or the module or the name does not exist. The error names the setting.
    """
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute):
        raise OptionError(f"{setting}={name}; expected module:function")
    try:
        result: Any = importlib.import_module(module)
        for step in attribute.split("."):
            result = getattr(result, step)
    except (ImportError, AttributeError) as error:
        raise OptionError(f"{setting}={name}: {error}") from None
    return result


def get_object_name(value: Any) -> str:
    """Return the name of a function or class; for another object, return the name of its class."""
    return getattr(value, "__qualname__", None) or type(value).__qualname__
