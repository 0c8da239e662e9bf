"""What consumers put into JoinGroup and SyncGroup: their subscriptions and assignments (ConsumerProtocol).

A version of two bytes goes before. Each begins as the one before it: a newer one is read as the newest that is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import message
from kafkaframes.storage.files.names import TopicPartition

_NEWEST: Final = 3
_VERSION_SIZE: Final = 2


class Subscription(NamedTuple):
    """A consumer's subscription.

    Attributes:
        owned: the partitions that it has; of version 0, none.
    """

    version: int
    topics: tuple[str, ...]
    owned: frozenset[TopicPartition] = frozenset()
    rack_id: str | None = None


def read_subscription(data: bytes) -> Subscription:
    """Read a subscription.

    Raises:
        DecodeError: it is none.
    """
    version, body = _body(data, "ConsumerProtocolSubscription")
    owned = body.owned_partitions if version >= 1 else ()
    rack_id = body.rack_id if version >= _NEWEST else None
    return Subscription(version, tuple(body.topics), _partitions(owned), rack_id)


def read_subscribed_topics(data: bytes) -> list[str]:
    """Read the topics of a subscription alone: version 0 is the beginning of every version, whatever follows it.

    Raises:
        DecodeError: it is none.
    """
    topics: list[str] = _body(data, "ConsumerProtocolSubscription", newest=0)[1].topics
    return topics


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    """Read an assignment; that of a member without one is empty.

    Raises:
        DecodeError: it is none.
    """
    return _partitions(_body(data, "ConsumerProtocolAssignment")[1].assigned_partitions) if data else frozenset()


def write_assignment(partitions: Iterable[TopicPartition], version: int) -> bytes:
    """Write an assignment for a consumer with a subscription of ``version``."""
    made: Any = message("ConsumerProtocolAssignment")
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    rows = [made.TopicPartition(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()]
    data: bytes = made(assigned_partitions=rows, user_data=None).encode(version)
    return version.to_bytes(_VERSION_SIZE, "big") + data


def _body(data: bytes, name: str, *, newest: int = _NEWEST) -> tuple[int, Any]:
    if len(data) < _VERSION_SIZE or data[0] & 0x80:
        raise DecodeError("what a consumer says begins with its version", position=0)
    version = min(int.from_bytes(data[:_VERSION_SIZE], "big"), newest)
    body, _ = message(name).decode_prefix(data, version, position=_VERSION_SIZE)
    return version, body


def _partitions(rows: Any) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(row.topic, index) for row in rows for index in row.partitions)
