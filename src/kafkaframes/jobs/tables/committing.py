"""Which run owns which data files on a disk, and commits that are made visible exactly once.

Each run keeps a file ``_kafkaframes/runs/RUN.json`` locked while it writes and commits. The operating system takes the
lock away with the process, however it ends. A file without a lock belongs to a dead run; its data files (their names
end with the run's name) are removed if the table's log says that the run never committed, and named otherwise. Some
mounted file systems do not show the locks of other machines: a run of another one is called dead after a week only. In
a store there are no locks: there Delta's VACUUM and Iceberg's ``remove_orphan_files`` do it.

A commit that lost against another writer is tried again; one whose outcome is not known is never repeated.

The latest record of each key is what the files of one commit come to, before a table takes it up. Within a partition
the greatest offset is the latest. A key is in one partition, unless the topic was given more of them: then the greatest
timestamp decides between partitions.

The table of dead letters has the records that could not become rows: as they came, with the reason. It is made when
there is one, has end offsets like any table, and is committed before the table whose records they are. A run that is
killed in between repeats those records; what the dead letters' own end offsets say is there already is then left out.
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
from kafkaframes.jobs.export.task import OWN
from kafkaframes.jobs.job import json_object
from kafkaframes.jobs.tables.content import dead_letter_schema
from kafkaframes.jobs.tables.files import DataFile, DeadDirectory, columns_with_far_times, discard
from kafkaframes.jobs.tables.settings import LATEST, RAW
from kafkaframes.jobs.tables.state import STAGED, Commit, RacedError, Table, TableState, TopicPartition
from kafkaframes.scan.values.columns import TOMBSTONE

RUNS = f"{OWN}/runs"
FOREIGN_SECONDS = 7 * 24 * 3600
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Orphans:
    """What dead runs left: removed files, and files of which it is not known whether a commit names them."""

    removed: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()


@contextmanager
def claim(root: str, run: str, *, since: int | None) -> Iterator[None]:
    """Hold a run's lock; its file goes when the run ends in order. ``since`` is the table's version before it."""
    if "://" in root:
        yield
        return
    path = Path(root, RUNS, f"{run}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        json.dump({"since": since, "host": socket.gethostname()}, file)
        file.flush()
        yield
        path.unlink(missing_ok=True)


def files_of(root: str, run: str) -> set[str]:
    """Return the data files of a run, wherever the format puts them; none in a store."""
    if "://" in root:
        return set()
    return {
        str(path)
        for below in ("", "data/", f"{STAGED}/")
        for path in Path(root).glob(f"{below}topic=*/partition=*/*-{run}.parquet")
    }


def remove_orphans(root: str, table: Table) -> Orphans:
    """Remove what dead runs left below a table's root, as far as its log says whether they committed."""
    removed: list[str] = []
    doubtful: list[str] = []
    if "://" in root:
        return Orphans()
    for path in sorted(Path(root, RUNS).glob("*.json")):
        with _dead(path) as said:
            if said is None:
                continue
            files, since = _remaining(root, path.stem, removed), said.get("since")
            version = since if isinstance(since, int) else None
            committed = table.has_committed(path.stem, since=version) if files else True
            if committed is False:
                for file in files:
                    Path(file).unlink(missing_ok=True)
                removed += files
            if committed is None:
                doubtful += files
            else:
                path.unlink(missing_ok=True)
    return Orphans(tuple(removed), tuple(doubtful))


def _remaining(root: str, run: str, removed: list[str]) -> list[str]:
    """Remove what a dead run left staged, whether it committed or not; return its other files."""
    files = sorted(files_of(root, run))
    staged = [file for file in files if Path(file).is_relative_to(Path(root, STAGED))]
    for file in staged:
        Path(file).unlink(missing_ok=True)
    removed += staged
    return [file for file in files if file not in staged]


@contextmanager
def _dead(path: Path) -> Iterator[dict[str, Any] | None]:
    """Lock a run's file and yield what it says; None where its owner holds it, or may hold it on another machine."""
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
        said = json_object(file.read())
        is_ours = said.get("host", socket.gethostname()) == socket.gethostname()
        age = time.time() - os.fstat(file.fileno()).st_mtime
        yield said if is_ours or age > FOREIGN_SECONDS else None


