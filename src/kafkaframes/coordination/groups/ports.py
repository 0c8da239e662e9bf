"""What the coordinators need from outside: the time, and a log to write their records into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

Record = tuple[bytes, bytes | None]  # key, value; no value is a tombstone


class Timer(Protocol):
    """Something that is due at a time."""

    def cancel(self) -> None:
        """Never call it."""


class Clock(Protocol):
    """The broker's clock."""

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970."""

    def call_later(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        """Call ``call`` after ``delay_ms`` milliseconds."""


class CoordinatorLog(Protocol):
    """An internal topic: ``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``."""

    @property
    def partitions(self) -> int:
        """How many partitions it has."""

    def append(
        self, partition: int, records: Sequence[Record], *, producer_id: int = -1, producer_epoch: int = -1
    ) -> None:
        """Write the records as one batch; with a producer id as part of its transaction.

        Raises:
            KafkaframesError: they are not in the log.
        """
