"""``kafkaframes.export_log``: the command as a function. It lives here, for the plan of an export is Spark's."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.job_result import JobResult

Path = str | PathLike[str]


def export_log(
    paths: Path | Sequence[Path],
    to: Path,
    *,
    format: Literal["parquet", "arrow", "csv", "json"] = "parquet",  # noqa: A002  # as the command's option is called
    topics: Sequence[str] = (),
    from_offset: int | None = None,
    until_offset: int | None = None,
    from_timestamp_ms: int | None = None,
    until_timestamp_ms: int | None = None,
    keys: Sequence[bytes] = (),
    key_regex: str | None = None,
    headers: bool = True,
    base64: bool = False,
    overwrite: bool = False,
    options: Mapping[str, str] | None = None,
) -> JobResult[Outcome]:
    """Export the records of Kafka logs to files, one for each segment; goes on where an earlier one was stopped.

    >>> export_log("/backup/kafka-logs", "out", topics=["orders"])  # doctest: +SKIP
    80,000 records read, 80,000 written to out, in 12 segments

    Args:
        paths: log directories, partitions, segments, patterns, tiered stores, or URLs of such.
        to: a local directory that is new, empty, or an earlier export.
        format: of the files.
        topics: names or patterns; by default those that are not Kafka's own.
        from_offset, until_offset: the first selected offset of every partition, and the first one after the selection.
        from_timestamp_ms, until_timestamp_ms: likewise timestamps, in milliseconds.
        keys, key_regex: only records with one of these keys, or in whose key this is found.
        headers: whether headers are among the columns.
        base64: keys, values and header values of CSV and JSON in base64, so that no byte is lost.
        overwrite: remove an earlier export first.
        options: of ``kafka-log``, such as ``isolation``, ``mode``, ``replicas``.

    Raises:
        LogDirError: a path does not exist or cannot be read.
        OptionError: ``to`` is something else or lies in a source, or an option does not fit.
    """
    from pathlib import Path as LocalPath

    from kafkaframes.jobs.dump.filters import Filter, key_pattern
    from kafkaframes.jobs.export.planning import plan_export
    from kafkaframes.jobs.export.run import export
    from kafkaframes.jobs.export.settings import Settings
    from kafkaframes.jobs.job_result import JobResult
    from kafkaframes.scan.log.options import ReadOptions, topics_option
    from kafkaframes.storage.files.atomic import refuse_inside

    named = [os.fspath(one) for one in ([paths] if isinstance(paths, str | PathLike) else paths)]
    refuse_inside(LocalPath(to), named)
    given = topics_option(topics) | dict(options or {})
    asked = ReadOptions.parse({"path": "", "paths": json.dumps(named), **given})
    keep = Filter(
        from_timestamp=from_timestamp_ms,
        until_timestamp=until_timestamp_ms,
        keys=frozenset(keys) or None,
        key_pattern=key_pattern(key_regex) if key_regex else None,
        control=asked.include_control,
    )
    settings = Settings(
        os.fspath(to),
        format,
        keep,
        mode=asked.mode,
        verify_crc=asked.verify_crc,
        storage=asked.storage,
        headers=headers,
        base64=base64,
    )
    tasks, internal = plan_export(asked, from_offset=from_offset, until_offset=until_offset)
    outcome = export(tasks, settings, overwrite=overwrite, internal_topics=internal)
    counted = f"{outcome.records_read:,} records read, {outcome.summary.records:,} written to {os.fspath(to)}"
    failed = [f"not exported: {one.failed}" for one in outcome.failed]
    faults = [fault for one in outcome.results for fault in one.faults]
    return JobResult(outcome, outcome.as_json(), (*faults, *failed, f"{counted}, in {len(outcome.results):,} segments"))
