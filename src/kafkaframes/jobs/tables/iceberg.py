"""Iceberg tables, through ``pyiceberg``.

The table's metadata stores:

* the end offsets, in the summary of the snapshot that added the records (``kafkaframes``, ``TableCommit.to_note`` as
  JSON). Snapshots of other writers (compaction) do not have end offsets, so the newest ancestor with a note is used. If
  snapshots have expired, the table property ``kafkaframes.last`` is used, which the same commit sets.
* the selection of records, in the table property ``kafkaframes.settings``.

Tasks write data files, and a commit adds them unchanged (``iceberg_files``). Data files have no field ids, so the table
maps columns by name (Iceberg's name mapping). A commit reads their footers, which requires partition values as columns.

pyiceberg 0.12 retries a commit on top of the new state if another writer was faster, which would add the same offsets
twice. The number of retries is therefore set to zero in the copy of the metadata from which a commit is built.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import OptionError, import_extra
from kafkaframes.jobs.export.positions import TopicPartition
from kafkaframes.jobs.tables.committing import remove_tombstones, select_latest_by_key
from kafkaframes.jobs.tables.content import (
    PARTITION_COLUMNS,
    ColumnChange,
    build_table_schema,
    check_partitioning,
    find_column_changes,
)
from kafkaframes.jobs.tables.iceberg_files import describe_data_files, find_columns_beyond_datetime
from kafkaframes.jobs.tables.state import (
    NOTE_KEY,
    SETTINGS_KEY,
    CommitConflictError,
    TableCommit,
    TableState,
    make_partition_path,
    make_state_from_note,
    parse_note,
)
from kafkaframes.storage.files.filesystem import join

LAST_COMMIT_PROPERTY = "kafkaframes.last"  # table property with the note of the newest commit
RETRIES_PROPERTY = "commit.retry.num-retries"
_NAME_MAPPING_PROPERTY = "schema.name-mapping.default"
DEFAULT_TABLE_NAME = "kafka.records"
CATALOG_FILE = "catalog.db"  # SQLite file in the warehouse directory
CATALOG_NAME = "kafkaframes"  # stored in the SQLite file; other programs have to open it under this name


def load_library() -> Any:
    """Import and return the module ``pyiceberg.catalog``.

    Raises:
        MissingExtraError: pyiceberg is not installed.
    """
    return import_extra("`format` iceberg", "iceberg", "pyiceberg.catalog", "pyiceberg.io.pyarrow")


def open_catalog(name: str | None, warehouse: str | None) -> Any:
    """Open a catalog: one from pyiceberg's configuration by name, or the SQLite file of a warehouse directory.

    Raises:
        OptionError: the catalog does not exist, or no name is given and the warehouse is not a directory.
        MissingExtraError: pyiceberg or a dependency of the catalog is not installed.
    """
    library = load_library()
    if name is not None:
        try:
            return library.load_catalog(name)
        except Exception as error:  # each catalog raises its own kind of error (configuration, HTTP, SQL)
            raise OptionError(f"`catalog` {name}: {error}") from error
    if warehouse is None or "://" in warehouse:
        raise OptionError("`to` must be a directory if `catalog` is not set, because an Iceberg table needs a catalog")
    is_sql = import_extra("`format` iceberg without `catalog`", "iceberg", "pyiceberg.catalog.sql")
    root = Path(warehouse).absolute()
    root.mkdir(parents=True, exist_ok=True)
    return is_sql.SqlCatalog(CATALOG_NAME, uri=f"sqlite:///{root / CATALOG_FILE}", warehouse=to_url(str(root)))


class IcebergTable:
    """An Iceberg table in a catalog. See ``state.Table``.

    Args:
        catalog: catalog from ``open_catalog``.
        name: ``namespace.table``.
        location: directory or URL at which a new table is created; None lets the catalog choose it.
    """

    names_inside = True

    def __init__(self, catalog: Any, name: str = DEFAULT_TABLE_NAME, *, location: str | None = None) -> None:
        if "." not in name:
            raise OptionError(f"`table` {name}: must be NAMESPACE.NAME")
        self._catalog, self._name, self._location = catalog, name, location
        self.shown = f"table {name}"
        self._table: Any = None
        self._columns = build_table_schema(headers=False)  # columns of a new table

    @property
    def root(self) -> str:
        """The directory or URL of the table's data files. A table that does not exist is created."""
        if self._table is None:
            self._create_table()
        return str(self._table.location()).removeprefix("file://")

    @property
    def known_root(self) -> str | None:
        """The location of the table; None for a new table, because the catalog chooses its location."""
        return None if self._table is None else self.root

    def read_state(self) -> TableState | None:
        """Return the current state of the table, or None if the table does not exist."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            self._table = self._catalog.load_table(self._name)
        except (NoSuchTableError, NoSuchNamespaceError):
            self._table = None
            return None
        except (ValueError, OSError) as error:
            raise OptionError(f"{self.shown}: cannot be read: {error}") from error
        return self._build_state()

    def _build_state(self) -> TableState:
        """Return the state of the table from its properties and its newest note."""
        properties = self._table.properties
        settings = json.loads(properties[SETTINGS_KEY]) if SETTINGS_KEY in properties else None
        notes = (
            parse_note(snapshot.summary.additional_properties.get(NOTE_KEY)) for snapshot in self._iterate_snapshots()
        )
        note = next(filter(None, notes), None) or self._read_property_note() or {}
        snapshot = self._table.current_snapshot()
        version = None if snapshot is None else snapshot.snapshot_id
        return make_state_from_note(note, note.get("topicIds") or {}, settings, version)

    def _read_property_note(self) -> dict[str, Any] | None:
        """Return the note in the table property, for a table whose snapshots have expired; None if none has expired.

        Raises:
            OptionError: the table was rolled back to a snapshot before this note, whose own note has expired.
        """
        note = None if self._has_first_snapshot() else parse_note(self._table.properties.get(LAST_COMMIT_PROPERTY))
        if note is not None and any(
            _read_run_name(snapshot) == note["run"] for snapshot in self._table.metadata.snapshots
        ):
            raise OptionError(
                f"{self.shown}: the table was rolled back to a snapshot whose end offsets are no longer known; "
                "export to a new table"
            )
        return note

    def _has_first_snapshot(self) -> bool:
        """Return whether the table's first snapshot still exists.

        The first snapshot is recognized by its sequence number, because pyiceberg removes parent ids on expiry.
        """
        snapshots = list(self._iterate_snapshots())
        return not snapshots or snapshots[-1].sequence_number == 1

    def _iterate_snapshots(self) -> Iterator[Any]:
        """Yield the current snapshot and its ancestors that have not expired."""
        snapshot = self._table.current_snapshot()
        while snapshot is not None and snapshot.summary is not None:
            yield snapshot
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)

    def check_columns(self, columns: pa.Schema) -> None:
        """Check that rows with these columns can be written to the table. A new table is created with these columns."""
        self._columns = columns
        if self._table is not None:
            self._plan_changes(columns)

    def _plan_changes(self, columns: pa.Schema) -> list[ColumnChange]:
        """Return the changes to the table's columns that new rows require."""
        schema = self._table.schema()
        fields = self._table.spec().fields
        names = ((str(field.transform), schema.find_column_name(field.source_id)) for field in fields)
        partition_fields = tuple(
            str(name) if partitioning == "identity" else f"{partitioning}({name})" for partitioning, name in names
        )
        check_partitioning(partition_fields, where=self.shown)
        return find_column_changes(schema.as_arrow(), columns, where=self.shown)

    def get_data_directory(self, name: TopicPartition) -> str:
        """Return the directory for data files."""
        return join(self.root, f"data/{make_partition_path(name)}")

    def commit_files(self, commit: TableCommit, state: TableState | None) -> None:
        """Commit on top of the state that was read last."""
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.expressions import AlwaysTrue

        if self._table is None:
            self._create_table()
        # Changes only this copy of the metadata; the module docstring explains why.
        self._table.metadata.properties[RETRIES_PROPERTY] = "0"
        note = json.dumps(commit.to_note(state))
        paths = [to_url(file.path) for file in commit.files]
        try:
            with self._table.transaction() as transaction:
                if changes := self._plan_changes(commit.columns):
                    change_columns(transaction, changes)
                if commit.replaces:
                    _delete_rows(transaction, AlwaysTrue(), {})
                settings = json.dumps(dict(commit.settings), sort_keys=True)
                transaction.set_properties(
                    {LAST_COMMIT_PROPERTY: note, SETTINGS_KEY: settings, **disable_metrics(changes)}
                )
                if commit.latest:
                    self._replace_rows(transaction, commit, {NOTE_KEY: note})
                else:
                    self._add_files(transaction, paths, {NOTE_KEY: note})
        except CommitFailedException as error:
            raise CommitConflictError(str(error)) from error

    def _add_files(self, transaction: Any, paths: list[str], properties: dict[str, str]) -> None:
        """Append data files in a transaction of the catalog."""
        metadata = transaction.table_metadata
        if metadata.name_mapping() is None:
            transaction.set_properties({_NAME_MAPPING_PROPERTY: metadata.schema().name_mapping.model_dump_json()})
        with transaction.update_snapshot(snapshot_properties=properties).fast_append() as snapshot:
            for file in describe_data_files(transaction.table_metadata, self._table.io, paths):
                snapshot.append_data_file(file)

    def _create_table(self) -> None:
        """Create an empty table. If another writer creates it first, read that table."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        try:
            self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
            self._table = self._catalog.create_table(
                self._name,
                to_iceberg_schema(self._columns),
                location=self._location,
                partition_spec=_make_partition_spec(),
                properties={SETTINGS_KEY: "{}", **disable_metrics(_make_additions(self._columns))},
            )
        except TableAlreadyExistsError:
            self.read_state()

    def _replace_rows(self, transaction: Any, commit: TableCommit, properties: dict[str, str]) -> None:
        """Delete the replaced rows and append the latest records by key, in one commit.

        If a row is from another partition, because partitions were added to the topic, only a change that is not older
        replaces it.
        """
        changes = self._select_newer_changes(select_latest_by_key(commit))
        if names := find_columns_beyond_datetime(changes):
            transaction.set_properties({_METRICS_PROPERTY_PREFIX + name: "none" for name in names})
        _delete_rows(transaction, _filter_by_keys(changes), properties)
        transaction.append(remove_tombstones(changes), snapshot_properties=properties)

    def _select_newer_changes(self, changes: pa.Table) -> pa.Table:
        """Return the changes, without those for which the table has a newer row from another partition."""
        columns = ("topic", "key", "partition", "timestamp")
        existing_rows = self._table.scan(row_filter=_filter_by_keys(changes), selected_fields=columns).to_arrow()
        rows_by_key = {(row["topic"], row["key"]): row for row in _times_to_integers(existing_rows).to_pylist()}
        if not rows_by_key:
            return changes
        rows = _times_to_integers(changes.select(columns)).to_pylist()
        return changes.filter(pa.array([_is_newer(row, rows_by_key.get((row["topic"], row["key"]))) for row in rows]))

    def has_committed(self, run: str, *, since: int | None) -> bool | None:
        """Return whether a run committed after a snapshot; None if that snapshot has expired."""
        if self.read_state() is None:
            return False
        for snapshot in self._iterate_snapshots():
            if snapshot.snapshot_id == since:
                return False
            if _read_run_name(snapshot) == run:
                return True
        return False if since is None and self._has_first_snapshot() else None

    def compact_small_files(self) -> None:
        """Do nothing, because pyiceberg 0.12 cannot compact data files."""

    def describe(self) -> dict[str, Any]:
        """Return properties of the table that are reported after a run."""
        properties: dict[str, Any] = {"format": "iceberg", "table": self._name}
        if self._table is not None:
            snapshot = self._table.current_snapshot()
            properties["location"] = self.root
            properties["metadata"] = self._table.metadata_location
            properties["snapshot"] = None if snapshot is None else snapshot.snapshot_id
        return properties


def _read_run_name(snapshot: Any) -> str | None:
    """Return the name of the run that created a snapshot; None for snapshots of other programs."""
    note = None if snapshot.summary is None else parse_note(snapshot.summary.additional_properties.get(NOTE_KEY))
    return None if note is None else str(note["run"])


def _make_partition_spec() -> Any:
    """Return Iceberg's partition spec for topic and partition."""

    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    fields = enumerate(PARTITION_COLUMNS, 1)
    return PartitionSpec(
        *(PartitionField(field_id, 999 + field_id, IdentityTransform(), name) for field_id, name in fields)
    )


