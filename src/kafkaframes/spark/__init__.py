"""Spark: session, data sources, jobs. The only package that imports pyspark, and only when a session is needed."""

from kafkaframes.spark.builder import register, session
from kafkaframes.spark.export_topics import export_topics
from kafkaframes.spark.read_log import read_log
from kafkaframes.spark.read_scan import read
from kafkaframes.spark.restore import restore_log
from kafkaframes.spark.watch_topics import watch_topics
from kafkaframes.spark.write_log import write_log
from kafkaframes.spark.write_topic import write_topic

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
