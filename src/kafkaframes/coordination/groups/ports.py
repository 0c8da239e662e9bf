"""What the coordinators need from outside: the time, and a log to write their records into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

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


_NONE = -1


class Committer(NamedTuple):
    """Who commits, or fetches.

    Attributes:
        generation: of a classic group; the member epoch of a consumer group; -1 for nobody.
        knows_epochs: the request can be answered with the errors of KIP-848 (OffsetCommit and OffsetFetch 9 and later).
    """

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = _NONE
    knows_epochs: bool = True


class Group(Protocol):
    """A group of any kind."""

    @property
    def group_id(self) -> str:
        """Its name."""

    @property
    def type(self) -> str:
        """``classic``, ``consumer`` or ``share``."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    def state_name(self) -> str:
        """Its state, in Kafka's spelling."""

    @property
    def protocol_type_name(self) -> str:
        """The type of its protocol; empty where there is none."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""

    def check_commit(self, who: Committer, *, transactional: bool) -> None:
        """Refuse a commit of somebody who may not."""

    def check_fetch(self, who: Committer) -> None:
        """Refuse to give offsets to somebody who is no member any more."""

    def check_offset_delete(self) -> None:
        """Refuse to delete single offsets."""

    def check_delete(self) -> None:
        """Refuse to delete the group.

        Raises:
            RefusedError: NON_EMPTY_GROUP.
        """

    def offsets_age_from(self) -> Callable[[int], int] | None:
        """Return from when on a commit ages, given when it was made; None where nothing expires now."""

    def stop_timers(self) -> None:
        """Cancel everything that is due for it."""
