"""Log a persistent problem once instead of at every occurrence."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkaframes.errors import KafkaframesError

_REPEAT_INTERVAL_MS = 120_000  # twice the longest interval between checkpoint writes


class ProblemLog:
    """Logs each disk problem of a broker once, instead of at each failed operation.

    If a problem occurs again after two minutes without it, the problem is logged again. If a disk is full, every
    append, checkpoint and flush fails, each on a different file. Failures with the same operating system error
    therefore count as one problem.
    """

    def __init__(self, log: logging.Logger, monotonic_ms: Callable[[], int]) -> None:
        self._log = log
        self._monotonic_ms = monotonic_ms
        self._last_seen_ms: dict[str, int] = {}

    def report(self, work: str, error: KafkaframesError) -> None:
        """Log the failure of an operation, unless the same problem was logged recently."""
        cause = error.__cause__
        problem = str(cause.strerror) if isinstance(cause, OSError) else str(error)
        now_ms = self._monotonic_ms()
        self._last_seen_ms = {
            message: seen_ms
            for message, seen_ms in self._last_seen_ms.items()
            if now_ms - seen_ms <= _REPEAT_INTERVAL_MS
        }
        if problem not in self._last_seen_ms:
            self._log.error("%s: %s", work, error)
        self._last_seen_ms[problem] = now_ms
