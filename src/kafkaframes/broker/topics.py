"""Topics and partitions, and the virtual nodes that have their replicas.

One process serves all nodes, and every partition has one log: its replicas are all in sync as long as they are up.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kafkaframes.broker.rules import count_of
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.partition import PartitionLog
from kafkaframes.storage.partition.state import UNDEFINED, EpochEnd

GROUP_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
Replicas = Sequence[tuple[int, ...]]  # nodes of each of some partitions, the preferred leader first
INTERNAL_TOPICS = (GROUP_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)


@dataclass(slots=True, eq=False, repr=False)
class Partition:
    """One partition: its log, who leads it, and who waits for it to change.

    Attributes:
        replicas: the nodes that have it, the preferred leader first; all of them on the one log.
        in_sync: those of them that were up with a leader (ISR); the last one stays.
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

    def __repr__(self) -> str:
        """Return one line: name, log end offset and leader."""
        return f"<Partition {self.topic_partition}: end offset {self.log.log_end_offset}, leader {self.leader_id}>"

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
        epochs, end = self.log.epochs, self.log.log_end_offset
        if not epochs.entries and UNDEFINED != leader_epoch <= self.leader_epoch:
            return EpochEnd(leader_epoch, end)
        return epochs.end_offset_for(leader_epoch, log_end_offset=end)

    def notify(self) -> None:
        """Wake all who wait."""
        if self.waiting:
            for call in tuple(self.waiting.values()):
                call()


@dataclass(slots=True, eq=False, repr=False)
class Topic:
    """A topic: its id, its own settings and its partitions, by number."""

    name: str
    topic_id: UUID
    configs: dict[str, str] = field(default_factory=dict)
    partitions: list[Partition] = field(default_factory=list)

    def __repr__(self) -> str:
        """Return one line: name and number of partitions."""
        return f"<Topic {self.name}: {count_of(len(self.partitions), 'partition')}>"

    @property
    def is_internal(self) -> bool:
        """Whether it is a coordinator's."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """Return a partition by its number; None if there is none."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address as clients get it."""

    host: str
    port: int


@dataclass(slots=True)
class Node:
    """One virtual node.

    Attributes:
        endpoints: its addresses, by the name of the listener.
        is_up: it answers; a node that is down refuses connections and leads nothing.
    """

    node_id: int
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    rack: str | None = None
    is_up: bool = True


@dataclass(slots=True)
class Nodes:
    """All nodes, by number; and the ``coordinators`` that a test has moved, by kind and key."""

    by_id: dict[int, Node] = field(default_factory=lambda: {1: Node(1)})
    coordinators: dict[tuple[int, str], int] = field(default_factory=dict)

    @property
    def ids(self) -> list[int]:
        """The numbers of the nodes that are up."""
        return [node.node_id for node in self.by_id.values() if node.is_up]

    @property
    def has_racks(self) -> bool:
        """Whether consumers may read from another replica than the leader (KIP-392)."""
        return any(node.rack for node in self.by_id.values())

    def read_replica(self, partition: Partition, rack: str) -> int | None:
        """Return the replica to read from instead of the leader, as Kafka's RackAwareReplicaSelector chooses."""
        same = [number for number in sorted(partition.in_sync) if rack and self.by_id[number].rack == rack]
        return None if not same or partition.leader_id in same else same[0]

    @property
    def controller_id(self) -> int:
        """The lowest of them."""
        return min(self.ids, default=-1)

    def replicas_for(self, topic: str, index: int, factor: int) -> tuple[int, ...]:
        """Return the replicas of a new partition, the preferred leader first.

        Nodes take turns, starting with a node that the topic's name decides. Replicas are in as many racks as possible.
        Nodes that are down come last (StripedReplicaPlacer).
        """
        if len(self.by_id) == 1:
            return tuple(self.by_id)
        turn = zlib.crc32(topic.encode()) + index
        up = self.ids
        down = [number for number in self.by_id if number not in up]
        if self.has_racks:
            nodes = self._spread_over_racks(_rotated(self._alternate_racks(up), turn))
        else:
            nodes = _rotated(up, turn)
        return (*nodes, *_rotated(down, turn))[:factor]

    def _alternate_racks(self, numbers: Sequence[int]) -> list[int]:
        """Return nodes so that neighbours are in different racks, as far as possible: the first of each rack first."""
        rank_in_rack: Counter[str] = Counter()
        ranks = {}
        for number in numbers:
            rack = self.by_id[number].rack or ""
            ranks[number] = rank_in_rack[rack], rack
            rank_in_rack[rack] += 1
        return sorted(numbers, key=ranks.__getitem__)

    def _spread_over_racks(self, numbers: Sequence[int]) -> Sequence[int]:
        """Return nodes with the first one of each rack first, otherwise in the same order."""
        racks: set[str | None] = set()
        firsts = []
        for number in numbers:
            rack = self.by_id[number].rack
            if rack not in racks:
                racks.add(rack)
                firsts.append(number)
        return [*firsts, *(number for number in numbers if number not in firsts)]

    def are_replicas(self, numbers: Sequence[int]) -> bool:
        """Return whether numbers can be the replicas of a partition: nodes that there are, each once, at least one."""
        return 0 < len(numbers) == len(set(numbers)) and self.by_id.keys() >= set(numbers)

    def let_lead(self, partition: Partition) -> None:
        """Let a partition be led by its first replica that is up; those that are down are not in sync."""
        up = tuple(number for number in partition.replicas if self.by_id[number].is_up)
        partition.in_sync = up or partition.replicas[:1]
        partition.leader_id = partition.in_sync[0]

    def is_led(self, partition: Partition) -> bool:
        """Return whether the leader of a partition is up."""
        leader = self.by_id.get(partition.leader_id)
        return leader is not None and leader.is_up

    def coordinator_of(self, kind: int, key: str) -> Node | None:
        """Return the coordinator of a group (0), a transactional id (1) or a share group (2); None if all are down.

        While a node is down the next one coordinates in its place; what others coordinate stays with them.
        """
        chosen = self.coordinators.get((kind, key))
        if chosen is not None and self.by_id[chosen].is_up:
            return self.by_id[chosen]
        in_turn = _rotated(list(self.by_id), zlib.crc32(key.encode()))
        return next((self.by_id[number] for number in in_turn if self.by_id[number].is_up), None)

    def endpoint(self, node: Node, listener: str) -> Endpoint:
        """Return the address of a node for clients that came by a listener."""
        return node.endpoints.get(listener) or next(iter(node.endpoints.values()), Endpoint("", -1))


def _rotated(numbers: Sequence[int], turn: int) -> Sequence[int]:
    """Return numbers in their order, from another one on.

    >>> _rotated([1, 2, 3], 4)
    [2, 3, 1]
    """
    first = turn % len(numbers) if numbers else 0
    return [*numbers[first:], *numbers[:first]]
