"""What a scan is of, and a scan that is planned: slices, each read by itself, in a thread, a process, a Spark task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from kafkaframes.scan.decoded import ValueDecoding
from kafkaframes.scan.rows import LOG_COLUMNS, RecordBatches, schema_of
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
    """What a scan reads; by default the records of topics, which are read before they are counted."""

    @property
    def label(self) -> str:
        """What is read, for people: ``log /backup``."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are chosen by name."""
        return ()

    @property
    def is_files(self) -> bool:
        """Whether it is segments as they were named, of which topic and partition may not be known."""
        return False

    @property
    def default_columns(self) -> tuple[str, ...]:
        """The columns where none are chosen."""
        return LOG_COLUMNS

    def checked(self, columns: Sequence[str], where: Where) -> None:
        """Check columns and conditions.

        Raises:
            OptionError: this source has none of such a name.
        """

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of these columns."""
        return schema_of(columns)

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
        return None

    def close(self) -> None:
        """End what reading has kept open: connections."""
        return


@dataclass(frozen=True, slots=True)
class ScanSlice:
    """A part of a scan.

    Attributes:
        source: what is read, and how; passwords may be in it.
        work: which part.
        plain_columns: that are read.
        where: what rows are kept.
        columns: of the rows.
        decoding: how values are decoded.
    """

    source: Source = field(repr=False)
    work: Work
    plain_columns: tuple[str, ...]
    where: Where
    columns: tuple[str, ...]
    decoding: ValueDecoding | None = None

    @property
    def size_bytes(self) -> int:
        """How large it is, about; 0 where that is not known."""
        return self.work.size_bytes

    def read(self, errors: list[Any] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in order; raises as ``Scan.to_batches``.

        Args:
            errors: what was damaged is appended.
        """
        batches = self.source.read(self.work, self.plain_columns, self.where, [] if errors is None else errors)
        if self.decoding is None:
            return batches
        decoding = self.decoding
        return (decoding.batch(batch, self.columns) for batch in batches)

    def count(self) -> int:
        """Return how many rows it has, from headers where these say it."""
        counted = self.source.count(self.work, self.where)
        if counted is not None:
            return counted
        cheapest = [name for name in self.source.default_columns if name in _CHEAP] or self.source.default_columns[:1]
        return sum(batch.num_rows for batch in self.source.read(self.work, cheapest[:1], self.where, []))


_CHEAP = ("offset", "connection")


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What a scan will do, before it does it.

    Attributes:
        slices: in the order of their rows.
        schema: of the rows.
        limit: how many of the first rows are read; None: all.
    """

    slices: tuple[ScanSlice, ...]
    schema: pa.Schema
    limit: int | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes that are read; 0 where that is not known."""
        return sum(part.size_bytes for part in self.slices)

    def apart(self) -> list[ScanPlan]:
        """Return plans of one slice each, or this one alone where the first rows of all are read."""
        if self.limit is not None or not self.slices:
            return [self]
        return [replace(self, slices=(part,)) for part in self.slices]

    def __len__(self) -> int:
        return len(self.slices)

    def __iter__(self) -> Iterator[ScanSlice]:
        return iter(self.slices)

    def __repr__(self) -> str:
        lines = [f"{len(self.slices)} slices, {self.size_bytes} bytes"]
        lines += [f"  {part.work.label}" for part in self.slices[:20]]
        return "\n".join([*lines, f"  and {len(self.slices) - 20} more"] if len(self.slices) > 20 else lines)


class Rows(Protocol):
    """A scan, as those see it that run, show and convert one: the methods of ``scan.Scan``."""

    @property
    def source(self) -> Source:  # noqa: D102
        ...

    @property
    def schema(self) -> pa.Schema:  # noqa: D102
        ...

    @property
    def most(self) -> int | None:  # noqa: D102
        ...

    def select(self, *columns: str) -> Rows:  # noqa: D102
        ...

    def limit(self, rows: int) -> Rows:  # noqa: D102
        ...

    def narrowed(self, where: Where) -> Rows:  # noqa: D102
        ...

    def plan(self, *, parts: int = 1) -> ScanPlan:  # noqa: D102
        ...

    def to_batches(self, *, workers: int = 1) -> RecordBatches:  # noqa: D102
        ...