def _times_to_integers(rows: pa.Table) -> pa.Table:
    """Return rows with timestamps as numbers, because Python's datetime cannot represent all of them."""
    index = rows.schema.get_field_index("timestamp")
    return rows.set_column(index, "timestamp", rows.column(index).cast(pa.int64()))


def _is_newer(row: Mapping[str, Any], rows_by_key: Mapping[str, Any] | None) -> bool:
    """Return whether a change replaces the table's row with the same key."""
    if rows_by_key is None or rows_by_key["partition"] == row["partition"] or rows_by_key["timestamp"] is None:
        return True
    return row["timestamp"] is not None and bool(row["timestamp"] >= rows_by_key["timestamp"])


def _filter_by_keys(changes: pa.Table) -> Any:
    """Return a filter for the rows with the keys of these changes."""
    from pyiceberg.expressions import AlwaysFalse, And, EqualTo, In, Or

    result: Any = AlwaysFalse()
    for topic in changes.column("topic").unique().to_pylist():
        keys = changes.filter(pc.equal(changes.column("topic"), topic)).column("key").to_pylist()
        result = Or(result, And(EqualTo("topic", topic), In("key", set(keys))))
    return result


def _delete_rows(transaction: Any, rows: Any, properties: dict[str, str]) -> None:
    """Delete the rows that match a filter."""

    import warnings

    with warnings.catch_warnings():  # pyiceberg warns if there is nothing to delete
        warnings.simplefilter("ignore")
        transaction.delete(rows, snapshot_properties=properties)


