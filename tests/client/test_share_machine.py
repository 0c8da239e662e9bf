"""The share consumer's state machine without I/O: random schedules, and mutants that the schedules detect."""

import os

import pytest
from tests.soak import share_cases, share_mutants, share_schedules
from tests.soak.exploration import explore_range

from kafkaframes.client.metadata import Node
from kafkaframes.client.share_machine import describe_node

SCHEDULE_COUNT = 60 if os.environ.get("KAFKAFRAMES_PROFILE", "quick") == "quick" else 3_000


@pytest.mark.parametrize("first", range(0, SCHEDULE_COUNT, 20))
def test_random_schedules_keep_the_invariants(first):
    _, wrong = explore_range(share_schedules.explore, first, 20)
    assert wrong == []


@pytest.mark.parametrize("name", share_cases.CASES)
def test_case(name):
    share_cases.CASES[name]()


@pytest.mark.parametrize("name", share_mutants.MUTANTS)
def test_a_case_finds_a_broken_rule(name):
    assert share_mutants.first_failure_of(name, 0) is not None


@pytest.mark.parametrize("name", share_mutants.FOUND_BY_FIRST_SCHEDULES)
def test_schedules_find_a_broken_rule(name):
    assert share_mutants.first_failure_of(name, 60) is not None


def test_errors_contain_addresses_in_the_form_that_clients_accept():
    assert describe_node(Node(1, "kafka-1", 9092)) == "broker 1 at kafka-1:9092"
    assert describe_node(Node(2, "::1", 9092)) == "broker 2 at [::1]:9092"
