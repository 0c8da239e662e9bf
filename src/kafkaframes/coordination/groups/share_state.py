"""The share coordinator: the state of each share group in each partition, stored in ``__share_group_state``.

Every change is stored as a whole state (a ShareSnapshot record). Kafka usually stores the difference to the last
snapshot (a ShareUpdate record). Both kinds are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from kafkaframes.coordination.groups.ports import Clock, CoordinatorLog, LoadedRecord
from kafkaframes.coordination.groups.share_in_flight import Batch
from kafkaframes.coordination.groups.share_partition import DEFAULT_LIMITS, Limits, SharePartition
from kafkaframes.errors import DecodeError, ErrorCode, KafkaframesError, RefusedError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import decode_coordinator_record, encode_coordinator_record
from kafkaframes.storage.files.names import coordinator_partition
from kafkaframes.wire.primitives import uuid_to_text

SHARE_STATE_TOPIC = "__share_group_state"
_SNAPSHOT, _UPDATE = 0, 1
_UNKNOWN = -1


class ShareKey(NamedTuple):
    """A share group and a partition: the key of a state."""

    group_id: str
    topic_id: UUID
    partition: int


class Stored(NamedTuple):
    """The stored state of a partition.

    Attributes:
        start: first unfinished offset; -1 if the group has not fetched from the partition yet.
        done: number of finished records at or after ``start``; -1 if it is not known.
        epoch: epoch of the record, which grows with each record.
        state_epoch: group epoch at which the group began to read the partition.
    """

    start: int
    batches: tuple[Batch, ...] = ()
    done: int = 0
    epoch: int = 0
    state_epoch: int = 0


@dataclass(slots=True)
class SessionPartition:
    """A partition of a share session.

    Attributes:
        is_known: whether the topic existed when the partition was added.
        is_answered: whether the next response includes the partition even if it has no records.
    """

    is_known: bool
    is_answered: bool


@dataclass(slots=True)
class ShareSession:
    """A member's share session (KIP-932): its epoch and its partitions."""

    epoch: int = 1
    partitions: dict[tuple[UUID, int], SessionPartition] = field(default_factory=dict)

    def answers(self, partition: tuple[UUID, int], code: int, has_records: bool) -> bool:
        """Whether a response includes a partition: it has records or an error, or it was added or failed last time."""
        kept = self.partitions.get(partition)
        if kept is None:
            return True
        is_in_answer, kept.is_answered = (
            has_records or kept.is_answered or code != ErrorCode.NONE,
            code != ErrorCode.NONE,
        )
        if has_records:  # the next fetch begins with the other partitions
            self.partitions[partition] = self.partitions.pop(partition)
        return is_in_answer


