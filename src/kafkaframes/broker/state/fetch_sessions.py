"""Fetch sessions (KIP-227): the partitions of a consumer's last fetch, so that the next fetch only sends changes."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from kafkaframes.errors import ErrorCode
from kafkaframes.wire.integers import MAX_INT32

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
_RANDOM_SOURCE: Final = random.Random()
Key = tuple[str, UUID, int]  # topic name (up to version 12) or topic id, and partition number


@dataclass(slots=True)
class FetchedPartition:
    """A partition of a fetch session: its last request and response.

    Attributes:
        fields: the request's FetchPartition.
        name: topic name; empty until the topic id is resolved. The name is kept after the topic is deleted.
        high_watermark, log_start_offset: values in the last response. An incremental response omits a partition without
            records if both values are unchanged.
    """

    fields: Any
    name: str = ""
    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class FetchSession:
    """The partitions that a consumer fetches from a node."""

    session_id: int
    uses_ids: bool
    principal: str
    leader_epoch: int = 1
    partitions: OrderedDict[Key, FetchedPartition] = field(default_factory=OrderedDict)


def next_epoch(epoch: int) -> int:
    """Return the next session epoch. After the largest epoch, epochs continue with 1.

    >>> next_epoch(1), next_epoch(2**31 - 1)
    (2, 1)
    """
    return 1 if epoch == MAX_INT32 else epoch + 1


class FetchSessions:
    """The fetch sessions of a broker. If all slots are used, the least recently used session is evicted.

    Args:
        slots: ``max.incremental.fetch.session.cache.slots``; 0 disables sessions.
    """

    def __init__(self, slots: int, new_id: Callable[[], int] | None = None) -> None:
        self._slots = slots
        self._new_id = new_id or (lambda: _RANDOM_SOURCE.randint(1, MAX_INT32))
        self._by_id: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def count_partitions(self, session_id: int) -> int:
        """Return the number of partitions of a session; 0 if the session does not exist."""
        session = self._by_id.get(session_id)
        return 0 if session is None else len(session.partitions)

    def list_partitions(self, session_id: int) -> list[tuple[Key, FetchedPartition]]:
        """Return the partitions of a session; an empty list if the session does not exist."""
        session = self._by_id.get(session_id)
        return [] if session is None else list(session.partitions.items())

    def find(self, session_id: int, epoch: int, *, uses_ids: bool) -> tuple[FetchSession | None, int]:
        """Return the session of an incremental fetch and increment its epoch, or return None and an error code."""
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
        """Create a session; return None if sessions are disabled."""
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

    def drop_if_empty(self, session: FetchSession) -> FetchSession | None:
        """Return the session, or remove it and return None if it has no partitions."""
        if session.partitions:
            return session
        self.end(session.session_id)
        return None

    def end(self, session_id: int) -> None:
        """Remove a session."""
        self._by_id.pop(session_id, None)


def record_changes(session_partition: FetchedPartition, row: Any) -> bool:
    """Store a response's values in the session, and return whether an incremental response includes the partition."""
    has_error = row.error_code != ErrorCode.NONE
    has_changed = (row.high_watermark, row.log_start_offset) != (
        session_partition.high_watermark,
        session_partition.log_start_offset,
    )
    redirects = row.preferred_read_replica >= 0
    is_new = bool(row.records) or has_error or has_changed or redirects or row.diverging_epoch.epoch >= 0
    session_partition.high_watermark, session_partition.log_start_offset = row.high_watermark, row.log_start_offset
    if has_error:  # Kafka includes the partition again after the error (CachedPartition.maybeUpdateResponseData)
        session_partition.high_watermark = -1
    return is_new