# ------------------------------------------------------------------------------------------------------------ commits


COMMIT_ATTEMPTS = 20
WAIT_SECONDS = 0.05


def _options_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table under the names of the options that they come from."""
    options = dict(settings)
    value = options.pop("value", RAW)
    if options.pop("latest", False):
        return options | {"mode": LATEST, "value": value}
    return options | {"mode": value}


def _shorten(value: Any) -> str:
    text = "not given" if value is None else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


class Committer:
    """Commits into one table, whose records ``chosen`` describes (``state.table_settings``); ``commits`` counts."""

    def __init__(self, table: Table, chosen: Mapping[str, Any]) -> None:
        self.commits = 0
        self._table, self._chosen = table, chosen

    def check_settings(self, state: TableState) -> None:
        """Check that a table holds the records that this run asks for.

        Raises:
            OptionError: it does not.
        """
        before = state.settings or {}
        if before and dict(before) != dict(self._chosen):
            earlier, current = _options_of(before), _options_of(self._chosen)
            names = [name for name in sorted({*earlier, *current}) if earlier.get(name) != current.get(name)]
            differs = ", ".join(
                f"`{name}` was {_shorten(earlier.get(name))} and is {_shorten(current.get(name))}" for name in names
            )
            raise OptionError(
                f"{self._table.shown}: was filled with other options than this run has: {differs}. Give the same, or "
                "export to a new table"
            )

    def make(self, commit: Commit, state: TableState | None) -> None:
        """Commit; try again if another writer committed first and has not touched these offsets.

        Raises:
            OptionError: the offsets do not fit any more.
        """
        table = self._table
        since = None if state is None else state.version
        _check_files(commit)
        for _ in range(COMMIT_ATTEMPTS):
            try:
                table.commit(commit, state)
            except RacedError as error:
                reason = str(error)
            except Exception as error:
                if self._has_landed(commit, since) is False:
                    raise OptionError(f"{table.shown}: cannot be committed to: {error}") from error
                reason = str(error)
            else:
                self.commits += 1
                return
            if self._has_landed(commit, since):
                self.commits += 1
                return
            state = self._reread(commit)
            time.sleep(random.uniform(0, WAIT_SECONDS))
        raise OptionError(f"{table.shown}: {COMMIT_ATTEMPTS} commits lost against other writers: {reason}")

    def _has_landed(self, commit: Commit, since: int | None) -> bool:
        """Return whether a commit that ended with an error was made all the same.

        Raises:
            OptionError: it cannot be known; the files of the commit stay.
        """
        try:
            landed = self._table.has_committed(commit.run, since=since)
        except Exception as error:
            raise UnknownOutcomeError(self._table.shown, commit.run, str(error)) from error
        if landed is None:
            raise UnknownOutcomeError(self._table.shown, commit.run, "its log does not reach back far enough")
        return landed

    def _reread(self, commit: Commit) -> TableState | None:
        state = self._table.read()
        if not commit.fits(state):
            name = next(name for name in commit.before if (state and state.end_of(name)) != commit.before[name])
            raise OptionError(
                f"{self._table.shown}: another exporter has added offsets of {name[0]}-{name[1]} meanwhile; nothing "
                "was added by this run: run again with `incremental`"
            )
        if state is not None and state.settings:
            self.check_settings(state)
        self._table.check(commit.columns)
        return state


def _check_files(commit: Commit) -> None:
    """Check that the data files exist, as far as this machine can see them: a commit must not name missing files.

    Raises:
        OptionError: one is gone, or not whole.
    """
    for file in commit.files:
        if "://" not in file.path and not (os.path.exists(file.path) and os.path.getsize(file.path) == file.size_bytes):
            raise OptionError(
                f"{file.path}: was written and is not there as a whole: do the workers see the same directory? Nothing "
                "was added"
            )


def latest_of_keys(commit: Commit) -> pa.Table:
    """Return one row for each topic and key: the table's columns and ``tombstone``."""
    schema = commit.columns.append(pa.field(TOMBSTONE, pa.bool_()))
    tables = [_with_columns(_read(file.path), schema) for file in commit.files]
    changes = pa.concat_tables(tables) if tables else schema.empty_table()
    return _last_of(_last_of(changes, ["topic", "key", "partition"], "offset"), ["topic", "key"], "timestamp")


