"""Topics, partitions, and the virtual nodes of a broker.

One process serves all nodes, and each partition has one log. All replicas on running nodes are therefore in sync.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kafkaframes.errors.words import count_text
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.partition import PartitionLog
from kafkaframes.storage.partition.state import UNDEFINED_OFFSET, EpochEnd

GROUP_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
Replicas = Sequence[tuple[int, ...]]  # node ids for each partition, preferred leader first
INTERNAL_TOPICS = (GROUP_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)


@dataclass(slots=True, eq=False, repr=False)
class Partition:
    """A partition: its log, its leader and replicas, and the requests that wait for changes.

    Attributes:
        replicas: node ids of the replicas, preferred leader first. All replicas share one log.
        in_sync: node ids of the in-sync replicas (ISR). The last replica stays in the ISR when its node stops.
        leader_epoch: number that grows with each change of leader and is written into batches of format 2.
        waiting: callbacks by waiter, called after an append, a change of the last stable offset, or the deletion.
        is_offline: whether the partition is deleted, or its disk has failed.
        min_insync_replicas: ``min.insync.replicas``. If the ISR is smaller, the partition rejects Produce requests with
            acks=all unless all replicas are in sync.
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
        """Start with all replicas in sync and the preferred leader."""
        self.in_sync, self.leader_id = self.replicas, self.replicas[0]

    def __repr__(self) -> str:
        """Return one line: name, log end offset and leader."""
        return f"<Partition {self.topic_partition}: end offset {self.log.log_end_offset}, leader {self.leader_id}>"

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the partition rejects Produce requests with acks=all.

        If a partition has fewer replicas than ``min.insync.replicas``, all replicas must be in sync.
        """
        return len(self.in_sync) < min(self.min_insync_replicas, len(self.replicas))

    def add_to_isr(self, node_id: int) -> None:
        """Add a node to the ISR. If the node is not a replica yet, it replaces the leader in the replica list."""
        if node_id not in self.replicas:
            self.replicas = tuple(node_id if replica == self.leader_id else replica for replica in self.replicas)
            self.in_sync = tuple(replica for replica in self.in_sync if replica in self.replicas)
        self.in_sync = tuple(replica for replica in self.replicas if replica == node_id or replica in self.in_sync)

    @property
    def index(self) -> int:
        """The partition's number in its topic."""
        return self.topic_partition.partition

    def find_epoch_end_offset(self, leader_epoch: int) -> EpochEnd:
        """Return the end offset of a leader epoch. The current epoch is included even if it has no records."""
        epochs, end = self.log.epochs, self.log.log_end_offset
        if not epochs.entries and UNDEFINED_OFFSET != leader_epoch <= self.leader_epoch:
            return EpochEnd(leader_epoch, end)
        return epochs.end_offset_for(leader_epoch, log_end_offset=end)

    def notify(self) -> None:
        """Call all waiting callbacks."""
        if self.waiting:
            for call in tuple(self.waiting.values()):
                call()


@dataclass(slots=True, eq=False, repr=False)
class Topic:
    """A topic: its id, its own settings, and its partitions in order of their number."""

    name: str
    topic_id: UUID
    configs: dict[str, str] = field(default_factory=dict)
    partitions: list[Partition] = field(default_factory=list)

    def __repr__(self) -> str:
        """Return one line: name and number of partitions."""
        return f"<Topic {self.name}: {count_text(len(self.partitions), 'partition')}>"

    @property
    def is_internal(self) -> bool:
        """Whether the topic is internal to a coordinator."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """Return a partition by its number; None if it does not exist."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An advertised address."""

    host: str
    port: int


@dataclass(slots=True)
class Node:
    """A virtual node of the embedded broker. Clients see a cluster, although all nodes share a process and a disk.

    Attributes:
        endpoints: advertised addresses by listener name.
        is_up: whether the node is running. A stopped node rejects connections and leads no partitions.
    """

    node_id: int
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    rack: str | None = None
    is_up: bool = True


