"""The pytest plugin: ``kafka_broker`` (a fresh broker for each test) and ``kafka_broker_session`` (one for all).

* ``@pytest.mark.kafka_broker(nodes=3, config={...})`` gives a test's broker arguments of ``kafkaframes.Broker``.
* ``--kafka-bootstrap HOST:PORT`` runs the same tests against a real cluster; tests that need more than an address are
  skipped.
* ``schema_registry`` is a registry in memory; its ``url`` is what serializers are given.
* When a test fails, the requests that its broker saw are shown beside its output.

Nothing of the package is imported until a fixture is used, so the plugin costs a run that does not use it nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NoReturn

import pytest


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
    pytest.skip(f"kafka_broker.{name} needs the embedded broker, and the tests run against --kafka-bootstrap")


_SHOWN = 40
_BROKERS = pytest.StashKey[list[Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--kafka-bootstrap``."""
    group = parser.getgroup("kafkaframes")
    group.addoption(
        "--kafka-bootstrap",
        metavar="HOST:PORT",
        help="run tests of kafka_broker against this cluster instead of an embedded broker",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", "kafka_broker(**arguments): arguments of kafkaframes.Broker for this test's kafka_broker"
    )


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give a running broker of the test's own, in memory, on a free port; see ``kafkaframes.Broker``."""
    marker = request.node.get_closest_marker("kafka_broker")
    yield from _running(request, marker.kwargs if marker is not None else {})


@pytest.fixture(scope="session")
def kafka_broker_session(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give one running broker for the whole session."""
    yield from _running(request, {})


@pytest.fixture
def schema_registry() -> Iterator[Any]:
    """Give a schema registry of the test's own, in memory; see ``kafkaframes.testing.SchemaRegistry``."""
    from kafkaframes.testing.registry import SchemaRegistry

    with SchemaRegistry() as registry:
        yield registry


def _running(request: pytest.FixtureRequest, arguments: dict[str, Any]) -> Iterator[Any]:
    bootstrap = request.config.getoption("--kafka-bootstrap")
    if bootstrap:
        yield ExternalBroker(bootstrap)
        return
    from kafkaframes.broker import Broker

    with Broker(**arguments) as broker:
        request.node.stash.setdefault(_BROKERS, []).append(broker)
        yield broker


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the brokers of a failed test saw."""
    report = yield
    if report.when == "call" and report.failed:
        brokers = [*item.stash.get(_BROKERS, []), *item.session.stash.get(_BROKERS, [])]
        for broker in brokers:
            report.sections.append(("requests of kafka_broker", broker.journal.text(last=_SHOWN)))
    return report
