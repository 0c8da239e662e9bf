"""Offsets of topics as the checkpoint of a stream holds them. No I/O.

They have Spark's own form, ``{"orders": {"0": 42}}``, and entries without partitions, which Spark's connector ignores:

=========================== ============================================================================================
``"orders@ID": {}``         the id of a topic
``"orders@ID/0=42,1=7": {}`` offsets of partitions that the brokers did not list when the micro-batch was planned; ID is
                            empty if brokers have no topic ids
=========================== ============================================================================================

An empty or a partial list of topics does not mean that the others were deleted: rights that are set again, or a cluster
that is started again, have the same effect. So the stream keeps the offsets, and continues there if the topic returns
with that id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkaframes.scan.ranges import Name, Nested, flat, nested

_ID: Final = "@"  # not allowed in a topic's name, as the two below
_ABSENT: Final = "/"
_OFFSET: Final = "="


class AbsentPartition(NamedTuple):
    """Where a stream continues in a partition that is not listed, and the id of its topic ("" if it has none)."""

    topic_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The offsets of a stream.

    Attributes:
        offsets: the next offset of each partition.
        ids: the ids of the topics, as far as the brokers have them.
        absent: the next offset of each partition that brokers did not list.
    """

    offsets: Mapping[Name, int]
    ids: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[Name, AbsentPartition] = field(default_factory=dict)

    def to_json(self) -> Nested:
        """Return the form of a checkpoint.

        >>> absent = {("u", 1): AbsentPartition("c-d", 7)}
        >>> StreamOffsets({("t", 0): 42}, {"t": "a-b"}, absent).to_json()
        {'t': {'0': 42}, 't@a-b': {}, 'u@c-d/1=7': {}}
        """
        result: Nested = nested(self.offsets)
        names = [f"{topic}{_ID}{self.ids[topic]}" for topic in result if topic in self.ids]
        by_topic: dict[tuple[str, str], list[str]] = {}
        for (topic, partition), (topic_id, offset) in sorted(self.absent.items()):
            by_topic.setdefault((topic, topic_id), []).append(f"{partition}{_OFFSET}{offset}")
        names += [f"{topic}{_ID}{topic_id}{_ABSENT}{','.join(texts)}" for (topic, topic_id), texts in by_topic.items()]
        return {**result, **{name: {} for name in names}}

    @classmethod
    def from_json(cls, nested_offsets: Mapping[str, Mapping[str, int]]) -> StreamOffsets:
        """Undo ``to_json``; entries of this form with other contents are ignored, as the connector ignores them."""
        ids: dict[str, str] = {}
        absent: dict[Name, AbsentPartition] = {}
        for name, partitions in nested_offsets.items():
            topic, mark, rest = name.partition(_ID)
            if not mark or partitions:
                continue
            topic_id, is_absent, texts = rest.partition(_ABSENT)
            if not is_absent:
                ids[topic] = topic_id
                continue
            for text in texts.split(","):
                partition, _, offset = text.partition(_OFFSET)
                if partition.isdecimal() and offset.isdecimal():
                    absent[topic, int(partition)] = AbsentPartition(topic_id, int(offset))
        return cls(flat(nested_offsets), ids, absent)

    def with_all_listed(self) -> Nested:
        """Return the form of a checkpoint without ids, in which absent partitions count as listed ones."""
        return nested({**{name: partition.offset for name, partition in self.absent.items()}, **self.offsets})
