"""The pytest plugin: ``kafka_broker`` (a fresh broker for each test) and ``kafka_broker_session`` (one for all).

* ``@pytest.mark.kafka_broker(cluster=3, config={...})`` gives a test's broker arguments of ``kafkaframes.Broker``.
* ``--kafka-bootstrap HOST:PORT`` runs the same tests against a real cluster; tests that need more than an address are
  skipped.
* ``schema_registry`` is a registry in memory; its ``url`` is what serializers are given.
* A test fails at its end if one of its faults never happened (``kafka_broker.on(...)``, ``on_disk``), unless the fault
  is optional. A test that has failed already keeps its own failure.
* When a test fails, the requests that its broker got are shown next to its output. The traceback of an error of
  kafkaframes ends at the test's line (``--full-trace`` shows all of it).

Nothing of the package is imported until a fixture is used, so the plugin costs a run that does not use it nothing.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest

if TYPE_CHECKING:
    from kafkaframes.broker import Broker
    from kafkaframes.testing.registry import SchemaRegistry


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
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Give a running broker of the test's own, in memory, on a free port; see ``kafkaframes.Broker``."""
    marker = request.node.get_closest_marker("kafka_broker")
    yield from _running(request, marker.kwargs if marker is not None else {})


@pytest.fixture(scope="session")
def kafka_broker_session(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Give one running broker for the whole session; rules of a test are removed when the test ends."""
    yield from _running(request, {})


@pytest.fixture
def schema_registry() -> Iterator[SchemaRegistry]:
    """Give a schema registry of the test's own, in memory; see ``kafkaframes.testing.SchemaRegistry``."""
    from kafkaframes.testing.registry import SchemaRegistry

    with SchemaRegistry() as registry:
        yield registry


def _running(request: pytest.FixtureRequest, arguments: dict[str, Any]) -> Iterator[Broker]:
    bootstrap = request.config.getoption("--kafka-bootstrap")
    if bootstrap:
        yield cast("Broker", ExternalBroker(bootstrap))  # typed as the broker that tests are written for
        return
    from kafkaframes.broker import Broker

    with Broker(**arguments) as broker:
        broker.rule_history.is_strict = True
        brokers = request.node.stash.setdefault(_BROKERS, [])
        brokers.append(broker)
        yield broker
        brokers.remove(broker)
        broker.clear_faults()  # a fault of the disk would also fail the stop


def _brokers_of(item: pytest.Item) -> list[Broker]:
    return [*item.stash.get(_BROKERS, []), *item.session.stash.get(_BROKERS, [])]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that has passed if one of its faults never happened.

    This is part of the test's call, not of its teardown: the test itself is reported as failed, and editors that do not
    show failures of a teardown (pytest_httpx#178) show this one.
    """
    try:
        result = yield
    except Exception as error:
        if _brokers_of(item) and not item.config.getoption("fulltrace", False):
            _end_at_caller(error)
        raise
    if not getattr(item, "_excinfo", None):  # of a unittest.TestCase, which does not raise
        _reject_unused_rules(item)
    return result


def _reject_unused_rules(item: pytest.Item) -> None:
    for broker in _brokers_of(item):
        unused = broker.unused_rules()
        if unused:
            from kafkaframes.broker.rules import describe_unused

            counts = broker.journal.count if broker.has_journal else None
            pytest.fail(describe_unused(unused, counts), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Remove the rules that a test has made on the session's broker."""
    try:
        return (yield)
    finally:
        for broker in item.session.stash.get(_BROKERS, []):
            broker.clear_faults()
            broker.rule_history.rules.clear()


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})


def _end_at_caller(error: BaseException) -> None:
    """Cut the frames after the test's own last one off an error of this package."""
    from kafkaframes.errors import KafkaframesError

    if not isinstance(error, KafkaframesError | AssertionError | TimeoutError):
        return
    last_of_test = deepest = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        deepest = trace
        if not _file_of(trace).startswith((_PACKAGE, *_LIBRARIES)):
            last_of_test = trace
        trace = trace.tb_next
    if last_of_test is None or deepest is None or not _file_of(deepest).startswith(_PACKAGE):
        return
    last_of_test.tb_next = None
    if error.__cause__ is None:
        error.__suppress_context__ = True


def _file_of(trace: TracebackType) -> str:
    return os.path.abspath(trace.tb_frame.f_code.co_filename)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the requests that the brokers of a failed test got."""
    report = yield
    if report.when == "call" and report.failed:
        is_session_used = "kafka_broker_session" in getattr(item, "fixturenames", ())
        for broker in _brokers_of(item) if is_session_used else item.stash.get(_BROKERS, []):
            if broker.has_journal:
                report.sections.append(
                    (f"requests of kafka_broker at {broker.bootstrap_servers}", broker.journal.text(last=_SHOWN))
                )
    return report
