"""Test tools for applications that use Kafka: a pytest plugin with an embedded broker, its controls over HTTP, a schema
registry, seeding of topics, and a comparison of records.

Names are imported on first use, so the plugin costs nothing in a test run without a broker.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkaframes.testing.comparison import assert_records
    from kafkaframes.testing.control import Control
    from kafkaframes.testing.plugin import ExternalBroker
    from kafkaframes.testing.registry import SchemaRegistry
    from kafkaframes.testing.seeding import seed

__all__ = ["Control", "ExternalBroker", "SchemaRegistry", "assert_records", "seed"]

_MODULE_OF_NAME = {
    "Control": "control",
    "ExternalBroker": "plugin",
    "SchemaRegistry": "registry",
    "assert_records": "comparison",
    "seed": "seeding",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
