"""The partition of each row."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import EncodeError
from kafkaframes.jobs.restore.writing import WriteSettings
from kafkaframes.jobs.restore.writing.routing import Router
from kafkaframes.records.partitioner import assign_by_key, murmur2, partition_of
from kafkaframes.records.rows import to_byte_strings


def rows(**columns) -> pa.RecordBatch:
    types = {"key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
    return pa.record_batch({name: pa.array(values, types[name]) for name, values in columns.items()})


def route_batch(router: Router, batch: pa.RecordBatch) -> list[tuple[str, list[int]]]:
    return [(str(one.partition), one.rows.tolist()) for one in router.route_rows(batch)]


@pytest.mark.parametrize(
    ("key", "expected_hash"),
    [  # the values in Kafka's UtilsTest
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key, expected_hash):
    assert murmur2(key) == expected_hash


@given(st.lists(st.none() | st.binary(max_size=13), min_size=1), st.integers(1, 1000))
def test_the_kernel_agrees_with_its_reference(keys, count):
    blobs = to_byte_strings("key", pa.array(keys, pa.binary()))
    partitions = np.full(len(keys), -1, np.int64)
    assign_by_key(blobs, np.full(len(keys), count, np.int64), partitions)
    assert partitions.tolist() == [-1 if key is None else partition_of(key, count) for key in keys]


def test_an_explicit_partition_wins_over_the_key_and_order_is_kept():
    router = Router(WriteSettings(now_ms=0, topic="t", num_partitions=3), task=0)
    batch = rows(key=[b"a", b"b", b"a", b"b"], value=[b""] * 4, partition=[None, 2, None, None])
    where = {b"a": partition_of(b"a", 3), b"b": partition_of(b"b", 3)}
    rows_by_partition: dict[int, list[int]] = {}
    for row, partition in enumerate([where[b"a"], 2, where[b"a"], where[b"b"]]):
        rows_by_partition.setdefault(partition, []).append(row)
    assert route_batch(router, batch) == [
        (f"t-{partition}", partition_rows) for partition, partition_rows in sorted(rows_by_partition.items())
    ]


def test_rows_without_a_key_stay_in_one_partition_for_a_batch():
    router = Router(WriteSettings(now_ms=0, topic="t", num_partitions=2, batch_bytes=22), task=1)
    routes = route_batch(router, rows(value=[b"x" * 10] * 6))
    assert routes == [("t-0", [2, 3]), ("t-1", [0, 1, 4, 5])]
    assert route_batch(router, rows(value=[None])) == [("t-0", [0])]


def test_rows_may_name_topics_and_existing_partitions():
    settings = WriteSettings(now_ms=0, partitions={"known": 8}, num_partitions=2)
    routes = Router(settings, task=0).route_rows(rows(value=[b""] * 3, key=[b"k"] * 3, topic=["known", "new", "known"]))
    assert {str(route.partition) for route in routes} == {
        f"known-{partition_of(b'k', 8)}",
        f"new-{partition_of(b'k', 2)}",
    }


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        ({}, {"topic": ["a", None], "value": [b""] * 2}, r"the row has no topic; .*\$\[1\]"),
        ({}, {"topic": ["a", "b/c"], "value": [b""] * 2}, r"'b/c' is not a valid topic name.*\$\[1\]"),
        (
            {"topic": "t", "num_partitions": 2},
            {"partition": [1, 2]},
            r"partition 2 is invalid: topic t has 2 .*\$\[1\]",
        ),
        ({"topic": "t"}, {"partition": [7, -1]}, r"partition -1 is invalid.*\$\[1\]"),
    ],
)
def test_bad_rows_are_named(settings, columns, message):
    router = Router(WriteSettings(now_ms=0, **settings), task=4)
    with pytest.raises(EncodeError, match=message):
        router.route_rows(rows(**columns))
