"""The settings of an append: topic configuration, the broker's clock, and the sender."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaframes.errors import OptionError
from kafkaframes.records.codecs import Codec, codec_of
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES, MAX_CONTENT_BYTES
from kafkaframes.wire.integers import MAX_INT64

CREATE_TIME, LOG_APPEND_TIME = "CreateTime", "LogAppendTime"
CONTENT_RATIO, _MIN_LIMIT_BATCH_BYTES = 64, 1 << 20
APPEND_ORIGINS = ("CLIENT", "REPLICATION", "COORDINATOR", "RAFT_LEADER")
# Policies for a record set with inner offsets other than 0, 1, 2, and so on. A mirror of a compacted topic sends sets
# with gaps.
AS_KAFKA, REJECT, REASSIGN, KEEP = "kafka", "reject", "reassign", "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSettings:
    """The settings of one append. The defaults are the same as in Kafka.

    Attributes:
        record_format: the record format of the log: 0, 1 or 2.
        codec: the topic's ``compression.type``; ``producer`` keeps the codec of the batch.
        level: the compression level (KIP-390); None is the codec's default.
        timestamp_type: ``message.timestamp.type``.
        now_ms: the broker's clock, in milliseconds.
        before_max_ms, after_max_ms: ``message.timestamp.before.max.ms`` and ``message.timestamp.after.max.ms``.
        is_compacted: whether the topic is compacted. Every record of a compacted topic needs a key.
        origin: the sender (Kafka's ``AppendOrigin``). Some checks apply to the origin ``CLIENT`` only.
        leader_epoch: the leader epoch to write into format 2 batches.
        max_batch_bytes: ``max.message.bytes``, the largest size of a batch before and after a rebuild; None for
            unlimited.
        on_noncontiguous: the policy for a record set with holes in its offsets. ``kafka`` rebuilds a set of format 1
            and rejects one of format 2. ``reject`` rejects sets of both formats, so that no set is ever recompressed
            for that reason and clients that number records wrongly get an error. ``reassign`` renumbers the records of
            sets of both formats, as described in KIP-31. ``keep`` copies batches with their offsets. Except with
            ``kafka``, missing offsets between the last record and the last offset of a format 2 batch also count as a
            hole.
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
            ("origin", APPEND_ORIGINS),
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

        Kafka has no such limit and decompresses records of any size.
        """
        if self.max_batch_bytes is None:
            return DEFAULT_LIMIT_BYTES
        return min(CONTENT_RATIO * max(self.max_batch_bytes, _MIN_LIMIT_BATCH_BYTES), MAX_CONTENT_BYTES)

    def target_codec(self, source: Codec) -> Codec:
        """Return the codec to write: the topic's codec, or ``source`` if the topic's codec is ``producer``."""
        return source if self.codec == "producer" else codec_of(self.codec)

    @property
    def append_time(self) -> bool:
        """Whether the log's clock replaces the producers' timestamps."""
        return self.timestamp_type == LOG_APPEND_TIME
