"""Delta tables, through ``deltalake`` (delta-rs).

The Delta log stores:

* the end offset of each topic partition, as version of a ``txn`` action with app id ``kafkaframes/TOPIC/PARTITION``.
  Delta keeps these actions in checkpoints and when old log files are removed. Two commits with the same app id
  conflict.
* the topic id, as version (``topic_number``) of a ``txn`` action with app id ``kafkaframes/TOPIC``.
* the selection of records, in the metadata of the column ``offset``.
* information for people, as ``kafkaframes`` in the commit info (``DESCRIBE HISTORY``), see ``Commit.note``.

A commit is tried once, on top of the version that was read. Retries of delta-rs are off (``max_commit_retries``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from kafkaframes.errors import OptionError, import_extra
from kafkaframes.jobs.export.positions import TopicPartition, topic_number
from kafkaframes.jobs.tables.committing import latest_of_keys
from kafkaframes.jobs.tables.content import PARTITIONED_BY, check_partitioning, column_changes, merge_columns
from kafkaframes.jobs.tables.files import DataFile
from kafkaframes.jobs.tables.state import (
    NOTE,
    SETTINGS,
    RacedError,
    TableCommit,
    TableState,
    fingerprints_of_note,
    flat,
    parse_note,
    partition_path,
)
from kafkaframes.storage.files.filesystem import join

APP = "kafkaframes"
FORGOTTEN = -1  # written instead of an end offset, because a txn action cannot be removed
HISTORY_PAGE = 50
_NO_WIDENING = "delta-rs cannot write Delta's feature typeWidening; use a new table, or iceberg"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def load_library() -> Any:
    """Return the module ``deltalake``.

    Raises:
        MissingExtraError: deltalake is not installed.
    """
    return import_extra("`format` delta", "delta", "deltalake", "deltalake.transaction")


class DeltaTable:
    """A Delta table at a path or URL. See ``state.Table``."""

    names_inside = False

    def __init__(self, root: str) -> None:
        self._library = load_library()
        self.root = self.shown = root
        self._table: Any = None

    @property
    def known_root(self) -> str | None:
        """The location of the table, whether or not it exists."""
        return self.root

    def read(self) -> TableState | None:
        """Return the current state of the table, or None if the table does not exist."""
        library = self._library
        try:
            self._table = library.DeltaTable(self.root)
        except library.exceptions.TableNotFoundError:
            self._table = None
            return None
        except (library.exceptions.DeltaError, OSError) as error:  # OSError: the store did not respond
            raise OptionError(f"{self.shown}: cannot be read as a Delta table: {error}") from error
        return self._state(self._table)

    def _state(self, table: Any) -> TableState:
        note, restored_version = self._last_note(table)
        at = table if restored_version is None else self._library.DeltaTable(self.root, version=restored_version)
        if restored_version is not None:  # txn actions of later versions are still valid, but their rows are removed
            earlier = self._state(at)
            offsets = dict.fromkeys(flat((note or {}).get("offsets")), FORGOTTEN)
            return TableState(
                earlier.end_of,
                earlier.topic_number_of,
                offsets | dict(earlier.ends),
                earlier.settings,
                table.version(),
                is_reset=True,
                topic_ids=earlier.topic_ids,
                fingerprints=earlier.fingerprints,
            )
        ends = {name: end for name in flat((note or {}).get("offsets")) if (end := _end_of(at, name)) is not None}
        return TableState(
            lambda name: _end_of(at, name),
            lambda topic: _check_version(at.transaction_version(_topic_app(topic))),
            ends,
            self._settings(table),
            table.version(),
            topic_ids=(note or {}).get("topicIds") or {},
            fingerprints=fingerprints_of_note(note or {}),
        )

    def _last_note(self, table: Any) -> tuple[dict[str, Any] | None, int | None]:
        """Return the newest note in the history, and the version to which the table was restored after it."""
        restored_version: int | None = None
        for _, entry in self._history(table.version()):
            if (note := parse_note(entry.get(NOTE))) is not None:
                return note, restored_version
            if entry.get("operation") == "RESTORE" and restored_version is None:
                restored_version = int(entry.get("operationParameters", {}).get("version", -1))
        return None, restored_version

    def _history(self, version: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the commits up to a version with their versions, newest first.

        deltalake 1.6 always lists the newest commits of the log, even if an older version of the table is loaded, and
        numbers them downwards. Commits are therefore numbered from a version that was the newest one before and after
        the listing.
        """
        next_version = version + 1
        for limit in (HISTORY_PAGE, None):
            table = self._library.DeltaTable(self.root)
            versions = table.history(limit)
            while self._library.DeltaTable(self.root).version() != table.version():
                table = self._library.DeltaTable(self.root)
                versions = table.history(limit)
            for number, entry in zip(range(table.version(), -1, -1), versions, strict=False):
                if number < next_version:
                    yield number, entry
                    next_version = number

    def _settings(self, table: Any) -> Mapping[str, Any] | None:
        for field in table.schema().fields:
            if field.name == "offset" and SETTINGS in field.metadata:
                result: Mapping[str, Any] = json.loads(field.metadata[SETTINGS])
                return result
        return None

    def check(self, columns: pa.Schema) -> None:
        """Check that rows with these columns can be written to the table."""
        if self._table is not None:
            self._missing(columns)

    def _missing(self, columns: pa.Schema) -> list[pa.Field]:
        check_partitioning(tuple(self._table.metadata().partition_columns), where=self.shown)
        there = pa.schema(self._table.schema())
        changes = column_changes(there, columns, where=self.shown, widening=_NO_WIDENING)
        after, names = merge_columns(there, columns), dict.fromkeys(change.path[0] for change in changes)
        return [after.field(name) for name in names]

    def data_directory(self, name: TopicPartition) -> str:
        """Return the directory for data files: ``topic=T/partition=P``."""
        return join(self.root, partition_path(name))

    def commit(self, commit: TableCommit, state: TableState | None) -> None:
        """Commit on top of the state that was read last."""
        schema = self._library.Schema.from_arrow(_mark_columns(commit))
        try:
            (self._change if commit.latest else self._append)(commit, state, schema)
        except self._library.exceptions.CommitFailedError as error:
            raise RacedError(str(error)) from error

    def _append(self, commit: TableCommit, state: TableState | None, schema: Any) -> None:
        """Append the data files, or replace the table's contents with them."""
        adds = [self._add(file) for file in commit.files]
        properties = self._properties(commit, state)
        if self._table is None:
            self._create(schema, adds, commit_properties=properties)
            return
        if missing := self._missing(commit.columns):
            self._add_columns(missing)
        self._write(schema, adds, "overwrite" if commit.replaces else "append", properties)

    def _write(self, schema: Any, adds: list[Any], mode: str, properties: Any) -> None:
        by = list(PARTITIONED_BY)
        self._table.create_write_transaction(adds, mode, schema, partition_by=by, commit_properties=properties)

    def _create(self, schema: Any, adds: list[Any], **options: Any) -> None:
        library, by = self._library, list(PARTITIONED_BY)
        try:
            library.transaction.create_table_with_add_actions(
                self.root, schema, adds, mode="error", partition_by=by, **options
            )
        except library.exceptions.DeltaError as error:
            if library.DeltaTable.is_deltatable(self.root):
                raise RacedError(str(error)) from error
            raise

    def _change(self, commit: TableCommit, state: TableState | None, schema: Any) -> None:
        """Merge the latest records by key into the table, and store the end offsets in the same commit."""
        if self._table is None:
            self._create(schema, [])
            self.read()
        if missing := self._missing(commit.columns):
            self._add_columns(missing)
            self.read()
        version, properties = self._table.version(), self._properties(commit, state)
        changes = latest_of_keys(commit)
        if changes.num_rows:
            merge(self._table, changes, commit.columns.names, properties)
        if self._table.version() == version:  # there were no changes, or delta-rs found no changed row
            self._write(schema, [], "append", properties)

    def _add_columns(self, missing: list[pa.Field]) -> None:
        """Add nullable columns and nested fields, in a separate commit that does not change rows."""
        fields = self._library.Schema.from_arrow(pa.schema(missing)).fields
        once = self._library.CommitProperties(max_commit_retries=0)
        self._table.alter.add_columns(fields, commit_properties=once)

    def _add(self, file: DataFile) -> Any:
        topic, partition = file.job.topic_partition
        return self._library.transaction.AddAction(
            path=quote(file.path.removeprefix(self.root).lstrip("/"), safe="/=-_."),
            size=file.size_bytes,
            partition_values={"topic": topic, "partition": str(partition)},
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=json.dumps(_statistics(file)),
        )

    def _properties(self, commit: TableCommit, state: TableState | None) -> Any:
        ends: dict[TopicPartition, int] = dict(commit.after)
        known_ends = {} if state is None else dict(state.ends)
        if commit.replaces:
            ends = dict.fromkeys(known_ends, FORGOTTEN) | ends
        elif state is not None and state.is_reset:
            ends = known_ends | ends
        marks = {_app(name): end for name, end in ends.items()}
        marks |= {_topic_app(topic): topic_number(topic_id) for topic, topic_id in commit.topic_ids.items()}
        return self._library.CommitProperties(
            custom_metadata={NOTE: commit.note(state)},
            max_commit_retries=0,
            app_transactions=[self._library.Transaction(app, version) for app, version in marks.items()],
        )

    def has_committed(self, run: str, *, since: int | None) -> bool | None:
        """Return whether a run committed after a version; None if the history is too short to decide."""
        if self.read() is None:
            return False
        oldest = self._table.version() + 1
        for oldest, entry in self._history(self._table.version()):
            if since is not None and oldest <= since:
                return False
            note = parse_note(entry.get(NOTE))
            if note is not None and note["run"] == run:
                return True
        return False if oldest == 0 else None

    def tidy(self) -> None:
        """Compact small data files in a commit that changes no row. If another writer commits first, do nothing."""
        if self.read() is None:
            return
        once = self._library.CommitProperties(max_commit_retries=0)
        with suppress(self._library.exceptions.CommitFailedError):
            self._table.optimize.compact(commit_properties=once)

    def about(self) -> dict[str, Any]:
        """Return facts about the table for the user, after a run."""
        version = None if self._table is None else self._table.version()
        return {"format": "delta", "location": self.root, "version": version}


