"""A consumer's fetch session with one broker (KIP-227). No I/O.

In a session, a request lists only the partitions that are new, that are fetched from another offset, or that are to be
removed. The response omits partitions without new data. Each broker has one session, with one request in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import ErrorCode
from kafkaframes.wire.integers import MAX_INT32

FIRST_VERSION: Final = 7  # first version of Fetch with sessions
BY_ID: Final = 13  # first version of Fetch with topic ids
NO_SESSION, NEW, NONE = 0, 0, -1  # session id without a session; epochs that request a session, or none
LOST: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class Requested(NamedTuple):
    """The fields of one partition in a request."""

    offset: int
    max_bytes: int
    leader_epoch: int
    topic_id: UUID


class SessionRequest(NamedTuple):
    """The session fields of a request: session id, epoch, partitions to list, and partitions to remove."""

    session_id: int
    epoch: int
    named: list[TopicPartition]
    forgotten: dict[TopicPartition, UUID]


@dataclass(slots=True)
class FetchSession:
    """The session with one broker.

    Attributes:
        session_id: id from the broker; 0 without a session.
        epoch: epoch of the next request.
        known: last sent fields of each partition of the session.
        by_id: whether requests identify topics by id.
    """

    session_id: int = NO_SESSION
    epoch: int = NEW
    known: dict[TopicPartition, Requested] = field(default_factory=dict)
    by_id: bool = False

    def next_request(self, requested: Mapping[TopicPartition, Requested], *, by_id: bool) -> SessionRequest:
        """Return the session fields of a request that fetches exactly the ``requested`` partitions."""
        if self.epoch == NEW or by_id != self.by_id:
            self.lose()
            self.by_id = by_id
            self.known = dict(requested)
            return SessionRequest(self.session_id, NEW, list(requested), {})
        forgotten = {
            entry: queried.topic_id
            for entry, queried in self.known.items()
            if entry not in requested or (by_id and requested[entry].topic_id != queried.topic_id)
        }
        named = [entry for entry, queried in requested.items() if self.known.get(entry) != queried]
        self.known = dict(requested)
        return SessionRequest(self.session_id, self.epoch, named, forgotten)

    def answered(self, session_id: int) -> None:
        """Update the session after a successful response with this session id."""
        if session_id == NO_SESSION:  # the broker's session cache is full
            self.session_id, self.epoch = NO_SESSION, NEW
            return
        self.session_id = session_id
        self.epoch = 1 if self.epoch == MAX_INT32 else self.epoch + 1

    def lose(self) -> None:
        """Request a new session next time, which replaces this one."""
        self.epoch = NEW
        self.known.clear()


def write_partitions(
    body: Any, request: SessionRequest, requested: dict[TopicPartition, Requested], version: int
) -> None:
    """Write the session fields and the partitions to list into a request."""
    cls = type(body)
    body.session_id, body.session_epoch = request.session_id, request.epoch
    topics: dict[tuple[str, UUID], list[Any]] = {}
    for partition in request.named:
        queried = requested[partition]
        entry = cls.FetchPartition(
            partition=partition.partition,
            fetch_offset=queried.offset,
            partition_max_bytes=queried.max_bytes,
            current_leader_epoch=queried.leader_epoch,
        )
        topics.setdefault((partition.topic, queried.topic_id), []).append(entry)
    forgotten: dict[tuple[str, UUID], list[int]] = {}
    for partition, topic_id in request.forgotten.items():
        forgotten.setdefault((partition.topic, topic_id), []).append(partition.partition)
    body.topics = [cls.FetchTopic(**_topic(of, version), partitions=all_) for of, all_ in topics.items()]
    body.forgotten_topics_data = [
        cls.ForgottenTopic(**_topic(of, version), partitions=all_) for of, all_ in forgotten.items()
    ]


def _topic(of: tuple[str, UUID], version: int) -> dict[str, Any]:
    name, topic_id = of
    return {"topic_id": topic_id} if version >= BY_ID else {"topic": name}
