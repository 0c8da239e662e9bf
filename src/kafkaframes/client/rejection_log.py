"""Log the requests that a broker rejects with a retriable error: error, broker and number of rejections.

Without these log lines, a producer with a record that is rejected for two minutes seems to hang. The first rejection is
logged at once. Further rejections of the same kind are counted, and the count is logged after 10 s, after 30 s, and
then every 60 s.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

_LOG: Final = logging.getLogger("kafkaframes.client")
_LOG_INTERVALS_S: Final = (10.0, 30.0, 60.0)  # intervals between log lines of one kind; the last interval repeats
_REJECTION_MAX_AGE_S: Final = 300.0  # after this time without a rejection of a kind, its log interval starts over


@dataclass(slots=True)
class _RejectionCount:
    """The number of rejections of one kind. Times are seconds of the monotonic clock."""

    since: float
    last: float
    next_line: float
    count: int = 0
    lines: int = 0


class RejectionLog:
    """The rejections that one client has retried, by kind."""

    def __init__(self, client_id: str, *, first_after_s: float = 0.0) -> None:
        """Create an empty log.

        Args:
            client_id: client id to show in log lines.
            first_after_s: time from the first rejection to the first log line, in seconds.
        """
        self._client_id = client_id
        self._first_after_s = first_after_s
        self._kinds: dict[Hashable, _RejectionCount] = {}

    def add(self, kind: Hashable, error: Exception, broker: str, now: float) -> None:
        """Count a rejection that is retried, and write a log line if one is due.

        Args:
            kind: key of the rejections that are counted together, such as (topic, node, error code).
            error: error that the broker returned.
            broker: name or address of the broker, for log lines.
            now: current time of the monotonic clock, in seconds.
        """
        rejections = self._kinds.get(kind)
        if rejections is None or now - rejections.last > _REJECTION_MAX_AGE_S:
            rejections = self._kinds[kind] = _RejectionCount(now, now, now + self._first_after_s)
        rejections.count += 1
        rejections.last = now
        if now < rejections.next_line:
            return
        rejections.next_line = now + _LOG_INTERVALS_S[min(rejections.lines, len(_LOG_INTERVALS_S) - 1)]
        rejections.lines += 1
        times = "once" if rejections.count == 1 else f"{rejections.count} times in {now - rejections.since:.0f} s"
        message = "client %r: %s rejected a request %s; retrying: %s"
        _LOG.warning(message, self._client_id, broker, times, error)
