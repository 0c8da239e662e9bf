"""Fetch sessions (KIP-227): what a consumer asked for last time, so that it need not say it again."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from kafkaframes.errors import ErrorCode

SESSIONLESS: Final = -1
FIRST: Final = 0
_LARGEST = 2**31 - 1
_RANDOM: Final = random.Random()
Key = tuple[str, UUID, int]  # topic name (v12 and before) or id, and the partition's number


@dataclass(slots=True)
class FetchedPartition:
    """One partition of a fetch, as it was asked for last, and what was answered last.

    Attributes:
        fields: the request's FetchPartition.
        name: the topic's, as soon as it is known; a session by ids remembers it when the topic is gone.
        high_watermark, log_start_offset: as last answered; an answer that changes neither and brings no records is
            left out of an incremental fetch.
    """

    fields: Any
    name: str = ""
    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class FetchSession:
    """What one consumer wants from one node."""

    session_id: int
    uses_ids: bool
    principal: str
    leader_epoch: int = 1
    partitions: OrderedDict[Key, FetchedPartition] = field(default_factory=OrderedDict)


def next_epoch(epoch: int) -> int:
    """Return the session epoch that follows; 1 follows the largest.

    >>> next_epoch(1), next_epoch(2**31 - 1)
    (2, 1)
    """
    return 1 if epoch == _LARGEST else epoch + 1


class FetchSessions:
    """The fetch sessions of one broker; the one that was not used for longest goes when all slots are taken.

    Args:
        slots: ``max.incremental.fetch.session.cache.slots``; 0 serves full fetches only.
    """

    def __init__(self, slots: int, new_id: Callable[[], int] | None = None) -> None:
        self._slots = slots
        self._new_id = new_id or (lambda: _RANDOM.randint(1, _LARGEST))
        self._by_id: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def count(self, session_id: int) -> int:
        """Return how many partitions a session has; 0 where there is none."""
        session = self._by_id.get(session_id)
        return 0 if session is None else len(session.partitions)

    def partitions(self, session_id: int) -> list[tuple[Key, FetchedPartition]]:
        """Return the partitions of a session; none where there is no such session."""
        session = self._by_id.get(session_id)
        return [] if session is None else list(session.partitions.items())

    def find(self, session_id: int, epoch: int, *, uses_ids: bool) -> tuple[FetchSession | None, int]:
        """Return the session of an incremental fetch, or None and an error code; its epoch goes on."""
        session = self._by_id.get(session_id)
        if session is None:
            return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.leader_epoch != epoch:
            return None, ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_ids != uses_ids:
            return None, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.leader_epoch = next_epoch(epoch)
        self._by_id.move_to_end(session_id)
        return session, ErrorCode.NONE

    def begin(
        self, partitions: OrderedDict[Key, FetchedPartition], *, uses_ids: bool, principal: str
    ) -> FetchSession | None:
        """Begin a session; None where there is no slot for one."""
        if self._slots < 1:
            return None
        while len(self._by_id) >= self._slots:
            self._by_id.popitem(last=False)
        session_id = self._new_id()
        while session_id in self._by_id:
            session_id = self._new_id()
        session = FetchSession(session_id, uses_ids, principal, partitions=partitions)
        self._by_id[session_id] = session
        return session

    def drop_empty(self, session: FetchSession) -> FetchSession | None:
        """Return a session, or end it and return None if it has no partition left."""
        if session.partitions:
            return session
        self.end(session.session_id)
        return None

    def end(self, session_id: int) -> None:
        """Forget a session."""
        self._by_id.pop(session_id, None)


def is_news(fetched: FetchedPartition, row: Any) -> bool:
    """Return whether an answer is news to a consumer that remembers the last one; remember this one."""
    failed = row.error_code != ErrorCode.NONE
    changed = (row.high_watermark, row.log_start_offset) != (fetched.high_watermark, fetched.log_start_offset)
    redirects = row.preferred_read_replica >= 0
    is_new = bool(row.records) or failed or changed or redirects or row.diverging_epoch.epoch >= 0
    fetched.high_watermark, fetched.log_start_offset = row.high_watermark, row.log_start_offset
    if failed:  # Kafka tells the partition anew once it is well again (CachedPartition.maybeUpdateResponseData)
        fetched.high_watermark = -1
    return is_new
