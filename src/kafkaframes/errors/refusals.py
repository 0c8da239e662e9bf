"""What a broker refuses: the errors with Kafka's code, and the code that stands for any other of ours."""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors.codes import ErrorCode
from kafkaframes.errors.exceptions import (
    CorruptRecordError,
    KafkaframesError,
    LogDirError,
    OffsetOutOfRangeError,
)

# Kafka's exception -> the error code that a producer is answered with; any other is UNKNOWN_SERVER_ERROR.
_CODES = {
    "CorruptRecordException": ErrorCode.CORRUPT_MESSAGE,
    "InvalidRecordException": ErrorCode.INVALID_RECORD,
    "InvalidTimestampException": ErrorCode.INVALID_TIMESTAMP,
    "RecordTooLargeException": ErrorCode.MESSAGE_TOO_LARGE,
    "UnsupportedCompressionTypeException": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    "UnsupportedForMessageFormatException": ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    "RecordBatchTooLargeException": ErrorCode.RECORD_LIST_TOO_LARGE,
    "OutOfOrderSequenceException": ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    "InvalidProducerEpochException": ErrorCode.INVALID_PRODUCER_EPOCH,
    "InvalidTxnStateException": ErrorCode.INVALID_TXN_STATE,
    "TransactionCoordinatorFencedException": ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}


class RecordRefusal(NamedTuple):
    """One record that is at fault: its place in its batch, an error code, and the reason."""

    place: int
    code: ErrorCode
    reason: str


class AppendRefusedError(KafkaframesError):
    """Records that Kafka's append path refuses.

    Attributes:
        exception: the name of the exception that Kafka throws, as brokers' logs have it.
        code: the error code that a producer is answered with.
        record_errors: the records at fault, where the refusal is about records (KIP-467).
        valid_bytes: the size in bytes of the whole, intact batches; ``None`` where one was not intact.
    """

    def __init__(self, exception: str, reason: str, *, record_errors: tuple[RecordRefusal, ...] = ()) -> None:
        super().__init__(reason)
        self.exception = exception
        self.reason = reason
        self.code = _CODES.get(exception, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.record_errors = record_errors
        self.valid_bytes: int | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.exception, self.reason, self.record_errors, self.valid_bytes)

    def __str__(self) -> str:
        return f"{self.code.name}: {self.reason}"


def _again(
    exception: str, reason: str, record_errors: tuple[RecordRefusal, ...], valid_bytes: int | None
) -> AppendRefusedError:
    error = AppendRefusedError(exception, reason, record_errors=record_errors)
    error.valid_bytes = valid_bytes
    return error


class RefusedError(KafkaframesError):
    """A request that a coordinator refuses; nothing has changed then.

    Attributes:
        code: Kafka's error.
        reason: the error message of responses that carry one.
    """

    def __init__(self, code: ErrorCode, reason: str = "") -> None:
        super().__init__(reason or str(code))
        self.code = code
        self.reason = reason or code.message


def code_of(error: KafkaframesError) -> ErrorCode:
    """Return the error code that a broker answers for an exception.

    >>> code_of(OffsetOutOfRangeError("gone")).name
    'OFFSET_OUT_OF_RANGE'
    """
    if isinstance(error, AppendRefusedError | RefusedError):
        return error.code
    if isinstance(error, OffsetOutOfRangeError):
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if isinstance(error, LogDirError):
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.CORRUPT_MESSAGE if isinstance(error, CorruptRecordError) else ErrorCode.UNKNOWN_SERVER_ERROR
