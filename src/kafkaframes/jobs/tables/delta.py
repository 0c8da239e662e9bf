"""Delta tables, through ``deltalake`` (delta-rs).

The Delta log stores:

* the end offset of each topic partition, as the version of a ``txn`` action with app id
  ``kafkaframes/TOPIC/PARTITION``. Delta keeps these actions in checkpoints and when old log files are removed. Two
  commits with the same app id conflict.
* each topic id, as the version (``topic_id_to_int``) of a ``txn`` action with app id ``kafkaframes/TOPIC``.
* the selection of records, in the metadata of the column ``offset``.
* a note for people, as ``kafkaframes`` in the commit info (``DESCRIBE HISTORY``), see ``TableCommit.to_note``.

A commit is tried once, on top of the version that was read. delta-rs itself does not retry commits
(``max_commit_retries``).
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
from kafkaframes.jobs.export.positions import TopicPartition, topic_id_to_int
from kafkaframes.jobs.tables.committing import select_latest_by_key
from kafkaframes.jobs.tables.content import PARTITION_COLUMNS, check_partitioning, find_column_changes, merge_columns
from kafkaframes.jobs.tables.files import DataFile
from kafkaframes.jobs.tables.state import (
    NOTE_KEY,
    SETTINGS_KEY,
    CommitConflictError,
    TableCommit,
    TableState,
    flatten_partitions,
    make_partition_path,
    parse_fingerprints,
    parse_note,
)
from kafkaframes.storage.files.filesystem import join

APPLICATION_ID = "kafkaframes"  # first part of the app ids of Delta's txn actions
REMOVED_PARTITION_VERSION = -1  # written instead of an end offset, because a txn action cannot be removed
HISTORY_PAGE_SIZE = 50  # commits to list first; if they are not enough, the whole history is listed
_NO_WIDENING_REASON = "delta-rs does not support Delta's feature typeWidening; use a new table, or the format iceberg"
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # timestamp 0


def load_library() -> Any:
    """Import and return the module ``deltalake``.

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

    def read_state(self) -> TableState | None:
        """Return the current state of the table, or None if the table does not exist."""
        library = self._library
        try:
            self._table = library.DeltaTable(self.root)
        except library.exceptions.TableNotFoundError:
            self._table = None
            return None
        except (library.exceptions.DeltaError, OSError) as error:  # OSError: the store did not respond
            raise OptionError(f"{self.shown}: cannot be read as a Delta table: {error}") from error
        return self._build_state(self._table)

    def _build_state(self, table: Any) -> TableState:
        """Return the state of the table from its txn actions and its newest note."""
        note, restored_version = self._find_last_note(table)
        stored_version = (
            table if restored_version is None else self._library.DeltaTable(self.root, version=restored_version)
        )
        if restored_version is not None:  # txn actions of later versions are still valid, but their rows are removed
            earlier_note = self._build_state(stored_version)
            offsets = dict.fromkeys(flatten_partitions((note or {}).get("offsets")), REMOVED_PARTITION_VERSION)
            return TableState(
                earlier_note.find_end,
                earlier_note.find_topic_number,
                offsets | dict(earlier_note.ends),
                earlier_note.settings,
                table.version(),
                is_reset=True,
                topic_ids=earlier_note.topic_ids,
                fingerprints=earlier_note.fingerprints,
            )
        ends = {
            name: end
            for name in flatten_partitions((note or {}).get("offsets"))
            if (end := _read_stored_end(stored_version, name)) is not None
        }
        return TableState(
            lambda name: _read_stored_end(stored_version, name),
            lambda topic: _drop_removal_mark(stored_version.transaction_version(_make_topic_application_id(topic))),
            ends,
            self._read_settings(table),
            table.version(),
            topic_ids=(note or {}).get("topicIds") or {},
            fingerprints=parse_fingerprints(note or {}),
        )

    def _find_last_note(self, table: Any) -> tuple[dict[str, Any] | None, int | None]:
        """Return the newest commit note in the history, and the version to which the table was restored later."""
        restored_version: int | None = None
        for _, entry in self._iterate_history(table.version()):
            if (note := parse_note(entry.get(NOTE_KEY))) is not None:
                return note, restored_version
            if entry.get("operation") == "RESTORE" and restored_version is None:
                restored_version = int(entry.get("operationParameters", {}).get("version", -1))
        return None, restored_version

    def _iterate_history(self, version: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the commits up to a version with their versions, newest first.

        deltalake 1.6 always lists the newest commits of the log, even if an older version of the table is loaded, and
        numbers them downwards. Commits are therefore numbered from a version that was the newest one before and after
        the listing.
        """
        next_version = version + 1
        for limit in (HISTORY_PAGE_SIZE, None):
            table = self._library.DeltaTable(self.root)
            versions = table.history(limit)
            while self._library.DeltaTable(self.root).version() != table.version():
                table = self._library.DeltaTable(self.root)
                versions = table.history(limit)
            for number, entry in zip(range(table.version(), -1, -1), versions, strict=False):
                if number < next_version:
                    yield number, entry
                    next_version = number

    def _read_settings(self, table: Any) -> Mapping[str, Any] | None:
        """Return the settings of the table from its schema; None if no export created it."""
        for field in table.schema().fields:
            if field.name == "offset" and SETTINGS_KEY in field.metadata:
                result: Mapping[str, Any] = json.loads(field.metadata[SETTINGS_KEY])
                return result
        return None

    def check_columns(self, columns: pa.Schema) -> None:
        """Check that rows with these columns can be written to the table."""
        if self._table is not None:
            self._find_missing_columns(columns)

    def _find_missing_columns(self, columns: pa.Schema) -> list[pa.Field]:
        """Return the columns that have to be added to the table."""
        check_partitioning(tuple(self._table.metadata().partition_columns), where=self.shown)
        existing_schema = pa.schema(self._table.schema())
        changes = find_column_changes(existing_schema, columns, where=self.shown, widening=_NO_WIDENING_REASON)
        schema_after, names = (
            merge_columns(existing_schema, columns),
            dict.fromkeys(change.path[0] for change in changes),
        )
        return [schema_after.field(name) for name in names]

    def get_data_directory(self, name: TopicPartition) -> str:
        """Return the directory for data files: ``topic=T/partition=P``."""
        return join(self.root, make_partition_path(name))

    def commit_files(self, commit: TableCommit, state: TableState | None) -> None:
        """Commit on top of the state that was read last."""
        schema = self._library.Schema.from_arrow(_add_settings_to_schema(commit))
        try:
            (self._merge_changes if commit.latest else self._append_files)(commit, state, schema)
        except self._library.exceptions.CommitFailedError as error:
            raise CommitConflictError(str(error)) from error

    def _append_files(self, commit: TableCommit, state: TableState | None, schema: Any) -> None:
        """Append the data files, or replace the table's contents with them."""
        add_actions = [self._make_add_action(file) for file in commit.files]
        properties = self._make_commit_properties(commit, state)
        if self._table is None:
            self._create_table(schema, add_actions, commit_properties=properties)
            return
        if missing_columns := self._find_missing_columns(commit.columns):
            self._add_columns(missing_columns)
        self._write_transaction(schema, add_actions, "overwrite" if commit.replaces else "append", properties)

    def _write_transaction(self, schema: Any, add_actions: list[Any], mode: str, properties: Any) -> None:
        """Commit data files, or only properties, in one write transaction."""
        partition_columns = list(PARTITION_COLUMNS)
        self._table.create_write_transaction(
            add_actions, mode, schema, partition_by=partition_columns, commit_properties=properties
        )

    def _create_table(self, schema: Any, add_actions: list[Any], **options: Any) -> None:
        library, partition_columns = self._library, list(PARTITION_COLUMNS)
        try:
            library.transaction.create_table_with_add_actions(
                self.root, schema, add_actions, mode="error", partition_by=partition_columns, **options
            )
        except library.exceptions.DeltaError as error:
            if library.DeltaTable.is_deltatable(self.root):
                raise CommitConflictError(str(error)) from error
            raise

    def _merge_changes(self, commit: TableCommit, state: TableState | None, schema: Any) -> None:
        """Merge the latest records by key into the table, and store the end offsets in the same commit."""
        if self._table is None:
            self._create_table(schema, [])
            self.read_state()
        if missing_columns := self._find_missing_columns(commit.columns):
            self._add_columns(missing_columns)
            self.read_state()
        version, properties = self._table.version(), self._make_commit_properties(commit, state)
        changes = select_latest_by_key(commit)
        if changes.num_rows:
            merge_by_key(self._table, changes, commit.columns.names, properties)
        if self._table.version() == version:  # there were no changes, or delta-rs found no changed row
            self._write_transaction(schema, [], "append", properties)

    def _add_columns(self, missing: list[pa.Field]) -> None:
        """Add nullable columns and nested fields, in a separate commit that does not change rows."""
        fields = self._library.Schema.from_arrow(pa.schema(missing)).fields
        no_retries = self._library.CommitProperties(max_commit_retries=0)
        self._table.alter.add_columns(fields, commit_properties=no_retries)

    def _make_add_action(self, file: DataFile) -> Any:
        """Return Delta's add action for a data file."""
        topic, partition = file.job.topic_partition
        return self._library.transaction.AddAction(
            path=quote(file.path.removeprefix(self.root).lstrip("/"), safe="/=-_."),
            size=file.size_bytes,
            partition_values={"topic": topic, "partition": str(partition)},
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=json.dumps(_build_statistics(file)),
        )

    def _make_commit_properties(self, commit: TableCommit, state: TableState | None) -> Any:
        """Return the properties of a commit: its note and the end offsets."""
        ends: dict[TopicPartition, int] = dict(commit.after)
        known_ends = {} if state is None else dict(state.ends)
        if commit.replaces:
            ends = dict.fromkeys(known_ends, REMOVED_PARTITION_VERSION) | ends
        elif state is not None and state.is_reset:
            ends = known_ends | ends
        transactions = {_make_application_id(name): end for name, end in ends.items()}
        transactions |= {
            _make_topic_application_id(topic): topic_id_to_int(topic_id) for topic, topic_id in commit.topic_ids.items()
        }
        return self._library.CommitProperties(
            custom_metadata={NOTE_KEY: commit.to_note(state)},
            max_commit_retries=0,
            app_transactions=[
                self._library.Transaction(application_ids, version) for application_ids, version in transactions.items()
            ],
        )

    def has_committed(self, run: str, *, since: int | None) -> bool | None:
        """Return whether a run committed after a version; None if the history does not go back far enough."""
        if self.read_state() is None:
            return False
        oldest = self._table.version() + 1
        for oldest, entry in self._iterate_history(self._table.version()):
            if since is not None and oldest <= since:
                return False
            note = parse_note(entry.get(NOTE_KEY))
            if note is not None and note["run"] == run:
                return True
        return False if oldest == 0 else None

    def compact_small_files(self) -> None:
        """Compact small data files in a commit that changes no row. If another writer commits first, do nothing."""
        if self.read_state() is None:
            return
        no_retries = self._library.CommitProperties(max_commit_retries=0)
        with suppress(self._library.exceptions.CommitFailedError):
            self._table.optimize.compact(commit_properties=no_retries)

    def describe(self) -> dict[str, Any]:
        """Return properties of the table that are reported after a run."""
        version = None if self._table is None else self._table.version()
        return {"format": "delta", "location": self.root, "version": version}


def merge_by_key(table: Any, changes: pa.Table, columns: list[str], properties: Any) -> None:
    """Update, insert and delete rows by topic and key.

    Adding partitions to a topic can move a key. If its row is from another partition, an older change does not replace
    the row.
    """
    is_newer = "(s.partition = t.partition OR s.timestamp >= t.timestamp)"
    values = {name: f"s.`{name}`" for name in columns}
    topics = ", ".join("'" + topic.replace("'", "''") + "'" for topic in changes.column("topic").unique().to_pylist())
    merge_builder = table.merge(
        changes,
        f"t.topic IN ({topics}) AND t.topic = s.topic AND t.key = s.key",
        source_alias="s",
        target_alias="t",
        commit_properties=properties,
    )
    merge_builder = merge_builder.when_matched_delete(f"s.tombstone AND {is_newer}")
    merge_builder = merge_builder.when_matched_update(values, f"NOT s.tombstone AND {is_newer}")
    merge_builder.when_not_matched_insert(values, "NOT s.tombstone").execute()


def _make_application_id(name: TopicPartition) -> str:
    """Return the application id of a partition in Delta's txn actions, whose version is its end offset."""
    return f"{APPLICATION_ID}/{name[0]}/{name[1]}"


def _make_topic_application_id(topic: str) -> str:
    """Return the application id of a topic in Delta's txn actions, whose version is computed from the topic id."""
    return f"{APPLICATION_ID}/{topic}"


def _read_stored_end(table: Any, name: TopicPartition) -> int | None:
    """Return the stored end offset of a partition; None if no end offset is stored or it was removed."""
    return _drop_removal_mark(table.transaction_version(_make_application_id(name)))


def _drop_removal_mark(version: int | None) -> int | None:
    """Return the version of a txn action; None for ``REMOVED_PARTITION_VERSION``."""
    return None if version is None or version == REMOVED_PARTITION_VERSION else version


def _add_settings_to_schema(commit: TableCommit) -> pa.Schema:
    """Return the commit's columns, with the table's settings in the metadata of the column ``offset``."""
    index = commit.columns.get_field_index("offset")
    marked_field = commit.columns.field(index).with_metadata(
        {SETTINGS_KEY: json.dumps(dict(commit.settings), sort_keys=True)}
    )
    return commit.columns.set(index, marked_field)


def _build_statistics(file: DataFile) -> dict[str, Any]:
    """Return Delta's statistics of a file, from which readers decide whether to skip it."""
    statistics: dict[str, Any] = {"numRecords": file.records, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name, (min_values, max_values, null_counts) in file.bounds.items():
        convert_value = _format_instant if name == "timestamp" else int
        pair = convert_value(min_values), convert_value(max_values)
        if None not in pair:
            statistics["minValues"][name], statistics["maxValues"][name] = pair
        statistics["nullCount"][name] = null_counts
    return statistics


def _format_instant(microseconds: int) -> str | None:
    """Return a timestamp in Delta's text form, in milliseconds as in Kafka; None after the year 9999."""
    try:
        moment = _UNIX_EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
