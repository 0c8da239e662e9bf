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

FIRST_SESSION_VERSION: Final = 7  # first version of Fetch with sessions
FIRST_TOPIC_ID_VERSION: Final = 13  # first version of Fetch with topic ids
NO_SESSION_ID, NEW_SESSION_EPOCH, NO_SESSION_EPOCH = (
    0,
    0,
    -1,
)  # NO_SESSION_EPOCH: a request without a session
SESSION_LOST_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FetchFields(NamedTuple):
    """The fields of one partition in a Fetch request."""

    offset: int
    max_bytes: int
    leader_epoch: int
    topic_id: UUID


class SessionFields(NamedTuple):
    """The session fields of a request: session id, epoch, partitions to list, and partitions to remove."""

    session_id: int
    epoch: int
    listed_partitions: list[TopicPartition]
    removed_partitions: dict[TopicPartition, UUID]


@dataclass(slots=True)
class FetchSession:
    """A fetch session with one broker.

    Attributes:
        session_id: id from the broker; 0 without a session.
        epoch: epoch of the next request.
        sent_fields: last sent fields of each partition of the session.
        by_id: whether requests identify topics by id.
    """

    session_id: int = NO_SESSION_ID
    epoch: int = NEW_SESSION_EPOCH
    sent_fields: dict[TopicPartition, FetchFields] = field(default_factory=dict)
    by_id: bool = False

    def next_request(self, partition_fields: Mapping[TopicPartition, FetchFields], *, by_id: bool) -> SessionFields:
        """Return the session fields of a request that fetches exactly the ``partition_fields`` partitions."""
        if self.epoch == NEW_SESSION_EPOCH or by_id != self.by_id:
            self.reset()
            self.by_id = by_id
            self.sent_fields = dict(partition_fields)
            return SessionFields(self.session_id, NEW_SESSION_EPOCH, list(partition_fields), {})
        removed_partitions = {
            entry: fields.topic_id
            for entry, fields in self.sent_fields.items()
            if entry not in partition_fields or (by_id and partition_fields[entry].topic_id != fields.topic_id)
        }
        listed_partitions = [
            entry for entry, fields in partition_fields.items() if self.sent_fields.get(entry) != fields
        ]
        self.sent_fields = dict(partition_fields)
        return SessionFields(self.session_id, self.epoch, listed_partitions, removed_partitions)

    def update(self, session_id: int) -> None:
        """Update the session after a successful response with this session id."""
        if session_id == NO_SESSION_ID:  # the broker's session cache is full
            self.session_id, self.epoch = NO_SESSION_ID, NEW_SESSION_EPOCH
            return
        self.session_id = session_id
        self.epoch = 1 if self.epoch == MAX_INT32 else self.epoch + 1

    def reset(self) -> None:
        """Let the next request ask for a new session, which replaces this one."""
        self.epoch = NEW_SESSION_EPOCH
        self.sent_fields.clear()


def write_partitions(
    body: Any, request: SessionFields, partition_fields: dict[TopicPartition, FetchFields], version: int
) -> None:
    """Write the session fields and the partitions to list into a request."""
    cls = type(body)
    body.session_id, body.session_epoch = request.session_id, request.epoch
    topics: dict[tuple[str, UUID], list[Any]] = {}
    for partition in request.listed_partitions:
        fields = partition_fields[partition]
        entry = cls.FetchPartition(
            partition=partition.partition,
            fetch_offset=fields.offset,
            partition_max_bytes=fields.max_bytes,
            current_leader_epoch=fields.leader_epoch,
        )
        topics.setdefault((partition.topic, fields.topic_id), []).append(entry)
    removed_partitions: dict[tuple[str, UUID], list[int]] = {}
    for partition, topic_id in request.removed_partitions.items():
        removed_partitions.setdefault((partition.topic, topic_id), []).append(partition.partition)
    body.topics = [
        cls.FetchTopic(**_to_topic_fields(topic_key, version), partitions=all_) for topic_key, all_ in topics.items()
    ]
    body.forgotten_topics_data = [
        cls.ForgottenTopic(**_to_topic_fields(topic_key, version), partitions=all_)
        for topic_key, all_ in removed_partitions.items()
    ]


def _to_topic_fields(topic_key: tuple[str, UUID], version: int) -> dict[str, Any]:
    name, topic_id = topic_key
    return {"topic_id": topic_id} if version >= FIRST_TOPIC_ID_VERSION else {"topic": name}
