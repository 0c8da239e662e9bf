"""``kafkaframes convert``, ``recompress``, ``compact``: rewrite a log in another format or codec, or compact it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli import workers
from kafkaframes.cli.options import (
    Command,
    add_budget_option,
    add_click_options,
    add_log_settings,
    json_option,
    master_option,
    workers_option,
)
from kafkaframes.cli.text import escape_unprintable, format_size, print_table, print_text
from kafkaframes.errors import OptionError
from kafkaframes.jobs.settings import (
    CompactSettings,
    ConvertSettings,
    RecompressSettings,
    RewriteSettings,
    SourceSettings,
    find_allowed_values,
)

if TYPE_CHECKING:
    from kafkaframes.jobs.compact.compaction import CompactedPartition, CompactionReport
    from kafkaframes.jobs.compact.key_search import KeySearchResult
    from kafkaframes.jobs.compact.staged_compaction import SplitSettings
    from kafkaframes.jobs.convert.job import JobReport
    from kafkaframes.jobs.convert.segment import ConvertedPartition


to_option = click.option(
    "--to", metavar="DIR", help="The new directory. It must not exist; it is created when all its files are complete."
)
in_place_options = add_click_options(
    click.option(
        "--in-place", is_flag=True, help="Replace the log directory of a stopped broker with the new directory."
    ),
    click.option("--backup", metavar="DIR", help="Path to move the old directory to, with --in-place."),
)


def add_run_options(
    kind: type[SourceSettings], *leave_out: str, complete: Callable[[dict[str, Any]], None] = lambda flags: None
) -> Callable[[Command], Command]:
    """Add the flags of a job's settings, and the flags that select local processes or Spark."""
    shared_options = (json_option, workers_option, master_option, add_budget_option)
    return add_click_options(
        *shared_options, add_log_settings("sources", kind=kind, leave_out=leave_out, complete=complete)
    )


def choose_work_split(master: str | None, jobs: int | None) -> SplitSettings:
    """Return how to split large partitions between the workers of ``open_runner``."""
    from kafkaframes.jobs.compact.staged_compaction import SplitSettings
    from kafkaframes.spark.runtime import jobs as spark_jobs
    from kafkaframes.spark.sessions.builder import session

    if master is None:
        return SplitSettings(secret=spark_jobs.create_secret(), workers=jobs or os.cpu_count() or 1)
    return spark_jobs.create_split_settings(session())


@contextmanager
def open_scratch_directory(parent: str | None, master: str | None) -> Iterator[Path | None]:
    """Yield a directory for temporary files, in ``parent`` or in this machine's directory for temporary files.

    Yield None with Spark, because workers on other machines would not see the directory.
    """
    from kafkaframes.spark.sessions.builder import is_local

    if parent is None and master is not None and not is_local(master):
        yield None
        return
    try:
        directory = tempfile.TemporaryDirectory(prefix="kafkaframes-", dir=parent)
    except OSError as error:
        raise OptionError(f"--scratch {parent}: {error.strerror}") from None
    with directory as path:
        yield Path(path)


def choose_source(sources: tuple[str, ...]) -> str | tuple[str, ...]:
    """Return the source of a job: one path, or several paths of one log."""
    return sources[0] if len(sources) == 1 else sources


def run_conversion(
    sources: tuple[str, ...],
    settings: RewriteSettings,
    *,
    to: str | None,
    in_place: bool,
    backup: str | None,
    jobs: int | None,
    master: str | None,
    as_json: bool,
) -> None:
    """Run a conversion and print its result."""
    from kafkaframes.jobs.convert.job import convert, convert_in_place

    if in_place != (backup is not None) or in_place == (to is not None):
        raise OptionError("specify --to DIR, or --in-place --backup DIR")
    with workers.open_runner(master, jobs, label="rewriting") as run:
        if backup is not None:
            if len(sources) > 1:
                raise OptionError("--in-place rewrites a single directory; specify only one SRC")
            report = convert_in_place(sources[0], backup, settings, run=run)
        else:
            report = convert(choose_source(sources), Path(str(to)), settings, run=run, storage=settings.storage)
    if as_json:
        click.echo(json.dumps(report.as_json()))
    else:
        _print_conversion(report, warn=settings.on_loss == "warn")


