"""The committed offsets of all groups: kept, staged by transactions, expired (OffsetMetadataManager).

What a transaction commits is staged under its producer id until its marker comes: then it counts, or is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kafkaframes.coordination.groups.records import Commit
from kafkaframes.storage.files.names import TopicPartition

Offsets = dict[TopicPartition, Commit]


Transaction = tuple[int, int]  # the partition of __consumer_offsets, and the producer id


@dataclass(slots=True)
class OffsetStore:
    """Offsets by group and partition.

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

    def expired(
        self,
        group_id: str,
        *,
        since_ms: Callable[[Commit], int],
        is_subscribed: Callable[[str], bool],
        now_ms: int,
        retention_ms: int,
    ) -> Iterator[TopicPartition]:
        """Yield the partitions whose offsets have outlived their retention.

        Args:
            since_ms: from when on a commit ages.
            is_subscribed: offsets of topics that are read never expire.
        """
        for where, commit in self.of_group(group_id).items():
            if is_subscribed(where.topic) or self.is_unstable(group_id, where):
                continue
            if commit.expire_ms is not None:
                is_over = now_ms >= commit.expire_ms
            else:
                is_over = now_ms - since_ms(commit) >= retention_ms
            if is_over:
                yield where
