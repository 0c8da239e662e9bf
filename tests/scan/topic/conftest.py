"""The brokers and the topic that tests of Spark's source read from, too."""

from tests.spark.conftest import brokers, servers, topic

__all__ = ["brokers", "servers", "topic"]
