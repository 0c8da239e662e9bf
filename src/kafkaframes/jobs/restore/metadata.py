"""What a source's own ``__cluster_metadata`` says of its topics: settings and numbers of partitions (KRaft).

The latest snapshot and the log behind it are read; a source without them, or of ZooKeeper's time, says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kafkaframes.errors import DecodeError
from kafkaframes.jobs.restore.source import LARGEST_OFFSET, SegmentPart, good_batches
from kafkaframes.protocol.messages.envelopes import decode_metadata_record
from kafkaframes.records.decode import in_turn
from kafkaframes.records.decoded import Decoded
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import FileSystem

_TOPIC_RESOURCE = 2


@dataclass(slots=True)
class TopicSettings:
    """One topic, as the source's controller knew it."""

    partitions: int = 0
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class SourceMetadata:
    """What the sources' controllers knew.

    Attributes:
        topics: by name.
        next_producer_id: the first that no producer has been given; 0 if it is not known.
    """

    topics: dict[str, TopicSettings] = field(default_factory=dict)
    next_producer_id: int = 0


def metadata_of(directories: tuple[LogDirectory, ...]) -> SourceMetadata:
    """Return what the sources' metadata logs say; a record of a later release, or damage, is passed over.

    Raises:
        LogDirError: a file cannot be read.
    """
    metadata = SourceMetadata()
    for directory in directories:
        for partition in directory.partitions:
            if partition.topic == names.CLUSTER_METADATA_TOPIC and partition.is_live:
                read = _read(directory.filesystem, partition)
                metadata.topics |= read.topics
                metadata.next_producer_id = max(metadata.next_producer_id, read.next_producer_id)
    return metadata


def _read(filesystem: FileSystem, partition: Partition) -> SourceMetadata:
    metadata, by_id = SourceMetadata(), dict[object, str]()
    topics = metadata.topics
    for value in _values(filesystem, partition):
        try:
            record = decode_metadata_record(names.CLUSTER_METADATA_TOPIC, value)
        except DecodeError:
            continue
        said, kind = record.value, type(record.value).spec.name
        if kind == "TopicRecord":
            by_id[said.topic_id] = said.name
            topics.setdefault(said.name, TopicSettings()).partitions = 0
        elif kind == "RemoveTopicRecord":
            topics.pop(by_id.pop(said.topic_id, ""), None)
        elif kind == "PartitionRecord" and said.topic_id in by_id:
            topic = topics[by_id[said.topic_id]]
            topic.partitions = max(topic.partitions, said.partition_id + 1)
        elif kind == "ConfigRecord" and said.resource_type == _TOPIC_RESOURCE:
            _configure(topics.setdefault(said.resource_name, TopicSettings()), said.name, said.value)
        elif kind == "ProducerIdsRecord":
            metadata.next_producer_id = max(metadata.next_producer_id, said.next_producer_id)
    return metadata


def _configure(topic: TopicSettings, name: str, value: str | None) -> None:
    if value is None:
        topic.configs.pop(name, None)
    else:
        topic.configs[name] = value


def _values(filesystem: FileSystem, partition: Partition) -> Iterator[bytes]:
    """Yield the records' values: the latest snapshot's, and those of the log that follow it."""
    snapshots = sorted(partition.kraft_snapshots, key=lambda file: (file.base_offset, file.log.name.leader_epoch or 0))
    start = 0
    for snapshot in snapshots[-1:]:
        start = snapshot.base_offset
        yield from _in_file(SegmentPart(filesystem, snapshot.path, 0, LARGEST_OFFSET, snapshot.size_bytes), 0)
    for segment in partition.segments:
        part = SegmentPart(filesystem, segment.path, segment.base_offset, LARGEST_OFFSET, segment.size_bytes)
        yield from _in_file(part, start)


def _in_file(part: SegmentPart, start: int) -> Iterator[bytes]:
    for run in good_batches(part, [], skip=True):
        for decoded in in_turn(run.data, run.batches):
            yield from _values_in(decoded, start)


def _values_in(decoded: Decoded, start: int) -> Iterator[bytes]:
    index, buf = decoded.index, decoded.sections.buf
    selected = ~decoded.batches.is_control[decoded.owners] & (index.offsets >= start) & (index.value_size >= 0)
    for at, size in zip(index.value_at[selected].tolist(), index.value_size[selected].tolist(), strict=True):
        yield buf[at : at + size].tobytes()
