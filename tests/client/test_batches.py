"""Batches that are stamped with a producer id or divided are still valid batches."""

import pytest

from kafkaframes.client.batches import ProducerIdentity, split_batches, stamp_batch
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records

ROWS = [{"key": b"k%d" % n, "value": b"v" * n, "timestamp": 1_000 + n} for n in range(40)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_stamped_batch_equals_one_built_with_the_producer(codec):
    plain = build_records(ROWS, codec=codec)
    expected_batch = build_records(
        ROWS, codec=codec, producer_id=7, producer_epoch=3, base_sequence=2**31 - 5, transactional=True
    )
    assert stamp_batch(plain, ProducerIdentity(7, 3), 2**31 - 5, transactional=True) == expected_batch
    assert stamp_batch(expected_batch, ProducerIdentity(), -1, transactional=False) == plain


def test_pieces_of_a_batch_start_at_offset_0_and_contain_every_record():
    data = build_records(ROWS, batch_bytes=200)
    pieces = list(split_batches(data))
    assert len(pieces) > 5
    read = [batch for piece, _ in pieces for batch in read_batches(piece)]
    assert all(batch.records[0].offset == 0 and not batch.damage for batch in read)
    assert [count for _, count in pieces] == [len(batch.records) for batch in read]
    assert [record.key for batch in read for record in batch.records] == [row["key"] for row in ROWS]
