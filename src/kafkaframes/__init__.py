"""Kafka's bytes as DataFrames: every protocol message and record format, in Python and on Spark."""

import importlib
from typing import TYPE_CHECKING, Any

from kafkaframes.jobs.export.export_log import export_log
from kafkaframes.jobs.functions import (
    compact_log,
    convert_log,
    log_info,
    mirror_topics,
    recompress_log,
    repair_log,
    report_log,
    restore_log,
    verify_log,
)
from kafkaframes.protocol.functions import apis, message
from kafkaframes.records.functions import build_records
from kafkaframes.scan.functions import (
    read_batches,
    read_capture,
    read_records,
    scan_capture,
    scan_log,
    scan_topic,
)

if TYPE_CHECKING:
    from kafkaframes import spark
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
    "scan_capture",
    "scan_log",
    "scan_topic",
    "spark",
    "verify_log",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what is large when it is first used: the embedded broker, and what needs Spark."""
    if name == "Broker":
        from kafkaframes.broker import Broker

        return Broker
    if name == "spark":
        return importlib.import_module("kafkaframes.spark")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
