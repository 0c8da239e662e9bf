"""What is in ``__consumer_offsets`` becomes groups and offsets again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from kafkaframes.coordination.groups import consumer_records, records, share_records
from kafkaframes.coordination.groups.classic import ClassicGroup
from kafkaframes.coordination.groups.commits import OffsetStore
from kafkaframes.coordination.groups.consumer import ConsumerGroup
from kafkaframes.coordination.groups.ports import Group
from kafkaframes.coordination.groups.share import ShareGroup
from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages.envelopes import CoordinatorRecord
from kafkaframes.storage.files.names import TopicPartition

_KINDS = ((consumer_records, ConsumerGroup), (share_records, ShareGroup))


class LoadedRecord(Protocol):
    """A record of ``__consumer_offsets`` as it is read back."""

    @property
    def partition(self) -> int:
        """Of the topic."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value; None is a tombstone."""

    @property
    def producer_id(self) -> int:
        """Of its batch; -1 without one."""

    @property
    def is_transactional(self) -> bool:
        """Whether it counts only when its transaction is committed."""

    @property
    def is_marker(self) -> bool:
        """Whether it ends the producer's transaction."""

    @property
    def is_commit(self) -> bool:
        """Whether a marker commits."""


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
        for rows, kind in _KINDS:
            if one.type in rows.TYPES:
                _replay_member(groups, one, rows, kind)


def _replay_member(groups: dict[str, Group], one: CoordinatorRecord, rows: Any, kind: Any) -> None:
    """Replay a record of a consumer or share group, which the record of its epoch ends."""
    group_id = one.key.group_id
    group = groups.get(group_id)
    is_there = isinstance(group, kind)
    if one.type == rows.EPOCH and one.value is None:
        if is_there:
            del groups[group_id]
        return
    if not is_there:
        if one.value is None:
            return
        group = groups[group_id] = kind(group_id)
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
