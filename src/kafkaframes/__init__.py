"""Kafka's bytes as DataFrames: every protocol message and record format, in Python and on Spark."""

from typing import TYPE_CHECKING, Any

from kafkaframes import spark
from kafkaframes.doors import (
    apis,
    build_records,
    compact_log,
    convert_log,
    log_info,
    message,
    mirror_topics,
    read_batches,
    read_capture,
    read_records,
    recompress_log,
    repair_log,
    report_log,
    restore_log,
    verify_log,
)
from kafkaframes.spark.export_log import export_log

if TYPE_CHECKING:
    from kafkaframes.broker import Broker

__all__ = [
    "Broker",
    "apis",
    "build_records",
    "compact_log",
    "convert_log",
    "export_log",
    "log_info",
    "message",
    "mirror_topics",
    "read_batches",
    "read_capture",
    "read_records",
    "recompress_log",
    "repair_log",
    "report_log",
    "restore_log",
    "spark",
    "verify_log",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the embedded broker when it is first asked for: a class, so no thin function can stand for it."""
    if name == "Broker":
        from kafkaframes.broker import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
