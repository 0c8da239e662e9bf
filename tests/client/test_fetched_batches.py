"""One partition's part of a Fetch answer as columns: bounds, transactions, formats, damage."""

import pytest

from kafkaframes.client.fetched_batches import FetchedBatches
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import CorruptRecordError, UnsupportedFormatError
from kafkaframes.records.build import build_end_transaction, build_records

PLACE = TopicPartition("t", 0)


def batch(first: int, count: int = 2, *, producer: int = -1, magic: int = 2) -> bytes:
    rows = [{"value": b"%d" % (first + n), "timestamp": 1} for n in range(count)]
    options = {} if producer < 0 else {"producer_id": producer, "producer_epoch": 0, "transactional": True}
    return build_records(
        rows, base_offset=first, record_format=magic, **({"base_sequence": 0, **options} if options else {})
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    return build_end_transaction(offset, commit=commit, timestamp=1, producer_id=producer, producer_epoch=0)


def offsets(fetched_batches: FetchedBatches) -> list[int]:
    return [offset for table in fetched_batches.read(["offset"]) for offset in table.column(0).to_pylist()]


def test_a_batch_that_begins_before_the_offset_and_one_that_is_cut_off():
    fetched_batches = FetchedBatches(PLACE, 1, batch(0) + batch(2) + batch(4)[:-1])
    assert offsets(fetched_batches) == [1, 2, 3]
    assert fetched_batches.next_offset == 4
    assert FetchedBatches(PLACE, 9, batch(0)[:-1]).next_offset == 9


def test_read_committed_leaves_out_what_was_aborted_and_only_that():
    data = (
        batch(0, producer=1)
        + batch(2, producer=2)
        + marker(4, 1, commit=False)
        + batch(5, producer=1)
        + marker(7, 1, commit=True)
        + batch(8)
        + marker(10, 2, commit=False)
        + batch(11, producer=3)
    )
    assert offsets(FetchedBatches(PLACE, 0, data, aborted_transactions=[(1, 0), (2, 2), (3, 11)])) == [5, 6, 8, 9]
    assert offsets(FetchedBatches(PLACE, 0, data)) == [0, 1, 2, 3, 5, 6, 8, 9, 11, 12]
    assert FetchedBatches(PLACE, 0, data[: data.index(batch(11, producer=3))]).next_offset == 11


def test_a_format_that_the_consumer_does_not_read():
    fetched_batches = FetchedBatches(PLACE, 0, batch(0, magic=0) + batch(2, magic=1))
    assert fetched_batches.select_formats((0, 1)) is fetched_batches
    assert fetched_batches.select_formats((0,)).next_offset == 2
    with pytest.raises(UnsupportedFormatError, match="t-0"):
        fetched_batches.select_formats((1,))


def test_damage_is_an_error_that_names_partition_and_position():
    spoilt = bytearray(batch(0) + batch(2))
    spoilt[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="t-0") as caught:
        offsets(FetchedBatches(PLACE, 0, bytes(spoilt)))
    assert caught.value.position == len(batch(0))
