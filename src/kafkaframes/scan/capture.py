"""Captures as what a scan reads: one table of them; a slice is some of the connections of all files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.capture.columns import TABLES
from kafkaframes.capture.coverage import Coverage
from kafkaframes.capture.files import find_files, natural
from kafkaframes.capture.reader import CaptureBatches, CaptureOptions, read_traffic
from kafkaframes.errors import OptionError
from kafkaframes.scan.rows import checked_names
from kafkaframes.scan.slices import Source, SourcePlan
from kafkaframes.scan.where import Where

_WORTH_A_TASK: Final = 32 << 20  # bytes; every task looks at all headers, so more tasks than cores gain nothing


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What is read of captures.

    Attributes:
        paths: captures or request logs: files, directories, patterns.
        read: how they are read.
        min_partitions: the least number of tasks; None: as many as are worth it, up to the cores.
        quiet_seconds: a stream reads the newest file after this many seconds without a write.
        max_files: the most files of a micro-batch.
    """

    paths: tuple[str, ...]
    read: CaptureOptions
    min_partitions: int | None = None
    quiet_seconds: int = 10
    max_files: int | None = None

    def files(self) -> list[str]:
        """Return the files there are now."""
        return find_files(self.paths)


class Work(NamedTuple):
    """What one task reads: some of the connections of some files."""

    files: tuple[str, ...]
    options: CaptureOptions

    @property
    def size_bytes(self) -> int:
        """0: each task looks at all headers."""
        return 0

    @property
    def label(self) -> str:
        """The files and the share."""
        return f"{', '.join(self.files)}, share {self.options.share + 1} of {self.options.shares}"


def plan_works(files: Sequence[str], options: SourceOptions, *, cores: int) -> list[Work]:
    """Share the connections of files out to tasks: each task looks at all headers, and at the payload of its own."""
    size_bytes = sum(os.path.getsize(path) for path in files)
    shares = options.min_partitions or max(min(cores, -(-size_bytes // _WORTH_A_TASK)), 1)
    return [Work(tuple(files), replace(options.read, share=share, shares=shares)) for share in range(shares)]


def finished_files(options: SourceOptions, *, now: float) -> list[str]:
    """Return the files that are complete: all but the newest, and that one too when it has been quiet."""
    try:
        files = sorted(find_files(options.paths), key=natural)
    except OptionError:
        return []
    if files and now - os.path.getmtime(files[-1]) < options.quiet_seconds:
        files.pop()
    return files


# The column of each table that is its rows' time.
_TIMES: Final = {
    "calls": "requestTime",
    "connections": "firstTime",
    "gaps": "time",
    "packets": "time",
    "records": "timestamp",
}


@dataclass(frozen=True, slots=True)
class CaptureSource(Source):
    """The rows of a table of captures; which columns, the scan says."""

    options: SourceOptions

    @property
    def label(self) -> str:
        """The table and the paths."""
        return f"{self.options.read.table} of {', '.join(self.options.paths)}"

    @property
    def default_columns(self) -> tuple[str, ...]:
        """Those that the table has by default."""
        return tuple(column.name for column in self.options.read.chosen())

    def checked(self, columns: Sequence[str], where: Where) -> None:
        """Check names, and that the table has what the conditions are about."""
        table = self.options.read.table
        checked_names(columns, [column.name for column in TABLES[table]])
        if table != "records" and where != Where(timestamps_ms=where.timestamps_ms):
            raise OptionError(
                f"table {table} has no topics, partitions and offsets of records; `where` takes timestamp"
            )

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of these columns."""
        return CaptureBatches((), self._read(columns)).schema

    def _read(self, columns: Sequence[str]) -> Any:
        return replace(self.options.read, columns=tuple(columns))

    def plan(self, where: Where, *, parts: int) -> SourcePlan:
        """List the files; connections are shared out to ``parts``."""
        return SourcePlan(plan_works(self.options.files(), self.options, cores=parts))

    def read(self, work: Work, columns: Sequence[str], where: Where, errors: list[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a share; at the end, add to ``errors`` the data that were not read and may hide a call."""
        conditions = list(_conditions(where, _TIMES[self.options.read.table]))
        needed = dict.fromkeys([*columns, *(name for name, _ in conditions)])
        read = replace(work.options, columns=tuple(needed))
        coverage = Coverage()
        try:
            for batch in read_traffic(work.files, read, coverage):
                if conditions:
                    batch = batch.filter(reduce(and_, (condition for _, condition in conditions)))
                if batch.num_rows:
                    yield batch.select(list(columns))
        finally:
            errors += coverage.unread


def _conditions(where: Where, times: str) -> Iterator[tuple[str, pc.Expression]]:
    """Yield each condition, with the column that it is on."""
    if where.topics is not None:
        yield "topic", pc.field("topic").isin(list(where.topics))
    if where.partitions is not None:
        yield "partition", pc.field("partition").isin(list(where.partitions))
    moments = tuple(
        None if bound is None else pa.scalar(bound, pa.timestamp("ms", "UTC")) for bound in where.timestamps_ms
    )
    for name, (least, limit) in (("offset", where.offsets), (times, moments)):
        if least is not None:
            yield name, pc.field(name) >= least
        if limit is not None:
            yield name, pc.field(name) < limit
