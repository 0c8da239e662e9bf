"""Format the outcome of an export as text: totals, state of the table, damage and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from kafkaframes.cli.text import escape_unprintable, format_size, format_time, print_text
from kafkaframes.errors.words import count_text

if TYPE_CHECKING:
    from rich.table import Table

    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.export.tally import ExportSummary

PIPED_TABLE_WIDTH = 110


def print_problems(outcome: Outcome, *, failure: str) -> None:
    """Print damage, tasks that failed, and notes on standard error.

    Args:
        outcome: outcome of the export.
        failure: text with which the line about a failed task begins.
    """
    for line in outcome.problem_lines(failure=failure):
        print_text(f"kafkaframes: {line}", err=True)
    for line in outcome.notes:
        print_text(f"kafkaframes: {escape_unprintable(line)}", err=True)
    if outcome.notes.hidden_records:
        print_text("kafkaframes: --isolation read_uncommitted includes these records", err=True)


def build_tables(summary: ExportSummary) -> Iterable[Any]:
    """Yield tables of the topics, the codecs and the skipped data."""
    yield ""
    yield _build_topics_table(summary)
    yield _build_codecs_table(summary)
    yield _build_dropped_table(summary) if summary.dropped else "[bold]Left out[/]  nothing"
    if summary.internal_topics:
        names = _escape_text(", ".join(summary.internal_topics))
        yield f"[bold]Not read[/]  internal topics: {names} [dim](--internal-topics)[/]"
    yield ""


def _escape_text(text: str) -> str:
    """Escape text for the terminal and for rich markup."""
    return escape(escape_unprintable(text))


def _make_table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in ("topic", "codec", "what", "first", "last") else "right")
    return table


def _build_topics_table(summary: ExportSummary) -> Table:
    table = _make_table("Records", "topic", "partitions", "records", "bytes", "first", "last")
    for topic in summary.topics:
        table.add_row(
            f"[bold]{_escape_text(topic.topic)}[/]",
            f"{topic.partitions}",
            f"{topic.records:,}",
            format_size(topic.payload_bytes),
            format_time(topic.first_timestamp_ms),
            format_time(topic.last_timestamp_ms),
        )
    return table


def _build_codecs_table(summary: ExportSummary) -> Table:
    table = _make_table("Compression", "codec", "batches", "records", "in the log", "keys, values, headers", "ratio")
    for codec in summary.codecs:
        row = (
            f"{codec.batches:,}",
            f"{codec.records:,}",
            format_size(codec.log_bytes),
            format_size(codec.payload_bytes),
        )
        table.add_row(f"[bold]{codec.codec}[/]", *row, f"[bold]{codec.compression_ratio:.2f}[/]")
    return table


def _build_dropped_table(summary: ExportSummary) -> Table:
    table = _make_table("Left out", "what", "batches", "records", "in the log")
    for entry in summary.dropped:
        records = "?" if entry.records is None else f"{entry.records:,}"
        table.add_row(_escape_text(entry.reason), f"{entry.batches:,}", records, format_size(entry.log_bytes))
    return table


def summarize_table(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a summary of the table, line by line."""
    location = facts.get("version", facts.get("snapshot"))
    if location is not None:
        action = "version" if "version" in facts else "snapshot"
        commits = count_text(facts["commits"], "commit") if facts["commits"] else "nothing new"
        yield f"{facts['format']} table {facts['location']}, {action} {location}; {commits}"
    if "metadata" in facts:
        yield f"metadata: {facts['metadata']}"
    for gap in facts["gaps"]:
        yield f"lost before the export: offsets {gap['first']} to {gap['end'] - 1} of {gap['topic']}-{gap['partition']}"
    if facts["removed_orphans"]:
        yield f"removed: {count_text(len(facts['removed_orphans']), 'file')} of killed runs"
    for path in facts["doubtful_files"]:
        yield f"it is unknown whether a commit refers to this file of a killed run: {path}"
