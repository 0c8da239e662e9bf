"""The error code that an exception of ours is answered with."""

from __future__ import annotations

from kafkaframes.errors import (
    AppendRefusedError,
    CorruptRecordError,
    ErrorCode,
    KafkaframesError,
    LogDirError,
    OffsetOutOfRangeError,
    StorageError,
)


def code_of(error: KafkaframesError) -> ErrorCode:
    """Return the error code that stands for an exception.

    >>> code_of(OffsetOutOfRangeError("gone")).name
    'OFFSET_OUT_OF_RANGE'
    """
    if isinstance(error, AppendRefusedError):
        return error.code
    if isinstance(error, OffsetOutOfRangeError):
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if isinstance(error, StorageError | LogDirError):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if isinstance(error, CorruptRecordError):
        return ErrorCode.CORRUPT_MESSAGE
    return ErrorCode.UNKNOWN_SERVER_ERROR
