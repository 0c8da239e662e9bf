"""Learn the largest batch size that a topic's leaders accept from the batches that they reject as too large (KIP-126).

A producer does not know ``max.message.bytes``. The producer splits a rejected batch into parts of two thirds of its
size, and splits rejected parts again until the leader accepts them. For ``metadata_max_age_ms`` after a rejection, the
topic's batches are no larger than the accepted part.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _SizeBounds:
    """The smallest rejected and the largest accepted batch size of one topic, in bytes.

    Attributes:
        refused_bytes: smallest rejected batch size.
        accepted_bytes: largest accepted batch size below the smallest rejected size; 0 if unknown.
        until: time at which the sizes expire, in seconds of the monotonic clock.
    """

    refused_bytes: int
    accepted_bytes: int
    until: float

    @property
    def batch_bytes(self) -> int:
        """The largest accepted size, or two thirds of the smallest rejected size, whichever is larger."""
        return max(self.accepted_bytes, self.refused_bytes * 2 // 3, 1)


class SizeLimits:
    """The batch size limits of a producer, by topic. All threads may read the limits."""

    def __init__(self, max_age_s: float) -> None:
        """Create an object without limits.

        Args:
            max_age_s: time from a rejection until the resulting limit expires, in seconds.
        """
        self._max_age_s = max_age_s
        self._limits: dict[str, _SizeBounds] = {}

    def record_rejection(self, topic: str, size: int, now: float) -> int:
        """Record that a leader rejected a batch of ``size`` bytes, and return the size of the parts to send instead."""
        limit = self._limits.get(topic)
        if limit is None or limit.until <= now:
            limit = _SizeBounds(size, 0, 0.0)
        refused_bytes = min(limit.refused_bytes, size)
        accepted_bytes = limit.accepted_bytes if limit.accepted_bytes < refused_bytes else 0
        new_limit = self._limits[topic] = _SizeBounds(refused_bytes, accepted_bytes, now + self._max_age_s)
        return new_limit.batch_bytes

    def record_success(self, topic: str, size: int) -> None:
        """Record that a leader accepted a batch of ``size`` bytes."""
        limit = self._limits.get(topic)
        if limit is None:
            return
        if size >= limit.refused_bytes:  # the topic's configuration has changed
            del self._limits[topic]
        elif size > limit.accepted_bytes:
            limit.accepted_bytes = size

    def get_max_batch_bytes(self, topic: str, now: float) -> int | None:
        """Return the largest batch size of a topic, in bytes; None if it has no limit."""
        limit = self._limits.get(topic)
        return None if limit is None or limit.until <= now else limit.batch_bytes
