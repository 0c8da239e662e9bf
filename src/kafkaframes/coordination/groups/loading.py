"""What is in ``__consumer_offsets`` becomes groups and offsets again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkaframes.coordination.groups import records
from kafkaframes.coordination.groups.classic import ClassicGroup
from kafkaframes.coordination.groups.commits import OffsetStore
from kafkaframes.coordination.groups.modern_records import ModernRecords, consumer_records, share_records
from kafkaframes.coordination.groups.ports import Group, LoadedRecord
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


def _replay(groups: dict[str, Group], offsets: OffsetStore, record: LoadedRecord, one: CoordinatorRecord) -> None:
    if one.type in records.COMMIT_TYPES:
        transaction = (record.partition, record.producer_id) if record.is_transactional else None
        _replay_commit(groups, offsets, one, transaction)
    elif one.type == records.GROUP_TYPE:
        if one.value is not None:
            groups[one.key.group] = records.group_of(one.key.group, one.value)
        elif isinstance(groups.get(one.key.group), ClassicGroup):
            del groups[one.key.group]
    else:
        for rows in (consumer_records, share_records):
            if one.type in rows.types:
                _replay_modern(groups, one, rows)


def _replay_modern(groups: dict[str, Group], one: CoordinatorRecord, rows: ModernRecords[Any]) -> None:
    """Replay a record of a consumer or share group, which the record of its epoch ends."""
    group_id = one.key.group_id
    group = groups.get(group_id)
    is_there = isinstance(group, rows.group_type)
    if is_there and rows.is_end(one):
        del groups[group_id]
    elif is_there or one.value is not None:
        group = groups[group_id] = group if is_there and group is not None else rows.group_type(group_id)
        rows.replay(group, one)


def _replay_commit(
    groups: dict[str, Group], offsets: OffsetStore, one: CoordinatorRecord, transaction: tuple[int, int] | None
) -> None:
    where = TopicPartition(one.key.topic, one.key.partition)
    if one.value is None:
        offsets.remove(one.key.group, where)
        return
    groups.setdefault(one.key.group, ClassicGroup(one.key.group))
    offsets.put(one.key.group, where, records.commit_of(one.value), transaction=transaction)
