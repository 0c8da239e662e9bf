"""Read the valid batches of a source segment in order, and the topic metadata of a source.

Bytes between valid batches are reported as lost. An incomplete tail at the log end (a torn batch, or zeros of a
preallocated file) is not damage, because a broker's recovery truncates it. Any other invalid data stops the restore
unless damage is skipped.

Topic settings and partition counts are read from the source's ``__cluster_metadata`` (KRaft): the latest snapshot, and
the log after it. Sources without this log, such as those from ZooKeeper clusters, have no topic metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from kafkaframes.errors import DecodeError, LogDirError
from kafkaframes.jobs.repair.salvage import check_batches, find_valid_batches
from kafkaframes.protocol.messages.envelopes import decode_metadata_record
from kafkaframes.records.decode import decode_steps
from kafkaframes.records.reasons import TORN
from kafkaframes.records.scan import FILE, BatchHeaders, Bytes, as_array, scan_all
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import FileSystem, ReadAt, join
from kafkaframes.storage.files.scan import SegmentWindow, scan_segment

MAX_OFFSET = 2**63 - 1  # end of a range that has no end


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """A segment of a source, as a part of one partition's log. Parts are picklable.

    Attributes:
        end_offset: end of the offsets to read (exclusive).
        is_last: whether this is the partition's last segment, which may have an incomplete tail.
    """

    filesystem: FileSystem
    path: str
    base_offset: int
    size_bytes: int
    mtime_ms: int | None = None
    end_offset: int = MAX_OFFSET
    is_last: bool = False


class LostBytes(NamedTuple):
    """A byte range of a source file that was lost.

    ``is_tail``: whether a broker's recovery would also truncate these bytes.
    """

    file: str
    start: int
    end: int
    reason: str
    is_tail: bool = False


class BatchRun(NamedTuple):
    """Consecutive valid batches of a source.

    Attributes:
        batches: columns of the batches. Positions are relative to ``data``.
        start: position of ``data`` in the file.
    """

    data: Bytes
    batches: BatchHeaders
    start: int


def read_valid_batches(part: SegmentPart, losses: list[LostBytes], *, skip: bool) -> Iterator[BatchRun]:
    """Yield the valid batches of a segment, some megabytes at a time.

    Args:
        part: segment to read.
        losses: list to which the lost byte ranges are added.
        skip: whether to omit damaged batches instead of failing.

    Raises:
        LogDirError: a batch is damaged, or the segment cannot be read.
    """
    next_offset = part.base_offset
    with part.filesystem.open(part.path) as read_at:
        for window in scan_segment(read_at, size_bytes=part.size_bytes, includes_data=True, file=part.path):
            batches, valid_count = window.batches_in_data(), _count_valid_batches(window, part, next_offset)
            if valid_count:
                next_offset = int(batches.column("last_offset")[valid_count - 1]) + 1
                yield BatchRun(as_array(window.data), batches.part(0, valid_count), window.start)
            if valid_count < len(batches):
                scan_end = _Stop(
                    int(window.batches.column("position")[valid_count]), "a batch with a wrong CRC or wrong offsets"
                )
            elif batches.end.can_continue:
                continue
            else:
                scan_end = _Stop(window.batches.end.position, batches.end.reason, batches.end.status == TORN)
            yield from _salvage_tail(part, read_at, scan_end, next_offset, losses, skip)
            return


class _Stop(NamedTuple):
    """The position at which reading a segment stopped, and the reason."""

    position: int
    reason: str
    is_torn: bool = False


def _count_valid_batches(window: SegmentWindow, part: SegmentPart, next_offset: int) -> int:
    """Return the number of valid batches before the first invalid one."""
    batches = window.batches_in_data()
    first, last = batches.column("base_offset"), batches.column("last_offset")
    is_valid = check_batches(as_array(window.data), batches, part.base_offset, part.end_offset)
    is_valid &= first >= np.concatenate(([next_offset], last[:-1] + 1))[: len(first)]
    invalid_batches = np.flatnonzero(~is_valid)
    return int(invalid_batches[0]) if len(invalid_batches) else len(batches)


def _salvage_tail(
    part: SegmentPart, read_at: ReadAt, stop: _Stop, next_offset: int, losses: list[LostBytes], skip: bool
) -> Iterator[BatchRun]:
    """Yield the valid batches after the first damage."""
    if stop.position >= part.size_bytes:
        return
    tail = np.frombuffer(read_at(stop.position, part.size_bytes - stop.position), np.uint8)
    is_empty = not tail.any()
    if part.is_last and (stop.is_torn or is_empty):
        reason = "zeros: never written" if is_empty else "an incomplete batch"
        losses.append(LostBytes(part.path, stop.position, part.size_bytes, reason, is_tail=True))
        return
    if not skip:
        raise LogDirError(f"{stop.reason}: nothing was restored", position=stop.position, file=part.path)
    salvage_result = find_valid_batches(tail, base_offset=next_offset, end_offset=part.end_offset)
    losses += [
        LostBytes(part.path, stop.position + loss.start, stop.position + loss.end, loss.reason)
        for loss in salvage_result.losses
    ]
    for start, end in salvage_result.merge_valid_ranges():
        chunk = tail[start:end]
        yield BatchRun(chunk, scan_all(chunk, rules=FILE), stop.position + start)


_TOPIC_RESOURCE_TYPE = 2  # ConfigRecord's resourceType for topics


@dataclass(slots=True)
class TopicSettings:
    """The settings of one topic, as the source's controller stored them."""

    partitions: int = 0
    configs: dict[str, str] = field(default_factory=dict)


