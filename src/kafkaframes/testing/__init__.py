"""What tests of others use: a pytest plugin with an embedded broker, controls over HTTP, a schema registry, seeding."""

from kafkaframes.testing.control import Control
from kafkaframes.testing.external import ExternalBroker
from kafkaframes.testing.registry import SchemaRegistry
from kafkaframes.testing.seeding import seed

__all__ = ["Control", "ExternalBroker", "SchemaRegistry", "seed"]
