"""The methods of every client that a performance may call, and the kinds of errors.

A partition is a pair (topic, number). An adapter raises ``CannotPerformError`` with the reason if its client lacks a
method or setting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

PATIENCE_S: Final = 20.0
POLL_S: Final = 0.1
Partition = tuple[str, int]
Callback = Callable[[list[Partition]], Any]

REFUSED: Final = "refused by the client"
TIMED_OUT: Final = "timed out"
UNREACHABLE: Final = "no broker"
CORRUPT: Final = "corrupt"
FENCED: Final = "fenced"
NO_OFFSET: Final = "no offset"
CODES: Final = {
    1: "OFFSET_OUT_OF_RANGE",
    2: CORRUPT,
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: TIMED_OUT,
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC",
    19: "NOT_ENOUGH_REPLICAS",
    22: "ILLEGAL_GENERATION",
    25: "UNKNOWN_MEMBER_ID",
    29: "TOPIC_AUTHORIZATION_FAILED",
    30: "GROUP_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    36: "TOPIC_ALREADY_EXISTS",
    37: "INVALID_PARTITIONS",
    38: "INVALID_REPLICATION_FACTOR",
    40: "INVALID_CONFIG",
    44: "POLICY_VIOLATION",
    47: FENCED,
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    68: "NON_EMPTY_GROUP",
    69: "GROUP_ID_NOT_FOUND",
    87: "INVALID_RECORD",
    90: FENCED,
}


class CannotPerformError(Exception):
    """The client does not have a method or setting."""


class SentRecord(NamedTuple):
    """The result of a sent record."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Record(NamedTuple):
    """A record returned by a consumer."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    @classmethod
    def of(cls, record: Any) -> Record:
        """Convert a client's record. The records of all clients except confluent-kafka have these attributes."""
        *fields, headers = (getattr(record, name) for name in cls._fields)
        return cls(*fields, list(map(tuple, headers)))


class PendingDelivery:
    """A sent record whose result is still pending."""

    def __init__(self, wait: Callable[[], SentRecord], is_done: Callable[[], bool]) -> None:
        self.result = wait
        self.is_done = is_done


class ClosesOnExit:
    """Base class of clients that are closed at the end of a ``with`` block."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the client."""
        raise NotImplementedError


