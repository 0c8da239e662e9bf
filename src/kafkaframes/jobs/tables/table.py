"""What a table format has to answer: two formats, one set of questions. No library of theirs is imported here."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from kafkaframes.jobs.tables.state import Commit, TableState, TopicPartition


class Table(Protocol):
    """One table, there or yet to be made.

    Attributes:
        place: what to call it in messages.
        names_inside: whether its data files hold topic and partition as columns.
    """

    place: str
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

    def staged_directory(self, name: TopicPartition) -> str:
        """Return where files are to lie that a commit takes up and that are no data files themselves."""

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
