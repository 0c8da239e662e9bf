"""Implement ``Scan.export`` and ``Scan.write_table`` with the jobs for exports and tables.

The jobs write what the scan selects: topics, partitions, the range, conditions and decoded values. A scan that the jobs
cannot write exactly as it is, such as one with other columns or a row limit, is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.job import FileExport, plan_log_export, plan_topic_export, summarize_outcome
from kafkaframes.jobs.export.positions import Plan
from kafkaframes.jobs.export.run import Outcome
from kafkaframes.jobs.export.settings import ExportSettings, TopicExportSettings
from kafkaframes.jobs.export.task import ExportTaskSettings
from kafkaframes.jobs.export.topic_export import TopicExport
from kafkaframes.jobs.job import JobResult
from kafkaframes.jobs.tables.content import TableContent
from kafkaframes.jobs.tables.job import TableJob, plan_log_table, plan_topic_table, run_table
from kafkaframes.jobs.tables.settings import LATEST, RAW, TableSettings, TopicTableSettings
from kafkaframes.jobs.tables.state import TableState
from kafkaframes.jobs.tables.targets import ValueSettings
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES, limit_budget
from kafkaframes.scan.decoded import ERROR_COLUMN
from kafkaframes.scan.log.source import LogSource
from kafkaframes.scan.scan import Scan
from kafkaframes.scan.topic.source import TopicSource
from kafkaframes.scan.values.decoding import DecodingOptions
from kafkaframes.scan.writing import ScanWriter

_HEADERS_COLUMN: Final = "headers"


class _Writer:
    """Writes scans to files and tables (``scan.writing.ScanWriter``)."""

    def export(self, scan: Scan, to: str, options: Mapping[str, Any]) -> JobResult[Outcome]:
        """Export a scan to files."""
        if scan.decoding is not None:
            raise OptionError(
                "`decode` cannot be exported, because an export writes values as bytes; "
                "use `write_table` for decoded values"
            )
        job: FileExport | TopicExport
        values = {**_make_common_settings(scan), **options}
        output = {"overwrite": options["overwrite"], "single_file": options["single_file"]}
        if isinstance(scan.source, LogSource):
            log_settings = ExportSettings(**values, **_make_isolation_setting(scan.source.options.isolation))
            read = replace(scan.source.options, row_filter=scan.conditions)
            job = plan_log_export(read, log_settings.make_file_settings(to), **output)
            with limit_budget(read.budget_bytes):
                return summarize_outcome(job.write_files(), part=job.part)
        read_topics = replace(_find_topic_source(scan).options, row_filter=scan.conditions)
        job = plan_topic_export(read_topics, TopicExportSettings(**values).make_file_settings(to), **output)
        return summarize_outcome(job.write_files(), part=job.part)

    def write_table(self, scan: Scan, to: str, options: Mapping[str, Any]) -> JobResult[Outcome]:
        """Write a scan to a table."""
        decoding = None
        if scan.decoding is not None:
            decoding = scan.decoding.decoding
            if scan.decoding.raises:
                raise OptionError(
                    "`errors`=raise is not supported for tables, which have a table of dead letters for values that "
                    "cannot be decoded; use `errors`=null"
                )
        is_latest = options["latest"]
        mode = RAW if decoding is None else decoding.mode
        values = _make_common_settings(scan) | {name: value for name, value in options.items() if name != "latest"}
        values |= {"mode": LATEST, "value": mode} if is_latest else {"mode": mode}
        if isinstance(scan.source, LogSource):
            return self._write_log_table(scan, scan.source, to, values, decoding)
        read = replace(_find_topic_source(scan).options, row_filter=scan.conditions)
        settings = TopicTableSettings(**values)
        job = plan_topic_table(lambda: read, (), to, settings, _DecodedValues.from_decoding(settings, decoding))
        return run_table(job)

    def _write_log_table(
        self, scan: Scan, source: LogSource, to: str, values: Mapping[str, Any], decoding: DecodingOptions | None
    ) -> JobResult[Outcome]:
        settings = TableSettings(**values, **_make_isolation_setting(source.options.isolation))
        read = replace(
            source.options, row_filter=scan.conditions, isolation=settings.isolation, include_headers=settings.headers
        )
        job: TableJob = plan_log_table(read, (), to, settings, _DecodedValues.from_decoding(settings, decoding))
        with limit_budget(read.budget_bytes):
            return run_table(job)


WRITER: ScanWriter = _Writer()  # ``scan.writing`` loads this object by its name


@dataclass(frozen=True)
class _DecodedValues(ValueSettings):
    """The values of a scan, whose schema is already known."""

    decoding: DecodingOptions | None = None

    @classmethod
    def from_decoding(cls, settings: TopicTableSettings, decoding: DecodingOptions | None) -> _DecodedValues:
        """Create the value settings of a scan that decodes values in this way."""
        return cls(settings, None, {}, "", decoding)

    @property
    def is_inferred(self) -> bool:
        """Always false, because the scan has already inferred the schema."""
        return False

    def check_early(self) -> None:
        """Do nothing: the scan has checked the schema."""

    def choose_content(self, state: TableState | None, plan: Plan, files: ExportTaskSettings) -> TableContent:
        """Return the content of the table: its decoded columns, and whether it has one row per key."""
        return TableContent(self.decoding, self.settings.is_latest)


def _make_isolation_setting(isolation: str | None) -> dict[str, Any]:
    """Return the isolation level as a setting; an empty dict for the job's default."""
    return {} if isolation is None else {"isolation": isolation}


def _make_common_settings(scan: Scan) -> dict[str, Any]:
    """Return the settings that a scan and a job have in common.

    Raises:
        OptionError: a job cannot write what the scan returns.
    """
    source = scan.source
    if not isinstance(source, LogSource | TopicSource):
        raise OptionError(f"{source.label}: only scans of logs and topics can be exported or written to a table")
    if scan.row_limit is not None:
        raise OptionError(
            f"`limit` {scan.row_limit} is not supported: an export or table has all selected records; use `where`"
        )
    options = source.options
    if isinstance(source, LogSource) and source.options.limit_bytes != DEFAULT_LIMIT_BYTES:
        raise OptionError(
            f"`limit_bytes` must be the default {DEFAULT_LIMIT_BYTES} for exports and tables, not "
            f"{source.options.limit_bytes}"
        )
    return {
        "control_records": options.include_control,
        "on_damage": options.on_damage,
        "fail_on_data_loss": options.fail_on_data_loss,
        "headers": _has_headers(scan.columns, source.default_columns),
        "timestamp": scan.conditions.timestamps_ms if scan.conditions.has_times else None,
        "verify_crc": source.options.verify_crc if isinstance(source, LogSource) else True,
    }


def _has_headers(columns: Sequence[str], default_columns: Sequence[str]) -> bool:
    """Return whether the columns of a scan include headers.

    Raises:
        OptionError: the columns are not all columns of a record, with or without headers.
    """
    selected, required = set(columns) - {ERROR_COLUMN}, set(default_columns) - {_HEADERS_COLUMN}
    if selected - {_HEADERS_COLUMN} != required:
        raise OptionError(
            f"`select` {', '.join(columns)} is not supported: an export or table has the columns "
            f"{', '.join(default_columns)}, and only headers can be omitted. Use `to_batches()` to write other columns"
        )
    return _HEADERS_COLUMN in selected


def _find_topic_source(scan: Scan) -> TopicSource:
    assert isinstance(scan.source, TopicSource)  # checked by _make_common_settings
    return scan.source
