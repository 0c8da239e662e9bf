"""Topics and partitions, as the broker holds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.partition import PartitionLog
from kafkaframes.storage.partition.epochs import UNDEFINED, EpochEnd

GROUP_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
Replicas = Sequence[tuple[int, ...]]  # nodes of each of some partitions, the preferred leader first
INTERNAL_TOPICS = (GROUP_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)


@dataclass(slots=True, eq=False)
class Partition:
    """One partition: its log, who leads it, and who waits for it to change.

    Attributes:
        log: its log.
        replicas: the nodes that have it, the preferred leader first; all of them on the one log.
        in_sync: those of them that were up with a leader (ISR); the last one stays.
        leader_id: the node that leads it, if it is up.
        leader_epoch: grows with each change of leader; written into batches of format 2.
        waiting: called when something was appended, its last stable offset moved, or it went.
        is_offline: deleted, or its disk has failed.
        min_insync_replicas: ``min.insync.replicas``; with fewer in sync, acks=all is refused, unless all replicas are.
        may_down_convert: ``message.downconversion.enable``.
    """

    topic_partition: TopicPartition
    log: PartitionLog
    replicas: tuple[int, ...] = (1,)
    in_sync: tuple[int, ...] = field(init=False)
    leader_id: int = field(init=False)
    leader_epoch: int = 0
    waiting: dict[object, Callable[[], None]] = field(default_factory=dict)
    is_offline: bool = False
    min_insync_replicas: int = 1
    may_down_convert: bool = True

    def __post_init__(self) -> None:
        """Begin with every replica in sync, led by the preferred one."""
        self.in_sync, self.leader_id = self.replicas, self.replicas[0]

    @property
    def is_under_min_isr(self) -> bool:
        """Whether acks=all is refused; all replicas are enough, where there are fewer than the minimum."""
        return len(self.in_sync) < min(self.min_insync_replicas, len(self.replicas))

    def take_in(self, node_id: int) -> None:
        """Let a node have a replica in sync; one that has none gets the leader's."""
        if node_id not in self.replicas:
            self.replicas = tuple(node_id if one == self.leader_id else one for one in self.replicas)
            self.in_sync = tuple(one for one in self.in_sync if one in self.replicas)
        self.in_sync = tuple(one for one in self.replicas if one == node_id or one in self.in_sync)

    @property
    def index(self) -> int:
        """The partition's number in its topic."""
        return self.topic_partition.partition

    def end_of_epoch(self, leader_epoch: int) -> EpochEnd:
        """Return where a leader epoch ends; that of the leader has begun, even without a record."""
        epochs, end = self.log.leader_epochs, self.log.log_end_offset
        if not epochs.entries and UNDEFINED != leader_epoch <= self.leader_epoch:
            return EpochEnd(leader_epoch, end)
        return epochs.end_offset_for(leader_epoch, log_end_offset=end)

    def notify(self) -> None:
        """Wake all who wait."""
        if self.waiting:
            for call in tuple(self.waiting.values()):
                call()


@dataclass(slots=True, eq=False)
class Topic:
    """A topic: its id, its own settings and its partitions, by number."""

    name: str
    topic_id: UUID
    configs: dict[str, str] = field(default_factory=dict)
    partitions: list[Partition] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        """Whether it is a coordinator's."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """Return a partition by its number; None if there is none."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None
