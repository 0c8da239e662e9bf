"""Use Kafka's bytes in Spark: sessions, data sources and jobs.

No other package imports pyspark, and this package imports it only when a session is needed.
"""

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use

if TYPE_CHECKING:
    from kafkaframes.spark.dataframes.public import read, table_topics, watch_topics, write_log, write_topic
    from kafkaframes.spark.dataframes.read_log import LogQuery, read_log
    from kafkaframes.spark.dataframes.restore import restore_log
    from kafkaframes.spark.progress.topic_listener import TopicListener
    from kafkaframes.spark.progress.topic_progress import PartitionLag, TopicProgress
    from kafkaframes.spark.sessions.builder import register, session

__all__ = [
    "LogQuery",
    "PartitionLag",
    "TopicListener",
    "TopicProgress",
    "read",
    "read_log",
    "register",
    "restore_log",
    "session",
    "table_topics",
    "watch_topics",
    "write_log",
    "write_topic",
]

_NAMES_BY_MODULE = {  # exported names by module; a module is imported on first use
    "dataframes.public": ("read", "table_topics", "watch_topics", "write_log", "write_topic"),
    "dataframes.read_log": ("LogQuery", "read_log"),
    "dataframes.restore": ("restore_log",),
    "progress.topic_listener": ("TopicListener",),
    "progress.topic_progress": ("PartitionLag", "TopicProgress"),
    "sessions.builder": ("register", "session"),
}

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, _NAMES_BY_MODULE)
