"""Rows of a table are assigned to partitions by the partition column, by key, or otherwise in runs."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.client.accumulator import Accumulator
from kafkaframes.client.metadata import Cluster, Node, PartitionMetadata, TopicMetadata
from kafkaframes.client.partitioners import DEFAULT_PARTITIONER
from kafkaframes.client.producer_records import RowPartitioner, route_rows
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import ErrorCode
from kafkaframes.records.partitioner import partition_of
from kafkaframes.wire.primitives import NIL_UUID

KEYS = st.none() | st.binary(max_size=3)


def build_metadata(count: int) -> Cluster:
    partitions = {n: PartitionMetadata(n, 1, 0, (1,), (1,), ErrorCode.NONE) for n in range(count)}
    return Cluster(
        brokers={1: Node(1, "h", 9092)}, topics={"t": TopicMetadata("t", NIL_UUID, False, partitions, ErrorCode.NONE)}
    )


def build_row_partitioner(count: int, batch_bytes: int) -> RowPartitioner:
    metadata = build_metadata(count)
    accumulator = Accumulator(ProducerSettings(bootstrap_servers="a:1"), metadata, wake=lambda: None)
    accumulator.update_topic("t")
    return RowPartitioner(DEFAULT_PARTITIONER, metadata, accumulator.choose_sticky_partitions, batch_bytes)


@given(st.integers(1, 7), st.lists(st.tuples(KEYS, st.none() | st.integers(0, 0)), max_size=50), st.integers(1, 400))
def test_each_row_is_in_one_partition_in_order_and_equal_keys_share_a_partition(count, rows, batch_bytes):
    columns = {
        "key": pa.array([key for key, _ in rows], pa.binary()),
        "partition": pa.array([position for _, position in rows], pa.int32()),
        "value": pa.array([b"%03d" % n for n in range(len(rows))], pa.binary()),
    }
    parts = route_rows(pa.table(columns), ["t"], build_row_partitioner(count, batch_bytes))
    assert len({target for target, _ in parts}) == len(parts)
    rows_by_partition = {
        target.partition: [int(value) for value in part["value"].to_pylist()] for target, part in parts
    }
    assert sorted(row for values in rows_by_partition.values() for row in values) == list(range(len(rows)))
    for partition, values in rows_by_partition.items():
        assert values == sorted(values)
        for key, explicit_partition in (rows[value] for value in values):
            assert explicit_partition in (None, partition)
            assert explicit_partition is not None or key is None or partition_of(key, count) == partition


@pytest.mark.parametrize(("rows", "partitions"), [(1, 1), (99, 1), (100, 2), (1000, 4)])
def test_rows_without_key_and_partition_fill_a_batch_per_partition(rows, partitions):
    table = pa.table({"value": [b"v" * 96] * rows})  # 100 bytes each, with the record overhead
    parts = route_rows(table, ["t"], build_row_partitioner(4, batch_bytes=5_000))
    assert len(parts) == partitions
    assert max(part.num_rows for _, part in parts) - min(part.num_rows for _, part in parts) <= 1
