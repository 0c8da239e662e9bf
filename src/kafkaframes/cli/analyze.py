"""``kafkaframes analyze records`` and ``tag-header``: sizes of records and tag headers, now and in other layouts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkaframes.cli.options import (
    add_budget_option,
    add_log_settings,
    make_json_option,
    ports_option,
    specs_option,
    workers_option,
)
from kafkaframes.cli.text import print_table, print_text
from kafkaframes.cli.workers import exit_if_unread, run_traffic_tasks, spark_option, split_traffic_tasks
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.settings import PartitionSettings

if TYPE_CHECKING:
    from kafkaframes.jobs.analyze.records import RecordSizes
    from kafkaframes.jobs.analyze.scale import HeaderSize, MessageSize, TaggedField


@click.command("records")
@click.argument("sources", nargs=-1, required=True, metavar="INPUT...")
@ports_option
@specs_option
@make_json_option("Print one JSON object for each source: log, produced, fetched.")
@spark_option
@workers_option
@add_budget_option
@add_log_settings("sources", kind=PartitionSettings)
def print_record_sizes(
    sources: tuple[str, ...],
    settings: PartitionSettings,
    ports: str,
    specs: str | None,
    as_json: bool,
    on_spark: bool,
    jobs: int | None,
) -> None:
    """Print the bytes of each field of records in the record formats 0, 1 and 2.

    INPUT is a log, a partition directory, segments, or a capture. For a capture, produced and fetched records have
    separate tables. Records of all formats are measured without compression. Records of formats 0 and 1 are measured in
    format 2 as `convert` writes them. Formats 0 and 1 write each length in four bytes. Format 2 writes lengths as
    varints, and has one header per batch instead of fields in each message.

    Exit status: 0, or 1 if a part of a capture could not be read (see standard error).
    """
    from kafkaframes.jobs.analyze.measure import measure_records, split_logs_and_captures

    logs, captures = split_logs_and_captures(sources)
    if not captures and (ports or specs or on_spark):
        raise OptionError(f"{'--ports' if ports else '--specs' if specs else '--spark'} only applies to captures")
    tasks, share_bytes = split_traffic_tasks(tuple(captures), ports, jobs) if captures else ([], 0)
    run = partial(run_traffic_tasks, share_bytes=share_bytes, on_spark=on_spark, jobs=jobs)
    result = measure_records(logs, tasks, settings, specs=specs, run=run)
    if as_json:
        for row in result.rows():
            print_text(json.dumps(row))
    for part_name, sizes in result.sizes.items() if not as_json else ():
        if captures:
            print_text(f"Records {part_name}:" if part_name != "log" else "Records of logs:")
        _print_sizes(sizes)
    exit_if_unread(result.coverage)


def _print_sizes(sizes: RecordSizes) -> None:
    if sizes.records:
        rows = [_format_row(name, result, sizes.records) for name, result in sizes.sizes.items()]
        print_table(
            ["field", "format 0", "format 1", "format 2", "a record"],
            [*rows, _format_row("all", sizes.totals, sizes.records)],
        )
    print_text(_format_summary(sizes.totals, sizes.records, sizes.batches, sizes.left_out))


def _format_row(name: str, sizes: list[int], records: int) -> list[str]:
    """Return the cells of a field: its name, its total size in each format, and its sizes per record."""
    size_in_format = "/".join(f"{size / records:.1f}" for size in sizes)
    return [name, *(f"{size:,}" for size in sizes), size_in_format]


def _format_summary(totals: list[int], records: int, batches: int, left_out: int) -> str:
    """Return the line below the table: the number of records, and the bytes that format 2 saves."""
    if not records:
        return (
            f"no records can be measured; {count_text(left_out, 'batch', 'batches')} omitted (control batches, "
            "LogAppendTime, damage)"
        )
    saved_texts = [
        f"{100 * (older_format_bytes - totals[2]) / older_format_bytes:.1f} % compared to format {number}"
        for number, older_format_bytes in enumerate(totals[:2])
    ]
    return (
        f"{count_text(records, 'record')} in {count_text(batches, 'batch', 'batches')}: "
        f"format 2 saves {' and '.join(saved_texts)}, without compression; "
        f"{count_text(left_out, 'batch', 'batches')} omitted (control batches, LogAppendTime, damage)"
    )


@click.command("tag-header")
@click.option("--length", "lengths", type=int, multiple=True, help="Length of a value, in bytes; repeatable.")
@click.option("--tag", "tags", type=int, multiple=True, help="Number of a tag; repeatable.")
@click.option(
    "--message", "names", multiple=True, help="Message to measure; repeatable. Default: all messages of the catalog."
)
@click.option(
    "--text-bytes",
    type=click.IntRange(0, 2**20),
    help="Assumed length of strings and bytes; arrays have one element. Default: 10.",
)
@make_json_option("Print one JSON object per line.")
def print_tag_header_sizes(
    lengths: tuple[int, ...],
    tags: tuple[int, ...],
    names: tuple[str, ...],
    text_bytes: int | None,
    as_json: bool,
) -> None:
    """Compare the size of KIP-482's header of tagged fields, two varints, with the interleaved header of its draft.

    The first table shows the header for chosen lengths and tags, the second all tagged fields of the catalog at their
    newest versions, and the third whole messages. The third table also has the alternatives that KIP-482 rejects:
    escape bytes (an empty tag section takes no byte), and tagging all fields. For recorded traffic, use kafkaframes
    spec propose tag-header.
    """
    from kafkaframes.jobs.analysis_functions import analyze_tag_headers
    from kafkaframes.jobs.analyze import scale

    result = analyze_tag_headers(messages=names, lengths=lengths, tags=tags, text_bytes=text_bytes)
    if as_json:
        for row in result.rows():
            click.echo(json.dumps(row, default=bytes.hex))
        return
    _print_headers(result.headers, lengths or scale.EXAMPLE_LENGTHS, tags or scale.EXAMPLE_TAGS)
    _print_tagged_fields(result.fields)
    _print_messages(result.messages, is_each_printed=bool(names))


def _print_headers(headers: Sequence[HeaderSize], lengths: Sequence[int], tags: Sequence[int]) -> None:
    click.echo("Size of the header in bytes, interleaved/adopted (* the draft's header is smaller)\n")
    cells = iter(headers)
    rows = [[str(length), *(_format_size_pair(next(cells)) for _ in tags)] for length in lengths]
    print_table(["length", *(f"tag {tag}" for tag in tags)], rows)


def _format_size_pair(entry: HeaderSize) -> str:
    """Return a header's interleaved and adopted size as text."""
    return f"{entry.interleaved}/{entry.adopted}" + ("*" if entry.interleaved < entry.adopted else "")


