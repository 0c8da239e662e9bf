"""Define the state of a table and the changes in one commit, as plain values.

A table has, for each topic partition, the records of the log up to an *end offset* (exclusive). A commit stores its
records and their end offsets atomically. ``before`` are the end offsets on which a commit is based. A commit succeeds
only if the table still has these end offsets, so that concurrent writers never add a record twice.

An end offset does not show which log it belongs to. A commit therefore also stores topic ids, and fingerprints of the
last records that were read (``scan.fingerprints``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

import pyarrow as pa

from kafkaframes.jobs.export.positions import Ends, Fingerprints, Gap, TopicPartition, topic_id_to_int
from kafkaframes.jobs.export.task import OWN_DIRECTORY, ExportTaskSettings
from kafkaframes.jobs.job import parse_json_object
from kafkaframes.jobs.tables.files import DataFile
from kafkaframes.scan.fingerprints import Fingerprint
from kafkaframes.scan.ranges import nest_by_topic
from kafkaframes.storage.files.filesystem import join

STAGING_DIRECTORY = f"{OWN_DIRECTORY}/staged"  # directory of files that are not committed yet
NOTE_KEY = "kafkaframes"  # key in a commit's metadata for the object that ``TableCommit.note`` returns
SETTINGS_KEY = "kafkaframes.settings"  # key of the stored selection of records in the metadata of a table
_FINGERPRINT_FIELD_COUNT = len(Fingerprint._fields)


@dataclass(frozen=True)
class TableState:
    """The state of a table at one version.

    Attributes:
        find_end: function that returns the end offset of a topic partition; None if the table does not have the
            partition.
        find_topic_number: function that returns ``topic_id_to_int`` of a topic's id at the last commit; None if
            unknown.
        ends: end offsets of all topic partitions in the last commit by kafkaframes.
        settings: stored settings that select the table's records; None if another program created the table.
        version: version of a Delta table, snapshot id of an Iceberg table; None before the first commit.
        is_reset: whether the table was restored to an earlier version, so that the next commit stores all end offsets.
        topic_ids: topic ids in the notes of commits.
        fingerprints: fingerprints of the last records of topic partitions, in offset order.
    """

    find_end: Callable[[TopicPartition], int | None]
    find_topic_number: Callable[[str], int | None]
    ends: Ends
    settings: Mapping[str, Any] | None
    version: int | None
    is_reset: bool = False
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    fingerprints: Fingerprints = field(default_factory=dict)


def make_state_from_note(
    note: Mapping[str, Any], topic_ids: Mapping[str, str], settings: Mapping[str, Any] | None, version: int | None
) -> TableState:
    """Return the state of a table whose last commit has all end offsets and topic ids in its note."""
    ends = flatten_partitions(note.get("offsets"))
    return TableState(
        ends.get,
        lambda topic: topic_id_to_int(topic_ids[topic]) if topic in topic_ids else None,
        ends,
        settings,
        version,
        topic_ids=topic_ids,
        fingerprints=parse_fingerprints(note),
    )


def parse_fingerprints(note: Mapping[str, Any]) -> dict[TopicPartition, tuple[Fingerprint, ...]]:
    """Return the fingerprints in a commit's note. Invalid fingerprints are omitted."""
    result = {}
    for topic, partitions in _items_of(note.get("lastRecords")):
        for partition, rows in _items_of(partitions):
            if str(partition).isdecimal() and isinstance(rows, list):
                entries = [
                    Fingerprint(*row) for row in rows if isinstance(row, list) and len(row) == _FINGERPRINT_FIELD_COUNT
                ]
                result[str(topic), int(partition)] = tuple(entries)
    return result


