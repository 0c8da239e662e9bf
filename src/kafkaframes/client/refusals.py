"""Log the requests that a broker rejects with a retriable error: error, broker and number of rejections.

Without these log lines, a producer whose record is rejected for two minutes seems to hang. The first rejection is
logged at once. Further rejections of the same kind are logged with their number after 10 s, after 30 s, and then every
60 s.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

_LOG: Final = logging.getLogger("kafkaframes.client")
_LOG_INTERVALS_S: Final = (10.0, 30.0, 60.0)
_REFUSAL_MAX_AGE_S: Final = 300.0  # a kind without rejections for this time starts over


@dataclass(slots=True)
class _RefusalCount:
    """The number of refusals of one kind. Times are seconds of the monotonic clock."""

    since: float
    last: float
    next_line: float
    count: int = 0
    lines: int = 0


class RefusalLog:
    """The refusals that one client has retried, by kind."""

    def __init__(self, client_id: str, *, first_after_s: float = 0.0) -> None:
        """Create an empty log.

        Args:
            client_id: client id to show in log lines.
            first_after_s: time from the first refusal to the first log line, in seconds.
        """
        self._client_id = client_id
        self._first_after_s = first_after_s
        self._kinds: dict[Hashable, _RefusalCount] = {}

    def add(self, kind: Hashable, error: Exception, broker: str, now: float) -> None:
        """Count a refusal that is retried, and write a log line if one is due.

        Args:
            kind: key of the refusals that are counted together, such as (topic, node, error code).
            error: error that the broker returned.
            broker: name of the broker.
            now: current time of the monotonic clock, in seconds.
        """
        refusals = self._kinds.get(kind)
        if refusals is None or now - refusals.last > _REFUSAL_MAX_AGE_S:
            refusals = self._kinds[kind] = _RefusalCount(now, now, now + self._first_after_s)
        refusals.count += 1
        refusals.last = now
        if now < refusals.next_line:
            return
        refusals.next_line = now + _LOG_INTERVALS_S[min(refusals.lines, len(_LOG_INTERVALS_S) - 1)]
        refusals.lines += 1
        times = "once" if refusals.count == 1 else f"{refusals.count} times in {now - refusals.since:.0f} s"
        message = "client %r: %s rejected a request %s; retrying: %s"
        _LOG.warning(message, self._client_id, broker, times, error)
