"""Replay the topic ``__remote_log_metadata``, in which Kafka notes the state of each remote segment.

All records of one user partition are in one partition of the topic, in order. A segment is announced with its facts,
then only its state changes: it is part of the log while its last state is ``COPY_SEGMENT_FINISHED``, and its objects
vanish some time after ``DELETE_SEGMENT_STARTED``. A partition that is deleted takes all its segments with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafkaframes.errors import DecodeError, LogDirError
from kafkaframes.protocol.messages import envelopes
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.segment_reader import open_segment
from kafkaframes.wire.primitives import uuid_to_text
from kafkaframes.wire.varint import read_unsigned_varint, read_varlong

TOPIC: Final = "__remote_log_metadata"
STATES: Final = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
FINISHED: Final = STATES[1]
DELETIONS: Final = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
# Tags of the custom metadata (custom.metadata.fields.include), in the order of their numbers.
_CUSTOM: Final = ("REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY")
PartitionId = tuple[str, int]  # topic id, partition


@dataclass(frozen=True, slots=True)
class MetadataEntry:
    """One record of the topic.

    Attributes:
        partition, offset: where it stands in the topic.
        record: what it is, by Kafka's name.
        topic, topic_id, of_partition: of the segment.
        segment_id: None where the record is about a whole partition.
        state: of ``STATES`` or ``DELETIONS``.
        facts: the other fields, those of the announcement and the custom metadata.
    """

    partition: int
    offset: int
    record: str
    topic: str
    topic_id: str
    of_partition: int
    segment_id: str | None
    state: str
    facts: Mapping[str, Any]


@dataclass(slots=True)
class RemoteLogMetadata:
    """The result of a replay.

    Attributes:
        entries: every record, by its place in the topic.
        states: of each segment, by its id.
        segments: the ids that a partition's records name.
        deleted: the partitions that are deleted, or about to be.
        problems: records that could not be read.
    """

    entries: list[MetadataEntry] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    segments: dict[PartitionId, set[str]] = field(default_factory=dict)
    deleted: dict[PartitionId, str] = field(default_factory=dict)
    problems: list[LogDirError] = field(default_factory=list)

    def apply(self, entry: MetadataEntry) -> None:
        """Take the next record of a partition of the topic."""
        self.entries.append(entry)
        owner = entry.topic_id, entry.of_partition
        if entry.segment_id is None:
            self.deleted[owner] = entry.state
            return
        self.segments.setdefault(owner, set()).add(entry.segment_id)
        self.states[entry.segment_id] = entry.state

    def knows(self, owner: PartitionId) -> bool:
        """Whether any record is about this partition; otherwise the topic decides nothing about it."""
        return owner in self.segments or owner in self.deleted

    def is_valid(self, owner: PartitionId, segment_id: str) -> bool:
        """Whether Kafka counts a segment as uploaded and not deleted; leader epochs are not looked at."""
        return owner not in self.deleted and self.states.get(segment_id) == FINISHED


def decode_entry(value: bytes, *, partition: int, offset: int) -> MetadataEntry | None:
    """Decode a record's value; return None for a record that changes nothing (a snapshot).

    Raises:
        DecodeError: the value is not a record of this topic.
    """
    record = envelopes.decode_metadata_record(TOPIC, value).value
    name = type(record).spec.name.removesuffix("Record")
    if name == "RemotePartitionDeleteMetadata":
        of, segment_id = record.topic_id_partition, None
        state = _named(DELETIONS, record.remote_partition_delete_state)
    elif name in ("RemoteLogSegmentMetadata", "RemoteLogSegmentMetadataUpdate"):
        of, segment_id = record.remote_log_segment_id.topic_id_partition, uuid_to_text(record.remote_log_segment_id.id)
        state = _named(STATES, record.remote_log_segment_state)
    else:
        return None
    facts = _facts(record) if segment_id is not None else {}
    facts |= {"broker_id": record.broker_id, "event_timestamp_ms": record.event_timestamp_ms}
    return MetadataEntry(partition, offset, name, of.name, uuid_to_text(of.id), of.partition, segment_id, state, facts)


def _named(names: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(names):
        raise DecodeError(f"there is no state {number}")
    return names[number]


def _facts(record: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if hasattr(record, "start_offset"):
        facts = {
            "start_offset": record.start_offset,
            "end_offset": record.end_offset,
            "max_timestamp_ms": record.max_timestamp_ms,
            "segment_size": record.segment_size_in_bytes,
            "leader_epochs": {one.leader_epoch: one.offset for one in record.segment_leader_epochs},
        }
    if record.custom_metadata is not None:
        facts["custom_metadata"] = custom_metadata(bytes(record.custom_metadata))
    return facts


def custom_metadata(raw: bytes) -> dict[str, int | str]:
    """Read the plugin's custom metadata: a section of tagged fields.

    >>> custom_metadata(bytes.fromhex("01 00 02 d804"))
    {'REMOTE_SIZE': 300}

    Raises:
        DecodeError: the bytes are not such a section; ``position`` is the byte.
    """
    values: dict[str, int | str] = {}
    count, position = read_unsigned_varint(raw, 0)
    for _ in range(min(count, len(raw))):
        tag, position = read_unsigned_varint(raw, position)
        size, position = read_unsigned_varint(raw, position)
        if not 0 <= size <= len(raw) - position:
            raise DecodeError(f"tag {tag} of {size} bytes", position=position)
        value, position = raw[position : position + size], position + size
        if tag == 0:
            values[_CUSTOM[tag]] = read_varlong(value, 0)[0]
        else:
            values[_CUSTOM[tag] if 0 <= tag < len(_CUSTOM) else f"tag {tag}"] = _compact_text(value, position)
    if position != len(raw) or count > len(raw):
        raise DecodeError(f"{len(raw) - position} bytes after the last tag", position=position)
    return values


def _compact_text(value: bytes, position: int) -> str:
    length, start = read_unsigned_varint(value, 0)
    if length - 1 != len(value) - start:
        raise DecodeError(f"a string of {length - 1} bytes in {len(value) - start}", position=position)
    return value[start:].decode(errors="replace")


def replay(directories: Iterable[LogDirectory]) -> RemoteLogMetadata:
    """Read the topic as far as it lies in these directories; several copies of a partition count as one.

    Raises:
        LogDirError: a segment cannot be read.
    """
    metadata = RemoteLogMetadata()
    values: dict[tuple[int, int], tuple[bytes | None, str]] = {}
    for directory in directories:
        for partition in directory.partitions:
            if partition.topic == TOPIC and partition.is_live:
                values |= _values(directory.filesystem, partition)
    for (number, offset), (value, file) in sorted(values.items()):
        try:
            entry = None if value is None else decode_entry(value, partition=number, offset=offset)
        except DecodeError as error:
            reason = f"not a record of remote segments at offset {offset}: {error}"
            metadata.problems.append(LogDirError(reason, file=file))
            continue
        if entry is not None:
            metadata.apply(entry)
    return metadata


def _values(filesystem: FileSystem, partition: Partition) -> dict[tuple[int, int], tuple[bytes | None, str]]:
    values = {}
    for segment in partition.segments:
        with open_segment(filesystem, segment) as reader:
            for header in reader.headers():
                if not header.is_control:
                    for record in reader.records(header):
                        values[partition.partition, record.offset] = record.value, segment.path
    return values
