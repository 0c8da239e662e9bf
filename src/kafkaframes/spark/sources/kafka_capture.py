"""The Spark data source ``kafka-capture``, which reads captured traffic and request logs with the package ``capture``.

The input is divided among tasks by connection, not by byte range. Each task reads all packet headers, which is cheap,
and the payload of its own connections. Rows are not shuffled. A stream reads a directory to which files are added. A
file is read when it is complete, and some earlier files are read again for calls and connections that continue in it.

The capture reader is imported by the functions that need it, because Spark also imports this module for ``kafka-log``.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from kafkaframes.errors import OptionError
from kafkaframes.spark.runtime.worker import freeze_imports, hide_tracebacks
from kafkaframes.spark.sources.catalog_tables import (
    format_table_comment,
    remove_catalog_additions,
    resolve_read_options,
)
from kafkaframes.spark.sources.rejected_stream import defer_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkaframes.scan.capture import CaptureReadOptions, CaptureWork

log = logging.getLogger("kafkaframes.spark")


@hide_tracebacks
class KafkaCaptureDataSource(DataSource):
    """The data source ``kafka-capture``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._options = dict(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return "kafka-capture"

    def schema(self) -> StructType:
        """Return the schema of the table and the selected columns."""
        from pyspark.sql.pandas.types import from_arrow_schema

        from kafkaframes.capture.columns import schema_of

        options = _parse_options(remove_catalog_additions(self._options))
        schema = from_arrow_schema(schema_of(options.read.select_columns()))
        comment = format_table_comment(self.name(), self._options)
        if comment:
            schema[0].metadata = {"comment": comment}
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        return KafkaCaptureReader(self._select_columns(schema))

    @defer_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Return the reader of a directory to which files are added."""
        options = self._select_columns(schema)
        if options.read.table not in ("calls", "records"):
            raise OptionError(f"table={options.read.table} is for batch reads; a stream reads calls or records")
        return KafkaCaptureStreamReader(options)

    def _select_columns(self, schema: StructType) -> CaptureReadOptions:
        """Return the read options that select the schema's columns."""
        options = _parse_options(resolve_read_options(self.name(), self._options, schema))
        return replace(options, read=replace(options.read, columns=tuple(schema.names)))


def _parse_options(options: Mapping[str, str]) -> CaptureReadOptions:
    """Return the options of a read of captures."""
    from kafkaframes.spark.options import parse_capture_options

    return parse_capture_options(options)


def _plan_partitions(files: Sequence[str], options: CaptureReadOptions) -> list[InputPartition]:
    """Return Spark's input partitions for capture files."""
    from kafkaframes.scan.capture import plan_connection_shares

    return [InputPartition(work) for work in plan_connection_shares(files, options, cores=os.cpu_count() or 1)]


@hide_tracebacks
class _CaptureReader:
    """The part of a capture reader that runs in workers, for batches and streams."""

    def __init__(self, options: CaptureReadOptions) -> None:
        self.options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task as Arrow batches of about 1 MB. Log unread data that may contain calls."""
        from kafkaframes.capture.coverage import Coverage
        from kafkaframes.capture.reader import read_traffic
        from kafkaframes.scan.arrow import rebatch

        work: CaptureWork = partition.value
        coverage = Coverage()
        yield from rebatch(read_traffic(work.files, work.options, coverage))
        for entry in coverage.unread:
            log.warning("%s", entry)
        freeze_imports()


@hide_tracebacks
class KafkaCaptureReader(_CaptureReader, DataSourceReader):
    """A Spark batch reader for captures, which divides the connections among tasks."""

    def partitions(self) -> list[InputPartition]:
        """Divide the connections among tasks."""
        return _plan_partitions(self.options.files(), self.options)


@hide_tracebacks
class KafkaCaptureStreamReader(_CaptureReader, DataSourceStreamReader):
    """A Spark stream reader for a directory with captures. An offset is the name of the last file that was read."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as those below)
        """Return the start of a query without a checkpoint: the first file."""
        return {"after": ""}

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: object = None) -> dict[str, Any]:  # noqa: N802
        """Return the last complete file, or the last file that fits into the micro-batch."""
        from kafkaframes.capture.files import natural_sort_key
        from kafkaframes.scan.capture import find_finished_files

        files = find_finished_files(self.options, now=time.time())
        last_read_file = str(start["after"]) if start else ""
        new = [
            path for path in files if not last_read_file or natural_sort_key(path) > natural_sort_key(last_read_file)
        ]
        if self.options.max_files is not None and start is not None:
            new = new[: self.options.max_files]
        return {"after": new[-1] if new else last_read_file}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the tasks for the files after ``start``.

        The tasks also read some earlier files for continued calls.
        """
        from kafkaframes.capture.files import natural_sort_key
        from kafkaframes.scan.capture import CaptureWork, find_finished_files

        files = find_finished_files(replace(self.options, quiet_seconds=0), now=time.time())
        last = natural_sort_key(str(end["after"]))
        earlier_files = [
            path for path in files if start["after"] and natural_sort_key(path) <= natural_sort_key(str(start["after"]))
        ]
        new = [path for path in files if path not in earlier_files and natural_sort_key(path) <= last]
        if not new:
            return [InputPartition(CaptureWork((), self.options.read))]
        lead = earlier_files[-(self.options.read.wait_files + 1) :]
        options = replace(self.options, read=replace(self.options.read, lead_files=len(lead)))
        return _plan_partitions([*lead, *new], options)
