"""``bootstrap.checkpoint``: what a KRaft controller with an empty metadata log takes for its first records (KIP-778).

``kafka-storage format`` writes the release's feature levels into it. A controller appends whatever records are there,
so topics with their ids, their partitions' leader epochs and configurations can stand in it too; the node then finds
its partitions' directories to be those topics' and keeps them. Tried with 3.9.1 and 4.3.1.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafkaframes.errors import OptionError
from kafkaframes.jobs.restore.names import DEFAULT_RELEASE, RELEASES
from kafkaframes.protocol.messages import Message, message
from kafkaframes.protocol.messages.envelopes import encode_metadata_record
from kafkaframes.records.build import build_records

_SNAPSHOT_HEADER, _SNAPSHOT_FOOTER = (number.to_bytes(2) for number in (3, 4))  # types of control records (KIP-630)
_CONTROL_VERSION: Final = (0).to_bytes(2)
_TOPIC_RESOURCE: Final = 2
_NO_LEADER: Final = -1
_BATCH_BYTES: Final = 1 << 20
_MOST_REGISTERED: Final = 10_000  # MAX_PARTITIONS_PER_BATCH of Kafka's ReplicationControlManager
_VERSIONS: Final = {"PartitionRecord": 1}  # with directories, from metadata.version 3.7 on; the others are at 0


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """One topic as it is registered with the controller.

    Attributes:
        topic_id: 22 characters of URL-safe base64.
        leader_epochs: partition number to leader epoch, at least the latest in the partition's log.
        configs: the topic's own settings.
    """

    name: str
    topic_id: str
    leader_epochs: Mapping[int, int]
    configs: Mapping[str, str] = field(default_factory=dict)


def registered_numbers(have: Collection[int], *, count: int = 0) -> Sequence[int]:
    """Return the partition numbers to register with a controller for a topic of which the log has some partitions.

    Kafka numbers a topic's partitions from 0 without a gap, and producers count on it: so the restore registers the
    numbers between, and a broker that starts makes their empty logs. Where that would be more than Kafka creates in
    one request, it registers those that occur and no others.

    >>> registered_numbers({0, 2}), registered_numbers({0, 2**31 - 1})
    (range(0, 3), [0, 2147483647])

    Args:
        have: the partitions that a log has.
        count: how many the topic had where the log comes from.
    """
    count = max(max(have) + 1, count)
    return range(count) if count <= _MOST_REGISTERED else sorted(have)


def uuid_of(topic_id: str) -> uuid.UUID:
    """Return the UUID of a topic or directory id.

    >>> uuid_of("AAAAAAAAAAAAAAAAAAAAAQ").int
    1

    Raises:
        OptionError: the text is not one.
    """
    try:
        value = uuid.UUID(bytes=base64.b64decode(topic_id + "==", altchars=b"-_", validate=True))
    except ValueError:
        raise OptionError(f"{topic_id!r} is no id: 22 characters of URL-safe base64") from None
    return value


def id_text(value: uuid.UUID) -> str:
    """Return a UUID as Kafka writes it.

    >>> id_text(uuid.UUID(int=1))
    'AAAAAAAAAAAAAAAAAAAAAQ'
    """
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def bootstrap_checkpoint(
    topics: Iterable[TopicLayout],
    *,
    node_id: int,
    directory_id: str,
    now_ms: int,
    release: str = DEFAULT_RELEASE,
    next_producer_id: int = 0,
) -> bytes:
    """Write a ``bootstrap.checkpoint`` for a single node that is broker and controller.

    Args:
        topics: their partitions have one replica, on this node, and no leader until the broker has registered.
        node_id, directory_id: of the node's ``meta.properties``.
        now_ms: the time that its records carry.
        release: one of ``RELEASES``; the feature levels.
        next_producer_id: where the controller goes on, beyond every producer that a log names; 0 writes none.

    Raises:
        OptionError: the release or an id is unknown.
    """
    if release not in RELEASES:
        raise OptionError(f"no release {release!r}: one of {', '.join(RELEASES)}")
    directory = uuid_of(directory_id)
    records: list[Message] = list(_features(release))
    if next_producer_id:
        ids = message("ProducerIdsRecord")
        records.append(ids(broker_id=node_id, broker_epoch=-1, next_producer_id=next_producer_id))
    for topic in topics:
        records += _topic(topic, node_id, directory)
    return _snapshot([encode_metadata_record(one, _VERSIONS.get(one.spec.name, 0)) for one in records], now_ms)


def _features(release: str) -> Iterator[Message]:
    record = message("FeatureLevelRecord")
    for name, level in RELEASES[release].items():
        yield record(name=name, feature_level=level)


def _topic(topic: TopicLayout, node_id: int, directory: uuid.UUID) -> Iterator[Message]:
    topic_id = uuid_of(topic.topic_id)
    yield message("TopicRecord")(name=topic.name, topic_id=topic_id)
    for name, value in sorted(topic.configs.items()):
        record = message("ConfigRecord")
        yield record(resource_type=_TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
    for number, leader_epoch in sorted(topic.leader_epochs.items()):
        yield message("PartitionRecord")(
            partition_id=number,
            topic_id=topic_id,
            replicas=[node_id],
            isr=[node_id],
            leader=_NO_LEADER,
            leader_epoch=max(leader_epoch, 0),
            partition_epoch=0,
            directories=[directory],
        )


def _snapshot(values: list[bytes], now_ms: int) -> bytes:
    """Put records between the header and the footer of a snapshot (KIP-630)."""
    header = message("SnapshotHeaderRecord")(version=0, last_contained_log_timestamp=0).encode(0)
    footer = message("SnapshotFooterRecord")(version=0).encode(0)
    data = build_records(
        {"value": values, "timestamp": [now_ms] * len(values)},
        base_offset=1,
        leader_epoch=0,
        batch_bytes=_BATCH_BYTES,
    )
    return b"".join(
        (
            _control(0, _SNAPSHOT_HEADER, header, now_ms),
            data,
            _control(len(values) + 1, _SNAPSHOT_FOOTER, footer, now_ms),
        )
    )


def _control(offset: int, kind: bytes, value: bytes, now_ms: int) -> bytes:
    row = {"offset": [offset], "timestamp": [now_ms], "key": [_CONTROL_VERSION + kind], "value": [value]}
    return build_records(row, control=True, leader_epoch=0)
