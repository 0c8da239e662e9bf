"""What a broker begins with: its own data directory, or directories and stores that it only reads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kafkaframes.broker.assembly import open_broker
from kafkaframes.broker.clock import Clock
from kafkaframes.broker.disk_faults import DiskFaults
from kafkaframes.broker.nodes import Nodes
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.serving import serve_paths
from kafkaframes.broker.settings import BrokerSettings
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.store_reads import StoreReads
from kafkaframes.storage.copies.served import Remark
from kafkaframes.storage.files.disk import Disk
from kafkaframes.storage.files.filesystem import LocalFileSystem


class Opened(NamedTuple):
    """A broker's state, and what was decided about copies that it serves."""

    state: BrokerState
    remarks: tuple[Remark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a broker's state is opened; the attributes are those of ``Broker``."""

    data_dir: str | None
    serve: Sequence[str]
    replicas: str
    storage: Mapping[str, Any]
    adopt: bool
    durability: str | None
    settings: BrokerSettings
    clock: Clock
    nodes: Nodes
    security: Security
    disk_faults: DiskFaults | None

    def open(self, disk: Disk | None = None) -> Opened:
        """Open it, on a disk of a snapshot or on its own."""
        served = serve_paths(self.serve, replicas=self.replicas, options=self.storage) if self.serve else None
        remarks = () if served is None else served.remarks
        store = None
        if served is not None and not isinstance(served.filesystem, LocalFileSystem):
            store = StoreReads(served.filesystem)
            served = replace(served, filesystem=store)
        state = open_broker(
            disk=disk,
            data_dir=self.data_dir,
            serve=served,
            adopt=self.adopt,
            settings=self.settings,
            clock=self.clock,
            nodes=self.nodes,
            durability=self.durability,
            access=self.security.access(self.settings),
            credentials=self.security.credentials(),
            disk_faults=self.disk_faults,
        )
        state.store = store
        return Opened(state, remarks)

    async def open_in_thread(self) -> Opened:
        """Open what is served in a thread: a store may take long, and the loop may be somebody's.

        What is opened when nobody waits any more is let go.
        """
        opening = asyncio.get_running_loop().run_in_executor(None, self.open)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_let_go_at_once)
            raise


def _let_go_at_once(opening: asyncio.Future[Opened]) -> None:
    """Let go what was opened for somebody who waits no more."""
    if not opening.cancelled() and opening.exception() is None:
        state = opening.result().state
        state.logs.abandon()
        if state.store is not None:
            state.store.close()
