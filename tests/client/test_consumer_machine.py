"""The consumer's state machine without I/O: single cases, random schedules, and mutants that these find."""

import os

import pytest
from tests.soak import consumer_cases, consumer_mutants, consumer_schedules
from tests.soak.consumer_cases import ONE, TWO, add_topic, answer, machine_of
from tests.soak.exploration import explore_range

from kafkaframes.client.assignors import MemberSubscription
from kafkaframes.client.group_requests import FetchMetadata, JoinGroup, JoinGroupResponse, SyncGroup

SCHEDULES = 160 if os.environ.get("KAFKAFRAMES_PROFILE", "quick") == "quick" else 4_000


@pytest.mark.parametrize("first", range(0, SCHEDULES, 40))
def test_random_schedules_keep_the_laws(first):
    _, wrong = explore_range(consumer_schedules.explore, first, 40)
    assert wrong == []


@pytest.mark.parametrize(
    "name",
    [
        "keeps an id that the coordinator does not know",
        "ignores its assignment",
        "a seek keeps buffered records",
        "sends no heartbeats",
        "a failed fetch keeps its node busy",
    ],
)
def test_schedules_find_a_broken_rule(name):
    assert consumer_mutants.first_wrong(name, 300) is not None


def test_every_mutant_fits_the_module():
    for name in consumer_mutants.MUTANTS:
        consumer_mutants.mutant(name)


@pytest.mark.parametrize("name", consumer_cases.CASES)
def test_case(name):
    consumer_cases.CASES[name]()


@pytest.mark.parametrize("name", consumer_mutants.FOUND_BY_CASE)
def test_a_case_finds_a_broken_rule(name):
    assert consumer_mutants.first_wrong(name, 0) is not None


@pytest.mark.parametrize(
    ("size", "others", "joins"),
    [(2, 0, False), (2, 1, False), (1, 1, True), (0, 1, True), (3, 0, True), (3, 1, False)],
)
def test_a_static_leader_that_returns_joins_again_if_its_assignment_is_outdated(size, others, joins):
    """Topics changed in its absence (KIP-814). It cannot know whether the other members own the new partition."""
    machine = machine_of("default", "a")
    add_topic(machine.cluster, size)
    members = {name: MemberSubscription(frozenset({"t"})) for name in ("me", "other")[: 1 + others]}
    request = next(one for one in machine.next_requests(0.0) if isinstance(one, JoinGroup))
    machine.process_response(
        request, JoinGroupResponse("me", 1, "cooperative-sticky", members, skips_assignment=True), 0.0
    )
    answer(machine, FetchMetadata, None)
    answer(machine, SyncGroup, [ONE, TWO])
    assert any(isinstance(one, JoinGroup) for one in machine.next_requests(1.0)) is joins
