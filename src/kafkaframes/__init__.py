"""Kafka's bytes as DataFrames: every protocol message and record format, in Python and on Spark."""

from kafkaframes import spark

__all__ = ["spark"]
__version__ = "0.1.0"
