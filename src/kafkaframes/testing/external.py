"""A broker that is not ours, in a fixture's place: tests that need more than its address are skipped."""

from __future__ import annotations

from typing import Any, NoReturn


class ExternalBroker:
    """The address of a cluster given by ``--kafka-bootstrap``."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @property
    def port(self) -> int:
        """The port of the first address."""
        return int(self.bootstrap_servers.partition(",")[0].rpartition(":")[2])

    def __getattr__(self, name: str) -> Any:
        """Skip the test: only an embedded broker has faults, a journal, a clock and so on."""
        if name.startswith("__"):
            raise AttributeError(name)
        return _skip(name)


def _skip(name: str) -> NoReturn:
    import pytest

    pytest.skip(f"kafka_broker.{name} needs the embedded broker, and the tests run against --kafka-bootstrap")
