"""Report a problem that lasts once, not each time that it is met."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkaframes.errors import KafkaframesError

_QUIET_MS = 120_000  # twice the longest interval at which a checkpoint is written


class ProblemLog:
    """The problems that a broker's work on its disk has met, each logged as one line until the situation changes.

    A disk that is full is met by every append, checkpoint and flush, at another file each. The situation has changed
    if there is another problem, or if none was met for two minutes.
    """

    def __init__(self, log: logging.Logger, monotonic_ms: Callable[[], int]) -> None:
        self._log = log
        self._monotonic_ms = monotonic_ms
        self._met_ms: dict[str, int] = {}

    def report(self, work: str, error: KafkaframesError) -> None:
        """Log that some work failed, unless the same problem is known."""
        cause = error.__cause__
        problem = str(cause.strerror) if isinstance(cause, OSError) else str(error)
        now_ms = self._monotonic_ms()
        self._met_ms = {one: met_ms for one, met_ms in self._met_ms.items() if now_ms - met_ms <= _QUIET_MS}
        if problem not in self._met_ms:
            self._log.error("%s: %s", work, error)
        self._met_ms[problem] = now_ms