@dataclass(slots=True)
class Nodes:
    """A broker's virtual nodes by id; ``coordinators`` has the new node ids of moved coordinators, by type and key."""

    by_id: dict[int, Node] = field(default_factory=lambda: {1: Node(1)})
    coordinators: dict[tuple[int, str], int] = field(default_factory=dict)

    @property
    def ids(self) -> list[int]:
        """The ids of the running nodes."""
        return [node.node_id for node in self.by_id.values() if node.is_up]

    @property
    def has_racks(self) -> bool:
        """Whether a node has a rack, so that consumers may read from a follower (KIP-392)."""
        return any(node.rack for node in self.by_id.values())

    def choose_read_replica(self, partition: Partition, rack: str) -> int | None:
        """Return the preferred read replica if it is not the leader (Kafka's RackAwareReplicaSelector)."""
        same_rack_replicas = [
            number for number in sorted(partition.in_sync) if rack and self.by_id[number].rack == rack
        ]
        return None if not same_rack_replicas or partition.leader_id in same_rack_replicas else same_rack_replicas[0]

    @property
    def controller_id(self) -> int:
        """The lowest id of a running node; -1 if all nodes are stopped."""
        return min(self.ids, default=-1)

    def choose_replicas(self, topic: str, index: int, factor: int) -> tuple[int, ...]:
        """Return the replicas of a new partition, preferred leader first.

        Nodes are assigned round-robin, and the topic's name decides the first node. Replicas are in as many racks as
        possible. Stopped nodes are last (StripedReplicaPlacer).
        """
        if len(self.by_id) == 1:
            return tuple(self.by_id)
        turn = zlib.crc32(topic.encode()) + index
        running_nodes = self.ids
        stopped_nodes = [number for number in self.by_id if number not in running_nodes]
        if self.has_racks:
            nodes = self._spread_over_racks(_rotate_numbers(self._alternate_racks(running_nodes), turn))
        else:
            nodes = _rotate_numbers(running_nodes, turn)
        return (*nodes, *_rotate_numbers(stopped_nodes, turn))[:factor]

    def _alternate_racks(self, numbers: Sequence[int]) -> list[int]:
        """Order nodes so that neighbours are in different racks if possible. The first node of each rack is first."""
        rank_in_rack: Counter[str] = Counter()
        ranks = {}
        for number in numbers:
            rack = self.by_id[number].rack or ""
            ranks[number] = rank_in_rack[rack], rack
            rank_in_rack[rack] += 1
        return sorted(numbers, key=ranks.__getitem__)

    def _spread_over_racks(self, numbers: Sequence[int]) -> Sequence[int]:
        """Move the first node of each rack to the front; the order is otherwise unchanged."""
        racks: set[str | None] = set()
        first_nodes = []
        for number in numbers:
            rack = self.by_id[number].rack
            if rack not in racks:
                racks.add(rack)
                first_nodes.append(number)
        return [*first_nodes, *(number for number in numbers if number not in first_nodes)]

    def are_valid_replicas(self, numbers: Sequence[int]) -> bool:
        """Return whether node ids are valid replicas of a partition: at least one, existing, without duplicates."""
        return 0 < len(numbers) == len(set(numbers)) and self.by_id.keys() >= set(numbers)

    def elect_leader(self, partition: Partition) -> None:
        """Elect the first replica on a running node as leader, and remove stopped nodes from the ISR."""
        running_ids = tuple(number for number in partition.replicas if self.by_id[number].is_up)
        partition.in_sync = running_ids or partition.replicas[:1]
        partition.leader_id = partition.in_sync[0]

    def is_led(self, partition: Partition) -> bool:
        """Return whether the leader's node is running."""
        leader = self.by_id.get(partition.leader_id)
        return leader is not None and leader.is_up

    def coordinator_of(self, kind: int, key: str) -> Node | None:
        """Return the coordinator of a group (0), a transactional id (1) or a share group (2); None if all are stopped.

        If the node is stopped, the next running node is used. The coordinators of other keys do not change.
        """
        coordinator_node = self.coordinators.get((kind, key))
        if coordinator_node is not None and self.by_id[coordinator_node].is_up:
            return self.by_id[coordinator_node]
        rotated_ids = _rotate_numbers(list(self.by_id), zlib.crc32(key.encode()))
        return next((self.by_id[number] for number in rotated_ids if self.by_id[number].is_up), None)

    def get_endpoint(self, node: Node, listener: str) -> Endpoint:
        """Return the advertised address of a node for clients of a listener."""
        return node.endpoints.get(listener) or next(iter(node.endpoints.values()), Endpoint("", -1))


def _rotate_numbers(numbers: Sequence[int], turn: int) -> Sequence[int]:
    """Rotate numbers to the left by ``turn`` positions.

    >>> _rotate_numbers([1, 2, 3], 4)
    [2, 3, 1]
    """
    first = turn % len(numbers) if numbers else 0
    return [*numbers[first:], *numbers[:first]]
