"""The settings of an append (topic configuration, clock, origin), its result, and the errors that reject it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kafkaframes.errors import AppendRefusedError, ErrorCode, OptionError, RecordRefusal
from kafkaframes.records import reasons
from kafkaframes.records._delivery import over_limit
from kafkaframes.records.codecs import Codec, codec_of
from kafkaframes.records.decoded import Problem
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES, MAX_CONTENT_BYTES
from kafkaframes.wire.integers import MAX_INT64

CREATE_TIME, LOG_APPEND_TIME = "CreateTime", "LogAppendTime"
CONTENT_RATIO, _MIN_LIMIT_BATCH_BYTES = 64, 1 << 20
ORIGINS = ("CLIENT", "REPLICATION", "COORDINATOR", "RAFT_LEADER")
# Policies for a record set whose inner offsets are not 0, 1, 2, ... A mirror of a compacted topic sends sets with
# holes.
AS_KAFKA, REJECT, REASSIGN, KEEP = "kafka", "reject", "reassign", "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSettings:
    """The settings of one append; the defaults are Kafka's.

    Attributes:
        record_format: the record format of the log: 0, 1 or 2.
        codec: the topic's ``compression.type``; ``producer`` keeps the codec of the batch.
        level: the compression level (KIP-390); None is the codec's default.
        timestamp_type: ``message.timestamp.type``.
        now_ms: the broker's clock, in milliseconds.
        before_max_ms, after_max_ms: ``message.timestamp.before.max.ms`` and ``message.timestamp.after.max.ms``.
        is_compacted: whether the topic is compacted. Every record then needs a key.
        origin: the sender (Kafka's ``AppendOrigin``). Some checks apply to ``CLIENT`` only.
        leader_epoch: the leader epoch to write into format 2 batches.
        max_batch_bytes: ``max.message.bytes``, the largest size of a batch before and after a rebuild; None is no
            limit.
        on_noncontiguous: the policy for a record set with holes in its offsets. ``kafka`` rebuilds a set of format 1
            and rejects one of format 2. ``reject`` rejects both, so that no set is ever recompressed for that reason
            and clients that number records wrongly get an error. ``reassign`` numbers the records of both again, as
            KIP-31's text has it. ``keep`` copies batches with their offsets. Except for ``kafka``, the offsets between
            the last record and the last offset of a format 2 batch are a hole as well.
    """

    record_format: int = 2
    codec: str = "producer"
    level: int | None = None
    timestamp_type: str = CREATE_TIME
    now_ms: int = 0
    before_max_ms: int = MAX_INT64
    after_max_ms: int = MAX_INT64
    is_compacted: bool = False
    origin: str = "CLIENT"
    leader_epoch: int = -1
    max_batch_bytes: int | None = None
    on_noncontiguous: str = AS_KAFKA

    def __post_init__(self) -> None:
        for name, valid_values in (
            ("record_format", (0, 1, 2)),
            ("timestamp_type", (CREATE_TIME, LOG_APPEND_TIME)),
            ("origin", ORIGINS),
            ("on_noncontiguous", (AS_KAFKA, REJECT, REASSIGN, KEEP)),
        ):
            if getattr(self, name) not in valid_values:
                valid_list = ", ".join(map(str, valid_values))
                raise OptionError(f"{name} is {getattr(self, name)!r}; expected one of {valid_list}")
        if self.codec != "producer":
            codec_of(self.codec)

    @property
    def max_content_bytes(self) -> int:
        """The largest decompressed size of an append, in bytes: 64 times the batch limit, at most 256 MiB.

        Kafka has no such limit and decompresses whatever a producer sends.
        """
        if self.max_batch_bytes is None:
            return DEFAULT_LIMIT_BYTES
        return min(CONTENT_RATIO * max(self.max_batch_bytes, _MIN_LIMIT_BATCH_BYTES), MAX_CONTENT_BYTES)

    def target_codec(self, source: Codec) -> Codec:
        """Return the codec to write: the topic's, or ``source`` if the topic's is ``producer``."""
        return source if self.codec == "producer" else codec_of(self.codec)

    @property
    def append_time(self) -> bool:
        """Whether the log's clock replaces the producers' timestamps."""
        return self.timestamp_type == LOG_APPEND_TIME


# ------------------------------------------------------------------------------------------------ results and errors

Raw = bytes | bytearray


class ValidatedRecords(NamedTuple):
    """Records ready for the log.

    Attributes:
        records: the bytes to write; the bytes that were passed in, if they changed in place.
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
    """Records in an older format.

    Attributes:
        records: the converted bytes. Batches that have a supported format are unchanged.
        converted: number of converted records.
        lost: how many records or batches lost something, by what the older format cannot represent.
    """

    records: bytes
    converted: int
    lost: dict[str, int]


# The exception that Kafka's iterators throw, by damage (reasons.py). For all other damage it is InvalidRecordException.
_EXCEPTION_OF_DAMAGE = {
    reasons.SHORT_HEADER: "IndexOutOfBoundsException",
    reasons.UNKNOWN_CODEC: "IllegalArgumentException",
    reasons.DAMAGED_STREAM: "KafkaException",
    reasons.SMALL_INNER_SIZE: "CorruptRecordException",
    reasons.UNREADABLE_FIELD: "IllegalArgumentException",
}
# snappy-java throws an Error, not an IOException, for a chunk above its largest size (SnappyInputStream).
_SNAPPY_CHUNK = "snappy: a chunk length of"


def content_size_error(most_bytes: int) -> AppendRefusedError:
    """Return the error for records whose decompressed size exceeds ``most_bytes``."""
    return AppendRefusedError("RecordTooLargeException", over_limit(most_bytes))


def batch_error(problem: Problem, *, batch: int, exception: str | None = None) -> AppendRefusedError:
    """Return the error for a damaged batch; ``exception`` overrides the exception that belongs to the problem."""
    exception = exception or _EXCEPTION_OF_DAMAGE.get(problem.status, "InvalidRecordException")
    if problem.detail.startswith(_SNAPPY_CHUNK):
        exception = "SnappyError"
    return AppendRefusedError(exception, f"batch {batch}: {problem.reason}")


def record_errors(errors: tuple[RecordRefusal, ...]) -> AppendRefusedError:
    """Return the error for invalid records. If one has an invalid timestamp, that decides the error code."""
    late = any(error.code == ErrorCode.INVALID_TIMESTAMP for error in errors)
    exception = "InvalidTimestampException" if late else "InvalidRecordException"
    first = "; ".join(f"record {error.batch_index}: {error.reason}" for error in errors[:3])
    more = f" and {len(errors) - 3} more" if len(errors) > 3 else ""
    return AppendRefusedError(exception, f"invalid records: {first}{more}", record_errors=errors)
