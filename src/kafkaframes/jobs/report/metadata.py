"""Read properties of topics and producers from a cluster's internal topics, and find transactions in batch headers.

Internal topics contain the cleanup policies of topics and the transactional ids of producers. Both internal topics are
optional: if a topic's settings are missing or unreadable, other evidence is used, such as the cleaner checkpoint.

The transactions of a partition are counted by outcome, with their durations and the open ones. A transaction counts
once in each of its partitions, because a partition does not name the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.report.histograms import SizeHistogram
from kafkaframes.jobs.report.measure import TRANSACTION_COLUMNS, Measured
from kafkaframes.records.columns import ReadOptions, RecordReader
from kafkaframes.records.layout import CONTROL
from kafkaframes.records.scan import FILE, Ints
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogDirectory, Partition, Segment, partitions_of
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.log.internal_topics import decode_record
from kafkaframes.storage.log.open_segment import StoredSegment

# Internal topics that Kafka always compacts.
COMPACTED_BY_KAFKA = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_TRANSACTION_STATE_TOPIC = "__transaction_state"
_TOPIC, _POLICY = 2, "cleanup.policy"
_MAX_READ_SEGMENT_BYTES = 256 << 20  # size up to which the segments of an internal topic are read
_CONFIG_RECORD_TYPE = 4  # API key of KRaft's ConfigRecord


def find_compacted_topics(directories: Iterable[LogDirectory]) -> dict[str, str]:
    """Return the compacted topics, each with the evidence that it is compacted."""
    directory_list = list(directories)
    policies = _read_policies(directory_list)
    result = {topic: "cleanup.policy" for topic, policy in policies.items() if "compact" in policy}
    result |= dict.fromkeys(COMPACTED_BY_KAFKA, "Kafka's own topic")
    for directory in directory_list:
        for entry in directory.offset_checkpoints.get(names.CLEANER_CHECKPOINT, {}):
            result.setdefault(entry.topic, "cleaner checkpoint")
    return {topic: reason for topic, reason in result.items() if "compact" in policies.get(topic, "compact")}


def _read_policies(directories: list[LogDirectory]) -> dict[str, str]:
    """Return the newest cleanup.policy of each topic in KRaft's metadata log."""
    result: dict[str, str] = {}
    for directory, partition in partitions_of(directories):
        if partition.topic == names.CLUSTER_METADATA_TOPIC:
            for _, value in _read_records(directory.filesystem, (*partition.kraft_snapshots[-1:], *partition.segments)):
                _, config = (
                    _decode_record(partition.topic, None, value)
                    if value[1:2] == bytes([_CONFIG_RECORD_TYPE])
                    else ({}, {})
                )
                if config.get("resourceType") == _TOPIC and config.get("name") == _POLICY:
                    result[config["resourceName"]] = config["value"] or ""
    return result


def read_transactional_ids(partitions: Iterable[tuple[FileSystem, Partition]]) -> dict[int, str]:
    """Return the transactional ids by producer id, from the transaction coordinator's topic."""
    result: dict[int, str] = {}
    for filesystem, partition in partitions:
        if partition.topic == _TRANSACTION_STATE_TOPIC:
            segments = {key: value for key, value in _read_records(filesystem, partition.segments) if key is not None}
            for key_fields, value_fields in (
                _decode_record(_TRANSACTION_STATE_TOPIC, key, value) for key, value in segments.items()
            ):
                if "producerId" in value_fields and "transactionalId" in key_fields:
                    result[value_fields["producerId"]] = key_fields["transactionalId"]
    return result


def _decode_record(topic: str, key: bytes | None, value: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return key and value of a record as JSON objects, which are empty for an unreadable record."""
    try:
        record = decode_record(topic, key, value)
    except KafkaframesError:
        return {}, {}
    key_form, value_form = (json.loads(text or "{}") for text in (record.key, record.value))
    return key_form if isinstance(key_form, dict) else {}, value_form if isinstance(value_form, dict) else {}


def _read_records(filesystem: FileSystem, segments: Iterable[Segment]) -> Iterator[tuple[bytes | None, bytes]]:
    """Yield key and value of the records with a value. The iteration ends at the first unreadable segment."""
    options = ReadOptions(columns=("key", "value"), rules=FILE, control_records=False)
    remaining_bytes = _MAX_READ_SEGMENT_BYTES
    for segment in segments:
        remaining_bytes -= segment.size_bytes
        if remaining_bytes < 0:
            return
        try:
            with filesystem.open(segment.path) as read_at:
                for batch in RecordReader(StoredSegment(segment.path, segment.size_bytes, read_at), options):
                    for key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        if value is not None:
                            yield key, value
        except KafkaframesError:
            return


_PRODUCER, _EPOCH, _OFFSET, _FIRST, _LAST, _ATTRIBUTES = range(len(TRANSACTION_COLUMNS))


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without a marker.

    ``since`` is the timestamp of the transaction's first batch, in milliseconds; -1 if unknown.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    since: int


@dataclass(slots=True)
class TransactionCounts:
    """Counts of transactions by outcome, and their durations from the first batch to the marker, in milliseconds.

    Attributes:
        empty_markers: number of markers without a batch in this log. The transaction had records only in other
            partitions, or its records here were removed by compaction.
    """

    committed: int = 0
    aborted: int = 0
    empty_markers: int = 0
    durations: SizeHistogram = field(default_factory=SizeHistogram)
    open: list[OpenTransaction] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of committed, aborted and open transactions."""
        return self.committed + self.aborted + len(self.open)


def measure_transactions(partition: Partition, segments: Iterable[Measured]) -> TransactionCounts:
    """Return the transactions of a partition. The segments must be in offset order."""
    result, durations = TransactionCounts(), []
    open_transactions: dict[int, OpenTransaction] = {}
    for verified_segment, measured_segment in segments:
        kinds = {offset: kind for offset, _, kind in verified_segment.markers}
        for row in _select_turning_points(measured_segment.transactional).T.tolist():
            producer, offset = row[_PRODUCER], row[_OFFSET]
            if not row[_ATTRIBUTES] & CONTROL:
                transaction = OpenTransaction(
                    partition.topic, partition.partition, producer, row[_EPOCH], offset, row[_FIRST]
                )
                open_transactions.setdefault(producer, transaction)
            elif offset in kinds:
                first = open_transactions.pop(producer, None)
                if first is None:
                    result.empty_markers += 1
                    continue
                result.committed += kinds[offset] == "COMMIT"
                result.aborted += kinds[offset] == "ABORT"
                if 0 <= first.since <= row[_LAST]:
                    durations.append(row[_LAST] - first.since)
    result.durations.add_values(np.asarray(durations, np.int64))
    result.open = sorted(open_transactions.values(), key=lambda entry: entry.first_offset)
    return result


def _select_turning_points(table: Ints) -> Ints:
    """Return the batches that start a transaction, and the markers that end one.

    In large logs, most batches only continue a transaction.
    """
    order = np.argsort(table[_PRODUCER], kind="stable")
    control = (table[_ATTRIBUTES, order] & CONTROL) != 0
    starts = np.diff(table[_PRODUCER, order], prepend=np.iinfo(np.int64).min) != 0
    is_turning_point: Ints = table[:, np.sort(order[control | starts | np.concatenate(([False], control[:-1]))])]
    return is_turning_point
