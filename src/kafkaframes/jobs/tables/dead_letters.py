"""The table of records that could not become rows: as they came, with the reason. It has end offsets like any table.

It is committed before the table whose records they are. A run that is killed in between repeats those records; what the
dead letters' own end offsets say is there already is then left out. A table of dead letters is made when there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.journal import OWN
from kafkaframes.jobs.tables import claims
from kafkaframes.jobs.tables.committing import Committer
from kafkaframes.jobs.tables.content import dead_letter_schema
from kafkaframes.jobs.tables.files import DataFile, DeadPlace, discard
from kafkaframes.jobs.tables.state import Commit, TableState, TopicPartition
from kafkaframes.jobs.tables.table import Table

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
        with claims.claim(self._table.root, run, since=None if self._state is None else self._state.version):
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
                f"{table.place}: is a table, but not one of dead letters: give another with `dead_letters`"
            )
        claims.remove_orphans(table.root, lambda run, since: table.has_committed(run, since=since))
        state = table.read()
        if state is not None and state.ends:
            self._committer.check_settings(state)
        return state

    def place_of(self, name: TopicPartition) -> DeadPlace:
        """Return where a task writes bad records of a topic partition, and which of them are new."""
        end = None if self._state is None else self._state.end_of(name)
        return DeadPlace(self._table.data_directory(name), end or 0, self._table.names_inside)

    def commit(self, of_table: Commit, files: Iterable[DataFile]) -> None:
        """Add the bad records of what is about to be committed, if there are any."""
        found = [one.dead for one in files if one.dead is not None and one.job.topic_partition in of_table.after]
        if not found:
            return
        names = {one.job.topic_partition for one in found}
        before = {name: None if self._state is None else self._state.end_of(name) for name in names}
        own = replace(
            of_table,
            before=before,
            after={name: max(of_table.after[name], before[name] or 0) for name in names},
            settings=SETTINGS,
            files=tuple(found),
            columns=self._columns,
            gaps=(),
            latest=False,
            replaces=False,
        )
        self._kept |= {one.path for one in found}  # from here on they may be in a commit
        self._committer.make(own, self._state)
        self.records += sum(one.records for one in found)

    def discard(self, run: str, files: Iterable[DataFile]) -> None:
        """Remove files of bad records that no commit names."""
        paths = {one.dead.path for one in files if one.dead is not None} | claims.files_of(self._table.root, run)
        discard(paths, keep=self._kept)

    def about(self) -> dict[str, Any]:
        """Return facts about the dead letters of a run, for the user."""
        return {**self._table.about(), "records": self.records}


def _remove_empty(root: str) -> None:
    """Remove the files of a claim if no table was made."""
    if "://" in root:
        return
    for path in (Path(root, claims.RUNS), Path(root, OWN), Path(root)):
        with suppress(OSError):
            path.rmdir()
