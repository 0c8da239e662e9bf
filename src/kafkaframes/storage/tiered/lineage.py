"""Select the uploaded segments of a log, by leader epochs and by Kafka's topic ``__remote_log_metadata``.

After an unclean leader election the segments of the lost history stay in the store. A segment belongs to the log if its
offsets under each of its leader epochs are within the log's offsets under that epoch. The log's first epoch counts from
offset 0, because its start offset is raised with the log start offset (KIP-405, LeaderEpochFileCache).

Kafka records the state of each remote segment in the topic. All records of a user partition are in one partition of
``__remote_log_metadata``, in order. The first record of a segment contains its metadata, and the later records only
change its state. A segment is part of the log while its last state is ``COPY_SEGMENT_FINISHED``. The objects of a
segment are deleted some time after ``DELETE_SEGMENT_STARTED``. The deletion of a partition also deletes all of its
segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from kafkaframes.errors import DecodeError, LogDirError
from kafkaframes.protocol.messages import envelopes
from kafkaframes.storage.files.checkpoints import Epochs, EpochStart
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.segment_reader import open_segment
from kafkaframes.storage.tiered.manifest import SegmentMetadata
from kafkaframes.wire.integers import MAX_INT64
from kafkaframes.wire.primitives import uuid_to_text
from kafkaframes.wire.varint import read_unsigned_varint, read_varlong

_NO_END_OFFSET = MAX_INT64


@dataclass(slots=True)
class SegmentChain:
    """The remote segments of one log, by start offset.

    Attributes:
        segments: segments by start offset; each offset is in at most one of them.
        omission_reasons: reason for each omitted segment, by segment id.
        gaps: ranges of offsets without a segment, both ends inclusive.
        overlaps: adjacent segments with common offsets. Segments of one lineage have the same records at common
            offsets.
    """

    segments: list[SegmentMetadata] = field(default_factory=list)
    omission_reasons: dict[str, str] = field(default_factory=dict)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    overlaps: list[tuple[SegmentMetadata, SegmentMetadata]] = field(default_factory=list)


def is_in_lineage(segment: SegmentMetadata, epochs: Epochs) -> bool:
    """Return whether a segment belongs to the history that the log's leader epochs describe.

    >>> from kafkaframes.storage.files.names import TopicPartition
    >>> def segment(start, end, *epochs):
    ...     return SegmentMetadata(TopicPartition("t", 0), "", "", start, end, 0, 0, 0, epochs)
    >>> log = (EpochStart(0, 1117), EpochStart(2, 2000))
    >>> is_in_lineage(segment(900, 1999, EpochStart(0, 900)), log)
    True
    >>> is_in_lineage(segment(1500, 2000, EpochStart(0, 1500)), log)
    False
    """
    starts = [(entry.leader_epoch, max(entry.start_offset, 0) if index else 0) for index, entry in enumerate(epochs)]
    ranges = {
        epoch: (start, following - 1) for (epoch, start), (_, following) in pairwise([*starts, (0, _NO_END_OFFSET)])
    }
    segment_epochs = [*segment.leader_epochs, EpochStart(0, segment.end_offset + 1)]
    for entry, following in pairwise(segment_epochs):
        if entry.start_offset >= following.start_offset:
            continue  # an epoch without records
        first, last = ranges.get(entry.leader_epoch, (0, -1))
        if entry.start_offset < first or following.start_offset - 1 > last:
            return False
    return True


def sort_newest_first(segments: Iterable[SegmentMetadata]) -> list[SegmentMetadata]:
    """Sort segments from newest to oldest.

    Without a local copy, the leader epochs of the newest segment are used as the leader epochs of the log.
    """

    def sort_key(segment: SegmentMetadata) -> tuple[int, int, int, str]:
        last = segment.leader_epochs[-1].leader_epoch if segment.leader_epochs else -1
        return last, segment.end_offset, segment.event_timestamp_ms, segment.segment_id

    return sorted(segments, key=sort_key, reverse=True)


def build_chain(segments: Sequence[SegmentMetadata], epochs: Epochs) -> SegmentChain:
    """Return the log that consists of the given segments.

    Args:
        segments: complete uploads.
        epochs: leader epochs of the log. If ``epochs`` is empty (records older than format 2), all segments belong to
            the log.
    """
    chain = SegmentChain()
    fitting = []
    for segment in segments:
        if not epochs or is_in_lineage(segment, epochs):
            fitting.append(segment)
        else:
            chain.omission_reasons[segment.segment_id] = (
                "its leader epochs are not those of the log: its records were lost"
            )
    following = 0
    for segment in _drop_contained(fitting, chain):
        if chain.segments:
            last_segment = chain.segments[-1]
            if segment.start_offset > following:
                chain.gaps.append((following, segment.start_offset - 1))
            elif segment.start_offset < following:
                chain.overlaps.append((last_segment, segment))
        chain.segments.append(segment)
        following = segment.end_offset + 1
    return chain


def _drop_contained(segments: Iterable[SegmentMetadata], chain: SegmentChain) -> list[SegmentMetadata]:
    """Remove segments whose offsets are contained in another segment. Of equal segments, keep the latest upload."""
    chain_segments: list[SegmentMetadata] = []
    sorted_segments = sorted(
        segments,
        key=lambda segment: (
            segment.start_offset,
            -segment.end_offset,
            -segment.event_timestamp_ms,
            segment.segment_id,
        ),
    )
    for segment in sorted_segments:
        if chain_segments and segment.end_offset <= chain_segments[-1].end_offset:
            chain.omission_reasons[segment.segment_id] = f"its offsets are also in {chain_segments[-1].segment_id}"
            continue
        while len(chain_segments) > 1 and segment.start_offset <= chain_segments[-2].end_offset + 1:
            dropped_segment = chain_segments.pop()  # without this segment, its neighbors are adjacent
            chain.omission_reasons[dropped_segment.segment_id] = (
                f"its offsets are also in {chain_segments[-1].segment_id} and {segment.segment_id}"
            )
        chain_segments.append(segment)
    return chain_segments


REMOTE_METADATA_TOPIC: Final = "__remote_log_metadata"
SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
COPY_FINISHED: Final = SEGMENT_STATES[1]
DELETION_STATES: Final = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
# Fields of the custom metadata (custom.metadata.fields.include), in the order of their tags.
_CUSTOM_METADATA_FIELDS: Final = ("REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY")
PartitionId = tuple[str, int]  # topic id, partition


@dataclass(frozen=True, slots=True)
class MetadataEntry:
    """One record of the topic ``__remote_log_metadata``.

    Attributes:
        partition: partition of the topic that contains the record.
        offset: offset of the record.
        record: type of the record, with Kafka's name.
        of_partition: number of the user partition.
        segment_id: segment id; None if the record applies to a whole partition.
        state: one of ``SEGMENT_STATES`` or ``DELETION_STATES``.
        facts: the other fields of the record: the segment's metadata, and the custom metadata.
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
    """The state of remote segments after a replay of the topic.

    Attributes:
        entries: all records, in the order of the topic.
        states: last state of each segment, by segment id.
        segments: segment ids in the records of each user partition.
        deleted_partitions: deletion state of the user partitions that are deleted or being deleted.
    """

    entries: list[MetadataEntry] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    segments: dict[PartitionId, set[str]] = field(default_factory=dict)
    deleted_partitions: dict[PartitionId, str] = field(default_factory=dict)
    problems: list[LogDirError] = field(default_factory=list)

    def apply_entry(self, entry: MetadataEntry) -> None:
        """Apply the next record from a partition of the metadata topic."""
        self.entries.append(entry)
        owner = entry.topic_id, entry.of_partition
        if entry.segment_id is None:
            self.deleted_partitions[owner] = entry.state
            return
        self.segments.setdefault(owner, set()).add(entry.segment_id)
        self.states[entry.segment_id] = entry.state

    def has_records_of(self, owner: PartitionId) -> bool:
        """Return whether the topic has a record about this partition.

        If the metadata topic has no record about the partition, it does not determine which segments are valid.
        """
        return owner in self.segments or owner in self.deleted_partitions

    def is_valid(self, owner: PartitionId, segment_id: str) -> bool:
        """Return whether Kafka counts a segment as uploaded and not deleted. Leader epochs are not considered here."""
        return owner not in self.deleted_partitions and self.states.get(segment_id) == COPY_FINISHED

    def find_offsets(self, segment_id: str) -> tuple[int, int] | None:
        """Return the first and last offset of a segment; None if the topic does not have them."""
        for entry in self.entries:
            if entry.segment_id == segment_id and "start_offset" in entry.facts:
                return entry.facts["start_offset"], entry.facts["end_offset"]
        return None


