"""What the rules of offsets and of administration ask any kind of group."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

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
        """Refuse a commit of somebody who may not.

        Raises:
            RefusedError: as Kafka refuses it.
        """

    def check_fetch(self, who: Committer) -> None:
        """Refuse to give offsets to somebody who is no member any more.

        Raises:
            RefusedError: as Kafka refuses it.
        """

    def check_offset_delete(self) -> None:
        """Refuse to delete single offsets.

        Raises:
            RefusedError: as Kafka refuses it.
        """

    def check_delete(self) -> None:
        """Refuse to delete the group.

        Raises:
            RefusedError: NON_EMPTY_GROUP.
        """

    def offsets_age_from(self) -> Callable[[int], int] | None:
        """Return from when on a commit ages, given when it was made; None where nothing expires now."""

    def stop_timers(self) -> None:
        """Cancel everything that is due for it."""
