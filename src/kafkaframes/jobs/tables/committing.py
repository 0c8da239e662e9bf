"""Commit data files to a table exactly once, and remove the data files of dead runs.

Each run holds a lock on a file ``_kafkaframes/runs/RUN.json`` while it writes and commits. The operating system
releases the lock when the process ends. A run whose file is not locked is dead. The data files of a dead run (their
names end with the run's name) are removed if the table's history shows that the run never committed them, and reported
otherwise. Some network file systems do not show locks of other machines, so a run of another machine is considered dead
only after a week. Object stores have no locks. In an object store, Delta's VACUUM or Iceberg's ``remove_orphan_files``
removes such files.

A commit that conflicts with another writer is retried. A commit with an unknown outcome is never retried.

A commit to a table of the latest records has at most one row for each key. In a partition, the record with the largest
offset is the latest. If a key is in several partitions, because partitions were added to the topic, the timestamp
decides.

The dead-letter table has the unmodified records that could not be converted to rows, and the reasons. The dead-letter
table is created when the first record of this kind occurs. It has end offsets, as every table does. The dead-letter
table is committed before the table. If a run is killed between both commits, the next run reads the records of the
missing commit again and omits those below the end offsets of the dead-letter table.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkaframes.errors import OptionError, UnknownOutcomeError
from kafkaframes.jobs.export.positions import TopicPartition
from kafkaframes.jobs.export.stored_settings import describe_changes
from kafkaframes.jobs.export.task import OWN_DIRECTORY
from kafkaframes.jobs.job import parse_json_object
from kafkaframes.jobs.tables.content import build_dead_letter_schema
from kafkaframes.jobs.tables.files import DataFile, DeadLetterDirectory, add_out_of_range_column, discard_files
from kafkaframes.jobs.tables.settings import LATEST, RAW
from kafkaframes.jobs.tables.state import STAGING_DIRECTORY, CommitConflictError, Table, TableCommit, TableState
from kafkaframes.scan.values.columns import TOMBSTONE_COLUMN

RUNS_DIRECTORY = f"{OWN_DIRECTORY}/runs"  # directory of the lock files of runs
MAX_FOREIGN_RUN_AGE_S = 7 * 24 * 3600  # age after which another machine's run counts as dead


@dataclass(frozen=True, slots=True)
class OrphanFiles:
    """Data files of dead runs: removed files, and files for which the history does not show whether they are used."""

    removed: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()


@contextmanager
def hold_run_lock(root: str, run: str, *, since: int | None) -> Iterator[None]:
    """Hold a run's lock.

    The lock file is removed if the run ends normally. ``since`` is the version of the table before the run.
    """
    if "://" in root:
        yield
        return
    path = Path(root, RUNS_DIRECTORY, f"{run}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        json.dump({"since": since, "host": socket.gethostname()}, file)
        file.flush()
        yield
        path.unlink(missing_ok=True)


def list_files_of_run(root: str, run: str) -> set[str]:
    """Return the data files of a run in all directories of the table. The result is empty for an object store."""
    if "://" in root:
        return set()
    return {
        str(path)
        for below in ("", "data/", f"{STAGING_DIRECTORY}/")
        for path in Path(root).glob(f"{below}topic=*/partition=*/*-{run}.parquet")
    }


def remove_orphans(root: str, table: Table) -> OrphanFiles:
    """Remove data files of dead runs below a table's root, if the history shows that they are not used."""
    removed_files: list[str] = []
    undecided_files: list[str] = []
    if "://" in root:
        return OrphanFiles()
    for path in sorted(Path(root, RUNS_DIRECTORY).glob("*.json")):
        with _lock_dead_run(path) as note:
            if note is None:
                continue
            files, since = _remove_staged_files(root, path.stem, removed_files), note.get("since")
            version = since if isinstance(since, int) else None
            is_committed = table.has_committed(path.stem, since=version) if files else True
            if is_committed is False:
                for file in files:
                    Path(file).unlink(missing_ok=True)
                removed_files += files
            if is_committed is None:
                undecided_files += files
            else:
                path.unlink(missing_ok=True)
    return OrphanFiles(tuple(removed_files), tuple(undecided_files))


def _remove_staged_files(root: str, run: str, removed_files: list[str]) -> list[str]:
    """Remove a dead run's staged files, and return its other files."""
    files = sorted(list_files_of_run(root, run))
    staged_files = [file for file in files if Path(file).is_relative_to(Path(root, STAGING_DIRECTORY))]
    for file in staged_files:
        Path(file).unlink(missing_ok=True)
    removed_files += staged_files
    return [file for file in files if file not in staged_files]


