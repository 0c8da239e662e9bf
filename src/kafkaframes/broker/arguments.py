"""Arguments of ``Broker`` that have several parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from kafkaframes.errors import OptionError

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True, slots=True)
class Served:
    """Directories and stores that a broker serves and never changes.

    Attributes:
        paths: a log directory (a backup, a restored one), a tiered store, or several of them, whose copies of a
            partition are served as one log.
        replicas: of several copies of a partition: ``merge`` them, as ``read_records`` does, or refuse them (``all``).
        storage: options of the stores (fsspec's; ``key_files`` of encrypted segments).
    """

    paths: Paths
    replicas: Literal["merge", "all"] = "merge"
    storage: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The virtual nodes of a broker.

    Attributes:
        nodes: number of nodes. Topics have a replica on each of them, unless a replication factor is given.
        racks: the nodes' racks, in order (``broker.rack``): replicas serve consumers, and a leader sends those with
            ``client.rack`` to a replica in their rack (KIP-392). Empty: consumers read from leaders.
    """

    nodes: int = 1
    racks: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check that the parts fit together.

        Raises:
            OptionError: there is no node, or the number of racks is another one.
        """
        if self.nodes < 1:
            raise OptionError(f"nodes is at least 1, not {self.nodes}")
        if self.racks and len(self.racks) != self.nodes:
            raise OptionError(f"racks has {len(self.racks)} names for {self.nodes} nodes")


@dataclass(frozen=True, slots=True)
class Metrics:
    """Where a broker serves metrics as Prometheus text (``/metrics``).

    Attributes:
        port: the port; 0 for a free one.
        host: the address to listen on; this machine only by default.
    """

    port: int = 0
    host: str = "127.0.0.1"
