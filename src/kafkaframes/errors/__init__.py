"""Every exception this package raises on purpose, and every error code a Kafka broker answers with."""

from kafkaframes.errors.exceptions import (
    BrokerError,
    CorruptRecordError,
    DecodeError,
    EncodeError,
    KafkaframesError,
    LogDirError,
    MissingExtraError,
    OptionError,
    SpecError,
    TruncatedError,
)

__all__ = [
    "BrokerError",
    "CorruptRecordError",
    "DecodeError",
    "EncodeError",
    "KafkaframesError",
    "LogDirError",
    "MissingExtraError",
    "OptionError",
    "SpecError",
    "TruncatedError",
]