def decode_entry(value: bytes, *, partition: int, offset: int) -> MetadataEntry | None:
    """Decode a record's value; return None for a record that changes no state (a snapshot).

    Raises:
        DecodeError: the value is not a record of this topic.
    """
    record = envelopes.decode_metadata_record(REMOTE_METADATA_TOPIC, value).value
    name = type(record).spec.name.removesuffix("Record")
    if name == "RemotePartitionDeleteMetadata":
        topic_id_partition, segment_id = record.topic_id_partition, None
        state = _format_names(DELETION_STATES, record.remote_partition_delete_state)
    elif name in ("RemoteLogSegmentMetadata", "RemoteLogSegmentMetadataUpdate"):
        topic_id_partition, segment_id = (
            record.remote_log_segment_id.topic_id_partition,
            uuid_to_text(record.remote_log_segment_id.id),
        )
        state = _format_names(SEGMENT_STATES, record.remote_log_segment_state)
    else:
        return None
    fields = _decode_segment_fields(record) if segment_id is not None else {}
    fields |= {"broker_id": record.broker_id, "event_timestamp_ms": record.event_timestamp_ms}
    return MetadataEntry(
        partition,
        offset,
        name,
        topic_id_partition.name,
        uuid_to_text(topic_id_partition.id),
        topic_id_partition.partition,
        segment_id,
        state,
        fields,
    )


