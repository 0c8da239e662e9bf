"""Model the positions up to which a destination has records, and the plan of the offsets to add.

A table stores its positions with each commit (``jobs.tables.state``), an export to files in its journal. An end offset
alone does not identify the log. Destinations therefore also store topic ids, and fingerprints of the last records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.task import ExportTask
from kafkaframes.scan.fingerprints import Fingerprint
from kafkaframes.storage.log.notes import NO_NOTES, LogNotes

TopicPartition = tuple[str, int]
Ends = Mapping[TopicPartition, int]
Fingerprints = Mapping[TopicPartition, tuple[Fingerprint, ...]]


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets ``first`` to ``end`` (exclusive) that the log deleted before they were added to the destination."""

    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        return f"offsets {self.first} to {self.end - 1} of {self.topic}-{self.partition}"


class Positions(Protocol):
    """The positions that a destination has stored."""

    @property
    def find_end(self) -> Callable[[TopicPartition], int | None]:
        """A function that returns a topic partition's stored end offset; None if the destination does not have one."""

    @property
    def find_topic_number(self) -> Callable[[str], int | None]:
        """A function that returns ``topic_id_to_int`` of a topic's stored id; None if it is unknown."""

    @property
    def fingerprints(self) -> Fingerprints:
        """The fingerprints of the last records of topic partitions, in offset order."""


@dataclass(frozen=True)
class IncrementPlan:
    """The offsets that a run adds to a destination.

    Attributes:
        tasks: tasks by topic partition and offset. A task's offset range may turn out to have no new batches.
        starts: first new offset of each selected topic partition.
        topic_ids: id of each topic in the source, by topic name.
        gaps: accepted gaps.
        internal_topics: internal topics that exist and are not selected.
        notes: swap files, transaction indexes that differ from markers, and records hidden by open transactions.
    """

    tasks: tuple[ExportTask, ...]
    starts: Ends
    topic_ids: Mapping[str, str]
    gaps: tuple[Gap, ...] = ()
    internal_topics: tuple[str, ...] = ()
    notes: LogNotes = NO_NOTES


Plan = Callable[[Positions | None], IncrementPlan]


@dataclass(frozen=True, slots=True)
class Destination:
    """The kind of a destination: its name in messages, and the remedy that its error messages suggest.

    Attributes:
        name: the destination as a subject, such as "the table".
        new: remedy if the source is not the log of earlier runs, such as "Write it to a new table".
    """

    name: str
    new: str


LOG_TABLE_DESTINATION = Destination("the table", "Export it to a new table, or with `overwrite`")
TOPIC_TABLE_DESTINATION = Destination("the table", "Write it to a new table, or with `overwrite`")
FILES_DESTINATION = Destination("the export", "Export it to a new directory, or with `overwrite`")


def topic_id_to_int(topic_id: str) -> int:
    """Return 63 bits of a topic id, for fields that can only store a number.

    >>> topic_id_to_int("AAAAAAAAAAAAAAAAAAAAAQ") == topic_id_to_int("AAAAAAAAAAAAAAAAAAAAAg")
    False
    """
    from hashlib import sha256

    return int.from_bytes(sha256(topic_id.encode()).digest()[:8], "big") >> 1


def check_same_topic(topic: str, topic_id: str, positions: Positions | None, destination: Destination) -> None:
    """Check that the destination was filled from the same topic.

    Raises:
        OptionError: the topic was deleted and created again since then, so its offsets refer to other records.
    """
    number = None if positions is None else positions.find_topic_number(topic)
    if number is not None and number != topic_id_to_int(topic_id):
        raise OptionError(
            f"topic {topic} has the id {topic_id}, but {destination.name} was filled from a topic with another id: "
            f"the topic was deleted and created again. {destination.new}"
        )