@contextmanager
def _lock_dead_run(path: Path) -> Iterator[dict[str, Any] | None]:
    """Lock a run's file and yield its contents; yield None if its run is alive or may be alive on another machine."""
    try:
        file = open(path, "r+")  # noqa: SIM115 (closed below)
    except FileNotFoundError:
        yield None
        return
    with file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        note = parse_json_object(file.read())
        is_ours = note.get("host", socket.gethostname()) == socket.gethostname()
        age = time.time() - os.fstat(file.fileno()).st_mtime
        yield note if is_ours or age > MAX_FOREIGN_RUN_AGE_S else None


# ------------------------------------------------------------------------------------------------------------ commits


MAX_COMMIT_ATTEMPTS = 20  # attempts after conflicts with other writers
COMMIT_RETRY_INTERVAL_S = 0.05  # upper bound of the random wait before a commit is tried again


def _to_option_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table under the names of their options."""
    options = dict(settings)
    value = options.pop("value", RAW)
    if options.pop("latest", False):
        return options | {"mode": LATEST, "value": value}
    return options | {"mode": value}


class TableCommitter:
    """Commits to one table.

    Attributes:
        commits: number of commits of this run.

    Args:
        settings: stored settings that select the table's records (``state.make_stored_settings``).
    """

    def __init__(self, table: Table, settings: Mapping[str, Any]) -> None:
        self.commits = 0
        self._table, self._settings = table, settings

    def check_settings(self, state: TableState) -> None:
        """Check that this run selects the same records as the table's earlier runs.

        Raises:
            OptionError: the settings differ.
        """
        stored_settings = state.settings or {}
        if stored_settings and dict(stored_settings) != dict(self._settings):
            changes = describe_changes(_to_option_names(stored_settings), _to_option_names(self._settings))
            raise OptionError(
                f"{self._table.shown}: the table was filled with other settings: {changes}. Continue with the "
                "earlier settings, "
                "write to a new table, or replace the content with `overwrite`"
            )

    def commit_with_retries(self, commit: TableCommit, state: TableState | None) -> None:
        """Commit, and retry if another writer committed first without changing the end offsets of these partitions.

        Raises:
            OptionError: the end offsets have changed.
        """
        table = self._table
        since = None if state is None else state.version
        _check_files_exist(commit)
        for _ in range(MAX_COMMIT_ATTEMPTS):
            try:
                table.commit_files(commit, state)
            except CommitConflictError as error:
                reason = str(error)
            except Exception as error:
                if self._check_committed(commit, since) is False:
                    raise OptionError(f"{table.shown}: the commit failed: {error}") from error
                reason = str(error)
            else:
                self.commits += 1
                return
            if self._check_committed(commit, since):
                self.commits += 1
                return
            state = self._reload_state(commit)
            time.sleep(random.uniform(0, COMMIT_RETRY_INTERVAL_S))
        raise OptionError(
            f"{table.shown}: {MAX_COMMIT_ATTEMPTS} commits conflicted with commits of other writers: {reason}"
        )

    def _check_committed(self, commit: TableCommit, since: int | None) -> bool:
        """Return whether a commit that ended with an error took effect.

        Raises:
            OptionError: the outcome is unknown. The commit's files are not removed.
        """
        try:
            is_committed = self._table.has_committed(commit.run, since=since)
        except Exception as error:
            raise UnknownOutcomeError(self._table.shown, commit.run, str(error)) from error
        if is_committed is None:
            raise UnknownOutcomeError(
                self._table.shown, commit.run, "the table's log no longer has the commits since then"
            )
        return is_committed

    def _reload_state(self, commit: TableCommit) -> TableState | None:
        state = self._table.read_state()
        if not commit.matches_state(state):
            name = next(name for name in commit.before if (state and state.find_end(name)) != commit.before[name])
            raise OptionError(
                f"{self._table.shown}: another export has added offsets of {name[0]}-{name[1]} in the meantime, so "
                "this run added nothing; run again with `incremental`"
            )
        if state is not None and state.settings and not commit.replaces:
            self.check_settings(state)
        self._table.check_columns(commit.columns)
        return state


def _check_files_exist(commit: TableCommit) -> None:
    """Check that the data files exist, if they are local: a commit must not refer to missing files.

    Raises:
        OptionError: a file is missing or has the wrong size.
    """
    for file in commit.files:
        if "://" not in file.path and not (os.path.exists(file.path) and os.path.getsize(file.path) == file.size_bytes):
            raise OptionError(
                f"{file.path}: the file was written, but is missing or incomplete, so nothing was added; check that "
                "all workers share the directory"
            )


def select_latest_by_key(commit: TableCommit) -> pa.Table:
    """Return the latest row of each topic and key, with the table's columns and ``tombstone``."""
    schema = commit.columns.append(pa.field(TOMBSTONE_COLUMN, pa.bool_()))
    tables = [_fit_columns(_read_parquet(file.path), schema) for file in commit.files]
    changes = pa.concat_tables(tables) if tables else schema.empty_table()
    return _select_last_row_of_groups(
        _select_last_row_of_groups(changes, ["topic", "key", "partition"], "offset"), ["topic", "key"], "timestamp"
    )