def to_url(path: str) -> str:
    """Return a path as a URL without escaping, because pyiceberg does not unescape URLs."""
    return path if "://" in path else f"file://{path}"


# -------------------------------------------------------------------------------------------------------------- types


_METRICS_PROPERTY_PREFIX = "write.metadata.metrics.column."
_UNBOUNDED_COLUMNS = frozenset({"key", "value"})  # keys and values rarely repeat, so bounds are not useful


def to_iceberg_schema(columns: Iterable[pa.Field]) -> Any:
    """Return an Iceberg schema with new field ids: top-level columns first, then nested fields."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    fields = list(columns)
    ids = count(len(fields) + 1)
    return Schema(
        *(NestedField(number, field.name, to_iceberg_type(field.type, ids)) for number, field in enumerate(fields, 1))
    )


def _make_additions(columns: Iterable[pa.Field]) -> list[ColumnChange]:
    """Return a list of changes, each of which adds one of these columns."""
    return [ColumnChange((field.name,), field.type, is_new=True) for field in columns]


def change_columns(transaction: Any, changes: Iterable[ColumnChange]) -> None:
    """Add fields, which are null in existing rows, and widen types."""
    ids = count(-2, -1)  # Iceberg assigns the final ids
    with transaction.update_schema() as update:
        for change in changes:
            kind = to_iceberg_type(change.type, ids)
            if change.is_new:
                update.add_column(change.path, kind)
            else:
                update.update_column(change.path, field_type=kind)


def to_iceberg_type(kind: pa.DataType, ids: Iterator[int]) -> Any:
    """Return the Iceberg type of an Arrow type. ``ids`` yields the ids of nested fields.

    Raises:
        OptionError: Iceberg does not have the type.
    """
    from pyiceberg import types

    if pa.types.is_struct(kind):
        return types.StructType(
            *(types.NestedField(next(ids), field.name, to_iceberg_type(field.type, ids)) for field in kind)
        )
    if pa.types.is_list(kind):
        return types.ListType(next(ids), to_iceberg_type(kind.value_type, ids), element_required=False)
    if pa.types.is_map(kind):
        keys, values = next(ids), next(ids)
        return types.MapType(
            keys,
            to_iceberg_type(kind.key_type, ids),
            values,
            to_iceberg_type(kind.item_type, ids),
            value_required=False,
        )
    if pa.types.is_decimal(kind):
        return types.DecimalType(kind.precision, kind.scale)
    name = _ICEBERG_TYPE_BY_ARROW_TYPE.get(str(kind))
    if name is None:
        raise OptionError(f"Iceberg does not have a type for {kind}")
    return getattr(types, name)()


_ICEBERG_TYPE_BY_ARROW_TYPE = {
    "string": "StringType",
    "binary": "BinaryType",
    "bool": "BooleanType",
    "int32": "IntegerType",
    "int64": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "date32[day]": "DateType",
    "timestamp[us, tz=UTC]": "TimestamptzType",
    "timestamp[us]": "TimestampType",
}


def disable_metrics(changes: Iterable[ColumnChange]) -> dict[str, str]:
    """Return table properties that turn off statistics of these columns, for which pyiceberg would print warnings."""
    column_paths = (name for change in changes for name in _iterate_leaf_paths(".".join(change.path), change.type))
    names = [name for name in column_paths if "." in name or name in _UNBOUNDED_COLUMNS]
    return {_METRICS_PROPERTY_PREFIX + name: "none" for name in names}


def _iterate_leaf_paths(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of a column's leaves in Iceberg's notation."""
    if pa.types.is_struct(kind):
        for entry in kind:
            yield from _iterate_leaf_paths(f"{path}.{entry.name}", entry.type)
    elif pa.types.is_list(kind):
        yield from _iterate_leaf_paths(f"{path}.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield from _iterate_leaf_paths(f"{path}.key", kind.key_type)
        yield from _iterate_leaf_paths(f"{path}.value", kind.item_type)
    else:
        yield path