class Producer(ClosesOnExit):
    """A producer. A setting ``transactional_id`` makes the adapter register the id immediately."""

    def send(
        self,
        topic: Any,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
        on_delivery: Callable[[Exception | None, SentRecord | None], Any] | None = None,
    ) -> PendingDelivery:
        """Send a record. ``on_delivery`` is called with an error or the result."""
        raise NotImplementedError

    def flush(self) -> None:
        """Wait until every record was acknowledged or failed."""
        raise NotImplementedError

    def partitions_for(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions."""
        raise NotImplementedError

    def begin(self) -> None:
        """Begin a transaction."""
        raise NotImplementedError

    def commit(self) -> None:
        """Commit the transaction."""
        raise NotImplementedError

    def abort(self) -> None:
        """Abort the transaction."""
        raise NotImplementedError

    def send_offsets(self, offsets: Mapping[Partition, int], group: str) -> None:
        """Commit a group's offsets with the transaction."""
        raise NotImplementedError


class Consumer(ClosesOnExit):
    """A consumer."""

    def assign(self, partitions: Iterable[Partition] | Mapping[Partition, int]) -> None:
        """Read partitions, from offsets if the argument is a mapping."""
        raise NotImplementedError

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
    ) -> None:
        """Join the group to read topics."""
        raise NotImplementedError

    def unsubscribe(self) -> None:
        """Leave the group."""
        raise NotImplementedError

    def poll(self, timeout_s: float = POLL_S, max_records: int | None = None) -> list[Record]:
        """Return the next records; an empty list after the timeout."""
        raise NotImplementedError

    def iterate(self) -> Iterable[Record]:
        """Iterate over the consumer as its documentation shows."""
        raise NotImplementedError

    def assignment(self) -> list[Partition]:
        """Return the assigned partitions in order."""
        raise NotImplementedError

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at an offset."""
        raise NotImplementedError

    def seek_to_beginning(self, partition: Partition) -> None:
        """Continue at the first record."""
        raise NotImplementedError

    def seek_to_end(self, partition: Partition) -> None:
        """Continue after the last record."""
        raise NotImplementedError

    def position(self, partition: Partition) -> int:
        """Return the offset of the next record."""
        raise NotImplementedError

    def pause(self, partition: Partition) -> None:
        """Return no records of a partition until ``resume``."""
        raise NotImplementedError

    def resume(self, partition: Partition) -> None:
        """End ``pause``."""
        raise NotImplementedError

    def commit(self, offsets: Mapping[Partition, int | tuple[int, str]] | None = None) -> None:
        """Commit offsets, with metadata if a value is a pair, or the positions if ``offsets`` is None."""
        raise NotImplementedError

    def committed_offset(self, partition: Partition) -> tuple[int, str] | None:
        """Return the committed offset and its metadata; None if the partition has none."""
        raise NotImplementedError

    def beginning_offset(self, partition: Partition) -> int:
        """Return the offset of the first record."""
        raise NotImplementedError

    def end_offset(self, partition: Partition) -> int:
        """Return the offset after the last record."""
        raise NotImplementedError

    def offset_for_time(self, partition: Partition, time_ms: int) -> int | None:
        """Return the client's result for the offset of the first record at a time or later."""
        raise NotImplementedError

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        raise NotImplementedError

    def partitions_for(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions."""
        raise NotImplementedError

    def read(self, count: int, patience_s: float = PATIENCE_S) -> list[Record]:
        """Poll until ``count`` records were returned or ``patience_s`` has passed; return the records."""
        records: list[Record] = []
        deadline = time.monotonic() + patience_s
        while len(records) < count and time.monotonic() < deadline:
            records += self.poll(POLL_S)
        return records


class Admin(ClosesOnExit):
    """An admin client."""

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic."""
        raise NotImplementedError

    def create_topics(self, names: Iterable[str]) -> None:
        """Create topics of one partition in one request; raise the error of the first that failed."""
        raise NotImplementedError

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics in one request; raise the error of the first that failed."""
        raise NotImplementedError

    def list_topics(self) -> list[str]:
        """Return the names of all topics."""
        raise NotImplementedError

    def partition_count(self, topic: str) -> int:
        """Return the number of a topic's partitions."""
        raise NotImplementedError

    def create_partitions(self, topic: str, count: int) -> None:
        """Increase a topic's partitions to ``count``."""
        raise NotImplementedError

    def config(self, topic: str, name: str) -> str | None:
        """Return the value of a topic's setting."""
        raise NotImplementedError

    def alter_config(self, topic: str, name: str, value: str) -> None:
        """Change one setting of a topic; the other settings do not change."""
        raise NotImplementedError

    def delete_records(self, partition: Partition, before: int) -> int:
        """Delete the records before an offset; return the new first offset."""
        raise NotImplementedError

    def groups(self) -> list[str]:
        """Return the names of all groups."""
        raise NotImplementedError

    def group_state(self, group: str) -> tuple[str, int]:
        """Return a group's state and the number of its members."""
        raise NotImplementedError

    def group_offsets(self, group: str) -> dict[Partition, int]:
        """Return the committed offsets of a group."""
        raise NotImplementedError

    def alter_group_offset(self, group: str, partition: Partition, offset: int) -> None:
        """Change a committed offset of a group."""
        raise NotImplementedError

    def delete_group(self, group: str) -> None:
        """Delete a group."""
        raise NotImplementedError

    def broker_count(self) -> int:
        """Return the number of the cluster's brokers."""
        raise NotImplementedError


class Client:
    """A client library.

    Attributes:
        servers: addresses of the broker.
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers

    def version(self) -> str:
        """Return the library's version."""
        raise NotImplementedError

    def producer(self, **settings: Any) -> Producer:
        """Create a producer. Create a producer; settings have Java's names with ``_`` instead of ``.``."""
        raise NotImplementedError

    def consumer(self, **settings: Any) -> Consumer:
        """Create a consumer."""
        raise NotImplementedError

    def admin(self) -> Admin:
        """Create an admin client."""
        raise NotImplementedError

    def kind(self, error: BaseException) -> str:
        """Return the kind of an error: Kafka's name of a code, or a constant of this module."""
        raise NotImplementedError


def attempt(client: Client, call: Callable[[], Any]) -> str:
    """Return the kind of error that a call raises, or "no error"."""
    try:
        call()
    except CannotPerformError:
        raise
    except Exception as error:
        return client.kind(error)
    return "no error"


def fails(client: Client, call: Callable[[], Any]) -> bool:
    """Return whether a call raises an error."""
    return attempt(client, call) != "no error"


def wait_for(condition: Callable[[], Any], *, patience_s: float = PATIENCE_S) -> bool:
    """Return whether a condition becomes true within ``patience_s``."""
    deadline = time.monotonic() + patience_s
    while not (holds := bool(condition())) and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds
