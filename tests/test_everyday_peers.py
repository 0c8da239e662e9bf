"""Everyday behaviours that other clients perform: their names, their verdicts, and the stored run in
docs/everyday-peers.md.
"""

import importlib

import pytest
from tests.everyday import behaviours
from tests.interop.peers.behaviours import ADAPTERS, OURS, PEERS, ClientBehaviour, load_behaviours
from tests.interop.peers.results import CANNOT, DIFFERS, EQUAL, SOMETIMES, judge, load

BEHAVIOURS = load_behaviours()
BEHAVIOUR = ClientBehaviour("m::f", "f", None, [1, 2], {"aio": "two is missing", "kafka_python": "sometimes more"})


def test_each_performance_is_a_behaviour_of_the_everyday_suite():
    modules = [importlib.import_module(f"tests.everyday.{name}") for name in behaviours.MODULES]
    titles = {test.behaviour.title for module in modules for test in behaviours.tests_of(module)}
    assert {performance.title for performance in BEHAVIOURS.values()} <= titles


@pytest.mark.parametrize(
    ("adapter", "outcome", "value", "verdict", "fault"),
    [
        ("confluent", "sees", [1, 2], EQUAL, ""),
        ("confluent", "sees", [1], DIFFERS, "expected: [1, 2]"),
        ("confluent", "cannot", "no method", CANNOT, "no method"),
        ("confluent", "error", "Traceback", DIFFERS, "Traceback"),
        ("aio", "sees", [1], DIFFERS, ""),
        ("aio", "cannot", "no method", CANNOT, ""),
        ("aio", "sees", [1, 2], EQUAL, "remove the difference"),
        ("kafka_python", "sees", [1, 2], EQUAL, ""),
        ("kafka_python", "sees", [1, 2, 3], DIFFERS, ""),
        (OURS, "sees", [2, 1], DIFFERS, "expected: [1, 2]"),
    ],
)
def test_a_difference_is_a_failure_unless_it_has_a_reason(adapter, outcome, value, verdict, fault):
    result = judge(BEHAVIOUR, adapter, outcome, value)
    assert result.verdict == verdict
    assert (fault in result.fault) if fault else not result.fault


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_stored_run_has_a_verdict_for_each_performance_and_each_difference_has_a_reason(adapter):
    verdicts = load()[adapter]["verdicts"]
    assert set(verdicts) == set(BEHAVIOURS), "run python -m tests.interop tests/interop/test_everyday_peers.py"
    for name, verdict in verdicts.items():
        reason = BEHAVIOURS[name].differences.get(adapter, "")
        assert (verdict != EQUAL) == bool(reason) or reason.startswith(SOMETIMES), name


def test_at_least_a_hundred_behaviours_are_performed_by_each_peer():
    for adapter in PEERS:
        verdicts = load()[adapter]["verdicts"].values()
        assert sum(verdict != CANNOT for verdict in verdicts) >= 100
