"""Tests and issues of peer clients that show the same behaviour; ``docs/tables.py`` generates docs/everyday.md from
them.

The name of a test describes the behaviour. Its decorator lists, for each peer, a test of its suite or an issue number.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple, TypeVar

PEERS: Final = {
    "java": "Java",
    "kafka_python": "kafka-python",
    "aiokafka": "aiokafka",
    "confluent": "confluent-kafka",
    "librdkafka": "librdkafka",
    "franz_go": "franz-go",
    "kafkajs": "KafkaJS",
    "brod": "brod",
}
MODULES: Final = {
    "test_producing": "Producing",
    "test_consuming": "Consuming",
    "test_groups": "Groups",
    "test_transactions": "Transactions",
    "test_administration": "Administration",
    "test_failures": "Errors and timeouts",
    "test_leaders": "Leaders and coordinators",
    "test_on_an_event_loop": "On an event loop",
    "test_reports": "Reports from issue trackers",
}
THE_SAME: Final = "the same"
Test = TypeVar("Test", bound=Callable[..., Any])


class Behaviour(NamedTuple):
    """A behaviour of clients.

    Attributes:
        title: the test's name as a sentence.
        sources: for each peer, a test of its suite or an issue number.
        ours: how this client differs from its peers, or an empty string.
    """

    title: str
    sources: dict[str, str]
    ours: str


def peers_with(*, ours: str = THE_SAME, **sources: str) -> Callable[[Test], Test]:
    """Return a decorator that records which peers have this behaviour.

    Args:
        ours: how this client differs from its peers.
        sources: for each name in ``PEERS``, a test of that peer or an issue number.
    """
    if not sources or not set(sources) <= set(PEERS):
        raise ValueError(f"sources of a behaviour are {sorted(sources)}; expected some of {sorted(PEERS)}")

    def decorate(test: Test) -> Test:
        title = test.__name__.removeprefix("test_").replace("_", " ")
        test.behaviour = Behaviour(title, sources, ours)  # type: ignore[attr-defined]
        return test

    return decorate


def tests_of(module: ModuleType) -> list[FunctionType]:
    """Return the test functions of a module, in source order.

    Raises:
        ValueError: a test does not name a peer.
    """
    tests = [
        value for name, value in vars(module).items() if name.startswith("test_") and isinstance(value, FunctionType)
    ]
    missing = [test.__name__ for test in tests if not hasattr(test, "behaviour")]
    if missing:
        raise ValueError(f"{module.__name__} has tests without `peers_with`: {', '.join(missing)}")
    return tests
