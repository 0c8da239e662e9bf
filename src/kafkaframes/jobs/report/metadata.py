"""What a cluster's own topics say about the others: which are compacted, which producer has which transactional id.

Only a help: topics whose settings are not there, or cannot be read, are judged by other traces.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kafkaframes.errors import KafkaframesError
from kafkaframes.records.columns import ReadOptions, RecordReader
from kafkaframes.records.scan import FILE
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogDirectory, Partition, Segment, partitions_of
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.log.internal_topics import open_record
from kafkaframes.storage.log.segment_source import StoredSegment

COMPACTED_BY_KAFKA = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_TRANSACTIONS = "__transaction_state"
_TOPIC, _POLICY = 2, "cleanup.policy"
_MOST_BYTES = 256 << 20  # of a topic of this kind; the rest is not looked at
_CONFIG_RECORD = 4


def compacted_topics(directories: Iterable[LogDirectory]) -> dict[str, str]:
    """Return the topics that are compacted, each with how one knows."""
    listed = list(directories)
    policies = _policies(listed)
    found = {topic: "cleanup.policy" for topic, policy in policies.items() if "compact" in policy}
    found |= dict.fromkeys(COMPACTED_BY_KAFKA, "Kafka's own topic")
    for directory in listed:
        for one in directory.offset_checkpoints.get(names.CLEANER_CHECKPOINT, {}):
            found.setdefault(one.topic, "cleaner checkpoint")
    return {topic: reason for topic, reason in found.items() if "compact" in policies.get(topic, "compact")}


def _policies(directories: list[LogDirectory]) -> dict[str, str]:
    """Return each topic's cleanup.policy by the metadata log of KRaft, the last one given."""
    found: dict[str, str] = {}
    for directory, partition in partitions_of(directories):
        if partition.topic == names.CLUSTER_METADATA_TOPIC:
            for _, value in _records(directory.filesystem, (*partition.kraft_snapshots[-1:], *partition.segments)):
                config = _opened(partition.topic, None, value) if value[1:2] == bytes([_CONFIG_RECORD]) else {}
                if config.get("resourceType") == _TOPIC and config.get("name") == _POLICY:
                    found[config["resourceName"]] = config["value"] or ""
    return found


def transactional_ids(chosen: Iterable[tuple[FileSystem, Partition]]) -> dict[int, str]:
    """Return the transactional id of each producer id that the transaction coordinator's topic names."""
    found: dict[int, str] = {}
    for filesystem, partition in chosen:
        if partition.topic == _TRANSACTIONS:
            last = {key: value for key, value in _records(filesystem, partition.segments) if key is not None}
            for key, value in last.items():
                found |= _producer(key, value)
    return found


def _producer(key: bytes, value: bytes) -> dict[int, str]:
    try:
        record = open_record(_TRANSACTIONS, key, value)
        return {json.loads(record.value or "{}")["producerId"]: json.loads(record.key or "{}")["transactionalId"]}
    except (KafkaframesError, KeyError):
        return {}


def _opened(topic: str, key: bytes | None, value: bytes) -> dict[str, Any]:
    try:
        found = json.loads(open_record(topic, key, value).value or "{}")
    except KafkaframesError:
        return {}
    return found if isinstance(found, dict) else {}


def _records(filesystem: FileSystem, segments: Iterable[Segment]) -> Iterator[tuple[bytes | None, bytes]]:
    """Yield key and value of the records that have a value; a segment that cannot be read ends it."""
    options = ReadOptions(columns=("key", "value"), rules=FILE, control_records=False)
    left = _MOST_BYTES
    for segment in segments:
        left -= segment.size_bytes
        if left < 0:
            return
        try:
            with filesystem.open(segment.path) as read_at:
                for batch in RecordReader(StoredSegment(segment.path, segment.size_bytes, read_at), options):
                    for key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        if value is not None:
                            yield key, value
        except KafkaframesError:
            return
