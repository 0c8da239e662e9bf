"""``kafkaframes info LOGDIR...``: shows a summary of a log."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli import workers
from kafkaframes.cli.options import (
    add_click_options,
    add_log_settings,
    format_decisions,
    json_option,
    workers_option,
)
from kafkaframes.cli.text import escape_unprintable, format_size, format_time, make_console, print_styled, print_text
from kafkaframes.errors.words import count_text, limit_lines
from kafkaframes.jobs.dump import summary
from kafkaframes.jobs.dump.summary import PartitionSummary, SegmentSummary
from kafkaframes.jobs.settings import DescribeSettings
from kafkaframes.storage.copies.decisions import MERGED_ROOT, Decision
from kafkaframes.storage.files.directory import LogDirectory, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.log.discover import discover, has_copies, select_partitions
from kafkaframes.storage.log.swaps import swap_findings

if TYPE_CHECKING:
    from rich.console import Console

EXIT_UNREADABLE = 1  # exit status if a segment or directory could not be read
_LIST_ALL_REMEDY = "--json lists all"
MAX_PARTITION_ROWS = 60  # above this number, the table has one row per topic by default
_HEADINGS = ("topic", "partition", "segments", "size", "start", "end", "records", "codecs", "formats", "from", "to", "")
_COLUMNS_OMITTED_BELOW_WIDTH = (
    (115, {"formats", "from"}),
    (95, {"segments"}),
)  # columns to omit on terminals that are narrower than this width
_MIN_WIDTH_FOR_TIMES = 140  # narrower terminals show days instead of times
_RIGHT_ALIGNED_HEADINGS = {"partition", "segments", "size", "start", "end", "records"}


@dataclass(frozen=True, slots=True)
class _TableRow:
    """A row of the table: a partition, or all partitions of a topic."""

    topic: str
    partitions: Sequence[PartitionSummary]

    def format_cells(self, *, is_deep: bool, width: int) -> list[str]:
        first, last = summary.find_time_range(segment for entry in self.partitions for segment in entry.segments)
        single_partition = self.partitions[0] if len(self.partitions) == 1 else None
        records = sum(entry.sum_counts("records") for entry in self.partitions)
        length = len("2026-11-21") if width < _MIN_WIDTH_FOR_TIMES else None
        return [
            self.topic,
            str(single_partition.partition) if single_partition else f"{len(self.partitions)} of them",
            f"{sum(len(entry.segments) for entry in self.partitions):,}",
            format_size(sum(entry.size_bytes for entry in self.partitions)),
            f"{single_partition.log_start_offset:,}" if single_partition else "",
            f"{single_partition.log_end_offset:,}"
            if single_partition
            else f"{sum(map(_count_offsets, self.partitions)):,} in all",
            f"{records:,}" if is_deep else "",
            _format_names_by_count(entry.sum_by_name("codecs") for entry in self.partitions),
            _format_names_by_count(entry.sum_by_name("magics") for entry in self.partitions),
            _format_time(first)[:length],
            _format_time(last)[:length],
            ", ".join(dict.fromkeys(remark for entry in self.partitions for remark in _list_remarks(entry))),
        ]


def _count_offsets(entry: PartitionSummary) -> int:
    """Return the number of offsets between log start and log end."""
    return entry.log_end_offset - entry.log_start_offset


def _list_remarks(entry: PartitionSummary) -> list[str]:
    """Return remarks about a partition's state, invalid tails, left-over files and unreadable segments."""
    tail_bytes = sum(segment.tail_bytes for segment in entry.segments)
    unreadable_count = sum(bool(segment.problem) for segment in entry.segments)
    remarks = [entry.state] if entry.state else []
    remarks += [f"{format_size(tail_bytes)} after the last batch"] if tail_bytes else []
    remarks += [f"{entry.left_over_files} left-over files"] if entry.left_over_files else []
    return remarks + ([f"{count_text(unreadable_count, 'segment')} unreadable"] if unreadable_count else [])


def _format_time(timestamp_ms: int) -> str:
    """Return a time as text, or an empty text if the time is unknown."""
    return format_time(timestamp_ms) if timestamp_ms != -1 else ""