def _print_conversion(report: JobReport, *, warn: bool) -> None:
    rows = [
        (
            summary.name,
            f"{summary.segments:,}",
            f"{summary.records:,}",
            f"{summary.batches_read:,}",
            f"{summary.batches_written:,}",
            format_size(summary.bytes_read),
            format_size(summary.bytes_written),
        )
        for summary in report.partitions
    ]
    print_table(("name", "segments", "records", "batches", "become", "size", "becomes"), rows)
    _print_notes(report.partitions)
    print_text(report.counted)
    for kind, number in sorted(report.lost.items()):
        print_text(f"{'warning: ' if warn else ''}lost: {number:,} {kind}", err=warn)
    for partition in report.partitions:
        for file, position, reason in partition.damaged:
            print_text(f"copied unchanged: {file}, byte {position}: {reason}", err=True)
    print_text(report.ending)


def _parse_target_values(flags: dict[str, Any]) -> None:
    """Read the values of ``--to``: one directory, and a record format if ``--record-format`` is not given."""
    directories = list(flags.pop("directories"))
    formats = find_allowed_values(
        ConvertSettings, next(value for value in fields(ConvertSettings) if value.name == "record_format")
    )
    if flags["record_format"] is None:
        flags["record_format"] = next((number for number in formats if f"v{number}" in directories), None)
        directories = [value for value in directories if value != f"v{flags['record_format']}"]
    if len(directories) > 1:
        raise OptionError(f"specify --to DIR once, not {', '.join(directories)}")
    flags["to"] = directories[0] if directories else None


@click.command("convert")
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.option(
    "--to",
    "directories",
    multiple=True,
    metavar="DIR",
    help="The new directory. It must not exist; it is created when all its files are complete. `--to v2` also sets "
    "the record format.",
)
@in_place_options
@add_run_options(ConvertSettings, "index_interval_bytes", complete=_parse_target_values)
def command(sources: tuple[str, ...], settings: ConvertSettings, **options: Any) -> None:
    """Write a log in another record format, with the same offsets, order, timestamps, keys and values.

    SRC is a log directory, a topic partition's directory or a segment. Several SRC are read as one log, with copies
    merged. Kafka 4 reads formats v0 and v1 as before (it only stopped writing them), so upgrades do not require this.

    Example: kafkaframes convert /backup/kafka-logs --record-format v2 --to /backup/kafka-logs-v2
    """
    run_conversion(sources, settings, **options)


@click.command("recompress")
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@to_option
@in_place_options
@add_run_options(RecompressSettings, "index_interval_bytes")
def recompress_command(sources: tuple[str, ...], settings: RecompressSettings, **options: Any) -> None:
    """Compress a log with another codec or level. Each batch keeps its format, its header and its records.

    SRC is a log directory, a topic partition's directory or a segment. Several SRC are read as one log, with copies
    merged. zstd requires format v2 (see convert).

    Example: kafkaframes recompress /backup/kafka-logs --codec zstd --level 9 --to /backup/smaller
    """
    run_conversion(sources, settings, **options)


EXIT_KEY_FOUND = 1  # exit status if a key of --prove-gone is still in a file


