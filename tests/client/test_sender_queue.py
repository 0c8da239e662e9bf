"""A partition's queue of batches: what may go, and that a retry overtakes nothing."""

from kafkaframes.client.batches import Batch
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.sender import Queue


def queue(count: int) -> Queue:
    made = Queue()
    for place in range(count):
        made.waiting.append(Batch(TopicPartition("t", 0), b"", 1, 0.0, None, place=place))
    return made


def places(batches) -> list[int]:
    return [one.place for one in batches]


def test_at_most_so_many_are_under_way():
    waiting = queue(3)
    waiting.take()
    waiting.take()
    assert not waiting.ready(0.0, 2)
    assert waiting.ready(0.0, 3)


def test_batches_that_come_back_in_any_order_go_again_in_theirs():
    several = queue(4)
    taken = [several.take() for _ in range(3)]
    for one in (taken[1], taken[2], taken[0]):
        several.again(one)
    assert places(several.waiting) == [0, 1, 2, 3]


def test_nothing_overtakes_what_will_be_sent_again():
    several = queue(4)
    first, second = several.take(), several.take()
    several.again(first)
    assert not several.ready(0.0, 5)  # the second has no answer yet
    several.again(second)
    assert several.ready(0.0, 5)
    assert several.take() is first


def test_a_batch_waits_for_its_backoff():
    one = queue(1)
    one.waiting[0].not_before = 5.0
    assert not one.ready(4.9, 5)
    assert one.ready(5.0, 5)
