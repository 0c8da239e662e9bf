"""What a table says of itself, and what one commit adds to it: plain values.

A table holds, for each topic partition, the records of the log up to an *end offset* (exclusive, as everywhere). The
ends stand in the commit that brings the records: one cannot be there without the other. ``before`` are the ends that a
commit builds on. A commit is only made while the table still has these ends, so that nothing is
added twice, even if other writers are at work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol
from urllib.parse import quote

import pyarrow as pa

from kafkaframes.jobs.export.task import OWN, Settings
from kafkaframes.jobs.job import json_object
from kafkaframes.jobs.tables.files import DataFile
from kafkaframes.scan.ranges import nested
from kafkaframes.storage.files.filesystem import join

TopicPartition = tuple[str, int]
Ends = Mapping[TopicPartition, int]
STAGED = f"{OWN}/staged"  # files that a commit takes up, and that are no data files themselves
NOTE = "kafkaframes"  # the name, in a commit's metadata, of the object that ``Commit.note`` returns
SETTINGS = "kafkaframes.settings"


@dataclass(frozen=True)
class TableState:
    """What a table says, at one version.

    Attributes:
        end_of: the end offset of a topic partition; None where the table knows nothing of it.
        topic_number_of: ``topic_number`` of the topic's id as it was when last added; None where that is not known.
        ends: of all topic partitions that the last commit of ours names.
        settings: which records are in the table; None where another program made it.
        version: Delta's version, Iceberg's snapshot id; None before the first commit.
        is_reset: the table was set back to an earlier version: every end has to be said anew.
    """

    end_of: Callable[[TopicPartition], int | None]
    topic_number_of: Callable[[str], int | None]
    ends: Ends
    settings: Mapping[str, Any] | None
    version: int | None
    is_reset: bool = False


def noted_state(
    ends: Ends, topic_ids: Mapping[str, str], settings: Mapping[str, Any] | None, version: int | None
) -> TableState:
    """Return the state of a table whose last commit names all end offsets and topic ids."""
    return TableState(
        ends.get,
        lambda topic: topic_number(topic_ids[topic]) if topic in topic_ids else None,
        ends,
        settings,
        version,
    )


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that the log had lost before they came into the table: from ``first`` up to ``end`` (exclusive)."""

    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        return f"offsets {self.first} to {self.end - 1} of {self.topic}-{self.partition}"


@dataclass(frozen=True)
class Commit:
    """What one commit adds.

    Attributes:
        run: names this commit and its files; no other has it.
        before, after: the ends that it builds on (None: the table does not know the partition), and those afterwards.
        topic_ids: as the log says them.
        gaps: that were accepted.
        columns: of the table, in order.
        replaces: whether everything that was there before goes.
        latest: whether the files are changes by key: a row replaces the key's, a tombstone removes it.
    """

    run: str
    before: Mapping[TopicPartition, int | None]
    after: Ends
    topic_ids: Mapping[str, str]
    settings: Mapping[str, Any]
    files: tuple[DataFile, ...]
    columns: pa.Schema
    gaps: tuple[Gap, ...] = ()
    replaces: bool = False
    latest: bool = False

    def note(self, ends: Ends) -> dict[str, Any]:
        """Return what the commit says for people and programs: a JSON object.

        Args:
            ends: what the table says already, of other topic partitions too.
        """
        added = {name: [self.before[name] or 0, end] for name, end in self.after.items()}
        known = {} if self.replaces else dict(ends)
        return {
            "run": self.run,
            "offsets": nested(known | dict(self.after)),
            "added": nested(added),
            "topicIds": dict(self.topic_ids),
            "gaps": [asdict(gap) for gap in self.gaps],
            "records": sum(file.records for file in self.files),
            "settings": dict(self.settings),
        }

    def fits(self, state: TableState | None) -> bool:
        """Return whether the table still says what this commit builds on."""
        return all((None if state is None else state.end_of(name)) == end for name, end in self.before.items())


class RacedError(Exception):
    """Somebody else committed in the meantime; nothing was added."""


def table_settings(settings: Settings, *, isolation: str) -> dict[str, Any]:
    """Return which records a table holds, as JSON values: what every run into it must agree on."""
    chosen = settings.fingerprint()["keep"]
    return {"isolation": isolation, **{name: value for name, value in chosen.items() if value is not None}}


def partition_path(name: TopicPartition) -> str:
    """Return where a topic partition's files lie below a directory, as writers of partitioned tables have it."""
    return f"topic={quote(name[0], safe='')}/partition={name[1]}"


def staged_directory(root: str, name: TopicPartition) -> str:
    """Return where files are to lie until a commit has taken them up."""
    return join(root, f"{STAGED}/{partition_path(name)}")


def topic_number(topic_id: str) -> int:
    """Return 63 bits of a topic's id: for places that hold a number only.

    >>> topic_number("AAAAAAAAAAAAAAAAAAAAAQ") == topic_number("AAAAAAAAAAAAAAAAAAAAAg")
    False
    """
    from hashlib import sha256

    return int.from_bytes(sha256(topic_id.encode()).digest()[:8], "big") >> 1


def flat(values: Any) -> dict[TopicPartition, int]:
    """Read what ``nested`` gave; names that it could not have made are left out."""
    result = {}
    for topic, partitions in _pairs(values):
        for partition, value in _pairs(partitions):
            if str(partition).isdecimal() and isinstance(value, int):
                result[str(topic), int(partition)] = value
    return result


def _pairs(values: Any) -> Iterable[tuple[Any, Any]]:
    return values.items() if isinstance(values, Mapping) else ()


def parse_note(value: Any) -> dict[str, Any] | None:
    """Read a commit's note, which some libraries give back as text; None if it is not a note."""
    values = json_object(value) if isinstance(value, str) else value
    return values if isinstance(values, dict) and "run" in values else None


class Table(Protocol):
    """One table, there or yet to be made.

    Attributes:
        shown: what to call it in messages.
        names_inside: whether its data files hold topic and partition as columns.
    """

    shown: str
    names_inside: bool

    @property
    def root(self) -> str:
        """The directory or URL that its data files lie below."""

    @property
    def known_root(self) -> str | None:
        """``root``, as long as the table need not be made to know it."""

    def read(self) -> TableState | None:
        """Return the state of the table now, or None if the table does not exist.

        Raises:
            OptionError: another program made it, or it cannot be read.
        """

    def check(self, columns: pa.Schema) -> None:
        """Check that the table, if it exists, can take rows with these columns.

        Raises:
            OptionError: it cannot; the message says what to do.
        """

    def data_directory(self, name: TopicPartition) -> str:
        """Return where data files of a topic partition are to lie."""

    def commit(self, commit: Commit, state: TableState | None) -> None:
        """Make a commit visible, on top of the state that was read last.

        Raises:
            RacedError: the table is not what was read any more, and nothing was added.
        """

    def tidy(self) -> None:
        """Put small data files together, where the format's library can."""

    def has_committed(self, run: str, *, since: int | None) -> bool | None:
        """Return whether a commit with this name was made after a version; None where the table's log does not say."""

    def about(self) -> dict[str, Any]:
        """Return what to tell of the table after a run: JSON values."""
