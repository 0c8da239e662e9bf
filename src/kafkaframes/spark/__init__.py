"""Spark: session, data sources, jobs. The only package that imports pyspark, and only when a session is needed."""

from kafkaframes.spark.dataframes.public import export_topics, read, watch_topics, write_log, write_topic
from kafkaframes.spark.dataframes.read_log import read_log
from kafkaframes.spark.dataframes.restore import restore_log
from kafkaframes.spark.sessions.builder import register, session

__all__ = [
    "export_topics",
    "read",
    "read_log",
    "register",
    "restore_log",
    "session",
    "watch_topics",
    "write_log",
    "write_topic",
]
