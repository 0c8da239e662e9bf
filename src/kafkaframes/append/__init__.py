"""The append path: what Kafka's LogValidator checks and changes before records go into a log (KIP-31)."""

from kafkaframes.append.doors import down_convert, validate_and_assign
from kafkaframes.append.result import Appended, DownConverted
from kafkaframes.append.settings import AppendSettings
from kafkaframes.errors import AppendRefusedError, RecordRefusal

__all__ = [
    "AppendRefusedError",
    "AppendSettings",
    "Appended",
    "DownConverted",
    "RecordRefusal",
    "down_convert",
    "validate_and_assign",
]
