"""Read committed offsets from the sources' ``__consumer_offsets``, and write a new, compacted ``__consumer_offsets``.

Offsets are read as a group coordinator reads them: in log order, with tombstones. Offsets that were committed in a
transaction take effect at its commit marker, and are discarded if it was aborted or is open. Offsets of topics that are
not restored are omitted and counted. Members and subscriptions are not restored. Each group is empty and keeps its
generation.

A coordinator expires the offsets of a group that has been empty for ``offsets.retention.minutes``. In a group without a
protocol, the coordinator expires each offset that was committed before this period. Groups and commits therefore get
the time of the restore, unless the settings keep the original times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kafkaframes.errors import DecodeError
from kafkaframes.jobs.job import JsonDataclass
from kafkaframes.jobs.restore.source import SegmentPart, read_valid_batches
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import decode_coordinator_record, encode_coordinator_record
from kafkaframes.records.build import build_records
from kafkaframes.records.decode import decode_steps
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.fields import parse_control_type
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.names import TopicPartition, coordinator_partition
from kafkaframes.storage.log.segment_writer import PartitionWriter

OFFSETS_TOPIC = "__consumer_offsets"
_OFFSET_VERSION, _GROUP_VERSION = 3, 3  # versions that Kafka 2.1 and later write
_COMMIT_TYPES, _GROUP_TYPE = (0, 1), 2
_NO_EXPIRY = -1  # expiry of commits that do not set one
_Record = tuple[int, bytes, bytes | None]  # offset, key, value


class CommitKey(NamedTuple):
    """The group and topic partition of a committed offset."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """A committed offset, which is the next offset to read.

    Attributes:
        leader_epoch: leader epoch that was committed with the offset; -1 if unknown.
        commit_timestamp_ms: time of the commit, in milliseconds.
        expire_timestamp_ms: time at which the commit expires, in milliseconds; -1 if the broker's retention applies
            (since 2.1).
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = _NO_EXPIRY


