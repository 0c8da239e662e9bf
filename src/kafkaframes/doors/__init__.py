"""The public functions of the package, each importing its room only when it is called."""

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
from kafkaframes.scan.functions import apis, build_records, message, read_batches, read_capture, read_records

__all__ = [
    "apis",
    "build_records",
    "compact_log",
    "convert_log",
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
    "verify_log",
]
