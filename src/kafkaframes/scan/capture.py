"""The scan source for packet captures. A scan reads one table of a capture. A slice is a share of the connections."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.capture.columns import TABLE_COLUMNS
from kafkaframes.capture.coverage import Coverage
from kafkaframes.capture.files import find_files, natural_sort_key
from kafkaframes.capture.reader import CaptureBatches, CaptureOptions, read_traffic
from kafkaframes.errors import OptionError
from kafkaframes.scan.rows import check_names
from kafkaframes.scan.slices import ScanSource, SourcePlan
from kafkaframes.scan.where import RowFilter

_MIN_TASK_BYTES: Final = 32 << 20  # each task reads all packet headers, so more tasks than cores do not help


@dataclass(frozen=True, slots=True)
class CaptureReadOptions:
    """The options of a read of capture files, as a batch or as a stream.

    Attributes:
        paths: Captures or request logs: files, directories or patterns.
        read: Options of the capture reader.
        min_partitions: Minimum number of tasks. If None, it depends on the size of the files, with at most one task
            per core.
        quiet_seconds: Seconds without a write after which a stream reads the newest file.
        max_files: Largest number of files in a micro-batch.
    """

    paths: tuple[str, ...]
    read: CaptureOptions
    min_partitions: int | None = None
    quiet_seconds: int = 10
    max_files: int | None = None

    def files(self) -> list[str]:
        """Return the files that exist now."""
        return find_files(self.paths)


class CaptureWork(NamedTuple):
    """The part of a capture scan that one task reads: one share of the connections in capture files."""

    files: tuple[str, ...]
    options: CaptureOptions

    @property
    def size_bytes(self) -> int:
        """Always 0, because each task reads all packet headers."""
        return 0

    @property
    def label(self) -> str:
        """A label for messages: the files and the share."""
        return f"{', '.join(self.files)}, share {self.options.share + 1} of {self.options.shares}"


def plan_connection_shares(files: Sequence[str], options: CaptureReadOptions, *, cores: int) -> list[CaptureWork]:
    """Divide the connections among tasks.

    Each task reads all packet headers, but only the payloads of its own connections.
    """
    size_bytes = sum(os.path.getsize(path) for path in files)
    shares = options.min_partitions or max(min(cores, -(-size_bytes // _MIN_TASK_BYTES)), 1)
    return [CaptureWork(tuple(files), replace(options.read, share=share, shares=shares)) for share in range(shares)]


def find_finished_files(options: CaptureReadOptions, *, now: float) -> list[str]:
    """Return the complete files: all but the newest.

    The newest file counts as complete after ``quiet_seconds`` without a write.
    """
    try:
        files = sorted(find_files(options.paths), key=natural_sort_key)
    except OptionError:
        return []
    if files and now - os.path.getmtime(files[-1]) < options.quiet_seconds:
        files.pop()
    return files


# The column of each table that conditions on time apply to.
_TIME_COLUMN_BY_TABLE: Final = {
    "calls": "requestTime",
    "connections": "firstTime",
    "gaps": "time",
    "packets": "time",
    "records": "timestamp",
}


@dataclass(frozen=True, slots=True)
class CaptureSource(ScanSource):
    """The scan source that reads a table, such as the calls, from capture files."""

    options: CaptureReadOptions

    @property
    def label(self) -> str:
        """A label for messages: the table and the paths."""
        return f"{self.options.read.table} of {', '.join(self.options.paths)}"

    @property
    def default_columns(self) -> tuple[str, ...]:
        """The default columns of the table."""
        return tuple(column.name for column in self.options.read.select_columns())

    def check_columns(self, columns: Sequence[str], row_filter: RowFilter) -> None:
        """Check that the table has these columns, and the columns of the conditions."""
        table = self.options.read.table
        check_names(columns, [column.name for column in TABLE_COLUMNS[table]])
        if table != "records" and row_filter != RowFilter(timestamps_ms=row_filter.timestamps_ms):
            raise OptionError(
                f"table {table} has no topics, partitions and offsets of records; `where` takes timestamp"
            )

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of these columns."""
        return CaptureBatches((), self._read(columns)).schema

    def _read(self, columns: Sequence[str]) -> Any:
        return replace(self.options.read, columns=tuple(columns))

    def plan_slices(self, row_filter: RowFilter, *, parts: int) -> SourcePlan:
        """List the files, and divide the connections into at most ``parts`` shares."""
        return SourcePlan(plan_connection_shares(self.options.files(), self.options, cores=parts))

    def read_slice(
        self, work: CaptureWork, columns: Sequence[str], conditions_of_scan: RowFilter, errors: list[Any]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a share. Finally, append the unread data that may contain calls to ``errors``."""
        conditions = list(_iterate_conditions(conditions_of_scan, _TIME_COLUMN_BY_TABLE[self.options.read.table]))
        columns_to_read = dict.fromkeys([*columns, *(name for name, _ in conditions)])
        read = replace(work.options, columns=tuple(columns_to_read))
        coverage = Coverage()
        try:
            for batch in read_traffic(work.files, read, coverage):
                if conditions:
                    batch = batch.filter(reduce(and_, (condition for _, condition in conditions)))
                if batch.num_rows:
                    yield batch.select(list(columns))
        finally:
            errors += coverage.unread


def _iterate_conditions(row_filter: RowFilter, times: str) -> Iterator[tuple[str, pc.Expression]]:
    """Yield each condition with the name of its column."""
    if row_filter.topics is not None:
        yield "topic", pc.field("topic").isin(list(row_filter.topics))
    if row_filter.partitions is not None:
        yield "partition", pc.field("partition").isin(list(row_filter.partitions))
    moments = tuple(
        None if bound is None else pa.scalar(bound, pa.timestamp("ms", "UTC")) for bound in row_filter.timestamps_ms
    )
    for name, (min_value, limit) in (("offset", row_filter.offsets), (times, moments)):
        if min_value is not None:
            yield name, pc.field(name) >= min_value
        if limit is not None:
            yield name, pc.field(name) < limit
