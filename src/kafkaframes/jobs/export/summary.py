"""What a job over logs did, as values: for the tables that people read and for machines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One topic as it was written. Timestamps are None where no record has one; sizes are in bytes."""

    topic: str
    partitions: int
    records: int
    payload_bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class CodecSummary:
    """What one codec stored: ``log_bytes`` in segments for ``payload_bytes`` of keys, values and headers."""

    codec: str
    batches: int
    records: int
    log_bytes: int
    payload_bytes: int

    @property
    def ratio(self) -> float:
        """Payload bytes for each byte of log."""
        return self.payload_bytes / self.log_bytes if self.log_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Dropped:
    """What is in the log and not in the output, and why. ``records`` is None where it cannot be known."""

    reason: str
    batches: int
    records: int | None
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of a job. ``internal_topics`` were not asked for; ``records_read`` is how many the log gave."""

    topics: tuple[TopicSummary, ...]
    codecs: tuple[CodecSummary, ...]
    dropped: tuple[Dropped, ...]
    internal_topics: tuple[str, ...]
    output: str
    seconds: float
    records_read: int | None = None

    @property
    def records(self) -> int:
        """Records written."""
        return sum(topic.records for topic in self.topics)
