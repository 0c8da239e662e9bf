"""Make a commit visible exactly once.

A commit that lost against another writer is tried again; one whose outcome is not known is never repeated.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from typing import Any

from kafkaframes.errors import OptionError, UnknownOutcomeError
from kafkaframes.jobs.tables.state import Commit, RacedError, TableState
from kafkaframes.jobs.tables.table import Table

COMMIT_ATTEMPTS = 20
WAIT_SECONDS = 0.05


class Committer:
    """Commits into one table; ``commits`` counts.

    Args:
        chosen: which records the table holds (``state.table_settings``).
    """

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
            names = sorted({*before, *self._chosen})
            differs = ", ".join(name for name in names if before.get(name) != self._chosen.get(name))
            raise OptionError(
                f"{self._table.place}: holds other records than this run asks for ({differs}): ask for the same, or "
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
                    raise OptionError(f"{table.place}: cannot be committed to: {error}") from error
                reason = str(error)
            else:
                self.commits += 1
                return
            if self._has_landed(commit, since):
                self.commits += 1
                return
            state = self._reread(commit)
            time.sleep(random.uniform(0, WAIT_SECONDS))
        raise OptionError(f"{table.place}: {COMMIT_ATTEMPTS} commits lost against other writers: {reason}")

    def _has_landed(self, commit: Commit, since: int | None) -> bool:
        """Return whether a commit that ended with an error was made all the same.

        Raises:
            OptionError: it cannot be known; the files of the commit stay.
        """
        try:
            landed = self._table.has_committed(commit.run, since=since)
        except Exception as error:
            raise UnknownOutcomeError(self._table.place, commit.run, str(error)) from error
        if landed is None:
            raise UnknownOutcomeError(self._table.place, commit.run, "its log does not reach back far enough")
        return landed

    def _reread(self, commit: Commit) -> TableState | None:
        state = self._table.read()
        if not commit.fits(state):
            name = next(name for name in commit.before if (state and state.end_of(name)) != commit.before[name])
            raise OptionError(
                f"{self._table.place}: another exporter has added offsets of {name[0]}-{name[1]} meanwhile; nothing "
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
