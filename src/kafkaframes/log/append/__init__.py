"""The append path: what Kafka's LogValidator checks and changes before records go into a log (KIP-31)."""

from kafkaframes.log.append.down_convert import DownConverted, down_convert
from kafkaframes.log.append.refusal import AppendRefusedError, RecordRefusal
from kafkaframes.log.append.result import Appended
from kafkaframes.log.append.settings import AppendSettings
from kafkaframes.log.append.validator import validate_and_assign

__all__ = [
    "AppendRefusedError",
    "AppendSettings",
    "Appended",
    "DownConverted",
    "RecordRefusal",
    "down_convert",
    "validate_and_assign",
]