def _print_tagged_fields(fields: Sequence[TaggedField]) -> None:
    click.echo("\nTagged fields of the newest versions\n")
    numbers = ["tag", "length", "interleaved", "adopted"]
    rows = [
        [
            tagged_field.message,
            str(tagged_field.version),
            tagged_field.path,
            tagged_field.type,
            *(str(getattr(tagged_field.header, name)) for name in numbers),
        ]
        for tagged_field in fields
    ]
    if rows:
        print_table(["message", "version", "field", "type", *numbers], rows)
    saved_counts = sum(tagged_field.header.adopted - tagged_field.header.interleaved for tagged_field in fields)
    smaller_count = sum(tagged_field.header.interleaved < tagged_field.header.adopted for tagged_field in fields)
    click.echo(
        f"{len(fields)} tagged fields: the draft's header is smaller for {smaller_count} of them, by "
        f"{count_text(saved_counts, 'byte')} in total"
    )


def _print_messages(sizes: Sequence[MessageSize], *, is_each_printed: bool) -> None:
    from kafkaframes.jobs.analyze.scale import TAG_HEADER_SCHEMES

    click.echo("\nSize of whole messages in bytes, with one element in each array\n")
    rows = [
        [
            f"{message_size.message} {message_size.version}",
            has_tags,
            *(str(by_scheme[scheme]) for scheme in TAG_HEADER_SCHEMES),
        ]
        for message_size in (sizes if is_each_printed else ())
        for has_tags, by_scheme in (("no", message_size.bare), ("yes", message_size.filled))
    ]
    for has_tags, result in (
        ("no", [message_size.bare for message_size in sizes]),
        ("yes", [message_size.filled for message_size in sizes]),
    ):
        totals = [sum(by_scheme[scheme] for by_scheme in result) for scheme in TAG_HEADER_SCHEMES]
        rows.append(
            [
                f"all {len(sizes)}",
                has_tags,
                *(f"{row_number} ({_format_percent(row_number, totals[0])})" for row_number in totals),
            ]
        )
    print_table(["messages", "tagged fields written", *TAG_HEADER_SCHEMES], rows)


def _format_percent(size: int, adopted_bytes: int) -> str:
    """Return how much a size differs from the size in the adopted layout, in percent.

    The result is "-" if the adopted layout has 0 bytes.
    """
    return f"{100 * (size - adopted_bytes) / adopted_bytes:+.1f} %" if adopted_bytes else "-"