def _format_names_by_count(mixes: Iterable[Counter[str]]) -> str:
    """Return the names in the counters as text, most frequent first."""
    return " ".join(name for name, _ in sum(mixes, Counter[str]()).most_common())


def _summarize_segment(task: tuple[FileSystem, Segment], *, deep: bool) -> SegmentSummary:
    """Summarize a segment from all its batch headers (``deep``), or from the first and last only."""
    return (summary.summarize_all_headers if deep else summary.summarize_quickly)(*task)


def _summarize_partitions(
    directories: Sequence[LogDirectory], *, deep: bool, jobs: int | None
) -> list[tuple[LogDirectory, list[PartitionSummary]]]:
    tasks = summary.list_tasks(directories)
    size_of = partial(_count_bytes_to_read, deep=deep)
    result = workers.run_in_order(
        partial(_summarize_segment, deep=deep), tasks, size_of=size_of, workers=jobs, label="walking headers"
    )
    return [
        (
            directory,
            [
                summary.summarize_partition(summary_row, [next(result) for _ in summary_row.segments], is_deep=deep)
                for summary_row in directory.partitions
            ],
        )
        for directory in directories
    ]


def _count_bytes_to_read(task: tuple[FileSystem, Segment], *, deep: bool) -> int:
    """Return how many bytes of a segment are read: its size, or 0 (meaning few) without ``deep``."""
    return task[1].size_bytes if deep else 0


def _info_to_json(directory: LogDirectory, partitions: list[PartitionSummary]) -> dict[str, Any]:
    return {
        "path": directory.path,
        "cluster_id": directory.meta.cluster_id if directory.meta else None,
        "node_id": directory.meta.node_id if directory.meta else None,
        "clean_shutdown": directory.clean_shutdown is not None,
        "problems": [
            *(str(entry.as_finding()) for entry in directory.unreadable_partitions),
            *(str(problem) for problem in directory.problems),
        ],
        "left_out": [note for partition in directory.partitions for note in partition.notes],
        "notes": [finding.as_json() for entry in directory.partitions for finding in swap_findings(entry)],
        "partitions": [entry.as_json() for entry in partitions],
    }


