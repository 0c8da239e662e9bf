"""The consumer's state machine without I/O: single cases, random schedules, and mutants that the schedules detect."""

import os

import pytest
from tests.soak import consumer_cases, consumer_mutants, consumer_schedules
from tests.soak.consumer_cases import ONE, TWO, add_topic, answer_request, create_machine
from tests.soak.exploration import explore_range

from kafkaframes.client.assignors import MemberSubscription
from kafkaframes.client.group_requests import FetchMetadata, JoinGroup, JoinGroupResponse, SyncGroup

SCHEDULE_COUNT = 160 if os.environ.get("KAFKAFRAMES_PROFILE", "quick") == "quick" else 4_000


@pytest.mark.parametrize("first", range(0, SCHEDULE_COUNT, 40))
def test_random_schedules_keep_the_invariants(first):
    _, wrong = explore_range(consumer_schedules.explore, first, 40)
    assert wrong == []


@pytest.mark.parametrize(
    "name",
    [
        "keeps a member id that the coordinator does not know",
        "ignores its assignment",
        "a seek keeps buffered records",
        "sends no heartbeats",
        "a failed fetch keeps its node busy",
    ],
)
def test_schedules_find_a_broken_rule(name):
    assert consumer_mutants.first_failure_of(name, 300) is not None


def test_every_mutant_applies_to_the_module():
    for name in consumer_mutants.MUTANTS:
        consumer_mutants.build_named_mutant(name)


@pytest.mark.parametrize("name", consumer_cases.CASES)
def test_case(name):
    consumer_cases.CASES[name]()


@pytest.mark.parametrize("name", consumer_mutants.FOUND_BY_CASE)
def test_a_case_finds_a_broken_rule(name):
    assert consumer_mutants.first_failure_of(name, 0) is not None


@pytest.mark.parametrize(
    ("size", "others", "joins"),
    [(2, 0, False), (2, 1, False), (1, 1, True), (0, 1, True), (3, 0, True), (3, 1, False)],
)
def test_a_static_leader_that_returns_joins_again_if_its_assignment_is_outdated(size, others, joins):
    """Topics changed while the leader was absent (KIP-814).

    The leader cannot know whether the other members own the new partition.
    """
    machine = create_machine("default", "a")
    add_topic(machine.cluster, size)
    members = {name: MemberSubscription(frozenset({"t"})) for name in ("me", "other")[: 1 + others]}
    request = next(next_request for next_request in machine.next_requests(0.0) if isinstance(next_request, JoinGroup))
    machine.process_response(
        request, JoinGroupResponse("me", 1, "cooperative-sticky", members, skips_assignment=True), 0.0
    )
    answer_request(machine, FetchMetadata, None)
    answer_request(machine, SyncGroup, [ONE, TWO])
    assert any(isinstance(next_request, JoinGroup) for next_request in machine.next_requests(1.0)) is joins
