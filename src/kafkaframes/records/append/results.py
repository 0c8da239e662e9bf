"""The results of an append to a partition: validated or down-converted records, and the errors that reject it."""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors import AppendRefusedError, ErrorCode, RecordRefusal
from kafkaframes.records import reasons
from kafkaframes.records._delivery import over_limit_text
from kafkaframes.records.decoded import BatchProblem

Raw = bytes | bytearray


class ValidatedRecords(NamedTuple):
    """Validated records with their offsets, ready to be written to the log.

    Attributes:
        records: the bytes to write; if they were changed in place, this is the object that the caller passed.
        next_offset: the offset after the last record.
        in_place: whether no batch was rebuilt.
        max_timestamp: the largest timestamp in milliseconds; -1 if there is none (always in format 0).
        converted: number of rebuilt records.
        append_time_ms: the broker's clock at the append, in milliseconds.
        valid_bytes: size of the complete batches in the input; an incomplete batch after them was dropped.
        recompressed_bytes: uncompressed size of the records that were compressed.
        kept_bytes: size of the batches that were appended without a rebuild.
    """

    records: Raw
    next_offset: int
    in_place: bool
    max_timestamp: int
    converted: int
    append_time_ms: int
    valid_bytes: int
    recompressed_bytes: int
    kept_bytes: int


class DownConvertedRecords(NamedTuple):
    """Records that were converted to an older format.

    Attributes:
        records: the converted bytes. Batches that have a supported format are unchanged.
        converted: number of converted records.
        lost: number of records or batches with data that the older format cannot represent, by kind of data.
    """

    records: bytes
    converted: int
    lost: dict[str, int]


# Kind of damage (reasons.py) -> exception that Kafka's iterators throw. For all other damage it is
# InvalidRecordException.
_EXCEPTION_BY_STATUS = {
    reasons.SHORT_HEADER: "IndexOutOfBoundsException",
    reasons.UNKNOWN_CODEC: "IllegalArgumentException",
    reasons.DAMAGED_STREAM: "KafkaException",
    reasons.SMALL_INNER_SIZE: "CorruptRecordException",
    reasons.UNREADABLE_FIELD: "IllegalArgumentException",
}
# snappy-java throws an Error instead of an IOException for a chunk above its maximum size (SnappyInputStream).
_SNAPPY_CHUNK_ERROR_PREFIX = "snappy: a chunk length of"


def make_content_size_error(max_bytes: int) -> AppendRefusedError:
    """Return the error for records whose decompressed size exceeds ``max_bytes``."""
    return AppendRefusedError("RecordTooLargeException", over_limit_text(max_bytes))


def make_batch_error(problem: BatchProblem, *, batch: int, exception: str | None = None) -> AppendRefusedError:
    """Return the error for a damaged batch; ``exception`` overrides the exception that belongs to the problem."""
    exception = exception or _EXCEPTION_BY_STATUS.get(problem.status, "InvalidRecordException")
    if problem.detail.startswith(_SNAPPY_CHUNK_ERROR_PREFIX):
        exception = "SnappyError"
    return AppendRefusedError(exception, f"batch {batch}: {problem.reason}")


def record_errors(errors: tuple[RecordRefusal, ...]) -> AppendRefusedError:
    """Return the error for invalid records.

    If a record has an invalid timestamp, that timestamp determines the error code.
    """
    late = any(error.code == ErrorCode.INVALID_TIMESTAMP for error in errors)
    exception = "InvalidTimestampException" if late else "InvalidRecordException"
    first = "; ".join(f"record {error.batch_index}: {error.reason}" for error in errors[:3])
    more = f" and {len(errors) - 3} more" if len(errors) > 3 else ""
    return AppendRefusedError(exception, f"invalid records: {first}{more}", record_errors=errors)
