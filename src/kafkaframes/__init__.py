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

if TYPE_CHECKING:
    from kafkaframes import broker, client, errors, jobs, protocol, records, scan, spark, storage, testing
    from kafkaframes.broker import Broker
    from kafkaframes.client import Admin, Consumer, Producer
    from kafkaframes.errors import KafkaframesError
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
    from kafkaframes.records.build import build_records

__all__ = [
    "Admin",
    "Broker",
    "Consumer",
    "KafkaframesError",
    "Producer",
    "__version__",
    "broker",
    "build_records",
    "client",
    "compact_log",
    "convert_log",
    "describe_log",
    "errors",
    "export_log",
    "export_topics",
    "jobs",
    "list_apis",
    "message_class",
    "mirror_topics",
    "protocol",
    "read_batches",
    "read_capture",
    "read_records",
    "recompress_log",
    "records",
    "repair_log",
    "report_log",
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

_MODULES = {
    "broker": ("Broker",),
    "client": ("Admin", "Consumer", "Producer"),
    "errors": ("KafkaframesError",),
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
    "records.build": ("build_records",),
}
_SUBMODULES = ("broker", "client", "errors", "jobs", "protocol", "records", "scan", "spark", "storage", "testing")

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, _MODULES, _SUBMODULES)
