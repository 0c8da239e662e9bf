"""What an append, or a conversion to an older format, came to: records for the log, or a refusal as Kafka's."""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors import AppendRefusedError, ErrorCode, RecordRefusal
from kafkaframes.records import reasons
from kafkaframes.records.codecs import over_limit
from kafkaframes.records.decoded import Problem

Raw = bytes | bytearray


class Appended(NamedTuple):
    """Records ready for the log.

    Attributes:
        records: their bytes; those that came, where they stay in place.
        next_offset: the offset after the last.
        in_place: nothing was built anew.
        max_timestamp: the largest timestamp in milliseconds, -1 for none (always in format 0).
        converted: how many records were written anew.
        append_time_ms: the clock that was used.
        valid_bytes: the size of the whole batches that came in; what follows them was cut off.
        recompressed_bytes: bytes (uncompressed) that went through a compressor.
        kept_bytes: bytes of batches that were taken as they came, but for header fields.
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


class DownConverted(NamedTuple):
    """Records in an older format.

    Attributes:
        records: their bytes; batches that were old enough are as they were.
        converted: how many records were written anew.
        lost: what the older format cannot say -> how often it was there (of records or of batches).
    """

    records: bytes
    converted: int
    lost: dict[str, int]


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


def refusal_of_content(most_bytes: int) -> AppendRefusedError:
    """Return the refusal of records that are too large when they are decompressed."""
    return AppendRefusedError("RecordTooLargeException", over_limit(most_bytes))


def refusal_of_problem(problem: Problem, *, batch: int, exception: str | None = None) -> AppendRefusedError:
    """Return the refusal for damage that reading a batch's records ran into; ``exception`` where it is known better."""
    exception = exception or _OF_DAMAGE.get(problem.status, "InvalidRecordException")
    if problem.detail.startswith(_SNAPPY_CHUNK):
        exception = "SnappyError"
    return AppendRefusedError(exception, f"batch {batch}: {problem.reason}")


def refusal_of_records(errors: tuple[RecordRefusal, ...]) -> AppendRefusedError:
    """Return the refusal for records at fault: a wrong timestamp among them decides the code."""
    late = any(error.code == ErrorCode.INVALID_TIMESTAMP for error in errors)
    exception = "InvalidTimestampException" if late else "InvalidRecordException"
    first = "; ".join(f"record {error.place}: {error.reason}" for error in errors[:3])
    more = f" and {len(errors) - 3} more" if len(errors) > 3 else ""
    return AppendRefusedError(exception, f"records refused: {first}{more}", record_errors=errors)
