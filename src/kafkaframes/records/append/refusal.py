"""Why records are not appended: the table from damage to what Kafka would throw."""

from __future__ import annotations

from kafkaframes.errors import AppendRefusedError, ErrorCode, RecordRefusal
from kafkaframes.records import reasons
from kafkaframes.records.codecs import over_limit
from kafkaframes.records.decoded import Problem

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


def of_content(most_bytes: int) -> AppendRefusedError:
    """Return the refusal of records that are too large when they are decompressed."""
    return AppendRefusedError("RecordTooLargeException", over_limit(most_bytes))


def of_problem(problem: Problem, *, batch: int, exception: str | None = None) -> AppendRefusedError:
    """Return the refusal for damage that reading a batch's records ran into; ``exception`` where it is known better."""
    exception = exception or _OF_DAMAGE.get(problem.status, "InvalidRecordException")
    if problem.detail.startswith(_SNAPPY_CHUNK):
        exception = "SnappyError"
    return AppendRefusedError(exception, f"batch {batch}: {problem.reason}")


def of_records(errors: tuple[RecordRefusal, ...]) -> AppendRefusedError:
    """Return the refusal for records at fault: a wrong timestamp among them decides the code."""
    late = any(error.code == ErrorCode.INVALID_TIMESTAMP for error in errors)
    exception = "InvalidTimestampException" if late else "InvalidRecordException"
    first = "; ".join(f"record {error.place}: {error.reason}" for error in errors[:3])
    more = f" and {len(errors) - 3} more" if len(errors) > 3 else ""
    return AppendRefusedError(exception, f"records refused: {first}{more}", record_errors=errors)
