"""The settings of one partition's log, under Kafka's names for topics (LogConfig); the defaults are those of Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

from kafkaframes.errors import OptionError
from kafkaframes.records.append.settings import AS_KAFKA, CREATE_TIME, AppendSettings
from kafkaframes.storage.log.producers import CLIENT, DEFAULT_EXPIRATION_MS
from kafkaframes.storage.log.rebuild import INDEX_INTERVAL_BYTES
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64, MIN_INT64

UNLIMITED = -1
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Settings of one log for rolling, flushing, retention and format, with sizes in bytes and times in milliseconds.

    Attributes:
        segment_jitter_ms: time by which a segment is rolled before ``segment_ms``. Kafka draws a random number up to
            ``segment.jitter.ms`` for each segment; here the caller passes the number.
        segment_index_bytes: size at which an index of the active segment is allocated.
        index_per_batch: whether each batch of an append can get an index entry (KAFKA-806, since 4.1). If False, an
            append gets at most one entry, with its last offset and the position of its first batch.
        preallocate: whether an active ``.log`` has the full segment size from the start, with zeros after its batches.
        retention_bytes: largest size of the log; a negative number means no limit.
        retention_ms: largest age of records; -1 means no limit.
        flush_messages: largest number of records before an fsync. Rolling a segment and closing the log also flush.
        flush_ms: largest time before an fsync.
        cleanup_policy: ``delete``, ``compact``, ``compact,delete``, or empty to keep segments until their records are
            deleted.
        compression_type, compression_level, message_timestamp_type: same as in ``AppendSettings``.
        timestamp_before_max_ms: ``message.timestamp.before.max.ms``.
        timestamp_after_max_ms: ``message.timestamp.after.max.ms``.
        record_format: format that a leader writes: 2, or lower for a topic with an old ``message.format.version``.
        on_noncontiguous: handling of record sets with gaps in their offsets: ``kafka``, ``reject``, ``reassign`` (see
            ``AppendSettings``) or ``keep``. With ``keep``, as for a mirror, batches keep their offsets, and only
            headers and CRCs are checked. The setting ``on_noncontiguous`` applies to clients only. A coordinator's
            records and markers always get the next offsets.
        producer_id_expiration_ms: time after a producer's last batch at which its state expires.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    index_per_batch: bool = True
    preallocate: bool = False
    retention_bytes: int = UNLIMITED
    retention_ms: int = 7 * _DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_INT64
    flush_ms: int = MAX_INT64
    cleanup_policy: str = "delete"
    max_message_bytes: int = 1_048_588
    compression_type: str = "producer"
    compression_level: int | None = None
    message_timestamp_type: str = CREATE_TIME
    timestamp_before_max_ms: int = MAX_INT64
    timestamp_after_max_ms: int = MAX_INT64
    record_format: int = 2
    on_noncontiguous: str = AS_KAFKA
    producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS

    def __post_init__(self) -> None:
        for name, min_value, max_value in (
            ("segment_bytes", 14, MAX_INT32),
            ("segment_ms", 1, MAX_INT64),
            ("segment_jitter_ms", 0, MAX_INT64),
            ("segment_index_bytes", 4, MAX_INT32),
            ("index_interval_bytes", 0, MAX_INT32),
            ("retention_bytes", MIN_INT64, MAX_INT64),
            ("retention_ms", UNLIMITED, MAX_INT64),
            ("file_delete_delay_ms", 0, MAX_INT64),
            ("flush_messages", 1, MAX_INT64),
            ("flush_ms", 0, MAX_INT64),
            ("max_message_bytes", 0, MAX_INT32),
            ("record_format", 0, 2),
        ):
            value = getattr(self, name)
            if not min_value <= value <= max_value:
                raise OptionError(f"{name} is {value}; expected {min_value} to {max_value}")
        AppendSettings(
            codec=self.compression_type,
            level=self.compression_level,
            timestamp_type=self.message_timestamp_type,
            on_noncontiguous=self.on_noncontiguous,
        )
        if not self.policies <= {"delete", "compact"}:
            raise OptionError(f"cleanup_policy is {self.cleanup_policy!r}; expected 'delete', 'compact', both or none")

    @property
    def policies(self) -> frozenset[str]:
        """The cleanup policies as a set."""
        return frozenset(part.strip() for part in self.cleanup_policy.split(",") if part.strip())

    @property
    def is_compacted(self) -> bool:
        """Whether the log is compacted, and records therefore need keys."""
        return "compact" in self.policies

    @classmethod
    def from_topic(cls, properties: Mapping[str, str]) -> LogSettings:
        """Return the settings of a topic, given under Kafka's names. Settings that a log does not use are ignored.

        >>> LogSettings.from_topic({"segment.bytes": "1048576", "cleanup.policy": "compact"}).segment_bytes
        1048576

        Raises:
            OptionError: a value cannot be parsed.
        """
        values: dict[str, int | str | bool] = {}
        for field in fields(cls):
            text = properties.get(_TOPIC_CONFIG_NAMES.get(field.name, field.name.replace("_", ".")))
            if text is not None:
                values[field.name] = _parse_value(field.name, str(field.type), text)
        # Topic settings use "uncompressed" for the codec that producers call "none".
        if values.get("compression_type") == "uncompressed":
            values["compression_type"] = "none"
        return cls(**values)  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def to_append_settings(settings: LogSettings, leader_epoch: int, origin: str) -> AppendSettings:
    """Return the settings with which a log's appends are validated. Logs with equal settings share the object."""
    return AppendSettings(
        record_format=settings.record_format,
        codec=settings.compression_type,
        level=settings.compression_level,
        timestamp_type=settings.message_timestamp_type,
        before_max_ms=settings.timestamp_before_max_ms,
        after_max_ms=settings.timestamp_after_max_ms,
        is_compacted=settings.is_compacted,
        origin=origin,
        leader_epoch=leader_epoch,
        max_batch_bytes=settings.max_message_bytes,
        on_noncontiguous=settings.on_noncontiguous if origin == CLIENT else AS_KAFKA,
    )


_TOPIC_CONFIG_NAMES = {
    "timestamp_before_max_ms": "message.timestamp.before.max.ms",
    "timestamp_after_max_ms": "message.timestamp.after.max.ms",
    "max_message_bytes": "max.message.bytes",
    "on_noncontiguous": "kafkaframes.on.noncontiguous",
}


def _parse_value(name: str, kind: str, text: str) -> int | str | bool:
    if kind == "bool":
        return text.strip().lower() == "true"
    if not kind.startswith("int"):
        return text
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{name} is {text!r}; expected a number") from None
