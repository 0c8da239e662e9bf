"""The commands as functions: verify, info, report, export, convert, recompress, compact, repair, restore and mirror.

Each does its work in this process (the commands of the same names use several, or Spark) and returns a ``JobResult``,
which prints well and has ``to_dict()``. Sources are only read; a destination appears as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from itertools import starmap
from pathlib import Path as LocalPath
from typing import TYPE_CHECKING, Any, Literal

from kafkaframes.jobs.export.settings import ExportSettings
from kafkaframes.jobs.job import JobResult, paths_of
from kafkaframes.jobs.mirror.settings import MirrorSettings
from kafkaframes.jobs.report.words import count_text
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.jobs.settings import (
    CodecName,
    CompactSettings,
    ConvertSettings,
    DescribeSettings,
    PartitionSettings,
    Path,
    RecompressSettings,
    RepairSettings,
    ReportSettings,
    RewriteSettings,
    VerifySettings,
)

if TYPE_CHECKING:
    from kafkaframes.jobs.compact.compaction import CompactionReport
    from kafkaframes.jobs.convert.job import JobReport
    from kafkaframes.jobs.dump.summary import PartitionSummary
    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.mirror.settings import MirrorReport
    from kafkaframes.jobs.repair.repair import RepairReport
    from kafkaframes.jobs.report.model import Report
    from kafkaframes.jobs.restore.partition import RestoreReport
    from kafkaframes.jobs.verify.verify import Report as VerifyReport
    from kafkaframes.scan.ranges import Limit
    from kafkaframes.scan.where import TimeRange

Paths = Path | Sequence[Path]
_MOST_LINES = 20  # of one kind are in a result's text


def verify_log(
    paths: Paths,
    *,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    deep: bool = False,
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[VerifyReport]:
    """Check every CRC, offset, index and checkpoint of logs; nothing is changed.

    >>> verify_log("/backup/kafka-logs", deep=True)  # doctest: +SKIP
    sound: 12 partitions, 40 segments, 5,120 batches; nothing found

    Args:
        paths: log directories, partitions, segments, patterns, tiered stores, or URLs of such.
        topics: topic names or patterns. Default: all.
        partitions: partition numbers, in each of these topics. Default: all.
        deep: also decompress and read every record.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: read what symbolic links in directories lead to; otherwise they are skipped.

    Returns:
        ``report.is_sound``, ``report.findings`` and counts. Damage raises nothing.

    Raises:
        LogDirError: a path does not exist, or holds no log.
        OptionError: there is no such topic.
    """
    from kafkaframes.jobs.verify.verify import verify

    settings = VerifySettings(
        topics=topics,
        partitions=partitions,
        deep=deep,
        key_files=key_files,
        follow_links=follow_links,
    )
    report = verify(_selected(paths, settings), deep=settings.deep)
    amounts = ((report.partitions, "partition"), (report.segments, "segment"), (report.batches, "batch", "batches"))
    counted = ", ".join(starmap(count_text, amounts))
    said = f"{len(report.findings):,} findings" if report.findings else "nothing found"
    verdict = report.verdict if report.is_sound else "damaged or unreadable"
    return JobResult(report, report.as_json(), (*_some(report.findings), f"{verdict}: {counted}; {said}"))


def describe_log(
    paths: Paths,
    *,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    deep: bool = False,
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[list[PartitionSummary]]:
    """Say what is in logs: topics, partitions, offsets, sizes, codecs, formats, times.

    >>> describe_log("/backup/kafka-logs").to_dict()["partitions"][0]["log_end_offset"]  # doctest: +SKIP
    5120

    Args:
        paths: as for ``verify_log``.
        topics: topic names or patterns. Default: all.
        partitions: partition numbers, in each of these topics. Default: all.
        deep: read the header of every batch, for exact codecs, formats, times and counts.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: read what symbolic links in directories lead to; otherwise they are skipped.

    Returns:
        A summary of each partition, copies apart.

    Raises:
        LogDirError, OptionError: as ``verify_log``.
    """
    from kafkaframes.jobs.dump import summary

    settings = DescribeSettings(
        topics=topics,
        partitions=partitions,
        deep=deep,
        key_files=key_files,
        follow_links=follow_links,
    )
    look = summary.walk if settings.deep else summary.glance
    summaries: list[PartitionSummary] = []
    for directory in _selected(paths, settings):
        for partition in directory.partitions:
            segments = [look(directory.filesystem, segment) for segment in partition.segments]
            summaries.append(summary.summarize_partition(partition, segments, is_deep=settings.deep))
    lines = [
        f"{one.topic}-{one.partition}: offsets {one.log_start_offset:,} to {one.log_end_offset:,}, "
        f"{count_text(len(one.segments), 'segment')}, {count_text(one.size_bytes, 'byte')}, "
        f"{' '.join(one.mix('codecs'))}"
        for one in summaries
    ]
    return JobResult(summaries, {"partitions": [one.as_json() for one in summaries]}, tuple(lines))


def report_log(
    paths: Paths,
    *,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    to: Path | None = None,
    format: Literal["html", "json"] = "html",  # noqa: A002 (as the command's flag)
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[Report]:
    """Report what logs hold and what is wrong with them: sizes, times, producers, keys, copies, damage.

    >>> report_log("/backup/kafka-logs", to="report.html")  # doctest: +SKIP

    Args:
        paths: as for ``verify_log``.
        topics: topic names or patterns. Default: all.
        partitions: partition numbers, in each of these topics. Default: all.
        to: where the page or the JSON is written; nowhere by default.
        format: the format of what is written.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: read what symbolic links in directories lead to; otherwise they are skipped.

    Raises:
        LogDirError, OptionError: as ``verify_log``; or ``to`` lies in a source, or cannot be written.
    """
    from kafkaframes._version import __version__
    from kafkaframes.jobs.report.page import report_page
    from kafkaframes.jobs.report.survey import make_report
    from kafkaframes.storage.files.atomic import named_file, refuse_inside

    settings = ReportSettings(
        topics=topics,
        partitions=partitions,
        to=to,
        format=format,
        key_files=key_files,
        follow_links=follow_links,
    )
    named, to = paths_of(paths), settings.to
    if to is not None:
        refuse_inside(LocalPath(to), named)
    report = make_report(
        _selected(named, settings), paths=named, version=__version__, generated_at=_now_ms(), options=settings.storage
    )
    if to is not None:
        text = report_page(report) if settings.format == "html" else json.dumps(report.as_json())
        with named_file(str(LocalPath(to))) as out:
            out.write(text.encode("utf-8", "backslashreplace"))
    amounts = ((len(report.topics), "topic"), (report.total("records"), "record"), (report.total("size_bytes"), "byte"))
    counted = ", ".join(starmap(count_text, amounts))
    written = () if to is None else (f"written to {os.fspath(to)}",)
    return JobResult(report, report.as_json(), (*_some(report.findings), counted, *written))


def export_log(
    paths: Paths,
    to: Path,
    *,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    format: Literal["parquet", "arrow", "csv", "json"] = "parquet",  # noqa: A002 (as the command's flag)
    timestamp: TimeRange | None = None,
    keys: Sequence[bytes] = (),
    key_regex: str | None = None,
    headers: bool = True,
    base64: bool = False,
    overwrite: bool = False,
    on_damage: Literal["keep", "drop", "fail"] = "keep",
    verify_crc: bool = True,
    control_records: bool = False,
    internal_topics: bool = False,
    replicas: Literal["merge", "all"] = "merge",
    storage: Mapping[str, Any] | None = None,
) -> JobResult[Outcome]:
    """Export the records of Kafka logs to files, one for each segment; goes on where an earlier one was stopped.

    >>> export_log("/backup/kafka-logs", "out", topics=["orders"])  # doctest: +SKIP
    80,000 records read, 80,000 written to out, in 12 segments

    Args:
        paths: as for ``verify_log``.
        to: a local directory that is new, empty, or an earlier export.
        topics: topic names or patterns. Default: all topics except Kafka's own.
        partitions: partition numbers, in each of these topics. Default: all.
        start: where to begin, as of ``scan_log``: earliest, an offset, a time, or one for each partition.
        end: where to end, as of ``scan_log``; the end itself is not read.
        format: the format of the files.
        timestamp: keep only records with timestamps in this range (from, to), as ``Scan.where`` does.
        keys: only records with one of these keys.
        key_regex: only records whose key matches this.
        headers: whether headers are among the columns.
        base64: cSV: write keys, values and header values in base64, so that no byte is lost.
        overwrite: replace what an earlier export wrote.
        on_damage: what is done with damage.
        verify_crc: whether a wrong CRC is damage.
        control_records: transaction markers are records, too.
        internal_topics: kafka's own topics, too.
        replicas: several copies of a partition (brokers, disks): merge them into one log, or take all.
        storage: what fsspec's constructor takes for a store.

    Raises:
        LogDirError: a path does not exist or cannot be read.
        OptionError: ``to`` is something else or lies in a source, or an option does not fit.
    """
    from kafkaframes.jobs.export.planning import plan_export
    from kafkaframes.jobs.export.run import export
    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.storage.files.atomic import refuse_inside

    settings = ExportSettings(
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        format=format,
        timestamp=timestamp,
        keys=keys,
        key_regex=key_regex,
        headers=headers,
        base64=base64,
        overwrite=overwrite,
        on_damage=on_damage,
        verify_crc=verify_crc,
        control_records=control_records,
        internal_topics=internal_topics,
        replicas=replicas,
        storage=storage,
    )
    named = paths_of(paths)
    refuse_inside(LocalPath(to), named)
    read = ReadOptions(tuple(named), **settings.read_fields())
    plan = plan_export(read)
    files = settings.files(os.fspath(to), read)
    outcome = export(
        plan.tasks, files, overwrite=settings.overwrite, internal_topics=plan.internal_topics, notes=plan.notes
    )
    counted = (
        f"{count_text(outcome.records_read, 'record')} read, {outcome.summary.records:,} written to {os.fspath(to)}"
    )
    failed = [f"not exported: {one.failed}" for one in outcome.failed]
    faults = [fault for one in outcome.results for fault in one.faults]
    line = f"{counted}, in {count_text(len(outcome.results), 'segment')}"
    return JobResult(outcome, outcome.as_json(), (*faults, *failed, line))


def convert_log(
    source: Paths,
    to: Path,
    *,
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
    """Write a log in another record format: offsets, order, timestamps, keys and values stay.

    >>> convert_log("/backup/kafka-logs", "/backup/v2", record_format=2)  # doctest: +SKIP
    80,000 records read, 80,000 written
    written to /backup/v2

    Args:
        source: a log directory, a partition or a segment; several are one log, copies are merged.
        to: the new directory; it does not exist, and appears complete.
        record_format: the format to write.
        codec: the codec to write. Default: each batch keeps its own.
        level: compression level. Default: Kafka's.
        on_loss: when the older format cannot hold something: stop, count and warn, or drop it silently.
        on_damage: at a damaged batch: stop, or copy it byte for byte.
        batch_bytes: join uncompressed messages of v0 and v1 into batches of about this size.
        index_interval_bytes: bytes between two entries of the new indexes.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: read what symbolic links in directories lead to; otherwise they are skipped.

    Raises:
        LogDirError: something is damaged, cannot be read or written, or exists; nothing is left behind.
        EncodeError: something cannot be said in that format.
        OptionError: ``to`` lies in ``source``, or an option is missing or does not fit.
    """
    settings = ConvertSettings(
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
    return _rewritten(source, to, settings)


def recompress_log(
    source: Paths,
    to: Path,
    *,
    codec: CodecName,
    level: int | None = None,
    on_damage: Literal["fail", "keep"] = "fail",
    batch_bytes: int = 16384,
    index_interval_bytes: int = 4096,
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[JobReport]:
    """Compress a log anew; each batch keeps its format, its header and its records.

    Args:
        source, to: as for ``convert_log``.
        codec: the codec to write.
        level: compression level. Default: Kafka's.
        on_damage: at a damaged batch: stop, or copy it byte for byte.
        batch_bytes: join uncompressed messages of v0 and v1 into batches of about this size.
        index_interval_bytes: bytes between two entries of the new indexes.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: read what symbolic links in directories lead to; otherwise they are skipped.

    Raises:
        LogDirError, EncodeError, OptionError: as ``convert_log``.
    """
    settings = RecompressSettings(
        codec=codec,
        level=level,
        on_damage=on_damage,
        batch_bytes=batch_bytes,
        index_interval_bytes=index_interval_bytes,
        key_files=key_files,
        follow_links=follow_links,
    )
    return _rewritten(source, to, settings.rewrite)


def compact_log(
    source: Paths,
    to: Path | None = None,
    *,
    topics: Sequence[str] = (),
    broker_release: Literal["2.8", "3.9", "4.x"] = "4.x",
    delete_retention_ms: int = 86400000,
    min_compaction_lag_ms: int = 0,
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[CompactionReport]:
    """Compact topics as a broker's cleaner does: keep the last record of each key.

    Args:
        source: a log directory or a partition; several are one log, copies are merged.
        to: the new directory; without it nothing is written, and the result says what would go.
        topics: topic names or patterns. Default: the topics that brokers have compacted.
        broker_release: compact by the rules of this release.
        delete_retention_ms: as the topics' setting of this name.
        min_compaction_lag_ms: as the topics' setting of this name.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: read what symbolic links in directories lead to; otherwise they are skipped.

    Raises:
        LogDirError: something is damaged, cannot be read or written, or exists; nothing is left behind.
        OptionError: there is nothing to compact, or an option does not fit.
    """
    from kafkaframes.jobs.compact.compaction import compact

    settings = CompactSettings(
        topics=topics,
        broker_release=broker_release,
        delete_retention_ms=delete_retention_ms,
        min_compaction_lag_ms=min_compaction_lag_ms,
        key_files=key_files,
        follow_links=follow_links,
    )
    target, cleaner = None if to is None else LocalPath(to), settings.cleaner(_now_ms())
    report = compact(_source(source), target, cleaner, topics=settings.topics, storage=settings.storage)
    written = f"written to {report.destination}" if report.destination else "nothing was written"
    return JobResult(report, report.as_json(), (report.counted, written))


def repair_log(
    source: Path,
    to: Path | None = None,
    *,
    as_kafka: bool = False,
    index_interval_bytes: int = 4096,
) -> JobResult[RepairReport]:
    """Keep every good batch of a damaged log directory, and say what was lost.

    Args:
        source: one log directory of this machine.
        to: the new directory; without it nothing is written, and the result says what would be done.
        as_kafka: recover as a broker does: cut each log off at the first damage.
        index_interval_bytes: bytes between two entries of the new indexes.

    Raises:
        LogDirError: a broker has the source open; something cannot be read or written, or exists.
        OptionError: the source is not one log directory, or ``to`` lies in it.
    """
    from kafkaframes.jobs.job import row_counts_text
    from kafkaframes.jobs.repair.repair import repair_directory
    from kafkaframes.storage.recovery.recover import RecoverySettings

    settings = RepairSettings(
        as_kafka=as_kafka,
        index_interval_bytes=index_interval_bytes,
    )
    recovery = RecoverySettings(_now_ms(), index_interval_bytes=settings.index_interval_bytes)
    report = repair_directory(
        os.fspath(source), None if to is None else LocalPath(to), recovery, as_kafka=settings.as_kafka
    )
    lost = [
        f"{one['partition']}: {segment['name']}: bytes {loss['start']:,} to {loss['end']:,}: {loss['reason']}"
        for one in report.partitions
        for segment in one["segments"]
        for loss in segment["lost"]
    ]
    total = sum(one["bytes_lost"] for one in report.partitions)
    counted = f"{count_text(len(report.partitions), 'partition')}; {count_text(total, 'byte')} of segments are not kept"
    if not report.destination:
        return JobResult(report, report.as_json(), (*_some(lost), counted, "nothing was written"))
    read, written = (
        sum(one.get(name) or 0 for one in report.partitions) for name in ("records_read", "records_written")
    )
    lines = (*_some(lost), counted, row_counts_text(read, written, {}), f"written to {report.destination}")
    return JobResult(report, report.as_json(), lines)


def restore_log(
    sources: Paths,
    to: Path,
    *,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
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
    """Make a log directory that a real broker opens, of segments or of Parquet files.

    With indexes, checkpoints, topic ids and committed offsets, and (``bootstrap="kraft"``) what a new single node
    needs to know of its topics. ``to`` must not exist; it appears complete. The sources are only read. A DataFrame goes
    through ``kafkaframes.spark.restore_log``.

    Args:
        sources: log directories, partitions or segments; or one Parquet file or directory.
        to: the new log directory.
        topics: topic names or patterns. Default: all topics except Kafka's own.
        partitions: partition numbers, in each of these topics. Default: all.
        topic_map: pairs (old, new): give a topic another name.
        topic_ids: pairs (topic, id): give a topic this id, instead of the source's or a new one.
        topic_configs: pairs (name or topic:name, value): a setting for all topics, or for one.
        keep_retention: keep the retention settings. Default: retention.ms is -1, so that the broker deletes
            nothing.
        offsets: keep the offsets, or number the records of each partition anew, without holes.
        start_offset: with ``offsets="reassign"``: the first offset.
        start: where to begin in each partition: an offset of the source or a time, which is
            looked up as ListOffsets does.
        end: where to end in each partition; the end itself is not restored.
        on_damage: at a damaged batch: stop, or leave it out and report it.
        open_transactions: leave open transactions open, or abort them with a marker at the log's end.
        leader_epoch: write this epoch into every batch of format 2. Use 0 for an existing cluster.
        segment_bytes: cut the log into segments of this size. Default: keep the segments.
        index_interval_bytes: bytes between two entries of the new indexes.
        groups: also copy the committed offsets of groups.
        offsets_partitions: partitions of __consumer_offsets. Default: as in the source.
        keep_commit_times: keep the times of commits. Default: the time of the restore, so that they do not
            expire at once.
        record_format: from Parquet.
        codec: from Parquet: the codec of the new batches.
        level: compression level. Default: Kafka's.
        batch_bytes: from Parquet: the size of a batch.
        bootstrap: write what a new single node needs to start (kraft), or only partitions, for an existing
            cluster (none).
        node_id: the node id of the new single node.
        cluster_id: the cluster id of the new single node. Default: a new one.
        release: the release of Kafka that the new single node runs.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: read what symbolic links in directories lead to; otherwise they are skipped.

    Returns:
        What was restored; it prints well and has ``to_dict()``.

    Raises:
        LogDirError: something is damaged, cannot be read or written, or exists; nothing is left behind.
        OptionError: there is nothing to restore, or a setting does not exist or fit.
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
    topics: tuple[str, ...] = (),
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
    """Copy topics batch by batch, from bootstrap servers or a log directory to bootstrap servers or a log directory.

    Run again, it goes on where the copy ends. A copy in one of our brokers or in a directory has the source's bytes and
    offsets; any other broker gives offsets of its own, and ``state_dir`` keeps which became which.

    >>> mirror_topics("old:9092", "/backup/orders", topics=("orders",))  # doctest: +SKIP
    old:9092 to /backup/orders: offsets kept

    Args:
        source, target: ``host:port`` (several with commas), or a directory.
        topics: topic names or patterns. Default: all topics except Kafka's own.
        groups: also copy the committed offsets of groups.
        follow: keep copying what arrives, new topics too, until Ctrl-C.
        dry_run: print what would be copied, and from which offset; write nothing.
        keep_retention: let the target delete records by the source's retention settings.
        offsets: keep the offsets, or let the target assign new ones. Default: keep, where the target can.
        on_damage: at a batch with a wrong CRC: stop, or omit it.
        unverified: resume even if source and copy hold no common offset that shows that the copy is of this
            source.
        compare: which common records to compare before resuming. Default: all between directories, else
            samples.
        state_dir: where to keep the mapping of offsets, if they change.
        source_properties: settings of the source's client, under Kafka's names.
        target_properties: settings of the target's client, under Kafka's names.
        timeout_s: how many seconds to wait until a broker of each cluster answers at first.
        group_interval_s: how often committed offsets are copied.
        topic_interval_s: how often new topics and partitions are looked for.

    Returns:
        What was copied, opened and left out; it prints well and has ``to_dict()``.

    Raises:
        BrokerError, NetworkError: an end refuses, or cannot be reached.
        LogDirError: a directory or the mapping cannot be used, or what was read and written does not add up.
        CorruptRecordError: a batch is damaged; ``on_damage="drop"`` omits it.
        OptionError: there is no such topic, or a setting does not exist or fit.
    """
    from kafkaframes.client.loop import run_alone
    from kafkaframes.jobs.mirror.job import mirror as run

    settings = MirrorSettings(
        topics=topics,
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
    return run_alone(run(os.fspath(source), os.fspath(target), settings))


# -------------------------------------------------------------------------------------------------------------- helpers


def _rewritten(source: Paths, to: Path, settings: RewriteSettings) -> JobResult[JobReport]:
    from kafkaframes.jobs.convert.job import convert

    report = convert(_source(source), LocalPath(to), settings, storage=settings.storage)
    lost = [f"lost: {number:,} {kind}" for kind, number in sorted(report.lost.items())]
    lines = (report.counted, *lost, f"written to {report.destination}")
    return JobResult(report, report.as_json(), lines)


def _selected(paths: Paths, settings: PartitionSettings) -> Any:
    from kafkaframes.storage.log.discover import discover, selected

    return selected(discover(paths_of(paths), options=settings.storage), settings.topics, settings.partitions)


def _source(paths: Paths) -> str | list[str]:
    named = paths_of(paths)
    return named[0] if len(named) == 1 else named


def _some(listed: Sequence[object]) -> list[str]:
    from kafkaframes.storage.files.names import printable

    shown = [printable(str(one)) for one in listed[:_MOST_LINES]]
    return shown + ([f"and {len(listed) - _MOST_LINES:,} more"] if len(listed) > _MOST_LINES else [])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
