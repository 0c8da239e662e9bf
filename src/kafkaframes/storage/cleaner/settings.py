"""The settings of a round of cleaning: the topic's configuration, the broker's generation, and the clock."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaframes.errors import OptionError
from kafkaframes.storage.files.broker_release import BEFORE_HORIZONS, BROKER_RELEASES, REWRITES_OLD


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The settings of a round; names and defaults are Kafka's.

    Attributes:
        now_ms: the current time, in milliseconds.
        broker_release: the broker's generation: ``2.8``, ``3.9`` or ``4.x``.
        delete_retention_ms: how long tombstones and markers stay after their first cleaning.
        segment_bytes: ``segment.bytes``; cleaned segments are joined up to it.
        index_bytes: ``segment.index.bytes``, which bounds the join too.
        index_interval_bytes: ``index.interval.bytes``.
        min_compaction_lag_ms: younger records are not cleaned.
        expiration_ms: ``producer.id.expiration.ms``; by default the broker's: a day, in 2.8 a week.
        first_dirty_offset: where the last round ended; by default what ``cleaner-offset-checkpoint`` says.
        high_watermark: the last committed offset; by default the log's end.
    """

    now_ms: int
    broker_release: str = REWRITES_OLD
    delete_retention_ms: int = 86_400_000
    segment_bytes: int = 1 << 30
    index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    min_compaction_lag_ms: int = 0
    expiration_ms: int | None = None
    first_dirty_offset: int | None = None
    high_watermark: int | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown release.

        Raises:
            OptionError: names the setting.
        """
        if self.broker_release not in BROKER_RELEASES:
            raise OptionError(f"broker_release is one of {', '.join(BROKER_RELEASES)}, not {self.broker_release!r}")

    @property
    def has_horizons(self) -> bool:
        """Whether batches carry the time at which tombstones and markers may go (KIP-534)."""
        return self.broker_release != BEFORE_HORIZONS

    @property
    def ends_at_high_watermark(self) -> bool:
        """Whether a round ends at the high watermark; 2.8 always cleans up to the active segment."""
        return self.broker_release != BEFORE_HORIZONS

    @property
    def keeps_last_of_round(self) -> bool:
        """Whether the last batch of a round is kept even if empty, so that its offset stays (KAFKA-17076, 4.0)."""
        return self.broker_release == REWRITES_OLD
