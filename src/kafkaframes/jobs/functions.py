"""The commands as functions: verify, info, report, export, convert, recompress, compact, repair, restore and mirror.

Each does its work in this process (the commands of the same names use several, or Spark) and returns a ``JobResult``,
which prints well and has ``to_dict()``. Sources are only read; a destination appears as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from itertools import starmap
from pathlib import Path as LocalPath
from typing import TYPE_CHECKING, Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.settings import ExportSettings
from kafkaframes.jobs.job import JobResult, paths_of
from kafkaframes.jobs.mirror.settings import MirrorSettings
from kafkaframes.jobs.report.words import count_text
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.jobs.settings import (
    CompactSettings,
    DescribeSettings,
    Path,
    RepairSettings,
    ReportSettings,
    RewriteSettings,
    SelectionSettings,
    VerifySettings,
    taking,
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

Paths = Path | Sequence[Path]
_MOST_LINES = 20  # of one kind are in a result's text


@taking(VerifySettings)
def verify_log(paths: Paths, settings: VerifySettings) -> JobResult[VerifyReport]:
    """Check every CRC, offset, index and checkpoint of logs; nothing is changed.

    >>> verify_log("/backup/kafka-logs", deep=True)  # doctest: +SKIP
    sound: 12 partitions, 40 segments, 5,120 batches; nothing found

    Args:
        paths: log directories, partitions, segments, patterns, tiered stores, or URLs of such.
        settings: as keywords; see below.

    Returns:
        ``report.is_sound``, ``report.findings`` and counts. Damage raises nothing.

    Raises:
        LogDirError: a path does not exist, or holds no log.
        OptionError: there is no such topic.
    """
    from kafkaframes.jobs.verify.verify import verify

    report = verify(_selected(paths, settings), deep=settings.deep)
    amounts = ((report.partitions, "partition"), (report.segments, "segment"), (report.batches, "batch", "batches"))
    counted = ", ".join(starmap(count_text, amounts))
    said = f"{len(report.findings):,} findings" if report.findings else "nothing found"
    verdict = report.verdict if report.is_sound else "damaged or unreadable"
    return JobResult(report, report.as_json(), (*_some(report.findings), f"{verdict}: {counted}; {said}"))


@taking(DescribeSettings)
def describe_log(paths: Paths, settings: DescribeSettings) -> JobResult[list[PartitionSummary]]:
    """Say what is in logs: topics, partitions, offsets, sizes, codecs, formats, times.

    >>> describe_log("/backup/kafka-logs").to_dict()["partitions"][0]["log_end_offset"]  # doctest: +SKIP
    5120

    Args:
        paths: as for ``verify_log``.
        settings: as keywords; see below. Without ``deep`` the first and the last batch of each segment are read.

    Returns:
        A summary of each partition, copies apart.

    Raises:
        LogDirError, OptionError: as ``verify_log``.
    """
    from kafkaframes.jobs.dump import summary

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


@taking(ReportSettings)
def report_log(paths: Paths, settings: ReportSettings) -> JobResult[Report]:
    """Report what logs hold and what is wrong with them: sizes, times, producers, keys, copies, damage.

    >>> report_log("/backup/kafka-logs", to="report.html")  # doctest: +SKIP

    Args:
        paths: as for ``verify_log``.
        settings: as keywords; see below.

    Raises:
        LogDirError, OptionError: as ``verify_log``; or ``to`` lies in a source, or cannot be written.
    """
    from kafkaframes._version import __version__
    from kafkaframes.jobs.report.page import report_page
    from kafkaframes.jobs.report.survey import make_report
    from kafkaframes.storage.files.atomic import named_file, refuse_inside

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


@taking(ExportSettings)
def export_log(paths: Paths, to: Path, settings: ExportSettings) -> JobResult[Outcome]:
    """Export the records of Kafka logs to files, one for each segment; goes on where an earlier one was stopped.

    >>> export_log("/backup/kafka-logs", "out", topics=["orders"])  # doctest: +SKIP
    80,000 records read, 80,000 written to out, in 12 segments

    Args:
        paths: as for ``verify_log``.
        to: a local directory that is new, empty, or an earlier export.
        settings: as keywords; see below.

    Raises:
        LogDirError: a path does not exist or cannot be read.
        OptionError: ``to`` is something else or lies in a source, or an option does not fit.
    """
    from kafkaframes.jobs.export.planning import plan_export
    from kafkaframes.jobs.export.run import export
    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.storage.files.atomic import refuse_inside

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


@taking(RewriteSettings)
def convert_log(source: Paths, to: Path, settings: RewriteSettings) -> JobResult[JobReport]:
    """Write a log in another record format: offsets, order, timestamps, keys and values stay.

    >>> convert_log("/backup/kafka-logs", "/backup/v2", record_format=2)  # doctest: +SKIP
    80,000 records read, 80,000 written
    written to /backup/v2

    Args:
        source: a log directory, a partition or a segment; several are one log, copies are merged.
        to: the new directory; it does not exist, and appears complete.
        settings: as keywords; see below.

    Raises:
        LogDirError: something is damaged, cannot be read or written, or exists; nothing is left behind.
        EncodeError: something cannot be said in that format.
        OptionError: ``to`` lies in ``source``, or an option is missing or does not fit.
    """
    if settings.record_format is None:
        raise OptionError("`record_format` is missing: 0, 1 or 2")
    return _rewritten(source, to, settings)


@taking(RewriteSettings)
def recompress_log(source: Paths, to: Path, settings: RewriteSettings) -> JobResult[JobReport]:
    """Compress a log anew; each batch keeps its format, its header and its records.

    Args:
        source, to: as for ``convert_log``.
        settings: as keywords, those of ``convert_log``; zstd needs format 2.

    Raises:
        LogDirError, EncodeError, OptionError: as ``convert_log``.
    """
    if settings.codec is None:
        raise OptionError("`codec` is missing: none, gzip, snappy, lz4 or zstd")
    return _rewritten(source, to, settings)


@taking(CompactSettings)
def compact_log(source: Paths, to: Path | None = None, *, settings: CompactSettings) -> JobResult[CompactionReport]:
    """Compact topics as a broker's cleaner does: keep the last record of each key.

    Args:
        source: a log directory or a partition; several are one log, copies are merged.
        to: the new directory; without it nothing is written, and the result says what would go.
        settings: as keywords; see below. Without ``topics``, those that brokers have compacted.

    Raises:
        LogDirError: something is damaged, cannot be read or written, or exists; nothing is left behind.
        OptionError: there is nothing to compact, or an option does not fit.
    """
    from kafkaframes.jobs.compact.compaction import compact

    target, cleaner = None if to is None else LocalPath(to), settings.cleaner(_now_ms())
    report = compact(_source(source), target, cleaner, topics=settings.topics, storage=settings.storage)
    written = f"written to {report.destination}" if report.destination else "nothing was written"
    return JobResult(report, report.as_json(), (report.counted, written))


@taking(RepairSettings)
def repair_log(source: Path, to: Path | None = None, *, settings: RepairSettings) -> JobResult[RepairReport]:
    """Keep every good batch of a damaged log directory, and say what was lost.

    Args:
        source: one log directory of this machine.
        to: the new directory; without it nothing is written, and the result says what would be done.
        settings: as keywords; see below.

    Raises:
        LogDirError: a broker has the source open; something cannot be read or written, or exists.
        OptionError: the source is not one log directory, or ``to`` lies in it.
    """
    from kafkaframes.jobs.job import row_counts_text
    from kafkaframes.jobs.repair.repair import repair_directory
    from kafkaframes.storage.recovery.recover import RecoverySettings

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


@taking(RestoreSettings)
def restore_log(sources: Paths, to: Path, settings: RestoreSettings) -> RestoreReport:
    """Make a log directory that a real broker opens, of segments or of Parquet files.

    With indexes, checkpoints, topic ids and committed offsets, and (``bootstrap="kraft"``) what a new single node
    needs to know of its topics. ``to`` must not exist; it appears complete. The sources are only read. A DataFrame goes
    through ``kafkaframes.spark.restore_log``.

    Args:
        sources: log directories, partitions or segments; or one Parquet file or directory.
        to: the new log directory.
        settings: as keywords; see below.

    Returns:
        What was restored; it prints well and has ``to_dict()``.

    Raises:
        LogDirError: something is damaged, cannot be read or written, or exists; nothing is left behind.
        OptionError: there is nothing to restore, or a setting does not exist or fit.
    """
    from kafkaframes.jobs.restore.job import restore

    return restore(sources, to, settings)


@taking(MirrorSettings)
def mirror_topics(source: Path, target: Path, settings: MirrorSettings) -> MirrorReport:
    """Copy topics batch by batch, from bootstrap servers or a log directory to bootstrap servers or a log directory.

    Run again, it goes on where the copy ends. A copy in one of our brokers or in a directory has the source's bytes and
    offsets; any other broker gives offsets of its own, and ``state_dir`` keeps which became which.

    >>> mirror_topics("old:9092", "/backup/orders", topics=("orders",))  # doctest: +SKIP
    old:9092 to /backup/orders: offsets kept

    Args:
        source, target: ``host:port`` (several with commas), or a directory.
        settings: as keywords; see below.

    Returns:
        What was copied, opened and left out; it prints well and has ``to_dict()``.

    Raises:
        BrokerError, NetworkError: an end refuses, or cannot be reached.
        LogDirError: a directory or the mapping cannot be used, or what was read and written does not add up.
        CorruptRecordError: a batch is damaged; ``skip_damaged=True`` leaves such out.
        OptionError: there is no such topic, or a setting does not exist or fit.
    """
    from kafkaframes.client.loop import run_alone
    from kafkaframes.jobs.mirror.job import mirror as run

    return run_alone(run(os.fspath(source), os.fspath(target), settings))


# -------------------------------------------------------------------------------------------------------------- helpers


def _rewritten(source: Paths, to: Path, settings: RewriteSettings) -> JobResult[JobReport]:
    from kafkaframes.jobs.convert.job import convert

    report = convert(_source(source), LocalPath(to), settings, storage=settings.storage)
    lost = [f"lost: {number:,} {kind}" for kind, number in sorted(report.lost.items())]
    lines = (report.counted, *lost, f"written to {report.destination}")
    return JobResult(report, report.as_json(), lines)


def _selected(paths: Paths, settings: SelectionSettings) -> Any:
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
