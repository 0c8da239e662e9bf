"""The pytest plugin: ``kafka_broker`` (a fresh broker for each test) and ``kafka_broker_session`` (one for all).

* ``@pytest.mark.kafka_broker(cluster=3, config={...})`` passes arguments to a test's ``kafkaframes.Broker``.
* ``--kafka-bootstrap HOST:PORT`` runs the same tests against a real cluster. Tests that need an embedded broker are
  skipped.
* ``schema_registry`` is an in-memory registry. Set the serializers' ``schema.registry.url`` to ``schema_registry.url``.
* A test fails at its end if one of its faults never happened (``kafka_broker.on(...)``, ``on_disk``), unless the fault
  is optional. A test that has already failed keeps its own failure.
* If a test fails, the requests that its broker received are shown next to its output. The traceback of a kafkaframes
  error ends at the test's line (``--full-trace`` shows all of it).

The package is only imported when a fixture is used, so the plugin costs nothing in other test runs.
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
    """An external cluster, at the address in ``--kafka-bootstrap``."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @property
    def port(self) -> int:
        """The port of the first address."""
        return int(self.bootstrap_servers.partition(",")[0].rpartition(":")[2])

    def __getattr__(self, name: str) -> Any:
        """Skip the test, because only an embedded broker has faults, a journal, a clock and so on."""
        if name.startswith("__"):
            raise AttributeError(name)
        return _skip(name)


def _skip(name: str) -> NoReturn:
    pytest.skip(f"kafka_broker.{name} needs the embedded broker, and the tests run against --kafka-bootstrap")


_MAX_PRINTED_REQUESTS = 40
_BROKERS_KEY = pytest.StashKey[list[Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--kafka-bootstrap``."""
    group = parser.getgroup("kafkaframes")
    group.addoption(
        "--kafka-bootstrap",
        metavar="HOST:PORT",
        help="run tests of kafka_broker against this cluster instead of an embedded broker",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker ``kafka_broker``."""
    config.addinivalue_line(
        "markers", "kafka_broker(**arguments): arguments of kafkaframes.Broker for this test's kafka_broker"
    )


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Provide a running in-memory broker on a free port, a new one for each test; see ``kafkaframes.Broker``."""
    marker = request.node.get_closest_marker("kafka_broker")
    yield from _run_broker(request, marker.kwargs if marker is not None else {})


@pytest.fixture(scope="session")
def kafka_broker_session(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Provide one running broker for the whole session. The rules of a test are removed when the test ends."""
    yield from _run_broker(request, {})


@pytest.fixture
def schema_registry() -> Iterator[SchemaRegistry]:
    """Provide an in-memory schema registry, a new one for each test; see ``kafkaframes.testing.SchemaRegistry``."""
    from kafkaframes.testing.registry import SchemaRegistry

    with SchemaRegistry() as registry:
        yield registry


def _run_broker(request: pytest.FixtureRequest, arguments: dict[str, Any]) -> Iterator[Broker]:
    bootstrap = request.config.getoption("--kafka-bootstrap")
    if bootstrap:
        yield cast("Broker", ExternalBroker(bootstrap))  # typed as the embedded broker, for which tests are written
        return
    from kafkaframes.broker import Broker

    with Broker(**arguments) as broker:
        broker.rule_history.is_strict = True
        brokers = request.node.stash.setdefault(_BROKERS_KEY, [])
        brokers.append(broker)
        yield broker
        brokers.remove(broker)
        broker.clear_faults()  # a disk fault would also make ``stop`` fail


def _list_brokers(item: pytest.Item) -> list[Broker]:
    return [*item.stash.get(_BROKERS_KEY, []), *item.session.stash.get(_BROKERS_KEY, [])]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a passed test if one of its faults never happened.

    The check runs in the test's call, not in its teardown. The test itself is then reported as failed, even by editors
    that do not show teardown failures (pytest_httpx#178).
    """
    try:
        result = yield
    except Exception as error:
        if _list_brokers(item) and not item.config.getoption("fulltrace", False):
            _trim_traceback(error)
        raise
    if not getattr(item, "_excinfo", None):  # set by a failed unittest.TestCase, which does not raise
        _reject_unused_rules(item)
    return result


def _reject_unused_rules(item: pytest.Item) -> None:
    for broker in _list_brokers(item):
        unused = broker.unused_rules()
        if unused:
            from kafkaframes.broker.faults.rules import describe_unused

            counts = broker.journal.count if broker.has_journal else None
            pytest.fail(describe_unused(unused, counts), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Remove the rules that a test created on the session's broker."""
    try:
        return (yield)
    finally:
        for broker in item.session.stash.get(_BROKERS_KEY, []):
            broker.clear_faults()
            broker.rule_history.rules.clear()


_PACKAGE_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY_DIRECTORIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})


def _trim_traceback(error: BaseException) -> None:
    """Remove the traceback frames of this package after the last frame of the test."""
    from kafkaframes.errors import KafkaframesError

    if not isinstance(error, KafkaframesError | AssertionError | TimeoutError):
        return
    last_of_test = deepest = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        deepest = trace
        if not _get_file(trace).startswith((_PACKAGE_DIRECTORY, *_LIBRARY_DIRECTORIES)):
            last_of_test = trace
        trace = trace.tb_next
    if last_of_test is None or deepest is None or not _get_file(deepest).startswith(_PACKAGE_DIRECTORY):
        return
    last_of_test.tb_next = None
    if error.__cause__ is None:
        error.__suppress_context__ = True


def _get_file(trace: TracebackType) -> str:
    return os.path.abspath(trace.tb_frame.f_code.co_filename)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the requests that the brokers of a failed test received to its report."""
    report = yield
    if report.when == "call" and report.failed:
        is_session_used = "kafka_broker_session" in getattr(item, "fixturenames", ())
        for broker in _list_brokers(item) if is_session_used else item.stash.get(_BROKERS_KEY, []):
            if broker.has_journal:
                report.sections.append(
                    (
                        f"requests of kafka_broker at {broker.bootstrap_servers}",
                        broker.journal.text(last=_MAX_PRINTED_REQUESTS),
                    )
                )
    return report
