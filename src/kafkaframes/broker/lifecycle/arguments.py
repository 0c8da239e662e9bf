"""Types for the structured arguments of ``Broker``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from kafkaframes.errors import OptionError

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True, slots=True)
class ServedLogs:
    """Log directories and tiered stores that a broker serves read-only.

    Attributes:
        paths: log directories and tiered stores: one path, or several. Copies of a partition are served as one log.
        replicas: policy if a partition has several copies: ``merge`` them as ``read_records`` does, or reject them
            (``all``).
        storage: options of fsspec for remote paths, and ``key_files`` for encrypted segments.
    """

    paths: Paths
    replicas: Literal["merge", "all"] = "merge"
    storage: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The virtual nodes of a broker.

    Attributes:
        nodes: number of virtual nodes. By default, a topic has a replica on each node.
        racks: rack of each node (``broker.rack``). Leaders direct consumers to a replica in their ``client.rack``
            (KIP-392). If ``racks`` is empty, consumers read from leaders.
    """

    nodes: int = 1
    racks: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Validate the number of nodes and racks.

        Raises:
            OptionError: ``nodes`` is less than 1, or ``racks`` does not have a rack for each node.
        """
        if self.nodes < 1:
            raise OptionError(f"nodes must be at least 1, not {self.nodes}")
        if self.racks and len(self.racks) != self.nodes:
            raise OptionError(f"racks has {len(self.racks)} names for {self.nodes} nodes")


@dataclass(frozen=True, slots=True)
class MetricsEndpoint:
    """The address at which a broker serves Prometheus metrics, under the path ``/metrics``.

    Attributes:
        port: port; 0 selects a free port.
        host: address to listen on. The default accepts only local connections.
    """

    port: int = 0
    host: str = "127.0.0.1"
