"""``kafkaframes.export_log``: the command as a function."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.job import JobResult
    from kafkaframes.scan.ranges import Limit
    from kafkaframes.scan.where import OffsetRange, TimeRange

Path = str | PathLike[str]


def export_log(
    paths: Path | Sequence[Path],
    to: Path,
    *,
    format: Literal["parquet", "arrow", "csv", "json"] = "parquet",  # noqa: A002  # as the command's option is called
    topics: Sequence[str] = (),
    start: Limit = None,
    end: Limit = None,
    offset: OffsetRange | None = None,
    timestamp: TimeRange | None = None,
    keys: Sequence[bytes] = (),
    key_regex: str | None = None,
    headers: bool = True,
    base64: bool = False,
    overwrite: bool = False,
    mode: Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"] = "PERMISSIVE",
    verify_crc: bool = True,
    control_records: bool = False,
    internal_topics: bool = False,
    replicas: Literal["merge", "all"] = "merge",
    partitions: Mapping[str, Sequence[int]] | None = None,
    storage: Mapping[str, Any] | None = None,
) -> JobResult[Outcome]:
    """Export the records of Kafka logs to files, one for each segment; goes on where an earlier one was stopped.

    >>> export_log("/backup/kafka-logs", "out", topics=["orders"])  # doctest: +SKIP
    80,000 records read, 80,000 written to out, in 12 segments

    Args:
        paths: log directories, partitions, segments, patterns, tiered stores, or URLs of such.
        to: a local directory that is new, empty, or an earlier export.
        format: of the files.
        topics: names or patterns; by default those that are not Kafka's own.
        start, end: what is planned, as of ``scan_log``: ``"earliest"``, an offset, a time, or one for each partition.
        offset, timestamp: ranges (from, to) of the records that are exported, as of ``Scan.where``.
        keys, key_regex: only records with one of these keys, or in whose key this is found.
        headers: whether headers are among the columns.
        base64: keys, values and header values of CSV and JSON in base64, so that no byte is lost.
        overwrite: remove an earlier export first.
        mode, verify_crc, control_records, replicas: as in ``read_records``.
        internal_topics: whether Kafka's own topics are exported too.
        partitions: numbers by topic, instead of ``topics``.
        storage: what fsspec's constructor takes for a store.

    Raises:
        LogDirError: a path does not exist or cannot be read.
        OptionError: ``to`` is something else or lies in a source, or an option does not fit.
    """
    from pathlib import Path as LocalPath

    from kafkaframes.jobs.dump.filters import Filter, key_pattern
    from kafkaframes.jobs.export.planning import plan_export
    from kafkaframes.jobs.export.run import export
    from kafkaframes.jobs.export.settings import Settings
    from kafkaframes.jobs.job import JobResult, paths_of
    from kafkaframes.scan.log.options import ReadOptions, topic_choice
    from kafkaframes.scan.ranges import EARLIEST, LATEST, log_bound
    from kafkaframes.scan.where import where_of
    from kafkaframes.storage.files.atomic import refuse_inside

    named = paths_of(paths)
    refuse_inside(LocalPath(to), named)
    times = where_of(timestamp=timestamp).timestamps_ms
    read = ReadOptions(
        paths=tuple(named),
        assign=None if partitions is None else {topic: tuple(numbers) for topic, numbers in partitions.items()},
        start=log_bound("start", start, unset=EARLIEST),
        end=log_bound("end", end, unset=LATEST),
        where=where_of(offset=offset),
        include_control=control_records,
        include_internal=internal_topics,
        replicas=replicas,
        mode=mode,
        verify_crc=verify_crc,
        storage=storage or {},
        **topic_choice(topics),
    )
    keep = Filter(
        from_timestamp=times[0],
        until_timestamp=times[1],
        keys=frozenset(keys) or None,
        key_pattern=key_pattern(key_regex) if key_regex else None,
        control=control_records,
    )
    settings = Settings(
        os.fspath(to),
        format,
        keep,
        mode=mode,
        verify_crc=verify_crc,
        storage=read.storage,
        headers=headers,
        base64=base64,
    )
    tasks, internal = plan_export(read)
    outcome = export(tasks, settings, overwrite=overwrite, internal_topics=internal)
    counted = f"{outcome.records_read:,} records read, {outcome.summary.records:,} written to {os.fspath(to)}"
    failed = [f"not exported: {one.failed}" for one in outcome.failed]
    faults = [fault for one in outcome.results for fault in one.faults]
    return JobResult(outcome, outcome.as_json(), (*faults, *failed, f"{counted}, in {len(outcome.results):,} segments"))
