"""Which brokers cannot be reached, since when and why: a line of the log after a second, then now and then."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

_LOG: Final = logging.getLogger("kafkaframes.client")
FIRST_WARNING_S: Final = 1.0
_TIMER_S: Final = 0.01  # a timer of the event loop may come that much early
_PAUSES_S: Final = (10.0, 30.0, 60.0)  # between the warnings that follow; the last one stays


@dataclass(slots=True)
class _Failing:
    since: float
    next_warning: float
    cause: str
    warnings: int = 0


class Unreachable:
    """What one client knows of addresses that did not answer; times are of the monotonic clock, in seconds."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._failing: dict[str, _Failing] = {}

    def trying(self, address: str) -> bool:
        """Take that a connection is being opened; return whether it is the first try: ``warn`` is due in a second."""
        if address in self._failing:
            return False
        now = time.monotonic()
        self._failing[address] = _Failing(now, now + FIRST_WARNING_S, "no answer yet")
        return True

    def failed(self, address: str, cause: str) -> None:
        """Take why that failed."""
        self.trying(address)
        self._failing[address].cause = cause
        self.warn(address)

    def reached(self, address: str) -> None:
        """Take that a connection is open."""
        known = self._failing.pop(address, None)
        if known is not None and known.warnings:
            _LOG.warning(
                "client %r has reached %s after %.0f s", self._client_id, address, time.monotonic() - known.since
            )

    def clear(self) -> None:
        """Take that nobody tries any more."""
        self._failing.clear()

    def warn(self, address: str) -> None:
        """Write a line of the log if one is due."""
        known, now = self._failing.get(address), time.monotonic()
        if known is None or now < known.next_warning - _TIMER_S:
            return
        known.next_warning = now + _PAUSES_S[min(known.warnings, len(_PAUSES_S) - 1)]
        known.warnings += 1
        text = known.cause if address in known.cause else f"{address}: {known.cause}"
        _LOG.warning("client %r cannot reach a broker for %.0f s: %s", self._client_id, now - known.since, text)

    def described(self) -> str:
        """Return every address that does not answer, with its cause; empty where all do."""
        causes = [
            known.cause if address in known.cause else f"{address}: {known.cause}"
            for address, known in self._failing.items()
        ]
        return "; ".join(causes)
