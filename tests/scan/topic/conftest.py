"""The brokers and the topic of the Spark source tests."""

from tests.spark.conftest import brokers, servers, topic

__all__ = ["brokers", "servers", "topic"]
