"""Log lines for requests that brokers refuse and a client sends again: which error, from where, how often.

Without them, a record that is refused for two minutes looks like a producer that hangs. The first refusal is logged at
once, further ones of the same kind after 10 s, 30 s and then every 60 s, with their number.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

_LOG: Final = logging.getLogger("kafkaframes.client")
_PAUSES_S: Final = (10.0, 30.0, 60.0)
_FORGET_S: Final = 300.0  # without a refusal for so long, the next one counts as the first


@dataclass(slots=True)
class _Refused:
    """Refusals of one kind; times are seconds of the monotonic clock."""

    since: float
    last: float
    next_line: float
    count: int = 0
    lines: int = 0


class RefusalLog:
    """The refusals that one client has retried, by kind."""

    def __init__(self, client_id: str, *, first_after_s: float = 0.0) -> None:
        """Create it empty.

        Args:
            client_id: the client's name in the log.
            first_after_s: seconds after the first refusal before which nothing is logged.
        """
        self._client_id = client_id
        self._first_after_s = first_after_s
        self._kinds: dict[Hashable, _Refused] = {}

    def add(self, kind: Hashable, error: Exception, where: str, now: float) -> None:
        """Take a refusal that is retried; write a line if one is due.

        Args:
            kind: refusals that are counted together, such as topic, node and error code.
            error: the refusal.
            where: the broker that sent it.
            now: seconds of the monotonic clock.
        """
        known = self._kinds.get(kind)
        if known is None or now - known.last > _FORGET_S:
            known = self._kinds[kind] = _Refused(now, now, now + self._first_after_s)
        known.count += 1
        known.last = now
        if now < known.next_line:
            return
        known.next_line = now + _PAUSES_S[min(known.lines, len(_PAUSES_S) - 1)]
        known.lines += 1
        times = "once" if known.count == 1 else f"{known.count} times in {now - known.since:.0f} s"
        _LOG.warning("client %r: %s refuses %s, and is asked again: %s", self._client_id, where, times, error)
