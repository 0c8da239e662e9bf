"""What is in ``__consumer_offsets`` becomes groups and offsets again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkaframes.coordination.groups import records
from kafkaframes.coordination.groups.classic import ClassicGroup
from kafkaframes.coordination.groups.commits import OffsetStore
from kafkaframes.coordination.groups.ports import Group, LoadedRecord
from kafkaframes.coordination.groups.records import ModernRecords, consumer_records, share_records
from kafkaframes.coordination.groups.streams_records import streams_records
from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages.envelopes import CoordinatorRecord
from kafkaframes.storage.files.names import TopicPartition


def load(groups: dict[str, Group], offsets: OffsetStore, loaded: Iterable[LoadedRecord]) -> int:
    """Take records over into groups and offsets; return how many could not be read."""
    unread = 0
    for record in loaded:
        if record.is_marker:
            offsets.end_transaction((record.partition, record.producer_id), commit=record.is_commit)
        elif record.key is not None:
            try:
                _replay(groups, offsets, record, records.decode(record.key, record.value))
            except DecodeError:
                unread += 1
    return unread


def _replay(groups: dict[str, Group], offsets: OffsetStore, record: LoadedRecord, read: CoordinatorRecord) -> None:
    if read.type in records.COMMIT_TYPES:
        transaction = (record.partition, record.producer_id) if record.is_transactional else None
        _replay_commit(groups, offsets, read, transaction)
    elif read.type == records.GROUP_TYPE:
        if read.value is not None:
            groups[read.key.group] = records.group_of(read.key.group, read.value)
        elif isinstance(groups.get(read.key.group), ClassicGroup):
            del groups[read.key.group]
    else:
        for rows in (consumer_records, share_records, streams_records):
            if read.type in rows.types:
                _replay_modern(groups, read, rows)


def _replay_modern(groups: dict[str, Group], read: CoordinatorRecord, rows: ModernRecords[Any]) -> None:
    """Replay a record of a consumer, share or streams group, which the record of its epoch ends."""
    group_id = read.key.group_id
    group = groups.get(group_id)
    is_there = isinstance(group, rows.group_type)
    if is_there and rows.is_end(read):
        del groups[group_id]
    elif is_there or read.value is not None:
        group = groups[group_id] = group if is_there and group is not None else rows.group_type(group_id)
        rows.replay(group, read)


def _replay_commit(
    groups: dict[str, Group], offsets: OffsetStore, read: CoordinatorRecord, transaction: tuple[int, int] | None
) -> None:
    where = TopicPartition(read.key.topic, read.key.partition)
    if read.value is None:
        offsets.remove(read.key.group, where)
        return
    groups.setdefault(read.key.group, ClassicGroup(read.key.group))
    offsets.put(read.key.group, where, records.commit_of(read.value), transaction=transaction)
