"""Write tables of plain Parquet files to a local directory with its own journal of commits.

    DIR/topic=T/partition=P/*.parquet              rows, for any Parquet reader
    DIR/_kafkaframes/commits/00000000000000000007.json   commit 7: its note and its files
    DIR/_kafkaframes/staged/topic=T/partition=P/*  files of a run that has not committed

A commit creates a file in ``commits`` with the next number, which only one writer can do. After the commit, the writer
moves the data files to their final directories. If the writer is killed, the next program that reads the table's state
moves the remaining files. A reader may therefore see only some files of the newest commit, but never a file that was
not committed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.positions import TopicPartition
from kafkaframes.jobs.export.task import OWN_DIRECTORY
from kafkaframes.jobs.tables.content import find_column_changes, merge_columns
from kafkaframes.jobs.tables.state import (
    STAGING_DIRECTORY,
    CommitConflictError,
    TableCommit,
    TableState,
    make_staging_path,
    make_state_from_note,
    parse_note,
)
from kafkaframes.storage.files.local_disk import flush_path

COMMITS_DIRECTORY = f"{OWN_DIRECTORY}/commits"  # directory of the commit files
_VERSION_DIGITS = 20  # digits of the version in the name of a commit file
_NO_WIDENING_REASON = "readers use the types of a single file for all files; use a new table, or the format iceberg"


class ParquetTable:
    """A directory of Parquet files on a local or mounted file system. See ``state.Table``."""

    names_inside = False

    def __init__(self, root: str) -> None:
        if "://" in root:
            raise OptionError(
                f"`to` {root}: a table in the format parquet must be a directory; use delta or iceberg in an object "
                "store"
            )
        self.root = self.shown = root
        self._version: int | None = None
        self._columns: pa.Schema | None = None

    @property
    def known_root(self) -> str | None:
        """The location of the table, whether or not it exists."""
        return self.root

    def read_state(self) -> TableState | None:
        """Return the state of the table, or None if it does not exist.

        Staged files of the newest commit are first moved to their final directories.
        """
        result = sorted(Path(self.root, COMMITS_DIRECTORY).glob("*.json"))
        if not result:
            self._version = self._columns = None
            return None
        commit = self._read_commit(result[-1])
        self._version = int(result[-1].stem)
        self._columns = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(commit["columns"])))
        self._move_staged_files(commit["files"])
        note = commit["note"]
        return make_state_from_note(note, commit["topicIds"], note["settings"], self._version)

    def _read_commit(self, path: Path) -> dict[str, Any]:
        """Return the contents of a commit file."""
        try:
            commit = json.loads(path.read_bytes())
            if parse_note(commit["note"]) is not None and isinstance(commit["files"], list):
                return {"topicIds": {}, **commit}
        except (ValueError, KeyError, TypeError):
            pass
        raise OptionError(f"{path}: is not a commit of a table of Parquet files")

    def check_columns(self, columns: pa.Schema) -> None:
        """Check that rows with these columns can be written to the table."""
        if self._columns is not None:
            find_column_changes(self._columns, columns, where=self.shown, widening=_NO_WIDENING_REASON)

    def get_data_directory(self, name: TopicPartition) -> str:
        """Return the staging directory for data files, in which they remain until the commit."""
        return make_staging_path(self.root, name)

    def commit_files(self, commit: TableCommit, state: TableState | None) -> None:
        """Commit on top of the state that was read last."""
        if commit.replaces or commit.latest:
            raise OptionError(
                f"{self.shown}: tables in the format parquet do not support "
                f"{'overwrite' if commit.replaces else 'upsert'}"
            )
        number = 0 if self._version is None else self._version + 1
        note_before = {} if self._version is None else self._read_commit(self._path(self._version))["topicIds"]
        columns = commit.columns if self._columns is None else merge_columns(self._columns, commit.columns)
        names = [str(Path(file.path).relative_to(Path(self.root, STAGING_DIRECTORY))) for file in commit.files]
        note = {
            "note": commit.to_note(state),
            "topicIds": note_before | dict(commit.topic_ids),
            "columns": columns.serialize().to_pybytes().hex(),
            "files": names,
        }
        path = self._path(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        for file in commit.files:
            flush_path(file.path)
        _create_file(path, json.dumps(note), temporary=path.parent / f".{commit.run}")
        self._version = number
        self._move_staged_files(names)

    def _path(self, number: int) -> Path:
        return Path(self.root, COMMITS_DIRECTORY, f"{number:0{_VERSION_DIGITS}}.json")

    def _move_staged_files(self, names: list[str]) -> None:
        """Move committed files from the staging directory to their final directories."""
        for name in names:
            staged_path, final_path = Path(self.root, STAGING_DIRECTORY, name), Path(self.root, name)
            if staged_path.exists():
                final_path.parent.mkdir(parents=True, exist_ok=True)
                os.replace(staged_path, final_path)

    def has_committed(self, run: str, *, since: int | None) -> bool | None:
        """Return whether a run committed after a version."""
        self.read_state()
        for path in sorted(Path(self.root, COMMITS_DIRECTORY).glob("*.json"), reverse=True):
            if self._read_commit(path)["note"]["run"] == run:
                return since is None or int(path.stem) > since
        return False

    def compact_small_files(self) -> None:
        """Do nothing, because readers may have data files open."""

    def describe(self) -> dict[str, Any]:
        """Return properties of the table that are reported after a run."""
        return {"format": "parquet", "location": self.root, "version": self._version}


def _create_file(path: Path, text: str, *, temporary: Path) -> None:
    """Create a complete file atomically, without replacing an existing one.

    Raises:
        CommitConflictError: the file exists.
    """
    try:
        with open(temporary, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError as error:
        raise CommitConflictError(f"{path} already exists") from error
    finally:
        temporary.unlink(missing_ok=True)
