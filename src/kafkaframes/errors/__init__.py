"""Every exception this package raises on purpose, and every error code a Kafka broker answers with."""

from kafkaframes.errors.append import AppendRefusedError, RecordRefusal
from kafkaframes.errors.codes import COORDINATOR_MOVED, LEADER_MOVED, ErrorCode
from kafkaframes.errors.exceptions import (
    BrokerError,
    CorruptRecordError,
    DamagedChunkError,
    DecodeError,
    EncodeError,
    KafkaframesError,
    LogDirError,
    MaybeWrittenError,
    MissingExtraError,
    NetworkError,
    OffsetOutOfRangeError,
    OptionError,
    SpecError,
    StorageError,
    TruncatedError,
    UnknownOutcomeError,
)

__all__ = [
    "COORDINATOR_MOVED",
    "LEADER_MOVED",
    "AppendRefusedError",
    "BrokerError",
    "CorruptRecordError",
    "DamagedChunkError",
    "DecodeError",
    "EncodeError",
    "ErrorCode",
    "KafkaframesError",
    "LogDirError",
    "MaybeWrittenError",
    "MissingExtraError",
    "NetworkError",
    "OffsetOutOfRangeError",
    "OptionError",
    "RecordRefusal",
    "SpecError",
    "StorageError",
    "TruncatedError",
    "UnknownOutcomeError",
]
