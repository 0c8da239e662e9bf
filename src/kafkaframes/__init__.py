"""Kafka's bytes as DataFrames: every protocol message and record format, in Python and on Spark."""

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use
from kafkaframes._version import __version__
from kafkaframes.protocol.functions import list_apis, message_class
from kafkaframes.scan.functions import (
    read_batches,
    read_capture,
    read_records,
    scan_capture,
    scan_log,
    scan_topic,
)
from kafkaframes.scan.writing import set_writer_module

if TYPE_CHECKING:
    from kafkaframes import broker, capture, client, errors, jobs, protocol, records, scan, spark, storage, testing
    from kafkaframes.broker import Broker
    from kafkaframes.client import Admin, Consumer, Producer
    from kafkaframes.errors import KafkaframesError
    from kafkaframes.jobs.analysis_functions import analyze_records, analyze_tag_headers, measure_proposal
    from kafkaframes.jobs.checkpoint import convert_checkpoint, read_checkpoint
    from kafkaframes.jobs.functions import (
        compact_log,
        convert_log,
        describe_log,
        export_log,
        export_topics,
        mirror_topics,
        recompress_log,
        repair_log,
        report_log,
        restore_log,
        table_log,
        table_topics,
        verify_log,
    )
    from kafkaframes.jobs.inspection_functions import dump_log, grep_log, prove_key_gone
    from kafkaframes.jobs.traffic_functions import audit_upgrade, record_traffic, redact_capture, report_traffic
    from kafkaframes.records.build import build_records

__all__ = [
    "Admin",
    "Broker",
    "Consumer",
    "KafkaframesError",
    "Producer",
    "__version__",
    "analyze_records",
    "analyze_tag_headers",
    "audit_upgrade",
    "broker",
    "build_records",
    "capture",
    "client",
    "compact_log",
    "convert_checkpoint",
    "convert_log",
    "describe_log",
    "dump_log",
    "errors",
    "export_log",
    "export_topics",
    "grep_log",
    "jobs",
    "list_apis",
    "measure_proposal",
    "message_class",
    "mirror_topics",
    "protocol",
    "prove_key_gone",
    "read_batches",
    "read_capture",
    "read_checkpoint",
    "read_records",
    "recompress_log",
    "record_traffic",
    "records",
    "redact_capture",
    "repair_log",
    "report_log",
    "report_traffic",
    "restore_log",
    "scan",
    "scan_capture",
    "scan_log",
    "scan_topic",
    "spark",
    "storage",
    "table_log",
    "table_topics",
    "testing",
    "verify_log",
]

_NAMES_BY_MODULE = {
    "broker": ("Broker",),
    "client": ("Admin", "Consumer", "Producer"),
    "errors": ("KafkaframesError",),
    "jobs.analysis_functions": ("analyze_records", "analyze_tag_headers", "measure_proposal"),
    "jobs.checkpoint": ("convert_checkpoint", "read_checkpoint"),
    "jobs.functions": (
        "compact_log",
        "convert_log",
        "describe_log",
        "export_log",
        "export_topics",
        "mirror_topics",
        "recompress_log",
        "repair_log",
        "report_log",
        "restore_log",
        "table_log",
        "table_topics",
        "verify_log",
    ),
    "jobs.inspection_functions": ("dump_log", "grep_log", "prove_key_gone"),
    "jobs.traffic_functions": ("audit_upgrade", "record_traffic", "redact_capture", "report_traffic"),
    "records.build": ("build_records",),
}
_SUBMODULES = (
    "broker",
    "capture",
    "client",
    "errors",
    "jobs",
    "protocol",
    "records",
    "scan",
    "spark",
    "storage",
    "testing",
)

set_writer_module("kafkaframes.jobs.scans")  # Scan.export and Scan.write_table
if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, _NAMES_BY_MODULE, _SUBMODULES)
