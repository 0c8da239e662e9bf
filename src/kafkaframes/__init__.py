"""Kafka's bytes as DataFrames: every protocol message and record format, in Python and on Spark."""

from kafkaframes import spark
from kafkaframes.doors import build_records

__all__ = ["build_records", "spark"]
__version__ = "0.1.0"
