"""Kafka's bytes as DataFrames: every protocol message and record format, in Python and on Spark."""

from typing import TYPE_CHECKING, Any

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
    from kafkaframes import broker, client, errors, spark, testing
    from kafkaframes.broker import Broker
    from kafkaframes.client import Admin, Consumer, Producer
    from kafkaframes.errors import KafkaframesError
    from kafkaframes.jobs.functions import (
        compact_log,
        convert_log,
        describe_log,
        export_log,
        mirror_topics,
        recompress_log,
        repair_log,
        report_log,
        restore_log,
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
    "list_apis",
    "message_class",
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
    "testing",
    "verify_log",
]


_LAZY = {  # what is large, by the module that it is imported of
    "Admin": "client",
    "Broker": "broker",
    "Consumer": "client",
    "KafkaframesError": "errors",
    "Producer": "client",
    "build_records": "records.build",
    **dict.fromkeys(
        ("compact_log", "convert_log", "describe_log", "export_log", "mirror_topics", "recompress_log"),
        "jobs.functions",
    ),
    **dict.fromkeys(("repair_log", "report_log", "restore_log", "verify_log"), "jobs.functions"),
}
_MODULES = ("broker", "client", "errors", "spark", "testing")


def __getattr__(name: str) -> Any:
    """Import a module, or what is in it, when it is first used."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"kafkaframes.{name}")
    if name in _LAZY:
        return getattr(import_module(f"kafkaframes.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
