"""Checks and partitions records that a producer receives, before they are queued. No I/O.

The arguments of ``send`` are checked, and the error for a wrong type names the argument. The rows of ``send_arrow`` are
distributed over a topic's partitions by the same rules as single records.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkaframes.client.batches import Batch, PartResult
from kafkaframes.client.metadata import Cluster, TopicPartition, list_partitions_with_leader
from kafkaframes.client.partitioners import ConfiguredPartitioner
from kafkaframes.errors import EncodeError, ErrorCode, OptionError, to_broker_error
from kafkaframes.records.arrays import add_timestamps, int64_array, make_string_array
from kafkaframes.records.build import READER_COLUMNS
from kafkaframes.records.partitioner import compute_partitions, split_by_partition
from kafkaframes.records.rows import Int64s, Rows, reject_unknown_columns, rows_of
from kafkaframes.wire.integers import MAX_INT32

Headers = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1
_MAX_RECORD_OVERHEAD_BYTES: Final = (
    21  # largest size of a record without key, value or headers: Kafka's MAX_RECORD_OVERHEAD
)


# Topic, key, value, headers, partition, timestamp in ms, and approximate size in a batch. A plain tuple, because one is
# created for each record.
CheckedRecord = tuple[str, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int | None, int, int]


def check_record(
    topic: str,
    value: bytes | str | None,
    key: bytes | str | None,
    headers: Headers | None,
    partition: int | None,
    timestamp_ms: int | None,
    max_bytes: int,
) -> CheckedRecord:
    """Check the arguments of ``send``, and return them as a ``CheckedRecord``.

    Raises:
        EncodeError: an argument has a wrong type, or the record is larger than ``max_bytes`` bytes.
    """
    if not isinstance(topic, str) or not topic:
        raise EncodeError(f"topic is {_describe_type(topic) if topic != '' else 'empty'}; expected a topic name")
    size = _MAX_RECORD_OVERHEAD_BYTES
    if value is not None:
        value = value if type(value) is bytes else to_bytes("value", value) or b""
        size += len(value)
    if key is not None:
        key = key if type(key) is bytes else to_bytes("key", key) or b""
        size += len(key)
    pairs: Sequence[tuple[str, bytes | None]] = ()
    if headers is not None:
        pairs = to_header_pairs(headers)
        size += sum(2 * len(name) + len(content or b"") for name, content in pairs)
    if partition is not None:
        partition = _check_integer("partition", partition, "a partition's number", 0, MAX_INT32)
    if timestamp_ms is None:
        timestamp = int(time.time() * 1000)
    else:
        timestamp = _check_integer("timestamp_ms", timestamp_ms, "milliseconds since 1970", _MIN_INT64, _MAX_INT64)
    if size > max_bytes:
        raise EncodeError(f"the record has about {size} bytes; `max_request_size` is {max_bytes}")
    return topic, key, value, pairs, partition, timestamp, size


def to_bytes(name: str, value: object) -> bytes | None:
    """Return a key or value as bytes.

    >>> to_bytes("key", "é"), to_bytes("key", bytearray(b"a")), to_bytes("key", None)
    (b'\\xc3\\xa9', b'a', None)

    Raises:
        EncodeError: the value is not bytes, text or None.
    """
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise EncodeError(f"{name} cannot be encoded as UTF-8: {error}") from None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise EncodeError(f"{name} is {_describe_type(value)}; expected bytes, text or None")


def to_header_pairs(headers: Any) -> list[tuple[str, bytes | None]]:
    """Return headers as pairs of name and bytes.

    >>> to_header_pairs({"a": "1", "b": None}), to_header_pairs([("a", b"1"), ("a", b"2")]), to_header_pairs(None)
    ([('a', b'1'), ('b', None)], [('a', b'1'), ('a', b'2')], [])

    Raises:
        EncodeError: ``headers`` is neither a mapping nor a list of pairs, or one header is invalid.
    """
    if headers is None:
        return []
    if isinstance(headers, (str, bytes)) or not isinstance(headers, Iterable):
        raise EncodeError(f"headers is {_describe_type(headers)}; expected a dict, or pairs of name and bytes")
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [_to_header_pair(pair) for pair in pairs]


def _to_header_pair(pair: object) -> tuple[str, bytes | None]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
        raise EncodeError(f"headers has {pair!r:.80}; expected a pair of a name and bytes")
    return pair[0], to_bytes(f"the value of {pair[0]!r:.80} in headers", pair[1])


def _check_integer(name: str, value: Any, expectation: str, minimum: int, maximum: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise EncodeError(f"{name} is {_describe_type(value)}; expected an integer: {expectation}") from None
    if isinstance(value, bool) or not minimum <= number <= maximum:
        raise EncodeError(f"{name} is {value}; expected {expectation}")
    return number


def _describe_type(value: object) -> str:
    """Return the name of a value's type with its article, such as ``an int``."""
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"


def list_target_topics(table: pa.Table, topic: str | None) -> list[str]:
    """Return the topics to which a table is written.

    Raises:
        OptionError: neither the argument nor a column specifies a topic.
        EncodeError: a row has no topic.
    """
    if topic is not None:
        return [topic]
    if "topic" not in table.schema.names:
        raise OptionError("the topic is missing; pass topic=, or add a column topic")
    names: list[str] = table.column("topic").unique().to_pylist()
    if None in names:
        raise EncodeError("a row has no topic").within("topic")
    return names


