"""Test tools for applications that use Kafka: a pytest plugin with an embedded broker, its controls over HTTP, a schema
registry, seeding of topics, a comparison of records, and test vectors for other libraries.

Names are imported on first use, so the plugin costs nothing in a test run without a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use

if TYPE_CHECKING:
    from kafkaframes.testing.comparison import assert_records
    from kafkaframes.testing.control import Control
    from kafkaframes.testing.plugin import ExternalBroker
    from kafkaframes.testing.registry import Schema, SchemaRegistry
    from kafkaframes.testing.seeding import seed
    from kafkaframes.testing.vectors.write import write_vectors

__all__ = ["Control", "ExternalBroker", "Schema", "SchemaRegistry", "assert_records", "seed", "write_vectors"]

_NAMES_BY_MODULE = {
    "comparison": ("assert_records",),
    "control": ("Control",),
    "plugin": ("ExternalBroker",),
    "registry": ("Schema", "SchemaRegistry"),
    "seeding": ("seed",),
    "vectors.write": ("write_vectors",),
}

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, _NAMES_BY_MODULE)
