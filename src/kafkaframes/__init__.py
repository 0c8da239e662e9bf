"""Kafka's bytes as DataFrames: every protocol message and record format, in Python and on Spark."""

from kafkaframes import spark
from kafkaframes.doors import apis, build_records, message, read_batches, read_records, restore_log

__all__ = ["apis", "build_records", "message", "read_batches", "read_records", "restore_log", "spark"]
__version__ = "0.1.0"
