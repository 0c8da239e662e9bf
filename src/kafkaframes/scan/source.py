"""What a scan is of: a log, live topics or captures. What all three have for ``scan/scan.py``. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kafkaframes.scan.where import Where

if TYPE_CHECKING:
    import pyarrow as pa


class Work(Protocol):
    """What one slice reads: picklable, so that it can be read in another process, or on another machine."""

    @property
    def size_bytes(self) -> int:
        """How large the slice is, about; 0 where that is not known."""

    @property
    def label(self) -> str:
        """What is read, for people."""


class Source(Protocol):
    """What a scan reads."""

    @property
    def label(self) -> str:
        """What is read, for people: ``log /backup``."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are chosen by name."""

    @property
    def is_files(self) -> bool:
        """Whether it is segments as they were named, of which topic and partition may not be known."""

    @property
    def default_columns(self) -> tuple[str, ...]:
        """The columns where none are chosen."""

    def checked(self, columns: Sequence[str], where: Where) -> None:
        """Check columns and conditions.

        Raises:
            OptionError: this source has none of such a name.
        """

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of these columns."""

    def plan(self, where: Where, *, parts: int) -> Sequence[Any]:
        """Return the works, in the order of their rows.

        Args:
            where: what rows are kept.
            parts: into how many the source is cut at least, if it is large.

        Raises:
            OptionError: what is named is not there, or is lost.
            LogDirError, NetworkError, BrokerError: it cannot be looked at.
        """

    def read(self, work: Any, columns: Sequence[str], where: Where, errors: list[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a work, in order; damage is appended to ``errors``."""

    def count(self, work: Any, where: Where) -> int | None:
        """Return how many rows a work has, from headers alone; None where these do not say it."""

    def close(self) -> None:
        """End what reading has kept open: connections."""
