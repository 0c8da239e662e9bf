"""What decides a round of cleaning: the topic's configuration, the broker's generation, and the clock."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaframes.errors import OptionError
from kafkaframes.log.producer_state import DEFAULT_EXPIRATION_MS

# The broker's generation: 2.8 (and all before 3.1) has no delete horizons (KIP-534) and judges tombstones and markers
# by file times; 3.9 has them and keeps formats; 4.x writes formats 0 and 1 anew as format 2 (KAFKA-13093).
BEFORE_HORIZONS, KEEPS_FORMATS, REWRITES_OLD = "2.8", "3.9", "4.x"
# Before producer.id.expiration.ms (KIP-854) producers were kept for transactional.id.expiration.ms.
OLD_EXPIRATION_MS = 604_800_000
SEMANTICS = (BEFORE_HORIZONS, KEEPS_FORMATS, REWRITES_OLD)


def semantics_of_version(version: str) -> str:
    """Return the generation of a broker's version.

    >>> semantics_of_version("2.8.2"), semantics_of_version("3.9.1"), semantics_of_version("4.3.1")
    ('2.8', '3.9', '4.x')
    """
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < (3, 1):
        return BEFORE_HORIZONS
    return KEEPS_FORMATS if numbers < (4, 0) else REWRITES_OLD


def expiration_of(semantics: str, given_ms: int | None) -> int:
    """Return how long a producer that writes nothing is known, milliseconds."""
    if given_ms is not None:
        return given_ms
    return OLD_EXPIRATION_MS if semantics == BEFORE_HORIZONS else DEFAULT_EXPIRATION_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The settings of a round; names and defaults are Kafka's.

    Attributes:
        now_ms: the clock, in milliseconds; it comes in from outside.
        semantics: ``2.8``, ``3.9`` or ``4.x``: whose rules.
        delete_retention_ms: how long tombstones and markers stay after their first cleaning.
        segment_bytes: ``segment.bytes``; cleaned segments are joined up to it.
        index_bytes: ``segment.index.bytes``, which bounds the join too.
        index_interval_bytes: ``index.interval.bytes``.
        min_compaction_lag_ms: younger records are left alone.
        expiration_ms: ``producer.id.expiration.ms``; by default the broker's: a day, in 2.8 a week.
        first_dirty_offset: where the last round ended; by default what ``cleaner-offset-checkpoint`` says.
        high_watermark: the last committed offset; by default the log's end.
    """

    now_ms: int
    semantics: str = REWRITES_OLD
    delete_retention_ms: int = 86_400_000
    segment_bytes: int = 1 << 30
    index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    min_compaction_lag_ms: int = 0
    expiration_ms: int | None = None
    first_dirty_offset: int | None = None
    high_watermark: int | None = None

    def __post_init__(self) -> None:
        """Refuse unknown semantics.

        Raises:
            OptionError: names the setting.
        """
        if self.semantics not in SEMANTICS:
            raise OptionError(f"semantics is one of {', '.join(SEMANTICS)}, not {self.semantics!r}")

    @property
    def has_horizons(self) -> bool:
        """Whether batches carry the time at which tombstones and markers may go (KIP-534)."""
        return self.semantics != BEFORE_HORIZONS

    @property
    def minds_high_watermark(self) -> bool:
        """Whether a round ends at the high watermark; 2.8 cleans up to the active segment whatever it is."""
        return self.semantics != BEFORE_HORIZONS

    @property
    def keeps_last_of_round(self) -> bool:
        """Whether the batch at a round's end stays, be it empty, so that the offset is not lost (KAFKA-17076, 4.0)."""
        return self.semantics == REWRITES_OLD
