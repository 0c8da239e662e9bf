"""Functions for the commands verify, info, report, export, convert, recompress, compact, repair, restore, mirror.

Each function runs in the calling process, while the command of the same name uses several processes or Spark. The text
of the result is a summary, and ``to_dict()`` returns its values. Sources are never modified. An output directory gets
its name only when it is complete; an export instead completes its directory file by file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from pathlib import Path as LocalPath
from typing import TYPE_CHECKING, Any, Literal

from kafkaframes.errors.words import count_text, limit_lines
from kafkaframes.jobs.export.settings import ExportSettings, TopicExportSettings
from kafkaframes.jobs.job import JobResult
from kafkaframes.jobs.mirror.settings import MirrorSettings
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.jobs.settings import (
    CodecName,
    CompactSettings,
    ConvertSettings,
    DescribeSettings,
    PartitionSettings,
    Path,
    Paths,
    RecompressSettings,
    RepairSettings,
    ReportSettings,
    RewriteSettings,
    VerifySettings,
)
from kafkaframes.jobs.tables.settings import MAX_LOG_BYTES_PER_COMMIT, TableSettings, TopicTableSettings
from kafkaframes.storage.files.paths import to_path, to_path_list

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from kafkaframes.jobs.compact.compaction import CompactionReport
    from kafkaframes.jobs.convert.job import JobReport
    from kafkaframes.jobs.dump.summary import PartitionSummary
    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.mirror.settings import MirrorReport
    from kafkaframes.jobs.repair.job import RepairReport
    from kafkaframes.jobs.report.model import LogReport
    from kafkaframes.jobs.restore.partition import RestoreReport
    from kafkaframes.jobs.verify.verify import VerifyReport
    from kafkaframes.scan.ranges import Limit
    from kafkaframes.scan.selection import Isolation, OnDamage
    from kafkaframes.scan.where import TimeRange


def verify_log(
    paths: Paths,
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    deep: bool = False,
    replicas: Literal["merge", "all"] = "merge",
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[VerifyReport]:
    """Check every CRC, offset, index and checkpoint of logs without modifying them.

    >>> verify_log("/backup/kafka-logs", deep=True)  # doctest: +SKIP
    sound: 12 partitions, 40 segments, 5,120 batches; nothing found

    Args:
        paths: log directories, partition directories, segments, glob patterns, tiered stores, or their URLs.
        topics: topic names or patterns. Default: all.
        partitions: partition numbers to read from each topic. Default: all.
        start: first batch to verify in each partition, as in ``scan_log``: earliest, an offset, a time, or a mapping
            with one of these for each partition.
        end: end of the verification (exclusive), as in ``scan_log``. If a range is selected, checks of whole logs, such
            as checkpoints above the log end, are omitted.
        deep: whether to also decompress and parse every record.
        replicas: how to handle several copies of a partition (on brokers or disks): ``merge`` verifies each copy, and
            whether they form a whole log; ``all`` only verifies each copy.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.

    Returns:
        A result with a ``report`` that has ``is_sound``, ``findings`` and counts. Damage is a finding, not an
        exception.

    Raises:
        LogDirError: a path does not exist or does not contain a log.
        OptionError: a topic, a partition or an offset of the range does not exist.
    """
    from kafkaframes.jobs.verify.verify import add_copies, verify
    from kafkaframes.scan.log.log_range import resolve_ranges

    settings = VerifySettings(
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        deep=deep,
        replicas=replicas,
        key_files=key_files,
        follow_links=follow_links,
    )
    directories = _select_logs(paths, settings)
    ranges = resolve_ranges(settings.selection, directories, to_path_list(paths))
    report = verify(directories, ranges=ranges, deep=settings.deep)
    if settings.replicas == "merge":
        add_copies(report, directories, to_path_list(paths), ranges=ranges, options=settings.storage)
    amounts = ((report.partitions, "partition"), (report.segments, "segment"), (report.batches, "batch", "batches"))
    counts_text = ", ".join(starmap(count_text, amounts))
    summary = count_text(len(report.findings), "finding") if report.findings else "nothing found"
    verdict = report.verdict if report.is_sound else "damaged or unreadable"
    copies = [report.merge_text] if report.merge_text else []
    if report.not_merged:
        copies.append(f"not merged: {report.not_merged}")
    lines = (*_limit_lines(report.findings), *copies, f"{verdict}: {counts_text}; {summary}")
    return JobResult(report, report.as_json(), lines)


def describe_log(
    paths: Paths,
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    deep: bool = False,
    replicas: Literal["merge", "all"] = "merge",
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[list[PartitionSummary]]:
    """Summarize logs: topics, partitions, offsets, sizes, codecs, record formats and timestamps.

    >>> describe_log("/backup/kafka-logs").to_dict()["partitions"][0]["log_end_offset"]  # doctest: +SKIP
    5120

    Args:
        paths: log directories, partition directories, segments, glob patterns, tiered stores, or their URLs.
        topics: topic names or patterns. Default: all.
        partitions: partition numbers to read from each topic. Default: all.
        deep: whether to read the header of every batch, for exact codecs, formats, timestamps and counts.
        replicas: ``merge`` summarizes several copies of a partition (on brokers or disks) as the log that they form;
            ``all`` summarizes each copy.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.

    Returns:
        A result with a ``report`` that has one summary for each partition.

    Raises:
        LogDirError, OptionError: for the same reasons as ``verify_log``.
    """
    from kafkaframes.jobs.dump import summary
    from kafkaframes.storage.copies.decisions import Decision
    from kafkaframes.storage.log.discover import has_copies

    settings = DescribeSettings(
        topics=topics,
        partitions=partitions,
        deep=deep,
        replicas=replicas,
        key_files=key_files,
        follow_links=follow_links,
    )
    look = summary.summarize_all_headers if settings.deep else summary.summarize_quickly
    summaries: list[PartitionSummary] = []
    directories, decisions, reason = _select_logs(paths, settings), list[Decision](), None
    unreadable = [one.as_finding() for directory in directories for one in directory.unreadable_partitions]
    if settings.replicas == "merge" and has_copies(directories, to_path_list(paths)):
        from kafkaframes.storage.copies.one_log import merge_directories

        log, reason = merge_directories(directories, to_path_list(paths), check=False, options=settings.storage)
        directories, decisions = log.directories, log.decisions
    for directory in directories:
        for partition in directory.partitions:
            segments = [look(directory.filesystem, segment) for segment in partition.segments]
            summaries.append(summary.summarize_partition(partition, segments, is_deep=settings.deep))
    lines = [
        f"{summary.topic}-{summary.partition}: offsets {summary.log_start_offset:,} to {summary.log_end_offset:,}, "
        f"{count_text(len(summary.segments), 'segment')}, {count_text(summary.size_bytes, 'byte')}, "
        f"{' '.join(summary.sum_by_name('codecs')) or 'no batches'}"
        for summary in summaries
    ]
    notes = [*_limit_lines(unreadable), *_limit_lines(decisions)]
    if reason is not None:
        notes.append(f"not merged: {reason}")
    values: dict[str, Any] = {"partitions": [summary.as_json() for summary in summaries]}
    if unreadable:
        values["unreadable"] = [finding.as_json() for finding in unreadable]
    if decisions:
        values["decisions"] = [decision.as_json() for decision in decisions]
    return JobResult(summaries, values, (*lines, *notes))


def report_log(
    paths: Paths,
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    to: Path | None = None,
    format: Literal["html", "json"] = "html",  # noqa: A002 (as the command's flag)
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[LogReport]:
    """Report on the contents and damage of logs: sizes, timestamps, producers, keys, copies and findings.

    >>> report_log("/backup/kafka-logs", to="report.html")  # doctest: +SKIP

    Args:
        paths: log directories, partition directories, segments, glob patterns, tiered stores, or their URLs.
        topics: topic names or patterns. Default: all.
        partitions: partition numbers to read from each topic. Default: all.
        to: output file. Default: None, which writes no file.
        format: ``html`` or ``json``.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.

    Raises:
        LogDirError, OptionError: for the same reasons as ``verify_log``. The error is also raised if ``to`` is inside a
            source or cannot be written.
    """
    from kafkaframes._version import __version__
    from kafkaframes.jobs.report.page import build_report_page
    from kafkaframes.jobs.report.survey import make_report
    from kafkaframes.storage.files.atomic import reject_nested_destination, write_output

    settings = ReportSettings(
        topics=topics,
        partitions=partitions,
        to=to,
        format=format,
        key_files=key_files,
        follow_links=follow_links,
    )
    path_list, to = to_path_list(paths), settings.to
    if to is not None:
        reject_nested_destination(LocalPath(to), path_list)
    report = make_report(
        _select_logs(path_list, settings),
        paths=path_list,
        version=__version__,
        generated_at=_now_ms(),
        options=settings.storage,
    )
    if to is not None:
        text = build_report_page(report) if settings.format == "html" else json.dumps(report.as_json())
        write_output(to, text)
    amounts = ((len(report.topics), "topic"), (report.total("records"), "record"), (report.total("size_bytes"), "byte"))
    counts_text = ", ".join(starmap(count_text, amounts))
    written_line = () if to is None else (f"written to {os.fspath(to)}",)
    return JobResult(report, report.as_json(), (*_limit_lines(report.findings), counts_text, *written_line))


def export_log(
    paths: Paths,
    to: Path,
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    isolation: Isolation | None = None,
    control_records: bool = False,
    on_damage: OnDamage = "keep",
    fail_on_data_loss: bool = True,
    timestamp: TimeRange | None = None,
    keys: Sequence[bytes] = (),
    key_regex: str | None = None,
    format: Literal["parquet", "arrow", "csv", "json"] = "parquet",  # noqa: A002 (as the command's flag)
    headers: bool = True,
    base64: bool = False,
    single_file: bool = False,
    overwrite: bool = False,
    verify_crc: bool = True,
    internal_topics: bool = False,
    replicas: Literal["merge", "all"] = "merge",
    key_files: Sequence[str] = (),
    follow_links: bool = False,
    storage: Mapping[str, Any] | None = None,
) -> JobResult[Outcome]:
    """Export the records of Kafka logs to files, one for each segment.

    An interrupted export resumes if it is run again.

    >>> export_log("/backup/kafka-logs", "out", topics=["orders"])  # doctest: +SKIP
    80,000 records read, 80,000 written to out, in 12 segments

    Args:
        paths: log directories, partition directories, segments, glob patterns, tiered stores, or their URLs.
        to: a local directory that is new, empty, or an earlier export.
        topics: topic names or patterns. Default: all topics except Kafka's internal topics.
        partitions: partition numbers to read from each topic. Default: all.
        start: first position of the export, as in ``scan_log``: earliest, an offset, a time, or a mapping with one of
            these for each partition.
        end: end of the export (exclusive), as in ``scan_log``.
        isolation: ``read_committed`` omits the records of aborted transactions, and all records from the first open
            transaction on; ``report.notes`` has the hidden records. Default: ``read_committed``, and
            ``read_uncommitted`` for single segments. All runs into a destination must use the same isolation level.
        control_records: whether to also export transaction markers and other control records.
        on_damage: how to handle damage: keep reads the records that Kafka would read, drop omits damaged batches, fail
            stops the export of the segment.
        fail_on_data_loss: whether an offset in ``start`` or ``end`` that the log no longer has is an error.
        timestamp: range of timestamps (from, to) to export, as in ``Scan.where``.
        keys: keys of the records to export. Default: all.
        key_regex: regular expression that a record's key has to match.
        format: format of the output files.
        headers: whether the output has a column of headers.
        base64: for CSV only: write keys, values and header values in base64, which preserves every byte.
        single_file: whether to write a single Parquet file ``to``, with topic and partition as columns. This export
            cannot be resumed.
        overwrite: replace the output of an earlier export.
        verify_crc: whether a wrong CRC counts as damage.
        internal_topics: whether to also export Kafka's internal topics.
        replicas: how to handle several copies of a partition (on brokers or disks): merge them into one log, or export
            all of them.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.
        storage: keyword arguments of fsspec's filesystem constructor.

    Returns:
        A result with a ``report`` that has the summary, the result of each segment, and notes.

    Raises:
        LogDirError: a path does not exist or cannot be read.
        OptionError: ``to`` is not an earlier export with the same settings or is inside a source, a setting is invalid,
            or offsets of the range are lost.
    """
    from kafkaframes.jobs.export.job import plan_log_export, summarize_outcome

    settings = ExportSettings(
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        isolation=isolation,
        control_records=control_records,
        on_damage=on_damage,
        fail_on_data_loss=fail_on_data_loss,
        timestamp=timestamp,
        keys=keys,
        key_regex=key_regex,
        format=format,
        headers=headers,
        base64=base64,
        single_file=single_file,
        overwrite=overwrite,
        verify_crc=verify_crc,
        internal_topics=internal_topics,
        replicas=replicas,
        key_files=key_files,
        follow_links=follow_links,
        storage=storage,
    )
    job = plan_log_export(
        settings.make_read_options(to_path_list(paths), replicas=settings.replicas),
        settings.make_file_settings(os.fspath(to)),
        overwrite=settings.overwrite,
        single_file=settings.single_file,
    )
    return summarize_outcome(job.write_files())


def export_topics(
    servers: str | Sequence[str],
    topics: str | Sequence[str],
    to: Path,
    *,
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    isolation: Isolation = "read_committed",
    control_records: bool = False,
    on_damage: OnDamage = "keep",
    fail_on_data_loss: bool = True,
    timestamp: TimeRange | None = None,
    keys: Sequence[bytes] = (),
    key_regex: str | None = None,
    format: Literal["parquet", "arrow", "csv", "json"] = "parquet",  # noqa: A002 (as the command's flag)
    headers: bool = True,
    base64: bool = False,
    single_file: bool = False,
    overwrite: bool = False,
    verify_crc: bool = True,
    client: Mapping[str, Any] | None = None,
) -> JobResult[Outcome]:
    """Export the records of live topics to files, one for each range of offsets. Later runs add the new records.

    >>> export_topics("localhost:9092", "orders", "out")  # doctest: +SKIP
    80,000 records read, 80,000 written to out, in 3 ranges

    Each run ends at the end offsets that the topics had when it started. The destination stores the exported ranges. An
    interrupted export therefore continues if it is run again, and each record is in the files once.

    Args:
        servers: bootstrap servers: ``host:port``, several separated by commas, or a list.
        topics: topic names or patterns.
        to: a local directory that is new, empty, or an earlier export of these topics.
        partitions: partition numbers to read from each topic. Default: all.
        start: first position of the export, as in ``scan_topic``. Later runs continue at the end of the earlier ones. A
            start after that end is a gap, which is a data loss.
        end: end of the export (exclusive), as in ``scan_topic``.
        isolation: ``read_committed`` omits the records of aborted transactions, and all records from the first open
            transaction on; ``report.notes`` has the hidden records, which a later run exports. All runs into a
            destination must use the same isolation level.
        control_records: whether to also export transaction markers and other control records.
        on_damage: how to handle damage: keep reads the records that Kafka would read, drop omits damaged batches, fail
            stops the export of the range.
        fail_on_data_loss: whether offsets that the topic no longer has and the destination lacks are an error.
            If False, ``report.notes`` lists the lost offsets.
        timestamp: range of timestamps (from, to) to export, as in ``Scan.where``.
        keys: keys of the records to export. Default: all.
        key_regex: regular expression that a record's key has to match.
        format: format of the output files.
        headers: whether the output has a column of headers.
        base64: for CSV only: write keys, values and header values in base64, which preserves every byte.
        single_file: whether to write a single Parquet file ``to``, with topic and partition as columns. This export
            cannot be resumed.
        overwrite: replace the output of an earlier export.
        verify_crc: whether a wrong CRC counts as damage.
        client: further consumer settings under Kafka's names, for example ``{"security.protocol": "SSL"}``.

    Returns:
        A result with a ``report`` that has the summary, the result of each range, and notes.

    Raises:
        OptionError: ``to`` is not an earlier export with the same settings, a setting is invalid, a topic was created
            again since the earlier export, or offsets of the range are lost.
        NetworkError, BrokerError: the cluster does not respond, or responds with an error.
    """
    from kafkaframes.jobs.export.job import plan_topic_export, summarize_outcome
    from kafkaframes.scan.topic.options import build_consumer_options

    settings = TopicExportSettings(
        partitions=partitions,
        start=start,
        end=end,
        isolation=isolation,
        control_records=control_records,
        on_damage=on_damage,
        fail_on_data_loss=fail_on_data_loss,
        timestamp=timestamp,
        keys=keys,
        key_regex=key_regex,
        format=format,
        headers=headers,
        base64=base64,
        single_file=single_file,
        overwrite=overwrite,
        verify_crc=verify_crc,
    )
    job = plan_topic_export(
        settings.make_topic_options(build_consumer_options(servers, client, isolation=settings.isolation), topics),
        settings.make_file_settings(os.fspath(to)),
        overwrite=settings.overwrite,
        single_file=settings.single_file,
    )
    return summarize_outcome(job.write_files(), part="range")


def table_log(
    paths: Paths,
    to: Path,
    *,
    format: Literal["delta", "iceberg", "parquet"] = "parquet",  # noqa: A002 (as the command's word)
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    isolation: Isolation = "read_committed",
    control_records: bool = False,
    on_damage: OnDamage = "keep",
    fail_on_data_loss: bool = True,
    timestamp: TimeRange | None = None,
    keys: Sequence[bytes] = (),
    key_regex: str | None = None,
    headers: bool = True,
    verify_crc: bool = True,
    mode: Literal["raw", "json", "avro", "protobuf", "latest"] = "raw",
    value: Literal["raw", "json", "avro", "protobuf"] | None = None,
    schemas: Sequence[str] = (),
    registry: str | None = None,
    subject: str | None = None,
    message: str | None = None,
    dead_letters: str | None = None,
    catalog: str | None = None,
    table: str | None = None,
    commit_bytes: int = MAX_LOG_BYTES_PER_COMMIT,
    overwrite: bool = False,
    continuous: bool = False,
    interval: float = 60.0,
    internal_topics: bool = False,
    key_files: Sequence[str] = (),
    follow_links: bool = False,
    storage: Mapping[str, Any] | None = None,
    stop: Event | None = None,
    report: Callable[[JobResult[Outcome]], None] | None = None,
) -> JobResult[Outcome]:
    """Add the new records of Kafka logs to a table, each record once. Later runs continue at the table's end offsets.

    >>> table_log("/backup/kafka-logs", "lake/orders", format="delta", topics="orders")  # doctest: +SKIP
    80,000 records written to lake/orders; 1 commit

    Args:
        paths: log directories, glob patterns, tiered stores, or their URLs. Single segments are rejected.
        to: directory of the table, which is created if it does not exist; with ``delta`` also a URL.
        format: ``parquet``, ``delta`` or ``iceberg``. Delta and Iceberg are extras.
        topics: topic names or patterns. Default: all topics except Kafka's internal topics.
        partitions: partition numbers to read from each topic. Default: all.
        start: first position of the read, as in ``scan_log``. Later runs continue at the table's end offsets. A start
            after these end offsets is a gap, which is a data loss.
        end: end of the read (exclusive), as in ``scan_log``.
        isolation: ``read_committed`` omits the records of aborted transactions, and all records from the first open
            transaction on; ``report.notes`` has the hidden records. All runs into a table must use the same isolation
            level.
        control_records: whether to also write transaction markers and other control records.
        on_damage: how to handle damage: keep reads the records that Kafka would read, drop omits damaged batches, fail
            ends the table's partition before the damage.
        fail_on_data_loss: whether offsets that the log no longer has and the table lacks are an error. If False, the
            gap is stored in the table.
        timestamp: range of timestamps (from, to) to write, as in ``Scan.where``.
        keys: keys of the records to write. Default: all.
        key_regex: regular expression that a record's key has to match.
        headers: whether the table has a column of headers.
        verify_crc: whether a wrong CRC counts as damage.
        mode: contents of the table: raw keeps values as bytes; json, avro and protobuf add a column for each field;
            latest has one row for each key.
        value: how mode latest decodes values. Default: raw.
        schemas: files with the schema of values: a JSON Schema, an Avro schema or Protobuf descriptors. ``ID=FILE`` is
            the schema of values with a registry's prefix.
        registry: URL of a schema registry.
        subject: registry subject whose newest schema defines the table's columns. Default: ``TOPIC-value``.
        message: full name of the Protobuf message. Default: the first message in the file.
        dead_letters: location of a second table, for records that cannot be decoded. Default: ``TO-dead-letters``.
        catalog: for Iceberg: name of a catalog in pyiceberg's configuration. Default: ``TO/catalog.db``.
        table: for Iceberg: NAMESPACE.NAME of the table. Default: ``kafka.records``.
        commit_bytes: largest number of log bytes in a commit.
        overwrite: replace the table's content in one commit.
        continuous: add new records every ``interval`` seconds until ``stop`` is set.
        interval: shortest time between two commits of a continuous job, in seconds.
        internal_topics: whether to also write Kafka's internal topics.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.
        storage: keyword arguments of fsspec's filesystem constructor.
        stop: event that ends a continuous job after its current round. By default, only an exception ends the job.
        report: function that receives the result of each round of a continuous job.

    Returns:
        A result whose ``report.table`` has the version, the end offsets and the dead letters. A continuous job returns
        the result of its last round.

    Raises:
        LogDirError: a path does not exist or cannot be read.
        OptionError: a setting is invalid, or the table has other contents, another source or other settings.
        MissingExtraError: the library of a format is not installed.
        NetworkError: the registry does not respond.
    """
    from kafkaframes.jobs.tables.job import plan_log_table, run_table

    settings = TableSettings(
        format=format,
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        isolation=isolation,
        control_records=control_records,
        on_damage=on_damage,
        fail_on_data_loss=fail_on_data_loss,
        timestamp=timestamp,
        keys=keys,
        key_regex=key_regex,
        headers=headers,
        verify_crc=verify_crc,
        mode=mode,
        value=value,
        schemas=schemas,
        registry=registry,
        subject=subject,
        message=message,
        dead_letters=dead_letters,
        catalog=catalog,
        table=table,
        commit_bytes=commit_bytes,
        overwrite=overwrite,
        continuous=continuous,
        interval=interval,
        internal_topics=internal_topics,
        key_files=key_files,
        follow_links=follow_links,
        storage=storage,
    )
    read = settings.make_read_options(to_path_list(paths))
    job = plan_log_table(read, settings.make_filter(topics).topic_names, os.fspath(to), settings)
    return run_table(job, stop=stop, report=report)


def table_topics(
    servers: str | Sequence[str],
    topics: str | Sequence[str],
    to: Path,
    *,
    format: Literal["delta", "iceberg", "parquet"] = "parquet",  # noqa: A002 (as the command's word)
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    isolation: Isolation = "read_committed",
    control_records: bool = False,
    on_damage: OnDamage = "keep",
    fail_on_data_loss: bool = True,
    timestamp: TimeRange | None = None,
    keys: Sequence[bytes] = (),
    key_regex: str | None = None,
    headers: bool = True,
    verify_crc: bool = True,
    mode: Literal["raw", "json", "avro", "protobuf", "latest"] = "raw",
    value: Literal["raw", "json", "avro", "protobuf"] | None = None,
    schemas: Sequence[str] = (),
    registry: str | None = None,
    subject: str | None = None,
    message: str | None = None,
    dead_letters: str | None = None,
    catalog: str | None = None,
    table: str | None = None,
    commit_bytes: int = MAX_LOG_BYTES_PER_COMMIT,
    overwrite: bool = False,
    continuous: bool = False,
    interval: float = 60.0,
    client: Mapping[str, Any] | None = None,
    stop: Event | None = None,
    report: Callable[[JobResult[Outcome]], None] | None = None,
) -> JobResult[Outcome]:
    """Add the new records of live topics to a table, each record once. Later runs continue at the table's end offsets.

    >>> table_topics("localhost:9092", "orders", "lake/orders", format="delta", mode="json")  # doctest: +SKIP
    80,000 records written to lake/orders; 1 commit

    Args:
        servers: bootstrap servers: ``host:port``, several separated by commas, or a list.
        topics: topic names or patterns.
        to: directory of the table, which is created if it does not exist; with ``delta`` also a URL.
        format: ``parquet``, ``delta`` or ``iceberg``. Delta and Iceberg are extras.
        partitions: partition numbers to read from each topic. Default: all.
        start: first position of the read, as in ``scan_topic``. Later runs continue at the table's end offsets. A start
            after these end offsets is a gap, which is a data loss.
        end: end of the read (exclusive), as in ``scan_topic``.
        isolation: ``read_committed`` omits the records of aborted transactions, and all records from the first open
            transaction on; ``report.notes`` has the hidden records. All runs into a table must use the same isolation
            level.
        control_records: whether to also write transaction markers and other control records.
        on_damage: how to handle damage: keep reads the records that Kafka would read, drop omits damaged batches, fail
            ends the table's partition before the damage.
        fail_on_data_loss: whether offsets that the topic no longer has and the table lacks are an error. If False, the
            gap is stored in the table.
        timestamp: range of timestamps (from, to) to write, as in ``Scan.where``.
        keys: keys of the records to write. Default: all.
        key_regex: regular expression that a record's key has to match.
        headers: whether the table has a column of headers.
        verify_crc: whether a wrong CRC counts as damage.
        mode: contents of the table: raw keeps values as bytes; json, avro and protobuf add a column for each field;
            latest has one row for each key.
        value: how mode latest decodes values. Default: raw.
        schemas: files with the schema of values: a JSON Schema, an Avro schema or Protobuf descriptors. ``ID=FILE`` is
            the schema of values with a registry's prefix.
        registry: URL of a schema registry.
        subject: registry subject whose newest schema defines the table's columns. Default: ``TOPIC-value``.
        message: full name of the Protobuf message. Default: the first message in the file.
        dead_letters: location of a second table, for records that cannot be decoded. Default: ``TO-dead-letters``.
        catalog: for Iceberg: name of a catalog in pyiceberg's configuration. Default: ``TO/catalog.db``.
        table: for Iceberg: NAMESPACE.NAME of the table. Default: ``kafka.records``.
        commit_bytes: largest number of log bytes in a commit.
        overwrite: replace the table's content in one commit.
        continuous: add new records every ``interval`` seconds until ``stop`` is set.
        interval: shortest time between two commits of a continuous job, in seconds.
        client: further consumer settings under Kafka's names, for example ``{"security.protocol": "SSL"}``.
        stop: event that ends a continuous job after its current round. By default, only an exception ends the job.
        report: function that receives the result of each round of a continuous job.

    Returns:
        A result whose ``report.table`` has the version, the end offsets and the dead letters. A continuous job returns
        the result of its last round.

    Raises:
        OptionError: a setting is invalid, or the table has other contents, another source or other settings.
        MissingExtraError: the library of a format is not installed.
        NetworkError, BrokerError: the cluster or the registry does not respond, or responds with an error.
    """
    from kafkaframes.jobs.tables.job import plan_topic_table, run_table
    from kafkaframes.scan.topic.options import build_consumer_options

    settings = TopicTableSettings(
        format=format,
        partitions=partitions,
        start=start,
        end=end,
        isolation=isolation,
        control_records=control_records,
        on_damage=on_damage,
        fail_on_data_loss=fail_on_data_loss,
        timestamp=timestamp,
        keys=keys,
        key_regex=key_regex,
        headers=headers,
        verify_crc=verify_crc,
        mode=mode,
        value=value,
        schemas=schemas,
        registry=registry,
        subject=subject,
        message=message,
        dead_letters=dead_letters,
        catalog=catalog,
        table=table,
        commit_bytes=commit_bytes,
        overwrite=overwrite,
        continuous=continuous,
        interval=interval,
    )
    read = settings.make_topic_options(build_consumer_options(servers, client, isolation=settings.isolation), topics)
    job = plan_topic_table(lambda: read, settings.make_filter(topics).topic_names, os.fspath(to), settings)
    return run_table(job, stop=stop, report=report)


def convert_log(
    source: Paths,
    to: Path,
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    record_format: Literal[0, 1, 2],
    codec: CodecName | None = None,
    level: int | None = None,
    on_loss: Literal["error", "warn", "drop"] = "error",
    on_damage: Literal["fail", "keep"] = "fail",
    batch_bytes: int = 16384,
    index_interval_bytes: int = 4096,
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[JobReport]:
    """Rewrite a log in another record format. Offsets, order, timestamps, keys and values do not change.

    >>> convert_log("/backup/kafka-logs", "/backup/v2", record_format=2)  # doctest: +SKIP
    80,000 records read, 80,000 written
    written to /backup/v2

    Args:
        source: a log directory, a partition or a segment. Several sources are read as one log, and their copies are
            merged.
        to: the output directory, which must not exist. The directory gets this name only when it is complete.
        topics: topic names or patterns to write. Default: the whole log, with everything else in its directory.
        partitions: partition numbers to write of each topic. Default: all.
        start: first record to write in each partition, as in ``scan_log``: earliest, an offset, a time, or a mapping
            with one of these for each partition.
        end: end of the records to write (exclusive), as in ``scan_log``.
        record_format: record format to write: 0, 1 or 2.
        codec: codec to write: none, gzip, snappy, lz4 or zstd. Default: each batch keeps its codec.
        level: compression level. Default: Kafka's.
        on_loss: how to handle data that an older format cannot represent: error stops, warn counts the losses and
            reports them, drop omits the data silently.
        on_damage: how to handle a damaged batch: fail stops, keep copies it byte for byte.
        batch_bytes: approximate size of the batches that are built from uncompressed messages of v0 and v1.
        index_interval_bytes: bytes between two entries of the new indexes.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.

    Raises:
        LogDirError: a source is damaged or cannot be read, or ``to`` exists or cannot be written. Incomplete output is
            removed.
        EncodeError: a batch cannot be represented in the record format.
        OptionError: ``to`` is inside ``source``, or a setting is missing or invalid.
    """
    settings = ConvertSettings(
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        record_format=record_format,
        codec=codec,
        level=level,
        on_loss=on_loss,
        on_damage=on_damage,
        batch_bytes=batch_bytes,
        index_interval_bytes=index_interval_bytes,
        key_files=key_files,
        follow_links=follow_links,
    )
    return _run_conversion(source, to, settings)


def recompress_log(
    source: Paths,
    to: Path,
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    codec: CodecName,
    level: int | None = None,
    on_damage: Literal["fail", "keep"] = "fail",
    batch_bytes: int = 16384,
    index_interval_bytes: int = 4096,
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[JobReport]:
    """Recompress a log. Each batch keeps its format, its header fields and its records.

    Args:
        source, to: as in ``convert_log``.
        topics: topic names or patterns to write. Default: the whole log, with everything else in its directory.
        partitions: partition numbers to write of each topic. Default: all.
        start: first record to write in each partition, as in ``scan_log``: earliest, an offset, a time, or a mapping
            with one of these for each partition.
        end: end of the records to write (exclusive), as in ``scan_log``.
        codec: codec to write: none, gzip, snappy, lz4 or zstd.
        level: compression level. Default: Kafka's.
        on_damage: how to handle a damaged batch: fail stops, keep copies it byte for byte.
        batch_bytes: approximate size of the batches that are built from uncompressed messages of v0 and v1.
        index_interval_bytes: bytes between two entries of the new indexes.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.

    Raises:
        LogDirError, EncodeError, OptionError: for the same reasons as ``convert_log``.
    """
    settings = RecompressSettings(
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        codec=codec,
        level=level,
        on_damage=on_damage,
        batch_bytes=batch_bytes,
        index_interval_bytes=index_interval_bytes,
        key_files=key_files,
        follow_links=follow_links,
    )
    return _run_conversion(source, to, settings)


def compact_log(
    source: Paths,
    to: Path | None = None,
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    broker_release: Literal["2.8", "3.9", "4.x"] = "4.x",
    delete_retention_ms: int = 86400000,
    min_compaction_lag_ms: int = 0,
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[CompactionReport]:
    """Compact topics as a broker's log cleaner does: keep the last record of each key.

    Args:
        source: a log directory or a partition. Several sources are read as one log, and their copies are merged.
        to: the output directory, which must not exist. Default: None, which writes nothing and only reports the records
            that compaction would remove.
        topics: topic names or patterns. Default: the topics that brokers have compacted, according to the log
            directory. Other topics are copied.
        partitions: partition numbers to compact in each topic. Default: all. Other partitions are copied.
        broker_release: Kafka release whose cleaning rules apply.
        delete_retention_ms: value of the topic setting ``delete.retention.ms``.
        min_compaction_lag_ms: value of the topic setting ``min.compaction.lag.ms``.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.

    Raises:
        LogDirError: a source is damaged or cannot be read, or ``to`` exists or cannot be written. Incomplete output is
            removed.
        OptionError: the settings select no topic, or a setting is invalid.
    """
    from kafkaframes.jobs.compact.compaction import compact

    settings = CompactSettings(
        topics=topics,
        partitions=partitions,
        broker_release=broker_release,
        delete_retention_ms=delete_retention_ms,
        min_compaction_lag_ms=min_compaction_lag_ms,
        key_files=key_files,
        follow_links=follow_links,
    )
    target, cleaner = None if to is None else LocalPath(to), settings.make_cleaner_settings(_now_ms())
    report = compact(
        _unwrap_single_path(source),
        target,
        cleaner,
        topics=settings.topics,
        partitions=settings.partitions,
        storage=settings.storage,
    )
    written_line = f"written to {report.destination}" if report.destination else "nothing was written"
    return JobResult(report, report.as_json(), (report.counted, written_line))


def repair_log(
    source: Path,
    to: Path | None = None,
    *,
    as_kafka: bool = False,
    index_interval_bytes: int = 4096,
) -> JobResult[RepairReport]:
    """Copy every valid batch of a damaged log directory, and report the lost bytes.

    Args:
        source: a local log directory.
        to: the output directory, which must not exist. Default: None, which writes nothing and only reports what a
            repair would do.
        as_kafka: recover as a broker does: truncate each log at the first damage.
        index_interval_bytes: bytes between two entries of the new indexes.

    Raises:
        LogDirError: a broker is using the source, a file cannot be read or written, or ``to`` exists.
        OptionError: the source is not a single log directory, or ``to`` is inside it.
    """
    from kafkaframes.jobs.repair.job import repair_directory
    from kafkaframes.jobs.row_counts import format_row_counts
    from kafkaframes.storage.recovery.recover import RecoverySettings

    settings = RepairSettings(
        as_kafka=as_kafka,
        index_interval_bytes=index_interval_bytes,
    )
    recovery = RecoverySettings(_now_ms(), index_interval_bytes=settings.index_interval_bytes)
    report = repair_directory(
        to_path(source), None if to is None else LocalPath(to), recovery, as_kafka=settings.as_kafka
    )
    loss_lines = [
        f"{entry['partition']}: {segment['name']}: bytes {loss['start']:,} to {loss['end']:,}: {loss['reason']}"
        for entry in report.partitions
        for segment in entry["segments"]
        for loss in segment["lost"]
    ]
    total = sum(entry["bytes_lost"] for entry in report.partitions)
    counts_text = (
        f"{count_text(len(report.partitions), 'partition')}; {count_text(total, 'byte')} of segments are not in the "
        "repaired log"
    )
    if not report.destination:
        return JobResult(report, report.as_json(), (*_limit_lines(loss_lines), counts_text, "nothing was written"))
    read, written = (
        sum(entry.get(name) or 0 for entry in report.partitions) for name in ("records_read", "records_written")
    )
    lines = (
        *_limit_lines(loss_lines),
        counts_text,
        format_row_counts(read, written, {}),
        f"written to {report.destination}",
    )
    return JobResult(report, report.as_json(), lines)


def restore_log(
    sources: Paths,
    to: Path,
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    topic_map: Sequence[tuple[str, str]] = (),
    topic_ids: Sequence[tuple[str, str]] = (),
    topic_configs: Sequence[tuple[str, str]] = (),
    keep_retention: bool = False,
    offsets: Literal["keep", "reassign"] = "keep",
    start_offset: int = 0,
    start: Limit = None,
    end: Limit = None,
    on_damage: Literal["fail", "drop"] = "fail",
    open_transactions: Literal["keep", "abort"] = "keep",
    leader_epoch: int | None = None,
    segment_bytes: int | None = None,
    index_interval_bytes: int = 4096,
    groups: bool = True,
    offsets_partitions: int | None = None,
    keep_commit_times: bool = False,
    record_format: Literal[0, 1, 2] = 2,
    codec: CodecName = "none",
    level: int | None = None,
    batch_bytes: int = 16384,
    bootstrap: Literal["kraft", "none"] = "kraft",
    node_id: int = 1,
    cluster_id: str | None = None,
    release: str = "3.9",
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> RestoreReport:
    """Build a log directory that a Kafka broker can open, from segments or Parquet files.

    The output has indexes, checkpoints, topic ids and committed offsets. With ``bootstrap="kraft"`` it also has the
    metadata that a new single node needs. ``to`` must not exist, and is created only when the log is complete. Sources
    are not modified. To restore a DataFrame, use ``kafkaframes.spark.restore_log``.

    Args:
        sources: log directories, partitions or segments; or one Parquet file or directory.
        to: the output log directory.
        topics: topic names or patterns. Default: all topics except Kafka's internal topics.
        partitions: partition numbers to read from each topic. Default: all.
        topic_map: pairs (old name, new name) of topics to rename.
        topic_ids: pairs (topic, id). Default: the source's id if it has one, else a new id.
        topic_configs: pairs (name, value) for all topics, or (topic:name, value) for one topic.
        keep_retention: whether to keep the source's retention settings. Default: set retention.ms to -1, so that the
            broker does not delete the restored records.
        offsets: "keep" keeps the offsets; "reassign" assigns new offsets without gaps in each partition.
        start_offset: first offset in the new log, if ``offsets`` is "reassign".
        start: first position in each partition: an offset of the source, or a time, which is resolved as ListOffsets
            resolves it.
        end: end of the restore in each partition (exclusive).
        on_damage: how to handle a damaged batch: fail stops, drop omits the batch and reports it.
        open_transactions: "keep" leaves open transactions open; "abort" ends them with an abort marker at the log end.
        leader_epoch: leader epoch to write into every batch of format 2. Use 0 for an existing cluster.
        segment_bytes: size of the new segments. Default: keep the segment boundaries of the source.
        index_interval_bytes: bytes between two entries of the new indexes.
        groups: whether to also copy the committed offsets of groups.
        offsets_partitions: number of partitions of __consumer_offsets. Default: the source's number.
        keep_commit_times: whether committed offsets keep their timestamps. Default: the time of the restore, so that
            committed offsets do not expire immediately.
        record_format: for Parquet sources: record format of the new batches.
        codec: for Parquet sources: codec of the new batches.
        level: compression level. Default: Kafka's.
        batch_bytes: for Parquet sources: size of the new batches.
        bootstrap: kraft also writes the metadata that a new single node needs to start; none writes only partitions,
            for an existing cluster.
        node_id: node id of the new single node.
        cluster_id: cluster id of the new single node. Default: a new id.
        release: Kafka release of the new single node.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.

    Returns:
        A report of the restore. The text of the result is a summary, and ``to_dict()`` returns its values.

    Raises:
        LogDirError: a source is damaged or cannot be read, or ``to`` exists or cannot be written. Incomplete output is
            removed.
        OptionError: the settings select nothing to restore, or a setting is unknown or invalid.
    """
    from kafkaframes.jobs.restore.job import restore

    settings = RestoreSettings(
        topics=topics,
        partitions=partitions,
        topic_map=topic_map,
        topic_ids=topic_ids,
        topic_configs=topic_configs,
        keep_retention=keep_retention,
        offsets=offsets,
        start_offset=start_offset,
        start=start,
        end=end,
        on_damage=on_damage,
        open_transactions=open_transactions,
        leader_epoch=leader_epoch,
        segment_bytes=segment_bytes,
        index_interval_bytes=index_interval_bytes,
        groups=groups,
        offsets_partitions=offsets_partitions,
        keep_commit_times=keep_commit_times,
        record_format=record_format,
        codec=codec,
        level=level,
        batch_bytes=batch_bytes,
        bootstrap=bootstrap,
        node_id=node_id,
        cluster_id=cluster_id,
        release=release,
        key_files=key_files,
        follow_links=follow_links,
    )
    return restore(sources, to, settings)


def mirror_topics(
    source: Path,
    target: Path,
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    groups: bool = True,
    follow: bool = False,
    dry_run: bool = False,
    keep_retention: bool = False,
    offsets: Literal["keep", "reassign"] | None = None,
    on_damage: Literal["fail", "drop"] = "fail",
    unverified: bool = False,
    compare: Literal["all", "samples"] | None = None,
    state_dir: str | None = None,
    source_properties: Mapping[str, Any] | None = None,
    target_properties: Mapping[str, Any] | None = None,
    timeout_s: float = 5.0,
    group_interval_s: float = 5.0,
    topic_interval_s: float = 10.0,
) -> MirrorReport:
    """Copy topics batch by batch. Source and target are each a cluster or a log directory.

    If it is run again, the mirror resumes at the end of the copy. A copy in a kafkaframes broker or in a directory has
    the source's bytes and offsets. Other brokers assign new offsets, and ``state_dir`` stores the mapping from old to
    new.

    >>> mirror_topics("old:9092", "/backup/orders", topics=("orders",))  # doctest: +SKIP
    old:9092 to /backup/orders: offsets kept

    Args:
        source, target: bootstrap servers (``host:port``, separated by commas), or a log directory.
        topics: topic names or patterns. Default: all topics except Kafka's internal topics.
        partitions: partition numbers to copy from each topic. Default: all.
        start: first position of partitions without a copy, as in ``scan_topic``. Later runs resume at the end of the
            copy; a start after it is an error.
        end: end of the copy (exclusive), as in ``scan_topic``.
        groups: whether to also copy the committed offsets of groups.
        follow: whether to keep copying new records and new topics until Ctrl-C.
        dry_run: whether to only report the topics and first offsets that would be copied, without writing.
        keep_retention: whether the target may delete records by the source's retention settings.
        offsets: keep the offsets, or let the target assign new ones. Default: keep if the target supports it.
        on_damage: how to handle a batch with a wrong CRC: fail stops, drop omits the batch.
        unverified: whether to resume even if no common offset proves that the copy was made from this source.
        compare: which of the records that source and copy share are compared before resuming. Default: all between
            directories, samples otherwise.
        state_dir: directory for the offset mapping, if the target assigns new offsets.
        source_properties: client settings for the source, under Kafka's names.
        target_properties: client settings for the target, under Kafka's names.
        timeout_s: longest wait for the first response of each cluster, in seconds.
        group_interval_s: interval between two copies of committed offsets, in seconds.
        topic_interval_s: interval between two searches for new topics and partitions, in seconds.

    Returns:
        A report of copied, rebuilt and omitted records. The text of the result is a summary, and ``to_dict()`` returns
        its values.

    Raises:
        BrokerError, NetworkError: source or target rejects a request or is unreachable.
        LogDirError: a directory or the offset mapping cannot be used, or the counts of read and written records do not
            match.
        CorruptRecordError: a batch is damaged. ``on_damage="drop"`` omits damaged batches.
        OptionError: a topic does not exist, or a setting is unknown or invalid.
    """
    from kafkaframes.client.loop import run_in_new_loop
    from kafkaframes.jobs.mirror.job import mirror_clusters as run

    settings = MirrorSettings(
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        groups=groups,
        follow=follow,
        dry_run=dry_run,
        keep_retention=keep_retention,
        offsets=offsets,
        on_damage=on_damage,
        unverified=unverified,
        compare=compare,
        state_dir=state_dir,
        source_properties=source_properties or {},
        target_properties=target_properties or {},
        timeout_s=timeout_s,
        group_interval_s=group_interval_s,
        topic_interval_s=topic_interval_s,
    )
    return run_in_new_loop(run(to_path(source), to_path(target), settings))


# -------------------------------------------------------------------------------------------------------------- helpers


def _run_conversion(source: Paths, to: Path, settings: RewriteSettings) -> JobResult[JobReport]:
    """Run ``convert_log`` or ``recompress_log``, and return the result."""

    from kafkaframes.jobs.convert.job import convert

    report = convert(_unwrap_single_path(source), LocalPath(to), settings, storage=settings.storage)
    loss_lines = [f"lost: {number:,} {kind}" for kind, number in sorted(report.lost.items())]
    lines = (report.counted, *loss_lines, f"written to {report.destination}")
    return JobResult(report, report.as_json(), lines)


def _select_logs(paths: Paths, settings: PartitionSettings) -> Any:
    """Return the log directories at paths, with the selected partitions.

    The caller reports logs that cannot be accessed.
    """

    from kafkaframes.storage.log.discover import discover, select_partitions

    directories = discover(to_path_list(paths), options=settings.storage, omit_unreadable=True)
    return select_partitions(directories, settings.topic_names, settings.partition_numbers)


def _unwrap_single_path(paths: Paths) -> str | list[str]:
    """Return a single path as text, or several as a list."""
    path_list = to_path_list(paths)
    return path_list[0] if len(path_list) == 1 else path_list


def _limit_lines(items: Iterable[object]) -> list[str]:
    """Return the first items as printable lines, and a line with the number of the other items."""

    from kafkaframes.storage.files.names import escape_unprintable

    return list(map(escape_unprintable, limit_lines(items)))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
