"""The range reader of a partition, with a scripted consumer instead of a broker."""

from dataclasses import dataclass, field

import pytest

from kafkaframes.client import FetchedBatches, TopicPartition, range_reader
from kafkaframes.client.range_reader import RangeReader
from kafkaframes.errors import BrokerError, ErrorCode, NetworkError
from kafkaframes.records.build import build_records

T_0 = TopicPartition("t", 0)
OUT_OF_RANGE = BrokerError("out of range", code=ErrorCode(1))


def build_answer(first, count, *, log_start=-1):
    records = build_records([{"value": b"v", "timestamp": 1} for _ in range(count)], base_offset=first)
    return FetchedBatches(T_0, first, records, log_start_offset=log_start)


@dataclass
class ScriptedConsumer:
    """A consumer that returns the answers from a list, then nothing, and reports a given log start and end."""

    answers: list
    start: int = 0
    end: int = 10
    holds_more: bool = True
    at: list = field(default_factory=list)

    def assign(self, positions, *, ends):
        self.at += positions.values()

    def seek(self, place, offset):
        self.at.append(offset)

    def fetch(self, timeout_ms):
        one = self.answers.pop(0) if self.answers else None
        if isinstance(one, Exception):
            raise one
        return one

    def beginning_offsets(self, places):
        return dict.fromkeys(places, self.start)

    def end_offsets(self, places):
        return dict.fromkeys(places, self.end)

    def skip_gap(self, place, end):
        return not self.holds_more and not self.answers


def read(consumer, problems=None, *, first=0, end=10, silence_ms=60_000):
    def record_problem(problem):
        if problems is None:
            raise AssertionError(problem)
        problems.append(problem)

    reader = RangeReader(
        consumer, T_0, first, end, on_loss=record_problem, silence_ms=silence_ms, silence_setting="the.setting"
    )
    return [fetched_batches.fetch_offset for fetched_batches in iter(reader.read_next, None)]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(range_reader, "_RETRY_DELAY_S", 0)


def test_answers_are_taken_until_the_end_is_reached():
    assert read(ScriptedConsumer([build_answer(0, 4), None, build_answer(4, 6), build_answer(10, 5)])) == [0, 4]


def test_what_nothing_follows_but_a_gap_is_at_its_end():
    assert read(ScriptedConsumer([build_answer(0, 4)], holds_more=False)) == [0]


def test_out_of_range_offsets_that_exist_are_requested_again():
    """For example, a follower has become the leader and does not know its high watermark yet."""
    consumer = ScriptedConsumer([build_answer(0, 4), OUT_OF_RANGE, build_answer(4, 6)])
    assert read(consumer) == [0, 4]
    assert consumer.at == [0, 4]


def test_offsets_below_the_log_start_are_reported_as_lost_and_the_rest_is_read():
    problems: list[str] = []
    consumer = ScriptedConsumer([OUT_OF_RANGE, build_answer(6, 4)], start=6)
    assert read(consumer, problems, first=2) == [6]
    assert problems == ["has no offset 2 (it has 6 to 10)"]
    assert consumer.at == [2, 6]


def test_a_range_before_the_log_start_or_after_the_log_end_is_reported_as_lost():
    for bounds in ({"start": 20, "end": 30}, {"start": 0, "end": 3}):
        problems: list[str] = []
        consumer = ScriptedConsumer([OUT_OF_RANGE], **bounds)
        assert read(consumer, problems, first=5) == []
        assert len(problems) == 1
        assert consumer.at == [5, 10]  # nothing is requested from the log end on


def test_an_answer_with_a_later_log_start_reports_lost_offsets():
    problems: list[str] = []
    assert read(ScriptedConsumer([build_answer(0, 4), build_answer(6, 4, log_start=6)]), problems) == [0, 6]
    assert problems == ["has lost offsets 4 to 5 while they were being read"]


def test_a_silent_broker_is_a_network_error_if_the_log_continues_and_a_loss_otherwise():
    with pytest.raises(NetworkError, match=r"t-0: no records arrived from offset 4 on for 0 ms \(the.setting\)"):
        read(ScriptedConsumer([build_answer(0, 4)]), silence_ms=0)
    problems: list[str] = []
    consumer = ScriptedConsumer([build_answer(0, 4)], end=4)
    assert read(consumer, problems, silence_ms=0) == [0]
    assert consumer.at == [0, 10]
    silence = "no records arrived from offset 4 on for 0 ms (the.setting)"
    assert problems == [f"ends at offset 4, but offsets up to 10 were expected: {silence}"]


def test_other_broker_errors_are_raised_unchanged():
    denied_error = BrokerError("denied", code=ErrorCode(29))
    with pytest.raises(BrokerError) as error_info:
        read(ScriptedConsumer([denied_error]))
    assert error_info.value is denied_error