_OWN_SETTINGS_PREFIX: Final = "kafkaframes."  # settings that Kafka does not have


@dataclass(slots=True)
class SourceMetadata:
    """Metadata that the sources' controllers or kafkaframes brokers have stored.

    Attributes:
        topics: settings by topic.
        next_producer_id: first producer id that is not assigned yet; 0 if unknown.
        problems: metadata files of kafkaframes brokers that cannot be read, each with the reason.
    """

    topics: dict[str, TopicSettings] = field(default_factory=dict)
    next_producer_id: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)


def read_metadata(directories: tuple[LogDirectory, ...]) -> SourceMetadata:
    """Read the sources' metadata logs, and the metadata files of kafkaframes brokers.

    Records of later releases and damaged records are skipped.

    Raises:
        LogDirError: a metadata log cannot be read.
    """
    metadata = SourceMetadata()
    for directory in directories:
        _add_metadata_of_broker(directory, metadata)
        for partition in directory.partitions:
            if partition.topic == names.CLUSTER_METADATA_TOPIC and partition.is_live:
                read = _read_log_metadata(directory.filesystem, partition)
                metadata.topics |= read.topics
                metadata.next_producer_id = max(metadata.next_producer_id, read.next_producer_id)
    return metadata


def _add_metadata_of_broker(directory: LogDirectory, metadata: SourceMetadata) -> None:
    """Add the metadata file of a kafkaframes broker.

    The file contains what a KRaft controller stores in the metadata log.
    """
    from kafkaframes.broker.state.metadata_file import METADATA_FILE_NAME, parse_metadata  # few sources have this file

    path = join(directory.path, METADATA_FILE_NAME)
    try:
        if directory.filesystem.stat(path) is None:
            return
        stored_metadata = parse_metadata(directory.filesystem.read(path), path)
    except LogDirError as error:
        metadata.problems.append((path, f"{error.reason}; the topics' settings are unknown"))
        return
    for name, topic in stored_metadata.topics.items():
        configs = {key: value for key, value in topic.configs.items() if not key.startswith(_OWN_SETTINGS_PREFIX)}
        metadata.topics[name] = TopicSettings(topic.partitions, configs)
    metadata.next_producer_id = max(metadata.next_producer_id, stored_metadata.next_producer_id)


def _read_log_metadata(filesystem: FileSystem, partition: Partition) -> SourceMetadata:
    """Return the topics, their settings and the next producer id in one metadata log."""
    metadata, topics_by_id = SourceMetadata(), dict[object, str]()
    topics = metadata.topics
    for value in _read_values(filesystem, partition):
        try:
            record = decode_metadata_record(names.CLUSTER_METADATA_TOPIC, value)
        except DecodeError:
            continue
        metadata_value, kind = record.value, type(record.value).spec.name
        if kind == "TopicRecord":
            topics_by_id[metadata_value.topic_id] = metadata_value.name
            topics.setdefault(metadata_value.name, TopicSettings()).partitions = 0
        elif kind == "RemoveTopicRecord":
            topics.pop(topics_by_id.pop(metadata_value.topic_id, ""), None)
        elif kind == "PartitionRecord" and metadata_value.topic_id in topics_by_id:
            topic = topics[topics_by_id[metadata_value.topic_id]]
            topic.partitions = max(topic.partitions, metadata_value.partition_id + 1)
        elif kind == "ConfigRecord" and metadata_value.resource_type == _TOPIC_RESOURCE_TYPE:
            configs = topics.setdefault(metadata_value.resource_name, TopicSettings()).configs
            if metadata_value.value is None:
                configs.pop(metadata_value.name, None)
            else:
                configs[metadata_value.name] = metadata_value.value
        elif kind == "ProducerIdsRecord":
            metadata.next_producer_id = max(metadata.next_producer_id, metadata_value.next_producer_id)
    return metadata


def _read_values(filesystem: FileSystem, partition: Partition) -> Iterator[bytes]:
    """Yield the values of records in the latest snapshot, and in the log after it."""
    snapshots = sorted(partition.kraft_snapshots, key=lambda file: (file.base_offset, file.log.name.leader_epoch or 0))
    start = 0
    for snapshot in snapshots[-1:]:
        start = snapshot.base_offset
        yield from _read_file_values(SegmentPart(filesystem, snapshot.path, 0, snapshot.size_bytes), 0)
    for segment in partition.segments:
        yield from _read_file_values(
            SegmentPart(filesystem, segment.path, segment.base_offset, segment.size_bytes), start
        )


def _read_file_values(part: SegmentPart, start: int) -> Iterator[bytes]:
    """Yield the values of a file's records from offset ``start`` on, without control records and nulls."""
    for run in read_valid_batches(part, [], skip=True):
        for content in decode_steps(run.data, run.batches):
            index, buf = content.index, content.sections.buf
            is_selected = (
                ~content.batches.is_control[content.owners] & (index.offsets >= start) & (index.value_size >= 0)
            )
            for position, size in zip(
                index.value_at[is_selected].tolist(), index.value_size[is_selected].tolist(), strict=True
            ):
                yield buf[position : position + size].tobytes()
