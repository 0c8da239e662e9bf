"""``kafkaframes grep PATTERN LOG...``: prints the records whose key, value or headers match a pattern."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.options import (
    json_option,
    opens_batches,
    range_options,
    reading_options,
    reads,
    replicas_option,
    selection_options,
    with_options,
)
from kafkaframes.cli.text import base64_text, escape_unprintable, format_time, say
from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.names import HEADERS, KEY, SEARCHED_FIELDS, VALUE

if TYPE_CHECKING:
    import pyarrow as pa


EXIT_NOTHING, EXIT_DAMAGED = 1, 2
COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", KEY, VALUE, HEADERS)
POLL_SECONDS = 1.0


@click.command("grep")
@click.argument("pattern")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option(
    "-F", "--fixed-strings", "is_plain", is_flag=True, help="PATTERN is plain text, not a regular expression."
)
@click.option(
    "-i", "--ignore-case", "ignores_case", is_flag=True, help="Ignore the difference between small and capital letters."
)
@click.option(
    "--in", "fields", type=click.Choice(SEARCHED_FIELDS), multiple=True, help="Where to search. Default: everywhere."
)
@click.option("--count", "counts", is_flag=True, help="Print the number of matching records only.")
@click.option("-m", "--max-count", "most", type=click.IntRange(1), help="Stop after this many records.")
@click.option("--follow", is_flag=True, help="Wait for appended records, until Ctrl-C.")
@with_options(*selection_options, *range_options, *reading_options, json_option, replicas_option)
@opens_batches
@reads("paths")
def command(pattern: str, paths: tuple[str, ...], is_plain: bool, ignores_case: bool, **flags: Any) -> None:
    """Print the records whose key, value or headers match PATTERN.

    PATTERN is a regular expression (RE2's), or plain text with -F. LOGDIR is a log directory, a partition, a segment, a
    pattern, a tiered store, or a URL of such. Each record is a line: topic-partition@offset, its time, key and value;
    with --json an object, keys and values in base64.

    Exit status: 0 found; 1 not found; 2 refused, or the log is damaged (see standard error).

    \b
    kafkaframes grep order-17 /backup/kafka-logs --topic orders
    kafkaframes grep -F '"failed"' /var/lib/kafka/data --in value --follow
    """
    from kafkaframes.jobs.dump.chunks import Pattern, matching

    search_pattern = Pattern.of(pattern, is_plain=is_plain, ignores_case=ignores_case)
    fields = flags["fields"] or SEARCHED_FIELDS
    result = 0
    errors: list[Any] = []
    notes: list[Any] = []
    for batch in _batches(paths, flags, errors, notes):
        rows = matching(batch, search_pattern, fields)
        rows = rows if flags["most"] is None else rows.slice(0, flags["most"] - result)
        result += rows.num_rows
        if rows.num_rows and not flags["counts"]:
            _print(rows, as_json=flags["as_json"])
        if flags["most"] is not None and result >= flags["most"]:
            break
    if flags["counts"]:
        click.echo(json.dumps({"records": result}) if flags["as_json"] else f"{result}")
    for line in (*(error.as_exception() for error in errors), *notes):
        say(f"kafkaframes: {line}", err=True)
    if errors or not result:
        sys.exit(EXIT_DAMAGED if errors else EXIT_NOTHING)


def _batches(
    paths: Sequence[str], flags: dict[str, Any], errors: list[Any], notes: list[Any]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the requested topics, offsets and times. With ``--follow``, this never ends.

    Damage is appended to ``errors``, and all other notes to ``notes``.
    """
    from kafkaframes.scan.functions import scan_log

    if flags["follow"]:
        yield from _follow_files(paths, flags)
    scan = scan_log(
        paths,
        topics=flags["topics"],
        partitions=flags["partitions"],
        start=flags["start"],
        end=flags["end"],
        isolation=flags["isolation"],
        control_records=flags["control_records"],
        on_damage=flags["on_damage"],
        replicas=flags["replicas"],
        storage=flags["storage"],
    )
    batches = scan.select(*COLUMNS).to_batches()
    try:
        yield from batches
    finally:
        errors += batches.errors
        notes += batches.notes


def _follow_files(paths: Sequence[str], flags: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    from kafkaframes.scan.log.following import AppendedRowReader
    from kafkaframes.scan.ranges import EARLIEST, to_log_bound
    from kafkaframes.scan.where import create_row_filter

    if flags["end"] is not None:
        raise OptionError("--end cannot be combined with --follow, which does not end")
    for name, default in (("isolation", "read_uncommitted"), ("control_records", False), ("on_damage", "keep")):
        if flags[name] != default:
            flag = f"--{name.replace('_', '-')}"
            raise OptionError(f"{flag} cannot be combined with --follow, which reads all records as they are appended")
    follower = AppendedRowReader(
        paths,
        flags["topics"],
        columns=COLUMNS,
        row_filter=create_row_filter(partition=flags["partitions"] or None),
        start=to_log_bound("start", flags["start"], unset=EARLIEST),
        storage=flags["storage"],
    )
    while True:
        yield from follower.read_new_rows()
        for error in follower.errors:
            say(f"kafkaframes: {error.as_exception()}", err=True)
        follower.errors.clear()
        sys.stdout.flush()
        time.sleep(POLL_SECONDS)


def _print(rows: pa.RecordBatch, *, as_json: bool) -> None:
    import pyarrow as pa

    stamps = rows.column("timestamp").view(pa.int64()).to_pylist()
    names = ("topic", "partition", "offset", KEY, VALUE, HEADERS)
    for stamp, *row in zip(stamps, *(rows.column(name).to_pylist() for name in names), strict=True):
        topic, partition, offset, key, value, headers = row
        if as_json:
            click.echo(json.dumps(_object(topic, partition, offset, stamp, key, value, headers or [])))
            continue
        click.echo(f"{topic}-{partition}@{offset} {format_time(stamp)} {_text(key)} {_text(value)}")


def _text(raw: bytes | None) -> str:
    return "(null)" if raw is None else escape_unprintable(raw.decode("utf-8", "backslashreplace"))


def _object(
    topic: str, partition: int, offset: int, stamp: int, key: bytes | None, value: bytes | None, headers: list[Any]
) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp_ms": stamp if stamp != -1 else None,
        "key": base64_text(key),
        "value": base64_text(value),
        "headers": [{"key": one["key"], "value": base64_text(one["value"])} for one in headers],
    }
