"""Subscription patterns are resolved after the heartbeat that contains them, once per pattern and set of topics."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.coordination.groups.support import GroupBench

from kafkaframes.coordination.groups import topic_patterns
from kafkaframes.coordination.groups.consumer_protocol import HeartbeatRequest
from kafkaframes.errors import ErrorCode, RefusedError


class MutableTopics:
    """Topics that a test creates and deletes."""

    def __init__(self, *names: str) -> None:
        self.version = 1
        self._names = list(names)

    def names(self) -> list[str]:
        return self._names

    def change(self, *, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> None:
        self._names = [name for name in self._names if name not in remove] + list(add)
        self.version += 1


class StepThread:
    """A thread whose steps the test executes one by one."""

    def __init__(self) -> None:
        self.queue = []

    def __call__(self, work, finish):
        self.queue.append((work, finish))

    def step(self):
        work, finish = self.queue.pop(0)
        work()
        finish()

    def run(self):
        while self.queue:
            self.step()


@pytest.fixture
def pattern_matches(monkeypatch):
    """The (pattern, topic names) pairs of all calls that match a pattern."""
    calls = []
    match_names = topic_patterns.match_names

    def record_match(text, names):
        calls.append((text, tuple(names)))
        return match_names(text, names)

    monkeypatch.setattr(topic_patterns, "match_names", record_match)
    return calls


def test_a_pattern_is_resolved_once_for_all_members(pattern_matches):
    thread = StepThread()
    patterns, calls = topic_patterns.TopicPatterns(MutableTopics("a-1", "a-2", "b"), thread), []
    for number in range(3):
        assert patterns.find_names("a.*", lambda number=number: calls.append(number)) is None
    thread.run()
    assert calls == [0, 1, 2]
    assert patterns.find_names("a.*", lambda: calls.append("again")) == {"a-1", "a-2"}
    assert pattern_matches == [("a.*", ("a-1", "a-2", "b"))]


def test_only_new_topics_are_matched(pattern_matches):
    thread, topics = StepThread(), MutableTopics("a-1", "b")
    patterns = topic_patterns.TopicPatterns(topics, thread)
    patterns.find_names("a.*", lambda: None)
    thread.run()
    topics.change(add=("a-2", "c"), remove=("a-1",))
    assert patterns.find_names("a.*", lambda: None) is None
    thread.run()
    assert patterns.find_names("a.*", lambda: None) == {"a-2"}
    assert [names for _, names in pattern_matches] == [("a-1", "b"), ("a-2", "c")]
    topics.change(remove=("c",))
    assert patterns.find_names("a.*", lambda: None) == {"a-2"}  # all topics are already matched
    assert not thread.queue


def test_patterns_are_resolved_in_steps(pattern_matches):
    thread = StepThread()
    names = tuple(f"t-{number:03}" for number in range(100))
    patterns = topic_patterns.TopicPatterns(MutableTopics(*names), thread)
    for pattern in ("(.?){998}", "t-.*"):
        patterns.find_names(pattern, lambda: None)
    for _ in range(4):
        thread.step()
    assert [pattern for pattern, _ in pattern_matches] == ["(.?){998}", "t-.*"] * 2
    assert all(len(part) <= 16 for _, part in pattern_matches)
    thread.run()
    assert patterns.find_names("t-.*", lambda: None) == set(names)


def test_a_stopping_broker_leaves_a_pattern_unresolved():
    patterns, calls = topic_patterns.TopicPatterns(MutableTopics("a"), lambda work, finish: finish()), []
    assert patterns.find_names("a", lambda: calls.append(1)) is None
    assert calls == []


def send_heartbeat(bench, member="m", epoch=0, **fields):
    joins = {"owned_partitions": frozenset(), "rebalance_timeout_ms": 1000} if epoch == 0 else {}
    return bench.coordinator.handle_consumer_heartbeat(HeartbeatRequest("g", member, epoch, **(joins | fields)))


@pytest.fixture
def bench():
    bench = GroupBench(resolves_at_once=False)
    bench.topics.topics_by_name = {"orders": (UUID(int=1), 2), "other": (UUID(int=2), 1)}
    return bench


def test_the_response_to_a_heartbeat_does_not_wait_for_its_pattern(bench):
    thread = bench.coordinator.consumer.patterns.run_in_thread = StepThread()
    first = send_heartbeat(bench, regex="ord.*")
    assert (first.epoch, first.assignment) == (1, frozenset())
    assert first.interval_ms < 5_000  # the client sends the next heartbeat soon
    group = bench.group()
    assert group.epoch == 1
    thread.run()
    assert (group.epoch, group.regexes) == (2, {"ord.*": {"orders"}})
    second = send_heartbeat(bench, epoch=1)
    assert (second.epoch, {index for _, index in second.assignment}) == (2, {0, 1})
    assert second.interval_ms == 5_000


def test_the_response_to_a_heartbeat_does_not_wait_for_its_pattern_without_topics(bench):
    """ConsumerGroupHeartbeatRequestTest.testConsumerGroupHeartbeatWithRegularExpression."""
    bench.topics.topics_by_name = {}
    thread = bench.coordinator.consumer.patterns.run_in_thread = StepThread()
    assert send_heartbeat(bench, regex="ord.*").epoch == 1
    thread.run()
    assert (bench.group().epoch, bench.group().regexes) == (1, {"ord.*": frozenset()})
    bench.topics.topics_by_name = {"orders": (UUID(int=1), 2)}
    send_heartbeat(bench, epoch=1)
    thread.run()
    assert bench.group().epoch == 2


def test_a_second_pattern_bumps_the_epoch_once_it_is_resolved(bench):
    """GroupMetadataManagerTest.testConsumerGroupMemberJoinsWithNewRegex."""
    thread = bench.coordinator.consumer.patterns.run_in_thread = StepThread()
    send_heartbeat(bench, "m", topics=["orders"])
    epoch = bench.group().epoch
    assert send_heartbeat(bench, "n", regex="oth.*").epoch == epoch
    assert bench.group().epoch == epoch
    thread.run()
    assert bench.group().epoch == epoch + 1
    assert {topic for topic, _ in send_heartbeat(bench, "n", epoch).assignment} == {UUID(int=2)}


def test_a_pattern_keeps_its_topics_until_it_is_resolved_again(bench):
    thread = bench.coordinator.consumer.patterns.run_in_thread = StepThread()
    send_heartbeat(bench, regex="o.*")
    thread.run()
    before = send_heartbeat(bench, epoch=1)
    assert len(before.assignment) == 3
    bench.topics.topics_by_name = {**bench.topics.topics_by_name, "orders-eu": (UUID(int=3), 1)}
    assert send_heartbeat(bench, epoch=before.epoch).assignment is None
    thread.run()
    assert len(send_heartbeat(bench, epoch=before.epoch).assignment) == 4


def test_resolved_patterns_survive_a_restart(bench):
    bench.coordinator.consumer.patterns.run_in_thread = thread = StepThread()
    send_heartbeat(bench, regex="ord.*")
    thread.run()
    epoch = send_heartbeat(bench, epoch=1).epoch
    bench.restart()
    bench.coordinator.consumer.patterns.run_in_thread = thread = StepThread()
    assert bench.group().regexes == {"ord.*": {"orders"}}
    assert send_heartbeat(bench, epoch=epoch).epoch == epoch
    thread.run()
    assert bench.group().epoch == epoch


@pytest.mark.parametrize("regex", ["(", "a)|(b", r"\pL{900}"])
def test_an_invalid_pattern_is_rejected_at_once(bench, regex):
    with pytest.raises(RefusedError) as error_info:
        send_heartbeat(bench, regex=regex)
    assert error_info.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_slow_pattern_is_accepted(bench):
    assert send_heartbeat(bench, regex="(.?){998}").epoch == 1
    bench.clock.run_due()
    assert len(send_heartbeat(bench, epoch=1).assignment) == 3
