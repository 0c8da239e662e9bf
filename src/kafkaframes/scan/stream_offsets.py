"""The offsets of a stream, in the form of its checkpoint. No I/O.

The form is that of Spark's connector, ``{"orders": {"0": 42}}``, with additional entries that the connector ignores
because they have no partitions:

=========================== ============================================================================================
``"orders@ID": {}``         id of a topic
``"orders@ID/0=42,1=7": {}`` offsets of partitions that were missing in the metadata when the micro-batch was planned;
                            ID is empty if brokers have no topic ids
``"orders@/0:41:T:K:V:D"``  fingerprints of the last records before the offsets of partitions without a topic id, each
                            with offset, timestamp, sizes of key and value ("-" means none) and digest
=========================== ============================================================================================

If a topic is missing in the metadata, it is not necessarily deleted: a change of its ACLs or a restart of the cluster
has the same effect. The stream therefore keeps the offsets, and continues there if a topic with this id returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkaframes.scan.fingerprints import Fingerprint
from kafkaframes.scan.ranges import Name, Nested, flatten_topics, nest_by_topic

_ID_SEPARATOR: Final = "@"  # this and the following separators are invalid in topic names
_ABSENCE_MARK: Final = "/"
_OFFSET_SEPARATOR: Final = "="
_FIELD_SEPARATOR: Final = ":"
_NULL_MARK: Final = "-"


class AbsentPartition(NamedTuple):
    """The next offset of a partition that is missing in the metadata, and its topic id ("" if brokers have no ids)."""

    topic_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The offset of a Spark stream in each partition, as stored in its checkpoint.

    Attributes:
        offsets: next offset of each partition in the metadata.
        ids: topic ids, by topic; empty if brokers have no topic ids.
        absent: next offset of each partition that is missing in the metadata.
        fingerprints: fingerprints of the last records before the offsets, in offset order, of partitions in a log
            directory without a topic id.
    """

    offsets: Mapping[Name, int]
    ids: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[Name, AbsentPartition] = field(default_factory=dict)
    fingerprints: Mapping[Name, tuple[Fingerprint, ...]] = field(default_factory=dict)

    def to_json(self) -> Nested:
        """Return the offsets in the form of a checkpoint.

        >>> absent = {("u", 1): AbsentPartition("c-d", 7)}
        >>> StreamOffsets({("t", 0): 42}, {"t": "a-b"}, absent).to_json()
        {'t': {'0': 42}, 't@a-b': {}, 'u@c-d/1=7': {}}
        """
        result: Nested = nest_by_topic(self.offsets)
        names = [f"{topic}{_ID_SEPARATOR}{self.ids[topic]}" for topic in result if topic in self.ids]
        by_topic: dict[tuple[str, str], list[str]] = {}
        for (topic, partition), (topic_id, offset) in sorted(self.absent.items()):
            by_topic.setdefault((topic, topic_id), []).append(f"{partition}{_OFFSET_SEPARATOR}{offset}")
        names += [
            f"{topic}{_ID_SEPARATOR}{topic_id}{_ABSENCE_MARK}{','.join(texts)}"
            for (topic, topic_id), texts in by_topic.items()
        ]
        records_by_topic: dict[str, list[str]] = {}
        for (topic, partition), rows in sorted(self.fingerprints.items()):
            records_by_topic.setdefault(topic, []).extend(_fingerprint_text(partition, row) for row in rows)
        names += [
            f"{topic}{_ID_SEPARATOR}{_ABSENCE_MARK}{','.join(texts)}"
            for topic, texts in records_by_topic.items()
            if texts
        ]
        return {**result, **{name: {} for name in names}}

    @classmethod
    def from_json(cls, nested_offsets: Mapping[str, Mapping[str, int]]) -> StreamOffsets:
        """Parse the form of ``to_json``. Unknown entries without partitions are ignored, as in Spark's connector."""
        ids: dict[str, str] = {}
        absent: dict[Name, AbsentPartition] = {}
        fingerprints: dict[Name, tuple[Fingerprint, ...]] = {}
        for name, partitions in nested_offsets.items():
            topic, separator, suffix = name.partition(_ID_SEPARATOR)
            if not separator or partitions:
                continue
            topic_id, is_absent, texts = suffix.partition(_ABSENCE_MARK)
            if not is_absent:
                ids[topic] = topic_id
                continue
            for text in texts.split(","):
                if (parsed := _parse_fingerprint(text)) is not None:
                    topic_partition = topic, parsed[0]
                    fingerprints[topic_partition] = (*fingerprints.get(topic_partition, ()), parsed[1])
                    continue
                partition, _, offset = text.partition(_OFFSET_SEPARATOR)
                if partition.isdecimal() and offset.isdecimal():
                    absent[topic, int(partition)] = AbsentPartition(topic_id, int(offset))
        return cls(flatten_topics(nested_offsets), ids, absent, fingerprints)

    def to_json_without_ids(self) -> Nested:
        """Return the checkpoint form without topic ids. Absent partitions are included as well."""
        return nest_by_topic({**{name: partition.offset for name, partition in self.absent.items()}, **self.offsets})


def _fingerprint_text(partition: int, row: Fingerprint) -> str:
    return _FIELD_SEPARATOR.join(_NULL_MARK if value is None else str(value) for value in (partition, *row))


def _parse_fingerprint(text: str) -> tuple[int, Fingerprint] | None:
    """Parse the text of a fingerprint to its partition and the fingerprint; return None if it has another form."""
    fields = text.split(_FIELD_SEPARATOR)
    if len(fields) != 1 + len(Fingerprint._fields):
        return None
    try:
        partition, offset = int(fields[0]), int(fields[1])
        timestamp, key_size, value_size = (None if field == _NULL_MARK else int(field) for field in fields[2:5])
    except ValueError:
        return None
    return partition, Fingerprint(offset, timestamp, key_size, value_size, fields[5])
