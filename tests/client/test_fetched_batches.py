"""Record columns of a partition in a Fetch response: offset bounds, transactions, formats and corrupt data."""

import pytest

from kafkaframes.client.fetched_batches import FetchedBatches
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import CorruptRecordError, UnsupportedFormatError
from kafkaframes.records.build import build_end_transaction, build_records

T_0 = TopicPartition("t", 0)


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


def test_records_before_the_offset_and_an_incomplete_last_batch_are_skipped():
    fetched_batches = FetchedBatches(T_0, 1, batch(0) + batch(2) + batch(4)[:-1])
    assert offsets(fetched_batches) == [1, 2, 3]
    assert fetched_batches.next_offset == 4
    assert FetchedBatches(T_0, 9, batch(0)[:-1]).next_offset == 9


def test_read_committed_skips_exactly_the_aborted_records():
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
    assert offsets(FetchedBatches(T_0, 0, data, aborted_transactions=[(1, 0), (2, 2), (3, 11)])) == [5, 6, 8, 9]
    assert offsets(FetchedBatches(T_0, 0, data)) == [0, 1, 2, 3, 5, 6, 8, 9, 11, 12]
    assert FetchedBatches(T_0, 0, data[: data.index(batch(11, producer=3))]).next_offset == 11


def test_an_unsupported_record_format_is_an_error():
    fetched_batches = FetchedBatches(T_0, 0, batch(0, magic=0) + batch(2, magic=1))
    assert fetched_batches.select_formats((0, 1)) is fetched_batches
    assert fetched_batches.select_formats((0,)).next_offset == 2
    with pytest.raises(UnsupportedFormatError, match="t-0"):
        fetched_batches.select_formats((1,))


def test_corrupt_data_is_an_error_with_the_partition_and_position():
    spoilt = bytearray(batch(0) + batch(2))
    spoilt[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="t-0") as caught:
        offsets(FetchedBatches(T_0, 0, bytes(spoilt)))
    assert caught.value.position == len(batch(0))
