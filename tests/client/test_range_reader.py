"""Reads of one partition, answer by answer, with a scripted consumer in place of the broker."""

from dataclasses import dataclass, field

import pytest

from kafkaframes.client import FetchedBatches, TopicPartition, range_reader
from kafkaframes.client.range_reader import RangeReader
from kafkaframes.errors import BrokerError, ErrorCode, NetworkError
from kafkaframes.records.build import build_records

PLACE = TopicPartition("t", 0)
OUT_OF_RANGE = BrokerError("out of range", code=ErrorCode(1))


def answer(first, count, *, log_start=-1):
    records = build_records([{"value": b"v", "timestamp": 1} for _ in range(count)], base_offset=first)
    return FetchedBatches(PLACE, first, records, log_start_offset=log_start)


@dataclass
class Scripted:
    """Returns the answers of a list, then none; knows the log start and end."""

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
    def lost(problem):
        if problems is None:
            raise AssertionError(problem)
        problems.append(problem)

    reader = RangeReader(
        consumer, PLACE, first, end, on_loss=lost, silence_ms=silence_ms, silence_setting="the.setting"
    )
    return [fetched_batches.fetch_offset for fetched_batches in iter(reader.read_next, None)]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(range_reader, "_RETRY_DELAY_S", 0)


def test_answers_are_taken_until_the_end_is_reached():
    assert read(Scripted([answer(0, 4), None, answer(4, 6), answer(10, 5)])) == [0, 4]


def test_what_nothing_follows_but_a_gap_is_at_its_end():
    assert read(Scripted([answer(0, 4)], holds_more=False)) == [0]


def test_offsets_that_are_there_after_all_are_asked_for_again():
    """As with a follower that has become the leader and does not know its newest records yet."""
    consumer = Scripted([answer(0, 4), OUT_OF_RANGE, answer(4, 6)])
    assert read(consumer) == [0, 4]
    assert consumer.at == [0, 4]


def test_offsets_below_the_logs_start_are_lost_and_the_rest_is_read():
    problems: list[str] = []
    consumer = Scripted([OUT_OF_RANGE, answer(6, 4)], start=6)
    assert read(consumer, problems, first=2) == [6]
    assert problems == ["has no offset 2 (it has 6 to 10)"]
    assert consumer.at == [2, 6]


def test_a_range_before_the_log_start_or_after_the_log_end_is_over():
    for bounds in ({"start": 20, "end": 30}, {"start": 0, "end": 3}):
        problems: list[str] = []
        consumer = Scripted([OUT_OF_RANGE], **bounds)
        assert read(consumer, problems, first=5) == []
        assert len(problems) == 1
        assert consumer.at == [5, 10]  # from the end on nothing is asked for


def test_an_answer_that_passes_over_lost_offsets_says_so_itself():
    problems: list[str] = []
    assert read(Scripted([answer(0, 4), answer(6, 4, log_start=6)]), problems) == [0, 6]
    assert problems == ["has lost offsets 4 to 5 while they were read"]


def test_silence_is_an_error_of_the_network_where_the_log_goes_on_and_else_a_loss():
    with pytest.raises(NetworkError, match=r"t-0: no records arrived from offset 4 on for 0 ms \(the.setting\)"):
        read(Scripted([answer(0, 4)]), silence_ms=0)
    problems: list[str] = []
    consumer = Scripted([answer(0, 4)], end=4)
    assert read(consumer, problems, silence_ms=0) == [0]
    assert consumer.at == [0, 10]
    silence = "no records arrived from offset 4 on for 0 ms (the.setting)"
    assert problems == [f"ends at offset 4, but offsets up to 10 were expected: {silence}"]


def test_another_error_of_the_broker_is_raised_as_it_is():
    denied_error = BrokerError("denied", code=ErrorCode(29))
    with pytest.raises(BrokerError) as error_info:
        read(Scripted([denied_error]))
    assert error_info.value is denied_error
