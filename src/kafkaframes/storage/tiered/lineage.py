"""Which uploaded segments make up a log: by leader epochs, and by Kafka's topic ``__remote_log_metadata``.

After an unclean leader election the segments of the lost history stay in the store. A segment belongs to the log if the
offsets that it has under each of its leader epochs lie within those that the log has under that epoch; the log's first
entry counts from 0, because its offset is moved up with the log start offset (KIP-405, LeaderEpochFileCache).

In the topic Kafka notes the state of each remote segment. All records of one user partition are in one partition of the
topic, in order. A segment is announced with its facts, then only its state changes: it is part of the log while its
last state is ``COPY_SEGMENT_FINISHED``, and its objects vanish some time after ``DELETE_SEGMENT_STARTED``. A partition
that is deleted takes all its segments with it.
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
from kafkaframes.wire.primitives import uuid_to_text
from kafkaframes.wire.varint import read_unsigned_varint, read_varlong

_NO_END = 2**63 - 1


@dataclass(slots=True)
class Chain:
    """The segments that make up a log.

    Attributes:
        segments: by start offset; each offset is in one of them, or in none.
        left_out: the reason why a segment was not chosen, by segment id.
        gaps: ranges of offsets that no segment has, both ends inclusive.
        overlaps: neighbours that have offsets in common; in one lineage these offsets hold the same records.
    """

    segments: list[SegmentMetadata] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    overlaps: list[tuple[SegmentMetadata, SegmentMetadata]] = field(default_factory=list)


def belongs(segment: SegmentMetadata, epochs: Epochs) -> bool:
    """Say whether a segment belongs to the history that the log's leader epochs describe.

    >>> from kafkaframes.storage.files.names import TopicPartition
    >>> def made(start, end, *epochs):
    ...     return SegmentMetadata(TopicPartition("t", 0), "", "", start, end, 0, 0, 0, epochs)
    >>> log = (EpochStart(0, 1117), EpochStart(2, 2000))
    >>> belongs(made(900, 1999, EpochStart(0, 900)), log), belongs(made(1500, 2000, EpochStart(0, 1500)), log)
    (True, False)
    """
    starts = [(one.leader_epoch, max(one.start_offset, 0) if index else 0) for index, one in enumerate(epochs)]
    ranges = {epoch: (start, following - 1) for (epoch, start), (_, following) in pairwise([*starts, (0, _NO_END)])}
    own = [*segment.leader_epochs, EpochStart(0, segment.end_offset + 1)]
    for entry, following in pairwise(own):
        if entry.start_offset >= following.start_offset:
            continue  # an epoch without a record
        first, last = ranges.get(entry.leader_epoch, (0, -1))
        if entry.start_offset < first or following.start_offset - 1 > last:
            return False
    return True


def newest(segments: Iterable[SegmentMetadata]) -> list[SegmentMetadata]:
    """Sort segments, the newest first: its leader epochs stand for the log's where no local copy is there."""

    def age(segment: SegmentMetadata) -> tuple[int, int, int, str]:
        last = segment.leader_epochs[-1].leader_epoch if segment.leader_epochs else -1
        return last, segment.end_offset, segment.event_timestamp_ms, segment.segment_id

    return sorted(segments, key=age, reverse=True)


def chain_of(segments: Sequence[SegmentMetadata], epochs: Epochs) -> Chain:
    """Return the log that segments make up.

    Args:
        segments: complete uploads.
        epochs: the log's leader epochs; if it has none (records older than format 2), every segment belongs to it.
    """
    chain = Chain()
    fitting = []
    for segment in segments:
        if not epochs or belongs(segment, epochs):
            fitting.append(segment)
        else:
            chain.left_out[segment.segment_id] = "its leader epochs are not those of the log: its records were lost"
    following = 0
    for segment in _once(fitting, chain):
        if chain.segments:
            before = chain.segments[-1]
            if segment.start_offset > following:
                chain.gaps.append((following, segment.start_offset - 1))
            elif segment.start_offset < following:
                chain.overlaps.append((before, segment))
        chain.segments.append(segment)
        following = segment.end_offset + 1
    return chain


def _once(segments: Iterable[SegmentMetadata], chain: Chain) -> list[SegmentMetadata]:
    """Leave out segments whose offsets another one has, too; of equal ones the latest upload is kept."""
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
            chain.left_out[segment.segment_id] = f"its offsets are in {chain_segments[-1].segment_id}, too"
            continue
        while len(chain_segments) > 1 and segment.start_offset <= chain_segments[-2].end_offset + 1:
            dropped_segment = chain_segments.pop()  # its neighbours reach each other without it
            chain.left_out[dropped_segment.segment_id] = (
                f"its offsets are in {chain_segments[-1].segment_id} and {segment.segment_id}, too"
            )
        chain_segments.append(segment)
    return chain_segments


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
        record: what it is, by Kafka's name.
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
        segments: the ids that a partition's records name.
        deleted_partitions: the partitions that are deleted, or about to be.
    """

    entries: list[MetadataEntry] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    segments: dict[PartitionId, set[str]] = field(default_factory=dict)
    deleted_partitions: dict[PartitionId, str] = field(default_factory=dict)
    problems: list[LogDirError] = field(default_factory=list)

    def apply(self, entry: MetadataEntry) -> None:
        """Take the next record of a partition of the topic."""
        self.entries.append(entry)
        owner = entry.topic_id, entry.of_partition
        if entry.segment_id is None:
            self.deleted_partitions[owner] = entry.state
            return
        self.segments.setdefault(owner, set()).add(entry.segment_id)
        self.states[entry.segment_id] = entry.state

    def knows(self, owner: PartitionId) -> bool:
        """Whether any record is about this partition; otherwise the topic decides nothing about it."""
        return owner in self.segments or owner in self.deleted_partitions

    def is_valid(self, owner: PartitionId, segment_id: str) -> bool:
        """Whether Kafka counts a segment as uploaded and not deleted; leader epochs are not looked at."""
        return owner not in self.deleted_partitions and self.states.get(segment_id) == FINISHED


def decode_entry(value: bytes, *, partition: int, offset: int) -> MetadataEntry | None:
    """Decode a record's value; return None for a record that changes nothing (a snapshot).

    Raises:
        DecodeError: the value is not a record of this topic.
    """
    record = envelopes.decode_metadata_record(TOPIC, value).value
    name = type(record).spec.name.removesuffix("Record")
    if name == "RemotePartitionDeleteMetadata":
        of, segment_id = record.topic_id_partition, None
        state = _format_names(DELETIONS, record.remote_partition_delete_state)
    elif name in ("RemoteLogSegmentMetadata", "RemoteLogSegmentMetadataUpdate"):
        of, segment_id = record.remote_log_segment_id.topic_id_partition, uuid_to_text(record.remote_log_segment_id.id)
        state = _format_names(STATES, record.remote_log_segment_state)
    else:
        return None
    facts = _facts(record) if segment_id is not None else {}
    facts |= {"broker_id": record.broker_id, "event_timestamp_ms": record.event_timestamp_ms}
    return MetadataEntry(partition, offset, name, of.name, uuid_to_text(of.id), of.partition, segment_id, state, facts)


def _format_names(names: tuple[str, ...], number: int) -> str:
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
