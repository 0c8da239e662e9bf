"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete on the groups of a coordinator, and what expires.

A commit must come from a member of the group's generation, or from nobody (no member id, generation -1) while the
group is empty: a consumer without a group, or an admin. A transaction may also commit from nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaframes.coordination.groups import records
from kafkaframes.coordination.groups.classic import ClassicGroup
from kafkaframes.coordination.groups.ports import Clock, Committer, Group, GroupSettings, ProducerIdentity, Record
from kafkaframes.coordination.groups.records import Commit
from kafkaframes.errors import ErrorCode, RefusedError
from kafkaframes.storage.files.names import TopicPartition, coordinator_partition

Offsets = dict[TopicPartition, Commit]


Transaction = tuple[int, int]  # the partition of __consumer_offsets, and the producer id


@dataclass(slots=True)
class OffsetStore:
    """Offsets by group and partition (OffsetMetadataManager).

    What a transaction commits is staged under its producer id until its marker comes: then it counts, or is forgotten.

    Attributes:
        committed: what a fetch answers.
        staged: what open transactions will commit, by transaction and group.
    """

    committed: dict[str, Offsets] = field(default_factory=dict)
    staged: dict[Transaction, dict[str, Offsets]] = field(default_factory=dict)
    _written: int = 0

    def put(
        self, group_id: str, where: TopicPartition, commit: Commit, *, transaction: Transaction | None = None
    ) -> None:
        """Note a commit; one of a transaction waits for its end."""
        self._written += 1
        target = self.committed if transaction is None else self.staged.setdefault(transaction, {})
        target.setdefault(group_id, {})[where] = commit._replace(order=self._written)

    def remove(self, group_id: str, where: TopicPartition) -> None:
        """Forget a commit."""
        mine = self.committed.get(group_id)
        if mine is not None and mine.pop(where, None) is not None and not mine:
            del self.committed[group_id]

    def remove_group(self, group_id: str) -> None:
        """Forget everything of a group, what transactions have staged for it too."""
        self.committed.pop(group_id, None)
        for groups in self.staged.values():
            groups.pop(group_id, None)

    def of_group(self, group_id: str) -> Offsets:
        """Return what a group has committed."""
        return self.committed.get(group_id, {})

    def end_transaction(self, transaction: Transaction, *, commit: bool) -> None:
        """End a transaction; of two commits for a partition, the one that was written later counts."""
        ended = self.staged.pop(transaction, {})
        for group_id, offsets in ended.items() if commit else ():
            mine = self.committed.setdefault(group_id, {})
            for where, staged in offsets.items():
                if where not in mine or mine[where].order < staged.order:
                    mine[where] = staged

    def is_unstable(self, group_id: str, where: TopicPartition) -> bool:
        """Whether an open transaction has staged an offset for the partition."""
        return any(where in groups.get(group_id, ()) for groups in self.staged.values())

    def has_open_transactions(self, group_id: str) -> bool:
        """Whether an open transaction has staged anything for the group."""
        return any(group_id in groups for groups in self.staged.values())


_NONE = -1


class Offset(NamedTuple):
    """One offset of a commit request; without metadata it is empty."""

    offset: int
    leader_epoch: int = _NONE
    metadata: str | None = None


class Fetched(NamedTuple):
    """One offset of a fetch response; -1 where nothing is committed."""

    offset: int = _NONE
    leader_epoch: int = _NONE
    metadata: str = ""
    error: int = ErrorCode.NONE