@click.command("compact")
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@to_option
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and why; write nothing.")
@click.option("--scratch", metavar="DIR", help="Directory in which workers exchange files, with --dry-run.")
@click.option(
    "--prove-gone",
    metavar="KEY",
    help="Key to search for in every file, after the compaction or (without --to) instead of it.",
)
@add_run_options(CompactSettings)
def compact_command(
    sources: tuple[str, ...],
    to: str | None,
    dry_run: bool,
    scratch: str | None,
    prove_gone: str | None,
    as_json: bool,
    jobs: int | None,
    master: str | None,
    settings: CompactSettings,
) -> None:
    """Compact topics as a broker's cleaner does: keep the last record of each key.

    Without --topic, the topics in SRC's cleaner-offset-checkpoint and Kafka's compacted internal topics are compacted.
    The active (last) segment of a partition is never compacted. Several SRC are read as one log, with copies merged;
    --prove-gone reads them all. With only --prove-gone, SRC is searched and not compacted. KEY is text, or 0x and
    hexadecimal digits. Exit status: 1 if a record still has the key, or a part could not be read.

    Large partitions are divided by segments. Workers exchange files of about 18 bytes per record next to DIR, or with
    --dry-run in --scratch (default: the directory for temporary files). All workers must have access to this directory.

    Example: kafkaframes compact /backup/kafka-logs --topic users --to /backup/compacted --prove-gone user-17
    """
    from kafkaframes.jobs.compact import compaction, key_search
    from kafkaframes.storage.files.atomic import reject_nested_destination

    if (to is not None) == dry_run and not (prove_gone is not None and to is None and not dry_run):
        raise OptionError("specify --to DIR, --dry-run, or only --prove-gone KEY")
    if scratch is not None:
        reject_nested_destination(Path(scratch), sources)
    report, proof = None, None
    with workers.open_runner(master, jobs, label="compacting") as run:
        if to is not None or dry_run:
            with open_scratch_directory(scratch, master) if dry_run else nullcontext() as directory:
                report = compaction.compact(
                    choose_source(sources),
                    to,
                    settings.make_cleaner_settings(time.time_ns() // 1_000_000),
                    topics=settings.topics,
                    partitions=settings.partitions,
                    run=run,
                    work_split=choose_work_split(master, jobs),
                    scratch=directory,
                    storage=settings.storage,
                )
        if prove_gone is not None:
            proof = key_search.search_for_key(
                to or choose_source(sources), _parse_key(prove_gone), run=run, storage=settings.storage
            )
    _print_compaction_result(report, proof, as_json=as_json)
    if proof is not None and not proof.is_gone:
        sys.exit(EXIT_KEY_FOUND)


def _parse_key(text: str) -> bytes:
    """Return a key from text, or from hexadecimal digits after 0x."""
    if not text.startswith("0x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise OptionError(f"--prove-gone {text}: expected hexadecimal digits after 0x") from None


def _print_compaction_result(report: CompactionReport | None, proof: KeySearchResult | None, *, as_json: bool) -> None:
    if as_json:
        report_json = {} if report is None else report.as_json()
        click.echo(json.dumps(report_json | ({} if proof is None else {"proof": proof.to_dict()})))
        return
    if report is not None:
        _print_compaction(report)
    if proof is not None:
        for line in proof.lines:
            print_text(line)


def _print_notes(partitions: Sequence[ConvertedPartition | CompactedPartition]) -> None:
    """Print the notes of partitions on standard error."""
    for partition in partitions:
        for note in partition.notes:
            print_text(f"kafkaframes: {escape_unprintable(note)}", err=True)


def _print_compaction(report: CompactionReport) -> None:
    rows = []
    for partition in report.partitions:
        reason_text = "; ".join(f"{number:,} {reason}" for reason, number in sorted(partition.dropped.items()))
        if not partition.cleaned:
            reason_text = f"nothing to compact ({partition.reason})"
        span = f"{partition.first_dirty_offset:,} to {partition.end_offset:,}"
        cleaned_text = f"{partition.records_read - partition.records_kept:,} of {partition.records_read:,}"
        rows.append(
            (
                partition.name,
                span,
                cleaned_text,
                format_size(partition.bytes_read),
                format_size(partition.bytes_written),
                reason_text,
            )
        )
    removed_counts = "removed" if report.destination else "would go"
    print_table(("name", "dirty offsets", removed_counts, "size", "becomes", "why"), rows)
    _print_notes(report.partitions)
    print_text(report.counted)
    if report.destination:
        print_text(report.ending)
