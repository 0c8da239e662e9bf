"""What decides how records are appended: the topic's configuration, the clock, and who sends them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kafkaframes.errors import AppendRefusedError, ErrorCode, OptionError, RecordRefusal
from kafkaframes.records import reasons
from kafkaframes.records._delivery import over_limit
from kafkaframes.records.codecs import Codec, codec_of
from kafkaframes.records.decoded import Problem
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES, MOST_CONTENT_BYTES

LARGEST_INT64 = 2**63 - 1
CREATE_TIME, LOG_APPEND_TIME = "CreateTime", "LogAppendTime"
CONTENT_RATIO, _LEAST_BATCH_BYTES = 64, 1 << 20
ORIGINS = ("CLIENT", "REPLICATION", "COORDINATOR", "RAFT_LEADER")
# What to do with a compressed set whose inner offsets are not 0, 1, 2, ... (a mirror of a compacted topic has holes).
AS_KAFKA, REJECT, REASSIGN, KEEP = "kafka", "reject", "reassign", "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSettings:
    """The settings of one append; the defaults are Kafka's.

    Attributes:
        record_format: the format that the log is written in.
        codec: the topic's ``compression.type``; ``producer`` keeps that of the batch.
        level: the codec's level (KIP-390), the codec's default where it is ``None``.
        timestamp_type: ``message.timestamp.type``.
        now_ms: the broker's clock, in milliseconds; it comes in from outside.
        before_max_ms, after_max_ms: ``message.timestamp.before.max.ms`` and ``message.timestamp.after.max.ms``.
        compacted: the topic is compacted, so that every record needs a key.
        origin: ``CLIENT`` is checked most; the others are trusted more (``AppendOrigin``).
        leader_epoch: written into batches of format 2.
        max_batch_bytes: ``max.message.bytes``, for each batch, before and after; ``None`` for no limit.
        on_noncontiguous: ``kafka`` rebuilds such a set of format 1 and refuses one of format 2; ``reject`` refuses both
            (nothing is ever compressed again for it, and a client that numbers wrongly is found); ``reassign`` is
            KIP-31's text (number the records anew in both); ``keep`` copies batches with their offsets untouched.
            For all but ``kafka`` a batch of format 2 that ends behind its last record has a hole there.
    """

    record_format: int = 2
    codec: str = "producer"
    level: int | None = None
    timestamp_type: str = CREATE_TIME
    now_ms: int = 0
    before_max_ms: int = LARGEST_INT64
    after_max_ms: int = LARGEST_INT64
    compacted: bool = False
    origin: str = "CLIENT"
    leader_epoch: int = -1
    max_batch_bytes: int | None = None
    on_noncontiguous: str = AS_KAFKA

    def __post_init__(self) -> None:
        for name, allowed in (
            ("record_format", (0, 1, 2)),
            ("timestamp_type", (CREATE_TIME, LOG_APPEND_TIME)),
            ("origin", ORIGINS),
            ("on_noncontiguous", (AS_KAFKA, REJECT, REASSIGN, KEEP)),
        ):
            if getattr(self, name) not in allowed:
                raise OptionError(f"{name} is one of {', '.join(map(str, allowed))}, not {getattr(self, name)!r}")
        if self.codec != "producer":
            codec_of(self.codec)

    @property
    def most_content_bytes(self) -> int:
        """The largest decompressed size of what is appended: 64 times what a batch may have, within 256 MiB.

        Kafka has no such limit, and inflates whatever a producer sends.
        """
        if self.max_batch_bytes is None:
            return DEFAULT_LIMIT_BYTES
        return min(CONTENT_RATIO * max(self.max_batch_bytes, _LEAST_BATCH_BYTES), MOST_CONTENT_BYTES)

    def target_codec(self, source: Codec) -> Codec:
        """Return the codec to write: the topic's, or the source's where the topic says ``producer``."""
        return source if self.codec == "producer" else codec_of(self.codec)

    @property
    def append_time(self) -> bool:
        """Whether the log's clock replaces the producers' timestamps."""
        return self.timestamp_type == LOG_APPEND_TIME


# ---------------------------------------------------------------------------------------------------------------------
# What an append, or a conversion to an older format, came to: records for the log, or a refusal as Kafka's.

Raw = bytes | bytearray


class Appended(NamedTuple):
    """Records ready for the log.

    Attributes:
        records: their bytes; those that came, where they stay in place.
        next_offset: the offset after the last.
        in_place: nothing was built anew.
        max_timestamp: the largest timestamp in milliseconds, -1 for none (always in format 0).
        converted: how many records were written anew.
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
    first = "; ".join(f"record {error.batch_index}: {error.reason}" for error in errors[:3])
    more = f" and {len(errors) - 3} more" if len(errors) > 3 else ""
    return AppendRefusedError(exception, f"records refused: {first}{more}", record_errors=errors)