@dataclass(slots=True)
class SourceGroups:
    """The consumer groups in the sources.

    Attributes:
        commits: latest commit of each group, topic and partition.
        protocols: protocol type and generation by group, for groups that have a protocol.
        partitions: number of partitions of ``__consumer_offsets`` in the sources.
        unread: number of records in ``__consumer_offsets`` that could not be decoded.
    """

    commits: dict[CommitKey, OffsetCommit] = field(default_factory=dict)
    protocols: dict[str, tuple[str, int]] = field(default_factory=dict)
    partitions: int = 0
    unread: int = 0

    def group_offsets_by_partition(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the committed offsets of each source partition."""
        committed_offsets: dict[TopicPartition, set[int]] = {}
        for key, commit in self.commits.items():
            committed_offsets.setdefault(TopicPartition(key.topic, key.partition), set()).add(commit.offset)
        return {partition: tuple(sorted(offsets)) for partition, offsets in committed_offsets.items()}


# ---------------------------------------------------------------------------------------------------------- reading


def read_groups(copies: Iterable[tuple[LogDirectory, Partition]]) -> SourceGroups:
    """Read the committed offsets in the sources.

    If two sources have the same partition of ``__consumer_offsets``, the later source in the list takes precedence.

    Raises:
        LogDirError: a segment cannot be read.
    """
    groups = SourceGroups()
    for directory, partition in copies:
        groups.partitions = max(groups.partitions, partition.partition + 1)
        latest: dict[bytes, tuple[int, bytes | None]] = {}
        for offset, key, value in _read_records(directory, partition):
            if (
                key not in latest or latest[key][0] < offset
            ):  # records of a transaction are yielded when it commits, so offsets may decrease
                latest[key] = (offset, value)
        for key, (_, value) in sorted(latest.items(), key=lambda entry: entry[1][0]):
            _store_offset(groups, key, value)
    return groups


def _store_offset(groups: SourceGroups, key: bytes, value: bytes | None) -> None:
    """Add a record of ``__consumer_offsets`` to the groups. A tombstone removes the commit."""
    try:
        record = decode_coordinator_record(OFFSETS_TOPIC, key, value)
    except DecodeError:
        groups.unread += 1
        return
    commit_value = record.value
    if record.type in _COMMIT_TYPES:
        commit_key = CommitKey(record.key.group, record.key.topic, record.key.partition)
        groups.commits.pop(commit_key, None)
        if commit_value is not None:
            expiry = int(getattr(commit_value, "expire_timestamp", _NO_EXPIRY))
            groups.commits[commit_key] = OffsetCommit(
                commit_value.offset,
                commit_value.leader_epoch,
                commit_value.metadata,
                commit_value.commit_timestamp,
                expiry,
            )
    elif record.type == _GROUP_TYPE:
        groups.protocols.pop(record.key.group, None)
        if commit_value is not None:
            groups.protocols[record.key.group] = (commit_value.protocol_type, commit_value.generation)


def _read_records(directory: LogDirectory, partition: Partition) -> Iterator[_Record]:
    """Yield the records in order. Records of a transaction are yielded at its commit marker."""
    pending_records: dict[int, list[_Record]] = {}
    for segment in partition.segments:
        part = SegmentPart(directory.filesystem, segment.path, segment.base_offset, segment.size_bytes, is_last=True)
        for run in read_valid_batches(part, [], skip=True):
            for content in decode_steps(run.data, run.batches):
                yield from _order_records(content, pending_records, partition.log_start_offset)


def _order_records(content: DecodedBatches, pending_records: dict[int, list[_Record]], start: int) -> Iterator[_Record]:
    """Yield (offset, key, value) of keyed records from ``start`` on.

    Records of a transaction are yielded at its commit marker.
    """
    producers = content.batches.column("producer_id").tolist()
    control, transactional = content.batches.is_control.tolist(), content.batches.is_transactional.tolist()
    for batch, offset, key, value in _iterate_rows(content):
        producer = producers[batch]
        if control[batch]:
            ended_records = pending_records.pop(producer, [])
            if parse_control_type(key) == "COMMIT":
                yield from ended_records
        elif key is not None and offset >= start:
            if transactional[batch]:
                pending_records.setdefault(producer, []).append((offset, key, value))
            else:
                yield offset, key, value


def _iterate_rows(content: DecodedBatches) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    """Yield (batch number, offset, key, value) of each record."""
    index, whole = content.index, content.sections.buf.data
    columns = (content.owners, index.offsets, index.key_at, index.key_size, index.value_at, index.value_size)
    for owner, offset, key_at, key_size, value_at, value_size in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        key = None if key_size < 0 else bytes(whole[key_at : key_at + key_size])
        yield owner, offset, key, None if value_size < 0 else bytes(whole[value_at : value_at + value_size])


# ---------------------------------------------------------------------------------------------------------- writing


@dataclass(slots=True)
class GroupsReport(JsonDataclass):
    """The report on restored committed offsets.

    Attributes:
        groups, commits: number of restored groups and commits.
        moved: number of commits with a changed offset.
        dropped: number of omitted commits, by reason.
    """

    groups: int = 0
    commits: int = 0
    moved: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


Translate = Callable[[TopicPartition, int], tuple[TopicPartition, int] | None]


def translate_commits(
    groups: SourceGroups, translate: Translate, *, now_ms: int, keep_times: bool, keep_epochs: bool
) -> tuple[dict[CommitKey, OffsetCommit], GroupsReport]:
    """Return the commits with new topic names and offsets.

    Args:
        groups: consumer groups and their committed offsets in the sources.
        translate: function that maps a source partition and offset to the new ones; returns None if the partition is
            not restored.
        now_ms: time of the restore. Commits that expired before this time are omitted; the other commits get this time.
        keep_times: whether commits keep their own times instead of ``now_ms``.
        keep_epochs: whether the restored batches have the source's leader epochs.
    """
    report, commits = GroupsReport(), dict[CommitKey, OffsetCommit]()
    for key, commit in groups.commits.items():
        if 0 <= commit.expire_timestamp_ms <= now_ms:
            report.dropped["expired"] += 1
            continue
        new_partition = translate(TopicPartition(key.topic, key.partition), commit.offset)
        if new_partition is None:
            report.dropped["of a partition that is not restored"] += 1
            continue
        target, offset = new_partition
        report.moved += offset != commit.offset
        commits[CommitKey(key.group, target.topic, target.partition)] = OffsetCommit(
            offset,
            commit.leader_epoch if keep_epochs else _NO_EXPIRY,
            commit.metadata,
            commit.commit_timestamp_ms if keep_times else now_ms,
        )
    report.commits, report.groups = len(commits), len({key.group for key in commits})
    return commits, report


def write_groups(
    directory: Path,
    commits: Mapping[CommitKey, OffsetCommit],
    protocols: Mapping[str, tuple[str, int]],
    *,
    partitions: int,
    topic_id: str,
    now_ms: int,
    keep_times: bool = False,
) -> dict[TopicPartition, int]:
    """Write ``__consumer_offsets``, and return the end offset of each partition.

    Args:
        directory: the new log directory.
        commits: latest commit of each key.
        protocols: protocol type and generation by group.
        partitions: number of partitions.
        topic_id: topic id of ``__consumer_offsets``.
        now_ms: time since which the groups are empty, in milliseconds.
        keep_times: whether groups count as empty since their latest commit instead of ``now_ms``.

    Raises:
        LogDirError: a file cannot be written.
    """
    rows: dict[int, list[tuple[bytes, bytes]]] = {number: [] for number in range(partitions)}
    latest: dict[str, list[int]] = {}
    for key, commit in commits.items():
        latest.setdefault(key.group, []).append(commit.commit_timestamp_ms)
    for group in sorted(latest):
        partition_rows = rows[coordinator_partition(group, partitions)]
        if group in protocols and protocols[group][0]:
            partition_rows.append(
                _build_group_record(group, *protocols[group], max(latest[group]) if keep_times else now_ms)
            )
    for key, commit in sorted(commits.items()):
        rows[coordinator_partition(key.group, partitions)].append(_build_commit_record(key, commit))
    ends: dict[TopicPartition, int] = {}
    for number, pairs in rows.items():
        target = TopicPartition(OFFSETS_TOPIC, number)
        (directory / str(target)).mkdir()
        with PartitionWriter(directory / str(target), topic_id=topic_id) as writer:
            if pairs:
                columns = {
                    "key": [key for key, _ in pairs],
                    "value": [value for _, value in pairs],
                    "timestamp": [now_ms] * len(pairs),
                }
                writer.append(build_records(columns, leader_epoch=0))
            ends[target] = writer.close().log_end_offset
    return ends


def _build_group_record(group: str, protocol_type: str, generation: int, now_ms: int) -> tuple[bytes, bytes]:
    """Return the key and value of a group's metadata record, without members."""
    key = message("GroupMetadataKey")(group=group)
    value = message("GroupMetadataValue")(
        protocol_type=protocol_type,
        generation=generation,
        protocol=None,
        leader=None,
        current_state_timestamp=now_ms,
        members=[],
    )
    return encode_coordinator_record(key, value, _GROUP_VERSION)


def _build_commit_record(key: CommitKey, commit: OffsetCommit) -> tuple[bytes, bytes]:
    """Return the key and value of the record for a committed offset."""
    record = message("OffsetCommitKey")(group=key.group, topic=key.topic, partition=key.partition)
    value = message("OffsetCommitValue")(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp=commit.commit_timestamp_ms,
    )
    return encode_coordinator_record(record, value, _OFFSET_VERSION)


def format_csv(commits: Mapping[CommitKey, OffsetCommit]) -> str:
    """Return the offsets as input for ``kafka-consumer-groups --reset-offsets --from-file``.

    >>> format_csv({CommitKey("g", "orders", 0): OffsetCommit(7, -1, "", 0)})
    '"g","orders",0,7\\n'
    """
    return "".join(
        f"{_quote_text(key.group)},{_quote_text(key.topic)},{key.partition},{commit.offset}\n"
        for key, commit in sorted(commits.items())
    )


def _quote_text(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