def _format_names(names: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(names):
        raise DecodeError(f"unknown state {number}")
    return names[number]


def _decode_segment_fields(record: Any) -> dict[str, Any]:
    """Return the record's fields other than ids and states, by name."""
    fields: dict[str, Any] = {}
    if hasattr(record, "start_offset"):
        fields = {
            "start_offset": record.start_offset,
            "end_offset": record.end_offset,
            "max_timestamp_ms": record.max_timestamp_ms,
            "segment_size": record.segment_size_in_bytes,
            "leader_epochs": {
                epoch_entry.leader_epoch: epoch_entry.offset for epoch_entry in record.segment_leader_epochs
            },
        }
    if record.custom_metadata is not None:
        fields["custom_metadata"] = decode_custom_metadata(bytes(record.custom_metadata))
    return fields


def decode_custom_metadata(raw: bytes) -> dict[str, int | str]:
    """Decode the plugin's custom metadata, a section of tagged fields.

    >>> decode_custom_metadata(bytes.fromhex("01 00 02 d804"))
    {'REMOTE_SIZE': 300}

    Raises:
        DecodeError: the bytes are not a section of tagged fields; ``position`` is the position of the fault.
    """
    values: dict[str, int | str] = {}
    count, position = read_unsigned_varint(raw, 0)
    for _ in range(min(count, len(raw))):
        tag, position = read_unsigned_varint(raw, position)
        size, position = read_unsigned_varint(raw, position)
        if not 0 <= size <= len(raw) - position:
            raise DecodeError(f"tag {tag} has an invalid size of {size} bytes", position=position)
        value, position = raw[position : position + size], position + size
        if tag == 0:
            values[_CUSTOM_METADATA_FIELDS[tag]] = read_varlong(value, 0)[0]
        else:
            values[_CUSTOM_METADATA_FIELDS[tag] if 0 <= tag < len(_CUSTOM_METADATA_FIELDS) else f"tag {tag}"] = (
                _read_compact_string(value, position)
            )
    if position != len(raw) or count > len(raw):
        raise DecodeError(f"{len(raw) - position} bytes follow the last tag", position=position)
    return values


def _read_compact_string(value: bytes, position: int) -> str:
    length, start = read_unsigned_varint(value, 0)
    if length - 1 != len(value) - start:
        raise DecodeError(
            f"a string of {length - 1} bytes does not fit into {len(value) - start} bytes", position=position
        )
    return value[start:].decode(errors="replace")


def replay_metadata_topic(directories: Iterable[LogDirectory]) -> RemoteLogMetadata:
    """Replay the partitions of the topic in these directories. Several copies of a partition count as one.

    Raises:
        LogDirError: a segment cannot be read.
    """
    metadata = RemoteLogMetadata()
    values: dict[tuple[int, int], tuple[bytes | None, str]] = {}
    for directory in directories:
        for partition in directory.partitions:
            if partition.topic == REMOTE_METADATA_TOPIC and partition.is_live:
                values |= _read_metadata_values(directory.filesystem, partition)
    for (number, offset), (value, file) in sorted(values.items()):
        try:
            entry = None if value is None else decode_entry(value, partition=number, offset=offset)
        except DecodeError as error:
            reason = f"not a record of remote segments at offset {offset}: {error}"
            metadata.problems.append(LogDirError(reason, file=file))
            continue
        if entry is not None:
            metadata.apply_entry(entry)
    return metadata


def _read_metadata_values(
    filesystem: FileSystem, partition: Partition
) -> dict[tuple[int, int], tuple[bytes | None, str]]:
    values = {}
    for segment in partition.segments:
        with open_segment(filesystem, segment) as reader:
            for header in reader.walk_headers():
                if not header.is_control:
                    for record in reader.read_records(header):
                        values[partition.partition, record.offset] = record.value, segment.path
    return values
