"""Write the files of a log directory outside its partition directories, as a broker leaves them after a clean shutdown.

The files are ``meta.properties``, the offset checkpoints and the clean shutdown file. If the clean shutdown file
exists, a broker trusts the indexes and snapshots of segments. A new single node also gets ``bootstrap.checkpoint``,
from which a KRaft controller with an empty metadata log reads its first records (KIP-778).

``kafka-storage format`` writes only feature levels to this file. A controller appends all its records, so it can also
register topics with their ids, leader epochs and settings. The broker then recognizes the partition directories as
those of registered topics and keeps them. Tested with Kafka 3.9.1 and 4.3.1.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafkaframes.errors import OptionError
from kafkaframes.jobs.restore.settings import DEFAULT_RELEASE, FEATURE_LEVELS_BY_RELEASE, parse_uuid
from kafkaframes.protocol.messages import Message, message
from kafkaframes.protocol.messages.envelopes import encode_metadata_record
from kafkaframes.records.build import build_records
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.checkpoints import (
    CleanShutdown,
    MetaProperties,
    write_clean_shutdown,
    write_meta_properties,
    write_offset_checkpoint,
)
from kafkaframes.storage.files.names import TopicPartition

_SNAPSHOT_HEADER, _SNAPSHOT_FOOTER = (number.to_bytes(2) for number in (3, 4))  # control record types (KIP-630)
_CONTROL_RECORD_VERSION: Final = (0).to_bytes(2)  # version at the start of a control record's key
_TOPIC_RESOURCE_TYPE: Final = 2  # ConfigRecord's resourceType for topics
_NO_LEADER: Final = -1
_SNAPSHOT_BATCH_BYTES: Final = 1 << 20  # batch size of the metadata snapshot
_MAX_NEW_PARTITIONS: Final = 10_000  # MAX_PARTITIONS_PER_BATCH of Kafka's ReplicationControlManager
# Version 1 has directories (metadata.version 3.7 and later); other records have version 0.
_RECORD_VERSIONS: Final = {"PartitionRecord": 1}


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """A topic to register with the controller.

    Attributes:
        topic_id: 22 characters of URL-safe base64.
        leader_epochs: leader epoch by partition number, at least the latest epoch in the partition's log.
        configs: settings that are set on the topic itself.
    """

    name: str
    topic_id: str
    leader_epochs: Mapping[int, int]
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryNode:
    """The Kafka node to which the new directory belongs.

    Ids are 22 characters of URL-safe base64, or the ids of an existing cluster.
    """

    node_id: int
    cluster_id: str
    directory_id: str
    release: str = DEFAULT_RELEASE


def list_partition_numbers(existing_numbers: Collection[int], *, count: int = 0) -> Sequence[int]:
    """Return the partition numbers of a topic to register with the controller.

    Kafka numbers partitions from 0 without gaps, and producers rely on this numbering. The missing partitions are
    therefore registered too, and the broker creates empty logs for them. If Kafka could not create this many partitions
    in one request, only the partitions with a log are registered.

    >>> list_partition_numbers({0, 2}), list_partition_numbers({0, 2**31 - 1})
    (range(0, 3), [0, 2147483647])

    Args:
        existing_numbers: numbers of the partitions that have a log.
        count: number of the topic's partitions in the source.
    """
    count = max(max(existing_numbers) + 1, count)
    return range(count) if count <= _MAX_NEW_PARTITIONS else sorted(existing_numbers)


def make_layouts(
    leader_epochs: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
    configs: Mapping[str, Mapping[str, str]],
    counts: Mapping[str, int],
) -> list[TopicLayout]:
    """Return the topics to register. ``counts`` has the number of partitions in the source, by topic."""
    existing_numbers: dict[str, set[int]] = {}
    for partition in leader_epochs:
        existing_numbers.setdefault(partition.topic, set()).add(partition.partition)
    layouts = []
    for topic, partition_numbers in sorted(existing_numbers.items()):
        numbers = list_partition_numbers(partition_numbers, count=counts.get(topic, 0))
        epochs = {number: leader_epochs.get(TopicPartition(topic, number), 0) for number in numbers}
        layouts.append(TopicLayout(topic, topic_ids[topic], epochs, configs.get(topic, {})))
    return layouts


def build_bootstrap_checkpoint(
    topics: Iterable[TopicLayout], node: DirectoryNode, *, now_ms: int, next_producer_id: int = 0
) -> bytes:
    """Return a ``bootstrap.checkpoint`` for a single node that is broker and controller.

    Args:
        topics: topics to register. Each partition has one replica, on this node, and no leader until the broker
            registers.
        node: the node. The node's release, which determines the feature levels, is one of
            ``FEATURE_LEVELS_BY_RELEASE``.
        now_ms: timestamp of the records, in milliseconds.
        next_producer_id: first producer id that the controller assigns, greater than all producer ids in the logs; 0
            omits the record.

    Raises:
        OptionError: the release is unknown, or an id is invalid.
    """
    if node.release not in FEATURE_LEVELS_BY_RELEASE:
        raise OptionError(f"unknown release {node.release!r}; expected one of {', '.join(FEATURE_LEVELS_BY_RELEASE)}")
    directory = parse_uuid(node.directory_id)
    feature_levels = message("FeatureLevelRecord")
    records: list[Message] = [
        feature_levels(name=name, feature_level=level)
        for name, level in FEATURE_LEVELS_BY_RELEASE[node.release].items()
    ]
    if next_producer_id:
        ids = message("ProducerIdsRecord")
        records.append(ids(broker_id=node.node_id, broker_epoch=-1, next_producer_id=next_producer_id))
    for topic in topics:
        records += _make_topic_records(topic, node.node_id, directory)
    return _build_snapshot(
        [encode_metadata_record(record, _RECORD_VERSIONS.get(record.spec.name, 0)) for record in records], now_ms
    )


def _make_topic_records(topic: TopicLayout, node_id: int, directory: uuid.UUID) -> Iterator[Message]:
    """Yield the metadata records of a topic: its id, settings and partitions."""
    topic_id = parse_uuid(topic.topic_id)
    yield message("TopicRecord")(name=topic.name, topic_id=topic_id)
    for name, value in sorted(topic.configs.items()):
        record = message("ConfigRecord")
        yield record(resource_type=_TOPIC_RESOURCE_TYPE, resource_name=topic.name, name=name, value=value)
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


def _build_snapshot(values: list[bytes], now_ms: int) -> bytes:
    """Return records with the header and the footer of a snapshot (KIP-630)."""
    header = message("SnapshotHeaderRecord")(version=0, last_contained_log_timestamp=0).encode(0)
    footer = message("SnapshotFooterRecord")(version=0).encode(0)
    rows = {"value": values, "timestamp": [now_ms] * len(values)}
    data = build_records(rows, base_offset=1, leader_epoch=0, batch_bytes=_SNAPSHOT_BATCH_BYTES)
    begin = _build_control_batch(0, _SNAPSHOT_HEADER, header, now_ms)
    return begin + data + _build_control_batch(len(values) + 1, _SNAPSHOT_FOOTER, footer, now_ms)


def _build_control_batch(offset: int, kind: bytes, value: bytes, now_ms: int) -> bytes:
    """Return a batch with one control record."""
    row = {"offset": [offset], "timestamp": [now_ms], "key": [_CONTROL_RECORD_VERSION + kind], "value": [value]}
    return build_records(row, control=True, leader_epoch=0)


BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"  # file with the first records of a new KRaft controller (KIP-778)
_KRAFT_PROPERTIES_VERSION = 1  # version of meta.properties
CLEAN_SHUTDOWN_CONTENT = write_clean_shutdown(CleanShutdown(broker_epoch=-1))  # -1: unknown broker epoch


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """The start and end offsets of a restored log."""

    log_start_offset: int
    first_segment_offset: int
    log_end_offset: int


def build_checkpoint_files(logs: Mapping[TopicPartition, LogOffsets]) -> Iterator[tuple[str, bytes]]:
    """Yield the offset checkpoints. A log start offset is included only if it is not the base offset of a segment."""
    ends = {partition: log_offsets.log_end_offset for partition, log_offsets in sorted(logs.items())}
    starts = {
        partition: log_offsets.log_start_offset
        for partition, log_offsets in sorted(logs.items())
        if log_offsets.log_start_offset > log_offsets.first_segment_offset
    }
    yield names.RECOVERY_POINT_CHECKPOINT, write_offset_checkpoint(ends)
    yield names.HIGH_WATERMARK_CHECKPOINT, write_offset_checkpoint(ends)
    yield names.LOG_START_CHECKPOINT, write_offset_checkpoint(starts)
    yield names.CLEANER_CHECKPOINT, write_offset_checkpoint({})


def build_node_files(
    node: DirectoryNode, topics: Sequence[TopicLayout], *, now_ms: int, next_producer_id: int = 0
) -> Iterator[tuple[str, bytes]]:
    """Yield the files in the directory of a single KRaft node after a clean shutdown.

    Raises:
        OptionError: an id is invalid.
    """
    values = {
        "node.id": str(node.node_id),
        "directory.id": node.directory_id,
        "version": str(_KRAFT_PROPERTIES_VERSION),
        "cluster.id": node.cluster_id,
    }
    yield names.META_PROPERTIES, write_meta_properties(MetaProperties(values))
    yield (
        BOOTSTRAP_CHECKPOINT,
        build_bootstrap_checkpoint(topics, node, now_ms=now_ms, next_producer_id=next_producer_id),
    )
    yield names.CLEAN_SHUTDOWN_FILE, CLEAN_SHUTDOWN_CONTENT


def write_files(directory: Path, contents: Iterator[tuple[str, bytes]]) -> None:
    """Write small files to a directory, each atomically.

    Raises:
        LogDirError: a file cannot be written.
    """
    for name, raw in contents:
        with atomic.new_file(directory / name) as file:
            file.write(raw)


def read_topic_ids(text: str, *, file: str | None = None) -> dict[str, str]:
    """Parse topic ids from the output of ``kafka-topics --describe``, or from lines with a name and an id.

    >>> read_topic_ids("Topic: orders\\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\\tPartitionCount: 3")
    {'orders': 'AAAAAAAAAAAAAAAAAAAAAQ'}

    Raises:
        OptionError: a line has neither of these two forms, or an id is invalid.
    """
    topic_ids: dict[str, str] = {}
    for line in text.splitlines():
        words = line.replace("Topic:", " ").replace("TopicId:", " ").split()
        if not words or line.lstrip().startswith("#") or "Partition:" in words:
            continue
        if len(words) < 2 or ("TopicId:" not in line and len(words) > 2):
            raise OptionError(f"{file or 'topic ids'}: {line[:80]!r} is not a topic name with a topic id")
        parse_uuid(words[1])
        topic_ids[words[0]] = words[1]
    return topic_ids
