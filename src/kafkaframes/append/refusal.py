"""Why records are not appended: one error, and the table from damage to what Kafka would throw."""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors import KafkaframesError
from kafkaframes.records import reasons
from kafkaframes.records.decode import Problem

# Kafka's exception -> the error code that a producer is answered with; any other is UNKNOWN_SERVER_ERROR.
ERROR_CODES = {
    "CorruptRecordException": "CORRUPT_MESSAGE",
    "InvalidRecordException": "INVALID_RECORD",
    "InvalidTimestampException": "INVALID_TIMESTAMP",
    "RecordTooLargeException": "MESSAGE_TOO_LARGE",
    "UnsupportedCompressionTypeException": "UNSUPPORTED_COMPRESSION_TYPE",
    "UnsupportedForMessageFormatException": "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "RecordBatchTooLargeException": "RECORD_LIST_TOO_LARGE",
    "OutOfOrderSequenceException": "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "InvalidProducerEpochException": "INVALID_PRODUCER_EPOCH",
    "InvalidTxnStateException": "INVALID_TXN_STATE",
    "TransactionCoordinatorFencedException": "TRANSACTION_COORDINATOR_FENCED",
}
INVALID_RECORD, INVALID_TIMESTAMP = "INVALID_RECORD", "INVALID_TIMESTAMP"

# The end of a batch's records (reasons.py) -> what Kafka's iterators throw. Those not named: InvalidRecordException.
_OF_DAMAGE = {
    reasons.SHORT_HEADER: "IndexOutOfBoundsException",
    reasons.UNKNOWN_CODEC: "IllegalArgumentException",
    reasons.DAMAGED_STREAM: "KafkaException",
    reasons.SMALL_INNER_SIZE: "CorruptRecordException",
    reasons.UNREADABLE_FIELD: "IllegalArgumentException",
}
# snappy-java throws an Error, not an IOException, for a chunk beyond its largest (SnappyInputStream).
_SNAPPY_CHUNK = "snappy: a chunk length of"


class RecordRefusal(NamedTuple):
    """One record that is at fault: its place in its batch, an error code's name, and the reason."""

    place: int
    code: str
    reason: str


class AppendRefusedError(KafkaframesError):
    """Records that Kafka's append path refuses.

    Attributes:
        exception: the name of the exception that Kafka throws, as brokers' logs have it.
        code: the name of the error code that a producer is answered with.
        record_errors: the records at fault, where the refusal is about records (KIP-467).
        valid_bytes: the size in bytes of the whole, intact batches; ``None`` where one was not intact.
    """

    def __init__(self, exception: str, reason: str, *, record_errors: tuple[RecordRefusal, ...] = ()) -> None:
        super().__init__(reason)
        self.exception = exception
        self.reason = reason
        self.code = ERROR_CODES.get(exception, "UNKNOWN_SERVER_ERROR")
        self.record_errors = record_errors
        self.valid_bytes: int | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.exception, self.reason, self.record_errors, self.valid_bytes)

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"


def _again(
    exception: str, reason: str, record_errors: tuple[RecordRefusal, ...], valid_bytes: int | None
) -> AppendRefusedError:
    error = AppendRefusedError(exception, reason, record_errors=record_errors)
    error.valid_bytes = valid_bytes
    return error


def of_problem(problem: Problem, *, batch: int, exception: str | None = None) -> AppendRefusedError:
    """Return the refusal for damage that reading a batch's records ran into; ``exception`` where it is known better."""
    exception = exception or _OF_DAMAGE.get(problem.status, "InvalidRecordException")
    if problem.detail.startswith(_SNAPPY_CHUNK):
        exception = "SnappyError"
    return AppendRefusedError(exception, f"batch {batch}: {problem.reason}")


def of_records(errors: tuple[RecordRefusal, ...]) -> AppendRefusedError:
    """Return the refusal for records at fault: a wrong timestamp among them decides the code."""
    late = any(error.code == INVALID_TIMESTAMP for error in errors)
    exception = "InvalidTimestampException" if late else "InvalidRecordException"
    first = "; ".join(f"record {error.place}: {error.reason}" for error in errors[:3])
    more = f" and {len(errors) - 3} more" if len(errors) > 3 else ""
    return AppendRefusedError(exception, f"records refused: {first}{more}", record_errors=errors)