@dataclass(frozen=True)
class TableCommit:
    """The changes of one commit.

    Attributes:
        run: unique name of this commit and its files.
        before: end offsets on which the commit is based; None for a partition that the table does not have.
        after: end offsets after the commit.
        topic_ids: id of each topic in the source, by topic name.
        settings: stored settings that select the records.
        files: data files to add.
        columns: columns of the table, in order.
        gaps: accepted gaps.
        replaces: whether the commit removes all existing rows.
        latest: whether the files are changes by key: a record replaces the row of its key, a tombstone deletes it.
        fingerprints: fingerprints of the last records of the topic partitions in ``after``.
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
    fingerprints: Fingerprints = field(default_factory=dict)

    def to_note(self, state: TableState | None) -> dict[str, Any]:
        """Return the information about the commit for people and programs, as a JSON object.

        Args:
            state: state of the table before the commit. The other topic partitions in this state are part of the note.
        """
        added_ranges = {name: [self.before[name] or 0, end] for name, end in self.after.items()}
        ends, topic_ids, fingerprints = dict(self.after), dict(self.topic_ids), dict(self.fingerprints)
        if state is not None and not self.replaces:
            ends = {name: end for name, end in state.ends.items() if end >= 0} | ends
            topic_ids = dict(state.topic_ids) | topic_ids
            fingerprints = dict(state.fingerprints) | fingerprints
        last_records = {name: list(map(list, rows)) for name, rows in fingerprints.items() if name in ends}
        return {
            "run": self.run,
            "offsets": nest_by_topic(ends),
            "added": nest_by_topic(added_ranges),
            "lastRecords": nest_by_topic(last_records),
            "topicIds": topic_ids,
            "gaps": [asdict(gap) for gap in self.gaps],
            "records": sum(file.records for file in self.files),
            "settings": dict(self.settings),
        }

    def matches_state(self, state: TableState | None) -> bool:
        """Return whether the table still has the end offsets on which this commit is based."""
        return all((None if state is None else state.find_end(name)) == end for name, end in self.before.items())


class CommitConflictError(Exception):
    """Another writer committed first, so this commit was not applied."""


def make_stored_settings(settings: ExportTaskSettings, *, isolation: str) -> dict[str, Any]:
    """Return the selection of a table's records as JSON values.

    The selection must be the same in every run into the table.
    """
    keep_settings = settings.stored_fingerprint()["keep"]
    return {"isolation": isolation, **{name: value for name, value in keep_settings.items() if value is not None}}


def make_partition_path(name: TopicPartition) -> str:
    """Return the relative directory of a topic partition, in the usual form of partitioned tables."""
    return f"topic={quote(name[0], safe='')}/partition={name[1]}"


def make_staging_path(root: str, name: TopicPartition) -> str:
    """Return the directory for a topic partition's files before their commit."""
    return join(root, f"{STAGING_DIRECTORY}/{make_partition_path(name)}")


def flatten_partitions(values: Any) -> dict[TopicPartition, int]:
    """Return the topic partitions in the output of ``nest_by_topic``. Invalid names are omitted."""
    result = {}
    for topic, partitions in _items_of(values):
        for partition, value in _items_of(partitions):
            if str(partition).isdecimal() and isinstance(value, int):
                result[str(topic), int(partition)] = value
    return result


def _items_of(values: Any) -> Iterable[tuple[Any, Any]]:
    return values.items() if isinstance(values, Mapping) else ()


def parse_note(value: Any) -> dict[str, Any] | None:
    """Parse a commit's note, which some libraries return as text. Return None if the value is not a note."""
    values = parse_json_object(value) if isinstance(value, str) else value
    return values if isinstance(values, dict) and "run" in values else None


class Table(Protocol):
    """A table that exists or is still to be created.

    Attributes:
        shown: name of the table, for messages.
        names_inside: whether data files have columns for topic and partition.
    """

    shown: str
    names_inside: bool

    @property
    def root(self) -> str:
        """The directory or URL of the table's data files."""

    @property
    def known_root(self) -> str | None:
        """The table's root; None if the table would have to be created to determine it."""

    def read_state(self) -> TableState | None:
        """Return the current state of the table, or None if the table does not exist.

        Raises:
            OptionError: another program created the table, or the table cannot be read.
        """

    def check_columns(self, columns: pa.Schema) -> None:
        """Check that rows with these columns can be written to the table, if it exists.

        Raises:
            OptionError: the columns do not match. The message contains a remedy.
        """

    def get_data_directory(self, name: TopicPartition) -> str:
        """Return the directory for a topic partition's data files."""

    def commit_files(self, commit: TableCommit, state: TableState | None) -> None:
        """Commit on top of the state that was read last.

        Raises:
            CommitConflictError: the table has changed since it was read, and nothing was added.
        """

    def compact_small_files(self) -> None:
        """Compact small data files, if the library of the format supports it."""

    def has_committed(self, run: str, *, since: int | None) -> bool | None:
        """Return whether a run committed after a version; None if the table's history does not show it."""

    def describe(self) -> dict[str, Any]:
        """Return properties of the table that are reported after a run, as JSON values."""