@dataclass(slots=True)
class Commits:
    """The rules of offsets.

    Attributes:
        groups: the coordinator's, by id; a commit from nobody makes a group.
        write: puts records of a group into the log, as part of a producer's transaction if one is given.
        partitions: how many partitions the log has.
    """

    clock: Clock
    settings: GroupSettings
    groups: dict[str, Group]
    write: Callable[[str, Sequence[Record], ProducerIdentity | None], None]
    partitions: Callable[[], int]
    store: OffsetStore = field(default_factory=OffsetStore)

    def commit(
        self, committer: Committer, offsets: Mapping[TopicPartition, Offset], *, retention_ms: int = _NONE
    ) -> dict[TopicPartition, int]:
        """Commit offsets; return an error code for each.

        Args:
            retention_ms: the client's own wish (OffsetCommit 2 to 4); -1 for the broker's.
        """
        group = self._group_of(committer)
        group.check_commit(committer, transactional=False)
        expire_ms = None if retention_ms == _NONE else self.clock.now_ms + retention_ms
        return self._put(group, offsets, expire_ms=expire_ms, producer=None)

    def commit_in_transaction(
        self, committer: Committer, offsets: Mapping[TopicPartition, Offset], producer: ProducerIdentity
    ) -> dict[TopicPartition, int]:
        """Stage offsets in a producer's transaction; return an error code for each."""
        try:
            group = self._group_of(committer._replace(supports_epoch_errors=False))
            group.check_commit(committer, transactional=True)
        except RefusedError as refused:
            if refused.code == ErrorCode.STALE_MEMBER_EPOCH:
                raise RefusedError(ErrorCode.ILLEGAL_GENERATION) from None
            raise
        return self._put(group, offsets, expire_ms=None, producer=producer)

    def _group_of(self, committer: Committer) -> Group:
        """Return the group; one is made for somebody who commits without membership."""
        group = self.groups.get(committer.group_id)
        if group is None:
            if committer.generation >= 0:
                raise RefusedError(
                    ErrorCode.GROUP_ID_NOT_FOUND if committer.supports_epoch_errors else ErrorCode.ILLEGAL_GENERATION
                )
            group = ClassicGroup(committer.group_id)
        return group

    def _put(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, Offset],
        *,
        expire_ms: int | None,
        producer: ProducerIdentity | None,
    ) -> dict[TopicPartition, int]:
        group_id, codes = group.group_id, dict[TopicPartition, int]()
        commits: dict[TopicPartition, Commit] = {}
        for where, offset in offsets.items():
            metadata = offset.metadata or ""
            if len(metadata) > self.settings.offset_metadata_max_bytes:
                codes[where] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            codes[where] = ErrorCode.NONE
            commits[where] = Commit(offset.offset, offset.leader_epoch, metadata, self.clock.now_ms, expire_ms)
        if commits:
            rows = [records.commit_record(group_id, where, commit) for where, commit in commits.items()]
            self.write(group_id, rows, producer)
            transaction = None if producer is None else self.transaction_of(group_id, producer.producer_id)
            for where, commit in commits.items():
                self.store.put(group_id, where, commit, transaction=transaction)
        self.groups.setdefault(group_id, group)  # there is a group, be no offset of it taken
        return codes

    def transaction_of(self, group_id: str, producer_id: int) -> Transaction:
        """Return under what a producer's offsets of a group are staged."""
        return coordinator_partition(group_id, self.partitions()), producer_id

    def fetch(
        self, committer: Committer, partitions: Iterable[TopicPartition] | None, *, require_stable: bool = False
    ) -> dict[TopicPartition, Fetched]:
        """Return committed offsets, for a member of the group's epoch; of every partition if ``partitions`` is None.

        Args:
            require_stable: answer UNSTABLE_OFFSET_COMMIT where an open transaction has staged an offset (KIP-447).
        """
        group = self.groups.get(committer.group_id)
        if group is not None:
            group.check_fetch(committer)
        offsets = self.store.of_group(committer.group_id)
        return {
            where: self._fetched(committer.group_id, where, offsets.get(where), require_stable)
            for where in (offsets if partitions is None else partitions)
        }

    def _fetched(self, group_id: str, where: TopicPartition, commit: Commit | None, require_stable: bool) -> Fetched:
        if require_stable and self.store.is_unstable(group_id, where):
            return Fetched(error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return Fetched() if commit is None else Fetched(commit.offset, commit.leader_epoch, commit.metadata)

    def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Delete committed offsets, where the group lets them go; return an error code for each."""
        group = self.groups.get(group_id)
        if group is None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_offset_delete()
        codes: dict[TopicPartition, int] = {
            where: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(where.topic) else ErrorCode.NONE
            for where in partitions
        }
        self._forget(group_id, [where for where, code in codes.items() if code == ErrorCode.NONE])
        return codes

    def _forget(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        known = [where for where in partitions if where in self.store.of_group(group_id)]
        if known:
            self.write(group_id, [records.commit_record(group_id, where, None) for where in known], None)
            for where in known:
                self.store.remove(group_id, where)

    def forget_topic(self, topic: str) -> None:
        """Delete the offsets of a topic that is deleted, in every group."""
        for group_id in list(self.store.committed):
            self._forget(group_id, [where for where in self.store.of_group(group_id) if where.topic == topic])

    def tombstones(self, group_id: str) -> list[Record]:
        """Return the records that end all offsets of a group."""
        return [records.commit_record(group_id, where, None) for where in self.store.of_group(group_id)]

    def expire(self, group: Group) -> bool:
        """Delete what has outlived its retention; return whether nothing is left of the group's offsets."""
        ages_from = group.retention_start()
        if ages_from is None:
            return False
        group_id, expired = group.group_id, []
        for where, commit in self.store.of_group(group_id).items():
            expire_ms = commit.expire_ms
            if expire_ms is None:
                expire_ms = ages_from(commit.commit_ms) + self.settings.offsets_retention_ms
            is_used = group.is_subscribed_to(where.topic) or self.store.is_unstable(group_id, where)
            if not is_used and self.clock.now_ms >= expire_ms:
                expired.append(where)
        self._forget(group_id, expired)
        return not self.store.of_group(group_id) and not self.store.has_open_transactions(group_id)
