"""The share coordinator: the state of each share group in each partition, stored in ``__share_group_state``.

Every change is stored as a whole state (a ShareSnapshot record). Kafka usually stores the difference to the last
snapshot (a ShareUpdate record). The coordinator can read both ShareSnapshot and ShareUpdate records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from kafkaframes.coordination.groups.ports import Clock, CoordinatorLog, LoadedRecord
from kafkaframes.coordination.groups.share_in_flight import StateBatch
from kafkaframes.coordination.groups.share_partition import DEFAULT_SHARE_LIMITS, ShareLimits, SharePartition
from kafkaframes.errors import DecodeError, ErrorCode, KafkaframesError, RefusedError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import decode_coordinator_record, encode_coordinator_record
from kafkaframes.storage.files.names import coordinator_partition
from kafkaframes.wire.primitives import uuid_to_text

SHARE_STATE_TOPIC = "__share_group_state"
_SNAPSHOT, _UPDATE = 0, 1
_UNKNOWN_NUMBER = -1  # value of an unknown offset or count


class ShareKey(NamedTuple):
    """A share group and a partition: the key of a state."""

    group_id: str
    topic_id: UUID
    partition: int


class StoredState(NamedTuple):
    """The stored state of a partition.

    Attributes:
        start: first unfinished offset; -1 if the group has not fetched from the partition yet.
        finished_count: number of finished records at or after ``start``; -1 if the number is not known.
        epoch: epoch of the record, which grows with each record.
        state_epoch: group epoch at which the group began to read the partition.
    """

    start: int
    batches: tuple[StateBatch, ...] = ()
    finished_count: int = 0
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

    def includes_in_response(self, partition: tuple[UUID, int], code: int, has_records: bool) -> bool:
        """Return whether a response includes a partition.

        A response includes a partition that has records or an error, or that was added or failed in the last request.
        """
        session_partition = self.partitions.get(partition)
        if session_partition is None:
            return True
        is_in_answer, session_partition.is_answered = (
            has_records or session_partition.is_answered or code != ErrorCode.NONE,
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
        stored_states: stored states.
        on_release: callback that is called when records of a partition may have become available.
        sessions: sessions by node, group and member.
    """

    clock: Clock
    log: CoordinatorLog
    on_release: Callable[[ShareKey], None]
    partitions: dict[ShareKey, SharePartition] = field(default_factory=dict)
    stored_states: dict[ShareKey, StoredState] = field(default_factory=dict)
    sessions: dict[tuple[int, str, str], ShareSession] = field(default_factory=dict)
    undecodable_count: int = 0

    def initialize_state(self, key: ShareKey, group_epoch: int) -> None:
        """Add a partition to those that a group reads. The first fetch decides the start offset."""
        if key not in self.stored_states:
            self._append_snapshot(
                key, StoredState(_UNKNOWN_NUMBER, finished_count=_UNKNOWN_NUMBER, state_epoch=group_epoch)
            )

    def open_partition(
        self, key: ShareKey, find_start: Callable[[], int], limits: ShareLimits = DEFAULT_SHARE_LIMITS
    ) -> SharePartition:
        """Return the state of a partition that the group reads.

        If the group does not read the partition, raise UNKNOWN_SERVER_ERROR, as Kafka does.

        Args:
            find_start: function that returns the start offset for a partition from which the group has not fetched yet.
        """
        state = self.partitions.get(key)
        if state is None:
            stored_state = self.stored_states.get(key)
            if stored_state is None:
                raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Group {key.group_id} does not read the partition.")
            start = find_start() if stored_state.start == _UNKNOWN_NUMBER else stored_state.start
            new_state = SharePartition(
                self.clock, start, lambda: self._store_change(key, new_state), lambda: self.on_release(key)
            )
            new_state.restore_batches(stored_state.batches)
            state = self.partitions[key] = new_state
        state.limits = limits
        return state

    def is_current(self, key: ShareKey, state: SharePartition) -> bool:
        """Return whether a state is still in use; a group's states are dropped when the group's last session ends."""
        return self.partitions.get(key) is state

    def _store_change(self, key: ShareKey, state: SharePartition) -> None:
        """Store a partition's state. If the disk fails, the partition's next change stores the state."""
        stored_state = self.stored_states.get(key)
        # A lock may expire after the state was removed.
        if stored_state is None or not self.is_current(key, state):
            return
        with suppress(KafkaframesError):
            self._append_snapshot(
                key,
                stored_state._replace(
                    start=state.start, batches=tuple(state.build_batches()), finished_count=state.finished_count
                ),
            )

    def _append_snapshot(self, key: ShareKey, new_state: StoredState) -> None:
        epoch = self.stored_states[key].epoch + 1 if key in self.stored_states else 0
        new_state = new_state._replace(epoch=epoch)
        value_class: Any = message("ShareSnapshotValue")
        now_ms = self.clock.now_ms
        value = value_class(
            snapshot_epoch=epoch,
            state_epoch=new_state.state_epoch,
            leader_epoch=0,
            start_offset=new_state.start,
            delivery_complete_count=new_state.finished_count,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
            state_batches=[
                value_class.StateBatch(
                    first_offset=batch.first,
                    last_offset=batch.last,
                    delivery_state=batch.state,
                    delivery_count=batch.deliveries,
                )
                for batch in new_state.batches
            ],
        )
        self.log.append(self._find_state_partition(key), [encode_coordinator_record(_build_record_key(key), value, 0)])
        self.stored_states[key] = new_state

    def _find_state_partition(self, key: ShareKey) -> int:
        """Return the partition of ``__share_group_state`` that stores the state."""
        text = f"{key.group_id}:{uuid_to_text(key.topic_id)}:{key.partition}"
        return coordinator_partition(text, self.log.partitions)

    def reset_offset(self, key: ShareKey, start: int, group_epoch: int = 0) -> None:
        """Set a group's start offset. If the start offset is -1, the next fetch decides the start offset."""
        self._append_snapshot(
            key,
            StoredState(
                start, finished_count=_UNKNOWN_NUMBER if start == _UNKNOWN_NUMBER else 0, state_epoch=group_epoch
            ),
        )
        self.partitions.pop(key, None)

    def delete_state(self, key: ShareKey) -> None:
        """Delete a group's state in a partition."""
        if key in self.stored_states:
            self.log.append(
                self._find_state_partition(key), [encode_coordinator_record(_build_record_key(key), None, None)]
            )
            del self.stored_states[key]
        self.partitions.pop(key, None)

    def delete_states(self, *, group_id: str | None = None, topic_id: UUID | None = None) -> None:
        """Delete all states of a group, or the states of all groups in a topic."""
        for key in list(self.stored_states):
            if key.group_id == group_id or key.topic_id == topic_id:
                self.delete_state(key)

    def release_records(self, group_id: str, member_id: str, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Release the records that a member has acquired in the given partitions."""
        for partition in partitions:
            state = self.partitions.get(ShareKey(group_id, *partition))
            if state is not None:
                state.release_all(member_id)

    def close_group(self, group_id: str) -> None:
        """Drop the in-memory state of a group that has no members."""
        for key in [key for key in self.partitions if key.group_id == group_id]:
            del self.partitions[key]

    def load_states(self, loaded_records: Iterable[LoadedRecord]) -> None:
        """Load the stored states after a restart. Records that were acquired are available again."""
        for record in loaded_records:
            if record.key is None:
                continue
            try:
                replayed_states = decode_coordinator_record(SHARE_STATE_TOPIC, record.key, record.value)
            except DecodeError:
                self.undecodable_count += 1
                continue
            key = ShareKey(replayed_states.key.group_id, replayed_states.key.topic_id, replayed_states.key.partition)
            if replayed_states.value is None:
                self.stored_states.pop(key, None)
            elif replayed_states.type == _SNAPSHOT:
                self.stored_states[key] = _read_snapshot(replayed_states.value)
            elif replayed_states.type == _UPDATE and key in self.stored_states:
                self.stored_states[key] = _apply_update(self.stored_states[key], replayed_states.value)


def _build_record_key(key: ShareKey) -> Any:
    return message("ShareSnapshotKey")(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def _read_batches(value: Any) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in value.state_batches
    )


def _read_snapshot(value: Any) -> StoredState:
    """Return the state in the value of a ShareSnapshot record."""
    finished_count = value.delivery_complete_count
    return StoredState(
        value.start_offset, _read_batches(value), finished_count, value.snapshot_epoch, value.state_epoch
    )


def _apply_update(stored_state: StoredState, value: Any) -> StoredState:
    """Return the state after a ShareUpdate record. The record's batches override earlier batches."""
    start = stored_state.start if value.start_offset == _UNKNOWN_NUMBER else value.start_offset
    batches = stored_state.batches
    for new_batch in _read_batches(value):
        batches = _overlay_batch(batches, new_batch)
    return stored_state._replace(start=start, batches=batches, finished_count=value.delivery_complete_count)


def _overlay_batch(batches: tuple[StateBatch, ...], new_batch: StateBatch) -> tuple[StateBatch, ...]:
    """Return the batches after adding a new batch, which replaces the overlapping parts of earlier batches."""
    preceding_batches = [
        old_batch._replace(last=min(old_batch.last, new_batch.first - 1))
        for old_batch in batches
        if old_batch.first < new_batch.first
    ]
    following_batches = [
        old_batch._replace(first=max(old_batch.first, new_batch.last + 1))
        for old_batch in batches
        if old_batch.last > new_batch.last
    ]
    return (*preceding_batches, new_batch, *following_batches)
