"""Functions for the commands ``analyze`` and ``spec propose``: sizes on the wire, now and in other layouts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as LocalPath
from typing import TYPE_CHECKING, Literal

from kafkaframes._version import __version__
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.job import JobResult, run_here
from kafkaframes.jobs.settings import PartitionSettings, Path, Paths
from kafkaframes.storage.files.paths import to_path_list

if TYPE_CHECKING:
    from kafkaframes.jobs.analyze.measure import ProposalSizes, RecordAnalysis, TagHeaderSizes
    from kafkaframes.jobs.analyze.records import RecordSizes
    from kafkaframes.protocol.messages.registry import Specs


def analyze_records(
    paths: Paths,
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    ports: str | Sequence[int] = "",
    specs: Specs | None = None,
    key_files: Sequence[str] = (),
    follow_links: bool = False,
) -> JobResult[RecordAnalysis]:
    """Measure the size of records in formats 0, 1 and 2, field by field, without compression.

    >>> analyze_records("/backup/kafka-logs")  # doctest: +SKIP
    log: 80,000 records; format 0: 12,345,678 bytes, format 1: 12,985,678 bytes, format 2: 10,112,233 bytes

    Args:
        paths: logs, partition directories, segments, or captures. Captures are measured as produced and fetched
            records.
        topics: names or patterns of the logs' topics. Default: all.
        partitions: partition numbers to read from each topic of the logs. Default: all.
        ports: ports of the brokers in captures: ``9092,9094-9096`` or numbers. Default: brokers are recognized.
        specs: message specs that override those of the catalog: a path, or ``MessageSpec`` objects.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.

    Returns:
        A result whose ``report`` has the sizes of each source, and the data of captures that was not read.

    Raises:
        LogDirError, OptionError: a path does not exist, or is a request log, which has no records.
        DecodeError: the only file is not a capture.
    """
    from kafkaframes.capture.coverage import summarize_entries
    from kafkaframes.capture.files import find_files
    from kafkaframes.capture.streams import parse_ports
    from kafkaframes.jobs.analyze.measure import measure_records, split_logs_and_captures
    from kafkaframes.jobs.analyze.traffic import TrafficTask

    settings = PartitionSettings(topics=topics, partitions=partitions, key_files=key_files, follow_links=follow_links)
    logs, captures = split_logs_and_captures(to_path_list(paths))
    tasks = [TrafficTask(tuple(find_files(captures)), ports=parse_ports(ports))] if captures else []
    report = measure_records(logs, tasks, settings, specs=specs, run=run_here)
    lines = [_format_record_sizes(name, sizes) for name, sizes in report.sizes.items()]
    if report.coverage.unread:
        lines.append(f"not read: {summarize_entries(report.coverage.unread)}")
    return JobResult(report, report.to_dict(), tuple(lines))


def analyze_tag_headers(
    *,
    messages: Sequence[str] = (),
    lengths: Sequence[int] = (),
    tags: Sequence[int] = (),
    text_bytes: int | None = None,
) -> TagHeaderSizes:
    """Measure the tag header of KIP-482 next to that of its draft, and whole messages in the rejected layouts.

    Args:
        messages: names of messages, which are measured at their newest version. Default: all messages in the catalog.
        lengths: lengths of values, in bytes, for the table of header sizes. Default: examples.
        tags: tag numbers for the table of header sizes. Default: examples.
        text_bytes: length of each string and bytes field in example messages, in bytes. Default: 10.

    Raises:
        SpecError: a message does not exist.
        OptionError: a message has no version with tagged fields.
    """
    from kafkaframes.jobs.analyze.measure import measure_tag_headers

    return measure_tag_headers(messages, lengths, tags, text_bytes)


def measure_proposal(
    proposal: Path,
    paths: Paths = (),
    *,
    before: Path | None = None,
    values: Sequence[str] = (),
    by: Sequence[Literal["client", "connection", "second"]] = (),
    mix: Path | None = None,
    ports: str | Sequence[int] = "",
    to: Path | None = None,
) -> JobResult[ProposalSizes]:
    """Compare the size of recorded messages before and after a change of message specs.

    >>> measure_proposal("kip-636", "trace.pcap")  # doctest: +SKIP
    changed: 106 messages; 12,345 bytes before, 12,001 after

    Args:
        proposal: the source of the specs after the change (a file, directory, jar, zip or ``REF:path``; messages that
            it lacks do not change), or a named proposal: kip-636, flexible, tag-header.
        paths: captures or request logs of brokers. Default: no files; the result then only has the spec changes and the
            mix.
        before: source of the specs before the change. Default: the catalog.
        values: values of new fields, ``PATH=VALUE`` (docs/proposals.md). New fields without a value have their default.
        by: additional attributes by which the sizes are grouped: ``client``, ``connection``, ``second``.
        mix: the mix of calls for which bytes per second are computed: a CSV file (api, version, calls_per_second), or
            recorded traffic.
        ports: ports of the brokers: ``9092,9094-9096`` or numbers. Default: brokers are recognized by their traffic.
        to: HTML page to write. Default: None, which writes no file.

    Returns: A result whose ``report`` has the changes to the specs, the measured sizes, and those scaled to the mix.

    Raises:
        OptionError: a path does not exist, or a value is invalid.
        SpecError: a spec is invalid.
        DecodeError: the only file is neither a capture nor a request log.
    """
    from kafkaframes.capture.files import find_files
    from kafkaframes.capture.streams import parse_ports
    from kafkaframes.jobs.analyze.measure import ProposalSizes, make_proposal_settings, scale_mix
    from kafkaframes.jobs.analyze.outcome import SizeComparison, merge_outcomes
    from kafkaframes.jobs.analyze.size_comparison import ComparisonTask, run_comparison_task
    from kafkaframes.jobs.analyze.traffic import TrafficTask
    from kafkaframes.jobs.report.proposal_page import build_json_rows, build_proposal_page
    from kafkaframes.storage.files.atomic import reject_nested_destination, write_output

    path_list, (name,) = [] if paths == () else to_path_list(paths), to_path_list(proposal)
    if to is not None:
        reject_nested_destination(LocalPath(to), path_list)
    settings = make_proposal_settings(name, None if before is None else to_path_list(before)[0], values, by)
    outcome, port_list = SizeComparison(), parse_ports(ports)
    if path_list:
        task = TrafficTask(tuple(find_files(path_list)), ports=port_list)
        outcome = merge_outcomes([run_comparison_task(ComparisonTask(task, settings))])
    scaled = [] if mix is None else scale_mix(to_path_list(mix)[0], outcome, settings, port_list)
    if to is not None:
        write_output(to, build_proposal_page(settings, outcome, scaled, paths=path_list, version=__version__))
    lines = [
        f"{kind}: {count_text(size_totals.messages, 'message')}; {count_text(size_totals.before, 'byte')} before, "
        f"{size_totals.after:,} after"
        for (kind,), size_totals in outcome.sum_totals_by("kind").items()
        if size_totals.messages
    ]
    rows = list(build_json_rows(settings, outcome, scaled))
    return JobResult(ProposalSizes(settings, outcome, scaled), {"rows": rows}, tuple(lines) or ("nothing measured",))


def _format_record_sizes(name: str, sizes: RecordSizes) -> str:
    """Return a line with the number of records and their size in each format."""
    formats = ", ".join(f"format {number}: {count_text(total, 'byte')}" for number, total in enumerate(sizes.totals))
    return f"{name}: {count_text(sizes.records, 'record')}; {formats}"
