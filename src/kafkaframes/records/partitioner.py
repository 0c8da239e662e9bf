"""Kafka's default partitioner for keys: murmur2, the sign bit cleared, modulo the number of partitions.

A single key is hashed in Python, many keys by a kernel; a test compares the results.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from kafkaframes.errors import EncodeError
from kafkaframes.records import _kernels_partition as kernels
from kafkaframes.records.arrays import int64_array, int64_values
from kafkaframes.records.rows import ByteStrings, Int64s, to_byte_strings
from kafkaframes.wire.integers import MAX_INT32

NO_PARTITION: Final = -1
_UINT32_MASK: Final = 2**32 - 1
_MURMUR_MULTIPLIER: Final = 0x5BD1E995


def murmur2(key: bytes) -> int:
    """Return the hash of a key as a signed number, as ``org.apache.kafka.common.utils.Utils.murmur2`` does.

    >>> murmur2(b"21"), murmur2(b"foobar"), murmur2(b"abc")
    (-973932308, -790332482, 479470107)
    """
    h = 0x9747B28C ^ len(key)
    whole_words_bytes = len(key) // 4 * 4
    for position in range(0, whole_words_bytes, 4):
        k = int.from_bytes(key[position : position + 4], "little") * _MURMUR_MULTIPLIER & _UINT32_MASK
        k = (k ^ k >> 24) * _MURMUR_MULTIPLIER & _UINT32_MASK
        h = (h * _MURMUR_MULTIPLIER & _UINT32_MASK) ^ k
    if whole_words_bytes < len(key):
        h = (h ^ int.from_bytes(key[whole_words_bytes:], "little")) * _MURMUR_MULTIPLIER & _UINT32_MASK
    h = (h ^ h >> 13) * _MURMUR_MULTIPLIER & _UINT32_MASK
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def partition_of(key: bytes, count: int) -> int:
    """Return the partition of a key for a topic with ``count`` partitions."""
    return (murmur2(key) & MAX_INT32) % count


def assign_by_key(keys: ByteStrings, counts: Int64s, partitions: Int64s) -> None:
    """Set the partition of each row that has a key and ``NO_PARTITION``.

    ``counts`` contains the number of partitions of each row's topic.
    """
    starts, lengths = np.ascontiguousarray(keys.starts), np.ascontiguousarray(keys.lengths)
    kernels.partition_keys(keys.data, starts, lengths, counts, partitions)


def compute_partitions(rows: pa.RecordBatch, count: int, *, hashes_keys: bool = True) -> tuple[Int64s, int | None]:
    """Return the partition of each row, and the first row with a partition outside of 0 to ``count`` - 1, if any.

    The partition comes from the column ``partition``; if that is null, it comes from the hash of ``key``. The partition
    is ``NO_PARTITION`` if both columns are null, or if ``partition`` is null and ``hashes_keys`` is False.

    Raises:
        EncodeError: the column ``partition`` does not contain integers.
    """
    partitions = np.full(rows.num_rows, NO_PARTITION, np.int64)
    if "partition" in rows.schema.names:
        partitions = int64_values(_to_int64s(rows.column("partition")), null_value=NO_PARTITION).copy()
        invalid_rows = np.flatnonzero((partitions >= count) | (partitions < NO_PARTITION))
        if len(invalid_rows):
            return partitions, int(invalid_rows[0])
    if hashes_keys and "key" in rows.schema.names:
        assign_by_key(to_byte_strings("key", rows.column("key")), np.full(rows.num_rows, count, np.int64), partitions)
    return partitions, None


def split_by_partition(rows: pa.RecordBatch, partitions: Int64s) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each partition in their original order. Consecutive rows of one partition are not copied."""
    order = np.argsort(partitions, kind="stable")
    edges = np.flatnonzero(np.diff(partitions[order], prepend=-1, append=-1))
    for first, end in pairwise(edges.tolist()):
        number, partition_rows = int(partitions[order[first]]), order[first:end]
        in_a_row = partition_rows[-1] - partition_rows[0] + 1 == len(partition_rows)
        yield (
            number,
            rows.slice(partition_rows[0], len(partition_rows)) if in_a_row else rows.take(int64_array(partition_rows)),
        )


def _to_int64s(column: pa.Array) -> pa.Array:
    if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise EncodeError(f"{column.type} is not an integer type").within("partition")
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise EncodeError(str(error)).within("partition") from None
