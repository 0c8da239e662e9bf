"""The generations of brokers that differ in how they clean, load and recover a log."""

from __future__ import annotations

# The broker's generation: 2.8 (and all before 3.1) has no delete horizons (KIP-534) and judges tombstones and markers
# by file times; 3.9 has them and keeps formats; 4.x writes formats 0 and 1 anew as format 2 (KAFKA-13093).
BEFORE_HORIZONS, KEEPS_FORMATS, REWRITES_OLD = "2.8", "3.9", "4.x"
# Before producer.id.expiration.ms (KIP-854) producers were kept for transactional.id.expiration.ms.
OLD_EXPIRATION_MS = 604_800_000
DEFAULT_EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms
BROKER_RELEASES = (BEFORE_HORIZONS, KEEPS_FORMATS, REWRITES_OLD)


def expiration_of(broker_release: str, expiration_ms: int | None) -> int:
    """Return after how many milliseconds a broker forgets a producer that writes nothing."""
    if expiration_ms is not None:
        return expiration_ms
    return OLD_EXPIRATION_MS if broker_release == BEFORE_HORIZONS else DEFAULT_EXPIRATION_MS
