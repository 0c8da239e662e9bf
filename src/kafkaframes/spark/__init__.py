"""Spark: session, data sources, jobs. The only room that imports pyspark, and only when a session is wanted."""

from kafkaframes.spark.builder import register, session

__all__ = ["register", "session"]