def merge(table: Any, changes: pa.Table, columns: list[str], properties: Any) -> None:
    """Update, insert and delete rows by topic and key.

    If a row is from another partition, because partitions were added to the topic, only a change that is not older
    replaces it.
    """
    newer = "(s.partition = t.partition OR s.timestamp >= t.timestamp)"
    values = {name: f"s.`{name}`" for name in columns}
    topics = ", ".join("'" + one.replace("'", "''") + "'" for one in changes.column("topic").unique().to_pylist())
    merger = table.merge(
        changes,
        f"t.topic IN ({topics}) AND t.topic = s.topic AND t.key = s.key",
        source_alias="s",
        target_alias="t",
        commit_properties=properties,
    )
    merger = merger.when_matched_delete(f"s.tombstone AND {newer}")
    merger = merger.when_matched_update(values, f"NOT s.tombstone AND {newer}")
    merger.when_not_matched_insert(values, "NOT s.tombstone").execute()


def _app(name: TopicPartition) -> str:
    return f"{APP}/{name[0]}/{name[1]}"


def _topic_app(topic: str) -> str:
    return f"{APP}/{topic}"


def _end_of(table: Any, name: TopicPartition) -> int | None:
    return _check_version(table.transaction_version(_app(name)))


def _check_version(version: int | None) -> int | None:
    return None if version is None or version == FORGOTTEN else version


def _mark_columns(commit: TableCommit) -> pa.Schema:
    """Return the commit's columns, with the table's settings in the metadata of the column ``offset``."""
    index = commit.columns.get_field_index("offset")
    marked_field = commit.columns.field(index).with_metadata(
        {SETTINGS: json.dumps(dict(commit.settings), sort_keys=True)}
    )
    return commit.columns.set(index, marked_field)


def _statistics(file: DataFile) -> dict[str, Any]:
    """Return Delta's statistics of a file, by which readers skip it."""
    facts: dict[str, Any] = {"numRecords": file.records, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name, (least, greatest, nulls) in file.bounds.items():
        convert_value = _instant if name == "timestamp" else int
        pair = convert_value(least), convert_value(greatest)
        if None not in pair:
            facts["minValues"][name], facts["maxValues"][name] = pair
        facts["nullCount"][name] = nulls
    return facts


def _instant(microseconds: int) -> str | None:
    """Return a timestamp in Delta's text form, in milliseconds as in Kafka; None after the year 9999."""
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