def _build_rows(partitions: list[PartitionSummary], *, by: str | None) -> list[_TableRow]:
    """Return a table row for each partition, or for each topic if there are many partitions."""
    if by == "partition" or (by is None and len(partitions) <= MAX_PARTITION_ROWS):
        return [_TableRow(entry.topic, [entry]) for entry in partitions]
    topics: dict[str, list[PartitionSummary]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return [_TableRow(topic, topic_partitions) for topic, topic_partitions in topics.items()]


def _print_table(to: Console, directory: LogDirectory, partitions: list[PartitionSummary], by: str | None) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    is_deep = any(entry.is_deep for entry in partitions)
    rows = [(row.topic, row.format_cells(is_deep=is_deep, width=to.width)) for row in _build_rows(partitions, by=by)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    left_out = {name for width, columns in _COLUMNS_OMITTED_BELOW_WIDTH if to.width < width for name in columns}
    used_columns = [
        column
        for column, name in enumerate(_HEADINGS)
        if name not in left_out and any(cells[column] for _, cells in rows)
    ]
    for column in used_columns:
        justify: Any = "right" if _HEADINGS[column] in _RIGHT_ALIGNED_HEADINGS else "left"
        table.add_column(_HEADINGS[column], justify=justify, no_wrap=column < 8, style="bold" if column == 0 else "")
    for topic, cells in rows:
        style = "dim" if topic.startswith("__") else ""
        table.add_row(*(Text(escape_unprintable(cells[column])) for column in used_columns), style=style)
    print_styled(to, _format_heading(directory), style="bold cyan")
    to.print(table)
    print_styled(to, _format_totals(partitions, is_deep=is_deep))
    unread = [segment.problem for entry in partitions for segment in entry.segments if segment.problem]
    for line in limit_lines(unread, remedy=_LIST_ALL_REMEDY):
        print_styled(to, f"! not read: {line}", style="yellow")
    for problem in directory.problems:
        print_styled(to, f"! {problem}", style="yellow")
    for finding in (finding for entry in directory.partitions for finding in swap_findings(entry)):
        print_styled(to, f"! {finding}", style="yellow")
    for note in (note for partition in directory.partitions for note in partition.notes):
        print_styled(to, f"left out: {note}", style="dim")
    to.print()


def _format_heading(directory: LogDirectory) -> str:
    """Return a log directory's path, node id, cluster id and shutdown state as text."""
    meta = directory.meta
    parts = [directory.path]
    if meta is not None:
        parts += [f"node {meta.node_id}"] if meta.node_id is not None else []
        parts += [f"cluster {meta.cluster_id}"] if meta.cluster_id else []
        parts.append("stopped cleanly" if directory.clean_shutdown is not None else "not shut down cleanly, or running")
    return " · ".join(parts)


def _format_totals(partitions: list[PartitionSummary], *, is_deep: bool) -> str:
    """Return a line with the numbers of topics, partitions and segments, their size, and how the values were read."""
    live_partitions = [partition for partition in partitions if not partition.state]
    segments = sum(len(partition.segments) for partition in partitions)
    size = format_size(sum(partition.size_bytes for partition in partitions))
    topics = len({partition.topic for partition in live_partitions})
    amounts = ((topics, "topic"), (len(live_partitions), "partition"), (segments, "segment"))
    counts = ", ".join([*starmap(count_text, amounts), size])
    method_text = (
        "values are from all batch headers"
        if is_deep
        else "values are from the first and last batch of each segment (--deep reads all batch headers)"
    )
    return f"{counts}; times are UTC; {method_text}"


@click.command("info")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option(
    "--by",
    type=click.Choice(["topic", "partition"]),
    help="Print a line per topic or per partition. Default: partition, or topic if there are many partitions.",
)
@add_click_options(workers_option, json_option)
@add_log_settings("paths", kind=DescribeSettings)
def command(
    paths: tuple[str, ...],
    as_json: bool,
    by: str | None,
    jobs: int | None,
    settings: DescribeSettings,
) -> None:
    """Show the topics, partitions, offsets, sizes, codecs, formats and times of logs.

    LOGDIR is a broker's log directory, a directory of them, a partition, a segment, a store of tiered segments, a
    pattern, or a URL of one of these. If a partition has several copies (brokers or disks), they are merged and shown
    as one log, with the decisions.

    Exit status: 0, or 1 if a segment or a partition cannot be read.
    """
    all_directories = discover(paths, options=settings.storage, omit_unreadable=True)
    directories = select_partitions(all_directories, settings.topic_names, settings.partition_numbers)
    decisions = list[Decision]()
    unreadable_partitions = [one for directory in directories for one in directory.unreadable_partitions]
    if settings.replicas == "merge" and has_copies(directories, paths):
        from kafkaframes.storage.copies.one_log import merge_directories

        log, reason = merge_directories(directories, paths, check=False, options=settings.storage)
        directories, decisions = log.directories, log.decisions
        if reason is not None:
            print_text(f"kafkaframes: not merged: {reason}", err=True)
    result = _summarize_partitions(directories, deep=settings.deep, jobs=jobs)
    is_unread = any(segment.problem for _, summaries in result for one in summaries for segment in one.segments)
    if as_json:
        for directory, summaries in result:
            extra = {"decisions": [one.as_json() for one in decisions]} if directory.path == MERGED_ROOT else {}
            click.echo(json.dumps(_info_to_json(directory, summaries) | extra))
    else:
        out = make_console()
        for directory, summaries in result:
            _print_table(out, directory, summaries, by)
        for line in format_decisions(decisions):
            print_styled(out, f"! {line}", style="yellow")
    for line in limit_lines((entry.as_finding() for entry in unreadable_partitions), remedy=_LIST_ALL_REMEDY):
        print_text(f"kafkaframes: {line}", err=True)
    if is_unread or unreadable_partitions:
        sys.exit(EXIT_UNREADABLE)
