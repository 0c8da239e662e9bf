"""What tests of others use: a pytest plugin with an embedded broker, seeding, and a broker that is somebody else's."""

from kafkaframes.testing.external import ExternalBroker
from kafkaframes.testing.seeding import seed

__all__ = ["ExternalBroker", "seed"]
