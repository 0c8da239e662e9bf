"""Kafka's bytes as DataFrames: every protocol message and record format, in Python and on Spark."""

__all__: list[str] = []
__version__ = "0.1.0"
