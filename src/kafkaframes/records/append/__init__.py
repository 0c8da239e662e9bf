"""Validate records and assign offsets before they are appended to a log, as Kafka's LogValidator does (KIP-31)."""

from kafkaframes.errors import AppendRefusedError, RecordRefusal
from kafkaframes.records.append.entry import down_convert, validate_and_assign
from kafkaframes.records.append.results import DownConvertedRecords, ValidatedRecords
from kafkaframes.records.append.settings import AppendSettings

__all__ = [
    "AppendRefusedError",
    "AppendSettings",
    "DownConvertedRecords",
    "RecordRefusal",
    "ValidatedRecords",
    "down_convert",
    "validate_and_assign",
]
