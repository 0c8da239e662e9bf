"""Largest batches that a topic's leaders accept, learned from the batches that they refuse as too large (KIP-126).

A producer does not know ``max.message.bytes``. A refused batch is divided into parts of two thirds of its size, these
again if they are refused, until the parts are accepted.
For ``metadata_max_age_ms`` after a refusal, the topic's batches are no larger than the part that was accepted.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Limit:
    """Sizes in bytes, and the time (monotonic clock, in seconds) at which they are forgotten."""

    refused: int
    accepted: int
    until: float

    @property
    def batch_bytes(self) -> int:
        """The largest accepted size; two thirds of the smallest refused size while no accepted one is larger."""
        return max(self.accepted, self.refused * 2 // 3, 1)


class SizeLimits:
    """The limits of all topics of one producer. Any thread may read them."""

    def __init__(self, max_age_s: float) -> None:
        """Create it without limits; ``max_age_s`` is how long one holds after a refusal, in seconds."""
        self._max_age_s = max_age_s
        self._limits: dict[str, _Limit] = {}

    def refuse(self, topic: str, size: int, now: float) -> int:
        """Take that a batch of ``size`` bytes was refused; return the size of the parts to send instead."""
        known = self._limits.get(topic)
        if known is None or known.until <= now:
            known = _Limit(size, 0, 0.0)
        refused = min(known.refused, size)
        accepted = known.accepted if known.accepted < refused else 0
        limit = self._limits[topic] = _Limit(refused, accepted, now + self._max_age_s)
        return limit.batch_bytes

    def accept(self, topic: str, size: int) -> None:
        """Take that a batch of ``size`` bytes was accepted."""
        known = self._limits.get(topic)
        if known is None:
            return
        if size >= known.refused:  # the topic's configuration has changed
            del self._limits[topic]
        elif size > known.accepted:
            known.accepted = size

    def batch_bytes(self, topic: str, now: float) -> int | None:
        """Return the size of a topic's largest batch, in bytes; None without a limit."""
        known = self._limits.get(topic)
        return None if known is None or known.until <= now else known.batch_bytes
