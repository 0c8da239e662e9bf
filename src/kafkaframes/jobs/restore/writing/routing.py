"""Define the settings of a write, which all workers and the commit share, and assign rows to topic partitions.

A partition number in the row's column ``partition`` has precedence. If the column ``partition`` is null, the key
determines the partition, as in Kafka's default partitioner (murmur2, sign bit cleared, modulo). Rows without partition
and key go to one partition until it has about a batch of them, and then to the next one. The assignment is like that of
KIP-480 and KIP-794, but in a fixed order, so that a repeated task writes the same rows to the same partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.records.arrays import get_flag_values, int64_values
from kafkaframes.records.build import DEFAULT_BATCH_BYTES
from kafkaframes.records.codecs import Codec, codec_of
from kafkaframes.records.partitioner import NO_PARTITION, assign_by_key
from kafkaframes.records.rows import ByteStrings, to_byte_strings
from kafkaframes.storage.files import names
from kafkaframes.storage.files.names import TopicPartition, check_topic_name
from kafkaframes.storage.log.rebuild import INDEX_INTERVAL_BYTES
from kafkaframes.storage.log.segment_writer import DEFAULT_SEGMENT_BYTES, SegmentSettings
from kafkaframes.wire.integers import MAX_INT32

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588  # message.max.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """Settings for building batches and segments from rows. They are picklable.

    Attributes:
        now_ms: current time, in milliseconds, which rows without a timestamp get as their timestamp.
        topic: topic of all rows, which overrides the column ``topic``.
        partitions: number of partitions of each topic that exists or for which the caller specified a number.
        num_partitions: number of partitions of other topics; ``None``: one, or as many as the rows' partition numbers
            require.
        record_format, codec, level: format of the batches.
        batch_bytes, batch_records: largest size of a batch.
        max_message_bytes: largest batch, and therefore largest record, in bytes.
        keep_offsets: whether rows have offsets to keep.
        segment_bytes, index_interval_bytes: as in a broker's configuration.
        topic_ids: ids of new topics by name; a new topic that is not listed gets a random id.
        node_id, cluster_id: node of a new directory; ``None`` creates a new cluster id.
    """

    now_ms: int
    topic: str | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    num_partitions: int | None = None
    record_format: int = 2
    codec: str = "none"
    level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    batch_records: int | None = None
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    keep_offsets: bool = False
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    node_id: int = 1
    cluster_id: str | None = None

    def __post_init__(self) -> None:
        """Reject settings that the record format cannot represent.

        Raises:
            OptionError, EncodeError: a setting is rejected; the message names it.
        """
        if self.record_format not in (0, 1, 2):
            raise OptionError(f"unknown record format {self.record_format!r}; expected 0, 1 or 2")
        if codec_of(self.codec) is Codec.ZSTD and self.record_format < 2:
            raise EncodeError(f"zstd requires record format 2, not {self.record_format}").within("codec")
        if self.topic is not None:
            names.check_topic_name(self.topic)
        _ = self.segment_settings

    @property
    def segment_settings(self) -> SegmentSettings:
        """The segment settings of partitions."""
        return SegmentSettings(segment_bytes=self.segment_bytes, index_interval_bytes=self.index_interval_bytes)

    @property
    def compresses_late(self) -> bool:
        """Whether offsets are inside the compressed data (format 0), so that only the commit can compress."""
        return self.record_format == 0 and codec_of(self.codec) is not Codec.NONE


Ints = npt.NDArray[np.int64]
_MAX_SHORT_LENGTH = 1 << 16


class RoutedRows(NamedTuple):
    """The numbers of the rows that belong to one topic partition, in ascending order."""

    partition: TopicPartition
    rows: Ints


class Router:
    """Assigns the rows of one task to topic partitions."""

    def __init__(self, settings: WriteSettings, *, task: int) -> None:
        """Start with a partition that depends on ``task``, the task's number."""
        self._settings = settings
        self._task = task
        self._keyless_bytes = 0
        self._checked_topics: set[str] = set()

    def route_rows(self, rows: pa.RecordBatch) -> list[RoutedRows]:
        """Assign rows to topic partitions.

        Raises:
            EncodeError: a row has no topic, or an invalid partition. The error's ``path`` contains the row number.
        """
        topics, topic_of = self._find_topics(rows)
        known_counts, default_count = self._settings.partitions, self._settings.num_partitions or 1
        counts = np.array([known_counts.get(name, default_count) for name in topics], np.int64)[topic_of]
        partitions = self._choose_partitions(rows, topics, topic_of, counts)
        width = int(partitions.max(initial=0)) + 1
        code = topic_of * width + partitions
        if len(topics) * width <= _MAX_SHORT_LENGTH:  # the values are few enough for numpy's counting sort
            code = code.astype(np.uint16)
        order = np.argsort(code, kind="stable")
        edges = np.flatnonzero(np.diff(code[order].astype(np.int64), prepend=-1, append=-1))
        routed_rows = []
        for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            topic, partition = divmod(int(code[order[first]]), width)
            routed_rows.append(RoutedRows(TopicPartition(topics[topic], partition), order[first:end]))
        return routed_rows

    def _find_topics(self, rows: pa.RecordBatch) -> tuple[list[str], Ints]:
        """Return the distinct topic names, and for each row the index of its topic in them."""
        if self._settings.topic is not None:
            return [self._settings.topic], np.zeros(rows.num_rows, np.int64)
        column = rows.column("topic")
        if column.null_count:
            row = _find_first_set_index(get_flag_values(column.is_null()))
            raise _make_row_error(
                row, "the row has no topic; set the option topic, or add a column topic without nulls"
            )
        encoded_topics = column.dictionary_encode()
        names: list[str] = encoded_topics.dictionary.to_pylist()
        indices = int64_values(encoded_topics.indices.cast(pa.int64()))
        for index, name in enumerate(names):
            if name not in self._checked_topics:
                try:
                    check_topic_name(name)
                except OptionError as error:
                    raise _make_row_error(_find_first_set_index(indices == index), str(error)) from None
                self._checked_topics.add(name)
        return names, indices

    def _choose_partitions(self, rows: pa.RecordBatch, topics: list[str], topic_of: Ints, counts: Ints) -> Ints:
        """Return the partition of each row: from its column ``partition``, from its key, or in turn."""
        partitions: Ints = np.full(rows.num_rows, NO_PARTITION, np.int64)
        if "partition" in rows.schema.names:
            column = rows.column("partition")
            partition_numbers = int64_values(column.cast(pa.int64()), null_value=NO_PARTITION).copy()
            self._check_partitions(partition_numbers, get_flag_values(column.is_valid()), topics, topic_of, counts)
            partitions = partition_numbers
        keys = to_byte_strings("key", rows.column("key")) if "key" in rows.schema.names else None
        if keys is not None:
            assign_by_key(keys, counts, partitions)
        is_unassigned = np.flatnonzero(partitions < 0)
        if len(is_unassigned):
            partitions[is_unassigned] = self._choose_in_turn(rows, is_unassigned, counts)
        return partitions

    def _check_partitions(
        self, numbers: Ints, has_number: npt.NDArray[np.bool_], topics: list[str], topic_of: Ints, counts: Ints
    ) -> None:
        """Reject partition numbers that their topics do not have."""
        has_known_count = np.array([name in self._settings.partitions for name in topics], np.bool_)[topic_of]
        limits = np.where(has_known_count | (self._settings.num_partitions is not None), counts, MAX_INT32 + 1)
        is_invalid = has_number & ((numbers < 0) | (numbers >= limits))
        if is_invalid.any():
            row = int(np.flatnonzero(is_invalid)[0])
            has_partition = (
                f"has {count_text(counts[row], 'partition')}"
                if limits[row] <= MAX_INT32
                else "has partition numbers from 0"
            )
            raise _make_row_error(
                row, f"partition {numbers[row]} is invalid: topic {topics[topic_of[row]]} {has_partition}"
            )

    def _choose_in_turn(self, rows: pa.RecordBatch, unassigned_rows: Ints, counts: Ints) -> Ints:
        """Choose partitions for rows without partition and key: the next partition after about a batch of rows."""
        values = to_byte_strings("value", rows.column("value")) if "value" in rows.schema.names else _NO_VALUES
        lengths = (
            np.maximum(values.lengths[unassigned_rows], 0)
            if len(values.lengths)
            else np.zeros(len(unassigned_rows), np.int64)
        )
        ends = self._keyless_bytes + np.cumsum(lengths + 1)
        self._keyless_bytes = int(ends[-1])
        turns: Ints = (self._task + (ends - 1) // self._settings.batch_bytes) % counts[unassigned_rows]
        return turns


def _make_row_error(row: int, reason: str) -> EncodeError:
    """Return the error for a row."""
    return EncodeError(reason).within(row)


def _find_first_set_index(flags: npt.NDArray[np.bool_]) -> int:
    """Return the index of the first flag that is set."""
    return int(np.flatnonzero(flags)[0])


_NO_VALUES = ByteStrings(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8))
