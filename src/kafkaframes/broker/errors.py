"""The numbers of Kafka's error codes, by name, and the code that an exception of ours is answered with."""

from __future__ import annotations

from typing import Final

from kafkaframes.errors import (
    AppendRefusedError,
    CorruptRecordError,
    ErrorCode,
    KafkaframesError,
    LogDirError,
    OffsetOutOfRangeError,
    StorageError,
)

CODE: Final[dict[str, int]] = {code.name: code for code in ErrorCode}
NONE: Final = 0


def code_of(error: KafkaframesError) -> int:
    """Return the error code that stands for an exception.

    >>> code_of(OffsetOutOfRangeError("gone"))
    1
    """
    if isinstance(error, AppendRefusedError):
        return error.code
    if isinstance(error, OffsetOutOfRangeError):
        return CODE["OFFSET_OUT_OF_RANGE"]
    if isinstance(error, StorageError | LogDirError):
        return CODE["KAFKA_STORAGE_ERROR"]
    if isinstance(error, CorruptRecordError):
        return CODE["CORRUPT_MESSAGE"]
    return CODE["UNKNOWN_SERVER_ERROR"]
