"""The virtual nodes of a broker: numbers, addresses, which replicas a partition has, who is to lead it.

One process serves them all, and every partition has one log: its replicas are all in sync as long as they are up.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkaframes.broker.topics import Partition


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
        rack: as ``broker.rack``.
        is_up: it answers; a node that is down refuses connections and leads nothing.
    """

    node_id: int
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    rack: str | None = None
    is_up: bool = True


@dataclass(slots=True)
class Nodes:
    """All nodes, by number.

    Attributes:
        coordinators: groups and transactional ids that a test has moved, by (kind, key).
    """

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

        Nodes take turns, from one that the topic's name decides; those that are down come last (StripedReplicaPlacer).
        """
        if len(self.by_id) == 1:
            return tuple(self.by_id)
        turn = zlib.crc32(topic.encode()) + index
        up = self.ids
        down = [number for number in self.by_id if number not in up]
        return (*_rotated(up, turn), *_rotated(down, turn))[:factor]

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
