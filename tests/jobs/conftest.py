"""The brokers and the topic of Spark source tests, for tests of checkpoints and writers."""

from tests.spark.conftest import brokers, servers, topic

__all__ = ["brokers", "servers", "topic"]
