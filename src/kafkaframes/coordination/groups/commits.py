"""Handlers of OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete, and the expiry of committed offsets.

A commit must come from a member of the group's generation. A commit without a member id and with generation -1 (by a
standalone consumer or an admin) is allowed while the group is empty, and in a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaframes.coordination.groups import records
from kafkaframes.coordination.groups.classic import ClassicGroup
from kafkaframes.coordination.groups.ports import Clock, Group, GroupSettings, OffsetClient, ProducerIdentity, Record
from kafkaframes.coordination.groups.records import OffsetCommit
from kafkaframes.errors import ErrorCode, RefusedError
from kafkaframes.storage.files.names import TopicPartition, coordinator_partition

Offsets = dict[TopicPartition, OffsetCommit]


Transaction = tuple[int, int]  # partition of __consumer_offsets, producer id


@dataclass(slots=True)
class OffsetStore:
    """Offsets by group and partition (Kafka's OffsetMetadataManager).

    The offsets of a transaction are pending until the transaction's marker commits or drops them.

    Attributes:
        offsets_by_group: committed offsets by group id.
        pending_offsets: offsets of open transactions, by transaction and group id.
    """

    offsets_by_group: dict[str, Offsets] = field(default_factory=dict)
    pending_offsets: dict[Transaction, dict[str, Offsets]] = field(default_factory=dict)
    _write_count: int = 0

    def add_offset(
        self, group_id: str, partition: TopicPartition, commit: OffsetCommit, *, transaction: Transaction | None = None
    ) -> None:
        """Store an offset. An offset of a transaction is pending until the transaction ends."""
        self._write_count += 1
        target = self.offsets_by_group if transaction is None else self.pending_offsets.setdefault(transaction, {})
        target.setdefault(group_id, {})[partition] = commit._replace(order=self._write_count)

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """Remove a committed offset."""
        offsets = self.offsets_by_group.get(group_id)
        if offsets is not None and offsets.pop(partition, None) is not None and not offsets:
            del self.offsets_by_group[group_id]

    def remove_group(self, group_id: str) -> None:
        """Remove all offsets of a group, including pending ones."""
        self.offsets_by_group.pop(group_id, None)
        for groups in self.pending_offsets.values():
            groups.pop(group_id, None)

    def group_offsets(self, group_id: str) -> Offsets:
        """Return the committed offsets of a group."""
        return self.offsets_by_group.get(group_id, {})

    def end_transaction(self, transaction: Transaction, *, commit: bool) -> None:
        """End a transaction.

        If another client has committed an offset for the same partition, the offset that was written last is kept.
        """
        pending_by_group = self.pending_offsets.pop(transaction, {})
        for group_id, pending_offsets in pending_by_group.items() if commit else ():
            committed_offsets = self.offsets_by_group.setdefault(group_id, {})
            for partition, pending in pending_offsets.items():
                if partition not in committed_offsets or committed_offsets[partition].order < pending.order:
                    committed_offsets[partition] = pending

    def is_unstable(self, group_id: str, partition: TopicPartition) -> bool:
        """Return whether an open transaction has a pending offset for the partition."""
        return any(partition in groups.get(group_id, ()) for groups in self.pending_offsets.values())

    def has_open_transactions(self, group_id: str) -> bool:
        """Return whether an open transaction has pending offsets for the group."""
        return any(group_id in groups for groups in self.pending_offsets.values())


_NO_VALUE = -1  # Kafka's number for a field that is not set


class OffsetToCommit(NamedTuple):
    """An offset in a commit request."""

    offset: int
    leader_epoch: int = _NO_VALUE
    metadata: str | None = None


class CommittedOffset(NamedTuple):
    """A committed offset in an OffsetFetch response; -1 if no offset is committed."""

    offset: int = _NO_VALUE
    leader_epoch: int = _NO_VALUE
    metadata: str = ""
    error: int = ErrorCode.NONE


@dataclass(slots=True)
class OffsetHandlers:
    """Handlers of the requests that commit, fetch and delete offsets.

    Attributes:
        groups: the coordinator's groups, by id. A commit without a member id creates the group.
        write: function that appends records of a group to the log, in a producer's transaction if a producer is given.
        partitions: function that returns the number of partitions of ``__consumer_offsets``.
    """

    clock: Clock
    settings: GroupSettings
    groups: dict[str, Group]
    write: Callable[[str, Sequence[Record], ProducerIdentity | None], None]
    partitions: Callable[[], int]
    store: OffsetStore = field(default_factory=OffsetStore)

    def commit(
        self,
        committer: OffsetClient,
        offsets: Mapping[TopicPartition, OffsetToCommit],
        *,
        retention_ms: int = _NO_VALUE,
    ) -> dict[TopicPartition, int]:
        """Commit offsets. Return an error code for each offset.

        Args:
            retention_ms: retention that the client requests (OffsetCommit 2 to 4); -1 for the broker's setting.
        """
        group = self._find_group_for_commit(committer)
        group.check_commit(committer, transactional=False)
        expire_ms = None if retention_ms == _NO_VALUE else self.clock.now_ms + retention_ms
        return self._store_offsets(group, offsets, expire_ms=expire_ms, producer=None)

    def commit_in_transaction(
        self, committer: OffsetClient, offsets: Mapping[TopicPartition, OffsetToCommit], producer: ProducerIdentity
    ) -> dict[TopicPartition, int]:
        """Add offsets to a producer's transaction. Return an error code for each offset."""
        try:
            group = self._find_group_for_commit(committer._replace(supports_epoch_errors=False))
            group.check_commit(committer, transactional=True)
        except RefusedError as error:
            if error.code == ErrorCode.STALE_MEMBER_EPOCH:
                raise RefusedError(ErrorCode.ILLEGAL_GENERATION) from None
            raise
        return self._store_offsets(group, offsets, expire_ms=None, producer=producer)

    def _find_group_for_commit(self, committer: OffsetClient) -> Group:
        """Return the group. A commit without a member id creates the group if it does not exist."""
        group = self.groups.get(committer.group_id)
        if group is None:
            if committer.generation >= 0:
                raise RefusedError(
                    ErrorCode.GROUP_ID_NOT_FOUND if committer.supports_epoch_errors else ErrorCode.ILLEGAL_GENERATION
                )
            group = ClassicGroup(committer.group_id)
        return group

    def _store_offsets(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, OffsetToCommit],
        *,
        expire_ms: int | None,
        producer: ProducerIdentity | None,
    ) -> dict[TopicPartition, int]:
        group_id, codes = group.group_id, dict[TopicPartition, int]()
        commits: dict[TopicPartition, OffsetCommit] = {}
        for partition, offset in offsets.items():
            metadata = offset.metadata or ""
            if len(metadata) > self.settings.offset_metadata_max_bytes:
                codes[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            codes[partition] = ErrorCode.NONE
            commits[partition] = OffsetCommit(
                offset.offset, offset.leader_epoch, metadata, self.clock.now_ms, expire_ms
            )
        if commits:
            rows = [records.build_commit_record(group_id, partition, commit) for partition, commit in commits.items()]
            self.write(group_id, rows, producer)
            transaction = None if producer is None else self.build_transaction_key(group_id, producer.producer_id)
            for partition, commit in commits.items():
                self.store.add_offset(group_id, partition, commit, transaction=transaction)
        self.groups.setdefault(group_id, group)  # the group is created even if all offsets were rejected
        return codes

    def build_transaction_key(self, group_id: str, producer_id: int) -> Transaction:
        """Return the key under which a producer's pending offsets of a group are stored."""
        return coordinator_partition(group_id, self.partitions()), producer_id

    def fetch(
        self, committer: OffsetClient, partitions: Iterable[TopicPartition] | None, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return committed offsets. A member of the group has to send its current epoch (STALE_MEMBER_EPOCH).

        Args:
            partitions: partitions to return; None for all partitions with a committed offset.
            require_stable: whether a partition with a pending offset of an open transaction is answered with
                UNSTABLE_OFFSET_COMMIT (KIP-447).
        """
        group = self.groups.get(committer.group_id)
        if group is not None:
            group.check_fetch(committer)
        offsets = self.store.group_offsets(committer.group_id)
        return {
            partition: self._fetch_offset(committer.group_id, partition, offsets.get(partition), require_stable)
            for partition in (offsets if partitions is None else partitions)
        }

    def _fetch_offset(
        self, group_id: str, partition: TopicPartition, commit: OffsetCommit | None, require_stable: bool
    ) -> CommittedOffset:
        if require_stable and self.store.is_unstable(group_id, partition):
            return CommittedOffset(error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return (
            CommittedOffset()
            if commit is None
            else CommittedOffset(commit.offset, commit.leader_epoch, commit.metadata)
        )

    def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Delete committed offsets, except offsets of subscribed topics. Return an error code for each partition."""
        group = self.groups.get(group_id)
        if group is None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_offset_delete()
        codes: dict[TopicPartition, int] = {
            partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if group.is_subscribed_to(partition.topic)
            else ErrorCode.NONE
            for partition in partitions
        }
        self._delete_offsets(group_id, [partition for partition, code in codes.items() if code == ErrorCode.NONE])
        return codes

    def _delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        stored_partitions = [partition for partition in partitions if partition in self.store.group_offsets(group_id)]
        if stored_partitions:
            self.write(
                group_id,
                [records.build_commit_record(group_id, partition, None) for partition in stored_partitions],
                None,
            )
            for partition in stored_partitions:
                self.store.remove(group_id, partition)

    def delete_topic_offsets(self, topic: str) -> None:
        """Delete the offsets of a deleted topic in all groups."""
        for group_id in list(self.store.offsets_by_group):
            self._delete_offsets(
                group_id, [partition for partition in self.store.group_offsets(group_id) if partition.topic == topic]
            )

    def build_tombstones(self, group_id: str) -> list[Record]:
        """Return the tombstones of all offsets of a group."""
        return [
            records.build_commit_record(group_id, partition, None) for partition in self.store.group_offsets(group_id)
        ]

    def expire(self, group: Group) -> bool:
        """Delete expired offsets. Return whether the group has neither committed nor pending offsets left."""
        retention_start = group.get_retention_start_function()
        if retention_start is None:
            return False
        group_id, expired_partitions = group.group_id, []
        for partition, commit in self.store.group_offsets(group_id).items():
            expire_ms = commit.expire_ms
            if expire_ms is None:
                expire_ms = retention_start(commit.commit_ms) + self.settings.offsets_retention_ms
            is_used = group.is_subscribed_to(partition.topic) or self.store.is_unstable(group_id, partition)
            if not is_used and self.clock.now_ms >= expire_ms:
                expired_partitions.append(partition)
        self._delete_offsets(group_id, expired_partitions)
        return not self.store.group_offsets(group_id) and not self.store.has_open_transactions(group_id)