@dataclass(slots=True)
class ShareStates:
    """The states of all share groups, and their members' sessions.

    Attributes:
        log: ``__share_group_state``.
        partitions: states in memory, with the acquired records.
        stored: stored states.
        freed: callback for the time when records of a partition may have become available.
        sessions: sessions by node, group and member.
    """

    clock: Clock
    log: CoordinatorLog
    freed: Callable[[ShareKey], None]
    partitions: dict[ShareKey, SharePartition] = field(default_factory=dict)
    stored: dict[ShareKey, Stored] = field(default_factory=dict)
    sessions: dict[tuple[int, str, str], ShareSession] = field(default_factory=dict)
    unread: int = 0

    def begin(self, key: ShareKey, group_epoch: int) -> None:
        """Add a partition to those that a group reads. Its first fetch decides the start offset."""
        if key not in self.stored:
            self._put(key, Stored(_UNKNOWN, done=_UNKNOWN, state_epoch=group_epoch))

    def open(self, key: ShareKey, begin: Callable[[], int], limits: Limits = DEFAULT_LIMITS) -> SharePartition:
        """Return the state of a partition that the group reads. Raise UNKNOWN_SERVER_ERROR for others, as Kafka does.

        Args:
            begin: returns the start offset for a partition from which the group has not fetched yet.
        """
        state = self.partitions.get(key)
        if state is None:
            stored = self.stored.get(key)
            if stored is None:
                raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Group {key.group_id} does not read the partition.")
            start = begin() if stored.start == _UNKNOWN else stored.start
            made = SharePartition(self.clock, start, lambda: self._changed(key, made), lambda: self.freed(key))
            made.restore(stored.batches)
            state = self.partitions[key] = made
        state.limits = limits
        return state

    def _changed(self, key: ShareKey, state: SharePartition) -> None:
        """Store a partition's state. If that fails, the partition's next change stores it."""
        stored = self.stored.get(key)
        if stored is None or self.partitions.get(key) is not state:  # a lock that expired after the state was removed
            return
        with suppress(KafkaframesError):
            self._put(key, stored._replace(start=state.start, batches=tuple(state.batches()), done=state.done_ahead))

    def _put(self, key: ShareKey, stored: Stored) -> None:
        epoch = self.stored[key].epoch + 1 if key in self.stored else 0
        stored = stored._replace(epoch=epoch)
        made: Any = message("ShareSnapshotValue")
        now_ms = self.clock.now_ms
        value = made(
            snapshot_epoch=epoch,
            state_epoch=stored.state_epoch,
            leader_epoch=0,
            start_offset=stored.start,
            delivery_complete_count=stored.done,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
            state_batches=[
                made.StateBatch(
                    first_offset=one.first,
                    last_offset=one.last,
                    delivery_state=one.state,
                    delivery_count=one.deliveries,
                )
                for one in stored.batches
            ],
        )
        self.log.append(self._partition_of(key), [encode_coordinator_record(_key(key), value, 0)])
        self.stored[key] = stored

    def _partition_of(self, key: ShareKey) -> int:
        text = f"{key.group_id}:{uuid_to_text(key.topic_id)}:{key.partition}"
        return coordinator_partition(text, self.log.partitions)

    def reset(self, key: ShareKey, start: int, group_epoch: int = 0) -> None:
        """Set a group's start offset; -1 lets the next fetch decide."""
        self._put(key, Stored(start, done=_UNKNOWN if start == _UNKNOWN else 0, state_epoch=group_epoch))
        self.partitions.pop(key, None)

    def forget(self, key: ShareKey) -> None:
        """Delete a group's state in a partition."""
        if key in self.stored:
            self.log.append(self._partition_of(key), [encode_coordinator_record(_key(key), None, None)])
            del self.stored[key]
        self.partitions.pop(key, None)

    def forget_all(self, *, group_id: str | None = None, topic_id: UUID | None = None) -> None:
        """Delete all states of a group, or the states of all groups in a topic."""
        for key in list(self.stored):
            if key.group_id == group_id or key.topic_id == topic_id:
                self.forget(key)

    def release(self, group_id: str, member_id: str, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Release the records that a member has acquired in some partitions."""
        for partition in partitions:
            state = self.partitions.get(ShareKey(group_id, *partition))
            if state is not None:
                state.release_all(member_id)

    def close(self, group_id: str) -> None:
        """Drop the in-memory state of a group that has no members."""
        for key in [key for key in self.partitions if key.group_id == group_id]:
            del self.partitions[key]

    def load(self, loaded: Iterable[LoadedRecord]) -> None:
        """Load the stored states after a restart. Records that were acquired are available again."""
        for record in loaded:
            if record.key is None:
                continue
            try:
                read = decode_coordinator_record(SHARE_STATE_TOPIC, record.key, record.value)
            except DecodeError:
                self.unread += 1
                continue
            key = ShareKey(read.key.group_id, read.key.topic_id, read.key.partition)
            if read.value is None:
                self.stored.pop(key, None)
            elif read.type == _SNAPSHOT:
                self.stored[key] = _snapshot(read.value)
            elif read.type == _UPDATE and key in self.stored:
                self.stored[key] = _updated(self.stored[key], read.value)


def _key(key: ShareKey) -> Any:
    return message("ShareSnapshotKey")(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def _batches(value: Any) -> tuple[Batch, ...]:
    return tuple(
        Batch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in value.state_batches
    )


def _snapshot(value: Any) -> Stored:
    done = value.delivery_complete_count
    return Stored(value.start_offset, _batches(value), done, value.snapshot_epoch, value.state_epoch)


def _updated(stored: Stored, value: Any) -> Stored:
    """Return the state after a ShareUpdate record. Its batches override earlier ones."""
    start = stored.start if value.start_offset == _UNKNOWN else value.start_offset
    batches = stored.batches
    for new in _batches(value):
        batches = _overlaid(batches, new)
    return stored._replace(start=start, batches=batches, done=value.delivery_complete_count)


def _overlaid(batches: tuple[Batch, ...], new: Batch) -> tuple[Batch, ...]:
    before = [old._replace(last=min(old.last, new.first - 1)) for old in batches if old.first < new.first]
    after = [old._replace(first=max(old.first, new.last + 1)) for old in batches if old.last > new.last]
    return (*before, new, *after)
