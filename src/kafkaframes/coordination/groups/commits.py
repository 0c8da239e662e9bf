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
from kafkaframes.coordination.groups.membership import Committer, Group
from kafkaframes.coordination.groups.offsets import OffsetStore, Transaction
from kafkaframes.coordination.groups.ports import Clock, Record
from kafkaframes.coordination.groups.records import Commit
from kafkaframes.coordination.groups.settings import GroupSettings
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode
from kafkaframes.storage.files.names import TopicPartition, coordinator_partition

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


class Producer(NamedTuple):
    """Whose transaction commits offsets."""

    producer_id: int
    producer_epoch: int


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
    write: Callable[[str, Sequence[Record], Producer | None], None]
    partitions: Callable[[], int]
    store: OffsetStore = field(default_factory=OffsetStore)

    # ---------------------------------------------------------------------------------------------- committing

    def commit(
        self, who: Committer, offsets: Mapping[TopicPartition, Offset], *, retention_ms: int = _NONE
    ) -> dict[TopicPartition, int]:
        """Commit offsets; return an error code for each.

        Args:
            retention_ms: the client's own wish (OffsetCommit 2 to 4); -1 for the broker's.

        Raises:
            RefusedError: the whole commit is refused.
            KafkaframesError: the log did not take it.
        """
        group = self._group_of(who)
        group.check_commit(who, transactional=False)
        expire_ms = None if retention_ms == _NONE else self.clock.now_ms + retention_ms
        return self._put(group, offsets, expire_ms=expire_ms, producer=None)

    def commit_in_transaction(
        self, who: Committer, offsets: Mapping[TopicPartition, Offset], producer: Producer
    ) -> dict[TopicPartition, int]:
        """Stage offsets in a producer's transaction; return an error code for each.

        Raises:
            RefusedError: the whole commit is refused.
            KafkaframesError: the log did not take it.
        """
        try:
            group = self._group_of(who._replace(knows_epochs=False))
            group.check_commit(who, transactional=True)
        except RefusedError as refused:
            if refused.code == ErrorCode.STALE_MEMBER_EPOCH:
                raise RefusedError(ErrorCode.ILLEGAL_GENERATION) from None
            raise
        return self._put(group, offsets, expire_ms=None, producer=producer)

    def _group_of(self, who: Committer) -> Group:
        """Return the group; one is made for somebody who commits without membership."""
        group = self.groups.get(who.group_id)
        if group is None:
            if who.generation >= 0:
                raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND if who.knows_epochs else ErrorCode.ILLEGAL_GENERATION)
            group = ClassicGroup(who.group_id)
        return group

    def _put(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, Offset],
        *,
        expire_ms: int | None,
        producer: Producer | None,
    ) -> dict[TopicPartition, int]:
        group_id, codes = group.group_id, dict[TopicPartition, int]()
        commits: dict[TopicPartition, Commit] = {}
        for where, one in offsets.items():
            metadata = one.metadata or ""
            if len(metadata) > self.settings.offset_metadata_max_bytes:
                codes[where] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            codes[where] = ErrorCode.NONE
            commits[where] = Commit(one.offset, one.leader_epoch, metadata, self.clock.now_ms, expire_ms)
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

    # ---------------------------------------------------------------------------------------------- fetching

    def fetch(
        self, who: Committer, wanted: Iterable[TopicPartition] | None, *, require_stable: bool = False
    ) -> dict[TopicPartition, Fetched]:
        """Return committed offsets; of every partition if ``wanted`` is None.

        Args:
            require_stable: answer UNSTABLE_OFFSET_COMMIT where an open transaction has staged an offset (KIP-447).

        Raises:
            RefusedError: who asks is no member of the group's epoch.
        """
        group = self.groups.get(who.group_id)
        if group is not None:
            group.check_fetch(who)
        offsets = self.store.of_group(who.group_id)
        return {
            where: self._fetched(who.group_id, where, offsets.get(where), require_stable)
            for where in (offsets if wanted is None else wanted)
        }

    def _fetched(self, group_id: str, where: TopicPartition, commit: Commit | None, require_stable: bool) -> Fetched:
        if require_stable and self.store.is_unstable(group_id, where):
            return Fetched(error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return Fetched() if commit is None else Fetched(commit.offset, commit.leader_epoch, commit.metadata)

    # ---------------------------------------------------------------------------------------------- deleting

    def delete(self, group_id: str, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Delete committed offsets; return an error code for each.

        Raises:
            RefusedError: there is no such group, or it may not be touched.
            KafkaframesError: the log did not take it.
        """
        group = self.groups.get(group_id)
        if group is None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_offset_delete()
        codes: dict[TopicPartition, int] = {
            where: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(where.topic) else ErrorCode.NONE
            for where in wanted
        }
        self._forget(group_id, [where for where, code in codes.items() if code == ErrorCode.NONE])
        return codes

    def _forget(self, group_id: str, wanted: Iterable[TopicPartition]) -> None:
        known = [where for where in wanted if where in self.store.of_group(group_id)]
        if known:
            self.write(group_id, [records.commit_record(group_id, where, None) for where in known], None)
            for where in known:
                self.store.remove(group_id, where)

    def forget_topic(self, topic: str) -> None:
        """Delete the offsets of a topic that is deleted, in every group.

        Raises:
            KafkaframesError: the log did not take it.
        """
        for group_id in list(self.store.committed):
            self._forget(group_id, [where for where in self.store.of_group(group_id) if where.topic == topic])

    def tombstones(self, group_id: str) -> list[Record]:
        """Return the records that end all offsets of a group."""
        return [records.commit_record(group_id, where, None) for where in self.store.of_group(group_id)]

    def expire(self, group: Group) -> bool:
        """Delete what has outlived its retention; return whether nothing is left of the group's offsets.

        Raises:
            KafkaframesError: the log did not take it.
        """
        ages_from = group.offsets_age_from()
        if ages_from is None:
            return False
        expired = self.store.expired(
            group.group_id,
            since_ms=lambda commit: ages_from(commit.commit_ms),
            is_subscribed=group.is_subscribed_to,
            now_ms=self.clock.now_ms,
            retention_ms=self.settings.offsets_retention_ms,
        )
        self._forget(group.group_id, list(expired))
        return not self.store.of_group(group.group_id) and not self.store.has_open_transactions(group.group_id)
