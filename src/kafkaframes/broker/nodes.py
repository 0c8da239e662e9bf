"""The virtual nodes of a broker: numbers, addresses, who leads what. One process serves them all."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address as clients are told it."""

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
        """Whether consumers may read from another node than the leader (KIP-392); each has all records then."""
        return any(node.rack for node in self.by_id.values())

    def replicas_of(self, leader_id: int) -> list[int]:
        """Return the nodes that a partition may be read from, its leader first."""
        return [leader_id, *(number for number in self.by_id if number != leader_id and self.has_racks)]

    def preferred_replica(self, leader_id: int, rack: str) -> int | None:
        """Return the node to read from instead of the leader, as Kafka's RackAwareReplicaSelector chooses."""
        same = [number for number in self.ids if rack and self.by_id[number].rack == rack]
        return None if not same or leader_id in same else same[0]

    @property
    def controller_id(self) -> int:
        """The lowest of them."""
        return min(self.ids, default=-1)

    def leader_of(self, topic: str, index: int) -> int:
        """Return which node is to lead a new partition: they take turns, from one that the topic's name decides."""
        ids = self.ids or list(self.by_id)
        return ids[(zlib.crc32(topic.encode()) + index) % len(ids)] if len(ids) > 1 else ids[0]

    def coordinator_of(self, kind: int, key: str) -> Node | None:
        """Return the coordinator of a group (0), a transactional id (1) or a share group (2); None if all are down."""
        ids = self.ids
        chosen = self.coordinators.get((kind, key))
        if chosen is not None and chosen in ids:
            return self.by_id[chosen]
        return self.by_id[ids[zlib.crc32(key.encode()) % len(ids)]] if ids else None

    def endpoint(self, node: Node, listener: str) -> Endpoint:
        """Return the address of a node for clients that came by a listener."""
        return node.endpoints.get(listener) or next(iter(node.endpoints.values()), Endpoint("", -1))
