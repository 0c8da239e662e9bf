"""The share coordinator: where each share group stands in each partition, kept in ``__share_group_state``.

Every change is stored as a whole (a ShareSnapshot record); Kafka stores most as differences to the last snapshot
(ShareUpdate), which are read too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from kafkaframes.coordination.groups.ports import Clock, CoordinatorLog
from kafkaframes.coordination.groups.share_partition import Batch, SharePartition
from kafkaframes.errors import DecodeError, KafkaframesError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import decode_coordinator_record, encode_coordinator_record
from kafkaframes.storage.files.names import coordinator_partition

SHARE_STATE_TOPIC = "__share_group_state"
_SNAPSHOT, _UPDATE = 0, 1
_UNKNOWN = -1


class ShareKey(NamedTuple):
    """Whose state it is."""

    group_id: str
    topic_id: UUID
    partition: int


class LoadedRecord(Protocol):
    """A record of ``__share_group_state`` as it is read back."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value; None is a tombstone."""


class Stored(NamedTuple):
    """What the log says of a partition."""

    start: int
    batches: tuple[Batch, ...] = ()
    epoch: int = 0


@dataclass(slots=True)
class ShareStates:
    """All states.

    Attributes:
        log: ``__share_group_state``.
        text_of_id: a topic id as Kafka writes it.
        partitions: those that are in use, with what is given out.
        stored: what the log says.
        freed: told when records of a partition may have become free.
    """

    clock: Clock
    log: CoordinatorLog
    text_of_id: Callable[[UUID], str]
    freed: Callable[[ShareKey], None]
    partitions: dict[ShareKey, SharePartition] = field(default_factory=dict)
    stored: dict[ShareKey, Stored] = field(default_factory=dict)
    unread: int = 0

    def open(self, key: ShareKey, begin: Callable[[], int], *, lock_ms: int = 30_000) -> SharePartition:
        """Return the partition's state, made where there is none.

        Args:
            begin: where a group begins that has not read the partition yet.
            lock_ms: for how long a record is given out.

        Raises:
            KafkaframesError: the log did not take a new state.
        """
        known = self.partitions.get(key)
        if known is None:
            stored = self.stored.get(key)
            if stored is None or stored.start == _UNKNOWN:
                stored = self._put(key, Stored(begin()))
            known = SharePartition(self.clock, stored.start, lambda: self._changed(key), lock_ms=lock_ms)
            known.restore(stored.batches)
            self.partitions[key] = known
        known.lock_ms = lock_ms
        return known

    def _changed(self, key: ShareKey) -> None:
        """Store a partition's state; one that cannot be stored now is stored with its next change."""
        state = self.partitions.get(key)
        if state is None:  # a lock that outlived the state: its group or topic is gone, or stands elsewhere
            return
        with suppress(KafkaframesError):
            self._put(key, Stored(state.start, tuple(state.batches())))
        self.freed(key)

    def _put(self, key: ShareKey, stored: Stored) -> Stored:
        epoch = self.stored[key].epoch + 1 if key in self.stored else 0
        stored = stored._replace(epoch=epoch)
        made: Any = message("ShareSnapshotValue")
        now_ms = self.clock.now_ms
        value = made(
            snapshot_epoch=epoch,
            state_epoch=0,
            leader_epoch=0,
            start_offset=stored.start,
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
        self.log.append(self._place(key), [encode_coordinator_record(_key(key), value, 0)])
        self.stored[key] = stored
        return stored

    def _place(self, key: ShareKey) -> int:
        text = f"{key.group_id}:{self.text_of_id(key.topic_id)}:{key.partition}"
        return coordinator_partition(text, self.log.partitions)

    def start_of(self, key: ShareKey) -> int:
        """Return where the group stands in a partition; -1 if it has not begun."""
        if key in self.partitions:
            return self.partitions[key].start
        return self.stored[key].start if key in self.stored else _UNKNOWN

    def keys_of(self, group_id: str) -> list[ShareKey]:
        """Return all partitions that a group has begun to read."""
        return [key for key in self.stored if key.group_id == group_id]

    def reset(self, key: ShareKey, start: int) -> None:
        """Let a group stand at another offset.

        Raises:
            KafkaframesError: the log did not take it.
        """
        self._put(key, Stored(start))
        self.partitions.pop(key, None)

    def forget(self, key: ShareKey) -> None:
        """Forget where a group stands in a partition.

        Raises:
            KafkaframesError: the log did not take it.
        """
        if key in self.stored:
            self.log.append(self._place(key), [encode_coordinator_record(_key(key), None, None)])
            del self.stored[key]
        self.partitions.pop(key, None)

    def forget_all(self, *, group_id: str | None = None, topic_id: UUID | None = None) -> None:
        """Forget where a group stands everywhere, or where every group stands in a topic.

        Raises:
            KafkaframesError: the log did not take it.
        """
        for key in list(self.stored):
            if key.group_id == group_id or key.topic_id == topic_id:
                self.forget(key)

    def release(self, group_id: str, member_id: str) -> None:
        """Take back what a member has, in every partition."""
        for key, state in list(self.partitions.items()):
            if key.group_id == group_id:
                state.release_all(member_id)

    def load(self, loaded: Iterable[LoadedRecord]) -> None:
        """Read everything back after a restart; what was given out is free again."""
        for record in loaded:
            if record.key is None:
                continue
            try:
                one = decode_coordinator_record(SHARE_STATE_TOPIC, record.key, record.value)
            except DecodeError:
                self.unread += 1
                continue
            key = ShareKey(one.key.group_id, one.key.topic_id, one.key.partition)
            if one.value is None:
                self.stored.pop(key, None)
            elif one.type == _SNAPSHOT:
                self.stored[key] = Stored(one.value.start_offset, _batches(one.value), one.value.snapshot_epoch)
            elif one.type == _UPDATE and key in self.stored:
                self.stored[key] = _updated(self.stored[key], one.value)


@dataclass(slots=True)
class ShareSession:
    """A member's share session (KIP-932): its epoch, and the partitions that it fetches."""

    epoch: int = 1
    places: dict[tuple[UUID, int], None] = field(default_factory=dict)


@dataclass(slots=True)
class ShareCoordinator:
    """What share groups need beside their members.

    Attributes:
        states: where each group stands in each partition.
        sessions: by group and member.
        lock_ms: for how long a record is given out.
    """

    states: ShareStates
    lock_ms: int
    sessions: dict[tuple[str, str], ShareSession] = field(default_factory=dict)


def _key(key: ShareKey) -> Any:
    return message("ShareSnapshotKey")(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def _batches(value: Any) -> tuple[Batch, ...]:
    return tuple(
        Batch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in value.state_batches
    )


def _updated(stored: Stored, value: Any) -> Stored:
    """Return a state with what a ShareUpdate changes: later batches win, offset by offset when they are read."""
    start = stored.start if value.start_offset == _UNKNOWN else value.start_offset
    return stored._replace(start=start, batches=(*stored.batches, *_batches(value)))
