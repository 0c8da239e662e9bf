"""Rows packed into batches: every row once, in its partition, in order, in batches of limited size. The tests run
without Spark.
"""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.jobs.write_topic.packing import BatchFormat, Packer, resize_batches
from kafkaframes.records.batch import read_batches
from kafkaframes.records.partitioner import partition_of

NOW = 5_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
COUNTS = {"t": 4, "u": 3}


def packer(topic="t", *, codec="lz4", batch_bytes=2_000, max_bytes=1 << 20, turn=1):
    form = BatchFormat(codec, None, batch_bytes, max_bytes)
    return Packer(topic, COUNTS.__getitem__, form, now_ms=lambda: NOW, turn=turn)


def pack_rows(rows, **options):
    """Return the records of the batches in order, by topic and partition."""
    packed_parts = []
    for parts in packer(**options).pack_rows([rows] if isinstance(rows, pa.RecordBatch) else rows):
        assert len({part.topic_partition for part in parts}) == len(parts)
        for part in parts:
            records = [record for data, _ in part.batches for batch in read_batches(data) for record in batch.records]
            assert len(records) == part.record_count
            packed_parts.append((part.topic_partition.topic, part.topic_partition.partition, records))
    return packed_parts


def rows(count=400, first=0, **columns):
    data = {"key": pa.array([b"k%d" % (n % 23) for n in range(first, first + count)], pa.binary())}
    data["value"] = pa.array([b"%d" % n for n in range(first, first + count)], pa.binary())
    return pa.record_batch({**data, **columns})


def test_each_row_is_in_the_partition_of_its_key_and_in_order():
    packed_parts = pack_rows([rows(400), rows(400, 400)])
    values = [int(record.value) for _, _, records in packed_parts for record in records]
    assert Counter(values) == Counter(range(800))
    assert all(
        partition_of(bytes(record.key), 4) == partition for _, partition, records in packed_parts for record in records
    )
    for expected_partition in range(4):
        mine = [
            int(record.value)
            for _, partition, records in packed_parts
            if partition == expected_partition
            for record in records
        ]
        assert mine == sorted(mine)
    assert {record.timestamp for _, _, records in packed_parts for record in records} == {NOW}


def test_topics_partitions_times_and_headers_of_rows_are_used():
    row_batch = rows(
        4,
        topic=pa.array(["t", "u", "t", "u"]),
        partition=pa.array([0, 2, None, 1], pa.int32()),
        timestamp=pa.array([1_999_999, -1, None, 7_000], pa.timestamp("us", "UTC")),
        headers=pa.array([[{"key": "h", "value": b"1"}], None, [], None], HEADERS),
    )
    records_by_number = {
        int(one.value): (topic, partition, one)
        for topic, partition, all_ in pack_rows(row_batch, topic=None)
        for one in all_
    }
    assert {number: place[:2] for number, place in records_by_number.items()} == {
        0: ("t", 0),
        1: ("u", 2),
        2: ("t", partition_of(b"k2", 4)),
        3: ("u", 1),
    }
    assert [records_by_number[number][2].timestamp for number in range(4)] == [1_999, -1, NOW, 7]
    assert [[(h.key, h.value) for h in records_by_number[n][2].headers] for n in (0, 1, 2)] == [[("h", b"1")], [], []]


def test_columns_with_only_nulls():
    nulls = pa.record_batch({name: pa.nulls(2) for name in ("key", "value", "headers", "timestamp", "partition")})
    ((_, _, records),) = pack_rows(nulls)
    assert [(record.key, record.value, record.headers, record.timestamp) for record in records] == [
        (None, None, (), NOW)
    ] * 2


def test_rows_without_a_key_share_a_batch_and_then_change_partition():
    row_batches = [pa.record_batch({"value": pa.array([b"v"] * 10, pa.binary())}) for _ in range(3)]
    (one,) = pack_rows(row_batches, turn=6)
    assert one[1] == 6 % 4


def test_batches_are_bounded_and_complete():
    value = pa.array(np.random.default_rng(1).bytes(3_000 * 100)[n * 100 : n * 100 + 100] for n in range(3_000))
    row_batch = pa.record_batch({"value": value, "partition": pa.array([2] * 3_000, pa.int32())})
    ((part,),) = packer(codec="none", batch_bytes=10_000).pack_rows([row_batch])
    assert len(part.batches) > 20
    assert max(len(data) for data, _ in part.batches) <= 10_000
    assert all(batch.base_offset == 0 for data, _ in part.batches for batch in read_batches(data))
    assert part.record_count == 3_000


@pytest.mark.parametrize(
    ("columns", "options", "error", "message"),
    [
        ({"partition": pa.array([0, 4], pa.int32())}, {}, OptionError, "topic t has no partition 4; it has 4"),
        ({"partition": pa.array([None, -1], pa.int32())}, {}, EncodeError, "column partition is -1; expected null or"),
        ({"topic": pa.array(["t", None])}, {"topic": None}, EncodeError, "the row has no topic; set the option"),
        (
            {},
            {"max_bytes": 60},
            EncodeError,
            r"a record for t-\d needs a batch of \d+ bytes, more than kafka\.max\.request\.size",
        ),
    ],
)
def test_rows_that_cannot_be_sent_are_named(columns, options, error, message):
    with pytest.raises(error, match=message):
        pack_rows(rows(2, **columns), **options)


def test_small_batches_are_combined_and_empty_ones_skipped():
    parts = [rows(10), rows(0), rows(10), rows(10)]
    assert [one.num_rows for one in resize_batches(parts, parts[0].nbytes + 1)] == [20, 10]
    assert list(resize_batches([rows(0)], 100)) == []


def test_a_batch_above_the_limit_is_split():
    whole = rows(1000)
    parts = list(resize_batches([whole], whole.nbytes // 4 - 100))
    assert [part.num_rows for part in parts] == [250, 250, 250, 250]
    assert pa.Table.from_batches(parts).combine_chunks().to_batches() == [whole]