def check_table(table: pa.Table | pa.RecordBatch, max_request_size: int) -> None:
    """Check columns and rows before any row of a table is sent.

    Raises:
        EncodeError: a column is unknown, a key, value or header has a wrong type, or a row is larger than
            ``max_request_size`` bytes. ``path`` names the column and the row.
    """
    names = table.schema.names
    reject_unknown_columns(names, ignore=READER_COLUMNS)
    content = table.select([name for name in ("key", "value", "headers") if name in names])
    first_row = 0
    for batch in content.to_batches() if isinstance(content, pa.Table) else [content]:
        sizes = estimate_record_sizes(rows_of(batch))
        if sizes.max(initial=0) > max_request_size:
            row = int(np.flatnonzero(sizes > max_request_size)[0])
            reason = f"the record has about {sizes[row]} bytes; `max_request_size` is {max_request_size}"
            raise EncodeError(reason).within(first_row + row)
        first_row += batch.num_rows


def estimate_record_sizes(rows: Rows) -> Int64s:
    """Return the approximate size of each row in a batch, in bytes, computed as in ``check_record``."""
    sizes = _MAX_RECORD_OVERHEAD_BYTES + np.maximum(rows.keys.lengths, 0) + np.maximum(rows.values.lengths, 0)
    if len(rows.header_starts):
        per_header = 2 * rows.header_names.lengths + np.maximum(rows.header_values.lengths, 0)
        ends = np.concatenate(([0], np.cumsum(per_header)))
        sizes = sizes + ends[rows.header_starts[1:]] - ends[rows.header_starts[:-1]]
    return sizes


class RowPartitioner(NamedTuple):
    """Chooses the partitions of a table's rows.

    Attributes:
        choice: the producer's partitioner.
        cluster: metadata of the table's topics.
        choose_sticky_partitions: function that returns the partitions for a topic's runs of rows without partition and
            key.
        batch_bytes: largest size of a batch. A run has at least the rows of one batch.
    """

    choice: ConfiguredPartitioner
    cluster: Cluster
    choose_sticky_partitions: Callable[[str, int], list[int]]
    batch_bytes: int

    def partition_rows(self, topic: str, rows: pa.RecordBatch) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        """Return a topic's rows by partition.

        Raises:
            BrokerError: a row specifies a partition that the topic does not have.
            EncodeError: the caller's partitioner fails for a row. ``path`` names the row.
        """
        count = len(self.cluster.partitions_of(topic))
        hashes_keys = self.choice.function is None and not self.choice.ignores_keys
        partitions, invalid_row = compute_partitions(rows, count, hashes_keys=hashes_keys)
        if invalid_row is not None:
            raise to_broker_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"row {invalid_row}: topic {topic} has no partition {partitions[invalid_row]}; it has {count}",
            )
        if self.choice.function is not None:
            self._choose_partitions(topic, rows, partitions, count)
        self._distribute_rows(topic, partitions, rows.nbytes // self.batch_bytes)
        rows_with_time = add_timestamps(rows, int(time.time() * 1000))
        return [
            (TopicPartition(topic, number), part) for number, part in split_by_partition(rows_with_time, partitions)
        ]

    def _choose_partitions(self, topic: str, rows: pa.RecordBatch, partitions: Int64s, count: int) -> None:
        """Call the partitioner for each row that does not specify a partition."""
        names = rows.schema.names
        keys, values = (rows.column(name) if name in names else None for name in ("key", "value"))
        available = list_partitions_with_leader(self.cluster.topics[topic])
        for row in np.flatnonzero(partitions < 0).tolist():
            key, value = (None if column is None else column[row].as_py() for column in (keys, values))
            try:
                partitions[row] = self.choice.choose(
                    topic, to_bytes("key", key), to_bytes("value", value), count, available
                )
            except EncodeError as error:
                raise error.within(row) from error.__cause__

    def _distribute_rows(self, topic: str, partitions: Int64s, max_runs: int) -> None:
        """Distribute the rows without a partition in up to ``max_runs`` contiguous runs, each to another partition."""
        free = np.flatnonzero(partitions < 0)
        if len(free):
            runs = max(min(max_runs, len(self.cluster.partitions_of(topic))), 1)
            numbers_of_runs = np.array(self.choose_sticky_partitions(topic, runs), np.int64)
            partitions[free] = numbers_of_runs[np.arange(len(free)) * runs // len(free)]


def route_rows(
    table: pa.Table, topics: Sequence[str], partitioner: RowPartitioner
) -> list[tuple[TopicPartition, pa.RecordBatch]]:
    """Return the rows of each partition, in the order of ``topics``. The metadata of the topics must be known.

    Raises:
        BrokerError, EncodeError: raised by ``RowPartitioner.partition_rows``.
    """
    import pyarrow.compute as pc  # imported here to save 4 MB in programs that only read

    batches: list[tuple[TopicPartition, pa.RecordBatch]] = []
    for topic in topics:
        has_column = "topic" in table.schema.names and len(topics) > 1
        rows = table.filter(pc.equal(table.column("topic"), topic)) if has_column else table
        for batch in rows.combine_chunks().to_batches():
            batches += partitioner.partition_rows(topic, batch)
    return batches


def to_result_table(batches: Sequence[Batch], results: Sequence[Sequence[PartResult]]) -> pa.Table:
    """Return the result of ``send_arrow``, with a row for each written batch."""
    rows = [(batch.partition, part) for batch, parts in zip(batches, results, strict=True) for part in parts]
    partitions = int64_array(np.array([partition.partition for partition, _ in rows], np.int64)).cast(pa.int32())
    columns = {
        "topic": make_string_array([partition.topic for partition, _ in rows]),
        "partition": partitions,
        "base_offset": int64_array(np.array([part.base_offset for _, part in rows], np.int64)),
        "count": int64_array(np.array([part.records for _, part in rows], np.int64)),
    }
    return pa.table(columns)
