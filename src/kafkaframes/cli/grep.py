"""``kafkaframes grep PATTERN LOG...``: prints the records whose key, value or headers match a pattern."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.options import (
    add_budget_option,
    add_click_options,
    add_log_settings,
    json_option,
    range_options,
    reading_options,
    replicas_option,
    selection_options,
)
from kafkaframes.cli.text import encode_base64, escape_unprintable, format_time, print_text
from kafkaframes.errors import NO_SUCH_PATH_TEXT, OptionError
from kafkaframes.jobs.dump.names import HEADERS, KEY, SEARCHED_FIELDS, VALUE
from kafkaframes.jobs.settings import SourceSettings
from kafkaframes.storage.files.filesystem import has_wildcard

if TYPE_CHECKING:
    import pyarrow as pa


EXIT_NOTHING, EXIT_DAMAGED = 1, 2
# Names of the flags that are passed to ``grep_log`` as arguments of the same name.
_GREP_LOG_ARGUMENTS = (
    *("topics", "partitions", "start", "end", "isolation", "control_records", "on_damage", "replicas"),
    *("fields", "max_count", "follow"),
)


@click.command("grep")
@click.argument("pattern")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option(
    "-F", "--fixed-strings", "is_plain", is_flag=True, help="PATTERN is plain text, not a regular expression."
)
@click.option("-i", "--ignore-case", "ignores_case", is_flag=True, help="Ignore case.")
@click.option(
    "--in",
    "fields",
    type=click.Choice(SEARCHED_FIELDS),
    multiple=True,
    help="Part of the record to search. Default: all parts.",
)
@click.option("--count", "counts", is_flag=True, help="Only print the number of matching records.")
@click.option("-m", "--max-count", "max_count", type=click.IntRange(1), help="Maximum number of records to print.")
@click.option("--follow", is_flag=True, help="Wait for appended records, until Ctrl-C.")
@add_click_options(*selection_options, *range_options, *reading_options, json_option, replicas_option)
@add_budget_option
@add_log_settings("paths", kind=SourceSettings)
def command(pattern: str, paths: tuple[str, ...], is_plain: bool, ignores_case: bool, **flags: Any) -> None:
    """Print the records whose key, value or headers match PATTERN.

    PATTERN is a regular expression (RE2 syntax), or plain text with -F. LOGDIR is a log directory, a partition, a
    segment, a pattern, a tiered store, or a URL of one of these. Each record is printed as a line:
    topic-partition@offset, time, key and value; or with --json as an object with key and value in base64.

    Exit status: 0 found; 1 not found; 2 invalid arguments, or the log is damaged (see standard error).

    \b
    kafkaframes grep order-17 /backup/kafka-logs --topic orders
    kafkaframes grep -F '"failed"' /var/lib/kafka/data --in value --follow
    """
    from kafkaframes.jobs.inspection_functions import grep_log

    _check_argument_order(pattern, paths)
    settings = flags["settings"]
    batches = grep_log(
        paths,
        pattern,
        fixed_strings=is_plain,
        ignore_case=ignores_case,
        key_files=settings.key_files,
        follow_links=settings.follow_links,
        **{name: flags[name] for name in _GREP_LOG_ARGUMENTS},
    )
    count = 0
    errors = 0
    for rows in batches:
        count += rows.num_rows
        if rows.num_rows and not flags["counts"]:
            _print_rows(rows, as_json=flags["as_json"], path_of_unnamed=paths[0] if len(paths) == 1 else "")
        if flags["follow"]:
            errors = _print_errors(batches.errors, errors)
            sys.stdout.flush()
    if flags["counts"]:
        click.echo(json.dumps({"records": count}) if flags["as_json"] else f"{count}")
    _print_errors(batches.errors, errors)
    for note in batches.notes:
        print_text(f"kafkaframes: {note}", err=True)
    if batches.errors or not count:
        sys.exit(EXIT_DAMAGED if batches.errors else EXIT_NOTHING)


def _check_argument_order(pattern: str, paths: Sequence[str]) -> None:
    """Raise an error with the order of the arguments if the first one is an existing path and the second is not."""
    first = paths[0]
    if os.path.exists(pattern) and not (os.path.exists(first) or has_wildcard(first) or "://" in first):
        raise OptionError(
            f"{NO_SUCH_PATH_TEXT} (at {first}); the first argument is PATTERN, and {pattern} is an existing path; "
            f"expected PATTERN LOGDIR..., such as kafkaframes grep {shlex.quote(first)} {shlex.quote(pattern)}"
        )


def _print_errors(errors: Sequence[Any], first: int) -> int:
    """Print the errors from number ``first`` on, and return their number."""
    for error in errors[first:]:
        print_text(f"kafkaframes: {error.as_exception()}", err=True)
    return len(errors)


def _print_rows(rows: pa.RecordBatch, *, as_json: bool, path_of_unnamed: str) -> None:
    """Print a line for each row. A segment outside a partition directory has no topic: its path is printed instead."""
    import pyarrow as pa

    stamps = rows.column("timestamp").view(pa.int64()).to_pylist()
    names = ("topic", "partition", "offset", KEY, VALUE, HEADERS)
    for timestamp, *row in zip(stamps, *(rows.column(name).to_pylist() for name in names), strict=True):
        topic, partition, offset, key, value, headers = row
        if as_json:
            click.echo(json.dumps(_record_to_json(topic, partition, offset, timestamp, key, value, headers or [])))
            continue
        name = escape_unprintable(path_of_unnamed) if topic is None else f"{topic}-{partition}"
        click.echo(f"{name}@{offset} {format_time(timestamp)} {_format_bytes(key)} {_format_bytes(value)}")


def _format_bytes(raw: bytes | None) -> str:
    """Return bytes as printable text, "(null)" for null."""
    return "(null)" if raw is None else escape_unprintable(raw.decode("utf-8", "backslashreplace"))


def _record_to_json(
    topic: str, partition: int, offset: int, stamp: int, key: bytes | None, value: bytes | None, headers: list[Any]
) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp_ms": stamp if stamp != -1 else None,
        "key": encode_base64(key),
        "value": encode_base64(value),
        "headers": [{"key": header["key"], "value": encode_base64(header["value"])} for header in headers],
    }
