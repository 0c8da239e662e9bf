"""The generations of brokers that differ in how they clean, load and recover a log."""

from __future__ import annotations

# The broker's generation: 2.8 (and all before 3.1) has no delete horizons (KIP-534) and judges tombstones and markers
# by file times; 3.9 has them and keeps formats; 4.x writes formats 0 and 1 anew as format 2 (KAFKA-13093).
BEFORE_HORIZONS, KEEPS_FORMATS, REWRITES_OLD = "2.8", "3.9", "4.x"
# Before producer.id.expiration.ms (KIP-854) producers were kept for transactional.id.expiration.ms.
OLD_EXPIRATION_MS = 604_800_000
DEFAULT_EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms
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
    """Return after how many milliseconds a broker forgets a producer that writes nothing."""
    if given_ms is not None:
        return given_ms
    return OLD_EXPIRATION_MS if semantics == BEFORE_HORIZONS else DEFAULT_EXPIRATION_MS