def _with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with these columns; those that a file lacks are null."""
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)


def _last_of(rows: pa.Table, by: list[str], order: str) -> pa.Table:
    """Return of each group the last row in an order; of rows that are equal in it, the one that comes last."""
    ordered = rows.sort_by([(order, "ascending")])
    numbered = ordered.select(by).append_column("row", pa.array(np.arange(ordered.num_rows)))
    last = numbered.group_by(by).aggregate([("row", "max")]).column("row_max")
    return ordered.take(last)


def _read(path: str) -> pa.Table:
    if "://" not in path:
        return pq.read_table(path, partitioning=None)
    import fsspec

    with fsspec.open(path, "rb") as file:
        return pq.read_table(file)


def without_tombstones(changes: pa.Table) -> pa.Table:
    """Return the rows that stay, as the table has them."""
    kept: Any = changes.filter(pc.invert(changes.column(TOMBSTONE)))
    return kept.drop_columns([TOMBSTONE])


SETTINGS = {"holds": "dead letters"}


class DeadLetters:
    """Where the bad records of a run go; ``records`` counts those that were added."""

    def __init__(self, table: Table, *, headers: bool) -> None:
        self.records = 0
        self._table, self._columns = table, dead_letter_schema(headers=headers)
        self._committer = Committer(table, SETTINGS)
        self._state: TableState | None = None
        self._kept: set[str] = set()

    @contextmanager
    def claim(self, run: str) -> Iterator[None]:
        """Hold a run's lock beside the dead letters, and read what they say."""
        self._state = self._opened()
        with claim(self._table.root, run, since=None if self._state is None else self._state.version):
            yield
        if self._state is None and not self._kept:
            _remove_empty(self._table.root)

    def _opened(self) -> TableState | None:
        table = self._table
        state = table.read()
        table.check(self._columns)
        if state is None:
            return None
        if state.settings is None:
            raise OptionError(
                f"{table.shown}: is a table, but not one of dead letters: give another with `dead_letters`"
            )
        remove_orphans(table.root, table)
        state = table.read()
        if state is not None and state.ends:
            self._committer.check_settings(state)
        return state

    def directory_of(self, name: TopicPartition) -> DeadDirectory:
        """Return where a task writes bad records of a topic partition, and which of them are new."""
        end = None if self._state is None else self._state.end_of(name)
        return DeadDirectory(self._table.data_directory(name), end or 0, self._table.names_inside)

    def commit(self, of_table: Commit, files: Iterable[DataFile]) -> None:
        """Add the bad records of what is about to be committed, if there are any."""
        result = [one.dead for one in files if one.dead is not None and one.job.topic_partition in of_table.after]
        if not result:
            return
        names = {one.job.topic_partition for one in result}
        before = {name: None if self._state is None else self._state.end_of(name) for name in names}
        own = replace(
            of_table,
            before=before,
            after={name: max(of_table.after[name], before[name] or 0) for name in names},
            settings=SETTINGS,
            files=tuple(result),
            columns=columns_with_far_times(self._columns, result),
            gaps=(),
            latest=False,
            replaces=False,
        )
        self._kept |= {one.path for one in result}  # from here on they may be in a commit
        self._committer.make(own, self._state)
        self.records += sum(one.records for one in result)

    def discard(self, run: str, files: Iterable[DataFile]) -> None:
        """Remove files of bad records that no commit names."""
        paths = {one.dead.path for one in files if one.dead is not None} | files_of(self._table.root, run)
        discard(paths, keep=self._kept)

    def about(self) -> dict[str, Any]:
        """Return facts about the dead letters of a run, for the user."""
        return {**self._table.about(), "records": self.records}


def _remove_empty(root: str) -> None:
    """Remove the files of a claim if no table was made."""
    if "://" in root:
        return
    for path in (Path(root, RUNS), Path(root, OWN), Path(root)):
        with suppress(OSError):
            path.rmdir()