def _fit_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of a schema. Columns that a file does not have are null."""
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)


def _select_last_row_of_groups(rows: pa.Table, by: list[str], order: str) -> pa.Table:
    """Return the row of each group with the largest ``order``. Among equal rows the last one is returned."""
    sorted_rows = rows.sort_by([(order, "ascending")])
    numbered_rows = sorted_rows.select(by).append_column("row", pa.array(np.arange(sorted_rows.num_rows)))
    last = numbered_rows.group_by(by).aggregate([("row", "max")]).column("row_max")
    return sorted_rows.take(last)


def _read_parquet(path: str) -> pa.Table:
    if "://" not in path:
        return pq.read_table(path, partitioning=None)
    import fsspec

    with fsspec.open(path, "rb") as file:
        return pq.read_table(file)


def remove_tombstones(changes: pa.Table) -> pa.Table:
    """Return the rows that are not tombstones, with the table's columns."""
    kept_rows: Any = changes.filter(pc.invert(changes.column(TOMBSTONE_COLUMN)))
    return kept_rows.drop_columns([TOMBSTONE_COLUMN])


DEAD_LETTER_SETTINGS = {"holds": "dead letters"}


class DeadLetters:
    """The dead-letter table of a run. ``records`` is the number of records that this run has added to it."""

    def __init__(self, table: Table, *, headers: bool) -> None:
        self.records = 0
        self._table, self._columns = table, build_dead_letter_schema(headers=headers)
        self._committer = TableCommitter(table, DEAD_LETTER_SETTINGS)
        self._state: TableState | None = None
        self._kept_files: set[str] = set()

    @contextmanager
    def claim_table(self, run: str) -> Iterator[None]:
        """Hold a run's lock on the dead-letter table, and read the table's state."""
        self._state = self._open_table()
        with hold_run_lock(self._table.root, run, since=None if self._state is None else self._state.version):
            yield
        if self._state is None and not self._kept_files:
            _remove_if_empty(self._table.root)

    def _open_table(self) -> TableState | None:
        table = self._table
        state = table.read_state()
        table.check_columns(self._columns)
        if state is None:
            return None
        if state.settings is None:
            raise OptionError(
                f"{table.shown}: is a table, but not a table of dead letters; specify another path with `dead_letters`"
            )
        remove_orphans(table.root, table)
        state = table.read_state()
        if state is not None and state.ends:
            self._committer.check_settings(state)
        return state

    def make_directory_for_partition(self, name: TopicPartition) -> DeadLetterDirectory:
        """Return the directory for a partition's bad records, and the first offset that the table does not have."""
        end = None if self._state is None else self._state.find_end(name)
        return DeadLetterDirectory(self._table.get_data_directory(name), end or 0, self._table.names_inside)

    def commit_dead_letters(self, of_table: TableCommit, files: Iterable[DataFile]) -> None:
        """Commit the bad records that belong to a table commit, if there are any, before the table commit itself."""
        result = [
            data_file.dead
            for data_file in files
            if data_file.dead is not None and data_file.job.topic_partition in of_table.after
        ]
        if not result:
            return
        names = {data_file.job.topic_partition for data_file in result}
        state_before = {name: None if self._state is None else self._state.find_end(name) for name in names}
        own_files = replace(
            of_table,
            before=state_before,
            after={name: max(of_table.after[name], state_before[name] or 0) for name in names},
            settings=DEAD_LETTER_SETTINGS,
            files=tuple(result),
            columns=add_out_of_range_column(self._columns, result),
            gaps=(),
            latest=False,
            replaces=False,
        )
        self._kept_files |= {data_file.path for data_file in result}  # from now on, a commit may refer to these files
        self._committer.commit_with_retries(own_files, self._state)
        self.records += sum(data_file.records for data_file in result)

    def discard(self, run: str, files: Iterable[DataFile]) -> None:
        """Remove files of bad records that are not part of a commit."""
        paths = {data_file.dead.path for data_file in files if data_file.dead is not None} | list_files_of_run(
            self._table.root, run
        )
        discard_files(paths, keep=self._kept_files)

    def describe(self) -> dict[str, Any]:
        """Return the number and location of the run's dead letters, which are reported after the run."""
        return {**self._table.describe(), "records": self.records}


def _remove_if_empty(root: str) -> None:
    """Remove the directories that were created for a run's lock, if they are empty."""
    if "://" in root:
        return
    for path in (Path(root, RUNS_DIRECTORY), Path(root, OWN_DIRECTORY), Path(root)):
        with suppress(OSError):
            path.rmdir()
